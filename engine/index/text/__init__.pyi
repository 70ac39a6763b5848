from .analysis import (
    TOKEN as TOKEN,
    analyze_query as analyze_query,
    normalize as normalize,
    to_term as to_term,
    token_words as token_words,
    tokenize as tokenize,
    tokenize_query as tokenize_query,
)
from .codes import find_codes as find_codes
from .highlight import MAX_HIGHLIGHTED as MAX_HIGHLIGHTED, WordFinder as WordFinder
from .languages import (
    DEFAULT_LANGUAGE as DEFAULT_LANGUAGE,
    LANGUAGES as LANGUAGES,
    Language as Language,
    declared_language as declared_language,
    likely_language as likely_language,
)
from .postings import (
    LexicalText as LexicalText,
    Lexicon as Lexicon,
    Postings as Postings,
    build_lexicon as build_lexicon,
    lexical_column as lexical_column,
    merge_lexicons as merge_lexicons,
)
from .slips import is_affix as is_affix, may_be_slip as may_be_slip, share_ending as share_ending
from .words import (
    WordCounts as WordCounts,
    Words as Words,
    hash_of as hash_of,
    hashes_of_one as hashes_of_one,
    hashes_of_two as hashes_of_two,
    is_plain as is_plain,
)
