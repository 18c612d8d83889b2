#!/usr/bin/env bash
# Installs the packages that a build needs, and only those that are missing; says nothing when nothing is.
#   tools/setup.sh run     what the program needs
#   tools/setup.sh test    and the test libraries
#   tools/setup.sh dev     and the other compiler, its libraries, formatter and coverage tools
#   tools/setup.sh arm     what the tests need, a cross compiler for 64-bit ARM and an emulator (Debian only)
set -euo pipefail
level=${1:-run}

debian=(g++ cmake make ninja-build ccache pkg-config libexpected-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libsimdjson-dev
        libcli11-dev libpcre2-dev libutf8proc-dev libedit-dev libxxhash-dev
        prometheus-cpp-dev libcurl4-openssl-dev)
brew=(cmake ninja ccache pkg-config tl-expected fmt spdlog nlohmann-json simdjson cli11 pcre2 utf8proc xxhash prometheus-cpp curl)
case $level in
  run) ;;
  test | dev | arm) debian+=(libgtest-dev libgmock-dev librapidcheck-dev python3) brew+=(googletest rapidcheck) ;;
  *) echo "setup.sh: level '$level', expected run, test, dev or arm" >&2; exit 2 ;;
esac
if [ "$level" = dev ]; then
  debian+=(clang clang-format clang-tidy libclang-rt-14-dev llvm-14 libc++-14-dev libc++abi-14-dev universal-ctags)
  brew+=(llvm universal-ctags)
fi
if [ "$level" = arm ]; then debian+=(g++-aarch64-linux-gnu qemu-user); fi

missing_on_debian() {
  for package in "${debian[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
  done
}

install_on_debian() {
  local missing as_root=()
  missing=$(missing_on_debian)
  [ -n "$missing" ] || return 0
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  echo "Installing" $missing >&2
  # One list of packages to fetch, nothing asked, nothing shown unless it fails.
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update -qq &&
         "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } \
       > "$log" 2>&1 < /dev/null; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

install_with_brew() {
  local missing=()
  for package in "${brew[@]}"; do brew list "$package" > /dev/null 2>&1 || missing+=("$package"); done
  [ "${#missing[@]}" = 0 ] || brew install --quiet "${missing[@]}"
}

if command -v apt-get > /dev/null; then
  install_on_debian
elif command -v brew > /dev/null; then
  install_with_brew
else
  echo "setup.sh: neither apt-get nor brew here; install these yourself (Debian's names): ${debian[*]}" >&2
fi
