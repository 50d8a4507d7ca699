#pragma once
// Tokens to expressions, with the reference's precedences (loosest first): if-else, or, and, not,
// comparisons, + -, ~, * / // %, **, unary, postfix, filters and tests.
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace fasteep::jinja {

// Throws Failure with the line.
class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, const Limits& limits)
      : tokens_(std::move(tokens)), limits_(limits) {}

 protected:
  // Held while one construct is parsed inside another: bounds the stack.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser& parser) : parser_(parser) {
      if (++parser.nesting_ > parser.limits_.max_nesting) parser.fail_nested();
    }
    ~Nesting() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_nested() const;
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool at_operator(std::string_view op) const;
  bool at_name(std::string_view name) const;
  bool skip_operator(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view op);
  std::string expect_name();

  ExpressionPtr parse_expression();  // with if-else
  ExpressionPtr parse_or();          // without
  // One expression, or several with commas: a tuple. `empty_allowed`: inside parentheses.
  ExpressionPtr parse_tuple(bool conditional, bool empty_allowed = false);
  // name(arguments); `subject` may be null.
  ExpressionPtr parse_filter(ExpressionPtr subject);

  TemplateFacts facts_;
  bool uses_varargs_ = false;
  bool uses_kwargs_ = false;

 private:
  ExpressionPtr finish(Expression expression) const;
  Expression make(ExpressionKind kind, ExpressionPtr first = nullptr) const;
  ExpressionPtr constant(Value value) const;

  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  bool skip_comparison(Comparison& comparison);
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filters);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_string();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr expression);
  ExpressionPtr parse_attribute(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_call(ExpressionPtr function);
  void parse_arguments(Expression& call);
  ExpressionPtr parse_filters(ExpressionPtr expression);
  ExpressionPtr parse_test(ExpressionPtr subject);
  std::string parse_dotted_name();
  bool at_test_argument() const;
  void note_filter(const Expression& filter);
  void note_test(const Expression& test);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  Limits limits_;
  int nesting_ = 0;
};

// Whether the expression is NAME, ....NAME or ...['NAME'].
bool is_called(const ExpressionPtr& expression, std::string_view name);
Value text_constant(std::string bytes);

}  // namespace fasteep::jinja
