#!/usr/bin/env bash
# Records what another implementation computes, for `lily eval --golden`. Makes an environment of its own under build/ on first use (PyPI).
#   tools/eval/record.sh transformers OUT.safetensors [FLAGS of record.py]     fp32 on dequantised weights; several GB of packages
#   tools/eval/record.sh mlx OUT.safetensors [FLAGS of record.py]              mlx-lm, on Linux its build for the CPU
# MODEL names another checkpoint than the pocket. transformers holds all weights in fp32: 140 GB of memory for the 35B.
set -euo pipefail
cd "$(dirname "$0")/../.."
implementation=${1:?transformers or mlx}
out=${2:?where to write}
shift 2
case $implementation in
  transformers) requirements=tools/pocket/requirements.txt ;;
  mlx) requirements=tools/eval/requirements_mlx.txt ;;
  *) echo "record.sh: '$implementation', expected transformers or mlx" >&2; exit 2 ;;
esac
environment=build/eval-$implementation
[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
exec "$environment/bin/python" -B tools/eval/record.py "$implementation" "${MODEL:-models/pocket}" "$out" "$@"
