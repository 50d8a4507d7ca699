#include "text/detokenizer.h"

#include <utility>

namespace fasteep {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : table_(tokenizer.table()), skip_special_(skip_special), to_strip_(table_->strip_count()) {}

std::string Detokenizer::push(TokenId id) {
  const TokenTable::Token* token = table_->find(id);
  if (token == nullptr || (skip_special_ && token->is_special)) return {};
  if (table_->joins_with_spaces() && !is_first_) pending_ += ' ';
  pending_ += table_->bytes_of(id, is_first_);
  is_first_ = false;
  std::string text;
  pending_.erase(0, append_complete_text(text, pending_, table_->replacement()));
  return strip(std::move(text));
}

std::string Detokenizer::finish() {
  std::string text;
  append_lossy_text(text, pending_, table_->replacement());
  pending_.clear();
  text = strip(std::move(text));
  return std::exchange(held_, {}) + text;
}

// Drops copies of the strip text while nothing else has come out.
std::string Detokenizer::strip(std::string text) {
  if (to_strip_ == 0 || text.empty()) return text;
  const std::string& drop = table_->strip_text();
  text = std::exchange(held_, {}) + text;
  while (to_strip_ > 0 && text.starts_with(drop)) {
    text.erase(0, drop.size());
    --to_strip_;
  }
  if (to_strip_ > 0 && drop.starts_with(text)) {
    held_ = std::move(text);
    return {};
  }
  to_strip_ = 0;
  return text;
}

}  // namespace fasteep
