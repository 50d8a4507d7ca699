#include "text/jinja_parser.h"

#include <algorithm>

#include "text/jinja_expression_parser.h"

namespace fasteep::jinja {

namespace {
using StatementPtr = std::unique_ptr<const Statement>;
using EndNames = std::initializer_list<std::string_view>;

class StatementParser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  TemplateTree run() {
    TemplateTree tree;
    tree.body = parse_body({});
    tree.facts = facts_;
    return tree;
  }

 private:
  Statement make(StatementKind kind) const {
    Statement statement;
    statement.kind = kind;
    statement.line = current().line;
    return statement;
  }

  static StatementPtr finish(Statement statement) {
    return std::make_unique<const Statement>(std::move(statement));
  }

  // Up to a tag of one of `end_names` (whose name is then current), or the end of the template.
  Body parse_body(EndNames end_names) {
    const Nesting nesting(*this);
    Body body;
    for (;;) {
      switch (current().kind) {
        case TokenKind::kEnd:
          if (end_names.size() > 0)
            fail(fmt::format("the template ends before '{}'", *(end_names.end() - 1)));
          return body;
        case TokenKind::kText:
          body.push_back(parse_text());
          break;
        case TokenKind::kVariableBegin:
          body.push_back(parse_output());
          break;
        default:
          next();  // {%
          if (std::any_of(end_names.begin(), end_names.end(),
                          [&](std::string_view name) { return at_name(name); }))
            return body;
          body.push_back(parse_statement());
      }
    }
  }

  // The body of a block, with its end tag.
  Body parse_block(std::string_view end_name) {
    expect_block_end();
    Body body = parse_body({end_name});
    next();
    expect_block_end();
    return body;
  }

  void expect_block_end() {
    if (current().kind != TokenKind::kBlockEnd) fail("expected the end of the tag");
    next();
  }

  StatementPtr parse_text() {
    Statement text = make(StatementKind::kText);
    text.text = text_constant(next().value);
    return finish(std::move(text));
  }

  StatementPtr parse_output() {
    Statement output = make(StatementKind::kOutput);
    next();
    output.expressions.push_back(parse_tuple(true));
    if (is_called(output.expressions[0], "arguments")) facts_.arguments_as_text = true;
    if (current().kind != TokenKind::kVariableEnd) fail("expected '}}'");
    next();
    return finish(std::move(output));
  }

  StatementPtr parse_statement() {
    if (at_name("if")) return parse_if();
    if (at_name("for")) return parse_for();
    if (at_name("set")) return parse_set();
    if (at_name("macro")) return parse_macro();
    if (at_name("call")) return parse_call_block();
    if (at_name("filter")) return parse_filter_block();
    if (at_name("with")) return parse_with();
    if (at_name("generation")) return parse_generation();
    if (at_name("break") || at_name("continue")) return parse_jump();
    fail(current().kind == TokenKind::kName
             ? fmt::format("unknown or misplaced tag '{}'", current().value)
             : "a tag has no name");
  }

  StatementPtr parse_if() {
    Statement statement = make(StatementKind::kIf);
    do {
      next();
      Branch branch;
      branch.condition = parse_tuple(false);
      expect_block_end();
      branch.body = parse_body({"elif", "else", "endif"});
      statement.branches.push_back(std::move(branch));
    } while (at_name("elif"));
    if (skip_name("else")) {
      expect_block_end();
      statement.else_body = parse_body({"endif"});
    }
    next();
    expect_block_end();
    return finish(std::move(statement));
  }

  StatementPtr parse_for() {
    Statement loop = make(StatementKind::kFor);
    next();
    loop.target = parse_target();
    if (!skip_name("in")) fail("expected 'in'");
    loop.expressions.push_back(parse_tuple(false));
    if (is_called(loop.expressions[0], "content")) facts_.iterates_content = true;
    loop.expressions.push_back(skip_name("if") ? parse_expression() : nullptr);
    if (at_name("recursive")) fail("recursive loops are not supported: use a macro");
    expect_block_end();
    ++loops_;
    loop.body = parse_body({"else", "endfor"});
    --loops_;
    if (skip_name("else")) {
      expect_block_end();
      loop.else_body = parse_body({"endfor"});
    }
    next();
    expect_block_end();
    return finish(std::move(loop));
  }

  // name, name.attribute, (targets), or several of these with commas.
  Target parse_target() {
    const Nesting nesting(*this);
    Target first = parse_single_target();
    if (!at_operator(",")) return first;
    Target tuple;
    tuple.items.push_back(std::move(first));
    while (skip_operator(",") && (current().kind == TokenKind::kName || at_operator("(")) &&
           !at_name("in"))
      tuple.items.push_back(parse_single_target());
    return tuple;
  }

  Target parse_single_target() {
    if (skip_operator("(")) {
      Target inner = parse_target();
      expect_operator(")");
      return inner;
    }
    static constexpr std::string_view kConstants[] = {"true",  "True", "false",
                                                      "False", "none", "None"};
    for (std::string_view constant : kConstants) {
      if (at_name(constant)) fail(fmt::format("cannot assign to '{}'", constant));
    }
    Target target;
    target.name = expect_name();
    if (skip_operator(".")) target.attribute = expect_name();
    return target;
  }

  StatementPtr parse_set() {
    Statement set = make(StatementKind::kSet);
    next();
    set.target = parse_target();
    if (skip_operator("=")) {
      set.expressions.push_back(parse_tuple(true));
      expect_block_end();
      return finish(std::move(set));
    }
    set.kind = StatementKind::kSetBlock;
    while (skip_operator("|")) set.expressions.push_back(parse_filter(nullptr));
    set.body = parse_block("endset");
    return finish(std::move(set));
  }

  void parse_parameters(MacroNode& macro) {
    expect_operator("(");
    while (!at_operator(")")) {
      std::string name = expect_name();
      ExpressionPtr value = skip_operator("=") ? parse_expression() : nullptr;
      if (!value && !macro.parameters.empty() && macro.parameters.back().second)
        fail("a parameter without a default follows one with a default");
      macro.parameters.emplace_back(std::move(name), std::move(value));
      if (!skip_operator(",")) break;
    }
    expect_operator(")");
  }

  void parse_macro_body(MacroNode& macro, std::string_view end_name) {
    const bool outer_varargs = std::exchange(uses_varargs_, false);
    const bool outer_kwargs = std::exchange(uses_kwargs_, false);
    const int outer_loops = std::exchange(loops_, 0);
    macro.body = parse_block(end_name);
    loops_ = outer_loops;
    macro.uses_varargs = std::exchange(uses_varargs_, outer_varargs);
    macro.uses_kwargs = std::exchange(uses_kwargs_, outer_kwargs);
  }

  StatementPtr parse_macro() {
    Statement statement = make(StatementKind::kMacro);
    next();
    statement.macro.line = statement.line;
    statement.macro.name = expect_name();
    parse_parameters(statement.macro);
    parse_macro_body(statement.macro, "endmacro");
    return finish(std::move(statement));
  }

  StatementPtr parse_call_block() {
    Statement block = make(StatementKind::kCallBlock);
    next();
    block.macro.line = block.line;
    block.macro.name = "caller";
    if (at_operator("(")) parse_parameters(block.macro);
    block.expressions.push_back(parse_expression());
    if (block.expressions[0]->kind != ExpressionKind::kCall) fail("expected a call");
    parse_macro_body(block.macro, "endcall");
    return finish(std::move(block));
  }

  StatementPtr parse_filter_block() {
    Statement block = make(StatementKind::kFilterBlock);
    next();
    do {
      block.expressions.push_back(parse_filter(nullptr));
    } while (skip_operator("|"));
    block.body = parse_block("endfilter");
    return finish(std::move(block));
  }

  StatementPtr parse_with() {
    Statement with = make(StatementKind::kWith);
    next();
    while (current().kind != TokenKind::kBlockEnd) {
      if (!with.with_targets.empty()) expect_operator(",");
      with.with_targets.push_back(parse_single_target());
      expect_operator("=");
      with.expressions.push_back(parse_expression());
    }
    with.body = parse_block("endwith");
    return finish(std::move(with));
  }

  StatementPtr parse_generation() {
    Statement scope = make(StatementKind::kScope);
    next();
    scope.body = parse_block("endgeneration");
    return finish(std::move(scope));
  }

  StatementPtr parse_jump() {
    Statement jump = make(at_name("break") ? StatementKind::kBreak : StatementKind::kContinue);
    if (loops_ == 0) fail(fmt::format("'{}' outside of a loop", current().value));
    next();
    expect_block_end();
    return finish(std::move(jump));
  }

  int loops_ = 0;  // for blocks around, inside this macro
};
}  // namespace

TemplateTree parse_template(std::string_view source, const Limits& limits) {
  return StatementParser(tokenize(normalize_lines(source)), limits).run();
}

}  // namespace fasteep::jinja
