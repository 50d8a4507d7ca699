#include "text/tokenizer.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/check.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/detokenizer_table.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_json.h"
#include "text/tokenizer_template.h"
#include "text/unicode.h"

namespace fasteep {
namespace {

Result<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return make_error(ErrorCode::kIo, "{} cannot be read", path.string());
  }
  return std::move(text).str();
}

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

// The parts of sorted ranges inside [begin, end), counted from begin.
std::vector<TextRange> clip(std::span<const TextRange> ranges, TextRange window) {
  std::vector<TextRange> clipped;
  auto range = std::partition_point(ranges.begin(), ranges.end(), [&](const TextRange& candidate) {
    return candidate.end <= window.begin;
  });
  for (; range != ranges.end() && range->begin < window.end; ++range) {
    clipped.push_back({std::max(range->begin, window.begin) - window.begin,
                       std::min(range->end, window.end) - window.begin});
  }
  return clipped;
}

void check_runs(std::span<const TextRange> runs, size_t size) {
  size_t floor = 0;
  for (const TextRange& run : runs) {
    CHECK(floor <= run.begin && run.begin <= run.end && run.end <= size,
          "input run [{}, {}) after {} in a text of {} bytes", run.begin, run.end, floor, size);
    floor = run.end;
  }
}

}  // namespace

struct Tokenizer::Parts {
  Bpe bpe;
  TokenTable table;
  Normalizer normalizer;
  Pretokenizer pretokenizer;
  AddedTokenMatcher raw_tokens, normalized_tokens;
  std::unordered_map<std::string, TokenId, StringHash, std::equal_to<>> added_ids;
  SpecialTemplate around;

  Result<void> check_template() const;
  Result<void> encode_gap(std::string_view gap, std::vector<TextRange> runs, bool begins_input,
                          std::vector<TokenId>& out) const;
};

Result<void> Tokenizer::Parts::check_template() const {
  for (const std::vector<TokenId>* side : {&around.prefix, &around.suffix}) {
    for (TokenId id : *side) {
      if (table.find(id) == nullptr) {
        return invalid_input("the post_processor adds the id {}, which is no token", id);
      }
    }
  }
  return {};
}

// A gap between the tokens of the raw text: normalise, cut out the tokens of the normalised text,
// cut the gaps between those into pieces, and encode each piece.
Result<void> Tokenizer::Parts::encode_gap(std::string_view gap, std::vector<TextRange> runs,
                                          bool begins_input, std::vector<TokenId>& out) const {
  std::string text = normalizer.apply(std::string(gap), runs);
  for (const AddedTokenPart& part : normalized_tokens.find(text, runs)) {
    if (!part.is_gap()) {
      out.push_back(part.token);
      continue;
    }
    bool is_start = begins_input && part.range.begin == 0;
    FASTEEP_TRY(Pieces pieces,
                pretokenizer.split(text.substr(part.range.begin, part.range.size()), is_start));
    for (const TextRange& range : pieces.ranges) bpe.encode(pieces.piece(range), out);
  }
  return {};
}

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& model_folder) {
  std::filesystem::path tokenizer_path = model_folder / "tokenizer.json";
  std::filesystem::path config_path = model_folder / "tokenizer_config.json";
  if (!is_file(tokenizer_path)) {
    return make_error(ErrorCode::kNotFound,
                      "{} does not exist: the model's folder needs a tokenizer.json",
                      tokenizer_path.string());
  }
  FASTEEP_TRY(std::string tokenizer_json, read_file(tokenizer_path));
  std::string config_json;
  if (is_file(config_path)) {
    FASTEEP_TRY(config_json, read_file(config_path));
  }
  Result<Tokenizer> tokenizer = from_json(tokenizer_json, config_json);
  if (!tokenizer) return tokenizer.error().with("{}", model_folder.string());
  return tokenizer;
}

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json,
                                       std::string_view tokenizer_config_json) {
  FASTEEP_TRY(Json file, parse_json_object(tokenizer_json, "tokenizer.json"));
  std::optional<Json> config_file;
  if (!tokenizer_config_json.empty()) {
    FASTEEP_TRY(config_file, parse_json_object(tokenizer_config_json, "tokenizer_config.json"));
  }
  const Json* config = config_file ? &*config_file : nullptr;
  const Json* model = find_field(file, "model");
  if (model == nullptr) return invalid_input("tokenizer.json has no \"model\"");

  FASTEEP_TRY(Pretokenizer pretokenizer,
              Pretokenizer::from_json(find_field(file, "pre_tokenizer")));
  FASTEEP_TRY(Normalizer normalizer, Normalizer::from_json(find_field(file, "normalizer")));
  Result<Bpe> bpe = Bpe::from_json(*model, pretokenizer.is_byte_level());
  if (!bpe) return bpe.error().with("model");
  FASTEEP_TRY(std::vector<AddedToken> added, read_added_tokens(file, config));
  FASTEEP_TRY(TokenTable table,
              TokenTable::create(find_field(file, "decoder"), bpe->vocabulary(), added));
  FASTEEP_TRY(SpecialTemplate around, read_special_template(find_field(file, "post_processor"),
                                                            config, bpe->vocabulary(), added));
  auto parts = std::make_shared<Parts>(Parts{std::move(*bpe),
                                             std::move(table),
                                             std::move(normalizer),
                                             std::move(pretokenizer),
                                             {},
                                             {},
                                             {},
                                             std::move(around)});
  for (const AddedToken& token : added) {
    parts->added_ids.emplace(token.content, token.id);
    std::vector<TextRange> no_runs;
    if (token.normalized) {
      parts->normalized_tokens.add(token, parts->normalizer.apply(token.content, no_runs));
    } else {
      parts->raw_tokens.add(token, token.content);
    }
  }
  FASTEEP_TRY_VOID(parts->check_template());
  return Tokenizer(std::move(parts));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view utf8, EncodeOptions options) const {
  if (!is_valid_utf8(utf8)) return invalid_input("the text is not valid UTF-8");
  check_runs(options.input_runs, utf8.size());
  std::vector<TokenId> ids;
  if (options.add_special_tokens) ids = parts_->around.prefix;
  for (const AddedTokenPart& part : parts_->raw_tokens.find(utf8, options.input_runs)) {
    if (!part.is_gap()) {
      ids.push_back(part.token);
      continue;
    }
    FASTEEP_TRY_VOID(parts_->encode_gap(utf8.substr(part.range.begin, part.range.size()),
                                        clip(options.input_runs, part.range), part.range.begin == 0,
                                        ids));
  }
  if (options.add_special_tokens) {
    ids.insert(ids.end(), parts_->around.suffix.begin(), parts_->around.suffix.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  return parts_->table.decode(ids, skip_special);
}

std::string Tokenizer::token_bytes(TokenId id) const {
  const TokenTable::Token* token = parts_->table.find(id);
  return token == nullptr ? std::string() : token->bytes;
}

bool Tokenizer::is_special(TokenId id) const {
  const TokenTable::Token* token = parts_->table.find(id);
  return token != nullptr && token->is_special;
}

int Tokenizer::vocab_size() const { return parts_->table.size(); }

std::optional<TokenId> Tokenizer::token_id(std::string_view content) const {
  auto added = parts_->added_ids.find(content);
  if (added != parts_->added_ids.end()) return added->second;
  const Vocabulary& vocabulary = parts_->bpe.vocabulary();
  auto entry = vocabulary.find(content);
  if (entry == vocabulary.end()) return std::nullopt;
  return entry->second;
}

std::shared_ptr<const TokenTable> Tokenizer::table() const {
  return std::shared_ptr<const TokenTable>(parts_, &parts_->table);
}

}  // namespace fasteep
