#pragma once
// Template source to its syntax tree.
#include <string_view>

#include "text/jinja_ast.h"

namespace fasteep::jinja {

// Throws Failure with the line.
TemplateTree parse_template(std::string_view source, const Limits& limits);

}  // namespace fasteep::jinja
