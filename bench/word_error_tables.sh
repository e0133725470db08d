#!/bin/bash
# Word errors on the whole speech corpus, both halves: transcribe with its defaults, with
# openai-whisper's rules (--reference), and faster-whisper at float32. Prints Markdown tables. The
# corpus is made on first use (bench/speech_corpus.py); arguments are passed to it, for example
# --texts FOLDER with the scripts of the announcements. Takes about an hour on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${XDG_CACHE_HOME:-}" in
  /*) cache=$XDG_CACHE_HOME ;;
  *) cache=$HOME/.cache ;;
esac
python=$cache/vesper/peers/venv/bin/python
if [ ! -s "$cache/vesper/speech-corpus/tuning.jsonl" ] || [ $# -gt 0 ]; then
  "$python" bench/speech_corpus.py "$@"
fi
for half in tuning held-out; do
  "$python" bench/speech_errors.py run transcribe --half $half >&2
  "$python" bench/speech_errors.py run with-reference-rules --half $half -- --reference >&2
  "$python" bench/speech_errors.py run faster-whisper --half $half --faster-whisper float32 >&2
  "$python" bench/speech_errors.py table transcribe with-reference-rules faster-whisper --half $half
done
