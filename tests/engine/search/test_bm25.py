"""BM25 over generations: the formula, and scores that do not depend on segments, deleted rows or filters."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.errors import InvalidInput
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.model import Query, Record
from aidre.engine.search import bm25
from aidre.engine.search.bm25 import K1, B
from aidre.engine.storage.format import LEXICON_FILE, SEGMENTS
from tests.support.stores import NAME, copied, delete, normal, put, record, space_of

_WORDS = [f"word{number}" for number in range(60)]
_SPACE = space_of("cosine", 8)


def _records(count: int, seed: int = 3) -> list[Record]:
    """Documents of one to three chunks, with words as rare as in a language."""
    random = np.random.default_rng(seed)
    records = []
    for number in range(count):
        texts = [
            " ".join(_WORDS[min(60, int(place)) - 1] for place in random.zipf(1.4, int(random.integers(1, 40))))
            for _ in range(int(random.integers(1, 4)))
        ]
        language = "de" if number % 5 == 0 else "en"
        records.append(record(f"d{number:03d}", texts, metadata={"language": language, "even": number % 2 == 0}))
    return records


def _store(path: Path, records: list[Record], commits: int) -> Snapshot:
    with Store(path).writer(NAME, spaces=[_SPACE]) as writer:
        for part in np.array_split(np.arange(len(records)), commits):
            chosen = [records[place] for place in part.tolist()]
            put(writer, chosen, normal(sum(len(one.chunks) for one in chosen), 8))
            writer.commit()
    return Store(path).open(NAME)


def _scores(snapshot: Snapshot, text: str, top_k: int = 500, **members: object) -> list[tuple[str, float]]:
    query = Query(None, None, top_k=top_k, text=text, mode="lexical", **members)  # type: ignore[arg-type]
    return [(hit.chunk.id, hit.score) for hit in snapshot.search(query)]


def test_scores_are_those_of_the_formula(tmp_path: Path) -> None:
    texts = {"a": "cat dog", "b": "cat cat bird bird bird", "c": "fish", "d": "dog"}
    snapshot = _store(tmp_path, [record(name, [text]) for name, text in texts.items()], 2)
    mean = sum(len(text.split()) for text in texts.values()) / 4
    expected: dict[str, float] = {}
    for name, text in texts.items():
        words = text.split()
        for word in ("cat", "bird"):
            holding = sum(word in other.split() for other in texts.values())
            idf = math.log(1 + (4 - holding + 0.5) / (holding + 0.5))
            count = words.count(word)
            if count:
                weight = idf * count / (count + 1.2 * (0.25 + 0.75 * len(words) / mean))
                expected[f"{name}#chunk_1"] = expected.get(f"{name}#chunk_1", 0.0) + weight
    found = dict(_scores(snapshot, "cats and birds"))
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_word_that_is_repeated_weighs_as_the_square_root(tmp_path: Path) -> None:
    snapshot = _store(tmp_path, [record("a", ["cat dog"]), record("b", ["bird"])], 1)
    once, twice = _scores(snapshot, "cat")[0][1], _scores(snapshot, "cat cats")[0][1]
    assert twice == pytest.approx(math.sqrt(2) * once)


def test_a_chunk_of_another_language_does_not_own_the_articles_of_a_question(tmp_path: Path) -> None:
    towns = ("Lugo", "Soria", "Ávila", "Jaén", "Huelva", "Cuenca", "Teruel", "Girona")
    spanish = [f"La ciudad de {town} es la capital de la provincia en el interior del país." for town in towns]
    spanish[3] = "La ciudad de Jaén es antigua, y se ve desde la sierra."
    records = [record(f"s{number}", [text]) for number, text in enumerate(spanish)]
    snapshot = _store(tmp_path, [*records, record("en", ["The lawyer Juan de la Cruz was born in London in 1950."])], 1)
    assert snapshot.status()["languages"] == {"es": 8, "en": 1}
    found = [chunk for chunk, _ in _scores(snapshot, "¿Cuál es la capital de la provincia de Teruel?")]
    assert found[0] == "s6#chunk_1"
    assert found[-1] == "en#chunk_1"


def test_a_stop_word_of_the_larger_language_counts_as_that_of_its_chunks(tmp_path: Path) -> None:
    records = [record(f"g{number}", [f"Katze{number}"], metadata={"language": "de"}) for number in range(9)]
    snapshot = _store(tmp_path, [*records, record("en", ["die hard"], metadata={"language": "en"})], 1)
    [(found, score)] = _scores(snapshot, "die")
    half = K1 * (1 - B + B * 2 / (11 / 10))
    assert found == "en#chunk_1"
    assert score == pytest.approx(math.log1p(0.5 / 10.5) / (1 + half), rel=1e-6)


def test_what_every_chunk_holds_in_several_languages_still_counts_for_something(tmp_path: Path) -> None:
    german = record("g", ["Katzen"], metadata={"language": "de"})
    english = record("e", ["katzen katz"], metadata={"language": "en"})
    snapshot = _store(tmp_path, [german, english], 1)
    found = dict(_scores(snapshot, "Katzen"))
    assert found.keys() == {"e#chunk_1", "g#chunk_1"}
    assert min(found.values()) > 0


@pytest.mark.slow
def test_one_segment_and_twenty_give_the_same_hits_and_scores(tmp_path: Path) -> None:
    records = _records(120)
    one, many = _store(tmp_path / "one", records, 1), _store(tmp_path / "many", records, 20)
    with Store(copied(tmp_path / "many", tmp_path / "merged")).writer(NAME, spaces=[_SPACE]) as writer:
        writer.finish()
    merged = Store(tmp_path / "merged").open(NAME)
    assert (len(one.segments), len(many.segments)) == (1, 20)
    assert len(merged.segments) < 20
    for text in ("word0", "word3 word7 word7 word59", "word1 word2 word5 word8 word13 word21"):
        assert _scores(one, text)
        assert _scores(one, text) == _scores(many, text) == _scores(merged, text)
        assert _scores(one, text, 7) == _scores(one, text)[:7]


@pytest.fixture(scope="module")
def partly_deleted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments, of whose documents every seventh is deleted."""
    path, records = tmp_path_factory.mktemp("partly"), _records(90)
    _store(path, records, 3)
    delete(path, [one.document.id for one in records[::7]])
    return path


def test_hits_are_the_best_of_all_scores(partly_deleted: Path) -> None:
    snapshot = Store(partly_deleted).open(NAME)
    statistics = bm25.Statistics(snapshot.segments)
    for text in ("word50", "word0 word1 word30", "word0 word2 word3 word17 word59", "word1 word1 word12"):
        scorer = bm25.Bm25Scorer(snapshot.segments, statistics, text)
        for only in (None, parse_filter({"even": True})):
            every = []
            for part in snapshot.segments:
                rows = np.arange(part.segment.entry.chunks)
                mask, scores = part.row_mask(only).mask, bm25.score_rows(part, statistics, scorer.words, rows)
                live = rows[(scores > 0) & (mask if mask is not None else True)]
                every += [(-scores[row], part.segment.chunks.bytes("id")[row].decode()) for row in live]
            expected = [(name, -score) for score, name in sorted(every)]
            for top_k in (1, 4, 25, 500):
                assert _scores(snapshot, text, top_k, filter=only) == expected[:top_k]


def test_a_deleted_document_is_gone_from_the_words_at_once(tmp_path: Path) -> None:
    records = _records(60)
    _store(tmp_path / "all", records, 3)
    doomed = [one.document.id for one in records[::3]]
    delete(tmp_path / "all", doomed)
    rest = [one for one in records if one.document.id not in doomed]
    deleted, never = Store(tmp_path / "all").open(NAME), _store(tmp_path / "rest", rest, 1)
    for text in ("word0 word4", "word11", "word59 word2"):
        assert _scores(deleted, text) == _scores(never, text)


def test_a_language_that_is_gone_changes_no_score(tmp_path: Path) -> None:
    english = [record(f"e{number}", [f"running houses {number}"], metadata={"lang": "en"}) for number in range(5)]
    german = [record("g", ["running houses und Häuser"], metadata={"lang": "de"})]
    _store(tmp_path / "both", english + german, 1)
    delete(tmp_path / "both", ["g"])
    only = _store(tmp_path / "one", english, 1)
    assert _scores(Store(tmp_path / "both").open(NAME), "running house") == _scores(only, "running house")


def test_a_filter_narrows_the_hits_and_leaves_their_scores(tmp_path: Path) -> None:
    snapshot = _store(tmp_path, _records(80), 4)
    whole = dict(_scores(snapshot, "word0 word9"))
    even = _scores(snapshot, "word0 word9", filter=parse_filter({"even": True}))
    expected = {chunk: score for chunk, score in whole.items() if int(chunk[1:4]) % 2 == 0}
    assert dict(even) == expected
    assert 0 < len(expected) < len(whole)


def test_titles_and_sections_are_words_to_search_by(tmp_path: Path) -> None:
    snapshot = _store(tmp_path, [record("a", ["nothing here"], title="Zebras of Kenya"), record("b", ["none"])], 1)
    assert [chunk for chunk, _ in _scores(snapshot, "zebra")] == ["a#chunk_1"]


@pytest.mark.parametrize("text", ["", "   ", "the of and", "nowhere", "?!", "\ud800", "x" * 10_000])
def test_a_query_without_a_known_word_finds_nothing(tmp_path: Path, text: str) -> None:
    assert _scores(_store(tmp_path, _records(5), 1), text) == []


def test_a_lexical_query_needs_text(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="needs text"):
        _store(tmp_path, _records(2), 1).search(Query(None, None, mode="lexical"))


def test_a_damaged_lexicon_is_made_anew_with_a_warning(tmp_path: Path) -> None:
    snapshot = _store(tmp_path, _records(30), 1)
    [part] = snapshot.segments
    path = tmp_path / NAME / SEGMENTS / part.segment.id / LEXICON_FILE
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.unlink()
    path.write_bytes(bytes(content))
    mended = Store(tmp_path).open(NAME)
    assert any(LEXICON_FILE in warning for warning in mended.warnings)
    assert _scores(mended, "word1 word5") == _scores(snapshot, "word1 word5")
