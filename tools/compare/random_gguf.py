"""Writes a GGUF of random weights in the 35B's shapes (architecture qwen35moe), for timing llama.cpp beside Lily.

    random_gguf.py OUT.gguf [--layers N] [--seed N]

Matrices are Q4_0: 4.5 bits a weight, as many bytes as MLX's 4-bit groups of 64. The tokenizer is a stand-in of the full
vocabulary's size. The file is written piece by piece and needs little memory.
"""
import argparse
import os

import gguf
import numpy as np

HIDDEN, VOCAB = 2048, 248320
EXPERTS, CHOSEN, EXPERT_WIDTH, SHARED_WIDTH = 256, 8, 512, 512
Q_HEADS, KV_HEADS, HEAD_DIM, ROPE_DIM = 16, 2, 256, 64
KEY_HEADS, VALUE_HEADS, DELTA_DIM = 16, 32, 128
ATTENTION_EVERY = 4
QUANT = gguf.GGMLQuantizationType.Q4_0
BLOCK, BLOCK_BYTES = gguf.GGML_QUANT_SIZES[QUANT]
PIECE_BLOCKS = 4_000_000
NIBBLE_DEVIATION = 4.6  # Of a uniform nibble: scales are set so that outputs have variance one.


def matrix(name, *shape):
    return name, shape, "matrix"


def delta_tensors(prefix):
    conv_dim = 2 * KEY_HEADS * DELTA_DIM + VALUE_HEADS * DELTA_DIM
    inner = VALUE_HEADS * DELTA_DIM
    return [matrix(prefix + "attn_qkv.weight", HIDDEN, conv_dim), matrix(prefix + "attn_gate.weight", HIDDEN, inner),
            (prefix + "ssm_conv1d.weight", (4, conv_dim), "normal"), (prefix + "ssm_dt.bias", (VALUE_HEADS,), "normal"),
            (prefix + "ssm_a", (VALUE_HEADS,), "negative"), (prefix + "ssm_beta.weight", (HIDDEN, VALUE_HEADS), "normal"),
            (prefix + "ssm_alpha.weight", (HIDDEN, VALUE_HEADS), "normal"), (prefix + "ssm_norm.weight", (DELTA_DIM,), "one"),
            matrix(prefix + "ssm_out.weight", inner, HIDDEN)]


def attention_tensors(prefix):
    return [matrix(prefix + "attn_q.weight", HIDDEN, 2 * Q_HEADS * HEAD_DIM),
            matrix(prefix + "attn_k.weight", HIDDEN, KV_HEADS * HEAD_DIM),
            matrix(prefix + "attn_v.weight", HIDDEN, KV_HEADS * HEAD_DIM),
            matrix(prefix + "attn_output.weight", Q_HEADS * HEAD_DIM, HIDDEN),
            (prefix + "attn_q_norm.weight", (HEAD_DIM,), "one"), (prefix + "attn_k_norm.weight", (HEAD_DIM,), "one")]


def expert_tensors(prefix):
    return [(prefix + "ffn_gate_inp.weight", (HIDDEN, EXPERTS), "normal"),
            matrix(prefix + "ffn_down_exps.weight", EXPERT_WIDTH, HIDDEN, EXPERTS),
            matrix(prefix + "ffn_gate_exps.weight", HIDDEN, EXPERT_WIDTH, EXPERTS),
            matrix(prefix + "ffn_up_exps.weight", HIDDEN, EXPERT_WIDTH, EXPERTS),
            (prefix + "ffn_gate_inp_shexp.weight", (HIDDEN,), "normal"),
            matrix(prefix + "ffn_gate_shexp.weight", HIDDEN, SHARED_WIDTH),
            matrix(prefix + "ffn_up_shexp.weight", HIDDEN, SHARED_WIDTH),
            matrix(prefix + "ffn_down_shexp.weight", SHARED_WIDTH, HIDDEN)]


def tensors(layers):
    """(name, shape with the fastest dimension first, kind) in file order."""
    out = [matrix("token_embd.weight", HIDDEN, VOCAB), ("output_norm.weight", (HIDDEN,), "one"), matrix("output.weight", HIDDEN, VOCAB)]
    for i in range(layers):
        prefix = f"blk.{i}."
        out += [(prefix + "attn_norm.weight", (HIDDEN,), "one"), (prefix + "post_attention_norm.weight", (HIDDEN,), "one")]
        out += attention_tensors(prefix) if (i + 1) % ATTENTION_EVERY == 0 else delta_tensors(prefix)
        out += expert_tensors(prefix)
    return out


def write_shape(out, layers):
    out.add_block_count(layers)
    out.add_context_length(262144)
    out.add_embedding_length(HIDDEN)
    out.add_vocab_size(VOCAB)
    out.add_feed_forward_length(EXPERT_WIDTH)
    out.add_head_count(Q_HEADS)
    out.add_head_count_kv(KV_HEADS)
    out.add_key_length(HEAD_DIM)
    out.add_value_length(HEAD_DIM)
    out.add_rope_dimension_count(ROPE_DIM)
    out.add_rope_freq_base(1e7)
    out.add_rope_dimension_sections([11, 11, 10, 0])
    out.add_layer_norm_rms_eps(1e-6)
    out.add_expert_count(EXPERTS)
    out.add_expert_used_count(CHOSEN)
    out.add_expert_feed_forward_length(EXPERT_WIDTH)
    out.add_expert_shared_feed_forward_length(SHARED_WIDTH)
    out.add_ssm_conv_kernel(4)
    out.add_ssm_inner_size(VALUE_HEADS * DELTA_DIM)
    out.add_ssm_state_size(DELTA_DIM)
    out.add_ssm_time_step_rank(VALUE_HEADS)
    out.add_ssm_group_count(KEY_HEADS)
    out.add_uint32("qwen35moe.full_attention_interval", ATTENTION_EVERY)
    out.add_file_type(2)  # Mostly Q4_0.


def write_tokenizer(out):
    """Single characters, then numbered words, so that the vocabulary has its size; text is never asked for."""
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    characters = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 324))]
    words = [f"word{i}" for i in range(VOCAB - len(characters) - len(specials))]
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("qwen35")
    out.add_token_list(characters + words + specials)
    out.add_token_types([1] * (VOCAB - len(specials)) + [3] * len(specials))
    out.add_token_merges(["w o", "r d"])
    out.add_eos_token_id(VOCAB - 1)
    out.add_pad_token_id(VOCAB - 3)
    out.add_add_bos_token(False)


def matrix_pieces(random, shape):
    """Q4_0 blocks: an f16 scale, then 32 nibbles."""
    scale = np.frombuffer(np.float16(1.0 / np.sqrt(shape[0]) / NIBBLE_DEVIATION).tobytes(), np.uint8)
    left = int(np.prod(shape)) // BLOCK
    while left > 0:
        n = min(PIECE_BLOCKS, left)
        blocks = np.frombuffer(random.bytes(n * BLOCK_BYTES), np.uint8).reshape(n, BLOCK_BYTES).copy()
        blocks[:, :2] = scale
        yield blocks.tobytes()
        left -= n


def float_pieces(random, shape, kind):
    n = int(np.prod(shape))
    if kind == "one":
        values = np.ones(n)
    elif kind == "negative":
        values = -np.exp(random.standard_normal(n))
    else:
        values = random.standard_normal(n) / np.sqrt(shape[0])
    yield values.astype(np.float32).tobytes()


def add_info(out, name, shape, kind):
    rows = tuple(reversed(shape))
    if kind == "matrix":
        row_bytes = shape[0] // BLOCK * BLOCK_BYTES
        out.add_tensor_info(name, (*rows[:-1], row_bytes), np.dtype(np.uint8), int(np.prod(rows[:-1])) * row_bytes, raw_dtype=QUANT)
    else:
        out.add_tensor_info(name, rows, np.dtype(np.float32), int(np.prod(shape)) * 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    out = gguf.GGUFWriter(flags.out, "qwen35moe")
    out.add_name(f"random, {flags.layers} layers")
    write_shape(out, flags.layers)
    write_tokenizer(out)
    listed = tensors(flags.layers)
    for entry in listed:
        add_info(out, *entry)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_ti_data_to_file()
    random, file = np.random.default_rng(flags.seed), out.fout[0]
    for name, shape, kind in listed:
        out.write_padding(file, file.tell())
        for piece in matrix_pieces(random, shape) if kind == "matrix" else float_pieces(random, shape, kind):
            file.write(piece)
        out.write_padding(file, file.tell())
    out.close()
    print(f"{flags.out}: {len(listed)} tensors, {os.path.getsize(flags.out) / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
