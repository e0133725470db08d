#include <array>

#include "llm/inspect/describe.h"

namespace vesper {
namespace {

using nlohmann::json;

constexpr uint32_t kMaxShownDepth = 4;

json json_of(const GgufValue& value, uint64_t limit, uint32_t depth) {
  if (const auto text = value.as_string()) return std::string(*text);
  if (const auto truth = value.as_bool()) return *truth;
  if (const auto number = value.as_unsigned()) return *number;
  if (const auto number = value.as_signed()) return *number;
  if (const auto number = value.as_number()) return *number;
  json list = json::array();
  GgufElements elements(value);
  GgufValue element;
  while (depth < kMaxShownDepth && list.size() < limit && elements.next(element)) {
    list.push_back(json_of(element, limit, depth + 1));
  }
  return list;
}

// A metadata fact, either ARCHITECTURE.key or key.
struct MetadataFact {
  const char* metadata_key;
  const char* key;
  const char* label;
};
constexpr std::array<MetadataFact, 13> kMetadataFacts = {{
    {"block_count", "n_layers", "layers"},
    {"embedding_length", "d_model", "width"},
    {"attention.head_count", "n_heads", "heads"},
    {"attention.head_count_kv", "n_kv_heads", "key/value heads"},
    {"attention.key_length", "head_dim", "head size"},
    {"feed_forward_length", "d_ffn", "feed-forward width"},
    {"expert_count", "n_experts", "experts"},
    {"expert_used_count", "n_experts_used", "experts used"},
    {"context_length", "n_ctx", "context"},
    {"attention.sliding_window", "sliding_window", "sliding window"},
    {"rope.freq_base", "rope_theta", "RoPE base"},
    {"rope.scaling.type", "rope_scaling", "RoPE scaling"},
    {"vocab_size", "n_vocab", "vocabulary"},
}};

void add_tokenizer(const Gguf& gguf, ModelDescription& description) {
  const GgufValue* tokens = gguf.find("tokenizer.ggml.tokens");
  const auto model = gguf.find_string("tokenizer.ggml.model");
  if (tokens != nullptr && description.count("n_vocab") == 0) {
    description.add("n_vocab", "vocabulary", tokens->n_elements);
  }
  if (!model) return;
  std::string kind(*model);
  if (*model == "gpt2") kind = "byte-level BPE";
  if (*model == "llama") kind = "SentencePiece";
  if (*model == "bert") kind = "WordPiece";
  if (*model == "t5") kind = "SentencePiece unigram";
  if (const auto pre = gguf.find_string("tokenizer.ggml.pre"))
    kind += " (" + std::string(*pre) + ")";
  description.add("tokenizer", "tokenizer", kind);
}

void add_facts(const Gguf& gguf, ModelDescription& description) {
  if (const auto name = gguf.find_string("general.name")) {
    description.add("name", "name", std::string(*name));
  }
  for (const MetadataFact& fact : kMetadataFacts) {
    const GgufValue* value = gguf.find(description.family + "." + fact.metadata_key);
    if (value == nullptr) continue;
    json shown = json_of(*value, 8, 0);
    description.add(fact.key, fact.label, std::move(shown));
  }
  const uint64_t n_heads = description.count("n_heads");
  if (description.count("head_dim") == 0 && n_heads != 0 &&
      description.count("d_model") % n_heads == 0) {
    description.add("head_dim", "head size", description.count("d_model") / n_heads);
  }
  add_tokenizer(gguf, description);
  if (const auto text = gguf.find_string("tokenizer.chat_template")) {
    description.chat_template = std::string(*text);
  }
}

}  // namespace

void describe_gguf(const ModelFiles& files, std::shared_ptr<const MappedFile> file,
                   ModelDescription& description) {
  auto gguf = std::make_shared<Gguf>(read_gguf_files(files, std::move(file)));
  description.format = "GGUF version " + std::to_string(gguf->version);
  description.family = gguf->find_string("general.architecture").value_or("");
  description.problems = gguf->problems;
  for (const auto& part : gguf->files) {
    description.files.push_back({part->name(), part->bytes().size()});
  }
  for (const GgufTensor& from : gguf->tensors) {
    DescribedTensor tensor;
    tensor.view.name = from.name;
    tensor.view.file_name = from.name;
    tensor.view.shape = from.shape;
    tensor.view.bytes = from.bytes;
    tensor.format = from.format;
    tensor.file = from.file;
    tensor.offset = from.offset;
    if (const DTypeDescriptor* row = find_dtype(from.format)) {
      tensor.has_reader = true;
      tensor.view.dtype = row->dtype;
      if (!from.data.empty()) tensor.view.data = from.data.data();
    }
    description.tensors.push_back(std::move(tensor));
  }
  for (const GgufEntry& entry : gguf->metadata) {
    const GgufValue& value = entry.value;
    const bool is_array = value.type == GgufType::kArray;
    description.metadata.push_back(
        {entry.key,
         is_array ? std::string("array of ") + gguf_type_name(value.element_type)
                  : gguf_type_name(value.type),
         is_array ? value.n_elements : 1,
         [gguf, &value](uint64_t limit) { return json_of(value, limit, 0); }});
  }
  add_facts(*gguf, description);
  description.gguf = gguf;
}

}  // namespace vesper
