"""Whole distributions of another implementation, in the form that `lily eval --golden` reads.

    python3 record.py transformers|mlx CHECKPOINT OUT.safetensors [--text FILE --positions N]

transformers computes in fp32 on the dequantised weights (tools/pocket/oracle.py), mlx-lm as it does everywhere: the checkpoint's own 4 bits,
bf16 between its kernels. Without --text the eight conversations of tests/golden/full.safetensors, the last 24 positions of each; with it the
first N positions of a text, teacher-forced. sK.ids [T] i32, sK.log_probs [R, V] f32: natural logarithms over the tokenizer's ids.
"""
import argparse
import random
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer

POCKET_TOOLS = Path(__file__).resolve().parents[1] / "pocket"
SEED, N_CONVERSATIONS, N_LAST = 4243, 8, 24  # As tools/pocket/oracle.py `full` has them.


def with_transformers(folder):
    """[T, V] f32 logits of ids."""
    import torch

    import oracle
    model, _ = oracle.load(str(folder))

    def logits(ids):
        with torch.no_grad():
            return model(torch.tensor([ids]), use_cache=False).logits[0].float().numpy()
    return logits


def with_mlx(folder):
    import mlx.core as mx
    from mlx_lm import load
    model, _ = load(str(folder))
    return lambda ids: np.array(model(mx.array([ids]))[0].astype(mx.float32))


def conversations(tokenizer):
    import corpus
    r = random.Random(SEED)
    for skill in [s for s, _ in corpus.SKILLS][:N_CONVERSATIONS]:
        ids = [i for text, _ in corpus.render(skill(r)) for i in tokenizer.encode(text).ids]
        yield ids, len(ids) - N_LAST


def one_text(tokenizer, file, n_positions):
    ids = tokenizer.encode(Path(file).read_text("utf-8"), add_special_tokens=False).ids[:n_positions + 1]
    yield ids, 0


def log_softmax(logits, n_ids):
    used = logits[:, :n_ids].astype(np.float64)
    used -= used.max(-1, keepdims=True)
    return (used - np.log(np.exp(used).sum(-1, keepdims=True))).astype(np.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("implementation", choices=("transformers", "mlx"))
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--text")
    parser.add_argument("--positions", type=int, default=192)
    args = parser.parse_args()
    sys.path.insert(0, str(POCKET_TOOLS))
    tokenizer = Tokenizer.from_file(str(args.checkpoint / "tokenizer.json"))
    n_ids = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
    logits_of = {"transformers": with_transformers, "mlx": with_mlx}[args.implementation](args.checkpoint)
    texts = one_text(tokenizer, args.text, args.positions) if args.text else conversations(tokenizer)
    tensors = {}
    for k, (ids, first) in enumerate(texts):
        tensors |= {f"s{k}.ids": np.array(ids, np.int32), f"s{k}.log_probs": log_softmax(logits_of(ids)[first:], n_ids)}
        print(f"text {k}: {len(ids)} ids, {len(ids) - first} positions recorded", file=sys.stderr, flush=True)
    save_file(tensors, args.out)


if __name__ == "__main__":
    main()
