#include "text/detokenizer_table.h"

#include <algorithm>

#include "base/check.h"
#include "text/detokenizer_decoder.h"

namespace fasteep {
namespace {

// Tables are indexed by id. Holes in the numbering are rare and small in real files.
size_t max_table_size(size_t num_tokens) { return 2 * num_tokens + 65536; }

}  // namespace

class TokenTable::Builder {
 public:
  Builder(const DecoderPlan& plan, size_t num_tokens)
      : plan_(plan), max_size_(max_table_size(num_tokens)) {}

  Result<void> add(const std::string& text, TokenId id, bool is_special) {
    auto index = static_cast<size_t>(id);
    if (index >= max_size_) {
      return invalid_input("the id {} of \"{}\" is far above the number of tokens", id, text);
    }
    if (index >= table_.tokens_.size()) table_.tokens_.resize(index + 1);
    Token& token = table_.tokens_[index];
    if (token.exists) return invalid_input("\"{}\" shares its id {} with another token", text, id);
    token = {plan_.token_bytes(text, false), true, is_special};
    if (plan_.byte_fallback()) read_byte(token);
    if (plan_.treats_first_apart()) {
      std::string first = plan_.token_bytes(text, true);
      if (first != token.bytes) table_.first_bytes_.emplace(id, std::move(first));
    }
    return {};
  }

  void set_special(TokenId id) { table_.tokens_[static_cast<size_t>(id)].is_special = true; }

  TokenTable finish() {
    table_.joins_with_spaces_ = plan_.is_absent();
    table_.byte_fallback_ = plan_.byte_fallback();
    table_.strip_text_ = plan_.strip_text();
    table_.strip_count_ = plan_.strip_count();
    return std::move(table_);
  }

 private:
  static void read_byte(Token& token) {
    int byte = named_byte(token.bytes);
    if (byte < 0) return;
    token.is_byte = true;
    token.bytes = std::string(1, static_cast<char>(byte));
  }

  const DecoderPlan& plan_;
  size_t max_size_;
  TokenTable table_;
};

Result<TokenTable> TokenTable::create(const Json* decoder, const Vocabulary& vocabulary,
                                      const std::vector<AddedToken>& added) {
  FASTEEP_TRY(DecoderPlan plan, DecoderPlan::from_json(decoder));
  Builder builder(plan, vocabulary.size() + added.size());
  for (const auto& [text, id] : vocabulary) FASTEEP_TRY_VOID(builder.add(text, id, false));
  // The reference numbers tokens that the vocabulary lacks in order behind it.
  auto next_id = static_cast<TokenId>(vocabulary.size());
  for (const AddedToken& token : added) {
    auto in_vocabulary = vocabulary.find(token.content);
    bool is_known = in_vocabulary != vocabulary.end();
    TokenId expected = is_known ? in_vocabulary->second : next_id;
    if (token.id != expected) {
      return invalid_input("the added token \"{}\" has the id {}, but {} gives it {}",
                           token.content, token.id, is_known ? "the vocabulary" : "the numbering",
                           expected);
    }
    if (is_known) {
      if (token.special) builder.set_special(token.id);
    } else {
      FASTEEP_TRY_VOID(builder.add(token.content, token.id, token.special));
    }
    next_id = std::max(next_id, token.id + 1);
  }
  return builder.finish();
}

const TokenTable::Token* TokenTable::find(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= tokens_.size()) return nullptr;
  const Token& token = tokens_[static_cast<size_t>(id)];
  return token.exists ? &token : nullptr;
}

const std::string& TokenTable::bytes_of(TokenId id, bool is_first) const {
  if (is_first && !first_bytes_.empty()) {
    auto found = first_bytes_.find(id);
    if (found != first_bytes_.end()) return found->second;
  }
  const Token* token = find(id);
  CHECK(token != nullptr, "token {} has no text", id);
  return token->bytes;
}

std::string TokenTable::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string text, pending;  // pending: bytes not yet read as text
  auto flush = [&] {
    // A run of byte tokens is valid as a whole or not at all.
    bool is_hopeless = byte_fallback_ && !is_valid_utf8(pending);
    for (size_t i = 0; is_hopeless && i < pending.size(); ++i) text += "\xEF\xBF\xBD";
    if (!is_hopeless) append_lossy_text(text, pending, Replacement::kPerSubpart);
    pending.clear();
  };
  bool is_first = true;
  for (TokenId id : ids) {
    const Token* token = find(id);
    if (token == nullptr || (skip_special && token->is_special)) continue;
    if (byte_fallback_ && !token->is_byte) flush();
    if (joins_with_spaces_ && !is_first) pending += ' ';
    pending += bytes_of(id, is_first);
    if (byte_fallback_ && !token->is_byte) flush();
    is_first = false;
  }
  flush();
  for (int i = 0; i < strip_count_ && text.starts_with(strip_text_); ++i) {
    text.erase(0, strip_text_.size());
  }
  return text;
}

}  // namespace fasteep
