#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace fasteep {
namespace {

std::vector<size_t> make_fallback(const std::string& text) {
  std::vector<size_t> fallback(text.size(), 0);
  size_t length = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (length > 0 && text[i] != text[length]) length = fallback[length - 1];
    if (text[i] == text[length]) ++length;
    fallback[i] = length;
  }
  return fallback;
}

}  // namespace

bool StopStrings::Automaton::take(char byte) {
  while (matched > 0 && text[matched] != byte) matched = fallback[matched - 1];
  if (text[matched] == byte) ++matched;
  return matched == text.size();
}

Result<StopStrings> StopStrings::create(std::vector<std::string> stops, StopOptions options) {
  std::vector<Automaton> automata;
  for (std::string& stop : stops) {
    if (stop.empty()) return invalid_input("a stop string is empty; leave it out").on_field("stop");
    std::vector<size_t> fallback = make_fallback(stop);
    automata.push_back({std::move(stop), std::move(fallback)});
  }
  return StopStrings(std::move(automata), options);
}

// The index of the longest stop string that this byte completes, or -1.
int StopStrings::take(char byte) {
  int longest = -1;
  for (size_t i = 0; i < automata_.size(); ++i) {
    if (!automata_[i].take(byte)) continue;
    bool is_longer = longest < 0 ||
                     automata_[i].text.size() > automata_[static_cast<size_t>(longest)].text.size();
    if (is_longer) longest = static_cast<int>(i);
  }
  return longest;
}

StopDelivery StopStrings::push(std::string_view delta) {
  if (stopped_) return {"", true, which_};
  for (char byte : delta) {
    held_ += byte;
    int which = take(byte);
    if (which >= 0) return deliver_stopped(which);
  }
  size_t keep = 0;
  for (const Automaton& automaton : automata_) keep = std::max(keep, automaton.matched);
  StopDelivery delivery{held_.substr(0, held_.size() - keep)};
  held_.erase(0, held_.size() - keep);
  return delivery;
}

StopDelivery StopStrings::deliver_stopped(int which) {
  stopped_ = true;
  which_ = which;
  std::string text = std::exchange(held_, {});
  if (!options_.include_stop_str_in_output) {
    text.resize(text.size() - automata_[static_cast<size_t>(which)].text.size());
  }
  return {std::move(text), true, which};
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace fasteep
