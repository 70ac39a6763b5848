"""Relevance: how many questions on other subjects a collection answers, and how many of its own it does not.

    python -m benchmarks relevance PATH... --keep DIR [--halves PATH...] [--multilingual] [--questions N]
                                   [--update-readme]

PATH and --keep are those of `bench_quality`, which embeds the sets once. A question is asked as the protocols ask it,
and is answered if one of the first ten hits has the relevance RELEVANT. Each set, and samples of 20, 60 and 400 of its
chunks (every second document has a question), is asked its own questions and some of each other set:

- questions: whole ones, as the sets have them;
- titles: of documents; an own one is that of a stored document;
- words: one content word of a question; an own one is in a stored document that answers the question, a foreign one is
  in no chunk of the collection;
- codes: bare and in a short sentence, as in `bench_codes`; an own one was put into a chunk, a foreign one into none.

Modes are hybrid, dense and lexical; `vectors alone` is a collection that is not searched by words, `words alone` one
without vectors. Rates are means over the sets, those
of samples over several of them. Sets on neighbouring subjects (NEAR) are not asked each other's questions. XQuAD and
MS MARCO are about everything (BROAD), and the questions of MetaTool seldom say what their documents do (VAGUE): means
without them are shown, too. `100,000 chunks` is one collection of the sets that are not HELD_OUT and of copies of their
chunks whose vectors have noise, asked the questions of those that are: it says less than so many chunks of one's own.

--halves takes sets of one language each. Their documents, in the order of the file, are split into two collections by
blocks of BLOCK (XQuAD has several paragraphs of an article after one another), each of which is asked its own questions
and those of the other half; with --multilingual by that model, too. The demo's collections are asked the questions of
demo_questions.json. --update-readme writes the report, and the rates into docs/protocols.md.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.index.text import words_met
from aidre.engine.model import EmbeddingSpace, Mode
from aidre.engine.retrieve import RELEVANT, Policy, Question, State, answer, content_words, run
from benchmarks.harness.judged_sets import JudgedSet, Topic, read_set, sets_in
from benchmarks.quality import samples
from benchmarks.quality.bench_codes import ASKED, codes, with_code
from benchmarks.quality.bench_languages import MULTILINGUAL_SPACE, language
from benchmarks.quality.bench_quality import collection_of, ingested
from benchmarks.quality.samples import Stored
from benchmarks.report import results as report

SIZES: Final[Mapping[int, int]] = {20: 3, 60: 2, 400: 1}
"""Chunks of a sample, and how many such samples there are of a set."""
WHOLE: Final = 0
MIXED: Final = 100_000
TOGETHER: Final = "mixed"
"""The collection of several sets."""
MODES: Final[tuple[Mode, ...]] = ("hybrid", "dense", "lexical")
VECTORS_ALONE: Final = "vectors alone"
WORDS_ALONE: Final = "words alone"
KINDS: Final = ("questions", "titles", "words", "codes")
NEAR: Final = frozenset(
    frozenset(pair)
    for pair in (
        ("med", "scifact_train"),
        ("med", "climate_fever_s"),
        ("scifact_train", "climate_fever_s"),
        ("cisi", "pystdlib_code"),
    )
)
BROAD: Final = frozenset({"msmarco_5k", "xquad_en"})
VAGUE: Final = frozenset({"metatool"})
HELD_OUT: Final = frozenset({"cisi", "cranfield", "pystdlib_code"})
OWN: Final = 250
"""Questions that a collection is asked about its own documents, of each kind."""
FEWEST: Final = 8
"""Questions of which a share is told."""
CODES: Final = 30
BLOCK: Final = 40
TOP_K: Final = 10
DEMO: Final = Path(__file__).with_name("demo_questions.json")
DOCS: Final = report.ROOT / "docs"


class Asked(NamedTuple):
    kind: str
    text: str
    is_own: bool


class Rate(NamedTuple):
    """The shares of foreign questions that are answered and of own ones that are not; None of fewer than FEWEST."""

    answered: float | None
    lost: float | None


Counts = dict[bool, list[bool]]
"""For foreign (False) and own questions: whether each was answered."""


@dataclass(slots=True)
class Outcomes:
    """Counts by mode, size, kind of question and name of the collection."""

    counts: dict[tuple[str, int, str, str], Counts] = field(default_factory=dict)

    def add(self, mode: str, size: int, asked: Asked, name: str, *, answered: bool) -> None:
        found = self.counts.setdefault((mode, size, asked.kind, name), {False: [], True: []})
        found[asked.is_own].append(answered)

    def rate(self, mode: str, size: int, kind: str, name: str) -> Rate:
        found = self.counts.get((mode, size, kind, name), {False: [], True: []})
        answered, kept = (fmean(each) if len(each) >= FEWEST else None for each in (found[False], found[True]))
        return Rate(answered, None if kept is None else 1 - kept)

    def mean(self, mode: str, sizes: Sequence[int], kind: str, without: Collection[str] = ()) -> Rate:
        """The mean over the collections and sizes."""
        names = dict.fromkeys(key[3] for key in self.counts if key[3] not in without)
        rates = [self.rate(mode, size, kind, name) for name in names for size in sizes]
        return Rate(mean_of([one.answered for one in rates]), mean_of([one.lost for one in rates]))


def mean_of(shares: Sequence[float | None]) -> float | None:
    known = [share for share in shares if share is not None]
    return fmean(known) if known else None


class Vectors:
    """The vectors of questions, each embedded once."""

    def __init__(self, *embedders: Embedder) -> None:
        self.by_space = {one.space.id: one for one in embedders}
        self._known: dict[tuple[str, str], NDArray[np.float32]] = {}

    def __call__(self, space: EmbeddingSpace, text: str) -> NDArray[np.float32]:
        if (space.id, text) not in self._known:
            self.learn(space.id, [text])
        return self._known[space.id, text]

    def learn(self, space: str, texts: Sequence[str]) -> None:
        """Embeds together what is not known."""
        new = [text for text in dict.fromkeys(texts) if (space, text) not in self._known]
        if new:
            vectors = self.by_space[space].embed_queries(new)
            self._known.update(((space, text), vector) for text, vector in zip(new, vectors, strict=True))


@dataclass(frozen=True, slots=True)
class Subject:
    """A set, its stored documents by id, and its questions in random order."""

    name: str
    documents: Mapping[str, Stored]
    topics: Sequence[Topic]

    @property
    def titles(self) -> list[str]:
        return sorted({one.title for one in self.documents.values() if one.title and one.title.strip()})


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    embedder = load_embedder(DEFAULT_SPACE)
    vectors = Vectors(embedder)
    subjects = [subject(read_set(folder), options.keep, embedder) for path in options.paths for folder in sets_in(path)]
    asking = Asking(subjects, vectors, options.questions)
    for one in subjects:
        asking.of_set(one)
        rate = asking.outcomes.mean(
            "hybrid", [*SIZES, WHOLE], "questions", {each.name for each in subjects} - {one.name}
        )
        say(f"{one.name}: {percent(rate.answered)} answered, {percent(rate.lost)} lost")
    asking.of_mixed()
    figures = tables(asking.outcomes)
    if options.halves:
        halved = [read_set(folder) for path in options.halves for folder in sets_in(path)]
        figures |= of_languages(halved, options.keep, vectors, with_multilingual=options.multilingual)
    figures |= of_demo(vectors)
    print("\n".join(lines(figures)))
    report.record("bench_relevance", figures, readme=options.update_readme)
    if options.update_readme:
        report.write_between(DOCS / "protocols.md", "relevance", summary(figures))
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_relevance", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="test sets, or folders of test sets")
    parser.add_argument("--keep", type=Path, required=True, help="the folder in which bench_quality keeps its stores")
    parser.add_argument("--halves", nargs="+", type=Path, default=[], help="sets of one language each, to be halved")
    parser.add_argument("--multilingual", action="store_true", help="halves also with this model")
    parser.add_argument("--questions", type=int, default=40, help="questions that each set asks the others, of a kind")
    parser.add_argument("--update-readme", action="store_true", help="write the report and docs/protocols.md")
    return parser.parse_args(argv)


def subject(data: JudgedSet, keep: Path, embedder: Embedder) -> Subject:
    snapshot = ingested(Store(keep / "store"), collection_of(data.name), data.corpus, embedder)
    topics = list(data.topics)
    random.Random(11).shuffle(topics)
    return Subject(data.name, samples.read(snapshot, embedder.space.id), topics)


# -- asking ------------------------------------------------------------------------------------------------------------


def is_answered(
    snapshot: Snapshot, text: str, vectors: Vectors, mode: Mode | None = None, *, by_words: bool = True
) -> bool:
    state = State(snapshot, Policy(lexical=by_words))
    found = run(answer(Question(TOP_K, text, mode=mode, correct=True), state), vectors)
    return any(relevance >= RELEVANT for relevance in found.relevances or ())


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks collections made of `subjects`; each of those asks others `count` questions of a kind."""

    subjects: Sequence[Subject]
    vectors: Vectors
    count: int
    outcomes: Outcomes = field(default_factory=Outcomes)

    def of_set(self, one: Subject) -> None:
        """Asks a set and its samples."""
        foreign = [each for each in self.subjects if each is not one and frozenset({each.name, one.name}) not in NEAR]
        answering = {id for topic in one.topics for id in topic.grades}
        for size, number in (*SIZES.items(), (WHOLE, 1)):
            for seed in range(number):
                rng = random.Random(1000 * size + seed)
                documents = list(one.documents.values())
                if size:
                    documents = samples.choose(documents, answering, size, rng)
                self._ask((one.name, size), documents, ([one], foreign), rng)

    def of_mixed(self) -> None:
        """Asks a large collection of several sets; its documents have ids behind the name of their set."""
        own = [prefixed(one) for one in self.subjects if one.name not in HELD_OUT]
        foreign = [one for one in self.subjects if one.name in HELD_OUT]
        if own and foreign:
            documents = samples.repeat([each for one in own for each in one.documents.values()], MIXED, seed=5)
            self._ask((TOGETHER, MIXED), documents, (own, foreign), random.Random(5))

    def _ask(
        self,
        place: tuple[str, int],
        documents: Sequence[Stored],
        asking: tuple[Sequence[Subject], Sequence[Subject]],
        rng: random.Random,
    ) -> None:
        """Asks a collection of these documents, with vectors and without; then the same with codes in some of them.
        `place` is its name and size."""
        own, foreign = asking
        asked = [*own_questions(documents, own, rng), *foreign_questions(documents, foreign, self.count, rng)]
        with_codes, about_codes = coded(documents, self.vectors, rng)
        for stored, questions in ((documents, asked), (with_codes, about_codes)):
            self.vectors.learn(DEFAULT_SPACE.id, [each.text for each in questions])
            with tempfile.TemporaryDirectory() as folder:
                both = samples.write(Path(folder) / "both", stored, DEFAULT_SPACE)
                alone = samples.write(Path(folder) / "words", stored, None)
                for each in questions:
                    if each.kind != "words" or each.is_own or not is_stored(alone, each.text):
                        self._ask_one(place, both, alone, each)

    def _ask_one(self, place: tuple[str, int], both: Snapshot, alone: Snapshot, asked: Asked) -> None:
        name, size = place
        answered: dict[str, bool] = {mode: is_answered(both, asked.text, self.vectors, mode) for mode in MODES}
        answered[VECTORS_ALONE] = is_answered(both, asked.text, self.vectors, by_words=False)
        answered[WORDS_ALONE] = is_answered(alone, asked.text, self.vectors)
        for mode, one in answered.items():
            self.outcomes.add(mode, size, asked, name, answered=one)


def prefixed(one: Subject) -> Subject:
    documents = {f"{one.name}/{id}": replace(each, id=f"{one.name}/{id}") for id, each in one.documents.items()}
    topics = [
        replace(topic, grades={f"{one.name}/{id}": grade for id, grade in topic.grades.items()}) for topic in one.topics
    ]
    return Subject(one.name, documents, topics)


def is_stored(snapshot: Snapshot, word: str) -> bool:
    """Whether a chunk has a word."""
    found = run(answer(Question(1, word, mode="lexical", operators=False, scaled=False), State(snapshot)), Vectors())
    return bool(found.hits)


def own_questions(documents: Sequence[Stored], own: Sequence[Subject], rng: random.Random) -> Iterator[Asked]:
    by_id = {one.id: one for one in documents}
    titles = sorted({one.title for one in documents if one.title and one.title.strip()})
    for title in rng.sample(titles, min(len(titles), OWN)):
        yield Asked("titles", title, True)
    topics = []
    for one in own:
        answered = [topic for topic in one.topics if by_id.keys() & topic.grades.keys()]
        topics += rng.sample(answered, min(len(answered), OWN // len(own)))
    for topic in topics:
        yield Asked("questions", topic.text, True)
        texts = [f"{by_id[id].title or ''} {by_id[id].text}" for id in sorted(topic.grades.keys() & by_id.keys())]
        words = [word for word in content_words(topic.text) if any(words_met(word, text)[0] == 1 for text in texts)]
        if words:
            yield Asked("words", rng.choice(words), True)


def foreign_questions(
    documents: Sequence[Stored], foreign: Sequence[Subject], count: int, rng: random.Random
) -> Iterator[Asked]:
    """The first questions of each set, a word of each, and titles that no document has."""
    own_titles = {one.title for one in documents}
    for one in foreign:
        titles = [title for title in one.titles if title not in own_titles]
        yield from (Asked("titles", title, False) for title in rng.sample(titles, min(len(titles), count // 2)))
        for place, topic in enumerate(one.topics[:count]):
            yield Asked("questions", topic.text, False)
            if place % 2 and (words := content_words(topic.text)):
                yield Asked("words", rng.choice(words), False)


def coded(documents: Sequence[Stored], vectors: Vectors, rng: random.Random) -> tuple[list[Stored], list[Asked]]:
    """The documents with codes in some of their chunks, and questions for these codes and for as many others."""
    changed = list(documents)
    count = min(CODES, len(changed))
    made = codes(2 * count, rng)
    rng.shuffle(made)
    own = made[:count]
    for code, place in zip(own, rng.sample(range(len(changed)), count), strict=True):
        changed[place] = _with_code(changed[place], code, vectors, rng)
    asked = []
    for code in made:
        for sentences in (ASKED["bare"], ASKED["short sentence"]):
            asked.append(Asked("codes", rng.choice(sentences).format(code), code in own))
    return changed, asked


def _with_code(stored: Stored, code: str, vectors: Vectors, rng: random.Random) -> Stored:
    place = rng.randrange(len(stored.texts))
    text = with_code(stored.texts[place], code, rng)
    [vector] = vectors.by_space[DEFAULT_SPACE.id].embed_documents([f"{stored.title}\n{text}" if stored.title else text])
    rows = stored.vectors.copy()
    rows[place] = vector
    return replace(stored, texts=(*stored.texts[:place], text, *stored.texts[place + 1 :]), vectors=rows)


# -- languages, and the demo -------------------------------------------------------------------------------------------


def of_languages(sets: Sequence[JudgedSet], keep: Path, vectors: Vectors, *, with_multilingual: bool) -> dict[str, Any]:
    """The rates of halves of sets, by model and mode."""
    spaces = {"default": vectors.by_space[DEFAULT_SPACE.id]}
    if with_multilingual:
        spaces["multilingual"] = load_embedder(MULTILINGUAL_SPACE)
    figures: dict[str, Any] = {}
    for model, embedder in spaces.items():
        rows = figures[f"halves_of_sets,_{model}_model"] = {}
        for data in sets:
            name = collection_of(data.name) + ("" if model == "default" else f".{model}")
            snapshot = ingested(Store(keep / "store"), name, data.corpus, embedder)
            rates = halves(data, samples.read(snapshot, embedder.space.id), embedder)
            rows[data.name] = {"language": language(snapshot)}
            for mode, rate in rates.items():
                rows[data.name] |= cells(rate, f"{mode} ")
            say(f"{data.name}, {model}: {rows[data.name]}")
    return figures


def halves(data: JudgedSet, documents: Mapping[str, Stored], embedder: Embedder) -> dict[str, Rate]:
    vectors = Vectors(embedder)
    topics = list(data.topics)
    random.Random(11).shuffle(topics)
    ids = list(documents)
    outcomes = Outcomes()
    for half in (0, 1):
        chosen = {id for place, id in enumerate(ids) if place // BLOCK % 2 == half}
        own = [topic.text for topic in topics if chosen.issuperset(topic.grades)][:OWN]
        foreign = [topic.text for topic in topics if chosen.isdisjoint(topic.grades)][:OWN]
        vectors.learn(embedder.space.id, [*own, *foreign])
        with tempfile.TemporaryDirectory() as folder:
            snapshot = samples.write(Path(folder), [documents[id] for id in ids if id in chosen], embedder.space)
            for mode in MODES:
                for texts, is_own in ((own, True), (foreign, False)):
                    for text in texts:
                        asked = Asked("questions", text, is_own)
                        answered = is_answered(snapshot, text, vectors, mode)
                        outcomes.add(mode, WHOLE, asked, data.name, answered=answered)
    return {mode: outcomes.rate(mode, WHOLE, "questions", data.name) for mode in MODES}


class Demo(NamedTuple):
    """The questions of demo_questions.json, the own ones by collection."""

    foreign: list[str]
    own: dict[str, list[str]]


def demo_questions() -> Demo:
    return Demo(**orjson.loads(DEMO.read_bytes()))


def demo_snapshot(folder: Path, name: str, embedder: Embedder) -> Snapshot:
    """A collection of the demo, as demo/run.py ingests it."""
    source = {"ellery": report.ROOT / "demo" / "corpus", "docs": DOCS}[name]
    return ingested(Store(folder), name, source, embedder)


def of_demo(vectors: Vectors) -> dict[str, Any]:
    """How many of the demo's questions are answered and lost, by collection and mode."""
    asked = demo_questions()
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, own in asked.own.items():
            snapshot = demo_snapshot(Path(folder), name, vectors.by_space[DEFAULT_SPACE.id])
            row = rows[name] = {"chunks": snapshot.chunks}
            for mode in MODES:
                answered = [text for text in asked.foreign if is_answered(snapshot, text, vectors, mode)]
                lost = [text for text in own if not is_answered(snapshot, text, vectors, mode)]
                row[f"{mode} answered"] = f"{len(answered)} of {len(asked.foreign)}"
                row[f"{mode} lost"] = f"{len(lost)} of {len(own)}"
                say(f"{name}, {mode}: answered {answered}, lost {lost}")
    return {"demo": rows}


# -- figures -----------------------------------------------------------------------------------------------------------


def tables(outcomes: Outcomes) -> dict[str, Any]:
    """By mode a row for each kind of question and size; by collection the whole questions of hybrid search."""
    figures: dict[str, Any] = {}
    sizes = [*SIZES, WHOLE]
    for mode in (*MODES, VECTORS_ALONE, WORDS_ALONE):
        rows = figures[f"{mode},_means_over_sets"] = {}
        for kind in KINDS:
            for size in (*sizes, MIXED):
                broad, narrow = outcomes.mean(mode, [size], kind), outcomes.mean(mode, [size], kind, BROAD)
                if broad.answered is not None:
                    rows[f"{kind}, {size_name(size)}"] = cells(broad) | cells(narrow, "narrow ")
    rows = figures["hybrid,_questions,_by_set"] = {}
    for name in dict.fromkeys(key[3] for key in outcomes.counts if key[3] != TOGETHER):
        rows[name] = {}
        for size in sizes:
            rows[name] |= cells(outcomes.rate("hybrid", size, "questions", name), f"{size_name(size)} ")
    figures["hybrid,_questions,_mean_over_sets_and_sizes"] = {
        "all sets": cells(outcomes.mean("hybrid", sizes, "questions", {TOGETHER})),
        "without those about everything": cells(outcomes.mean("hybrid", sizes, "questions", BROAD | {TOGETHER})),
        "without MetaTool": cells(outcomes.mean("hybrid", sizes, "questions", VAGUE | {TOGETHER})),
        "without both": cells(outcomes.mean("hybrid", sizes, "questions", BROAD | VAGUE | {TOGETHER})),
    }
    return figures


def size_name(size: int) -> str:
    return f"{size:,} chunks" if size else "whole"


def cells(rate: Rate, before: str = "") -> dict[str, str]:
    return {f"{before}answered": percent(rate.answered), f"{before}lost": percent(rate.lost)}


def percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def lines(figures: Mapping[str, Any]) -> Iterator[str]:
    for name, rows in figures.items():
        yield name.replace("_", " ")
        for row, found in rows.items():
            yield f"  {row:28}" + "  ".join(f"{column.replace('_', ' ')} {cell}" for column, cell in found.items())


def summary(figures: Mapping[str, Any]) -> Iterator[str]:
    """The tables of docs/protocols.md: foreign questions that are answered, own ones that are lost."""
    modes = {"hybrid": "hybrid", VECTORS_ALONE: "vectors alone", "lexical": "lexical"}
    yield f"| asked of | {' | '.join(modes.values())} |"
    yield f"|---|{'---|' * len(modes)}"
    of_mode = {mode: figures[f"{mode},_means_over_sets"] for mode in modes}
    for row in of_mode["hybrid"]:
        yield f"| {row} | {' | '.join(pair(of_mode[mode][row]) for mode in modes)} |"
    for row, found in figures["hybrid,_questions,_mean_over_sets_and_sizes"].items():
        yield f"| questions, all sizes, {row} | {pair(found)} | | |"
    for row, found in figures["demo"].items():
        yield f"| demo, {row} | {pair(found, 'hybrid ')} | | {pair(found, 'lexical ')} |"
    halved = {name: rows for name, rows in figures.items() if name.startswith("halves")}
    if halved:
        models = [name.removeprefix("halves_of_sets,_").removesuffix("_model") for name in halved]
        yield ""
        yield f"| half of, asked of the other half | {' | '.join(f'{model}, hybrid' for model in models)} | lexical |"
        yield f"|---|{'---|' * (len(models) + 1)}"
        first = next(iter(halved.values()))
        for row in first:
            found = [pair(rows[row], "hybrid ") for rows in halved.values()]
            yield f"| {row} | {' | '.join([*found, pair(first[row], 'lexical ')])} |"


def pair(found: Mapping[str, str], before: str = "") -> str:
    return f"{found[f'{before}answered']} / {found[f'{before}lost']}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
