"""Truncated, altered and missing files: truth is refused by name, what is derived is bypassed with right answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
import xxhash
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.errors import CollectionMissing, FormatTooNew, GenerationMissing, StoreDamaged
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.maintenance.verify import verify
from aidre.engine.model import Query
from tests.support import damage as damages
from tests.support.damage import (
    DERIVED,
    KEYS,
    MODEL,
    PLAIN,
    QUERIES,
    ROWS,
    SPACES,
    TRUTH,
    Damage,
    alter,
    cut,
    files,
    flipped,
    frame_of,
    report_of,
)
from tests.support.fields import dated
from tests.support.stores import NAME, ask, names, normal, put

sound, store = damages.sound, damages.store


def answers(snapshot: Snapshot) -> list[object]:
    """What a caller can ask: searches with and without filters, look-ups, counts."""
    filters = [None, parse_filter({"n": {"lt": 40}}), dated({"day": {"gte": "2026-01-20"}}, ["day"])]
    found: list[object] = [snapshot.count(only) for only in filters]
    for space, queries in zip(SPACES, QUERIES, strict=True):
        asked = [Query(query, space.id, 10, filter=only) for query in queries for only in filters]
        found += [[hit.chunk.id for hit in snapshot.search(query)] for query in asked]
    found += [(one, snapshot.get(f"{one}#chunk_1") is not None) for one in names(60)]
    with_text = snapshot.get("d000033#chunk_1")
    return [*found, with_text and with_text.text]


def body_of(store: Path, path: Path) -> NDArray[np.int64]:
    """The places of a file that are in no header and no footer."""
    is_body = np.ones(path.stat().st_size, bool)
    is_body[frame_of(store, path)] = False
    return np.flatnonzero(is_body)


@pytest.mark.slow
def test_a_sound_store_has_no_problems(store: Path) -> None:
    report = report_of(store)
    assert (report.ok, report.problems) == (True, ())
    assert (report.generation, report.documents, report.chunks) == (3, ROWS + 30, ROWS + 30)
    snapshot = Store(store).open(NAME)
    assert snapshot.warnings == ()
    assert [bool(part.segment.scans) for part in snapshot.segments] == [True, False]
    assert len(files(store, TRUTH)) == 8
    assert len(files(store, DERIVED)) == 5


@pytest.mark.slow
@pytest.mark.parametrize("damage", [cut(0), cut(1), cut(-1), cut(500), lambda content: content + b"\0"])
def test_truth_of_another_size_is_refused_by_name(damage: Damage, store: Path) -> None:
    for path in files(store, TRUTH):
        whole = path.read_bytes()
        alter(path, damage)
        with pytest.raises(StoreDamaged, match=path.name.replace("+", r"\+")) as caught:
            Store(store).open(NAME)
        assert caught.value.details["collection"] == NAME
        assert str(caught.value.details["file"]).endswith(f"{path.parent.name}/{path.name}")
        assert "\n" not in str(caught.value)
        problems = report_of(store).problems
        assert [(problem.file, problem.derived) for problem in problems] == [(caught.value.details["file"], False)]
        assert not report_of(store).ok
        path.write_bytes(whole)
    assert report_of(store).ok


@pytest.mark.slow
def test_missing_truth_is_refused_by_name(store: Path) -> None:
    for path in files(store, TRUTH):
        path.rename(path.with_suffix(".away"))
        with pytest.raises(StoreDamaged, match="is missing"):
            Store(store).open(NAME)
        path.with_suffix(".away").rename(path)


@pytest.mark.slow
def test_a_flipped_bit_in_a_header_or_footer_of_truth_is_found_on_opening(store: Path) -> None:
    rng = np.random.default_rng(0)
    for path in files(store, TRUTH):
        places = frame_of(store, path)
        whole = path.read_bytes()
        for place in rng.choice(places, 6).tolist():
            alter(path, flipped(place, int(rng.integers(8))))
            with pytest.raises(StoreDamaged, match="header or footer"):
                Store(store).open(NAME)
            path.write_bytes(whole)


@pytest.mark.slow
def test_a_flipped_bit_in_the_body_of_truth_is_found_by_verify(store: Path) -> None:
    rng = np.random.default_rng(1)
    for path in files(store, TRUTH):
        whole = path.read_bytes()
        body = body_of(store, path)
        for place in rng.choice(body, 3).tolist():
            alter(path, flipped(place, int(rng.integers(8))))
            report = report_of(store)
            assert not report.ok
            (problem,) = report.problems
            assert problem.file == f"{NAME}/segments/{path.parent.name}/{path.name}"
            assert "checksum" in problem.what
            path.write_bytes(whole)


def test_merging_refuses_to_copy_altered_truth(store: Path) -> None:
    for path in files(store, TRUTH):
        whole = path.read_bytes()
        body = body_of(store, path)
        alter(path, flipped(int(body[len(body) // 2])))
        with Store(store).writer(NAME, spaces=SPACES) as writer, pytest.raises(StoreDamaged, match=path.name):
            writer.compact()
        assert Store(store).current(NAME) == 3
        path.write_bytes(whole)


def test_altered_offsets_end_in_an_error_and_not_in_the_process(store: Path) -> None:
    read, refused = [], 0
    path = max(files(store, ["documents.arrow"]), key=lambda one: one.stat().st_size)  # of the documents that are read
    whole = path.read_bytes()
    body = body_of(store, path)
    for seed in range(5):
        altered = bytearray(whole)
        for place in np.random.default_rng(seed).choice(body, 2_000).tolist():
            altered[place] ^= 0x55
        alter(path, lambda _, altered=altered: bytes(altered))  # type: ignore[misc]
        try:
            snapshot = Store(store).open(NAME)
        except StoreDamaged:  # the ends of a column lie outside of the file
            refused += 200
            continue
        for one in names(200, 20):
            try:
                chunk = snapshot.get(f"{one}#chunk_1")
                assert chunk is not None
                read.append((chunk.document_id, chunk.title, chunk.url, chunk.json_payload, chunk.metadata))
            except (ValueError, IndexError):
                refused += 1
    assert len(read) + refused == 5 * 200
    assert refused > 0


@pytest.mark.slow
@pytest.mark.parametrize("damage", [cut(0), cut(-1), cut(300), None])
def test_derived_files_of_another_size_are_bypassed_with_right_answers(damage: Damage | None, store: Path) -> None:
    wanted = answers(Store(store).open(NAME))
    for path in files(store, DERIVED):
        whole = path.read_bytes()
        if damage is None:
            path.unlink()
        else:
            alter(path, damage)
        snapshot = Store(store).open(NAME)
        assert len(snapshot.warnings) == 1
        assert f"segments/{path.parent.name}/{path.name}" in snapshot.warnings[0]
        assert answers(snapshot) == wanted
        report = report_of(store)
        assert report.ok
        assert [problem.derived for problem in report.problems] == [True]
        path.unlink(missing_ok=True)
        path.write_bytes(whole)


@pytest.mark.slow
def test_a_flipped_bit_anywhere_in_a_derived_file_is_bypassed_with_right_answers(store: Path) -> None:
    wanted = answers(Store(store).open(NAME))
    rng = np.random.default_rng(2)
    for path in files(store, DERIVED):
        whole = path.read_bytes()
        for place in rng.integers(0, len(whole), 4).tolist():
            alter(path, flipped(place, int(rng.integers(8))))
            snapshot = Store(store).open(NAME)
            assert len(snapshot.warnings) == 1
            assert answers(snapshot) == wanted
            path.write_bytes(whole)


def test_damaged_keys_are_rebuilt_when_a_writer_asks(store: Path) -> None:
    (path, _) = files(store, ["keys.arrow"])
    for damage in (cut(10), flipped(700)):
        whole = path.read_bytes()
        alter(path, damage)
        assert [problem.derived for problem in report_of(store).problems] == [True]
        with Store(store).writer(NAME, spaces=SPACES) as writer:
            found, _ = writer.reuse(MODEL.id, [*KEYS, b"x" * 16])
        assert found.tolist() == [True] * len(KEYS) + [False]
        path.unlink()
        path.write_bytes(whole)


@pytest.mark.slow
def test_compaction_mends_what_is_derived(store: Path) -> None:
    wanted = answers(Store(store).open(NAME))
    for path in files(store, [*DERIVED, "keys.arrow"]):
        alter(path, flipped(400))
    assert len(report_of(store).problems) == 7
    with Store(store).writer(NAME, spaces=SPACES) as writer:
        writer.compact()
    report = report_of(store)
    assert (report.ok, report.problems) == (True, ())
    snapshot = Store(store).open(NAME)
    assert snapshot.warnings == ()
    assert answers(snapshot)[:3] == wanted[:3]


@pytest.mark.slow
def test_a_commit_mends_a_damaged_index(store: Path) -> None:
    (path,) = files(store, ["index.arrow"])
    alter(path, flipped(5000))
    with Store(store).writer(NAME, spaces=SPACES) as writer:
        writer.delete(["d000100"])
        writer.commit()
    assert report_of(store).problems == ()
    assert [bool(part.segment.scans) for part in Store(store).open(NAME).segments] == [True, False]


# -- manifests, lists, CURRENT -----------------------------------------------------------------------------


def test_every_flipped_bit_of_a_manifest_is_found_on_opening(store: Path) -> None:
    path = store / NAME / "manifests" / "000003.json"
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    places = [*range(60), *rng.integers(0, len(whole), 100).tolist(), *range(len(whole) - 5, len(whole))]
    for place in places:
        path.write_bytes(flipped(place, int(rng.integers(8)))(whole))
        with pytest.raises(StoreDamaged, match=r"manifests/000003\.json") as caught:
            Store(store).open(NAME)
        assert "\n" not in str(caught.value)
        assert not report_of(store).ok
    path.write_bytes(whole)
    assert report_of(store).ok


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b'{"checksum":"","body":{}}', b"\xff" * 50])
def test_a_manifest_that_is_something_else_is_refused(content: bytes, store: Path) -> None:
    (store / NAME / "manifests" / "000003.json").write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"manifests/000003\.json"):
        Store(store).open(NAME)


def test_a_manifest_cut_anywhere_is_refused(store: Path) -> None:
    path = store / NAME / "manifests" / "000003.json"
    whole = path.read_bytes()
    for size in np.random.default_rng(4).integers(0, len(whole) - 1, 30).tolist():
        path.write_bytes(whole[:size])
        with pytest.raises(StoreDamaged):
            Store(store).open(NAME)


def test_a_missing_manifest_that_current_names_is_damage(store: Path) -> None:
    (store / NAME / "manifests" / "000003.json").unlink()
    with pytest.raises(StoreDamaged, match="000003"):
        Store(store).open(NAME)
    with pytest.raises(StoreDamaged, match="000003"):
        Store(store).writer(NAME, spaces=SPACES)
    assert not report_of(store).ok
    with pytest.raises(GenerationMissing):
        Store(store).open(NAME, generation=3)
    assert Store(store).open(NAME, generation=2).documents == ROWS + 50


def test_a_store_of_a_newer_format_is_refused_with_the_cure(store: Path) -> None:
    path = store / NAME / "manifests" / "000003.json"
    body = orjson.dumps({**orjson.loads(path.read_bytes())["body"], "format": 99})
    path.write_bytes(b'{"checksum":"%s","body":%s}\n' % (xxhash.xxh3_128_hexdigest(body).encode(), body))
    for attempt in (lambda: Store(store).open(NAME), lambda: Store(store).writer(NAME, spaces=SPACES)):
        with pytest.raises(FormatTooNew, match=r"format 99.*upgrade"):
            attempt()


def test_a_current_file_that_was_altered_never_opens_what_it_does_not_name(store: Path) -> None:
    path = store / NAME / "CURRENT"
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            content = flipped(place, bit)(whole)
            path.write_bytes(content)
            if content.strip().isdigit() and int(content) in (1, 2, 3):
                continue  # a number of a generation that is there: nothing tells it from an earlier CURRENT
            with pytest.raises(StoreDamaged, match="CURRENT"):
                Store(store).open(NAME)
    path.unlink()
    with pytest.raises(CollectionMissing):
        Store(store).open(NAME)


@pytest.mark.parametrize("damage", [cut(0), cut(-1), flipped(100), flipped(-20), None])
def test_a_damaged_list_of_deletes_is_refused(damage: Damage | None, store: Path) -> None:
    path = store / NAME / "deletes" / "000003.arrow"
    if damage is None:
        path.unlink()
    else:
        alter(path, damage)
    with pytest.raises(StoreDamaged, match=r"deletes/000003\.arrow"):
        Store(store).open(NAME)
    assert not report_of(store).ok


def test_a_damaged_list_of_changes_takes_nothing_from_the_collection(store: Path) -> None:
    alter(store / NAME / "changes" / "000003.arrow", flipped(50))
    assert Store(store).open(NAME).warnings == ()
    report = report_of(store)
    assert report.ok
    assert [problem.derived for problem in report.problems] == [True]


def test_damage_to_one_collection_leaves_the_others(store: Path) -> None:
    with Store(store).writer("other", spaces=[PLAIN]) as writer:
        put(writer, ["a"], normal(1, 4))
        writer.commit()
    (store / NAME / "manifests" / "000003.json").write_bytes(b"")
    assert [report.ok for report in verify(Store(store))] == [False, True]
    assert ask(Store(store).open("other"), normal(1, 4)[0]) == ["a"]
