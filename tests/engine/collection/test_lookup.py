"""What a writer looks up: documents of a source, and vectors by embedding key, stored or pending."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from aidre.engine.collection.lookup import DocumentLocator
from aidre.engine.collection.store import Store
from tests.support.stores import NAME, ROWS, SPACE, names, put, record, write


def test_source_roots_are_kept_and_documents_of_a_source_are_listed(tmp_path: Path) -> None:
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        writer.set_source_root("left", "/left")
        put(writer, [record("a", source="left", origin="a.md"), record("b", source="right", origin="b.md")], ROWS[:2])
        writer.commit()
        put(writer, [record("c", source="left", origin="c.md")], ROWS[2:3])
        writer.delete(["a"])
        writer.commit()
    with Store(tmp_path).writer(NAME, spaces=[SPACE]) as writer:
        assert writer.source_roots() == {"left": "/left"}
        assert list(writer.documents_of("left")) == [("c", "c.md")]
        writer.set_source_root("left", "/left")
        assert writer.commit() is None


def test_vectors_are_used_again_by_their_key_across_pending_segments_and_merges(tmp_path: Path) -> None:
    space = replace(SPACE, model="m")
    keys = [bytes([number]) * 16 for number in range(1, 9)]
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        put(writer, names(4), ROWS[:4] * 3, {space.id: keys[:4]})
        writer.commit()
        put(writer, names(2, 4), ROWS[4:6], {space.id: keys[4:6]})
        found, encoded = writer.reuse(space.id, keys)
        assert found.tolist() == [True] * 6 + [False] * 2
        writer.commit()
        writer.compact()
        again, reused = writer.reuse(space.id, [*keys, bytes(16)])
        assert again.tolist() == [True] * 6 + [False] * 3
        assert (reused.codes[:6] == encoded.codes[:6]).all()
        wanted = writer.encode(space.id, np.concatenate([ROWS[:4] * 3, ROWS[4:6]]))
        assert (encoded.codes[:6] == wanted.codes).all()
        assert (encoded.norms[:6] == wanted.norms).all()


def test_rows_that_came_without_keys_do_not_take_those_of_others(tmp_path: Path) -> None:
    space = replace(SPACE, model="m")
    keys = [bytes([number]) * 16 for number in (1, 2)]
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        put(writer, names(2), ROWS[:2])
        put(writer, names(2, 2), ROWS[2:4], {space.id: keys})
        writer.commit()
        found, encoded = writer.reuse(space.id, keys)
        assert found.tolist() == [True, True]
        assert (encoded.codes == writer.encode(space.id, ROWS[2:4]).codes).all()


def test_a_document_is_located_in_the_snapshot_that_is_asked_though_the_last_answer_is_kept(tmp_path: Path) -> None:
    locator = DocumentLocator()
    write(tmp_path, ["a", "b"])
    old = Store(tmp_path).open(NAME)
    assert locator.locate(None, ["a"]).tolist() == [[-1, -1]]
    assert locator.locate(old, ["b", "a", "z"]).tolist() == [[0, 1], [0, 0], [-1, -1]]
    assert locator.locate(old, ["a"]).tolist() == [[0, 0]]
    assert locator.locate(old, ["a", "y"]).tolist() == [[0, 0], [-1, -1]]
    write(tmp_path, [record("a", ["new"])])
    assert locator.locate(Store(tmp_path).open(NAME), ["a"]).tolist() == [[1, 0]]
