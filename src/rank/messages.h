#pragma once
// Between api.proto and the engine's own types. What comes in is checked: nothing behind these
// functions sees a value out of range.
#include "base/result.h"
#include "kernels/sampling.h"
#include "placement/view.h"
#include "rank/api.pb.h"
#include "scheduler/scheduler.h"

namespace fasteep {

api::Error to_message(const Error& error);
Error to_error(const api::Error& message);

api::View to_message(const View& view);
Result<ViewPtr> to_view(const api::View& message);

void fill(const SequenceRequest& request, api::Submit& message);
// Errors: kInvalidInput for tokens outside [0, vocab_size) and limits that make no sense.
Result<SequenceRequest> to_sequence_request(const api::Submit& message, int vocab_size);

void fill(const SequenceUpdate& update, const Sample& sample, uint64_t logits_digest,
          api::Update& message);
// Errors: kInvalidInput for lists of different lengths and an unknown end.
Result<Sample> to_sample(const api::Update& message);

}  // namespace fasteep
