// The model as the files of each format. The formats' names are stated here anew, not taken from
// the readers' tables, so that a wrong one in either place shows.
#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "llm/tokenizer/steps/byte_level.h"
#include "tests/llm/weights/tiny_whisper_files.h"

namespace vesper::test {
namespace {

template <typename T>
void append(std::vector<uint8_t>& out, T value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

void append(std::vector<uint8_t>& out, const std::vector<uint8_t>& bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void append(std::vector<uint8_t>& out, std::string_view text) {
  out.insert(out.end(), text.begin(), text.end());
}

std::shared_ptr<const MappedFile> file_of(const std::string& name, std::vector<uint8_t> bytes) {
  return std::make_shared<const MappedFile>(name, std::move(bytes));
}

std::shared_ptr<const MappedFile> file_of(const std::string& name, std::string_view text) {
  return file_of(name, std::vector<uint8_t>(text.begin(), text.end()));
}

uint64_t row_size(const TinyTensor& tensor) { return tensor.values.size() / tensor.shape[0]; }

using Renaming = std::vector<std::pair<std::string_view, std::string_view>>;

// The first row whose left side occurs is replaced by its right side.
std::string renamed(std::string name, const Renaming& rows) {
  for (const auto& [from, to] : rows) {
    if (const size_t at = name.find(from); at != std::string::npos) {
      return name.replace(at, from.size(), to);
    }
  }
  return name;
}

std::string ggml_name(std::string name) {
  name = renamed(std::move(name), {{".position.weight", ".positional_embedding"},
                                   {"decoder.embed", "decoder.token_embedding"},
                                   {"encoder.norm", "encoder.ln_post"},
                                   {"decoder.norm", "decoder.ln"},
                                   {".attn_norm", ".attn_ln"},
                                   {".cross_norm", ".cross_attn_ln"},
                                   {".ffn_norm", ".mlp_ln"},
                                   {".ffn.up", ".mlp.0"},
                                   {".ffn.down", ".mlp.2"},
                                   {".q.", ".query."},
                                   {".k.", ".key."},
                                   {".v.", ".value."}});
  name = renamed(std::move(name), {{".layers.", ".blocks."}});
  return renamed(std::move(name), {{".cross.", ".cross_attn."}});
}

std::string hugging_face_name(std::string name) {
  name = renamed(std::move(name), {{".position.", ".embed_positions."},
                                   {"decoder.embed.", "decoder.embed_tokens."},
                                   {"encoder.norm", "encoder.layer_norm"},
                                   {"decoder.norm", "decoder.layer_norm"},
                                   {".attn_norm", ".self_attn_layer_norm"},
                                   {".cross_norm", ".encoder_attn_layer_norm"},
                                   {".ffn_norm", ".final_layer_norm"},
                                   {".ffn.up", ".fc1"},
                                   {".ffn.down", ".fc2"},
                                   {".q.", ".q_proj."},
                                   {".k.", ".k_proj."},
                                   {".v.", ".v_proj."},
                                   {".out.", ".out_proj."}});
  name = renamed(std::move(name), {{".attn.", ".self_attn."}, {".cross.", ".encoder_attn."}});
  return "model." + name;
}

std::string ctranslate2_name(std::string name) {
  if (name.ends_with("position.weight")) {
    return renamed(std::move(name), {{".position.weight", "/position_encodings/encodings"}});
  }
  if (name.find("norm") != std::string::npos) {
    name = renamed(std::move(name), {{".weight", ".gamma"}, {".bias", ".beta"}});
  }
  name = renamed(std::move(name), {{".embed.", ".embeddings."},
                                   {".attn_norm", ".self_attention.layer_norm"},
                                   {".cross_norm", ".attention.layer_norm"},
                                   {".ffn_norm", ".ffn.layer_norm"},
                                   {"encoder.norm", "encoder.layer_norm"},
                                   {"decoder.norm", "decoder.layer_norm"},
                                   {".ffn.up", ".ffn.linear_0"},
                                   {".ffn.down", ".ffn.linear_1"},
                                   {".attn.q", ".self_attention.linear_0"},
                                   {".attn.out", ".self_attention.linear_1"},
                                   {".cross.q", ".attention.linear_0"},
                                   {".cross.k", ".attention.linear_1"},
                                   {".cross.out", ".attention.linear_2"}});
  name = renamed(std::move(name), {{".layers.", ".layer_"}});
  std::replace(name.begin(), name.end(), '.', '/');
  return name;
}

// A JSON string of ASCII and byte-level spelling.
std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

template <typename List, typename Text>
std::string joined(const List& list, Text text) {
  std::string out;
  for (const auto& item : list) {
    if (!out.empty()) out += ", ";
    out += text(item);
  }
  return out;
}

std::string id_list(const std::vector<int32_t>& ids) {
  return "[" + joined(ids, [](int32_t id) { return std::to_string(id); }) + "]";
}

std::string pair_list(const std::vector<std::array<uint32_t, 2>>& pairs) {
  return "[" +
         joined(pairs,
                [](const auto& pair) {
                  return "[" + std::to_string(pair[0]) + ", " + std::to_string(pair[1]) + "]";
                }) +
         "]";
}

// A CTranslate2 binary while it is written.
class Binary {
 public:
  Binary() {
    append(out_, uint32_t{6});
    append_name("WhisperSpec");
    append(out_, uint32_t{3});
    append(out_, uint32_t{0});  // the number of variables, known at the end
  }

  void add(const std::string& name, const std::vector<uint64_t>& shape, DType dtype,
           const std::vector<uint8_t>& data) {
    append_name(name);
    append(out_, static_cast<uint8_t>(shape.size()));
    for (const uint64_t size : shape) append(out_, static_cast<uint32_t>(size));
    constexpr DType kTypes[] = {DType::kF32, DType::kI8,  DType::kI16,
                                DType::kI32, DType::kF16, DType::kBF16};
    const auto type = std::find(std::begin(kTypes), std::end(kTypes), dtype);
    append(out_, static_cast<uint8_t>(type - std::begin(kTypes)));
    append(out_, static_cast<uint32_t>(data.size()));
    append(out_, data);
    ++n_variables_;
  }

  std::vector<uint8_t> finish(const std::vector<std::pair<std::string, std::string>>& aliases) {
    append(out_, static_cast<uint32_t>(aliases.size()));
    for (const auto& [alias, variable] : aliases) {
      append_name(alias);
      append_name(variable);
    }
    const size_t at = 4 + 2 + std::string_view("WhisperSpec").size() + 1 + 4;
    std::copy_n(reinterpret_cast<const uint8_t*>(&n_variables_), 4,
                out_.begin() + static_cast<std::ptrdiff_t>(at));
    return std::move(out_);
  }

 private:
  void append_name(std::string_view name) {
    append(out_, static_cast<uint16_t>(name.size() + 1));
    append(out_, name);
    out_.push_back(0);
  }

  std::vector<uint8_t> out_;
  uint32_t n_variables_ = 0;
};

}  // namespace

FileSet TinyWhisper::ggml(DType dtype) const {
  const auto& o = options_;
  const DTypeDescriptor& format = dtype_descriptor(dtype);
  std::vector<uint8_t> out;
  append(out, uint32_t{0x67676d6c});
  // ggml numbers whole files as it does tensors, but for q5_0 (8), q5_1 (9) and q8_0 (7); 2000 is
  // the second version of the block layouts.
  int32_t ftype = format.ggml_type;
  if (dtype == DType::kQ5_0) ftype = 8;
  if (dtype == DType::kQ5_1) ftype = 9;
  if (dtype == DType::kQ8_0) ftype = 7;
  if (format.block > 1) ftype += 2000;
  for (const uint32_t value :
       {o.n_vocab, o.n_audio_ctx, o.d_model, o.n_heads, o.n_encoder_layers, o.n_text_ctx, o.d_model,
        o.n_heads, o.n_decoder_layers, o.n_mels, static_cast<uint32_t>(ftype)}) {
    append(out, value);
  }
  append(out, o.n_mels);
  append(out, uint32_t{201});
  append(out, packed(DType::kF32, mel_filters_, 201));
  append(out, n_text_tokens_);
  for (uint32_t id = 0; id < n_text_tokens_; ++id) {
    append(out, static_cast<uint32_t>(vocabulary_[id].size()));
    append(out, std::string_view(vocabulary_[id]));
  }
  for (const TinyTensor& tensor : tensors_) {
    const bool is_position = tensor.name.ends_with("position.weight");
    const bool is_conv = tensor.name.find(".conv") != std::string::npos;
    DType stored = dtype;
    if (tensor.shape.size() == 1 || is_position) {
      stored = DType::kF32;
    } else if (is_conv && format.block > 1) {
      stored = DType::kF16;
    }
    std::vector<uint64_t> shape = tensor.shape;
    if (is_conv && shape.size() == 1) shape.push_back(1);
    std::reverse(shape.begin(), shape.end());
    const std::string name = ggml_name(tensor.name);
    append(out, static_cast<int32_t>(shape.size()));
    append(out, static_cast<int32_t>(name.size()));
    append(out, dtype_descriptor(stored).ggml_type);
    for (const uint64_t size : shape) append(out, static_cast<int32_t>(size));
    append(out, std::string_view(name));
    append(out, packed(stored, tensor.values, row_size(tensor)));
  }
  return {file_of("ggml.bin", std::move(out))};
}

FileSet TinyWhisper::ctranslate2(DType dtype) const {
  Binary binary;
  const auto add_variable = [&](const std::string& name, const std::vector<uint64_t>& shape,
                                const std::vector<float>& values) {
    const bool is_position = name.ends_with("encodings");
    const bool is_quantized = dtype == DType::kI8 && shape.size() > 1 && !is_position;
    const DType stored = dtype == DType::kI8 && !is_quantized ? DType::kF32 : dtype;
    std::vector<float> scales;
    binary.add(name, shape, stored, packed(stored, values, values.size() / shape[0], &scales));
    if (is_quantized) {
      binary.add(name + "_scale", {shape[0]}, DType::kF32, packed(DType::kF32, scales, 1));
    }
  };
  for (const TinyTensor& first : tensors_) {
    // Query, key and value are one variable, and so are the keys and values of the encoder's
    // output; the keys have a bias of zeros there.
    std::vector<std::string> parts = {first.name};
    const size_t stem = first.name.rfind('.', first.name.rfind('.') - 1);
    const std::string attention = first.name.substr(0, stem);
    const std::string leaf = first.name.substr(first.name.rfind('.'));
    if (first.name.find(".attn.q") != std::string::npos) {
      parts = {first.name, attention + ".k" + leaf, attention + ".v" + leaf};
    } else if (first.name.find(".cross.v") != std::string::npos) {
      parts = {attention + ".k" + leaf, first.name};
    } else if (first.name.find(".attn.k") != std::string::npos ||
               first.name.find(".attn.v") != std::string::npos ||
               first.name.find(".cross.k") != std::string::npos) {
      continue;
    }
    std::vector<uint64_t> shape = first.shape;
    shape[0] *= parts.size();
    std::vector<float> values;
    for (const std::string& part : parts) {
      if (part.ends_with(".k.bias")) {
        values.insert(values.end(), first.shape[0], 0.0f);
      } else {
        const auto& part_values = tensor(part).values;
        values.insert(values.end(), part_values.begin(), part_values.end());
      }
    }
    add_variable(ctranslate2_name(parts.front()), shape, values);
  }
  const auto add_scalar = [&](const std::string& name, int value) {
    binary.add(name, {}, DType::kI8, {static_cast<uint8_t>(value)});
  };
  std::vector<uint8_t> n_heads;
  append(n_heads, static_cast<int16_t>(options_.n_heads));
  binary.add("encoder/num_heads", {}, DType::kI16, n_heads);
  binary.add("decoder/num_heads", {}, DType::kI16, n_heads);
  add_scalar("decoder/activation", 3);
  add_scalar("decoder/alibi", 0);
  add_scalar("decoder/pre_norm", 1);
  add_scalar("decoder/scale_embeddings", 0);

  std::string vocabulary;
  for (uint32_t id = 0; id < options_.n_vocab; ++id) {
    vocabulary += (id < n_text_tokens_ ? byte_level_of_bytes(vocabulary_[id]) : vocabulary_[id]);
    vocabulary += '\n';
  }
  return {file_of("model.bin",
                  binary.finish({{"decoder/projection/weight", "decoder/embeddings/weight"}})),
          file_of("config.json",
                  "{\"alignment_heads\": " + pair_list(alignment_heads()) +
                      ", \"suppress_ids\": " + id_list(suppress_tokens()) +
                      ", \"suppress_ids_begin\": " + id_list(suppress_tokens_at_begin()) + "}"),
          file_of("vocabulary.txt", vocabulary)};
}

FileSet TinyWhisper::safetensors(DType dtype, uint32_t n_shards) const {
  const auto& o = options_;
  FileSet files;
  std::string weight_map;
  std::string format = dtype_descriptor(dtype).name;
  std::transform(format.begin(), format.end(), format.begin(),
                 [](char c) { return static_cast<char>(std::toupper(c)); });
  for (uint32_t shard = 0; shard < n_shards; ++shard) {
    const std::string file_name =
        n_shards == 1 ? "model.safetensors" : "model-" + std::to_string(shard) + ".safetensors";
    std::string header = "{\"__metadata__\": {\"format\": \"pt\"}";
    std::vector<uint8_t> data;
    for (size_t i = shard; i < tensors_.size(); i += n_shards) {
      const std::string name = json_string(hugging_face_name(tensors_[i].name));
      const size_t begin = data.size();
      append(data, packed(dtype, tensors_[i].values, row_size(tensors_[i])));
      header += ", " + name + ": {\"dtype\": " + json_string(format) + ", \"shape\": [" +
                joined(tensors_[i].shape, [](uint64_t size) { return std::to_string(size); }) +
                "], \"data_offsets\": [" + std::to_string(begin) + ", " +
                std::to_string(data.size()) + "]}";
      weight_map += (weight_map.empty() ? "" : ", ");
      weight_map += name + ": " + json_string(file_name);
    }
    header += "}";
    std::vector<uint8_t> out;
    append(out, static_cast<uint64_t>(header.size()));
    append(out, std::string_view(header));
    append(out, data);
    files.push_back(file_of(file_name, std::move(out)));
  }
  if (n_shards > 1) {
    files.push_back(
        file_of("model.safetensors.index.json", "{\"weight_map\": {" + weight_map + "}}"));
  }
  std::string config = "{\"model_type\": \"whisper\", \"activation_function\": \"gelu\"";
  const std::pair<const char*, uint32_t> facts[] = {{"num_mel_bins", o.n_mels},
                                                    {"max_source_positions", o.n_audio_ctx},
                                                    {"max_target_positions", o.n_text_ctx},
                                                    {"vocab_size", o.n_vocab},
                                                    {"d_model", o.d_model},
                                                    {"encoder_attention_heads", o.n_heads},
                                                    {"decoder_attention_heads", o.n_heads},
                                                    {"encoder_layers", o.n_encoder_layers},
                                                    {"decoder_layers", o.n_decoder_layers},
                                                    {"encoder_ffn_dim", o.d_ffn},
                                                    {"decoder_ffn_dim", o.d_ffn}};
  for (const auto& [key, value] : facts) {
    config += ", " + json_string(key) + ": " + std::to_string(value);
  }
  files.push_back(file_of("config.json", config + "}"));
  files.push_back(
      file_of("generation_config.json",
              "{\"alignment_heads\": " + pair_list(alignment_heads()) +
                  ", \"suppress_tokens\": " + id_list(suppress_tokens()) +
                  ", \"begin_suppress_tokens\": " + id_list(suppress_tokens_at_begin()) + "}"));
  std::string vocabulary;
  for (uint32_t id = 0; id < o.n_vocab; ++id) {
    vocabulary += (id == 0 ? "{" : ", ");
    vocabulary +=
        json_string(id < n_text_tokens_ ? byte_level_of_bytes(vocabulary_[id]) : vocabulary_[id]) +
        ": " + std::to_string(id);
  }
  files.push_back(file_of("vocab.json", vocabulary + "}"));
  return files;
}

namespace {

// The pickle of a checkpoint, in the codes that torch.save writes (protocol 2).
class Pickle {
 public:
  Pickle& code(std::string_view codes) {
    append(bytes_, codes);
    return *this;
  }
  Pickle& text(std::string_view text) {
    code("X");
    append(bytes_, static_cast<uint32_t>(text.size()));
    return code(text);
  }
  Pickle& number(uint32_t value) {
    code("J");
    append(bytes_, value);
    return *this;
  }
  std::vector<uint8_t> bytes_;
};

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += i + j <= bytes.size() ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

// A zip file of stored entries, as torch.save writes them.
class Zip {
 public:
  void add(const std::string& name, const std::vector<uint8_t>& bytes) {
    const auto offset = static_cast<uint32_t>(bytes_.size());
    append(bytes_, uint32_t{0x04034b50});
    append_facts(bytes_, name, bytes.size());
    append(bytes_, std::string_view(name));
    append(bytes_, bytes);
    append(directory_, uint32_t{0x02014b50});
    append(directory_, uint16_t{0});
    append_facts(directory_, name, bytes.size());
    append(directory_, std::vector<uint8_t>(10));
    append(directory_, offset);
    append(directory_, std::string_view(name));
    ++n_;
  }
  std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> all = bytes_;
    append(all, directory_);
    append(all, uint32_t{0x06054b50});
    append(all, uint32_t{0});
    append(all, n_);
    append(all, n_);
    append(all, static_cast<uint32_t>(directory_.size()));
    append(all, static_cast<uint32_t>(bytes_.size()));
    append(all, uint16_t{0});
    return all;
  }

 private:
  // Version, flags, method, time, date, checksum (not read), sizes, lengths.
  static void append_facts(std::vector<uint8_t>& to, const std::string& name, size_t size) {
    append(to, std::vector<uint8_t>(14));
    append(to, static_cast<uint32_t>(size));
    append(to, static_cast<uint32_t>(size));
    append(to, static_cast<uint16_t>(name.size()));
    append(to, uint16_t{0});
  }

  uint16_t n_ = 0;
  std::vector<uint8_t> bytes_, directory_;
};

}  // namespace

FileSet TinyWhisper::openai(DType dtype) const {
  const auto& o = options_;
  const std::string storage = dtype == DType::kF32   ? "FloatStorage"
                              : dtype == DType::kF16 ? "HalfStorage"
                                                     : "BFloat16Storage";
  Zip zip;
  Pickle pickle;
  pickle.code("\x80\x02}q").code(std::string_view("\0", 1)).code("(").text("dims").code("}(");
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, uint32_t>>{{"n_mels", o.n_mels},
                                                     {"n_vocab", o.n_vocab},
                                                     {"n_audio_ctx", o.n_audio_ctx},
                                                     {"n_audio_state", o.d_model},
                                                     {"n_audio_head", o.n_heads},
                                                     {"n_audio_layer", o.n_encoder_layers},
                                                     {"n_text_ctx", o.n_text_ctx},
                                                     {"n_text_state", o.d_model},
                                                     {"n_text_head", o.n_heads},
                                                     {"n_text_layer", o.n_decoder_layers}}) {
    pickle.text(name).number(value);
  }
  pickle.code("u").text("model_state_dict").code("ccollections\nOrderedDict\n)R(");
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TinyTensor& tensor = tensors_[i];
    pickle.text(ggml_name(tensor.name)).code("ctorch._utils\n_rebuild_tensor_v2\n((");
    pickle.text("storage").code("ctorch\n" + storage + "\n").text(std::to_string(i)).text("cpu");
    pickle.number(static_cast<uint32_t>(tensor.values.size())).code("tQK").code({"\0", 1});
    pickle.code("(");
    for (const uint64_t size : tensor.shape) pickle.number(static_cast<uint32_t>(size));
    pickle.code("t(");
    uint64_t stride = tensor.values.size();
    for (const uint64_t size : tensor.shape) {
      pickle.number(static_cast<uint32_t>(stride /= size));
    }
    pickle.code("t\x89").code("ccollections\nOrderedDict\n)RtR");
    zip.add("tiny/data/" + std::to_string(i), packed(dtype, tensor.values, row_size(tensor)));
  }
  pickle.code("u}").text("_metadata").code("}sbu.");
  zip.add("tiny/data.pkl", pickle.bytes_);
  std::string tokens;
  for (uint32_t id = 0; id < n_text_tokens_; ++id) {
    tokens += base64_of(vocabulary_[id]) + " " + std::to_string(id) + "\n";
  }
  return {file_of("tiny.pt", zip.bytes()),
          file_of(o.n_vocab == 51864 ? "gpt2.tiktoken" : "multilingual.tiktoken", tokens)};
}

}  // namespace vesper::test
