#include "llm/weights/whisper/torch_checkpoint.h"

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

#include "llm/files/byte_reader.h"
#include "llm/files/zip_directory.h"

namespace vesper {
namespace {

constexpr uint64_t kMostPickle = 2u << 20;  // that of Whisper's largest model has 300 kB

// A value on the stack of the pickle's machine. Values are shared by index, never copied.
struct PickleValue {
  enum class Kind { kNone, kNumber, kText, kName, kTuple, kDictionary, kStorage, kTensor };
  Kind kind = Kind::kNone;
  int64_t number = 0;
  std::string text;             // kText; kName: "collections.OrderedDict"; kStorage: its file
  std::vector<uint32_t> items;  // kTuple: also lists; kDictionary: keys and values in turn;
                                // kTensor: storage
  DType dtype = DType::kF32;    // kStorage
  int64_t offset = 0;           // kTensor: first element in the storage
  std::vector<uint64_t> shape;  // kTensor
};

struct StorageType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<StorageType, 3> kStorageTypes = {{{"torch.FloatStorage", DType::kF32},
                                                       {"torch.HalfStorage", DType::kF16},
                                                       {"torch.BFloat16Storage", DType::kBF16}}};
constexpr std::string_view kDictionaryName = "collections.OrderedDict";
constexpr std::string_view kTensorName = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kParameterName = "torch._utils._rebuild_parameter";

const StorageType* find_storage_type(std::string_view name) {
  const auto* found = std::find_if(kStorageTypes.begin(), kStorageTypes.end(),
                                   [&](const StorageType& type) { return type.name == name; });
  return found == kStorageTypes.end() ? nullptr : found;
}

// Runs a pickle of protocol 2 (Python's Lib/pickletools.py describes the codes).
class Unpickler {
 public:
  using Kind = PickleValue::Kind;

  Unpickler(std::string name, std::span<const uint8_t> bytes)
      : file_(std::move(name), {bytes.begin(), bytes.end()}), reader_(file_) {}

  // The index of the result.
  uint32_t run() {
    while (true) {
      const auto code = reader_.read<uint8_t>("a code of a pickle");
      if (code == '.') return pop();
      step(code);
    }
  }
  const PickleValue& at(uint32_t index) const { return values_[index]; }

 private:
  [[noreturn]] void fail(const std::string& message) const { reader_.fail(message); }

  uint32_t add(Kind kind) {
    values_.push_back({});
    values_.back().kind = kind;
    return static_cast<uint32_t>(values_.size() - 1);
  }
  void push(Kind kind) { stack_.push_back(add(kind)); }
  void push_number(int64_t number) {
    push(Kind::kNumber);
    values_.back().number = number;
  }
  void push_text(uint64_t length) {
    push(Kind::kText);
    values_.back().text = reader_.read_string(length, "a text of a pickle");
  }
  uint32_t pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) {
      fail("expected a value on the stack of the pickle, found none");
    }
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  PickleValue& top(Kind kind, const char* what) {
    const uint32_t index = pop();
    stack_.push_back(index);
    if (values_[index].kind != kind) fail(std::string("expected ") + what + " in the pickle");
    return values_[index];
  }
  // The values above the last mark.
  std::vector<uint32_t> pop_to_mark() {
    if (marks_.empty()) fail("expected a mark on the stack of the pickle, found none");
    std::vector<uint32_t> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  void push_tuple(std::vector<uint32_t> items) {
    push(Kind::kTuple);
    values_.back().items = std::move(items);
  }
  void push_last(size_t n) {
    std::vector<uint32_t> items(n);
    for (size_t i = n; i > 0; --i) items[i - 1] = pop();
    push_tuple(std::move(items));
  }
  void extend(Kind kind, const char* what, const std::vector<uint32_t>& items) {
    if (kind == Kind::kDictionary && items.size() % 2 != 0) {
      fail("expected keys with values in the pickle");
    }
    std::vector<uint32_t>& to = top(kind, what).items;
    to.insert(to.end(), items.begin(), items.end());
  }
  void remember(uint32_t key) {
    const uint32_t index = pop();
    stack_.push_back(index);
    memo_[key] = index;
  }
  void recall(uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail("expected a remembered value in the pickle, found none");
    stack_.push_back(found->second);
  }

  std::string read_line() {
    std::string line;
    for (char c = 0;
         (c = static_cast<char>(reader_.read<uint8_t>("a name of a pickle"))) != '\n';) {
      line += c;
    }
    return line;
  }

  void read_name() {
    const std::string module = read_line(), member = read_line();
    std::string name = module + "." + member;
    if (find_storage_type(name) == nullptr && name != kDictionaryName && name != kTensorName &&
        name != kParameterName) {
      fail("expected only tensors in the checkpoint, found the name " +
           (is_printable(name) ? name.substr(0, 100) : "that is not printable"));
    }
    push(Kind::kName);
    values_.back().text = std::move(name);
  }

  int64_t read_long(uint8_t length) {
    if (length > 8) fail("expected a number of at most 8 bytes in the pickle");
    uint64_t bits = 0;
    for (uint8_t i = 0; i < length; ++i) {
      bits |= uint64_t{reader_.read<uint8_t>("a number")} << (8 * i);
    }
    if (length != 0 && length < 8 && (bits >> (8 * length - 1) & 1) != 0) {
      bits |= ~uint64_t{0} << (8 * length);
    }
    return static_cast<int64_t>(bits);
  }

  void step(uint8_t code) {
    switch (code) {
      case 0x80:  // PROTO
        reader_.read<uint8_t>("a protocol");
        return;
      case '}':
        return push(Kind::kDictionary);
      case ']':
      case ')':
        return push(Kind::kTuple);
      case '(':
        return marks_.push_back(stack_.size());
      case 'N':
        return push(Kind::kNone);
      case 0x88:
      case 0x89:
        return push_number(code == 0x88 ? 1 : 0);
      case 'J':
        return push_number(reader_.read<int32_t>("a number"));
      case 'K':
        return push_number(reader_.read<uint8_t>("a number"));
      case 'M':
        return push_number(reader_.read<uint16_t>("a number"));
      case 0x8a:
        return push_number(read_long(reader_.read<uint8_t>("a length")));
      case 'G':  // a float, which nothing here needs
        reader_.take(8, "a number");
        return push(Kind::kNone);
      case 'X':
        return push_text(reader_.read<uint32_t>("a length"));
      case 0x8c:
      case 'U':
        return push_text(reader_.read<uint8_t>("a length"));
      case 'c':
        return read_name();
      case 'q':
        return remember(reader_.read<uint8_t>("an index"));
      case 'r':
        return remember(reader_.read<uint32_t>("an index"));
      case 'h':
        return recall(reader_.read<uint8_t>("an index"));
      case 'j':
        return recall(reader_.read<uint32_t>("an index"));
      case 't':
        return push_tuple(pop_to_mark());
      case 0x85:
      case 0x86:
      case 0x87:
        return push_last(code - 0x84u);
      case 'a':
        return extend(Kind::kTuple, "a list", {pop()});
      case 'e':
        return extend(Kind::kTuple, "a list", pop_to_mark());
      case 's': {
        const uint32_t value = pop(), key = pop();
        return extend(Kind::kDictionary, "a dictionary", {key, value});
      }
      case 'u':
        return extend(Kind::kDictionary, "a dictionary", pop_to_mark());
      case 'Q':
        return make_storage();
      case 'R':
        return call();
      case 'b':  // attributes of a dictionary, which nothing here needs
        pop();
        top(Kind::kDictionary, "a dictionary with attributes");
        return;
      default:
        fail("expected only tensors in the checkpoint, found code " + std::to_string(code) +
             " of a pickle");
    }
  }

  const PickleValue& item(const PickleValue& tuple, size_t index, Kind kind) const {
    if (tuple.kind != Kind::kTuple || index >= tuple.items.size() ||
        values_[tuple.items[index]].kind != kind) {
      fail("expected a tensor in the pickle, found other values");
    }
    return values_[tuple.items[index]];
  }

  // ("storage", type, file, device, number of elements)
  void make_storage() {
    const PickleValue& id = values_[pop()];
    const StorageType* type = find_storage_type(item(id, 1, Kind::kName).text);
    if (item(id, 0, Kind::kText).text != "storage" || type == nullptr) {
      fail("expected a storage of f32, f16 or bf16 in the pickle");
    }
    std::string file = item(id, 2, Kind::kText).text;
    const int64_t n = item(id, 4, Kind::kNumber).number;
    push(Kind::kStorage);
    values_.back().text = std::move(file);
    values_.back().dtype = type->dtype;
    values_.back().number = n;
  }

  void call() {
    const uint32_t arguments = pop(), callee = pop();
    if (values_[callee].kind != Kind::kName) fail("expected a name to call in the pickle");
    const std::string name = values_[callee].text;
    if (name == kDictionaryName) {
      if (values_[arguments].kind != Kind::kTuple || !values_[arguments].items.empty()) {
        fail("expected an empty OrderedDict in the pickle");
      }
      return push(Kind::kDictionary);
    }
    if (name == kParameterName) {
      item(values_[arguments], 0, Kind::kTensor);
      return stack_.push_back(values_[arguments].items[0]);
    }
    if (name == kTensorName) return make_tensor(arguments);
    fail("expected a tensor in the pickle, found a call of " + name);
  }

  // (storage, offset, shape, strides, ...)
  void make_tensor(uint32_t arguments) {
    const PickleValue& tuple = values_[arguments];
    item(tuple, 0, Kind::kStorage);
    PickleValue tensor;
    tensor.kind = Kind::kTensor;
    tensor.items = {tuple.items[0]};
    tensor.offset = item(tuple, 1, Kind::kNumber).number;
    const PickleValue& sizes = item(tuple, 2, Kind::kTuple);
    const PickleValue& strides = item(tuple, 3, Kind::kTuple);
    constexpr size_t kMostRank = 4;
    if (sizes.items.size() > kMostRank || strides.items.size() != sizes.items.size()) {
      fail("expected a tensor of at most 4 dimensions in the pickle");
    }
    uint64_t n = 1;
    for (size_t i = sizes.items.size(); i > 0; --i) {
      const int64_t size = item(sizes, i - 1, Kind::kNumber).number;
      const int64_t stride = item(strides, i - 1, Kind::kNumber).number;
      if (size <= 0 || (size != 1 && stride != static_cast<int64_t>(n))) {
        fail("expected a tensor of contiguous rows in the pickle");
      }
      if (__builtin_mul_overflow(n, static_cast<uint64_t>(size), &n) || n > INT64_MAX) {
        fail("expected a tensor whose elements 64 bits can count in the pickle");
      }
      tensor.shape.insert(tensor.shape.begin(), static_cast<uint64_t>(size));
    }
    stack_.push_back(static_cast<uint32_t>(values_.size()));
    values_.push_back(std::move(tensor));
  }

  MappedFile file_;
  ByteReader reader_;
  std::vector<PickleValue> values_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::unordered_map<uint32_t, uint32_t> memo_;
};

class CheckpointReader {
 public:
  explicit CheckpointReader(const MappedFile& file) : file_(file) {}

  TorchCheckpoint read() {
    constexpr std::string_view kPickle = "/data.pkl";
    for (ZipEntry& entry : read_zip_directory(file_)) {
      const size_t slash = entry.name.find('/');
      if (slash != std::string::npos) entries_[entry.name.substr(slash)] = entry.bytes;
    }
    const auto pickle = entries_.find(std::string(kPickle));
    if (pickle == entries_.end() || pickle->second.size() > kMostPickle) {
      fail("expected data.pkl of at most 2 MiB in the zip file");
    }
    if (const auto order = entries_.find("/byteorder");
        order != entries_.end() && (order->second.empty() || order->second[0] != 'l')) {
      fail("expected little-endian numbers");
    }
    Unpickler pickled(file_.name() + ", data.pkl", pickle->second);
    read_members(pickled, pickled.run(), "", 0);
    return std::move(checkpoint_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::kModel, file_.name() + ": " + message);
  }

  void read_members(const Unpickler& pickled, uint32_t index, const std::string& path,
                    uint32_t depth) {
    using Kind = PickleValue::Kind;
    // Many keys may have the same dictionary.
    if (!read_.insert(index).second) return;
    const std::vector<uint32_t>& items = pickled.at(index).items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickleValue& key = pickled.at(items[i]);
      const PickleValue& value = pickled.at(items[i + 1]);
      if (key.kind != Kind::kText || !is_printable(key.text)) continue;
      const std::string name = path + key.text;
      if (value.kind == Kind::kDictionary && depth == 0) {
        read_members(pickled, items[i + 1], name + ".", depth + 1);
      } else if (value.kind == Kind::kNumber) {
        checkpoint_.numbers[name] = value.number;
      } else if (value.kind == Kind::kTensor) {
        add_tensor(name, value, pickled.at(value.items[0]));
      }
    }
  }

  void add_tensor(const std::string& name, const PickleValue& tensor, const PickleValue& storage) {
    const auto entry = entries_.find("/data/" + storage.text);
    if (entry == entries_.end()) {
      fail("expected storage " + (is_printable(storage.text) ? storage.text : "") + " of tensor " +
           name + " in the zip file, found none");
    }
    TensorView view;
    view.name = view.file_name = name;
    view.dtype = storage.dtype;
    view.shape = tensor.shape;
    const uint64_t n = view.n_elements();
    const uint64_t each = dtype_descriptor(view.dtype).block_bytes;
    const uint64_t n_stored = entry->second.size() / each;
    const auto first = static_cast<uint64_t>(tensor.offset);
    if (tensor.offset < 0 || first > n_stored || n > n_stored - first) {
      fail("tensor " + name + ": expected " + std::to_string(n) +
           " elements in its storage, found " + std::to_string(n_stored));
    }
    view.data = entry->second.data() + first * each;
    view.bytes = n * each;
    checkpoint_.tensors.push_back(std::move(view));
  }

  const MappedFile& file_;
  std::unordered_map<std::string, std::span<const uint8_t>> entries_;  // without the first folder
  std::set<uint32_t> read_;                                            // dictionaries
  TorchCheckpoint checkpoint_;
};

}  // namespace

TorchCheckpoint read_torch_checkpoint(const MappedFile& file) {
  return CheckpointReader(file).read();
}

}  // namespace vesper
