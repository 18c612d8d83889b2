"""Random conversations with what the Jinja template makes of each: the second opinion on the native chat template.

    python3 tools/random_conversations.py models/pocket/chat_template.jinja 20000 SEED > conversations.jsonl
    LILY_RANDOM_CONVERSATIONS=$PWD/conversations.jsonl build/release/text_test --gtest_filter='*Random*'

Needs jinja2.  A line is {messages, tools, options} and "text", or "error": "raises".  Most conversations are near the
well-formed ones; a few hold one of the faults that the template refuses.
"""
import json
import random
import sys

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

WORDS = ["a", "Hi", "two words", "Zürich", "e\u0301", "👨‍👩‍👧", "0", "null", "{", "\"", "\\", "<", "&amp;", "\x00", "\x7f", "\u200b", "\ufeff", "%s",
         "{{ x }}", "{% raw %}"]
SPACES = [" ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2003", "\u3000", "\x1f", "\x85", "\u2028", "\x0b"]
MARKS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<function=f>", "</function>",
         "<parameter=x>", "</parameter>", "<|im_start|>", "<|im_end|>", "<|image_pad|>", "<think>\n", "\n</think>\n\n"]
FAULTS = ["role", "no_role", "late_system", "number", "object", "part", "empty_part", "system_image", "arguments", "no_name", "number_name"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def text(self, most=6):
        kinds = self.r.choices([WORDS, SPACES, MARKS], [5, 4, self.r.choice([0, 0, 1, 4])], k=self.r.randrange(most))
        return "".join(self.r.choice(k) for k in kinds)

    def number(self):
        r = self.r
        return r.choice([
            r.randrange(-9, 10), r.randrange(-10**30, 10**30), r.random(), r.uniform(-1, 1) * 10.0**r.randrange(-30, 30),
            float(r.randrange(-10**17, 10**17)), round(r.uniform(-1e4, 1e4), 2), 2.0**r.randrange(-300, 300), 0.0, -0.0])

    def value(self, depth=0):
        r = self.r
        scalar = [lambda: None, lambda: r.random() < .5, self.number, self.text]
        nested = [lambda: [self.value(depth + 1) for _ in range(r.randrange(4))],
                  lambda: {self.text(3): self.value(depth + 1) for _ in range(r.randrange(4))}]
        return r.choice(scalar + (nested if depth < 3 else []))()

    def part(self, role):
        r = self.r
        if role == "system" or r.random() < .75:
            return r.choice([dict(type="text", text=self.text()), dict(text=self.text())])
        return r.choice([dict(type="image"), dict(type="image_url", image_url=dict(url="u")), dict(image=None), dict(type="video"),
                         dict(video="v"), dict(type="image", text="no"), dict(type="video", text="no"), dict(image="i", video="v")])

    def content(self, role):
        r = self.r
        kind = r.random()
        if kind < .6:
            return self.text(9)
        if kind < .8:
            return [self.part(role) for _ in range(r.randrange(4))]
        if kind < .9:
            think = r.choice(["<think>\n", "<think>", ""]) + self.text() + r.choice(["</think>", "\n</think>\n\n"]) + self.text()
            return think if role == "assistant" else f"<tool_response>{self.text()}</tool_response>"
        return None

    def call(self):
        r = self.r
        function = dict(name=self.text(3) or "f")
        if r.random() < .9:
            function["arguments"] = {self.text(3): self.value() for _ in range(r.randrange(4))}
        return r.choice([function, dict(function=function), dict(type="function", id="1", function=function)])

    def message(self, role):
        r = self.r
        out = dict(role=role)
        if r.random() < .95:
            out["content"] = self.content(role)
        if role == "assistant":
            if r.random() < .4:
                out["reasoning_content"] = r.choice([self.text(), self.text(), None, [], 3])
            if r.random() < .5:
                out["tool_calls"] = r.choice([None, [], [self.call() for _ in range(r.randrange(1, 4))]])
        return out

    def fault(self, messages):
        r = self.r
        kind, at = r.choice(FAULTS), r.randrange(len(messages))
        m = messages[at]
        call = dict(name="f", arguments={})
        if kind == "role": m["role"] = r.choice(["developer", "function", "System", "", 3, None])
        elif kind == "no_role": del m["role"]
        elif kind == "late_system": messages.insert(at + 1, dict(role="system", content="s"))
        elif kind == "number": m["content"] = r.choice([3, 1.5, True])
        elif kind == "object": m["content"] = dict(type="text", text="x")
        elif kind == "part": m["content"] = [dict(type=r.choice(["audio", "text", "video_url", "file"]))]
        elif kind == "empty_part": m["content"] = [{}]
        elif kind == "system_image": messages[0] = dict(role="system", content=[dict(type=r.choice(["image", "video"]))])
        elif kind == "arguments": call["arguments"] = r.choice(["{}", "", None, [], 3])
        elif kind == "no_name": del call["name"]
        elif kind == "number_name": call["name"] = r.choice([3, None, []])
        if kind in ("arguments", "no_name", "number_name"):
            messages.append(dict(role="assistant", content="x", tool_calls=[r.choice([call, dict(function=call)])]))

    def conversation(self):
        r = self.r
        roles = ["system"] * (r.random() < .4) + r.choices(["user", "assistant", "tool"], [4, 4, 3], k=r.randrange(1, 7))
        messages = [self.message(role) for role in roles]
        if r.random() < .15:
            self.fault(messages)
        options = dict(add_generation_prompt=r.random() < .7)
        for name in ("enable_thinking", "preserve_thinking", "add_vision_id"):
            if r.random() < .5:
                options[name] = r.random() < .5
        tools = r.choice([None, [], [{self.text(3): self.value() for _ in range(r.randrange(4))} for _ in range(r.randrange(1, 4))]])
        return dict(messages=messages, tools=tools, options=options)


def renderer(path):
    """The template as transformers sets it up."""
    def refuse(message): raise TemplateError(message)
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    env.globals["raise_exception"] = refuse
    return env.from_string(open(path, encoding="utf-8").read()).render


def main(template, count, seed):
    render, maker = renderer(template), Maker(int(seed))
    for _ in range(int(count)):
        case = maker.conversation()
        while case["messages"] and case["messages"][0].get("role") == "tool":  # Rendered by the template, refused by Lily.
            case = maker.conversation()
        try:
            case["text"] = render(messages=case["messages"], tools=case["tools"], **case["options"])
        except (TemplateError, TypeError):
            case["error"] = "raises"
        print(json.dumps(case))


if __name__ == "__main__":
    main(*sys.argv[1:])
