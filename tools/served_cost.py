#!/usr/bin/env python3
"""What the server and its masks cost: the same decoding asked in turn of `lily bench worker`, of `lily serve`, and of that with a JSON schema.

    served_cost.py build/release/lily MODEL [--rounds N] [--tokens N] [--json]

A stream of 8 + N tokens less one of 8 to the same prompt is N steps, with HTTP, text and sampling; their prompt is kept from the first on.
Both processes map the same image, so that memory holds the weights once. What a token costs beside its pass does not depend on the layers: where a
pass takes long and the machine is restless, measure a few layers and divide by the longer step.
"""
import argparse
import json
import statistics
import subprocess
import time
import urllib.request
from pathlib import Path

FEW_TOKENS = 8
PROMPT = "Write down the names of the rivers, towns and people of a long journey."
# Goes on for longer than anybody measures.
SCHEMA = {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}, "minItems": 1000}}, "required": ["names"]}
MASKED = {"response_format": {"type": "json_schema", "json_schema": {"name": "names", "strict": True, "schema": SCHEMA}}}


class Worker:
    def __init__(self, lily, model):
        self.process = subprocess.Popen([lily, "bench", "worker", "--model", model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def answer(self):
        got = json.loads(self.process.stdout.readline())
        if "error" in got:
            raise SystemExit(f"lily bench worker: {got['error']}")
        return got

    def seconds(self, depth, n_tokens):
        self.process.stdin.write(json.dumps({"depth": depth, "decode": n_tokens}) + "\n")
        self.process.stdin.flush()
        return self.answer()["seconds"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Server:
    def __init__(self, lily, model):
        self.process = subprocess.Popen([lily, "serve", "--model", model, "--port", "0", "--no-thinking"], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if line.startswith("listening on "):
                self.url = line.split()[-1]
                break
        else:
            raise SystemExit("lily serve did not start")
        ends = subprocess.run([lily, "tokenize", "--json", "--tokenizer", model / "tokenizer.json"], input="<|im_end|><|endoftext|>",
                              capture_output=True, text=True, check=True)
        self.bias = {str(token): -100 for token in json.loads(ends.stdout)["ids"]}

    def took(self, n_tokens, more):
        """Seconds of a stream, and how long its prompt was."""
        body = {"model": "any", "temperature": 0, "max_tokens": n_tokens, "stream": True, "stream_options": {"include_usage": True},
                "messages": [{"role": "user", "content": PROMPT}], **more}
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        start = time.perf_counter()
        with urllib.request.urlopen(request, timeout=3600) as reply:
            chunks = [json.loads(line[6:]) for line in reply if line.startswith(b"data: {")]
        end = time.perf_counter()
        usage = chunks[-1]["usage"]
        if usage["completion_tokens"] != n_tokens:
            raise SystemExit(f"the answer ended after {usage['completion_tokens']} tokens of {n_tokens}")
        return end - start, usage["prompt_tokens"]

    def seconds(self, n_tokens, more):
        few, _ = self.took(FEW_TOKENS, more)
        return self.took(FEW_TOKENS + n_tokens, more)[0] - few

    def stop(self):
        self.process.terminate()
        self.process.wait()


def measure(worker, server, rounds, n_tokens):
    plain, masked = {"logit_bias": server.bias}, MASKED
    _, prompt_tokens = server.took(FEW_TOKENS, plain)
    server.took(FEW_TOKENS, masked)  # The grammar is made.
    ways = {"bench": lambda: worker.seconds(prompt_tokens + FEW_TOKENS, n_tokens), "served": lambda: server.seconds(n_tokens, plain),
            "masked": lambda: server.seconds(n_tokens, masked)}
    seconds = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            seconds[name].append(way())
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lily")
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    worker, server = Worker(flags.lily, flags.model), Server(flags.lily, flags.model)
    try:
        seconds = measure(worker, server, flags.rounds, flags.tokens)
    finally:
        worker.stop()
        server.stop()
    pairs = {"served": list(zip(seconds["served"], seconds["bench"])), "masked": list(zip(seconds["masked"], seconds["served"]))}
    cost = {name: {"us_per_token": statistics.median(1e6 * (a - b) / flags.tokens for a, b in both),
                   "share": statistics.median(a / b - 1 for a, b in both)} for name, both in pairs.items()}
    if flags.json:
        print(json.dumps({"tokens": flags.tokens, "seconds": seconds, "cost": cost}))
        return
    for name, all_seconds in seconds.items():
        rates = sorted(flags.tokens / s for s in all_seconds)
        print(f"{name:7} {statistics.median(rates):7.2f} tokens/s ({rates[0]:.2f} .. {rates[-1]:.2f})")
    for name, told in (("served", "the server beside lily bench"), ("masked", "a mask beside a free answer")):
        print(f"{told}: {cost[name]['us_per_token']:+.0f} us a token, {100 * cost[name]['share']:+.1f} %")


if __name__ == "__main__":
    main()
