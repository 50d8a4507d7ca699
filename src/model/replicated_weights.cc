#include "model/replicated_weights.h"

#include <array>

#include "model/carver.h"
#include "model/tensor_reader.h"

namespace fasteep {
namespace {

constexpr int64_t kChunkBytes = 4 << 20;  // read at a time, so that conversions stay in cache

std::span<const float> carve_floats(Carver& carver, int count) {
  return {carver.array<float>(count), static_cast<size_t>(count)};
}

PackedMatrix carve_matrix(Carver& carver, DType dtype, int outputs, int inputs) {
  return {dtype, outputs, inputs, carver.bytes(packed_size_bytes(dtype, outputs, inputs))};
}

LayerWeights carve_layer(Carver& carver, const ModelConfig& config, DType dtype, int index) {
  LayerWeights layer;
  layer.input_norm = carve_floats(carver, config.hidden_size);
  layer.post_norm = carve_floats(carver, config.hidden_size);
  if (config.qk_norm) {
    layer.q_norm = carve_floats(carver, config.head_dim);
    layer.k_norm = carve_floats(carver, config.head_dim);
  }
  layer.qkv = carve_matrix(carver, dtype, config.qkv_outputs(), config.hidden_size);
  layer.o = carve_matrix(carver, dtype, config.hidden_size, config.num_heads * config.head_dim);
  if (config.attention_bias) {
    layer.qkv_bias = carve_floats(carver, config.qkv_outputs());
    layer.o_bias = carve_floats(carver, config.hidden_size);
  }
  if (config.layers[index] == LayerKind::kMoe)
    layer.router = carve_matrix(carver, DType::kFloat32, config.num_experts, config.hidden_size);
  else
    layer.dense_ffn = carver.bytes(ffn_size_bytes(config.dense_shape(dtype)));
  return layer;
}

// The pool's memory is ours and writable; its users get read-only views.
std::byte* writable(const void* view) { return static_cast<std::byte*>(const_cast<void*>(view)); }

void pack_expert(const FfnShape& shape, const ExpertTensors& tensors, std::byte* destination) {
  std::array<TensorReader, 3> readers;
  TypedRows gate = readers[0].read(tensors.gate), up = readers[1].read(tensors.up),
            down = readers[2].read(tensors.down);
  if (gate.dtype == up.dtype && up.dtype == down.dtype)
    return pack_ffn(shape, gate.dtype, gate.data, up.data, down.data, destination);
  // Mixed types: all to float32, which holds each of them exactly.
  const size_t count = static_cast<size_t>(shape.intermediate) * shape.hidden;
  std::array<std::vector<float>, 3> wide;
  std::array<const std::byte*, 3> data;
  for (size_t i = 0; const TypedRows& rows : {gate, up, down}) {
    wide[i].resize(count);
    auto* out = reinterpret_cast<std::byte*>(wide[i].data());
    convert(rows, count, DType::kFloat32, out);
    data[i++] = out;
  }
  pack_ffn(shape, DType::kFloat32, data[0], data[1], data[2], destination);
}

}  // namespace

// Fills the carved views from the checkpoint, layer by layer.
class ReplicatedWeights::Loader {
 public:
  Loader(const WeightSource& source, ReplicatedWeights& weights, const LoadProgress& progress)
      : source_(source), config_(source.config()), weights_(weights), progress_(progress) {
    for (const ExpectedTensor& tensor : weight_plan(config_, source.layout()))
      if (!is_expert_role(tensor.role))
        total_ += source.tensor(tensor.role, tensor.layer).bytes.size();
  }

  void load() {
    load_embedding();
    for (int i = 0; i < config_.num_layers; ++i) load_layer(i, weights_.layers_[i]);
    load_floats(weights_.final_norm_, WeightRole::kFinalNorm, 0);
    const bool tied = config_.tied_embeddings;
    pack_begin(weights_.lm_head_);
    pack(weights_.lm_head_, 0, tied ? WeightRole::kEmbedding : WeightRole::kLmHead, 0, !tied);
  }

 private:
  void report(size_t bytes) {
    done_ += bytes;
    if (progress_) progress_(done_, total_);
  }

  static void pack_begin(const PackedMatrix& matrix) {
    fasteep::pack_begin(matrix.dtype, matrix.outputs, matrix.inputs, writable(matrix.data));
  }

  // Calls take(rows, first_row, num_rows) for pieces of a matrix.
  template <class Take>
  void in_chunks(const TensorView& tensor, const Take& take) {
    const int64_t rows = tensor.shape[0], cols = tensor.shape[1];
    const int64_t step = std::max<int64_t>(1, kChunkBytes / (4 * cols));
    for (int64_t first = 0; first < rows; first += step) {
      const int64_t count = std::min(step, rows - first);
      take(reader_.read(tensor, first, count, cols), first, count);
    }
  }

  // A stored matrix becomes outputs [first_output, ...) of a packed one.
  void pack(const PackedMatrix& matrix, int first_output, WeightRole role, int layer,
            bool counts = true) {
    const TensorView& tensor = source_.tensor(role, layer);
    in_chunks(tensor, [&](TypedRows rows, int64_t first, int64_t count) {
      pack_rows(matrix.dtype, matrix.outputs, matrix.inputs, first_output + static_cast<int>(first),
                static_cast<int>(count), rows.dtype, rows.data, writable(matrix.data));
    });
    report(counts ? tensor.bytes.size() : 0);
  }

  void load_floats(std::span<const float> view, WeightRole role, int layer, size_t offset = 0) {
    const TensorView& tensor = source_.tensor(role, layer);
    const size_t count = static_cast<size_t>(tensor.shape[0]);
    CHECK(offset + count <= view.size(), "{} of {} values", offset + count, view.size());
    convert(reader_.read(tensor), count, DType::kFloat32, writable(view.data() + offset));
    report(tensor.bytes.size());
  }

  void load_embedding() {
    const TensorView& tensor = source_.tensor(WeightRole::kEmbedding);
    in_chunks(tensor, [&](TypedRows rows, int64_t first, int64_t count) {
      convert(rows, static_cast<size_t>(count * config_.hidden_size), weights_.dtype_,
              weights_.embedding_ + static_cast<size_t>(first) * weights_.row_bytes_);
    });
    report(tensor.bytes.size());
  }

  void load_layer(int index, const LayerWeights& layer) {
    load_floats(layer.input_norm, WeightRole::kInputNorm, index);
    load_floats(layer.post_norm, WeightRole::kPostNorm, index);
    if (config_.qk_norm) {
      load_floats(layer.q_norm, WeightRole::kQNorm, index);
      load_floats(layer.k_norm, WeightRole::kKNorm, index);
    }
    load_attention(index, layer);
    if (config_.layers[index] == LayerKind::kDense) return load_dense(index, layer);
    pack_begin(layer.router);
    pack(layer.router, 0, WeightRole::kRouter, index);
  }

  void load_attention(int index, const LayerWeights& layer) {
    const int q = config_.num_heads * config_.head_dim,
              kv = config_.num_kv_heads * config_.head_dim;
    pack_begin(layer.qkv);
    pack(layer.qkv, 0, WeightRole::kQ, index);
    pack(layer.qkv, q, WeightRole::kK, index);
    pack(layer.qkv, q + kv, WeightRole::kV, index);
    pack_begin(layer.o);
    pack(layer.o, 0, WeightRole::kO, index);
    if (!config_.attention_bias) return;
    load_floats(layer.qkv_bias, WeightRole::kQBias, index);
    load_floats(layer.qkv_bias, WeightRole::kKBias, index, q);
    load_floats(layer.qkv_bias, WeightRole::kVBias, index, q + kv);
    load_floats(layer.o_bias, WeightRole::kOBias, index);
  }

  void load_dense(int index, const LayerWeights& layer) {
    const ExpertTensors tensors = {source_.tensor(WeightRole::kDenseGate, index),
                                   source_.tensor(WeightRole::kDenseUp, index),
                                   source_.tensor(WeightRole::kDenseDown, index)};
    pack_expert(config_.dense_shape(weights_.dtype_), tensors, writable(layer.dense_ffn));
    report(tensors.gate.bytes.size() + tensors.up.bytes.size() + tensors.down.bytes.size());
  }

  const WeightSource& source_;
  const ModelConfig& config_;
  ReplicatedWeights& weights_;
  const LoadProgress& progress_;
  TensorReader reader_;
  size_t done_ = 0, total_ = 0;
};

namespace {

struct Carved {
  std::byte* embedding;
  std::span<const float> final_norm;
  PackedMatrix lm_head;
  std::vector<LayerWeights> layers;
};

Carved carve(Carver& carver, const ModelConfig& config, DType dtype) {
  Carved carved;
  carved.embedding =
      carver.bytes(static_cast<size_t>(config.vocab_size) * config.hidden_size * size_bytes(dtype));
  for (int i = 0; i < config.num_layers; ++i)
    carved.layers.push_back(carve_layer(carver, config, dtype, i));
  carved.final_norm = carve_floats(carver, config.hidden_size);
  carved.lm_head = carve_matrix(carver, dtype, config.vocab_size, config.hidden_size);
  return carved;
}

}  // namespace

size_t replicated_size_bytes(const ModelConfig& config, DType dtype) {
  Carver carver;
  carve(carver, config, dtype);
  return carver.used_bytes();
}

ReplicatedWeights::ReplicatedWeights(MemoryPool pool, const ModelConfig& config, DType dtype)
    : pool_(std::move(pool)),
      dtype_(dtype),
      row_bytes_(static_cast<size_t>(config.hidden_size) * fasteep::size_bytes(dtype)) {
  Carver carver(pool_.base());
  Carved carved = carve(carver, config, dtype);
  size_bytes_ = carver.used_bytes();
  embedding_ = carved.embedding;
  final_norm_ = carved.final_norm;
  lm_head_ = carved.lm_head;
  layers_ = std::move(carved.layers);
}

Result<ReplicatedWeights> ReplicatedWeights::load(const WeightSource& source, DType dtype,
                                                  DeviceLedger& ledger,
                                                  const LoadProgress& progress) {
  const size_t size = replicated_size_bytes(source.config(), dtype);
  FASTEEP_TRY(MemoryPool pool, MemoryPool::create(PoolTag::kReplicated, size, ledger));
  FASTEEP_TRY_VOID(pool.commit(0, size));
  ReplicatedWeights weights(std::move(pool), source.config(), dtype);
  Loader(source, weights, progress).load();
  return weights;
}

const std::byte* ReplicatedWeights::embedding_row(TokenId token) const {
  return embedding_ + static_cast<size_t>(token) * row_bytes_;
}

void load_expert(const WeightSource& source, DType dtype, ExpertKey key, std::byte* destination) {
  pack_expert(source.config().expert_shape(dtype), source.expert(key.layer.value, key.expert.value),
              destination);
}

size_t expert_source_bytes(const WeightSource& source) {
  const LayerId layer = source.config().moe_shape().moe_layers.front();
  const ExpertTensors tensors = source.expert(layer.value, 0);
  return tensors.gate.bytes.size() + tensors.up.bytes.size() + tensors.down.bytes.size();
}

}  // namespace fasteep
