from .cursor import (
    LIFETIME_SECONDS as LIFETIME_SECONDS,
    SECRET_BYTES as SECRET_BYTES,
    SECRET_VARIABLE as SECRET_VARIABLE,
    Cursors as Cursors,
    lineage_digest as lineage_digest,
    store_secret as store_secret,
)
from .query_embedding import QueryEmbedders as QueryEmbedders
from .redaction import tells_text as tells_text, visible_object as visible_object, visible_payload as visible_payload
from .retrieve import Retrieval as Retrieval, Served as Served, retrieval_of as retrieval_of
from .snapshots import LiveSnapshots as LiveSnapshots
from .visibility import VisibleCollection as VisibleCollection
