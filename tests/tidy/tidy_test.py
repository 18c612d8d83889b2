"""Plants one fault at a time in a small tree of its own: each check must stay silent on the clean tree and fire on the fault."""
import tempfile
import unittest
from pathlib import Path

import checks
import rules
from tree import Tree, functions, strip

HEADER = "// What this file owns and what it leaves to others.\n"
CLEAN = {
    "Makefile": "# The front door of a small tree.\nall run: setup\n\trun\nsetup:\n\ttrue\n",
    "README.md": "# Lily\n\n    make run\n\nSee [the map](docs/ARCHITECTURE.md#folders), `src/text/bpe.cc` and `lily run`.\n\n"
                 "| 2 | wrong words | `invalid_argument` |\n",
    "docs/ARCHITECTURE.md": "# Map\n\n## Folders\n\n`src/base/`, `src/text/`, `src/cli/`, `src/backend/`, `src/backend/cpu/`\n",
    "src/base/CMakeLists.txt": "lily_module(base)\n",
    "src/base/result.cc": HEADER + '#include <fmt/format.h>\nCodeRow{ErrorCode::kInvalidArgument, "invalid_argument", 2, 400},\n',
    "src/text/CMakeLists.txt": "lily_module(text)\n",
    "src/text/bpe.h": HEADER + "#pragma once\n#include <vector>\n",
    "src/text/bpe.cc": HEADER + '#include "text/bpe.h"\n#include <pcre2.h>\nint half(int x) {\n  return x / 2;  // A throw would end here.\n}\n',
    "src/cli/CMakeLists.txt": "lily_module(cli)\n",
    "src/cli/main.cc": HEADER + 'void f() {\n  add_command(app, "run", "printf(");\n}\n',
    "src/backend/open.cc": HEADER + '#include "backend/cpu/gemv.h"\n',
    "src/backend/CMakeLists.txt": "lily_module(backend)\n",
    "src/backend/cpu/CMakeLists.txt": "lily_module(backend_cpu)\n",
    "src/backend/cpu/gemv.h": HEADER + "#pragma once\n",
    "tools/size.sh": "#!/bin/sh\n# Prints the size of the tree.\n",
    "docs/tools.md": "tools/size.sh\n",
}


def body(lines):
    return "int f(int x) {\n" + "  ++x;\n" * (lines - 2) + "}\n"


# (check, file, its new text or what is put behind the clean one, words that the fault names).
BPE = "src/text/bpe.cc"
PLANTS = [
    (checks.include_arrows, BPE, '+#include "cli/main.cc"\n', "text includes cli/main.cc"),
    (checks.include_arrows, BPE, '+#include "text/gone.h"\n', "no file of src/"),
    (checks.include_arrows, "src/backend/ops.cc", HEADER + '#include "backend/cpu/gemv.h"\n', "backend includes"),
    (checks.include_arrows, "src/attic/old.cc", HEADER, "no arrows"),
    (checks.third_party, BPE, "+#include <CLI/CLI.hpp>\n", "belongs to cli"),
    (checks.third_party, "src/text/bpe.h", "+#include <pcre2.h>\n", "in a header"),
    (checks.third_party, BPE, "+#include <boost/any.hpp>\n", "no row"),
    (checks.banned_calls, BPE, '+auto x = std::getenv("HOME");\n', "base/env.h"),
    (checks.banned_calls, BPE, '+void g() { printf("x"); }\n', "log.h"),
    (checks.banned_calls, BPE, "+void g() { std::cout << 1; }\n", "log.h"),
    (checks.banned_calls, BPE, "+void g() { std::abort(); }\n", "LILY_CHECK"),
    (checks.banned_calls, BPE, "+void g() { exit(1); }\n", "Result"),
    (checks.banned_calls, BPE, "+int g() { return rand(); }\n", "random.h"),
    (checks.banned_calls, BPE, "+auto t = std::chrono::system_clock::now();\n", "steady_clock"),
    (checks.banned_calls, BPE, "+std::regex r;\n", "PCRE2"),
    (checks.banned_calls, BPE, "+void g() { throw 1; }\n", "Result"),
    (checks.banned_calls, BPE, '+int i = std::stoi("1");\n', "from_chars"),
    (checks.banned_calls, BPE, "+std::jthread t;\n", "g++ 12"),
    (checks.purpose_headers, "src/text/new.cc", "int x;\n", "says what the file is for"),
    (checks.purpose_headers, "src/text/new.h", HEADER, "#pragma once"),
    (checks.purpose_headers, "tools/size.sh", "#!/bin/sh\necho\n", "says what the file is for"),
    (checks.file_lengths, BPE, "+" + "int x;\n" * rules.FILE_LINES, "at most 800"),
    (checks.function_lengths, BPE, "+" + body(rules.FUNCTION_LINES + 1), "f has 91 lines"),
    (checks.unwanted_words, "README.md", f"+{rules.WORDS[0]}: more\n", rules.WORDS[0]),
    (checks.unwanted_words, BPE, f"+// {rules.WORDS[1]} later\n", rules.WORDS[1]),
    (checks.unwanted_words, BPE, "+int y;  // NOLINT\n", "NOLINT"),
    (checks.machine_paths, BPE, f'+const char* p = "{rules.MACHINE_PATHS[0]}x";\n', "a path of one machine"),
    (checks.machine_paths, "README.md", f"+see {rules.MACHINE_PATHS[2]}me/lily\n", "a path of one machine"),
    (checks.documented_commands, "README.md", "+\n    make coffee\n", "make coffee"),
    (checks.documented_commands, "README.md", "+Then `lily fly`.\n", "lily fly"),
    (checks.document_links, "README.md", "+[gone](docs/GONE.md)\n", "leads nowhere"),
    (checks.document_links, "README.md", "+[gone](docs/ARCHITECTURE.md#gone)\n", "no heading"),
    (checks.document_links, "README.md", "+`src/text/gone.cc`\n", "there is no"),
    (checks.document_links, BPE, "+// Source: docs/GONE.md.\n", "there is no docs/GONE.md"),
    (checks.dead_files, "src/attic/old.cc", HEADER, "no CMakeLists.txt builds it"),
    (checks.dead_files, "src/text/unused.h", HEADER, "no file includes it"),
    (checks.dead_files, "tools/unused.py", '"""Does nothing that anyone asked for."""\n', "nothing names it"),
    (checks.modules_are_described, "src/weights/a.cc", HEADER, "src/weights/"),
    (checks.exit_codes, "src/base/result.cc", '+CodeRow{ErrorCode::kBusy, "busy", 9, 429},\n', "`busy`"),
]


def faults(check, files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return list(check(Tree(root)))


class Planted(unittest.TestCase):
    def test_a_clean_tree_has_no_faults(self):
        for check in checks.ALL:
            with self.subTest(check=check.__name__):
                self.assertEqual(faults(check, CLEAN), [])

    def test_each_planted_fault_is_found_where_it_is(self):
        for check, file, text, words in PLANTS:
            with self.subTest(check=check.__name__, words=words):
                whole = CLEAN[file] + text[1:] if text.startswith("+") else text
                found = faults(check, {**CLEAN, file: whole})
                self.assertEqual(len(found), 1, found)
                self.assertIn(words, found[0])

    def test_every_check_has_a_planted_fault(self):
        self.assertEqual({c.__name__ for c in checks.ALL}, {c.__name__ for c, *_ in PLANTS})


class Cpp(unittest.TestCase):
    def test_comments_and_literals_are_blanked_and_lines_kept(self):
        code = strip('a /* throw\n */ b "throw" R"x(throw\n)x" \'"\' 1\'000 // throw\nc')
        self.assertNotIn("throw", code)
        self.assertEqual(code.count("\n"), 3)
        self.assertTrue(code.endswith("\nc") and "1'000" in code)

    def test_function_bodies_are_told_from_other_braces(self):
        code = strip("#if defined(A) \\\n    || b\n#define M() {\n#endif\nnamespace a {\nstruct S {\n  int m() const { return n_; }\n  int n_{0};\n};\n"
                     "S::S(int x) : n_{x}, b_(x) {\n  if (x) {\n    f();\n  }\n}\n"
                     "constexpr int kTable[] = {1, 2, f(3)};\ntemplate <typename T>\nauto g(T t) -> int {\n  return [&] { return t; }();\n}\n}\n")
        self.assertEqual([(n, name) for _, n, name in functions(code)], [(1, "m"), (5, "S::S"), (4, "g")])  # With its template line.


if __name__ == "__main__":
    unittest.main()
