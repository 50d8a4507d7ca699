#include "rank/messages.h"

#include <cmath>

namespace fasteep {
namespace {

constexpr int kMaxLayers = 1 << 16;
constexpr uint32_t kLastCode = static_cast<uint32_t>(ErrorCode::kIo);

api::End to_message(SequenceEnd end) {
  switch (end) {
    case SequenceEnd::kNone:
      return api::END_NONE;
    case SequenceEnd::kStop:
      return api::END_STOP;
    case SequenceEnd::kLength:
      return api::END_LENGTH;
  }
  return api::END_NONE;
}

Result<ModelShape> to_shape(const api::View& message) {
  ModelShape shape;
  shape.num_experts = message.num_experts();
  for (const int32_t layer : message.moe_layers()) {
    if (layer < 0 || layer >= kMaxLayers) return invalid_input("MoE layer {} in a view", layer);
    shape.moe_layers.emplace_back(layer);
  }
  return shape;
}

Result<std::vector<Replica>> to_replicas(const api::Replicas& message) {
  if (message.ranks_size() != message.shares_size()) {
    return invalid_input("replicas with {} ranks and {} shares", message.ranks_size(),
                         message.shares_size());
  }
  std::vector<Replica> replicas;
  for (int i = 0; i < message.ranks_size(); ++i) {
    if (message.shares(i) > UINT16_MAX) return invalid_input("a share of {}", message.shares(i));
    replicas.push_back({RankId(message.ranks(i)), static_cast<uint16_t>(message.shares(i))});
  }
  return replicas;
}

bool is_fraction(float value) { return value >= 0 && value <= 1; }  // false for NaN

Result<SamplingParams> to_sampling(const api::Sampling& message) {
  const bool temperature_ok = std::isfinite(message.temperature()) && message.temperature() >= 0;
  if (!temperature_ok || !is_fraction(message.top_p()) || !is_fraction(message.min_p()) ||
      message.top_k() < 0 || message.num_logprobs() < -1) {
    return invalid_input("sampling parameters out of range: {}", message.ShortDebugString());
  }
  SamplingParams params;
  params.temperature = message.temperature();
  params.top_p = message.top_p();
  params.top_k = message.top_k();
  params.min_p = message.min_p();
  params.seed = message.seed();
  params.num_logprobs = message.num_logprobs();
  return params;
}

void fill(const SamplingParams& params, api::Sampling& message) {
  message.set_temperature(params.temperature);
  message.set_top_p(params.top_p);
  message.set_top_k(params.top_k);
  message.set_min_p(params.min_p);
  message.set_seed(params.seed);
  message.set_num_logprobs(params.num_logprobs);
}

Result<std::vector<TokenId>> to_tokens(const google::protobuf::RepeatedField<int32_t>& message,
                                       int vocab_size) {
  for (const int32_t token : message) {
    if (token < 0 || token >= vocab_size) {
      return invalid_input("token {} is outside the vocabulary of {}", token, vocab_size);
    }
  }
  return std::vector<TokenId>(message.begin(), message.end());
}

}  // namespace

api::Error to_message(const Error& error) {
  api::Error message;
  message.set_code(static_cast<uint32_t>(error.code()));
  message.set_message(error.message());
  return message;
}

// A code from a newer program is kUnavailable: give the request up.
Error to_error(const api::Error& message) {
  const auto code = message.code() <= kLastCode ? static_cast<ErrorCode>(message.code())
                                                : ErrorCode::kUnavailable;
  return Error(code, message.message());
}

api::View to_message(const View& view) {
  api::View message;
  message.set_epoch(view.epoch().value);
  for (const Member& member : view.members()) {
    api::Member* added = message.add_members();
    added->set_rank(member.rank.value);
    added->set_incarnation(member.incarnation.value);
  }
  message.set_num_experts(view.shape().num_experts);
  for (const LayerId layer : view.shape().moe_layers) {
    message.add_moe_layers(layer.value);
    for (int expert = 0; expert < view.shape().num_experts; ++expert) {
      api::Replicas* replicas = message.add_replicas();
      for (const Replica& replica : view.replicas(layer, ExpertId(expert))) {
        replicas->add_ranks(replica.rank.value);
        replicas->add_shares(replica.share);
      }
    }
  }
  return message;
}

Result<ViewPtr> to_view(const api::View& message) {
  FASTEEP_TRY(ModelShape shape, to_shape(message));
  std::vector<Member> members;
  for (const api::Member& member : message.members()) {
    members.push_back({RankId(member.rank()), Incarnation(member.incarnation())});
  }
  std::vector<std::vector<Replica>> table;
  for (const api::Replicas& replicas : message.replicas()) {
    FASTEEP_TRY(std::vector<Replica> row, to_replicas(replicas));
    table.push_back(std::move(row));
  }
  FASTEEP_TRY(View view, View::create(Epoch(message.epoch()), std::move(members), std::move(shape),
                                      std::move(table)));
  return ViewPtr(std::make_shared<const View>(std::move(view)));
}

void fill(const SequenceRequest& request, api::Submit& message) {
  message.set_id(request.id.value);
  message.mutable_prompt()->Assign(request.prompt.begin(), request.prompt.end());
  message.set_num_delivered(request.num_delivered);
  message.set_max_tokens(request.max_tokens);
  fill(request.sampling, *message.mutable_sampling());
  message.mutable_stop_token_ids()->Assign(request.stop_token_ids.begin(),
                                           request.stop_token_ids.end());
  message.set_logits_digest(request.logits_digest);
}

Result<SequenceRequest> to_sequence_request(const api::Submit& message, int vocab_size) {
  SequenceRequest request;
  request.id = RequestId(message.id());
  FASTEEP_TRY(request.prompt, to_tokens(message.prompt(), vocab_size));
  if (request.prompt.empty()) return invalid_input("request {} has no prompt", request.id);
  request.num_delivered = message.num_delivered();
  if (request.num_delivered < 0 ||
      request.num_delivered >= static_cast<int>(request.prompt.size())) {
    return invalid_input("request {}: {} of {} prompt tokens delivered", request.id,
                         request.num_delivered, request.prompt.size());
  }
  request.max_tokens = message.max_tokens();
  if (request.max_tokens <= request.num_delivered) {
    return invalid_input("request {}: max_tokens {} with {} delivered", request.id,
                         request.max_tokens, request.num_delivered);
  }
  FASTEEP_TRY(request.sampling, to_sampling(message.sampling()));
  request.stop_token_ids.assign(message.stop_token_ids().begin(), message.stop_token_ids().end());
  request.logits_digest = message.logits_digest();
  return request;
}

void fill(const SequenceUpdate& update, const Sample& sample, uint64_t logits_digest,
          api::Update& message) {
  message.set_id(update.id.value);
  message.set_index(update.index);
  message.set_token(update.token);
  message.set_logprob(sample.logprob);
  for (const TokenLogprob& top : sample.top) {
    message.add_top_tokens(top.token);
    message.add_top_logprobs(top.logprob);
  }
  message.set_logits_digest(logits_digest);
  message.set_end(to_message(update.end));
  message.set_cached_prompt_tokens(update.cached_prompt_tokens);
}

Result<Sample> to_sample(const api::Update& message) {
  if (message.top_tokens_size() != message.top_logprobs_size()) {
    return invalid_input("{} best tokens with {} logprobs", message.top_tokens_size(),
                         message.top_logprobs_size());
  }
  if (!api::End_IsValid(message.end())) {
    return invalid_input("request {} ends with {}", message.id(), static_cast<int>(message.end()));
  }
  Sample sample;
  sample.token = message.token();
  sample.logprob = message.logprob();
  for (int i = 0; i < message.top_tokens_size(); ++i) {
    sample.top.push_back({message.top_tokens(i), message.top_logprobs(i)});
  }
  return sample;
}

}  // namespace fasteep
