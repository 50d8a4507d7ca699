#pragma once
// The values of a template run. As in the reference, "undefined" (a missing name, key or index) is
// not "none"; lists and dicts never change once made; a namespace is shared by all who hold it.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_text.h"

namespace fasteep::jinja {

class Runtime;
class Value;
struct Args;
struct List;
struct Dict;
struct Bound;
struct Namespace;
struct Macro;
struct Loop;

// Wide enough for every 64-bit integer of a JSON document, signed or not; overflow is an error.
__extension__ using Int = __int128;

// A filter, test, method or global function. `self` is the filtered value or the method's object.
using Builtin = Value (*)(Runtime& runtime, const Value& self, const Args& args);

struct Undefined {
  std::shared_ptr<const std::string> reason;  // what is missing, for the error when it is used
};
struct None {};

class Value {
 public:
  Value() = default;
  Value(Undefined undefined) : v_(std::move(undefined)) {}
  Value(None none) : v_(none) {}
  Value(bool truth) : v_(truth) {}
  Value(Int number) : v_(number) {}
  Value(int number) : v_(Int{number}) {}
  Value(std::size_t number) : v_(static_cast<Int>(number)) {}
  Value(double number) : v_(number) {}
  Value(std::shared_ptr<const Text> text) : v_(std::move(text)) {}
  Value(std::shared_ptr<const List> list) : v_(std::move(list)) {}
  Value(std::shared_ptr<const Dict> dict) : v_(std::move(dict)) {}
  Value(std::shared_ptr<const Bound> bound) : v_(std::move(bound)) {}
  Value(Namespace* names) : v_(names) {}
  Value(const Macro* macro) : v_(macro) {}
  Value(Loop* loop) : v_(loop) {}
  Value(const void*) = delete;  // a pointer is not a truth value

  static Value undefined(std::string reason);

  template <class T>
  const T* get() const {
    return std::get_if<T>(&v_);
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  // Null if the value is of another type.
  const Text* text() const { return object<Text>(); }
  const List* list() const { return object<List>(); }
  const Dict* dict() const { return object<Dict>(); }
  const Bound* bound() const { return object<Bound>(); }
  Namespace* names() const { return get<Namespace*>() ? *get<Namespace*>() : nullptr; }
  const Macro* macro() const { return get<const Macro*>() ? *get<const Macro*>() : nullptr; }
  Loop* loop() const { return get<Loop*>() ? *get<Loop*>() : nullptr; }
  bool is_number() const { return get<bool>() || get<Int>() || get<double>(); }
  // Booleans count as integers, as in Python.
  bool is_integral() const { return get<bool>() || get<Int>(); }
  Int as_int() const;        // of an integral value
  double as_double() const;  // of a number

  bool truth() const;
  // Levels of lists, dicts and methods below this value. Bounded, so that walks may recurse.
  int depth() const;
  // Python's name of the type: "str", "NoneType".
  std::string_view type_name() const;

 private:
  template <class T>
  const T* object() const {
    const auto* pointer = get<std::shared_ptr<const T>>();
    return pointer ? pointer->get() : nullptr;
  }

  std::variant<Undefined, None, bool, Int, double, std::shared_ptr<const Text>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>,
               std::shared_ptr<const Bound>, Namespace*, const Macro*, Loop*>
      v_;
};

// kLazy is what the reference's map, select and the like return: always true, without a length,
// not to be indexed.
enum class ListKind { kList, kTuple, kLazy };

struct List {
  std::vector<Value> items;
  ListKind kind = ListKind::kList;
  int depth = 1;
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in order of insertion
  int depth = 1;

  // The value of a string key, or null.
  const Value* find(std::string_view key) const;
};

// A function, with its object if it is a method.
struct Bound {
  std::string name;
  Builtin function;
  Value self;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;

  Value* find(std::string_view name);
  void set(std::string_view name, Value value);
};

// What `loop` is inside a for block.
struct Loop {
  std::shared_ptr<const List> items;
  std::size_t index0 = 0;
  std::vector<Value> last_changed;  // arguments of the last loop.changed()
  bool has_changed = false;
};

}  // namespace fasteep::jinja
