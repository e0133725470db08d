#!/bin/bash
# Installs the programs for bench/compare.py in build/bench-peers:
#   venv/         a virtual environment with faster-whisper
#   whisper-cli   whisper.cpp's program, compiled for this machine from the sources that the Python
#                 package pywhispercpp has (its compiled library uses AVX2 at most)
# Existing programs are kept. Compiling takes a few minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

faster_whisper=faster-whisper==1.2.1
pywhispercpp=pywhispercpp==1.5.1
jobs=${JOBS:-$(nproc)}
folder=build/bench-peers
mkdir -p "$folder"

if ! "$folder/venv/bin/python" -c 'import faster_whisper' 2>/dev/null; then
  echo "compare-peers: installing $faster_whisper"
  python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --quiet "$faster_whisper"
fi

if [ ! -x "$folder/whisper-cli" ]; then
  echo "compare-peers: compiling whisper.cpp from $pywhispercpp"
  sources=$(mktemp -d)
  trap 'rm -rf "$sources"' EXIT
  "$folder/venv/bin/pip" download --quiet --no-deps --no-binary pywhispercpp --dest "$sources" \
    "$pywhispercpp"
  tar --extract --gzip --file "$sources"/pywhispercpp-*.tar.gz --directory "$sources" \
    --strip-components 1
  # A compiler cache would not help: the folder has a new name each time.
  cmake -S "$sources/whisper.cpp" -B "$sources/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DGGML_NATIVE=ON -DGGML_CCACHE=OFF -DBUILD_SHARED_LIBS=OFF -DWHISPER_BUILD_TESTS=OFF \
    -DWHISPER_BUILD_SERVER=OFF >/dev/null
  ninja -C "$sources/build" -j "$jobs" whisper-cli >/dev/null
  cp "$sources/build/bin/whisper-cli" "$folder/whisper-cli.unfinished"
  mv "$folder/whisper-cli.unfinished" "$folder/whisper-cli"
fi
echo "compare-peers: ready in $folder"
