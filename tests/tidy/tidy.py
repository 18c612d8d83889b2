#!/usr/bin/env python3
"""Holds the tree to its promises: says what it checks, prints every fault and the size of the tree, fails on any fault.

    python3 tests/tidy/tidy.py [ROOT]        needs Python 3.9 and nothing else
"""
import sys
from pathlib import Path

import checks
from tree import Tree


def main(root):
    tree, faults = Tree(root), 0
    print(f"tidy: {len(tree.files)} files")
    for check in checks.ALL:
        found = sorted(set(check(tree)))
        print(f"  {check.__name__.replace('_', ' ')}: {len(found) or 'no'} fault{'' if len(found) == 1 else 's'}")
        for fault in found:
            print("    " + fault)
        faults += len(found)
    print("\n".join(["size:"] + ["  " + line for line in checks.size_report(tree)]))
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]))
