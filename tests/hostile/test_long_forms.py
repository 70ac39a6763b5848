"""The command of the long forms: it knows its proofs, tells what did not hold, and repeats what a seed has done."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile import __main__ as long_forms
from tests.hostile.report import Report

DRAWN: list[float] = []


def holds(report: Report, rounds: int, chance: random.Random) -> None:
    DRAWN.append(chance.random())
    (report.place("made") / "file").write_text("x", encoding="utf-8")
    report.figure("held", f"{rounds} rounds")


def fails(report: Report, rounds: int, chance: random.Random) -> None:
    report.figure("held at first", "1 round")
    raise AssertionError("round 2 of 7")


def planted(monkeypatch: pytest.MonkeyPatch, **proofs: object) -> None:
    table = {name: ("tests.hostile.test_long_forms", function, 200) for name, function in proofs.items()}
    monkeypatch.setattr(long_forms, "PROOFS", table)


def test_every_proof_can_be_called() -> None:
    for name in long_forms.PROOFS:
        assert callable(long_forms.proof(name)), name


def test_figures_are_printed_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, one="holds")
    assert long_forms.main(["--seed", "5", "--scale", "0.1", "--folder", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("\nseed 5, scale 0.1\nheld: 20 rounds\nall hold\n")
    assert list(tmp_path.iterdir()) == []


def test_a_proof_that_fails_fails_alone_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(monkeypatch, bad="fails", good="holds")
    assert long_forms.main(["--folder", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "round 2 of 7" in said
    assert said.endswith("held at first: 1 round\nheld: 200 rounds\ndid not hold: bad\n")


def test_a_seed_repeats_a_proof_in_any_company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DRAWN.clear()
    planted(monkeypatch, first="holds", second="holds")
    for asked in (["second"], ["first", "second"]):
        assert long_forms.main([*asked, "--seed", "9", "--folder", str(tmp_path)]) == 0
    assert DRAWN[0] == DRAWN[2] != DRAWN[1]


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        long_forms.main(["kils"])
    assert "no proof is named 'kils'" in capsys.readouterr().err
