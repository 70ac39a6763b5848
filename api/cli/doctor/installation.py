"""Checks of what is installed: libraries, interpreter, kernel, model, extras."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from aidre.api.cli.doctor.findings import ENDS_PROCESS, Finding, Subject

if TYPE_CHECKING:
    from aidre.engine.model import EmbeddingSpace

_COMPILED: Final = ("numpy", "pyarrow", "xxhash", "orjson", "msgspec", "faiss", "onnxruntime", "uvloop")
"""Libraries in machine code, which can end the process that loads them: in the order in which they build on each
other."""
_PROBE: Final = """
import importlib, json, sys
for name in sys.argv[1:]:
    print(json.dumps([name, None]), flush=True)
    try:
        importlib.import_module(name)
    except BaseException as error:
        print(json.dumps([name, f"{type(error).__name__}: {error}"]), flush=True)
"""
_PROBE_SECONDS: Final = 120
_EXTRAS: Final = {
    "models": (("sentence_transformers", "onnx"), "other models than those of `aidre model list`"),
    "conformance": (("aidre_conformance",), "tests of another server (`aidre conformance`)"),
    "office": (("docutils",), "reStructuredText as a source"),
    "ocr": (("PIL",), "images as a source (`aidre ingest --ocr`)"),
    "redis": (("limits",), "one count of the limits for several machines (limits.redis)"),
    "postgres": (("aidre_postgres", "psycopg"), "collections in PostgreSQL (store.backend)"),
    "milvus": (("aidre_milvus", "pymilvus"), "collections in Milvus (store.backend)"),
    "s3": (("obstore",), "publishing to a bucket, and replicas (`aidre publish`)"),
    "ray": (("aidre_ray", "ray"), "ingest on several machines (`aidre ingest --on`)"),
}
"""By extra: modules that it brings, and what they enable."""


def libraries(subject: Subject) -> Iterator[Finding]:
    """Versions against what aidre requires, and whether the compiled ones can be loaded."""
    yield Finding("ok", "aidre", version("aidre"))
    stated = requires("aidre") or []
    wrong = list(_unmet(stated))
    yield from wrong
    yield from _unloadable()
    count = sum("extra ==" not in requirement for requirement in stated)
    if not any(finding.level == "refuses" for finding in wrong):
        shown = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pyarrow", "faiss-cpu", "onnxruntime"))
        yield Finding("ok", "libraries", f"{count} requirements: {shown}")


def _unmet(stated: list[str]) -> Iterator[Finding]:
    from packaging.requirements import Requirement

    for requirement in map(Requirement, stated):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            cure = f"pip install '{requirement.name}{requirement.specifier}'"
            yield Finding("refuses", requirement.name, "is not installed", cure)
            continue
        if not requirement.specifier.contains(installed, prereleases=True):
            text = f"{installed} is installed, aidre needs {requirement.specifier}"
            yield Finding("warning", requirement.name, text, f"pip install '{requirement.name}{requirement.specifier}'")


def _unloadable() -> Iterator[Finding]:
    """Loads the compiled libraries in a process of its own, which they may end."""
    command = [sys.executable, "-c", _PROBE, *_COMPILED]
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE", "ORT_DISABLE_TELEMETRY": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        yield Finding("warning", "libraries", f"were not loaded within {_PROBE_SECONDS} s", "run doctor again")
        return
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    for name, error in reports:
        if error is not None:
            yield Finding("refuses", name, f"cannot be loaded: {' '.join(error.split())}", "reinstall it with pip")
    if done.returncode and reports:
        text = f"{ENDS_PROCESS} (exit status {done.returncode})"
        yield Finding("refuses", reports[-1][0], text, "reinstall it; a processor may lack what it was compiled for")


def interpreter(subject: Subject) -> Iterator[Finding]:
    """The version, and how Python was built."""
    name = f"{sys.implementation.name} {sys.version.split()[0]}"
    variables = sysconfig.get_config_vars()
    flags = f"{variables.get('CONFIG_ARGS', '')} {variables.get('PY_CFLAGS_NODIST', '')} {variables.get('CFLAGS', '')}"
    if variables.get("Py_DEBUG"):
        text = f"{name}, a debug build, in which all takes several times as long"
        yield Finding("warning", "Python", text, "use a release build")
    elif "--enable-optimizations" in flags or "-fprofile-use" in flags:
        linked = " and at link time" if "-flto" in flags or "--with-lto" in flags else ""
        yield Finding("ok", "Python", f"{name}, optimised by a profile{linked}")
    elif sys.base_prefix == "/usr":  # Debian removes the flags; it builds with a profile
        yield Finding("ok", "Python", f"{name}, of the distribution")
    else:
        text = f"{name}, names no profile that it was built with: without one, Python's own code runs slower"
        cure = "use the Python of your distribution, or build with --enable-optimizations --with-lto"
        yield Finding("note", "Python", text, cure)


def kernel(subject: Subject) -> Iterator[Finding]:
    """The C kernel and its instruction set."""
    from aidre.engine.errors import ConfigurationError

    try:
        from aidre.engine.native import FALL_BACK, kernel_name
    except ConfigurationError as error:
        yield Finding("refuses", "kernel", str(error), "unset AIDRE_KERNEL")
        return
    name, forced = kernel_name(), os.environ.get("AIDRE_KERNEL")
    if forced:
        yield Finding("note", "kernel", f"{name}, as AIDRE_KERNEL says")
    elif name == FALL_BACK:
        cure = "install a C compiler and Python's headers, and reinstall aidre"
        yield Finding("warning", "kernel", "was not built: searches use FAISS and numpy, slower", cure)
    elif name == "scalar":
        yield Finding("note", "kernel", "scalar: this processor has no instruction set that the kernel knows")
    else:
        yield Finding("ok", "kernel", f"{name}, in C, chosen for this processor")


def model(subject: Subject) -> Iterator[Finding]:
    """The models of this machine, and those of the configuration."""
    from aidre.engine.embedding import DEFAULT_SPACE, model_state
    from aidre.engine.embedding.models import find_model, installed_models, is_offline, known_model
    from aidre.engine.errors import AidreError

    for space in (DEFAULT_SPACE, *_declared_spaces(subject)):
        what = "default model" if space == DEFAULT_SPACE else f"model of {space.id}"
        known = known_model(space.model or "")
        if known is not None and find_model(known.name) is None and not is_offline():
            text = f"is not on this machine: it is fetched at the first need, {known.megabytes} MB"
            yield Finding("note", what, text, f"aidre model add {known.name}")
            continue
        try:
            state = model_state(space)
        except AidreError as error:
            yield Finding("warning", what, str(error))
            continue
        if state is None:
            yield Finding("note", what, "is asked by an endpoint or is a function: not checked here")
        elif state.is_exported:
            yield Finding("ok", what, f"sha256:{state.digest[:16]}, in {state.folder}; its graph is ready")
        else:
            text = f"sha256:{state.digest[:16]}, in {state.folder}; its graph is made at the first use, in some seconds"
            yield Finding("note", what, text)
    names = [model.name for model in installed_models()]
    yield Finding("ok", "models", f"on this machine: {', '.join(names) or 'none'} (`aidre model list`)")


def _declared_spaces(subject: Subject) -> tuple[EmbeddingSpace, ...]:
    try:
        return tuple(space for space in subject.settings.spaces if space.model is not None)
    except Exception:  # a broken configuration is a finding of another check
        return ()


def extras(subject: Subject) -> Iterator[Finding]:
    """What is installed beside aidre's own requirements."""
    for extra, (modules, enabled) in _EXTRAS.items():
        if all(find_spec(module) is not None for module in modules):
            yield Finding("ok", f"extra {extra}", f"installed: {enabled}")
        else:
            yield Finding("note", f"extra {extra}", f"pip install 'aidre[{extra}]' would enable {enabled}")
