// Attributes and methods of values other than strings, and the global functions.
#include <algorithm>

#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_ops.h"

namespace fasteep::jinja {

namespace {
Value dict_items(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("items", {});
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict()->items) pairs.push_back(runtime.tuple({key, value}));
  return runtime.list(std::move(pairs));
}

Value dict_keys(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("keys", {});
  return iterate(runtime, self);
}

Value dict_values(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("values", {});
  std::vector<Value> values;
  for (const auto& item : self.dict()->items) values.push_back(item.second);
  return runtime.list(std::move(values));
}

Value dict_get(Runtime& runtime, const Value& self, const Args& args) {
  const auto bound = args.bind("get", {"key", "default"});
  if (!bound[0]) throw Failure("get() needs a key");
  require_hashable(*bound[0]);
  for (const auto& [key, value] : self.dict()->items) {
    if (equal(runtime, key, *bound[0])) return value;
  }
  return bound[1] ? *bound[1] : Value(None{});
}

Value copy(Runtime&, const Value& self, const Args& args) {
  args.bind("copy", {});
  return self;  // nothing can change it
}

Value list_index(Runtime& runtime, const Value& self, const Args& args) {
  const Value* wanted = args.bind("index", {"value"})[0];
  const auto& items = self.list()->items;
  for (std::size_t i = 0; wanted && i < items.size(); ++i) {
    if (equal(runtime, items[i], *wanted)) return i;
  }
  throw Failure("index(): the value is not in the list");
}

Value list_count(Runtime& runtime, const Value& self, const Args& args) {
  const Value* wanted = args.bind("count", {"value"})[0];
  if (!wanted) throw Failure("count() needs a value");
  const auto& items = self.list()->items;
  return static_cast<std::size_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return equal(runtime, item, *wanted);
  }));
}

constexpr BuiltinEntry kDictMethods[] = {{"items", dict_items},
                                         {"keys", dict_keys},
                                         {"values", dict_values},
                                         {"get", dict_get},
                                         {"copy", copy}};
constexpr BuiltinEntry kListMethods[] = {
    {"index", list_index}, {"count", list_count}, {"copy", copy}};

// What the sandbox of the reference refuses.
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListMutators[] = {"append", "clear",  "extend",  "insert",
                                              "pop",    "remove", "reverse", "sort"};

bool find_method(Runtime& runtime, const Value& value, std::string_view name,
                 std::span<const BuiltinEntry> methods, std::span<const std::string_view> mutators,
                 Value& found) {
  if (const Builtin function = find_builtin(methods, name)) {
    found = runtime.method(name, function, value);
    return true;
  }
  if (std::find(mutators.begin(), mutators.end(), name) == mutators.end()) return false;
  found = Value::undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, value.type_name()));
  return true;
}

Value loop_cycle(Runtime&, const Value& self, const Args& args) {
  if (args.positional.empty()) throw Failure("no items for cycling given");
  return args.positional[self.loop()->index0 % args.positional.size()];
}

Value loop_changed(Runtime& runtime, const Value& self, const Args& args) {
  Loop& loop = *self.loop();
  const auto& now = args.positional;
  const bool same =
      loop.has_changed && now.size() == loop.last_changed.size() &&
      std::equal(now.begin(), now.end(), loop.last_changed.begin(),
                 [&](const Value& a, const Value& b) { return equal(runtime, a, b); });
  loop.has_changed = true;
  loop.last_changed = now;
  return !same;
}

bool find_loop_attribute(Runtime& runtime, const Value& value, std::string_view name,
                         Value& found) {
  const Loop& loop = *value.loop();
  const std::size_t size = loop.items->items.size();
  const std::size_t i = loop.index0;
  if (name == "index")
    found = i + 1;
  else if (name == "index0")
    found = i;
  else if (name == "revindex")
    found = size - i;
  else if (name == "revindex0")
    found = size - i - 1;
  else if (name == "first")
    found = i == 0;
  else if (name == "last")
    found = i + 1 == size;
  else if (name == "length")
    found = size;
  else if (name == "depth")
    found = 1;
  else if (name == "depth0")
    found = 0;
  else if (name == "previtem")
    found = i > 0 ? loop.items->items[i - 1] : Value::undefined("there is no previous item");
  else if (name == "nextitem")
    found = i + 1 < size ? loop.items->items[i + 1] : Value::undefined("there is no next item");
  else if (name == "cycle")
    found = runtime.method(name, loop_cycle, value);
  else if (name == "changed")
    found = runtime.method(name, loop_changed, value);
  else
    return false;
  return true;
}
}  // namespace

bool find_attribute(Runtime& runtime, const Value& value, std::string_view name, Value& found) {
  if (value.text()) {
    const Builtin function = find_text_method(name);
    if (function) found = runtime.method(name, function, value);
    return function != nullptr;
  }
  if (value.dict()) return find_method(runtime, value, name, kDictMethods, kDictMutators, found);
  if (const List* list = value.list(); list && list->kind != ListKind::kLazy)
    return find_method(runtime, value, name, kListMethods, kListMutators, found);
  if (value.loop()) return find_loop_attribute(runtime, value, name, found);
  if (Namespace* names = value.names()) {
    runtime.charge(names->attributes.size() / 32);
    const Value* attribute = names->find(name);
    if (attribute) found = *attribute;
    return attribute != nullptr;
  }
  return false;
}

namespace {
Value range(Runtime& runtime, const Value&, const Args& args) {
  const auto bound = args.bind("range", {"start", "stop", "step"});
  if (!bound[0]) throw Failure("range() needs a number");
  const Int first = int_argument(bound[0], 0);
  Int at = bound[1] ? first : 0;
  const Int stop = bound[1] ? int_argument(bound[1], 0) : first;
  const Int step = int_argument(bound[2], 1);
  if (step == 0) throw Failure("range() arg 3 must not be zero");
  constexpr std::size_t kMaxRange = 100'000;  // the reference's
  std::vector<Value> items;
  while (step > 0 ? at < stop : at > stop) {
    if (items.size() == kMaxRange)
      throw Failure(fmt::format("range() has more than {} items", kMaxRange));
    items.push_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return runtime.list(std::move(items));
}

Value make_namespace(Runtime& runtime, const Value&, const Args& args) {
  Namespace* names = runtime.new_namespace();
  for (const Value& argument : args.positional) {
    const Dict* dict = argument.dict();
    if (!dict) throw Failure("namespace() takes keyword arguments or a dict");
    for (const auto& [key, value] : dict->items) {
      runtime.charge(names->attributes.size() / 32);
      names->set(text_argument(&key, "namespace").bytes, value);
    }
  }
  for (const auto& [name, value] : args.keyword) names->set(name, value);
  return names;
}

Value make_dict(Runtime& runtime, const Value&, const Args& args) {
  std::vector<std::pair<Value, Value>> items;
  for (const Value& argument : args.positional) {
    if (!argument.dict()) throw Failure("dict() takes keyword arguments or a dict");
    items = argument.dict()->items;
  }
  for (const auto& [name, value] : args.keyword) items.emplace_back(runtime.text(name), value);
  return runtime.dict(std::move(items));
}

Value raise_exception(Runtime& runtime, const Value&, const Args& args) {
  const Value* message = args.bind("raise_exception", {"message"})[0];
  if (!message) throw Failure("raise_exception() needs a message");
  throw Raised(to_text(runtime, *message).text()->bytes);
}

// A format of plain conversions only: a width could ask for any amount of memory.
Value strftime_now(Runtime& runtime, const Value&, const Args& args) {
  const auto& format =
      text_argument(args.bind("strftime_now", {"format"})[0], "strftime_now").bytes;
  for (std::size_t at = format.find('%'); at != std::string::npos; at = format.find('%', at + 2)) {
    if (at + 1 < format.size() && format[at + 1] == '-') ++at;
    static constexpr std::string_view kConversions = "aAbBcdDeFHIjklmMnpPrRsStTuUwWxXyYzZ%";
    if (at + 1 >= format.size() || kConversions.find(format[at + 1]) == std::string_view::npos)
      throw Failure(fmt::format("strftime_now('{}') holds an unknown conversion", format));
  }
  char buffer[4096];
  // The extra character tells an empty result from one that does not fit.
  const std::size_t size =
      std::strftime(buffer, sizeof buffer, (format + ".").c_str(), &runtime.now());
  if (size == 0) throw Failure("strftime_now(): the result is too long");
  return runtime.text(std::string_view(buffer, size - 1));
}

constexpr BuiltinEntry kFunctions[] = {{"range", range},
                                       {"namespace", make_namespace},
                                       {"dict", make_dict},
                                       {"raise_exception", raise_exception},
                                       {"strftime_now", strftime_now}};
}  // namespace

Builtin find_function(std::string_view name) { return find_builtin(kFunctions, name); }

}  // namespace fasteep::jinja
