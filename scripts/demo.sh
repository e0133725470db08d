#!/bin/bash
# Transcribes sentences of "Sense and Sensibility" (LibriVox, public domain; from Debian's
# pocketsphinx-testdata): the text to the terminal, and an .srt beside each recording in demo/.
set -euo pipefail
cd "$(dirname "$0")/.."

recordings=/usr/share/pocketsphinx/test/data/librivox
mkdir -p demo
for recording in "$recordings"/*.wav; do
  cp -u "$recording" "demo/sentence-${recording##*-}"
done

run() {
  echo "\$ $*"
  "$@"
}
run build/transcribe -m tiny.en demo/*.wav
run build/transcribe -m tiny.en -f srt -o demo demo/*.wav
run head demo/*.srt
