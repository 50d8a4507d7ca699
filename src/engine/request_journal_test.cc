#include "engine/request_journal.h"

#include <gtest/gtest.h>

namespace fasteep {
namespace {

GenerateRequest a_request() {
  GenerateRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 5;
  return request;
}

TEST(RequestJournal, EachPositionIsNewOnce) {
  RequestJournal journal;
  JournalEntry& entry = journal.add(a_request(), {}, RankId(0));
  EXPECT_EQ(journal.deliver(entry, 0, 7), Delivery::kNew);
  EXPECT_EQ(journal.deliver(entry, 0, 7), Delivery::kDuplicate);
  EXPECT_EQ(journal.deliver(entry, 1, 8), Delivery::kNew);
  EXPECT_EQ(journal.deliver(entry, 0, 7), Delivery::kDuplicate);
  EXPECT_EQ(entry.delivered, (std::vector<TokenId>{7, 8}));
}

TEST(RequestJournalDeathTest, AGapIsABug) {
  RequestJournal journal;
  JournalEntry& entry = journal.add(a_request(), {}, RankId(0));
  EXPECT_DEATH(journal.deliver(entry, 1, 7), "position 1 comes, 0 is next");
}

TEST(RequestJournal, KnowsTheRequestsOfARankOldestFirst) {
  RequestJournal journal;
  const RequestId first = journal.add(a_request(), {}, RankId(1)).id;
  const RequestId second = journal.add(a_request(), {}, RankId(0)).id;
  const RequestId third = journal.add(a_request(), {}, RankId(1)).id;
  EXPECT_EQ(journal.on_rank(RankId(1)), (std::vector{first, third}));
  EXPECT_EQ(journal.ids(), (std::vector{first, second, third}));
}

TEST(RequestJournal, AnEndedRequestIsForgottenAndItsIdNeverUsedAgain) {
  RequestJournal journal;
  const RequestId id = journal.add(a_request(), {}, RankId(1)).id;
  EXPECT_EQ(journal.take(id).request.prompt.size(), 3u);
  EXPECT_EQ(journal.find(id), nullptr);
  EXPECT_GT(journal.add(a_request(), {}, RankId(1)).id, id);
}

}  // namespace
}  // namespace fasteep
