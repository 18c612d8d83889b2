#!/usr/bin/env bash
# A sweep of Lily and llama.cpp in turn, on random weights of the 35B's shapes. Makes the peer (built for this machine from
# PyPI's source, 15 minutes on two cores) and both models, and removes the models when the sweep is complete: one that was
# stopped goes on with the same command.
#   tools/compare/compare.sh [FLAGS of lily bench sweep]   4 layers: 8 GB of disk
#   LAYERS=40 tools/compare/compare.sh ...                 the full size: 65 GB of disk, 22 GB of memory
#   LENGTHS=512,2K ROUNDS=5 DECODE=32 THREADS=2            prompts and contexts, how often, tokens to generate
#   FOLDER=/big/disk OUT=results tools/compare/compare.sh  where to write models and results
set -euo pipefail
cd "$(dirname "$0")/../.."
layers=${LAYERS:-4} lengths=${LENGTHS:-256,512,1K,2K,4K} decode=${DECODE:-32} threads=${THREADS:-$(getconf _NPROCESSORS_ONLN)}
lily=${LILY:-build/release/lily}
out=${OUT:-build/compare/results-$layers}
folder=${FOLDER:-${TMPDIR:-/tmp}}/lily-compare-$layers
mkdir -p "$folder"
export LILY_CACHE=$folder/cache

longest=$(tr ',' '\n' <<< "$lengths" | sed 's/[Kk]$/*1024/' | while read -r n; do echo $((n)); done | sort -n | tail -1)
context=$((longest + decode + 64))

python=build/compare/bin/python3
if ! $python -c "import llama_cpp, gguf" 2> /dev/null; then
  echo "building llama.cpp for this machine" >&2
  python3 -m venv build/compare
  # With AMX it ends with a segmentation fault in its first pass over these shapes.
  no_amx="-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
  CMAKE_ARGS="-DGGML_NATIVE=ON -DCMAKE_C_FLAGS='$no_amx' -DCMAKE_CXX_FLAGS='$no_amx'" build/compare/bin/pip install --quiet -r tools/compare/requirements.txt >&2
fi

if [ ! -e "$folder/made" ]; then
  need_gb=$((layers * 3 / 2 + 5))
  free_gb=$(df -Pk "$folder" | awk 'NR == 2 {print int($4 / 1e6)}')
  if [ "$free_gb" -lt "$need_gb" ]; then
    echo "compare.sh: $free_gb GB free at $folder, $need_gb needed" >&2
    exit 1
  fi
  $python tools/compare/random_gguf.py "$folder/random.gguf" --layers "$layers" >&2
  "$lily" synth --spec 35b --layers "$layers" --out "$folder/model" >&2
  "$lily" run --model "$folder/model" -p Hi --max-tokens 1 --greedy > /dev/null  # Packs.
  touch "$folder/made"
fi
"$lily" bench sweep --model "$folder/model" --threads "$threads" --context "$context" --lengths "$lengths" --depths "$lengths" \
  --decode "$decode" --rounds "${ROUNDS:-3}" --one-at-a-time --out "$out" --title "the 35B's shape, $layers layers, random weights" \
  --peer "llama.cpp=$python -B tools/peers/llama_cpp_peer.py $folder/random.gguf --context $context --threads $threads" "$@"
rm -rf "$folder"
