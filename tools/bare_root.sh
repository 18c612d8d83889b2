#!/usr/bin/env bash
# Tries the README's two commands, and .ci/run, in a bare Debian 12 that has nothing but make: what a newcomer meets.
# Works on a clone of HEAD in a chroot under FOLDER. Needs root, debootstrap and Debian's mirror.
#   tools/bare_root.sh [FOLDER]      /tmp/lily-bare; the bare system is kept there for the next time
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-/tmp/lily-bare}
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
[ "$(id -u)" = 0 ] || { echo "bare_root.sh: debootstrap and chroot need root" >&2; exit 1; }
command -v debootstrap > /dev/null || apt-get install -y -qq debootstrap > /dev/null

mkdir -p "$folder"
[ -f "$folder/bare.tar" ] || debootstrap --variant=minbase --include=make --make-tarball="$folder/bare.tar" \
  bookworm "$folder/bootstrap" "$mirror" > /dev/null

clean_up() {
  for mounted in dev/pts dev proc; do umount "$folder/root/$mounted" 2> /dev/null || true; done
}
trap clean_up EXIT

# A fresh system with a fresh clone; $1 runs in the clone without input, as CI would run it.
try() {
  clean_up
  rm -rf --one-file-system "$folder/root"
  debootstrap --variant=minbase --include=make --unpack-tarball="$folder/bare.tar" bookworm "$folder/root" "$mirror" > /dev/null
  cp /etc/resolv.conf "$folder/root/etc/"
  cat /etc/apt/apt.conf.d/* | grep '^Acquire::' > "$folder/root/etc/apt/apt.conf.d/99acquire" || true
  mount --bind /proc "$folder/root/proc"
  mount --bind /dev "$folder/root/dev"
  mount --bind /dev/pts "$folder/root/dev/pts"
  git clone --quiet . "$folder/root/lily"
  echo "== $1"
  time chroot "$folder/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp CI=true bash -c "cd /lily && $1" < /dev/null
}

try "make run"
try "bash .ci/run"
