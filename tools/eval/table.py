#!/usr/bin/env python3
"""A row for each backend against recorded truth, as Markdown: what docs/NUMERICS.md shows.

    python3 tools/eval/table.py [--lily PROGRAM] [--model FOLDER] [--golden NAME=FILE ...] [--row "cpu --exact" ...]

Without flags: the pocket, the recordings of tests/golden, and every backend that this machine has. A row is what follows --backend.
"""
import argparse
import json
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = {"transformers fp32": ROOT / "tests/golden/full.safetensors", "MLX-LM": ROOT / "tests/golden/full_mlx.safetensors"}
ROWS = {"reference": ["reference"], "cpu": ["cpu --exact", "cpu"], "emulator": ["emulator", "emulator --chunk 8"],
        "cuda": ["cuda", "cuda --chunk 8"], "metal": ["metal", "metal --chunk 8"]}


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{shlex.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout)


def rows_of_this_machine(lily):
    there = [b["name"] for b in run(lily, "doctor", "--json")["backends"] if b["available"]]
    return [row for name in ROWS if name in there for row in ROWS[name]]


def cells(report):
    delta, top1 = report["perplexity_delta_percent"], report["top1_all"]
    return f"{delta:+.3f} % | {report['kl_mean']:.1e} | {report['kl_max']:.1e} | {100 * top1:.2f} %"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lily", default=ROOT / "build/release/lily")
    parser.add_argument("--model", default=ROOT / "models/pocket")
    parser.add_argument("--golden", action="append", metavar="NAME=FILE")
    parser.add_argument("--row", action="append")
    args = parser.parse_args()
    golden = dict(pair.split("=", 1) for pair in args.golden) if args.golden else GOLDEN
    print("| backend | " + " | ".join(f"{name}: perplexity | KL mean | KL max | same top token" for name in golden) + " |")
    print("|---|" + "---|" * (4 * len(golden)))
    for row in args.row or rows_of_this_machine(args.lily):
        reports = [run(args.lily, "eval", "--json", "--model", args.model, "--context", 1024, "--golden", file, "--backend",
                       *shlex.split(row)) for file in golden.values()]
        print(f"| {row} | " + " | ".join(map(cells, reports)) + " |", flush=True)


if __name__ == "__main__":
    main()
