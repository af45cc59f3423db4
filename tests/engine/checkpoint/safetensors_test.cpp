#include "engine/checkpoint/safetensors.h"

#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/engine/checkpoint/refusals.h"
#include "tests/support/shared_path.h"

namespace parbuckle {
namespace {

Result<Safetensors> read_path(const std::string& path) {
  PARBUCKLE_ASSIGN(const InputFile file, InputFile::open(path));
  return read_safetensors(file);
}

std::string bad(const std::string& name) {
  return shared_file("fixtures/bad/safetensors/" + name + ".safetensors").string();
}

/// A file in memory: length, header, data.
std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

Result<Safetensors> read_bytes(const std::string& bytes) {
  const InputFile file = InputFile::in_memory("case.safetensors", std::as_bytes(std::span(bytes)));
  return read_safetensors(file);
}

TEST(Safetensors, RefusesEveryMalformedFixtureByName) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/safetensors");
  const Refusal refusals[] = {
      {"empty_file", "has 0 bytes"},
      {"short_length", "has 4 bytes"},
      {"length_beyond_file", "header length 1048576"},
      {"length_huge", "header length 18446744073709551615"},
      {"length_zero", "JSON object"},
      {"header_not_json", "JSON"},
      {"header_not_object", "JSON object"},
      {"header_not_utf8", "UTF-8"},
      {"header_deeply_nested", "must be an object, found an array"},
      {"trailing_junk_in_header", "spaces only"},
      {"duplicate_key", "'a' appears twice"},
      {"overlap", "'b' (bytes 20..36) overlaps 'a' (bytes 0..24)"},
      {"hole", "24..32"},
      {"tail_unused", "40..64"},
      {"truncated_data", "'b' (bytes 24..40) is cut off: the data end at byte 32"},
      {"size_mismatch", "needs 24 bytes, data_offsets give 20"},
      {"wrong_dtype_size", "needs 12 bytes, data_offsets give 24"},
      {"unknown_dtype", "dtype 'F33'"},
      {"offsets_reversed", "before its begin 24"},
      {"offsets_negative", "found -24"},
      {"offsets_fractional", "found 0.0"},
      {"offsets_three", "found 3 numbers"},
      {"offsets_missing", "data_offsets is missing"},
      {"shape_negative", "found -2"},
      {"shape_overflow", "does not fit 64 bits"},
      {"shape_wraps_to_fit", "does not fit 64 bits"},
      {"shape_string", "found '6'"},
      {"metadata_not_string", "must be a string, found 1"},
      {"metadata_not_object", "must be an object, found 'pt'"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string path = bad(refusal.file);
    expect_refusal(read_path(path).status(), path, refusal.key_word);
  }
}

TEST(Safetensors, EveryFixtureIsListedAboveOrValid) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/safetensors");
  std::size_t refused = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(shared_file("fixtures/bad/safetensors"))) {
    const bool valid = entry.path().filename().string().rfind("ok_", 0) == 0;
    EXPECT_EQ(read_path(entry.path().string()).ok(), valid) << entry.path();
    refused += valid ? 0U : 1U;
  }
  EXPECT_EQ(refused, 29U);
}

std::vector<float> floats_of(const std::string& path, const TensorInfo& tensor) {
  const auto file = InputFile::open(path);
  std::vector<std::byte> raw(static_cast<std::size_t>(tensor.end - tensor.begin));
  EXPECT_TRUE(file->read(tensor.begin, raw).ok());
  std::vector<float> out(static_cast<std::size_t>(*element_count(tensor.shape)));
  to_floats(tensor.type, raw.data(), static_cast<std::int64_t>(out.size()), out.data());
  return out;
}

TEST(Safetensors, ReadsTheValidOddities) {
  PARBUCKLE_NEEDS_SHARED("fixtures/bad/safetensors");
  const auto unsorted = read_path(bad("ok_unsorted"));
  ASSERT_TRUE(unsorted.ok()) << unsorted.status().message();
  ASSERT_EQ(unsorted->tensors.size(), 2U);
  EXPECT_EQ(unsorted->tensors[0].name, "a");
  EXPECT_EQ(unsorted->tensors[0].begin - unsorted->data_begin, 0);
  EXPECT_EQ(unsorted->tensors[1].begin - unsorted->data_begin, 24);
  EXPECT_EQ(unsorted->tensors[1].end - unsorted->data_begin, 40);

  const auto unaligned = read_path(bad("ok_unaligned"));
  ASSERT_TRUE(unaligned.ok()) << unaligned.status().message();
  EXPECT_EQ(unaligned->tensors[0].name, "h");
  const InputFile file = *InputFile::open(bad("ok_unaligned"));
  std::byte h{};
  ASSERT_TRUE(file.read(unaligned->tensors[0].begin, std::span(&h, 1)).ok());
  EXPECT_EQ(std::to_integer<int>(h), 7);
  EXPECT_EQ(floats_of(bad("ok_unaligned"), unaligned->tensors[1]),
            floats_of(bad("ok_unsorted"), unsorted->tensors[0]));

  const auto scalar = read_path(bad("ok_scalar"));
  ASSERT_TRUE(scalar.ok());
  EXPECT_TRUE(scalar->tensors[0].shape.empty());
  EXPECT_EQ(floats_of(bad("ok_scalar"), scalar->tensors[0]).size(), 1U);

  EXPECT_EQ(read_path(bad("ok_zero_size"))->tensors.size(), 3U);
  EXPECT_TRUE(read_path(bad("ok_no_tensors"))->tensors.empty());
  EXPECT_EQ(read_path(bad("ok_padded_header"))->tensors.size(), 2U);
  EXPECT_EQ(read_path(bad("ok_metadata"))->metadata.at("a"), "not a tensor");
  EXPECT_EQ(read_path(bad("ok_escaped_name"))->tensors[0].name, "a/é😀");
}

// A header length is compared with the file and with the format's cap before anything is allocated.
TEST(Safetensors, LengthFieldIsCheckedBeforeItIsUsed) {
  const auto with_length = [](std::uint64_t length) {
    std::string bytes(200, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes;
  };
  for (const std::uint64_t length : {~std::uint64_t{0},
                                     std::uint64_t{1} << 63U,
                                     std::uint64_t{100'000'001},
                                     std::uint64_t{193}}) {
    expect_refusal(read_bytes(with_length(length)).status(),
                   "case.safetensors",
                   std::to_string(length).c_str());
  }
}

TEST(Safetensors, SaysWhatWasFoundInsteadOfWeights) {
  expect_refusal(
      read_bytes("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2\nsize 12\n")
          .status(),
      "case.safetensors",
      "git lfs pull");
  expect_refusal(
      read_bytes("<!DOCTYPE html>\n<html></html>").status(), "case.safetensors", "web page");
  expect_refusal(
      read_bytes("{\"error\": \"not found\"}").status(), "case.safetensors", "JSON text");
  expect_refusal(read_bytes("<html>").status(), "case.safetensors", "web page");
}

TEST(Safetensors, HeadersThatLieAboutTheirData) {
  const auto one =
      [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
        return file_of("{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
                           ",\"data_offsets\":" + offsets + "}}",
                       std::string(4, '\1'));
      };
  const Refusal cases[] = {{"[1000,1000]", "needs 4000000 bytes"},
                           {"[4294967296,4294967296,4]", "64 bits"}};
  for (const Refusal& wrong : cases) {
    expect_refusal(
        read_bytes(one("F32", wrong.file, "[0,4]")).status(), "case.safetensors", wrong.key_word);
  }
  expect_refusal(read_bytes(one("F33", "[1]", "[0,18446744073709551615]")).status(),
                 "case.safetensors",
                 "F33");
  expect_refusal(read_bytes(one("F32", "[1]", "[0,18446744073709551615]")).status(),
                 "case.safetensors",
                 "found 18446744073709551615");
  expect_refusal(read_bytes(one("F4", "[7]", "[0,4]")).status(), "case.safetensors", "whole bytes");
  EXPECT_TRUE(read_bytes(one("F4", "[8]", "[0,4]")).ok());
  EXPECT_TRUE(read_bytes(one("F32", "[1]", "[0,4]")).ok());
}

TEST(Safetensors, ValuesAtAnyByteOffset) {
  // A U8 before three BF16 numbers: they lie at an odd offset.
  const std::string bytes = file_of(R"({"u":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                    R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[1,7]}})",
                                    std::string("\x09\x80\x3F\x00\xC0\x00\x3F", 7));
  const InputFile file = InputFile::in_memory("odd", std::as_bytes(std::span(bytes)));
  const auto read = read_safetensors(file);
  ASSERT_TRUE(read.ok()) << read.status().message();
  std::vector<std::byte> raw(6);
  ASSERT_TRUE(file.read(read->tensors[1].begin, raw).ok());
  std::vector<float> values(3);
  to_floats(StorageType::bf16, raw.data(), 3, values.data());
  EXPECT_EQ(values, (std::vector<float>{1.0F, -2.0F, 0.5F}));
}

}  // namespace
}  // namespace parbuckle
