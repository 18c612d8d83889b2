"""Cases of memory: what the server holds after many requests, in a long answer, and of a checkpoint's parts that it does not serve."""
import json
import random
import shutil
import socket
import struct

from harness import FULL, POCKET, QUICK, Case, lily, main, pocket_copy, replace
from serving import CAPITAL_ANSWER, CAPITAL_QUESTION, COUNTING, ENDLESS, OFF, Server, ServerCase, long_text, tools, user

CHAT = "/v1/chat/completions"
VISION_BYTES = 100 << 20


class Mixed(ServerCase):
    arguments = ("--cache-mib", "16")  # Full after the warm-up.

    def leave(self, body):
        data = json.dumps(body).encode()
        with socket.create_connection(("127.0.0.1", self.server.port), 60) as client:
            client.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)

    def mixed(self, n, random_):
        kinds = [lambda: self.chat(CAPITAL_QUESTION), lambda: self.stream(COUNTING, max_tokens=30), lambda: self.chat(long_text(20, seed=3), max_tokens=4),
                 lambda: self.chat("What is the weather in Paris?", tools=tools()), lambda: self.refused(400, COUNTING, n=0),
                 lambda: self.leave(self.body("Tell me a story.", max_tokens=500, **ENDLESS)),
                 lambda: self.leave(self.body("Tell me a story.", max_tokens=500, stream=True, **ENDLESS)),
                 lambda: self.server.post("/v1/messages", {"max_tokens": 4, "messages": [user("Hi")]}),
                 lambda: self.server.post(CHAT, self.body("Hi", max_tokens=9, response_format={"type": "json_object"}))]
        for _ in range(n):
            random_.choice(kinds)()
        self.eventually(lambda: self.server.metrics()["lily_requests_running"] == 0, "all have ended")

    def counts(self):
        with open(f"/proc/{self.server.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Threads"))

    def test_r111_memory_is_flat_behind_the_warm_up(self):
        n = 60 if QUICK else 300
        random_ = random.Random(5)
        self.mixed(n, random_)
        threads, grown = self.counts(), []
        while not grown or (min(grown) > n + 1024 and len(grown) < 3):
            before = self.server.rss_kib()
            self.mixed(n, random_)
            grown.append(self.server.rss_kib() - before)
        if not QUICK:  # A sanitizer keeps what was freed. A kibibyte a request; an arena of the allocator's grows once, a leak every time.
            self.assertLess(min(grown), n + 1024, grown)
        self.eventually(lambda: self.counts() <= threads, "threads are as many as before")


class Long(ServerCase):
    arguments = ("--parallel", "1", "--cache-mib", "0", "--context", "8192")
    HUGE_PAGES = 4 << 20  # One in each layer's cache, where the system grants them.
    KV_BYTES = 4096  # A position of the pocket: two layers, keys and values of two heads, 256 numbers of two bytes.

    def run_on(self, n):
        """Bytes that are resident more at half of the answer than at an eighth; its end is kept for those who go on from it."""
        held, pieces, cut_off = {}, 0, False
        with self.server.open(CHAT, self.body("Tell me a story.", max_tokens=n, stream=True, **ENDLESS)) as reply:
            for line in reply:
                pieces += b'"content":' in line
                cut_off |= b'"finish_reason": "length"' in line
                if pieces in (n // 8, n // 2) and pieces not in held:
                    held[pieces] = self.server.rss_kib()
        self.assertTrue(cut_off, "the answer ran to its last token")
        return held[n // 2] - held[n // 8] << 10

    def test_r113_nothing_grows_with_a_token_but_planned_pages(self):
        if QUICK:
            self.skipTest("a sanitizer keeps what was freed")
        n = 8000 if FULL else 3000
        for _ in range(4):  # What each thread allocates from is there, and each recurrent state.
            self.run_on(104)
        self.assertLess(self.run_on(n), (n // 2 - n // 8) * self.KV_BYTES * 1.1 + self.HUGE_PAGES)
        grown = []  # Pages and states that were planned are touched for the first time now and then, each once; a leak grows every time.
        while not grown or (min(grown) > self.server.rss_kib() // 100 and len(grown) < 4):
            before = self.server.rss_kib()
            for _ in range(10 if FULL else 4):
                self.run_on(5000 if FULL else 1000)
            grown.append(self.server.rss_kib() - before)
        self.assertLess(min(grown), self.server.rss_kib() // 100, grown)


class PartsThatAreNotServed(Case):
    def folder(self, name, with_vision):
        folder = pocket_copy(name)
        if not with_vision:
            return folder
        tensors = {f"vision_tower.blocks.{i}.weight": {"dtype": "BF16", "shape": [5 << 20], "data_offsets": [i * (10 << 20), (i + 1) * (10 << 20)]} for i in range(10)}
        head = json.dumps(tensors).encode()
        with open(folder / "vision.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(head)) + head)
            file.truncate(8 + len(head) + VISION_BYTES)
        index = json.loads((POCKET / "model.safetensors.index.json").read_text())
        index["weight_map"].update({tensor: "vision.safetensors" for tensor in tensors})
        replace(folder / "model.safetensors.index.json", json.dumps(index))
        return folder

    def held(self, folder):
        server = Server("--model", folder)
        got = server.post(CHAT, {"temperature": 0, "messages": [user(CAPITAL_QUESTION)], **OFF}).json()
        self.assertEqual(got["choices"][0]["message"]["content"], CAPITAL_ANSWER)
        held = server.rss_kib()
        self.assertEqual(server.stop(), 0)
        return held

    def test_r115_a_vision_tower_is_left_on_the_disk(self):
        plain, with_vision = self.folder("plain", False), self.folder("seeing", True)
        for folder in (plain, with_vision):
            self.held(folder)  # Packs.
        if not QUICK:
            self.assertLess(abs(self.held(with_vision) - self.held(plain)), VISION_BYTES >> 13)  # An eighth, in KiB.
        plans = [json.loads(lily("doctor", "--json", "--model", folder).out)["plan"]["total_bytes"] for folder in (plain, with_vision)]
        self.assertEqual(plans[0], plans[1])
        told = lily("info", with_vision)
        self.assertEqual(told.status, 0, told.err)
        self.assertIn("vision", told.out)
        shutil.rmtree(with_vision)

    def test_r039_a_draft_head_drafts_nothing_and_costs_nothing(self):
        with_head, without = pocket_copy("with-head"), pocket_copy("without-head", without=("mtp.safetensors",))
        self.assertTrue((with_head / "mtp.safetensors").exists())
        for folder in (with_head, without):
            self.held(folder)  # Packs.
        if not QUICK:
            self.assertLess(abs(self.held(with_head) - self.held(without)), 2 << 10)  # KiB; the head has nearly three MiB.
        self.assertIn("mtp.safetensors", lily("info", with_head).out)
        refused = lily("serve", "--draft", "2")
        self.assertEqual(refused.status, 2)
        self.assertIn("--draft", refused.err)


if __name__ == "__main__":
    main()
