"""The languages of the text index (tag, English name, scripts, stemmer and stop words), and the script of a word.

Light stemmers, which strip affixes without a dictionary: for Arabic and for Hebrew. For Urdu and Vietnamese, one
spelling of each word.

Both languages write the article, prepositions and conjunctions as one word with the noun: والحزمة is "and the
package". A word and its forms with such proclitics get one stem. A stem is a key and need not be a word: letters of a
root that look like a proclitic are stripped too, always alike.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

from aidre.engine.model import Json

LATIN: Final = "latin"
_BLOCKS: Final = (
    (0x0000, LATIN), (0x0370, "greek"), (0x0400, "cyrillic"), (0x0530, "armenian"), (0x0590, "hebrew"),
    (0x0600, "arabic"), (0x0700, ""), (0x0750, "arabic"), (0x0780, ""), (0x0870, "arabic"), (0x0900, "devanagari"),
    (0x0980, "bengali"), (0x0A00, "gurmukhi"), (0x0A80, "gujarati"), (0x0B00, ""), (0x0B80, "tamil"),
    (0x0C00, "telugu"), (0x0C80, "kannada"), (0x0D00, "malayalam"), (0x0D80, "sinhala"), (0x0E00, "thai"),
    (0x0E80, "lao"), (0x0F00, "tibetan"), (0x1000, "myanmar"), (0x10A0, "georgian"), (0x1100, "hangul"),
    (0x1200, "ethiopic"), (0x13A0, ""), (0x1780, "khmer"), (0x1800, ""), (0x1C80, "cyrillic"), (0x1C90, "georgian"),
    (0x1CC0, ""), (0x1D00, LATIN), (0x1F00, "greek"), (0x2000, LATIN), (0x2C00, ""), (0x2C60, LATIN), (0x2C80, ""),
    (0x2D00, "georgian"), (0x2D30, ""), (0x2DE0, "cyrillic"), (0x2E00, ""), (0x3005, "han"), (0x3041, "kana"),
    (0x3100, "han"), (0x3131, "hangul"), (0x3190, "han"), (0x31F0, "kana"), (0x3200, ""), (0x3400, "han"),
    (0xA000, ""), (0xA640, "cyrillic"), (0xA6A0, ""), (0xA720, LATIN), (0xA800, ""), (0xA960, "hangul"), (0xA980, ""),
    (0xAB30, LATIN), (0xAB70, ""), (0xAC00, "hangul"), (0xD800, ""), (0xF900, "han"), (0xFB00, ""), (0x1B000, "kana"),
    (0x1B170, ""), (0x20000, "han"), (0x40000, ""),
)  # fmt: skip
"""The first code point of each block, and its script: the blocks of the Unicode standard, neighbours of one script
joined. No name: a script of which no language is in the table of languages."""
_STARTS: Final = tuple(start for start, _ in _BLOCKS)


def script_of(word: str) -> str:
    """The script of the word's greatest code point, so not of its digits; "" for one that has no name here."""
    return LATIN if word.isascii() else _script_of_letter(max(word))


@lru_cache(maxsize=1 << 12)
def _script_of_letter(letter: str) -> str:
    return _BLOCKS[bisect_right(_STARTS, ord(letter)) - 1][1]


@dataclass(frozen=True, eq=False)
class Language:
    """A language and the scripts that it is written in.

    `stemmer` is the name of a light stemmer or of a Snowball algorithm; None: words are terms unchanged. `letters` are
    those that tell it from other languages of its script. Of languages that share a script, those with letters or stop
    words are detected; the others are only declared. `plain` says when a word loses its accents: before it is stemmed,
    where no rule of the stemmer is about an accented letter; after; or never, where they make another word.
    """

    tag: str
    name: str
    stemmer: str | None
    scripts: tuple[str, ...] = (LATIN,)
    letters: str = ""
    plain: Literal["before", "after", "never"] = "after"

    @cached_property
    def stop_words(self) -> frozenset[str]:
        """The function words: articles, pronouns, prepositions, conjunctions, auxiliaries. They are not terms, and they
        serve to detect the language of a text."""
        return frozenset(load_stop_words().get(self.tag, "").split())


@cache
def all_stop_words() -> frozenset[str]:
    """The stop words of all languages."""
    return frozenset().union(*(language.stop_words for language in LANGUAGES.values()))


@cache
def load_stop_words() -> Mapping[str, str]:
    """The stop words by tag, separated by spaces, in lower case and split at apostrophes as tokens are ("don't" is
    `don` and `t`). The lists from Catalan on have no single ASCII letters, which are variables in code."""
    words: dict[str, str] = {}
    for line in Path(__file__).with_name("stop_words.txt").read_text("utf-8").splitlines():
        tag, _, more = line.partition(": ")
        words[tag] = f"{words.get(tag, '')} {more}"
    return words


_LATIN: Final = (
    ("en", "english"), ("de", "german"), ("fr", "french"), ("es", "spanish"), ("it", "italian"), ("pt", "portuguese"),
    ("nl", "dutch"), ("sv", "swedish"), ("da", "danish"), ("no", "norwegian"), ("eu", "basque"), ("ca", "catalan"),
    ("cs", "czech"), ("eo", "esperanto"), ("et", "estonian"), ("fi", "finnish"), ("hu", "hungarian"),
    ("id", "indonesian"), ("ga", "irish"), ("lt", "lithuanian"), ("pl", "polish"), ("ro", "romanian"),
    ("tr", "turkish"),
)  # fmt: skip
"""Tag and name; the name is also that of the Snowball algorithm."""

_STEMMED_PLAIN: Final = frozenset({"en", "nl", "eu", "id"})
"""Languages whose accents occur in foreign words only, or do not matter to the stemmer."""

_UNSTEMMED: Final = (
    ("am", "amharic", "ethiopic"), ("bn", "bengali", "bengali"), ("bo", "tibetan", "tibetan"),
    ("gu", "gujarati", "gujarati"), ("ka", "georgian", "georgian"), ("km", "khmer", "khmer"),
    ("kn", "kannada", "kannada"), ("ko", "korean", "hangul"), ("lo", "lao", "lao"), ("ml", "malayalam", "malayalam"),
    ("my", "burmese", "myanmar"), ("pa", "punjabi", "gurmukhi"), ("si", "sinhala", "sinhala"),
    ("te", "telugu", "telugu"), ("th", "thai", "thai"),
)  # fmt: skip
"""Tag, name and script of languages without a stemmer, each the first or only one of its script."""

LANGUAGES: Final[Mapping[str, Language]] = {
    language.tag: language
    for language in (
        *(Language(tag, name, name, plain="before" if tag in _STEMMED_PLAIN else "after") for tag, name in _LATIN),
        Language("hr", "croatian", "serbian"),
        Language("vi", "vietnamese", "vietnamese", plain="never"),
        Language("ar", "arabic", "arabic", ("arabic",), "أإؤةيىك"),
        Language("fa", "persian", "persian", ("arabic",), "پچژگکی"),
        Language("ur", "urdu", "urdu", ("arabic",), "پچژگکیٹڈڑےںہھ"),
        Language("ru", "russian", "russian", ("cyrillic",), "ыэё"),
        Language("uk", "ukrainian", None, ("cyrillic",), "іїєґ"),
        Language("bg", "bulgarian", None, ("cyrillic",)),
        Language("sr", "serbian", "serbian", ("cyrillic", LATIN), "ђјљњћџ"),
        Language("hi", "hindi", "hindi", ("devanagari",)),
        Language("ne", "nepali", "nepali", ("devanagari",)),
        Language("mr", "marathi", None, ("devanagari",), "ळ"),
        Language("he", "hebrew", "hebrew", ("hebrew",)),
        Language("yi", "yiddish", "yiddish", ("hebrew",), "װױײ"),
        Language("el", "greek", "greek", ("greek",)),
        Language("hy", "armenian", "armenian", ("armenian",)),
        Language("ta", "tamil", "tamil", ("tamil",)),
        Language("zh", "chinese", None, ("han",)),
        Language("ja", "japanese", None, ("kana", "han")),
        *(Language(tag, name, None, (script,)) for tag, name, script in _UNSTEMMED),
    )
}
"""By tag; of the languages of one script, the one that is taken without evidence comes first. Text in a language that
is not in the table is neither stemmed nor stripped of stop words."""

DEFAULT_LANGUAGE: Final = "en"
UNKNOWN: Final = "und"
"""The tag of every language that is not in the table; its words are terms unchanged."""

_FIRST_OF_SCRIPT: Final = {
    script: language for language in reversed(tuple(LANGUAGES.values())) for script in language.scripts
}
_ALIASES: Final = {
    "nb": "no", "nn": "no", "bs": "hr", "sh": "sr", "iw": "he",
    **{language.name: tag for tag, language in LANGUAGES.items()},
}  # fmt: skip


def language_of_word(word: str, tag: str) -> Language | None:
    """The language whose rules apply to a word in a text of language `tag`; None: it is a term unchanged.

    A word in a script that the language is not written in is of the first language of that script: Arabic in an English
    text is stemmed as Arabic, and English in an Arabic one as English.
    """
    language = LANGUAGES.get(tag)
    if language is None:
        return None
    script = script_of(word)
    return language if script in language.scripts else _FIRST_OF_SCRIPT.get(script)


def language_tag(declared: Json) -> str | None:
    """The short tag of a BCP 47 tag ("de-AT") or of an English name ("German"); None for any other value.

    The declaration may be a schema.org Language object, or a list, of which the first element counts.
    """
    if isinstance(declared, list) and declared:
        declared = declared[0]
    if isinstance(declared, dict):
        declared = declared.get("alternateName") or declared.get("name")
    if not isinstance(declared, str):
        return None
    first = declared.strip().lower().replace("_", "-").split("-", 1)[0]
    tag = _ALIASES.get(first, first)
    if tag in LANGUAGES:
        return tag
    return UNKNOWN if 2 <= len(tag) <= 3 and tag.isascii() and tag.isalpha() else None


def declared_language(metadata: Mapping[str, Json] | None, schema_object: Mapping[str, Json] | None) -> str | None:
    """The first valid tag among the metadata `language` and `lang` and schema.org's `inLanguage`."""
    metadata, schema_object = metadata or {}, schema_object or {}
    declared = (metadata.get("language"), metadata.get("lang"), schema_object.get("inLanguage"))
    return next((tag for tag in map(language_tag, declared) if tag is not None), None)


def likely_language(words: Iterable[str], tags: Iterable[str]) -> str:
    """The one of some languages of which most distinct words are stop words; of several the default one, if it is one
    of them, else the first. "" without any."""
    distinct = frozenset(words)
    known = [tag for tag in tags if tag in LANGUAGES]
    return max(known, key=lambda tag: (len(distinct & LANGUAGES[tag].stop_words), tag == DEFAULT_LANGUAGE), default="")


_ARABIC_MARKS: Final = re.compile("[\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed]")
"""Vowel signs and other marks, and tatweel, which only stretches a word."""

_DIGITS: Final = {zero + n: str(n) for zero in (0x0660, 0x06F0) for n in range(10)}
_ARABIC_LETTERS: Final = _DIGITS | {
    ord(written): letter
    for letter, variants in (("\u0627", "\u0622\u0623\u0625\u0671"), ("\u064a", "\u0649\u06cc"), ("\u0643", "\u06a9"))
    for written in variants
}
"""Alef with hamza, madda or wasla is alef; alef maqsura and the Persian yeh are yeh; the Persian keheh is kaf."""

_URDU_LETTERS: Final = _DIGITS | {0x0643: "\u06a9", 0x0649: "\u06cc", 0x064A: "\u06cc"}
"""Urdu typed on an Arabic keyboard: kaf is keheh, yeh and alef maqsura are Persian yeh."""

_ARABIC_ARTICLE: Final = re.compile("(?:[وف]?[بك]?ال|[وف]?لل(?=...))(?=..)|[وف]?ل(?=ل..$)")
"""The article with what may stand before it: wa- or fa- ("and"), bi- ("with"), ka- ("like"), and lil- ("for the"). The
last alternative is lil- before a short word that itself begins with lam, of which three are written as two."""

Suffixes: TypeAlias = tuple[tuple[tuple[str, int], ...], ...]
"""Groups of alternatives. Of each group the first one is stripped that leaves so many letters or more."""

_ARABIC_SUFFIXES: Final[Suffixes] = (
    (("ها", 2), ("هم", 3), ("ه", 3)),  # her, their, his
    (("يات", 3), ("ية", 3), ("ات", 2), ("ان", 3), ("ون", 3), ("ين", 3), ("ة", 2), ("ي", 3)),  # number and gender
    (("ا", 3), ("ت", 3)),  # the accusative; the feminine before another suffix
)

_HEBREW_MARKS: Final = re.compile("[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7]")
_HEBREW_FINALS: Final = str.maketrans("ךםןףץ", "כמנפצ")
_HEBREW_SUFFIXES: Final[Suffixes] = ((("יהמ", 3), ("ימ", 3), ("ות", 3), ("ה", 3), ("י", 3), ("ת", 4)),)
"""After final letters have become medial ones: their, the plurals, the feminine, the construct state."""

_TONES: Final = re.compile("[\u0300\u0301\u0303\u0309\u0323]")

_MIN_STEM: Final = 3
"""Letters that remain after a proclitic of one letter: the length of a root."""


def stem_arabic(word: str) -> str:
    """The stem of a word in Arabic letters.

    It is light10 (Larkey, Ballesteros and Connell, "Light Stemming for Arabic Information Retrieval", 2007, as in
    Lucene's ArabicNormalizer and ArabicStemmer), with these differences: a noun after bi- ("with"), li- ("for") or wa-
    ("and") without an article is found too; most suffixes need three remaining letters, so that a root keeps its own;
    only one suffix of number and gender is stripped; the feminine before a suffix and the accusative are stripped.
    """
    word = _ARABIC_MARKS.sub("", word).translate(_ARABIC_LETTERS)
    word = _ARABIC_ARTICLE.sub("", word, count=1) if _ARABIC_ARTICLE.match(word) else word
    return _strip_proclitics(_strip_suffixes(word, _ARABIC_SUFFIXES), "وبل")


def stem_hebrew(word: str) -> str:
    """The stem of a word in Hebrew letters: without points, and without what can stand before or after a noun.

    The proclitics are the letters of the mnemonic "moshe v-kalev". There is no published light stemmer to follow: with
    a dictionary, as HebMorph has, fewer distinct words would share a stem.
    """
    word = _HEBREW_MARKS.sub("", word).translate(_HEBREW_FINALS)
    return _strip_proclitics(_strip_suffixes(word, _HEBREW_SUFFIXES), "משהוכלב")


def unify_urdu(word: str) -> str:
    """A word of Urdu with one code point for each letter, and without marks."""
    return _ARABIC_MARKS.sub("", word).translate(_URDU_LETTERS)


def unify_vietnamese(word: str) -> str:
    """A syllable with the mark of its tone behind it: hòa and hoà are one word in two spellings, hoa is another."""
    if word.isascii():
        return word
    apart = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", _TONES.sub("", apart)) + "".join(_TONES.findall(apart))


def _strip_suffixes(word: str, suffixes: Suffixes) -> str:
    for group in suffixes:
        found = (suffix for suffix, rest in group if word.endswith(suffix) and len(word) - len(suffix) >= rest)
        word = word.removesuffix(next(found, ""))
    return word


def _strip_proclitics(word: str, proclitics: str) -> str:
    """Strip all at the beginning: if only some were, a word and its form with one more would differ."""
    while len(word) > _MIN_STEM and word[0] in proclitics:
        word = word[1:]
    return word


LIGHT_STEMMERS: Final[Mapping[str, Callable[[str], str]]] = {
    "arabic": stem_arabic,
    "hebrew": stem_hebrew,
    "urdu": unify_urdu,
    "vietnamese": unify_vietnamese,
}
