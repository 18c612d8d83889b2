"""The tidy checks. Each takes a Tree and yields its faults as 'file:line: what is wrong and what is expected'."""
import re
import statistics
from pathlib import PurePosixPath

import rules
from tree import CPP, functions

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def module_of(path):
    """'text' for src/text/bpe.cc, 'backend/cpu' for src/backend/cpu/gemv.cc; None outside src/."""
    parts = path.split("/")
    if parts[0] != "src" or len(parts) < 3:
        return None
    folders = ["/".join(parts[1:n]) for n in range(len(parts) - 1, 1, -1)]
    return next((folder for folder in folders if folder in rules.ARROWS), parts[1])


def includes(tree, path):
    """(line, is_angle, name) of each include; commented-out ones do not count."""
    code = tree.code(path)
    for match in INCLUDE.finditer(tree.text(path)):
        if code[match.start():match.end()].lstrip().startswith("#"):
            yield line_of(code, match.start()), match.group(1) == "<", match.group(2)


def include_arrows(tree):
    """A module includes itself and what its arrows reach; an include in quotes names a file from src/ (tests: from the root too)."""
    for path in tree.under("src/", ends=CPP):
        module = module_of(path)
        if module not in rules.ARROWS:
            yield f"{path}:1: module '{module}' has no arrows in tests/tidy/rules.py"
            continue
        for line, angle, name in includes(tree, path):
            if angle:
                continue
            target = module_of("src/" + name)
            if "src/" + name not in tree.files:
                yield f"{path}:{line}: \"{name}\" is no file of src/; a library's header goes in angle brackets"
            elif target != module and target not in rules.ARROWS[module] | rules.FURTHER.get(path, set()):
                allowed = ", ".join(sorted(rules.ARROWS[module])) or "nothing"
                yield f"{path}:{line}: {module} includes {name}; it may include {allowed}"


def library_of(name):
    return next((key for key in rules.LIBRARIES if name == key or name.startswith(key)), None)


def third_party(tree):
    """Each library is used by the modules of the table, in .cc files; unknown headers are faults."""
    for path in tree.under("src/", ends=CPP):
        module = module_of(path)
        for line, angle, name in includes(tree, path):
            if not angle or re.fullmatch(r"[a-z0-9_]+", name) or name.startswith(rules.SYSTEM):
                continue
            library = library_of(name)
            if library is None:
                yield f"{path}:{line}: <{name}> is in no row of LIBRARIES in tests/tidy/rules.py"
            elif module not in rules.LIBRARIES[library]:
                yield f"{path}:{line}: <{name}> belongs to {', '.join(sorted(rules.LIBRARIES[library]))}, not to {module}"
            elif path.endswith(".h") and library not in rules.IN_HEADERS:
                yield f"{path}:{line}: <{name}> in a header; a library's headers stay in .cc files"


def banned_calls(tree):
    for path in tree.under("src/", ends=CPP):
        code = tree.code(path)
        for pattern, allowed, instead in rules.BANNED:
            if path.startswith(allowed):
                continue
            for match in re.finditer(pattern, code):
                yield f"{path}:{line_of(code, match.start())}: '{match.group(0).strip()}' is banned here; use {instead}"


COMMENT_OF = {".cc": ("//",), ".h": ("//",), ".py": ('"""', "#"), ".sh": ("#",), ".cmake": ("#",), "CMakeLists.txt": ("#",), "Makefile": ("#",)}


def purpose_headers(tree):
    """Every source file, build file and script opens by saying what it is for; a build file of a few lines shows it."""
    for path in tree.under("src/", "tests/", "bench/", "tools/", "cmake/", "CMakeLists.txt", "Makefile"):
        comment = next((c for end, c in COMMENT_OF.items() if path.endswith(end)), None)
        lines = [l for l in tree.text(path).splitlines() if not l.startswith("#!")]
        if path.endswith("CMakeLists.txt") and len(lines) < 8:
            continue
        if comment and not (lines and lines[0].startswith(comment) and len(lines[0].strip('"/# ')) >= 12):
            yield f"{path}:1: the first line is no comment that says what the file is for"
        if path.endswith(".h") and "#pragma once" not in lines:
            yield f"{path}:1: no #pragma once"


def file_lengths(tree):
    for path in tree.under("src/", "tests/", "bench/", "tools/", ends=CPP + (".py", ".sh")):
        lines = tree.text(path).count("\n")
        if lines > rules.FILE_LINES:
            yield f"{path}:1: {lines} lines, at most {rules.FILE_LINES}"


def function_lengths(tree):
    for path in tree.under("src/", "tests/", "bench/", ends=CPP):
        for line, length, name in functions(tree.code(path)):
            if length > rules.FUNCTION_LINES:
                yield f"{path}:{line}: {name} has {length} lines, at most {rules.FUNCTION_LINES}"


def unwanted_words(tree):
    """Notes to oneself belong in an issue, reasons in a comment; a lint that is switched off says why."""
    pattern = re.compile(r"\b(" + "|".join(rules.WORDS) + r")\b")
    for path in tree.texts():
        text = tree.text(path)
        for match in pattern.finditer(text):
            yield f"{path}:{line_of(text, match.start())}: '{match.group(0)}'"
        if path.endswith(CPP):
            for match in re.finditer(r"NOLINT(NEXTLINE|BEGIN)?(\([^)]*\))?(?!\w)(?!\([^)]*\):)(?!: \w)", text):
                yield f"{path}:{line_of(text, match.start())}: NOLINT without a check's name and ': reason'"


def machine_paths(tree):
    for path in tree.texts():
        text = tree.text(path)
        for place in rules.MACHINE_PATHS:
            if place == rules.MACHINE_PATHS[-1] and path.startswith(rules.HOME_ALLOWED):
                continue
            for match in re.finditer(r"(?<![\w.$}])" + re.escape(place), text):
                yield f"{path}:{line_of(text, match.start())}: a path of one machine: '{place}'"


def documents(tree):
    return [f for f in tree.files if f.endswith(".md")]


def documented_commands(tree):
    """`make x` in a document is a target of the Makefile, `lily x` a command of src/cli."""
    targets = set(re.findall(r"^([\w+-]+(?: [\w+-]+)*):(?!=)", tree.text("Makefile"), re.M))
    targets = {t for group in targets for t in group.split()}
    commands = set()
    for path in tree.under("src/cli/", ends=".cc"):
        commands |= set(re.findall(r'add_(?:sub)?command\((?:\w+,)?\s*"([\w-]+)"', tree.text(path)))
    for path in documents(tree):
        text = tree.text(path)
        for match in re.finditer(r"(?:^ {4}|`|^)make ([a-z][\w+-]*)", text, re.M):
            if match.group(1) not in targets:
                yield f"{path}:{line_of(text, match.start())}: 'make {match.group(1)}' is no target of the Makefile"
        for match in re.finditer(r"(?:^ {4}|`|^)(?:build/release/)?lily ([a-z]+)\b", text, re.M):
            if commands and match.group(1) not in commands:
                yield f"{path}:{line_of(text, match.start())}: 'lily {match.group(1)}' is no command of src/cli"


def anchors(text):
    """The ids that headings get: lower case, punctuation dropped, spaces to hyphens."""
    for heading in re.findall(r"^#+ +(.*)$", text, re.M):
        yield re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


PATH_IN_TEXT = re.compile(r"`((?:src|tests|tools|docs|cmake|models|bench|\.ci)/[\w./+-]+)`")


def document_links(tree):
    """Links between documents resolve, anchors included, and so do paths in backticks and pages that sources send a reader to."""
    folders = {p.as_posix() for f in tree.files for p in PurePosixPath(f).parents}
    known = set(tree.files) | folders
    for path in documents(tree):
        text = tree.text(path)
        for match in re.finditer(r"\[[^\]]*\]\(([^)\s]+)\)", text):
            target, _, anchor = match.group(1).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            full = normal(PurePosixPath(path).parent / target) if target else path
            if full not in known:
                yield f"{path}:{line_of(text, match.start())}: the link {match.group(1)} leads nowhere"
            elif anchor and anchor not in anchors(tree.text(full)):
                yield f"{path}:{line_of(text, match.start())}: {full} has no heading #{anchor}"
        for match in PATH_IN_TEXT.finditer(text):
            if match.group(1).rstrip("/.") not in known:
                yield f"{path}:{line_of(text, match.start())}: there is no {match.group(1)}"
    for path in tree.under("src/", "tests/", "cmake/", "tools/", "CMakeLists.txt", ends=CPP + (".txt", ".cmake", ".py", ".sh")):
        for match in re.finditer(r"\bdocs/[\w./-]+\.md\b", tree.text(path)):
            if match.group(0) not in known and not path.startswith("tests/tidy/"):
                yield f"{path}:{line_of(tree.text(path), match.start())}: there is no {match.group(0)}"


def normal(path):
    parts = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def dead_files(tree):
    """Every .cc is built, every header included, every script named by the Makefile, a document or another script."""
    included = {name for f in tree.under("src/", "tests/", "bench/", ends=CPP) for _, angle, name in includes(tree, f) if not angle}
    for path in tree.under("src/", "tests/", "bench/", ends=CPP):
        folder, name = path.rsplit("/", 1)
        if path.endswith(".cc") and not is_built(tree, folder, name):
            yield f"{path}:1: no CMakeLists.txt builds it"
        if path.endswith(".h") and not included & {path.removeprefix("src/"), path, name}:
            yield f"{path}:1: no file includes it"
    scripts = tree.under("tools/", "tests/", ends=(".py", ".sh"))
    for path in scripts:
        name = path.rsplit("/", 1)[1]
        stem = name.removesuffix(".py")
        if name.endswith("_test.py") and "*_test.py" in tree.text(path.rsplit("/", 1)[0] + "/CMakeLists.txt"):
            continue
        users = [f for f in tree.texts() if f != path and (f.endswith((".md", ".txt", ".cmake", ".py", ".sh", ".cc")) or "." not in f)]
        imports = re.compile(rf"^\s*(import|from) {re.escape(stem)}\b", re.M)
        if not any(name in tree.text(f) or (f.endswith(".py") and imports.search(tree.text(f))) for f in users):
            yield f"{path}:1: nothing names it"


def is_built(tree, folder, name):
    """The folder's CMakeLists.txt globs or names the file, and every folder above it is entered."""
    lists = tree.text(folder + "/CMakeLists.txt")
    if not lists:  # A part of the module above, such as backend/cpu/avx2/.
        parent, _, last = folder.rpartition("/")
        return parent.count("/") >= 1 and last + "/" in tree.text(parent + "/CMakeLists.txt")
    return "lily_module" in lists or "lily_test" in lists or "*.cc" in lists or "_fuzz.cc" in lists or name in lists


def modules_are_described(tree):
    """Folder = module = CMake target = a paragraph of docs/ARCHITECTURE.md."""
    text = tree.text("docs/ARCHITECTURE.md")
    for module in sorted({module_of(f) for f in tree.under("src/", ends=CPP)} - {None}):
        if f"`src/{module}/`" not in text and f"`src/{module}`" not in text:
            yield f"docs/ARCHITECTURE.md:1: says nothing of `src/{module}/`"


def exit_codes(tree):
    """The table of exit codes in README.md is that of base/result.cc."""
    rows = re.findall(r'CodeRow\{ErrorCode::\w+, "(\w+)", (\d+), \d+\}', tree.text("src/base/result.cc"))
    for name, status in rows:
        if not re.search(rf"^\| {status} \|.*`{name}`", tree.text("README.md"), re.M):
            yield f"README.md:1: no row '| {status} | … `{name}`' in the table of exit codes"


def size_report(tree):
    """Lines to print: the shape of the tree beside the goals."""
    files = tree.under("src/", "tests/", "bench/", ends=CPP)
    lines = {f: tree.text(f).count("\n") for f in files}
    found = [(n, name, f, line) for f in files for line, n, name in functions(tree.code(f))]
    if not found:
        return ["no C++ functions"]
    lengths = sorted(n for n, *_ in found)
    at = lambda q: lengths[min(len(lengths) - 1, int(q * len(lengths)))]
    in_src = sum(n for f, n in lines.items() if f.startswith("src/"))
    report = [
        f"{len(files)} C++ files, {sum(lines.values())} lines: src {in_src}, tests {sum(lines.values()) - in_src}",
        f"file lines: median {statistics.median(lines.values()):.0f} (goal {rules.GOALS['file_median']}), "
        f"longest {max(lines.values())} (limit {rules.FILE_LINES})",
        f"{len(found)} functions: median {statistics.median(lengths):.0f} lines (goal {rules.GOALS['median']}), "
        f"p90 {at(.9)} ({rules.GOALS['p90']}), p99 {at(.99)} ({rules.GOALS['p99']}), over 60: {sum(n > 60 for n in lengths)}"]
    return report + [f"  {n:4d} lines  {name}  {f}:{line}" for n, name, f, line in sorted(found, reverse=True)[:5]]


ALL = (include_arrows, third_party, banned_calls, purpose_headers, file_lengths, function_lengths, unwanted_words, machine_paths,
       documented_commands, document_links, dead_files, modules_are_described, exit_codes)
