from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import NDArray

Metric = Literal["dot", "cosine", "chord", "euclidean"]
Arrays = tuple[bytes, bytes, bytes]

class Columns:
    def __new__(
        cls,
        metric: Metric,
        dimensions: int,
        item_bytes: int,
        columns: Sequence[tuple[NDArray[Any], Sequence[tuple[Any, Any]], int]],
        /,
    ) -> Columns: ...
    def search(self, column: int, query: NDArray[Any], k: int, bitmap: NDArray[Any] | None, /) -> Arrays: ...
    def score(self, column: int, query: NDArray[Any], rows: NDArray[Any], scores: NDArray[Any], /) -> None: ...
    def feedback(
        self,
        columns: NDArray[Any],
        rows: NDArray[Any],
        scores: NDArray[Any],
        seeds: int,
        sharpness: float,
        weight: float,
        /,
    ) -> Arrays: ...

class Codes:
    def __new__(
        cls,
        columns: Columns,
        centroids: NDArray[Any],
        norm_weight: float,
        rotation: NDArray[Any] | None,
        sub_quantizers: int,
        sub_dimensions: int,
        block_rows: int,
        lists: Sequence[tuple[int, NDArray[Any], NDArray[Any] | None, NDArray[Any], NDArray[Any], NDArray[Any]]],
        /,
    ) -> Codes: ...

class Centroids:
    def __new__(
        cls,
        codes: NDArray[Any],
        mean: NDArray[Any],
        squares: NDArray[Any],
        step: float,
        is_l2: bool,
        is_relative: bool,
        /,
    ) -> Centroids: ...
    def rank(self, query: NDArray[Any], /) -> tuple[bytes, bytes]: ...

class Plan:
    def __new__(
        cls,
        columns: Columns,
        bitmaps: tuple[NDArray[Any] | None, ...],
        scans: tuple[tuple[Codes, NDArray[Any], int] | tuple[Codes, NDArray[Any], int, tuple[Any, ...] | None], ...],
        exact: tuple[int, ...],
        gathered: tuple[tuple[int, NDArray[Any]], ...],
        /,
    ) -> Plan: ...
    def search(
        self,
        queries: NDArray[Any],
        k: int,
        candidates: int,
        lists: tuple[NDArray[Any] | None, ...] | None,
        has_rest: bool,
        /,
    ) -> tuple[tuple[Arrays, bool], ...]: ...
    def probe(
        self, queries: NDArray[Any], k: int, candidates: int, nprobe: int, gap: float, /
    ) -> tuple[tuple[Arrays, bool] | None, ...]: ...
    def find(
        self, vectors: list[Any], is_unit: bool, k: int, candidates: int, nprobe: int, gap: float, /
    ) -> tuple[tuple[list[int], list[int], list[float]] | None, ...] | None: ...

class Lists:
    def __new__(
        cls,
        centroids: NDArray[Any],
        codes: NDArray[Any],
        mean: NDArray[Any],
        half_squares: NDArray[Any],
        products: NDArray[Any],
        step: float,
        spread: float,
        /,
    ) -> Lists: ...
    def choose(self, rows: NDArray[Any], /) -> bytes: ...

def choose(name: str | None, /) -> str: ...
def encode_query(vector: NDArray[Any], is_unit: bool, query: NDArray[Any], /) -> bool: ...
def read_vector(body: bytes, name: bytes, /) -> tuple[bytes, bytes] | None: ...

class Fragments:
    def __new__(
        cls,
        segments: tuple[Sequence[tuple[tuple[Any, Any], tuple[Any, Any], tuple[Any, Any], Any]], ...],
        batch_rows: int,
        etag_bytes: int,
        /,
    ) -> Fragments: ...
    def splice(
        self,
        hits: list[tuple[int, int]],
        scores: list[bytes],
        layout: tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes],
        has_ids: bool,
        has_metadata: bool,
        /,
    ) -> bytes | None: ...

class Strings:
    def __new__(cls, offsets: NDArray[Any], bytes: Any, /) -> Strings: ...
    def first(self, key: bytes, /) -> int: ...
    def find(self, key: bytes, /) -> int: ...

class Texts:
    def __new__(cls, batches: Sequence[tuple[Any, Any]], batch_rows: int, /) -> Texts: ...
    def find(self, rows: NDArray[Any], phrase: bytes, found: NDArray[Any], /) -> None: ...

Query = tuple[NDArray[Any], NDArray[Any], float]
Chunks = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]

class Lexicons:
    def __new__(
        cls,
        lexicons: tuple[
            tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], Sequence[tuple[Any, Any]], int], ...
        ],
        /,
    ) -> Lexicons: ...
    def search(self, query: Query, k: int, bitmaps: tuple[NDArray[Any] | None, ...], /) -> Arrays: ...
    def score(self, query: Query, lexicons: NDArray[Any], rows: NDArray[Any], /) -> bytes: ...
    def fuse(
        self,
        query: Query,
        k: int,
        bitmaps: tuple[NDArray[Any] | None, ...],
        columns: Columns,
        vector: NDArray[Any],
        a: float,
        c: float,
        near: Chunks,
        bonuses: Chunks,
        bound: float | None,
        most: int,
        /,
    ) -> Arrays | None: ...
    def join(self, k: int, near: Chunks, words: Chunks, /) -> Arrays: ...
