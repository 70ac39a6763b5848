from .analysis import (
    TOKEN as TOKEN,
    UNSPACED_RUN as UNSPACED_RUN,
    QueryTerms as QueryTerms,
    english_terms as english_terms,
    find_codes as find_codes,
    find_sequences as find_sequences,
    is_plain as is_plain,
    normalize as normalize,
    query_terms as query_terms,
    required_words as required_words,
    terms_of_word as terms_of_word,
    token_words as token_words,
    tokenize as tokenize,
    tokenize_query as tokenize_query,
    words_met as words_met,
)
from .characters import (
    UNSPACED as UNSPACED,
    strip_layout as strip_layout,
    strip_layout_references as strip_layout_references,
)
from .detection import question_language as question_language
from .highlight import (
    MAX_HIGHLIGHTED as MAX_HIGHLIGHTED,
    WordFinder as WordFinder,
    without_headings as without_headings,
)
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
    build_lexicon as build_lexicon,
    lexical_column as lexical_column,
    merge_lexicons as merge_lexicons,
)
from .slips import is_affix as is_affix, may_be_slip as may_be_slip, share_ending as share_ending
from .stop_words import REQUEST_WORDS as REQUEST_WORDS
from .words import (
    WordCounts as WordCounts,
    Words as Words,
    comparable_text as comparable_text,
    hash_of as hash_of,
    hashes_of_one as hashes_of_one,
    hashes_of_two as hashes_of_two,
    phrase_pattern as phrase_pattern,
    plain_phrase as plain_phrase,
    plain_text as plain_text,
)
