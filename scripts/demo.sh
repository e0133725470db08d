#!/bin/bash
# make demo: installs what is missing, builds all but the tests, gets Whisper base (133 MB) and transcribes sentences of
# "Sense and Sensibility" (LibriVox, public domain; from Debian's pocketsphinx-testdata): the text to
# the terminal, and an .srt beside each recording in demo/. Says how long each step took.
set -euo pipefail
cd "$(dirname "$0")/.."

recordings=/usr/share/pocketsphinx/test/data/librivox
times=()

# "1 min 05 s"
duration() {
  if [ "$1" -ge 60 ]; then printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); else echo "$1 s"; fi
}
# Runs a command as a step of this name, and notes its time.
step() {
  local name=$1 start=$SECONDS
  shift
  "$@"
  times+=("$name $(duration $((SECONDS - start)))")
}
run() {
  echo
  echo "\$ $*"
  "$@"
}
show() {
  mkdir -p demo
  for recording in "$recordings"/*.wav; do
    cp -u "$recording" "demo/sentence-${recording##*-}"
  done
  run build/transcribe -m base demo/*.wav
  run build/transcribe -m base -f srt -o demo demo/*.wav
  run head -3 demo/sentence-0870.srt
}

step packages scripts/setup.sh
step build "${MAKE:-make}" --no-print-directory build TESTS=OFF
step model scripts/fetch-models.sh base
step recordings show

echo
printf -v list '%s, ' "${times[@]}"
echo "demo: done in $(duration $SECONDS) (${list%, }). Next:"
echo "  build/transcribe -m base YOUR_RECORDING"
echo "  build/generate \"Write one sentence about rivers.\"    (downloads a language model)"
