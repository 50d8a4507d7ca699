#pragma once
// Messages of a chat to the text of a prompt, by the template that came with the model.
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/jinja_interpreter.h"
#include "text/text_range.h"

namespace fasteep {

// Texts of the tokenizer's special tokens. Templates see those that are set as bos_token,
// eos_token, pad_token, unk_token and additional_special_tokens.
struct SpecialTokens {
  std::optional<std::string> bos, eos, pad, unk;
  std::vector<std::string> additional;
};

struct ChatTemplateInput {
  nlohmann::ordered_json tools;      // a list, or null
  nlohmann::ordered_json documents;  // a list, or null
  bool add_generation_prompt = true;
  // The prompt ends with the text of the last message, which the model then goes on writing.
  bool continue_final_message = false;
  nlohmann::ordered_json extra;  // chat_template_kwargs: an object of more variables, or null
  std::tm now{};                 // what strftime_now() prints: local time
};

struct RenderedPrompt {
  std::string text;
  // The bytes that came from messages, tools, documents or extra (ascending, disjoint): special
  // tokens that stand there were typed by somebody.
  std::vector<TextRange> input_runs;
};

// Immutable: any thread. Copies share the parsed template.
class ChatTemplate {
 public:
  // `tool_use`: the template for requests with tools, if the model has one of its own for these.
  // Errors: kInvalidInput, with the line.
  static Result<ChatTemplate> parse(const std::string& source, SpecialTokens tokens,
                                    const std::optional<std::string>& tool_use = {});

  // messages: a list of objects as the OpenAI API has them; prepare_messages() is applied.
  // Errors: kInvalidInput: the template's own complaint (raise_exception) as it stands, or what is
  // wrong with the messages or the template.
  Result<RenderedPrompt> render(const nlohmann::ordered_json& messages,
                                const ChatTemplateInput& in) const;

 private:
  ChatTemplate(jinja::Template default_template, std::optional<jinja::Template> tool_use,
               SpecialTokens tokens);

  jinja::Template default_;
  std::optional<jinja::Template> tool_use_;
  nlohmann::ordered_json token_variables_;  // bos_token etc.
};

// The template of a model's folder: chat_template.jinja, else `chat_template` of
// tokenizer_config.json, else none. Errors: kIo; kInvalidInput, a template that does not parse.
Result<std::optional<ChatTemplate>> load_chat_template(const std::filesystem::path& model_folder);

// Messages in the shape that a template with these facts expects:
// - arguments of tool calls become objects, unless the template only prints them as text;
// - text parts become one text, unless the template looks at the parts;
// - a missing or null content becomes "", unless the template asks for it;
// - `reasoning` and `reasoning_content` are two names for one thing.
// Errors: kInvalidInput, on_field("messages").
Result<nlohmann::ordered_json> prepare_messages(const nlohmann::ordered_json& messages,
                                                const jinja::TemplateFacts& facts);

}  // namespace fasteep
