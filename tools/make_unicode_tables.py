#!/usr/bin/env python3
"""Write src/text/unicode_tables.cc: character classes and NFC facts as the `tokenizers` library has them.

    pip install tokenizers==0.23.3 unicodedata2==18.0.0
    python3 tools/make_unicode_tables.py src/text/unicode_tables.cc

Every class is probed from the library itself, so its choice of Unicode version (16 for classes, 9 for NFC) is carried
over exactly and does not change with the version of a system package. unicodedata2 only names the code points that a
younger Unicode composes, decomposes or reorders, and that the library leaves alone.
"""
import sys

import unicodedata2 as latest
from tokenizers import Regex, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
NFC = normalizers.NFC().normalize_str
HANGUL_VOWELS_AND_TAILS = [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]


def matching(pattern):
    """The code points that the library's regular expressions put into a class."""
    split = pre_tokenizers.Split(Regex(f"[^{pattern}]+"), "removed")
    found = set()
    for start in range(0, len(CODE_POINTS), 4096):
        text = "".join(map(chr, CODE_POINTS[start:start + 4096]))
        found.update(ord(c) for piece, _ in split.pre_tokenize_str(text) for c in piece)
    return found


def pairs():
    """Canonical pairs (first, second, composed) of the youngest Unicode."""
    for c in CODE_POINTS:
        parts = latest.decomposition(chr(c)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            yield chr(int(parts[0], 16)), chr(int(parts[1], 16))


def reorders(c):
    """Whether the library gives the character a combining class other than 0 (two marks: classes 1 and 240)."""
    low, high = "\u0334", "\u0345"
    return NFC(c + low) != c + low or NFC(high + c) != high + c


def unsafe():
    """Code points that NFC may change, reorder or compose with what stands before them."""
    found = {c for c in CODE_POINTS if NFC(chr(c)) != chr(c) or reorders(chr(c))}
    found.update(ord(b) for a, b in pairs() if len(NFC(a + b)) == 1)
    return found.union(HANGUL_VOWELS_AND_TAILS)


def younger(changed):
    """Code points that a younger Unicode would change, reorder or compose, and the library does not."""
    found = {c for c in CODE_POINTS if latest.combining(chr(c)) or latest.normalize("NFC", chr(c)) != chr(c)}
    for a, b in pairs():
        if len(latest.normalize("NFC", a + b)) == 1 and len(NFC(a + b)) != 1:
            found.update((ord(a), ord(b)))
    return found - changed


def ranges(code_points):
    """Sorted [first, last] runs."""
    runs = []
    for c in sorted(code_points):
        if runs and runs[-1][1] == c - 1:
            runs[-1][1] = c
        else:
            runs.append([c, c])
    return runs


def table(name, comment, code_points):
    """One C++ array of ranges, wrapped at 100 columns."""
    lines, line = [], "   "
    for first, last in ranges(code_points):
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(item) > 100:
            lines.append(line)
            line = "   "
        line += item
    return "\n".join([f"// {comment}", f"constexpr CodePointRange {name}Data[] = {{", *lines, line, "};",
                      f"const std::span<const CodePointRange> {name} = {name}Data;", ""])


def main():
    changed = unsafe()
    parts = [
        "// Classes and NFC facts of the reference tokenizer. Written by tools/make_unicode_tables.py.",
        '#include "text/unicode_tables.h"\n\nnamespace lily {\n',
        table("kLetterRanges", "\\p{L}.", matching(r"\p{L}")),
        table("kMarkRanges", "\\p{M}.", matching(r"\p{M}")),
        table("kNumberRanges", "\\p{N}.", matching(r"\p{N}")),
        table("kSpaceRanges", "\\s.", matching(r"\s")),
        table("kNfcUnsafeRanges", "NFC may change these, reorder them or join them to what stands before.", changed),
        table("kNfcYoungerRanges", "NFC leaves these alone, although a younger Unicode does not.", younger(changed)),
        "}  // namespace lily\n",
    ]
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("\n".join(parts))


if __name__ == "__main__":
    main()
