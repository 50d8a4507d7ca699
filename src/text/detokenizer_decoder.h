#pragma once
// The decoder of a tokenizer.json, taken apart: what it does to each token, and to the whole text.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_json.h"

namespace fasteep {

// Immutable: any thread.
class DecoderPlan {
 public:
  // description: the "decoder", or null. Errors: kInvalidInput, names the type.
  static Result<DecoderPlan> from_json(const Json* description);

  // The bytes that a token's string stands for; is_first: as the first token of a text.
  std::string token_bytes(std::string token, bool is_first) const;

  bool is_absent() const { return is_absent_; }          // tokens are joined with spaces
  bool byte_fallback() const { return byte_fallback_; }  // "<0xNN>" stands for a byte
  bool treats_first_apart() const { return treats_first_apart_; }
  const std::string& strip_text() const { return strip_text_; }  // see TokenTable
  int strip_count() const { return strip_count_; }

 private:
  struct ByteLevel {};
  struct Replace {
    std::string pattern, content;
  };
  struct Strip {
    std::string content;
    int start, stop;
  };
  struct Metaspace {
    std::string replacement;
    bool drops_first;  // in the first token, the marks are dropped and do not become spaces
  };
  using Step = std::variant<ByteLevel, Replace, Strip, Metaspace>;
  enum class Stage { kTokens, kBytes, kWhole };  // what the steps so far have made

  Result<void> add(const Json& description);
  Result<void> add_replace(const Json& description);
  Result<void> add_strip(const Json& description);
  Result<void> add_metaspace(const Json& description);
  static std::string run(const ByteLevel& step, std::string token, bool is_first);
  static std::string run(const Replace& step, std::string token, bool is_first);
  static std::string run(const Strip& step, std::string token, bool is_first);
  static std::string run(const Metaspace& step, std::string token, bool is_first);

  std::vector<Step> steps_;
  Stage stage_ = Stage::kTokens;
  bool is_absent_ = false;
  bool byte_fallback_ = false;
  bool treats_first_apart_ = false;
  std::string strip_text_;
  int strip_count_ = 0;
};

// The byte that "<0xNN>" names, or -1.
int named_byte(std::string_view token);

}  // namespace fasteep
