#!/usr/bin/env bash
# The chat page in headless Chromium (Debian's package, installed if there is none; or what CHROMIUM names), driven by playwright. Pictures of it go to build/page.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${CHROMIUM:-$(command -v chromium || command -v chromium-browser || true)}" ] || apt-get install -y -qq chromium > /dev/null
environment=build/clients
[ -x $environment/bin/python ] || python3 -m venv $environment
$environment/bin/pip install --quiet --disable-pip-version-check playwright==1.65.2
$environment/bin/python -B tests/clients/page.py
