// Filters on lists, and on what a for loop could go over.
#include <algorithm>

#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_ops.h"

namespace fasteep::jinja {

namespace {
// "a.b.0" of an item, as the `attribute` argument names it; the item itself without one.
Value attribute_of(Runtime& runtime, const Value& item, const Value* path) {
  if (!path || path->is_none()) return item;
  const Text* text = path->text();
  if (!text) return get_item(runtime, item, *path);
  Value value = item;
  std::string_view rest = text->bytes;
  while (!rest.empty()) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view name = rest.substr(0, dot);
    const bool is_index = name.find_first_not_of("0123456789") == name.npos && name.size() < 10;
    const Value key =
        is_index && !name.empty() ? Value(std::stoi(std::string(name))) : runtime.text(name);
    value = get_item(runtime, value, key);
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  return value;
}

// What sort, unique, min and max compare: the attribute, in lower case unless told otherwise.
Value sort_key(Runtime& runtime, const Value& item, const Value* attribute, bool case_sensitive) {
  const Value key = attribute_of(runtime, item, attribute);
  if (case_sensitive || !key.text()) return key;
  return find_text_method("lower")(runtime, key, {});
}

Value list_filter(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("list", {});
  return runtime.list(iterate(runtime, self)->items);
}

Value join(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("join", {"d", "attribute"});
  const auto list = iterate(runtime, self);
  TextBuilder out = runtime.builder();
  for (std::size_t i = 0; i < list->items.size(); ++i) {
    runtime.charge();
    if (i > 0 && bound[0]) append_text(runtime, out, *bound[0]);
    append_text(runtime, out, attribute_of(runtime, list->items[i], bound[1]));
  }
  return runtime.text(std::move(out));
}

Value first(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("first", {});
  const auto list = iterate(runtime, self);
  return list->items.empty() ? Value::undefined("No first item, sequence was empty.")
                             : list->items.front();
}

Value last(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("last", {});
  const auto list = iterate(runtime, self);
  return list->items.empty() ? Value::undefined("No last item, sequence was empty.")
                             : list->items.back();
}

Value reverse(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("reverse", {});
  if (self.text()) return slice(runtime, self, {}, {}, -1);
  const auto list = iterate(runtime, self);
  return runtime.list({list->items.rbegin(), list->items.rend()}, ListKind::kLazy);
}

Value sort(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("sort", {"reverse", "case_sensitive", "attribute"});
  const bool reversed = flag_argument(bound[0], false);
  std::vector<std::pair<Value, Value>> keyed;
  const auto all = iterate(runtime, self);
  for (const Value& item : all->items) {
    keyed.emplace_back(sort_key(runtime, item, bound[2], flag_argument(bound[1], false)), item);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reversed ? less(runtime, b.first, a.first) : less(runtime, a.first, b.first);
  });
  std::vector<Value> items;
  for (auto& item : keyed) items.push_back(std::move(item.second));
  return runtime.list(std::move(items));
}

Value dictsort(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("dictsort", {"case_sensitive", "by", "reverse"});
  require_defined(self);
  if (!self.dict()) throw Failure(fmt::format("dictsort() needs a dict, got {}", self.type_name()));
  const bool by_value = bound[1] && text_argument(bound[1], "dictsort").bytes == "value";
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict()->items) pairs.push_back(runtime.tuple({key, value}));
  Args order;
  order.keyword = {{"attribute", Value(by_value ? 1 : 0)},
                   {"case_sensitive", flag_argument(bound[0], false)},
                   {"reverse", flag_argument(bound[2], false)}};
  return sort(runtime, runtime.list(std::move(pairs)), order);
}

Value unique(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("unique", {"case_sensitive", "attribute"});
  std::vector<Value> seen;
  std::vector<Value> items;
  const auto all = iterate(runtime, self);
  for (const Value& item : all->items) {
    const Value key = sort_key(runtime, item, bound[1], flag_argument(bound[0], false));
    if (std::any_of(seen.begin(), seen.end(),
                    [&](const Value& old) { return equal(runtime, old, key); }))
      continue;
    seen.push_back(key);
    items.push_back(item);
  }
  return runtime.list(std::move(items), ListKind::kLazy);
}

Value extreme(Runtime& runtime, const Value& self, const Args& args, bool largest) {
  const auto bound = args.bind(largest ? "max" : "min", {"case_sensitive", "attribute"});
  const auto list = iterate(runtime, self);
  if (list->items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key = [&](const Value& item) {
    return sort_key(runtime, item, bound[1], flag_argument(bound[0], false));
  };
  Value best = list->items[0];
  Value best_key = key(best);
  for (const Value& item : list->items) {
    Value item_key = key(item);
    if (!(largest ? less(runtime, best_key, item_key) : less(runtime, item_key, best_key)))
      continue;
    best = item;
    best_key = std::move(item_key);
  }
  return best;
}
Value min(Runtime& r, const Value& self, const Args& args) { return extreme(r, self, args, false); }
Value max(Runtime& r, const Value& self, const Args& args) { return extreme(r, self, args, true); }

Value sum(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("sum", {"attribute", "start"});
  Value total = bound[1] ? *bound[1] : Value(0);
  const auto all = iterate(runtime, self);
  for (const Value& item : all->items) {
    runtime.charge();
    total = binary(runtime, BinaryOp::kAdd, total, attribute_of(runtime, item, bound[0]));
  }
  return total;
}

Value items(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("items", {});
  if (!self.dict() && !self.is_undefined())
    throw Failure("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  if (const Dict* dict = self.dict()) {
    for (const auto& [key, value] : dict->items) pairs.push_back(runtime.tuple({key, value}));
  }
  return runtime.list(std::move(pairs), ListKind::kLazy);
}

Value batch(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("batch", {"linecount", "fill_with"});
  const Int size = int_argument(bound[0], 0);
  if (size < 1) throw Failure("batch() needs a size of at least 1");
  std::vector<Value> batches;
  std::vector<Value> current;
  const auto all = iterate(runtime, self);
  for (const Value& item : all->items) {
    if (static_cast<Int>(current.size()) == size) {
      batches.push_back(runtime.list(std::exchange(current, {})));
    }
    current.push_back(item);
  }
  while (bound[1] && !bound[1]->is_none() && !current.empty() &&
         static_cast<Int>(current.size()) < size) {
    runtime.charge();
    current.push_back(*bound[1]);
  }
  if (!current.empty()) batches.push_back(runtime.list(std::move(current)));
  return runtime.list(std::move(batches), ListKind::kLazy);
}

// The arguments after the first `count` positional ones.
Args rest_of(const Args& args, std::size_t count) {
  Args rest;
  rest.keyword = args.keyword;
  for (std::size_t i = count; i < args.positional.size(); ++i) {
    rest.positional.push_back(args.positional[i]);
  }
  return rest;
}

Value map_attribute(Runtime& runtime, const Value& self, const Args& args) {
  if (!self.truth()) return runtime.list({}, ListKind::kLazy);
  const auto bound = args.bind("map", {"attribute", "default"});
  std::vector<Value> mapped;
  const auto all = iterate(runtime, self);
  for (const Value& item : all->items) {
    Value value = attribute_of(runtime, item, bound[0]);
    mapped.push_back(value.is_undefined() && bound[1] ? *bound[1] : std::move(value));
  }
  return runtime.list(std::move(mapped), ListKind::kLazy);
}

Value map(Runtime& runtime, const Value& self, const Args& args) {
  if (args.positional.empty()) {
    if (!args.find_keyword("attribute")) throw Failure("map() needs a filter or an attribute");
    return map_attribute(runtime, self, args);
  }
  const std::string& name = text_argument(&args.positional[0], "map").bytes;
  const Builtin filter = find_filter(name);
  if (!self.truth()) return runtime.list({}, ListKind::kLazy);  // also none and 0
  if (!filter) throw Failure(fmt::format("No filter named '{}'.", name));
  const DepthGuard depth(runtime);
  const Args rest = rest_of(args, 1);
  std::vector<Value> mapped;
  const auto all = iterate(runtime, self);
  for (const Value& item : all->items) {
    runtime.charge();
    mapped.push_back(filter(runtime, item, rest));
  }
  return runtime.list(std::move(mapped), ListKind::kLazy);
}

// select, reject and their ...attr forms: keeps the items whose test gives `wanted`.
Value choose(Runtime& runtime, const Value& self, const Args& args, bool by_attribute,
             bool wanted) {
  const std::size_t skipped = by_attribute ? 1 : 0;
  if (args.positional.size() < skipped) throw Failure("selectattr() needs an attribute");
  if (!self.truth()) return runtime.list({}, ListKind::kLazy);  // also none and 0
  const Value* attribute = by_attribute ? &args.positional[0] : nullptr;
  Builtin test = nullptr;
  if (args.positional.size() > skipped) {
    const std::string& name = text_argument(&args.positional[skipped], "select").bytes;
    test = find_test(name);
    if (!test) throw Failure(fmt::format("No test named '{}'.", name));
  }
  const Args rest = rest_of(args, skipped + 1);
  std::vector<Value> kept;
  const auto all = iterate(runtime, self);
  for (const Value& item : all->items) {
    runtime.charge();
    const Value value = attribute_of(runtime, item, attribute);
    const bool passes = test ? test(runtime, value, rest).truth() : value.truth();
    if (passes == wanted) kept.push_back(item);
  }
  return runtime.list(std::move(kept), ListKind::kLazy);
}
Value select(Runtime& r, const Value& s, const Args& a) { return choose(r, s, a, false, true); }
Value reject(Runtime& r, const Value& s, const Args& a) { return choose(r, s, a, false, false); }
Value selectattr(Runtime& r, const Value& s, const Args& a) { return choose(r, s, a, true, true); }
Value rejectattr(Runtime& r, const Value& s, const Args& a) { return choose(r, s, a, true, false); }

constexpr BuiltinEntry kSequenceFilters[] = {{"list", list_filter},
                                             {"join", join},
                                             {"first", first},
                                             {"last", last},
                                             {"reverse", reverse},
                                             {"sort", sort},
                                             {"dictsort", dictsort},
                                             {"unique", unique},
                                             {"min", min},
                                             {"max", max},
                                             {"sum", sum},
                                             {"items", items},
                                             {"batch", batch},
                                             {"map", map},
                                             {"select", select},
                                             {"reject", reject},
                                             {"selectattr", selectattr},
                                             {"rejectattr", rejectattr}};
}  // namespace

Builtin find_sequence_filter(std::string_view name) { return find_builtin(kSequenceFilters, name); }

}  // namespace fasteep::jinja
