"""lily eval on the recorded truth: the bars of docs/NUMERICS.md."""
import unittest

from harness import FULL, GOLDEN, POCKET, QUICK, SOURCE, Case, backends, lily, main, scratch


class Eval(Case):
    def report(self, file, *more):
        return self.succeeds("eval", "--json", "--golden", GOLDEN / file, *more).json()

    @unittest.skipIf(QUICK, "5,188 positions of plain loops take too long with sanitizers")
    def test_the_reference_is_the_oracle_to_the_fourth_digit(self):
        answers = self.report("answers.json", "--backend", "reference")
        self.assertEqual(answers["top1"], 1.0)
        self.assertLessEqual(answers["log_prob_max_difference"], 1e-3)
        self.assertEqual(answers["greedy_equal"], answers["greedy_total"], answers["greedy_different"])
        self.assertGreater(answers["positions"], 5000)

    def test_the_reference_gives_whole_distributions_alike(self):
        full = self.report("full.safetensors", "--backend", "reference")
        self.assertEqual(full["positions"], 192)
        self.assertLessEqual(full["kl_mean"], 1e-6)
        self.assertIsNone(full["greedy_total"])

    def test_eight_bit_activations_keep_whole_distributions(self):
        self.assertLessEqual(self.report("full.safetensors")["kl_mean"], 1e-4)

    @unittest.skipIf(QUICK, "5,188 positions take too long with sanitizers")
    def test_eight_bit_activations_keep_the_answers(self):
        answers = self.report("answers.json")
        self.assertGreaterEqual(answers["top1_replies"], 0.99)
        self.assertGreaterEqual(answers["greedy_equal"], 0.97 * answers["greedy_total"], answers["greedy_different"])
        self.assertAlmostEqual(answers["perplexity"] / answers["perplexity_reference"], 1.0, delta=0.002)

    def test_exact_activations_are_closer_still(self):
        self.assertLessEqual(self.report("full.safetensors", "--exact")["kl_mean"], 1e-6)

    def of_gpu_kernels(self, file, *more, backend="emulator"):
        return self.report(file, "--backend", backend, "--context", "1024", *more)

    @unittest.skipIf(QUICK, "the emulator takes too long with sanitizers")
    def test_gpu_kernels_keep_whole_distributions(self):
        full = self.of_gpu_kernels("full.safetensors")
        self.assertEqual(full["positions"], 192)
        self.assertLessEqual(full["kl_mean"], 2e-4)

    def keeps_the_answers(self, backend):
        short = self.of_gpu_kernels("full.safetensors", "--chunk", "8", backend=backend)  # The kernels of decoding and drafts.
        self.assertLessEqual(short["kl_mean"], 2e-4)
        answers = self.of_gpu_kernels("answers.json", backend=backend)
        self.assertGreater(answers["positions"], 5000)
        self.assertGreaterEqual(answers["top1_replies"], 0.99)
        self.assertGreaterEqual(answers["greedy_equal"], 0.97 * answers["greedy_total"], answers["greedy_different"])

    @unittest.skipUnless(FULL, "5,188 positions on the emulator take minutes: make test-gpu")
    def test_gpu_kernels_keep_the_answers(self):
        self.keeps_the_answers("emulator")

    def needs_a_card(self):
        cuda = backends()["cuda"]
        if not cuda["available"]:
            self.skipTest(cuda["description"])

    # Hopper's kernels are made for widths: the pocket has some, this has those of the real model.
    def test_a_card_computes_the_widths_of_the_real_model(self):
        self.needs_a_card()
        model = scratch / "four_layers"
        self.succeeds("synth", "-q", "--spec", "35b", "--layers", "4", "--out", model, "--tokenizer-folder", POCKET)
        run = ("run", "--model", model, "--no-pack", "--raw", "-p", "harbour", "--greedy", "--max-tokens", "16",
               "--json", "--top-logprobs", "1", "--context", "512")
        exact, card = (self.succeeds(*run, *more).json() for more in (("--exact",), ("--backend", "cuda")))
        self.assertEqual(card["tokens"], exact["tokens"])
        for theirs, ours in zip(exact["logprobs"], card["logprobs"]):
            self.assertAlmostEqual(ours["log_prob"], theirs["log_prob"], delta=0.02)
        again = self.succeeds(*run, "--backend", "cuda").json()
        self.assertEqual(again["logprobs"], card["logprobs"])

    def test_a_card_keeps_distributions_and_answers(self):
        self.needs_a_card()
        self.assertLessEqual(self.of_gpu_kernels("full.safetensors", backend="cuda")["kl_mean"], 2e-4)
        self.keeps_the_answers("cuda")

    def test_the_table_names_every_figure(self):
        table = self.succeeds("eval", "--golden", GOLDEN / "full.safetensors").out
        for name in ("positions", "top-1", "KL mean", "perplexity"):
            self.assertIn(name, table)
        self.assertRegex(table, r"perplexity [+-]\d\.\d\d %, same top token at \d+\.\d\d % over 192 positions")

    def test_two_backends_over_any_text(self):
        text = SOURCE / "README.md"
        got = self.succeeds("eval", "--json", "--text", text, "--positions", "40", "--against", "reference", "--context", "64").json()
        self.assertEqual(got["positions"], 40)
        self.assertIsNone(got["top1"])
        both = got["against"]
        self.assertEqual(both["positions"], 40)
        self.assertAlmostEqual(both["perplexity_delta_percent"], 100 * (both["perplexity"] / both["perplexity_against"] - 1), places=6)
        self.assertEqual(both["perplexity"], got["perplexity"])
        self.assertLessEqual(both["kl_mean"], 0.05)
        self.assertEqual([d["after"] for d in both["drift"]], ["embedding"] + [f"layer {i}" for i in range(8)])
        self.assertEqual(both["drift"][0]["max"], 0)
        for layer in both["drift"][1:]:
            self.assertLess(0, layer["mean"])
            self.assertLessEqual(layer["mean"], layer["max"])
        table = self.succeeds("eval", "--text", text, "--positions", "8", "--against", "cpu", "--against-exact", "--context", "64")
        self.assertIn("after layer 7", table.out)
        self.assertEqual(table.err, "")

    def test_what_is_read_has_to_be_said_once(self):
        for words in ((), ("--golden", GOLDEN / "full.safetensors", "--text", "x"),
                      ("--golden", GOLDEN / "full.safetensors", "--positions", "3"),
                      ("--text", "x", "--against-exact")):
            self.assertEqual(lily("eval", *words).status, 2, words)
        self.assertEqual(lily("eval", "--text", scratch / "nothing").status, 3)


if __name__ == "__main__":
    main()
