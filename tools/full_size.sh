#!/usr/bin/env bash
# The 35B's real shape on this machine: writes a synthetic checkpoint of random weights, packs it, runs it, prints the figures and
# removes everything again. Answers are noise; sizes, speed and memory are those of the original.
#   tools/full_size.sh [FOLDER]      where to write: needs 42 GB free there (checkpoint and image), 22 GB of memory
#   LAYERS=8 tools/full_size.sh      fewer layers, on a machine with less room
set -euo pipefail
cd "$(dirname "$0")/.."
lily=${LILY:-build/release/lily}
layers=${LAYERS:-40}
folder=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/lily-35b.XXXXXX")
trap 'rm -rf "$folder"' EXIT
export LILY_CACHE=$folder/cache

free_gb=$(df -Pk "$folder" | awk 'NR == 2 {print int($4 / 1e6)}')
memory_gb=$(awk '/^MemTotal/ {print int($2 / 1e6)}' /proc/meminfo 2> /dev/null || sysctl -n hw.memsize | awk '{print int($1 / 1e9)}')
need_gb=$((layers + 2))
need_memory_gb=$((layers / 2 + 2))
echo "disk: $free_gb GB free at $folder, $need_gb needed; memory: $memory_gb GB, $need_memory_gb needed" >&2
if [ "$free_gb" -lt "$need_gb" ] || [ "$memory_gb" -lt "$need_memory_gb" ]; then
  echo "full_size.sh: not enough; LAYERS=8 needs 10 GB of disk and 6 GB of memory" >&2
  exit 1
fi

echo "== synth: $layers layers"
# With the genuine vocabulary where tools/fetch_real_tokenizer.sh was run, else with the pocket's.
words=models/pocket
[ -f build/realtok/tokenizer.json ] && words=build/realtok
time "$lily" synth --spec 35b --layers "$layers" --out "$folder/model" --tokenizer-folder "$words"
du -sh "$folder/model"
echo "== info"
"$lily" info "$folder/model"
echo "== first run: packs, then answers"
time "$lily" run --model "$folder/model" -p "Once upon a time" --greedy --no-thinking --max-tokens 32 > "$folder/first"
echo "== second run: maps the image"
time "$lily" run --model "$folder/model" -p "Once upon a time" --greedy --no-thinking --max-tokens 32 > "$folder/second"
cmp "$folder/first" "$folder/second" && echo "both runs: the same bytes"
echo "== the image's checksums"
time "$lily" doctor --verify --model "$folder/model"
echo "== the server and its masks"
python3 -B tools/served_cost.py "$lily" "$folder/model"
