"""The server held to its own description: schemathesis makes requests out of /openapi.json and compares what comes back with it.

    LILY=build/release/lily python tests/clients/schema.py [EXAMPLES]     20 of each operation without, beside those at the borders of every field
"""
import subprocess
import sys
from pathlib import Path

from lily_server import LilyServer

EXAMPLES = sys.argv[1] if len(sys.argv) > 1 else "20"
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance", "response_headers_conformance",
          "unsupported_method", "allow_header_conformance")


def main():
    server = LilyServer("--context", "256", "--no-thinking")  # Short answers: nobody reads them.
    done = subprocess.run([Path(sys.executable).parent / "schemathesis", "run", f"{server.url}/openapi.json", "--url", server.url, "--checks", ",".join(CHECKS),
                           "--phases", "coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", "1", "--request-timeout", "120", "--no-color",
                           "--generation-database", "none"])
    if server.process.poll() is not None:
        sys.exit("the server ended")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
