"""Typing errors: the nDCG@10 that they cost, and how much of it corrections give back, over test collections.

    python -m benchmarks.bench_typos [PATH...] [--keep DIR] [--topics N] [--seed SEED]

A PATH is a test set or a folder of sets, as for bench_quality, whose --keep folder can be used again; without one, a
set is made from this Python's standard library. A third of the
words of each query, at least one, gets one wrong letter: left out, put in, replaced, or swapped with its neighbour. The
queries are asked through AIDRE in this process: clean and misspelled, with corrections and without, and with the
suggestion taken. A clean query counts as changed if its results differ with corrections; the changed ones are printed,
since some queries of the sets are misspelled. The time is that of finding a correction beside a lexical search of the
same text, with which it shares the look-up of terms.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

import httpx

from aidre.api.app import create_app
from aidre.api.config.settings import parse_settings
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, load_embedder
from aidre.engine.model import Query
from benchmarks.bench_quality import ingested, kept
from benchmarks.quality import JudgedSet, Topic, ndcg, read_set, sets_in
from benchmarks.report import record
from benchmarks.stdlib_corpus import write_set

BASE: Final = "http://127.0.0.1:8000"
CONFIGURATION: Final = f'[server]\nbase_url = "{BASE}"\nscrub = "0s"'
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
WORD: Final = re.compile(r"\b[A-Za-z]{4,}\b")
"""Words that may get an error: no codes, and none so short that an error leaves too little to see what was meant."""
TOP_K: Final = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one query: nDCG@10 clean, misspelled, as answered, and with the suggestion taken; whether corrections change
    the clean query's results; and the microseconds of finding a correction of the misspelled one."""

    clean: float
    misspelled: float
    answered: float
    taken: float
    is_changed: bool
    microseconds: float


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
        results = asyncio.run(measure_all(folder / "store", data, options.topics, options.seed))
    show(results)
    record("bench_typos", figures(results))
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_typos", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="test sets, or folders of test sets")
    parser.add_argument("--keep", type=Path, help="keep the stores in this folder, and reuse existing ones")
    parser.add_argument("--topics", type=int, default=150, help="queries of a set at most, chosen by the seed")
    parser.add_argument("--seed", type=int, default=1, help="of the errors")
    return parser.parse_args(argv)


def misspell(text: str, chance: random.Random) -> str:
    """The text with one wrong letter in a third of its words."""
    words = list(WORD.finditer(text))
    chosen = chance.sample(words, max(1, round(len(words) / 3))) if words else []
    for word in sorted(chosen, key=lambda word: -word.start()):
        text = text[: word.start()] + with_wrong_letter(word[0], chance) + text[word.end() :]
    return text


def with_wrong_letter(word: str, chance: random.Random) -> str:
    place, kind = chance.randrange(len(word)), chance.choice(("left out", "put in", "swapped", "replaced"))
    if kind == "left out":
        return word[:place] + word[place + 1 :]
    if kind == "put in":
        return word[:place] + chance.choice(LETTERS) + word[place:]
    if kind == "swapped" and place + 1 < len(word) and word[place] != word[place + 1]:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return word[:place] + chance.choice(LETTERS.replace(word[place].lower(), "")) + word[place + 1 :]


async def measure_all(store: Path, data: Sequence[JudgedSet], topics: int, seed: int) -> dict[str, list[Outcome]]:
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
) -> list[Outcome]:
    snapshot = store.open(name)
    outcomes = []
    for topic in topics:
        typed = misspell(topic.text, chance)
        plain = await search(client, name, topic.text, correct=False)
        default = await search(client, name, topic.text)
        misspelled = await search(client, name, typed, correct=False)
        answered = await search(client, name, typed)
        meta = answered["meta"]
        offered = meta.get("corrected") or meta.get("suggestion")
        taken = misspelled if offered is None else await search(client, name, offered, correct=False)
        snapshot.search(Query(None, None, text=typed, mode="lexical"))  # it looks up the same terms, in any case
        began = time.perf_counter()
        snapshot.corrected(typed)
        seconds = time.perf_counter() - began
        gains = [ndcg(documents(each), topic.grades) for each in (plain, misspelled, answered, taken)]
        is_changed = plain["results"] != default["results"]
        if is_changed:
            print(f"{name}: {topic.text!r} is answered as {default['meta'].get('corrected')!r}", file=sys.stderr)
        outcomes.append(Outcome(gains[0], gains[1], gains[2], gains[3], is_changed, 1e6 * seconds))
    return outcomes


async def search(client: httpx.AsyncClient, name: str, text: str, *, correct: bool = True) -> dict[str, Any]:
    body = {"query": text, "collection": name, "top_k": TOP_K, "correct": correct, "return": {"metadata": False}}
    response = await client.post("/search", json=body)
    answer: dict[str, Any] = response.raise_for_status().json()
    return answer


def documents(answer: Mapping[str, Any]) -> list[str]:
    """The ids of the documents, that of each at the place of its best chunk."""
    return list(dict.fromkeys(result["id"].rpartition("#chunk_")[0] for result in answer["results"]))


def regained(outcomes: Sequence[Outcome], name: str) -> float:
    """The share of the lost nDCG that `answered` or `taken` has more than the misspelled queries."""
    lost = sum(each.clean - each.misspelled for each in outcomes)
    return sum(getattr(each, name) - each.misspelled for each in outcomes) / lost if lost > 0 else 0.0


def show(results: Mapping[str, Sequence[Outcome]]) -> None:
    print(f"{'nDCG@10':20}{'clean':>8}{'wrong':>8}{'regained':>10}{'taken':>8}{'changed':>9}{'µs':>6}")
    whole = [each for outcomes in results.values() for each in outcomes]
    for name, outcomes in (*results.items(), ("all", whole)):
        print(
            f"{name:20}{fmean(each.clean for each in outcomes):8.3f}{fmean(each.misspelled for each in outcomes):8.3f}"
            f"{regained(outcomes, 'answered'):10.0%}{regained(outcomes, 'taken'):8.0%}"
            f"{sum(each.is_changed for each in outcomes):5} of {len(outcomes):<4}"
            f"{median(each.microseconds for each in outcomes):4.0f}"
        )


def figures(results: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    whole = [each for outcomes in results.values() for each in outcomes]
    return {
        "queries": len(whole),
        "regained_without_asking": round(regained(whole, "answered"), 3),
        "regained_with_the_suggestion": round(regained(whole, "taken"), 3),
        "clean_queries_changed": sum(each.is_changed for each in whole),
        "median_microseconds": round(median(each.microseconds for each in whole), 1),
        **{
            f"{name}_regained": f"{regained(outcomes, 'answered'):.0%}, taken {regained(outcomes, 'taken'):.0%}"
            for name, outcomes in results.items()
        },
    }


if __name__ == "__main__":
    sys.exit(main())
