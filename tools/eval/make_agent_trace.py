#!/usr/bin/env python3
"""A trace of an agent's conversations for `lily bench serve --trace`, drawn from the pocket's little world.

    python3 tools/eval/make_agent_trace.py > models/pocket/agent_trace.jsonl

Each conversation has one list of tools and several tasks: a call, its result, an answer, and another question behind it, so that every request
begins as the one before it did. Thinking times stand for tools that run and people who read. Same seed, same bytes.
"""
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pocket"))
import corpus  # noqa: E402

SEED, N_CONVERSATIONS, N_TASKS = 20, 12, 4
TOOL_SECONDS, READING_SECONDS = (0.02, 0.2), (0.3, 1.5)


def wire(message, call_ids):
    """A message of corpus.py in OpenAI's form."""
    out = {"role": message["role"], "content": message["content"]}
    if calls := message.get("tool_calls"):
        ids = [f"call_{len(call_ids) + i}" for i in range(len(calls))]
        call_ids.extend(ids)
        out["tool_calls"] = [{"id": i, "type": "function", "function": {"name": c["name"], "arguments": json.dumps(c["arguments"])}}
                             for i, c in zip(ids, calls)]
    return out


def conversation(r, number):
    messages, think_s, call_ids, unanswered = [], [], [], []
    for _ in range(N_TASKS):
        for message in (corpus.tool_use(r) if r.random() < 0.7 else corpus.memory(r)).messages:
            if message["role"] == "assistant":
                behind_tool = bool(messages) and messages[-1]["role"] == "tool"
                first = not any(m["role"] == "assistant" for m in messages)
                think_s.append(0 if first else round(r.uniform(*(TOOL_SECONDS if behind_tool else READING_SECONDS)), 3))
            one = wire(message, call_ids)
            unanswered += [c["id"] for c in one.get("tool_calls", [])]
            if one["role"] == "tool":
                one["tool_call_id"] = unanswered.pop(0)
            messages.append(one)
    return {"name": f"agent {number}", "tools": [corpus.tool_spec(name) for name in corpus.TOOL_SPECS], "messages": messages,
            "think_s": think_s}


if __name__ == "__main__":
    r = random.Random(SEED)
    for number in range(N_CONVERSATIONS):
        print(json.dumps(conversation(r, number), ensure_ascii=False))
