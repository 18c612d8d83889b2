"""Holds kernel files to the rules of the kernel language, with stock clang as a stand-in for Apple's compiler.

    lint.py ROOT CLANG CXX          every file of src/backend/gpu/kernels is right
    lint.py ROOT CLANG CXX faults   every file of faults/ is refused by the checkers that its second line names, and by no less

Checkers: 4.1 and 4.0 compile C++ for OpenCL as Metal's two ideas of a pointer that names no space (generic; private); ast looks for
such pointers by name; text reads the source; emulator compiles for the CPU.
"""
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NO_FP64 = "-cl-ext=-cl_khr_fp64,-__opencl_c_fp64"
NO_GENERIC = (",-__opencl_c_generic_address_space,-__opencl_c_device_enqueue,-__opencl_c_pipes"
              ",-__opencl_c_program_scope_global_variables")
OPENCL = ["-x", "clcpp", "-cl-std=clc++2021", "-target", "spir64-unknown-unknown", "-fsyntax-only", "-Wall", "-Wno-unused-function"]

# Words that Metal reserves or that name its types and attributes; as names they compile elsewhere.
RESERVED = ("half device constant threadgroup thread kernel vertex fragment sampler texture bfloat object_data ray_data mesh visible "
            "stitchable intersection tensor simdgroup_matrix patch_control_point threadgroup_imageblock").split()
TEXT = [
    (r"\bgoto\b", "goto"),
    (r"(?<![\w\])])\s\[[&=\w, ]*\]\s*\(", "a lambda"),
    (r"\bstd::", "the standard library"),
    (r"\b(double|long double|size_t|int64_t|uint64_t)\b", "a type that the language does not have"),
    (r"\b(throw|try|catch|new|delete|virtual|dynamic_cast|typeid|thread_local|register|noexcept)\b", "a word that Metal does not allow"),
    (r"\b(struct|class)\s+\w+\s*:\s*\w", "a derived class"),
    (r"(?<![\w.])(\d+\.\d*|\.\d+|\d+\.?\d*[eE][-+]?\d+)(?![\w.])", "a literal without f"),
    (r"\b(" + "|".join(RESERVED) + r")\b", "a reserved word of Metal"),
    (r"\b(__device__|__global__|__shared__|simd_sum|simd_shuffle\w*|threadgroup_barrier)\b", "a word of one front end"),
]
FUNCTION = re.compile(r"^FN\s+[\w<> *&]*?\b(\w+)\((?:[^()]|\([^()]*\))*\)\s*\{", re.M)


def strip(text):
    """Comments, strings and includes blanked, lines kept."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    return re.sub(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|^[ \t]*#[^\n]*', blank, text, flags=re.S | re.M)


def body_end(code, start):
    depth = 0
    for i in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[i], 0)
        if depth == 0 and code[i] == "}":
            return i
    return len(code)


def text_faults(path):
    code = strip(path.read_text())
    for pattern, what in TEXT:
        for match in re.finditer(pattern, code):
            yield f"{path.name}:{code.count(chr(10), 0, match.start()) + 1}: {what}: '{match.group(0).strip()}'"
    for match in FUNCTION.finditer(code):
        body = code[match.end() - 1:body_end(code, match.end() - 1)]
        if re.search(rf"\b{match.group(1)}\s*\(", body):
            yield f"{path.name}: '{match.group(1)}' calls itself, or another of its name"


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class Lint:
    def __init__(self, root, clang, cxx):
        self.include = f"-I{root}/src"
        self.clang, self.cxx = clang, cxx

    def opencl(self, path, extensions, *more):
        return run([self.clang, *OPENCL, "-Xclang", extensions, self.include, *more, str(path)])

    def checkers(self, path):
        """Checker -> what it has against the file, '' for nothing."""
        found = {}
        for model, extensions in (("4.1", NO_FP64), ("4.0", NO_FP64 + NO_GENERIC)):
            status, _, errors = self.opencl(path, extensions)
            found[model] = errors if status else ""
        _, dump, _ = self.opencl(path, NO_FP64, "-Xclang", "-ast-dump", "-fno-color-diagnostics")
        found["ast"] = "\n".join(line for line in dump.splitlines() if re.search(r"(ParmVarDecl|VarDecl|FieldDecl) .*__generic", line)
                                 and not re.search(r"implicit|(:[0-9]+|used|referenced) '", line))
        found["text"] = "\n".join(text_faults(path))
        status, _, errors = run([self.cxx, "-x", "c++", "-std=c++20", "-fsyntax-only", "-w", self.include, str(path)])
        found["emulator"] = errors if status else ""
        return found


def check_kernels(lint, root):
    failed = False
    folder = Path(root) / "src/backend/gpu/kernels"
    names = set(re.findall(r'X\((\w+), "', (folder / "list.h").read_text()))
    written = set()
    files = [f for f in sorted(folder.glob("*.cc")) if f.name != "table.cc"]
    for path in files:
        written |= set(re.findall(r"^KERNEL\((\w+),", path.read_text(), re.M))
        for checker, complaint in lint.checkers(path).items():
            if complaint:
                failed = True
                print(f"{path.name}: refused by {checker}:\n{complaint}")
    for path in sorted(folder.glob("*.h")):
        for complaint in text_faults(path) if path.name != "list.h" else ():
            failed = True
            print(complaint)
    if names != written:
        failed = True
        print(f"list.h and the files disagree about {sorted(names ^ written)}")
    print(f"{len(files)} kernel files, {len(written)} kernels")
    return failed or not files


def check_faults(lint):
    failed = False
    for path in sorted((HERE / "faults").glob("*.kernel")):
        named = re.search(r"^// Found by: (.*)$", path.read_text(), re.M)
        expected = set(named.group(1).split()) if named else set()
        found = {checker for checker, complaint in lint.checkers(path).items() if complaint}
        ok = found >= expected if expected else not found
        print(f"{path.stem:28} {' '.join(sorted(found)) or '-'}{'' if ok else '   <- expected ' + (' '.join(sorted(expected)) or 'none')}")
        failed |= not ok
    return failed


if __name__ == "__main__":
    root, clang, cxx = sys.argv[1:4]
    lint = Lint(root, clang, cxx)
    sys.exit(check_faults(lint) if sys.argv[4:] == ["faults"] else check_kernels(lint, root))
