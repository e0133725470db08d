// A GGUF model, in one file or split into two.
#include "error/error.h"
#include "llm/files/gguf_file.h"
#include "llm/inspect/describe.h"
#include "llm/tokenizer/files/open_text_tokenizer.h"
#include "llm/weights/gguf/gguf_reader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/llm/weights/gguf_bytes.h"

namespace vesper::fuzz {
namespace {

GgufBytes language_model() {
  GgufBytes model;
  model.string("general.architecture", "llama")
      .scalar<uint32_t>("llama.block_count", 4, 1)
      .scalar<uint32_t>("llama.context_length", 4, 16)
      .scalar<uint32_t>("llama.embedding_length", 4, 32)
      .scalar<uint32_t>("llama.feed_forward_length", 4, 32)
      .scalar<uint32_t>("llama.attention.head_count", 4, 1)
      .scalar<uint32_t>("llama.attention.head_count_kv", 4, 1)
      .scalar<float>("llama.attention.layer_norm_rms_epsilon", 6, 1e-5f)
      .scalar<float>("llama.rope.freq_base", 6, 1e4f)
      .string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", "smollm")
      .strings("tokenizer.ggml.tokens", {"a", "b", "\xc4\xa0", "ab", "<s>"})
      .strings("tokenizer.ggml.merges", {"a b"})
      .array<int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 1, 3})
      .scalar<uint32_t>("tokenizer.ggml.eos_token_id", 4, 4)
      .string("tokenizer.chat_template", "{{ messages[0].content }}");
  const auto matrix = [&](const char* name) {
    model.tensor(name, {32, 32}, 8, std::vector<uint8_t>(32 * 34, 3));
  };
  model.tensor("token_embd.weight", {32, 5}, 8, std::vector<uint8_t>(5 * 34, 7));
  model.tensor("blk.0.attn_norm.weight", {32}, 0, std::vector<uint8_t>(128, 0));
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight",
                           "blk.0.attn_output.weight", "blk.0.ffn_gate.weight",
                           "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"}) {
    matrix(name);
  }
  model.tensor("blk.0.ffn_norm.weight", {32}, 0, std::vector<uint8_t>(128, 0));
  model.tensor("output_norm.weight", {32}, 0, std::vector<uint8_t>(128, 0));
  return model;
}

Files split_model() {
  const auto part = [](uint16_t number, const char* tensor, const char* name) {
    GgufBytes writer;
    if (number == 0) writer.string("general.architecture", "llama");
    return writer.scalar<uint16_t>("split.no", 2, number)
        .scalar<uint16_t>("split.count", 2, 2)
        .scalar<int32_t>("split.tensors.count", 5, 2)
        .tensor(tensor, {1}, 0, {0, 0, 128, 63})
        .file(name);
  };
  return {part(0, "t0", "big-00001-of-00002.gguf"), part(1, "t1", "big-00002-of-00002.gguf")};
}

const SoundFolders& sound() {
  static const SoundFolders folders({{language_model().file("model.gguf")}, split_model()});
  return folders;
}

}  // namespace

std::vector<std::string> seeds() { return sound().seeds(); }

void use(Bytes input) {
  const ModelFiles files = sound().with(input);
  const std::string name = files.names_ending_with(".gguf").front();
  const std::shared_ptr<const MappedFile> file = files.open(name);
  if (!is_gguf(*file)) return;
  ModelDescription description;
  describe_gguf(files, file, description);
  for (const MetadataEntry& entry : description.metadata) entry.value(8);
  tensor_classes(description);
  try {
    open_text_tokenizer(name, *description.gguf)->encode("ab <s> \xff", true, true);
  } catch (const Error&) {
  }
  const auto weights = open_weights(files);
  for (const TensorView& tensor : weights->tensors()) read_f32(tensor);
}

}  // namespace vesper::fuzz
