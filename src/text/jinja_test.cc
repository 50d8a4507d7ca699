#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "text/jinja_interpreter.h"

namespace fasteep::jinja {
namespace {
using Json = nlohmann::ordered_json;
using testing::HasSubstr;

std::tm fixed_time() {
  std::tm time{};
  time.tm_year = 125;
  time.tm_mon = 11;
  time.tm_mday = 1;
  time.tm_hour = 9;
  time.tm_wday = 1;
  return time;
}

Result<Text> render(std::string_view source, const Json& context = Json::object(),
                    const Limits& limits = {}) {
  FASTEEP_TRY(const Template parsed, Template::parse(source, limits));
  std::vector<Variable> variables;
  for (const auto& [name, value] : context.items()) variables.push_back({name, &value, true});
  return parsed.render(variables, fixed_time());
}

// The rendered text, or "ERROR: ..." so that a failing expectation shows it.
std::string text_of(const Result<Text>& result) {
  return result ? result.value().bytes : "ERROR: " + result.error().message();
}
std::string show(std::string_view source, const Json& context = Json::object()) {
  return text_of(render(source, context));
}

// The input characters of a rendering, in brackets.
std::string show_marks(std::string_view source, const Json& context) {
  const Result<Text> result = render(source, context);
  if (!result) return text_of(result);
  std::string shown;
  std::size_t at = 0;
  for (const TextRange& run : result.value().input_runs) {
    shown += result.value().bytes.substr(at, run.begin - at) + "[" +
             result.value().bytes.substr(run.begin, run.end - run.begin) + "]";
    at = run.end;
  }
  return shown + result.value().bytes.substr(at);
}

struct Case {
  std::string name;
  Json json;
};
std::vector<Case> read_cases() {
  std::ifstream file(FASTEEP_SOURCE_DIR "/tests/text/jinja_vectors.jsonl");
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    Json json = Json::parse(line);
    cases.push_back({json["name"].get<std::string>(), json});
  }
  return cases;
}

TEST(JinjaVectors, AreAllThere) { EXPECT_EQ(read_cases().size(), 156u); }

class JinjaVector : public testing::TestWithParam<Case> {};

TEST_P(JinjaVector, RendersAsTheReferenceDoes) {
  const Json& json = GetParam().json;
  const auto result =
      render(json["template"].get<std::string>(), json.value("context", Json::object()));
  if (json.contains("expect")) {
    EXPECT_EQ(text_of(result), json["expect"].get<std::string>());
  } else {
    EXPECT_FALSE(result.has_value()) << "rendered " << text_of(result);
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, JinjaVector, testing::ValuesIn(read_cases()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return std::to_string(info.index) + "_" + name;
                         });

TEST(JinjaErrors, CarryTheLine) {
  EXPECT_EQ(show("a\n{{ 1 }}\n{{ x.y }}"), "ERROR: template line 3: 'x' is undefined");
  EXPECT_EQ(show("a\n\n{% if %}"),
            "ERROR: template line 3: expected an expression, got the end of the tag");
  EXPECT_EQ(show("{% for x in y %}"), "ERROR: template line 1: the template ends before 'endfor'");
}

TEST(JinjaErrors, RaisedMessagesStandAlone) {
  const auto result = render("{{ raise_exception('Roles must ' ~ 'alternate') }}");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(result.error().message(), "Roles must alternate");
}

TEST(JinjaErrors, SourceMustBeUtf8) { EXPECT_THAT(show("a\xff"), HasSubstr("not UTF-8")); }

TEST(JinjaTime, IsTheGivenOne) {
  EXPECT_EQ(show("{{ strftime_now('%d %B %Y') }}"), "01 December 2025");
  EXPECT_THAT(show("{{ strftime_now('%999999999d') }}"), HasSubstr("unknown conversion"));
}

TEST(JinjaNumbers, KeepUnsigned64BitIntegers) {
  EXPECT_EQ(show("{{ x | tojson }}", Json::parse(R"({"x": 18446744073709551615})")),
            "18446744073709551615");
}

TEST(JinjaNumbers, RefuseToOverflow) {
  EXPECT_THAT(show("{{ 10 ** 1000 }}"), HasSubstr("127 bits"));
  EXPECT_THAT(show("{{ (2 ** 126 * -2) // -1 }}"), HasSubstr("127 bits"));
  EXPECT_THAT(show("{{ 1 // 0 }}"), HasSubstr("zero"));
}

TEST(JinjaScopes, MacroKeepsTheScopeItWasDefinedIn) {
  EXPECT_EQ(
      show("{% set ns = namespace() %}{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}"
           "{% set ns.f = f %}{% endfor %}{{ ns.f() }}"),
      "2");
}

TEST(JinjaLoops, ElseRunsUnlessAnIterationCameToItsEnd) {
  EXPECT_EQ(show("{% for i in [1, 2] %}{% break %}{% else %}e{% endfor %}"), "e");
  EXPECT_EQ(show("{% for i in [1, 2] %}{% continue %}{% else %}e{% endfor %}"), "e");
  EXPECT_EQ(
      show("{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{% else %}e{% endfor %}"),
      "");
}

TEST(JinjaScopes, NamespacesMayReferToThemselves) {
  EXPECT_EQ(show("{% set n = namespace() %}{% set n.me = n %}{% set n.all = [n, n] %}"
                 "{{ n.me.me == n }}"),
            "True");
}

TEST(JinjaMarkup, PlusEscapesTheOtherSide) {
  EXPECT_EQ(show("{{ '<a>'|safe + '<b>' }} {{ '<a>'|safe ~ '<b>' }}"), "<a>&lt;b&gt; <a><b>");
}

TEST(JinjaLists, WhatSelectReturnsIsAlwaysTrue) {
  EXPECT_EQ(show("{{ 'y' if []|select else 'n' }}{{ 'y' if []|select|list else 'n' }}"), "yn");
  EXPECT_THAT(show("{{ []|select|length }}"), HasSubstr("no len()"));
}

TEST(JinjaLists, FiltersGoOverTextsAndMissingLists) {
  EXPECT_EQ(show("{{ 'cab'|sort|join }} {{ 'abca'|unique|join }} {{ 'ab'|map('upper')|join }} "
                 "{{ nope|map('upper')|list }} {{ {'b': 1, 'a': 2}|select|join }} {{ "
                 "'abc'|batch(2)|list }}"),
            "abc abc AB [] ba [['a', 'b'], ['c']]");
}

TEST(JinjaMarks, FollowInputThroughStringOperations) {
  const Json context = {{"m", "  <u>x|y  "}};
  EXPECT_EQ(show_marks("<t>{{ m.strip() }}</t>", context), "<t>[<u>x|y]</t>");
  EXPECT_EQ(show_marks("{{ '<t>' + m|trim + '</t>' }}", context), "<t>[<u>x|y]</t>");
  EXPECT_EQ(show_marks("{{ m.strip().split('|') | join('+') }}", context), "[<u>x]+[y]");
  EXPECT_EQ(show_marks("{{ m.strip()[1:3] ~ 'z' }}", context), "[u>]z");
  EXPECT_EQ(show_marks("{{ m.strip() | upper }}", context), "[<U>X|Y]");
  EXPECT_EQ(show_marks("{{ m.strip().replace('x', '-') }}", context), "[<u>]-[|y]");
  EXPECT_EQ(show_marks("{{ '%s!' % m.strip() }}", context), "[<u>x|y]!");
  EXPECT_EQ(show_marks("{{ {'k': m.strip()} | tojson }}", context), "{\"k\": \"[<u>x|y]\"}");
  EXPECT_EQ(show_marks("{% set c %}({{ m|trim }}){% endset %}{{ c }}", context), "([<u>x|y])");
  EXPECT_EQ(show_marks("{% for c in m|trim %}{{ c }}-{% endfor %}", context),
            "[<]-[u]-[>]-[x]-[|]-[y]-");
}

TEST(JinjaMarks, KeysOfInputAreInput) {
  EXPECT_EQ(show_marks("{{ d }} {% for k in d %}{{ k }}{% endfor %}", {{"d", {{"k", "v"}}}}),
            "{'[k]': '[v]'} [k]");
}

TEST(JinjaLimits, EndlessRecursionEnds) {
  EXPECT_THAT(show("{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"),
              HasSubstr("nested too deeply"));
}

std::string show_within(std::uint64_t max_steps, std::string_view source) {
  Limits limits;
  limits.max_steps = max_steps;
  return text_of(render(source, {}, limits));
}

TEST(JinjaLimits, StepsAreBounded) {
  const std::string_view loops =
      "{% for a in range(100) %}{% for b in range(100) %}{% endfor %}{% endfor %}";
  EXPECT_EQ(show_within(100'000, loops), "");
  EXPECT_THAT(show_within(10'000, loops), HasSubstr("too much work"));
}

TEST(JinjaLimits, TextsAreBounded) {
  EXPECT_THAT(show("{{ 'aaaaaaaaaaaaaaaa' * 100000000000 }}"), HasSubstr("too much work"));
  EXPECT_THAT(show("{{ 'a'.center(100000000000) }}"), HasSubstr("the text grows past"));
  EXPECT_THAT(show("{% set n = namespace(s='aaaaaaaa') %}{% for i in range(40) %}"
                   "{% set n.s = n.s + n.s %}{% endfor %}"),
              HasSubstr("limit"));
}

TEST(JinjaLimits, SharedValuesCannotExplode) {
  const std::string doubled =
      "{% set n = namespace(v=[1]) %}{% for i in range(60) %}{% set n.v = [n.v, n.v] %}{% endfor "
      "%}";
  EXPECT_THAT(show_within(100'000, doubled + "{{ n.v }}"), HasSubstr("limit"));
  EXPECT_THAT(show_within(100'000, doubled + "{{ n.v == [n.v[0], n.v[0]] }}"), HasSubstr("limit"));
  EXPECT_THAT(show_within(100'000, doubled + "{{ n.v | tojson }}"), HasSubstr("limit"));
}

TEST(JinjaLimits, ValuesCannotNestForever) {
  EXPECT_THAT(show("{% set n = namespace(v=[]) %}{% for i in range(5000) %}{% set n.v = [n.v] %}"
                   "{% endfor %}"),
              HasSubstr("nested more than"));
}

std::string repeated(std::string_view part, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += part;
  return all;
}

TEST(JinjaLimits, SourceCannotNestForever) {
  const std::pair<std::string_view, std::string_view> parts[] = {
      {"(", ")"}, {"[", "]"}, {"{1:", "}"},   {"f(", ")"},         {"not ", ""},
      {"-", ""},  {"1+", ""}, {"a ~ (", ")"}, {"1 if 1 else ", ""}};
  for (const auto& [before, after] : parts) {
    const auto result =
        render("{{ " + repeated(before, 5000) + "a" + repeated(after, 5000) + " }}");
    EXPECT_THAT(text_of(result), HasSubstr("nested more than")) << before;
  }
  EXPECT_THAT(show(repeated("{% if 1 %}", 5000)), HasSubstr("nested more than"));
  EXPECT_THAT(show("{{ x" + repeated(".a", 5000) + " }}"), HasSubstr("nested more than"));
  EXPECT_THAT(show("{{ x" + repeated("|list", 5000) + " }}"), HasSubstr("nested more than"));
  EXPECT_THAT(show("{% set " + repeated("(", 5000) + repeated(")", 5000) + " = 1 %}"),
              HasSubstr("nested more than"));
}

TEST(JinjaLimits, InputCannotNestForever) {
  Json deep = 1;
  for (int i = 0; i < 5000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_THAT(show("{{ x }}", {{"x", deep}}), HasSubstr("nested more than"));
}

TEST(JinjaLimits, LongTemplatesAreRefused) {
  Limits limits;
  limits.max_template_bytes = 10;
  EXPECT_THAT(text_of(render("01234567890", {}, limits)), HasSubstr("the limit is 10"));
}

TEST(JinjaTemplate, RendersFromManyThreads) {
  const auto parsed = Template::parse(
      "{% macro f(x) %}<{{ x | upper }}>{% endmacro %}{% for m in ms %}{{ f(m) }}{% endfor %}");
  ASSERT_TRUE(parsed.has_value());
  const Json messages = {"a", "b", "c"};
  std::vector<std::string> texts(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& text : texts) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i)
          text = text_of(parsed.value().render({{"ms", &messages, true}}, fixed_time()));
      });
    }
  }
  EXPECT_THAT(texts, testing::Each("<A><B><C>"));
}

}  // namespace
}  // namespace fasteep::jinja
