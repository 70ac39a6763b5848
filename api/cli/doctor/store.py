"""Checks of the store: does each collection open, who holds the locks, what has been left behind."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aidre.api.cli.doctor.findings import Finding, Subject

_LOCKS: Final = Path("/proc/locks")
_SHOWN: Final = 5


def store(subject: Subject) -> Iterator[Finding]:
    """The folder, and each collection: generation, what is damaged, what is of another format."""
    folder = subject.store
    if folder is None:
        yield Finding("note", "store", "none is given", "name it by --store")
        return
    backend = subject.settings.store.backend
    if backend == "local":
        faults = list(_folder_faults(folder))
        yield from faults
        if any(fault.level == "refuses" for fault in faults):
            return
    yield from _state_faults(subject.settings.state_folder(folder))
    yield from _collections(subject)


def _state_faults(state: Path) -> Iterator[Finding]:
    """The folder of receipts, promises and secrets is closed to all but its owner."""
    try:
        owner = state.stat().st_uid
    except FileNotFoundError:
        return
    if not os.access(state, os.R_OK | os.X_OK):
        cure = f"serve as the user that owns it (uid {owner}), or set server.state to another folder"
        yield Finding("refuses", "state folder", f"{state} cannot be read by uid {os.geteuid()}", cure)


def _folder_faults(folder: Path) -> Iterator[Finding]:
    if not folder.exists():
        yield Finding("refuses", "store", f"there is none at {folder}", "`aidre ingest` makes one")
    elif not folder.is_dir():
        yield Finding("refuses", "store", f"{folder} is not a folder", "name a folder by --store")
    elif not os.access(folder, os.R_OK | os.X_OK):
        owner = folder.stat().st_uid
        cure = f"serve as the user that owns it (uid {owner}), or as a member of its group"
        yield Finding("refuses", "store", f"{folder} cannot be read by uid {os.geteuid()}", cure)
    elif not os.access(folder, os.W_OK) or _is_read_only(folder):
        text = f"{folder} cannot be written: it is served, but nothing is ingested and no receipt kept in it"
        yield Finding("warning", "store", text, "set server.state to a folder that can be written, or change the mode")


def _is_read_only(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _collections(subject: Subject) -> Iterator[Finding]:
    from aidre.engine.errors import AidreError, FormatTooNew

    try:
        readers = subject.readers
    except AidreError as error:  # no server of another engine, no driver for it, a disk that fails
        yield Finding("refuses", "store", str(error))
        return
    if not readers:
        yield Finding("note", "store", "has no collection", "`aidre ingest` makes one")
    for name, reader in readers.items():
        what = f"collection {name}"
        if isinstance(reader, FormatTooNew):
            yield Finding("warning", what, f"cannot be opened: {reader}", "upgrade aidre")
        elif isinstance(reader, AidreError):
            yield Finding("warning", what, f"cannot be opened: {reader}", "restore it: see docs/operations.md")
        else:
            counts = f"{reader.documents:,} documents, {reader.chunks:,} chunks"
            yield Finding("ok", what, f"generation {reader.generation}, {counts}")
            for warning in reader.warnings:
                yield Finding("warning", what, warning, "`aidre compact` writes derived files anew")
    if readers and not subject.opened:
        yield Finding("warning", "store", "no collection can be opened: /readyz would answer 503")


def publications(subject: Subject) -> Iterator[Finding]:
    """Whether what is published is signed, and what a replica has was verified."""
    from aidre.api.protocols.provenance import publisher_keys
    from aidre.engine.errors import AidreError
    from aidre.engine.maintenance import accepted_at, replicated_url

    stored, folder = subject.settings.store, subject.store
    if stored.publish is not None and subject.settings.provenance.key is None:
        cure = "set provenance.key, so that replicas can tell them from those of others"
        yield Finding("note", "publications", f"to {stored.publish} are not signed", cure)
    elif stored.publish is not None:
        yield Finding("ok", "publications", f"to {stored.publish} are signed by {subject.settings.provenance.key}")
    try:
        keys = publisher_keys(subject.settings)
    except AidreError as error:
        yield Finding("refuses", "publications", str(error))
        return
    url = None if folder is None else replicated_url(folder)
    if folder is None or url is None:
        return
    if keys is None:
        cure = "set store.publisher_keys to what `aidre keys public` prints on the publisher"
        yield Finding("note", "publications", f"of {url} are taken without a look at who has signed them", cure)
        return
    unverified = [name for name in subject.readers if accepted_at(folder / name) is None]
    if unverified:
        text = f"of {url}: {', '.join(unverified[:_SHOWN])} was pulled without keys"
        yield Finding("warning", "publications", text, "start the replica, which compares it with what was signed")
    else:
        yield Finding("ok", "publications", f"of {url} are taken if signed by {', '.join(keys.ids)}")


def locks(subject: Subject) -> Iterator[Finding]:
    """Which collections are being written; asks the kernel for the locks, so that no writer is disturbed."""
    if subject.source is None or subject.settings.store.backend != "local":
        return
    held = _held_inodes()
    if held is None:
        yield Finding("note", "locks", "cannot be told on this system")
        return
    paths = {name: subject.source.path / name / "LOCK" for name in subject.readers}
    written = [name for name, path in paths.items() if _is_held(path, held)]
    for name in written:
        yield Finding("note", "locks", f"{name} is being written by {_holder(paths[name])}")
    if not written:
        yield Finding("ok", "locks", "nobody is writing")


def _is_held(path: Path, held: set[int]) -> bool:
    try:
        return path.stat().st_ino in held
    except OSError:
        return False


def _held_inodes() -> set[int] | None:
    """Inodes of files that some process holds a flock on; None where the kernel does not list them."""
    try:
        lines = _LOCKS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return {int(words[5].rpartition(":")[2]) for line in lines if len(words := line.split()) > 5 and "FLOCK" in words}


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        return f"process {int(holder['pid'])} on {str(holder['host'])[:64]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def leftovers(subject: Subject) -> Iterator[Finding]:
    """Temporary files, the scrub's findings, and collections that lost their file CURRENT."""
    from aidre.api.operations import read_findings
    from aidre.engine.maintenance import leftovers as find_leftovers

    if subject.source is None:
        return
    for problem in read_findings(subject.settings.state_folder(subject.source.path)).problems[:_SHOWN]:
        cure = "`aidre compact` writes it anew" if problem.derived else "restore it from a backup"
        yield Finding("warning", "damage", f"{problem.file} {problem.what}, as the scrub has found", cure)
    if subject.settings.store.backend != "local":
        return
    found = find_leftovers(subject.source)
    if found:
        shown = ", ".join(path.relative_to(subject.source.path).as_posix() for path in found[:_SHOWN])
        text = f"{len(found)} temporary files, of a running writer or a killed one: {shown}"
        yield Finding("note", "leftovers", text, "the next writer of the collection removes them")
    else:
        yield Finding("ok", "leftovers", "none")
