#pragma once
// The syntax tree of a template: made once, then only read, by any number of threads.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_ops.h"

namespace fasteep::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

enum class ExpressionKind {
  kConstant,     // constant
  kName,         // name
  kList,         // parts
  kTuple,        // parts
  kDict,         // parts: key, value, key, value, ...
  kAttribute,    // parts[0].name
  kItem,         // parts[0][parts[1]]
  kSlice,        // parts[0][parts[1]:parts[2]:parts[3]], null where not written
  kCall,         // parts[0](parts[1..], keywords)
  kFilter,       // parts[0] | name(parts[1..], keywords); parts[0] is null in a filter block
  kTest,         // parts[0] is name(parts[1..], keywords)
  kNot,          // not parts[0]
  kNegate,       // -parts[0]
  kPlus,         // +parts[0]
  kBinary,       // parts[0] op parts[1]
  kConcat,       // parts[0] ~ parts[1] ~ ...
  kCompare,      // parts[0] comparisons[0] parts[1] comparisons[1] parts[2] ...
  kAnd,          // parts[0] and parts[1]
  kOr,           // parts[0] or parts[1]
  kConditional,  // parts[1] if parts[0] else parts[2] (null if not written)
};

enum class Comparison {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

struct Expression {
  ExpressionKind kind;
  int line;
  std::string name;
  Value constant;
  std::vector<ExpressionPtr> parts;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  std::vector<Comparison> comparisons;
  BinaryOp op = BinaryOp::kAdd;
  Builtin builtin = nullptr;  // of a filter or test; null if there is none of that name
  int depth = 1;              // levels of this tree, bounded by the parser
};

// What is assigned to: a name, an attribute of a namespace, or a tuple of these.
struct Target {
  std::string name;
  std::string attribute;
  std::vector<Target> items;
};

struct Statement;
using Body = std::vector<std::unique_ptr<const Statement>>;

struct MacroNode {
  std::string name;
  int line = 0;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with default or null
  Body body;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

enum class StatementKind {
  kText,       // text
  kOutput,     // expressions
  kIf,         // branches, else_body
  kFor,        // target in expressions[0] if expressions[1] (null if not written), body, else_body
  kSet,        // target = expressions[0]
  kSetBlock,   // target = body | expressions...
  kMacro,      // macro
  kCallBlock,  // expressions[0] is the call, macro its caller
  kFilterBlock,  // body | expressions...
  kWith,         // with_targets = expressions, body
  kScope,        // body in a scope of its own
  kBreak,
  kContinue,
};

struct Branch {
  ExpressionPtr condition;
  Body body;
};

struct Statement {
  StatementKind kind;
  int line;
  Value text;
  std::vector<ExpressionPtr> expressions;
  Target target;
  std::vector<Target> with_targets;
  std::vector<Branch> branches;
  Body body;
  Body else_body;
  MacroNode macro;
};

// What a template is seen to do with messages, for the preparation of its input.
struct TemplateFacts {
  bool iterates_content = false;       // for ... in (...)content
  bool tests_content_type = false;     // content is string, iterable, sequence, mapping
  bool tests_content_none = false;     // content is none
  bool tests_content_defined = false;  // content is defined, 'content' in ...
  bool arguments_as_object = false;    // arguments | tojson, arguments.items(), arguments is ...
  bool arguments_as_text = false;      // arguments + ..., ~, {{ arguments }}
};

struct TemplateTree {
  Body body;
  TemplateFacts facts;
};

}  // namespace fasteep::jinja
