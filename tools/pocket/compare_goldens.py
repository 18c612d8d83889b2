"""Compares two folders of recorded truth: texts and ids exactly, log-probabilities within TOLERANCE.

    python3 tools/pocket/compare_goldens.py tests/golden NEW
"""
import json
import sys

from safetensors.numpy import load_file

# Natural logarithms. Builds of torch sum float32 in different orders, and answers.json keeps five decimals; a wrong formula is off by far more.
TOLERANCE = 1e-3


def differences(old, new, at=""):
    """(path, old, new) where two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for k in old:
            yield from differences(old[k], new[k], f"{at}.{k}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            yield from differences(a, b, f"{at}[{i}]")
    elif isinstance(old, float) and isinstance(new, (float, int)):
        if abs(old - new) > TOLERANCE:
            yield at, old, new
    elif old != new:
        yield at, old, new


def compare_json(old, new):
    with open(old, encoding="utf-8") as a, open(new, encoding="utf-8") as b:
        return [f"{at}: recorded {x!r}, now {y!r}" for at, x, y in differences(json.load(a), json.load(b))]


def compare_tensors(old, new):
    a, b = load_file(old), load_file(new)
    if a.keys() != b.keys():
        return [f"tensors {sorted(a.keys() ^ b.keys())} are in one file only"]
    return [f"{n}: largest difference {abs(a[n] - b[n]).max():.2e}" for n in a if abs(a[n] - b[n]).max() > TOLERANCE]


def main(recorded, derived):
    faults = 0
    for file in ("tokens.json", "template.json", "answers.json", "full.safetensors"):
        compare = compare_json if file.endswith(".json") else compare_tensors
        found = compare(f"{recorded}/{file}", f"{derived}/{file}")
        print(f"{file}: {'the same' if not found else f'{len(found)} differences'}")
        for line in found[:10]:
            print("  " + line)
        faults += len(found)
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
