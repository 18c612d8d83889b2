"""The source tree as the tidy checks see it: its files, their text, C++ without comments and strings, function lengths."""
import os
import re
import subprocess
from pathlib import Path

CPP = (".cc", ".h", ".cu", ".cuh", ".mm", ".metal")
BINARY = (".safetensors", ".png", ".bin", ".gz")
SKIPPED_FOLDERS = {".git", "build", ".venv", ".cache", "__pycache__"}


class Tree:
    """Files of a checkout by path relative to its root, '/' between folders."""

    def __init__(self, root):
        self.root = Path(root)
        self.files = sorted(self._tracked() or self._walked())
        self._texts = {}

    def _tracked(self):
        """What git tracks or would track; nothing when this is no checkout of its own or git is missing."""
        if not (self.root / ".git").exists():
            return []
        try:
            out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=self.root,
                                 capture_output=True, check=True).stdout.decode()
        except (OSError, subprocess.CalledProcessError):
            return []
        return [f for f in out.split("\0") if f and (self.root / f).is_file()]

    def _walked(self):
        for folder, folders, files in os.walk(self.root):
            folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS]
            for f in files:
                yield (Path(folder) / f).relative_to(self.root).as_posix()

    def text(self, path):
        """The file's text; empty for a file that is not there or not text."""
        if path not in self._texts:
            try:
                self._texts[path] = (self.root / path).read_text("utf-8")
            except (OSError, UnicodeDecodeError):
                self._texts[path] = ""
        return self._texts[path]

    def under(self, *folders, ends=None):
        return [f for f in self.files if f.startswith(folders) and (ends is None or f.endswith(ends))]

    def code(self, path):
        """C++ with comments and the insides of literals blanked; lines keep their numbers."""
        return strip(self.text(path))

    def texts(self):
        return [f for f in self.files if not f.endswith(BINARY)]


TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\[^']{1,8}|[^'\\\n])'", re.S)


def strip(text):
    def blank(match):
        found = match.group(0)
        if found.startswith("/"):
            return re.sub(r"[^\n]", " ", found)
        return found[0] + re.sub(r"[^\n]", " ", found[1:-1]) + found[-1]
    return TOKEN.sub(blank, text)


NO_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern|if|for|while|switch|do|else|try|catch|return|case)\b")


def functions(code):
    """[(first line, number of lines, name)] of the function bodies in stripped C++, by counting braces.

    Written for code that clang-format has laid out: a block's brace has a space before it, an initialiser's has none.
    """
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group(0).count("\n"), code, flags=re.M)  # No macros.
    found, depth, inside, line = [], 0, None, 1
    header, header_line = "", 1
    for i, c in enumerate(code):
        if c == "\n":
            line += 1
        if c == "{":
            depth += 1
            is_block = i > 0 and code[i - 1].isspace()
            if inside is None and is_block and is_function_header(header):
                inside = (depth, header_line, function_name(header))
            if is_block:
                header = ""
        elif c == "}":
            if inside and inside[0] == depth:
                found.append((inside[1], line - inside[1] + 1, inside[2]))
                inside, header = None, ""
            elif code[i - 1:i].isspace() or code[i - 1:i] in ";{}":
                header = ""
            depth -= 1
        elif c == ";":
            header = ""
        else:
            if not header.strip():
                header, header_line = "", line
            header += c
    return found


def is_function_header(header):
    header = re.sub(r"^\s*(template\s*<[^{}]*?>\s*(?=[A-Za-z\[]))?(public|private|protected)?\s*:?\s*", "", header)
    if "(" not in header or NO_FUNCTION.match(header):
        return False
    before = header[:header.index("(")]
    return "=" not in before.replace("operator=", "").replace("==", "")


def function_name(header):
    names = re.findall(r"([~\w:]+|operator\S+)\s*\(", header)
    return names[0] if names else "?"
