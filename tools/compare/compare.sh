#!/usr/bin/env bash
# Lily beside llama.cpp, in turn, on random weights of the 35B's shapes. Makes the peer (built for this machine from PyPI's
# source, 15 minutes on two cores), both models, runs compare.py and removes the models again.
#   tools/compare/compare.sh [FLAGS of compare.py]      4 layers: 8 GB of disk
#   LAYERS=40 tools/compare/compare.sh ...              the full size: 65 GB of disk, 22 GB of memory
#   FOLDER=/big/disk tools/compare/compare.sh ...       where to write
set -euo pipefail
cd "$(dirname "$0")/../.."
layers=${LAYERS:-4}
lily=${LILY:-build/release/lily}
folder=$(mktemp -d "${FOLDER:-${TMPDIR:-/tmp}}/lily-compare.XXXXXX")
trap 'rm -rf "$folder"' EXIT
export LILY_CACHE=$folder/cache

need_gb=$((layers * 3 / 2 + 5))
free_gb=$(df -Pk "$folder" | awk 'NR == 2 {print int($4 / 1e6)}')
if [ "$free_gb" -lt "$need_gb" ]; then
  echo "compare.sh: $free_gb GB free at $folder, $need_gb needed" >&2
  exit 1
fi

python=build/compare/bin/python3
if ! $python -c "import llama_cpp, gguf" 2> /dev/null; then
  echo "building llama.cpp for this machine" >&2
  python3 -m venv build/compare
  CMAKE_ARGS="-DGGML_NATIVE=ON" build/compare/bin/pip install --quiet -r tools/compare/requirements.txt >&2
fi
$python tools/compare/random_gguf.py "$folder/random.gguf" --layers "$layers" >&2
"$lily" synth --spec 35b --layers "$layers" --out "$folder/model" >&2
"$lily" run --model "$folder/model" -p Hi --max-tokens 1 --greedy > /dev/null  # Packs.
$python tools/compare/compare.py --lily "$lily" --model "$folder/model" --gguf "$folder/random.gguf" "$@"
