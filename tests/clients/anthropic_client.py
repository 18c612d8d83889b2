"""The official `anthropic` package against a running server: messages, streaming, tools, thinking, counting."""
import asyncio
import unittest

import anthropic

from lily_server import LilyServer, TOOLS

server = LilyServer()
client = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0)
PARIS = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"model": "pocket", "max_tokens": 100, "extra_body": {"temperature": 0}}
CLAUDE_TOOLS = [{"name": tool["function"]["name"], "description": tool["function"]["description"],
                 "input_schema": tool["function"]["parameters"]} for tool in TOOLS]
THINKING = {"type": "enabled", "budget_tokens": 1024}


class Messages(unittest.TestCase):
    def test_plain(self):
        got = client.messages.create(messages=PARIS, **GREEDY)
        self.assertEqual((got.content[0].text, got.stop_reason), ("The capital of France is Paris.", "end_turn"))
        self.assertTrue(got.id.startswith("msg_"))
        count = client.messages.count_tokens(model="pocket", messages=PARIS)
        usage = got.usage
        self.assertEqual(count.input_tokens, usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens)

    def test_stream(self):
        with client.messages.stream(messages=PARIS, **GREEDY) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, "The capital of France is Paris.")
        self.assertEqual((final.content[0].text, final.stop_reason), (text, "end_turn"))

    def test_system_and_stop(self):
        got = client.messages.create(messages=[{"role": "user", "content": "Count from 10 to 25."}], stop_sequences=[", 14"],
                                     system=[{"type": "text", "text": "You are a helpful assistant.", "cache_control": {"type": "ephemeral"}}],
                                     **GREEDY)
        self.assertEqual((got.content[0].text, got.stop_reason, got.stop_sequence), ("10, 11, 12, 13", "stop_sequence", ", 14"))

    def test_thinking_comes_back_and_is_taken_back(self):
        asked = [{"role": "user", "content": "What is 35 plus 43?"}]
        with client.messages.stream(messages=asked, thinking=THINKING, **{**GREEDY, "max_tokens": 2000}) as stream:
            got = stream.get_final_message()
        self.assertEqual([block.type for block in got.content], ["thinking", "text"])
        self.assertEqual(got.content[1].text, "35 + 43 = 78")
        again = client.messages.create(messages=[*asked, {"role": "assistant", "content": got.content}, *PARIS], **GREEDY)
        self.assertEqual(again.content[0].text, "The capital of France is Paris.")

    def test_a_tool_is_used(self):
        asked = [{"role": "user", "content": "What is the weather in Paris?"}]
        with client.messages.stream(messages=asked, tools=CLAUDE_TOOLS, **GREEDY) as stream:
            first = stream.get_final_message()
        self.assertEqual(first.stop_reason, "tool_use")
        call = first.content[-1]
        self.assertEqual((call.name, call.input), ("get_weather", {"city": "Paris"}))
        self.assertTrue(call.id.startswith("toolu_"))
        result = {"type": "tool_result", "tool_use_id": call.id, "content": '{"sky": "sunny", "degrees": 20}'}
        second = client.messages.create(tools=CLAUDE_TOOLS, **GREEDY, messages=[
            *asked, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}])
        self.assertIn("sunny", second.content[0].text)

    def test_async(self):
        async def ask():
            async with anthropic.AsyncAnthropic(base_url=server.url, api_key="none") as one:
                async with one.messages.stream(messages=PARIS, **GREEDY) as stream:
                    return "".join([text async for text in stream.text_stream])
        self.assertEqual(asyncio.run(ask()), "The capital of France is Paris.")

    def test_errors_have_their_own_kinds(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            client.messages.create(model="pocket", max_tokens=5, messages=[{"role": "user", "content": [{"type": "wonder"}]}])
        self.assertEqual(caught.exception.body["type"], "error")

    def test_models(self):
        self.assertEqual([model.id for model in client.models.list()], ["pocket"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
