"""How long things take, as far as a busy machine lets it be said: by counts of what is computed and by the process's own time."""
import http.client
import os
import time

from harness import QUICK, Case, main
from serving import OFF, Server, ServerCase, assistant, long_text, user

CHAT = "/v1/chat/completions"
CHUNK = 512
TICKS = os.sysconf("SC_CLK_TCK")


class Start(Case):
    def test_health_answers_soon_after_launch(self):
        took = []
        for _ in range(5):
            began = time.monotonic()
            server = Server()
            self.assertEqual(server.get("/health").status, 200)
            took.append(time.monotonic() - began)
            self.assertEqual(server.stop(), 0)
        # Half a second on a machine that has nothing else to do; the best of five, with room for one that has.
        self.assertLess(min(took), 5 if QUICK else 2, took)


class Warm(ServerCase):
    def test_a_follow_up_computes_a_chunk_at_most(self):
        talk = [user(long_text(650))]
        first = self.chat(talk)
        self.assertGreater(first["usage"]["prompt_tokens"], 4000)
        talk += [first["choices"][0]["message"], user("Capital of Cuba?")]
        before = self.server.metrics()["lily_prompt_tokens_total"]
        second = self.chat(talk)
        computed = self.server.metrics()["lily_prompt_tokens_total"] - before
        cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
        self.assertEqual(computed, second["usage"]["prompt_tokens"] - cached)
        self.assertLessEqual(computed, CHUNK + 1)  # And the step that chooses the first token.


class Idle(ServerCase):
    def seconds(self):
        """Of processors, that the server has used."""
        with open(f"/proc/{self.server.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def test_streams_that_wait_for_their_clients_cost_nothing(self):
        clients = []
        for _ in range(200):
            client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
            client.connect()
            clients.append(client)
        for client in clients[:20]:  # Streams that came to their end, on connections that stay.
            client.request("POST", CHAT, '{"messages": [{"role": "user", "content": "Hi"}], "stream": true, "max_tokens": 2}')
            client.getresponse().read()
        self.eventually(lambda: self.server.metrics()["lily_requests_running"] == 0, "all have ended")
        before = self.seconds()
        time.sleep(3)
        self.assertLessEqual(self.seconds() - before, 0.05)
        for client in clients:
            client.close()


if __name__ == "__main__":
    main()
