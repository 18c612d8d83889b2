"""The protocol of `lily bench sweep` (docs/SWEEPS.md) from the side of a peer: a line of JSON asks, a line of JSON answers.

A peer makes an object with hello() -> dict, prefill(n) and decode(depth, n), which return (seconds, tokens), and hands it to serve().
"""
import json
import os
import sys


class Refused(Exception):
    """What the peer cannot do, in words for the table; it stays alive."""


def answer(engine, request):
    if "prefill" in request:
        seconds, tokens = engine.prefill(int(request["prefill"]))
    elif "decode" in request:
        seconds, tokens = engine.decode(int(request["depth"]), int(request["decode"]))
    else:
        raise Refused("this peer answers prefill and decode")
    return {"seconds": seconds, "tokens": tokens}


def serve(make_engine):
    """Until the input ends. What libraries print goes to standard error, so that the answers stay alone."""
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    engine = make_engine()
    print(json.dumps(engine.hello()), file=out)
    for line in sys.stdin:
        try:
            reply = answer(engine, json.loads(line))
        except Refused as why:
            reply = {"error": str(why)}
        print(json.dumps(reply), file=out)
