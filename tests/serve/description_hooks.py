"""Hooks of schemathesis for description_test.py: what the description cannot say."""
import math
import struct

import schemathesis
from hypothesis import strategies
from schemathesis.transport.serialization import Binary


def recording(seconds=1, rate_hz=16000):
    """A tone as a WAV file."""
    samples = [int(8000 * math.sin(i / 20)) for i in range(seconds * rate_hz)]
    data = struct.pack(f"<{len(samples)}h", *samples)
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " +
            struct.pack("<IHHIIHH", 16, 1, 1, rate_hz, 2 * rate_hz, 2, 16) + b"data" + struct.pack("<I", len(data)) + data)


schemathesis.openapi.format("binary", strategies.sampled_from([recording(), b"no recording"]).map(Binary))


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    # What is changed is validated again, and for schemathesis no changed recording is valid.
    if not isinstance(body, dict) or "file" in body or not case.meta.generation.mode.is_positive:
        return
    body.pop("model", None)  # the server has one of each kind
    if body.get("stream") is not True:
        body.pop("stream_options", None)
    if body.get("logprobs") is not True:
        body.pop("top_logprobs", None)
    if "best_of" in body:
        body["best_of"] = body.get("n") or 1
    # SmolLM2's template has no tools, and few random schemas have a grammar.
    for name in ("tools", "tool_choice", "response_format"):
        body.pop(name, None)
    for message in body.get("messages", []):
        if message.get("content") is None:
            message["content"] = "A text."
        message.pop("tool_calls", None)
