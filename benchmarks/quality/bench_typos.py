"""Typing errors: the nDCG@10 that they cost, and how much of it corrections give back, over test collections.

    python -m benchmarks typos [PATH...] [--keep DIR] [--topics N] [--seeds SEED...]

A PATH is a test set or a folder of sets, as for bench_quality, whose --keep folder can be used again; without one, a
set is made from this Python's standard library. A query gets an error of each kind in turn:

- one letter: one wrong letter in a word of at least four, left out, put in, replaced, or swapped with its neighbour;
- a third: the same in a third of its words, at least one;
- two letters: twice in a word of at least seven, of which the second does not undo the first;
- split: a blank within a word of at least six letters, with two on each side;
- joined: no blank between two neighbouring words of at least two letters.

The queries are asked through AIDRE in this process: clean and with the error, with corrections and without, and with
what is offered taken. `unasked` is the share of the lost nDCG that corrections regain by what is answered in place of
the query, `taken` what they regain if the suggestion is taken, too. A clean query counts as changed if its results
differ with corrections; the changed ones are printed, since some queries of the sets are misspelled. The time is that
of finding a correction, of the clean query and of the one with the error, beside a lexical search of the same text,
with which it shares the look-up of terms.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final, NamedTuple

import httpx

from aidre.api.app import create_app
from aidre.api.config.settings import parse_settings
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, load_embedder
from aidre.engine.index.text.words import is_one_edit
from aidre.engine.model import Query
from benchmarks.harness.judged_sets import JudgedSet, Topic, ndcg, read_set, sets_in
from benchmarks.harness.stdlib_corpus import write_set
from benchmarks.quality.bench_quality import ingested, kept
from benchmarks.report.results import record

BASE: Final = "http://127.0.0.1:8000"
CONFIGURATION: Final = f'[server]\nbase_url = "{BASE}"\nscrub = "0s"'
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
WORD: Final = re.compile(r"\b[A-Za-z]{4,}\b")
"""Words that may get an error: no codes, and none so short that an error leaves too little to see what was meant."""
LONG: Final = 7
CUT: Final = 6
"""Letters of a word that may get two wrong ones, and of one that may be split."""
NEIGHBOURS: Final = re.compile(r"(?<!\w)(?=([A-Za-z]{2,}) ([A-Za-z]{2,})(?!\w))")
TOP_K: Final = 100

Spoil = Callable[[str, random.Random], str]
"""Puts an error into a text; the text itself where there is no place for it."""


class Outcome(NamedTuple):
    """Of one query with one error: nDCG@10 clean, with the error, as answered, and with the suggestion taken; and the
    microseconds of finding a correction."""

    clean: float
    typed: float
    answered: float
    taken: float
    microseconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The outcomes of one set and seed by the kind of error; and of its clean queries, which of them are answered or
    offered another text (as typed, answered and taken), and how many have other results with corrections."""

    outcomes: Mapping[str, Sequence[Outcome]]
    clean: Sequence[Outcome]
    changed: int


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    data = [read_set(folder) for path in options.paths for folder in sets_in(path)]
    embedder = load_embedder(DEFAULT_SPACE)
    with kept(options.keep) as folder:
        if not data:
            write_set(folder / "stdlib")
            data = [read_set(folder / "stdlib")]
        for one in data:
            ingested(Store(folder / "store"), one.name, one.corpus, embedder)
        results = {
            seed: asyncio.run(measure_all(folder / "store", data, options.topics, seed)) for seed in options.seeds
        }
    found = figures(results)
    show(found)
    record("bench_typos", found, readme=options.update_readme)
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_typos", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="test sets, or folders of test sets")
    parser.add_argument("--keep", type=Path, help="keep the stores in this folder, and reuse existing ones")
    parser.add_argument("--topics", type=int, default=150, help="queries of a set at most, chosen by the seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="of the queries and the errors")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into the report")
    return parser.parse_args(argv)


# -- errors ----------------------------------------------------------------------------------------------------


def misspell(text: str, chance: random.Random) -> str:
    """The text with one wrong letter in a third of its words."""
    words = list(WORD.finditer(text))
    chosen = chance.sample(words, max(1, round(len(words) / 3))) if words else []
    for word in sorted(chosen, key=lambda word: -word.start()):
        text = _with(text, word.span(), with_wrong_letter(word[0], chance))
    return text


def one_letter(text: str, chance: random.Random) -> str:
    word = _word(text, chance, 4)
    return text if word is None else _with(text, word.span(), with_wrong_letter(word[0], chance))


def two_letters(text: str, chance: random.Random) -> str:
    word = _word(text, chance, LONG)
    if word is None:
        return text
    typed = word[0]
    while typed == word[0] or is_one_edit(typed, word[0]):
        typed = with_wrong_letter(with_wrong_letter(word[0], chance), chance)
    return _with(text, word.span(), typed)


def split(text: str, chance: random.Random) -> str:
    word = _word(text, chance, CUT)
    if word is None:
        return text
    place = chance.randrange(word.start() + 2, word.end() - 1)
    return _with(text, (place, place), " ")


def joined(text: str, chance: random.Random) -> str:
    pairs = list(NEIGHBOURS.finditer(text))
    if not pairs:
        return text
    pair = chance.choice(pairs)
    return _with(text, (pair.end(1), pair.start(2)), "")


KINDS: Final[Mapping[str, Spoil]] = {
    "one letter": one_letter,
    "a third": misspell,
    "two letters": two_letters,
    "split": split,
    "joined": joined,
}


def _word(text: str, chance: random.Random, least: int) -> re.Match[str] | None:
    words = [word for word in WORD.finditer(text) if len(word[0]) >= least]
    return chance.choice(words) if words else None


def _with(text: str, span: tuple[int, int], part: str) -> str:
    return text[: span[0]] + part + text[span[1] :]


def with_wrong_letter(word: str, chance: random.Random) -> str:
    place, kind = chance.randrange(len(word)), chance.choice(("left out", "put in", "swapped", "replaced"))
    if kind == "left out":
        return word[:place] + word[place + 1 :]
    if kind == "put in":
        return word[:place] + chance.choice(LETTERS) + word[place:]
    if kind == "swapped" and place + 1 < len(word) and word[place] != word[place + 1]:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return word[:place] + chance.choice(LETTERS.replace(word[place].lower(), "")) + word[place + 1 :]


# -- measurement -----------------------------------------------------------------------------------------------


async def measure_all(store: Path, data: Sequence[JudgedSet], topics: int, seed: int) -> dict[str, Measured]:
    app = create_app(Store(store), parse_settings(CONFIGURATION))
    results = {}
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, timeout=60) as client:
            for one in data:
                chance = random.Random(f"{seed} {one.name}")
                chosen = chance.sample(one.topics, min(topics, len(one.topics)))
                results[one.name] = await measure(client, Store(store), one.name, chosen, chance)
                print(f"{one.name}: {len(chosen)} queries", file=sys.stderr, flush=True)
    return results


async def measure(
    client: httpx.AsyncClient, store: Store, name: str, topics: Sequence[Topic], chance: random.Random
) -> Measured:
    outcomes: dict[str, list[Outcome]] = {kind: [] for kind in KINDS}
    clean, changed = list[Outcome](), 0
    snapshot = store.open(name)

    async def outcome(topic: Topic, text: str, best: Mapping[str, Any]) -> tuple[Outcome, dict[str, Any]]:
        typed = best if text == topic.text else await search(client, name, text, correct=False)
        answered = await search(client, name, text)
        offered = answered["meta"].get("corrected") or answered["meta"].get("suggestion")
        taken = typed if offered is None else await search(client, name, offered, correct=False)
        snapshot.search(Query(None, None, text=text, mode="lexical"))  # it looks up the same terms, in any case
        began = time.perf_counter()
        snapshot.corrected(text)
        seconds = time.perf_counter() - began
        gains = [ndcg(documents(each), topic.grades) for each in (best, typed, answered, taken)]
        return Outcome(gains[0], gains[1], gains[2], gains[3], 1e6 * seconds), answered

    for topic in topics:
        best = await search(client, name, topic.text, correct=False)
        found, answered = await outcome(topic, topic.text, best)
        clean.append(found)
        if answered["results"] != best["results"]:
            changed += 1
            print(f"{name}: {topic.text!r} is answered as {answered['meta'].get('corrected')!r}", file=sys.stderr)
        for kind, spoil in KINDS.items():
            text = spoil(topic.text, chance)
            if text != topic.text:
                outcomes[kind].append((await outcome(topic, text, best))[0])
    return Measured(outcomes, clean, changed)


async def search(client: httpx.AsyncClient, name: str, text: str, *, correct: bool = True) -> dict[str, Any]:
    body = {"query": text, "collection": name, "top_k": TOP_K, "correct": correct, "return": {"metadata": False}}
    response = await client.post("/search", json=body)
    answer: dict[str, Any] = response.raise_for_status().json()
    return answer


def documents(answer: Mapping[str, Any]) -> list[str]:
    """The ids of the documents, that of each at the place of its best chunk."""
    return list(dict.fromkeys(result["id"].rpartition("#chunk_")[0] for result in answer["results"]))


# -- figures ---------------------------------------------------------------------------------------------------


def regained(outcomes: Sequence[Outcome], name: str) -> float:
    """The share of the lost nDCG that `answered` or `taken` has more than the query as typed."""
    lost = sum(each.clean - each.typed for each in outcomes)
    return sum(getattr(each, name) - each.typed for each in outcomes) / lost if lost > 0 else 0.0


def figures(results: Mapping[int, Mapping[str, Measured]]) -> dict[str, Any]:
    """Over all seeds and sets; the shares of each seed and of each set, too."""
    runs = [(seed, name, one) for seed, sets in results.items() for name, one in sets.items()]
    clean = [each for _, _, one in runs for each in one.clean]
    changed = sum(one.changed for _, _, one in runs)

    def of(kind: str, *, seed: int | None = None, name: str | None = None) -> list[Outcome]:
        chosen = [one for its, called, one in runs if seed in {None, its} and name in {None, called}]
        return [each for one in chosen for each in one.outcomes[kind]]

    return {
        "seeds": ", ".join(map(str, results)),
        "clean_queries": len(clean),
        "clean_queries_changed": f"{changed} ({changed / max(1, len(clean)):.1%})",
        "clean_nDCG@10": ", ".join(
            f"{name} {fmean(getattr(each, name) for each in clean):.4f}" for name in ("typed", "answered", "taken")
        ),
        "clean_median_microseconds": round(median(each.microseconds for each in clean), 1),
        "kinds_of_errors": {kind: _row(of(kind), [of(kind, seed=seed) for seed in results]) for kind in KINDS},
        "regained_by_set,_unasked_and_taken": {
            name: {kind: _shares(of(kind, name=name)) for kind in KINDS}
            for name in dict.fromkeys(name for _, name, _ in runs)
        },
    }


def _row(whole: Sequence[Outcome], by_seed: Sequence[Sequence[Outcome]]) -> dict[str, Any]:
    means = {
        name: f"{fmean(getattr(each, name) for each in whole):.3f}" if whole else "-"
        for name in ("clean", "typed", "answered", "taken")
    }
    return {
        "queries": len(whole),
        **means,
        "regained_unasked": f"{regained(whole, 'answered'):.0%}",
        "regained_taken": f"{regained(whole, 'taken'):.0%}",
        "by_seed": "; ".join(map(_shares, by_seed)),
        "median_µs": round(median(each.microseconds for each in whole)) if whole else "-",
    }


def _shares(outcomes: Sequence[Outcome]) -> str:
    return f"{regained(outcomes, 'answered'):.0%}, {regained(outcomes, 'taken'):.0%}" if outcomes else "-"


def show(found: Mapping[str, Any]) -> None:
    for name, value in found.items():
        if not isinstance(value, dict):
            print(f"{name.replace('_', ' ')}: {value}")
            continue
        print(name.replace("_", " "))
        for kind, row in value.items():
            print(f"  {kind:16}" + "  ".join(f"{column.replace('_', ' ')} {cell}" for column, cell in row.items()))


if __name__ == "__main__":
    sys.exit(main())
