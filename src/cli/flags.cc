#include "cli/flags.h"

namespace fasteep {
namespace {

std::string flag_names(const Setting& setting) {
  std::string names = "--" + setting.name;
  for (const std::string& alias : setting.aliases) names += ",--" + alias;
  if (setting.is_switch) names += ",!--no-" + setting.name;
  return names;
}

}  // namespace

Flags::Flags(CLI::App& app, std::shared_ptr<const SettingsTable> table, bool with_config)
    : app_(app), table_(std::move(table)) {
  app.allow_extras();
  if (with_config) {
    app.add_option("--config", config_path_, "YAML file of these settings; flags win over it")
        ->type_name("FILE");
  }
  for (const Setting& setting : table_->settings()) add(app, setting);
}

void Flags::add(CLI::App& app, const Setting& setting) {
  if (setting.is_switch) {
    app.add_flag_function(
           flag_names(setting),
           [this, &setting](std::int64_t count) {
             given_.emplace_back(&setting, count > 0 ? "true" : "false");
           },
           setting.help)
        ->default_str(setting.default_text);
    return;
  }
  app.add_option_function<std::string>(
         flag_names(setting),
         [this, &setting](const std::string& text) { given_.emplace_back(&setting, text); },
         setting.help)
      ->type_name(setting.type)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->default_str(setting.default_text);
}

Result<void> refuse_extras(const CLI::App& app, const SettingsTable& table) {
  for (const std::string& extra : app.remaining()) {
    if (extra.rfind("--", 0) != 0) return invalid_input("unexpected argument \"{}\"", extra);
    const std::string name =
        extra.substr(2, extra.find('=') == std::string::npos ? extra.npos : extra.find('=') - 2);
    return table.unknown("flag", name);
  }
  return {};
}

Result<void> Flags::apply() const {
  FASTEEP_TRY_VOID(refuse_extras(app_, *table_));
  if (!config_path_.empty()) FASTEEP_TRY_VOID(table_->read_yaml(config_path_));
  for (const auto& [setting, text] : given_) {
    auto parsed = setting->parse(text);
    if (!parsed) return parsed.error().with("--{}", setting->name);
  }
  return {};
}

}  // namespace fasteep
