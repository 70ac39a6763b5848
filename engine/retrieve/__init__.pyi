from .answer import (
    ORDERED as ORDERED,
    Answer as Answer,
    answer as answer,
    count_facets as count_facets,
    parsed_ranges as parsed_ranges,
    query_of as query_of,
    scale_of as scale_of,
)
from .by_document import MAX_COPIES as MAX_COPIES, MAX_PASSAGES as MAX_PASSAGES, told_copies as told_copies
from .conditions import FieldOrder as FieldOrder
from .grouping import Ranking as Ranking, find_documents as find_documents
from .modes import (
    is_lexical as is_lexical,
    resolve_mode as resolve_mode,
    tells_words as tells_words,
    text_modes as text_modes,
    text_spaces as text_spaces,
)
from .operators import QuestionReading as QuestionReading
from .paging import (
    SearchPage as SearchPage,
    first_page as first_page,
    first_pages as first_pages,
    later_page as later_page,
)
from .question import Policy as Policy, Question as Question, Rerank as Rerank, State as State
from .question_reading import read as read
from .relevance import (
    MAX_TEXT_CHARS as MAX_TEXT_CHARS,
    RELEVANT as RELEVANT,
    WORD as WORD,
    content_words as content_words,
    count_words as count_words,
    stop_words as stop_words,
    words_except as words_except,
)
from .steps import (
    Beside as Beside,
    Count as Count,
    Embed as Embed,
    EmbedText as EmbedText,
    Older as Older,
    Position as Position,
    Search as Search,
    Step as Step,
    Together as Together,
    run as run,
)
from .turns import FindOptions as FindOptions, Turn as Turn, find_in_turn as find_in_turn
