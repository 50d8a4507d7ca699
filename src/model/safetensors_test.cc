#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

#include "model/checkpoint.h"
#include "model/safetensors_writer.h"
#include "model/tensor_reader.h"
#include "model/test_support.h"

namespace fasteep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file_of(const std::string& header, size_t buffer_bytes) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file + header + std::string(buffer_bytes, '\1');
}

Result<std::vector<TensorView>> parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), "x.safetensors");
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST(Safetensors, ReadsTensorsInFileOrder) {
  const auto tensors = parse(file_of(
      R"({"__metadata__":{"format":"pt"},"b":)" + entry("BF16", "[2,3]", "[4,16]") + R"(,"a":)" +
          entry("F32", "[]", "[0,4]") + R"(,"none":)" + entry("F32", "[0,9]", "[0,0]") + "}   ",
      16));
  ASSERT_TRUE(tensors) << tensors.error().message();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[1].name, "a");
  EXPECT_EQ((*tensors)[2].name, "b");
  EXPECT_THAT((*tensors)[2].shape, ElementsAre(2, 3));
  EXPECT_EQ((*tensors)[2].bytes.size(), 12u);
}

struct Hostile {
  std::string header;
  size_t buffer_bytes;
  const char* says;
};
class HostileSafetensors : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileSafetensors, IsRefusedWithAReason) {
  const auto tensors = parse(file_of(GetParam().header, GetParam().buffer_bytes));
  ASSERT_FALSE(tensors);
  EXPECT_EQ(tensors.error().code(), ErrorCode::kInvalidInput);
  EXPECT_THAT(tensors.error().message(),
              AllOf(HasSubstr("x.safetensors"), HasSubstr(GetParam().says)));
}

Hostile one(const std::string& tensor, size_t buffer_bytes, const char* says) {
  return {R"({"w":)" + tensor + "}", buffer_bytes, says};
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileSafetensors,
    ::testing::Values(
        one(entry("F32", "[2]", "[0,8]"), 7, "cut short"),
        one(entry("F32", "[2]", "[0,7]"), 7, "needs 8"),
        one(entry("F32", "[2]", "[8,0]"), 8, "after its end"),
        one(entry("F32", "[2]", "[-8,0]"), 8, "data_offsets"),
        one(entry("F32", "[2]", "[0,18446744073709551616]"), 8, "data_offsets"),
        one(entry("F32", "[4294967296,4294967296,2]", "[0,8]"), 8, "overflows"),
        one(entry("F32", "[18446744073709551615]", "[0,8]"), 8, "not a count"),
        one(entry("F32", "[-2]", "[0,8]"), 8, "not a count"),
        one(entry("F32", "[1.5]", "[0,8]"), 8, "not a count"),
        one(entry("F33", "[2]", "[0,8]"), 8, "unknown dtype F33"),
        one(entry("F4", "[3]", "[0,1]"), 1, "inside a byte"),
        one(entry("F32", "2", "[0,8]"), 8, "no shape"),
        one(R"({"shape":[2],"data_offsets":[0,8]})", 8, "no dtype"), one("7", 8, "not an object"),
        one(entry("F32", "[1]", "[0,4]"), 8, "after the last tensor"),
        one(entry("F32", "[1]", "[4,8]"), 8, "before tensor w"),
        Hostile{R"({"a":)" + entry("F32", "[2]", "[0,8]") + R"(,"b":)" +
                    entry("F32", "[2]", "[4,12]") + "}",
                12, "overlaps"},
        Hostile{R"({"a":)" + entry("F32", "[1]", "[0,4]") + R"(,"a":)" +
                    entry("F32", "[1]", "[4,8]") + "}",
                8, "twice"},
        Hostile{"[]", 0, "not a JSON object"}, Hostile{"{\"\xff\":1}", 0, "not valid JSON"},
        Hostile{std::string(100000, '['), 0, "nested deeper"}, Hostile{"{", 0, "not valid JSON"}));

TEST(Safetensors, RefusesImpossibleHeaderLengths) {
  for (const uint64_t length : {uint64_t{100'000'001}, ~uint64_t{0}, uint64_t{9}}) {
    std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
    EXPECT_FALSE(parse(file + "{}")) << length;
  }
  EXPECT_FALSE(parse(""));
  EXPECT_FALSE(parse("1234567"));
}

// Any cut of a valid file is refused: no prefix of one is valid.
RC_GTEST_PROP(Safetensors, EveryTruncationIsRefused, ()) {
  const std::string file = file_of(R"({"a":)" + entry("F32", "[2,2]", "[0,16]") + R"(,"b":)" +
                                       entry("BF16", "[4]", "[16,24]") + "}",
                                   24);
  RC_ASSERT(parse(file).has_value());
  const auto length = *rc::gen::inRange<size_t>(0, file.size());
  RC_ASSERT(!parse(file.substr(0, length)).has_value());
}

// Damaged bytes give an error or tensors inside the buffer; the sanitizers watch the rest.
RC_GTEST_PROP(Safetensors, DamagedFilesNeverReachOutside, ()) {
  std::string file = file_of(R"({"a":)" + entry("F32", "[2,2]", "[0,16]") + R"(,"b":)" +
                                 entry("BF16", "[4]", "[16,24]") + "}",
                             24);
  const int hits = *rc::gen::inRange(1, 6);
  for (int i = 0; i < hits; ++i)
    file[*rc::gen::inRange<size_t>(0, file.size())] = *rc::gen::arbitrary<char>();
  const auto tensors = parse(file);
  if (!tensors) return;
  for (const TensorView& tensor : *tensors) {
    const char* begin = reinterpret_cast<const char*>(tensor.bytes.data());
    RC_ASSERT(begin >= file.data() && begin + tensor.bytes.size() <= file.data() + file.size());
  }
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TemporaryFolder folder;
  const float values[] = {1, 2, 3, 4};
  const StoredTensor tensors[] = {{"a", "F32", {3}, 12}, {"b", "F32", {1, 1}, 4}};
  {
    auto writer = SafetensorsWriter::create(folder.file("w"), tensors);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->append(std::as_bytes(std::span(values))));
    ASSERT_TRUE(writer->finish());
  }
  const auto file = SafetensorsFile::open(folder.file("w"));
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(std::memcmp(file->tensors()[1].bytes.data(), &values[3], 4), 0);
  EXPECT_FALSE(SafetensorsWriter::create(folder.file("w"), tensors));
}

TEST(SafetensorsWriter, UnfinishedFilesVanish) {
  const TemporaryFolder folder;
  const StoredTensor tensors[] = {{"a", "F32", {3}, 12}};
  { ASSERT_TRUE(SafetensorsWriter::create(folder.file("w"), tensors)); }
  EXPECT_FALSE(std::filesystem::exists(folder.file("w")));
}

std::string one_tensor_file(const std::string& name) {
  return file_of(R"({")" + name + R"(":)" + entry("F32", "[1]", "[0,4]") + "}", 4);
}

TEST(Checkpoint, FindsTensorsOfAllShards) {
  const TemporaryFolder folder;
  folder.write("one", one_tensor_file("a"));
  folder.write("two", one_tensor_file("b"));
  folder.write("model.safetensors.index.json", R"({"weight_map": {"a": "one", "b": "two"}})");
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_NE(checkpoint->find("b"), nullptr);
  EXPECT_EQ(checkpoint->find("c"), nullptr);
}

class BadIndex : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(BadIndex, IsRefused) {
  const TemporaryFolder folder;
  folder.write("one", one_tensor_file("a"));
  folder.write("model.safetensors.index.json", GetParam().first);
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_THAT(checkpoint.error().message(), HasSubstr(GetParam().second));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadIndex,
    ::testing::Values(std::pair(R"({"weight_map": {"a": "/etc/passwd"}})", "plain file name"),
                      std::pair(R"({"weight_map": {"a": "../one"}})", "plain file name"),
                      std::pair(R"({"weight_map": {"a": ".."}})", "plain file name"),
                      std::pair(R"({"weight_map": {"a": "gone", "b": "lost"}})", "gone lost"),
                      std::pair(R"({"weight_map": {"b": "one"}})", "are not in it"),
                      std::pair(R"({"weight_map": {"a": 7}})", "no shard for a"),
                      std::pair(R"({"weight_map": []})", "weight_map"), std::pair("[", "JSON")));

TEST(Checkpoint, AnEmptyFolderSaysWhatIsMissing) {
  const TemporaryFolder folder;
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().code(), ErrorCode::kNotFound);
  EXPECT_THAT(checkpoint.error().message(), HasSubstr("model.safetensors.index.json"));
}

TEST(TensorReader, WidensFloat16Exactly) {
  EXPECT_EQ(half_to_float(0x3c00), 1.0f);
  EXPECT_EQ(half_to_float(0xc500), -5.0f);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24f);  // the least subnormal
  EXPECT_EQ(half_to_float(0x7bff), 65504.0f);
  EXPECT_TRUE(std::isinf(half_to_float(0x7c00)));
  EXPECT_TRUE(std::isnan(half_to_float(0x7e00)));
}

TEST(TensorReader, UnalignedBytesAreCopied) {
  alignas(4) std::byte bytes[13] = {};
  const float value = 2.5f;
  std::memcpy(bytes + 1 + 8, &value, 4);
  const TensorView tensor{"w", StoredType::kF32, "F32", {3, 1}, std::span(bytes).subspan(1)};
  TensorReader reader;
  const TypedRows rows = reader.read(tensor, 2, 1, 1);
  EXPECT_EQ(*reinterpret_cast<const float*>(rows.data), 2.5f);
}

}  // namespace
}  // namespace fasteep
