#include "exchange/membership.h"

#include <algorithm>

#include "base/log.h"

namespace fasteep {

Membership::Membership(const ExchangeOptions& options, const WindowLayout& layout)
    : self_(options.rank),
      self_incarnation_(options.incarnation),
      layout_(layout),
      peers_(options.max_ranks),
      live_(options.max_ranks),
      dead_(options.max_ranks) {
  connected_.reserve(options.max_ranks);
  live_[self_.value] = self_incarnation_;
}

Result<void> Membership::connect(const PeerDescriptors& peer) {
  Descriptor window_fd(peer.window_fd), doorbell(peer.doorbell_fd);
  const int rank = peer.rank.value;
  if (rank < 0 || rank >= layout_.max_ranks || peer.rank == self_) {
    return invalid_input("rank {} cannot be a peer of rank {} (at most {} ranks)", rank, self_,
                         layout_.max_ranks);
  }
  if (peer.incarnation <= dead_[rank] ||
      (peers_[rank] && peer.incarnation <= peers_[rank]->incarnation)) {
    return make_error(ErrorCode::kStaleEpoch, "rank {} incarnation {} is known already or dead",
                      rank, peer.incarnation);
  }
  const WindowIdentity identity{kLayoutVersion, peer.rank, peer.incarnation};
  FASTEEP_TRY(Window window, Window::open_peer(std::move(window_fd), layout_.size_bytes, identity));
  if (peers_[rank]) remove(peer.rank);
  const PeerWindow view(window.data(), layout_);
  peers_[rank].reset(
      new Peer{peer.rank, peer.incarnation, std::move(window), view, std::move(doorbell)});
  connected_.push_back(peers_[rank].get());
  live_[rank] = peer.incarnation;
  refresh_members();
  check_windows();
  return {};
}

bool Membership::disconnect(RankId rank, Incarnation incarnation) {
  if (rank.value < 0 || rank.value >= layout_.max_ranks || rank == self_) return false;
  dead_[rank.value] = std::max(dead_[rank.value], incarnation);
  const Peer* peer = find(rank);
  if (!peer || peer->incarnation > incarnation) return false;
  remove(rank);
  return true;
}

void Membership::remove(RankId rank) {
  std::erase(connected_, find(rank));
  peers_[rank.value].reset();
  live_[rank.value] = Incarnation();
}

void Membership::mark_closed(RankId rank) { live_[rank.value] = Incarnation(); }

void Membership::check_windows() {
  for (Peer* peer : connected_) {
    if (peer->is_open || live_[peer->rank.value].value == 0) continue;
    Result<bool> open = peer->window.is_open();
    if (!open) {
      log_error("{}", open.error().message());
      mark_closed(peer->rank);
    } else {
      peer->is_open = *open;
    }
  }
}

bool Membership::see(ViewPtr view) {
  if (view->epoch() <= newest_epoch()) return false;
  views_.push_back(std::move(view));
  refresh_members();
  return true;
}

void Membership::adopt_newest() {
  if (views_.empty() || adopted_ == newest_epoch()) return;
  views_.erase(views_.begin(), views_.end() - 1);
  adopted_ = newest_epoch();
  refresh_members();
}

void Membership::refresh_members() {
  for (Peer* peer : connected_) {
    peer->is_member = std::any_of(views_.begin(), views_.end(), [&](const ViewPtr& view) {
      return view->is_member(peer->rank, peer->incarnation);
    });
  }
}

bool Membership::is_moe_layer(LayerId layer) const {
  return std::ranges::binary_search(moe_layers(), layer);
}

std::span<const LayerId> Membership::moe_layers() const {
  if (views_.empty()) return {};
  return views_.back()->shape().moe_layers;
}

}  // namespace fasteep
