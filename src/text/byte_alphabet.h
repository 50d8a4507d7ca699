#pragma once
// The printable alphabet of byte-level tokenizers: one character for each of the 256 bytes.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fasteep {

char32_t byte_to_character(uint8_t byte);              // ' ' -> U+0120
std::optional<uint8_t> character_to_byte(char32_t c);  // nullopt: not in the alphabet

// Writes every byte as its character: "a b" -> "aĠb".
std::string to_byte_alphabet(std::string_view bytes);

// The bytes that a token's string stands for. A string with any character outside the alphabet
// (an added token such as "<｜User｜>") stands for itself.
std::string from_byte_alphabet(std::string_view token);

}  // namespace fasteep
