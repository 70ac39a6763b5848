"""What people read, `api/cli/console.py`: the state of a store, damage."""

from __future__ import annotations

import json

import pytest

from aidre.api.cli import console
from aidre.engine.maintenance.verify import CollectionReport, StoreProblem as Damage


def test_messages_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_message("one\ntwo\r\n\tthree")
    assert capsys.readouterr().err == "aidre: one two three\n"


def test_json_and_messages_do_not_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    steering = "\x1b[31m \x9b31m \u202e \u2066 \u200f \x7f \x00"
    console.print_json({"title": steering, "plain": "naïve 日本"})
    console.print_message(f"no collection {steering!s}")
    out, err = capsys.readouterr()
    assert json.loads(out) == {"title": steering, "plain": "naïve 日本"}
    assert "naïve 日本" in out, "what is printable is written as it is"
    assert all(letter.isprintable() for letter in (out + err).replace("\n", ""))
    assert "\\u001b[31m" in err


def test_what_is_shown_has_no_control_characters_and_no_gaps_in_words() -> None:
    assert console.printable("a\x1b[31mb\nc") == "a [31mb c"
    assert console.printable("Unter\u00adneh\u200bmen \u202etxt\u202c می\u200cخواهم") == "Unternehmen txt می\u200cخواهم"


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 50, "3072.0 TiB")]
)
def test_sizes_are_readable(count: int, shown: str) -> None:
    assert console.format_bytes(count) == shown


def test_status_shows_what_calibration_measured() -> None:
    depth = {"results": 10, "candidates": 1200, "mean": 0.9975, "p5": 0.9}
    scan = {"kind": "scan", "reason": None, "depths": [depth]}
    exact = {"kind": "exact", "reason": "unstructured", "depths": []}
    space = {"id": "a", "dimensions": 4, "distance": "dot", "state": "live"}
    spaces = [space | {"calibration": scan}, space | {"calibration": exact}, space | {"state": "building", "chunks": 1}]
    counts: dict[str, object] = {"documents": 1, "chunks": 2, "segments": 1, "generation": 7, "disk_bytes": 10}
    counts |= {"languages": {"ar": 2600, "en": 9}, "kernel": "avx2"}
    head, *rest = console.status_lines({"collection": "c", "spaces": spaces, "warnings": ["odd"], **counts})
    assert head == "c: generation 7, 1 document, 2 chunks, 1 segment, 10 B on disk"
    assert rest == [
        "  languages: ar 2,600, en 9",
        "  kernel: avx2",
        "  a: 4 dimensions, dot, scan: recall@10 0.9975 (p5 0.90) of 1,200 candidates",
        "  a: 4 dimensions, dot, exact (unstructured)",
        "  a: 4 dimensions, dot, building, 1 chunk so far; `aidre embed --space` fills it",
        "  warning: odd",
    ]


def test_damage_to_what_is_derived_leaves_a_store_usable() -> None:
    history = Damage("c/changes/000001.arrow", "is missing", True)
    derived = CollectionReport("c", 1, 2, 3, (Damage("c/ids.arrow", "is missing", True), history))
    lost = CollectionReport("d", 1, 2, 3, (Damage("d/chunks.arrow", "is missing", False),))
    lines = list(console.verification_lines([derived, lost]))
    assert lines[0].startswith("c: usable")
    assert "(derived: `aidre compact` rebuilds it)" in lines[1]
    assert "(history alone, which nothing rebuilds: clients of the change feed that are behind it begin" in lines[2]
    assert lines[3].startswith("d: damaged")
    verified = console.verification_record([derived, lost], False)
    assert (verified["ok"], verified["documents"], verified["chunks"]) == (False, 4, 6)
    assert [problem["derived"] for problem in verified["problems"]] == [True, True, False]


def test_what_older_generations_keep_is_said_with_the_end_of_it() -> None:
    assert not list(console.kept_lines({"kept": None}))
    kept = {"bytes": 2048, "until": "2026-04-01T10:05:00Z", "generations": 0}
    (line,) = console.kept_lines({"kept": kept})
    assert line.startswith("  2.0 KiB of older generations are kept for readers until ")
    assert "newest" not in line and "--purge" in line
    (line,) = console.kept_lines({"kept": kept | {"generations": 5}})
    assert ", and as one of the newest 5 generations: " in line


def test_status_shows_how_much_vectors_count_in_languages_that_the_model_does_not_know() -> None:
    weights = [{"language": "ar", "a": 0.05, "chunks": None}, {"language": "de", "a": 0.172, "chunks": 515}]
    space = {"id": "a", "dimensions": 4, "distance": "cosine", "state": "live", "calibration": None, "weights": weights}
    counts: dict[str, object] = {"documents": 1, "chunks": 2, "segments": 1, "generation": 7, "disk_bytes": 10}
    *_, line = console.status_lines({"collection": "c", "spaces": [space], "warnings": [], **counts})
    assert line.strip() == (
        "languages that its model does not know, with the weight of vectors in hybrid search: "
        "ar 0.05 (not measured), de 0.17"
    )
