#include "text/added_tokens.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "text/unicode.h"

namespace fasteep {
namespace {

constexpr size_t kMaxContentBytes = 1024;  // bounds the work for each byte of a text

Result<AddedToken> read_token(const Json& entry, TokenId id) {
  AddedToken token;
  token.id = id;
  FASTEEP_TRY(token.content, required_string(entry, "content"));
  FASTEEP_TRY(token.single_word, bool_field(entry, "single_word", false));
  FASTEEP_TRY(token.lstrip, bool_field(entry, "lstrip", false));
  FASTEEP_TRY(token.rstrip, bool_field(entry, "rstrip", false));
  FASTEEP_TRY(token.special, bool_field(entry, "special", false));
  FASTEEP_TRY(token.normalized, bool_field(entry, "normalized", !token.special));
  if (token.content.empty() || token.content.size() > kMaxContentBytes) {
    return invalid_input("the added token {} has {} bytes; 1 to {} are possible", id,
                         token.content.size(), kMaxContentBytes);
  }
  return token;
}

Result<TokenId> parse_id(const std::string& text) {
  TokenId id = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 0) {
    return invalid_input("added_tokens_decoder has the key \"{}\", which is no token id", text);
  }
  return id;
}

// Adds one token, or checks it against the one that is there: a repeated token keeps the first
// entry's way of matching, and is special if any entry says so (as in the reference).
Result<void> merge(std::map<TokenId, AddedToken>& tokens, AddedToken token) {
  auto [place, is_new] = tokens.try_emplace(token.id, token);
  if (is_new) return {};
  if (place->second.content != token.content) {
    return invalid_input("the added token {} is \"{}\" in one place and \"{}\" in another",
                         token.id, place->second.content, token.content);
  }
  place->second.special |= token.special;
  return {};
}

Result<void> merge_config(std::map<TokenId, AddedToken>& tokens, const Json& config) {
  const Json* decoder = find_field(config, "added_tokens_decoder");
  if (decoder == nullptr) return {};
  if (!decoder->is_object()) return invalid_input("added_tokens_decoder must be an object");
  for (auto entry = decoder->begin(); entry != decoder->end(); ++entry) {
    FASTEEP_TRY(TokenId id, parse_id(entry.key()));
    FASTEEP_TRY(AddedToken token, read_token(entry.value(), id));
    FASTEEP_TRY_VOID(merge(tokens, std::move(token)));
  }
  return {};
}

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return is_word(next_code_point(text, begin));
}

bool starts_with_word(std::string_view text) {
  size_t position = 0;
  return !text.empty() && is_word(next_code_point(text, position));
}

// Where the white space before `end` begins, but not before `floor`.
size_t skip_blanks_left(std::string_view text, size_t floor, size_t end) {
  while (end > floor) {
    size_t begin = end - 1;
    while (begin > floor && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    size_t position = begin;
    if (!is_white_space(next_code_point(text, position))) break;
    end = begin;
  }
  return end;
}

size_t skip_blanks_right(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t position = begin;
    if (!is_white_space(next_code_point(text, position))) break;
    begin = position;
  }
  return begin;
}

}  // namespace

Result<std::vector<AddedToken>> read_added_tokens(const Json& tokenizer, const Json* config) {
  std::map<TokenId, AddedToken> tokens;
  if (find_field(tokenizer, "added_tokens") != nullptr) {
    FASTEEP_TRY(const Json* entries, required_array(tokenizer, "added_tokens"));
    for (const Json& entry : *entries) {
      const Json* id_field = find_field(entry, "id");
      if (id_field == nullptr) return invalid_input("an added token has no \"id\"");
      FASTEEP_TRY(TokenId id, token_id_of(*id_field, "an added token"));
      FASTEEP_TRY(AddedToken token, read_token(entry, id));
      FASTEEP_TRY_VOID(merge(tokens, std::move(token)));
    }
  }
  if (config != nullptr) FASTEEP_TRY_VOID(merge_config(tokens, *config));
  std::vector<AddedToken> sorted;
  for (auto& [id, token] : tokens) sorted.push_back(std::move(token));
  return sorted;
}

AddedTokenMatcher::AddedTokenMatcher() : nodes_(1) {}

int AddedTokenMatcher::child(int node, unsigned char byte) const {
  const auto& next = nodes_[static_cast<size_t>(node)].next;
  auto found = std::find_if(next.begin(), next.end(),
                            [byte](const auto& entry) { return entry.first == byte; });
  return found == next.end() ? 0 : found->second;
}

void AddedTokenMatcher::add(const AddedToken& token, std::string_view content) {
  if (content.empty()) return;  // nothing is left of it after normalisation: it never matches
  int node = 0;
  for (char c : content) {
    auto byte = static_cast<unsigned char>(c);
    int next = child(node, byte);
    if (next == 0) {
      next = static_cast<int>(nodes_.size());
      nodes_[static_cast<size_t>(node)].next.emplace_back(byte, next);
      nodes_.emplace_back();
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].token = static_cast<int>(tokens_.size());
  auto first = static_cast<unsigned char>(content[0]);
  first_[first] = child(0, first);
  tokens_.push_back(token);
}

AddedTokenMatcher::Match AddedTokenMatcher::longest_at(std::string_view text, size_t begin,
                                                       size_t limit) const {
  Match match;
  int node = first_[static_cast<unsigned char>(text[begin])];
  for (size_t i = begin + 1; node != 0; ++i) {
    int token = nodes_[static_cast<size_t>(node)].token;
    if (token >= 0) match = {{begin, i}, token};
    if (i == limit) break;
    node = child(node, static_cast<unsigned char>(text[i]));
  }
  return match;
}

std::vector<AddedTokenPart> AddedTokenMatcher::find(
    std::string_view text, std::span<const TextRange> closed_ranges) const {
  std::vector<AddedTokenPart> parts;
  size_t done = 0;
  auto closed = closed_ranges.begin();
  auto emit = [&](const AddedToken& token, TextRange range) {
    if (token.single_word &&
        (ends_with_word(text.substr(0, range.begin)) || starts_with_word(text.substr(range.end)))) {
      return;
    }
    if (token.lstrip)
      range.begin = skip_blanks_left(text, std::min(done, range.begin), range.begin);
    if (token.rstrip) range.end = skip_blanks_right(text, range.end);
    if (done < range.begin) parts.push_back({{done, range.begin}});
    parts.push_back({range, token.id});
    done = range.end;
  };
  for (size_t at = 0; at < text.size() && !tokens_.empty();) {
    while (closed != closed_ranges.end() && (closed->end <= at || closed->size() == 0)) ++closed;
    if (closed != closed_ranges.end() && closed->begin <= at) {
      at = closed->end;
      continue;
    }
    size_t limit =
        closed == closed_ranges.end() ? text.size() : std::min(closed->begin, text.size());
    Match match = longest_at(text, at, limit);
    if (match.token >= 0) emit(tokens_[static_cast<size_t>(match.token)], match.range);
    at = match.token >= 0 ? match.range.end : at + 1;
  }
  if (done < text.size()) parts.push_back({{done, text.size()}});
  return parts;
}

}  // namespace fasteep
