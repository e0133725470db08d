#!/bin/bash
# Installs clients for the tests of the server from PyPI, each in vesper/NAME-VERSION in the user's cache
# folder: OpenAI's Python client (openai_test.py), and schemathesis (description_test.py).
set -euo pipefail

case "${XDG_CACHE_HOME:-}" in
  /*) cache=$XDG_CACHE_HOME ;;
  *) cache=$HOME/.cache ;;
esac
for package in 'openai[realtime]==3.57.0' schemathesis==4.32.5; do
  folder=$cache/vesper/$(sed 's/\[.*\]//; s/==/-/' <<<"$package")
  [ "$(cat "$folder/complete" 2>/dev/null)" != "$package" ] || continue
  echo "fetch_clients: installing $package in $folder"
  rm -rf "$folder"
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir "$package"
  echo "$package" >"$folder/complete"
done
