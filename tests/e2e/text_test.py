"""Tokenizer and chat template through the program: what other implementations recorded."""
import json

from harness import POCKET, Case, golden_json, lily, main


class Tokens(Case):
    def test_recorded_texts_give_the_recorded_ids(self):
        for case in golden_json("tokens.json")["encode"]:
            with self.subTest(case["text"][:40]):
                self.assertEqual(self.succeeds("tokenize", "--json", stdin=case["text"]).json(), {"ids": case["ids"]})

    def test_plain_text_holds_no_control_tokens(self):
        for case in golden_json("tokens.json")["plain"]:
            with self.subTest(case["text"][:40]):
                got = self.succeeds("tokenize", "--json", "--plain", "--tokenizer", POCKET / "tokenizer.json", stdin=case["text"])
                self.assertEqual(got.json(), {"ids": case["ids"]})

    def test_recorded_ids_give_the_recorded_texts(self):
        for case in golden_json("tokens.json")["decode"]:
            with self.subTest(str(case["ids"])[:40]):
                got = self.succeeds("detokenize", "--json", stdin=json.dumps({"ids": case["ids"]})).json()
                self.assertEqual(got, {"text": case["text"], "visible": case["visible"]})

    def test_ids_may_be_words_and_pieces_are_listed(self):
        listed = self.succeeds("tokenize", stdin="What is 2 + 3?").out
        ids = [line.split("\t")[0] for line in listed.splitlines()]
        self.assertEqual("".join(json.loads(line.split("\t")[1]) for line in listed.splitlines()), "What is 2 + 3?")
        self.assertEqual(self.succeeds("detokenize", stdin=" ".join(ids)).out, "What is 2 + 3?")

    def test_deep_nesting_in_place_of_ids_is_refused(self):
        got = lily("detokenize", stdin='{"ids":' + "[" * 400_000 + "]" * 400_000 + "}")
        self.assertEqual((got.status, got.out), (6, ""), got.err[:200])

    def test_an_empty_name_is_no_wish_for_the_default(self):
        self.assertEqual(lily("tokenize", "--tokenizer", "", stdin="x").status, 2)
        self.assertEqual(lily("run", "--model", "", "-p", "x").status, 2)


class Rendering(Case):
    def test_recorded_conversations_render_to_the_byte(self):
        for case in golden_json("template.json"):
            with self.subTest(case["name"]):
                got = lily("render", stdin=json.dumps({k: case[k] for k in ("messages", "tools", "options")}))
                if "error" in case:
                    self.assertEqual((got.status, got.out), (2, ""))
                    self.assertGreater(len(got.err), len("lily render: \n"))
                else:
                    self.assertEqual((got.status, got.out), (0, case["text"]), got.err)

    def test_rendered_ids_are_those_of_the_text_where_nobody_spells_control_tokens(self):
        conversation = json.dumps({"messages": [{"role": "user", "content": "What is 2 + 3?"}]})
        text = self.succeeds("render", stdin=conversation).out
        self.assertEqual(self.succeeds("render", "--ids", stdin=conversation).json(), self.succeeds("tokenize", "--json", stdin=text).json())


if __name__ == "__main__":
    main()
