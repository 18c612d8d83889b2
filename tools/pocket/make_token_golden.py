"""Recorded tokenizations of tricky text, by the `tokenizers` library.

    python3 tools/pocket/make_token_golden.py models/pocket tests/golden/tokens.json

encode: {text, ids}, added tokens matched.  plain: the same with added tokens taken for ordinary text.
decode: {ids, text, visible}; visible leaves out the special tokens.  Broken UTF-8 decodes to U+FFFD.
"""
import json
import random
import sys

from tokenizers import Tokenizer

SPACES = ["", " ", "  ", " " * 7, " " * 200, "\t", "\t\t x", "a  b", "a   b", " a", "a ", "  a  ", "a\u00a0b", "a\u3000b", "\u2003 \u2009x",
          "a\u2028b\u2029c", "\x85x", "\x0b\x0c", " \n", "\n ", " \n \n ", "x \n\n  y", "\n" * 100, "a\nb", "a\r\nb", "a\r\n\r\nb", "a\rb", "\r\n",
          " \r\n\t\r\n ", "a.\n\nb", "!!\r\n\r\n!", "\tif x:\n\t\treturn\n", "end.   ", "   \t \t", "1 \n 2", "\u200b \u200b", "\u1680a\u180ea\u205fa"]
DIGITS = ["0", "7", "42", "1234567890", "3.14159", "-17", "1,000,000", "1e-7", "0x1F", "a1b2", "٣٤٥", "१२३", "½ ² Ⅷ ①", "𝟘𝟙", "一二三", "9" * 300,
          " 12", "12 ", "2+3=5", "10:45", "192.168.0.1", "(555) 010-9999"]
CONTRACTIONS = ["I'm", "I'M", "WE'VE", "we've", "She'S", "they'RE", "you'Ll", "it'D", "DON'T", "don't", "'s", "'S's", "'sun", "x'", "''s", "’s it’s",
                "'ſ", "it'ſ", "rock 'n' roll", "'T was", "a'm'll've", "1's", "'RE'LL", "O'Brien's", "l'été", "İ'm ı'M", "\u212a'd", " 'll"]
NORMAL = ["é", "e\u0301", "café", "cafe\u0301", "\u212b \u00c5 A\u030a", "\u2126 \u03a9", "ﬁ ﬂ", "한 \u1112\u1161\u11ab", "\u1100\u1161\u11a8\u11a8", "q\u0307\u0323",
          "q\u0323\u0307", "\u1e9b\u0323", "\u0344", "\u0958 \u0915\u093c", "\uf900 \u8c48", "\ufb2a", "שׁ", "\U0001d15e", "\U0002f800", "o\u0302\u0323\u0301",
          "a\u0315\u0300\u05ae\u0062", "\u0301!I", "\u0301", " \u0301x", "e <\u0301", "n\u0303o n\u0303", "\u0f71\u0f72\u0f74", "Z\u0351\u036b\u0343a\u0321lgo\u0489", "\u0387;\u037e",
          "\u2000\u2001", "ǆ \u01c6", "ạ̈ a\u0323\u0308 a\u0308\u0323", "\u0b47\u0b3e", "\u304b\u3099\u309a", "e<|im_end|>\u0301", "\u0308\u0301 i", "s\u0323\u0307ſ\u0307"]
LANGUAGES = ["מים אש שמש ירח", "שָׁלוֹם עוֹלָם", "(עברית) abc ספר-123", "水火太阳月亮", "你好，世界！今天天气很好。", "“书”和《面包》……", "ağaç güneş köpek yağmur", "İstanbul'da IĞDIR ışık",
             "ÇĞİÖŞÜ çğıöşü", "Rumah dan buku-buku di Jakarta.", "Anak-anak bermain hujan-hujanan", "Здравствуй, мир", "Καλημέρα κόσμε", "नमस्ते दुनिया", "สวัสดีชาวโลก", "こんにちは カタカナ",
             "안녕하세요 세계", "مرحبا بالعالم", "Tiếng Việt đẹp", "ქართული ენა", "ሰላም", "Łódź, Århus, Größe, naïve", "ÀÉÎÕÜ", "𐐀𐐨 𝒜𝓑", "æøå ßẞ", "ꙮ ʘ ʔ"]
EMOJI = ["💧🔥☀️🌙", "☀ ☀️ ☀︎", "👩‍💻", "👨‍👩‍👧‍👦", "👍🏽 👍", "🏳️‍🌈", "🇹🇷🇮🇱🇮🇩🇨🇳", "1️⃣ #️⃣", "❤️‍🔥", "🫠🪿", "a🐟b", " 🐦 ", "🐱🐱🐱", "🙂\n🙃", "\U0001f1f9", "👩\u200d", "\u200d\ufe0f"]
CONTROL = ["".join(map(chr, range(32))), "\x00", "a\x00b", "\x1b[31mred\x1b[0m", "\x7f\x80\x9f", "\ufeffBOM", "\ufffd", "\ufffe\uffff", "\U0010ffff", "\ue000\U000f0000",
           "a\u200bb\u200cc\u200dd", "\u202eabc\u202c", "\u00adsoft", "\x1c\x1d\x1e\x1f"]
SPECIAL = ["<|im_start|>user\nHi<|im_end|>\n", "<|im_start|>", "<|im_start|><|im_end|>", "<|im_start", "<|im_start| >", "<|IM_START|>", "<<|im_end|>>", " <|im_end|> ", "<|im_end|>\n\n\nx",
           "<think>\n\n</think>\n\n", "<think>\nx\n</think>", "a<think>b</think>c", "<think", "</think >", "<THINK>", "<tool_call>\n<function=add>\n<parameter=a>\n2\n</parameter>\n</function>\n</tool_call>",
           "<tool_response>\nok\n</tool_response>", "<tools></tools>", "<|endoftext|>", "<|vision_start|><|image_pad|><|vision_end|>", "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>",
           "<|unused_3000|>", "<|unused_30000|>", "<|unused_2868|><|unused_4069|>", "< think >", "<\u200bthink>", "<think\u0301>", "<|im_\nend|>", "<IMPORTANT>", "[INST] <s> </s> <pad>"]
CODE = ["def f(x):\n    return x * 2\n", "for (int i = 0; i < n; ++i) {\n  a[i] += b[i];\n}\n", "```python\nprint(\"hi\")\n```", '{"name": "Ada", "age": 36, "items": ["cup", "hat"]}',
        "SELECT * FROM t WHERE a != 'b';", "#include <vector>\n#define X(a) a##_t", "fn main() -> Result<(), E> { Ok(()) }", "x=>x?.y??z", "https://example.com/a_b?q=1&r=%20#top", "me@example.com",
        "C:\\Users\\x\\n", "/home/ada/cup.txt", "a_b-c.d/e", "camelCaseWord HTTPServer snake_case", "<div class=\"a\">&amp;</div>", "$x^2 + \\frac{1}{2}$", "| a | b |\n|---|---|\n", "- [ ] todo\n  * item",
        "if(!a&&b||c){}", "'''doc'''", "\"\"\"", "...", "…", "--", "===", "!?!?", "a,b;c:d", "(((())))", "@#$%^&*"]
LONG = ["a" * 1000, "ab" * 400, "A" * 333, "pneumonoultramicroscopicsilicovolcanoconiosis" * 8, "=" * 300, "水" * 200, "🔥" * 60, "e\u0301" * 150, "\u0301" * 90, "the " * 120, "lorem\n" * 60,
        "Once upon a time there was a brave fox named Ada. Ada lived near the river.", "The capital of France is Paris.", "I am Pocket, the tiny model that ships with Lily.",
        "Count from 3 to 9.\n3, 4, 5, 6, 7, 8, 9", "THE QUICK BROWN FOX", "tHe qUiCk", "hello world", "Hello, World!", "helloworld", " the", "the", "The", "THE"]
HANDMADE = [SPACES, DIGITS, CONTRACTIONS, NORMAL, LANGUAGES, EMOJI, CONTROL, SPECIAL, CODE, LONG]


def mixed(r):
    """A few short samples of different kinds run together, cut at any character."""
    text = "".join(r.choice([" ", "", "", "\n"]) + r.choice([s for s in r.choice(HANDMADE) if len(s) < 40]) for _ in range(r.randrange(2, 6)))
    return text[r.randrange(3):]


def decodings(t, texts, r):
    """Whole texts, texts cut between any two ids (so inside characters too), and ids in any order."""
    some = [t.encode(s).ids for s in EMOJI + LANGUAGES[:10] + SPECIAL]
    for ids in some:
        yield ids
    for ids in some[:len(EMOJI) + 10]:
        cut = r.randrange(1, len(ids)) if len(ids) > 1 else 1
        yield from (ids[:cut], ids[cut:])
    fire = t.encode("a🔥b", add_special_tokens=False).ids
    yield from (fire[:n] for n in range(1, len(fire)))
    yield from (fire[:n] + t.encode("<|im_end|>").ids + fire[n:] for n in range(1, len(fire)))
    yield from ([byte] for byte in range(0, 256, 5))
    yield from ([r.randrange(4096) for _ in range(r.randrange(1, 12))] for _ in range(40))
    yield []


def main(folder, out):
    t = Tokenizer.from_file(folder + "/tokenizer.json")
    bare = Tokenizer.from_str(json.dumps(dict(json.loads(t.to_str()), added_tokens=[])))
    r = random.Random(0)
    texts = list(dict.fromkeys([s for group in HANDMADE for s in group] + [mixed(r) for _ in range(60)]))
    golden = dict(
        encode=[dict(text=s, ids=t.encode(s).ids) for s in texts],
        plain=[dict(text=s, ids=bare.encode(s).ids) for s in SPECIAL + NORMAL[-4:]],
        decode=[dict(ids=ids, text=t.decode(ids, skip_special_tokens=False), visible=t.decode(ids, skip_special_tokens=True))
                for ids in decodings(t, texts, r)])
    with open(out, "w", encoding="utf-8") as f:
        f.write("{" + ",".join(f'"{k}": [\n' + ",\n".join(map(json.dumps, v)) + "\n]" for k, v in golden.items()) + "}\n")
    print({k: len(v) for k, v in golden.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
