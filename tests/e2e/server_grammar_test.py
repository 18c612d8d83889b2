"""Structured output: what is promised parses and fits, what cannot be promised is refused by its place."""
import json
import threading
import time

from harness import main
from serving import CAPITAL_ANSWER, CAPITAL_QUESTION, ServerCase, tools

ADA = "Ada is 7 years old, lives in Rome and owns: lamp. Answer in JSON with the keys name, age, city and items."
PERSON = {"type": "object", "required": ["name", "age", "city", "items"], "additionalProperties": False, "properties": {
    "name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}, "items": {"type": "array", "items": {"type": "string"}}}}
TREE = {"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer", "minimum": 0, "maximum": 9}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                           "required": ["v", "next"]}}, "$ref": "#/$defs/node"}
# Each schema with what shows that a value fits it.
SCHEMAS = [
    ({"type": "boolean"}, lambda v: isinstance(v, bool)), ({"type": "null"}, lambda v: v is None),
    ({"type": "integer", "minimum": 3, "maximum": 12}, lambda v: 3 <= v <= 12), ({"const": "x"}, lambda v: v == "x"),
    ({"enum": ["red", 2, None]}, lambda v: v in ("red", 2, None)), ({"type": "string", "maxLength": 5}, lambda v: len(v) <= 5),
    ({"type": "string", "pattern": "^[a-c]{2}[0-9]$"}, lambda v: len(v) == 3 and v[2].isdigit()),
    ({"type": "string", "pattern": "^\"[^a-z]{3}\\\\\\n$"}, lambda v: len(v) == 6 and v[0] == '"' and v[4:] == "\\\n"),
    ({"type": "object", "patternProperties": {"^\"[\\\\\"]$": {"const": 1}}, "minProperties": 1, "maxProperties": 1}, lambda v: len(v) == 1 and set(v) <= {'"\\', '""'}),
    ({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "minItems": 2, "maxItems": 3}, lambda v: 2 <= len(v) <= 3 and all(0 <= n <= 9 for n in v)),
    ({"type": "array", "prefixItems": [{"const": 1}, {"type": "boolean"}], "items": False, "minItems": 2}, lambda v: v[0] == 1 and isinstance(v[1], bool) and len(v) == 2),
    ({"anyOf": [{"const": 1}, {"const": "one"}]}, lambda v: v in (1, "one")), ({"type": ["boolean", "null"]}, lambda v: v in (True, False, None)),
    ({"type": "object", "properties": {"b": {"const": 1}, "a": {"const": 2}}, "required": ["b", "a"]}, lambda v: list(v.items()) == [("b", 1), ("a", 2)]),
    ({"type": "object", "properties": {"a": {"const": 2}}}, lambda v: set(v) <= {"a"}),
]


def wanted(schema):
    return {"type": "json_schema", "json_schema": {"name": "wanted", "strict": True, "schema": schema}}


class Structured(ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.grammars = cls.server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1,
                                                                "response_format": {"type": "json_object"}}).status == 200

    def setUp(self):
        if not self.grammars:
            self.skipTest("this build has no grammars (LILY_GRAMMAR)")

    def value(self, question, schema, **fields):
        got = self.chat(question, response_format=wanted(schema), **fields)["choices"][0]
        return json.loads(got["message"]["content"]) if got["finish_reason"] == "stop" else None

    def test_r075_the_value_is_the_models_own(self):
        person = {"name": "Ada", "age": 7, "city": "Rome", "items": ["lamp"]}
        self.assertEqual(self.value(ADA, PERSON), person)
        self.assertEqual(self.value(ADA, PERSON, chat_template_kwargs={}, max_tokens=400), person)
        self.assertEqual(json.loads(self.stream(ADA, response_format=wanted(PERSON)).content), person)
        self.assertEqual(json.loads(self.text(ADA, response_format={"type": "json_object"})), person)

    def test_r075_every_answer_fits_its_schema(self):
        for schema, fits in SCHEMAS:
            for fields in ({}, {"temperature": 2, "seed": 1}, {"temperature": 2, "seed": 2}):
                with self.subTest(schema=schema, fields=fields):
                    got = self.value("Hi", schema, max_tokens=120, **fields)
                    self.assertTrue(got is None and fields or fits(got), got)

    def test_r073_a_finished_grammar_ends_the_answer(self):
        got = self.chat("Hi", response_format=wanted({"const": "x"}))["choices"][0]
        self.assertEqual((got["message"]["content"], got["finish_reason"]), ('"x"', "stop"))
        self.assertEqual(self.text(CAPITAL_QUESTION), CAPITAL_ANSWER)

    def test_r073_what_nothing_fits_is_refused(self):
        for schema in ({"enum": []}, {"type": "integer", "minimum": 5, "maximum": 4}, {"$ref": "#"}, {"anyOf": []}):
            self.assertTrue(self.refused(400, "Hi", response_format=wanted(schema))["param"].startswith("response_format.json_schema.schema"), schema)

    def test_r095_wrong_schemas_are_refused_in_time(self):
        many = {"type": "object", "properties": {f"p{i}": {"type": "string", "description": "d" * 100} for i in range(8000)}}
        for schema in ({"type": "nonsense"}, {"$ref": "#/$defs/missing"}, {"type": "string", "pattern": "("}, {"type": "array", "maxItems": 1_000_000_000},
                       many, {"not": {}}, {"type": "array", "uniqueItems": True}, {"properties": 5}, 5, {"allOf": [{}, {}]}):
            with self.subTest(str(schema)[:60]):
                began = time.monotonic()
                error = self.refused(400, "Hi", response_format=wanted(schema))
                self.assertLess(time.monotonic() - began, 10)
                self.assertIn("response_format", error["message"])
        self.assertEqual(self.chat("Hi", response_format=wanted(TREE), max_tokens=40)["object"], "chat.completion")

    def test_r077_masks_belong_to_a_row(self):
        plain = "Repeat after me: fox bear lamp"
        alone, value, got = self.text(plain), self.text(ADA, response_format=wanted(PERSON)), []

        def ask(i):
            got.append((i % 2, self.text(plain) if i % 2 else self.text(ADA, response_format=wanted(PERSON))))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(got), sorted([(1, alone), (0, value)] * 4))

    def test_a_schema_beside_tools_leaves_both_ways_open(self):
        called = self.chat("What is the weather in Paris?", tools=tools(), response_format=wanted(PERSON))["choices"][0]
        self.assertEqual(called["finish_reason"], "tool_calls")
        said = self.chat(ADA, tools=tools(), tool_choice="none", response_format=wanted(PERSON))["choices"][0]
        self.assertEqual(json.loads(said["message"]["content"])["name"], "Ada")

    def test_other_doors_have_it_too(self):
        format_ = {"type": "json_schema", "name": "p", "schema": PERSON}
        newer = self.server.post("/v1/responses", {"input": ADA, "temperature": 0, "reasoning": {"effort": "none"}, "text": {"format": format_}}).json()
        self.assertEqual(json.loads(newer["output"][0]["content"][0]["text"])["age"], 7)
        claude = self.server.post("/v1/messages", {"max_tokens": 100, "temperature": 0, "messages": [{"role": "user", "content": ADA}], "output_config": {"format": format_}}).json()
        self.assertEqual(json.loads(claude["content"][0]["text"])["city"], "Rome")


if __name__ == "__main__":
    main()
