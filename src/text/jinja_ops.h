#pragma once
// What operators, subscripts and attributes mean. All throw Failure.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_runtime.h"

namespace fasteep::jinja {

// Python's ==, and < (fails for types that have no order).
bool equal(Runtime& runtime, const Value& left, const Value& right);
bool less(Runtime& runtime, const Value& left, const Value& right);
// `needle in haystack`
bool contains(Runtime& runtime, const Value& haystack, const Value& needle);
// Fails if `key` cannot be the key of a dict.
void require_hashable(const Value& key);

enum class BinaryOp { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
Value binary(Runtime& runtime, BinaryOp op, const Value& left, const Value& right);
Value negate(const Value& value);
Value plus(const Value& value);

// `value.name`: the method first, then the key. `value[key]`: the key first.
Value get_attribute(Runtime& runtime, const Value& value, std::string_view name);
Value get_item(Runtime& runtime, const Value& value, const Value& key);
// `value[start:stop:step]`; undefined parts were not written.
Value slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop,
            const Value& step);

// What a for loop goes over: items, characters, keys.
std::shared_ptr<const List> iterate(Runtime& runtime, const Value& value);
bool is_iterable(const Value& value);
// len(); fails for a value without one.
std::size_t length(const Value& value);

// Fails for an undefined value, with its reason.
void require_defined(const Value& value);

}  // namespace fasteep::jinja
