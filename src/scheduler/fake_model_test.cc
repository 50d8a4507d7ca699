#include "scheduler/fake_model.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace fasteep {

void require(bool condition, const std::string& text) {
  if (!condition) throw std::logic_error(text);
}

FakeModel::FakeModel(const SchedulerOptions& options)
    : options_(options),
      kv_(static_cast<size_t>(options.num_blocks) * static_cast<size_t>(options.block_tokens)) {}

TokenId FakeModel::next_token(const std::vector<TokenId>& tokens) {
  uint64_t state = 0;
  for (const TokenId token : tokens) state = mix(state, token);
  return next_token(state);
}

uint64_t& FakeModel::kv(const PlannedSequence& rows, int position) {
  const int block = rows.blocks.at(static_cast<size_t>(position / options_.block_tokens)).value;
  return kv_.at(
      static_cast<size_t>(block * options_.block_tokens + position % options_.block_tokens));
}

uint64_t FakeModel::kv(const PlannedSequence& rows, int position) const {
  return const_cast<FakeModel*>(this)->kv(rows, position);
}

void FakeModel::check_budgets(const StepPlan& plan) const {
  int rows = 0;
  std::set<RequestId> ids;
  for (const PlannedSequence& sequence : plan.sequences) {
    const int n = static_cast<int>(sequence.tokens.size());
    require(n >= 1, "a sequence without rows");
    require(options_.prefill_chunk == 0 || n <= options_.prefill_chunk, "over prefill_chunk");
    require(ids.insert(sequence.id).second, "a sequence planned twice");
    rows += n;
  }
  require(rows == plan.num_rows, "num_rows is not the number of rows");
  require(rows <= options_.max_num_batched_tokens, "over max_num_batched_tokens");
  require(std::ssize(ids) <= options_.max_num_seqs, "over max_num_seqs");
}

void FakeModel::check_rows(const PlannedSequence& rows, const std::vector<TokenId>& tokens) const {
  const size_t first = static_cast<size_t>(rows.first_position);
  const size_t end = first + rows.tokens.size();
  require(end <= tokens.size(), "rows beyond the sequence");
  require(std::equal(rows.tokens.begin(), rows.tokens.end(), tokens.begin() + rows.first_position),
          "rows are not the sequence's tokens");
  require(rows.wants_sample == (end == tokens.size()), "wants_sample is wrong");
  const size_t size = static_cast<size_t>(options_.block_tokens);
  require(rows.blocks.size() == (end + size - 1) / size, "blocks are not those of the positions");
  const std::set<BlockId> distinct(rows.blocks.begin(), rows.blocks.end());
  require(distinct.size() == rows.blocks.size(), "a block twice in one sequence");
}

// Before any row of the step is written: the rows of one step may not rely on each other's writes.
void FakeModel::check_context(const PlannedSequence& rows,
                              const std::vector<TokenId>& tokens) const {
  uint64_t state = 0;
  for (int p = 0; p < rows.first_position; ++p) {
    state = mix(state, tokens[static_cast<size_t>(p)]);
    require(kv(rows, p) == state, "KV of position " + std::to_string(p) + " is not there");
  }
}

void FakeModel::check_writers(const StepPlan& plan) const {
  std::map<BlockId, int> holders;
  for (const PlannedSequence& rows : plan.sequences)
    for (const BlockId block : rows.blocks) ++holders[block];
  for (const PlannedSequence& rows : plan.sequences)
    for (size_t i = static_cast<size_t>(rows.first_position / options_.block_tokens);
         i < rows.blocks.size(); ++i)
      require(holders[rows.blocks[i]] == 1, "a shared block is written");
}

void FakeModel::write(const PlannedSequence& rows) {
  uint64_t state = rows.first_position == 0 ? 0 : kv(rows, rows.first_position - 1);
  for (size_t i = 0; i < rows.tokens.size(); ++i) {
    state = mix(state, rows.tokens[i]);
    kv(rows, rows.first_position + static_cast<int>(i)) = state;
  }
}

std::vector<TokenId> FakeModel::run(const StepPlan& plan,
                                    const std::map<RequestId, std::vector<TokenId>>& tokens_of) {
  check_budgets(plan);
  for (const PlannedSequence& rows : plan.sequences) {
    require(tokens_of.contains(rows.id), "a request that is not there");
    check_rows(rows, tokens_of.at(rows.id));
    check_context(rows, tokens_of.at(rows.id));
  }
  check_writers(plan);
  std::vector<TokenId> samples;
  for (const PlannedSequence& rows : plan.sequences) {
    write(rows);
    const int last = rows.first_position + static_cast<int>(rows.tokens.size()) - 1;
    if (rows.wants_sample) samples.push_back(next_token(kv(rows, last)));
  }
  return samples;
}

namespace {

const SchedulerOptions kOptions{.block_tokens = 2, .num_blocks = 4, .max_model_len = 8};

PlannedSequence rows_of(uint64_t id, int first, std::vector<TokenId> tokens,
                        std::vector<int> blocks) {
  PlannedSequence rows{.id = RequestId(id), .first_position = first, .tokens = std::move(tokens)};
  for (const int block : blocks) rows.blocks.push_back(BlockId(block));
  return rows;
}

TEST(FakeModel, NoticesMissingContext) {
  FakeModel model(kOptions);
  const StepPlan plan{{rows_of(1, 2, {3}, {0, 1})}, 1};
  EXPECT_THROW(model.run(plan, {{RequestId(1), {1, 2, 3, 4}}}), std::logic_error);
}

TEST(FakeModel, NoticesASharedBlockWritten) {
  FakeModel model(kOptions);
  const StepPlan plan{{rows_of(1, 0, {3}, {0}), rows_of(2, 0, {3}, {0})}, 2};
  EXPECT_THROW(model.run(plan, {{RequestId(1), {3, 3}}, {RequestId(2), {3, 3}}}), std::logic_error);
}

TEST(FakeModel, SamplesFromTheBlocks) {
  FakeModel model(kOptions);
  const std::vector<TokenId> tokens = {3, 1, 2};
  EXPECT_TRUE(model.run({{rows_of(1, 0, {3, 1}, {2})}, 2}, {{RequestId(1), tokens}}).empty());
  PlannedSequence last = rows_of(1, 2, {2}, {2, 0});
  last.wants_sample = true;
  const auto samples = model.run({{last}, 1}, {{RequestId(1), tokens}});
  EXPECT_EQ(samples, std::vector<TokenId>{FakeModel::next_token(tokens)});
}

}  // namespace
}  // namespace fasteep
