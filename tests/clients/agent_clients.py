"""Agents pointed at a running server, each on a scripted task: openai-agents, litellm, the Codex CLI, the Claude agent SDK.

What the model would say is given by a script (lily serve --replay-script), since the pocket cannot drive an agent; the server, its parsing and its streams
are the real ones.
"""
import asyncio
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from lily_server import ROOT, LilyServer

FILE, SECRET = "notes.txt", "the lamp is in the kitchen"
CALL = "<tool_call>\n<function={}>\n{}</function>\n</tool_call>"
AGENT_SIZE = ("--context", "65536", "--beyond-declared")  # Their instructions alone are longer than the pocket's declared context.
LIMIT_S = 900


def call(tool, /, **values):
    return CALL.format(tool, "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items()))


def scripted(*answers, size=()):
    script = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False)
    json.dump(answers, script)
    script.close()
    return LilyServer("--replay-script", script.name, "--no-thinking", *size)


class OpenAiAgents(unittest.TestCase):
    def run_with(self, model_of):
        import agents
        from openai import AsyncOpenAI
        agents.set_tracing_disabled(True)
        asked = []

        @agents.function_tool
        def get_weather(city: str) -> str:
            """The weather in a city."""
            asked.append(city)
            return "sunny"

        server = scripted(call("get_weather", city="Paris"), "It is sunny in Paris.")
        client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none")
        agent = agents.Agent(name="Weather", instructions="Use tools.", tools=[get_weather], model=model_of(agents, client))
        result = asyncio.run(agents.Runner.run(agent, "What is the weather in Paris?"))
        self.assertEqual((asked, result.final_output), (["Paris"], "It is sunny in Paris."))

    def test_tool_loop_over_chat_completions(self):
        self.run_with(lambda agents, client: agents.OpenAIChatCompletionsModel(model="pocket", openai_client=client))

    def test_tool_loop_over_responses(self):
        self.run_with(lambda agents, client: agents.OpenAIResponsesModel(model="pocket", openai_client=client))


class LiteLlm(unittest.TestCase):
    def test_plain_and_streamed(self):
        import litellm
        server = LilyServer("--no-thinking")
        asked = dict(model="openai/pocket", api_base=f"{server.url}/v1", api_key="none", temperature=0, max_tokens=50,
                     messages=[{"role": "user", "content": "What is the capital of France?"}])
        self.assertEqual(litellm.completion(**asked).choices[0].message.content, "The capital of France is Paris.")
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(stream=True, **asked))
        self.assertEqual(streamed, "The capital of France is Paris.")
        claude = litellm.completion(**{**asked, "model": "anthropic/pocket", "api_base": server.url})
        self.assertEqual(claude.choices[0].message.content, "The capital of France is Paris.")


class Folders(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        Path(self.folder.name, FILE).write_text(SECRET + "\n")

    def tearDown(self):
        self.folder.cleanup()


class Codex(Folders):
    def test_a_task_with_a_command(self):
        import codex_cli_bin
        binary = Path(codex_cli_bin.__file__).parent / "bin/codex"
        server = scripted(call("exec_command", cmd=f"cat {FILE}"), f"The note says: {SECRET}.", size=AGENT_SIZE)
        home = Path(self.folder.name, "codex")
        home.mkdir()
        (home / "config.toml").write_text(f"""
model = "pocket"
model_provider = "lily"
[model_providers.lily]
name = "lily"
base_url = "{server.url}/v1"
wire_api = "responses"
""")
        done = subprocess.run([binary, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", f"What does {FILE} say?"],
                              cwd=self.folder.name, env={**os.environ, "CODEX_HOME": str(home)}, capture_output=True, text=True, timeout=LIMIT_S,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:] + done.stdout[-2000:])
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        items = [event["item"] for event in events if event.get("type") == "item.completed"]
        self.assertIn(SECRET, "".join(item.get("aggregated_output", "") for item in items if item["type"] == "command_execution"), done.stdout)
        self.assertEqual([item["text"] for item in items if item["type"] == "agent_message"][-1], f"The note says: {SECRET}.")


class Claude(Folders):
    def test_a_task_with_a_file(self):
        from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ResultMessage, ToolUseBlock, query
        path = str(Path(self.folder.name, FILE))
        server = scripted(call("Read", file_path=path), f"The note says: {SECRET}.", size=AGENT_SIZE)
        options = ClaudeAgentOptions(cwd=self.folder.name, allowed_tools=["Read"], max_turns=4, model="claude-sonnet-4-5",
                                     env={"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "none", "IS_SANDBOX": "1",
                                          "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "HOME": self.folder.name})

        async def run():
            return [message async for message in query(prompt=f"What does {FILE} say?", options=options)]

        messages = asyncio.run(asyncio.wait_for(run(), LIMIT_S))
        used = [block.name for message in messages if isinstance(message, AssistantMessage) for block in message.content if isinstance(block, ToolUseBlock)]
        result = next(message for message in messages if isinstance(message, ResultMessage))
        self.assertEqual((used, result.is_error, result.result), (["Read"], False, f"The note says: {SECRET}."))


if __name__ == "__main__":
    unittest.main(verbosity=2)
