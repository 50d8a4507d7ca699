#include "engine/slot_tables.h"

namespace fasteep {
namespace {

ExpertKey key_of(int layer, int expert) { return {LayerId(layer), ExpertId(expert)}; }

constexpr int kFromCheckpoint = -1;

Result<api::ExpertMove> to_message(const ExpertMove& move, const SlotTables& tables) {
  api::ExpertMove message;
  message.set_layer(move.key.layer.value);
  message.set_expert(move.key.expert.value);
  message.set_from(kFromCheckpoint);
  if (!move.from) return message;
  const std::optional<HeldExpert> held = tables.find(*move.from, move.key);
  if (!held) {
    return invalid_input("rank {} is to give expert {} of layer {}, which it does not hold",
                         *move.from, move.key.expert, move.key.layer);
  }
  message.set_from(move.from->value);
  message.set_source_slot(held->slot);
  message.set_checksum(held->checksum);
  return message;
}

}  // namespace

void SlotTables::on_done(RankId rank, const api::Order& order, const api::Done& done) {
  for (const api::Filled& filled : done.filled()) {
    held_[rank][key_of(filled.layer(), filled.expert())] = {filled.slot(), filled.checksum()};
  }
  if (done.replicated_checksum() != 0) replicated_checksum_ = done.replicated_checksum();
  for (const api::ExpertKey& key : order.drop().experts()) {
    held_[rank].erase(key_of(key.layer(), key.expert()));
  }
  if (order.has_sleep()) forget(rank);
}

void SlotTables::forget(RankId rank) { held_.erase(rank); }

std::optional<HeldExpert> SlotTables::find(RankId rank, ExpertKey key) const {
  const auto table = held_.find(rank);
  if (table == held_.end()) return std::nullopt;
  const auto found = table->second.find(key);
  if (found == table->second.end()) return std::nullopt;
  return found->second;
}

size_t SlotTables::num_held(RankId rank) const {
  const auto table = held_.find(rank);
  return table == held_.end() ? 0 : table->second.size();
}

Result<api::Order> fill_order(const ResizeCommand& command, const View* before,
                              const SlotTables& tables) {
  api::Order order;
  api::Fill& fill = *order.mutable_fill();
  fill.set_replicated(command.with_replicated);
  if (command.with_replicated && before) {
    for (const Member& member : before->members()) fill.add_replicated_from(member.rank.value);
    fill.set_replicated_checksum(tables.replicated_checksum());
  }
  for (const ExpertMove& move : command.moves) {
    FASTEEP_TRY(*fill.add_moves(), to_message(move, tables));
  }
  return order;
}

api::Order drop_order(const std::vector<ExpertKey>& experts) {
  api::Order order;
  order.mutable_drop();
  for (const ExpertKey& key : experts) {
    api::ExpertKey* added = order.mutable_drop()->add_experts();
    added->set_layer(key.layer.value);
    added->set_expert(key.expert.value);
  }
  return order;
}

}  // namespace fasteep
