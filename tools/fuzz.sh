#!/usr/bin/env bash
# Runs every fuzz target of tests/fuzz from its seeds, one a core at a time, then says how much of each parser's file was reached.
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
rm -rf "$build/profiles" "$build/corpus" "$build/logs"
mkdir -p "$build/profiles" "$build/logs" "$build/crashes"

# A target's inputs are made in stretches that begin anew from its seeds, each with a random seed of its own: what libFuzzer collects on the way
# takes ever longer (of schemas 1,000 a second in the first hundred thousand, 300 in the third), and so every core has work to the end.
# Without the entropic schedule, whose bookkeeping takes more than half of the time where a program has many branches.
stretch=100000
export ASAN_OPTIONS=quarantine_size_mb=64:allocator_release_to_os_interval_ms=-1:malloc_context_size=8
fuzz() {
  local name=$1 seed=$2 n=$3
  local corpus=$build/corpus/$name.$seed log=$build/logs/$name.$seed
  mkdir -p "$corpus"
  if ! LLVM_PROFILE_FILE=$build/profiles/$name.$seed.profraw "$build/${name}_fuzz" "$corpus" "tests/fuzz/seeds/$name" -runs="$n" \
    -seed="$seed" -entropic=0 -rss_limit_mb=2048 -malloc_limit_mb=1024 -timeout=20 -max_len=65536 \
    -artifact_prefix="$build/crashes/$name-" -print_final_stats=1 > "$log" 2>&1; then
    echo "== $name failed in stretch $seed:"
    tail -n 40 "$log"
    return 1
  fi
  rm -rf "$corpus"
}
export -f fuzz
export build

status=0
for name in "${names[@]}"; do
  for ((seed = 1, left = runs; left > 0; seed++, left -= stretch)); do echo "$name $seed $((left < stretch ? left : stretch))"; done
done | xargs -P "$(getconf _NPROCESSORS_ONLN)" -L 1 bash -c 'fuzz "$@"' fuzz || status=1
for name in "${names[@]}"; do
  awk -v name="$name" '/number_of_executed_units/ {n += $2} /peak_rss_mb/ && $2 > mb {mb = $2} /slowest_unit/ && $2 > s {s = $2}
    END {printf "== %s: %d inputs, slowest %d s, at most %d MB\n", name, n, s, mb}' "$build/logs/$name".*
done

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
