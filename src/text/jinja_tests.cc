// What stands behind `is`.
#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_ops.h"

namespace fasteep::jinja {

namespace {
template <bool (*kTest)(const Value&)>
Value on_value(Runtime&, const Value& self, const Args& args) {
  args.bind("a test", {});
  return kTest(self);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.get<bool>() != nullptr; }
bool is_true(const Value& v) { return v.get<bool>() && *v.get<bool>(); }
bool is_false(const Value& v) { return v.get<bool>() && !*v.get<bool>(); }
bool is_integer(const Value& v) { return v.get<Int>() != nullptr; }
bool is_float(const Value& v) { return v.get<double>() != nullptr; }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.text() != nullptr; }
bool is_mapping(const Value& v) { return v.dict() != nullptr; }
bool is_sequence(const Value& v) {
  return is_iterable(v) && !(v.list() && v.list()->kind == ListKind::kLazy);
}
bool is_callable(const Value& v) { return v.bound() || v.macro() || v.is_undefined(); }
bool is_escaped(const Value& v) { return v.text() && v.text()->markup; }

const Value& only_argument(const Args& args, std::string_view test) {
  const Value* argument = args.bind(test, {"other"})[0];
  if (!argument) throw Failure(fmt::format("the test '{}' needs an argument", test));
  return *argument;
}

Int remainder(Runtime& runtime, const Value& self, const Value& divisor) {
  const Value rest = binary(runtime, BinaryOp::kModulo, self, divisor);
  if (!rest.is_number()) throw Failure("only numbers are odd, even or divisible");
  return rest.as_double() == 0 ? 0 : rest.as_double() == 1 ? 1 : 2;
}

Value odd(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("odd", {});
  return remainder(runtime, self, 2) == 1;
}
Value even(Runtime& runtime, const Value& self, const Args& args) {
  args.bind("even", {});
  return remainder(runtime, self, 2) == 0;
}
Value divisible_by(Runtime& runtime, const Value& self, const Args& args) {
  return remainder(runtime, self, only_argument(args, "divisibleby")) == 0;
}

Value equal_to(Runtime& runtime, const Value& self, const Args& args) {
  return equal(runtime, self, only_argument(args, "eq"));
}
Value not_equal(Runtime& runtime, const Value& self, const Args& args) {
  return !equal(runtime, self, only_argument(args, "ne"));
}
Value less_than(Runtime& runtime, const Value& self, const Args& args) {
  return less(runtime, self, only_argument(args, "lt"));
}
Value greater_than(Runtime& runtime, const Value& self, const Args& args) {
  return less(runtime, only_argument(args, "gt"), self);
}
Value at_most(Runtime& runtime, const Value& self, const Args& args) {
  const Value& other = only_argument(args, "le");
  return less(runtime, self, other) || equal(runtime, self, other);
}
Value at_least(Runtime& runtime, const Value& self, const Args& args) {
  const Value& other = only_argument(args, "ge");
  return less(runtime, other, self) || equal(runtime, self, other);
}
Value in(Runtime& runtime, const Value& self, const Args& args) {
  return contains(runtime, only_argument(args, "in"), self);
}

// Identity: of the same type and equal for what cannot change, the same object otherwise.
Value same_as(Runtime& runtime, const Value& self, const Args& args) {
  const Value& other = only_argument(args, "sameas");
  if (self.list() || self.dict()) return self.list() == other.list() && self.dict() == other.dict();
  return self.type_name() == other.type_name() && equal(runtime, self, other);
}

Value lower_case(Runtime& runtime, const Value& self, const Args& args) {
  return find_text_method("islower")(runtime, to_text(runtime, self), args);
}
Value upper_case(Runtime& runtime, const Value& self, const Args& args) {
  return find_text_method("isupper")(runtime, to_text(runtime, self), args);
}
Value is_filter(Runtime&, const Value& self, const Args&) {
  return self.text() && find_filter(self.text()->bytes) != nullptr;
}
Value is_test(Runtime&, const Value& self, const Args&) {
  return self.text() && find_test(self.text()->bytes) != nullptr;
}

constexpr BuiltinEntry kTests[] = {
    {"defined", on_value<is_defined>},
    {"undefined", on_value<is_undefined>},
    {"none", on_value<is_none>},
    {"boolean", on_value<is_boolean>},
    {"true", on_value<is_true>},
    {"false", on_value<is_false>},
    {"integer", on_value<is_integer>},
    {"float", on_value<is_float>},
    {"number", on_value<is_number>},
    {"string", on_value<is_string>},
    {"mapping", on_value<is_mapping>},
    {"iterable", on_value<is_iterable>},
    {"sequence", on_value<is_sequence>},
    {"callable", on_value<is_callable>},
    {"escaped", on_value<is_escaped>},
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisible_by},
    {"eq", equal_to},
    {"equalto", equal_to},
    {"==", equal_to},
    {"ne", not_equal},
    {"!=", not_equal},
    {"lt", less_than},
    {"lessthan", less_than},
    {"<", less_than},
    {"gt", greater_than},
    {"greaterthan", greater_than},
    {">", greater_than},
    {"le", at_most},
    {"<=", at_most},
    {"ge", at_least},
    {">=", at_least},
    {"in", in},
    {"sameas", same_as},
    {"lower", lower_case},
    {"upper", upper_case},
    {"filter", is_filter},
    {"test", is_test},
};
}  // namespace

Builtin find_test(std::string_view name) { return find_builtin(kTests, name); }

}  // namespace fasteep::jinja
