#!/usr/bin/env bash
# Derives the recorded truth of tests/golden anew, from transformers, tokenizers and Jinja, and compares it with the files.
# Makes .venv on first use (packages of tools/pocket/requirements.txt from PyPI, several GB). Slow: the greedy answers
# are computed without any cache, whole prefix by whole prefix.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/pip install --quiet -r tools/pocket/requirements.txt

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
python=$PWD/.venv/bin/python
model=$PWD/models/pocket
"$python" tools/pocket/make_token_golden.py "$model" "$out/tokens.json"
"$python" tools/pocket/make_template_golden.py "$model" "$out/template.json"
(cd tools/pocket && "$python" oracle.py "$model" golden "$out/answers.json" && "$python" oracle.py "$model" full "$out/full.safetensors")
"$python" tools/pocket/compare_goldens.py tests/golden "$out"
