#include "text/byte_alphabet.h"

#include <array>

#include "text/unicode.h"

namespace fasteep {
namespace {

constexpr char32_t kAlphabetEnd = 0x144;  // 256 + the 68 bytes that have no printable character

constexpr bool is_own_character(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    characters[byte] = is_own_character(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return characters;
}

constexpr std::array<char32_t, 256> kCharacters = make_characters();

constexpr std::array<int16_t, kAlphabetEnd> make_bytes() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  for (auto& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = static_cast<int16_t>(byte);
  return bytes;
}

constexpr std::array<int16_t, kAlphabetEnd> kBytes = make_bytes();

}  // namespace

char32_t byte_to_character(uint8_t byte) { return kCharacters[byte]; }

std::optional<uint8_t> character_to_byte(char32_t c) {
  if (c >= kAlphabetEnd || kBytes[c] < 0) return std::nullopt;
  return static_cast<uint8_t>(kBytes[c]);
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (char byte : bytes) append_utf8(text, byte_to_character(static_cast<uint8_t>(byte)));
  return text;
}

std::string from_byte_alphabet(std::string_view token) {
  std::string bytes;
  for (size_t i = 0; i < token.size();) {
    std::optional<uint8_t> byte = character_to_byte(next_code_point(token, i));
    if (!byte) return std::string(token);
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

}  // namespace fasteep
