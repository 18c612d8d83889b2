"""The bytes of a greedy answer depend on the question, not on how it is computed."""
from harness import PLAIN, Case, golden_json, lily, main


def long_question():
    """A recorded conversation whose question is long enough to be cut in chunks of 65, and no longer than that needs."""
    rows = [r for r in golden_json("answers.json")["rows"] if len(r["messages"]) == 2 and r["prompt_length"] > 130]
    row = min(rows, key=lambda r: r["prompt_length"])
    return row["messages"][0]["content"], row["messages"][1]["content"]


class SameAnswer(Case):
    def test_chunks_threads_and_packing_change_nothing(self):
        question, answer = long_question()
        expected = self.succeeds("run", *PLAIN, "--json", stdin=question).json()
        self.assertEqual(expected["text"], answer)
        self.assertGreater(expected["usage"]["prompt_tokens"], 130)
        for chunk in (1, 2, 3, 63, 64, 65, 2048):
            for threads in (1, 2):
                for pack in ([], ["--no-pack"]):
                    with self.subTest(chunk=chunk, threads=threads, pack=pack):
                        got = self.succeeds("run", *PLAIN, "--json", "--chunk", chunk, "--threads", threads, *pack, stdin=question).json()
                        self.assertEqual((got["text"], got["tokens"]), (expected["text"], expected["tokens"]))

    def test_every_instruction_set_gives_the_same_log_probabilities(self):
        question, _ = long_question()
        ask = ("run", *PLAIN, "--json", "--top-logprobs", "2")
        expected = self.succeeds(*ask, "--isa", "portable", stdin=question).json()["logprobs"]
        names = lily(*ask, "--isa", "?", stdin=question).err.partition("expected one of ")[2].strip().split(", ")
        self.assertEqual(names.pop(), "portable")
        for isa in names:
            with self.subTest(isa=isa):
                got = lily(*ask, "--isa", isa, stdin=question)
                if got.status == 4:
                    self.skipTest(f"not tested: {got.err}")
                self.assertEqual(got.json()["logprobs"], expected)


if __name__ == "__main__":
    main()
