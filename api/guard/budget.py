"""How many different chunks an account has been given today: what stops a collection from being read out whole.

An account's first 512 chunks of a day (UTC) are counted exactly. Beyond, a sketch of 4,096 registers counts on, as
HyperLogLog does, and estimates while it counts (the historic inverse probability of Cohen and Ting): a chunk that was
given before never counts again, and the count is off by 1.3 % (one standard deviation). That is 4 KB an account,
however many chunks; where there are more accounts than fit, those that read least are forgotten first.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import xxhash

from aidre.api.guard import quota
from aidre.api.guard.refusals import RateLimited
from aidre.api.guard.shared import SharedFile

NAME, KIND = "chunks-today", b"aidrbud1"
DAY = 86_400
GROUPS = 512
WAYS = 8
HEAD = struct.Struct("<QIIdd")
"""The account's tag, the day, how many chunks stand there exactly, the count, and the chance that a new one shows."""
REGISTERS = 4_096
EXACT = REGISTERS // 8
SLOT = HEAD.size + REGISTERS
INDEX_BITS = 12
RANK_BITS = 64 - INDEX_BITS
LEAST_CHANCE = 2.0**-40
"""No number of chunks comes near it; what is damaged may."""


class ChunkBudget:
    """The chunks that were given out today. `most` is what an account may have, the last answer whole."""

    def __init__(self, folders: Iterable[Path], most: int, clock: Callable[[], float] = time.time) -> None:
        self._file = SharedFile(folders, NAME, KIND, GROUPS * WAYS * SLOT)
        self._most = most
        self._clock = clock
        self._seed = int.from_bytes(self._file.key[:8], "little")

    def check(self, account: str) -> None:
        """Raises RateLimited where the account has had its share."""
        if self.count(account) >= self._most:
            raise RateLimited(
                f"a caller is given {self._most} different chunks a day: come again after midnight (UTC)",
                quota.spent(self._most, DAY - int(self._clock()) % DAY),
            )

    def count(self, account: str) -> int:
        """How many different chunks the account has had today."""
        day = int(self._clock()) // DAY
        tag, slot = self._slot(account, day)
        known, _, _, count, _ = self._head(slot, day)
        return round(count) if known == tag else 0

    def give(self, account: str, collection: str, ids: Iterable[str]) -> None:
        """Counts chunks that an account is given."""
        names = [f"{collection}\n{id}".encode("utf-8", "surrogatepass") for id in ids]
        hashes = [xxhash.xxh3_64_intdigest(name, self._seed) for name in names]
        with self._file.locked():
            day = int(self._clock()) // DAY
            tag, slot = self._slot(account, day)
            known, _, exact, count, chance = self._head(slot, day)
            if known != tag:
                exact, count, chance = 0, 0.0, 1.0
            exact, count, chance = self._counted(slot + HEAD.size, hashes, exact, count, chance)
            HEAD.pack_into(self._file.body, slot, tag, day, exact, count, chance)

    def _head(self, slot: int, day: int) -> tuple[int, int, int, float, float]:
        """What stands in a slot; nothing where it is of another day, or is no count at all."""
        tag, at, exact, count, chance = HEAD.unpack_from(self._file.body, slot)
        if at != day or exact > EXACT or not (0 <= count < 2**53 and 0 < chance <= 1):
            return 0, day, 0, 0.0, 1.0
        return tag, at, exact, count, chance

    def _slot(self, account: str, day: int) -> tuple[int, int]:
        """The tag of an account, and where it stands or can be put."""
        number = self._file.number(account)
        tag, first = number & (2**64 - 1), (number >> 64) % GROUPS * WAYS * SLOT
        heads = {slot: self._head(slot, day) for slot in range(first, first + WAYS * SLOT, SLOT)}
        for slot, head in heads.items():
            if head[0] == tag:
                return tag, slot
        return tag, min(heads, key=lambda slot: heads[slot][3])

    def _counted(
        self, start: int, hashes: list[int], exact: int, count: float, chance: float
    ) -> tuple[int, float, float]:
        """The new state. While `chance` is 1 the room of the registers holds the hashes themselves."""
        room = self._file.body[start : start + REGISTERS]
        if chance == 1.0:
            kept = dict.fromkeys(struct.unpack_from(f"<{exact}Q", room))
            kept.update(dict.fromkeys(hashes))
            if len(kept) <= EXACT:
                struct.pack_into(f"<{len(kept)}Q", room, 0, *kept)
                return len(kept), float(len(kept)), 1.0
            room[:] = bytes(REGISTERS)
            first = list(kept)[:exact]
            _, chance = _observed(room, first, 0.0, 1.0)
            count, hashes = float(exact), list(kept)[exact:]
        return 0, *_observed(room, hashes, count, chance)

    def close(self) -> None:
        self._file.close()


def _observed(room: memoryview, hashes: Iterable[int], count: float, chance: float) -> tuple[float, float]:
    """The count and the chance after the hashes have been shown to the registers."""
    for hash in hashes:
        register, rest = hash >> RANK_BITS, hash & (2**RANK_BITS - 1)
        rank, before = RANK_BITS - rest.bit_length() + 1, room[register]
        if rank > before:
            count += 1 / chance
            chance = max(chance - (2.0**-before - 2.0**-rank) / REGISTERS, LEAST_CHANCE)
            room[register] = rank
    return count, chance
