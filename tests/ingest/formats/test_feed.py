"""Feeds: what an entry becomes, in RSS and Atom, and what no feed may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document
from aidre.ingest.formats.feed import parse, parse_json_feed, read_entries
from aidre.ingest.records.file import File
from aidre.ingest.records.source_items import Rejected, Unchanged
from tests.support.folders import documents as folder_documents, write
from tests.support.rows import documents

ATOM = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="de" xml:base="https://example.com/blog/">
  <title type="html">Tee &amp;amp; &lt;b&gt;Wasser&lt;/b&gt;</title>
  <entry xml:lang="fr">
    <id>tag:example.com,2026:1</id><title>Un  thé</title><link href="un.html"/>
    <published>2026-08-01T10:00:00+02:00</published><updated>2026-08-02T10:00:00+02:00</updated>
    <author><name>Ada</name></author><author><name>Bob</name></author>
    <category term="tea" label="Thé"/><category term="hot"/><category term="hot"/>
    <summary>Short.</summary>
    <content type="xhtml">
      <div xmlns="http://www.w3.org/1999/xhtml"><p>Longer <i>text</i>.</p><p>Two.</p></div>
    </content>
  </entry>
  <entry><id>1234</id><title>Zwei</title><link href="/zwei"/><summary type="text">a &lt;b&gt; c</summary></entry>
  <entry><title>Drei</title><link href="drei"/><summary>three</summary></entry>
  <entry><title>Vier</title><summary>four</summary></entry>
</feed>"""


def read(tmp_path: Path, content: str | bytes) -> list[Document]:
    path = tmp_path / "feed.xml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    file = File(path, "src", "https://example.com/feed", "https://example.com/feed", fetched=True)
    return documents(list(read_entries(file)))


def rows(content: str | bytes, **options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = parse(content.encode() if isinstance(content, str) else content, options)["entries"]
    return found


def rss(items: str, head: str = "") -> str:
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>T</title>{head}{items}</channel></rss>'


def test_an_atom_entry_is_a_document(tmp_path: Path) -> None:
    one, two, three, four = read(tmp_path, ATOM)
    assert (one.id, one.title, one.text) == ("tag:example.com,2026:1", "Un thé", "Longer text.\n\nTwo.")
    assert (one.url, one.updated_at) == ("https://example.com/blog/un.html", "2026-08-02T08:00:00Z")
    assert one.metadata == {
        "author": ["Ada", "Bob"],
        "tags": ["Thé", "hot"],
        "language": "fr",
        "feed": "Tee & Wasser",
    }
    assert (one.source, one.origin) == ("src", "https://example.com/feed")
    assert (two.id, two.text, two.url) == (
        "https://example.com/blog/1234",
        "a <b> c",
        "https://example.com/zwei",
    )
    assert (two.metadata["language"], two.updated_at) == ("de", None)
    assert (three.id, three.url) == ("https://example.com/blog/drei", "https://example.com/blog/drei")
    assert four.id.startswith("https://example.com/feed:") and four.url is None


def test_an_rss_item_is_a_document() -> None:
    item = (
        "<item><title>A &amp;amp; B</title><guid>https://example.com/a</guid><author>ada@example.com (Ada)</author>"
        "<category>tea</category><pubDate>Sat, 01 Aug 2026 10:00:00 +0200</pubDate>"
        '<description>short</description><content:encoded xmlns:content="http://purl.org/rss/1.0/modules/content/">'
        "<![CDATA[<p>Body <a href='x'>link</a></p><style>p{}</style><ul><li>one<li>two</ul>]]></content:encoded></item>"
    )
    (row,) = rows(rss(item, "<language>en-gb</language>"))
    assert row == {
        "id": "https://example.com/a",
        "url": "https://example.com/a",
        "title": "A & B",
        "text": "Body link\n\none\ntwo",
        "updated_at": "2026-08-01T08:00:00Z",
        "metadata": {"author": "Ada", "tags": ["tea"], "language": "en-gb", "feed": "T"},
    }


def test_an_id_that_is_no_uri_is_told_apart_from_those_of_other_feeds(tmp_path: Path) -> None:
    (entry,) = read(tmp_path, rss('<item><guid isPermaLink="false">1234</guid><description>x</description></item>'))
    assert (entry.id, entry.url) == ("src/1234", None)


@pytest.mark.parametrize("link", ["javascript:alert(1)", "mailto:a@example.com", "file:///etc/passwd", "a/b"])
def test_a_link_that_is_no_web_address_is_left_out(link: str) -> None:
    (row,) = rows(rss(f"<item><guid>urn:x</guid><link>{link}</link><description>x</description></item>"))
    assert "url" not in row


def test_relative_links_count_from_the_feed() -> None:
    (row,) = rows(
        rss("<item><link>a/b</link><description>x</description></item>"), url="https://example.com/f/feed.xml"
    )
    assert row["url"] == "https://example.com/f/a/b"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_the_encoding_is_the_one_that_is_declared(encoding: str) -> None:
    text = rss("<item><guid>g</guid><description>Grüße</description></item>").replace(
        'version="1.0"', f'version="1.0" encoding="{encoding}"', 1
    )
    assert [row["text"] for row in rows(text.encode(encoding))] == ["Grüße"]


def test_the_header_tells_the_encoding_where_it_has_one() -> None:
    content = rss("<item><guid>g</guid><description>Grüße</description></item>").encode("cp1252")
    assert [row["text"] for row in rows(content, content_type="application/rss+xml; charset=windows-1252")] == ["Grüße"]


def test_a_date_that_is_none_is_left_out() -> None:
    (row,) = rows(rss("<item><guid>g</guid><pubDate>yesterday</pubDate><description>x</description></item>"))
    assert "updated_at" not in row


def test_a_broken_feed_gives_the_entries_that_can_be_read_and_says_that_there_may_be_more(tmp_path: Path) -> None:
    path = tmp_path / "feed.rss"
    path.write_text(rss("<item><guid>urn:1</guid><description>a &nbsp; b</description></item>"), encoding="utf-8")
    found = list(read_entries(File(path, "src", "feed.rss")))
    assert [each[1].id for each in found if isinstance(each, tuple)] == ["urn:1"]
    assert found[-1] == Unchanged("feed.rss", "src", "feed.rss", 0)


def test_an_entry_that_cannot_be_stored_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "feed.rss"
    long = "x" * 2000
    items = f"<item><guid>urn:{long}</guid></item><item><guid>urn:2</guid><description>b</description></item>"
    path.write_text(rss(items), encoding="utf-8")
    bad, good = read_entries(File(path, "src", "feed.rss"))
    assert isinstance(bad, Rejected) and (bad.where, bad.origin) == ("feed.rss:entry 1", "feed.rss")
    assert isinstance(good, tuple) and good[1].id == "urn:2"


LONG = "n" * 256


def bomb(name: str = "lol") -> str:
    levels = "".join(f'<!ENTITY {name}{n} "{f"&{name}{n - 1};" * 10}">' for n in range(1, 10))
    return f'<!DOCTYPE rss [<!ENTITY {name}0 "ha">{levels}]>' + rss(f"<item><title>&{name}9;</title></item>")[21:]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bomb(), "declares entities"),
        (bomb().encode("utf-16"), "declares entities"),
        ('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss><item>&x;</item></rss>', "declares entities"),
        ('<!DOCTYPE r [<!ENTITY % x SYSTEM "http://127.0.0.1/"> %x;]><rss/>', "declares entities"),
        ('<rss version="2.0"><a></b></rss><!DOCTYPE r [<!ENTITY x "y">]>', "malformed XML at line 1"),
        ("<rss>" + "<item>" * 100_000, "open inside each other"),
        (rss("".join(f"<n{n}:u xmlns:n{n}='u:{n}'/>" for n in range(1_100))), "1000 prefixes of namespaces"),
        (rss("".join(f"<u xmlns:{LONG}{n}='u:{n}'/>" for n in range(1_100))), "1000 prefixes of namespaces"),
        ("", "malformed XML"),
        ("hello", "malformed XML"),
        ("<html><body/></html>", "neither RSS nor Atom"),
        (b"\x1f\x8b\x08\x00\xff", "is not text"),
    ],
)
def test_what_is_no_feed_or_a_hostile_one_is_refused(content: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidDocument, match=reason) as caught:
        rows(content)
    assert "root:" not in caught.value.message


def test_a_document_type_without_entities_is_harmless() -> None:
    kind = '<!DOCTYPE rss PUBLIC "-//Netscape Communications//DTD RSS 0.91//EN" "http://127.0.0.1:9/rss-0.91.dtd">'
    text = rss("<item><link>http://example.com/a</link><title>x</title></item>")[21:]
    assert [row["title"] for row in rows(kind + text)] == ["x"]


def test_a_feed_cannot_name_a_file_to_be_read() -> None:
    with pytest.raises(InvalidDocument):
        rows(b"/etc/passwd")


def json_feed(**members: Any) -> bytes:
    return orjson.dumps({"version": "https://jsonfeed.org/version/1.1", "title": "Tea", "items": []} | members)


def test_the_items_of_a_json_feed_are_documents(tmp_path: Path) -> None:
    items = [
        {
            "id": "https://x.org/1", "url": "https://x.org/1", "title": "Un  thé", "tags": ["hot", 3],
            "content_html": "<h2>Why</h2><p>Longer <i>text</i>.</p>", "date_published": "2026-08-01T10:00:00+02:00",
            "authors": [{"name": "Ada"}], "language": "fr",
        },
        {"id": 7, "content_text": "plain\ntext", "external_url": "javascript:x"},
        {"id": "no text", "summary": "Short."},
        {"content_text": "no id"},
        "no item",
    ]  # fmt: skip
    write(tmp_path / "docs" / "feed.json", json_feed(items=items, authors=[{"name": "Bob"}]))
    one, two, three, four = folder_documents(tmp_path / "docs")
    assert (one.id, one.url, one.title, one.text) == (
        "https://x.org/1",
        "https://x.org/1",
        "Un thé",
        "Why\n\nLonger text.",
    )
    assert one.updated_at == "2026-08-01T08:00:00Z"
    assert one.metadata == {"author": "Ada", "tags": ["hot"], "language": "fr", "feed": "Tea"}
    assert (two.id, two.url, two.text, two.metadata["author"]) == ("docs/7", None, "plain\ntext", "Bob")
    assert (three.id, three.text) == ("docs/no text", "Short.")
    assert four.id.startswith("docs/feed.json:")


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"items": []}', b'{"version": "1.1", "items": []}', b"\xff\xfe"])
def test_what_is_no_json_feed_says_so(content: bytes) -> None:
    with pytest.raises(InvalidDocument, match=r"is not (a )?JSON"):
        parse_json_feed(content, {})
