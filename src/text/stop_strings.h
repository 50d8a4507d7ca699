#pragma once
// Ends a stream of text at the first stop string, wherever the deltas cut it.
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fasteep {

struct StopOptions {
  bool include_stop_str_in_output = false;  // deliver the stop string itself as well
};

// What may be delivered after a push.
struct StopDelivery {
  std::string text;
  bool stopped = false;  // a stop string is complete: nothing follows
  int which = -1;        // its index in the list, if stopped
};

// Copyable. One thread for each object. The stream ends at the stop string that is complete first,
// and at the longest of several; so the result does not depend on how the text came in deltas.
class StopStrings {
 public:
  // Errors: kInvalidInput, an empty stop string.
  static Result<StopStrings> create(std::vector<std::string> stops, StopOptions options = {});

  // Holds back the longest end of the text that may still become a stop string.
  StopDelivery push(std::string_view delta);

  // What was held back; the stream ends without a stop string.
  std::string finish();

 private:
  struct Automaton {  // Knuth-Morris-Pratt
    std::string text;
    std::vector<size_t> fallback;  // [i]: the longest proper start of text that ends text[0, i + 1)
    size_t matched = 0;            // bytes of text that end the stream so far
    bool take(char byte);          // true: the stop string is complete
  };
  StopStrings(std::vector<Automaton> automata, StopOptions options)
      : automata_(std::move(automata)), options_(options) {}
  int take(char byte);
  StopDelivery deliver_stopped(int which);

  std::vector<Automaton> automata_;
  StopOptions options_;
  std::string held_;  // received and not delivered
  bool stopped_ = false;
  int which_ = -1;
};

}  // namespace fasteep
