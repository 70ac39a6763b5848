from .asynchronous import (
    AsyncChanges as AsyncChanges,
    AsyncClient as AsyncClient,
    AsyncIntake as AsyncIntake,
    AsyncIntent as AsyncIntent,
    AsyncNlweb as AsyncNlweb,
    AsyncRemoteCollection as AsyncRemoteCollection,
    connect_async as connect_async,
)
from .chunks import RemoteChunk as RemoteChunk
from .client import (
    Changes as Changes,
    Client as Client,
    Intake as Intake,
    Intent as Intent,
    Nlweb as Nlweb,
    RemoteCollection as RemoteCollection,
    connect as connect,
)
from .errors import (
    AccessDenied as AccessDenied,
    AidreError as AidreError,
    Closed as Closed,
    CollectionMissing as CollectionMissing,
    ConfigurationError as ConfigurationError,
    Conflict as Conflict,
    DimensionMismatch as DimensionMismatch,
    DocumentMissing as DocumentMissing,
    HistoryMissing as HistoryMissing,
    InvalidDocument as InvalidDocument,
    InvalidFilter as InvalidFilter,
    InvalidInput as InvalidInput,
    InvalidVector as InvalidVector,
    Missing as Missing,
    ModelUnavailable as ModelUnavailable,
    RequestFailed as RequestFailed,
    SpaceMissing as SpaceMissing,
    StoreLocked as StoreLocked,
    Unsupported as Unsupported,
    VerificationFailed as VerificationFailed,
)
from .intake import IntakeAnswer as IntakeAnswer, Manifest as Manifest, Offer as Offer
from .intent import Citation as Citation, Declaration as Declaration, Passage as Passage, Retrieved as Retrieved
from .messages import (
    Change as Change,
    ChangePage as ChangePage,
    CollectionInfo as CollectionInfo,
    Discovery as Discovery,
)
from .nlweb import AskAnswer as AskAnswer, AskEvent as AskEvent, Promise as Promise
from .values.hits import Hit as Hit, Hits as Hits, SearchResults as SearchResults
from .values.model import (
    Document as Document,
    Facet as Facet,
    FacetRequest as FacetRequest,
    Highlight as Highlight,
    HighlightLimits as HighlightLimits,
)
