"""What the tidy checks hold the tree to, as tables: include arrows, libraries per module, banned calls, limits."""

BASE = {"base"}
SPEC = {"spec"} | BASE
# Who may include whom, beside its own folder: docs/ARCHITECTURE.md draws the same arrows.
ARROWS = {
    "base": set(),
    "spec": BASE,
    "text": SPEC,
    "weights": SPEC,
    "backend": SPEC,
    "backend/reference": SPEC | {"backend"},
    "backend/cpu": SPEC | {"backend"},
    "backend/gpu": SPEC | {"backend", "backend/gpu/steps", "backend/gpu/emulator", "backend/gpu/metal", "backend/gpu/cuda"},
    "backend/gpu/steps": SPEC | {"backend", "backend/gpu", "backend/gpu/kernels"},
    "backend/gpu/dialect": {"backend/gpu", "backend/gpu/emulator"},
    "backend/gpu/kernels": {"backend/gpu", "backend/gpu/dialect"},
    "backend/gpu/emulator": BASE | {"backend/gpu"},
    "backend/gpu/metal": SPEC | {"backend", "backend/gpu"},
    "backend/gpu/cuda": SPEC | {"backend", "backend/gpu", "backend/gpu/kernels", "backend/gpu/cuda/kernels"},
    "backend/gpu/cuda/kernels": {"backend/gpu/dialect", "backend/gpu/kernels"},
    "model": SPEC | {"backend", "weights"},
    "engine": SPEC | {"model", "text", "weights", "backend"},
    "measure": SPEC | {"engine", "model", "backend", "text"},
    "server": SPEC | {"engine", "text"},
    "cli": SPEC | {"engine", "measure", "server", "text", "weights"},  # weights: info, doctor and synth are about files, not passes.
}
# Files that reach further than their folder, with the reason.
FURTHER = {
    "src/cli/mac_report.cc": {"backend/gpu", "backend/gpu/metal"},  # The report looks at the device itself, below the engine.
    "src/backend/open.cc": {"backend/reference", "backend/cpu", "backend/gpu"},  # The one file that knows every backend: it opens one by name.
}

# Third-party header -> the modules that may use it. In .cc files only, unless it is in IN_HEADERS.
LIBRARIES = {
    "tl/expected.hpp": {"base"},
    "fmt/": set(ARROWS),
    "spdlog/": {"base"},
    "nlohmann/": {"text", "weights", "measure", "cli"},
    "simdjson": {"text", "weights"},
    "pcre2.h": {"text"},
    "utf8proc.h": {"text"},
    "xxhash.h": {"weights"},
    "prometheus/": {"server"},
    "curl/": {"measure"},
    "xgrammar/": {"server"},
    "CLI/": {"cli"},
    "histedit.h": {"cli"},
    "editline/": {"cli"},
    "immintrin.h": {"backend/cpu", "measure"},  # measure/limits.cc measures what the machine can do.
    "arm_neon.h": {"backend/cpu", "measure"},
    "cpuid.h": {"backend/cpu"},
    "MetalPerformancePrimitives/": {"backend/gpu/dialect"},
    "cuda.h": {"backend/gpu/cuda"},
    "ucontext.h": {"backend/gpu/emulator"},
}
IN_HEADERS = {"tl/expected.hpp", "CLI/", "cuda.h", "immintrin.h", "arm_neon.h", "MetalPerformancePrimitives/", "ucontext.h"}
SYSTEM = ("sys/", "unistd.h", "fcntl.h", "pthread.h", "sched.h", "signal.h", "termios.h", "dlfcn.h", "mach/", "mach-o/", "errno.h", "linux/",
          "stdlib.h", "arpa/", "netinet/", "netdb.h", "poll.h", "malloc.h", "spawn.h")

# (pattern in stripped C++, files it is allowed in, what to use instead).
PRINTING = ("src/cli/", "src/base/check.cc", "src/base/log.cc")
BANNED = [
    (r"\bgetenv\b", ("src/base/env.cc",), "a function of base/env.h"),
    (r"\b(f|v|vf)?printf\s*\(|\b(f?puts|putchar|perror)\s*\(", PRINTING, "base/log.h, or a Result"),
    (r"\bstd::c(out|err|log)\b", PRINTING, "base/log.h, or a Result"),
    (r"\b(abort|_?exit|_Exit|quick_exit|terminate)\s*\(", ("src/cli/", "src/base/check.cc"), "a Result, or LILY_CHECK for a bug"),
    (r"\bassert\s*\(", (), "LILY_CHECK or LILY_DCHECK"),
    (r"\bs?rand\s*\(|\bstd::(random_device|mt19937|minstd)", (), "base/random.h"),
    # The date, and what is drawn from it; everything that waits or measures is left alone when somebody sets the clock.
    (r"\bsystem_clock\b|\bstd::time\s*\(|\bgettimeofday\b|\bCLOCK_REALTIME\b",
     ("src/server/service.cc", "src/server/sampling_fields.cc", "src/cli/answer.cc", "src/measure/provenance.cc"), "std::chrono::steady_clock"),
    (r"\bstd::w?regex\b", (), "PCRE2 (text) or plain code"),
    (r"\bthrow\b", (), "a Result"),
    (r"\bstd::(stoi|stol|stoul|stoull|stoll|stof|stod)\b", (), "std::from_chars, or strtod for reals"),
    (r"\b(atoi|atol|atof|strtok|strcpy|strcat|sprintf|gets)\s*\(", (), "a bounded call"),
    (r"\bstd::(format|expected|jthread|stop_token|source_location|views)\b", (), "what g++ 12 and clang 14 with libc++ have"),
    (r"\busing\s+namespace\s+std\b", (), "the names themselves"),
    (r"\bcatch\s*\(\s*\.\.\.\s*\)\s*\{\s*\}", (), "an Error that says what failed"),
]

FILE_LINES = 800
FUNCTION_LINES = 90
GOALS = dict(median=8, p90=35, p99=90, file_median=200)

# Written in pieces so that this file does not hold what it looks for.
WORDS = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]
MACHINE_PATHS = ["/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/"]
# The pocket's little world has files of its own that live in a home folder, and tests quote them.
HOME_ALLOWED = ("tests/", "tools/pocket/", "models/")
