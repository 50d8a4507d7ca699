#include "base/settings_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace fasteep {
namespace {

using ::testing::HasSubstr;

struct Options {
  int seqs = 64;
  bool cache = true;
  std::string dtype = "auto";
  std::optional<int64_t> memory;
  double ratio = 0.5;
  template <class V>
  void visit(V& v) {
    v(seqs, "max-num-seqs", "sequences in a step", Range{1, 4096});
    v(cache, "enable-prefix-caching", "reuse KV of equal prefixes");
    v(dtype, "dtype", "weights' type", Choices{{"auto", "float32", "bfloat16"}}, Aliases{{"type"}});
    v(memory, "device-memory", "bytes per rank", Bytes{});
    v(ratio, "ratio", "a number", Range{0, 1});
  }
};

struct Fixture {
  Options options;
  SettingsTable table;
  Fixture() { table.add(options); }
  std::string fails(const char* name, const char* text) {
    auto result = table.find(name)->parse(text);
    return result ? "" : result.error().message();
  }
};

TEST(SettingsTable, ParsesEveryKind) {
  Fixture f;
  ASSERT_TRUE(f.table.find("max_num_seqs")->parse("8"));
  ASSERT_TRUE(f.table.find("enable-prefix-caching")->parse("false"));
  ASSERT_TRUE(f.table.find("type")->parse("float32"));
  ASSERT_TRUE(f.table.find("device-memory")->parse("1.5 GiB"));
  EXPECT_EQ(f.options.seqs, 8);
  EXPECT_FALSE(f.options.cache);
  EXPECT_EQ(f.options.dtype, "float32");
  EXPECT_EQ(f.options.memory, int64_t{3} << 29);
}

TEST(SettingsTable, RefusalsNameTheSettingAndTheRemedy) {
  Fixture f;
  EXPECT_THAT(f.fails("max-num-seqs", "0"), HasSubstr("max-num-seqs: 0 is out of range"));
  EXPECT_THAT(f.fails("max-num-seqs", "1.5"), HasSubstr("not an integer"));
  EXPECT_THAT(f.fails("max-num-seqs", "1e99"), HasSubstr("out of range"));
  EXPECT_THAT(f.fails("ratio", "nan"), HasSubstr("not a number"));
  EXPECT_THAT(f.fails("dtype", "float23"), HasSubstr("did you mean \"float32\""));
  EXPECT_THAT(f.fails("device-memory", "8 gigs"), HasSubstr("is not a size"));
  EXPECT_THAT(f.fails("enable-prefix-caching", "maybe"), HasSubstr("neither true nor false"));
}

TEST(SettingsTable, UnknownNamesSuggestTheNearest) {
  Fixture f;
  EXPECT_THAT(f.table.unknown("flag", "max-num-seq").message(),
              HasSubstr("did you mean \"max-num-seqs\""));
  EXPECT_THAT(f.table.unknown("flag", "zzzzzzzzz").message(), HasSubstr("--help"));
}

TEST(SettingsTable, YamlErrorsNameFileLineAndKey) {
  Fixture f;
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("settings_{}.yaml", getpid());
  std::ofstream(path) << "max_num_seqs: 3\ndtyp: float32\n";
  auto result = f.table.read_yaml(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message(),
              HasSubstr(":2: unknown key \"dtyp\": did you mean \"dtype\""));
  EXPECT_EQ(f.options.seqs, 3);
  EXPECT_FALSE(f.table.read_yaml("/nonexistent.yaml"));
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(int64_t{3} << 29), "1.50 GiB");
}

}  // namespace
}  // namespace fasteep
