#!/usr/bin/env bash
# Real clients against lily serve: the official packages, in a virtual environment of their own. LILY names the program.
#   tools/clients.sh           openai, anthropic
#   tools/clients.sh schema    schemathesis, out of /openapi.json
#   tools/clients.sh agents    agents on scripted tasks: openai-agents, litellm, the Codex CLI, the Claude agent SDK
set -euo pipefail
cd "$(dirname "$0")/.."
environment=build/clients
[ -x $environment/bin/python ] || python3 -m venv $environment
install() { $environment/bin/pip install --quiet --disable-pip-version-check -r "tests/clients/$1"; }
install requirements.txt
if [ "${1:-}" = schema ]; then
  install schema_requirements.txt
  exec $environment/bin/python -B tests/clients/schema.py
fi
if [ "${1:-}" = agents ]; then
  install agents_requirements.txt
  exec $environment/bin/python -B tests/clients/agent_clients.py
fi
for script in openai_client anthropic_client; do
  $environment/bin/python -B "tests/clients/$script.py"
done
