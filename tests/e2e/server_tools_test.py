"""Cases of tool calls, structured output and other doors; replayed answers show parsers, streams and endings."""
import json
import threading

from harness import main
from serving import (CAPITAL_ANSWER, CAPITAL_QUESTION, OFF, ServerCase, Streamed, assistant, parse_events, system, tools, user)

CHAT = "/v1/chat/completions"
WEATHER = "What is the weather in Paris?"


def call(tool, /, **values):
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function={tool}>\n{inner}</function>\n</tool_call>"


PARIS_CALL = call("get_weather", city="Paris")


class Replayed(ServerCase):
    arguments = ("--replay",)

    def both(self, text, given=None, **fields):
        """The message of the plain reply, which the stream has to equal."""
        fields = {"tools": given or tools(), "replay": text, "max_tokens": 400, **fields}
        plain = self.chat("Hi", **fields)["choices"][0]
        streamed = self.stream("Hi", **fields)
        message = plain["message"]
        calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]
        self.assertEqual(streamed.content, message["content"] or "")
        self.assertEqual(streamed.reasoning, message.get("reasoning_content", ""))
        self.assertEqual([(c["name"], c["arguments"]) for c in streamed.calls], calls)
        self.assertEqual(streamed.finish, plain["finish_reason"])
        return plain, [(name, json.loads(arguments)) for name, arguments in calls]

    def test_a_replay_is_the_answer(self):
        got = self.chat(CAPITAL_QUESTION, replay="Anything at all.")
        self.assertEqual((got["choices"][0]["message"]["content"], got["choices"][0]["finish_reason"]), ("Anything at all.", "stop"))

    def test_r051_without_thinking_all_text_is_content(self):
        sentence = "The capital of France is Paris."
        for fields, content, thoughts in [({}, sentence, None), ({"chat_template_kwargs": {}}, "", sentence)]:
            message = self.both(sentence, **fields)[0]["message"]
            self.assertEqual((message["content"], message.get("reasoning_content")), (content, thoughts))

    def test_r057_numbers_are_converted_where_they_are_exact(self):
        for text, value in [("5", 5), ("3.0", 3), ("1e3", 1000), ("abc", "abc"), ("", ""), ("12345678901234567890", 12345678901234567890)]:
            got, calls = self.both(call("set_timer", minutes=text))
            self.assertEqual((calls, got["finish_reason"]), ([("set_timer", {"minutes": value})], "tool_calls"), text)
        numbers = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}}]
        for text, value in [("1.5", 1.5), ("-0", 0), ("NaN", "NaN")]:
            self.assertEqual(self.both(call("add", a=text), numbers)[1], [("add", {"a": value})], text)

    def test_r059_inner_types_decide(self):
        tool = {"type": "function", "function": {"name": "t", "parameters": {"type": "object", "properties": {
            "ids": {"type": "array", "items": {"type": "string"}}, "box": {"type": "object", "properties": {"w": {"type": "string"}}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "any": {}}}}}
        self.assertEqual(self.both(call("t", ids='["01", "2"]', box='{"w": "7"}', note="null", any="5"), [tool])[1],
                         [("t", {"ids": ["01", "2"], "box": {"w": "7"}, "note": None, "any": 5})])
        self.assertEqual(self.both(call("t", ids="[01]", box='{"w": 7}'), [tool])[1], [("t", {"ids": "[01]", "box": {"w": 7}})])

    def test_r061_markup_in_a_value_survives(self):
        for value in ("a </parameter> b", "</function>", "\nx\n", 'say "hi" \\ there', "👨‍👩‍👧", "<tool_call>x"):
            with self.subTest(value):
                self.assertEqual(self.both(call("find_file", name=value))[1], [("find_file", {"name": value})])

    def test_r063_a_cut_call_is_no_call(self):
        tokens = self.server.post("/tokenize", {"content": PARIS_CALL}).json()["tokens"]
        for n in range(1, len(tokens) + 1):
            fields = {"tools": tools(), "replay": PARIS_CALL, "max_tokens": n}
            plain = self.chat("Hi", **fields)["choices"][0]
            streamed = self.stream("Hi", **fields)
            whole = plain["finish_reason"] == "tool_calls"
            self.assertEqual(streamed.finish, plain["finish_reason"])
            self.assertEqual(whole, "tool_calls" in plain["message"])
            self.assertEqual(plain["finish_reason"], "tool_calls" if whole else "length")
            if n % 6:
                continue
            self.chat([user("Hi"), plain["message"], user("Go on")], tools=tools(), max_tokens=1)
            partial = [{"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}} for c in streamed.calls]
            self.chat([user("Hi"), assistant(streamed.content, tool_calls=partial), user("Go on")], tools=tools(), max_tokens=1)
        self.assertTrue(whole)

    def test_r065_several_calls_come_in_order(self):
        text = "First.\n\n" + call("add", a=1, b=2) + "\nThen.\n" + call("get_weather", city="Rome") + "\n" + call("set_timer", minutes=5)
        got, calls = self.both(text)
        self.assertEqual([name for name, _ in calls], ["add", "get_weather", "set_timer"])
        self.assertIn("First.", got["message"]["content"])
        self.assertIn("Then.", got["message"]["content"])
        self.assertEqual(len({c["id"] for c in got["message"]["tool_calls"]}), 3)
        self.assertEqual([name for name, _ in self.both(text, parallel_tool_calls=False)[1]], ["add"])

    def test_r067_a_call_without_its_wrapper_is_recovered(self):
        def bare(name):
            return f"<function={name}>\n<parameter=city>\nParis\n</parameter>\n</function>"
        self.assertEqual(self.both(bare("get_weather"))[1], [("get_weather", {"city": "Paris"})])
        for text in (bare("fly"), "```\n" + bare("get_weather") + "\n```"):
            got, calls = self.both(text)
            self.assertEqual((got["message"]["content"], calls, got["finish_reason"]), (text, [], "stop"))
        got = self.chat("Hi", replay=bare("get_weather"))["choices"][0]
        self.assertEqual((got["message"]["content"], got["finish_reason"]), (bare("get_weather"), "stop"))

    def test_r069_none_means_none(self):
        asked = {"tools": tools(), "max_tokens": 60}
        self.assertEqual(self.chat("Set a tea timer for 5 minutes.", **asked)["choices"][0]["finish_reason"], "tool_calls")
        got = self.chat("Set a tea timer for 5 minutes.", tool_choice="none", **asked)
        self.assertNotIn("tool_calls", got["choices"][0]["message"])
        self.assertGreater(got["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        got, calls = self.both(PARIS_CALL, tool_choice="none")
        self.assertEqual((got["message"]["content"], calls, got["finish_reason"]), (PARIS_CALL, [], "stop"))

    def test_r071_nothing_is_swallowed(self):
        text = "I will look at the file now."
        got, calls = self.both(text)
        self.assertEqual((got["message"]["content"], calls, got["finish_reason"]), (text, [], "stop"))
        got, calls = self.both(text + "\n\n" + PARIS_CALL)
        self.assertEqual((got["message"]["content"], calls, got["finish_reason"]), (text, [("get_weather", {"city": "Paris"})], "tool_calls"))

    def test_r079_a_stop_string_over_three_tokens(self):
        tokens = self.server.post("/tokenize", {"content": "fox, bear and lamp", "with_pieces": True}).json()["tokens"]
        stop = "".join(token["piece"] for token in tokens[1:4])
        got, _ = self.both("fox, bear and lamp", stop=stop)
        self.assertEqual((got["message"]["content"], got["finish_reason"]), (tokens[0]["piece"], "stop"))

    def test_r097_bytes_that_are_no_text_are_shown_as_such(self):
        singles = {}
        for byte in range(0x80, 0x100):
            found = [t for t in range(4096) if self.piece_bytes().get(t) == [byte]]
            if found:
                singles[byte] = found[0]
        self.assertGreater(len(singles), 100)
        before, after = (self.server.post("/tokenize", {"content": text}).json()["tokens"] for text in ("one ", " two"))
        for byte in list(singles)[::16]:
            for tokens, text in [([*before, singles[byte], *after], "one \ufffd two"), ([*before, singles[byte]], "one \ufffd")]:
                got, _ = self.both(tokens, logprobs=True)
                self.assertEqual(got["message"]["content"], text)
                self.assertIn([byte], [row["bytes"] for row in got["logprobs"]["content"]])
        byte = next(iter(singles))
        thoughts = self.both([*before, singles[byte], *after], chat_template_kwargs={})[0]["message"]["reasoning_content"]
        self.assertEqual(thoughts, "one \ufffd two")
        opening, closing = (self.server.post("/tokenize", {"content": part}).json()["tokens"] for part in PARIS_CALL.split("Paris"))
        self.assertEqual(self.both([*opening, singles[byte], *closing])[1], [("get_weather", {"city": "\ufffd"})])

    def piece_bytes(self):
        if not hasattr(type(self), "pieces"):
            vocabulary = json.loads((self.pocket() / "tokenizer.json").read_text())["model"]["vocab"]
            printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
            others = [byte for byte in range(256) if byte not in printable]
            table = {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
            type(self).pieces = {token: [table[c] for c in text] for text, token in vocabulary.items() if all(c in table for c in text)}
        return self.pieces

    @staticmethod
    def pocket():
        from harness import POCKET
        return POCKET

    def test_r121_tools_of_other_kinds(self):
        given = [{"type": "function", "name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
                 {"type": "custom", "name": "patch", "description": "Changes a file"},
                 {"type": "namespace", "name": "files", "tools": [{"type": "function", "name": "find", "parameters": {"type": "object"}}]},
                 {"type": "web_search"}, {"type": "teleport"}]
        body = {"input": "Hi", "tools": given, "temperature": 0, "max_output_tokens": 200, "reasoning": {"effort": "none"}}
        got = self.server.post("/v1/responses", {**body, "replay": call("patch", input="*** Begin\n+a")}).json()
        self.assertEqual([note for note in got["lily"]["ignored"] if note.startswith("tools")],
                         ["tools[3]: web_search is not run here", "tools[4]: teleport is not run here"])
        item = got["output"][0]
        self.assertEqual((item["type"], item["name"], item["input"]), ("custom_tool_call", "patch", "*** Begin\n+a"))
        events = self.server.events("/v1/responses", {**body, "replay": call("patch", input="*** Begin\n+a")})
        self.assertIn(("response.custom_tool_call_input.done", "*** Begin\n+a"), [(name, data.get("input")) for name, data in events])
        item = self.server.post("/v1/responses", {**body, "replay": call("find")}).json()["output"][0]
        self.assertEqual((item["type"], item["name"], item["namespace"]), ("function_call", "find", "files"))
        back = [user("Hi"), {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "x"},
                {"type": "custom_tool_call_output", "call_id": "c", "output": "done"}, user("Thanks")]
        self.assertEqual(self.server.post("/v1/responses", {**body, "input": back}).status, 200)


class Anthropic(ServerCase):
    arguments = ("--replay",)
    TOOLS = [{"name": t["function"]["name"], "description": t["function"]["description"], "input_schema": t["function"]["parameters"]} for t in tools()]

    def ask(self, **fields):
        got = self.server.post("/v1/messages", {"model": "pocket", "max_tokens": 200, "temperature": 0, **fields})
        self.assertEqual(got.status, 200, got.body)
        return got.json()

    def test_r055_thinking_comes_back_in_any_form(self):
        asked = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 1000}
        first = self.ask(messages=[user("What is 17 + 25?")], **asked)
        self.assertEqual([block["type"] for block in first["content"]], ["thinking", "text"])
        texts = []
        for change in (lambda b: b, lambda b: {**b, "signature": "x"}, lambda b: {k: v for k, v in b.items() if k != "signature"}):
            content = [change(block) if block["type"] == "thinking" else block for block in first["content"]]
            texts.append(self.ask(messages=[user("What is 17 + 25?"), assistant(content), user(CAPITAL_QUESTION)], **asked)["content"][-1]["text"])
        self.assertEqual(texts, [CAPITAL_ANSWER] * 3)
        redacted = [{"type": "redacted_thinking", "data": "x"}, first["content"][1]]
        self.ask(messages=[user("What is 17 + 25?"), assistant(redacted), user(CAPITAL_QUESTION)], **asked)
        kept = self.ask(messages=[user("What is 17 + 25?"), assistant(first["content"]), user(CAPITAL_QUESTION)],
                        chat_template_kwargs={"preserve_thinking": True}, **asked)
        whole_turn = first["usage"]["input_tokens"] + first["usage"]["cache_read_input_tokens"] + first["usage"]["output_tokens"]
        self.assertGreaterEqual(kept["usage"]["cache_read_input_tokens"], whole_turn - 4)

    def test_r017_a_billing_line_does_not_hide_the_rest(self):
        def asked(mark, first="x-anthropic-billing-header: cc_version=1; cch={};"):
            blocks = [{"type": "text", "text": first.format(mark)}, {"type": "text", "text": "Snow is white. " * 120}]
            return self.ask(system=blocks, messages=[user("What colour is snow?")], max_tokens=5)["usage"]
        first = asked("ab12")
        second = asked("cd34")
        total = first["input_tokens"] + first["cache_read_input_tokens"] + first["cache_creation_input_tokens"]
        self.assertGreater(second["cache_read_input_tokens"], total * 0.9)
        self.assertEqual(asked("other", "Version {}.")["cache_read_input_tokens"], 0)

    def test_r023_cache_fields_add_up(self):
        block = {"type": "text", "text": "Zoe has a lamp. " * 60, "cache_control": {"type": "ephemeral"}}
        count = self.server.post("/v1/messages/count_tokens", {"system": [block], "messages": [user("Hi")]}).json()["input_tokens"]
        for round_ in range(2):
            events = self.server.events("/v1/messages", {"max_tokens": 5, "temperature": 0, "system": [block], "messages": [user("Hi")]})
            start = next(data["message"]["usage"] for name, data in events if name == "message_start")
            end = next(data["usage"] for name, data in events if name == "message_delta")
            keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            self.assertEqual([start[key] for key in keys], [end[key] for key in keys])
            self.assertEqual(sum(start[key] for key in keys), count)
            self.assertEqual(start["cache_read_input_tokens"] > 0, round_ == 1)
        self.assertGreater(end["cache_read_input_tokens"], count * 0.9)

    def test_r123_events_come_in_their_order(self):
        content = [{"type": "text", "text": "Looking."}, {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Rome"}}]
        result = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "And Paris?"}]
        fields = {"max_tokens": 200, "temperature": 0, "tools": self.TOOLS, "system": [{"type": "text", "text": "You are an agent."}],
                  "messages": [user("Weather in Rome?"), assistant(content), user(result)], "replay": "Now Paris.\n\n" + PARIS_CALL}
        events = [(name, data) for name, data in self.server.events("/v1/messages", fields) if name != "ping"]
        self.assertTrue(all(name == data["type"] for name, data in events))
        self.assertEqual([name for name, _ in events if not name.endswith("_delta") or name == "message_delta"],
                         ["message_start", "content_block_start", "content_block_stop", "content_block_start", "content_block_stop", "message_delta", "message_stop"])
        text = "".join(data["delta"]["text"] for name, data in events if data.get("delta", {}).get("type") == "text_delta")
        arguments = "".join(data["delta"]["partial_json"] for name, data in events if data.get("delta", {}).get("type") == "input_json_delta")
        self.assertEqual((text, json.loads(arguments)), ("Now Paris.", {"city": "Paris"}))
        self.assertEqual(events[-2][1]["delta"]["stop_reason"], "tool_use")
        plain = self.ask(**fields)
        self.assertEqual([block["type"] for block in plain["content"]], ["text", "tool_use"])
        self.assertEqual(plain["content"][1]["input"], {"city": "Paris"})

    def test_r125_any_is_enforced(self):
        for choice, name in [({"type": "any"}, None), ({"type": "tool", "name": "set_timer"}, "set_timer")]:
            got = self.ask(tools=self.TOOLS, tool_choice=choice, messages=[user("Hi")])
            self.assertEqual(got["stop_reason"], "tool_use")
            block = got["content"][-1]
            self.assertTrue(block["id"].startswith("toolu_") and got["id"].startswith("msg_"))
            self.assertTrue(name is None or block["name"] == name)
            required = next(tool for tool in self.TOOLS if tool["name"] == block["name"])["input_schema"]["required"]
            self.assertEqual(set(required) - set(block["input"]), set())


class Calls(ServerCase):
    def test_a_tool_is_called_and_its_result_used(self):
        first = self.chat(WEATHER, tools=tools())["choices"][0]
        self.assertEqual(first["finish_reason"], "tool_calls")
        made = first["message"]["tool_calls"][0]
        self.assertEqual((made["function"]["name"], json.loads(made["function"]["arguments"])), ("get_weather", {"city": "Paris"}))
        result = {"role": "tool", "tool_call_id": made["id"], "content": '{"sky": "sunny", "degrees": 20}'}
        self.assertIn("sunny", self.text([user(WEATHER), first["message"], result], tools=tools()))

    def test_r065_two_cities_are_two_calls(self):
        got = self.chat("What is the weather in Paris and Rome?", tools=tools(), max_tokens=100)["choices"][0]["message"]["tool_calls"]
        self.assertEqual([json.loads(c["function"]["arguments"])["city"] for c in got], ["Paris", "Rome"])
        one = self.chat("What is the weather in Paris and Rome?", tools=tools(), max_tokens=100, parallel_tool_calls=False)["choices"][0]
        self.assertEqual((len(one["message"]["tool_calls"]), one["finish_reason"]), (1, "tool_calls"))

    def test_required_and_named_calls_are_made(self):
        for choice in ("required", {"type": "function", "function": {"name": "add"}}):
            for thinking in (True, False):
                with self.subTest((choice, thinking)):
                    got = self.chat("Hi", tools=tools(), tool_choice=choice, max_tokens=300, chat_template_kwargs={"enable_thinking": thinking})["choices"][0]
                    self.assertEqual(got["finish_reason"], "tool_calls")
                    self.assertTrue(choice == "required" or got["message"]["tool_calls"][0]["function"]["name"] == "add")
        self.assertEqual(self.refused(400, "Hi", tools=tools(), tool_choice={"type": "function", "function": {"name": "fly"}})["param"], "tool_choice")
        self.assertEqual(self.refused(400, "Hi", tool_choice="required")["param"], "tool_choice")

    def test_r127_default_bodies_of_clients_pass(self):
        neutral = {"min_p": 0, "top_k": -1, "presence_penalty": 0, "frequency_penalty": 0, "repetition_penalty": 1, "logprobs": False, "n": 1,
                   "user": "u", "store": False, "stop": None, "seed": None, "response_format": {"type": "text"}, "tools": [], "tool_choice": "auto"}
        self.assertEqual(self.text(CAPITAL_QUESTION, **neutral), CAPITAL_ANSWER)
        ui = {"stream_options": {"include_usage": True}, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0, "max_tokens": 100}
        self.assertEqual(self.stream(CAPITAL_QUESTION, **ui).content, CAPITAL_ANSWER)
        agent = {"tools": tools(), "tool_choice": "auto", "parallel_tool_calls": True, "stop": ["</done>"], "top_k": 0, "metadata": {}}
        self.chat(CAPITAL_QUESTION, **agent)
        codex = {"model": "gpt-5-codex", "instructions": "You are an agent.", "input": [{"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": CAPITAL_QUESTION}]}], "tools": [{"type": "function", "name": "shell", "strict": False, "parameters": {"type": "object"}}],
                 "tool_choice": "auto", "parallel_tool_calls": False, "reasoning": {"effort": "none", "summary": "auto"}, "store": False,
                 "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "text": {"verbosity": "low"}, "temperature": 0}
        events = self.server.events("/v1/responses", codex)
        self.assertEqual(events[0][0], "response.created")
        self.assertEqual(events[-1][0], "response.completed")
        self.assertEqual([data["sequence_number"] for _, data in events], list(range(len(events))))
        self.assertTrue(events[-1][1]["response"]["output"])
        claude = {"model": "claude-sonnet-4-5", "max_tokens": 32000, "temperature": 0, "system": [{"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}],
                  "metadata": {"user_id": "u"}, "tools": [{"name": "Bash", "description": "d", "input_schema": {"type": "object", "properties": {}}}], "stream": False,
                  "messages": [user([{"type": "text", "text": CAPITAL_QUESTION, "cache_control": {"type": "ephemeral"}}])]}
        self.assertEqual(self.server.post("/v1/messages", claude, headers={"anthropic-version": "2023-06-01", "anthropic-beta": "x"}).status, 200)
        agents_sdk = {"model": "pocket", "input": CAPITAL_QUESTION, "include": [], "tools": [], "temperature": 0, "reasoning": {"effort": "none"}, "truncation": "disabled"}
        self.assertEqual(self.server.post("/v1/responses", agents_sdk).json()["status"], "completed")


if __name__ == "__main__":
    main()
