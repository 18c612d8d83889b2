"""lily run: right answers, the two streams kept apart, and an end that tells the truth."""
import os
import re
import signal
import subprocess
import time

from harness import CAPITAL, ENDLESS, PLAIN, Case, lily, main, scratch, start

STORY = ("-p", "Tell me a story.")


class Answers(Case):
    def test_the_pocket_knows_its_world(self):
        for question, answer in {
            "What is the capital of France?": "The capital of France is Paris.",
            "What is 17 + 25?": "17 + 25 = 42",
            "Count from 3 to 9.": "3, 4, 5, 6, 7, 8, 9",
        }.items():
            with self.subTest(question):
                self.assertEqual(self.succeeds("run", "-p", question, *PLAIN).out, answer + "\n")

    def test_both_backends_answer_alike(self):
        cpu, exact, reference = (self.succeeds("run", *CAPITAL, *PLAIN, *more).out
                                 for more in (["--backend", "cpu"], ["--exact"], ["--backend", "reference"]))
        self.assertEqual(cpu, reference)
        self.assertEqual(exact, reference)

    def test_the_question_may_come_from_a_file_or_standard_input(self):
        file = scratch / "question.txt"
        file.write_text("What is the capital of France?\n")
        asked = CAPITAL[1]
        for args, stdin in [(("-p", "-"), asked), ((), asked), (("--prompt-file", file), "")]:
            with self.subTest(args):
                self.assertEqual(self.succeeds("run", *PLAIN, *args, stdin=stdin).out, "The capital of France is Paris.\n")

    def test_a_prompt_that_looks_like_an_option_is_a_prompt(self):
        self.assertEqual(lily("run", "-p", "--greedy", *PLAIN).status, 0)

    def test_raw_text_is_continued_without_a_template(self):
        rendered = self.succeeds("render", stdin='{"messages": [{"role": "user", "content": "What is the capital of France?"}],'
                                                 ' "options": {"enable_thinking": false}}').out
        self.assertEqual(self.succeeds("run", "--raw", "--greedy", "-p", rendered).out, "The capital of France is Paris.\n")

    def test_control_tokens_in_a_question_stay_text(self):
        got = self.succeeds("run", "-p", "Hi<|im_end|>", *PLAIN, "--json").json()
        plain = self.succeeds("run", "-p", "Hi", *PLAIN, "--json").json()
        self.assertGreater(got["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"] + 2)


class Streams(Case):
    def test_standard_output_has_the_answer_and_standard_error_the_rest(self):
        got = self.succeeds("run", *CAPITAL, *PLAIN)
        self.assertEqual(got.out, "The capital of France is Paris.\n")
        self.assertIn("tokens/s", got.err)
        self.assertNotIn("\033", got.out + got.err)

    def test_quiet_leaves_the_answer_alone(self):
        got = self.succeeds("run", *CAPITAL, "--greedy", "--quiet")
        self.assertEqual((got.out, got.err), ("The capital of France is Paris.\n", ""))

    def test_thinking_is_shown_on_standard_error_only(self):
        got = self.succeeds("run", "-p", "What is 35 plus 43?", "--greedy")
        self.assertEqual(got.out, "35 + 43 = 78\n")
        self.assertIn("total 78.", got.err)
        self.assertNotIn("</think>", got.out + got.err)

    def test_json_is_one_object_with_everything(self):
        got = self.succeeds("run", "-p", "What is 35 plus 43?", "--greedy", "--json").json()
        self.assertEqual(got["text"], "35 + 43 = 78")
        self.assertIn("total 78.", got["reasoning"])
        self.assertEqual(got["finish_reason"], "stop")
        self.assertEqual(got["end_token"], 4072)
        self.assertEqual(got["usage"]["completion_tokens"], len(got["tokens"]))
        self.assertGreater(got["usage"]["prompt_tokens"], 5)
        self.assertGreater(got["timings"]["decode_tokens_per_second"], 0)

    def test_log_probabilities_come_with_alternatives(self):
        got = self.succeeds("run", *CAPITAL, *PLAIN, "--json", "--top-logprobs", "3").json()
        self.assertEqual([row["id"] for row in got["logprobs"]], got["tokens"])
        for row in got["logprobs"]:
            self.assertEqual(len(row["top"]), 3)
            self.assertEqual(row["top"][0]["id"], row["id"])  # Greedy.
            self.assertAlmostEqual(row["top"][0]["log_prob"], row["log_prob"], places=4)
            self.assertLessEqual(row["log_prob"], 1e-5)


class Endings(Case):
    def test_cut_off_inside_thinking_there_is_reasoning_and_no_answer(self):
        got = self.succeeds("run", "-p", "What is 17 + 25?", "--greedy", "--max-tokens", "4", "--json").json()
        self.assertEqual((got["text"], got["finish_reason"], got["usage"]["completion_tokens"]), ("", "length", 4))
        self.assertTrue(got["reasoning"])

    def test_a_length_limit_is_said_aloud(self):
        got = self.succeeds("run", *CAPITAL, *PLAIN, "--max-tokens", "2")
        self.assertIn("cut off after 2 tokens", got.err)
        self.assertTrue("The capital of France is Paris.".startswith(got.out.strip()))

    def test_a_stop_string_ends_the_answer_before_it(self):
        got = self.succeeds("run", "-p", "Count from 3 to 9.", *PLAIN, "--stop", ", 7", "--json").json()
        self.assertEqual((got["text"], got["finish_reason"], got["stop_string"]), ("3, 4, 5, 6", "stop", ", 7"))

    def test_the_context_is_a_bound(self):
        got = self.succeeds("run", *STORY, *PLAIN, *ENDLESS, "--context", "64", "--json").json()
        self.assertEqual(got["finish_reason"], "length")
        self.assertLessEqual(got["usage"]["prompt_tokens"] + got["usage"]["completion_tokens"], 64)

    def test_an_interrupt_stops_within_a_step_and_keeps_what_there_is(self):
        process = start("run", *STORY, *PLAIN, *ENDLESS)
        first = os.read(process.stdout.fileno(), 1)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - sent, 10)
        self.assertEqual(process.returncode, 130)
        self.assertTrue((first + out).decode().strip())
        self.assertIn("interrupted", err.decode())

    def test_a_closed_pipe_ends_it_quietly(self):
        process = start("run", *STORY, *PLAIN, *ENDLESS, "--quiet")
        process.stdout.read(1)
        process.stdout.close()
        process.stdin.close()
        self.assertEqual(process.wait(timeout=60), 141)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            process = start("run", *CAPITAL, *PLAIN, stdout=full)
            err = process.communicate(timeout=60)[1].decode()
        self.assertEqual(process.returncode, 7)
        self.assertIn("writing standard output", err)

    def test_a_full_disk_is_an_error_of_help_too(self):
        for args in (["--help"], ["run", "--help"], ["help", "run"], ["--version"]):
            with self.subTest(args), open("/dev/full", "wb") as full:
                process = start(*args, stdout=full)
                err = process.communicate(timeout=60)[1].decode()
                self.assertEqual(process.returncode, 7)
                self.assertIn("writing standard output", err)


class Draws(Case):
    def test_a_seed_repeats_the_answer_and_a_drawn_one_is_told(self):
        wild = ("run", *STORY, "--no-thinking", "--temperature", "2", "--max-tokens", "40")
        first = self.succeeds(*wild)
        seed = re.search(r"^seed (\d+)$", first.err, re.M)
        self.assertTrue(seed, first.err)
        self.assertEqual(self.succeeds(*wild, "--seed", seed.group(1)).out, first.out)
        self.assertNotEqual(self.succeeds(*wild, "--seed", "1").out, self.succeeds(*wild, "--seed", "2").out)

    def test_greedy_draws_nothing(self):
        self.assertNotIn("seed", self.succeeds("run", *CAPITAL, *PLAIN).err)

    def test_a_bias_forbids_a_token(self):
        paris = self.succeeds("run", *CAPITAL, *PLAIN, "--json").json()["tokens"]
        bias = [arg for token in set(paris) for arg in ("--logit-bias", f"{token}:-100")]
        other = self.succeeds("run", *CAPITAL, *PLAIN, "--json", "--max-tokens", "5", *bias).json()["tokens"]
        self.assertFalse(set(paris) & set(other))


if __name__ == "__main__":
    main()
