"""What a fuzzer is given: a parser as a function of bytes, with seeds to begin from; and what every message must be."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from aidre.engine.errors import AidreError

Parse: TypeAlias = Callable[[bytes], object]


class Parser(NamedTuple):
    """What to call with bytes, what to begin from, words that a text may need whole, and how inputs are altered that
    no byte more or less leaves what they are."""

    parse: Parse
    seeds: Sequence[bytes]
    words: Sequence[str] = ()
    mutate: Callable[[bytes, random.Random], bytes] | None = None


Make: TypeAlias = Callable[[Path], Parser]
"""Makes a parser ready, with an empty folder for what it needs."""


def one_line(error: AidreError) -> None:
    """A message goes into logs and answers: one line, and no end of it in sight would be a fault too."""
    message = str(error)
    assert "\n" not in message and "\r" not in message, f"more than one line: {message!r}"
    assert len(message) < 20_000, f"a message of {len(message)} characters"
