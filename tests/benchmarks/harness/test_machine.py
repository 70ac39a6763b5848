"""The line about the machine names what the figures depend on."""

from __future__ import annotations

import sys
import sysconfig
from types import SimpleNamespace

import pytest

from benchmarks.harness import machine


def test_the_line_names_processor_interpreter_and_instruction_sets() -> None:
    line = machine.machine()
    assert all(part in line for part in ("cores", "Python 3.", "numpy", "FAISS", "aidre's kernel: "))


@pytest.mark.parametrize(
    ("variables", "flags"),
    [
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'", "PY_CFLAGS": "-O3"}, ["-O3", "PGO", "LTO"]),
        ({"PY_CFLAGS": "-O3 -O2", "PY_LDFLAGS_NODIST": "-flto=auto"}, ["-O2", "PGO not named", "LTO"]),
        ({"CONFIG_ARGS": "--with-pydebug", "PY_CFLAGS": "-Og"}, ["debug", "-Og"]),
    ],
)
def test_flags_of_the_build_are_read_where_it_names_them(
    variables: dict[str, str], flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", variables.get)
    assert machine.build_flags() == flags


def test_a_release_without_a_kernel_searches_with_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aidre.engine.native", None)
    assert machine.kernel() == "FAISS"
    monkeypatch.setitem(sys.modules, "aidre.engine.native", SimpleNamespace(kernel_name=lambda: "avx2"))
    assert machine.kernel() == "avx2"
