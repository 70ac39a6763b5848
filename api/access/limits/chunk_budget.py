"""The daily chunk budget: the number of distinct chunks per account and day (UTC), so that nobody copies a collection.

The first 512 chunks of an account are counted exactly. Beyond, a HyperLogLog sketch of 4,096 registers estimates the
count as it grows (the historic inverse probability estimator of Cohen and Ting): a chunk received before never counts
again, and the standard error is 1.3 %. An account takes 4 KB, however many chunks; if there are more accounts than
slots, those that read least are evicted.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import xxhash

from aidre.api.access.limits import token_bucket
from aidre.api.http import RateLimited, SharedFile

NAME, KIND = "chunks-today", b"aidrbud1"
DAY = 86_400
"""Seconds."""
GROUPS = 512
WAYS = 8
HEAD = struct.Struct("<QIIdd")
"""Tag of the account, day, number of exact hashes, count, and the probability that a new chunk changes the sketch."""
REGISTERS = 4_096
EXACT_CHUNKS = REGISTERS // 8
SLOT = HEAD.size + REGISTERS
INDEX_BITS = 12
RANK_BITS = 64 - INDEX_BITS
MIN_CHANCE = 2.0**-40
"""Lower bound of the probability in HEAD: no number of chunks reaches it, but a damaged file might."""


class ChunkBudget:
    """`limit` is the number of distinct chunks per account and day; an answer that begins below it is sent whole."""

    def __init__(self, folders: Iterable[Path], limit: int, clock: Callable[[], float] = time.time) -> None:
        self._file = SharedFile(folders, NAME, KIND, GROUPS * WAYS * SLOT)
        self._limit = limit
        self._clock = clock
        self._seed = int.from_bytes(self._file.key[:8], "little")

    def check(self, account: str) -> None:
        """Raises RateLimited if the account has spent its budget."""
        if self.count(account) >= self._limit:
            raise RateLimited(
                f"the daily budget of {self._limit} different chunks is spent: try again after midnight (UTC)",
                token_bucket.budget_fields(self._limit, DAY - int(self._clock()) % DAY),
            )

    def count(self, account: str) -> int:
        """The number of distinct chunks that the account has received today."""
        day = int(self._clock()) // DAY
        tag, slot = self._slot(account, day)
        known, _, _, count, _ = self._head(slot, day)
        return round(count) if known == tag else 0

    def give(self, account: str, collection: str, ids: Iterable[str]) -> None:
        """Charge chunks to an account."""
        names = [f"{collection}\n{id}".encode("utf-8", "surrogatepass") for id in ids]
        hashes = [xxhash.xxh3_64_intdigest(name, self._seed) for name in names]
        with self._file.locked():
            day = int(self._clock()) // DAY
            tag, slot = self._slot(account, day)
            known, _, exact, count, chance = self._head(slot, day)
            if known != tag:
                exact, count, chance = 0, 0.0, 1.0
            exact, count, chance = self._count_hashes(slot + HEAD.size, hashes, exact, count, chance)
            HEAD.pack_into(self._file.body, slot, tag, day, exact, count, chance)

    def _head(self, slot: int, day: int) -> tuple[int, int, int, float, float]:
        """The header of a slot; zeros if it is of another day or invalid."""
        tag, at, exact, count, chance = HEAD.unpack_from(self._file.body, slot)
        if at != day or exact > EXACT_CHUNKS or not (0 <= count < 2**53 and 0 < chance <= 1):
            return 0, day, 0, 0.0, 1.0
        return tag, at, exact, count, chance

    def _slot(self, account: str, day: int) -> tuple[int, int]:
        """The tag of an account and its slot, or the slot to evict for it."""
        number = self._file.number(account)
        tag, first = number & (2**64 - 1), (number >> 64) % GROUPS * WAYS * SLOT
        heads = {slot: self._head(slot, day) for slot in range(first, first + WAYS * SLOT, SLOT)}
        for slot, head in heads.items():
            if head[0] == tag:
                return tag, slot
        return tag, min(heads, key=lambda slot: heads[slot][3])

    def _count_hashes(
        self, start: int, hashes: list[int], exact: int, count: float, chance: float
    ) -> tuple[int, float, float]:
        """The new number of exact hashes, count and chance. While `chance` is 1, the registers hold the hashes."""
        registers = self._file.body[start : start + REGISTERS]
        if chance == 1.0:
            distinct = dict.fromkeys(struct.unpack_from(f"<{exact}Q", registers))
            distinct.update(dict.fromkeys(hashes))
            if len(distinct) <= EXACT_CHUNKS:
                struct.pack_into(f"<{len(distinct)}Q", registers, 0, *distinct)
                return len(distinct), float(len(distinct)), 1.0
            registers[:] = bytes(REGISTERS)
            first = list(distinct)[:exact]
            _, chance = _add_to_sketch(registers, first, 0.0, 1.0)
            count, hashes = float(exact), list(distinct)[exact:]
        return 0, *_add_to_sketch(registers, hashes, count, chance)

    def close(self) -> None:
        self._file.close()


def _add_to_sketch(registers: memoryview, hashes: Iterable[int], count: float, chance: float) -> tuple[float, float]:
    """The count and the chance after adding the hashes to the sketch."""
    for hash in hashes:
        register, rest = hash >> RANK_BITS, hash & (2**RANK_BITS - 1)
        rank, before = RANK_BITS - rest.bit_length() + 1, registers[register]
        if rank > before:
            count += 1 / chance
            chance = max(chance - (2.0**-before - 2.0**-rank) / REGISTERS, MIN_CHANCE)
            registers[register] = rank
    return count, chance
