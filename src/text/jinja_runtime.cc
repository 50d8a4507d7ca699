#include "text/jinja_runtime.h"

#include <algorithm>

#include "text/jinja_ops.h"

namespace fasteep::jinja {

std::vector<const Value*> Args::bind(std::string_view function,
                                     std::initializer_list<std::string_view> parameters) const {
  if (positional.size() > parameters.size())
    throw Failure(fmt::format("{}() takes at most {} argument(s), got {}", function,
                              parameters.size(), positional.size()));
  std::vector<const Value*> bound(parameters.size(), nullptr);
  for (std::size_t i = 0; i < positional.size(); ++i) bound[i] = &positional[i];
  for (const auto& [name, value] : keyword) {
    const auto* found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end())
      throw Failure(fmt::format("{}() has no argument named '{}'", function, name));
    const Value*& slot = bound[static_cast<std::size_t>(found - parameters.begin())];
    if (slot) throw Failure(fmt::format("{}() got '{}' twice", function, name));
    slot = &value;
  }
  return bound;
}

const Value* Args::find_keyword(std::string_view name) const {
  for (const auto& [key, value] : keyword) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Value* Scope::find(Runtime& runtime, std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->parent.get()) {
    runtime.charge(scope->variables.size() / 32);
    for (const auto& [key, value] : scope->variables) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::set(Runtime& runtime, std::string_view name, Value value) {
  runtime.charge(variables.size() / 32);
  for (auto& [key, old] : variables) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

void Runtime::out_of_steps() const {
  throw Failure(
      fmt::format("too much work for one prompt (limit {} steps): send fewer or shorter "
                  "messages, or simplify the template",
                  limits_.max_steps));
}

int Runtime::checked_depth(int depth_of_items) const {
  if (depth_of_items >= limits_.max_value_depth)
    throw Failure(fmt::format("a value is nested more than {} levels", limits_.max_value_depth));
  return depth_of_items + 1;
}

Value Runtime::text(TextBuilder&& builder, bool markup) {
  charge(1 + builder.size() / 64);
  auto text = std::make_shared<Text>(builder.take());
  text->markup = markup;
  return std::shared_ptr<const Text>(std::move(text));
}

Value Runtime::text(std::string_view template_bytes) {
  TextBuilder out = builder();
  out.append(template_bytes);
  return text(std::move(out));
}

Value Runtime::subtext(const Text& whole, TextRange range) {
  TextBuilder out = builder();
  out.append(whole, range.begin, range.end);
  return text(std::move(out), whole.markup);
}

Value Runtime::list(std::vector<Value> items, ListKind kind) {
  charge(1 + items.size());
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return std::make_shared<const List>(List{std::move(items), kind, checked_depth(depth)});
}

Value Runtime::dict(std::vector<std::pair<Value, Value>> items) {
  std::vector<std::pair<Value, Value>> distinct;
  for (auto& item : items) {
    Value& key = item.first;  // no structured binding: clang 14 captures none
    Value& value = item.second;
    require_hashable(key);
    auto same = std::find_if(distinct.begin(), distinct.end(),
                             [&](const auto& old) { return equal(*this, old.first, key); });
    if (same == distinct.end()) {
      distinct.emplace_back(std::move(key), std::move(value));
    } else {
      same->second = std::move(value);
    }
  }
  return dict_of_distinct(std::move(distinct));
}

Value Runtime::dict_of_distinct(std::vector<std::pair<Value, Value>> items) {
  charge(1 + items.size());
  int depth = 0;
  for (const auto& [key, value] : items) depth = std::max({depth, key.depth(), value.depth()});
  return std::make_shared<const Dict>(Dict{std::move(items), checked_depth(depth)});
}

Value Runtime::method(std::string_view name, Builtin function, const Value& self) {
  checked_depth(self.depth());
  return std::make_shared<const Bound>(Bound{std::string(name), function, self});
}

Namespace* Runtime::new_namespace() {
  charge(8);
  return &namespaces_.emplace_back();
}

Macro* Runtime::new_macro(const MacroNode* node, std::shared_ptr<Scope> scope) {
  charge(8);
  return &macros_.emplace_back(Macro{node, std::move(scope)});
}

Loop* Runtime::new_loop(std::shared_ptr<const List> items) {
  charge(8);
  return &loops_.emplace_back(Loop{std::move(items), 0, {}, false});
}

}  // namespace fasteep::jinja
