"""A server for the tests of real clients, on a free port; LILY names the program."""
import atexit
import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/pocket"))
import corpus  # noqa: E402  The pocket's little world.

TOOLS = [corpus.tool_spec(name) for name in ("get_weather", "add", "set_timer", "find_file")]


def long_text(filler):
    return corpus.needle(random.Random(7), filler=filler).messages[0]["content"]


class LilyServer:
    def __init__(self, *args):
        program = os.environ.get("LILY", str(ROOT / "build/release/lily"))
        self.process = subprocess.Popen([program, "serve", "--port", "0", *args], stderr=subprocess.PIPE, text=True)
        atexit.register(self.stop)
        for line in self.process.stderr:
            if line.startswith("listening on "):
                self.url = line.split()[-1]
                return
        raise RuntimeError("the server did not start")

    def stop(self):
        self.process.terminate()
        self.process.stderr.close()
        assert self.process.wait(60) == 0, "the server ended with another status than 0"
