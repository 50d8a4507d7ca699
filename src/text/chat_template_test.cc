#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace fasteep {
namespace {
using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr char kChatml[] =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

ChatTemplate parsed(const std::string& source, SpecialTokens tokens = {},
                    const std::optional<std::string>& tool_use = {}) {
  auto result = ChatTemplate::parse(source, std::move(tokens), tool_use);
  CHECK(result.has_value(), "{}", result.has_value() ? "" : result.error().message());
  return *result;
}

std::string show(const Result<RenderedPrompt>& result) {
  return result ? result.value().text : "ERROR: " + result.error().message();
}
std::string show(const std::string& source, const std::string& messages,
                 const ChatTemplateInput& in = {}) {
  return show(parsed(source).render(Json::parse(messages), in));
}

TEST(ChatTemplate, RendersChatml) {
  EXPECT_EQ(show(kChatml, R"([{"role": "user", "content": "hi"}])"),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, TellsTypedTokensFromItsOwn) {
  const auto prompt =
      parsed(kChatml).render(Json::parse(R"([{"role": "user", "content": "<|im_end|>"}])"), {});
  ASSERT_TRUE(prompt.has_value());
  const std::string& text = prompt.value().text;
  ASSERT_EQ(prompt.value().input_runs.size(), 2u);  // the role, the content
  const TextRange content = prompt.value().input_runs[1];
  EXPECT_EQ(text.substr(content.begin, content.size()), "<|im_end|>");
  EXPECT_EQ(content.begin, text.find("<|im_end|>"));
}

TEST(ChatTemplate, SpecialTokensAreTheTemplatesAndUndefinedIfUnset) {
  SpecialTokens tokens;
  tokens.bos = "<s>";
  const auto prompt =
      parsed("{{ bos_token }}{{ eos_token is defined }}", tokens).render(Json::array(), {});
  EXPECT_EQ(show(prompt), "<s>False");
  EXPECT_TRUE(prompt.value().input_runs.empty());
}

TEST(ChatTemplate, ToolsAreNoneWhenAbsentAndKeepTheirKeyOrder) {
  ChatTemplateInput in;
  EXPECT_EQ(show("{{ tools is none }} {{ documents is none }}", "[]", in), "True True");
  in.tools = Json::parse(R"([{"z": 1, "a": 1.0}])");
  EXPECT_EQ(show("{{ tools | tojson }}", "[]", in), R"([{"z": 1, "a": 1.0}])");
}

TEST(ChatTemplate, UsesItsToolTemplateOnlyWithTools) {
  const ChatTemplate both = parsed("plain", {}, "tools");
  ChatTemplateInput in;
  EXPECT_EQ(show(both.render(Json::array(), in)), "plain");
  in.tools = Json::array();
  EXPECT_EQ(show(both.render(Json::array(), in)), "plain");
  in.tools.push_back(Json::object());
  EXPECT_EQ(show(both.render(Json::array(), in)), "tools");
}

TEST(ChatTemplate, ExtraVariablesMayNotShadowTheRequest) {
  ChatTemplateInput in;
  in.extra = {{"enable_thinking", false}};
  EXPECT_EQ(show("{{ enable_thinking is false }}", "[]", in), "True");
  in.extra = {{"messages", 1}};
  const auto result = parsed("").render(Json::array(), in);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().field(), "chat_template_kwargs");
}

TEST(ChatTemplate, RaisedMessageReachesTheUser) {
  const auto result =
      parsed("{{ raise_exception('roles must alternate') }}").render(Json::array(), {});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(result.error().message(), "roles must alternate");
}

TEST(ChatTemplate, TimeComesFromTheCaller) {
  ChatTemplateInput in;
  in.now.tm_year = 126;
  in.now.tm_mday = 9;
  EXPECT_EQ(show("{{ strftime_now('%Y-%m-%d') }}", "[]", in), "2026-01-09");
}

TEST(ChatTemplateContinue, CutsAfterTheLastMessage) {
  ChatTemplateInput in;
  in.add_generation_prompt = false;
  in.continue_final_message = true;
  // "end" stands in <|im_end|> too.
  const std::string messages =
      R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "the end "}])";
  EXPECT_EQ(show(kChatml, messages, in),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\nthe end ");
  EXPECT_EQ(show("{% for m in messages %}{{ m.content | trim }}<end>{% endfor %}", messages, in),
            "q<end>the end");
  EXPECT_EQ(show("{% for m in messages %}{{ m.content }}<|end|>{% endfor %}",
                 R"([{"role": "assistant", "content": "end"}])", in),
            "end");
}

TEST(ChatTemplateContinue, RefusesWhatItCannotDo) {
  ChatTemplateInput in;
  in.continue_final_message = true;
  EXPECT_THAT(show(kChatml, R"([{"role": "user", "content": "q"}])", in), HasSubstr("exclude"));
  in.add_generation_prompt = false;
  EXPECT_THAT(show(kChatml, R"([{"role": "user", "content": " "}])", in), HasSubstr("some text"));
  EXPECT_THAT(
      show("{{ messages[0].content | upper }}", R"([{"role": "user", "content": "q"}])", in),
      HasSubstr("as it is"));
}

constexpr char kToolCall[] =
    R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"z\": 1, \"a\": 2}"}}]}])";

TEST(PrepareMessages, ArgumentsBecomeObjectsInOrder) {
  EXPECT_EQ(show("{{ messages[0].tool_calls[0].function.arguments | tojson }}", kToolCall),
            R"({"z": 1, "a": 2})");
  EXPECT_EQ(show("{{ messages[0].tool_calls[0].function.arguments.z }}", kToolCall), "1");
}

TEST(PrepareMessages, ArgumentsStayTextForTemplatesThatPrintText) {
  EXPECT_EQ(show("{{ 'json ' + messages[0].tool_calls[0].function.arguments }}", kToolCall),
            R"(json {"z": 1, "a": 2})");
}

TEST(PrepareMessages, ArgumentsThatAreNoObjectStayText) {
  EXPECT_EQ(
      show("{{ messages[0].tool_calls[0].function.arguments | tojson }}",
           R"([{"role": "assistant", "tool_calls": [{"function": {"arguments": "{oops"}}]}])"),
      R"("{oops")");
}

TEST(PrepareMessages, TextPartsAreJoinedUnlessTheTemplateLooks) {
  const std::string parts =
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
  EXPECT_EQ(show("{{ messages[0].content }}", parts), "a\nb");
  EXPECT_EQ(show("{% for m in messages %}{% for p in m['content'] %}<{{ p.text }}>{% endfor %}{% "
                 "endfor %}",
                 parts),
            "<a><b>");
  EXPECT_EQ(
      show("{{ 's' if messages[0].content is string else messages[0].content | length }}", parts),
      "2");
}

TEST(PrepareMessages, PartsThatAreNoTextNeedATemplateForThem) {
  const std::string image =
      R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])";
  EXPECT_THAT(show("{{ messages[0].content }}", image), HasSubstr("messages[0].content[0]"));
  EXPECT_EQ(show("{% for p in messages[0].content %}{{ p.type }}{% endfor %}", image), "image_url");
}

TEST(PrepareMessages, NullContentIsEmptyUnlessTheTemplateAsks) {
  for (const std::string messages :
       {R"([{"role": "assistant", "content": null}])", R"([{"role": "assistant"}])"}) {
    EXPECT_EQ(show("{{ '[' + messages[0].content + ']' }}", messages), "[]");
    EXPECT_EQ(show("{{ messages[0].content is none }}", messages), "True");
  }
  EXPECT_EQ(show("{{ messages[0].content is defined }}", R"([{"role": "assistant"}])"), "False");
}

TEST(PrepareMessages, ReasoningHasTwoNames) {
  EXPECT_EQ(show("{{ messages[0].reasoning_content }}", R"([{"role": "a", "reasoning": "r"}])"),
            "r");
  EXPECT_EQ(show("{{ messages[0].reasoning }}", R"([{"role": "a", "reasoning_content": "r"}])"),
            "r");
}

TEST(PrepareMessages, RefusesWhatIsNoMessage) {
  for (const char* messages : {"{}", "[1]"}) {
    const auto result = parsed("").render(Json::parse(messages), {});
    ASSERT_FALSE(result.has_value()) << messages;
    EXPECT_EQ(result.error().field(), "messages");
  }
  Json deep = 1;
  for (int i = 0; i < 5000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_THAT(show(parsed("").render(deep, {})), HasSubstr("nested more than"));
}

// A folder of its own, gone with the test.
class LoadChatTemplate : public testing::Test {
 protected:
  LoadChatTemplate() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "chat_template_XXXXXX").string();
    CHECK(mkdtemp(pattern.data()) != nullptr, "no temporary folder");
    folder_ = pattern;
  }
  ~LoadChatTemplate() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, std::string_view bytes) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << bytes;
  }

  std::string load_and_show(const ChatTemplateInput& in = {}) {
    const auto loaded = load_chat_template(folder_);
    if (!loaded) return "ERROR: " + loaded.error().message();
    return loaded.value() ? show(loaded.value()->render(Json::array(), in)) : "none";
  }

  std::filesystem::path folder_;
};

TEST_F(LoadChatTemplate, NoneWithoutFiles) {
  EXPECT_EQ(load_and_show(), "none");
  write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_EQ(load_and_show(), "none");
}

TEST_F(LoadChatTemplate, OfTheConfigWithItsTokens) {
  write("tokenizer_config.json",
        R"({"chat_template": "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}",
            "bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null})");
  EXPECT_EQ(load_and_show(), "<s></s>False");
}

TEST_F(LoadChatTemplate, OwnFileWins) {
  write("tokenizer_config.json", R"({"chat_template": "old", "bos_token": "<s>"})");
  write("chat_template.jinja", "new {{ bos_token }}\n");
  EXPECT_EQ(load_and_show(), "new <s>");
}

TEST_F(LoadChatTemplate, NamedTemplates) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "plain"},
                              {"name": "tool_use", "template": "tools"}]})");
  EXPECT_EQ(load_and_show(), "plain");
  ChatTemplateInput in;
  in.tools = Json::parse("[{}]");
  EXPECT_EQ(load_and_show(in), "tools");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  EXPECT_THAT(load_and_show(), HasSubstr("'default'"));
}

TEST_F(LoadChatTemplate, ErrorsNameTheFile) {
  write("chat_template.jinja", "\n{% if %}");
  EXPECT_THAT(load_and_show(),
              testing::AllOf(HasSubstr("chat_template.jinja"), HasSubstr("line 2")));
  write("tokenizer_config.json", "{");
  EXPECT_THAT(load_and_show(), HasSubstr("tokenizer_config.json"));
}

TEST(LoadChatTemplateOfFixture, RendersTheTinyModel) {
  const auto loaded = load_chat_template(FASTEEP_SOURCE_DIR "/tests/fixtures/qwen3_moe");
  ASSERT_TRUE(loaded.has_value() && loaded.value().has_value());
  EXPECT_EQ(show(loaded.value()->render(Json::parse(R"([{"role": "user", "content": "hi"}])"), {})),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace fasteep
