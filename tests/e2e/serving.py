"""A running server for tests, and clients of Python's standard library that see every byte of it."""
import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

from harness import ENVIRONMENT, LILY, QUICK, SOURCE, Case

sys.path.insert(0, str(SOURCE / "tools/pocket"))
import corpus  # noqa: E402  The pocket's little world.

# For an answer, in seconds.
PATIENCE_S = 1200 if QUICK else 120

OFF = {"chat_template_kwargs": {"enable_thinking": False}}
CAPITAL_QUESTION, CAPITAL_ANSWER = "What is the capital of France?", "The capital of France is Paris."
COUNTING = "Count from 10 to 25."
END_TOKENS = (4072, 4070)
ENDLESS = {"logit_bias": {str(token): -100 for token in END_TOKENS}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def long_text(filler, seed=7):
    return corpus.needle(random.Random(seed), filler=filler).messages[0]["content"]


def tools(*names):
    return [corpus.tool_spec(name) for name in names or ("get_weather", "add", "set_timer", "find_file")]


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json()["error"]


class Server:
    """A process of `lily serve` on a free port."""

    def __init__(self, *args, wait=True, **popen):
        self.process = subprocess.Popen([LILY, "serve", "--port", "0", "--threads", "2", *map(str, args)], env=ENVIRONMENT,
                                        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, **popen)
        self.log, self.port = [], None
        self.listening = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if wait and not (self.listening.wait(60) and self.port):
            raise AssertionError("the server did not start:\n" + "".join(self.log))

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            if line.startswith("listening on http://"):
                self.port = int(line.rsplit(":", 1)[1])
                self.listening.set()
        self.listening.set()

    def stop(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        status = self.process.wait(60)
        self.reader.join(10)
        self.process.stderr.close()
        return status

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

    def request(self, method, path, body=None, headers=None, timeout=PATIENCE_S):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read().decode())
        finally:
            connection.close()

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body, **kwargs):
        return self.request("POST", path, body, **kwargs)

    def metrics(self):
        rows = (line.rsplit(" ", 1) for line in self.get("/metrics").body.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in rows}

    @contextmanager
    def open(self, path, body, timeout=PATIENCE_S):
        """A streamed reply while it comes: the response of http.client."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            yield connection.getresponse()
        finally:
            connection.close()

    def events(self, path, body, timeout=PATIENCE_S):
        """(event name or None, data) of a whole stream; comments are left out."""
        with self.open(path, {**body, "stream": True}, timeout) as response:
            if response.status != 200:
                raise AssertionError(f"{response.status}: {response.read().decode()}")
            return parse_events(response.read().decode())

    def raw(self, data, timeout=30):
        """Bytes to the socket, everything that comes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as client:
            try:
                client.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            return read_all(client)


def read_all(client):
    parts = []
    while True:
        try:
            part = client.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def parse_events(text):
    out = []
    for block in text.split("\n\n"):
        name, data = None, None
        for line in block.split("\n"):
            if line.startswith("event: "):
                name = line[7:]
            if line.startswith("data: "):
                data = line[6:]
        if data is not None:
            out.append((name, data if data == "[DONE]" else json.loads(data)))
    return out


class Streamed:
    """A chat stream put together again."""

    def __init__(self, events):
        self.content, self.reasoning, self.finish, self.calls, self.usage, self.lily, self.logprobs = "", "", None, [], None, None, []
        self.chunks = [data for _, data in events if data != "[DONE]"]
        self.done = events[-1][1] == "[DONE]"
        for chunk in self.chunks:
            self.usage = chunk.get("usage") or self.usage
            self.lily = chunk.get("lily") or self.lily
            for choice in chunk["choices"]:
                self.take(choice)

    def take(self, choice):
        delta = choice["delta"]
        self.content += delta.get("content") or ""
        self.reasoning += delta.get("reasoning_content") or ""
        self.finish = choice["finish_reason"] or self.finish
        self.logprobs += (choice.get("logprobs") or {}).get("content", [])
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(self.calls), call
                self.calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
            self.calls[call["index"]]["arguments"] += call.get("function", {}).get("arguments", "")


class ServerCase(Case):
    """One server for all tests of a class."""

    arguments = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.arguments)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, "".join(cls.server.log)

    def body(self, messages, **fields):
        if isinstance(messages, str):
            messages = [user(messages)]
        return {"model": "pocket", "temperature": 0, "max_tokens": 64, "messages": messages, **OFF, **fields}

    def chat(self, messages, **fields):
        reply = self.server.post("/v1/chat/completions", self.body(messages, **fields))
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json()

    def text(self, messages, **fields):
        return self.chat(messages, **fields)["choices"][0]["message"]["content"]

    def stream(self, messages, **fields):
        return Streamed(self.server.events("/v1/chat/completions", self.body(messages, **fields)))

    def refused(self, status, messages, path="/v1/chat/completions", **fields):
        reply = self.server.post(path, self.body(messages, **fields))
        self.assertEqual(reply.status, status, reply.body)
        return reply.error

    def rendered(self, messages, **fields):
        reply = self.server.post("/apply-template", self.body(messages, **fields))
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json()
