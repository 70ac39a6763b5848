"""Detection of the language of a text: by its script, and among the languages of a script by letters and stop words.

It counts words, not letters: an Arabic page full of commands is Arabic, an English one that quotes an Arabic word is
English.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.index.text.analysis import MAX_CACHED_CHARACTERS, query_tokens, tokenize_query
from aidre.engine.index.text.languages import DEFAULT_LANGUAGE, LANGUAGES, LATIN, UNKNOWN, Language, script_of
from aidre.engine.storage import is_run_start

MIN_EVIDENCE: Final = 3
"""Distinct stop words that make a text one of another Latin language than the default. They must also be twice as many
as those of the default language, since every language has words that mean something else in another."""

WORDS_PER_STOP_WORD: Final = 2
"""Words of another script that outweigh a distinct stop word of a Latin language. A third of the distinct words of a
paragraph are stop words; code has hardly any."""

MIN_QUESTION_EVIDENCE: Final = 2
"""Distinct stop words that make a question one of a Latin language that the collection does not have. They must also be
twice as many as those of its own languages."""

_LAST_LATIN: Final = "\u024f"

_CANDIDATES: Final = (
    *LANGUAGES.values(),
    Language(UNKNOWN, "pashto, kurdish, uyghur", None, ("arabic",), "ټډړښېۍێۆڕڵەۇۈڭ"),
    Language(UNKNOWN, "kazakh, kyrgyz, tajik, tatar", None, ("cyrillic",), "әғқңөұүһҳҷӣӯ"),
)
"""The languages, and letters of others whose words are not to be taken for words of these."""

_STOP_WORD_EVIDENCE: Final = 0.5
"""Weight of a stop word; that of a word with a letter of the language is 1. A single stop word decides nothing: the
first language of the script is taken."""

_HAN_EVIDENCE: Final = 0.1
"""Weight of a pair of Han characters for Chinese; that of a pair with a kana for Japanese is 1. Japanese has kana in
most pairs, Chinese only in quotations and names."""

Codes = NDArray[np.int32]


class _WordOccurrences(NamedTuple):
    """The occurrences of words of one script: the code and the row of each."""

    codes: Codes
    rows: Codes


def detect_languages(vocabulary: Mapping[str, int], codes: Codes, rows: Codes, size: int) -> list[str]:
    """The tag of the language of each of `size` rows.

    `rows[i]` holds the word whose code in the vocabulary is `codes[i]`. A row without evidence is of the default
    language.
    """
    tags, evidence = _detect_latin(vocabulary, codes, rows, size)
    words = [word for word in vocabulary if not word.isascii() and len(word) > 1 and min(word) > _LAST_LATIN]
    if words:
        _detect_other_scripts(words, vocabulary, _WordOccurrences(codes, rows), tags, evidence)
    return tags


# -- languages in Latin letters, by their stop words -----------------------------------------------------------


@lru_cache(maxsize=1)
def _latin_languages() -> tuple[tuple[str, frozenset[str]], ...]:
    """The detectable ones with their stop words, the default language first: it wins a tie."""
    by_tag = [
        (tag, language.stop_words)
        for tag, language in LANGUAGES.items()
        if language.scripts == (LATIN,) and language.stop_words
    ]
    return tuple(sorted(by_tag, key=lambda pair: pair[0] != DEFAULT_LANGUAGE))


@lru_cache(maxsize=1)
def _latin_stop_words() -> frozenset[str]:
    return frozenset().union(*(stop_words for _, stop_words in _latin_languages()))


@lru_cache(maxsize=1)
def _languages_of_stop_words() -> Mapping[str, tuple[str, ...]]:
    """By stop word the tags of its Latin languages."""
    return {
        word: tuple(tag for tag, stop_words in _latin_languages() if word in stop_words) for word in _latin_stop_words()
    }


def _detect_latin(
    vocabulary: Mapping[str, int], codes: Codes, rows: Codes, size: int
) -> tuple[list[str], NDArray[np.int64]]:
    """The language of each row by its distinct stop words, and how many of that language it has."""
    candidates = _latin_languages()
    used = [word for word in _latin_stop_words() if word in vocabulary]
    is_own = np.array([[word in stop_words for word in used] for _, stop_words in candidates], np.int64)
    pair_rows, pair_words = _distinct_pairs(vocabulary, used, codes, rows)
    # Few rows can be of another language than the default one: only these are scored for every language.
    other, found = (np.bincount(pair_rows, of[pair_words], size) for of in (is_own[1:].max(axis=0), is_own[0]))
    is_doubtful = (other >= MIN_EVIDENCE) & (other >= 2 * found)
    in_doubtful = is_doubtful[pair_rows]
    doubtful_rows = (np.cumsum(is_doubtful) - 1)[pair_rows[in_doubtful]]
    doubtful_words = pair_words[in_doubtful]
    evidence = np.stack([np.bincount(doubtful_rows, of[doubtful_words], is_doubtful.sum()) for of in is_own])
    best, best_evidence = evidence.argmax(axis=0), evidence.max(axis=0, initial=0)
    best[(best_evidence < MIN_EVIDENCE) | (best_evidence < 2 * evidence[0])] = 0
    languages = np.zeros(size, np.intp)
    languages[is_doubtful] = best
    found[is_doubtful] = best_evidence
    return [candidates[i][0] for i in languages.tolist()], found.astype(np.int64)


def _distinct_pairs(
    vocabulary: Mapping[str, int], stop_words: Sequence[str], codes: Codes, rows: Codes
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct (row, index of a stop word) pairs, as two arrays."""
    stop_word_of_code = np.full(len(vocabulary), -1, np.int32)
    stop_word_of_code[[vocabulary[word] for word in stop_words]] = np.arange(len(stop_words))
    indices = stop_word_of_code[codes]
    keys = rows[indices >= 0].astype(np.int64)
    keys *= len(stop_words)
    keys += indices[indices >= 0]
    keys.sort()
    pair_rows, pair_words = np.divmod(keys[is_run_start(keys)], max(1, len(stop_words)))
    return pair_rows, pair_words


# -- languages in other letters --------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _families() -> dict[str, int]:
    """The scripts of the languages but the Latin one, each with the number of its family; kana belong to Han."""
    scripts = dict.fromkeys(script for language in LANGUAGES.values() for script in language.scripts)
    numbers = {script: n for n, script in enumerate(scripts) if script != LATIN}
    return numbers | {"kana": numbers["han"]}


def _detect_other_scripts(
    words: Sequence[str],
    vocabulary: Mapping[str, int],
    all_words: _WordOccurrences,
    tags: list[str],
    latin_evidence: NDArray[np.int64],
) -> None:
    """Replace the tag of each row whose words in another script outweigh its Latin stop words."""
    families = _families()
    family_of_code = np.full(len(vocabulary), -1, np.int8)
    for word in words:
        family_of_code[vocabulary[word]] = families.get(script_of(word), -1)
    family_of_hit = family_of_code[all_words.codes]
    present = np.unique(family_of_hit[family_of_hit >= 0]).tolist()
    hits = [_WordOccurrences(*(of[family_of_hit == family] for of in all_words)) for family in present]
    counts = np.stack([np.bincount(of.rows, minlength=len(tags)) for of in hits]) if hits else np.zeros((1, len(tags)))
    best, most = counts.argmax(axis=0), counts.max(axis=0)
    is_other = (most > 0) & (most >= WORDS_PER_STOP_WORD * latin_evidence)
    for number, family in enumerate(present):
        own = [word for word in words if families.get(script_of(word)) == family]
        chosen = np.flatnonzero(is_other & (best == number))
        for row, tag in zip(chosen.tolist(), _detect_in_family(own, vocabulary, hits[number], chosen), strict=True):
            tags[row] = tag


def _detect_in_family(
    words: Sequence[str], vocabulary: Mapping[str, int], hits: _WordOccurrences, rows: NDArray[np.intp]
) -> list[str]:
    """The language of each of the given rows, by the evidence of the words of one script."""
    scripts = {script_of(word) for word in words}
    candidates = [language for language in _CANDIDATES if scripts & set(language.scripts)]
    if len(candidates) == 1:
        return [candidates[0].tag] * len(rows)
    size = int(rows.max(initial=-1)) + 1
    counts = np.empty((len(candidates), len(rows)))
    for number, language in enumerate(candidates):
        evidence = np.zeros(len(vocabulary))
        evidence[[vocabulary[word] for word in words]] = [_evidence(word, language) for word in words]
        counts[number] = np.bincount(hits.rows, evidence[hits.codes], size)[rows]
    counts[0] += _STOP_WORD_EVIDENCE
    return [candidates[number].tag for number in counts.argmax(axis=0).tolist()]


def _evidence(word: str, language: Language) -> float:
    """The weight of a word as evidence for a language, in a script that it shares with others."""
    if "han" in language.scripts:
        has_kana = any(script_of(letter) == "kana" for letter in word)
        return float(has_kana) if "kana" in language.scripts else _HAN_EVIDENCE
    if not set(language.letters).isdisjoint(word):
        return 1.0
    return _STOP_WORD_EVIDENCE if word in language.stop_words else 0.0


# -- one question ------------------------------------------------------------------------------------------------


def question_language(text: str, languages: Collection[str]) -> str | None:
    """The tag of the language of a question to a collection of chunks in these languages; None where it does not tell.

    A question is too short for the rules of a text. Its words in another script than the Latin one decide as there.
    Among Latin languages the one with most stop words does; where it has none, or as many of two, there may be only one
    that it can be in.
    """
    scripts: dict[str, int] = {}
    stop_words: dict[str, int] = {}
    for token in query_tokens(text):
        evidence_of = _cached_evidence if len(token) <= MAX_CACHED_CHARACTERS else _token_evidence
        script, words, tags = evidence_of(token)
        if script:
            scripts[script] = scripts.get(script, 0) + words
        for tag in tags:
            stop_words[tag] = stop_words.get(tag, 0) + 1
    if scripts:
        script = max(scripts, key=lambda tag: scripts[tag])
        if scripts[script] >= WORDS_PER_STOP_WORD * max(stop_words.values(), default=0):
            return _language_in_script(text, script, languages)
    return _latin_language(stop_words, languages)


def _token_evidence(token: str) -> tuple[str, int, tuple[str, ...]]:
    """The script of a token, if it is not a Latin one, with the number of its words; and the Latin languages in which
    it is a stop word."""
    if min(token) > _LAST_LATIN:
        script = script_of(token)
        return (script, len(tokenize_query(token)), ()) if script in _families() else ("", 0, ())
    return "", 0, _languages_of_stop_words().get(token.lower(), ())


_cached_evidence = lru_cache(maxsize=1 << 13)(_token_evidence)


def _latin_language(stop_words: Mapping[str, int], languages: Collection[str]) -> str | None:
    own = [tag for tag in languages if tag == UNKNOWN or LATIN in LANGUAGES[tag].scripts]
    found = {tag: stop_words.get(tag, 0) for tag in own}
    most = max(found.values(), default=0)
    for other, evidence in stop_words.items():
        if other not in found and evidence >= max(MIN_QUESTION_EVIDENCE, 2 * most, *stop_words.values()):
            return other
    best = [tag for tag, count in found.items() if count == most]
    return best[0] if len(best) == 1 else None


def _language_in_script(text: str, script: str, languages: Collection[str]) -> str:
    """Of the languages of a script the only one of the collection, else the one with most evidence."""
    family_number = _families()[script]
    stored = [
        tag for tag in languages if tag in LANGUAGES and family_number in map(_families().get, LANGUAGES[tag].scripts)
    ]
    if len(stored) == 1:
        return stored[0]
    own = [word for word in set(tokenize_query(text)) if _families().get(script_of(word)) == family_number]
    family = {script_of(word) for word in own}
    candidates = [language for language in _CANDIDATES if family & set(language.scripts)]
    evidence = [
        sum(_evidence(word, language) for word in own) + _STOP_WORD_EVIDENCE * (language.tag in stored)
        for language in candidates
    ]
    evidence[0] += _STOP_WORD_EVIDENCE / 2
    return candidates[int(np.argmax(evidence))].tag
