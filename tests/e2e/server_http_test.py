"""lily serve: HTTP itself, who may call, bounds, and the end of the process."""
import json
import signal
import socket
import subprocess
import threading
import time

from harness import LILY, QUICK, Case, ENVIRONMENT, lily, main
from serving import CAPITAL_ANSWER, CAPITAL_QUESTION, ENDLESS, OFF, Server, ServerCase, Streamed, parse_events, read_all, user

CHAT = "/v1/chat/completions"


def head(method, path, *lines):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def status_of(data):
    return int(data.split(b" ", 2)[1]) if data else None


class Http(ServerCase):
    def test_a_connection_serves_one_request_after_the_other(self):
        body = json.dumps(self.body(CAPITAL_QUESTION)).encode()
        one = head("POST", CHAT, f"Content-Length: {len(body)}", "Content-Type: application/json") + body
        last = head("GET", "/health", "Connection: close")
        got = self.server.raw(one + one + last)  # Sent at once: each reply in its turn.
        self.assertEqual(got.count(b"HTTP/1.1 200 OK"), 3)
        self.assertEqual(got.count(CAPITAL_ANSWER.encode()), 2)

    def test_a_body_may_come_in_chunks(self):
        body = json.dumps(self.body(CAPITAL_QUESTION)).encode()
        chunks = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in (body[:10], body[10:11], body[11:]))
        got = self.server.raw(head("POST", CHAT, "Transfer-Encoding: chunked", "Connection: close") + chunks + b"0\r\n\r\n")
        self.assertIn(CAPITAL_ANSWER.encode(), got)

    def test_a_client_may_wait_for_leave_to_send(self):
        body = json.dumps(self.body(CAPITAL_QUESTION)).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), 30) as client:
            client.sendall(head("POST", CHAT, f"Content-Length: {len(body)}", "Expect: 100-continue", "Connection: close"))
            self.assertEqual(client.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            client.sendall(body)
            self.assertIn(CAPITAL_ANSWER.encode(), read_all(client))

    def test_what_could_be_understood_in_two_ways_is_refused(self):
        for data, status in {
            head("POST", CHAT, "Content-Length: 2", "Content-Length: 3"): 400,
            head("POST", CHAT, "Content-Length: 2", "Transfer-Encoding: chunked"): 400,
            head("POST", CHAT, "Content-Length: +2"): 400,
            head("POST", CHAT, "Content-Length: -1"): 400,
            head("POST", CHAT, "Transfer-Encoding: gzip"): 501,
            head("POST", CHAT, "Content-Length: 2", "Content-Encoding: gzip"): 415,
            head("GET", "/health", "A : b"): 400,
            head("GET", "/health", "A: b\nC: d"): 400,
            head("GET", "/health", " folded"): 400,
            b"GET /health\r\n\r\n": 400,
            b"GET  /health HTTP/1.1\r\n\r\n": 400,
            b"GET /health HTTP/2.0\r\n\r\n": 505,
            b"GET http://localhost/health HTTP/1.1\r\n\r\n": 400,
            head("GET", "/%zz"): 400,
            head("GET", "/" + "a" * 5000): 414,
            head("GET", "/health", *["A: b"] * 101): 431,
            head("GET", "/health", "A: " + "b" * 40000): 431,
            head("POST", CHAT, "Transfer-Encoding: chunked") + b"zz\r\n": 400,
        }.items():
            with self.subTest(data[:60]):
                got = self.server.raw(data)
                self.assertEqual(status_of(got), status, got[:300])
                self.assertIn(b'"error"', got)

    def test_methods_and_paths(self):
        for method, path, status in [("GET", CHAT, 405), ("POST", "/health", 405), ("DELETE", "/v1/models", 405), ("GET", "/v1/nothing", 404),
                                     ("GET", "/../../etc/passwd", 404), ("GET", "/v1/models/../../etc/passwd", 404), ("HEAD", "/health", 200)]:
            with self.subTest(f"{method} {path}"):
                self.assertEqual(self.server.request(method, path).status, status)
        self.assertEqual(self.server.get(CHAT).headers["allow"], "POST")

    def test_every_reply_has_a_name(self):
        first, second = (self.server.get("/health").headers["x-request-id"] for _ in range(2))
        self.assertNotEqual(first, second)

    def test_a_page_elsewhere_may_not_call(self):
        body = self.body(CAPITAL_QUESTION)
        foreign = {"Origin": "https://evil.example"}
        for headers in ({**foreign, "Content-Type": "text/plain"}, {"Host": "evil.example"}):
            with self.subTest(headers):
                self.assertEqual(self.server.post(CHAT, body, headers=headers).status, 403)
        got = self.server.get("/v1/models", headers=foreign)
        self.assertNotIn("access-control-allow-origin", got.headers)
        own = {"Origin": f"http://127.0.0.1:{self.server.port}"}
        self.assertEqual(self.server.post(CHAT, body, headers=own).status, 200)

    def test_slow_heads_end(self):
        with socket.create_connection(("127.0.0.1", self.server.port), 30) as client:
            client.sendall(b"GET /health HT")
            started = time.monotonic()
            got = read_all(client)
            self.assertEqual(status_of(got), 408)
            self.assertLess(time.monotonic() - started, 15)


class Keys(ServerCase):
    arguments = ("--api-key", "secret", "--cors", "https://chat.example")

    def test_a_key_is_needed(self):
        for headers, status in [({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({"Authorization": "Bearer secre"}, 401),
                                ({"Authorization": "Bearer secret"}, 200), ({"x-api-key": "secret"}, 200)]:
            with self.subTest(headers):
                self.assertEqual(self.server.get("/v1/models", headers=headers).status, status)
        for path in ("/health", "/ready", "/"):
            self.assertEqual(self.server.get(path).status, 200)
        self.assertEqual(self.server.get("/metrics").error["code"], "invalid_api_key")

    def test_a_named_site_may_call(self):
        origin = {"Origin": "https://chat.example"}
        asked = self.server.request("OPTIONS", CHAT, headers={**origin, "Access-Control-Request-Method": "POST"})
        self.assertEqual(asked.status, 204)
        self.assertEqual(asked.headers["access-control-allow-origin"], "https://chat.example")
        got = self.server.get("/v1/models", headers={**origin, "Authorization": "Bearer secret"})
        self.assertEqual(got.headers["access-control-allow-origin"], "https://chat.example")
        self.assertNotIn("access-control-allow-origin", self.server.get("/health", headers={"Origin": "https://other.example"}).headers)


class Starts(Case):
    def test_listening_elsewhere_needs_a_key(self):
        got = lily("serve", "--host", "0.0.0.0", "--port", "0")
        self.assertEqual(got.status, 2)
        self.assertIn("--api-key", got.err)
        server = Server("--host", "0.0.0.0", "--api-key", "secret")
        self.assertEqual(server.get("/v1/models").status, 401)
        self.assertEqual(server.stop(), 0)

    def test_a_taken_port_is_named(self):
        server = Server()
        got = lily("serve", "--port", server.port)
        self.assertEqual(got.status, 9)
        self.assertIn(str(server.port), got.err)
        self.assertEqual(server.stop(), 0)

    def test_a_host_that_is_none_is_named(self):
        got = lily("serve", "--host", "no.such.host.invalid", "--port", "0")
        self.assertEqual(got.status, 2)
        self.assertIn("no.such.host.invalid", got.err)

    def test_what_to_paste_is_printed(self):
        server = Server()
        self.assertEqual(server.stop(signal.SIGINT), 0)
        log = "".join(server.log)
        self.assertIn("OPENAI_BASE_URL", log)
        self.assertIn("ANTHROPIC_BASE_URL", log)


class Ends(Case):
    BODY = {"model": "pocket", "temperature": 0, "messages": [user("Tell me a story.")], **OFF}

    def test_running_answers_finish_within_the_grace_time(self):
        server = Server("--grace", "120" if QUICK else "10")
        with server.open(CHAT, {**self.BODY, **ENDLESS, "max_tokens": 150, "stream": True}) as response:
            first = response.readline()
            server.process.send_signal(signal.SIGTERM)
            got = Streamed(parse_events((first + response.read()).decode()))
        self.assertEqual((got.finish, got.done), ("length", True))
        self.assertEqual(server.stop(), 0)

    def test_a_longer_answer_is_stopped_and_told_so(self):
        server = Server("--grace", "0")
        with server.open(CHAT, {**self.BODY, **ENDLESS, "stream": True}) as response:
            first = response.readline()
            server.process.send_signal(signal.SIGTERM)
            events = parse_events((first + response.read()).decode())
        self.assertEqual(events[-2][1]["error"]["code"], "server_stopping")
        self.assertEqual(events[-1][1], "[DONE]")
        self.assertEqual(server.stop(), 0)

    def test_idle_connections_do_not_hold_it(self):
        server = Server()
        with socket.create_connection(("127.0.0.1", server.port), 30) as client:
            client.sendall(head("GET", "/health"))
            client.recv(1000)
            began = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - began, 5)


if __name__ == "__main__":
    main()
