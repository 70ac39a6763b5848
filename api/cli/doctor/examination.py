"""Runs the checks, each on its own: whatever one raises is a finding, and the next one runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from aidre.api.cli.doctor.findings import ENDS_PROCESS, Finding, Subject

CHECKS: Final[Mapping[str, tuple[str, ...]]] = {
    "installation": ("libraries", "interpreter", "kernel", "model", "extras"),
    "machine": ("clock", "memory", "open_files", "disk", "port", "sandbox", "ocr"),
    "configuration": ("configuration", "exposure", "secrets"),
    "store": ("store", "publications", "locks", "leftovers"),
}
"""The checks by module, whose imports may fail, too. The order is that of the page."""


def examine(subject: Subject) -> Iterator[tuple[str, Finding]]:
    """The section of each finding, and the finding. A library that ends processes keeps the store from being read."""
    deadly: str | None = None
    for section, names in CHECKS.items():
        for name in names:
            if section == "store" and deadly is not None:
                yield section, Finding("warning", name, f"not checked: {deadly} ends the process", "reinstall it")
                continue
            for finding in _run(section, name, subject):
                deadly = finding.what if ENDS_PROCESS in finding.text else deadly
                yield section, finding


def _run(section: str, name: str, subject: Subject) -> Iterator[Finding]:
    what = name.replace("_", " ")
    try:
        yield from getattr(import_module(f"aidre.api.cli.doctor.{section}"), name)(subject)
    except ImportError as error:
        yield Finding("warning", what, f"not checked, a library cannot be loaded: {_reason(error)}", "reinstall aidre")
    except Exception as error:  # the outermost handler: a doctor is asked where things are broken
        yield Finding("warning", what, f"not checked: {_reason(error)}")


def _reason(error: Exception) -> str:
    """One line; the kind of an error that does not explain itself."""
    text = " ".join(str(error).split())
    code = getattr(type(error), "code", None)
    return text if code is not None and text else f"{type(error).__name__}: {text}" if text else type(error).__name__
