"""Cases of HTTP, sampling and the template that users of other engines suffered; each test names its case."""
import json
import socket
import threading
import time

from harness import QUICK, main
from serving import (CAPITAL_ANSWER, CAPITAL_QUESTION, COUNTING, ENDLESS, OFF, Server, ServerCase, Streamed, assistant, long_text,
                     parse_events, system, tools, user)

CHAT = "/v1/chat/completions"
COUNTED = ", ".join(str(n) for n in range(10, 26))


class Requests(ServerCase):
    def test_r079_stop_strings_match_across_tokens(self):
        for stop, text in [(", 14", "10, 11, 12, 13"), (["15, 1", "16"], "10, 11, 12, 13, 14, "), ("10", ""), ("never", COUNTED)]:
            with self.subTest(stop):
                got = self.chat(COUNTING, stop=stop, max_tokens=100)["choices"][0]
                self.assertEqual((got["message"]["content"], got["finish_reason"]), (text, "stop"))
                self.assertEqual(self.stream(COUNTING, stop=stop, max_tokens=100).content, text)
        self.assertEqual(self.text(COUNTING, stop=["a1", "a2", "a3", "a4", "a5"], max_tokens=100), COUNTED)  # 16 are taken.
        for stop in ("", [""], ["x"] * 17, [5]):
            self.assertIn("stop", self.refused(400, COUNTING, stop=stop)["param"])

    def test_r079_a_stop_string_in_the_thinking_ends_the_answer(self):
        got = self.chat("What is 35 plus 43?", stop="total", chat_template_kwargs={})["choices"][0]
        self.assertEqual((got["finish_reason"], got["message"]["content"]), ("stop", ""))
        self.assertNotIn("total", got["message"]["reasoning_content"])

    def test_r085_failures_have_their_own_status(self):
        for body, param in [(b'{"messages": [', None), ({"messages": 5}, "messages"), ({}, "messages"), ({"messages": []}, "messages"),
                            ([1], None), ({"messages": [5]}, "messages[0].role"), ({"messages": [{}]}, "messages[0].role"),
                            ({"messages": [{"role": "wizard"}]}, "messages[0].role")]:
            with self.subTest(body):
                got = self.server.post(CHAT, body)
                self.assertEqual(got.status, 400)
                self.assertEqual(set(got.error), {"message", "type", "param", "code"})
                if param:
                    self.assertEqual(got.error["param"], param)
        self.assertEqual(self.server.get(CHAT).status, 405)
        self.assertEqual(self.server.get("/v1/nothing").status, 404)
        self.assertEqual(self.server.get("/v1/nothing").error["type"], "not_found_error")

    def test_r089_max_completion_tokens_is_max_tokens(self):
        body = self.body(COUNTING)
        del body["max_tokens"]
        got = self.server.post(CHAT, {**body, "max_completion_tokens": 5}).json()
        self.assertEqual((got["usage"]["completion_tokens"], got["choices"][0]["finish_reason"]), (5, "length"))
        self.assertEqual(self.chat(COUNTING, max_tokens=5, max_completion_tokens=5)["usage"]["completion_tokens"], 5)
        self.assertEqual(self.refused(400, COUNTING, max_tokens=9, max_completion_tokens=5)["param"], "max_completion_tokens")
        thinking = self.server.post(CHAT, {**body, "max_completion_tokens": 5, "chat_template_kwargs": {}}).json()
        self.assertEqual(thinking["usage"]["completion_tokens"], 5)

    def test_r091_nothing_is_dropped_unsaid(self):
        two = self.chat(COUNTING, n=2, max_tokens=5)
        self.assertEqual([c["index"] for c in two["choices"]], [0, 1])
        self.assertEqual(two["usage"]["completion_tokens"], 10)
        for n in (0, -1, 1000):
            self.assertEqual(self.refused(400, COUNTING, n=n)["param"], "n")
        for name, value in [("best_of", 2), ("suffix", "x")]:
            got = self.server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 2, name: value})
            self.assertEqual((got.status, got.error["param"]), (400, name))
        self.assertEqual(self.chat(COUNTING, max_tokens=2, foo=1)["lily"]["ignored"], ["foo"])

    def test_r095_broken_formats_are_refused(self):
        for value in ({"type": "nonsense"}, {}, 5, {"type": "json_schema"}):
            self.assertTrue(self.refused(400, COUNTING, response_format=value)["param"].startswith("response_format"))

    def test_r099_r119_pictures_and_sound_are_refused_by_their_place(self):
        part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@"}}
        text = {"type": "text", "text": CAPITAL_QUESTION}
        for i, content in enumerate([[part], [text, part], [{**part, "image_url": {"url": ""}}],
                                     [{"type": "input_audio", "input_audio": {"data": "@@@", "format": "wav"}}]]):
            with self.subTest(i):
                error = self.refused(400, [user(content)])
                self.assertEqual(error["param"], f"messages[0].content[{len(content) - 1}]")
        self.assertEqual(self.refused(400, [user([part]), assistant("A cat."), user("Hi")])["param"], "messages[0].content[0]")
        source = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "@@@"}}
        messages = {"model": "pocket", "max_tokens": 5, "messages": [user([source])]}
        got = self.server.post("/v1/messages", messages)
        self.assertEqual((got.status, got.error["param"]), (400, "messages[0].content[0]"))
        result = [{"type": "tool_result", "tool_use_id": "t", "content": [source]}]
        self.assertEqual(self.server.post("/v1/messages", {**messages, "messages": [user(result)]}).error["param"],
                         "messages[0].content[0].content[0]")
        item = {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}
        self.assertEqual(self.server.post("/v1/responses", {"input": [item]}).error["param"], "input[0].content[0]")
        self.assertEqual(self.text([user([text])]), CAPITAL_ANSWER)

    def test_r099_a_huge_picture_leaves_the_memory_alone(self):
        self.text(CAPITAL_QUESTION)
        before = self.server.rss_kib()
        part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000_000}}
        self.assertIn(self.server.post(CHAT, self.body([user([part])])).status, (400, 413))
        self.assertEqual(self.text(CAPITAL_QUESTION), CAPITAL_ANSWER)
        if not QUICK:  # A sanitizer keeps freed memory for a while.
            self.assertLess(self.server.rss_kib() - before, 20_000)


class Bodies(ServerCase):
    def raw_status(self, data):
        got = self.server.raw(data)
        return int(got.split(b" ", 2)[1]) if got else None

    def test_r093_huge_bodies_are_refused_before_they_are_read(self):
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\n"
        began = time.monotonic()
        self.assertEqual(self.raw_status(f"{head}Content-Length: 10000000000\r\n\r\n".encode()), 413)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(self.server.post(CHAT, b"[" * 100_000).status, 400)
        self.assertEqual(self.server.post(CHAT, b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}").status, 400)

    def test_r093_endless_bodies_of_many_clients_leave_the_memory_alone(self):
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        self.text(CAPITAL_QUESTION)
        before, most, statuses = self.server.rss_kib(), 0, []

        def endless():
            with socket.create_connection(("127.0.0.1", self.server.port), 100) as client:
                got = b""
                try:
                    client.sendall(head)
                    while True:
                        client.sendall(chunk)
                except OSError:
                    pass
                try:
                    got = client.recv(100)
                except OSError:
                    pass
                statuses.append(got[9:12])

        threads = [threading.Thread(target=endless) for _ in range(50)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            most = max(most, self.server.rss_kib() - before)
            self.assertEqual(self.server.get("/health").status, 200)
            time.sleep(0.05)
        self.assertEqual(len(statuses), 50)
        self.assertTrue(set(statuses) <= {b"413", b""}, set(statuses))  # A reset may swallow the reply.
        self.assertIn(b"413", statuses)
        if not QUICK:
            self.assertLess(most, 50_000)


class SmallContext(ServerCase):
    arguments = ("--context", "256")

    def test_r087_an_overflow_can_be_told_by_a_program(self):
        long = long_text(60)
        error = self.refused(400, long)
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertIn("256", error["message"])
        self.assertIn("64", error["message"])
        got = self.server.post("/v1/completions", {"prompt": long, "max_tokens": 50})
        self.assertEqual((got.status, got.error["code"]), (400, "context_length_exceeded"))
        got = self.server.post("/v1/messages", {"max_tokens": 50, "messages": [user(long)]})
        self.assertEqual((got.status, got.json()["type"], got.error["type"]), (400, "error", "invalid_request_error"))
        self.assertIn("prompt is too long", got.error["message"])
        got = self.server.post("/v1/responses", {"input": long})
        self.assertEqual((got.status, got.error["code"], got.error["param"]), (400, "context_length_exceeded", "input"))

    def test_r087_an_answer_ends_where_the_context_does(self):
        tokens = [262] * 250
        got = self.server.post("/v1/completions", {"prompt": tokens, "max_tokens": 50, "temperature": 0, **ENDLESS}).json()
        self.assertEqual((got["usage"]["completion_tokens"], got["choices"][0]["finish_reason"]), (6, "length"))
        self.assertEqual(got["lily"]["clamped"], ["max_tokens: 50, room for 6"])


class DeclaredContext(ServerCase):
    def test_r035_lengths_around_the_declared_limit(self):
        longest = [] if QUICK else [(8191, 200)]  # Minutes with a sanitizer
        for n, status in [*longest, (8192, 400), (8193, 400)]:
            got = self.server.post("/v1/completions", {"prompt": [262] * n, "max_tokens": 5, "temperature": 0, **ENDLESS})
            self.assertEqual(got.status, status, got.body)
            if status == 200:  # Room for one.
                self.assertEqual((got.json()["usage"]["completion_tokens"], got.json()["choices"][0]["finish_reason"]), (1, "length"))
            else:
                self.assertEqual(got.error["code"], "context_length_exceeded")
                self.assertIn("8192", got.error["message"])


class Sampling(ServerCase):
    def test_r101_the_presence_penalty_acts_as_defined(self):
        asked = {"logprobs": True, "top_logprobs": 5, "max_tokens": 6}
        fox = [user("Repeat after me: fox fox fox fox")]
        self.assertEqual(self.text(fox, presence_penalty=0), self.text(fox))
        plain, penalised = (self.chat(fox, presence_penalty=p, **asked)["choices"][0]["logprobs"]["content"] for p in (0, 2))
        self.assertEqual(plain[0], penalised[0])
        # Reported are the model's own; what was chosen is where the penalty shows.
        seen = set()
        for row in penalised:
            best = max(row["top_logprobs"], key=lambda one: one["logprob"] - (2 if one["token"] in seen else 0))
            self.assertEqual(row["token"], best["token"])
            seen.add(row["token"])

    def test_r103_cuts_reach_the_sampler(self):
        greedy = self.text("Tell me a story.", max_tokens=12)
        for seed in range(5):
            for cut in ({"top_k": 1}, {"min_p": 1}, {"top_p": 1e-9}, {"top_p": 0}):
                self.assertEqual(self.text("Tell me a story.", temperature=1.5, seed=seed, max_tokens=12, **cut), greedy, cut)
            rows = self.chat("Tell me a story.", temperature=1.5, seed=seed, top_k=5, logprobs=True, top_logprobs=20, max_tokens=12)
            for row in rows["choices"][0]["logprobs"]["content"]:
                self.assertIn(row["token"], [one["token"] for one in row["top_logprobs"][:5]])

    def test_r105_top_k_out_of_range(self):
        error = self.refused(400, COUNTING, top_k=-2)
        self.assertEqual(error["param"], "top_k")
        self.assertIn("-2", error["message"])
        wild = {"temperature": 1, "seed": 3, "max_tokens": 12}
        off = [self.text("Tell me a story.", top_k=k, **wild) for k in (-1, 0, 4096, 4097)]
        self.assertEqual(len(set(off)), 1)
        self.assertEqual(self.text("Tell me a story.", top_k=1, **wild), self.text("Tell me a story.", max_tokens=12))

    def test_r107_a_bias_acts_on_the_greedy_choice(self):
        paris = self.server.post("/tokenize", {"content": " Paris"}).json()["tokens"]
        rome = self.server.post("/tokenize", {"content": " Rome"}).json()["tokens"]
        self.assertNotIn(" Paris", self.text(CAPITAL_QUESTION, logit_bias={str(paris[0]): -100}))
        got = self.chat(CAPITAL_QUESTION, logit_bias={str(rome[0]): 100}, max_tokens=8)["choices"][0]
        self.assertEqual((got["message"]["content"], got["finish_reason"]), (" Rome" * 8, "length"))
        self.assertEqual(self.refused(400, COUNTING, logit_bias={"4096": 1})["param"], "logit_bias")


class Template(ServerCase):
    def test_r041_system_messages_anywhere_come_to_the_front(self):
        question, capitals = user(CAPITAL_QUESTION), system("Answer in capitals.")
        for messages in ([user("Hi"), capitals, question], [capitals, question], [question, capitals], [system("One."), capitals, question],
                         [{"role": "developer", "content": "Answer in capitals."}, question]):
            with self.subTest(messages):
                got = self.rendered(messages)
                self.assertTrue(got["prompt"].startswith("<|im_start|>system\n"))
                for message in messages:
                    self.assertEqual(got["prompt"].count(message["content"]), 1)
                self.assertEqual(self.chat(messages)["usage"]["prompt_tokens"], got["count"])

    def test_r043_arguments_in_history_come_in_any_form(self):
        def history(arguments):
            call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": arguments}}
            return [user("Add 1 and 2."), assistant(None, tool_calls=[call]), {"role": "tool", "tool_call_id": "c", "content": "3"}, user("Thanks")]
        forms = ['{"a": 1, "b": 2}', {"a": 1, "b": 2}, "{}", "", '{"a": 1']
        got = [self.rendered(history(form), tools=tools("add")) for form in forms]
        self.assertEqual(got[0]["tokens"], got[1]["tokens"])
        self.assertEqual(got[2]["tokens"], got[3]["tokens"])
        self.assertIn("<parameter=a>\n1\n</parameter>", got[0]["prompt"])
        self.assertIn('{"a": 1', got[4]["prompt"])
        for form in forms:
            self.chat(history(form), tools=tools("add"), max_tokens=4)

    def test_r045_blocks_of_text_are_their_joined_text(self):
        forms = ["ab", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], [{"type": "text", "text": "ab"}]]
        call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        for role in ("system", "developer", "user", "assistant", "tool"):
            with self.subTest(role):
                before = [user("Hi"), assistant("", tool_calls=[call])] if role == "tool" else [user("Hi")]
                got = [self.rendered([*before, {"role": role, "content": form}, user("Thanks")])["tokens"] for form in forms]
                self.assertEqual(got[0], got[1])
                self.assertEqual(got[0], got[2])

    def test_r047_calls_need_no_content(self):
        call = {"id": "c", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
        contents = [{}, {"content": None}, {"content": ""}, {"content": []}]
        got = [self.rendered([user("Hi"), {"role": "assistant", "tool_calls": [call], **content},
                              {"role": "tool", "tool_call_id": "c", "content": "sunny"}])["tokens"] for content in contents]
        self.assertTrue(all(tokens == got[0] for tokens in got))
        self.rendered([user("Hi"), {"role": "assistant"}, user("Hi")])  # Neither content nor calls: an empty turn.

    def test_r049_unfinished_thinking_is_no_answer(self):
        asked = {"max_tokens": 4, "chat_template_kwargs": {}}
        got = self.chat("What is 17 + 25?", **asked)
        message = got["choices"][0]["message"]
        self.assertEqual((message["content"], got["choices"][0]["finish_reason"]), ("", "length"))
        self.assertTrue(message["reasoning_content"])
        self.assertEqual((got["usage"]["completion_tokens"], got["usage"]["completion_tokens_details"]["reasoning_tokens"]), (4, 4))
        streamed = self.stream("What is 17 + 25?", **asked)
        self.assertEqual((streamed.content, streamed.reasoning, streamed.finish), ("", message["reasoning_content"], "length"))
        claude = self.server.post("/v1/messages", {"max_tokens": 4, "temperature": 0, "thinking": {"type": "enabled", "budget_tokens": 1024},
                                                   "messages": [user("What is 17 + 25?")]}).json()
        self.assertEqual([block["type"] for block in claude["content"]], ["thinking"])
        self.assertEqual((claude["content"][0]["thinking"], claude["stop_reason"]), (message["reasoning_content"], "max_tokens"))
        newer = self.server.post("/v1/responses", {"max_output_tokens": 4, "temperature": 0, "input": "What is 17 + 25?"}).json()
        self.assertEqual([item["type"] for item in newer["output"]], ["reasoning"])
        self.assertEqual((newer["status"], newer["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))

    def test_r053_thinking_is_switched_in_every_spelling(self):
        ways = [{"enable_thinking": False}, {"chat_template_kwargs": {"enable_thinking": False}}, {"reasoning_effort": "none"}]
        got = [self.rendered("Capital of Kenya?", **{"chat_template_kwargs": None, **way}) for way in ways]
        self.assertTrue(got[0]["prompt"].endswith("<think>\n\n</think>\n\n"))
        self.assertTrue(all(one["tokens"] == got[0]["tokens"] for one in got))
        self.refused(400, "Hi", enable_thinking=False, reasoning_effort="high", chat_template_kwargs=None)
        self.refused(400, "Hi", enable_thinking=True)  # Against chat_template_kwargs.
        self.assertEqual(self.refused(400, "Hi", enable_thinking="false", chat_template_kwargs=None)["param"], "enable_thinking")
        self.refused(400, "Hi", chat_template_kwargs={"enable_thinking": "false"})
        self.refused(400, "Hi", chat_template_kwargs={"thinking": False})
        self.refused(400, "Hi", reasoning_effort="lots", chat_template_kwargs=None)


if __name__ == "__main__":
    main()
