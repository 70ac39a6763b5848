from .content_words import (
    MAX_TEXT_CHARS as MAX_TEXT_CHARS,
    REQUEST_WORDS as REQUEST_WORDS,
    WORD as WORD,
    content_words as content_words,
    count_words as count_words,
    stop_words as stop_words,
    words_except as words_except,
)
from .correction import (
    Found as Found,
    repaired_text as repaired_text,
    search_corrected as search_corrected,
)
from .cursor import (
    LIFETIME_SECONDS as LIFETIME_SECONDS,
    SECRET_BYTES as SECRET_BYTES,
    SECRET_VARIABLE as SECRET_VARIABLE,
    Cursors as Cursors,
    lineage_digest as lineage_digest,
    store_secret as store_secret,
)
from .facets import AskedFacet as AskedFacet, count_facets as count_facets
from .forgiving import (
    Finding as Finding,
    LocalAnswer as LocalAnswer,
    best_of as best_of,
    finding as finding,
    is_answered_instead as is_answered_instead,
    is_surely_error as is_surely_error,
    scale_of as scale_of,
    search_forgiving as search_forgiving,
)
from .query_embedding import QueryEmbedders as QueryEmbedders
from .question import (
    Question as Question,
    resolve_mode as resolve_mode,
    text_modes as text_modes,
    text_spaces as text_spaces,
)
from .redaction import tells_text as tells_text, visible_object as visible_object, visible_payload as visible_payload
from .relevance import RELEVANT as RELEVANT, RelevanceScale as RelevanceScale, relevance_scale as relevance_scale
from .retrieve import Answer as Answer, Retrieval as Retrieval
from .snapshots import LiveSnapshots as LiveSnapshots
from .visibility import VisibleCollection as VisibleCollection
