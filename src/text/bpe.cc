#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <queue>

#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace fasteep {
namespace {

constexpr std::string_view kMarker = "▁";  // stands for a space in SentencePiece vocabularies
constexpr size_t kShortSymbols = 32;       // up to here scanning beats a heap

uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Whether "▁" stands anywhere behind another character.
bool has_inner_marker(std::string_view token) {
  size_t begin = 0;
  while (token.substr(begin).starts_with(kMarker)) begin += kMarker.size();
  return token.find(kMarker, begin) != std::string_view::npos;
}

struct MergeText {
  std::string left, right;
};

// "a b" or ["a", "b"]
Result<MergeText> read_merge(const Json& entry) {
  if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
    return MergeText{entry[0].get<std::string>(), entry[1].get<std::string>()};
  }
  if (entry.is_string()) {
    const auto& text = entry.get_ref<const std::string&>();
    size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return MergeText{text.substr(0, space), text.substr(space + 1)};
    }
    return invalid_input("the merge \"{}\" is not two tokens with one space between", text);
  }
  return invalid_input("a merge is neither a string nor a pair of strings");
}

Result<void> refuse_unsupported(const Json& model) {
  FASTEEP_TRY(std::string type, string_field(model, "type", "BPE"));
  if (type != "BPE") return invalid_input("type \"{}\" is not supported (known: BPE)", type);
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    FASTEEP_TRY(std::string affix, string_field(model, name, ""));
    if (!affix.empty())
      return invalid_input("\"{}\" is \"{}\"; only \"\" is supported", name, affix);
  }
  const Json* dropout = find_field(model, "dropout");
  if (dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0)) {
    return invalid_input("\"dropout\" must be null: tokens would depend on chance");
  }
  return {};
}

}  // namespace

MergeTable::MergeTable(size_t num_merges) : slots_(std::bit_ceil(2 * num_merges + 2)) {}

size_t MergeTable::slot_of(uint64_t key) const {
  uint64_t hash = key * 0x9E3779B97F4A7C15u;  // Fibonacci hashing: the high bits are well mixed
  size_t mask = slots_.size() - 1;
  size_t slot = (hash ^ hash >> 32) & mask;
  while (slots_[slot].key != kEmpty && slots_[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::put(TokenId left, TokenId right, Merge merge) {
  uint64_t key = pair_key(left, right);
  slots_[slot_of(key)] = {key, merge};
}

MergeTable::Merge MergeTable::find(TokenId left, TokenId right) const {
  return slots_[slot_of(pair_key(left, right))].merge;
}

Result<Bpe> Bpe::from_json(const Json& model, bool is_byte_level) {
  Bpe bpe;
  bpe.is_byte_level_ = is_byte_level;
  FASTEEP_TRY_VOID(refuse_unsupported(model));
  FASTEEP_TRY(bpe.ignore_merges_, bool_field(model, "ignore_merges", false));
  FASTEEP_TRY(bpe.byte_fallback_, bool_field(model, "byte_fallback", false));
  FASTEEP_TRY(bpe.fuse_unknown_, bool_field(model, "fuse_unk", false));
  FASTEEP_TRY_VOID(bpe.read_vocabulary(model));
  bpe.find_byte_tokens();
  FASTEEP_TRY_VOID(bpe.read_merges(model));
  FASTEEP_TRY_VOID(bpe.read_unknown(model));
  return bpe;
}

std::optional<TokenId> Bpe::find(std::string_view token) const {
  auto found = vocabulary_.find(token);
  if (found == vocabulary_.end()) return std::nullopt;
  return found->second;
}

Result<void> Bpe::read_vocabulary(const Json& model) {
  const Json* vocab = find_field(model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) {
    return invalid_input("\"vocab\" is missing, or is no object from tokens to ids");
  }
  vocabulary_.reserve(vocab->size());
  for (auto entry = vocab->begin(); entry != vocab->end(); ++entry) {
    FASTEEP_TRY(TokenId id, token_id_of(entry.value(), entry.key()));
    vocabulary_.emplace(entry.key(), id);
  }
  return {};
}

Result<void> Bpe::read_merges(const Json& model) {
  const Json* merges = find_field(model, "merges");
  if (merges == nullptr || !merges->is_array()) {
    return invalid_input("\"merges\" is missing: a BPE tokenizer.json lists them");
  }
  merges_ = MergeTable(merges->size());
  std::vector<std::string_view> merged_tokens;
  int32_t rank = 0;
  for (const Json& entry : *merges) {
    bool is_header = rank == 0 && entry.is_string() &&
                     entry.get_ref<const std::string&>().starts_with("#version");
    if (is_header) continue;
    FASTEEP_TRY(MergeText merge, read_merge(entry));
    auto left = find(merge.left), right = find(merge.right);
    auto merged = vocabulary_.find(merge.left + merge.right);
    if (!left || !right || merged == vocabulary_.end()) {
      return invalid_input("the merge of \"{}\" and \"{}\" names a token that is not in \"vocab\"",
                           merge.left, merge.right);
    }
    merges_.put(*left, *right, {rank++, merged->second});
    merged_tokens.push_back(merged->first);
  }
  decide_marker_cuts(merged_tokens);
  return {};
}

// Without this, a SentencePiece text without a pre-tokenizer would be one piece. Only merged tokens
// can cross a cut, and the marker must be a token so that unknown characters cannot fuse across it.
void Bpe::decide_marker_cuts(const std::vector<std::string_view>& merged) {
  cut_at_marker_ = !is_byte_level_ && !ignore_merges_ && find(kMarker).has_value() &&
                   std::none_of(merged.begin(), merged.end(), has_inner_marker);
}

Result<void> Bpe::read_unknown(const Json& model) {
  FASTEEP_TRY(std::string unknown, string_field(model, "unk_token", ""));
  if (find_field(model, "unk_token") == nullptr) return {};
  unknown_ = find(unknown);
  bool has_all_bytes = std::none_of(byte_tokens_.begin(), byte_tokens_.end(),
                                    [](TokenId token) { return token < 0; });
  bool never_needed = has_all_bytes && (is_byte_level_ || byte_fallback_);
  if (!unknown_ && !never_needed) {
    return invalid_input("\"unk_token\" is \"{}\", which is not in \"vocab\"", unknown);
  }
  return {};
}

void Bpe::find_byte_tokens() {
  for (int byte = 0; byte < 256; ++byte) {
    std::string name;
    if (is_byte_level_) {
      append_utf8(name, byte_to_character(static_cast<uint8_t>(byte)));
    } else {
      name = fmt::format("<0x{:02X}>", byte);
    }
    byte_tokens_[static_cast<size_t>(byte)] = find(name).value_or(-1);
  }
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& out) const {
  if (!cut_at_marker_) return encode_uncut(piece, out);
  size_t begin = 0;
  for (size_t at = piece.find(kMarker); at != std::string_view::npos;) {
    if (begin < at) encode_uncut(piece.substr(begin, at - begin), out);
    begin = at;
    while (piece.substr(at).starts_with(kMarker)) at += kMarker.size();
    at = piece.find(kMarker, at);
  }
  if (begin < piece.size()) encode_uncut(piece.substr(begin), out);
}

void Bpe::encode_uncut(std::string_view piece, std::vector<TokenId>& out) const {
  if (ignore_merges_) {
    std::optional<TokenId> whole = is_byte_level_ ? find(to_byte_alphabet(piece)) : find(piece);
    if (whole) {
      out.push_back(*whole);
      return;
    }
  }
  std::vector<TokenId> symbols;
  append_symbols(piece, symbols);
  if (symbols.size() <= kShortSymbols) {
    merge_short(symbols);
  } else {
    merge_long(symbols);
  }
  out.insert(out.end(), symbols.begin(), symbols.end());
}

void Bpe::append_symbols(std::string_view piece, std::vector<TokenId>& symbols) const {
  symbols.reserve(piece.size());
  bool fuses = false;  // the symbol before is an unknown one that takes in the next
  for (size_t i = 0; i < piece.size();) {
    size_t begin = i;
    std::optional<TokenId> known;
    std::string_view character;
    if (is_byte_level_) {
      TokenId token = byte_tokens_[static_cast<unsigned char>(piece[i++])];
      if (token >= 0) known = token;
    } else {
      next_code_point(piece, i);
      character = piece.substr(begin, i - begin);
      known = find(character);
    }
    if (known) {
      symbols.push_back(*known);
      fuses = false;
    } else if (byte_fallback_ && append_byte_tokens(character, symbols)) {
      fuses = false;
    } else if (unknown_ && !fuses) {
      symbols.push_back(*unknown_);
      fuses = fuse_unknown_;
    }
  }
}

bool Bpe::append_byte_tokens(std::string_view character, std::vector<TokenId>& symbols) const {
  if (character.empty()) return false;  // a byte-level byte is its own token or none
  auto token = [&](char byte) { return byte_tokens_[static_cast<unsigned char>(byte)]; };
  if (!std::all_of(character.begin(), character.end(), [&](char c) { return token(c) >= 0; })) {
    return false;
  }
  for (char byte : character) symbols.push_back(token(byte));
  return true;
}

void Bpe::merge_short(std::vector<TokenId>& symbols) const {
  constexpr int32_t kNone = std::numeric_limits<int32_t>::max();
  std::array<MergeTable::Merge, kShortSymbols> merges;  // merges[i]: of symbols i and i + 1
  auto look_up = [&](size_t i) {
    merges[i] = merges_.find(symbols[i], symbols[i + 1]);
    if (!merges[i].exists()) merges[i].rank = kNone;
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i) look_up(i);
  while (symbols.size() > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < symbols.size(); ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNone) break;
    symbols[best] = merges[best].merged;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    std::copy(merges.begin() + best + 1, merges.begin() + symbols.size(), merges.begin() + best);
    if (best > 0) look_up(best - 1);
    if (best + 1 < symbols.size()) look_up(best);
  }
}

void Bpe::merge_long(std::vector<TokenId>& symbols) const {
  struct Candidate {
    int32_t rank;
    uint32_t left;  // index into symbols
    TokenId merged;
  };
  auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  constexpr TokenId kConsumed = -1;
  auto count = static_cast<uint32_t>(symbols.size());
  std::vector<uint32_t> next(count), previous(count);  // a list of those alive; `count` is its end
  std::vector<Candidate> heap;
  auto candidate_at = [&](uint32_t left) -> std::optional<Candidate> {
    if (next[left] == count) return std::nullopt;
    MergeTable::Merge merge = merges_.find(symbols[left], symbols[next[left]]);
    if (!merge.exists()) return std::nullopt;
    return Candidate{merge.rank, left, merge.merged};
  };
  for (uint32_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i == 0 ? count : i - 1;
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (auto candidate = candidate_at(i)) heap.push_back(*candidate);
  }
  std::priority_queue queue(later, std::move(heap));
  while (!queue.empty()) {
    Candidate top = queue.top();
    queue.pop();
    if (symbols[top.left] == kConsumed) continue;
    auto current = candidate_at(top.left);
    if (!current || current->merged != top.merged) continue;  // a neighbour has changed
    uint32_t right = next[top.left];
    symbols[top.left] = top.merged;
    symbols[right] = kConsumed;
    next[top.left] = next[right];
    if (next[right] != count) previous[next[right]] = top.left;
    if (auto candidate = candidate_at(top.left)) queue.push(*candidate);
    if (previous[top.left] == count) continue;
    if (auto candidate = candidate_at(previous[top.left])) queue.push(*candidate);
  }
  std::erase(symbols, kConsumed);
}

}  // namespace fasteep
