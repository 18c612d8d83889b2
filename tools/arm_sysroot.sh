#!/usr/bin/env bash
# The arm64 libraries that a cross build links and that its programs run with, as Debian packages unpacked in a folder of their
# own: the packages of this system stay as they are, and nothing here needs root.
#   tools/arm_sysroot.sh FOLDER      made once; a second call only looks
set -euo pipefail
folder=${1:?which folder}
packages=(libc6-dev libstdc++-12-dev libexpected-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libsimdjson-dev libcli11-dev
          libpcre2-dev libutf8proc-dev libedit-dev libxxhash-dev libcurl4-openssl-dev libgtest-dev libgmock-dev librapidcheck-dev)

[ "$(cat "$folder/packages" 2> /dev/null)" != "${packages[*]}" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
folder=$(cd "$folder" && pwd)
: > "$folder/apt/status"

# apt as on a bare arm64 machine: this system's sources and keys, an own state.
arm_apt() {
  apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$folder/apt" \
    -o Dir::State::lists="$folder/apt/lists" -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt/cache" \
    -o Debug::NoLocking=true -o APT::Sandbox::User="$(id -un)" "$@"
}
echo "Fetching arm64 packages for $folder" >&2
arm_apt update
arm_apt install --download-only --no-install-recommends -y "${packages[@]}" > /dev/null
for package in "$folder"/apt/cache/archives/*.deb; do dpkg -x "$package" "$folder"; done
rm -rf "$folder/apt"
echo "${packages[*]}" > "$folder/packages"
