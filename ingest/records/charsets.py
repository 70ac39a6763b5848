"""Bytes as text, in whatever encoding they are: the one way in which every format that is text is decoded.

As in browsers (WHATWG Encoding Standard), but that what is declared must fit: a byte order mark, else the declared
encoding, else UTF-8, else windows-1252 or what charset-normalizer is sure of. What no encoding can read becomes U+FFFD.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from aidre.engine.errors import InvalidDocument

_LABELS = {
    "cp1252": "ascii us-ascii iso-8859-1 iso8859-1 iso_8859-1 latin-1 latin1 l1 x-cp1252",
    "gb18030": "gb2312 gb_2312 gb_2312-80 csgb2312 chinese gbk x-gbk",
    "cp932": "shift_jis shift-jis sjis x-sjis ms_kanji csshiftjis windows-31j",
    "cp949": "euc-kr cseuckr korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "cp874": "windows-874 dos-874 tis-620 iso-8859-11 iso8859-11",
    "cp1254": "iso-8859-9 iso8859-9 latin5 l5 x-cp1254",
    "iso-8859-8": "iso-8859-8-i iso-8859-8-e csiso88598i logical visual",
    "koi8-r": "koi koi8 koi8_r cskoi8r",
    "mac-roman": "macintosh x-mac-roman mac csmacintosh",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "utf-16-le": "utf-16 utf16 utf-16le unicode ucs-2 iso-10646-ucs-2",
    "utf-16-be": "utf-16be unicodefffe",
}
"""Most old labels mean a larger encoding."""

_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
_NO_ENCODINGS = frozenset({"punycode", "idna", "unicode_escape", "raw_unicode_escape", "utf_7", "undefined"})
"""Codecs of Python that no browser knows: they compute, or give characters a second spelling."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNMARKED = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
"""The first character of XML and HTML that is UTF-16 without a mark."""

_ALTERNATING_BYTES = 1024
"""Bytes of which each second one is zero in UTF-16 without a mark, in scripts that are near to ASCII."""

_FALLBACK = "cp1252"
_LATIN = ("cp1252", "cp1250")
_OTHERS = (
    "cp1251", "koi8_r", "iso8859_5", "cp866", "cp1253", "cp1255", "cp1256", "cp932", "euc_jp", "gb18030", "big5",
    "cp949",
)  # fmt: skip
"""Encodings that are guessed, of texts in Latin and in other letters."""

_HIGH = re.compile(rb"[\x80-\xff]+")
_HIGH_WORD = re.compile(rb"(?<![A-Za-z\x80-\xff])[A-Za-z]*[\x80-\xff][A-Za-z\x80-\xff]*")
_ASCII_LETTER = re.compile(rb"[A-Za-z]")
_HIGH_BYTES = bytes(range(0x80, 0x100))
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_MANY = 10
"""Bytes beyond ASCII that are not valid UTF-8 by chance."""

_CONTROLS = bytes({*range(0x20), 0x7F} - {*b"\t\n\r\f\v\x1b\x1a"})
_MAX_CONTROLS = 0.01
"""Share of control characters: more are a picture or a program, and no text in any encoding."""

_TAG = re.compile(rb"<[^<>]{0,2000}>")
_SAMPLE_BYTES = 1 << 15
_LOOKED_THROUGH = 1 << 18
"""Bytes that are guessed from, and those in which they are looked for."""

_OTHER_LETTERS = 0.6
_MIN_HIGH = 3
"""A text in another script has at least this share, and this number, of bytes beyond ASCII beside one another."""

_MAX_MESS = 0.1
_CLEAR = 0.04
"""By charset-normalizer: mess of a text that is legible, and a difference of mess or of coherence that counts."""

_KANA = re.compile("[\u3041-\u30ff]")


class Decoded(NamedTuple):
    """`encoding` is Python's name. `notice` says what the author should know, if the bytes are not what they claim."""

    text: str
    encoding: str
    notice: str | None = None


def find_codec(label: str) -> str:
    """Python's codec for the encoding label of a page or server; the label itself if it needs no translation."""
    label = label.strip().lower()
    return _CODECS.get(label, label)


def find_mark(content: bytes) -> str | None:
    """The encoding that the first bytes of a file say: by a byte order mark, or as UTF-16 without one."""
    for mark, codec in (*_MARKS, *_UNMARKED):
        if content.startswith(mark):
            return codec
    sample = content[:_ALTERNATING_BYTES]
    first, second = sample[::2].count(0), sample[1::2].count(0)
    if max(first, second) > len(sample) // 4 and not min(first, second):
        return "utf-16-le" if second else "utf-16-be"
    return None


def decode(content: bytes, declared: str | None = None) -> Decoded:
    """The text of a file, without a byte order mark; `declared` is the label that a server or the file itself gives.

    Zero bytes become U+FFFD, too. Raises InvalidDocument for what is not text, since nearly any bytes could be read as
    windows-1252.
    """
    found = _decode(content, declared)
    return found._replace(text=found.text.replace("\0", "\ufffd")) if "\0" in found.text else found


def _decode(content: bytes, declared: str | None) -> Decoded:
    marked = find_mark(content)
    if marked is not None:
        lenient = content.decode(marked, "replace").removeprefix("\ufeff")
        return Decoded(lenient, marked, _describe(marked, marked, lenient, content))
    codec = _known_codec(declared) if declared else "utf-8"
    text = _strictly(content, "utf-8")
    if text is not None and (codec == "utf-8" or _is_surely_utf8(content, codec)):
        return Decoded(text, "utf-8", None if codec == "utf-8" else f"is UTF-8, not {declared} as it declares")
    fitting = None if codec in (None, "utf-8") else _strictly(content, codec)
    if fitting is not None and codec is not None:
        return Decoded(fitting, codec)
    if text is not None:
        return Decoded(text, "utf-8", f"is UTF-8, not {declared} as it declares")
    encoding = find_encoding(content, codec)
    lenient = content.decode(encoding, "replace")
    return Decoded(lenient, encoding, _describe(encoding, codec, lenient, content))


def find_encoding(content: bytes, declared: str | None = None) -> str:
    """The codec that most of a text, or of a sample of it, can be read with, where none fits all of it.

    `declared` is a codec. Raises InvalidDocument for what is not text.
    """
    for codec in dict.fromkeys((declared or "utf-8", "utf-8")):
        if _fits_mostly(content, codec):
            return codec
    controls = len(content) - len(content.translate(None, _CONTROLS))
    if controls > 1 + _MAX_CONTROLS * len(content):
        raise InvalidDocument("is not text, or its encoding cannot be detected: convert it to UTF-8")
    return _guess(_TAG.sub(b" ", content[:_LOOKED_THROUGH])) or _FALLBACK


def _describe(encoding: str, declared: str | None, text: str, content: bytes) -> str | None:
    faults = text.count("\ufffd") if _strictly(content, encoding) is None else 0
    lost = f"{faults:,} cannot be read (shown as \ufffd)"
    if encoding == declared:
        return f"is not all {encoding}: of its bytes {lost}" if faults else None
    return f"is not {declared or 'utf-8'}: read as {encoding}" + (f", of its bytes {lost}" if faults else "")


def _strictly(content: bytes, codec: str) -> str | None:
    try:
        return content.decode(codec)
    except (UnicodeError, ValueError):
        return None


def _is_surely_utf8(content: bytes, declared: str | None) -> bool:
    """Whether bytes that are valid UTF-8 cannot be in the declared encoding, which is another one."""
    if declared is None or (declared.startswith(("utf-16", "utf-32")) and b"\0" not in content):
        return True
    if content.isascii():
        return False
    return _is_single_byte(declared) or len(content) - len(content.translate(None, _HIGH_BYTES)) >= _MANY


@lru_cache(maxsize=64)
def _known_codec(label: str) -> str | None:
    """The codec of a label; None for an unknown one, and for codecs that are not encodings, like zip."""
    codec = find_codec(label)
    try:
        info = codecs.lookup(codec)
        b" ".decode(codec, "replace")
    except (LookupError, UnicodeError, ValueError):
        return None
    name = info.name.replace("-", "_")
    return None if name in _NO_ENCODINGS else "utf-8" if name in ("utf_8", "utf_8_sig") else codec


def _is_single_byte(codec: str) -> bool:
    """Whether each byte is a character in this encoding, so that nearly any bytes fit."""
    return len(b"\xc3\xa4\xe2\x82".decode(codec, "replace")) == 4


def _fits_mostly(content: bytes, codec: str) -> bool:
    """Whether as many characters beyond ASCII can be read as cannot, of an encoding that not all bytes fit."""
    text = content.decode(codec, "replace")
    faults = text.count("\ufffd")
    return faults <= sum(map(len, _NOT_ASCII.findall(text))) - faults


def _guess(content: bytes) -> str | None:
    """The encoding that charset-normalizer is sure of; None if it is not."""
    from charset_normalizer import from_bytes

    runs = _HIGH.findall(content)
    first = content.find(runs[0]) if runs else 0
    are_others = _has_other_letters(content, runs)
    sample = content[max(0, first - _SAMPLE_BYTES // 4) :][:_SAMPLE_BYTES]
    found = from_bytes(sample, threshold=0.4, cp_isolation=list(_OTHERS if are_others else _LATIN))
    if are_others:
        best = min(found, key=_rank, default=None)
        return best.encoding if best is not None and best.chaos <= _MAX_MESS else None
    measured = {name: match for match in found for name in match.could_be_from_charset}
    western, other = measured.get("cp1252"), measured.get("cp1250")
    if other is None or western is other or other.chaos > _MAX_MESS or not other.coherence:
        return None
    is_clear = western is None or western.chaos - other.chaos > _CLEAR or other.coherence - western.coherence > _CLEAR
    return "cp1250" if is_clear else None


def _has_other_letters(content: bytes, runs: Sequence[bytes]) -> bool:
    """Whether a text is not in Latin letters: there most bytes beyond ASCII stand alone, among letters of ASCII."""
    high = sum(map(len, runs))
    letters = sum(len(_ASCII_LETTER.findall(word)) for word in _HIGH_WORD.findall(content))
    return high > max(letters, _MIN_HIGH) and sum(len(run) for run in runs if len(run) > 1) >= _OTHER_LETTERS * high


def _rank(match: Any) -> tuple[int, float, int]:
    """Least mess first, then most coherence; kana tell Japanese from what its bytes are in other encodings."""
    return round(match.chaos / _CLEAR), -match.coherence, -len(_KANA.findall(str(match)))
