"""What passes between a program and the engine: Python values of metadata and filters, and hits as a list.

InvalidDocument and InvalidFilter name the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from math import inf
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

import numpy as np

from aidre.engine.errors import InvalidDocument, InvalidFilter, printable_name
from aidre.engine.index.fields import Instant
from aidre.engine.model import EmbeddingSpace, Json
from aidre.ingest.records import MAX_INTEGER, to_json_value
from aidre_client.values import Hit, Hits

if TYPE_CHECKING:
    from aidre.engine.retrieve import Answer

NOT_FINITE: Final = "is not a finite number: leave it out"
TOO_LARGE: Final = "is a whole number beyond 64 bits with a sign: write it as a string"
INEXACT: Final = "is a Decimal with more digits than a number of 64 bits has: write it as a string"
_NO_TIME: Final = "is no time (NaT): leave it out"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CONVERTED: Final = (np.generic, date, time, timedelta, Decimal, UUID, PurePath)
_SEVERAL: Final = (list, tuple, set, frozenset)


def to_json(value: Any, name: str) -> Json:
    """Times with a zone become RFC 3339 strings in UTC, UUIDs and paths strings, Decimals and scalars of numpy numbers,
    sets, tuples and arrays lists, at any depth. What JSON would change or lose is refused."""
    return to_json_value(value, name, _plain)


def to_filter_json(filter: Any, path: str = "filter") -> Any:
    """A filter with values as metadata have them; times and dates in it are
    instants, which compare with what reads as one."""
    if isinstance(filter, Mapping):
        return {
            name: to_filter_json(value, f"{path}.{printable_name(name)}" if isinstance(name, str) else path)
            for name, value in filter.items()
        }
    if hasattr(filter, "__array__") and not isinstance(filter, np.generic):  # of numpy, or a series of another library
        filter = list(filter)
    if isinstance(filter, _SEVERAL):
        return [to_filter_json(value, f"{path}[{number}]") for number, value in enumerate(filter)]
    return to_comparable(filter, path)


def to_comparable(value: Any, path: str) -> Any:
    """One value of a filter; of what no filter has the parser tells it."""
    if not isinstance(value, _CONVERTED):
        return value
    try:
        if isinstance(value, np.datetime64):
            value = _of_datetime64(value, path)
        if isinstance(value, date):
            return _to_instant(value, path)
        return to_json(value, path)
    except InvalidDocument as error:
        raise InvalidFilter(error.message) from None


def _plain(value: Any, name: str) -> Any:
    """A value of a program as one that JSON has. A time without a zone is refused: `datetime.now()` is a local one, and
    nothing that is stored would say so."""
    if isinstance(value, np.ndarray | np.generic):
        value = _of_numpy(value, name)
    if isinstance(value, datetime):
        return _with_zone(value, name).replace(tzinfo=None).isoformat() + "Z"
    if isinstance(value, str):
        return _checked_text(value, name)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return to_number(value, name)
    if isinstance(value, Mapping):
        return {_checked_text(key, name) if isinstance(key, str) else key: item for key, item in value.items()}
    if isinstance(value, frozenset):
        return list(value)
    return str(value) if isinstance(value, PurePath) else value


def _of_numpy(value: Any, name: str) -> Any:
    if isinstance(value, np.datetime64):
        return _of_datetime64(value, name)
    if isinstance(value, np.timedelta64):
        raise InvalidDocument(f"{name} is a span of time: write a number of seconds")
    if isinstance(value, np.ndarray):
        return list(value) if value.dtype.kind in "mM" else value.tolist()
    return value.item()


def to_number(value: float | Decimal, name: str) -> int | float:
    """The number that JSON has for it, which is the same. InvalidDocument where there is none."""
    if isinstance(value, int):
        if not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
            raise InvalidDocument(f"{name} {TOO_LARGE}")
        return int(value)
    if not math.isfinite(value):
        raise InvalidDocument(f"{name} {NOT_FINITE}")
    if isinstance(value, Decimal):
        nearest = float(value)
        if not math.isfinite(nearest) or Decimal(repr(nearest)) != value:
            raise InvalidDocument(f"{name} {INEXACT}")
        return nearest
    return float(value)


def _checked_text(text: str, name: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidDocument(f"{name} has half a surrogate pair, which no encoding writes: remove it") from None
    return str(text)


def _of_datetime64(value: np.datetime64, name: str) -> date | datetime:
    """A date where the unit is a day or more; numpy knows no zones, so all else is a time without one."""
    if np.isnat(value):
        raise InvalidDocument(f"{name} {_NO_TIME}")
    unit = np.datetime_data(value)[0]
    moment: Any = value.astype("datetime64[D]" if unit in "YMWD" else "datetime64[us]").item()
    if not isinstance(moment, date):  # numpy counts where Python has no date
        raise InvalidDocument(f"{name} is not a date of the calendar: {value}")
    return moment


def _with_zone(value: datetime, name: str) -> datetime:
    if type(value).__name__ == "NaTType":  # of pandas, which makes it a datetime
        raise InvalidDocument(f"{name} {_NO_TIME}")
    if value.tzinfo is None:
        raise InvalidDocument(f"{name} is a time without a zone: give it one, as in datetime.now(timezone.utc)")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidDocument(f"{name} is not a date of the calendar in UTC: {value.isoformat()}") from None


def _to_instant(value: date, name: str) -> Instant:
    """A date is its midnight in UTC."""
    if isinstance(value, datetime):
        moment = _with_zone(value, name)
    else:
        moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
    return Instant((moment - _EPOCH) // timedelta(microseconds=1))


def to_hits(found: Answer, min_score: float | None) -> Hits:
    """An answer as a list, without the hits below `min_score`; their highlights go with them."""
    from aidre.engine.retrieve import told_copies

    least = -inf if min_score is None else min_score
    places = [number for number, hit in enumerate(found.hits) if hit.score >= least]
    hits = Hits(found.hits[number] for number in places)
    if found.question.text is not None:
        hits.set_relevance(partial(_relevances, found))
    hits.mode, hits.space = found.mode, None if found.space is None else found.space.id
    hits.corrected, hits.suggestion, hits.unknown_fields = found.corrected, found.suggestion, found.ignored
    if found.reading is not None:
        hits.understood = found.reading.understood
    hits.facets = {request.field: facet for request, facet in zip(found.question.facets, found.facets, strict=True)}
    if found.question.group == "document":
        passages = found.passages or [()] * len(found.hits)
        copies = found.copies or [()] * len(found.hits)
        hits.copies = [told_copies(copies[number]) for number in places]
        hits.passages = [[hit for hit in passages[number] if hit.score >= least] for number in places]
    if found.highlights is not None:
        hits.highlights = [found.highlights[number] for number in places]
    return hits


def _relevances(found: Answer, hits: Sequence[Hit]) -> list[float]:
    """On the scale of the answer, which may have to be calibrated first."""
    from aidre.engine.retrieve import run, scale_of

    scale = found.scale or run(scale_of(found), _embed_nothing)
    as_searched = {hit.chunk.id: hit for hit in found.unranked}  # what a reranker scores has another scale
    hits = [as_searched.get(hit.id, cast("Any", hit)) for hit in hits] if as_searched else hits
    return scale.relevances(cast("Sequence[Any]", hits))


def _embed_nothing(space: EmbeddingSpace, text: str) -> Any:
    raise AssertionError("a scale embeds no text")
