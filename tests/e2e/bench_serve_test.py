"""lily bench serve: against lily serve, and against a server that does what no server should."""
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import LILY, POCKET, SOURCE, Case, lily, main, scratch, start
from serving import Server, assistant, tools, user

TRACE = scratch / "trace.jsonl"
TRACE.write_text(json.dumps({
    "name": "two questions", "tools": tools("add"), "think_s": [0, 0.05],
    "messages": [user("What is the capital of France?"), assistant("The capital of France is Paris."), user("And what is 17 + 25?"),
                 assistant("17 + 25 = 42")]}) + "\n")


def chunk(text=None, finish=None, **more):
    delta = {} if text is None else {"content": text}
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}).encode() + b"\n\n"


USAGE = {"usage": {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}}
GOOD = [chunk("a"), chunk("b"), chunk("c"), chunk(finish="stop"), chunk(**USAGE), b"data: [DONE]\n\n"]


class Nasty(BaseHTTPRequestHandler):
    """Answers as the model's name says."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply(200, [json.dumps({"data": [{"id": "good"}]}).encode()])

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append((body, dict(self.headers)))
        getattr(self, body["model"])()

    def reply(self, status, parts, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        try:
            for part in parts:
                self.wfile.write(part)
                self.wfile.flush()
        except OSError:
            pass  # The client had enough.

    def good(self):
        self.reply(200, GOOD)

    def cut_into_bytes(self):
        self.reply(200, [bytes([b]) for b in b": a comment\r\nevent: x\r\n" + b"".join(GOOD).replace(b"\n", b"\r\n")])

    def full_at_first(self):
        self.server.n_full += 1
        if self.server.n_full % 3:
            self.reply(429, [b'{"error": {"message": "full"}}'], [("Retry-After", "0")])
        else:
            self.good()

    def broken_inside(self):
        self.reply(500, [b"x" * 1_000_000])

    def nonsense(self):
        self.reply(200, [chunk("a"), b"data: {\n\n"])

    def deep(self):
        self.reply(200, [b"data: " + b"[" * 500_000 + b"\n\n"])

    def huge_line(self):
        self.reply(200, [b"data: "] + [b"x" * 65536] * 100)

    def huge_head(self):
        self.reply(200, GOOD, [(f"X-{i}", "y" * 1000) for i in range(90)])

    def error_event(self):
        self.reply(200, [chunk("a"), b'data: {"error": {"message": "out of luck"}}\n\n'])

    def too_soon(self):
        self.reply(200, [chunk("a")])

    def no_stream(self):
        self.reply(200, [b'{"choices": [{"message": {"content": "whole"}}]}'])

    def moved(self):
        self.reply(302, [], [("Location", "/elsewhere")])

    def hangs(self):
        self.reply(200, [chunk("a")])
        time.sleep(3)

    def hangs_up(self):
        self.connection.shutdown(socket.SHUT_RDWR)


class NastyServer:
    def __enter__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Nasty)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # A reader that has enough is what is tested.
        self.server.bodies, self.server.n_full = [], 0
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class BenchServe(Case):
    @classmethod
    def setUpClass(cls):
        cls.nasty = NastyServer().__enter__()
        cls.addClassCleanup(cls.nasty.__exit__)

    def load(self, url, *more):
        return self.succeeds("bench", "serve", url, "--json", *more).json()

    def meets(self, behaviour, *more):
        return self.load(self.nasty.url, "--model-name", behaviour, "--requests", "2", "--clients", "2", *more)

    def fails(self, behaviour, kind, example, *more):
        got = self.meets(behaviour, *more)
        self.assertEqual((got["started"], got["answered"], list(got["errors"])), (2, 0, [kind]), got)
        self.assertEqual(got["errors"][kind]["count"], 2)
        self.assertIn(example, got["errors"][kind]["example"])
        self.assertIsNone(got["whole_ms"])

    def test_a_good_answer_is_counted_as_the_server_counts_it(self):
        got = self.load(self.nasty.url + "/v1/", "--requests", "5", "--clients", "2", "--api-key", "secret")
        self.assertEqual((got["model"], got["answered"], got["errors"]), ("good", 5, {}))
        self.assertEqual((got["tokens"], got["events"], got["without_usage"]), (15, 15, 0))
        self.assertAlmostEqual(got["cached_share"], 0.4)
        self.assertEqual((got["first_token_ms"]["count"], got["between_tokens_ms"]["count"]), (5, 10))
        self.assertAlmostEqual(got["requests_per_second"], 5 / got["seconds"])
        body, headers = self.nasty.server.bodies[-1]
        self.assertEqual(headers["Authorization"], "Bearer secret")
        self.assertEqual((body["stream"], body["max_tokens"]), (True, 64))

    def test_events_may_come_in_any_pieces(self):
        self.assertEqual(self.meets("cut_into_bytes")["tokens"], 6)

    def test_every_failure_has_its_kind(self):
        self.fails("broken_inside", "status 500", "xxx")
        self.fails("moved", "status 302", "")
        self.fails("nonsense", "broken reply", "no JSON object: {")
        self.fails("deep", "broken reply", "no JSON object")
        self.fails("huge_line", "broken reply", "an event of more than 1048576 bytes")
        self.fails("huge_head", "broken reply", "a head of more than 65536 bytes")
        self.fails("error_event", "broken reply", "out of luck")
        self.fails("too_soon", "broken reply", "without a finish_reason")
        self.fails("no_stream", "broken reply", "without a finish_reason")
        self.fails("hangs", "time limit", "", "--time-limit", "0.3")
        self.fails("hangs_up", "connection", "/v1/chat/completions: ")
        self.fails("full_at_first", "status 429", "full")

    def test_who_is_told_to_come_back_does_so_when_asked_to(self):
        self.nasty.server.n_full = 0
        got = self.load(self.nasty.url, "--model-name", "full_at_first", "--requests", "2", "--clients", "1", "--retries", "2")
        self.assertEqual((got["started"], got["answered"], got["retried"], got["errors"]), (2, 2, 4, {}))

    def test_nobody_there_is_no_measurement(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        got = lily("bench", "serve", f"http://127.0.0.1:{port}")
        self.assertEqual(got.status, 7)
        self.assertIn("/v1/models: ", got.err)

    def test_words_that_make_no_sense(self):
        for words in (("--clients", "0"), ("--rate", "-1"), ("--requests", "3", "--seconds", "3"), ("--seconds", "0")):
            self.assertEqual(lily("bench", "serve", self.nasty.url, *words).status, 2, words)
        self.assertEqual(lily("bench", "serve").status, 2)
        self.assertEqual(lily("bench", "serve", "file:///etc/hostname").status, 7)

    def test_arrivals_keep_their_times(self):
        got = self.load(self.nasty.url, "--seconds", "1", "--rate", "60", "--clients", "50")
        self.assertEqual(got["errors"], {})
        self.assertGreater(got["answered"], 30)  # Of a mean of 60; the draws of this seed do not change.
        self.assertLess(got["answered"], 100)
        again = self.load(self.nasty.url, "--requests", "40", "--rate", "1e6", "--clients", "1")
        self.assertGreater(again["late_ms"]["max"], again["late_ms"]["p50"])  # One client: those behind wait, and it counts.
        self.assertGreaterEqual(again["whole_ms"]["max"], again["late_ms"]["max"])

    def test_ctrl_c_prints_what_was_measured(self):
        process = start("bench", "serve", self.nasty.url, "--json", "--clients", "2", "--seconds", "600")
        before = len(self.nasty.server.bodies)
        self.eventually(lambda: len(self.nasty.server.bodies) > before + 5, "requests")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        got = json.loads(out)
        self.assertEqual((process.returncode, err), (130, b""))
        self.assertTrue(got["interrupted"])
        self.assertGreater(got["answered"], 0)

    def test_broken_traces_are_refused_by_line(self):
        file = scratch / "broken.jsonl"
        good = TRACE.read_text()
        for text, complaint in (("", "no conversation"), (good + "{", ":2: expected a JSON object"), ("[]", ":1: expected a JSON object"),
                                ('{"messages": 5}', "messages: expected a list"), ('{"messages": [5]}', "objects with a role"),
                                ('{"messages": [{"role": "user"}]}', "nothing to ask for"),
                                (json.dumps({**json.loads(good), "think_s": [0]}), "think_s: expected a number for each"),
                                (json.dumps({**json.loads(good), "think_s": [0, 1e9]}), "think_s: 1000000000, expected 0 .. 3600"),
                                (json.dumps({**json.loads(good), "tools": {}}), "tools: expected a list")):
            file.write_text(text)
            got = lily("bench", "serve", self.nasty.url, "--trace", file)
            self.assertEqual(got.status, 5, text)
            self.assertIn(complaint, got.err)

    def test_a_trace_is_held_as_recorded(self):
        before = len(self.nasty.server.bodies)
        got = self.load(self.nasty.url, "--trace", TRACE, "--requests", "2", "--clients", "1", "--max-tokens", "7")
        first, second = (body for body, _ in self.nasty.server.bodies[before:])
        self.assertEqual(got["answered"], 2)
        self.assertGreaterEqual(got["seconds"], 0.05)
        self.assertEqual(second["messages"][:2], [*first["messages"], assistant("The capital of France is Paris.")])
        self.assertEqual((len(second["messages"]), second["tools"], second["max_tokens"]), (3, tools("add"), 7))

    def test_lily_serve_under_a_trace(self):
        server = Server()
        self.addCleanup(server.stop)
        url = f"http://127.0.0.1:{server.port}"
        got = self.load(url, "--trace", TRACE, "--requests", "8", "--clients", "2")
        self.assertEqual((got["answered"], got["errors"], got["without_usage"]), (8, {}, 0))
        self.assertGreater(got["cached_share"], 0.3)  # The second question lies behind the first.
        self.assertGreater(got["tokens_per_second"], 0)
        table = self.succeeds("bench", "serve", url, "--requests", "2").out
        for name in ("pocket at", "first token", "between tokens", "whole answer", "tokens/s", "cached"):
            self.assertIn(name, table)

    def test_what_the_server_and_its_masks_cost(self):
        got = subprocess.run([sys.executable, "-B", SOURCE / "tools/served_cost.py", LILY, POCKET, "--rounds", "1", "--tokens", "16", "--json"],
                             capture_output=True, text=True, timeout=600)
        self.assertEqual(got.returncode, 0, got.stderr)
        told = json.loads(got.stdout)
        self.assertEqual({name: len(seconds) for name, seconds in told["seconds"].items()}, {"bench": 1, "served": 1, "masked": 1})
        self.assertGreater(told["seconds"]["bench"][0], 0)  # Differences of so few tokens are noise for the others.
        self.assertEqual(set(told["cost"]), {"served", "masked"})


if __name__ == "__main__":
    main()
