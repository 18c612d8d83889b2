#!/usr/bin/env bash
# Real clients against lily serve: the official packages, in a virtual environment of their own. LILY names the program.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=build/clients
[ -x $environment/bin/python ] || python3 -m venv $environment
$environment/bin/pip install --quiet --disable-pip-version-check -r tests/clients/requirements.txt
for script in openai_client anthropic_client; do
  $environment/bin/python -B "tests/clients/$script.py"
done
