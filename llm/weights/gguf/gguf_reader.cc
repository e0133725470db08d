#include "llm/weights/gguf/gguf_reader.h"

#include "error/error.h"
#include "llm/weights/gguf/gguf_model.h"
#include "llm/weights/model_check.h"

namespace vesper {

ModelContents read_gguf(const ModelFiles& files, std::shared_ptr<const MappedFile> file) {
  return read_gguf(std::make_shared<const Gguf>(read_gguf_files(files, std::move(file))));
}

ModelContents read_gguf(std::shared_ptr<const Gguf> gguf) {
  if (!gguf->problems.empty()) throw Error(ErrorKind::kModel, gguf->problems.front());
  ModelContents contents;
  contents.format = "gguf";
  contents.family = gguf->find_string("general.architecture").value_or("");
  contents.files = gguf->files;
  for (const GgufTensor& from : gguf->tensors) {
    const DTypeDescriptor* format = find_dtype(from.format);
    if (format == nullptr) {
      contents.unreadable.push_back(
          {from.name, from.format, from.shape, from.data.data(), from.bytes});
      continue;
    }
    TensorView tensor;
    tensor.name = from.name;
    tensor.file_name = from.name;
    tensor.dtype = format->dtype;
    tensor.shape = from.shape;
    tensor.data = from.data.data();
    tensor.bytes = from.bytes;
    contents.tensors.push_back(std::move(tensor));
  }
  if (const ModelFamily* family = find_gguf_family(contents.family)) {
    const std::string& name = contents.files.front()->name();
    read_gguf_model(GgufMetadata(name, *gguf, contents.family + "."), *family, contents);
    check_model(name, contents);
  }
  contents.gguf = std::move(gguf);
  return contents;
}

}  // namespace vesper
