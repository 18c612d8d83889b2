"""MLX-LM's own generation, not its server, as a peer of `lily bench sweep`.

    mlx_lm_peer.py FOLDER        a checkpoint as mlx-community publishes it, the same folder that Lily reads

Needs mlx-lm 0.32.2 with mlx 0.32.4 from PyPI: `mlx` on a Mac, `mlx[cpu]` on Linux, where it is slow.
"""
import argparse
import random
import time

import mlx.core as mx
import mlx_lm
from mlx_lm.generate import generate_step
from protocol import serve


class MlxLm:
    def __init__(self, folder):
        self.folder = folder
        self.model, self.tokenizer = mlx_lm.load(folder)
        self.random = random.Random(1)

    def hello(self):
        return {"engine": "mlx-lm", "version": f"{mlx_lm.__version__}, mlx {mx.__version__}", "system": str(mx.default_device()),
                "model": self.folder.rstrip("/").rsplit("/", 1)[-1]}

    def generate(self, n_prompt, n_tokens):
        """Times at which each token was there, from the start on."""
        prompt = mx.array([self.random.randrange(self.tokenizer.vocab_size) for _ in range(n_prompt)])
        mx.eval(prompt)
        start = time.perf_counter()
        return [time.perf_counter() - start for _ in generate_step(prompt, self.model, max_tokens=n_tokens)]

    def prefill(self, n):
        return self.generate(n, 1)[0], n

    def decode(self, depth, n):
        times = self.generate(depth, n + 1)
        return times[-1] - times[0], n


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    flags = parser.parse_args()
    serve(lambda: MlxLm(flags.folder))


if __name__ == "__main__":
    main()
