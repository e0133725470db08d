#!/bin/bash
# Tries the Debian packages and the commands of the README in bare systems of a Debian release, which
# debootstrap makes below FOLDER; this script removes them at its end. Needs root, debootstrap,
# systemd-nspawn, Debian's packages and PyPI, and tiny.en and base in the folder of models
# (scripts/fetch-models.sh).
#
#   tests/install/bare_debian.sh bookworm|trixie FOLDER [build] [use] [service] [clone]   default: all
#     build    makes the packages as packaging/Containerfile does, into FOLDER/packages
#     use      installs the packages, uses programs, library and Python package, and purges them: no
#              file may be left
#     service  runs the service of the package under systemd
#     clone    `make demo` and `pip install ./python` in a clone of this commit
set -euo pipefail
# Mounts of its own, so that none outlives this script: who removes FOLDER after a crash removes nothing
# of /dev or of the cache of this machine.
if [ -z "${BARE_DEBIAN_MOUNTS:-}" ]; then
  exec env BARE_DEBIAN_MOUNTS=own unshare --mount --propagation private "$0" "$@"
fi
suite=$1
mkdir -p "$2"
folder=$(realpath "$2")
shift 2
steps=${*:-build use service clone}
source=$(realpath "$(dirname "$0")/../..")
models=${VESPER_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/vesper/models}
recording=/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav
root=$folder/root
# The home folder in the bare system.
home=/srv/tester
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

say() { echo "bare_debian: $suite: $*"; }

# A command line in the bare system.
inside() {
  say "\$ $*"
  chroot "$root" env -i HOME=$home LANG=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive JOBS="${JOBS:-$(nproc)}" \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c "$*"
}

container=""
unmount() {
  for mounted in "$root$home/.cache/ccache" "$root/dev" "$root/proc"; do
    if mountpoint -q "$mounted"; then umount "$mounted"; fi
  done
}
remove_root() {
  if [ -n "$container" ]; then kill "$container" 2>/dev/null && wait "$container" || true; fi
  unmount
  rm -rf --one-file-system "$root"
}
trap remove_root EXIT

# A new bare system.
make_root() {
  remove_root
  if [ ! -f "$folder/$suite.tar" ]; then
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$folder/debootstrap.log"
    rm -f "$root"/var/cache/apt/archives/*.deb
    tar -C "$root" -cf "$folder/$suite.tar" .
    rm -rf --one-file-system "$root"
  fi
  mkdir -p "$root"
  tar -C "$root" -xf "$folder/$suite.tar"
  mkdir -p "$root$home"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  # Certificates that this machine needs to reach PyPI.
  mkdir -p "$root/usr/local/share/ca-certificates"
  find /usr/local/share/ca-certificates -name '*.crt' -exec cp -t "$root/usr/local/share/ca-certificates" {} +
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
  # The cache of this machine, without removing from it.
  if command -v ccache >/dev/null; then
    mkdir -p "$root$home/.cache/ccache" "$root$home/.config/ccache"
    mount --bind "$(ccache --get-config cache_dir)" "$root$home/.cache/ccache"
    printf 'base_dir = /\nhash_dir = false\nmax_size = 0\n' >"$root$home/.config/ccache/ccache.conf"
  fi
  inside "apt-get update -qq"
}

# The files that a purge must leave as they were: all but the records of apt, dpkg, man-db and Python.
list_files() {
  (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ".$home" -o -path ./tmp -o -path ./var/log \
    -o -path ./run -o -path ./var/lib/dpkg/info -o -path ./var/cache/man -o -path ./var/cache/apt -o -path ./var/lib/apt -o -name __pycache__ \) -prune -o -print | sort)
}

copy_models() {
  mkdir -p "$root$home/.cache/vesper/models"
  for model in "$@"; do cp -r "$models/$model" "$root$home/.cache/vesper/models/"; done
}

clone() {
  rm -rf "$root/vesper"
  git clone --quiet "$source" "$root/vesper"
}

build() {
  make_root
  clone
  inside "apt-get install -qq -y --no-install-recommends build-essential ca-certificates ccache debhelper git lintian >/dev/null"
  inside "apt-get build-dep -qq -y --no-install-recommends /vesper >/dev/null"
  inside "git config --global --add safe.directory '*'; /vesper/scripts/deb.sh /packages"
  rm -rf "$folder/packages"
  cp -r "$root/packages" "$folder/packages"
}

# The shell commands of a transcription by a server on a port that is rarely used: the system shares the
# network of this machine.
port=48080
request() {
  echo "for try in \$(seq 100); do curl -s --fail localhost:$port/health/ready && break; sleep 0.3; done; echo
    curl -sS --fail-with-body -F file=@\$HOME/talk.wav -F model=tiny.en $* localhost:$port/v1/audio/transcriptions; echo"
}

use() {
  make_root
  cp -r "$folder/packages" "$root/packages"
  cp "$recording" "$root$home/talk.wav"
  copy_models tiny.en
  # What the packages depend on, and what this test uses, is there before and after them.
  inside "apt-get install -qq -y --no-install-recommends curl gcc libc6-dev man-db pkg-config python3 systemd >/dev/null
    for package in /packages/*.deb; do dpkg-deb --field \$package Depends; done | tr , '\n' | grep -v vesper | sort -u | paste -sd , >~/depends
    apt-get satisfy -qq -y --no-install-recommends \"\$(cat ~/depends)\" >/dev/null"
  list_files >"$folder/before"

  inside "cd /packages; apt-get install -qq -y --no-install-recommends ./vesper_*.deb >/dev/null; cd; transcribe -m tiny.en talk.wav; man transcribe | head -4; man serve | head -4"
  inside "cd; vesper transcribe -m tiny.en talk.wav; for program in embed generate inspect serve transcribe; do \$program --version; vesper \$program --version; done"
  inside "for program in serve transcribe vesper; do . /usr/share/bash-completion/completions/\$program; complete -p \$program; done"
  inside "systemd-analyze verify vesper-serve.service"
  inside "serve -m tiny.en --offline --port $port & trap 'kill \$!; wait \$!' EXIT
    $(request)"
  inside "apt-get install -qq -y --no-install-recommends /packages/*.deb >/dev/null"
  inside "cd; python3 -c 'import vesper; print(vesper.WhisperModel(\"tiny.en\").transcribe(\"talk.wav\").text)'"
  # The first program of docs/c.md.
  sed -n '/^```c$/,/^```$/p;/^```$/q' "$source/docs/c.md" | sed '/^```/d' >"$root$home/demo.c"
  inside "cd; cc demo.c \$(pkg-config --cflags --libs vesper) && ./a.out"

  inside "apt-get purge -qq -y vesper libvesper0 libvesper-dev python3-vesper >/dev/null"
  list_files >"$folder/after"
  diff "$folder/before" "$folder/after"
  inside "! grep -rl vesper /etc /usr /var/lib/dpkg/alternatives /var/lib/dpkg/status /var/lib/systemd"
  say "purged without a trace"
}

# A command line in the booted system.
booted() {
  say "# $*"
  nsenter -t "$init" -m -u -i -p -C env -i HOME=$home LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c "$*"
}

service() {
  make_root
  cp "$folder"/packages/vesper_*.deb "$root$home/"
  cp "$recording" "$root$home/talk.wav"
  inside "apt-get install -qq -y --no-install-recommends curl systemd-sysv ~/vesper_*.deb >/dev/null; apt-get remove -qq -y vesper >/dev/null"
  unmount
  systemd-nspawn --quiet --boot --register=no --keep-unit --console=pipe --directory "$root" </dev/null >"$folder/boot.log" 2>&1 &
  container=$!
  for try in $(seq 100); do
    init=$(pgrep -P "$container" | head -1 || true)
    if [ -n "$init" ] && booted "systemctl is-system-running --wait" | grep -qE 'running|degraded'; then break; fi
    sleep 0.5
  done

  booted "apt-get install -qq -y --no-install-recommends ~/vesper_*.deb >/dev/null"
  booted 'test "$(systemctl is-active vesper-serve)" = inactive'  # off until it is enabled
  # Options, a key and a model, as docs/serve.md describes.
  key=sk-a-long-random-key
  booted "sed -i 's#^OPTIONS=.*#OPTIONS=\"-m tiny.en --offline --port $port --api-keys /etc/vesper/keys\"#' /etc/vesper/serve.conf
    printf 'ann %s\n' \$(printf %s $key | sha256sum | cut -d ' ' -f 1) >/etc/vesper/keys; mkdir -p /var/lib/vesper/models"
  cp -r "$models/tiny.en" "$root/var/lib/vesper/models/"
  booted "systemctl enable --now vesper-serve; $(request -H "'Authorization: Bearer $key'")"
  booted "printf 'ann %s\n' \$(printf %s another | sha256sum | cut -d ' ' -f 1) >/etc/vesper/keys; systemctl reload vesper-serve; sleep 1
    $(request -H "'Authorization: Bearer another'")
    ! curl -s --fail -H 'Authorization: Bearer $key' localhost:$port/v1/models"
  booted "systemd-analyze security --no-pager vesper-serve | tail -1; cat /proc/\$(systemctl show -P MainPID vesper-serve)/status | grep -E 'Uid|CapEff|Seccomp:'"
  # An upgrade starts it again, a removal ends it.
  booted "before=\$(systemctl show -P MainPID vesper-serve); apt-get install -qq -y --no-install-recommends --reinstall ~/vesper_*.deb >/dev/null
    systemctl is-active vesper-serve; test \$before != \$(systemctl show -P MainPID vesper-serve)"
  # An error of usage is final.
  booted "sed -i 's#-m tiny.en#-m tiny.en --chocolate#' /etc/vesper/serve.conf; systemctl restart vesper-serve; sleep 8
    test \"\$(systemctl show -P ExecMainStatus vesper-serve)\" = 2; test \"\$(systemctl show -P NRestarts vesper-serve)\" = 0"
  booted "sed -i 's# --chocolate##' /etc/vesper/serve.conf; systemctl restart vesper-serve
    apt-get remove -qq -y vesper >/dev/null; test \"\$(systemctl is-active vesper-serve)\" = inactive; apt-get purge -qq -y vesper >/dev/null
    ! find /etc /usr/bin /usr/lib /usr/libexec /var/lib /var/cache -name '*vesper*' -not -path '/var/cache/man/*' | grep ."
  kill "$container"
  wait "$container" || true
}

use_clone() {
  make_root
  clone
  copy_models base tiny.en
  cp "$recording" "$root$home/talk.wav"
  inside "apt-get install -qq -y --no-install-recommends make git >/dev/null; git config --global --add safe.directory '*'"
  inside "cd /vesper; make demo"
  inside "cd /vesper; python3 -m venv ~/venv; ~/venv/bin/pip install --quiet --cert /etc/ssl/certs/ca-certificates.crt ./python
    cd; venv/bin/python3 -c 'import vesper; print(vesper.WhisperModel(\"tiny.en\").transcribe(\"talk.wav\").text)'"
}

for step in $steps; do
  case $step in
    build | use | service) $step ;;
    clone) use_clone ;;
    *) say "expected build, use, service or clone, found \"$step\"" >&2 && exit 2 ;;
  esac
  say "$step: passed"
done
