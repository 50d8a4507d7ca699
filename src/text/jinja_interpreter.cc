#include "text/jinja_interpreter.h"

#include <algorithm>

#include "text/jinja_builtins.h"
#include "text/jinja_format.h"
#include "text/jinja_parser.h"

namespace fasteep::jinja {

namespace {
enum class Flow { kNext, kBreak, kContinue };

class Interpreter {
 public:
  explicit Interpreter(Runtime& runtime) : runtime_(runtime), scope_(std::make_shared<Scope>()) {}

  void set_variable(const Variable& variable) {
    scope_->set(runtime_, variable.name, from_json(runtime_, *variable.value, variable.from_input));
  }

  Text run(const Body& body) {
    TextBuilder out = runtime_.builder();
    execute(body, out);
    return out.take();
  }

  int line() const { return line_; }

 private:
  // Makes a new scope the current one, until it goes.
  class ScopeGuard {
   public:
    ScopeGuard(Interpreter& owner, std::shared_ptr<Scope> parent)
        : owner_(owner), outer_(std::move(owner.scope_)) {
      owner.scope_ = std::make_shared<Scope>();
      owner.scope_->parent = std::move(parent);
    }
    explicit ScopeGuard(Interpreter& owner) : ScopeGuard(owner, owner.scope_) {}
    ~ScopeGuard() { owner_.scope_ = std::move(outer_); }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

   private:
    Interpreter& owner_;
    std::shared_ptr<Scope> outer_;
  };

  Flow execute(const Body& body, TextBuilder& out);
  Flow execute(const Statement& statement, TextBuilder& out);
  Flow execute_if(const Statement& statement, TextBuilder& out);
  Flow execute_for(const Statement& statement, TextBuilder& out);
  Flow execute_with(const Statement& statement, TextBuilder& out);
  Flow execute_set_block(const Statement& statement);
  Flow execute_filter_block(const Statement& statement, TextBuilder& out);
  void execute_call_block(const Statement& statement, TextBuilder& out);
  std::shared_ptr<const List> loop_items(const Statement& statement);
  Value capture(const Statement& statement, Flow& flow);
  void assign(const Target& target, const Value& value);
  void assign_attribute(const Target& target, const Value& value);

  Value evaluate(const Expression& expression);
  Value evaluate_operation(const Expression& expression);
  Value look_up(const Expression& expression);
  Value make_list(const Expression& expression, ListKind kind);
  Value make_dict(const Expression& expression);
  Value take_slice(const Expression& expression);
  Value call(const Expression& expression, const Macro* caller);
  Value call_macro(const Macro& macro, const Args& args);
  void bind_parameters(const Macro& macro, const Args& args);
  void bind_extra_arguments(const MacroNode& node, const Args& args);
  Value apply_filter(const Expression& filter, const Value& subject);
  Value apply_test(const Expression& test);
  Value concatenate(const Expression& expression);
  Value compare_chain(const Expression& expression);
  bool compare(Comparison comparison, const Value& left, const Value& right);
  Args arguments(const Expression& expression);

  Runtime& runtime_;
  std::shared_ptr<Scope> scope_;
  int line_ = 1;  // of what runs now, for errors
};

Flow Interpreter::execute(const Body& body, TextBuilder& out) {
  for (const auto& statement : body) {
    const Flow flow = execute(*statement, out);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Flow Interpreter::execute(const Statement& statement, TextBuilder& out) {
  const DepthGuard depth(runtime_);
  runtime_.charge();
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kText:
      append_text(runtime_, out, statement.text);
      break;
    case StatementKind::kOutput:
      append_text(runtime_, out, evaluate(*statement.expressions[0]));
      break;
    case StatementKind::kSet:
      assign(statement.target, evaluate(*statement.expressions[0]));
      break;
    case StatementKind::kMacro:
      scope_->set(runtime_, statement.macro.name, runtime_.new_macro(&statement.macro, scope_));
      break;
    case StatementKind::kCallBlock:
      execute_call_block(statement, out);
      break;
    case StatementKind::kIf:
      return execute_if(statement, out);
    case StatementKind::kFor:
      return execute_for(statement, out);
    case StatementKind::kWith:
      return execute_with(statement, out);
    case StatementKind::kSetBlock:
      return execute_set_block(statement);
    case StatementKind::kFilterBlock:
      return execute_filter_block(statement, out);
    case StatementKind::kScope: {
      const ScopeGuard scope(*this);
      return execute(statement.body, out);
    }
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Flow Interpreter::execute_if(const Statement& statement, TextBuilder& out) {
  for (const Branch& branch : statement.branches) {
    if (evaluate(*branch.condition).truth()) return execute(branch.body, out);
  }
  return execute(statement.else_body, out);
}

// The items of a for block that pass its inline condition.
std::shared_ptr<const List> Interpreter::loop_items(const Statement& statement) {
  const Value iterable = evaluate(*statement.expressions[0]);
  line_ = statement.line;
  auto all = iterate(runtime_, iterable);
  if (!statement.expressions[1]) return all;
  auto kept = std::make_shared<List>();
  kept->depth = all->depth;
  for (const Value& item : all->items) {
    const ScopeGuard scope(*this);
    assign(statement.target, item);
    if (evaluate(*statement.expressions[1]).truth()) kept->items.push_back(item);
  }
  return kept;
}

Flow Interpreter::execute_for(const Statement& statement, TextBuilder& out) {
  const auto items = loop_items(statement);
  Loop* loop = runtime_.new_loop(items);
  bool any_completed = false;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    runtime_.charge(4);
    line_ = statement.line;
    loop->index0 = i;
    const ScopeGuard scope(*this);
    scope_->set(runtime_, "loop", loop);
    assign(statement.target, items->items[i]);
    const Flow flow = execute(statement.body, out);
    any_completed |= flow == Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  // As in the reference, an iteration that was cut short does not count.
  if (any_completed || statement.else_body.empty()) return Flow::kNext;
  const ScopeGuard scope(*this);
  return execute(statement.else_body, out);
}

Flow Interpreter::execute_with(const Statement& statement, TextBuilder& out) {
  std::vector<Value> values;  // all are seen from outside of the block
  for (const auto& expression : statement.expressions) values.push_back(evaluate(*expression));
  const ScopeGuard scope(*this);
  for (std::size_t i = 0; i < values.size(); ++i) assign(statement.with_targets[i], values[i]);
  return execute(statement.body, out);
}

// The text of the statement's body, through its filters.
Value Interpreter::capture(const Statement& statement, Flow& flow) {
  TextBuilder body = runtime_.builder();
  {
    const ScopeGuard scope(*this);
    flow = execute(statement.body, body);
  }
  Value value = runtime_.text(std::move(body));
  for (const auto& filter : statement.expressions) value = apply_filter(*filter, value);
  return value;
}

Flow Interpreter::execute_set_block(const Statement& statement) {
  Flow flow = Flow::kNext;
  const Value value = capture(statement, flow);
  if (flow == Flow::kNext) assign(statement.target, value);
  return flow;
}

Flow Interpreter::execute_filter_block(const Statement& statement, TextBuilder& out) {
  Flow flow = Flow::kNext;
  append_text(runtime_, out, capture(statement, flow));
  return flow;
}

void Interpreter::execute_call_block(const Statement& statement, TextBuilder& out) {
  const Macro* caller = runtime_.new_macro(&statement.macro, scope_);
  append_text(runtime_, out, call(*statement.expressions[0], caller));
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.attribute.empty()) return assign_attribute(target, value);
  if (target.items.empty()) return scope_->set(runtime_, target.name, value);
  const auto values = iterate(runtime_, value);
  if (values->items.size() != target.items.size())
    throw Failure(fmt::format("cannot unpack {} value(s) into {} names", values->items.size(),
                              target.items.size()));
  for (std::size_t i = 0; i < target.items.size(); ++i) assign(target.items[i], values->items[i]);
}

void Interpreter::assign_attribute(const Target& target, const Value& value) {
  const Value* object = scope_->find(runtime_, target.name);
  Namespace* names = object ? object->names() : nullptr;
  if (!names) throw Failure("cannot assign attribute on non-namespace object");
  runtime_.charge(names->attributes.size() / 32);
  names->set(target.attribute, value);
}

Value Interpreter::evaluate(const Expression& expression) {
  const DepthGuard depth(runtime_);
  runtime_.charge();
  line_ = expression.line;
  const auto part = [&](std::size_t i) { return evaluate(*expression.parts[i]); };
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return look_up(expression);
    case ExpressionKind::kList:
      return make_list(expression, ListKind::kList);
    case ExpressionKind::kTuple:
      return make_list(expression, ListKind::kTuple);
    case ExpressionKind::kDict:
      return make_dict(expression);
    case ExpressionKind::kNot:
      return !part(0).truth();
    case ExpressionKind::kAnd: {
      Value left = part(0);
      return left.truth() ? part(1) : left;
    }
    case ExpressionKind::kOr: {
      Value left = part(0);
      return left.truth() ? left : part(1);
    }
    case ExpressionKind::kConditional:
      if (part(0).truth()) return part(1);
      return expression.parts[2] ? part(2)
                                 : Value::undefined("the condition of an if without else is false");
    default:
      return evaluate_operation(expression);
  }
}

Value Interpreter::evaluate_operation(const Expression& expression) {
  const auto part = [&](std::size_t i) {
    Value value = evaluate(*expression.parts[i]);
    line_ = expression.line;
    return value;
  };
  switch (expression.kind) {
    case ExpressionKind::kAttribute:
      return get_attribute(runtime_, part(0), expression.name);
    case ExpressionKind::kItem: {
      const Value object = part(0);
      return get_item(runtime_, object, part(1));
    }
    case ExpressionKind::kSlice:
      return take_slice(expression);
    case ExpressionKind::kCall:
      return call(expression, nullptr);
    case ExpressionKind::kFilter:
      return apply_filter(expression, part(0));
    case ExpressionKind::kTest:
      return apply_test(expression);
    case ExpressionKind::kNegate:
      return negate(part(0));
    case ExpressionKind::kPlus:
      return plus(part(0));
    case ExpressionKind::kConcat:
      return concatenate(expression);
    case ExpressionKind::kCompare:
      return compare_chain(expression);
    default: {
      const Value left = part(0);
      return binary(runtime_, expression.op, left, part(1));
    }
  }
}

Value Interpreter::look_up(const Expression& expression) {
  if (const Value* value = scope_->find(runtime_, expression.name)) return *value;
  if (const Builtin function = find_function(expression.name))
    return runtime_.method(expression.name, function, {});
  return Value::undefined(fmt::format("'{}' is undefined", expression.name));
}

Value Interpreter::make_list(const Expression& expression, ListKind kind) {
  std::vector<Value> items;
  for (const auto& part : expression.parts) items.push_back(evaluate(*part));
  return runtime_.list(std::move(items), kind);
}

Value Interpreter::make_dict(const Expression& expression) {
  std::vector<std::pair<Value, Value>> items;
  for (std::size_t i = 0; i < expression.parts.size(); i += 2) {
    Value key = evaluate(*expression.parts[i]);
    items.emplace_back(std::move(key), evaluate(*expression.parts[i + 1]));
  }
  return runtime_.dict(std::move(items));
}

Value Interpreter::take_slice(const Expression& expression) {
  Value parts[4];
  for (std::size_t i = 0; i < 4; ++i) {
    if (expression.parts[i]) parts[i] = evaluate(*expression.parts[i]);
  }
  line_ = expression.line;
  return slice(runtime_, parts[0], parts[1], parts[2], parts[3]);
}

// What is written after parts[0].
Args Interpreter::arguments(const Expression& expression) {
  Args args;
  for (std::size_t i = 1; i < expression.parts.size(); ++i) {
    args.positional.push_back(evaluate(*expression.parts[i]));
  }
  for (const auto& [name, value] : expression.keywords) {
    args.keyword.emplace_back(name, evaluate(*value));
  }
  line_ = expression.line;
  return args;
}

Value Interpreter::call(const Expression& expression, const Macro* caller) {
  const Value function = evaluate(*expression.parts[0]);
  Args args = arguments(expression);
  if (caller) args.keyword.emplace_back("caller", caller);
  if (const Bound* bound = function.bound()) return bound->function(runtime_, bound->self, args);
  if (const Macro* macro = function.macro()) return call_macro(*macro, args);
  require_defined(function);
  throw Failure(fmt::format("'{}' object is not callable", function.type_name()));
}

Value Interpreter::call_macro(const Macro& macro, const Args& args) {
  runtime_.charge(4);
  const ScopeGuard scope(*this, macro.scope);
  bind_parameters(macro, args);
  TextBuilder out = runtime_.builder();
  execute(macro.node->body, out);
  return runtime_.text(std::move(out));
}

void Interpreter::bind_parameters(const Macro& macro, const Args& args) {
  const auto& parameters = macro.node->parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, default_value] = parameters[i];
    const Value* given = i < args.positional.size() ? &args.positional[i] : args.find_keyword(name);
    if (i < args.positional.size() && args.find_keyword(name))
      throw Failure(fmt::format("macro '{}' got '{}' twice", macro.node->name, name));
    scope_->set(runtime_, name,
                given           ? *given
                : default_value ? evaluate(*default_value)
                                : Value::undefined(fmt::format("'{}' is undefined", name)));
  }
  bind_extra_arguments(*macro.node, args);
}

// The arguments that no parameter takes.
void Interpreter::bind_extra_arguments(const MacroNode& node, const Args& args) {
  const std::size_t count = node.parameters.size();
  if (args.positional.size() > count && !node.uses_varargs)
    throw Failure(fmt::format("macro '{}' takes not more than {} argument(s)", node.name, count));
  const auto first_extra = args.positional.begin() +
                           static_cast<std::ptrdiff_t>(std::min(count, args.positional.size()));
  if (node.uses_varargs)
    scope_->set(runtime_, "varargs", runtime_.tuple({first_extra, args.positional.end()}));
  std::vector<std::pair<Value, Value>> extra;
  for (const auto& keyword : args.keyword) {
    const std::string& name = keyword.first;  // no structured binding: clang 14 captures none
    const Value& value = keyword.second;
    const bool taken = std::any_of(node.parameters.begin(), node.parameters.end(),
                                   [&](const auto& parameter) { return parameter.first == name; });
    if (taken) continue;
    if (name == "caller") {
      scope_->set(runtime_, "caller", value);
    } else if (node.uses_kwargs) {
      extra.emplace_back(runtime_.text(name), value);
    } else {
      throw Failure(fmt::format("macro '{}' takes no keyword argument '{}'", node.name, name));
    }
  }
  if (node.uses_kwargs) scope_->set(runtime_, "kwargs", runtime_.dict(std::move(extra)));
}

Value Interpreter::apply_filter(const Expression& filter, const Value& subject) {
  if (!filter.builtin) throw Failure(fmt::format("No filter named '{}'.", filter.name));
  return filter.builtin(runtime_, subject, arguments(filter));
}

Value Interpreter::apply_test(const Expression& test) {
  if (!test.builtin) throw Failure(fmt::format("No test named '{}'.", test.name));
  const Value subject = evaluate(*test.parts[0]);
  return test.builtin(runtime_, subject, arguments(test));
}

Value Interpreter::concatenate(const Expression& expression) {
  TextBuilder out = runtime_.builder();
  for (const auto& part : expression.parts) append_text(runtime_, out, evaluate(*part));
  return runtime_.text(std::move(out));
}

bool Interpreter::compare(Comparison comparison, const Value& left, const Value& right) {
  switch (comparison) {
    case Comparison::kEqual:
      return equal(runtime_, left, right);
    case Comparison::kNotEqual:
      return !equal(runtime_, left, right);
    case Comparison::kLess:
      return less(runtime_, left, right);
    case Comparison::kGreater:
      return less(runtime_, right, left);
    case Comparison::kLessEqual:
      return less(runtime_, left, right) || equal(runtime_, left, right);
    case Comparison::kGreaterEqual:
      return less(runtime_, right, left) || equal(runtime_, left, right);
    case Comparison::kIn:
      return contains(runtime_, right, left);
    case Comparison::kNotIn:
      return !contains(runtime_, right, left);
  }
  return false;
}

Value Interpreter::compare_chain(const Expression& expression) {
  Value left = evaluate(*expression.parts[0]);
  for (std::size_t i = 0; i < expression.comparisons.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1]);
    line_ = expression.line;
    if (!compare(expression.comparisons[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}
}  // namespace

Result<Template> Template::parse(std::string_view source, const Limits& limits) {
  if (source.size() > limits.max_template_bytes)
    return invalid_input("the template has {} bytes, the limit is {}", source.size(),
                         limits.max_template_bytes);
  if (!is_valid_utf8(source)) return invalid_input("the template is not UTF-8 text");
  try {
    return Template(std::make_shared<const TemplateTree>(parse_template(source, limits)), limits);
  } catch (const Failure& failure) {
    return invalid_input("template {}", failure.what());
  }
}

Result<Text> Template::render(const std::vector<Variable>& variables, const std::tm& now) const {
  Runtime runtime(limits_, now);
  Interpreter interpreter(runtime);
  try {
    for (const Variable& variable : variables) interpreter.set_variable(variable);
    return interpreter.run(tree_->body);
  } catch (const Raised& raised) {
    return Error(ErrorCode::kInvalidInput, raised.what());
  } catch (const Failure& failure) {
    return invalid_input("template line {}: {}", interpreter.line(), failure.what());
  }
}

}  // namespace fasteep::jinja
