"""Cases of reuse, of several requests at once and of leaving, over HTTP."""
import json
import shutil
import socket
import threading
import time

from harness import Case, main, scratch
from serving import (CAPITAL_ANSWER, CAPITAL_QUESTION, COUNTING, ENDLESS, OFF, Server, ServerCase, Streamed, assistant, long_text,
                     parse_events, system, tools, user)

CHAT = "/v1/chat/completions"
ZOE = "The secret word of Zoe is leaf-254."


def cached(reply):
    return reply["usage"]["prompt_tokens_details"]["cached_tokens"]


def prompt(reply):
    return reply["usage"]["prompt_tokens"]


def text_of(reply):
    return reply["choices"][0]["message"]["content"]


class Reuse(ServerCase):
    def turns(self, **fields):
        messages, out = [], []
        for question in (CAPITAL_QUESTION, "What colour is snow?", "What is 17 + 25?"):
            messages.append(user(question))
            out.append(self.chat(messages, **fields))
            messages.append(out[-1]["choices"][0]["message"])
        return out

    def test_r001_a_turn_computes_only_what_is_new(self):
        before = self.server.metrics()
        turns = self.turns()
        after = self.server.metrics()
        for earlier, later in zip(turns, turns[1:]):
            self.assertGreaterEqual(cached(later), prompt(earlier) - 8)
        self.assertEqual(text_of(turns[2]), "17 + 25 = 42")
        computed = after["lily_prompt_tokens_total"] - before["lily_prompt_tokens_total"]
        self.assertEqual(computed, sum(prompt(turn) - cached(turn) for turn in turns))
        kept = self.turns(preserve_thinking=True)
        for earlier, later in zip(kept, kept[1:]):
            self.assertGreaterEqual(cached(later), prompt(earlier) + earlier["usage"]["completion_tokens"] - 4)
        self.assertEqual(text_of(kept[2]), "17 + 25 = 42")

    def test_r003_a_regenerate_reads_only_the_end(self):
        first = self.chat(long_text(60, seed=11))
        second = self.chat(long_text(60, seed=11))
        self.assertEqual(cached(first), 0)
        self.assertGreaterEqual(cached(second), prompt(second) - 16)
        self.assertLess(cached(second), prompt(second))
        self.assertEqual(self.stream(long_text(60, seed=11)).content, text_of(first))
        self.assertEqual(text_of(second), text_of(first))

    def test_r005_reuse_can_be_counted(self):
        before = self.server.metrics()
        first = self.chat("Capital of Norway?")
        second = self.chat([user("Capital of Norway?"), first["choices"][0]["message"], user("Capital of Peru?")])
        after = self.server.metrics()
        self.assertGreaterEqual(after["lily_prefix_hits_total"], before["lily_prefix_hits_total"] + 1)
        self.assertEqual(after["lily_reused_tokens_total"] - before["lily_reused_tokens_total"], cached(first) + cached(second))
        self.assertGreater(cached(second), 0)

    def test_r007_preserved_thinking_makes_turns_append_only(self):
        asked = {"chat_template_kwargs": {"preserve_thinking": True}, "max_tokens": 1000}
        first = self.chat("What is 17 + 25?", **asked)
        again = [user("What is 17 + 25?"), first["choices"][0]["message"], user("What is 3 + 4?")]
        second = self.chat(again, **asked)
        self.assertGreaterEqual(cached(second), prompt(first) + first["usage"]["completion_tokens"] - 4)
        dropped = self.chat(again, chat_template_kwargs={}, max_tokens=1000)
        self.assertIn(dropped["lily"]["cache"]["limit"], ("differs", "no checkpoint"))
        self.assertLess(cached(dropped), prompt(first))
        self.assertIn("3 + 4", text_of(second))

    def test_r009_an_edited_message_is_never_reused_wrongly(self):
        whole = long_text(100, seed=12)
        shorter = " ".join(whole.split()[:-20])
        fresh = Server()
        alone = [text_of(fresh.post(CHAT, self.body(t)).json()) for t in (whole, shorter, "Hi")]
        fresh.stop()
        self.assertEqual([self.text(t) for t in (whole, shorter, "Hi", whole)], [*alone, alone[0]])
        self.assertEqual(self.server.get("/health").status, 200)

    def test_r013_a_miss_gives_its_reason(self):
        long = long_text(60, seed=13)
        first = self.chat([system("You are a helpful assistant."), user(long)])
        second = self.chat([system("You are a useful assistant."), user(long)])
        notes = second["lily"]["cache"]
        self.assertIn(notes["limit"], ("differs", "no checkpoint"))
        self.assertLess(notes["matched_tokens"], 20)
        self.assertLessEqual(notes["reused_tokens"], notes["matched_tokens"])
        again = self.chat([system("You are a useful assistant."), user(long)])
        self.assertEqual(again["lily"]["cache"]["matched_tokens"], prompt(again))
        self.assertGreaterEqual(cached(again), prompt(again) - 16)
        self.assertTrue(first["lily"]["cache"]["limit"])

    def test_r019_two_chats_in_turn_stay_warm(self):
        chats = [[user(long_text(60, seed=7))], [user(long_text(60, seed=8))]]
        last = [None, None]
        for round_ in range(3):
            for which, messages in enumerate(chats):
                got = self.chat(messages)
                if last[which] is not None:
                    self.assertGreaterEqual(cached(got), last[which] - 8)
                elif which == 0:
                    self.assertEqual(text_of(got), ZOE)
                last[which] = prompt(got)
                messages += [got["choices"][0]["message"], user("Capital of Cuba?")]

    def test_r023_r025_history_renders_to_what_was_generated(self):
        question = [user("What is the weather in Paris?")]
        first = self.chat(question, tools=tools())
        result = {"role": "tool", "tool_call_id": first["choices"][0]["message"]["tool_calls"][0]["id"], "content": '{"sky": "sunny", "degrees": 20}'}
        second = self.chat([*question, first["choices"][0]["message"], result], tools=tools())
        # The template closed the think block in both: the turn of calls is found again whole.
        self.assertGreaterEqual(cached(second), prompt(first) + first["usage"]["completion_tokens"] - 4)
        third = self.chat([*question, first["choices"][0]["message"], result, second["choices"][0]["message"], user("What is the weather in Rome?")], tools=tools())
        made = third["choices"][0]["message"]["tool_calls"]
        self.assertEqual([(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in made], [("get_weather", {"city": "Rome"})])

    def test_r037_prompts_of_a_few_tokens_work(self):
        for n in range(1, 6):
            got = self.server.post("/v1/completions", {"prompt": [262] * n, "max_tokens": 2, "temperature": 0}).json()
            self.assertEqual(got["usage"]["prompt_tokens"], n)


class SmallBudget(ServerCase):
    arguments = ("--cache-mib", "16")

    def test_r011_the_least_recently_used_makes_room(self):
        before = self.server.metrics()
        for _ in range(2):
            for seed in range(20, 32):
                self.chat(long_text(20, seed=seed), max_tokens=2)
                self.assertGreater(cached(self.chat(long_text(20, seed=seed), max_tokens=2)), 0)
                self.assertLessEqual(self.server.metrics()["lily_checkpoint_bytes"], 16 << 20)
        self.assertGreater(self.server.metrics()["lily_checkpoint_evictions_total"], before["lily_checkpoint_evictions_total"])


class Restarts(Case):
    def test_r025_states_survive_a_restart(self):
        folder = scratch / "states"
        body = {"model": "pocket", "temperature": 0, "max_tokens": 32, "messages": [user(long_text(60))], **OFF}
        texts = []
        for round_ in range(2):
            server = Server("--state-dir", folder)
            got = server.post(CHAT, body).json()
            texts.append(text_of(got))
            self.assertEqual(cached(got) > 0, round_ == 1)
            self.assertEqual(server.stop(), 0)
        self.assertEqual(texts, [ZOE] * 2)
        for file in folder.rglob("*"):
            if file.is_file() and file.stat().st_size > 1000:
                data = bytearray(file.read_bytes())
                data[len(data) // 2] ^= 1
                file.write_bytes(data)
        server = Server("--state-dir", folder)
        self.assertEqual(text_of(server.post(CHAT, body).json()), ZOE)  # A damaged file is left aside.
        self.assertEqual(server.stop(), 0)
        shutil.rmtree(folder)


class Together(ServerCase):
    def test_r027_answers_side_by_side_are_those_alone(self):
        asked = [long_text(60), long_text(100), "Capital of Japan?", COUNTING, CAPITAL_QUESTION, "What is 17 + 25?",
                 "Repeat after me: fox bear lamp", "Tell me a story."]
        alone = [self.chat(t, logprobs=True, max_tokens=40)["choices"][0] for t in asked]
        got = [None] * len(asked)

        def ask(i):
            time.sleep(0.03 * i)
            got[i] = self.chat(asked[i], logprobs=True, max_tokens=40)["choices"][0]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(asked))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, alone)


class OneSlot(ServerCase):
    arguments = ("--parallel", "1", "--queue", "2")

    def test_r081_leaving_the_queue_hits_nobody_else(self):
        story = self.body("Tell me a story.", max_tokens=200, **ENDLESS)
        alone = self.text("Tell me a story.", max_tokens=200, **ENDLESS)
        result = {}

        def run():
            result["a"] = Streamed(self.server.events(CHAT, story))

        runner = threading.Thread(target=run)
        runner.start()
        self.eventually(lambda: self.server.metrics()["lily_requests_running"] == 1, "A runs")
        waiting = []
        for _ in range(2):
            one = socket.create_connection(("127.0.0.1", self.server.port), 60)
            data = json.dumps(story).encode()
            one.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
            waiting.append(one)
        self.eventually(lambda: self.server.metrics()["lily_requests_waiting"] == 2, "B and C wait")
        full = self.server.post(CHAT, self.body("Hi"))
        self.assertEqual((full.status, full.error["type"]), (429, "rate_limit_error"))
        self.assertGreater(int(full.headers["retry-after"]), 0)
        for one in waiting:
            one.close()
        self.eventually(lambda: self.server.metrics()["lily_requests_waiting"] == 0, "the queue is empty")
        self.assertEqual(self.text(CAPITAL_QUESTION), CAPITAL_ANSWER)
        runner.join()
        self.assertEqual((result["a"].content, result["a"].finish), (alone, "length"))
        self.eventually(lambda: self.server.metrics()["lily_requests_running"] == 0, "nothing runs")

    def test_a_client_that_leaves_frees_its_place(self):
        for stream in (True, False):
            with self.server.open(CHAT, self.body("Tell me a story.", stream=True, max_tokens=4000, **ENDLESS)) if stream else self.silent() as one:
                if stream:
                    one.readline()
                self.eventually(lambda: self.server.metrics()["lily_requests_running"] == 1, "it runs")
            began = time.monotonic()
            self.eventually(lambda: self.server.metrics()["lily_requests_running"] == 0, "its place is free")
            self.assertLess(time.monotonic() - began, 10)

    def silent(self):
        data = json.dumps(self.body("Tell me a story.", max_tokens=4000, **ENDLESS)).encode()
        one = socket.create_connection(("127.0.0.1", self.server.port), 60)
        one.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        return one


class SlowPrompt(ServerCase):
    arguments = ("--backend", "reference", "--chunk", "16")

    def test_r083_a_stream_is_never_silent_for_long(self):
        with self.server.open(CHAT, self.body(long_text(20), stream=True, max_tokens=2)) as response:
            began = last = time.monotonic()
            self.assertEqual(response.status, 200)
            self.assertLess(time.monotonic() - began, 1)
            gaps, text = [], ""
            while line := response.readline().decode():
                gaps.append(time.monotonic() - last)
                last = time.monotonic()
                text += line
        self.assertLess(max(gaps), 5)
        self.assertTrue(Streamed(parse_events(text)).done)
        self.took = last - began


if __name__ == "__main__":
    main()
