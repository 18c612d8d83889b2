"""llama.cpp on a GGUF as a peer of `lily bench sweep`, through the library that the package llama-cpp-python carries.

    llama_cpp_peer.py FILE.gguf --context 16500 --threads 2 [--gpu-layers N]

A measurement calls llama_decode and nothing else: no sampling, no text.
"""
import argparse
import ctypes
import random
import time

import llama_cpp
from protocol import Refused, serve

BATCH, UBATCH = 2048, 512


class LlamaCpp:
    def __init__(self, flags):
        self.log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.log, None)
        llama_cpp.llama_backend_init()
        model_options = llama_cpp.llama_model_default_params()
        model_options.n_gpu_layers = flags.gpu_layers
        model_options.use_mmap = False  # The repacked copy is what is read; the file's pages need not stay.
        self.model = llama_cpp.llama_model_load_from_file(flags.file.encode(), model_options)
        if not self.model:
            raise SystemExit(f"{flags.file}: llama.cpp does not load it")
        options = llama_cpp.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = flags.context, BATCH, UBATCH
        options.n_threads = options.n_threads_batch = flags.threads
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        if not self.context:
            raise SystemExit(f"{flags.file}: no context of {flags.context} tokens")
        self.n_positions = flags.context
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.random = random.Random(1)

    def hello(self):
        name = ctypes.create_string_buffer(256)
        llama_cpp.llama_model_desc(self.model, name, len(name))
        return {"engine": "llama.cpp", "version": f"of llama-cpp-python {llama_cpp.__version__}",
                "system": llama_cpp.llama_print_system_info().decode().strip(), "model": name.value.decode(), "context": self.n_positions}

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def feed(self, n):
        """Seconds to compute n more tokens."""
        tokens = (llama_cpp.llama_token * n)(*(self.random.randrange(self.vocab) for _ in range(n)))
        start = time.perf_counter()
        for at in range(0, n, BATCH):
            piece = (llama_cpp.llama_token * min(BATCH, n - at))(*tokens[at:at + BATCH])
            if llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(piece, len(piece))) != 0:
                raise Refused(f"llama_decode fails on {len(piece)} tokens behind {at}")
        llama_cpp.llama_synchronize(self.context)
        return time.perf_counter() - start

    def prefill(self, n):
        self.clear()
        return self.feed(n), n

    def decode(self, depth, n):
        self.clear()
        self.feed(depth)
        return sum(self.feed(1) for _ in range(n)), n


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--context", type=int, required=True, help="the longest prompt or depth, with what is decoded behind it")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--gpu-layers", type=int, default=0)
    flags = parser.parse_args()
    serve(lambda: LlamaCpp(flags))


if __name__ == "__main__":
    main()
