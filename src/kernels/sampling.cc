#include "kernels/sampling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/rng.h"

namespace fasteep {

namespace {

constexpr double kUnit = 0x1p43;  // weight of the largest probability; sums of 2^20 of them fit
constexpr double kMaxDepth = 32;  // exp(-32) rounds to no unit at all
constexpr double kBucketsPerUnit = 128;
constexpr int kBuckets = static_cast<int>(kMaxDepth * kBucketsPerUnit) + 1;  // the last: deeper

// exp(-depth) for depth in [0, 700], by plain multiplications and additions: the C library's
// differs between CPUs with and without fused multiply-add.
double exp_minus(double depth) {
  constexpr double kMagic = 0x1.8p52;  // adding it rounds to an integer
  const double rounded = -depth * 1.4426950408889634 + kMagic;
  const double n = rounded - kMagic;
  const double r = (-depth - n * 0x1.62e42feep-1) - n * 1.9082149292705877e-10;
  double sum = 1.0 / 479001600;  // Taylor up to r^12, |r| <= ln(2) / 2
  for (double inverse : {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
                         1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0})
    sum = sum * r + inverse;
  const auto exponent = static_cast<uint64_t>(static_cast<int64_t>(n) + 1023);
  return sum * std::bit_cast<double>(exponent << 52);
}

// exp(-depth) in units, for depth in [0, kMaxDepth): a table by bucket times a short Taylor sum.
uint64_t units_of(double depth) {
  static const auto by_bucket = [] {
    std::array<double, kBuckets> table;
    for (int b = 0; b < kBuckets; ++b) table[b] = kUnit * exp_minus(b / kBucketsPerUnit);
    return table;
  }();
  const int b = static_cast<int>(depth * kBucketsPerUnit);
  const double r =
      depth - b / kBucketsPerUnit;  // below 1/128: the next term is under 2^-51 of the whole
  const double sum = 1.0 - r * (1.0 - r * (0.5 - r * (1.0 / 6 - r * (1.0 / 24 - r * (1.0 / 120)))));
  return static_cast<uint64_t>(by_bucket[b] * sum + 0.5);
}

TokenId largest(std::span<const float> logits) {
  TokenId best = 0;
  float value = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > value) value = logits[i], best = static_cast<TokenId>(i);
  return best;
}

struct Member {
  double depth;  // (largest logit - logit) / temperature
  TokenId token;
  uint64_t weight;
  bool operator<(const Member& other) const {
    return depth != other.depth ? depth < other.depth : token < other.token;
  }
};

// A prefix of the descending order: whole buckets, then some members of the next one.
struct Prefix {
  int buckets = kBuckets;
  size_t members = 0;
  uint64_t mass = 0;
};

// The descending order of the vocabulary, known by buckets of depth. A bucket is sorted only when a
// boundary falls into it.
class Order {
 public:
  Order(std::span<const float> logits, float top, double temperature)
      : logits_(logits), top_(top), temperature_(temperature) {
    mass_.fill(0);
    count_.fill(0);
    bucket_.resize(logits.size());
    for (size_t i = 0; i < logits.size(); ++i) {
      const double depth = depth_of(i);
      const int b = bucket_of(depth);
      bucket_[i] = static_cast<uint16_t>(b);
      mass_[b] += weight_of(depth);
      count_[b] += 1;
    }
  }

  Prefix all() const {
    Prefix prefix;
    for (uint64_t mass : mass_) prefix.mass += mass;
    return prefix;
  }

  // The first k tokens, and ties with the last of them.
  Prefix first(size_t k, const Prefix& within) {
    size_t before = 0;
    int b = 0;
    for (uint64_t mass = 0; b < kBuckets; mass += mass_[b], before += count_[b], ++b) {
      if (before + count_[b] < k) continue;
      const std::vector<Member>& members = sorted(b);
      const double last = members[k - before - 1].depth;
      return cut(b, mass, [last](const Member& m, uint64_t) { return m.depth <= last; });
    }
    return within;
  }

  // The shortest prefix with at least `share` of the mass of `within`.
  Prefix reaching(double share, const Prefix& within) {
    const double target = share * static_cast<double>(within.mass);
    uint64_t mass = 0;
    for (int b = 0; b < kBuckets; mass += mass_[b], ++b) {
      if (static_cast<double>(mass + mass_[b]) < target) continue;
      const Prefix result = cut(b, mass, [target](const Member&, uint64_t before) {
        return before == 0 || static_cast<double>(before) < target;
      });
      return shorter(result, within);
    }
    return within;
  }

  // Tokens down to `depth`.
  Prefix down_to(double depth, const Prefix& within) {
    const int bucket = bucket_of(depth);
    uint64_t mass = 0;
    for (int b = 0; b < bucket; ++b) mass += mass_[b];
    const Prefix result =
        cut(bucket, mass, [depth](const Member& m, uint64_t) { return m.depth <= depth; });
    return shorter(result, within);
  }

  // The token whose share of the mass holds unit number `unit`.
  TokenId holding(uint64_t unit) {
    uint64_t mass = 0;
    for (int b = 0; b < kBuckets; mass += mass_[b], ++b) {
      if (mass + mass_[b] <= unit) continue;
      for (const Member& m : sorted(b)) {
        mass += m.weight;
        if (mass > unit) return m.token;
      }
    }
    CHECK(false, "unit {} lies beyond the mass", unit);
  }

 private:
  double depth_of(size_t i) const {
    return (static_cast<double>(top_) - static_cast<double>(logits_[i])) / temperature_;
  }
  // NaN goes with the deepest.
  static int bucket_of(double depth) {
    return depth < kMaxDepth ? static_cast<int>(depth * kBucketsPerUnit) : kBuckets - 1;
  }
  static uint64_t weight_of(double depth) { return depth < kMaxDepth ? units_of(depth) : 0; }

  const std::vector<Member>& sorted(int bucket) {
    if (bucket == sorted_bucket_) return members_;
    sorted_bucket_ = bucket;
    members_.clear();
    for (size_t i = 0; i < bucket_.size(); ++i) {
      if (bucket_[i] != bucket) continue;
      double depth = depth_of(i);
      if (std::isnan(depth)) depth = std::numeric_limits<double>::infinity();
      members_.push_back({depth, static_cast<TokenId>(i), weight_of(depth)});
    }
    std::sort(members_.begin(), members_.end());
    return members_;
  }

  // Buckets before `bucket`, of mass `mass`, and its members while keep(member, mass before it).
  template <class Keep>
  Prefix cut(int bucket, uint64_t mass, Keep keep) {
    Prefix prefix{bucket, 0, mass};
    for (const Member& m : sorted(bucket)) {
      if (!keep(m, prefix.mass)) break;
      prefix.mass += m.weight;
      ++prefix.members;
    }
    return prefix;
  }
  static Prefix shorter(const Prefix& a, const Prefix& b) {
    return a.buckets != b.buckets ? (a.buckets < b.buckets ? a : b)
                                  : (a.members < b.members ? a : b);
  }

  // Scratch kept per thread: sampling happens in every decode step and must not allocate there.
  static thread_local std::vector<uint16_t> bucket_;
  static thread_local std::vector<Member> members_;
  std::span<const float> logits_;
  float top_;
  double temperature_;
  int sorted_bucket_ = -1;
  std::array<uint64_t, kBuckets> mass_;
  std::array<uint32_t, kBuckets> count_;
};

thread_local std::vector<uint16_t> Order::bucket_;
thread_local std::vector<Member> Order::members_;

TokenId draw(std::span<const float> logits, const SamplingParams& params, int64_t position) {
  const TokenId best = largest(logits);
  if (params.temperature == 0.0f || !std::isfinite(logits[best])) return best;
  Order order(logits, logits[best], params.temperature);
  Prefix kept = order.all();
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size())
    kept = order.first(static_cast<size_t>(params.top_k), kept);
  if (params.top_p < 1.0f) kept = order.reaching(params.top_p, kept);
  if (params.min_p > 0.0f) kept = order.down_to(-std::log(static_cast<double>(params.min_p)), kept);
  const double u = counter_uniform(params.seed, 0, static_cast<uint64_t>(position));
  const auto unit = static_cast<uint64_t>(u * static_cast<double>(kept.mass));
  return order.holding(std::min(unit, kept.mass - 1));
}

// log of the sum of exp over the vocabulary, in double in index order.
double log_sum(std::span<const float> logits) {
  const double top = logits[largest(logits)];
  double sum = 0;
  for (float x : logits) {
    const double depth = top - x;
    if (depth < 700) sum += exp_minus(depth);
  }
  return top + std::log(sum);
}

void add_logprobs(std::span<const float> logits, int count, Sample& sample) {
  const double total = log_sum(logits);
  const auto logprob = [&](TokenId t) { return static_cast<float>(logits[t] - total); };
  sample.logprob = logprob(sample.token);
  std::vector<TokenId> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i);
  const size_t n = std::min(ids.size(), static_cast<size_t>(count));
  const auto key = [&](TokenId t) {
    return std::isnan(logits[t]) ? -std::numeric_limits<float>::infinity() : logits[t];
  };
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n), ids.end(),
      [&](TokenId a, TokenId b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
  for (size_t i = 0; i < n; ++i) sample.top.push_back({ids[i], logprob(ids[i])});
}

}  // namespace

Sample sample(std::span<const float> logits, int usable_vocab, const SamplingParams& params,
              int64_t position) {
  CHECK(usable_vocab > 0 && static_cast<size_t>(usable_vocab) <= logits.size(),
        "{} usable tokens of {} logits", usable_vocab, logits.size());
  const std::span<const float> usable = logits.first(static_cast<size_t>(usable_vocab));
  Sample result;
  result.token = draw(usable, params, position);
  if (params.num_logprobs >= 0) add_logprobs(usable, params.num_logprobs, result);
  return result;
}

}  // namespace fasteep
