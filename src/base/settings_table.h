#pragma once
// The list behind the command line, --config, --help, the start-up print and docs/settings.md: one
// entry per setting, made by visiting the settings structs (see settings.h).
#include <fmt/format.h>

#include <charconv>
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "base/settings.h"

namespace fasteep {

struct Setting {
  std::string name;  // "max-num-seqs"; the flag is --max-num-seqs, the YAML key either spelling
  std::vector<std::string> aliases;
  std::string help;
  std::string type;  // "integer", "bytes", "one of auto, float32, bfloat16", ...
  std::string default_text;
  bool is_switch = false;  // a bool: --name or --no-name
  std::function<Result<void>(std::string_view text)> parse;
  std::function<std::string()> print;  // the value now
};

// "8GiB", "512 MiB", "1000000": bytes. "KiB MiB GiB TiB", "KB MB GB TB", "B" or nothing.
Result<int64_t> parse_bytes(std::string_view text);
std::string format_bytes(int64_t bytes);  // "1.50 GiB"
template <std::unsigned_integral Size>
std::string format_bytes(Size bytes) {
  return format_bytes(static_cast<int64_t>(bytes));
}

// The candidate nearest to `word` by edits, or empty when none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

// Threads: one. The settings structs outlive the table.
class SettingsTable {
 public:
  template <class Struct>
  void add(Struct& settings) {
    settings.visit(*this);
  }
  // What visit() calls.
  template <class T, class... Constraints>
  void operator()(T& member, const char* name, const char* help, Constraints... constraints) {
    Setting setting;
    setting.name = name;
    setting.help = help;
    Limits limits;
    (apply(constraints, limits, setting), ...);
    describe<T>(limits, setting);
    setting.parse = [&member, limits, flag = setting.name](std::string_view text) {
      return parse_into(text, flag, limits, member);
    };
    setting.print = [&member, limits] { return to_text(member, limits); };
    setting.default_text = setting.print();
    settings_.push_back(std::move(setting));
  }

  const std::vector<Setting>& settings() const { return settings_; }
  // By name or alias, '_' and '-' alike. nullptr if there is none.
  const Setting* find(std::string_view name) const;
  // Error for an unknown name, with the nearest known one.
  Error unknown(std::string_view what, std::string_view name) const;
  // Reads a YAML map of settings. Errors name the file, line and key.
  Result<void> read_yaml(const std::string& path) const;
  // A Markdown table of all settings.
  std::string markdown() const;

 private:
  struct Limits {
    std::optional<Range> range;
    std::vector<std::string> choices;
    bool bytes = false;
  };
  static void apply(const Range& range, Limits& limits, Setting&) { limits.range = range; }
  static void apply(const Choices& choices, Limits& limits, Setting&) {
    limits.choices = choices.names;
  }
  static void apply(const Bytes&, Limits& limits, Setting&) { limits.bytes = true; }
  static void apply(const Anything&, Limits&, Setting&) {}
  static void apply(const Aliases& aliases, Limits&, Setting& setting) {
    setting.aliases = aliases.names;
  }

  template <class T>
  struct is_optional : std::false_type {};
  template <class T>
  struct is_optional<std::optional<T>> : std::true_type {};

  static std::string type_text(const char* type, const Limits& limits);
  static Result<bool> parse_bool(std::string_view text, std::string_view flag);
  static Result<double> parse_number(std::string_view text, std::string_view flag,
                                     const Limits& limits, bool integer);
  static Result<void> check_choice(std::string_view text, std::string_view flag,
                                   const Limits& limits);

  template <class T>
  static void describe(const Limits& limits, Setting& setting) {
    if constexpr (is_optional<T>::value) {
      describe<typename T::value_type>(limits, setting);
    } else if constexpr (std::is_same_v<T, bool>) {
      setting.is_switch = true;
      setting.type = "switch";
    } else if constexpr (std::is_integral_v<T>) {
      setting.type = type_text(limits.bytes ? "bytes" : "integer", limits);
    } else if constexpr (std::is_floating_point_v<T>) {
      setting.type = type_text("number", limits);
    } else {
      setting.type = type_text("text", limits);
    }
  }

  template <class T>
  static Result<void> parse_into(std::string_view text, std::string_view flag, const Limits& limits,
                                 T& member) {
    if constexpr (is_optional<T>::value) {
      typename T::value_type value{};
      FASTEEP_TRY_VOID(parse_into(text, flag, limits, value));
      member = std::move(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      FASTEEP_TRY(member, parse_bool(text, flag));
    } else if constexpr (std::is_arithmetic_v<T>) {
      FASTEEP_TRY(const double value, parse_number(text, flag, limits, std::is_integral_v<T>));
      member = static_cast<T>(value);
    } else {
      FASTEEP_TRY_VOID(check_choice(text, flag, limits));
      member = std::string(text);
    }
    return {};
  }

  template <class T>
  static std::string to_text(const T& member, const Limits& limits) {
    if constexpr (is_optional<T>::value) {
      return member ? to_text(*member, limits) : std::string();
    } else if constexpr (std::is_same_v<T, bool>) {
      return member ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      return limits.bytes ? format_bytes(static_cast<int64_t>(member)) : fmt::format("{}", member);
    } else {
      return fmt::format("{}", member);
    }
  }

  std::vector<Setting> settings_;
};

}  // namespace fasteep
