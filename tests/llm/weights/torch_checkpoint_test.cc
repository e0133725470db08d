// Checkpoints of PyTorch: what the restricted unpickler rejects.
#include "llm/weights/whisper/torch_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error/error.h"

namespace vesper::torch_checkpoint_test {
namespace {

using testing::HasSubstr;

void put(std::string& to, uint64_t value, int n_bytes) {
  for (int i = 0; i < n_bytes; ++i) to += static_cast<char>(value >> (8 * i));
}

// A zip file with this pickle and a storage "0" of 16 bytes. `method`: how entries are compressed.
std::string checkpoint(const std::string& pickle, uint16_t method = 0) {
  std::string file, directory;
  uint64_t n = 0;
  for (const auto& [name, bytes] : {std::pair<std::string, std::string>{"x/data.pkl", pickle},
                                    {"x/data/0", std::string(16, '\0')}}) {
    std::string facts;
    put(facts, 0, 4);
    put(facts, method, 2);
    put(facts, 0, 8);
    put(facts, bytes.size(), 4);
    put(facts, bytes.size(), 4);
    put(facts, name.size(), 2);
    put(facts, 0, 2);
    put(directory, 0x02014b50, 4);
    put(directory, 0, 2);
    directory += facts + std::string(10, '\0');
    put(directory, file.size(), 4);
    directory += name;
    put(file, 0x04034b50, 4);
    file += facts + name + bytes;
    ++n;
  }
  const uint64_t start = file.size();
  file += directory;
  put(file, 0x06054b50, 4);
  put(file, 0, 4);
  put(file, n, 2);
  put(file, n, 2);
  put(file, directory.size(), 4);
  put(file, start, 4);
  put(file, 0, 2);
  return file;
}

TorchCheckpoint read(const std::string& bytes) {
  const auto file =
      std::make_shared<const MappedFile>("x.pt", std::vector<uint8_t>(bytes.begin(), bytes.end()));
  return read_torch_checkpoint(*file);
}

std::string error_of(const std::string& bytes) {
  try {
    read(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kModel);
    return error.what();
  }
  return "no error";
}

std::string text(const std::string& value) {
  return std::string("U") + static_cast<char>(value.size()) + value;
}

// A dictionary with the member "t", a tensor.
std::string tensor(const std::string& type, const std::string& offset, const std::string& shape,
                   const std::string& strides, const std::string& storage = "0") {
  return "\x80\x02}" + text("t") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
         "ctorch\n" + type + "\n" + text(storage) + text("cpu") + "K\x04tQ" + offset + "(" + shape +
         "t(" + strides + "ttRs.";
}

const std::string kZero = {'K', '\0'};

TEST(TorchCheckpoint, HasTensorsAndNumbers) {
  const std::string bytes = checkpoint("}" + text("dims") + "}" + text("n") + "M\x39\x05sN" + "0.");
  EXPECT_THAT(error_of(bytes), HasSubstr("code 48")) << "POP is not needed";
  EXPECT_EQ(
      read(checkpoint("}" + text("dims") + "}" + text("n") + "M\x39\x05ss.")).numbers.at("dims.n"),
      0x539);
  const TorchCheckpoint found = read(checkpoint(tensor("FloatStorage", "K\x01", "K\x03", "K\x01")));
  ASSERT_EQ(found.tensors.size(), 1u);
  EXPECT_EQ(found.tensors[0].name, "t");
  EXPECT_EQ(found.tensors[0].shape, std::vector<uint64_t>{3});
  EXPECT_EQ(found.tensors[0].bytes, 12u);
}

TEST(TorchCheckpoint, CallsNothing) {
  for (const std::string name : {"os\nsystem\n", "builtins\neval\n", "torch\nDoubleStorage\n"}) {
    EXPECT_THAT(error_of(checkpoint("c" + name + text("echo") + "\x85R.")),
                HasSubstr("expected only tensors in the checkpoint, found the name"));
  }
  EXPECT_THAT(error_of(checkpoint("ctorch\nHalfStorage\n)R.")), HasSubstr("found a call of"));
  EXPECT_THAT(error_of(checkpoint("ccollections\nOrderedDict\n" + text("a") + "\x85R.")),
              HasSubstr("an empty OrderedDict"));
}

TEST(TorchCheckpoint, RejectsTensorsOutsideTheirStorage) {
  const auto error = [](const std::string& pickle) { return error_of(checkpoint(pickle)); };
  EXPECT_THAT(error(tensor("FloatStorage", "K\x01", "K\x04", "K\x01")),
              HasSubstr("expected 4 elements in its storage, found 4"));
  EXPECT_THAT(error(tensor("FloatStorage", "J\xff\xff\xff\xff", "K\x01", "K\x01")),
              HasSubstr("in its storage"));
  EXPECT_THAT(error(tensor("FloatStorage", kZero,
                           "J\xff\xff\xff\x7f"
                           "J\xff\xff\xff\x7f"
                           "J\xff\xff\xff\x7f",
                           "K\x01K\x01K\x01")),
              HasSubstr("contiguous rows"));
  EXPECT_THAT(error(tensor("FloatStorage", kZero, "K\x02K\x02", "K\x01K\x02")),
              HasSubstr("contiguous rows"));
  EXPECT_THAT(error(tensor("FloatStorage", kZero, kZero, "K\x01")), HasSubstr("contiguous rows"));
  EXPECT_THAT(error(tensor("FloatStorage", kZero, "K\x01", "K\x01", "7")),
              HasSubstr("expected storage 7 of tensor t"));
}

TEST(TorchCheckpoint, RejectsPicklesThatAreNotWhole) {
  for (const std::string pickle :
       {"", "}", "s.",
        "K\x01"
        "a.",
        "(u.", "t.", "h\x05.", "\x87.", "}(K\x01u.", "Q.", "\x8a\x09", "(.", "X\xff\xff\xff\xff"}) {
    EXPECT_THAT(error_of(checkpoint(pickle)), HasSubstr("x.pt")) << pickle;
  }
}

TEST(TorchCheckpoint, ReadsADictionaryOfManyKeysOnce) {
  // 300 keys with one dictionary of 300 numbers.
  std::string members = "}(";
  for (int i = 0; i < 300; ++i) members += text(std::to_string(i)) + "K\x01";
  std::string pickle = "}(";
  pickle += text("first") + members + "uq\x01";
  for (int i = 0; i < 300; ++i) pickle += text("k" + std::to_string(i)) + "h\x01";
  EXPECT_EQ(read(checkpoint(pickle + "u.")).numbers.size(), 300u);
  // A dictionary in itself.
  EXPECT_TRUE(read(checkpoint("}q\x01" + text("a") + "h\x01s.")).tensors.empty());
}

TEST(TorchCheckpoint, RejectsCompressedEntries) {
  EXPECT_THAT(error_of(checkpoint("}.", 8)), HasSubstr("found compressed or encrypted ones"));
}

}  // namespace
}  // namespace vesper::torch_checkpoint_test
