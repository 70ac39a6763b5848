"""What a check is: a sentence of a text, and a function that exchanges messages with a server and judges them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from aidre_conformance.target import Target

Level: TypeAlias = Literal["MUST", "SHOULD"]
"""MUST is also what a text defines without the word: the name of a member, a value of an enumeration."""
Profile: TypeAlias = Literal["letter", "aidre", "nlweb", "intent", "intake", "compat"]
Run: TypeAlias = Callable[[Target], None]


@dataclass(frozen=True, slots=True)
class Check:
    """One sentence of a text. `reading` says how the kit reads it where the text leaves that open."""

    id: str
    protocol: str
    level: Level
    section: str
    sentence: str
    reading: str | None
    run: Run = field(repr=False)


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of one protocol, in the order in which they run."""

    protocol: str
    text: str
    listed: list[Check] = field(default_factory=list)

    def __iter__(self) -> Iterator[Check]:
        return iter(self.listed)

    def add(
        self, section: str, level: Level, sentence: str, *, reading: str | None = None, text: str | None = None
    ) -> Callable[[Run], Run]:
        """Lists the function as a check; its id is made of the protocol, the section and the function's name."""

        def listed(run: Run) -> Run:
            name = run.__name__.strip("_").replace("_", "-")
            place = re.sub(r"[^a-z0-9.]+", "-", section.lower()).strip("-")
            self.listed.append(
                Check(
                    f"{self.protocol}.{place}.{name}",
                    self.protocol,
                    level,
                    f"{text or self.text} {section}",
                    sentence,
                    reading,
                    run,
                )
            )
            return run

        return listed
