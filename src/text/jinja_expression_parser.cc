#include "text/jinja_expression_parser.h"

#include <algorithm>

#include "text/jinja_builtins.h"

namespace fasteep::jinja {

Value text_constant(std::string bytes) {
  return std::make_shared<const Text>(Text{std::move(bytes), {}, false});
}

bool is_called(const ExpressionPtr& expression, std::string_view name) {
  if (!expression) return false;
  switch (expression->kind) {
    case ExpressionKind::kName:
    case ExpressionKind::kAttribute:
      return expression->name == name;
    case ExpressionKind::kItem: {
      const Text* key = expression->parts[1]->constant.text();
      return key && key->bytes == name;
    }
    default:
      return false;
  }
}

namespace {
std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kBlockEnd:
      return "the end of the tag";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kNumber:
      return "a number";
    default:
      return fmt::format("'{}'", token.value);
  }
}
}  // namespace

void ExpressionParser::fail(const std::string& message) const {
  throw Failure(fmt::format("line {}: {}", current().line, message));
}

void ExpressionParser::fail_nested() const {
  fail(fmt::format("nested more than {} levels", limits_.max_nesting));
}

bool ExpressionParser::at_operator(std::string_view op) const {
  return current().kind == TokenKind::kOperator && current().value == op;
}

bool ExpressionParser::at_name(std::string_view name) const {
  return current().kind == TokenKind::kName && current().value == name;
}

bool ExpressionParser::skip_operator(std::string_view op) {
  const bool found = at_operator(op);
  if (found) next();
  return found;
}

bool ExpressionParser::skip_name(std::string_view name) {
  const bool found = at_name(name);
  if (found) next();
  return found;
}

void ExpressionParser::expect_operator(std::string_view op) {
  if (!skip_operator(op)) fail(fmt::format("expected '{}', got {}", op, describe(current())));
}

std::string ExpressionParser::expect_name() {
  if (current().kind != TokenKind::kName)
    fail(fmt::format("expected a name, got {}", describe(current())));
  return next().value;
}

Expression ExpressionParser::make(ExpressionKind kind, ExpressionPtr first) const {
  Expression expression{kind, current().line, {}, {}, {}, {}, {}};
  if (first) expression.parts.push_back(std::move(first));
  return expression;
}

ExpressionPtr ExpressionParser::finish(Expression expression) const {
  int depth = 0;
  for (const auto& part : expression.parts) depth = std::max(depth, part ? part->depth : 0);
  for (const auto& [name, value] : expression.keywords) depth = std::max(depth, value->depth);
  expression.depth = depth + 1;
  if (expression.depth > limits_.max_nesting) fail_nested();
  return std::make_unique<const Expression>(std::move(expression));
}

ExpressionPtr ExpressionParser::constant(Value value) const {
  Expression expression = make(ExpressionKind::kConstant);
  expression.constant = std::move(value);
  return finish(std::move(expression));
}

ExpressionPtr ExpressionParser::parse_expression() {
  const Nesting nesting(*this);
  ExpressionPtr result = parse_or();
  while (at_name("if")) {
    Expression conditional = make(ExpressionKind::kConditional);
    next();
    conditional.parts.push_back(parse_or());
    conditional.parts.push_back(std::move(result));
    conditional.parts.push_back(skip_name("else") ? parse_expression() : nullptr);
    result = finish(std::move(conditional));
  }
  return result;
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr left = parse_and();
  while (at_name("or")) {
    Expression either = make(ExpressionKind::kOr, std::move(left));
    next();
    either.parts.push_back(parse_and());
    left = finish(std::move(either));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr left = parse_not();
  while (at_name("and")) {
    Expression both = make(ExpressionKind::kAnd, std::move(left));
    next();
    both.parts.push_back(parse_not());
    left = finish(std::move(both));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_not() {
  const Nesting nesting(*this);
  if (!at_name("not")) return parse_compare();
  Expression negation = make(ExpressionKind::kNot);
  next();
  negation.parts.push_back(parse_not());
  return finish(std::move(negation));
}

bool ExpressionParser::skip_comparison(Comparison& comparison) {
  static constexpr std::pair<std::string_view, Comparison> kOperators[] = {
      {"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},    {"<=", Comparison::kLessEqual},
      {">", Comparison::kGreater}, {">=", Comparison::kGreaterEqual}};
  for (const auto& [symbol, meaning] : kOperators) {
    if (!skip_operator(symbol)) continue;
    comparison = meaning;
    return true;
  }
  const bool negated = at_name("not") && ahead().kind == TokenKind::kName && ahead().value == "in";
  if (negated) next();
  comparison = negated ? Comparison::kNotIn : Comparison::kIn;
  return skip_name("in");
}

ExpressionPtr ExpressionParser::parse_compare() {
  ExpressionPtr left = parse_sum();
  Comparison comparison;
  if (!skip_comparison(comparison)) return left;
  if (left->constant.text() && left->constant.text()->bytes == "content")
    facts_.tests_content_defined = true;  // 'content' in message
  Expression chain = make(ExpressionKind::kCompare, std::move(left));
  do {
    chain.comparisons.push_back(comparison);
    chain.parts.push_back(parse_sum());
  } while (skip_comparison(comparison));
  return finish(std::move(chain));
}

ExpressionPtr ExpressionParser::parse_sum() {
  ExpressionPtr left = parse_concat();
  while (at_operator("+") || at_operator("-")) {
    Expression sum = make(ExpressionKind::kBinary, std::move(left));
    sum.op = next().value == "+" ? BinaryOp::kAdd : BinaryOp::kSubtract;
    sum.parts.push_back(parse_concat());
    if (is_called(sum.parts[0], "arguments") || is_called(sum.parts[1], "arguments"))
      facts_.arguments_as_text = true;
    left = finish(std::move(sum));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_concat() {
  ExpressionPtr first = parse_product();
  if (!at_operator("~")) return first;
  Expression concat = make(ExpressionKind::kConcat, std::move(first));
  while (skip_operator("~")) concat.parts.push_back(parse_product());
  for (const auto& part : concat.parts) {
    if (is_called(part, "arguments")) facts_.arguments_as_text = true;
  }
  return finish(std::move(concat));
}

ExpressionPtr ExpressionParser::parse_product() {
  static constexpr std::pair<std::string_view, BinaryOp> kOperators[] = {
      {"*", BinaryOp::kMultiply},
      {"/", BinaryOp::kDivide},
      {"//", BinaryOp::kFloorDivide},
      {"%", BinaryOp::kModulo}};
  ExpressionPtr left = parse_power();
  for (;;) {
    const auto* found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                     [&](const auto& item) { return at_operator(item.first); });
    if (found == std::end(kOperators)) return left;
    Expression product = make(ExpressionKind::kBinary, std::move(left));
    next();
    product.op = found->second;
    product.parts.push_back(parse_power());
    left = finish(std::move(product));
  }
}

ExpressionPtr ExpressionParser::parse_power() {
  ExpressionPtr left = parse_unary(true);
  while (at_operator("**")) {
    Expression power = make(ExpressionKind::kBinary, std::move(left));
    next();
    power.op = BinaryOp::kPower;
    power.parts.push_back(parse_unary(true));
    left = finish(std::move(power));
  }
  return left;
}

ExpressionPtr ExpressionParser::parse_unary(bool with_filters) {
  const Nesting nesting(*this);
  ExpressionPtr result;
  if (at_operator("-") || at_operator("+")) {
    Expression unary = make(at_operator("-") ? ExpressionKind::kNegate : ExpressionKind::kPlus);
    next();
    unary.parts.push_back(parse_unary(false));
    result = finish(std::move(unary));
  } else {
    result = parse_primary();
  }
  result = parse_postfix(std::move(result));
  return with_filters ? parse_filters(std::move(result)) : std::move(result);
}

ExpressionPtr ExpressionParser::parse_primary() {
  switch (current().kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kNumber:
      return constant(next().number);
    default:
      break;
  }
  if (skip_operator("(")) {
    ExpressionPtr inner = parse_tuple(true, true);
    expect_operator(")");
    return inner;
  }
  if (at_operator("[")) return parse_list();
  if (at_operator("{")) return parse_dict();
  fail(fmt::format("expected an expression, got {}", describe(current())));
}

ExpressionPtr ExpressionParser::parse_name() {
  const std::string name = next().value;
  if (name == "true" || name == "True") return constant(true);
  if (name == "false" || name == "False") return constant(false);
  if (name == "none" || name == "None") return constant(None{});
  if (name == "varargs") uses_varargs_ = true;
  if (name == "kwargs") uses_kwargs_ = true;
  Expression variable = make(ExpressionKind::kName);
  variable.name = name;
  return finish(std::move(variable));
}

// Strings next to each other are one.
ExpressionPtr ExpressionParser::parse_string() {
  std::string bytes;
  while (current().kind == TokenKind::kString) bytes += next().value;
  return constant(text_constant(std::move(bytes)));
}

ExpressionPtr ExpressionParser::parse_tuple(bool conditional, bool empty_allowed) {
  const Nesting nesting(*this);
  std::vector<ExpressionPtr> parts;
  bool has_comma = false;
  while (current().kind != TokenKind::kVariableEnd && current().kind != TokenKind::kBlockEnd &&
         !at_operator(")")) {
    parts.push_back(conditional ? parse_expression() : parse_or());
    if (!skip_operator(",")) break;
    has_comma = true;
  }
  if (!has_comma && parts.size() == 1) return std::move(parts[0]);
  if (parts.empty() && !empty_allowed)
    fail(fmt::format("expected an expression, got {}", describe(current())));
  Expression tuple = make(ExpressionKind::kTuple);
  tuple.parts = std::move(parts);
  return finish(std::move(tuple));
}

ExpressionPtr ExpressionParser::parse_list() {
  Expression list = make(ExpressionKind::kList);
  expect_operator("[");
  while (!at_operator("]")) {
    list.parts.push_back(parse_expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("]");
  return finish(std::move(list));
}

ExpressionPtr ExpressionParser::parse_dict() {
  Expression dict = make(ExpressionKind::kDict);
  expect_operator("{");
  while (!at_operator("}")) {
    dict.parts.push_back(parse_expression());
    expect_operator(":");
    dict.parts.push_back(parse_expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("}");
  return finish(std::move(dict));
}

ExpressionPtr ExpressionParser::parse_postfix(ExpressionPtr expression) {
  for (;;) {
    if (at_operator("."))
      expression = parse_attribute(std::move(expression));
    else if (at_operator("["))
      expression = parse_subscript(std::move(expression));
    else if (at_operator("("))
      expression = parse_call(std::move(expression));
    else
      return expression;
  }
}

ExpressionPtr ExpressionParser::parse_attribute(ExpressionPtr object) {
  if (is_called(object, "arguments")) facts_.arguments_as_object = true;
  Expression attribute = make(ExpressionKind::kAttribute, std::move(object));
  next();
  if (current().kind == TokenKind::kNumber) {  // list.0
    attribute.kind = ExpressionKind::kItem;
    attribute.parts.push_back(constant(next().number));
  } else {
    attribute.name = expect_name();
  }
  return finish(std::move(attribute));
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr object) {
  Expression item = make(ExpressionKind::kItem, std::move(object));
  next();
  ExpressionPtr first = at_operator(":") ? nullptr : parse_expression();
  const bool is_slice = at_operator(":");
  item.parts.push_back(std::move(first));
  if (is_slice) item.kind = ExpressionKind::kSlice;
  for (int i = 0; is_slice && i < 2; ++i) {
    const bool written = skip_operator(":") && !at_operator(":") && !at_operator("]");
    item.parts.push_back(written ? parse_expression() : nullptr);
  }
  expect_operator("]");
  return finish(std::move(item));
}

ExpressionPtr ExpressionParser::parse_call(ExpressionPtr function) {
  Expression call = make(ExpressionKind::kCall, std::move(function));
  parse_arguments(call);
  return finish(std::move(call));
}

void ExpressionParser::parse_arguments(Expression& call) {
  expect_operator("(");
  while (!at_operator(")")) {
    if (at_operator("*") || at_operator("**")) fail("unpacking of arguments is not supported");
    if (current().kind == TokenKind::kName && ahead().kind == TokenKind::kOperator &&
        ahead().value == "=") {
      std::string name = next().value;
      next();
      call.keywords.emplace_back(std::move(name), parse_expression());
    } else {
      if (!call.keywords.empty()) fail("a positional argument follows a keyword argument");
      call.parts.push_back(parse_expression());
    }
    if (!skip_operator(",")) break;
  }
  expect_operator(")");
}

ExpressionPtr ExpressionParser::parse_filters(ExpressionPtr expression) {
  for (;;) {
    if (skip_operator("|"))
      expression = parse_filter(std::move(expression));
    else if (skip_name("is"))
      expression = parse_test(std::move(expression));
    else if (at_operator("("))
      expression = parse_call(std::move(expression));
    else
      return expression;
  }
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = expect_name();
  while (skip_operator(".")) name += "." + expect_name();
  return name;
}

ExpressionPtr ExpressionParser::parse_filter(ExpressionPtr subject) {
  Expression filter = make(ExpressionKind::kFilter);
  filter.parts.push_back(std::move(subject));
  filter.name = parse_dotted_name();
  filter.builtin = find_filter(filter.name);
  if (at_operator("(")) parse_arguments(filter);
  note_filter(filter);
  return finish(std::move(filter));
}

// Whether what follows a test's name is its one argument, written without parentheses.
bool ExpressionParser::at_test_argument() const {
  switch (current().kind) {
    case TokenKind::kString:
    case TokenKind::kNumber:
      return true;
    case TokenKind::kOperator:
      return at_operator("[") || at_operator("{");
    case TokenKind::kName:
      break;
    default:
      return false;
  }
  static constexpr std::string_view kNotArguments[] = {"else", "or", "and", "if", "in", "not"};
  return std::find(std::begin(kNotArguments), std::end(kNotArguments), current().value) ==
         std::end(kNotArguments);
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr subject) {
  Expression test = make(ExpressionKind::kTest, std::move(subject));
  Expression negation = make(ExpressionKind::kNot);
  const bool negated = skip_name("not");
  test.name = parse_dotted_name();
  test.builtin = find_test(test.name);
  if (at_operator("(")) {
    parse_arguments(test);
  } else if (at_test_argument()) {
    if (at_name("is")) fail("tests cannot be chained with 'is'");
    test.parts.push_back(parse_postfix(parse_primary()));
  }
  note_test(test);
  ExpressionPtr result = finish(std::move(test));
  if (!negated) return result;
  negation.parts.push_back(std::move(result));
  return finish(std::move(negation));
}

void ExpressionParser::note_filter(const Expression& filter) {
  const bool is_arguments = is_called(filter.parts[0], "arguments");
  if (is_arguments && (filter.name == "tojson" || filter.name == "items" ||
                       filter.name == "dictsort" || filter.name == "length"))
    facts_.arguments_as_object = true;
}

void ExpressionParser::note_test(const Expression& test) {
  const bool asks_type = test.name == "string" || test.name == "mapping" ||
                         test.name == "iterable" || test.name == "sequence";
  if (is_called(test.parts[0], "content")) {
    facts_.tests_content_type |= asks_type;
    facts_.tests_content_none |= test.name == "none";
    facts_.tests_content_defined |= test.name == "defined" || test.name == "undefined";
  }
  if (is_called(test.parts[0], "arguments")) facts_.arguments_as_object |= asks_type;
}

}  // namespace fasteep::jinja
