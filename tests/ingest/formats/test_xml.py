"""Untrusted XML: the kind of a file by its root element, and elements as events."""

from __future__ import annotations

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.xml import MAX_DEPTH, MalformedXml, decode_xml, escape_ampersands, read_events, sniff_xml


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"<rss>", "feed"),
        (b"\xef\xbb\xbf  <?xml version='1.0'?>\n<!-- <urlset> --><!DOCTYPE rss><RDF:rdf >", "feed"),
        ('<?xml version="1.0" encoding="utf-16"?><feed xmlns="x">'.encode("utf-16"), "feed"),
        (b"<a:urlset\n>", "sitemap"),
        (b"<sitemapindex/>", "sitemap"),
        (b"<!doctype html><HTML>", "html"),
        (b"<?xml <rss>", None),
        (b"<!--" * 5000, None),
        (b"<!-->" * 1600, None),
        (b"<rssx>", None),
        (b"{}", None),
        (b"", None),
    ],
)
def test_the_root_tells_what_a_file_is(start: bytes, kind: str | None) -> None:
    assert sniff_xml(start) == kind


def events(content: bytes) -> list[str]:
    seen: list[str] = []
    read_events(
        decode_xml(content).text,
        start=lambda name: seen.append(f"<{name}"),
        text=seen.append,
        end=lambda: seen.append(">"),
    )
    return seen


def test_elements_and_texts_come_in_their_order() -> None:
    content = b"<?xml version='1.0'?><a:x>one<![CDATA[<two>]]><b/>&amp;</a:x>"
    assert events(content) == ["<a:x", "one<two>", "<b", ">", "&", ">"]


@pytest.mark.parametrize(
    "content",
    [
        b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a/>',
        b'<!DOCTYPE a [<!ENTITY % b "c">]><a/>',
        b'<!DOCTYPE a [<!NOTATION n SYSTEM "x"><!ENTITY b SYSTEM "c" NDATA n>]><a/>',
        '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'.encode("utf-16"),
    ],
)
def test_a_declared_entity_is_refused_also_where_nothing_uses_it(content: bytes) -> None:
    with pytest.raises(InvalidDocument, match="declares entities of its own") as caught:
        events(content)
    assert not isinstance(caught.value, MalformedXml)


def test_elements_may_be_open_inside_each_other_to_a_depth() -> None:
    assert len(events(b"<a>" * MAX_DEPTH + b"</a>" * MAX_DEPTH)) == 2 * MAX_DEPTH
    with pytest.raises(InvalidDocument, match=f"more than {MAX_DEPTH} elements are open inside each other"):
        events(b"<a>" * (MAX_DEPTH + 1))


@pytest.mark.parametrize("content", [b"", b"words", b"<a>", b"<a></b>", b"<a>&nbsp;</a>", b"<a/><b/>", b"\xe9<a/>"])
def test_malformed_xml_is_told_apart_from_hostile_xml(content: bytes) -> None:
    with pytest.raises(MalformedXml, match=r"^malformed XML at line 1: "):
        events(content)


@pytest.mark.parametrize("codec", ["euc-kr", "shift_jis", "gb2312", "big5", "iso-8859-5", "utf-16"])
def test_the_encoding_that_a_text_declares_is_read(codec: str) -> None:
    words = {"euc-kr": "수문", "shift_jis": "水車", "gb2312": "水门", "big5": "水門"}.get(codec, "мост")
    assert events(f'<?xml version="1.0" encoding="{codec}"?><a>{words}</a>'.encode(codec)) == ["<a", words, ">"]


def test_what_a_server_declares_comes_first() -> None:
    assert (
        decode_xml('<?xml version="1.0" encoding="big5"?><a>수문</a>'.encode("euc-kr"), "euc-kr").text == "<a>수문</a>"
    )


def test_ampersands_that_begin_no_reference_are_escaped_outside_sections() -> None:
    markup = "<a>AT&T &amp; &#38; &x41; b&c;<![CDATA[x?a&b]]>&<![CDATA[a&"
    assert escape_ampersands(markup) == "<a>AT&amp;T &amp; &#38; &x41; b&c;<![CDATA[x?a&b]]>&amp;<![CDATA[a&"
