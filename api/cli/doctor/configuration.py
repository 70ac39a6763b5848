"""Checks of the configuration: each wrong key, what may be reached from elsewhere, and secrets with their files.

A server stops at the first wrong key. To name them all, what is wrong is left out and the rest is read again.
"""

from __future__ import annotations

import asyncio
import stat
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from aidre.api.cli.doctor.findings import Finding, Subject

_MOST_FAULTS: Final = 20
_OTHERS: Final = stat.S_IRWXO
_SECRETS: Final = {"key", "cursor_secret", "redis", "uri", "bind_key", "webhook"}
"""Keys whose values are secrets, beside those of `intent.keys`."""


def configuration(subject: Subject) -> Iterator[Finding]:
    """The file, and every key in it that is wrong."""
    file = subject.config
    if file is None:
        yield Finding("note", "configuration", "none is given: the defaults, everything public, loopback only")
        return
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        yield Finding("refuses", "configuration", f"{file} cannot be read: {error.strerror}", "name it by --config")
        return
    except ValueError as error:
        yield Finding("refuses", "configuration", f"{file} is not TOML: {error}", "mend that line")
        return
    faults = list(_faults(tables))
    for fault in faults:
        yield Finding("refuses", "configuration", fault, f"change it in {file}")
    if not faults:
        sections = ", ".join(sorted(tables)) or "empty"
        yield Finding("ok", "configuration", f"{file} is valid: {sections}")


def _faults(tables: Mapping[str, Any]) -> Iterator[str]:
    """The message for each wrong key. Keys that are wrong only together give one."""
    from aidre.api.config import settings_of
    from aidre.engine.errors import ConfigurationError

    def fault_of(value: Mapping[str, Any]) -> str | None:
        try:
            settings_of(value)
        except ConfigurationError as error:
            return str(error)
        return None

    rest = deepcopy(dict(tables))
    for name, entries in list(rest.items()):  # an entry that is left out would renumber those after it
        if isinstance(entries, list):
            found = [(number, fault_of({name: [entry]})) for number, entry in enumerate(entries)]
            yield from (fault.replace(f"{name}[0]", f"{name}[{number}]", 1) for number, fault in found if fault)
            rest[name] = [entries[number] for number, fault in found if not fault]
    for _ in range(_MOST_FAULTS):
        fault = fault_of(rest)
        if fault is None:
            return
        yield fault
        smaller = next((reduced for reduced in _without_one(rest) if fault_of(reduced) != fault), None)
        if smaller is None:
            return
        rest = smaller


def _without_one(tables: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The tables without one of their values, the innermost first."""
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from ({**tables, name: inner} for inner in _without_one(value))
    for name in tables:
        yield {other: value for other, value in tables.items() if other != name}


def exposure(subject: Subject) -> Iterator[Finding]:
    """What a server checks before it listens: TLS and keys, collections that are granted, and those that are named."""
    from aidre.api.access import check_guard
    from aidre.api.cli import select, serve
    from aidre.engine.errors import AidreError

    if not subject.has_valid_settings:
        return
    settings, source = subject.settings, subject.source
    faults = 0
    try:
        asyncio.run(check_guard(settings))
        if source is not None:
            select.check_granted_collections(source, settings)
            serve.check_exposure(settings, subject.host, serve.private_collections(source, settings))
    except AidreError as error:
        faults += 1
        yield Finding("refuses", "exposure", str(error))
    for message in () if source is None else select.missing_collections(source, settings):
        faults += 1
        yield Finding("warning", "exposure", message)
    if not faults:
        keys = len(settings.keys)
        shown = f"{keys} keys" if keys else "no keys: everything public may be read by all who reach the port"
        yield Finding("ok", "exposure", f"on {subject.host}, {shown}")


def secrets(subject: Subject) -> Iterator[Finding]:
    """Signing key, bind key, and a configuration with secrets in it: can they be read, and by whom?"""
    from aidre.api.protocols.intake import existing_bind_key
    from aidre.api.protocols.provenance import provenance_for
    from aidre.engine.errors import AidreError

    settings, store = subject.settings, subject.store or Path()
    if subject.config is not None and not subject.has_valid_settings:
        return
    if settings.provenance.key is not None:
        file = Path(settings.provenance.key)
        try:
            provenance_for(settings)
        except AidreError as error:
            yield Finding("refuses", "signing key", str(error))
        else:
            yield _file_mode("signing key", file)
    if settings.intakes:
        try:
            found = existing_bind_key(settings.intake, store)
        except AidreError as error:
            yield Finding("refuses", "bind key", str(error))
        else:
            yield _bind_key(settings.intake.key_file, is_there=found is not None)
    if subject.config is not None and _holds_secrets(subject.config):
        yield _file_mode("secrets in the configuration", subject.config)


def _bind_key(file: str | None, *, is_there: bool) -> Finding:
    if not is_there:
        return Finding("note", "bind key", f"is made at the first start, in {file or '~/.config/aidre'}")
    if file is not None and Path(file).is_file():
        return _file_mode("bind key", Path(file))
    return Finding("ok", "bind key", "is there")


def _file_mode(what: str, file: Path) -> Finding:
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & _OTHERS:
        text = f"{file} can be read by every user of this machine (mode {mode:04o})"
        return Finding("warning", what, text, f"chmod o= {file}")
    return Finding("ok", what, f"{file} is readable, mode {mode:04o}")


def _holds_secrets(file: Path) -> bool:
    """Whether the file states a secret in place of the name of an environment variable."""
    tables = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    stated = [(name, value) for name, value in _leaves(tables) if name in _SECRETS]
    stated += list(tables.get("intent", {}).get("keys", {}).items())
    provenance = tables.get("provenance", {}).get("key")
    return any(isinstance(value, str) and value != provenance and not value.startswith("env:") for _, value in stated)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    else:
        yield name, value
