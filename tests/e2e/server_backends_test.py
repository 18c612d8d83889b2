"""Cases of backends: what the server promises holds on each that this machine has, beside the CPU."""
import json

from harness import FULL, QUICK, backends, main
from serving import Server, ServerCase, user

ADA = "Ada is 7 years old, lives in Rome and owns: lamp. Answer in JSON with the keys name, age, city and items."
PERSON = {"type": "object", "required": ["name", "age", "city", "items"], "additionalProperties": False, "properties": {
    "name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}, "items": {"type": "array", "items": {"type": "string"}}}}

def is_a(*kinds):
    return lambda value: type(value) in kinds


def object_of(**fields):
    return {"type": "object", "required": list(fields), "additionalProperties": False, "properties": fields}


def short(length, of):
    return {"type": "array", "items": of, "minItems": 1, "maxItems": length}


# Thirty schemas of short values, each with what has to hold of a value.
SMALL = [
    ({"type": "boolean"}, is_a(bool)), ({"type": "null"}, lambda v: v is None), ({"type": "integer"}, is_a(int)), ({"type": "number"}, is_a(int, float)),
    ({"type": ["boolean", "null"]}, is_a(bool, type(None))), ({"const": "lamp"}, lambda v: v == "lamp"), ({"const": 7}, lambda v: v == 7),
    ({"enum": ["red", 2, None]}, lambda v: v in ("red", 2, None)), ({"enum": ["a", "b"]}, lambda v: v in ("a", "b")), ({"enum": [True]}, lambda v: v is True),
    ({"type": "string", "pattern": "^[a-c]{2}[0-9]$"}, lambda v: len(v) == 3 and v[2].isdigit()), ({"type": "string", "pattern": "^(yes|no)$"}, lambda v: v in ("yes", "no")),
    ({"type": "string", "maxLength": 4}, lambda v: len(v) <= 4), ({"type": "string", "minLength": 2, "maxLength": 5}, lambda v: 2 <= len(v) <= 5),
    ({"type": "string", "pattern": "^[0-9]{4}$"}, lambda v: len(v) == 4 and v.isdigit()), ({"type": "string", "format": "date"}, lambda v: len(v) == 10 and v[4] == "-"),
    ({"type": "integer", "minimum": 3, "maximum": 12}, lambda v: 3 <= v <= 12), ({"type": "integer", "minimum": -5, "maximum": -1}, lambda v: -5 <= v <= -1),
    ({"type": "integer", "exclusiveMinimum": 0, "maximum": 9}, lambda v: 0 < v <= 9),
    (short(2, {"type": "boolean"}), lambda v: 1 <= len(v) <= 2 and all(type(x) is bool for x in v)), (short(1, {"type": "null"}), lambda v: v == [None]),
    (short(2, {"enum": [1, 2]}), lambda v: 1 <= len(v) <= 2 and set(v) <= {1, 2}), (short(1, short(1, {"const": 1})), lambda v: v == [[1]]),
    (object_of(a={"type": "boolean"}), lambda v: list(v) == ["a"] and type(v["a"]) is bool), (object_of(b={"const": 1}, a={"const": 2}), lambda v: list(v.items()) == [("b", 1), ("a", 2)]),
    (object_of(), lambda v: v == {}), (object_of(a=object_of(b={"type": "null"})), lambda v: v == {"a": {"b": None}}),
    ({"anyOf": [{"const": "x"}, {"type": "boolean"}]}, lambda v: v == "x" or type(v) is bool),
    ({"$ref": "#/$defs/flag", "$defs": {"flag": {"enum": ["on", "off"]}}}, lambda v: v in ("on", "off")),
    ({"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": False}, lambda v: v in ({}, {"a": 1})),
]


def others():
    """A card where there is one; the emulator everywhere, but slowly."""
    cards = [name for name in ("cuda", "metal") if backends()[name]["available"]]
    return cards + ([] if QUICK else ["emulator"])


class Backends(ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.others = [(name, Server("--backend", name)) for name in others()]

    @classmethod
    def tearDownClass(cls):
        for name, server in cls.others:
            assert server.stop() == 0, name
        super().tearDownClass()

    def on_each(self, work):
        """What `work` says on the CPU, and whether the others say the same."""
        expected = work(self.server)
        for name, server in self.others:
            with self.subTest(name):
                self.assertEqual(work(server), expected)
        return expected

    def ask(self, server, messages, **fields):
        got = server.post("/v1/chat/completions", self.body(messages, **fields))
        self.assertEqual(got.status, 200, got.body)
        return got.json()

    def test_r015_reuse_is_the_same(self):
        def turns(server):
            messages, out = [], []
            for question in ("What is the capital of France?", "What colour is snow?", "What is 17 + 25?"):
                messages.append(user(question))
                got = self.ask(server, messages)
                out.append((got["usage"]["prompt_tokens"], got["usage"]["prompt_tokens_details"]["cached_tokens"]))
                messages.append(got["choices"][0]["message"])
            return out
        turns_ = self.on_each(turns)
        self.assertGreater(turns_[1][1], 0)
        self.assertGreater(turns_[2][1], turns_[1][1])

    def test_r075_structured_output_is_the_same(self):
        def person(server):
            format_ = {"type": "json_schema", "json_schema": {"name": "p", "schema": PERSON}}
            return json.loads(self.ask(server, ADA, response_format=format_)["choices"][0]["message"]["content"])
        got = self.server.post("/v1/chat/completions", self.body("Hi", max_tokens=1, response_format={"type": "json_object"}))
        if got.status != 200:
            self.skipTest("this build has no grammars (LILY_GRAMMAR)")
        self.assertEqual(self.on_each(person), {"name": "Ada", "age": 7, "city": "Rome", "items": ["lamp"]})
        for name, server in [("cpu", self.server), *self.others]:
            for schema, fits in SMALL[::5] if name == "emulator" and not FULL else SMALL:  # Seconds each there.
                for fields in ({}, {"temperature": 2, "seed": 1}):
                    with self.subTest(name, schema=schema, fields=fields):
                        format_ = {"type": "json_schema", "json_schema": {"name": "p", "schema": schema}}
                        choice = self.ask(server, "Hi", max_tokens=20, response_format=format_, **fields)["choices"][0]
                        self.assertTrue(choice["finish_reason"] == "length" or fits(json.loads(choice["message"]["content"])), choice)


if __name__ == "__main__":
    main()
