#include "text/jinja_value.h"

namespace fasteep::jinja {

namespace {
template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;
}  // namespace

Value Value::undefined(std::string reason) {
  return Undefined{std::make_shared<const std::string>(std::move(reason))};
}

Int Value::as_int() const {
  if (const bool* truth = get<bool>()) return *truth ? 1 : 0;
  return *get<Int>();
}

double Value::as_double() const {
  if (const double* number = get<double>()) return *number;
  return static_cast<double>(as_int());
}

bool Value::truth() const {
  return std::visit(
      Overloaded{[](const Undefined&) { return false; }, [](const None&) { return false; },
                 [](bool truth) { return truth; }, [](const Int& n) { return n != 0; },
                 [](double number) { return number != 0; },
                 [](const std::shared_ptr<const Text>& text) { return !text->bytes.empty(); },
                 [](const std::shared_ptr<const List>& list) {
                   return list->kind == ListKind::kLazy || !list->items.empty();
                 },
                 [](const std::shared_ptr<const Dict>& dict) { return !dict->items.empty(); },
                 [](const auto&) { return true; }},
      v_);
}

int Value::depth() const {
  if (const List* items = list()) return items->depth;
  if (const Dict* items = dict()) return items->depth;
  if (const Bound* method = bound()) return 1 + method->self.depth();
  return 0;
}

std::string_view Value::type_name() const {
  return std::visit(
      Overloaded{[](const Undefined&) { return "Undefined"; },
                 [](const None&) { return "NoneType"; }, [](bool) { return "bool"; },
                 [](const Int&) { return "int"; }, [](double) { return "float"; },
                 [](const std::shared_ptr<const Text>&) { return "str"; },
                 [](const std::shared_ptr<const List>& list) {
                   if (list->kind == ListKind::kLazy) return "generator";
                   return list->kind == ListKind::kTuple ? "tuple" : "list";
                 },
                 [](const std::shared_ptr<const Dict>&) { return "dict"; },
                 [](const std::shared_ptr<const Bound>&) { return "function"; },
                 [](Namespace*) { return "Namespace"; }, [](const Macro*) { return "Macro"; },
                 [](Loop*) { return "LoopContext"; }},
      v_);
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [k, value] : items) {
    if (const Text* text = k.text(); text && text->bytes == key) return &value;
  }
  return nullptr;
}

Value* Namespace::find(std::string_view name) {
  for (auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  if (Value* old = find(name)) {
    *old = std::move(value);
  } else {
    attributes.emplace_back(name, std::move(value));
  }
}

}  // namespace fasteep::jinja
