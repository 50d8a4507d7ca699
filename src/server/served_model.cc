#include "server/served_model.h"

#include <algorithm>

namespace fasteep {

Result<std::string> ServedModel::find_name(const std::string& name) const {
  if (name.empty()) return names.front();
  if (std::find(names.begin(), names.end(), name) != names.end()) return name;
  return make_error(ErrorCode::kNotFound, "The model `{}` does not exist.", name).on_field("model");
}

}  // namespace fasteep
