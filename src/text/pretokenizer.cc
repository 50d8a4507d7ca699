#include "text/pretokenizer.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "text/unicode.h"

namespace fasteep {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct Part {
  TextRange range;
  bool is_match;
};

// Matches and the gaps between them, in order; an empty match stays, because it cuts.
std::vector<Part> parts_of(size_t size, const std::vector<TextRange>& matches, bool invert) {
  std::vector<Part> parts;
  size_t done = 0;
  for (const TextRange& match : matches) {
    if (done < match.begin) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done < size) parts.push_back({{done, size}, invert});
  return parts;
}

// Which parts belong to one piece with the part before.
bool joins_previous(SplitBehavior behavior, const std::vector<Part>& parts, size_t i) {
  bool is_match = parts[i].is_match, follows_match = parts[i - 1].is_match;
  switch (behavior) {
    case SplitBehavior::kContiguous:
      return is_match == follows_match;
    case SplitBehavior::kMergedWithPrevious:
      return is_match && !follows_match;
    case SplitBehavior::kMergedWithNext:
      return !is_match && follows_match;
    default:
      return false;
  }
}

// Appends the pieces that `parts` make, moved by `offset`.
void append_pieces(const std::vector<Part>& parts, SplitBehavior behavior, size_t offset,
                   std::vector<TextRange>& out) {
  std::optional<TextRange> open;
  auto close = [&] {
    if (open && open->size() > 0) out.push_back({open->begin + offset, open->end + offset});
    open.reset();
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    if (behavior == SplitBehavior::kRemoved && parts[i].is_match) continue;
    if (i > 0 && open && joins_previous(behavior, parts, i)) {
      open->end = parts[i].range.end;
    } else {
      close();
      open = parts[i].range;
    }
  }
  close();
}

// Cuts every piece by what find(piece, matches) finds in it.
template <class Find>
Result<void> split_pieces(Pieces& pieces, SplitBehavior behavior, bool invert, const Find& find) {
  std::vector<TextRange> ranges, matches;
  ranges.reserve(pieces.ranges.size());
  for (const TextRange& range : pieces.ranges) {
    std::string_view piece = pieces.piece(range);
    matches.clear();
    FASTEEP_TRY_VOID(find(piece, matches));
    append_pieces(parts_of(piece.size(), matches, invert), behavior, range.begin, ranges);
  }
  bool first_was_dropped =
      !pieces.ranges.empty() && (ranges.empty() || ranges[0].begin != pieces.ranges[0].begin);
  if (first_was_dropped) pieces.begins_input = false;
  pieces.ranges = std::move(ranges);
  return {};
}

// Writes every piece anew by change(index, piece, out).
template <class Change>
void rewrite_pieces(Pieces& pieces, const Change& change) {
  std::string text;
  text.reserve(pieces.text.size());
  for (size_t i = 0; i < pieces.ranges.size(); ++i) {
    size_t begin = text.size();
    change(i, pieces.piece(pieces.ranges[i]), text);
    pieces.ranges[i] = {begin, text.size()};
  }
  pieces.text = std::move(text);
}

void find_literal(std::string_view text, std::string_view literal, std::vector<TextRange>& out) {
  for (size_t at = text.find(literal); at != std::string_view::npos;
       at = text.find(literal, at + literal.size())) {
    out.push_back({at, at + literal.size()});
  }
}

Result<SplitBehavior> behavior_of(const Json& description) {
  FASTEEP_TRY(std::string name, required_string(description, "behavior"));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return invalid_input("Split has the unknown behavior \"{}\"", name);
}

Result<SplitRegex> pattern_of(const Json& description) {
  const Json* pattern = find_field(description, "pattern");
  if (pattern != nullptr && find_field(*pattern, "Regex") != nullptr) {
    FASTEEP_TRY(std::string regex, required_string(*pattern, "Regex"));
    return SplitRegex::compile(regex);
  }
  if (pattern != nullptr && find_field(*pattern, "String") != nullptr) {
    FASTEEP_TRY(std::string text, required_string(*pattern, "String"));
    return SplitRegex::literal(text);
  }
  return invalid_input("Split needs a \"pattern\" with a \"Regex\" or a \"String\"");
}

}  // namespace

Result<Pretokenizer> Pretokenizer::from_json(const Json* description) {
  Pretokenizer pretokenizer;
  if (description != nullptr) {
    Result<void> added = pretokenizer.add(*description);
    if (!added) return added.error().with("pre_tokenizer");
  }
  return pretokenizer;
}

Result<void> Pretokenizer::add(const Json& description) {
  FASTEEP_TRY(std::string type, required_string(description, "type"));
  if (type != "Sequence" && is_byte_level_) {
    return invalid_input("{} follows ByteLevel, which is supported in the last place only", type);
  }
  if (type == "Split") return add_split(description);
  if (type == "ByteLevel") return add_byte_level(description);
  if (type == "Metaspace") return add_metaspace(description);
  if (type == "Digits") {
    FASTEEP_TRY(bool individual, bool_field(description, "individual_digits", false));
    steps_.emplace_back(Digits{individual});
    return {};
  }
  if (type != "Sequence") {
    return invalid_input(
        "type \"{}\" is not supported (known: Split, Digits, ByteLevel, Metaspace, Sequence)",
        type);
  }
  FASTEEP_TRY(const Json* parts, required_array(description, "pretokenizers"));
  for (const Json& part : *parts) FASTEEP_TRY_VOID(add(part));
  return {};
}

Result<void> Pretokenizer::add_split(const Json& description) {
  FASTEEP_TRY(SplitRegex regex, pattern_of(description));
  FASTEEP_TRY(SplitBehavior behavior, behavior_of(description));
  FASTEEP_TRY(bool invert, bool_field(description, "invert", false));
  steps_.emplace_back(Split{std::move(regex), behavior, invert});
  return {};
}

Result<void> Pretokenizer::add_byte_level(const Json& description) {
  FASTEEP_TRY(bool add_prefix_space, bool_field(description, "add_prefix_space", true));
  FASTEEP_TRY(bool use_regex, bool_field(description, "use_regex", true));
  if (add_prefix_space) steps_.emplace_back(PrefixSpace{});
  if (use_regex) {
    FASTEEP_TRY(SplitRegex regex, SplitRegex::compile(kGpt2Pattern));
    steps_.emplace_back(Split{std::move(regex), SplitBehavior::kIsolated, false});
  }
  is_byte_level_ = true;
  return {};
}

Result<void> Pretokenizer::add_metaspace(const Json& description) {
  FASTEEP_TRY(std::string replacement, string_field(description, "replacement", "▁"));
  FASTEEP_TRY(bool legacy_prefix, bool_field(description, "add_prefix_space", true));
  FASTEEP_TRY(std::string scheme,
              string_field(description, "prepend_scheme", legacy_prefix ? "always" : "never"));
  FASTEEP_TRY(bool split, bool_field(description, "split", true));
  if (replacement.empty()) return invalid_input("Metaspace has an empty replacement");
  Metaspace step{std::move(replacement), Scheme::kAlways, split};
  if (scheme == "never") {
    step.scheme = Scheme::kNever;
  } else if (scheme == "first") {
    step.scheme = Scheme::kFirst;
  } else if (scheme != "always") {
    return invalid_input("Metaspace has the unknown prepend_scheme \"{}\"", scheme);
  }
  steps_.emplace_back(std::move(step));
  return {};
}

Result<Pieces> Pretokenizer::split(std::string valid_utf8, bool begins_input) const {
  Pieces pieces{std::move(valid_utf8), {}, begins_input};
  if (!pieces.text.empty()) pieces.ranges.push_back({0, pieces.text.size()});
  for (const Step& step : steps_) {
    FASTEEP_TRY_VOID(std::visit([&](const auto& s) { return run(s, pieces); }, step));
  }
  return pieces;
}

Result<void> Pretokenizer::run(const Split& step, Pieces& pieces) {
  return split_pieces(pieces, step.behavior, step.invert,
                      [&](std::string_view piece, std::vector<TextRange>& matches) {
                        return step.regex.find_all(piece, matches);
                      });
}

Result<void> Pretokenizer::run(const Digits& step, Pieces& pieces) {
  SplitBehavior behavior = step.individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  return split_pieces(pieces, behavior, false,
                      [](std::string_view piece, std::vector<TextRange>& matches) -> Result<void> {
                        for (size_t i = 0; i < piece.size();) {
                          size_t begin = i;
                          if (is_numeric(next_code_point(piece, i))) matches.push_back({begin, i});
                        }
                        return {};
                      });
}

Result<void> Pretokenizer::run(const PrefixSpace&, Pieces& pieces) {
  rewrite_pieces(pieces, [](size_t, std::string_view piece, std::string& out) {
    if (!piece.starts_with(' ')) out += ' ';
    out += piece;
  });
  return {};
}

Result<void> Pretokenizer::run(const Metaspace& step, Pieces& pieces) {
  rewrite_pieces(pieces, [&](size_t index, std::string_view piece, std::string& out) {
    bool is_first = index == 0 && pieces.begins_input;
    bool may_prefix = step.scheme == Scheme::kAlways || (step.scheme == Scheme::kFirst && is_first);
    bool begins_marked = piece.starts_with(' ') || piece.starts_with(step.replacement);
    if (may_prefix && !begins_marked) out += step.replacement;
    for (char c : piece) {
      if (c == ' ') {
        out += step.replacement;
      } else {
        out += c;
      }
    }
  });
  if (!step.split) return {};
  return split_pieces(pieces, SplitBehavior::kMergedWithNext, false,
                      [&](std::string_view piece, std::vector<TextRange>& matches) -> Result<void> {
                        find_literal(piece, step.replacement, matches);
                        return {};
                      });
}

}  // namespace fasteep
