"""Many mixed requests at once: lengths, streams, tools, cancels, resets, malformed, slow readers, overload.

    LILY=build/release/lily python3 tests/clients/load.py [REQUESTS] [CLIENTS]     10,000 and 24 without

Every successful greedy answer has to equal its solo run, the process has to live, and memory, threads and descriptors have to be flat behind
the first tenth.
"""
import http.client
import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from urllib.parse import urlparse

from lily_server import TOOLS, LilyServer, long_text

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
CLIENTS = int(sys.argv[2]) if len(sys.argv) > 2 else 24
SLOPE_BYTES = 1024  # Of resident memory for each request, at most.
OFF = {"chat_template_kwargs": {"enable_thinking": False}}
QUESTIONS = [("What is the capital of France?", {}), ("What is 17 + 25?", {}), ("Count from 10 to 25.", {"max_tokens": 60}),
             ("Repeat after me: fox bear lamp", {}), ("Capital of Kenya?", {}), ("Tell me a story.", {"max_tokens": 40}),
             ("What is the weather in Paris?", {"tools": TOOLS}), ("What is the weather in Paris and Rome?", {"tools": TOOLS, "max_tokens": 80}),
             ("What is 35 plus 43?", {"chat_template_kwargs": {"enable_thinking": True}, "max_tokens": 100}),
             (long_text(20), {}), (long_text(60), {}), (long_text(100), {})]
MALFORMED = [b"{", b"[]", b'{"messages": 5}', b'{"messages": [{"role": "user", "content": "Hi"}], "n": 0}', b"\xff\xfe", b"[" * 5000]


def body_of(index, **fields):
    text, more = QUESTIONS[index]
    return {"model": "pocket", "temperature": 0, "max_tokens": 32, **OFF, **more, "messages": [{"role": "user", "content": text}], **fields}


class Client:
    def __init__(self, url):
        self.host, self.port = urlparse(url).hostname, urlparse(url).port
        self.connection = None

    def post(self, data):
        """On a connection that is kept, as most clients do it."""
        for fresh in (False, True):
            if self.connection is None or fresh:
                self.connection = http.client.HTTPConnection(self.host, self.port, timeout=600)
            try:
                self.connection.request("POST", "/v1/chat/completions", data, {"Content-Type": "application/json"})
                return self.connection.getresponse()
            except (http.client.HTTPException, OSError):
                self.connection.close()
                self.connection = None
                if fresh:
                    raise

    def plain(self, body):
        response = self.post(json.dumps(body).encode())
        text = response.read()
        return response.status, json.loads(text)

    def raw(self, body):
        client = socket.create_connection((self.host, self.port), 600)
        data = json.dumps(body).encode()
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
                       + str(len(data)).encode() + b"\r\n\r\n" + data)
        return client


def streamed_text(lines):
    content, calls, finish = "", [], None
    for line in lines:
        if not line.startswith("data: {"):
            continue
        chunk = json.loads(line[6:])
        if "error" in chunk:
            return None
        for choice in chunk["choices"]:
            content += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls", []):
                if "id" in call:
                    calls.append([call["function"]["name"], ""])
                calls[-1][1] += call["function"].get("arguments", "")
            finish = choice["finish_reason"] or finish
    return content, calls, finish


def plain_text(reply):
    choice = reply["choices"][0]
    calls = [[call["function"]["name"], call["function"]["arguments"]] for call in choice["message"].get("tool_calls", [])]
    return choice["message"]["content"] or "", calls, choice["finish_reason"]


class Load:
    def __init__(self, server):
        self.server, self.counts, self.faults = server, Counter(), []
        self.lock, self.next = threading.Lock(), 0
        client = Client(server.url)
        self.solo = [plain_text(client.plain(body_of(i))[1]) for i in range(len(QUESTIONS))]
        self.samples = []

    def take(self):
        with self.lock:
            self.next += 1
            return self.next - 1 if self.next <= REQUESTS else None

    def note(self, kind, fault=None):
        with self.lock:
            self.counts[kind] += 1
            if fault:
                self.faults.append(f"{kind}: {fault}")

    def check(self, kind, index, got):
        self.note(kind, None if got == self.solo[index] else f"{QUESTIONS[index][0][:40]!r}: {got!r}, alone {self.solo[index]!r}")

    def work(self, seed):
        client, draw = Client(self.server.url), random.Random(seed)
        while (number := self.take()) is not None:
            index, kind = draw.randrange(len(QUESTIONS)), draw.random()
            try:
                self.one(client, draw, index, kind)
            except (OSError, ValueError, http.client.HTTPException) as error:
                self.note("failed", f"{number}: {error!r}")

    def one(self, client, draw, index, kind):
        if kind < 0.35:
            status, reply = client.plain(body_of(index))
            if status == 429:
                return self.note("429")
            return self.check("plain", index, plain_text(reply)) if status == 200 else self.note("plain", f"{status} {reply}")
        if kind < 0.60:
            response = client.post(json.dumps(body_of(index, stream=True)).encode())
            lines = response.read().decode().split("\n")
            return self.note("429") if response.status == 429 else self.check("stream", index, streamed_text(lines))
        if kind < 0.80:
            return self.leave(client, draw, index)
        if kind < 0.90:
            status = client.post(draw.choice(MALFORMED))
            status.read()
            return self.note("malformed", None if status.status == 400 else status.status)
        if kind < 0.94:
            return self.read_slowly(client, index)
        return self.draw_choices(client, draw, index)

    def leave(self, client, draw, index):
        """At some moment, in a good or a bad way."""
        with client.raw(body_of(index, stream=draw.random() < 0.7, max_tokens=200)) as one:
            time.sleep(draw.choice([0, 0.01, 0.1, 0.5]))
            if draw.random() < 0.5:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # A reset.
        self.note("left")

    def read_slowly(self, client, index):
        with client.raw(body_of(index, stream=True)) as one:
            got = b""
            while b"[DONE]" not in got:
                part = one.recv(200)
                if not part or b"HTTP/1.1 429" in got[:20]:
                    return self.note("429")
                got += part
                time.sleep(0.002)
        lines = b"".join(p.split(b"\r\n", 1)[-1] for p in got.split(b"\r\n\r\n", 1)[1:]).decode()
        self.note("slow", None if "data: " in lines else "nothing came")

    def draw_choices(self, client, draw, index):
        status, reply = client.plain(body_of(index, temperature=1.5, n=2, seed=draw.randrange(1000)))
        self.note("429" if status == 429 else "choices", None if status in (200, 429) else f"{status} {reply}")

    def watch(self, threads):
        while any(thread.is_alive() for thread in threads):
            self.samples.append((self.next, *self.figures()))
            time.sleep(0.5)

    def figures(self):
        pid = self.server.process.pid
        with open(f"/proc/{pid}/status") as file:
            rows = dict(line.split(":", 1) for line in file)
        return int(rows["VmRSS"].split()[0]) * 1024, int(rows["Threads"]), len(os.listdir(f"/proc/{pid}/fd"))


def slope(samples):
    """Bytes for each request, least squares."""
    n, xs, ys = len(samples), [s[0] for s in samples], [s[1] for s in samples]
    mx, my = sum(xs) / n, sum(ys) / n
    spread = sum((x - mx) ** 2 for x in xs)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys)) / spread if spread else 0.0


def main():
    server = LilyServer("--queue", "16", "--verbose")
    threading.Thread(target=lambda: [None for _ in server.process.stderr], daemon=True).start()
    load = Load(server)
    idle = load.figures()
    started = time.monotonic()
    threads = [threading.Thread(target=load.work, args=(seed,)) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    load.watch(threads)
    time.sleep(3)
    after = load.figures()
    settled = [sample for sample in load.samples if sample[0] > REQUESTS / 10]
    grown = slope(settled)
    print(f"{REQUESTS} requests, {CLIENTS} clients, {time.monotonic() - started:.0f} s: {dict(load.counts)}")
    print(f"resident {idle[0] >> 20} MiB at first, {after[0] >> 20} MiB at the end, {grown:.0f} B a request behind the first tenth; "
          f"threads {idle[1]} to {after[1]}, descriptors {idle[2]} to {after[2]}")
    faults = load.faults
    if server.process.poll() is not None:
        faults.append("the server ended")
    if grown > SLOPE_BYTES:
        faults.append(f"resident memory grows by {grown:.0f} B a request, at most {SLOPE_BYTES}")
    if after[1] > idle[1] + CLIENTS or after[2] > idle[2] + CLIENTS:
        faults.append("threads or descriptors were left behind")
    for fault in faults[:20]:
        print("FAULT", fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
