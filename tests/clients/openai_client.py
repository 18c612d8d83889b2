"""The official `openai` package against a running server, as its users call it: sync, async, streaming, tools, errors."""
import asyncio
import json
import sys
import unittest

import openai

from lily_server import LilyServer, TOOLS

server = LilyServer()
BASE = f"{server.url}/v1"
client = openai.OpenAI(base_url=BASE, api_key="none", max_retries=0)
PARIS = [{"role": "user", "content": "What is the capital of France?"}]
OFF = {"extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}
GREEDY = {"model": "pocket", "temperature": 0, "max_tokens": 100}


class Chat(unittest.TestCase):
    def test_plain(self):
        got = client.chat.completions.create(messages=PARIS, **GREEDY, **OFF)
        self.assertEqual(got.choices[0].message.content, "The capital of France is Paris.")
        self.assertEqual(got.usage.total_tokens, got.usage.prompt_tokens + got.usage.completion_tokens)

    def test_stream(self):
        chunks = list(client.chat.completions.create(messages=PARIS, stream=True, stream_options={"include_usage": True}, **GREEDY, **OFF))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), "The capital of France is Paris.")
        self.assertGreater(chunks[-1].usage.completion_tokens, 0)

    def test_thinking(self):
        got = client.chat.completions.create(messages=[{"role": "user", "content": "What is 35 plus 43?"}], **GREEDY)
        self.assertEqual(got.choices[0].message.content, "35 + 43 = 78")
        self.assertIn("total 78.", got.choices[0].message.reasoning_content)
        off = client.chat.completions.create(messages=PARIS, reasoning_effort="none", **GREEDY)
        self.assertEqual(off.choices[0].message.content, "The capital of France is Paris.")

    def test_logprobs(self):
        got = client.chat.completions.create(messages=PARIS, logprobs=True, top_logprobs=2, **GREEDY, **OFF)
        rows = got.choices[0].logprobs.content
        self.assertEqual("".join(row.token for row in rows), "The capital of France is Paris.")
        self.assertEqual(len(rows[0].top_logprobs), 2)

    def test_choices_and_seed(self):
        got = client.chat.completions.create(model="pocket", messages=PARIS, n=2, seed=4, temperature=1.5, max_tokens=8, stop=["\n"], **OFF)
        self.assertEqual([choice.index for choice in got.choices], [0, 1])

    def test_a_tool_is_called_and_its_result_used(self):
        messages = [{"role": "user", "content": "What is the weather in Paris?"}]
        first = client.chat.completions.create(messages=messages, tools=TOOLS, **GREEDY, **OFF).choices[0]
        self.assertEqual(first.finish_reason, "tool_calls")
        call = first.message.tool_calls[0]
        self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Paris"}))
        messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": '{"sky": "sunny", "degrees": 20}'}]
        second = client.chat.completions.create(messages=messages, tools=TOOLS, **GREEDY, **OFF).choices[0]
        self.assertEqual(second.finish_reason, "stop")
        self.assertIn("sunny", second.message.content)

    def test_streamed_calls_are_put_together(self):
        with client.chat.completions.stream(messages=[{"role": "user", "content": "What is the weather in Paris and Rome?"}], tools=TOOLS,
                                            **GREEDY, **OFF) as stream:
            for _ in stream:
                pass
            message = stream.get_final_completion().choices[0].message
        self.assertEqual([json.loads(call.function.arguments)["city"] for call in message.tool_calls], ["Paris", "Rome"])

    def test_async(self):
        async def both():
            async with openai.AsyncOpenAI(base_url=BASE, api_key="none") as one:
                plain, stream = await asyncio.gather(one.chat.completions.create(messages=PARIS, **GREEDY, **OFF),
                                                     one.chat.completions.create(messages=PARIS, stream=True, **GREEDY, **OFF))
                text = ""
                async for chunk in stream:
                    text += chunk.choices[0].delta.content or ""
                return plain.choices[0].message.content, text
        self.assertEqual(set(asyncio.run(both())), {"The capital of France is Paris."})

    def test_a_stream_that_is_left_leaves_nothing_behind(self):
        stream = client.chat.completions.create(messages=[{"role": "user", "content": "Tell me a story."}], stream=True, **GREEDY, **OFF)
        next(iter(stream))
        stream.close()
        self.test_plain()


class Others(unittest.TestCase):
    def test_models(self):
        self.assertEqual([model.id for model in client.models.list()], ["pocket"])
        self.assertEqual(client.models.retrieve("pocket").id, "pocket")

    def test_completions(self):
        got = client.completions.create(model="pocket", prompt="The capital of France is", max_tokens=3, temperature=0, echo=True)
        self.assertTrue(got.choices[0].text.startswith("The capital of France is"))
        chunks = client.completions.create(model="pocket", prompt="The capital of France is", max_tokens=3, temperature=0, stream=True)
        self.assertEqual("The capital of France is" + "".join(c.choices[0].text for c in chunks), got.choices[0].text)

    def test_responses(self):
        got = client.responses.create(model="pocket", input="What is the capital of France?", temperature=0, reasoning={"effort": "none"})
        self.assertEqual((got.output_text, got.status), ("The capital of France is Paris.", "completed"))
        with client.responses.stream(model="pocket", input="What is 35 plus 43?", temperature=0) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        self.assertEqual(final.output_text, "35 + 43 = 78")
        self.assertEqual([item.type for item in final.output], ["reasoning", "message"])
        self.assertIn("response.output_text.delta", kinds)
        again = client.responses.create(model="pocket", temperature=0, reasoning={"effort": "none"},
                                        input=[{"role": "user", "content": "What is 35 plus 43?"}, *[item.to_dict() for item in final.output],
                                               {"role": "user", "content": "What is the capital of France?"}])
        self.assertEqual(again.output_text, "The capital of France is Paris.")

    def test_responses_with_tools(self):
        tools = [{"type": "function", **tool["function"], "strict": False} for tool in TOOLS] + [{"type": "web_search"}]
        asked = [{"role": "user", "content": "What is the weather in Paris?"}]
        common = dict(model="pocket", tools=tools, temperature=0, reasoning={"effort": "none"})
        first = client.responses.create(input=asked, **common)
        call = first.output[0]
        self.assertEqual((call.type, call.name, json.loads(call.arguments)), ("function_call", "get_weather", {"city": "Paris"}))
        result = {"type": "function_call_output", "call_id": call.call_id, "output": '{"sky": "sunny", "degrees": 20}'}
        second = client.responses.create(input=[*asked, call.to_dict(), result], **common)
        self.assertIn("sunny", second.output_text)

    def test_errors_have_their_own_kinds(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            client.chat.completions.create(messages=PARIS, model="pocket", n=0)
        self.assertEqual(caught.exception.param, "n")
        with self.assertRaises(openai.NotFoundError):
            client.models.retrieve("other")


if __name__ == "__main__":
    unittest.main(verbosity=2)
