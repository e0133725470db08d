#!/bin/bash
# Installs OpenAI's Python client in vesper/openai-VERSION in the user's cache folder, for openai_test.py.
set -euo pipefail

version=3.57.0
case "${XDG_CACHE_HOME:-}" in
  /*) cache=$XDG_CACHE_HOME ;;
  *) cache=$HOME/.cache ;;
esac
folder=$cache/vesper/openai-$version
[ ! -e "$folder/complete" ] || exit 0
echo "fetch_client: installing openai $version in $folder"
rm -rf "$folder"
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir "openai==$version"
touch "$folder/complete"
