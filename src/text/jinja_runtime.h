#pragma once
// One run of a template: its budget, its clock and the objects that live until it ends.
//
// Inside this interpreter an error is the exception Failure; parse() and render() of
// jinja_interpreter.h turn it into an Error, and nothing else escapes.
#include <fmt/format.h>

#include <ctime>
#include <deque>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace fasteep::jinja {

// Templates come with checkpoints and requests choose how often they loop, so neither is trusted.
struct Limits {
  std::uint64_t max_steps = 10'000'000;  // nodes evaluated, items touched, 64 bytes of text each
  std::size_t max_text_bytes = 32ull << 20;  // of the output and of each string
  int max_depth = 500;                       // evaluations inside evaluations (macros recurse)
  int max_value_depth = 200;                 // lists inside lists
  int max_nesting = 150;                     // levels of the syntax tree
  std::size_t max_template_bytes = 1 << 20;
};

class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& message) : std::runtime_error(message) {}
};
// raise_exception(): the message is for the user, as it stands.
class Raised : public Failure {
 public:
  using Failure::Failure;
};

// Arguments of a call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;

  // The values of `parameters` in order, null where not given. Too many or unknown ones fail.
  std::vector<const Value*> bind(std::string_view function,
                                 std::initializer_list<std::string_view> parameters) const;
  const Value* find_keyword(std::string_view name) const;
};

// A scope of variables. Shared because a macro keeps the scope it was defined in.
struct Scope {
  std::vector<std::pair<std::string_view, Value>> variables;  // names point into the syntax tree
  std::shared_ptr<Scope> parent;

  const Value* find(Runtime& runtime, std::string_view name) const;  // here or in a parent
  void set(Runtime& runtime, std::string_view name, Value value);    // here
};

struct MacroNode;
struct Macro {
  const MacroNode* node = nullptr;
  std::shared_ptr<Scope> scope;
};

class Runtime {
 public:
  Runtime(const Limits& limits, const std::tm& now) : limits_(limits), now_(now) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const std::tm& now() const { return now_; }
  const Limits& limits() const { return limits_; }

  // Counts work against max_steps.
  void charge(std::uint64_t steps = 1) {
    if (steps > limits_.max_steps - steps_used_) out_of_steps();
    steps_used_ += steps;
  }

  TextBuilder builder() const { return TextBuilder(limits_.max_text_bytes); }
  Value text(TextBuilder&& builder, bool markup = false);
  Value text(std::string_view template_bytes);
  // Bytes `range` of `whole`, with their marks.
  Value subtext(const Text& whole, TextRange range);
  Value list(std::vector<Value> items, ListKind kind = ListKind::kList);
  Value tuple(std::vector<Value> items) { return list(std::move(items), ListKind::kTuple); }
  // Later items replace earlier ones of an equal key. Fails if a key cannot be one.
  Value dict(std::vector<std::pair<Value, Value>> items);
  // The same, for keys known to be different strings.
  Value dict_of_distinct(std::vector<std::pair<Value, Value>> items);
  Value method(std::string_view name, Builtin function, const Value& self);

  // These live until the run ends: they may refer to each other in circles.
  Namespace* new_namespace();
  Macro* new_macro(const MacroNode* node, std::shared_ptr<Scope> scope);
  Loop* new_loop(std::shared_ptr<const List> items);

 private:
  friend class DepthGuard;
  [[noreturn]] void out_of_steps() const;
  int checked_depth(int depth_of_items) const;

  const Limits limits_;
  const std::tm now_;
  std::uint64_t steps_used_ = 0;
  int depth_ = 0;
  std::deque<Namespace> namespaces_;
  std::deque<Macro> macros_;
  std::deque<Loop> loops_;
};

// Held while one evaluation runs inside another.
class DepthGuard {
 public:
  explicit DepthGuard(Runtime& runtime) : runtime_(runtime) {
    if (runtime_.depth_ >= runtime_.limits_.max_depth)
      throw Failure(fmt::format("nested too deeply (limit {}): does a macro call itself forever?",
                                runtime_.limits_.max_depth));
    ++runtime_.depth_;
  }
  ~DepthGuard() { --runtime_.depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Runtime& runtime_;
};

}  // namespace fasteep::jinja
