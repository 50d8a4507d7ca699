#pragma once
// A parsed template and its rendering. Nothing throws past this header.
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja_ast.h"

namespace fasteep::jinja {

// A variable of a run. `value` is borrowed until render() returns.
struct Variable {
  std::string name;
  const nlohmann::ordered_json* value;
  bool from_input;  // whether its strings count as request input
};

// Immutable: any number of threads may render one template at the same time.
class Template {
 public:
  // Errors: kInvalidInput, with the line.
  static Result<Template> parse(std::string_view source, const Limits& limits = {});

  // Errors: kInvalidInput: the message of raise_exception() as it stands, else what went wrong and
  // in which line. `now` is what strftime_now() prints.
  Result<Text> render(const std::vector<Variable>& variables, const std::tm& now) const;

  const TemplateFacts& facts() const { return tree_->facts; }

 private:
  Template(std::shared_ptr<const TemplateTree> tree, const Limits& limits)
      : tree_(std::move(tree)), limits_(limits) {}

  std::shared_ptr<const TemplateTree> tree_;  // shared by copies; read only
  Limits limits_;
};

}  // namespace fasteep::jinja
