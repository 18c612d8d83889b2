#!/usr/bin/env python3
"""The program for 64-bit ARM under qemu, on processors with and without the extensions that Lily uses.

    tools/arm_check.py NATIVE_LILY ARM_BUILD_FOLDER

On each processor: the instruction set that is chosen; that a missing one is refused; the tests of the backend over all that are there;
and that each gives the very log-probabilities that the native program gives with its best instruction set and with the portable one.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

NATIVE, BUILD = sys.argv[1], Path(sys.argv[2])
SYSROOT = Path(__file__).resolve().parent.parent / "build/arm64-sysroot"
# qemu's name of a processor, and which instruction sets it has, best first.
PROCESSORS = {
    "max": ["neon-i8mm", "neon", "portable"],
    "cortex-a76": ["neon", "portable"],
    "cortex-a72": ["portable"],
}
TITLES = {"neon-i8mm": "NEON with i8mm,", "neon": "NEON,", "portable": "portable,"}
UNSUPPORTED = 4  # Exit status
# All but what walks over thousands of tokens, which takes qemu minutes and shows nothing about instruction sets.
TESTS = "*Cpu*:-*SixteenThousandTokens"
# A prompt in tiles of rows and decoding row by row; in small chunks; with fp32 activations.
QUESTIONS = {
    "What is the capital of France?": [],
    "Count from 3 to 9.": ["--chunk", "5"],
    "What is 17 + 25?": ["--exact"],
}

scratch = tempfile.TemporaryDirectory(prefix="lily-arm-")
ENVIRONMENT = {**os.environ, "LILY_CACHE": scratch.name}


def fail(message):
    sys.exit(f"arm_check: {message}")


def run(*command, **options):
    return subprocess.run([str(word) for word in command], text=True, env=ENVIRONMENT, **options)


def lily(*command):
    return run(*command, capture_output=True, timeout=600)


def log_probs(program, question, *flags):
    asked = ("run", "-p", question, "--greedy", "--no-thinking", "--json", "--top-logprobs", "8", *QUESTIONS[question], *flags)
    done = lily(*program, *asked)
    if done.returncode != 0:
        fail(f"{program} {asked}: status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["logprobs"]


def chosen(program):
    backends = json.loads(lily(*program, "doctor", "--json").stdout)["backends"]
    return next(b["description"] for b in backends if b["name"] == "cpu")


def check_processor(name, has, expected):
    emulator = ("qemu-aarch64", "-cpu", name, "-L", SYSROOT)
    program = (*emulator, BUILD / "lily")
    print(f"{name}: {chosen(program)}", flush=True)
    if not chosen(program).startswith(TITLES[has[0]]):
        fail(f"{name}: expected {has[0]}")
    for isa in TITLES:
        if isa not in has:
            status = lily(*program, "run", "-p", "Hi", "--isa", isa).returncode
            if status != UNSUPPORTED:
                fail(f"{name}: --isa {isa}: status {status}, expected {UNSUPPORTED}")
            continue
        for question, answer in expected.items():
            if log_probs(program, question, "--isa", isa) != answer:
                fail(f"{name}, {isa}: other log-probabilities than natively for '{question}'")
        print(f"{name}, {isa}: the log-probabilities of the native program", flush=True)
    # Where only the portable code runs there is nothing to compare.
    if len(has) > 1 and run(*emulator, BUILD / "backend_test", f"--gtest_filter={TESTS}", "--gtest_brief=1").returncode != 0:
        fail(f"{name}: tests of the backend failed")


def main():
    expected = {question: log_probs([NATIVE], question) for question in QUESTIONS}
    for question, answer in expected.items():
        if log_probs([NATIVE], question, "--isa", "portable") != answer:
            fail(f"native: the portable code differs for '{question}'")
    print(f"native: {chosen([NATIVE])}", flush=True)
    for name, has in PROCESSORS.items():
        check_processor(name, has, expected)


if __name__ == "__main__":
    main()
