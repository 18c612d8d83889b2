#!/usr/bin/env bash
# The chat page in headless Chromium (Debian's package), driven by playwright. Pictures of it go to build/page.
set -euo pipefail
cd "$(dirname "$0")/.."
environment=build/clients
[ -x $environment/bin/python ] || python3 -m venv $environment
$environment/bin/pip install --quiet --disable-pip-version-check playwright==1.65.2
$environment/bin/python -B tests/clients/page.py
