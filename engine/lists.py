"""The rows of a segment in the lists of its centroids, and all of them in one: two ways to go over the same codes.

The codes stand in one piece of memory and so do those of each list, the rows that are nearest to its centroid and then
the spilled copies: where a list begins the processor waits for memory, longer than it takes to go over a hundred rows.
Going over all rows costs what it does without centroids, as it uses no list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from aidre.engine.arrow import FileProblem

STRETCH = 1 << 17
"""So many of all rows are gone over as one list, that two threads can share them."""

ALIGNED = 64
"""FAISS wants codes at addresses that 32 divides, the cache has lines of 64 bytes."""

BLOCKS = (32, 64, 128)
"""How many codes may stand together."""

_PACKED_ROWS = 1 << 15
_NOWHERE = np.uint16((1 << 16) - 1)


@dataclass(frozen=True)
class Lists:
    """Rows by a codebook, which is an index without rows that has a list for each of its centroids.

    `sizes` (2, lists) has how many rows each list holds, and how many copies behind them; `rows` which these are, one
    list after the other. `codes` has theirs, packed as FAISS goes over them, each list filled up to whole blocks, and
    `whole` those of all rows in order.
    """

    codebook: Any
    sizes: NDArray[np.int32]
    rows: NDArray[np.int32]
    codes: NDArray[np.uint8]
    whole: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.rows) // 2

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where in `rows` each list ends."""
        return np.cumsum(self.sizes.sum(axis=0, dtype=np.int64))

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """At which place of those that there are `codes` for each list begins, and where the last one ends."""
        return np.concatenate([[0], np.cumsum(_blocks(self.codebook, np.diff(self.ends, prepend=0)))])

    @cached_property
    def chosen(self) -> NDArray[np.uint16]:
        """The two lists of each row, that of its copy second: (2, rows). FileProblem where a row has not both."""
        totals = np.diff(self.ends, prepend=0)
        own = np.repeat(np.arange(len(totals), dtype=np.uint16), totals)
        copied = np.arange(len(self.rows)) - np.repeat(self.ends - totals, totals) >= np.repeat(self.sizes[0], totals)
        found = np.full((2, len(self)), _NOWHERE)
        for copy, there in enumerate((~copied, copied)):
            rows = self.rows[there]
            if len(rows) == len(self) > 0 and rows.min() >= 0 and rows.max() < len(self):
                found[copy, rows] = own[there]
        if found.max(initial=0) == _NOWHERE:
            raise FileProblem("does not fit its segment")
        return found


def _blocks(codebook: Any, sizes: Any) -> Any:
    """The places that lists of so many rows take up."""
    return -(-sizes // int(codebook.bbs)) * int(codebook.bbs)


def _code_bytes(codebook: Any) -> int:
    """How many bytes a place takes: two codes a byte, of an even number of codes."""
    return int(codebook.M2) // 2


def packed(codebook: Any, codes: NDArray[np.uint8], chosen: NDArray[np.int64]) -> Lists:
    """Rows by their codes (n, bytes) and the two lists that they go to (2, n)."""
    sizes = np.stack([np.bincount(own, minlength=codebook.nlist) for own in chosen]).astype(np.int32)
    rows = np.argsort(chosen.astype(np.uint16).reshape(-1), kind="stable").astype(np.int32) % max(1, len(codes))
    nothing = np.empty(0, np.uint8)
    lists = Lists(codebook, sizes, rows, nothing, nothing)
    before = lists.starts[:-1] - lists.ends + np.diff(lists.ends, prepend=0)
    places = np.repeat(before, np.diff(lists.ends, prepend=0)) + np.arange(len(rows))
    row_at = np.full(int(lists.starts[-1]), -1, np.int32)
    row_at[places] = rows
    every = np.arange(_blocks(codebook, len(codes)))
    every[len(codes) :] = -1
    return Lists(codebook, sizes, rows, _packed(codebook, codes, row_at), _packed(codebook, codes, every))


def _packed(codebook: Any, codes: NDArray[np.uint8], row_at: NDArray[Any]) -> NDArray[np.uint8]:
    """The codes of rows at places, some at a time; of -1 those that fill up a block."""
    width = _code_bytes(codebook)
    made = _room(len(row_at) * width)
    for start in range(0, len(row_at), _PACKED_ROWS):
        there = row_at[start : start + _PACKED_ROWS]
        own = np.where(there[:, None] < 0, np.uint8(0), codes[there])
        _pack(codebook, own, made[start * width : (start + len(own)) * width])
    return made


def _pack(codebook: Any, codes: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """FAISS would pack what its coarse quantiser has chosen only: rows come by way of an index that it packs."""
    plain = faiss.IndexIVFPQ(codebook.quantizer, codebook.d, 1, codebook.pq.M, codebook.pq.nbits)
    plain.by_residual, plain.pq, plain.is_trained, plain.ntotal = False, codebook.pq, True, len(codes)
    ids = np.zeros(len(codes), np.int64)
    plain.invlists.add_entries(0, len(codes), faiss.swig_ptr(ids), faiss.swig_ptr(codes))
    made = faiss.IndexIVFPQFastScan(plain, codebook.bbs)
    out[:] = faiss.rev_swig_ptr(made.invlists.get_codes(0), len(out))


def _room(size: int) -> NDArray[np.uint8]:
    """Memory for codes."""
    room = np.empty(size + ALIGNED, np.uint8)
    begin = -room.ctypes.data % ALIGNED
    return room[begin : begin + size]


class Inverted:
    """Lists as FAISS goes over them: those of the centroids, the same without copies, and stretches of all rows."""

    def __init__(self, lists: Lists) -> None:
        width = _code_bytes(lists.codebook)
        totals = np.diff(lists.ends, prepend=0)
        stretches = np.arange(0, len(lists), STRETCH)
        near, every = lists.rows.astype(np.int64), np.arange(len(lists))
        self.ids = [near, every]
        self.sizes: NDArray[np.int64] = np.concatenate(
            [totals, lists.sizes[0], np.minimum(len(lists) - stretches, STRETCH)]
        )
        codes = lists.starts[:-1] * width + lists.codes.ctypes.data
        ids = (lists.ends - totals) * 8 + near.ctypes.data
        self.lists = _at(
            self.sizes,
            np.concatenate([codes, codes, stretches * width + lists.whole.ctypes.data]),
            np.concatenate([ids, ids, stretches * 8 + every.ctypes.data]),
        )


def _at(sizes: NDArray[np.int64], codes: NDArray[np.int64], ids: NDArray[np.int64]) -> Any:
    """Inverted lists whose codes and ids stand at given addresses, in memory that the caller keeps alive.

    FAISS has such for files that it maps: ids begin `capacity` * `code_size` bytes behind the codes of a list. Here the
    file begins at address 0, as it does where nothing was mapped that FAISS would unmap, and a code has -1 bytes.
    """
    made = faiss.OnDiskInvertedLists()
    made.nlist, made.code_size, made.read_only = len(sizes), faiss.InvertedLists.INVALID_CODE_SIZE, True
    for size, code, first in zip(sizes.tolist(), codes.tolist(), ids.tolist(), strict=True):
        one = faiss.OnDiskOneList()
        one.size, one.offset, one.capacity = size, code, (code - first) % (1 << 64)
        made.lists.push_back(one)
    return made


# -- on disk -----------------------------------------------------------------------------------------------


def members(lists: Lists) -> list[NDArray[np.uint8]]:
    """The bytes of all but the codebook; where the first begin at an aligned address the codes do."""
    return [lists.whole, lists.codes, lists.rows.view(np.uint8), lists.sizes.reshape(-1).view(np.uint8)]


def read(codebook: Any, bodies: Sequence[NDArray[np.uint8]], rows: int) -> Lists:
    """Lists of so many rows by what `members` gave, of which the codes stay where they are. FileProblem."""
    whole, codes, there, sizes = bodies
    if len(sizes) != 8 * codebook.nlist or len(there) != 8 * rows or len(whole) != _size(codebook, rows):
        raise FileProblem("does not fit its segment")
    own = np.frombuffer(sizes.tobytes(), np.int32).reshape(2, -1)
    if own.min() < 0 or len(codes) != _size(codebook, own.sum(axis=0, dtype=np.int64)):
        raise FileProblem("does not fit its segment")
    rows_there = there.view(np.int32) if there.ctypes.data % 4 == 0 else np.frombuffer(there.tobytes(), np.int32)
    if own.sum(dtype=np.int64) != len(rows_there):
        raise FileProblem("does not fit its segment")
    lists = Lists(codebook, own, rows_there, _in_place(codes), _in_place(whole))
    _ = lists.chosen  # FileProblem where a row does not stand in two lists
    return lists


def _size(codebook: Any, sizes: Any) -> int:
    return int(np.sum(_blocks(codebook, sizes))) * _code_bytes(codebook)


def _in_place(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return codes if codes.ctypes.data % ALIGNED == 0 else np.concatenate([codes], out=_room(len(codes)))


def taken_out(codebook: Any, index: Any, rows: int) -> Lists:
    """The lists of an index that has its rows, as earlier releases wrote it: one list for copies alone. FileProblem."""
    half, block, width = index.nlist // 2, int(codebook.bbs), _code_bytes(codebook)
    inverted = faiss.downcast_InvertedLists(index.invlists)
    known = isinstance(inverted, faiss.BlockInvertedLists) and block in BLOCKS
    if not known or (inverted.n_per_block, inverted.block_size) != (block, block * width):
        raise FileProblem("is no index of this kind")
    codes, chosen, order = np.empty((rows, width), np.uint8), np.full((2, rows), -1), _order(codebook)
    for number in range(index.nlist):
        size = inverted.list_size(number)
        if not size:
            continue
        ids = faiss.rev_swig_ptr(inverted.get_ids(number), size)
        if ids.min() < 0 or ids.max() >= rows:
            raise FileProblem("does not fit its segment")
        chosen[number // half, ids] = number % half
        there = faiss.rev_swig_ptr(inverted.get_codes(number), int(_blocks(codebook, size)) * width)
        codes[ids] = _bytes(_nibbles(there).reshape(-1, 2 * block * width)[:, order]).reshape(-1, width)[:size]
    if index.ntotal != 2 * rows or chosen.min(initial=0) < 0:
        raise FileProblem("does not fit its segment")
    return packed(codebook, codes, chosen)


def _order(codebook: Any) -> NDArray[np.int64]:
    """Where each half of a byte of the codes of a block stands when they are packed. FAISS' own way back errs."""
    block, width = int(codebook.bbs), _code_bytes(codebook)
    numbers, found = np.arange(2 * block * width), np.zeros(2 * block * width, np.int64)
    for shift in range(0, 20, 4):
        made = np.empty(block * width, np.uint8)
        _pack(codebook, _bytes(numbers >> shift & 15).reshape(block, width), made)
        found |= _nibbles(made).astype(np.int64) << shift
    return np.argsort(found, kind="stable")


def _nibbles(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.stack([codes & 15, codes >> 4], axis=-1).reshape(-1)


def _bytes(nibbles: NDArray[Any]) -> NDArray[np.uint8]:
    pairs = nibbles.reshape(-1, 2).astype(np.uint8)
    return pairs[:, 0] | (pairs[:, 1] << np.uint8(4))
