"""The whole program on the stand-in for Metal: the same tokens as on the emulator, nothing left alive, no misuse.

    chat_on_fake_metal.py LILY_ON_FAKE_METAL SOURCE

The program ends itself at the first misuse, and with a message where objects are left.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LILY, SOURCE = sys.argv[1], Path(sys.argv[2])
QUICK = bool(os.environ.get("LILY_E2E_QUICK"))
TOO_SLOW = "the emulator takes minutes where races are looked for"
PLAIN = ("--greedy", "--no-thinking", "--no-pack", "--context", "1024", "--chunk", "64")  # Small enough for the stand-in's buffers.


def lily(*args, stdin=""):
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run([LILY, *args], input=stdin, capture_output=True, text=True, timeout=500, env={**os.environ, "LILY_CACHE": cache})
    if done.returncode != 0 or "fake Metal" in done.stderr:
        raise AssertionError(f"{args}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


class OnFakeMetal(unittest.TestCase):
    def on_both(self, *args, stdin=""):
        metal, emulator = (lily(*args, *PLAIN, "--backend", backend, stdin=stdin) for backend in ("metal", "emulator"))
        return metal, emulator

    def test_an_answer_has_the_tokens_and_the_numbers_of_the_emulator(self):
        metal, emulator = map(json.loads, self.on_both("run", "-p", "What is the capital of France?", "--json", "--top-logprobs", "3"))
        self.assertEqual(metal["text"], "The capital of France is Paris.")
        for key in ("tokens", "text", "logprobs"):
            self.assertEqual(metal[key], emulator[key])

    @unittest.skipIf(QUICK, TOO_SLOW)
    def test_a_chat_has_the_answers_of_the_emulator(self):
        said = "My name is Nora.\nWhat is 17 + 25?\nWhat is my name?\n"
        metal, emulator = self.on_both("chat", stdin=said)
        self.assertEqual(metal, emulator)
        self.assertEqual(metal.splitlines()[1:], ["17 + 25 = 42", "Your name is Nora."])

    @unittest.skipIf(QUICK, TOO_SLOW)
    def test_doctor_lists_it(self):
        got = json.loads(lily("doctor", "--json"))
        listed = {b["name"]: b for b in got["backends"]}
        self.assertTrue(listed["metal"]["available"])
        self.assertIn("Fake M9, kernels in Metal 4.0", listed["metal"]["description"])
        tested = {t["backend"]: t["detail"] for t in got["self_test"]["tests"]}
        self.assertEqual(tested["metal"], tested["emulator"])

    @unittest.skipIf(QUICK, TOO_SLOW)
    def test_the_report_for_a_mac_is_written_and_finds_nothing_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.txt"
            printed = lily("doctor", "--mac-report", str(report), "--spec", "pocket", "--answers", "1")
            text, _, data = report.read_text().partition("\nThe same as JSON:\n")
        self.assertEqual(printed, text)
        found = json.loads(data)
        self.assertTrue(found["passed"])
        self.assertEqual(found["answers"]["found"], {"asked": 1, "equal": 1, "different": []})
        compiled = {(row["language"], row["needed"], row["error"] == "") for row in found["compile"]["found"]}
        self.assertEqual(compiled, {("4.1", False, False), ("4.1, tensor operations", False, False), ("4.0", True, True),
                                    ("4.0, tensor operations", False, True), ("3.2", True, True)})
        kernels = found["kernels"]["found"]
        tried = {name: row for name, row in kernels.items() if isinstance(row, dict)}
        self.assertGreater(sum(row["metal_to_stored"] >= 0 for row in tried.values()), 40)
        for name, row in tried.items():
            with self.subTest(kernel=name):
                # Where only the stored results are far off, tools/kernel_results.py makes them anew.
                self.assertTrue(row["right"] and row["launches"] > 0 and row["words"] > 0, row)
        self.assertTrue(all(step["bytes_per_second"] > 0 for step in found["speed"]["found"]["steps"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
