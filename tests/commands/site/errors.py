"""The reference of error codes, generated from the exception trees and the tables of the protocols."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any

from aidre.api.http import http_errors
from aidre.api.http.envelope import STATUS, UNAVAILABLE
from aidre.api.protocols.intake import intake_envelope as intake
from aidre.api.protocols.intent import signed_envelope as intent
from aidre.api.protocols.nlweb import nlweb_envelope as nlweb
from aidre.engine import errors as engine_errors
from aidre.engine.errors import AidreError
from aidre_client import errors as client_errors

MODULES = (client_errors, engine_errors)
"""Where the classes of the library and the client are."""
INTRODUCTION = """# Error codes

Each error has a code that is stable within a minor version, a message of one line that names what is wrong and the
cure, and facts in `details`. Programs compare codes; messages may change. A server answers in the envelope of the
protocol that was asked; `X-Request-Id` finds the line of its log.

## Python

Every exception of the library and the client is an `aidre.AidreError` with `code`, `message` and `details`. The indent
shows what a handler of the outer class catches, too. The last column is the status and the code with which AIDRE
answers where the engine raises the error.

| exception | code | meaning and details | AIDRE |
|---|---|---|---|
"""


def errors_page() -> str:
    """The page in Markdown."""
    modules = {one.__name__ for one in MODULES}
    engine = "".join(_row(kind, depth) for kind, depth in _tree(AidreError) if kind.__module__ in modules)
    parts = [INTRODUCTION + engine, "## AIDRE\n", _http(), "## NLWeb\n", _nlweb(), "## Agentic Intent\n", _intent()]
    return "\n".join([*parts, "## Agent Intake\n", _table(intake.STATUS.items())])


def _tree(kind: type[AidreError], depth: int = 0) -> Iterator[tuple[type[AidreError], int]]:
    yield kind, depth
    for inner in sorted(kind.__subclasses__(), key=lambda one: one.__name__):
        if kind in inner.__bases__:
            yield from _tree(inner, depth + 1)


def _row(kind: type[AidreError], depth: int) -> str:
    indent = "&nbsp;&nbsp;" * depth
    status, code = next((STATUS[one] for one in kind.__mro__ if one in STATUS), UNAVAILABLE)
    return f"| {indent}`{kind.__name__}` | `{kind.code}` | {_meaning(kind)} | {status} `{code}` |\n"


def _meaning(kind: type[Any]) -> str:
    """What the tree in the docstring of a module says, else the docstring of the class."""
    lines = [line for module in MODULES for line in (inspect.getdoc(module) or "").splitlines()]
    words = next((line.split(kind.__name__, 1)[1] for line in lines if f"── {kind.__name__}" in line), "")
    text = " ".join((kind.__dict__.get("__doc__") or "").split())
    return (". ".join(part.strip().rstrip(".") for part in (words, text) if part.strip()) or "Any error.").replace(
        "|", "\\|"
    )


def _http() -> str:
    kinds = [
        one for one in vars(http_errors).values() if inspect.isclass(one) and issubclass(one, http_errors.HttpError)
    ]
    codes: dict[tuple[int, str], list[str]] = {}
    for kind in kinds:
        codes.setdefault((kind.status, kind.code), []).append(" ".join((kind.__dict__.get("__doc__") or "").split()))
    for status, code in [*STATUS.values(), UNAVAILABLE]:
        codes.setdefault((status, code), [])
    rows = ((code, status, " ".join(filter(None, texts))) for (status, code), texts in sorted(codes.items()))
    return _rows(rows)


def _nlweb() -> str:
    def rows() -> Iterator[tuple[str, int, str]]:
        for code in nlweb.Code.__args__:  # type: ignore[attr-defined]
            yield (
                code,
                nlweb.STATUS_BY_CODE.get(code, 200),
                "" if code in nlweb.STATUS_BY_CODE else "of a valid request",
            )

    return _rows(rows())


def _intent() -> str:
    kinds = (intent.Denied, intent.AuthenticationFailed, intent.NoResults, intent.LatencyBudgetExceeded)
    return _rows((kind.code, kind.status, " ".join((kind.__doc__ or "").split())) for kind in kinds)


def _table(codes: Iterable[tuple[str, int]]) -> str:
    return _rows((code, status, "") for code, status in codes)


def _rows(rows: Iterable[tuple[str, int, str]]) -> str:
    """A table of codes; where no meaning is given, it is the phrase of the status."""
    lines = [
        f"| `{code}` | {status} | {meaning if meaning and meaning[0] != 'H' else HTTPStatus(status).phrase} |\n"
        for code, status, meaning in rows
    ]
    return "| code | status | meaning |\n|---|---|---|\n" + "".join(lines)
