#include "text/chat_template.h"

#include <cerrno>
#include <fstream>

#include "text/tokenizer_json.h"

namespace fasteep {

namespace {
using OrderedJson = nlohmann::ordered_json;

// Deeper messages are refused: copies of JSON recurse.
constexpr int kMaxMessageDepth = 100;

bool is_deeper_than(const OrderedJson& json, int levels) {
  if (!json.is_structured()) return false;
  if (levels == 0) return true;
  for (const OrderedJson& item : json) {
    if (is_deeper_than(item, levels - 1)) return true;
  }
  return false;
}

template <class... Args>
Error message_error(fmt::format_string<Args...> format, Args&&... args) {
  return invalid_input(format, std::forward<Args>(args)...).on_field("messages");
}

// The text of one part of a content, or null if it is something else.
const std::string* part_text(const OrderedJson& part) {
  if (part.is_string()) return part.get_ptr<const std::string*>();
  if (!part.is_object() || !part.contains("text")) return nullptr;
  return part["text"].get_ptr<const std::string*>();
}

Result<std::string> joined_parts(const OrderedJson& parts, std::size_t index) {
  std::string joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string* text = part_text(parts[i]);
    if (!text)
      return message_error("messages[{}].content[{}] is not a text, and this model takes only text",
                           index, i);
    if (i > 0) joined += "\n";
    joined += *text;
  }
  return joined;
}

Result<void> prepare_content(OrderedJson& message, std::size_t index,
                             const jinja::TemplateFacts& facts) {
  if (!message.contains("content")) {
    if (facts.tests_content_defined) return {};
    message["content"] = nullptr;
  }
  OrderedJson& content = message["content"];
  if (content.is_null() && !facts.tests_content_none && !facts.tests_content_type) content = "";
  if (content.is_array() && !facts.iterates_content && !facts.tests_content_type) {
    FASTEEP_TRY(content, joined_parts(content, index));
  }
  return {};
}

// The API has arguments as a string of JSON. One that is no object stays a string: models write
// such things, and the template may still print it.
void prepare_arguments(OrderedJson& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (OrderedJson& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function")) continue;
    OrderedJson& function = call["function"];
    if (!function.is_object() || !function.contains("arguments")) continue;
    const auto* text = function["arguments"].get_ptr<const std::string*>();
    if (!text) continue;
    OrderedJson parsed = text->find_first_not_of(" \t\r\n") == std::string::npos
                             ? OrderedJson::object()
                             : OrderedJson::parse(*text, nullptr, false);
    if (parsed.is_object()) function["arguments"] = std::move(parsed);
  }
}

void prepare_reasoning(OrderedJson& message) {
  static constexpr const char* kNames[] = {"reasoning_content", "reasoning"};
  for (int i = 0; i < 2; ++i) {
    const char* missing = kNames[i];
    const char* given = kNames[1 - i];
    if (message.contains(given) && !message.contains(missing)) {
      OrderedJson copy = message[given];
      message[missing] = std::move(copy);
    }
  }
}
}  // namespace

Result<OrderedJson> prepare_messages(const OrderedJson& messages,
                                     const jinja::TemplateFacts& facts) {
  if (!messages.is_array()) return message_error("messages is not a list");
  if (is_deeper_than(messages, kMaxMessageDepth))
    return message_error("messages are nested more than {} levels", kMaxMessageDepth);
  OrderedJson prepared = messages;
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    OrderedJson& message = prepared[i];
    if (!message.is_object()) return message_error("messages[{}] is not an object", i);
    FASTEEP_TRY_VOID(prepare_content(message, i, facts));
    if (facts.arguments_as_object || !facts.arguments_as_text) prepare_arguments(message);
    prepare_reasoning(message);
  }
  return prepared;
}

namespace {
OrderedJson token_variables(const SpecialTokens& tokens) {
  OrderedJson variables = OrderedJson::object();
  if (tokens.bos) variables["bos_token"] = *tokens.bos;
  if (tokens.eos) variables["eos_token"] = *tokens.eos;
  if (tokens.pad) variables["pad_token"] = *tokens.pad;
  if (tokens.unk) variables["unk_token"] = *tokens.unk;
  if (!tokens.additional.empty()) variables["additional_special_tokens"] = tokens.additional;
  return variables;
}

// Checks `extra`: an object (or null) that names nothing which has a field of its own.
Result<void> check_extra(const OrderedJson& extra) {
  if (extra.is_null()) return {};
  if (!extra.is_object())
    return invalid_input("chat_template_kwargs is not an object").on_field("chat_template_kwargs");
  for (const char* name :
       {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message"}) {
    if (extra.contains(name))
      return invalid_input("chat_template_kwargs holds '{}', which is a field of the request", name)
          .on_field("chat_template_kwargs");
  }
  return {};
}

// The text of the final message: its content, or the last text part of it; null if it has none.
const std::string* final_text(const OrderedJson& messages) {
  if (messages.empty() || !messages.back().contains("content")) return nullptr;
  const OrderedJson& content = messages.back()["content"];
  if (!content.is_array()) return content.get_ptr<const std::string*>();
  for (std::size_t i = content.size(); i-- > 0;) {
    if (const std::string* text = part_text(content[i])) return text;
  }
  return nullptr;
}

bool is_input(const std::vector<TextRange>& runs, TextRange range) {
  for (const TextRange& run : runs) {
    if (run.begin <= range.begin && range.end <= run.end) return true;
  }
  return false;
}

void cut_at(RenderedPrompt& prompt, std::size_t size) {
  prompt.text.resize(size);
  auto& runs = prompt.input_runs;
  while (!runs.empty() && runs.back().begin >= size) runs.pop_back();
  if (!runs.empty()) runs.back().end = std::min(runs.back().end, size);
}

// Drops what follows the final message's text. Templates may strip that text, but print it.
Result<void> cut_after_final_message(RenderedPrompt& prompt, const OrderedJson& messages) {
  const auto fail = [](std::string_view reason) {
    return invalid_input("{}", reason).on_field("continue_final_message");
  };
  const std::string* text = final_text(messages);
  const TextRange core = text ? jinja::strip_range(*text, "", true, true) : TextRange{};
  if (core.size() == 0)
    return fail("continue_final_message needs a final message that has some text");
  const std::string_view with_end = std::string_view(*text).substr(core.begin);
  const std::string_view stripped = with_end.substr(0, core.size());
  std::size_t at = prompt.text.rfind(stripped);
  // The same words in the template's own text are not the message.
  while (at != std::string::npos && !is_input(prompt.input_runs, {at, at + stripped.size()})) {
    at = at == 0 ? std::string::npos : prompt.text.rfind(stripped, at - 1);
  }
  if (at == std::string::npos)
    return fail(
        "the chat template does not print the final message as it is: it cannot be continued");
  const bool keeps_end = prompt.text.compare(at, with_end.size(), with_end) == 0;
  cut_at(prompt, at + (keeps_end ? with_end.size() : stripped.size()));
  return {};
}
}  // namespace

ChatTemplate::ChatTemplate(jinja::Template default_template,
                           std::optional<jinja::Template> tool_use, SpecialTokens tokens)
    : default_(std::move(default_template)),
      tool_use_(std::move(tool_use)),
      token_variables_(token_variables(tokens)) {}

Result<ChatTemplate> ChatTemplate::parse(const std::string& source, SpecialTokens tokens,
                                         const std::optional<std::string>& tool_use) {
  FASTEEP_TRY(jinja::Template default_template, jinja::Template::parse(source));
  std::optional<jinja::Template> with_tools;
  if (tool_use) {
    auto parsed = jinja::Template::parse(*tool_use);
    if (!parsed) return parsed.error().with("tool_use");
    with_tools = std::move(*parsed);
  }
  return ChatTemplate(std::move(default_template), std::move(with_tools), std::move(tokens));
}

Result<RenderedPrompt> ChatTemplate::render(const OrderedJson& messages,
                                            const ChatTemplateInput& in) const {
  if (in.add_generation_prompt && in.continue_final_message)
    return invalid_input("add_generation_prompt and continue_final_message exclude each other")
        .on_field("continue_final_message");
  FASTEEP_TRY_VOID(check_extra(in.extra));
  const bool has_tools = in.tools.is_array() && !in.tools.empty();
  const jinja::Template& chosen = has_tools && tool_use_ ? *tool_use_ : default_;
  FASTEEP_TRY(const OrderedJson prepared, prepare_messages(messages, chosen.facts()));

  const OrderedJson add_generation_prompt = in.add_generation_prompt;
  std::vector<jinja::Variable> variables = {
      {"messages", &prepared, true},
      {"tools", &in.tools, true},
      {"documents", &in.documents, true},
      {"add_generation_prompt", &add_generation_prompt, true}};
  for (const auto& [name, value] : token_variables_.items()) {
    variables.push_back({name, &value, false});
  }
  for (const auto& [name, value] : in.extra.items()) variables.push_back({name, &value, true});
  FASTEEP_TRY(jinja::Text text, chosen.render(variables, in.now));
  RenderedPrompt prompt{std::move(text.bytes), std::move(text.input_runs)};
  if (in.continue_final_message) FASTEEP_TRY_VOID(cut_after_final_message(prompt, prepared));
  return prompt;
}

namespace {
// The whole file, or nothing if there is none.
Result<std::optional<std::string>> read_if_there(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return std::optional<std::string>();
  std::ifstream file(path, std::ios::binary);
  if (!file) return io_error("open " + path.string(), errno);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return io_error("read " + path.string(), errno);
  return std::optional<std::string>(std::move(bytes));
}

// A token is a string, or an object with its content; null or absent: none.
std::optional<std::string> token_text(const Json* token) {
  if (token && token->is_object()) token = find_field(*token, "content");
  if (!token || !token->is_string()) return std::nullopt;
  return token->get<std::string>();
}

SpecialTokens read_special_tokens(const Json& config) {
  SpecialTokens tokens;
  tokens.bos = token_text(find_field(config, "bos_token"));
  tokens.eos = token_text(find_field(config, "eos_token"));
  tokens.pad = token_text(find_field(config, "pad_token"));
  tokens.unk = token_text(find_field(config, "unk_token"));
  const Json* additional = find_field(config, "additional_special_tokens");
  if (!additional || !additional->is_array()) return tokens;
  for (const Json& token : *additional) {
    if (auto text = token_text(&token)) tokens.additional.push_back(std::move(*text));
  }
  return tokens;
}

struct Sources {
  std::optional<std::string> default_source;
  std::optional<std::string> tool_use;
};

// `chat_template` of tokenizer_config.json: a text, or a list of {"name", "template"}.
Result<Sources> sources_of_config(const Json& config) {
  Sources sources;
  const Json* field = find_field(config, "chat_template");
  if (!field) return sources;
  if (field->is_string()) {
    sources.default_source = field->get<std::string>();
    return sources;
  }
  if (!field->is_array()) return invalid_input("chat_template is neither a string nor a list");
  for (const Json& entry : *field) {
    const auto name = token_text(find_field(entry, "name"));
    const auto source = token_text(find_field(entry, "template"));
    if (!name || !source)
      return invalid_input("chat_template holds an entry without a name and a template");
    if (*name == "default") sources.default_source = *source;
    if (*name == "tool_use") sources.tool_use = *source;
  }
  if (!sources.default_source && !field->empty())
    return invalid_input("chat_template is a list without an entry named 'default'");
  return sources;
}
}  // namespace

Result<std::optional<ChatTemplate>> load_chat_template(const std::filesystem::path& model_folder) {
  const auto config_path = model_folder / "tokenizer_config.json";
  FASTEEP_TRY(const auto config_text, read_if_there(config_path));
  Json config = Json::object();
  if (config_text) {
    FASTEEP_TRY(config, parse_json_object(*config_text, config_path.string()));
  }
  auto in_config = sources_of_config(config);
  if (!in_config) return in_config.error().with("{}", config_path.string());
  Sources sources = std::move(*in_config);
  std::filesystem::path origin = config_path;
  FASTEEP_TRY(auto own_file, read_if_there(model_folder / "chat_template.jinja"));
  if (own_file) {
    origin = model_folder / "chat_template.jinja";
    FASTEEP_TRY(auto tool_use,
                read_if_there(model_folder / "additional_chat_templates" / "tool_use.jinja"));
    sources = {std::move(own_file), std::move(tool_use)};
  }
  if (!sources.default_source) return std::optional<ChatTemplate>();
  auto parsed =
      ChatTemplate::parse(*sources.default_source, read_special_tokens(config), sources.tool_use);
  if (!parsed) return parsed.error().with("{}", origin.string());
  return std::optional<ChatTemplate>(std::move(*parsed));
}

}  // namespace fasteep
