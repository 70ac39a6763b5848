"""Encoding labels: each means the codec that browsers take for it."""

from __future__ import annotations

import codecs

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records.charsets import decode, find_codec


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


GERMAN = "Die Brücke über den Mühlbach wurde 1890 gebaut – für „Fußgänger“."
RUSSIAN = "Старый каменный мост был построен в 1890 году и пересекает реку у мельницы."
TEXTS = {
    "cp1252": GERMAN,
    "cp1250": "Stary kamienny most został zbudowany w 1890 roku i łączy oba brzegi rzeki, źródło żab.",
    "cp1251": RUSSIAN,
    "koi8-r": RUSSIAN,
    "cp1253": "Η παλιά πέτρινη γέφυρα χτίστηκε το 1890 και διασχίζει το ποτάμι κοντά στον μύλο.",
    "cp1255": "גשר האבן הישן נבנה בשנת 1890 וחוצה את הנהר ליד הטחנה.",
    "cp1256": "بني الجسر الحجري القديم عام 1890 ويعبر النهر بالقرب من الطاحونة.",
    "shift_jis": "古い石の橋は1890年に建てられ、水車の近くで川を渡ります。",
    "euc-jp": "古い石の橋は1890年に建てられ、水車の近くで川を渡ります。",
    "gbk": "这座古老的石桥建于1890年，横跨磨坊附近的河流。",
    "big5": "這座古老的石橋建於1890年，橫跨磨坊附近的河流。",
    "euc-kr": "오래된 돌다리는 1890년에 지어졌으며 방앗간 근처에서 강을 건넙니다.",
}


@pytest.mark.parametrize("codec", TEXTS)
@pytest.mark.parametrize("markup", ["{}", "<html><body><div class='text'><p>{}</p></div></body></html>"])
def test_an_undeclared_encoding_is_told_by_its_text(codec: str, markup: str) -> None:
    decoded = decode(markup.format(TEXTS[codec]).encode(codec))
    assert decoded.text == markup.format(TEXTS[codec])
    assert decoded.notice is not None and decoded.notice.startswith("is not utf-8: read as ")


@pytest.mark.parametrize("text", ["café", "Größe", "à la carte", "© 2020", "5 € – “gut”", "Bridge ™ ® ©", "naïve"])
def test_a_few_bytes_that_are_not_utf8_are_windows_1252_as_in_browsers(text: str) -> None:
    assert decode(text.encode("cp1252")).text == text
    assert decode(text.encode("cp1252"), "utf-8").text == text


@pytest.mark.parametrize("text", ["Brücke, Größe, Fuß", "水車小屋の橋", "Старый мост"])
def test_a_stray_byte_in_utf8_is_shown_as_one_and_noted(text: str) -> None:
    decoded = decode(text.encode() + b" \xff " + text.encode())
    assert decoded.text == f"{text} \ufffd {text}"
    assert decoded.notice == "is not all utf-8: of its bytes 1 cannot be read (shown as \ufffd)"


@pytest.mark.parametrize("declared", ["iso-8859-1", "windows-1251", "gb2312", "utf-16", "zip", "no-such-code"])
def test_utf8_that_declares_something_else_is_read_as_utf8(declared: str) -> None:
    decoded = decode((GERMAN * 3).encode(), declared)
    assert decoded.text == GERMAN * 3
    assert decoded.notice == f"is UTF-8, not {declared} as it declares"


@pytest.mark.parametrize(
    ("codec", "declared"),
    [("cp1252", "iso-8859-1"), ("euc-kr", "ks_c_5601-1987"), ("iso-2022-jp", "iso-2022-jp"), ("koi8-u", "KOI8-U")],
)
def test_a_declared_encoding_that_fits_is_taken_without_a_notice(codec: str, declared: str) -> None:
    text = {"euc-kr": "수문은", "iso-2022-jp": "水車", "koi8-u": "міст"}.get(codec, "Fuß")
    assert decode(text.encode(codec), declared)[::2] == (text, None)


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_a_byte_order_mark_comes_before_what_is_declared(codec: str) -> None:
    mark = "\ufeff" * (codec == "utf-16-be")
    assert decode((mark + "水車 a").encode(codec), "iso-8859-1")[::2] == ("水車 a", None)


def test_a_damaged_text_with_a_mark_is_read_to_its_end() -> None:
    assert decode("水車".encode("utf-16") + b"a").text == "水車\ufffd"


def test_what_is_no_text_is_refused() -> None:
    for content in (bytes(range(256)), b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4, b"\xff\xd8\xff\xe0\0\x10JFIF\0\1"):
        with pytest.raises(InvalidDocument, match="is not text, or its encoding cannot be detected"):
            decode(content)


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_told_by_its_zero_bytes(codec: str) -> None:
    decoded = decode("# Käse, ein Wort und noch eines\n".encode(codec))
    assert (decoded.text, decoded.encoding, decoded.notice) == ("# Käse, ein Wort und noch eines\n", codec, None)


def test_zero_bytes_in_other_texts_are_shown_as_what_cannot_be_read() -> None:
    assert decode(b"good text\0more").text == "good text\ufffdmore"
    assert decode(b"\0\0\0\0 good text, more of it").encoding == "utf-8"
