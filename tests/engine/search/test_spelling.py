"""Typing errors and completions over generations: what is repaired, by which word, however the chunks are divided."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.index.text import words as words_module
from aidre.engine.model import Record
from aidre.engine.search import spelling
from aidre.engine.storage.format import SEGMENTS, WORDS_FILE
from aidre.engine.storage.manifest import encode_manifest
from tests.support.stores import NAME, delete, normal, put, record, space_of

_SPACE = space_of("cosine", 8)


def store_of(path: Path, texts: dict[str, str], commits: int = 1, language: str = "en") -> Snapshot:
    records = [record(name, [text], metadata={"language": language}) for name, text in texts.items()]
    return stored(path, records, commits)


def stored(path: Path, records: list[Record], commits: int = 1) -> Snapshot:
    with Store(path).writer(NAME, spaces=[_SPACE]) as writer:
        for part in np.array_split(np.arange(len(records)), commits):
            chosen = [records[place] for place in part.tolist()]
            put(writer, chosen, normal(len(chosen), 8))
            writer.commit()
    return Store(path).open(NAME)


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    texts = {
        "a": "The retrieval of wombats, marsupials and a quokka",
        "b": "wombats and wombats; kiwi combats in Wellington",
        "c": "fromBytes gives zyxwvutsrq, about Zürich",
    }
    return store_of(tmp_path, texts)


@pytest.mark.parametrize(
    ("typed", "corrected"),
    [
        ("retreival", "retrieval"),  # swapped
        ("retrival of wombats", "retrieval of wombats"),  # left out
        ("retrieeval", "retrieval"),  # put in
        ("ratrieval", "retrieval"),  # replaced
        ("marsupials' Qouka, qoukka?", "marsupials' Qouka, quokka?"),  # one that is two letters away stays
        ("RETREIVAL Retreival", "RETRIEVAL Retrieval"),
        ("  wmobats\n", "  wombats\n"),
        ("züricg", "zürich"),
        ("abuot the retrieval", "about the retrieval"),  # a stop word
        ("zombats", "wombats"),  # wombats are more frequent than combats
        ("\uff52etreival", "retrieval"),  # NFKC
    ],
)
def test_an_unknown_word_becomes_the_most_frequent_one_a_letter_away(
    snapshot: Snapshot, typed: str, corrected: str
) -> None:
    assert snapshot.corrected(typed) == corrected


@pytest.mark.parametrize(
    "typed",
    [
        "retrieval of wombats", "retrieving wombat", "kiwis",  # known words, and other forms of them
        "kivvy kw iw KIW", "qouk",  # too far away, too short, or an abbreviation
        "combat", "house", "bytes",  # an English word that the collection lacks, or has
        "retreival2 retre_ival fromByets 123456", "र\u0947त 東京 ภาษา", "nowhere to be found xyzzy",
        "", " ", "the of", "?!.*+[](){}^$|\\", "\ud800", "\u0301\u0301", "x" * 5_000, "retreival " * 300,
    ],
)  # fmt: skip
def test_everything_else_is_left_alone(snapshot: Snapshot, typed: str) -> None:
    assert snapshot.corrected(typed) is None


_ENGLISH = (
    "the retrieval of information from a notebook, machine learning and photography",
    "information about hypertension, osteoporosis and the inorganic chemistry of notebooks",
    "information and machine learning; photography is relevant, and the ending of a warming record is interesting",
)


@pytest.fixture
def english(tmp_path: Path) -> Snapshot:
    return store_of(tmp_path, {f"d{number}": text for number, text in enumerate(_ENGLISH)})


@pytest.mark.parametrize(
    ("typed", "corrected"),
    [
        ("infromatoin", "information"),  # swapped twice
        ("infomatin", "information"),  # left out twice
        ("infxrmztion", "information"),  # replaced twice
        ("inforrmattion", "information"),  # put in twice
        ("Photogrpahi", "Photography"),
        ("INFROMATOIN", None),  # words in capitals are often names: one letter alone
        ("xxformation", None),  # nobody strikes the first two letters wrong
        ("wramign", "warming"),
        ("infaomtin", None),  # three
    ],
)
def test_two_letters_of_a_long_word_are_repaired(english: Snapshot, typed: str, corrected: str | None) -> None:
    assert english.corrected(typed) == corrected


@pytest.mark.parametrize(
    ("typed", "corrected"),
    [
        ("a note book", "a notebook"),
        ("photo graphy", "photography"),
        ("Infor mation retri eval", "Information retrieval"),
        ("inform ation", "information"),  # one part is an English word
        ("informat ion", "information"),  # a part of which the stem is held
        ("what is rele vant?", "what is relevant?"),
        ("re trieval", "retrieval"),
    ],
)
def test_a_word_that_was_split_is_joined(english: Snapshot, typed: str, corrected: str) -> None:
    assert english.corrected(typed) == corrected


@pytest.mark.parametrize(
    "typed",
    [
        "a typical record",  # "atypical" is in no text
        "in organic chemistry",  # a preposition, although the texts have "inorganic" alone
        "machine learning and the information",
        "in formation",  # who knows
        "note\nbook", "note  book", "note, book", "note-book",  # not a single blank
        "information2 inform 9",
    ],
)  # fmt: skip
def test_neighbours_that_may_be_two_words_are_left_alone(english: Snapshot, typed: str) -> None:
    assert english.corrected(typed) is None


def test_words_are_not_joined_to_their_opposites(tmp_path: Path) -> None:
    snapshot = store_of(tmp_path, {"a": "invertebrates and nonmetallic rooms"})
    assert snapshot.corrected("in vertebrates") is None
    assert snapshot.corrected("non metallic") is None


def test_two_words_stay_two_where_the_texts_have_them_as_often(tmp_path: Path) -> None:
    texts = {
        "a": "a notebook, a note, a note, a book and a book",
        "b": "notebooks",
        "c": "a playback, and play it back",
    }
    snapshot = store_of(tmp_path, texts)
    assert snapshot.corrected("a note book") is None
    assert (
        store_of(tmp_path / "other", {"a": "notebook " * 7 + "note note book book"}).corrected("note book")
        == "notebook"
    )


@pytest.mark.parametrize(
    ("typed", "corrected"),
    [
        ("ofthe notebook", "of the notebook"),
        ("machinelearning", "machine learning"),
        ("Machinelearning inthe notebook", "Machine learning in the notebook"),
        ("informationretrieval", "information retrieval"),
        ("fromthe", "from the"),
        ("relevantcoffee", "relevant coffee"),  # one of the two is an English word
        ("aninteresting", "an interesting"),
    ],
)
def test_words_that_were_joined_are_split(english: Snapshot, typed: str, corrected: str) -> None:
    assert english.corrected(typed) == corrected


@pytest.mark.parametrize(
    "typed",
    [
        "rerecord warmness",  # a prefix or an ending is not a word
        "MACHINELEARNING",  # an abbreviation or a name
        "xqzjmachine",
    ],
)
def test_what_is_not_made_of_two_words_is_not_split(english: Snapshot, typed: str) -> None:
    assert english.corrected(typed) is None


@pytest.mark.parametrize(
    "typed",
    [
        "hypotension",  # hypertension
        "organic hyposmia",
        "osteogenesis",
        "decelerating",
    ],
)
def test_words_that_differ_in_a_prefix_are_not_taken_for_each_other(tmp_path: Path, typed: str) -> None:
    texts = {"a": "hypertension, inorganic matter, ontogenesis, accelerating"}
    corrected = store_of(tmp_path, texts).corrected(typed) or typed
    assert not {"hypertension", "inorganic", "ontogenesis", "accelerating"} & set(corrected.split())


def test_quoted_words_and_parts_of_codes_are_left_alone(english: Snapshot) -> None:
    for typed in (
        '"retreival"', "\u201cretreival of infromation\u201d", "\u00abretreival\u00bb", "\u201eretreival\u201c",
        "retreival.py", "www.retreival.com", "me@retreival.org", "src/retreival/main", "C:\\retreival", "#retreival",
        "retreival-2024", "AB-retreival-17", "retreival=1", "note_book", "retreival:information", "note boo2k",
    ):  # fmt: skip
        assert english.corrected(typed) is None, typed
    assert english.corrected('"retreival" of infromation') == '"retreival" of information'
    assert english.corrected("10-retreival, /retreival/") == "10-retrieval, /retrieval/"
    assert english.corrected("a retreival-system, retreival. Retreival: (retreival)") == (
        "a retrieval-system, retrieval. Retrieval: (retrieval)"
    )


def test_names_within_a_question_are_repaired_by_one_letter_alone(english: Snapshot) -> None:
    assert english.corrected("is it true that Infromatoin is relevant") is None
    assert english.corrected("is it true that Infromation is relevant") == "is it true that Information is relevant"
    assert english.corrected("Infromatoin of the notebook") == "Information of the notebook"


_TEXTS = {
    "fr": "la bibliothèque municipale et le ministère",
    "de": "die Geschwindigkeit und die Körpergröße, ein Wagen und die Eisenbahn",
    "es": "el conocimiento de la población",
    "ru": "информация о городе",
}


@pytest.mark.parametrize(
    ("language", "typed", "corrected"),
    [
        ("fr", "la bibliohtqèue", "la bibliothèque"),
        ("fr", "dansla bibliothèque", "dans la bibliothèque"),
        ("fr", "biblio thèque", "bibliothèque"),
        ("de", "Geschwidigkiet", "Geschwindigkeit"),
        ("de", "Körper größe", "Körpergröße"),
        ("de", "undder Geschwindigkeit", "und der Geschwindigkeit"),
        ("de", "der Eisenbahnwagen", None),  # a compound
        ("es", "conocimientopoblación", "conocimiento población"),
        ("es", "conociimeinto", "conocimiento"),
        ("es", "delas población", "de las población"),
        ("ru", "ифнормцаия", "информация"),
        ("ru", "инфор мация", "информация"),
    ],
)
def test_words_of_every_language_are_repaired_by_those_of_the_collection(
    tmp_path: Path, language: str, typed: str, corrected: str | None
) -> None:
    assert store_of(tmp_path, {"a": _TEXTS[language]}, language=language).corrected(typed) == corrected


@pytest.mark.parametrize(
    "typed",
    [
        "crème",
        "crêpe",
        "garçon",
        "naïve naïf",
        "über",
        "piñata",
        "smørrebrød",
    ],
)
def test_accented_words_do_not_become_english_ones(tmp_path: Path, typed: str) -> None:
    texts = {"a": "a crime, a crepes, a carbon, a native naive, a user, uber, a pirate, crimea, creme"}
    assert store_of(tmp_path, {"a": "crime carbon grape native user pirate"}).corrected(typed) is None
    assert store_of(tmp_path / "more", texts).corrected(typed) is None


def test_common_english_words_repair_only_questions_in_english(tmp_path: Path) -> None:
    german = store_of(tmp_path / "de", {"a": "die Geschwindigkeit der Eisenbahn"}, language="de")
    assert german.corrected("cofffee") is None
    records = [
        record("de", ["die Geschwindigkeit der Eisenbahn und das Wetter"], metadata={"language": "de"}),
        record("en", ["the speed of the railway and the weather"], metadata={"language": "en"}),
    ]
    mixed = stored(tmp_path / "both", records)
    assert mixed.corrected("what is the cofffee") == "what is the coffee"
    assert mixed.corrected("was ist mit dem cofffee") is None


def test_few_words_of_a_text_are_repaired_by_more_than_a_letter(
    english: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spelling, "_MAX_FAR", 1)
    typed = "infromatoin photogrpahi retreival"
    assert english.corrected(typed) == "information photogrpahi retrieval"


def test_of_many_unknown_words_the_first_are_repaired(snapshot: Snapshot) -> None:
    unknown = [f"{'qz' * 4}{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(spelling.MAX_REPAIRED)]
    assert snapshot.corrected(" ".join([*unknown[1:], "retreival"])) == " ".join([*unknown[1:], "retrieval"])
    assert snapshot.corrected(" ".join([*unknown, "retreival"])) is None


def test_a_word_that_the_collection_lacks_becomes_an_english_one(snapshot: Snapshot) -> None:
    assert snapshot.corrected("cofffee of wmobats") == "coffee of wombats"


def test_equally_frequent_words_are_chosen_by_the_alphabet(tmp_path: Path) -> None:
    assert store_of(tmp_path, {"a": "zandrax zandrix"}).corrected("zandrx") == "zandrax"


def test_the_choice_does_not_depend_on_segments(tmp_path: Path) -> None:
    chance = random.Random(5)
    vocabulary = ["".join(chance.choices("abcdeg", k=chance.randint(4, 6))) for _ in range(150)]
    texts = {f"d{n:03}": " ".join(chance.choices(vocabulary, k=12)) for n in range(60)}
    typed = ["".join(chance.choices("abcdeg", k=5)) for _ in range(150)]
    prefixes = ["a", "b", "ab", "ced", "g"]
    answers = []
    for commits in (1, 2, 7):
        snapshot = store_of(tmp_path / str(commits), texts, commits)
        answers.append(
            ([snapshot.corrected(text) for text in typed], [snapshot.completions(text, 3) for text in prefixes])
        )
    assert answers[0] == answers[1] == answers[2]
    assert sum(one is not None for one in answers[0][0]) > 20
    assert all(len(one) == 3 for one in answers[0][1][:3])


def test_words_of_deleted_chunks_are_never_offered(tmp_path: Path) -> None:
    store_of(tmp_path, {"a": "secret zandrax", "b": "plain retrieval"})
    assert delete(tmp_path, ["a"]) > 0
    snapshot = Store(tmp_path).open(NAME)
    assert (snapshot.corrected("zandrx"), snapshot.completions("zan", 5)) == (None, [])
    assert snapshot.corrected("retreival") == "retrieval"


def test_a_merge_counts_the_words_that_are_left(tmp_path: Path) -> None:
    texts = {f"d{n}": f"zandrax {'zandrix ' * (n % 3)} word{n}" for n in range(12)}
    store_of(tmp_path, texts, 3)
    delete(tmp_path, ["d2", "d5", "d7", "d8"])
    with Store(tmp_path).writer(NAME, spaces=None) as writer:
        writer.compact()
    [view] = Store(tmp_path).open(NAME).segments
    assert view.segment.words is not None
    left = {name: text for name, text in texts.items() if name not in {"d2", "d5", "d7", "d8"}}
    [anew] = store_of(tmp_path / "anew", left).segments
    assert anew.segment.words is not None
    for word in ("zandrax", "zandrix", "word"):
        assert view.segment.words.frequency(word) == anew.segment.words.frequency(word)
    assert list(view.segment.words.words.texts()) == list(anew.segment.words.words.texts())


def test_a_store_of_an_older_release_has_no_corrections_until_it_is_compacted(tmp_path: Path) -> None:
    snapshot = store_of(tmp_path, {"a": "retrieval of quokkas"})
    _forget_words(tmp_path, snapshot)
    older = Store(tmp_path).open(NAME)
    assert older.warnings == ()
    assert (older.corrected("retreival"), older.completions("retr", 5)) == (None, [])
    with Store(tmp_path).writer(NAME, spaces=None) as writer:
        writer.compact()
    assert Store(tmp_path).open(NAME).corrected("retreival") == "retrieval"


def _forget_words(store: Path, snapshot: Snapshot) -> None:
    """Makes the newest manifest one of a release that wrote no words."""
    [entry] = snapshot.manifest.segments
    files = {name: file for name, file in entry.files.items() if name != WORDS_FILE}
    older = replace(snapshot.manifest, segments=(replace(entry, files=files),))
    path = store / NAME / "manifests" / f"{snapshot.generation:06d}.json"
    path.unlink()
    path.write_bytes(encode_manifest(older))
    (store / NAME / SEGMENTS / entry.id / WORDS_FILE).unlink()


def test_a_damaged_file_of_words_costs_corrections_alone(tmp_path: Path) -> None:
    snapshot = store_of(tmp_path, {"a": "retrieval of quokkas"})
    [view] = snapshot.segments
    path = tmp_path / NAME / SEGMENTS / view.segment.id / WORDS_FILE
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.unlink()
    path.write_bytes(bytes(content))
    damaged = Store(tmp_path).open(NAME)
    [warning] = damaged.warnings
    assert WORDS_FILE in warning and warning.endswith("searched without corrections instead")
    assert (damaged.corrected("retreival"), damaged.completions("retr", 5)) == (None, [])


# -- completions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "completions"),
    [
        ("wo", ["wombats"]),
        ("A Wom", ["A Wombats"]),
        ("where are wombat", ["where are wombats"]),
        ("w", ["wombats", "wellington"]),
        ("zü", ["zürich"]),
        ("don't retr", ["don't retrieval"]),
        ("wombats", []),  # nothing to add
    ],
)
def test_the_last_word_is_completed(snapshot: Snapshot, typed: str, completions: list[str]) -> None:
    assert snapshot.completions(typed, 5) == completions


@pytest.mark.parametrize(
    "typed",
    [
        "",
        " ",
        "wom ",
        "wom.",
        "th",
        "x9wo",
        "wo_",
        "_wo",
        "42",
        "東",
        "\ud800",
        "wo\u0301\u0301",
        ".*",
        "wo" * 2_000,
        "İ",
    ],
)
def test_where_no_plain_word_is_begun_there_is_no_completion(snapshot: Snapshot, typed: str) -> None:
    assert snapshot.completions(typed, 5) == []


def test_the_most_frequent_words_of_all_segments_come_first(tmp_path: Path) -> None:
    """Each segment prefers another word; the sums decide."""
    texts = {"a": "zaa " * 5 + "zab " * 4, "b": "zac " * 6 + "zab " * 4, "c": "zad " * 7 + "zae zaf zag zah zai zaj"}
    snapshot = store_of(tmp_path, texts, 3)
    assert snapshot.completions("za", 4) == ["zab", "zad", "zac", "zaa"]
    assert snapshot.completions("za", 1) == ["zab"]


def test_words_that_crowd_around_a_question_are_not_all_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of words that differ from the question by one letter."""
    letters = [chr(code) for code in range(0x430, 0x500) if chr(code).islower()]
    words = [f"aaaa{letter}" for letter in letters]
    snapshot = store_of(tmp_path, {"a": " ".join(words) + f" {words[3]}"})
    compared: list[str] = []
    monkeypatch.setattr(spelling, "_MAX_NEAR", 5)

    def compare(word: str, other: str) -> bool:
        compared.append(other)
        return True

    monkeypatch.setattr(words_module, "is_one_edit", compare)
    assert len(words) > 100
    assert snapshot.corrected("aaaab") == words[3]
    assert len(compared) == 5
