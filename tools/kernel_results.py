"""The stored results of the GPU's kernels, from a report that the emulator judged.

    build/release/lily_on_fake_metal doctor --mac-report REPORT --spec pocket --answers 1
    tools/kernel_results.py REPORT > models/pocket/gpu_kernels.json

For each kernel that passes of the pocket use: eight words of what its first launch changes, as the emulator computed them.
"""
import json
import sys


def main(report):
    text = open(report, encoding="utf-8").read()
    kernels = json.loads(text.partition("The same as JSON:\n")[2])["kernels"]["found"]
    rows = [f' "{name}": {json.dumps(row["expected"])}' for name, row in kernels.items() if isinstance(row, dict)]
    print("{\n" + ",\n".join(rows) + "\n}")


if __name__ == "__main__":
    main(sys.argv[1])
