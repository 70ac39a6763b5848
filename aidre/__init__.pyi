from . import segments as segments
from .engine.embedding.endpoint_embedder import Endpoint as Endpoint
from .engine.errors import (
    AccessDenied as AccessDenied,
    AidreError as AidreError,
    BackendUnavailable as BackendUnavailable,
    Closed as Closed,
    CollectionMissing as CollectionMissing,
    ConfigurationError as ConfigurationError,
    Conflict as Conflict,
    DimensionMismatch as DimensionMismatch,
    DocumentMissing as DocumentMissing,
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
    RequestFailed as RequestFailed,
    SpaceConflict as SpaceConflict,
    SpaceMissing as SpaceMissing,
    StorageFailed as StorageFailed,
    StoreDamaged as StoreDamaged,
    StoreLocked as StoreLocked,
    Unsupported as Unsupported,
    VerificationFailed as VerificationFailed,
)
from .engine.model import (
    Chunk as Chunk,
    Document as Document,
    EmbeddingSpace as EmbeddingSpace,
    Highlight as Highlight,
    HighlightLimits as HighlightLimits,
    Query as Query,
)
from .library.asynchronous import (
    AsyncCollection as AsyncCollection,
    AsyncCollectionView as AsyncCollectionView,
    AsyncDatabase as AsyncDatabase,
)
from .library.collection import Collection as Collection
from .library.collection_view import CollectionView as CollectionView
from .library.collection_writer import CollectionWriter as CollectionWriter
from .library.database import Database as Database
from .library.datasets import from_dataset as from_dataset
from .opening import open as open, open_async as open_async
from .remote import (
    AsyncClient as AsyncClient,
    AsyncRemoteCollection as AsyncRemoteCollection,
    Client as Client,
    RemoteChunk as RemoteChunk,
    RemoteCollection as RemoteCollection,
    connect as connect,
    connect_async as connect_async,
)
from .results import (
    Facet as Facet,
    FacetRequest as FacetRequest,
    Hit as Hit,
    Hits as Hits,
    SearchResults as SearchResults,
)

__version__: str
