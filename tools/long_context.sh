#!/usr/bin/env bash
# Long prompts: what is computed in chunks must be what is computed token by token, and nothing may fail at 131,072 positions.
#   tools/long_context.sh [FOLDER]      half an hour on two cores; 6 GB of disk for the second half
set -euo pipefail
cd "$(dirname "$0")/.."
lily=${LILY:-build/release/lily}
folder=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/lily-long.XXXXXX")
trap 'rm -rf "$folder"' EXIT
export LILY_CACHE=$folder/cache

echo "== the pocket checkpoint at 65,536 tokens, made for 8,192"
cat docs/*.md src/*/*.cc src/*/*/*.cc | "$lily" tokenize --json --plain > "$folder/ids.json"
python3 - "$folder" <<'CUT'
import json, sys
folder = sys.argv[1]
ids = json.load(open(folder + "/ids.json"))["ids"]
assert len(ids) >= 65536, f"only {len(ids)} tokens of text"
json.dump({"ids": ids[:65536]}, open(folder + "/cut.json", "w"))
CUT
"$lily" detokenize < "$folder/cut.json" > "$folder/text"
answer() {
  time "$lily" run --raw --prompt-file "$folder/text" --greedy --max-tokens 64 --context 70000 --beyond-declared \
    --json --top-logprobs 5 --chunk "$1" > "$folder/answer-$1.json"
}
answer 2048
answer 1
python3 - "$folder" <<'COMPARE'
import json, sys
chunked, single = (json.load(open(f"{sys.argv[1]}/answer-{chunk}.json")) for chunk in (2048, 1))
prompt = chunked["usage"]["prompt_tokens"]
assert prompt > 65000, prompt
for part in ("text", "tokens", "logprobs"):
    assert chunked[part] == single[part], f"{part} differ"
print(f"{prompt} tokens: {len(chunked['tokens'])} more tokens and their log-probabilities are the same, chunked and token by token")
COMPARE

echo "== 4 layers of the 35B's width at 131,072 tokens"
"$lily" synth --spec 35b --layers 4 --out "$folder/model" -q
time "$lily" bench --model "$folder/model" --context 132000 --prefill 512 --depth 131072 --decode 16 --repeat 1
