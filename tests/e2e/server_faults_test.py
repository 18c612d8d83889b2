"""What goes wrong around the server: killed while it writes, a disk that is full or cannot be written, an end in the middle of streams."""
import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from contextlib import contextmanager

from harness import Case, main, scratch
from serving import ENDLESS, OFF, Server, long_text, parse_events, user

CHAT = "/v1/chat/completions"
WORDS = "The secret word of Zoe is leaf-254."


def asked(seed=7, **fields):
    return {"model": "pocket", "temperature": 0, "max_tokens": 32, "messages": [user(long_text(60, seed=seed))], **OFF, **fields}


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@contextmanager
def small_disk(options):
    """A file system of its own, where the machine lets us; None where it does not."""
    folder = scratch / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", options, "lily-test", folder], capture_output=True).returncode == 0
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)
        shutil.rmtree(folder)


def small_files():
    """Writing beyond 64 KiB fails, as it does on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))


class StateFolder(Case):
    def answers(self, server, seed=7):
        got = server.post(CHAT, asked(seed)).json()
        return got["choices"][0]["message"]["content"], got["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_killed_while_states_are_written(self):
        folder = scratch / "killed"
        for round_ in range(4):
            server = Server("--state-dir", folder)
            self.assertEqual(self.answers(server)[0], WORDS)
            for seed in range(8):
                self.answers(server, seed=100 * round_ + seed)
            time.sleep(0.02 * round_)
            server.process.kill()
            server.process.wait()
            server.process.stderr.close()
        server = Server("--state-dir", folder)
        self.assertEqual(self.answers(server)[0], WORDS)
        self.assertEqual(server.stop(), 0, "".join(server.log))
        self.assertFalse([name for name in files(folder) if name.endswith(".part")])
        server = Server("--state-dir", folder)
        text, cached = self.answers(server)
        self.assertEqual(text, WORDS)
        self.assertGreater(cached, 0)
        self.assertEqual(server.stop(), 0)

    def left_without_a_disk(self, *args, **popen):
        server = Server(*args, **popen)
        for _ in range(2):
            self.assertEqual(self.answers(server)[0], WORDS)
        self.assertGreater(self.answers(server)[1], 0)  # From memory.
        self.assertEqual(server.get("/health").status, 200)
        self.assertEqual(server.stop(), 0)
        return "".join(server.log)

    def test_a_full_disk_fails_no_request(self):
        with small_disk("size=256k") as disk:
            folder = (disk or scratch) / "full"
            log = self.left_without_a_disk("--state-dir", folder, **({} if disk else {"preexec_fn": small_files}))
            self.assertIn("full", log)
            self.assertFalse([name for name in files(folder) if name.endswith(".part")])

    def test_a_folder_that_cannot_be_written_fails_no_request(self):
        with small_disk("ro") as disk:
            locked = disk or scratch / "locked"
            locked.mkdir(exist_ok=True)
            if not disk:
                if os.geteuid() == 0:
                    self.skipTest("the administrator writes everywhere, and nothing can be mounted here")
                locked.chmod(0o555)
            log = self.left_without_a_disk("--state-dir", locked / "states")
            self.assertIn("states are not saved", log)


class Ends(Case):
    def streams(self, server, n, **fields):
        """n streams, each with its first token there; and what became of them, once they are joined."""
        texts, threads, begun = [None] * n, [], threading.Semaphore(0)

        def run(i):
            with server.open(CHAT, asked(stream=True, messages=[user("Tell me a story.")], **fields)) as response:
                first = response.readline()
                begun.release()
                texts[i] = (first + response.read()).decode()

        for i in range(n):
            threads.append(threading.Thread(target=run, args=(i,)))
            threads[-1].start()
        for _ in range(n):
            self.assertTrue(begun.acquire(timeout=60))
        return texts, threads

    def stopped(self, server, threads):
        began = time.monotonic()
        status = server.stop(signal.SIGTERM)
        for thread in threads:
            thread.join(30)
            self.assertFalse(thread.is_alive())
        self.assertEqual(status, 0, "".join(server.log))
        return time.monotonic() - began

    def test_answers_that_end_in_time_end_as_ever(self):
        server = Server("--grace", "60")
        texts, threads = self.streams(server, 8, max_tokens=40)
        self.stopped(server, threads)
        for text in texts:
            self.assertEqual(parse_events(text)[-1][1], "[DONE]")

    def test_others_are_told_that_the_server_stops(self):
        server = Server("--grace", "1", "--parallel", "4")
        texts, threads = self.streams(server, 12, max_tokens=7000, **ENDLESS)
        took = self.stopped(server, threads)
        self.assertLess(took, 30)
        for text in texts:
            error, done = (data for _, data in parse_events(text)[-2:])
            self.assertEqual(error["error"]["code"], "server_stopping", text[-700:])
            self.assertEqual(done, "[DONE]")


if __name__ == "__main__":
    main()
