"""Encoding labels as browsers read them: most old labels mean a larger encoding (WHATWG Encoding Standard)."""

from __future__ import annotations

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
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}


def find_codec(label: str) -> str:
    """Python's codec for the encoding label of a page or server; the label itself if it needs no translation."""
    label = label.strip().lower()
    return _CODECS.get(label, label)
