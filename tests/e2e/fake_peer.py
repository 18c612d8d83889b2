"""An engine for bench_test.py: takes a moment for every request. The first argument is its name, others are what it is bad at."""
import json
import sys
import time


def main():
    name, bad = sys.argv[1], sys.argv[2:]
    print(json.dumps({"engine": name, "version": "1", "system": "a script", "model": "none"}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        start = time.perf_counter()
        time.sleep(0.02)
        if "dies" in bad and request.get("prefill") == 64:
            raise SystemExit("fake_peer.py: 64 is too much")
        if "hangs" in bad and "decode" in request:
            time.sleep(1000)
        known = "prefill" in request or "decode" in request
        print(json.dumps({"seconds": time.perf_counter() - start} if known else {"error": "not that"}), flush=True)


if __name__ == "__main__":
    main()
