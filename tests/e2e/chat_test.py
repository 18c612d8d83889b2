"""lily chat: scripted through a pipe, and as a person at a terminal."""
import json
import os
import pty
import re
import select
import signal
import time

from harness import ENDLESS, ENVIRONMENT, LILY, PLAIN, Case, lily, main, scratch

NAME, ASK = "My name is Nora.", "What is my name?"


def lines(*texts):
    return "".join(text + "\n" for text in texts)


class Piped(Case):
    def test_it_remembers_what_was_said(self):
        got = self.succeeds("chat", *PLAIN, stdin=lines(NAME, ASK))
        self.assertEqual(got.out.splitlines()[-1], "Your name is Nora.")
        self.assertRegex(got.err, r"\d+ tokens, [\d.]+ tokens/s; prompt \d+ tokens \((?!0 )\d+ cached\)")

    def test_clear_forgets_it(self):
        got = self.succeeds("chat", *PLAIN, stdin=lines(NAME, "/clear", ASK))
        self.assertNotIn("Nora", got.out.splitlines()[-1])

    def test_a_reused_prefix_changes_no_answer(self):
        questions = ["What is 17 + 25?", "What is the capital of France?", "Count from 3 to 9."]
        for thinking in ([], ["--no-thinking"]):
            saved = scratch / f"reuse{len(thinking)}.json"
            self.succeeds("chat", "--greedy", *thinking, "--save", saved, stdin=lines(*questions))
            messages = json.loads(saved.read_text())["messages"]
            last = messages.pop()
            # The last question once more after the saved history, computed anew.
            history = json.dumps({"messages": messages, "options": {"enable_thinking": not thinking}})
            cold = self.succeeds("run", "--raw", "--greedy", "--json", stdin=self.succeeds("render", stdin=history).out).json()["text"]
            reasoning, _, content = ("", "", cold) if thinking else cold.partition("</think>")
            self.assertEqual((reasoning.strip("\n"), content.strip("\n")), (last["reasoning_content"], last["content"]))
        self.assertEqual([m["content"] for m in messages[1::2]] + [last["content"]],
                         ["17 + 25 = 42", "The capital of France is Paris.", "3, 4, 5, 6, 7, 8, 9"])

    def test_a_saved_conversation_goes_on_where_it_stopped(self):
        saved = scratch / "saved.json"
        self.succeeds("chat", *PLAIN, "--save", saved, stdin=lines(NAME))
        got = self.succeeds("chat", *PLAIN, "--resume", saved, stdin=lines(ASK))
        self.assertEqual(got.out, "Your name is Nora.\n")
        roles = [m["role"] for m in json.loads(saved.read_text())["messages"]]
        self.assertEqual(roles, ["user", "assistant"] * 2)

    def test_save_and_load_are_commands_too(self):
        saved = scratch / "commanded.json"
        self.succeeds("chat", *PLAIN, stdin=lines(NAME, f"/save {saved}"))
        self.assertEqual(self.succeeds("chat", *PLAIN, stdin=lines(f"/load {saved}", ASK)).out, "Your name is Nora.\n")

    def test_thinking_is_kept_as_reasoning_and_can_be_switched(self):
        saved = scratch / "thinking.json"
        self.succeeds("chat", "--greedy", "--save", saved, stdin=lines("What is 35 plus 43?", "/think off", "What is 17 + 25?"))
        answers = json.loads(saved.read_text())["messages"][1::2]
        self.assertIn("total 78.", answers[0]["reasoning_content"])
        self.assertEqual([a["content"] for a in answers], ["35 + 43 = 78", "17 + 25 = 42"])
        self.assertEqual(answers[1]["reasoning_content"], "")

    def test_retry_answers_the_same_question_again(self):
        got = self.succeeds("chat", *PLAIN, stdin=lines("What is 17 + 25?", "/retry"))
        self.assertEqual(got.out, "17 + 25 = 42\n" * 2)

    def test_a_message_may_have_many_lines(self):
        saved = scratch / "lines.json"
        self.succeeds("chat", *PLAIN, "--save", saved, stdin=lines("one\\", "two", '"""three', "four", '"""'))
        questions = [m["content"] for m in json.loads(saved.read_text())["messages"][::2]]
        self.assertEqual(questions, ["one\ntwo", "three\nfour\n"])

    def test_system_help_and_stats(self):
        saved = scratch / "system.json"
        got = self.succeeds("chat", *PLAIN, stdin=lines("/help", "/system Be brief.", "Hi", "/stats", f"/save {saved}", "/quit", "never read"))
        self.assertIn("/retry", got.err)
        self.assertIn("1 answers", got.err)
        self.assertEqual([m["content"] for m in json.loads(saved.read_text())["messages"]][:2], ["Be brief.", "Hi"])

    def test_faults_are_said_and_the_conversation_goes_on(self):
        damaged = scratch / "damaged.json"
        damaged.write_text('{"messages": [{"role": "us')
        got = lily("chat", *PLAIN, stdin=lines("/fly", "/load", "/load /nowhere/x", f"/load {damaged}", "/think maybe", "/retry", "What is 17 + 25?"))
        # The first fault's status: all that a script sees.
        self.assertEqual((got.status, got.out), (2, "17 + 25 = 42\n"))
        for words in ("/fly: no such command", "the name of a file is missing", "/nowhere/x", "no saved conversation", "'maybe'", "no answer yet"):
            self.assertIn(words, got.err)

    def test_a_question_over_the_context_is_refused_and_forgotten(self):
        got = lily("chat", *PLAIN, "--context", "128", stdin=lines("a b c d e f g h " * 40, "What is 17 + 25?"))
        self.assertEqual((got.status, got.out), (6, "17 + 25 = 42\n"))
        self.assertIn("the context holds 128", got.err)

    def test_text_that_is_not_utf8_is_saved_so_that_it_loads_again(self):
        saved = scratch / "bytes.json"
        self.succeeds("chat", *PLAIN, "--save", saved, stdin=b"\xff\xfe hello\n")
        self.assertIn("\ufffd", json.loads(saved.read_text())["messages"][0]["content"])
        self.succeeds("chat", *PLAIN, "--resume", saved, stdin="")

    def test_the_command_line_goes_before_what_was_saved(self):
        saved = scratch / "flags.json"
        self.succeeds("chat", *PLAIN, "--save", saved, "--system", "Old.", stdin=lines("Hi"))
        self.succeeds("chat", *PLAIN, "--resume", saved, "--system", "New.", stdin=lines("What is 17 + 25?"))
        self.assertEqual([m["content"] for m in json.loads(saved.read_text())["messages"] if m["role"] == "system"], ["New."])

    def test_a_damaged_file_to_resume_is_refused(self):
        damaged = scratch / "resume.json"
        for text in ("", "[]", '{"messages": 5}', '{"messages": [{"role": "user", "content": 5}]}'):
            damaged.write_text(text)
            got = lily("chat", "--resume", damaged)
            self.assertEqual((got.status, got.out), (5, ""), text)
            self.assertIn("no saved conversation", got.err)


class Terminal:
    """The program on a pseudo-terminal of its own."""

    def __init__(self, *args, **environment):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execve(LILY, [LILY, "chat", *args], {**ENVIRONMENT, **environment})
        self.seen = ""
        self.status = None

    def type(self, text):
        os.write(self.master, text.encode())

    def interrupt(self):
        """What Ctrl-C does, but for this: having sent the signal the kernel drops what waits to be read, the program's reply too."""
        os.kill(self.pid, signal.SIGINT)

    def wait_for(self, pattern, limit_s=60):
        """What was shown up to the pattern; later calls look behind it."""
        end = time.monotonic() + limit_s
        while not (match := re.search(pattern, self.seen)):
            if not select.select([self.master], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
        before, self.seen = self.seen[:match.end()], self.seen[match.end():]
        return before

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status is not None

    def close(self):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


class AtATerminal(Case):
    def terminal(self, *args, **environment):
        terminal = Terminal(*args, **environment)
        self.addCleanup(terminal.close)
        terminal.wait_for("> ")
        return terminal

    def leaves(self, terminal):
        self.eventually(terminal.ended, "the program ends")
        self.assertEqual(terminal.status, 0)

    def test_a_person_asks_edits_and_leaves(self):
        terminal = self.terminal("--greedy")
        terminal.type("What is 35 plus 44\x7f3?\r")
        shown = terminal.wait_for(r"tokens/s; prompt")
        self.assertIn("35 + 43 = 78", shown)
        dim = "".join(re.findall("\033\\[2m([^\033]*)", shown))
        self.assertIn("35 + 43: tens 30", dim)
        self.assertNotIn("35 + 43 = 78", dim)
        terminal.wait_for("> ")
        terminal.type("\x04")
        self.leaves(terminal)

    def test_no_color_means_no_shades(self):
        terminal = self.terminal("--greedy", NO_COLOR="1")
        terminal.type("What is 35 plus 43?\r")
        self.assertNotIn("\033[2m", terminal.wait_for(r"tokens/s; prompt"))

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        terminal = self.terminal(*PLAIN, *ENDLESS)
        terminal.type("Tell me a story.\r")
        terminal.wait_for(r"story\.\s+[^>\s]\S* \S+ \S+ ")
        terminal.interrupt()
        terminal.wait_for("stopped")
        terminal.wait_for("> ")
        terminal.type("/stats\r")
        terminal.wait_for("1 answers")
        terminal.wait_for("> ")
        terminal.type("/quit\r")
        self.leaves(terminal)

    def test_ctrl_c_at_the_prompt_drops_the_line(self):
        terminal = self.terminal(*PLAIN)
        terminal.type("Count from")
        time.sleep(0.2)
        terminal.interrupt()
        terminal.wait_for("/quit or Ctrl-D ends")
        terminal.wait_for("> ")
        terminal.type("What is 17 + 25?\r")
        terminal.wait_for("17 \\+ 25 = 42")
        self.assertFalse(terminal.ended())

    def test_lines_are_remembered_from_one_run_to_the_next(self):
        first = self.terminal(*PLAIN)
        first.type("What is 17 + 25?\r")
        first.wait_for("tokens/s; prompt")
        first.wait_for("> ")
        first.type("\x04")
        self.leaves(first)
        second = self.terminal(*PLAIN)
        second.type("\x1b[A\r")  # Arrow up.
        self.assertIn("17 + 25 = 42", second.wait_for("tokens/s; prompt"))


if __name__ == "__main__":
    main()
