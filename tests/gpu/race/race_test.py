"""Runs gpu_race once a case: the right program must give no report, each planted race must be reported at its two lines."""
import re
import subprocess
import sys

# case -> the kernel of the file whose lines a report has to name; "" is the right program.
CASES = {
    "": None,
    "barrier": "planted_sum",
    "barrier_behind": "planted_sum",
    "dispatches": "planted_copy",
    "groups": "planted_copy",
    "lanes": "planted_lanes_order",
}

failed = False
for case, kernel in CASES.items():
    run = subprocess.run([sys.argv[1], case], capture_output=True, text=True, timeout=300,
                         env={"TSAN_OPTIONS": "exitcode=66 history_size=0"})
    races = len(re.findall(r"WARNING: ThreadSanitizer: data race", run.stderr))
    named = kernel is None or f"{kernel}_body" in run.stderr
    ok = (run.returncode == 0 and races == 0) if kernel is None else (run.returncode == 66 and races > 0 and named)
    print(f"{case or 'right program'}: {races} races, status {run.returncode}{'' if ok else '  <- expected otherwise'}")
    if not ok:
        print(run.stderr[:6000])
    failed |= not ok
sys.exit(failed)
