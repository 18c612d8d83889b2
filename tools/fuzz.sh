#!/usr/bin/env bash
# Runs every fuzz target of tests/fuzz with its seeds, one a core at a time, then says how much of each parser's file was reached.
#   tools/fuzz.sh [RUNS] [NAME ...]    RUNS inputs a target, 1,000,000 by default; the same number gives the same inputs. NAMEs: these targets alone
# Exits 1 when an input crashed a target; the input is kept in build/fuzz/crashes.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-1000000}
names=("${@:2}")
if [ ${#names[@]} = 0 ]; then  # Those that take longest begin.
  names=(schema door)
  for source in tests/fuzz/*_fuzz.cc; do
    name=$(basename "$source" _fuzz.cc)
    [[ " ${names[*]} " == *" $name "* ]] || names+=("$name")
  done
fi
build=build/fuzz

cmake --preset fuzz > /dev/null
cmake --build --preset fuzz --target fuzzers
rm -rf "$build/profiles" "$build/corpus"
mkdir -p "$build/profiles" "$build/crashes"

# Without the entropic schedule, whose bookkeeping takes more than half of the time where a program has many branches.
fuzz() {
  local name=$1 failed=0
  local corpus=$build/corpus/$name log=$build/$name.log
  mkdir -p "$corpus"
  LLVM_PROFILE_FILE=$build/profiles/$name.profraw "$build/${name}_fuzz" "$corpus" "tests/fuzz/seeds/$name" -runs="$runs" -seed=1 -entropic=0 \
    -rss_limit_mb=2048 -malloc_limit_mb=1024 -timeout=20 -max_len=65536 -artifact_prefix="$build/crashes/$name-" \
    -print_final_stats=1 > "$log" 2>&1 || failed=1
  echo "== $name: $runs inputs
$([ "$failed" = 0 ] || tail -n 40 "$log")
$(grep -E 'cov: ' "$log" | tail -n 1)
$(grep -E 'average_exec_per_sec|peak_rss_mb|number_of_executed_units' "$log" || true)"
  return "$failed"
}
export -f fuzz
export build runs

status=0
printf '%s\n' "${names[@]}" |
  xargs -P "$(getconf _NPROCESSORS_ONLN)" -I NAME bash -c 'fuzz NAME' || status=1

profdata=$(command -v llvm-profdata-14 || command -v llvm-profdata || true)
cov=$(command -v llvm-cov-14 || command -v llvm-cov || true)
if [ -n "$profdata" ] && [ -n "$cov" ]; then
  "$profdata" merge -o "$build/profile" "$build"/profiles/*.profraw
  objects=()
  for name in "${names[@]}"; do objects+=(${objects:+-object} "$build/${name}_fuzz"); done
  echo "== lines reached, per file"
  "$cov" report "${objects[@]}" -instr-profile="$build/profile" -show-region-summary=false -show-branch-summary=false \
    -ignore-filename-regex='(^|/)(usr|tests|src/base|src/spec)/'
else
  echo "llvm-profdata and llvm-cov are not here: no coverage report"
fi
exit "$status"
