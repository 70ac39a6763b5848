from .lacking import (
    DENSE as DENSE,
    WITH_WORDS as WITH_WORDS,
    RowsReader as RowsReader,
)
from .pending import (
    PendingDocument as PendingDocument,
    pending_vectors as pending_vectors,
)
from .ranking import Ranked as Ranked
from .rows import (
    ChunkRow as ChunkRow,
    DocumentRow as DocumentRow,
    FieldRow as FieldRow,
    PendingVector as PendingVector,
    Rows as Rows,
    digest as digest,
    index_fields as index_fields,
    plain_chunk as plain_chunk,
)
from .sink import Declared as Declared, PendingSink as PendingSink, collection_missing as collection_missing
from .source import RowsSource as RowsSource
from .state import (
    CollectionState as CollectionState,
    FieldColumns as FieldColumns,
    StoredSpace as StoredSpace,
    collection_status as collection_status,
    decode_state as decode_state,
)
from .words import (
    ChunkWords as ChunkWords,
    Numbers as Numbers,
    QueryWords as QueryWords,
    Scores as Scores,
    chunk_words as chunk_words,
)
