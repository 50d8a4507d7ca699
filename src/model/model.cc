#include "model/model.h"

#include <algorithm>
#include <cstring>

#include "model/attention_layer.h"
#include "model/ffn_layer.h"

namespace fasteep {
namespace {

void widen(const std::byte* source, DType dtype, std::span<float> out) {
  if (dtype == DType::kFloat32) {
    std::memcpy(out.data(), source, out.size_bytes());
    return;
  }
  const auto* in = reinterpret_cast<const BFloat16*>(source);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(in[i]);
}

}  // namespace

struct Model::State {
  State(const ModelConfig& model_config, const ReplicatedWeights& model_weights,
        Kernels& rank_kernels, Exchange& exchange, KvBlocks& kv, Workspace rank_workspace)
      : config(model_config),
        weights(model_weights),
        kernels(rank_kernels),
        workspace(std::move(rank_workspace)),
        attention(config, weights, kernels, kv, workspace),
        ffn(config, weights, kernels, exchange, workspace) {}

  void check(const Batch& batch, Span2<float> logits) const;
  void embed(std::span<const TokenId> tokens, Span2<float> x) const;
  void head(std::span<const int> logit_rows, Span2<const float> x, Span2<float> logits) const;
  void tap_layer(int index, Span2<const float> x) const;

  const ModelConfig& config;
  const ReplicatedWeights& weights;
  Kernels& kernels;
  Workspace workspace;
  AttentionLayer attention;
  FfnLayer ffn;
  std::function<void(int, Span2<const float>)> tap;
};

Model::Model(const ModelConfig& config, const ReplicatedWeights& weights, Kernels& kernels,
             Exchange& exchange, KvBlocks& kv, Workspace workspace)
    : state_(
          std::make_unique<State>(config, weights, kernels, exchange, kv, std::move(workspace))) {}

Model::~Model() = default;

void Model::tap_hidden(std::function<void(int index, Span2<const float> rows)> tap) {
  state_->tap = std::move(tap);
}

void Model::State::check(const Batch& batch, Span2<float> logits) const {
  const int rows = static_cast<int>(batch.tokens.size());
  CHECK(rows >= 1 && rows <= workspace.max_rows(), "{} rows of {}", rows, workspace.max_rows());
  CHECK(logits.rows() == static_cast<int64_t>(batch.logit_rows.size()) &&
            (logits.rows() == 0 || logits.cols() == config.vocab_size),
        "logits [{}, {}] for {} rows of {}", logits.rows(), logits.cols(), batch.logit_rows.size(),
        config.vocab_size);
  int next_row = 0;
  for (const BatchSequence& s : batch.sequences) {
    CHECK(s.first_row == next_row && s.num_rows >= 0, "rows {}+{} after {}", s.first_row,
          s.num_rows, next_row);
    next_row += s.num_rows;
  }
  CHECK(next_row == rows, "sequences cover {} of {} rows", next_row, rows);
}

void Model::State::embed(std::span<const TokenId> tokens, Span2<float> x) const {
  for (size_t r = 0; r < tokens.size(); ++r) {
    CHECK(tokens[r] >= 0 && tokens[r] < config.vocab_size, "token {} of {}", tokens[r],
          config.vocab_size);
    widen(weights.embedding_row(tokens[r]), weights.dtype(), x.row(static_cast<int64_t>(r)));
  }
}

void Model::State::head(std::span<const int> logit_rows, Span2<const float> x,
                        Span2<float> logits) const {
  if (logit_rows.empty()) return;
  const int count = static_cast<int>(logit_rows.size());
  const Span2<float> chosen = workspace.branch(count), normed = workspace.normed(count);
  for (int i = 0; i < count; ++i) {
    const std::span<const float> row = x.row(logit_rows[i]);
    std::copy(row.begin(), row.end(), chosen.row(i).begin());
  }
  kernels.rms_norm(chosen, weights.final_norm(), config.rms_norm_eps, weights.dtype(), normed);
  kernels.gemm(weights.lm_head(), normed, {}, logits);
}

// After the last layer the reference's hidden state is the normed one.
void Model::State::tap_layer(int index, Span2<const float> x) const {
  if (!tap) return;
  if (index < config.num_layers) return tap(index, x);
  const Span2<float> normed = workspace.normed(static_cast<int>(x.rows()));
  kernels.rms_norm(x, weights.final_norm(), config.rms_norm_eps, weights.dtype(), normed);
  tap(index, normed);
}

Result<void> Model::forward(const Batch& batch, Span2<float> logits) {
  State& state = *state_;
  state.check(batch, logits);
  const Span2<float> x = state.workspace.x(static_cast<int>(batch.tokens.size()));
  state.embed(batch.tokens, x);
  state.attention.begin(batch);
  state.tap_layer(0, x);
  for (int i = 0; i < state.config.num_layers; ++i) {
    state.attention.run(i, x);
    FASTEEP_TRY_VOID(state.ffn.run(i, x));
    state.tap_layer(i + 1, x);
  }
  state.head(batch.logit_rows, x, logits);
  return {};
}

}  // namespace fasteep
