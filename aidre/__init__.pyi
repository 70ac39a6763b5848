from .engine.backend import Facet as Facet, Hit as Hit
from .engine.errors import (
    AidreError as AidreError,
    Closed as Closed,
    CollectionMissing as CollectionMissing,
    ConfigurationError as ConfigurationError,
    Conflict as Conflict,
    DimensionMismatch as DimensionMismatch,
    FetchFailed as FetchFailed,
    FormatTooNew as FormatTooNew,
    GenerationMissing as GenerationMissing,
    HistoryMissing as HistoryMissing,
    InvalidDocument as InvalidDocument,
    InvalidFilter as InvalidFilter,
    InvalidInput as InvalidInput,
    InvalidVector as InvalidVector,
    Missing as Missing,
    ModelUnavailable as ModelUnavailable,
    SpaceConflict as SpaceConflict,
    SpaceMissing as SpaceMissing,
    StorageFailed as StorageFailed,
    StoreDamaged as StoreDamaged,
    StoreLocked as StoreLocked,
    Unsupported as Unsupported,
)
from .engine.model import Chunk as Chunk, Document as Document, EmbeddingSpace as EmbeddingSpace, Query as Query
from .library.collection import (
    Collection as Collection,
    CollectionView as CollectionView,
    CollectionWriter as CollectionWriter,
)
from .library.database import Database as Database, open as open
from .library.results import SearchResults as SearchResults

__version__: str
