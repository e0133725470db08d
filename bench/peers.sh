#!/bin/bash
# Installs the other programs of bench/compare_*.py in vesper/peers in the user's cache folder:
#   venv/           Python with faster-whisper, FastAPI to serve it, and ONNX Runtime
#   whisper-cli, whisper-server
#                   whisper.cpp, from the sources in the Python package pywhispercpp
#   llama-bench, llama-completion, llama-server
#                   llama.cpp, from the sources in the Python package llama-cpp-python
# Each is its fastest build for this machine's CPU: compiled natively, with tinyBLAS
# (GGML_LLAMAFILE), OpenMP and link-time optimization. The compiled libraries of the Python packages
# use AVX2 at most. NAME.version beside a program has its version and settings. Programs of the
# versions below are kept; others are replaced. Compiling takes about fifteen minutes on two cores.
#
#   bench/peers.sh [venv] [whisper.cpp] [llama.cpp]      default: all
set -euo pipefail

python_packages="faster-whisper==1.2.1 onnxruntime==1.32.0 onnx==1.23.2"
python_packages+=" av==17.0.0"  # av 18 does not read some Vorbis files of the speech corpus
python_packages+=" fastapi==0.165.0 uvicorn==0.54.0 python-multipart==0.0.34"
pywhispercpp=1.5.1
llama_cpp_python=0.3.36
settings="native, LLAMAFILE, OpenMP, LTO"
jobs=${JOBS:-$(nproc)}
case "${XDG_CACHE_HOME:-}" in
  /*) cache=$XDG_CACHE_HOME ;;
  *) cache=$HOME/.cache ;;
esac
folder=$cache/vesper/peers
mkdir -p "$folder"
temporary=
clean_up() { [ -z "$temporary" ] || rm -rf "$temporary"; }
trap clean_up EXIT

install_venv() {
  [ "$(cat "$folder/venv.version" 2>/dev/null)" != "$python_packages" ] || return 0
  echo "peers: installing $python_packages"
  rm -rf "$folder/venv"
  python3 -m venv "$folder/venv"
  # shellcheck disable=SC2086  # several packages
  "$folder/venv/bin/pip" install --quiet --disable-pip-version-check $python_packages
  echo "$python_packages" >"$folder/venv.version"
}

# Compiles targets $4... of the CMake project in folder $3 of PyPI package $1 in version $2.
compile() {
  local package=$1 version=$2 source=$3 described target missing=
  shift 3
  described="$package $version, $settings"
  for target in "$@"; do
    case "$(cat "$folder/$target.version" 2>/dev/null)" in *"$described") ;; *) missing=$target ;; esac
  done
  [ -n "$missing" ] || return 0
  echo "peers: compiling $* from $package $version"
  temporary=$(mktemp -d "$folder/.building-XXXXXX")
  python3 -m venv "$temporary/venv"
  "$temporary/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps \
    --no-binary "$package" --dest "$temporary" "$package==$version"
  tar --extract --gzip --file "$temporary"/*.tar.gz --directory "$temporary" --strip-components 1
  source=$temporary/$source
  # A compiler cache would not help: the folder has a new name each time.
  cmake -S "$source" -B "$temporary/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON -DGGML_OPENMP=ON -DGGML_LTO=ON \
    -DGGML_CCACHE=OFF -DWHISPER_BUILD_TESTS=OFF -DWHISPER_BUILD_SERVER=ON -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_SERVER=ON -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF >/dev/null
  ninja -C "$temporary/build" -j "$jobs" "$@" >/dev/null
  for target in "$@"; do
    mv "$temporary/build/bin/$target" "$folder/$target"
    echo "$(version_of "$source"), $described" >"$folder/$target.version"
  done
  rm -rf "$temporary"
  temporary=
}

# The version of whisper.cpp, or of ggml where the sources have no other.
version_of() {
  local numbers
  numbers=$(sed -n 's/^project("whisper.cpp" VERSION \(.*\))/\1/p' "$1/CMakeLists.txt")
  if [ -n "$numbers" ]; then
    echo "whisper.cpp $numbers"
  else
    numbers=$(sed -n 's/^set(GGML_VERSION_[MP][A-Z]* \([0-9]*\))/\1/p' "$1/ggml/CMakeLists.txt")
    echo "llama.cpp with ggml ${numbers//$'\n'/.}"
  fi
}

peers=("$@")
[ ${#peers[@]} -gt 0 ] || peers=(venv whisper.cpp llama.cpp)
for peer in "${peers[@]}"; do
  case $peer in
    venv) install_venv ;;
    whisper.cpp) compile pywhispercpp "$pywhispercpp" whisper.cpp whisper-cli whisper-server ;;
    llama.cpp)
      compile llama-cpp-python "$llama_cpp_python" vendor/llama.cpp llama-bench llama-completion llama-server
      ;;
    *)
      echo "peers: expected venv, whisper.cpp or llama.cpp, found \"$peer\"" >&2
      exit 2
      ;;
  esac
done
echo "peers: ready in $folder"
