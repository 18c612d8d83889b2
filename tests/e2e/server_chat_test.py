"""lily serve: chat completions as their clients know them, whole and streamed."""
import json

from harness import main
from serving import CAPITAL_ANSWER, CAPITAL_QUESTION, COUNTING, ENDLESS, OFF, Server, ServerCase, assistant, system, user

PARIS = [user(CAPITAL_QUESTION)]


class ChatCompletions(ServerCase):
    def test_a_question_is_answered_with_all_fields_of_a_reply(self):
        got = self.chat(CAPITAL_QUESTION, metadata={"a": "b"}, user="me")
        self.assertEqual(got["object"], "chat.completion")
        self.assertTrue(got["id"].startswith("chatcmpl-"))
        self.assertEqual(got["model"], "pocket")
        choice = got["choices"][0]
        self.assertEqual(choice["message"], {"role": "assistant", "content": CAPITAL_ANSWER, "refusal": None})
        self.assertEqual((choice["index"], choice["finish_reason"], choice["logprobs"]), (0, "stop", None))
        usage = got["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"]), (19, 7))
        self.assertEqual(got["lily"]["ignored"], ["user", "metadata"])

    def test_a_stream_says_the_same(self):
        for fields in ({}, {"chat_template_kwargs": {"enable_thinking": True}}):
            with self.subTest(fields):
                plain = self.chat("What is 17 + 25?", **fields)
                got = self.stream("What is 17 + 25?", stream_options={"include_usage": True}, **fields)
                message = plain["choices"][0]["message"]
                self.assertEqual((got.content, got.reasoning), (message["content"], message.get("reasoning_content", "")))
                self.assertEqual(got.finish, "stop")
                self.assertTrue(got.done)
                for key in ("prompt_tokens", "completion_tokens"):
                    self.assertEqual(got.usage[key], plain["usage"][key])
                self.assertEqual(got.chunks[0]["choices"][0]["delta"]["role"], "assistant")
                self.assertEqual(got.chunks[-1]["choices"], [])
                self.assertEqual(len({chunk["id"] for chunk in got.chunks}), 1)

    def test_usage_is_streamed_only_where_it_is_wanted(self):
        self.assertIsNone(self.stream(CAPITAL_QUESTION).usage)

    def test_thinking_is_apart(self):
        got = self.chat("What is 35 plus 43?", chat_template_kwargs={})
        message = got["choices"][0]["message"]
        self.assertEqual(message["content"], "35 + 43 = 78")
        self.assertIn("total 78.", message["reasoning_content"])
        details = got["usage"]["completion_tokens_details"]
        self.assertGreater(details["reasoning_tokens"], 10)
        self.assertLess(details["reasoning_tokens"], got["usage"]["completion_tokens"])

    def test_a_conversation_goes_on(self):
        self.assertEqual(self.text([*PARIS, assistant(CAPITAL_ANSWER), user("What is 17 + 25?")]), "17 + 25 = 42")

    def test_log_probabilities_come_with_alternatives_and_bytes(self):
        got = self.chat(CAPITAL_QUESTION, logprobs=True, top_logprobs=3)
        rows = got["choices"][0]["logprobs"]["content"]
        self.assertEqual(len(rows), got["usage"]["completion_tokens"])
        self.assertEqual(bytes(byte for row in rows for byte in row["bytes"]).decode(), CAPITAL_ANSWER)
        for row in rows:
            self.assertLessEqual(row["logprob"], 1e-5)
            self.assertEqual(len(row["top_logprobs"]), 3)
            self.assertEqual(row["top_logprobs"][0]["token"], row["token"])  # Greedy.
        streamed = self.stream(CAPITAL_QUESTION, logprobs=True, top_logprobs=3)
        self.assertEqual(streamed.logprobs, rows)

    def test_thinking_has_no_log_probabilities(self):
        got = self.chat("What is 35 plus 43?", chat_template_kwargs={}, logprobs=True)
        rows = got["choices"][0]["logprobs"]["content"]
        self.assertEqual("".join(row["token"] for row in rows).strip(), "35 + 43 = 78")

    def test_a_seed_repeats_an_answer(self):
        wild = {"temperature": 2, "max_tokens": 20}
        first = self.chat("Tell me a story.", **wild)
        again = self.text("Tell me a story.", **wild, seed=first["lily"]["seed"])
        self.assertEqual(again, first["choices"][0]["message"]["content"])
        self.assertNotEqual(self.text("Tell me a story.", **wild, seed=1), self.text("Tell me a story.", **wild, seed=2))

    def test_choices_differ_by_their_seed(self):
        wild = {"temperature": 2, "max_tokens": 12, "seed": 5}
        both = self.chat("Tell me a story.", n=2, **wild)
        texts = [choice["message"]["content"] for choice in both["choices"]]
        self.assertEqual([choice["index"] for choice in both["choices"]], [0, 1])
        self.assertEqual(texts, [self.text("Tell me a story.", **{**wild, "seed": 5 + i}) for i in range(2)])
        events = self.server.events("/v1/chat/completions", self.body("Tell me a story.", n=2, **wild))
        streamed = ["", ""]
        for _, chunk in events[:-1]:
            for choice in chunk["choices"]:
                streamed[choice["index"]] += choice["delta"].get("content") or ""
        self.assertEqual(streamed, texts)

    def test_progress_is_told_to_who_asks(self):
        events = self.server.events("/v1/chat/completions", self.body("Tell me a story.", return_progress=True, max_tokens=2))
        progress = [chunk["prompt_progress"] for _, chunk in events[:-1] if "prompt_progress" in chunk]
        self.assertEqual(progress[-1]["processed"], progress[-1]["total"])

    def test_the_model_may_have_any_name(self):
        self.assertEqual(self.chat(CAPITAL_QUESTION, model="gpt-4o")["model"], "gpt-4o")

    def test_fields_are_refused_by_name(self):
        for name, value in {"temperature": "hot", "top_p": 1.5, "n": 0, "max_tokens": 0, "top_k": 1.5, "min_p": -1, "stop": 5,
                            "stream": "yes", "logit_bias": {"x": 1}, "presence_penalty": 3, "seed": "a", "tools": {},
                            "tool_choice": "maybe", "functions": [{"name": "f"}], "audio": {}, "modalities": ["audio"],
                            "top_logprobs": 2, "logprobs": "yes", "stream_options": [], "chat_template_kwargs": 1,
                            "best_of": 2, "grammar": "root", "response_format": {"type": "nonsense"}}.items():
            with self.subTest(name):
                error = self.refused(400, CAPITAL_QUESTION, **{name: value})
                self.assertTrue((error["param"] or "").startswith(name), error)
                self.assertIn(name, error["message"])
                self.assertEqual(error["type"], "invalid_request_error")

    def test_what_is_null_is_not_there(self):
        nothing = dict.fromkeys(("temperature", "tools", "stop", "n", "logit_bias", "response_format", "stream_options", "seed",
                                 "tool_choice", "max_completion_tokens", "audio", "foo"))
        self.assertEqual(self.chat(CAPITAL_QUESTION, **{**nothing, "temperature": 0})["lily"]["ignored"], [])


class OtherRoutes(ServerCase):
    def test_models(self):
        listed = self.server.get("/v1/models").json()["data"]
        self.assertEqual([model["id"] for model in listed], ["pocket"])
        self.assertEqual(self.server.get("/v1/models/pocket").json()["id"], "pocket")
        self.assertEqual(self.server.get("/v1/models/other").status, 404)

    def test_health_readiness_version(self):
        self.assertEqual(self.server.get("/health").json(), {"status": "ok"})
        self.assertEqual(self.server.get("/ready").json(), {"status": "ready"})
        self.assertEqual(self.server.get("/version").json()["model"], "pocket")

    def test_tokens_there_and_back(self):
        text = "Capital of Kenya? ü 👋<|im_end|>"
        tokens = self.server.post("/tokenize", {"content": text}).json()
        self.assertEqual(tokens["count"], len(tokens["tokens"]))
        self.assertEqual(tokens["tokens"][-1], 4072)
        self.assertEqual(self.server.post("/detokenize", {"tokens": tokens["tokens"]}).json()["content"], text)
        plain = self.server.post("/tokenize", {"content": text, "parse_special": False}).json()["tokens"]
        self.assertNotIn(4072, plain)
        self.assertEqual(self.server.post("/detokenize", {"tokens": [99999]}).error["param"], "tokens[0]")

    def test_the_template_is_shown(self):
        got = self.rendered([system("Be brief."), user("Hi")])
        self.assertEqual(got["prompt"], "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                                        "<|im_start|>assistant\n<think>\n\n</think>\n\n")
        self.assertEqual(got["count"], self.chat([system("Be brief."), user("Hi")])["usage"]["prompt_tokens"])

    def test_completions_continue_a_text(self):
        prompt = self.rendered(PARIS)["prompt"]
        body = {"model": "pocket", "prompt": prompt, "temperature": 0, "max_tokens": 32}
        got = self.server.post("/v1/completions", body).json()
        self.assertEqual(got["choices"][0]["text"], CAPITAL_ANSWER)
        self.assertEqual((got["object"], got["choices"][0]["finish_reason"]), ("text_completion", "stop"))
        tokens = self.server.post("/tokenize", {"content": prompt}).json()["tokens"]
        self.assertEqual(self.server.post("/v1/completions", {**body, "prompt": tokens}).json()["choices"], got["choices"])
        self.assertEqual(self.server.post("/v1/completions", {**body, "prompt": [prompt]}).json()["choices"], got["choices"])
        events = self.server.events("/v1/completions", body)
        self.assertEqual("".join(c["text"] for _, e in events[:-1] for c in e["choices"]), CAPITAL_ANSWER)
        echoed = self.server.post("/v1/completions", {**body, "echo": True}).json()["choices"][0]["text"]
        self.assertEqual(echoed, prompt + CAPITAL_ANSWER)
        lists = self.server.post("/v1/completions", {**body, "logprobs": 2}).json()["choices"][0]["logprobs"]
        self.assertEqual("".join(lists["tokens"]), CAPITAL_ANSWER)
        self.assertEqual(len(lists["token_logprobs"]), len(lists["top_logprobs"]))

    def test_a_prompt_that_is_echoed_is_scored(self):
        prompt = self.rendered(PARIS)["prompt"]
        asked = {"model": "pocket", "temperature": 0, "logprobs": 2, "max_tokens": 8}
        ids = self.server.post("/tokenize", {"content": prompt}).json()["tokens"]
        alone = self.server.post("/v1/completions", {**asked, "prompt": ids}).json()["choices"][0]["logprobs"]
        # What was generated, given as a prompt: predicted as it was when it was generated. Twice, though the second could begin at a kept state.
        both = ids + self.server.post("/tokenize", {"content": CAPITAL_ANSWER}).json()["tokens"]
        for n in (1, 2):
            got = self.server.post("/v1/completions", {**asked, "prompt": both, "echo": True, "n": n, "max_tokens": 1}).json()
            self.assertEqual(got["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
            for choice in got["choices"]:
                lists = choice["logprobs"]
                self.assertTrue(choice["text"].startswith(prompt + CAPITAL_ANSWER))
                self.assertTrue(len(both) <= len(lists["tokens"]) <= len(both) + 1)  # And what follows, unless that is the end.
                self.assertEqual((lists["token_logprobs"][0], lists["top_logprobs"][0]), (None, None))
                for key in ("tokens", "token_logprobs", "top_logprobs"):
                    self.assertEqual(lists[key][len(ids):len(both)], alone[key][:len(both) - len(ids)], key)
                self.assertEqual(lists["text_offset"][len(ids)], len(prompt.encode()))
        whole = self.server.post("/v1/completions", {**asked, "prompt": both, "echo": True}).json()["choices"][0]
        chunks = [e["choices"][0] for _, e in self.server.events("/v1/completions", {**asked, "prompt": both, "echo": True})[:-1]]
        self.assertEqual("".join(chunk["text"] for chunk in chunks), whole["text"])
        for key in whole["logprobs"]:
            self.assertEqual(sum((chunk["logprobs"][key] for chunk in chunks), []), whole["logprobs"][key], key)
        one = self.server.post("/v1/completions", {**asked, "prompt": [262], "echo": True, "max_tokens": 1}).json()["choices"][0]["logprobs"]
        self.assertEqual(one["token_logprobs"][0], None)

    def test_figures_rise(self):
        before = self.server.metrics()
        self.chat(CAPITAL_QUESTION)
        after = self.server.metrics()
        self.assertEqual(after["lily_answers_finished_total"], before.get("lily_answers_finished_total", 0) + 1)
        self.assertEqual(after["lily_generated_tokens_total"] - before["lily_generated_tokens_total"], 7)
        self.eventually(lambda: self.server.metrics()["lily_requests_running"] == 0, "nothing runs")

    def test_the_page_and_the_description_are_in_the_program(self):
        page = self.server.get("/")
        self.assertEqual((page.status, page.headers["content-type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'none'", page.headers["content-security-policy"])
        for path in ("/page.css", "/page.js"):
            self.assertIn(f'"{path}"', page.body)
            self.assertEqual(self.server.get(path).status, 200)
        paths = self.server.get("/openapi.json").json()["paths"]
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/tokenize", "/health"):
            self.assertIn(path, paths)


class ThinkingOff(ServerCase):
    arguments = ("--no-thinking",)

    def test_the_server_has_a_default_for_thinking(self):
        prompt = {"model": "pocket", "messages": PARIS}
        self.assertTrue(self.server.post("/apply-template", prompt).json()["prompt"].endswith("<think>\n\n</think>\n\n"))
        asked = self.server.post("/apply-template", {**prompt, "reasoning_effort": "high"}).json()["prompt"]
        self.assertTrue(asked.endswith("<think>\n"))


if __name__ == "__main__":
    main()
