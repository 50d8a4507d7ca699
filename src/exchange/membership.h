#pragma once
// Whom this rank may call and whose calls it serves: connected peers and the views from the adopted
// one to the newest seen.
#include <array>
#include <memory>
#include <span>
#include <vector>

#include "exchange/window_layout.h"
#include "placement/view.h"
#include "transport/doorbell.h"
#include "transport/window.h"

namespace fasteep {

struct Peer {
  RankId rank;
  Incarnation incarnation;
  Window window;
  PeerWindow view;
  Descriptor doorbell;
  bool is_open = false;    // its header has been checked
  bool is_member = false;  // of a view from the adopted one on: its calls are served
  std::array<uint64_t, kNumLanes> seen{};  // call sequences that are served or refused for good

  const WindowHeader& header() const { return window.header(); }
};

// Threads: the rank's step thread. A Peer pointer is good until the next disconnect or connect.
class Membership {
 public:
  Membership(const ExchangeOptions& options, const WindowLayout& layout);

  // Errors: kInvalidInput (rank out of range, self, window of another kind), kStaleEpoch (an
  // incarnation that was declared dead).
  Result<void> connect(const PeerDescriptors& peer);
  // Whether that incarnation was connected. It cannot come back.
  bool disconnect(RankId rank, Incarnation incarnation);
  // The peer says itself that it has ended: no longer asked.
  void mark_closed(RankId rank);

  Peer* find(RankId rank) const { return peers_[rank.value].get(); }
  std::span<Peer* const> connected() const { return connected_; }
  std::span<const Incarnation> live() const { return live_; }  // by rank; 0: cannot be asked
  // Looks whether windows that were not opened yet are so by now.
  void check_windows();

  bool see(ViewPtr view);  // false: not newer than the newest
  void adopt_newest();
  std::span<const ViewPtr> views() const { return views_; }
  Epoch adopted_epoch() const { return adopted_; }
  Epoch newest_epoch() const { return views_.empty() ? Epoch() : views_.back()->epoch(); }
  int num_experts() const { return views_.empty() ? 0 : views_.back()->shape().num_experts; }
  bool is_moe_layer(LayerId layer) const;
  std::span<const LayerId> moe_layers() const;  // increasing

 private:
  void remove(RankId rank);
  void refresh_members();

  RankId self_;
  Incarnation self_incarnation_;
  const WindowLayout& layout_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
  std::vector<Peer*> connected_;
  std::vector<Incarnation> live_, dead_;  // by rank
  std::vector<ViewPtr> views_;            // adopted .. newest; before the first adoption, all seen
  Epoch adopted_;
};

}  // namespace fasteep
