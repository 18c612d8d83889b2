"""Lily and llama.cpp in turn on the same shapes of random weights; prints rates and their ratio. Run by compare.sh.

Each round runs both engines as processes of their own, one after the other (at full size both do not fit the memory at once):
load, warm up, measure, leave. A ratio is taken within a round, so that a machine whose speed drifts drifts for both.
"""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def run(command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise SystemExit(f"compare.py: exit status {done.returncode}: {' '.join(map(str, command))}")
    return json.loads(done.stdout)


def lily(flags):
    got = run([flags.lily, "bench", "--json", "--model", flags.model, "--threads", flags.threads, "--prefill", flags.prefill,
               "--decode", flags.decode, "--depth", flags.depth, "--repeat", flags.repeat, *flags.lily_flags])
    rates = {f"prefill {row['tokens']}": row["tokens_per_second"]["median"] for row in got["prefill"]}
    rates |= {f"decode at {row['depth']}": row["tokens_per_second"]["median"] for row in got["decode"]}
    return rates, got


def llama_cpp(flags):
    got = run([sys.executable, HERE / "llama_cpp_speed.py", flags.gguf, "--threads", flags.threads, "--prefill", flags.prefill,
               "--decode", flags.decode, "--depth", flags.depth, "--repeat", flags.repeat])
    rates = {f"prefill {row['tokens']}": statistics.median(row["rates"]) for row in got["prefill"]}
    rates |= {f"decode at {row['depth']}": statistics.median(row["rates"]) for row in got["decode"]}
    return rates, got


def table(rounds):
    lines = [f"{'tokens/s, medians of ' + str(len(rounds)) + ' rounds':32} {'Lily':>9} {'llama.cpp':>9}   ratio (least .. most)"]
    for what in rounds[0]["lily"]:
        ours, theirs = [r["lily"][what] for r in rounds], [r["llama_cpp"][what] for r in rounds]
        ratios = sorted(a / b for a, b in zip(ours, theirs))
        lines.append(f"{what:32} {statistics.median(ours):9.1f} {statistics.median(theirs):9.1f}   "
                     f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} .. {ratios[-1]:.2f})")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lily", required=True)
    parser.add_argument("--model", required=True, help="a checkpoint folder for Lily")
    parser.add_argument("--gguf", required=True, help="a file of the same shapes for llama.cpp")
    parser.add_argument("--prefill", default="512,2048")
    parser.add_argument("--decode", default="32")
    parser.add_argument("--depth", default="128")
    parser.add_argument("--repeat", default="2", help="measurements of each in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--json", type=Path, help="a file for everything that was measured")
    parser.add_argument("lily_flags", nargs="*", help="more flags for lily bench, after --")
    flags = parser.parse_args()
    rounds, engines = [], {}
    for number in range(1, flags.rounds + 1):
        ours, engines["lily"] = lily(flags)
        theirs, engines["llama_cpp"] = llama_cpp(flags)
        rounds.append({"lily": ours, "llama_cpp": theirs})
        print(f"round {number}: " + ", ".join(f"{what} {ours[what]:.1f} : {theirs[what]:.1f}" for what in ours), file=sys.stderr, flush=True)
    print(engines["lily"]["backend"] + "; " + engines["llama_cpp"]["engine"] + "\n" + table(rounds))
    if flags.json:
        flags.json.write_text(json.dumps({"rounds": rounds, "last": engines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
