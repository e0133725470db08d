#include "llm/weights/whisper/openai_reader.h"

#include "error/error.h"
#include "llm/files/json_file.h"
#include "llm/weights/model_check.h"
#include "llm/weights/model_families.h"
#include "llm/weights/whisper/torch_checkpoint.h"
#include "llm/weights/whisper/vocabulary_file.h"
#include "llm/weights/whisper/whisper_sizes.h"

namespace vesper {
namespace {

uint32_t count_of(const MappedFile& file, const TorchCheckpoint& checkpoint, const char* name) {
  const auto found = checkpoint.numbers.find(std::string("dims.") + name);
  if (found == checkpoint.numbers.end() || found->second < 1 || found->second > UINT32_MAX) {
    fail_in_file(file.name(),
                 std::string("expected a Whisper checkpoint with dims.") + name +
                     " above 0, found " +
                     (found == checkpoint.numbers.end() ? "none" : std::to_string(found->second)));
  }
  return static_cast<uint32_t>(found->second);
}

}  // namespace

ModelContents read_openai(const ModelFiles& files, std::shared_ptr<const MappedFile> file) {
  TorchCheckpoint checkpoint = read_torch_checkpoint(*file);
  ModelContents contents;
  contents.format = "openai";
  contents.family = "whisper";
  ModelConfig& model = contents.config.emplace(start_config(whisper_family()));
  const auto count = [&](const char* name) { return count_of(*file, checkpoint, name); };
  model.n_mels = count("n_mels");
  model.n_vocab = count("n_vocab");
  StackConfig &encoder = model.encoder(), &decoder = model.decoder();
  encoder.n_positions = count("n_audio_ctx");
  encoder.d_model = count("n_audio_state");
  encoder.n_heads = count("n_audio_head");
  encoder.n_layers = count("n_audio_layer");
  decoder.n_positions = count("n_text_ctx");
  decoder.d_model = count("n_text_state");
  decoder.n_heads = count("n_text_head");
  decoder.n_layers = count("n_text_layer");
  constexpr std::string_view kState = "model_state_dict.";
  for (TensorView& tensor : checkpoint.tensors) {
    if (!tensor.name.starts_with(kState)) continue;
    tensor.file_name.erase(0, kState.size());
    // whisper.cpp kept these names in ggml files.
    auto names = canonical_names(*whisper_family().ggml_names, tensor.file_name);
    tensor.name = names.empty() ? tensor.file_name : std::move(names.front());
    contents.tensors.push_back(std::move(tensor));
  }
  contents.files = {file};
  complete_whisper_sizes(file->name(), contents);
  contents.vocabulary = read_tiktoken_vocabulary(files, model.n_vocab);
  if (contents.vocabulary.empty()) {
    contents.vocabulary = read_hugging_face_vocabulary(files, model.n_vocab);
  }
  if (contents.vocabulary.empty()) contents.vocabulary = read_ctranslate2_vocabulary(files);
  check_model(file->name(), contents);
  if (contents.vocabulary.empty() && model.problem.empty()) {
    model.problem = file->name() +
                    ": expected a vocabulary beside it (multilingual.tiktoken or, for an English "
                    "model, gpt2.tiktoken of OpenAI's package, or tokenizer.json), found none";
  }
  return contents;
}

}  // namespace vesper
