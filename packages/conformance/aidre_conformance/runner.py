"""Runs checks against a server, one after the other, and gives a verdict for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from aidre_client import InvalidInput, RequestFailed
from aidre_conformance.exchange import Exchange, Sender
from aidre_conformance.judging import Failed, NotTestable, shortened
from aidre_conformance.registry import Check, Profile
from aidre_conformance.target import Fixtures, Target

Outcome: TypeAlias = Literal["pass", "fail", "not testable"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a check. `reason` says why it did not pass; `expected` that the user foresaw the failure."""

    check: Check
    outcome: Outcome
    reason: str | None
    seconds: float
    exchanges: tuple[Exchange, ...] = field(repr=False)
    expected: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts of a run.

    `unmet` are checks whose failure was expected and that passed; `untested` are protocols that were asked for and of
    which nothing could be tested.
    """

    url: str
    profile: Profile
    verdicts: tuple[Verdict, ...]
    unmet: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether something was tested, and exactly what was expected failed."""
        tested = any(verdict.outcome != "not testable" for verdict in self.verdicts)
        foreseen = all(verdict.outcome != "fail" or verdict.expected for verdict in self.verdicts)
        return tested and foreseen and not self.unmet and not self.untested

    def count(self, outcome: Outcome) -> int:
        return sum(verdict.outcome == outcome for verdict in self.verdicts)


def checks_of(profile: Profile) -> list[Check]:
    """The checks of a profile. InvalidInput for a profile that is unknown."""
    if profile not in get_args(Profile):
        raise InvalidInput(f"profile {profile!r} is unknown: use one of {', '.join(get_args(Profile))}")
    from aidre_conformance.checks import PROFILES

    return list(PROFILES[profile])


def run(
    url: str,
    *,
    profile: Profile = "letter",
    fixtures: Fixtures | None = None,
    protocols: Collection[str] = (),
    checks: Collection[str] = (),
    expected: Collection[str] = (),
    timeout: float = 15.0,
    on_verdict: Callable[[Verdict], None] | None = None,
) -> Report:
    """Tests the server at `url`.

    Without `protocols` all are tested, without `checks` each of their checks. `expected` are ids of checks whose
    failure is known. `on_verdict` is called after each check. InvalidInput for a URL or a name that is none,
    RequestFailed where nothing answers.
    """
    _check_ids(checks, {check.id for check in checks_of(profile)}, f"no check of the profile {profile}")
    _check_ids(expected, {check.id for name in get_args(Profile) for check in checks_of(name)}, "no check")
    selected = [check for check in _selected(checks_of(profile), protocols) if not checks or check.id in checks]
    target = Target(_plain(url), fixtures or Fixtures(), Sender(timeout))
    started, verdicts = time.monotonic(), []
    try:
        _reach(target)
        for verdict in _verdicts(target, selected, frozenset(expected)):
            verdicts.append(verdict)
            if on_verdict is not None:
                on_verdict(verdict)
    finally:
        target.sender.close()
    passed = {verdict.check.id for verdict in verdicts if verdict.outcome == "pass"}
    tested = {verdict.check.protocol for verdict in verdicts if verdict.outcome != "not testable"}
    unmet = tuple(name for name in expected if name in passed)
    wanted = protocols or ({profile} & {check.protocol for check in selected})
    untested = tuple(name for name in wanted if name not in tested)
    return Report(target.url, profile, tuple(verdicts), unmet, untested, time.monotonic() - started)


def _check_ids(names: Collection[str], known: Collection[str], subject: str) -> None:
    """InvalidInput for an id that is not known."""
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; {near[0]} is the nearest" if near else ""
            raise InvalidInput(f"{subject} has the id {shortened(name)}{hint}: --list shows all")


def _reach(target: Target) -> None:
    """RequestFailed where nothing answers at the address."""
    try:
        target.well_known("ai-discovery")
    except NotTestable as reason:
        raise RequestFailed(f"{target.url} does not answer: {reason}", url=target.url, error="no_answer") from None


def read_expected(file: Path) -> list[str]:
    """The ids of a list of expected failures: one a line, what follows a `#` is the reason."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise InvalidInput(f"{shortened(file.name)} is not text in UTF-8") from None
    return [name for line in lines if (name := line.partition("#")[0].strip())]


def _selected(checks: list[Check], protocols: Collection[str]) -> list[Check]:
    known = dict.fromkeys(check.protocol for check in checks)
    for name in protocols:
        if name not in known:
            raise InvalidInput(f"protocol {name!r} is unknown: use one of {', '.join(known)}")
    return [check for check in checks if not protocols or check.protocol in protocols]


def _plain(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidInput(f"{url!r} is not an http or https URL")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _verdicts(target: Target, checks: list[Check], expected: frozenset[str]) -> Iterator[Verdict]:
    for check in checks:
        target.exchanges = []
        started = time.monotonic()
        outcome, reason = _judge(check, target)
        seconds = time.monotonic() - started
        is_expected = outcome == "fail" and check.id in expected
        yield Verdict(check, outcome, reason, seconds, tuple(target.exchanges), is_expected)


def _judge(check: Check, target: Target) -> tuple[Outcome, str | None]:
    """A body of a shape that no check foresees fails the check that met it, and ends no run."""
    try:
        check.run(target)
    except NotTestable as verdict:
        return "not testable", shortened(str(verdict))
    except Failed as verdict:
        return "fail", shortened(str(verdict))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, AssertionError) as error:
        return "fail", shortened(f"an answer has a form that was not foreseen: {type(error).__name__}: {error}")
    return "pass", None
