#include "base/settings_table.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fasteep {
namespace {

std::string normalised(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string join(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// Edit distance (insert, delete, replace; Levenshtein 1966).
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

int64_t unit_bytes(std::string_view unit) {
  static const std::pair<const char*, int64_t> kUnits[] = {{"", 1},
                                                           {"B", 1},
                                                           {"KB", 1000},
                                                           {"MB", 1000000},
                                                           {"GB", 1000000000},
                                                           {"TB", 1000000000000},
                                                           {"KiB", 1ll << 10},
                                                           {"MiB", 1ll << 20},
                                                           {"GiB", 1ll << 30},
                                                           {"TiB", 1ll << 40},
                                                           {"K", 1ll << 10},
                                                           {"M", 1ll << 20},
                                                           {"G", 1ll << 30},
                                                           {"T", 1ll << 40}};
  for (const auto& [name, bytes] : kUnits) {
    if (unit == name) return bytes;
  }
  return 0;
}

}  // namespace

Result<int64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const int64_t scale = unit_bytes(unit);
  const double bytes = number * static_cast<double>(scale);
  if (status != std::errc() || scale == 0 || !(bytes >= 0) || bytes > 0x1p62) {
    return invalid_input("\"{}\" is not a size: write it like 8GiB, 512MiB or 1000000", text);
  }
  return static_cast<int64_t>(std::llround(bytes));
}

std::string format_bytes(int64_t bytes) {
  static const char* const kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (std::abs(value) >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 2);
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

const Setting* SettingsTable::find(std::string_view name) const {
  const std::string wanted = normalised(name);
  for (const Setting& setting : settings_) {
    const auto& aliases = setting.aliases;
    if (setting.name == wanted ||
        std::find(aliases.begin(), aliases.end(), wanted) != aliases.end()) {
      return &setting;
    }
  }
  return nullptr;
}

Error SettingsTable::unknown(std::string_view what, std::string_view name) const {
  std::vector<std::string> names;
  for (const Setting& setting : settings_) {
    names.push_back(setting.name);
    names.insert(names.end(), setting.aliases.begin(), setting.aliases.end());
  }
  const std::string nearest = nearest_word(normalised(name), names);
  if (nearest.empty())
    return invalid_input("unknown {} \"{}\": see `fasteep serve --help`", what, name);
  return invalid_input("unknown {} \"{}\": did you mean \"{}\"?", what, name, nearest);
}

Result<void> SettingsTable::read_yaml(const std::string& path) const {
  try {
    const YAML::Node root = YAML::LoadFile(path);
    if (root.IsNull()) return {};
    if (!root.IsMap())
      return invalid_input("{}: expected a map of settings, like `max-num-seqs: 64`", path);
    for (const auto& entry : root) {
      const auto key = entry.first.as<std::string>();
      const int line = entry.first.Mark().line + 1;
      const Setting* setting = find(key);
      if (setting == nullptr) return unknown("key", key).with("{}:{}", path, line);
      if (!entry.second.IsScalar()) {
        return invalid_input("{}:{}: {}: expected one value ({})", path, line, key, setting->type);
      }
      auto parsed = setting->parse(entry.second.as<std::string>());
      if (!parsed) return parsed.error().with("{}:{}", path, line);
    }
    return {};
  } catch (const YAML::BadFile&) {
    return invalid_input("--config {}: no such file, or not readable", path);
  } catch (const YAML::Exception& error) {
    return invalid_input("{}: {}", path, error.what());
  }
}

std::string SettingsTable::markdown() const {
  std::string out = "| setting | type | default | meaning |\n|---|---|---|---|\n";
  for (const Setting& setting : settings_) {
    std::string names = "`--" + setting.name + "`";
    for (const std::string& alias : setting.aliases) names += ", `--" + alias + "`";
    const std::string value = setting.default_text.empty() ? "" : "`" + setting.default_text + "`";
    out += fmt::format("| {} | {} | {} | {} |\n", names, setting.type, value, setting.help);
  }
  return out;
}

std::string SettingsTable::type_text(const char* type, const Limits& limits) {
  if (!limits.choices.empty()) return "one of " + join(limits.choices);
  if (!limits.range) return type;
  const double high = limits.range->high;
  if (high == std::numeric_limits<double>::max())
    return fmt::format("{}, at least {}", type, limits.range->low);
  return fmt::format("{} from {} to {}", type, limits.range->low, high);
}

Result<bool> SettingsTable::parse_bool(std::string_view text, std::string_view flag) {
  if (text == "true" || text == "1" || text == "yes" || text == "on" || text.empty()) return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  return invalid_input("{}: \"{}\" is neither true nor false", flag, text);
}

Result<double> SettingsTable::parse_number(std::string_view text, std::string_view flag,
                                           const Limits& limits, bool integer) {
  double value = 0;
  if (limits.bytes) {
    auto bytes = parse_bytes(text);
    if (!bytes) return bytes.error().with("{}", flag);
    value = static_cast<double>(*bytes);
  } else {
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole =
        end == text.data() + text.size() && status == std::errc() && std::isfinite(value);
    if (!whole || (integer && value != std::floor(value))) {
      return invalid_input("{}: \"{}\" is not {}", flag, text, integer ? "an integer" : "a number");
    }
  }
  const bool too_big = integer && std::abs(value) > 0x1p53;
  if (too_big || (limits.range && (value < limits.range->low || value > limits.range->high))) {
    return invalid_input("{}: {} is out of range: give a value that is {}", flag, text,
                         type_text(limits.bytes ? "bytes" : "a number", limits));
  }
  return value;
}

Result<void> SettingsTable::check_choice(std::string_view text, std::string_view flag,
                                         const Limits& limits) {
  const auto& choices = limits.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end())
    return {};
  const std::string nearest = nearest_word(text, choices);
  return invalid_input("{}: \"{}\" is not one of {}{}", flag, text, join(choices),
                       nearest.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", nearest));
}

}  // namespace fasteep
