"""Speed of llama.cpp on a GGUF, through the library that the package llama-cpp-python carries; prints one JSON object.

    llama_cpp_speed.py FILE.gguf --prefill 512,2048 --decode 32 --depth 128,4096 --repeat 2 --threads 2

A measurement calls llama_decode and nothing else: no sampling, no text. The first call of each kind is a warm-up.
"""
import argparse
import ctypes
import json
import random
import time

import llama_cpp

UBATCH = 512


def numbers(text):
    return [int(n) for n in text.split(",") if n]


class Peer:
    def __init__(self, path, threads, context):
        self.log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.log, None)
        llama_cpp.llama_backend_init()
        model_options = llama_cpp.llama_model_default_params()
        model_options.n_gpu_layers = 0
        model_options.use_mmap = False  # The repacked copy is what is read; the file's pages need not stay.
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), model_options)
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp does not load it")
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = context, 2048, UBATCH
        options.n_threads = options.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        if not self.context:
            raise SystemExit(f"{path}: no context of {context} tokens")
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.random = random.Random(1)

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def feed(self, n):
        """Seconds to compute n more tokens."""
        tokens = (llama_cpp.llama_token * n)(*(self.random.randrange(self.vocab) for _ in range(n)))
        start = time.perf_counter()
        for at in range(0, n, 2048):
            piece = (llama_cpp.llama_token * min(2048, n - at))(*tokens[at:at + 2048])
            if llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(piece, len(piece))) != 0:
                raise SystemExit("llama_decode failed")
        llama_cpp.llama_synchronize(self.context)
        return time.perf_counter() - start

    def prefill(self, n):
        self.clear()
        return self.feed(n)

    def decode(self, depth, n):
        self.clear()
        self.feed(depth)
        return sum(self.feed(1) for _ in range(n))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--prefill", type=numbers, default=[512])
    parser.add_argument("--decode", type=int, default=32)
    parser.add_argument("--depth", type=numbers, default=[128])
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--threads", type=int, required=True)
    flags = parser.parse_args()
    longest = max([*flags.prefill, *(depth + flags.decode for depth in flags.depth)])
    peer = Peer(flags.file, flags.threads, longest + 64)
    peer.prefill(64)
    peer.decode(8, 4)
    out = {"engine": f"llama.cpp of llama-cpp-python {llama_cpp.__version__}", "system": llama_cpp.llama_print_system_info().decode(),
           "prefill": [], "decode": []}
    for n in flags.prefill:
        out["prefill"].append({"tokens": n, "rates": [n / peer.prefill(n) for _ in range(flags.repeat)]})
    for depth in flags.depth if flags.decode else []:
        out["decode"].append({"depth": depth, "rates": [flags.decode / peer.decode(depth, flags.decode) for _ in range(flags.repeat)]})
    print(json.dumps(out))


if __name__ == "__main__":
    main()
