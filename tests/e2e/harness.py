"""Runs the program as a user would: arguments and standard input in; exit status, standard output and standard error out.

A test file is called with the program and the source folder, then unittest's own arguments.
"""
import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from dataclasses import dataclass
from pathlib import Path

LILY = sys.argv.pop(1)
SOURCE = Path(sys.argv.pop(1))
GOLDEN = SOURCE / "tests/golden"
POCKET = SOURCE / "models/pocket"
TIME_LIMIT_S = 800
QUICK = bool(os.environ.get("LILY_E2E_QUICK"))  # A build with sanitizers: what takes a minute elsewhere is left out.
FULL = bool(os.environ.get("LILY_E2E_FULL"))  # What takes minutes is run too.

scratch = Path(tempfile.mkdtemp(prefix="lily-e2e-"))
atexit.register(shutil.rmtree, scratch, ignore_errors=True)
ENVIRONMENT = {**os.environ, "LILY_CACHE": str(scratch / "cache"), "LC_ALL": "C.UTF-8", "TERM": "xterm"}
ENVIRONMENT.pop("NO_COLOR", None)

CAPITAL = ("-p", "What is the capital of France?")
PLAIN = ("--greedy", "--no-thinking")
# Ids that end an answer: with this bias the pocket talks on until something else stops it.
ENDLESS = ("--logit-bias", "4072:-100", "--logit-bias", "4070:-100")


@dataclass
class Outcome:
    status: int
    out: str
    err: str

    def json(self):
        return json.loads(self.out)


def lily(*args, stdin="", **popen):
    data = stdin if isinstance(stdin, bytes) else stdin.encode()
    done = subprocess.run([LILY, *map(str, args)], input=data, capture_output=True, timeout=TIME_LIMIT_S, env=ENVIRONMENT, **popen)
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode("utf-8", "replace"))


def start(*args, **popen):
    """The running program, its three streams as pipes unless told otherwise."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | popen
    return subprocess.Popen([LILY, *map(str, args)], env=ENVIRONMENT, **streams)


def golden_json(name):
    return json.loads((GOLDEN / name).read_text("utf-8"))


@functools.cache
def backends():
    """What lily doctor says of each backend, by name. Asked once: it tries them all."""
    return {one["name"]: one for one in lily("doctor", "--json").json()["backends"]}


def pocket_copy(name, without=()):
    """A folder with the pocket's files as links, which a test may damage by replacing them."""
    folder = scratch / name
    folder.mkdir()
    for file in POCKET.iterdir():
        if file.is_file() and file.name not in without:
            (folder / file.name).symlink_to(file)
    return folder


def replace(path, data):
    path.unlink(missing_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


class Case(unittest.TestCase):
    maxDiff = 4000

    def succeeds(self, *args, **kwargs):
        got = lily(*args, **kwargs)
        self.assertEqual(got.status, 0, f"{args}\n{got.err}")
        return got

    def eventually(self, condition, what, limit_s=60):
        end = time.monotonic() + limit_s * (10 if QUICK else 1)
        while not condition():
            self.assertLess(time.monotonic(), end, f"waited in vain: {what}")
            time.sleep(0.01)


def main():
    unittest.main(verbosity=2)  # Says what is skipped and why.
