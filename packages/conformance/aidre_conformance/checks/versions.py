"""Tells servers of an earlier version of NLWeb from wrong ones of 0.55."""

from __future__ import annotations

import orjson

from aidre_conformance import SSE, Exchange, require


def earlier_version(answer: Exchange) -> str | None:
    """The version that a server speaks by its answer, where that is an earlier one than 0.55.

    0.54 states itself in `_meta`. Before it there was no `_meta`: frames of a stream had a `message_type`, and a whole
    answer had the `query_id` beside its results.
    """
    if answer.media_type == SSE:
        lines = [line[5:] for line in answer.content.split(b"\n") if line.startswith(b"data:")]
    else:
        lines = [answer.content]
    for line in lines[:4]:
        try:
            data = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if not isinstance(data, dict):
            continue
        meta = data.get("_meta")
        if isinstance(meta, dict) and meta.get("version") == "0.54":
            return "NLWeb 0.54"
        if meta is None and ("message_type" in data or {"query_id", "results"} <= data.keys()):
            return "NLWeb before 0.54"
    return None


def require_this_version(answer: Exchange) -> None:
    """NotTestable where the answer to a question is of an earlier version."""
    spoken = earlier_version(answer)
    require(spoken is None, f"{answer.name}: the server speaks {spoken}, and these checks are of NLWeb 0.55")
