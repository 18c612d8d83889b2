"""Runs a program once a case: without one it must give no report, each planted race must be reported at its two lines.

race_test.py PROGRAM CASE=KERNEL ...: in a report of the case stands a line of the kernel; of any kernel where none is named.
"""
import re
import subprocess
import sys

CASES = [("", None)] + [case.split("=") for case in sys.argv[2:]]

failed = False
for case, kernel in CASES:
    run = subprocess.run([sys.argv[1], case], capture_output=True, text=True, timeout=600,
                         env={"TSAN_OPTIONS": "exitcode=66 history_size=0"})
    races = len(re.findall(r"WARNING: ThreadSanitizer: data race", run.stderr))
    named = kernel is None or f"{kernel}_body" in run.stderr
    ok = (run.returncode == 0 and races == 0) if kernel is None else (run.returncode == 66 and races > 0 and named)
    print(f"{case or 'right program'}: {races} races, status {run.returncode}{'' if ok else '  <- expected otherwise'}")
    if not ok:
        print(run.stderr[:6000])
    failed |= not ok
sys.exit(failed)
