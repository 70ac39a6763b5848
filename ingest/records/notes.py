"""What is worth knowing of a file and is no failure: each said once, however many rows of the file it is true of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

_MAX_CHARACTERS = 60
"""Characters of an example."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A notice about a file that was read: an encoding that it does not declare, an invalid date."""

    where: str
    text: str


@dataclass(slots=True)
class Notes:
    """Texts, each with its first example and how often it was added."""

    _found: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, text: str, example: str = "") -> None:
        first, count = self._found.get(text, (example[:_MAX_CHARACTERS], 0))
        self._found[text] = (first, count + 1)

    def items(self, where: str) -> Iterator[Noted]:
        """The notes on the file `where`, which are forgotten."""
        for text, (example, count) in self._found.items():
            details = [example] * bool(example) + [f"{count:,} times"] * (count > 1)
            yield Noted(where, text + (f" ({', '.join(details)})" if details else ""))
        self._found.clear()
