"""lily bench sweep, ablate, plot and worker: every point once, whatever happens to the peers and to Lily itself."""
import json
import shlex
import signal
import sys
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from harness import QUICK, SOURCE, Case, lily, main, scratch, start
from serving import ENDLESS, Server

SVG = "{http://www.w3.org/2000/svg}"
SMALL = ("--lengths", "32,64", "--depths", "16", "--decode", "4", "--threads", "2", "--context", "512", "--no-pack")
EMULATOR = ("--backend", "emulator", "--context", "64", "--rounds", "1", "--no-pack")
TINY = ("--prefill", "2", "--depth", "2", "--decode", "2")


def peer(name, *bad):
    return f"{name}={sys.executable} -B {Path(__file__).parent / 'fake_peer.py'} {name} {' '.join(bad)}"


def results(folder):
    return json.loads((folder / "results.json").read_text())


def made(folder):
    return [(m["engine"], m["round"], m["kind"], m["length"]) for m in results(folder)["measurements"]]


def points_of(element):
    """Every place that a shape names."""
    number = lambda name: float(element.get(name))
    if element.tag == SVG + "line":
        return [(number("x1"), number("y1")), (number("x2"), number("y2"))]
    if element.tag == SVG + "circle":
        return [(number("cx"), number("cy"))]
    if element.tag in (SVG + "polyline", SVG + "polygon"):
        return [tuple(map(float, pair.split(","))) for pair in element.get("points").split()]
    if element.tag == SVG + "rect" and element.get("x"):
        return [(number("x"), number("y")), (number("x") + number("width"), number("y") + number("height"))]
    return []


def text_box(element):
    """Left, top, right and bottom of a text, a little tighter than it comes out."""
    size = {"title": 17, "": 13}.get(element.get("class"), 12)
    width = 0.5 * size * len(element.text)
    left = float(element.get("x")) - {"start": 0, "middle": width / 2, "end": width}[element.get("text-anchor")]
    bottom = float(element.get("y"))
    return left, bottom - 0.7 * size, left + width, bottom


class Pictures(Case):
    def check_picture(self, file):
        root = ElementTree.parse(file).getroot()
        _, _, width, height = map(float, root.get("viewBox").split())
        shapes = [point for element in root.iter() if element.tag != SVG + "pattern" for point in points_of(element)]
        self.assertGreater(len(shapes), 10)
        for x, y in shapes:
            self.assertTrue(0 <= x <= width and 0 <= y <= height, f"{file.name}: {x}, {y} lies outside {width} x {height}")
        boxes = [(text_box(element), element.text) for element in root.iter(SVG + "text")]
        for i, (box, words) in enumerate(boxes):
            self.assertTrue(box[0] >= 0 and box[2] <= width and box[3] <= height, f"{file.name}: '{words}' is cut off")
            for other, other_words in boxes[:i]:
                apart = box[2] <= other[0] or other[2] <= box[0] or box[3] <= other[1] or other[3] <= box[1]
                self.assertTrue(apart, f"{file.name}: '{words}' lies over '{other_words}'")


class Sweep(Pictures):
    def sweep(self, folder, *more, **kwargs):
        return lily("bench", "sweep", "--out", folder, *SMALL, *more, **kwargs)

    def test_every_engine_is_measured_at_every_point_and_drawn(self):
        folder = scratch / "whole"
        got = self.sweep(folder, "--rounds", "2", "--lily", "int8=", "--lily", "exact=--exact", "--peer", peer("other"), "--title", "The <pocket>")
        self.assertEqual(got.status, 0, got.err)
        expected = {(engine, number, kind, length) for engine in ("int8", "exact", "other") for number in (1, 2)
                    for kind, length in (("prefill", 32), ("prefill", 64), ("decode", 16))}
        self.assertEqual(set(made(folder)), expected)
        self.assertEqual(len(made(folder)), len(expected))
        self.assertRegex(got.out, r"int8 beside other: \d+\.\d\d x in prefill over 2 lengths .*, \d+\.\d\d x in decode over 1 length ")
        whole = results(folder)
        self.assertEqual(len(whole["limits"]), 2)
        self.assertGreater(whole["limits"][0]["read_bytes_per_second"], 1e8)
        self.assertIn("commit", whole["engines"][0]["provenance"])
        self.assertIn("--exact", whole["engines"][1]["provenance"]["options"])
        for name in ("prefill.svg", "decode.svg"):
            self.check_picture(folder / name)
        self.assertEqual(len((folder / "results.csv").read_text().splitlines()), 1 + len(expected))
        pictures = (folder / "prefill.svg").read_text()
        (folder / "prefill.svg").unlink()
        self.assertEqual(lily("bench", "plot", folder).out, got.out)
        self.assertEqual((folder / "prefill.svg").read_text(), pictures)

    def test_peers_that_die_hang_or_are_not_there_are_named(self):
        folder = scratch / "peers"
        got = self.sweep(folder, "--rounds", "1", "--limit", "10", "--peer", peer("dying", "dies"), "--peer", peer("hanging", "hangs"),
                         "--peer", "absent=no-such-program")
        self.assertEqual(got.status, 0, got.err)
        self.assertIn("dying: prefill of 64: ended with exit status 1: fake_peer.py: 64 is too much", got.err)
        self.assertIn("hanging: decode at 16: gave no answer in 10 s", got.err)
        self.assertIn("absent is left out from here on", got.err)
        figures = {(m["engine"], m["kind"], m["length"]) for m in results(folder)["measurements"] if "error" not in m}
        self.assertEqual(figures, {("Lily", "prefill", 32), ("Lily", "prefill", 64), ("Lily", "decode", 16),
                                   ("dying", "prefill", 32), ("dying", "decode", 16), ("hanging", "prefill", 32), ("hanging", "prefill", 64)})

    def test_a_sweep_that_was_killed_or_interrupted_goes_on(self):
        folder = scratch / "killed"
        words = ("bench", "sweep", "--out", folder, *SMALL, "--rounds", "3", "--pause", "0.1", "--one-at-a-time", "--peer", peer("other"))
        file = folder / "results.json"
        for signal_number, enough in ((signal.SIGKILL, 3), (signal.SIGINT, 7)):
            process = start(*words)
            self.eventually(lambda: file.exists() and len(made(folder)) >= enough, "measurements")
            process.send_signal(signal_number)
            _, errors = process.communicate(timeout=60)
            before = results(folder)["measurements"]
            self.assertLess(len(before), 18)
        self.assertEqual(process.returncode, 130)
        self.assertIn(b"the same command goes on", errors)
        self.assertEqual(lily(*words).status, 0)
        after = results(folder)["measurements"]
        self.assertEqual(after[:len(before)], before)
        self.assertEqual(len(set(made(folder))), 18)
        self.assertEqual(len(after), 18)
        # All of it is there: nothing is measured again, and other options are refused by name.
        self.assertEqual(lily(*words).status, 0)
        self.assertEqual(results(folder)["measurements"], after)
        other = lily(*words, "--warm-up", "5")
        self.assertEqual(other.status, 2)
        self.assertIn("warm_up_tokens: what was begun there has 4096, not 5", other.err)

    def test_flags_that_make_no_sense_are_refused(self):
        for words, message in ((("--peer", "no name"), "expected NAME=..."), (("--peer", "../x=y"), "expected NAME=..."),
                               (("--peer", "a=x", "--peer", "a=y"), "two engines are called 'a'"),
                               (tuple(w for i in range(6) for w in ("--peer", f"p{i}=x")), "7 engines, at most 6"),
                               (("--lengths", "1KK"), "1KK"), (("--lengths", "0"), "0")):
            with self.subTest(words):
                got = self.sweep(scratch / "refused", *words)
                self.assertIn(got.status, (2, 6))
                self.assertIn(message, got.err)
        missing = self.sweep(scratch / "no-model", "--model", scratch / "nowhere")
        self.assertNotEqual(missing.status, 0)
        self.assertIn("Lily: ended with exit status 3: lily bench worker: ", missing.err)

    def test_lengths_may_be_thousands(self):
        folder = scratch / "thousands"
        got = lily("bench", "sweep", "--out", folder, "--lengths", "1K", "--depths", "1k", "--decode", "1", "--rounds", "1", "--no-pack",
                   "--peer", peer("other"))
        self.assertEqual(got.status, 0, got.err)
        self.assertIn(("Lily", 1, "prefill", 1024), made(folder))
        self.assertIn(("other", 1, "decode", 1024), made(folder))

    def test_a_file_that_is_no_result_is_refused(self):
        folder = scratch / "broken"
        folder.mkdir()
        (folder / "results.json").write_text("{}")
        for got in (lily("bench", "plot", folder), self.sweep(folder)):
            self.assertEqual(got.status, 5)
            self.assertIn("schema: expected a string", got.err)


class Worker(Case):
    def test_answers_line_by_line_and_survives_what_it_cannot_do(self):
        requests = ('{"prefill": 16}', '{"depth": 8, "decode": 4}', '{"prefill": 4000}', '{"prefill": -1}', "nonsense", "{}", '{"prefill": 16}')
        got = self.succeeds("bench", "worker", "--no-pack", "--context", "64", stdin="\n".join(requests) + "\n")
        hello, *answers = map(json.loads, got.out.splitlines())
        self.assertEqual((hello["engine"], hello["model"], hello["context"]), ("Lily", "pocket, 8 layers", 64))
        self.assertEqual(["error" in answer for answer in answers], [False, False, True, True, True, True, False])
        self.assertIn("context", answers[2]["error"])


class ServerAsAPeer(Case):
    def test_any_server_is_measured_by_its_url(self):
        server = Server("--no-pack", "--context", "1024")
        try:
            folder = scratch / "server"
            command = (sys.executable, "-B", str(SOURCE / "tools/peers/openai_server.py"), f"http://127.0.0.1:{server.port}",
                       "--extra", json.dumps(ENDLESS))
            got = lily("bench", "sweep", "--out", folder, *SMALL, "--rounds", "1", "--peer", "server=" + shlex.join(command))
        finally:
            server.stop()
        self.assertEqual((got.status, got.err), (0, ""))
        for m in results(folder)["measurements"]:
            self.assertGreater(m["tokens_per_second"], 0, m)
            self.assertAlmostEqual(m["counted_tokens"], m["tokens"], delta=0.5 * m["tokens"])  # The server counts what text becomes.
        self.assertEqual(results(folder)["engines"][1]["model"], "pocket")


class Ablation(Pictures):
    @unittest.skipIf(QUICK, "the emulator takes too long with sanitizers")
    def test_mechanisms_are_measured_with_and_without(self):
        folder = scratch / "ablation"
        names = "fused_experts_up,large_tiles"
        got = self.succeeds("bench", "ablate", *EMULATOR, *TINY, "--only", names, "--out", folder)
        for name in ("nothing", *names.split(",")):
            self.assertRegex(got.err, rf"{name}: \d+\.\d s\n")
            self.assertRegex(got.out, rf"  {name}.* [+-]\d+\.\d % \(.*within the spread")  # One round shows nothing.
        whole = json.loads((folder / "ablation.json").read_text())
        self.assertEqual([m["on_by_default"] for m in whole["mechanisms"]], [True, False, True])
        for mechanism in whole["mechanisms"]:
            self.assertEqual([(f["kind"], f["length"]) for f in mechanism["figures"]], [("prefill", 2), ("decode", 2)])
        self.check_picture(folder / "ablation.svg")
        self.assertEqual(lily("bench", "plot", folder).out, got.out)

    def test_a_cpu_has_instruction_sets_and_8_bit_activations_to_switch(self):
        got = self.succeeds("bench", "ablate", "--prefill", "32", "--depth", "16", "--decode", "4", "--rounds", "1", "--no-pack", "--json").json()
        names = [m["name"] for m in got["mechanisms"]]
        self.assertEqual((names[0], names[-1]), ("nothing", "int8_activations"))
        self.assertTrue(all(len(m["figures"]) == 2 for m in got["mechanisms"]))

    def test_what_cannot_be_switched_is_refused_by_name(self):
        for words, message in ((("--only", "nonsense"), "--only 'nonsense': expected some of dequantise_in_tile, "),
                               (("--prefill", "1K", "--depth", "1K"), "nothing to measure")):
            got = lily("bench", "ablate", *EMULATOR, *words)
            self.assertEqual(got.status, 2)
            self.assertIn(message, got.err)
        got = lily("bench", "ablate", "--backend", "reference", "--no-pack")
        self.assertEqual(got.status, 4)
        self.assertIn("backend 'reference' has nothing to switch", got.err)


if __name__ == "__main__":
    main()
