"""What stands behind a collection: the protocols between an engine and the code that searches or fills a collection.

A `Source` holds collections; a `Reader` is one state of a collection; a `Sink` takes its documents. What an engine can
do beside dense search is in its `Capabilities`, and callers refuse by name what it cannot. The engine over local
segments (`Store`, `Snapshot` and `Writer` of `engine/collection`) has all of them; `aidre.engine.open_source` opens it.
Importing this module loads no FAISS.
"""

from __future__ import annotations

from typing import TypedDict

from aidre.engine.model import Json, Visibility


class SpaceStatus(TypedDict):
    """An embedding space, as operators see it: the members of `EmbeddingSpace`, and these.

    `state` is "live" or "building". `bytes` are the sizes of its vectors, their index and their keys. `calibration` is
    None where every row is compared; else it has `kind`, `reason` and, with the capability `recall`, `depths`, each
    with `results`, `candidates`, `mean` and `p5`.
    """

    id: str
    dimensions: int
    distance: str
    normalized: bool
    provider: str | None
    model: str | None
    revision: str | None
    precision: str | None
    state: str
    chunks: int
    runtime: str | None
    calibration: Json
    bytes: dict[str, int]


class CollectionStatus(TypedDict):
    """A collection, as operators see it. `languages` counts chunks by tag, most frequent first."""

    collection: str
    description: str
    visibility: Visibility
    generation: int
    created_at: str
    updated_at: str
    documents: int
    documents_without_url: int
    chunks: int
    deleted_chunks: int
    segments: int
    bytes: int
    spaces: list[SpaceStatus]
    languages: dict[str, int]
    warnings: list[str]
