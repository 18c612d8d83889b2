"""What goes in wrong comes out as one line that names it, nothing on standard output, and the exit code of README.md.

The table is docs/BROKEN_INPUTS.md for the command line.
"""
import os
import unittest

from harness import CAPITAL, PLAIN, POCKET, Case, lily, main, pocket_copy, replace, scratch

HI = ("-p", "Hi")
# (what, arguments, standard input, exit code, words on standard error)
WORDS = [
    ("no command", (), "", 2, "run"),
    ("unknown command", ("fly",), "", 2, "fly"),
    ("unknown option", ("run", *HI, "--frobnicate"), "", 2, "--frobnicate"),
    ("unknown topic of help", ("help", "fly"), "", 2, "'fly'"),
    ("no value", ("run", "-p"), "", 2, "--prompt"),
    ("two prompts", ("run", *HI, "--prompt-file", "x"), "", 2, "--prompt-file"),
    ("empty prompt", ("run", "-p", ""), "", 2, "the prompt is empty"),
    ("white prompt", ("run", "-p", " \n "), "", 2, "the prompt is empty"),
    ("empty standard input", ("run",), "", 2, "the prompt is empty"),
    ("empty raw prompt", ("run", "--raw", "-p", ""), "", 2, "the prompt is empty"),
    ("missing prompt file", ("run", "--prompt-file", "/nowhere/q"), "", 3, "/nowhere/q"),
    ("folder as prompt file", ("run", "--prompt-file", "/"), "", None, "/"),
    ("prompt over the context", ("run", "--context", "64"), "word " * 200, 6, "the context holds 64"),
    ("unknown backend", ("run", *HI, "--backend", "abacus"), "", 2, "'abacus'"),
    ("unknown instruction set", ("run", *HI, "--isa", "z80"), "", 2, "z80"),
    ("unknown mechanism", ("run", *HI, "--mechanism", "warp=off"), "", 2, "'warp': expected one of dequantise_in_tile"),
    ("a mechanism neither on nor off", ("run", *HI, "--mechanism", "packed_attention=no"), "", 2, "NAME=on or NAME=off"),
    ("a GPU's mechanism on the processor", ("run", *HI, "--mechanism", "packed_attention=off"), "", 4, "backend 'cpu' has none"),
    ("word for a number", ("run", *HI, "--threads", "two"), "", 2, "--threads"),
    ("negative number", ("run", *HI, "--max-tokens", "-1"), "", 2, "--max-tokens"),
    ("number over its bound", ("run", *HI, "--chunk", "2049"), "", 2, "2048"),
    ("number over every bound", ("run", *HI, "--context", "99999999999999999999"), "", 2, "--context"),
    ("chunk of nothing", ("run", *HI, "--chunk", "0"), "", 2, "--chunk"),
    ("temperature below 0", ("run", *HI, "--temperature", "-1"), "", 2, "temperature"),
    ("temperature that is no number", ("run", *HI, "--temperature", "nan"), "", 2, "temperature"),
    ("top-p of 0", ("run", *HI, "--top-p", "0"), "", 2, "top_p"),
    ("top-k below 0", ("run", *HI, "--top-k", "-3"), "", 2, "top_k"),
    ("min-p over 1", ("run", *HI, "--min-p", "1.5"), "", 2, "min_p"),
    ("repetition penalty of 0", ("run", *HI, "--repetition-penalty", "0"), "", 2, "repetition_penalty"),
    ("penalty out of range", ("run", *HI, "--presence-penalty", "9"), "", 2, "presence_penalty"),
    ("negative seed", ("run", *HI, "--seed", "-1"), "", 2, "--seed"),
    ("greedy and a temperature", ("run", *HI, "--greedy", "--temperature", "1"), "", 2, "--greedy"),
    ("unknown preset", ("run", *HI, "--preset", "wild"), "", 2, "wild"),
    ("bias without a value", ("run", *HI, "--logit-bias", "5"), "", 2, "ID:VALUE"),
    ("bias of an id that is not there", ("run", *HI, "--logit-bias", "4999:1"), "", 2, "4999"),
    ("bias out of range", ("run", *HI, "--logit-bias", "5:101"), "", 2, "logit_bias"),
    ("empty stop string", ("run", *HI, "--stop", ""), "", 2, "--stop"),
    ("too many stop strings", ("run", *HI, *["--stop", "x"] * 17), "", 2, "17"),
    ("alternatives without JSON", ("run", *HI, "--top-logprobs", "2"), "", 2, "--json"),
    ("raw text and a system message", ("run", *HI, "--raw", "--system", "x"), "", 2, "--system"),
    ("context over the declared one", ("run", *HI, "--context", "100000"), "", 2, "8192"),
    ("ids that are no numbers", ("detokenize",), "12 x", 2, "'x'"),
    ("ids out of range", ("detokenize",), "5000", 2, "5000"),
    ("ids in broken JSON", ("detokenize",), '{"ids": [1,', 2, "not valid JSON at byte 12"),
    ("ids of the wrong kind", ("detokenize",), '{"ids": [1.5]}', 2, "no whole number"),
    ("missing tokenizer", ("tokenize", "--tokenizer", "/nowhere/t"), "x", 3, "/nowhere/t"),
    ("no conversation", ("render",), "", 2, "render"),
    ("a conversation that is none", ("render",), "[1]", 2, "object"),
    ("unknown key in a conversation", ("render",), '{"messages": [], "tool": 1}', 2, "tool"),
    ("no question in a conversation", ("render",), '{"messages": []}', 2, "render"),
    ("eval without a file", ("eval",), "", 2, "--golden"),
    ("missing golden", ("eval", "--golden", "/nowhere/g.json"), "", 3, "/nowhere/g.json"),
    ("unknown shape", ("synth", "--spec", "70b", "--out", "/nowhere"), "", 2, "70b"),
    ("unknown shape to plan", ("doctor", "--spec", "70b", "--memory", "24G"), "", 2, "70b"),
    ("size without a number", ("doctor", "--memory", "G"), "", 2, "'G'"),
    ("size with a wrong unit", ("doctor", "--memory", "24X"), "", 2, "'24X'"),
    ("size below 0", ("doctor", "--memory=-24G"), "", 2, "-24G"),
    ("missing conversation", ("chat", "--resume", "/nowhere/c"), "", 3, "/nowhere/c"),
    ("missing model", ("run", *HI, "--model", "/nowhere/m"), "", 3, "/nowhere/m"),
    ("missing model to describe", ("info", "/nowhere/m"), "", 3, "/nowhere/m"),
]


class BrokenWords(Case):
    def test_each_is_refused_by_name(self):
        for what, args, stdin, status, words in WORDS:
            with self.subTest(what):
                got = lily(*args, stdin=stdin)
                self.assertNotIn(got.status, (0, 1, -6, -11), got.err)
                if status is not None:
                    self.assertEqual(got.status, status, got.err)
                if args[:1] == ("doctor",) and got.out:  # It goes on and reports what it could not do.
                    self.assertIn(words, got.out)
                    continue
                self.assertIn(words, got.err)
                self.assertEqual(got.out, "")
                if args:
                    self.assertRegex(got.err, r"^lily[ :]")


class BrokenModels(Case):
    def refused(self, folder, status, *words):
        got = lily("run", "--model", folder, *CAPITAL, *PLAIN, "--quiet")
        self.assertEqual((got.status, got.out), (status, ""), got.err)
        for word in words:
            self.assertIn(word, got.err)

    def test_a_gguf_file_is_named_as_such(self):
        file = scratch / "model.gguf"
        file.write_bytes(b"GGUF\x03\0\0\0" + bytes(64))
        self.refused(file, 4, "GGUF", "MLX")

    def test_an_empty_folder_lacks_its_config(self):
        folder = scratch / "empty"
        folder.mkdir()
        self.refused(folder, 3, "config.json")

    def test_a_missing_shard_is_named(self):
        self.refused(pocket_copy("short", without=["model-00002-of-00002.safetensors"]), 3, "model-00002-of-00002.safetensors")

    def test_a_cut_shard_is_corrupt(self):
        folder = pocket_copy("cut")
        shard = "model-00001-of-00002.safetensors"
        replace(folder / shard, (POCKET / shard).read_bytes()[:-100])
        self.refused(folder, 5, shard)

    def test_another_family_is_refused_by_name(self):
        folder = pocket_copy("family")
        text = (POCKET / "config.json").read_text()
        replace(folder / "config.json", text.replace("qwen3_5_moe", "llama"))
        self.refused(folder, 4, "llama")

    def test_a_missing_tokenizer_is_named(self):
        self.refused(pocket_copy("dumb", without=["tokenizer.json"]), 3, "tokenizer.json")

    @unittest.skipIf(os.geteuid() == 0, "the superuser may read everything")
    def test_an_unreadable_folder_is_said(self):
        folder = pocket_copy("locked")
        folder.chmod(0)
        self.addCleanup(folder.chmod, 0o755)
        self.refused(folder, 3, "locked")


class Help(Case):
    def test_every_command_explains_itself(self):
        top = self.succeeds("--help").out
        for command in ("run", "chat", "info", "doctor", "tokenize", "detokenize", "render", "eval", "synth", "bench"):
            self.assertIn(command, top)
            text = self.succeeds(command, "--help").out
            self.assertIn("Usage: lily " + command, text)
            self.assertEqual(self.succeeds("help", command).out, text)
        self.assertEqual(self.succeeds("help").out, top)
        self.assertRegex(self.succeeds("--version").out, r"^lily \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    main()
