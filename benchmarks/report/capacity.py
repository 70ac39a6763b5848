"""What a number of chunks costs: bytes, memory, processor time, machines and money, on each way beyond one machine.

`report.scale` prints the tables of docs/scale.md from it. Three kinds of constants go in: `Measured` names the section
of benchmarks/REPORT.md that it stands in; `Listed` is an example from a public price list or sizing rule; `Assumed` is
a choice that nobody measured. Replace the latter two by your own.

Everything grows in proportion to the rows beyond the largest measured size. One virtual core counts as one of the cores
that were measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, log
from typing import Final, NamedTuple

GB: Final = 1e9
GIB: Final = 2**30
HOURS_A_MONTH: Final = 730


@dataclass(frozen=True, slots=True)
class Measured:
    """`shown` is how `section` of benchmarks/REPORT.md says it."""

    value: float
    section: str
    shown: str


@dataclass(frozen=True, slots=True)
class Listed:
    value: float
    source: str


@dataclass(frozen=True, slots=True)
class Assumed:
    value: float
    reason: str


def _peers(rows: int) -> str:
    return f"Comparison with other engines, {rows:,} rows"


# -- measured ------------------------------------------------------------------------------------------------------

DIMENSIONS: Final = 384
"""Of every measurement below."""

SCAN: Final = {
    60_000: Measured(65.0, _peers(60_000), "1 = 65.0 µs"),
    300_000: Measured(295, _peers(300_000), "1 = 295 µs"),
    1_000_000: Measured(1_120, _peers(1_000_000), "1 = 1,120 µs"),
}
"""Microseconds of a query by vector, k = 10, one core, at a recall of at least 0.99."""

TEXT: Final = {
    50_000: Measured(3.653, "`bench_text_50000`", "p50 ms | 3.653"),
    1_000_000: Measured(16.48, "`bench_text_1000000`", "p50 ms | 16.48"),
}
"""Milliseconds of a query by text, hybrid, from its embedding to the rendered answer; one core."""

REQUEST: Final = Measured(114.2, "`bench_http`", "vector, 8 | 177.8 | 74.2 | 63.5 | 114.2")
"""Microseconds of a request by vector beyond the scan."""

STORE: Final = Measured(64.5, _peers(1_000_000), "1 = 64.5 s")
"""Seconds to write a million rows with their vectors, indexes and postings, synced."""

EMBED: Final = Measured(26.21, "`bench_embed`", "cpu ms per document aidre | 26.21")
"""Milliseconds of a core to embed a passage of 221 tokens."""

WORKER: Final = Measured(197.7 - 131.2, "`bench_http`", "2 workers pss mib | 197.7")
"""MiB that one more worker adds over 60,000 rows. The codes are mapped only in segments with inverted lists: without
them each worker has a copy, which the model adds."""

POSTGRES_BYTES: Final = Measured(4.44, _peers(60_000), "| 4.44 |")
POSTGRES_QUERY: Final = Measured(14.6, _peers(60_000), "| 14.6 (12.9 to 15.4)")
POSTGRES_BUILD: Final = Measured(17.9, _peers(60_000), "| 17.9 |")
"""pgvector, HNSW, float32: bytes and query time over aidre's, seconds of a core to build over 60,000 rows."""

AIDRE_BYTES: Final = Measured(832, _peers(60_000), "1 = 832 a row")

FOOTPRINT: Final = "`bench_footprint_1000000`"
TEXT_BYTES: Final = Measured(747, FOOTPRINT, "text bytes a chunk | 747 |")
CANDIDATES: Final = Measured(538, FOOTPRINT, "candidates | 538 |")
COMMIT_FILES: Final = Measured(8, FOOTPRINT, "files of a commit of 50 documents | 8 |")
COMMIT_BYTES: Final = Measured(179_492, FOOTPRINT, "bytes of a commit of 50 documents | 179492 |")
KINDS: Final[Mapping[str, Measured]] = {
    "chunks": Measured(1_038, FOOTPRINT, "| chunks | 1,038 |"),
    "documents": Measured(158.8, FOOTPRINT, "| documents | 158.8 |"),
    "fields": Measured(32.02, FOOTPRINT, "| fields | 32.02 |"),
    "ids": Measured(28.01, FOOTPRINT, "| ids | 28.01 |"),
    "index": Measured(41.62, FOOTPRINT, "| index | 41.62 |"),
    "keys": Measured(12.01, FOOTPRINT, "| keys | 12.01 |"),
    "lexicon": Measured(430.4, FOOTPRINT, "| lexicon | 430.4 |"),
    "vectors": Measured(788, FOOTPRINT, "| vectors | 788 |"),
}
"""Bytes of a chunk on disk, by kind of file: one chunk a document, one space."""
OPENED: Final = Measured(5.715, FOOTPRINT, "first queries after opening mean ms | 5.715")
EVICTED: Final = Measured(26.24, FOOTPRINT, "first queries after eviction mean ms | 26.24")
WARM: Final = Measured(1.817, FOOTPRINT, "warm p50 ms | 1.817")
NEW_TEXT: Final = Measured(3.002, "`bench_http`", "hybrid new, 1 | 283.4 | 3.002 | 13.53 | 18.82")
"""Milliseconds at one connection of a text query that was not asked before, over 60,000 rows: the median."""
NEW_TEXT_P99: Final = Measured(13.53, NEW_TEXT.section, NEW_TEXT.shown)
NEW_TEXT_P999: Final = Measured(18.82, NEW_TEXT.section, NEW_TEXT.shown)

# -- price lists and sizing rules -------------------------------------------------------------------------------------

EC2: Final = "Amazon EC2, on demand, Linux, us-west-2, 21 August 2026"
VCPU: Final = Listed(0.06615, f"{EC2}: r7i.4xlarge, 16 vCPU and 128 GiB, at 1.0584 $ an hour")
VCPU_EMBED: Final = Listed(0.044625, f"{EC2}: c7i.xlarge at 0.1785 $ an hour for 4 vCPU")
DISK: Final = Listed(0.08, "Amazon EBS gp3, us-west-2, 21 August 2026, $ a GB and month")
S3_STORAGE: Final = Listed(0.023, "Amazon S3 Standard, US East, March 2026, $ a GB and month")
S3_PUT: Final = Listed(5e-6, "Amazon S3 Standard, US East, $ a PUT or LIST")
S3_GET: Final = Listed(4e-7, "Amazon S3 Standard, US East, $ a GET")
SIZES: Final = (2, 4, 8, 16, 32, 64, 96, 192)
"""vCPU of the r7i family, with 8 GiB each."""
MILVUS_M: Final = Assumed(16, "M of the graph, as in `bench_peers`")
MILVUS_MARGIN: Final = Listed(1.15, "Milvus sizing tool: 1 + 2 M / d times the vectors, 1.15 times that to load")
MILVUS_FIXED_VCPU: Final = Listed(80, "Milvus sizing tool, from 96 GB: proxy, coordinator, 8 data nodes of 8 cores")
MILVUS_SMALL_VCPU: Final = Listed(20, "Milvus sizing tool, below: proxy, coordinator of 2 cores, 4 data nodes of 4")
BANDWIDTH: Final = Listed(3.2e9, "bytes a second and vCPU: 8 channels of DDR5-4800 for 96 vCPU")

# -- choices ---------------------------------------------------------------------------------------------------------

BUSY: Final = Assumed(0.6, "share of the cores that may be busy at the peak")
CACHE: Final = Assumed(32e6, "bytes of codes that stay in the processor's cache, as on the measured machine")
READ: Final = Assumed(1, "share of the codes that a query reads; less where inverted lists pay")
SPARE: Final = Assumed(1.25, "memory over what is counted, for the system and for a new generation beside the old one")
COPIES: Final = Assumed(2, "times the store on disk: a compaction writes it anew before the old one goes")
STREAM: Final = Assumed(50e6, "bytes a second of one transfer; four run at a time")
PAGE_MS: Final = Assumed(0.1, "milliseconds to read one page that is not in memory from an SSD")
SSD: Final = Assumed(1e9, "bytes a second that a disk reads in sequence")
COMMITS: Final = Assumed(60, "commits of 50 documents an hour")


@dataclass(frozen=True, slots=True)
class Data:
    """Chunks of one collection; `text_bytes` is the mean length of a text, `width` the bytes of a stored number."""

    rows: int
    dimensions: int = DIMENSIONS
    text_bytes: float = TEXT_BYTES.value
    width: int = 2


class Fleet(NamedTuple):
    """So many machines of `vcpu` cores and eight times as many GiB each."""

    machines: int
    vcpu: int

    @property
    def dollars(self) -> float:
        """A month."""
        return self.machines * self.vcpu * VCPU.value * HOURS_A_MONTH

    def __str__(self) -> str:
        return f"{self.machines:,} × {self.vcpu} vCPU, {8 * self.vcpu:,} GiB"


# -- bytes -----------------------------------------------------------------------------------------------------------


def chunk_bytes(data: Data) -> dict[str, float]:
    """Bytes of one chunk on disk by kind of file: texts and postings grow with the text, vectors and codes with the
    dimensions, the rest not."""
    found = {kind: measured.value for kind, measured in KINDS.items()}
    found["chunks"] += data.text_bytes - TEXT_BYTES.value
    found["lexicon"] *= data.text_bytes / TEXT_BYTES.value
    found["vectors"] += data.width * data.dimensions - 2 * DIMENSIONS
    found["index"] *= data.dimensions / DIMENSIONS
    return found


def store_bytes(data: Data) -> float:
    return data.rows * sum(chunk_bytes(data).values())


def code_bytes(data: Data) -> float:
    """What every search by vector may read: it has to be in memory, a copy for each worker."""
    return data.rows * chunk_bytes(data)["index"]


def hot_bytes(data: Data) -> float:
    """What the workers share and is in memory when searches are fast: vectors, postings, and look-up tables."""
    found = chunk_bytes(data)
    return data.rows * sum(found[kind] for kind in ("vectors", "lexicon", "ids", "fields"))


def worker_bytes(data: Data) -> float:
    """What each worker has for itself."""
    return WORKER.value * 2**20 + code_bytes(data)


# -- time ------------------------------------------------------------------------------------------------------------


def along(curve: Mapping[int, Measured], rows: float) -> float:
    """The measured curve at `rows`: straight between the sizes, and on through the last two."""
    sizes = sorted(curve)
    upper = next((each for each in range(1, len(sizes)) if rows <= sizes[each]), len(sizes) - 1)
    low, high = sizes[upper - 1], sizes[upper]
    slope = (curve[high].value - curve[low].value) / (high - low)
    return max(0.0, curve[high].value + slope * (rows - high))


def vector_seconds(data: Data) -> float:
    """Of one core, for a request by vector."""
    return (along(SCAN, data.rows) * data.dimensions / DIMENSIONS + REQUEST.value) / 1e6


def text_seconds(data: Data) -> float:
    """Of one core, for a text query that was not asked before. More dimensions make it slower only a little."""
    return along(TEXT, data.rows) / 1e3


def cold_seconds(data: Data) -> float:
    """What a query takes more while its candidates are on the disk, the codes in memory."""
    return CANDIDATES.value * PAGE_MS.value / 1e3


def swept_seconds(data: Data) -> float:
    """What a query takes where the codes are on the disk, too."""
    return code_bytes(data) / SSD.value


def build_hours(data: Data) -> float:
    """To write and index rows whose vectors are known, on the two cores that were measured."""
    return data.rows / 1e6 * STORE.value * data.dimensions / DIMENSIONS / 3_600


def embedding_core_hours(data: Data) -> float:
    """A longer text takes in proportion longer; the passages that were measured have four characters a token."""
    return data.rows * EMBED.value * (data.text_bytes / (221 * 4)) / 1e3 / 3_600


def transfer_hours(data: Data) -> float:
    """The first publication, or the first pull of a replica."""
    return store_bytes(data) / (4 * STREAM.value) / 3_600


# -- machines --------------------------------------------------------------------------------------------------------


def read_bytes(data: Data) -> float:
    """What a query by vector reads from memory."""
    codes = code_bytes(data)
    return READ.value * codes if codes > CACHE.value else 0.0


def cores(data: Data, rate: float, *, text: bool) -> int:
    """vCPU that answer `rate` requests a second: by their time, and by what they read, which all cores of a socket
    share."""
    seconds = text_seconds(data) if text else vector_seconds(data)
    return max(1, ceil(rate * max(seconds, read_bytes(data) / BANDWIDTH.value) / BUSY.value))


def memory_of(vcpu: int) -> float:
    return 8 * vcpu * GIB


def workers_on(vcpu: int, shared: float, private: float) -> int:
    """How many workers, at most one a core, fit a machine beside `shared` bytes of mapped files; 0: it is too small."""
    return min(vcpu, max(0, int((memory_of(vcpu) / SPARE.value - shared) // private)))


def replicas(data: Data, needed: int) -> Fleet | None:
    """The cheapest equal machines that each hold all the data and have `needed` workers together; of equal prices the
    fewest machines. None where no machine of the list holds the data."""
    found = []
    for vcpu in SIZES:
        workers = workers_on(vcpu, hot_bytes(data), worker_bytes(data))
        if workers:
            found.append(Fleet(ceil(needed / workers), vcpu))
    return min(found, key=lambda fleet: (fleet.machines * fleet.vcpu, fleet.machines), default=None)


def holding(needed: float) -> Fleet | None:
    """The smallest machine with memory for so many bytes."""
    return next((Fleet(1, vcpu) for vcpu in SIZES if memory_of(vcpu) / SPARE.value >= needed), None)


def partitions(data: Data, part: int, needed: int) -> Fleet:
    """The cheapest equal machines that hold collections of `part` rows, each on one of them, with `needed` workers
    together. A worker may have to serve every collection of its machine, so it has the codes of all."""
    one, found = replace(data, rows=part), []
    for vcpu in SIZES:
        for held in range(1, ceil(data.rows / part) + 1):
            both = replace(one, rows=held * part)
            workers = workers_on(vcpu, hot_bytes(both), worker_bytes(both))
            if workers:
                found.append(Fleet(max(ceil(data.rows / part / held), ceil(needed / workers)), vcpu))
    return min(found, key=lambda fleet: (fleet.machines * fleet.vcpu, fleet.machines))


# -- money -----------------------------------------------------------------------------------------------------------


def disk_dollars(data: Data, machines: int = 1) -> float:
    return COPIES.value * store_bytes(data) / GB * DISK.value * machines


def bucket_dollars(data: Data) -> float:
    """Storage of the newest generation and of those of a day, which share nearly all files."""
    return store_bytes(data) / GB * S3_STORAGE.value


def request_dollars(count: int, poll: float = 1.0, collections: int = 1) -> float:
    """A month of requests to the bucket: polls and pulls of `count` replicas, and the publications."""
    seconds, commits = HOURS_A_MONTH * 3_600, COMMITS.value * HOURS_A_MONTH
    files = COMMIT_FILES.value + 3
    """Beside the segment: the manifest, the changelog and CURRENT."""
    polls = count * seconds / poll * (1 + collections) * S3_GET.value
    pulls = count * commits * (files * S3_GET.value + S3_PUT.value)
    return polls + pulls + commits * files * S3_PUT.value


# -- other engines ---------------------------------------------------------------------------------------------------


def postgres_bytes(data: Data) -> tuple[float, float]:
    """Bytes of the table and of the HNSW index, with halfvec. Measured with float32, which both store once: half of
    these numbers is left out. The texts come in addition."""
    row = POSTGRES_BYTES.value * AIDRE_BYTES.value - 2 * 4 * DIMENSIONS
    index = row / 2 + 2 * data.dimensions
    return data.rows * (index + data.text_bytes), data.rows * index


def postgres_seconds(data: Data) -> float:
    """A graph's time grows with the logarithm of the rows; measured at 60,000."""
    return POSTGRES_QUERY.value * SCAN[60_000].value / 1e6 * log(data.rows) / log(60_000)


def postgres_build_core_hours(data: Data) -> float:
    return POSTGRES_BUILD.value * data.rows / 60_000 * log(data.rows) / log(60_000) / 3_600


def milvus_bytes(data: Data) -> float:
    """Memory of the query nodes with HNSW."""
    vectors = 4 * data.dimensions * data.rows
    return (1 + 2 * MILVUS_M.value / data.dimensions) * vectors * MILVUS_MARGIN.value


def milvus_other_vcpu(data: Data) -> float:
    return (MILVUS_FIXED_VCPU if milvus_bytes(data) >= 96 * GIB else MILVUS_SMALL_VCPU).value


def milvus_fleet(data: Data) -> Fleet:
    """Query nodes as the sizing tool cuts them, here of the same family of machines."""
    needed = milvus_bytes(data)
    vcpu = 4 if needed < 512 * GIB else 8 if needed < 2_048 * GIB else 16
    return Fleet(ceil(needed / memory_of(vcpu)), vcpu)
