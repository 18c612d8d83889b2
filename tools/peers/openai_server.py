"""Any server with OpenAI's completions as a peer of `lily bench sweep`: llama-server, vLLM, SGLang, mlx_lm.server, lily serve.

    openai_server.py http://127.0.0.1:8080 [--model NAME] [--api-key KEY]

A completion is streamed. Prefill is the time to its first piece, over the tokens of the prompt that did not come from a cache; decode
is the time from the first piece to the last. HTTP and text are part of both. Prompts are random words, so that nothing can be reused;
the server counts them.
"""
import argparse
import json
import random
import time
import urllib.error
import urllib.request

from protocol import Refused, serve

LETTERS = "abcdefghijklmnopqrstuvwxyz"
CALIBRATION_WORDS = 200
MOST_ERROR_BYTES = 300


class Server:
    def __init__(self, flags):
        self.url, self.key, self.limit, self.extra = flags.url.rstrip("/"), flags.api_key, flags.limit, flags.extra
        with self.open("/v1/models") as reply:
            self.software = reply.headers.get("Server") or "unknown"
            listed = json.load(reply)["data"]
        self.model = flags.model or listed[0]["id"]
        self.random = random.Random(time.time_ns())
        self.tokens_a_word = self.stream(CALIBRATION_WORDS, 1)["prompt"] / CALIBRATION_WORDS

    def hello(self):
        return {"engine": f"server at {self.url}", "version": self.software, "system": "", "model": self.model}

    def open(self, path, body=None):
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self.key}"} if self.key else {})
        data = None if body is None else json.dumps(body).encode()
        try:
            return urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=self.limit)
        except urllib.error.HTTPError as error:
            raise Refused(f"{path}: status {error.code}: {error.read(MOST_ERROR_BYTES).decode('utf-8', 'replace')}") from error

    def words(self, n):
        return " ".join("".join(self.random.choices(LETTERS, k=4)) for _ in range(n))

    def stream(self, n_words, n_tokens):
        """Tokens as the server counts them, seconds to the first piece and from it to the last."""
        body = {"model": self.model, "prompt": self.words(max(1, n_words)), "max_tokens": n_tokens, "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}} | self.extra
        start = time.perf_counter()
        first = last = None
        usage = {}
        with self.open("/v1/completions", body) as reply:
            for line in reply:
                if not line.startswith(b"data: {"):
                    continue
                piece = json.loads(line[6:])
                usage = piece.get("usage") or usage
                if piece.get("choices"):
                    last = time.perf_counter()
                    first = first or last
        if first is None or "prompt_tokens" not in usage:
            raise Refused("the stream brought no piece or no usage")
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return {"prompt": usage["prompt_tokens"], "computed": usage["prompt_tokens"] - cached, "completion": usage["completion_tokens"],
                "to_first": first - start, "to_last": last - first}

    def prefill(self, n):
        got = self.stream(round(n / self.tokens_a_word), 1)
        return got["to_first"], got["computed"]

    def decode(self, depth, n):
        got = self.stream(round(depth / self.tokens_a_word), n + 1)
        if got["completion"] < max(2, n // 2):
            raise Refused(f"the answer ended after {got['completion']} tokens of {n + 1}")
        return got["to_last"], got["completion"] - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--model", help="as the server lists it; without it the first")
    parser.add_argument("--api-key")
    parser.add_argument("--extra", type=json.loads, default={"ignore_eos": True},
                        help="fields of a request that keep an answer from ending early; most servers know ignore_eos")
    parser.add_argument("--limit", type=float, default=3600, help="seconds without a byte")
    flags = parser.parse_args()
    serve(lambda: Server(flags))


if __name__ == "__main__":
    main()
