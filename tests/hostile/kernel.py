"""The same answers with and without the kernel: random searches over stores of many shapes, in a process for FAISS and
one for each instruction set, compared with each other and with brute force in float64."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from aidre.engine.native.loading import FALL_BACK, VARIABLE
from tests import ROOT
from tests.hostile.kernel_stores import (
    Answers,
    Shape,
    allowed_rows,
    load,
    make,
    queries_of,
    questions_of,
    random_shape,
    set_costs,
    stored_vectors,
)
from tests.hostile.report import Report
from tests.support.native import runnable

QUERIES_OF_A_STORE = 700
LEAST_TOLERANCE = 1e-6
"""How far a score may be off, of the product of the norms: for the rounding of what is stored and of the query."""
PARTIAL_SUMS = 8
"""Of a product, in the kernel that has the fewest: a chain of additions is as long as the dimensions over these."""
LEAST_RECALL = 0.99
"""What calibration promises, of all scanned searches together."""
LOST = 0.01
"""Recall that one may have less than the other in one store: of some hundred queries few are the same."""
MIN_COUNTED = 200


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """`rounds` queries, over a store for every QUERIES_OF_A_STORE of them, and three at least."""
    stores = max(3, round(rounds / QUERIES_OF_A_STORE))
    count = max(1, rounds // stores)
    folder = report.place("kernel")
    shapes = []
    for number in range(stores):
        shapes.append(random_shape(chance, number))
        make(folder / f"{number:04d}", shapes[-1])
    set_costs(Shape("dot", 1, None, 1, "normal", 1, 0.0, False, False, 0))
    kernels = (FALL_BACK, *runnable())
    for name in kernels:
        command = [sys.executable, "-m", "tests.hostile.kernel_stores", str(folder), str(count)]
        subprocess.run(command, env={**os.environ, VARIABLE: name}, cwd=ROOT, check=True)
        report.say(f"{name}: {stores} stores, {count:,} queries each")
    tally: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for number, shape in enumerate(shapes):
        answers = [load(folder / f"{number:04d}" / f"{name}.npz") for name in kernels]
        try:
            _compare(shape, count, answers, tally, found)
        except AssertionError as error:
            raise AssertionError(f"store {number}, {shape}: {error}") from error
    counted = tally["neighbours"]
    recalls = {name: found[name] / counted for name in kernels} if counted else {}
    told = f"{tally['scanned']} scanned, {tally['listed']} in lists"
    alike = f"exact searches alike {tally['exact']:,}, scans alike {tally['same']:,}, not all alike {tally['differ']:,}"
    measured = ", ".join(f"{name} {recall:.4f}" for name, recall in recalls.items())
    said = f"{stores * count:,} queries over {stores} stores ({told}), {', '.join(kernels)}: {alike}; recall {measured}"
    report.figure("kernel", said)
    if counted >= MIN_COUNTED:
        for name, recall in recalls.items():
            assert recall >= LEAST_RECALL, f"{name} finds {recall:.4f} of the neighbours"


def tolerance_of(dimensions: int) -> float:
    """What a sum in float32 may lose: half a unit of the last place for each addition of a chain (Higham, "Accuracy and
    Stability of Numerical Algorithms", 2002, 4.2)."""
    chain = dimensions / PARTIAL_SUMS + PARTIAL_SUMS
    return max(LEAST_TOLERANCE, chain * float(np.finfo(np.float32).eps) / 2)


class Truth:
    """The scores of all rows for one query in float64, and how far a score in float32 may be from it."""

    def __init__(
        self, shape: Shape, rows: NDArray[np.float64], lengths: NDArray[np.float64], query: NDArray[np.float32]
    ) -> None:
        wide = query.astype(np.float64)
        if shape.distance == "cosine":
            wide = wide / np.linalg.norm(wide)
        self.distance = shape.distance
        length = float(np.linalg.norm(wide))
        tolerance = tolerance_of(shape.dimensions)
        if shape.distance == "euclidean":
            self.scores = -np.linalg.norm(rows - wide, axis=1)
            self.slack = tolerance * np.maximum(lengths, length) ** 2
        else:
            self.scores = rows @ wide
            self.slack = tolerance * np.maximum(lengths * length, 1e-30)
            if shape.distance == "cosine":
                self.scores = np.clip(self.scores, -1, 1)

    def errors(self, rows: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Differences from the truth; of squares, where a distance is a root."""
        if self.distance == "euclidean":
            return np.asarray(np.abs(scores**2 - self.scores[rows] ** 2))
        return np.asarray(np.abs(scores - self.scores[rows]))

    def close(self, one: int, other: int) -> bool:
        """Whether two rows may change places."""
        a, b = self.scores[one], self.scores[other]
        difference = abs(a * a - b * b) if self.distance == "euclidean" else abs(a - b)
        return bool(difference <= 2 * max(self.slack[one], self.slack[other]))


def _compare(shape: Shape, count: int, answers: list[Answers], tally: Counter[str], found: Counter[str]) -> None:
    rows, queries = stored_vectors(shape), queries_of(shape, count)
    lengths = np.linalg.norm(rows, axis=1)
    masks = [allowed_rows(shape, number) for number in range(5)]
    in_store: Counter[str] = Counter()
    scanned = {one.is_scanned for one in answers}
    assert len(scanned) == 1
    tally["scanned"] += scanned == {True}
    tally["listed"] += answers[0].is_listed
    for question in questions_of(shape, count):
        mask = masks[question.filter]
        size = min(question.k, int(mask.sum()))
        for number in question.queries:
            truth = Truth(shape, rows, lengths, queries[number])
            best = _best(truth, mask, size)
            for one in answers:
                _check(truth, mask, size, one.rows[number], one.scores[number], one.kernel)
                in_store[one.kernel] += sum(_is_hit(truth, best, row) for row in one.rows[number].tolist())
            in_store["neighbours"] += size
            for other in answers[1:]:
                _alike(truth, answers[0].rows[number], other, number, tally, exact=scanned == {False})
    if scanned == {True} and in_store["neighbours"]:
        tally["neighbours"] += in_store["neighbours"]
        found.update({one.kernel: in_store[one.kernel] for one in answers})
        recalls = {one.kernel: in_store[one.kernel] / in_store["neighbours"] for one in answers}
        if in_store["neighbours"] >= MIN_COUNTED:
            assert min(recalls.values()) >= recalls[FALL_BACK] - LOST, recalls


def _best(truth: Truth, mask: NDArray[np.bool_], size: int) -> NDArray[np.int64]:
    allowed = np.flatnonzero(mask)
    return np.asarray(allowed[np.argsort(-truth.scores[allowed], kind="stable")[:size]])


def _is_hit(truth: Truth, best: NDArray[np.int64], row: int) -> bool:
    """Whether a row is as good as the last of the best."""
    last = int(best[-1])
    return bool(truth.scores[row] >= truth.scores[last]) or truth.close(row, last)


def _check(
    truth: Truth,
    mask: NDArray[np.bool_],
    size: int,
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
    kernel: str,
) -> None:
    """As many allowed rows as there are, once each, in order, with scores that are those of float64."""
    assert len(rows) == size, f"{kernel}: {len(rows)} hits instead of {size}"
    assert len(set(rows.tolist())) == size, f"{kernel}: a row twice"
    assert mask[rows].all(), f"{kernel}: a row that is not allowed"
    assert (scores[:-1] >= scores[1:]).all(), f"{kernel}: out of order"
    errors = truth.errors(rows, scores)
    assert (errors <= truth.slack[rows]).all(), f"{kernel}: a score is off by {errors.max():.2e}"


def _alike(
    truth: Truth, rows: NDArray[np.int64], other: Answers, number: int, tally: Counter[str], *, exact: bool
) -> None:
    """The same rows in the same order, but for rows that may change places; of a scan, those that both found."""
    others = other.rows[number]
    if exact or set(rows.tolist()) == set(others.tolist()):
        tally["exact" if exact else "same"] += 1
        pairs = zip(rows.tolist(), others.tolist(), strict=True)
    else:
        tally["differ"] += 1
        both = set(rows.tolist()) & set(others.tolist())
        pairs = zip(
            (row for row in rows.tolist() if row in both), (row for row in others.tolist() if row in both), strict=True
        )
    for one, second in pairs:
        assert one == second or truth.close(one, second), f"{other.kernel}: row {second} in place of {one}"
