#include "server/openai_request.h"

#include <gtest/gtest.h>

#include "server/server_test_support.h"

namespace fasteep {
namespace {

using testing::ByteText;
using testing::kEos;
using testing::kVocabSize;

ServedModel tiny(GenerationDefaults defaults = {}) {
  static const ByteText text;
  return {{"tiny", "alias"}, 200, kVocabSize, text, defaults, {kEos}};
}

Result<CompletionRequest> completion(const std::string& fields, GenerationDefaults defaults = {}) {
  const std::string comma = fields.empty() ? "" : ", ";
  return parse_completion_request(*parse_json("{\"prompt\": \"x\"" + comma + fields + "}"),
                                  tiny(defaults));
}

Result<ChatRequest> chat(const std::string& fields) {
  const std::string comma = fields.empty() ? "" : ", ";
  return parse_chat_request(
      *parse_json(R"({"messages": [{"role": "user", "content": "x"}])" + comma + fields + "}"),
      tiny());
}

TEST(OpenAiRequest, EmptyFieldsTakeTheApisDefaults) {
  const GenerationFields fields = completion("")->fields;
  EXPECT_EQ(fields.model, "tiny");
  EXPECT_EQ(fields.sampling.temperature, 1.0f);
  EXPECT_EQ(fields.sampling.top_p, 1.0f);
  EXPECT_EQ(fields.sampling.top_k, 0);
  EXPECT_EQ(fields.sampling.min_p, 0.0f);
  EXPECT_EQ(fields.sampling.num_logprobs, -1);
  EXPECT_FALSE(fields.max_tokens.has_value());
  EXPECT_EQ(fields.n, 1);
  EXPECT_TRUE(fields.skip_special_tokens);
}

TEST(OpenAiRequest, SamplingFieldsAreRead) {
  const SamplingParams sampling =
      completion(R"("temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "seed": 42)")
          ->fields.sampling;
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_p, 0.9f);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.min_p, 0.1f);
  EXPECT_EQ(sampling.seed, 42u);
}

TEST(OpenAiRequest, SeedsAreDrawnUnlessGivenAndMayBeNegative) {
  EXPECT_NE(completion("")->fields.sampling.seed, completion("")->fields.sampling.seed);
  EXPECT_EQ(completion(R"("seed": -1)")->fields.sampling.seed, ~uint64_t{0});
  EXPECT_EQ(completion(R"("seed": 18446744073709551615)")->fields.sampling.seed, ~uint64_t{0});
}

TEST(OpenAiRequest, TheCheckpointsDefaultsGiveWayOneByOne) {
  const GenerationDefaults defaults{0.6f, 0.95f, 20, 0.05f, {}};
  const SamplingParams sampling =
      completion(R"("top_k": -1, "temperature": 0)", defaults)->fields.sampling;
  EXPECT_EQ(sampling.temperature, 0.0f);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.top_p, 0.95f);
  EXPECT_EQ(sampling.min_p, 0.05f);
}

TEST(OpenAiRequest, FlagsAreRead) {
  const GenerationFields fields =
      completion(R"("stream": true, "stream_options": {"include_usage": true}, "ignore_eos": true,
                 "skip_special_tokens": false, "include_stop_str_in_output": true,
                 "return_token_ids": true, "return_logits_digest": true, "n": 3)")
          ->fields;
  EXPECT_TRUE(fields.stream && fields.include_usage && fields.ignore_eos);
  EXPECT_TRUE(fields.include_stop_text && fields.return_token_ids && fields.return_logits_digest);
  EXPECT_FALSE(fields.skip_special_tokens || fields.continuous_usage);
  EXPECT_EQ(fields.n, 3);
}

TEST(OpenAiRequest, StopMayBeOneOrMany) {
  EXPECT_EQ(completion(R"("stop": "a")")->fields.stop, std::vector<std::string>{"a"});
  EXPECT_EQ(completion(R"("stop": ["a", "b"])")->fields.stop.size(), 2u);
  EXPECT_EQ(completion(R"("stop_token_ids": [5, 6])")->fields.stop_token_ids,
            (std::vector<TokenId>{5, 6}));
}

TEST(OpenAiRequest, TheNewerSpellingOfMaxTokensWins) {
  const GenerationFields fields =
      completion(R"("max_tokens": 5, "max_completion_tokens": 7)")->fields;
  EXPECT_EQ(fields.max_tokens, 7);
  EXPECT_EQ(fields.max_tokens_field, "max_completion_tokens");
}

TEST(OpenAiRequest, PromptsComeInFourShapes) {
  const auto prompts = [](const std::string& prompt) {
    return parse_completion_request(*parse_json("{\"prompt\": " + prompt + "}"), tiny())->prompts;
  };
  EXPECT_EQ(std::get<std::string>(prompts(R"("x")")[0]), "x");
  EXPECT_EQ(prompts(R"(["x", "y"])").size(), 2u);
  EXPECT_EQ(std::get<1>(prompts("[1, 2]")[0]), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(std::get<1>(prompts("[[1], [2, 3]]")[1]), (std::vector<TokenId>{2, 3}));
}

TEST(OpenAiRequest, NullsAndUnknownFieldsCountAsAbsent) {
  EXPECT_TRUE(completion(R"("temperature": null, "stop": null, "seed": null, "user": "me",
                         "no_such_field": [1], "logit_bias": null, "suffix": null)")
                  .has_value());
}

TEST(OpenAiRequest, HarmlessValuesOfUnsupportedFieldsPass) {
  EXPECT_TRUE(completion(R"("presence_penalty": 0, "frequency_penalty": 0.0, "echo": false,
                         "repetition_penalty": 1.0, "logit_bias": {}, "best_of": 2, "n": 2,
                         "response_format": {"type": "text"}, "suffix": "")")
                  .has_value());
  EXPECT_TRUE(chat(R"("tool_choice": "auto", "tools": [{"type": "function"}])").has_value());
}

TEST(OpenAiRequest, ChatFieldsReachThePrompt) {
  const ChatPrompt prompt =
      chat(R"("tools": [{}], "documents": [{}, {}], "chat_template_kwargs": {"a": 1},
           "add_generation_prompt": false, "add_special_tokens": true)")
          ->prompt;
  EXPECT_EQ(prompt.tools.size(), 1u);
  EXPECT_EQ(prompt.documents.size(), 2u);
  EXPECT_EQ(prompt.template_kwargs["a"], 1);
  EXPECT_FALSE(prompt.add_generation_prompt);
  EXPECT_TRUE(prompt.add_special_tokens);
}

TEST(OpenAiRequest, ContinuingAMessageOpensNoNewOne) {
  const ChatPrompt prompt = chat(R"("continue_final_message": true)")->prompt;
  EXPECT_TRUE(prompt.continue_final_message);
  EXPECT_FALSE(prompt.add_generation_prompt);
}

TEST(OpenAiRequest, LogprobsOfChatAndCompletion) {
  EXPECT_EQ(chat(R"("logprobs": true)")->fields.sampling.num_logprobs, 0);
  EXPECT_EQ(chat(R"("logprobs": true, "top_logprobs": 5)")->fields.sampling.num_logprobs, 5);
  EXPECT_EQ(chat(R"("top_logprobs": 0)")->fields.sampling.num_logprobs, -1);
  EXPECT_EQ(completion(R"("logprobs": 3)")->fields.sampling.num_logprobs, 3);
}

TEST(OpenAiRequest, UnknownModelIsNotFound) {
  const auto request = completion(R"("model": "nobody")");
  EXPECT_EQ(request.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(request.error().field(), "model");
  EXPECT_EQ(completion(R"("model": "alias")")->fields.model, "alias");
}

struct Refusal {
  std::string fields;
  std::string param;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.fields; }

class RefusedCompletion : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedCompletion, NamesTheField) {
  const auto request = completion(GetParam().fields);
  ASSERT_FALSE(request.has_value());
  EXPECT_EQ(request.error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(request.error().field(), GetParam().param);
  EXPECT_NE(request.error().message().find(GetParam().param), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Values, RefusedCompletion,
    ::testing::Values(
        Refusal{R"("temperature": -0.1)", "temperature"},
        Refusal{R"("temperature": "hot")", "temperature"},
        Refusal{R"("temperature": 1e300)", "temperature"}, Refusal{R"("top_p": 0)", "top_p"},
        Refusal{R"("top_p": 1.5)", "top_p"}, Refusal{R"("top_k": -2)", "top_k"},
        Refusal{R"("top_k": 1.5)", "top_k"}, Refusal{R"("min_p": 2)", "min_p"},
        Refusal{R"("seed": "x")", "seed"}, Refusal{R"("seed": 1e30)", "seed"},
        Refusal{R"("n": 0)", "n"}, Refusal{R"("n": 129)", "n"},
        Refusal{R"("max_tokens": 0)", "max_tokens"},
        Refusal{R"("max_tokens": 3000000000)", "max_tokens"},
        Refusal{R"("max_completion_tokens": -1)", "max_completion_tokens"},
        Refusal{R"("stop": "")", "stop"}, Refusal{R"("stop": [1])", "stop"},
        Refusal{R"("stop": ["a", ""])", "stop"},
        Refusal{R"("stop_token_ids": [300])", "stop_token_ids"},
        Refusal{R"("stop_token_ids": 3)", "stop_token_ids"}, Refusal{R"("stream": 1)", "stream"},
        Refusal{R"("stream_options": {})", "stream_options"},
        Refusal{R"("stream": true, "stream_options": 1)", "stream_options"},
        Refusal{R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options"},
        Refusal{R"("logprobs": 21)", "logprobs"}, Refusal{R"("logprobs": true)", "logprobs"},
        Refusal{R"("ignore_eos": "yes")", "ignore_eos"}, Refusal{R"("model": 3)", "model"},
        Refusal{R"("prompt": [])", "prompt"}, Refusal{R"("prompt": null)", "prompt"},
        Refusal{R"("prompt": 3)", "prompt"}, Refusal{R"("prompt": [300])", "prompt"},
        Refusal{R"("prompt": [-1])", "prompt"}, Refusal{R"("prompt": [1.5])", "prompt"},
        Refusal{R"("prompt": [[99999999999]])", "prompt"},
        Refusal{R"("prompt": ["a", 1])", "prompt"}));

INSTANTIATE_TEST_SUITE_P(
    Unsupported, RefusedCompletion,
    ::testing::Values(Refusal{R"("presence_penalty": 0.5)", "presence_penalty"},
                      Refusal{R"("frequency_penalty": -1)", "frequency_penalty"},
                      Refusal{R"("repetition_penalty": 1.1)", "repetition_penalty"},
                      Refusal{R"("logit_bias": {"5": 1})", "logit_bias"},
                      Refusal{R"("best_of": 2)", "best_of"},
                      Refusal{R"("response_format": {"type": "json_object"})", "response_format"},
                      Refusal{R"("echo": true)", "echo"}, Refusal{R"("suffix": "x")", "suffix"},
                      Refusal{R"("min_tokens": 3)", "min_tokens"},
                      Refusal{R"("guided_regex": "x")", "guided_regex"},
                      Refusal{R"("prompt_logprobs": 1)", "prompt_logprobs"},
                      Refusal{R"("bad_words": ["x"])", "bad_words"},
                      Refusal{R"("use_beam_search": true)", "use_beam_search"}));

class RefusedChat : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedChat, NamesTheField) {
  const auto request = chat(GetParam().fields);
  ASSERT_FALSE(request.has_value());
  EXPECT_EQ(request.error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(request.error().field(), GetParam().param);
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedChat,
    ::testing::Values(Refusal{R"("messages": [])", "messages"},
                      Refusal{R"("messages": "x")", "messages"},
                      Refusal{R"("messages": null)", "messages"},
                      Refusal{R"("messages": [1])", "messages"},
                      Refusal{R"("messages": [{"content": "x"}])", "messages"},
                      Refusal{R"("messages": [{"role": 3}])", "messages"},
                      Refusal{R"("top_logprobs": 3)", "top_logprobs"},
                      Refusal{R"("logprobs": true, "top_logprobs": 21)", "top_logprobs"},
                      Refusal{R"("logprobs": 3)", "logprobs"}, Refusal{R"("tools": {})", "tools"},
                      Refusal{R"("tool_choice": "required")", "tool_choice"},
                      Refusal{R"("tool_choice": {"type": "function"})", "tool_choice"},
                      Refusal{R"("chat_template": "x")", "chat_template"},
                      Refusal{R"("chat_template_kwargs": [])", "chat_template_kwargs"},
                      Refusal{R"("continue_final_message": true, "add_generation_prompt": true)",
                              "continue_final_message"}));

TEST(OpenAiRequest, TooManyChoicesAreRefused) {
  OrderedJson prompts = OrderedJson::array();
  for (int i = 0; i < 100; ++i) prompts.push_back("x");
  EXPECT_EQ(parse_completion_request({{"prompt", prompts}, {"n", 100}}, tiny()).error().field(),
            "n");
}

TEST(OpenAiRequest, TokenizeTakesATextOrAChat) {
  const auto parse = [](const char* body) {
    return parse_tokenize_request(*parse_json(body), tiny());
  };
  EXPECT_EQ(std::get<0>(parse(R"({"prompt": "hi"})")->prompt), "hi");
  EXPECT_TRUE(parse(R"({"prompt": "hi"})")->add_special_tokens);
  EXPECT_EQ(parse(R"({"messages": [{"role": "user"}]})")->prompt.index(), 1u);
  EXPECT_EQ(parse("{}").error().field(), "prompt");
  EXPECT_FALSE(parse("[]").has_value());
}

TEST(OpenAiRequest, DetokenizeChecksIds) {
  EXPECT_EQ(parse_detokenize_request(*parse_json(R"({"tokens": [1, 2]})"), tiny())->size(), 2u);
  EXPECT_EQ(parse_detokenize_request(*parse_json(R"({"tokens": [300]})"), tiny()).error().field(),
            "tokens");
  EXPECT_EQ(parse_detokenize_request(*parse_json("{}"), tiny()).error().field(), "tokens");
}

}  // namespace
}  // namespace fasteep
