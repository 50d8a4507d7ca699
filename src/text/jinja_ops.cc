#include "text/jinja_ops.h"

#include <algorithm>

#include "text/jinja_builtins.h"

namespace fasteep::jinja {

void require_defined(const Value& value) {
  if (const Undefined* undefined = value.get<Undefined>())
    throw Failure(undefined->reason ? *undefined->reason : "the value is undefined");
}

void require_hashable(const Value& key) {
  const List* list = key.list();
  if (key.dict() || (list && list->kind != ListKind::kTuple))
    throw Failure(fmt::format("unhashable type: '{}'", key.type_name()));
  if (list) std::for_each(list->items.begin(), list->items.end(), require_hashable);
}

namespace {
bool equal_lists(Runtime& runtime, const List& left, const List& right) {
  if (left.kind != right.kind || left.kind == ListKind::kLazy) return &left == &right;
  if (left.items.size() != right.items.size()) return false;
  for (std::size_t i = 0; i < left.items.size(); ++i) {
    if (!equal(runtime, left.items[i], right.items[i])) return false;
  }
  return true;
}

const Value* find_key(Runtime& runtime, const Dict& dict, const Value& key) {
  if (const Text* text = key.text()) {
    runtime.charge(dict.items.size() / 32);
    return dict.find(text->bytes);
  }
  for (const auto& [k, value] : dict.items) {
    if (equal(runtime, k, key)) return &value;
  }
  return nullptr;
}

bool equal_dicts(Runtime& runtime, const Dict& left, const Dict& right) {
  if (left.items.size() != right.items.size()) return false;
  for (const auto& [key, value] : left.items) {
    const Value* other = find_key(runtime, right, key);
    if (!other || !equal(runtime, value, *other)) return false;
  }
  return true;
}
}  // namespace

bool equal(Runtime& runtime, const Value& left, const Value& right) {
  runtime.charge();
  if (left.is_integral() && right.is_integral()) return left.as_int() == right.as_int();
  if (left.is_number() && right.is_number()) return left.as_double() == right.as_double();
  if (const Text* text = left.text()) {
    const Text* other = right.text();
    if (other) runtime.charge(text->bytes.size() / 64);
    return other && text->bytes == other->bytes;
  }
  if (left.list() && right.list()) return equal_lists(runtime, *left.list(), *right.list());
  if (left.dict() && right.dict()) return equal_dicts(runtime, *left.dict(), *right.dict());
  if (left.names()) return left.names() == right.names();
  if (left.macro()) return left.macro() == right.macro();
  if (left.loop()) return left.loop() == right.loop();
  if (left.bound() && right.bound()) return left.bound() == right.bound();
  return (left.is_none() && right.is_none()) || (left.is_undefined() && right.is_undefined());
}

bool less(Runtime& runtime, const Value& left, const Value& right) {
  runtime.charge();
  if (left.is_integral() && right.is_integral()) return left.as_int() < right.as_int();
  if (left.is_number() && right.is_number()) return left.as_double() < right.as_double();
  if (left.text() && right.text()) {
    runtime.charge(left.text()->bytes.size() / 64);
    return left.text()->bytes < right.text()->bytes;  // UTF-8 sorts as its code points do
  }
  const List* a = left.list();
  const List* b = right.list();
  if (a && b && a->kind == b->kind && a->kind != ListKind::kLazy) {
    for (std::size_t i = 0; i < std::min(a->items.size(), b->items.size()); ++i) {
      if (!equal(runtime, a->items[i], b->items[i])) return less(runtime, a->items[i], b->items[i]);
    }
    return a->items.size() < b->items.size();
  }
  require_defined(left);
  require_defined(right);
  throw Failure(fmt::format("'<' not supported between instances of '{}' and '{}'",
                            left.type_name(), right.type_name()));
}

bool contains(Runtime& runtime, const Value& haystack, const Value& needle) {
  if (const Text* text = haystack.text()) {
    const Text* part = needle.text();
    if (!part)
      throw Failure(
          fmt::format("'in <string>' requires string as left operand, not {}", needle.type_name()));
    runtime.charge(text->bytes.size() / 64);
    return text->bytes.find(part->bytes) != std::string::npos;
  }
  if (const Dict* dict = haystack.dict()) {
    require_hashable(needle);
    return find_key(runtime, *dict, needle) != nullptr;
  }
  if (!is_iterable(haystack))
    throw Failure(fmt::format("argument of type '{}' is not iterable", haystack.type_name()));
  const auto list = iterate(runtime, haystack);
  return std::any_of(list->items.begin(), list->items.end(),
                     [&](const Value& item) { return equal(runtime, item, needle); });
}

bool is_iterable(const Value& value) {
  return value.is_undefined() || value.text() || value.list() || value.dict();
}

std::shared_ptr<const List> iterate(Runtime& runtime, const Value& value) {
  if (const auto* list = value.get<std::shared_ptr<const List>>()) return *list;
  auto out = std::make_shared<List>();
  if (const Text* text = value.text()) {
    for (std::size_t at = 0; at < text->bytes.size();) {
      const std::size_t size = character_at(text->bytes, at).size_bytes;
      TextBuilder character = runtime.builder();
      character.append(*text, at, at + size);
      out->items.push_back(runtime.text(std::move(character)));
      at += size;
    }
  } else if (const Dict* dict = value.dict()) {
    runtime.charge(dict->items.size());
    for (const auto& item : dict->items) out->items.push_back(item.first);
    out->depth = dict->depth;
  } else if (!value.is_undefined()) {
    throw Failure(fmt::format("'{}' object is not iterable", value.type_name()));
  }
  return out;
}

std::size_t length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (const Text* text = value.text()) return count_characters(text->bytes);
  if (const Dict* dict = value.dict()) return dict->items.size();
  const List* list = value.list();
  if (!list || list->kind == ListKind::kLazy)
    throw Failure(fmt::format("object of type '{}' has no len()", value.type_name()));
  return list->items.size();
}

namespace {
bool index_of(const Value& key, std::size_t size, std::size_t& index) {
  if (!key.is_integral()) return false;
  Int at = key.as_int();
  if (at < 0) at += static_cast<Int>(size);
  if (at < 0 || at >= static_cast<Int>(size)) return false;
  index = static_cast<std::size_t>(at);
  return true;
}

// A part of a slice, as Python clamps it to [lowest, highest]; negative ones count from the end.
Int slice_bound(const Value& part, Int size, Int lowest, Int highest, Int missing) {
  if (part.is_undefined() || part.is_none()) return missing;
  if (!part.is_integral()) throw Failure("slice indices must be integers or None");
  Int at = part.as_int();
  if (at < 0) at += size;
  return std::clamp(at, lowest, highest);
}

std::vector<std::size_t> slice_indices(std::size_t count, const Value& start, const Value& stop,
                                       const Value& step) {
  const Int size = static_cast<Int>(count);
  const Int limit = Int{1} << 62;
  const Int by = slice_bound(step, 0, -limit, limit, 1);
  if (by == 0) throw Failure("slice step cannot be zero");
  const Int lowest = by < 0 ? -1 : 0;
  const Int highest = by < 0 ? size - 1 : size;
  Int at = slice_bound(start, size, lowest, highest, by < 0 ? highest : 0);
  const Int end = slice_bound(stop, size, lowest, highest, by < 0 ? -1 : size);
  std::vector<std::size_t> indices;
  for (; by > 0 ? at < end : at > end; at += by) indices.push_back(static_cast<std::size_t>(at));
  return indices;
}
}  // namespace

Value slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
            const Value& step) {
  if (const Text* text = value.text()) {
    runtime.charge(text->bytes.size() / 16);
    const auto offsets = character_offsets(text->bytes);
    TextBuilder out = runtime.builder();
    for (std::size_t i : slice_indices(offsets.size() - 1, start, stop, step)) {
      out.append(*text, offsets[i], offsets[i + 1]);
    }
    return runtime.text(std::move(out), text->markup);
  }
  const List* list = value.list();
  if (!list || list->kind == ListKind::kLazy) {
    require_defined(value);
    throw Failure(fmt::format("'{}' object has no slices", value.type_name()));
  }
  std::vector<Value> items;
  for (std::size_t i : slice_indices(list->items.size(), start, stop, step)) {
    items.push_back(list->items[i]);
  }
  return runtime.list(std::move(items), list->kind);
}

namespace {
Value missing_key(const Value& value, const Value& key) {
  const Text* name = key.text();
  if (name)
    return Value::undefined(
        fmt::format("'{} object' has no attribute '{}'", value.type_name(), name->bytes));
  return Value::undefined(fmt::format("'{} object' has no such element", value.type_name()));
}

// The key or index only; null if there is none.
bool find_item(Runtime& runtime, const Value& value, const Value& key, Value& found) {
  std::size_t index = 0;
  if (const Dict* dict = value.dict()) {
    if (key.list() || key.dict()) return false;
    const Value* item = find_key(runtime, *dict, key);
    if (item) found = *item;
    return item != nullptr;
  }
  if (const Text* text = value.text()) {
    if (!key.is_integral()) return false;
    runtime.charge(text->bytes.size() / 16);
    const auto offsets = character_offsets(text->bytes);
    if (!index_of(key, offsets.size() - 1, index)) return false;
    found = runtime.subtext(*text, {offsets[index], offsets[index + 1]});
    return true;
  }
  const List* list = value.list();
  if (!list || list->kind == ListKind::kLazy || !index_of(key, list->items.size(), index))
    return false;
  found = list->items[index];
  return true;
}
}  // namespace

Value get_item(Runtime& runtime, const Value& value, const Value& key) {
  require_defined(value);
  Value found;
  if (find_item(runtime, value, key, found)) return found;
  if (const Text* name = key.text()) {
    if (find_attribute(runtime, value, name->bytes, found)) return found;
  }
  return missing_key(value, key);
}

Value get_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  require_defined(value);
  Value found;
  if (find_attribute(runtime, value, name, found)) return found;
  if (const Dict* dict = value.dict()) {
    runtime.charge(dict->items.size() / 32);
    if (const Value* item = dict->find(name)) return *item;
  }
  return Value::undefined(
      fmt::format("'{} object' has no attribute '{}'", value.type_name(), name));
}

}  // namespace fasteep::jinja
