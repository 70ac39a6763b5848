from .analysis import (
    TOKEN as TOKEN,
    UNSPACED as UNSPACED,
    UNSPACED_RUN as UNSPACED_RUN,
    analyze_query as analyze_query,
    normalize as normalize,
    query_terms as query_terms,
    to_term as to_term,
    token_words as token_words,
    tokenize as tokenize,
    tokenize_query as tokenize_query,
)
from .codes import find_codes as find_codes
from .detection import question_language as question_language
from .highlight import MAX_HIGHLIGHTED as MAX_HIGHLIGHTED, WordFinder as WordFinder
from .languages import LANGUAGES as LANGUAGES, declared_language as declared_language
from .postings import (
    LexicalText as LexicalText,
    Lexicon as Lexicon,
    Postings as Postings,
    build_lexicon as build_lexicon,
    lexical_column as lexical_column,
    merge_lexicons as merge_lexicons,
)
from .words import (
    WordCounts as WordCounts,
    Words as Words,
    is_plain as is_plain,
)
