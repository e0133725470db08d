#include "llm/weights/whisper/ggml_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "llm/files/byte_reader.h"
#include "llm/weights/model_check.h"
#include "llm/weights/model_families.h"
#include "llm/weights/whisper/whisper_sizes.h"

namespace vesper {
namespace {

constexpr uint32_t kGgmlMagic = 0x67676d6c;  // "lmgg" in the file
constexpr int32_t kMaxGgmlRank = 4;

// ftype is the type of most tensors plus 1000 times the version of the block layouts. dtype.cc
// reads version 2; earlier versions have other blocks with the same types.
constexpr int32_t kBlockVersionFactor = 1000;
constexpr int32_t kBlockVersion = 2;

class GgmlReader {
 public:
  explicit GgmlReader(std::shared_ptr<const MappedFile> file)
      : file_(std::move(file)), reader_(*file_) {}

  ModelContents read() {
    contents_.format = "ggml";
    contents_.family = "whisper";
    contents_.files = {file_};
    contents_.config = start_config(whisper_family());
    read_hyperparameters();
    read_mel_filters();
    read_vocabulary();
    while (reader_.remaining() > 0) read_tensor();
    complete_whisper_sizes(file_->name(), contents_);
    check_model(file_->name(), contents_);
    return std::move(contents_);
  }

 private:
  // A count above zero.
  uint32_t read_count(const char* what) {
    const auto value = reader_.read<int32_t>(what);
    if (value <= 0) {
      reader_.fail(std::string("expected ") + what + " above 0, found " + std::to_string(value));
    }
    return static_cast<uint32_t>(value);
  }

  void read_hyperparameters() {
    ModelConfig& model = *contents_.config;
    StackConfig &encoder = model.encoder(), &decoder = model.decoder();
    reader_.read<uint32_t>("ggml's magic number");
    model.n_vocab = read_count("n_vocab");
    encoder.n_positions = read_count("n_audio_ctx");
    encoder.d_model = decoder.d_model = read_count("n_audio_state");
    encoder.n_heads = read_count("n_audio_head");
    encoder.n_layers = read_count("n_audio_layer");
    decoder.n_positions = read_count("n_text_ctx");
    const uint32_t n_text_state = read_count("n_text_state");
    if (n_text_state != encoder.d_model) {
      reader_.fail("expected n_text_state to be n_audio_state, " + std::to_string(encoder.d_model) +
                   ", found " + std::to_string(n_text_state));
    }
    decoder.n_heads = read_count("n_text_head");
    decoder.n_layers = read_count("n_text_layer");
    model.n_mels = read_count("n_mels");
    const auto ftype = reader_.read<int32_t>("ftype");
    if (ftype < 0) reader_.fail("expected ftype of at least 0, found " + std::to_string(ftype));
    block_version_ = ftype / kBlockVersionFactor;
  }

  void read_mel_filters() {
    ModelConfig& model = *contents_.config;
    const uint32_t n_mels = read_count("the number of mel filters");
    const uint32_t n_bins = read_count("the number of bins of a mel filter");
    if (n_mels != model.n_mels || n_bins != kMelFilterBins) {
      reader_.fail("expected mel filters of " + std::to_string(model.n_mels) +
                   " x 201 numbers, found " + std::to_string(n_mels) + " x " +
                   std::to_string(n_bins));
    }
    const uint64_t n = uint64_t{n_mels} * n_bins;
    const auto numbers = reader_.take(n * sizeof(float), "the mel filters");
    model.mel_filters.resize(n);
    std::memcpy(model.mel_filters.data(), numbers.data(), numbers.size());
  }

  void read_vocabulary() {
    const uint32_t n = read_count("the number of tokens");
    for (uint32_t id = 0; id < n; ++id) {
      const auto length = reader_.read<uint32_t>("a token's length");
      contents_.vocabulary.push_back(reader_.read_string(length, "a token"));
    }
  }

  void read_tensor() {
    const uint64_t start = reader_.offset();
    const auto rank = reader_.read<int32_t>("a tensor's number of dimensions");
    const auto name_length = reader_.read<uint32_t>("the length of a tensor's name");
    const auto type = reader_.read<int32_t>("a tensor's type");
    if (rank < 1 || rank > kMaxGgmlRank) {
      fail_at(file_->name(), start,
              "expected a tensor of 1 to 4 dimensions, found " + std::to_string(rank));
    }
    TensorView tensor;
    uint64_t n = 1;
    for (int32_t axis = 0; axis < rank; ++axis) {
      const uint32_t size = read_count("a tensor's dimension");
      tensor.shape.push_back(size);
      if (__builtin_mul_overflow(n, uint64_t{size}, &n)) {
        fail_at(file_->name(), start, "the tensor's dimensions overflow 64 bits");
      }
    }
    std::reverse(tensor.shape.begin(), tensor.shape.end());  // ggml lists the innermost first
    tensor.file_name = reader_.read_name(name_length, "a tensor's name");
    const std::string what = "tensor " + tensor.file_name;
    const DTypeDescriptor* format = find_ggml_dtype(type);
    if (format == nullptr) {
      fail_at(file_->name(), start,
              what + " is of ggml type " + std::to_string(type) + ", which has no reader");
    }
    if (format->block > 1 && block_version_ != kBlockVersion) {
      fail_at(file_->name(), start,
              what + " is quantized by version " + std::to_string(block_version_) +
                  " of ggml's block layouts, expected version " + std::to_string(kBlockVersion));
    }
    if (tensor.shape.back() % format->block != 0) {
      fail_at(file_->name(), start,
              what + ": expected rows of a multiple of " + std::to_string(format->block) +
                  " elements for format " + format->name + ", found " +
                  std::to_string(tensor.shape.back()));
    }
    tensor.dtype = format->dtype;
    tensor.bytes = dtype_bytes(format->dtype, n);
    tensor.data = reader_.take(tensor.bytes, what).data();
    name_and_keep(std::move(tensor));
  }

  void name_and_keep(TensorView tensor) {
    auto names = canonical_names(*whisper_family().ggml_names, tensor.file_name);
    tensor.name = names.empty() ? tensor.file_name : std::move(names.front());
    // The file has the biases of convolutions as columns.
    const bool is_bias = tensor.name.ends_with(".bias");
    if (is_bias && tensor.shape.size() == 2 && tensor.shape[1] == 1) tensor.shape.pop_back();
    contents_.tensors.push_back(std::move(tensor));
  }

  std::shared_ptr<const MappedFile> file_;
  ByteReader reader_;
  ModelContents contents_;
  int32_t block_version_ = 0;
};

}  // namespace

bool is_ggml(const MappedFile& file) {
  uint32_t magic = 0;
  if (file.bytes().size() < sizeof magic) return false;
  std::memcpy(&magic, file.bytes().data(), sizeof magic);
  return magic == kGgmlMagic;
}

ModelContents read_ggml(std::shared_ptr<const MappedFile> file) {
  return GgmlReader(std::move(file)).read();
}

}  // namespace vesper
