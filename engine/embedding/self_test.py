"""The self-test of a graph: its vectors of the probes compared with those of sentence-transformers.

It decides between int8 and float32 on the machine that will run the graph, since kernels differ between processors.

The probes are queries with their relevant passages, which form groups of similar ones so that ranking them is not
trivial, and unusual texts. Calibration asks the queries and passages as texts about many subjects. By frequent words of
many languages a tokenizer shows which ones it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.engine.embedding.graph import TOKENIZER, Graph
from aidre.engine.embedding.models import DEFAULT, MULTILINGUAL
from aidre.engine.embedding.tokens.tokenizer import open_tokenizer
from aidre.engine.model import EmbeddingSpace, Json

MIN_COSINE_FLOAT = 0.9999
"""Cosine that every float32 vector must have with its reference; with less the graph is wrong."""
MIN_COSINE_INT8 = 0.99
"""Mean cosine that int8 vectors must have with their references, else float32 is used."""
MAX_RANKING_LOSS = 0.005
"""Loss of nDCG@10 up to which int8 is used."""
MIN_BROKEN = 1.45
"""How many times as many tokens frequent words of a language have when they are spelled backwards, if the tokenizer
knows the language. The vocabulary of multilingual-e5 reaches 1.58 to 4.9 in 55 languages, the English one of
all-MiniLM-L6-v2 2.5 in English and at most 1.35 in the others."""
REFERENCES: Final[Mapping[str, Path]] = {
    DEFAULT.digest: Path(__file__).with_name("reference.npy"),
    MULTILINGUAL.digest: Path(__file__).with_name("reference_multilingual.npy"),
}
"""By the digest of the weights: their vectors of `probe_texts()` by sentence-transformers, in float16."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """A graph compared with the reference on the probes; `ndcg` and `reference_ndcg` are nDCG@10 of the labelled
    ones."""

    cosine_mean: float
    cosine_least: float
    ndcg: float
    reference_ndcg: float
    top10_agreement: float

    @property
    def float32_is_right(self) -> bool:
        return self.cosine_least >= MIN_COSINE_FLOAT

    @property
    def int8_is_close_enough(self) -> bool:
        return self.cosine_mean >= MIN_COSINE_INT8 and self.reference_ndcg - self.ndcg <= MAX_RANKING_LOSS

    def rounded(self) -> Mapping[str, Json]:
        return {key: round(value, 5) for key, value in asdict(self).items()}


@cache
def _content() -> Any:
    return orjson.loads(Path(__file__).with_name("probes.json").read_bytes())


@cache
def probes() -> tuple[tuple[str, str], ...]:
    """The pairs of a query and its relevant passage."""
    return tuple((probe["query"], probe["passage"]) for probe in _content()["probes"])


def probe_texts() -> list[str]:
    """All queries, then all passages in the same order, then unusual texts and texts beyond a model's length."""
    queries, passages = zip(*probes(), strict=True)
    long = [" ".join(passages[start : start + 10]) for start in range(0, len(passages), 10)]
    return [*queries, *passages, *_content()["odd_texts"], "word " * 400, *long]


def known_languages(count_tokens: Callable[[Sequence[str]], list[int]]) -> tuple[str, ...] | None:
    """Tags of the languages that a tokenizer knows; None where it does not tell.

    A vocabulary that was made for a language has its frequent words as one token. Spelled backwards they fall apart,
    while words of another language have as many tokens either way: single letters, or one that says unknown.
    """
    by_tag = {tag: words.split() for tag, words in _content()["words"].items()}
    words = [word for of_language in by_tag.values() for word in of_language]
    counts = iter(zip(count_tokens(words), count_tokens([word[::-1] for word in words]), strict=True))
    known = []
    for tag, of_language in by_tag.items():
        whole, broken = map(sum, zip(*(next(counts) for _ in of_language), strict=True))
        if broken >= MIN_BROKEN * whole:
            known.append(tag)
    return tuple(known) or None


def with_languages(space: EmbeddingSpace, count_tokens: Callable[[Sequence[str]], list[int]]) -> EmbeddingSpace:
    """The space with the languages of its tokenizer, unless it declares some or its model is the default one."""
    if space.languages is not None or space.model == DEFAULT.model:
        return space
    return replace(space, languages=known_languages(count_tokens))


def reference_of(digest: str) -> NDArray[np.float32]:
    """The vectors that a known model must give for the probes, without torch."""
    rows: NDArray[np.float32] = np.load(REFERENCES[digest], allow_pickle=False).astype(np.float32)
    return rows


def probe_vectors(graph: Path, max_length: int) -> NDArray[np.float32]:
    """The vectors of the probes by `graph` and the tokenizer beside it. One thread: spinning ones would double the
    time of the processor."""
    session, tokenizer = Graph(graph, 1), open_tokenizer(graph.with_name(TOKENIZER))
    return np.array([session.run(tokens or [0]) for tokens in tokenizer.encode(probe_texts(), max_length)])


def self_test(reference: NDArray[np.float32], candidate: NDArray[np.float32]) -> SelfTest:
    """Compare the vectors of `probe_texts()` by two embedders; a candidate with non-finite values fails."""
    reference, candidate = _unit(reference), _unit(candidate)
    cosines = np.nan_to_num((reference * candidate).sum(axis=1))
    before, after = _ranking(reference), _ranking(np.nan_to_num(candidate))
    shared = [np.intersect1d(a, b).size / a.size for a, b in zip(before[:, :10], after[:, :10], strict=True)]
    return SelfTest(
        cosine_mean=float(cosines.mean()),
        cosine_least=float(cosines.min()),
        ndcg=_ndcg(after),
        reference_ndcg=_ndcg(before),
        top10_agreement=float(np.mean(shared)),
    )


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


def _ranking(rows: NDArray[np.float32]) -> NDArray[np.intp]:
    """For each probe's query the numbers of all passages, best first; `rows` are the queries, then the passages."""
    queries, passages = rows[: len(probes())], rows[len(probes()) : 2 * len(probes())]
    order: NDArray[np.intp] = np.argsort(-(queries @ passages.T), axis=1, kind="stable")
    return order


def _ndcg(ranking: NDArray[np.intp]) -> float:
    """nDCG@10 with one relevant passage per query."""
    ranks = np.argmax(ranking == np.arange(len(ranking))[:, None], axis=1)
    return float(np.where(ranks < 10, 1.0 / np.log2(ranks + 2.0), 0.0).mean())
