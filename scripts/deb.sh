#!/bin/bash
# Builds the Debian packages from a copy of the files that git tracks or would track, into FOLDER
# (default: build/deb), and checks them with lintian.
#
#   scripts/deb.sh [FOLDER]
set -euo pipefail
folder=$(realpath -m "${1:-build/deb}")
cd "$(dirname "$0")/.."

rm -rf "$folder"
mkdir -p "$folder/vesper"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$folder/vesper"
cd "$folder/vesper"
# debhelper has a home of its own.
if command -v ccache >/dev/null; then
  CCACHE_DIR=$(ccache --get-config cache_dir)
  export CCACHE_DIR
fi
DEB_BUILD_OPTIONS="parallel=${JOBS:-$(nproc)} ${DEB_BUILD_OPTIONS:-}" dpkg-buildpackage --build=binary --no-sign
cd "$folder"
rm -rf vesper
lintian --fail-on error --suppress-tags initial-upload-closes-no-bugs ./*.changes
ls ./*.deb
