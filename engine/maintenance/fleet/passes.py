"""One pass over many collections: several at a time, and one that fails stops no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from aidre.engine.errors import AidreError, BucketFailed

AT_ONCE = 16
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Published:
    """What a publication sent. `files` is 0 where the generation was in the bucket already; `signed`, whether its
    CURRENT is signed."""

    collection: str
    generation: int
    documents: int
    chunks: int
    files: int
    bytes: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass published, and why the other collections were not."""

    published: tuple[Published, ...]
    failures: Mapping[str, AidreError]


def each_of(names: Sequence[str], do: Callable[[str], _T | None]) -> tuple[dict[str, _T], dict[str, AidreError]]:
    """What was done for each collection, without those for which there was nothing to do, and the failures. A bucket
    that has failed is not asked for the collections after it: they fail, too."""
    done, failures = dict[str, _T](), dict[str, AidreError]()

    def attempt(name: str) -> None:
        away = next((one for one in list(failures.values()) if isinstance(one, BucketFailed)), None)
        try:
            if away is not None:
                raise away
            result = do(name)
            done.update({} if result is None else {name: result})
        except AidreError as failure:
            failures[name] = failure

    if len(names) == 1:
        attempt(names[0])
    else:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="bucket") as threads:
            list(threads.map(attempt, names))
    return done, failures
