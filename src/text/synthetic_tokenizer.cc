#include "text/synthetic_tokenizer.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace fasteep {
namespace {

using nlohmann::json;

constexpr int kNumBytes = 256;
constexpr std::array<std::string_view, 3> kSpecialTokens = {"<|endoftext|>", "<|im_start|>",
                                                            "<|im_end|>"};
constexpr int kMinSize = kNumBytes + static_cast<int>(kSpecialTokens.size());
constexpr int kMaxSize = 1'000'000;
constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkqjxz";  // by frequency in English
constexpr std::string_view kBlank = "Ġ";
constexpr std::string_view kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kChatTemplate =
    "{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' + message.content + "
    "'<|im_end|>\\n' -}}{%- endfor -%}{%- if add_generation_prompt -%}"
    "{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

Result<void> check_size(int vocab_size) {
  if (vocab_size >= kMinSize && vocab_size <= kMaxSize) return {};
  return invalid_input("a vocabulary of {} tokens cannot be made: {} to {} are possible",
                       vocab_size, kMinSize, kMaxSize);
}

// Grows words letter by letter, shorter ones first. Each token has one merge: (all but its last
// letter, its last letter), so no two merges make the same token.
void add_merges(size_t count, json& vocab, json& merges) {
  std::vector<std::string> words = {std::string(kBlank)};
  for (char letter : kLetters) words.emplace_back(1, letter);
  for (size_t i = 0; merges.size() < count; ++i) {
    for (size_t j = 0; j < kLetters.size() && merges.size() < count; ++j) {
      std::string letter(1, kLetters[j]);
      merges.push_back({words[i], letter});
      words.push_back(words[i] + letter);
      vocab[words.back()] = kNumBytes + merges.size() - 1;
    }
  }
}

json added_token(std::string_view content) {
  return {{"content", content}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},    {"normalized", false},  {"special", true}};
}

}  // namespace

Result<std::string> make_byte_tokenizer_json(int vocab_size) {
  FASTEEP_TRY_VOID(check_size(vocab_size));
  json vocab = json::object(), merges = json::array(), added = json::array();
  for (int byte = 0; byte < kNumBytes; ++byte) {
    std::string character;
    append_utf8(character, byte_to_character(static_cast<uint8_t>(byte)));
    vocab[character] = byte;
  }
  add_merges(static_cast<size_t>(vocab_size - kMinSize), vocab, merges);
  int first_special = vocab_size - static_cast<int>(kSpecialTokens.size());
  for (size_t i = 0; i < kSpecialTokens.size(); ++i) {
    added.push_back(added_token(kSpecialTokens[i]));
    added.back()["id"] = first_special + static_cast<int>(i);
  }
  json byte_level = {{"type", "ByteLevel"},
                     {"add_prefix_space", false},
                     {"trim_offsets", false},
                     {"use_regex", false}};
  json split = {{"type", "Split"},
                {"pattern", {{"Regex", kPattern}}},
                {"behavior", "Isolated"},
                {"invert", false}};
  json file = {{"version", "1.0"},
               {"added_tokens", added},
               {"normalizer", {{"type", "NFC"}}},
               {"pre_tokenizer",
                {{"type", "Sequence"}, {"pretokenizers", json::array({split, byte_level})}}},
               {"post_processor", nullptr},
               {"decoder", byte_level},
               {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
  return file.dump(1);
}

Result<std::string> make_byte_tokenizer_config_json(int vocab_size) {
  FASTEEP_TRY_VOID(check_size(vocab_size));
  json decoder = json::object();
  int first_special = vocab_size - static_cast<int>(kSpecialTokens.size());
  for (size_t i = 0; i < kSpecialTokens.size(); ++i) {
    decoder[std::to_string(first_special + static_cast<int>(i))] = added_token(kSpecialTokens[i]);
  }
  json file = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"bos_token", nullptr},
               {"eos_token", "<|im_end|>"},
               {"pad_token", "<|endoftext|>"},
               {"clean_up_tokenization_spaces", false},
               {"chat_template", kChatTemplate},
               {"added_tokens_decoder", decoder}};
  return file.dump(1);
}

}  // namespace fasteep
