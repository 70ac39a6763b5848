"""Encoding labels: each means the codec that browsers take for it."""

from __future__ import annotations

import codecs

import pytest

from aidre.ingest.formats.charsets import find_codec


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("iso-8859-1", "cp1252"),
        (" Latin1\n", "cp1252"),
        ("us-ascii", "cp1252"),
        ("gb2312", "gb18030"),
        ("Shift_JIS", "cp932"),
        ("ks_c_5601-1987", "cp949"),
        ("Big5", "big5hkscs"),
        ("tis-620", "cp874"),
        ("iso-8859-9", "cp1254"),
        ("macintosh", "mac-roman"),
    ],
)
def test_an_old_label_means_the_larger_encoding(label: str, codec: str) -> None:
    assert find_codec(label) == codec
    assert codecs.lookup(codec)


@pytest.mark.parametrize("label", ["utf-8", "KOI8-U", "no-such-code"])
def test_any_other_label_is_its_own_codec(label: str) -> None:
    assert find_codec(label) == label.lower()
