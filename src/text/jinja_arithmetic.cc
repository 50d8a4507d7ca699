#include <algorithm>
#include <cmath>

#include "text/jinja_format.h"
#include "text/jinja_ops.h"

namespace fasteep::jinja {

namespace {
constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void unsupported(BinaryOp op, const Value& left, const Value& right) {
  require_defined(left);
  require_defined(right);
  if (op == BinaryOp::kAdd && left.text())
    throw Failure(fmt::format("can only concatenate str (not \"{}\") to str", right.type_name()));
  throw Failure(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'",
                            kSymbols[static_cast<int>(op)], left.type_name(), right.type_name()));
}

[[noreturn]] void overflow() { throw Failure("an integer grows past 127 bits"); }

Int floor_divide(Int left, Int right) {
  if (right == 0) throw Failure("integer division or modulo by zero");
  if (right == -1) return *negate(left).get<Int>();
  const Int quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Int floor_modulo(Int left, Int right) {
  if (right == 0) throw Failure("integer division or modulo by zero");
  if (right == -1) return 0;
  const Int rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

double float_modulo(double left, double right) {
  if (right == 0) throw Failure("float modulo");
  const double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  return (rest < 0) != (right < 0) ? rest + right : rest;
}

Value power(const Value& left, const Value& right) {
  if (!left.is_integral() || !right.is_integral() || right.as_int() < 0) {
    if (left.as_double() == 0 && right.as_double() < 0)
      throw Failure("0 cannot be raised to a negative power");
    const double result = std::pow(left.as_double(), right.as_double());
    if (std::isnan(result)) throw Failure("the power is not a real number");
    if (std::isinf(result) && std::isfinite(left.as_double()) && std::isfinite(right.as_double()))
      throw Failure("the power is too large");
    return result;
  }
  Int base = left.as_int();
  Int result = 1;
  for (Int exponent = right.as_int(); exponent > 0; exponent >>= 1) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) overflow();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) {
      overflow();
    }
  }
  return result;
}

Value integers(BinaryOp op, const Value& left, const Value& right) {
  const Int a = left.as_int();
  const Int b = right.as_int();
  Int result = 0;
  bool overflowed = false;
  switch (op) {
    case BinaryOp::kAdd:
      overflowed = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOp::kSubtract:
      overflowed = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOp::kMultiply:
      overflowed = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOp::kFloorDivide:
      return floor_divide(a, b);
    case BinaryOp::kModulo:
      return floor_modulo(a, b);
    case BinaryOp::kPower:
      return power(left, right);
    case BinaryOp::kDivide:
      if (b == 0) throw Failure("division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
  }
  if (overflowed) overflow();
  return result;
}

Value floats(BinaryOp op, const Value& left, const Value& right) {
  const double a = left.as_double();
  const double b = right.as_double();
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSubtract:
      return a - b;
    case BinaryOp::kMultiply:
      return a * b;
    case BinaryOp::kModulo:
      return float_modulo(a, b);
    case BinaryOp::kPower:
      return power(left, right);
    case BinaryOp::kDivide:
    case BinaryOp::kFloorDivide:
      break;
  }
  if (b == 0) throw Failure("float division by zero");
  return op == BinaryOp::kDivide ? a / b : std::floor(a / b);
}

Value repeat(Runtime& runtime, const Value& sequence, Int times) {
  const std::size_t size =
      sequence.text() ? sequence.text()->bytes.size() : sequence.list()->items.size();
  const Int count = size == 0 || times < 0 ? 0 : times;
  // Past 2^40 nothing fits; the charge below then refuses before memory is touched.
  const auto repeats = static_cast<std::uint64_t>(std::min(count, Int{1} << 40));
  if (const Text* text = sequence.text()) {
    runtime.charge(repeats);
    TextBuilder out = runtime.builder();
    for (std::uint64_t i = 0; i < repeats; ++i) out.append(*text);
    return runtime.text(std::move(out), text->markup);
  }
  runtime.charge(repeats > runtime.limits().max_steps / size ? runtime.limits().max_steps + 1
                                                             : repeats * size);
  std::vector<Value> items;
  for (std::uint64_t i = 0; i < repeats; ++i) {
    items.insert(items.end(), sequence.list()->items.begin(), sequence.list()->items.end());
  }
  return runtime.list(std::move(items), sequence.list()->kind);
}

bool is_repeatable(const Value& value) {
  return value.text() || (value.list() && value.list()->kind != ListKind::kLazy);
}

Value add_texts(Runtime& runtime, const Text& left, const Text& right) {
  TextBuilder out = runtime.builder();
  const bool markup = left.markup || right.markup;
  for (const Text* part : {&left, &right}) {
    if (markup && !part->markup) {
      append_escaped(out, *part);
    } else {
      out.append(*part);
    }
  }
  return runtime.text(std::move(out), markup);
}

Value add_lists(Runtime& runtime, const List& left, const List& right) {
  std::vector<Value> items;
  items.reserve(left.items.size() + right.items.size());
  items.insert(items.end(), left.items.begin(), left.items.end());
  items.insert(items.end(), right.items.begin(), right.items.end());
  return runtime.list(std::move(items), left.kind);
}
}  // namespace

Value binary(Runtime& runtime, BinaryOp op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) return integers(op, left, right);
  if (left.is_number() && right.is_number()) return floats(op, left, right);
  if (op == BinaryOp::kModulo && left.text()) return percent_format(runtime, *left.text(), right);
  if (op == BinaryOp::kMultiply && is_repeatable(left) && right.is_integral())
    return repeat(runtime, left, right.as_int());
  if (op == BinaryOp::kMultiply && is_repeatable(right) && left.is_integral())
    return repeat(runtime, right, left.as_int());
  if (op != BinaryOp::kAdd) unsupported(op, left, right);
  if (left.text() && right.text()) return add_texts(runtime, *left.text(), *right.text());
  const List* a = left.list();
  const List* b = right.list();
  if (a && b && a->kind == b->kind && a->kind != ListKind::kLazy) return add_lists(runtime, *a, *b);
  unsupported(op, left, right);
}

Value negate(const Value& value) {
  require_defined(value);
  if (value.is_integral()) {
    Int result = 0;
    if (__builtin_sub_overflow(Int{0}, value.as_int(), &result)) overflow();
    return result;
  }
  if (value.is_number()) return -value.as_double();
  throw Failure(fmt::format("bad operand type for unary -: '{}'", value.type_name()));
}

Value plus(const Value& value) {
  require_defined(value);
  if (value.is_integral()) return value.as_int();
  if (value.is_number()) return value;
  throw Failure(fmt::format("bad operand type for unary +: '{}'", value.type_name()));
}

}  // namespace fasteep::jinja
