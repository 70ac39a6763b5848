"""The readers of documents and header fields, each as a function of bytes for fuzzers; see parsers.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from selectolax.lexbor import LexborHTMLParser
from starlette.requests import Request

from aidre.api.access.client_address import ClientAddresses
from aidre.api.http.endpoint import http_date, not_modified
from aidre.api.http.request import exact_quality, parse_content_type, quality
from aidre.engine.errors import FetchFailed, InvalidDocument
from aidre.engine.index.fields.builder import flatten_member, flatten_object
from aidre.engine.model import Document
from aidre.ingest.fetch.urls import display_url, is_url, read_url
from aidre.ingest.formats import feed, html_parser, jsonld, sitemap
from aidre.ingest.formats.html import page_to_document
from aidre.ingest.formats.markdown import read_markdown
from aidre.ingest.formats.schemaorg import to_row
from aidre.ingest.formats.tables.csv import read_csv
from aidre.ingest.formats.tables.json_lines import read_json_file, read_json_lines
from aidre.ingest.formats.xml import sniff_xml
from aidre.ingest.records.file import File
from aidre.ingest.records.source_items import Item, Rejected
from aidre.ingest.records.vectors import VectorRules
from aidre.ingest.sandbox.result import check_answer
from tests.hostile.fuzzed_json import spelled, value_of
from tests.hostile.parsing import Make, Parser, one_line

ADDRESS = "https://example.com/a/b?c"
RULES = VectorRules([], [])


def sound(document: Document) -> None:
    """What the engine stores, or it would fail there: text that can be encoded, JSON that can be written."""
    assert document.id and len(document.id) < 10_000
    for text in (document.id, document.text, document.title or "", document.url or ""):
        text.encode()
    orjson.dumps([dict(document.metadata), document.schema_object, document.semantic_payload])


# -- JSON-LD -------------------------------------------------------------------------------------------------------

TERMS = (
    "@context", "@graph", "@id", "@type", "@value", "@list", "@set", "name", "headline", "text", "articleBody", "url",
    "mainEntity", "mainEntityOfPage", "author", "publisher", "itemListElement", "item", "offers", "price", "step",
    "datePublished", "dateModified", "metadata", "id", "section", "canonical", "updated_at", "semantic_payload",
    "keywords",
    "Article", "Person", "WebPage", "ItemList", "Organization", "Recipe", "https://schema.org/Article", "schema:Offer",
    "https://schema.org", ADDRESS, "#me", "_:b0", "#a", "#b", "2026-04-01", "2026-04-01T10:00:00Z", "http://[::1",
    "12.5",
)  # fmt: skip


def linked_data(folder: Path) -> Parser:
    """Objects of a text, as a file and as scripts of a page, down to what filters are asked."""
    file = File(folder / "a.json", "docs", "a.json")

    def read(content: bytes) -> None:
        try:
            value = value_of(content, TERMS)
        except ValueError:
            with suppress(InvalidDocument):  # text that is not JSON may still be found in a page
                _scripts(content)
            return
        found = [item for _, item in jsonld.find_documents(value)]
        nodes = [item for item in found if isinstance(item, dict)]
        jsonld.find_main_object(nodes, [ADDRESS])
        for node in nodes:
            orjson.dumps(node)
            with suppress(InvalidDocument):
                to_row(node)
            list(flatten_object(node))
            list(flatten_member("m", node))
        if type(value) is dict:
            _found(read_json_file, file, orjson.dumps([value]))
            _found(read_json_lines, file, orjson.dumps(value))
        _scripts(orjson.dumps(value))

    graph = {
        "@context": "https://schema.org",
        "@graph": [
            {"@type": "Article", "@id": ADDRESS, "headline": "A", "author": {"@id": "#me"}, "text": "words"},
            {"@type": "Person", "@id": "#me", "name": "Ann", "knows": {"@id": "#you"}},
            {"@id": "#you", "name": "Ben", "knows": [{"@id": "#me"}]},
        ],
    }
    recipe = {"@type": ["Recipe"], "name": {"@value": "R"}, "step": [{"text": "one"}], "offers": {"price": "12.5"}}
    seeds = [*map(orjson.dumps, (graph, recipe, [graph, recipe], {"@graph": {"@graph": [graph]}}))]
    seeds += [spelled(bytes([kind, 3, 98, 1, 67, 0, 2, 20, 2, 50])) for kind in (1, 3, 34, 66, 68)]
    return Parser(read, [*seeds, b"<!-- {'@type': 'Article'} -->", b'{"@type":"Article","name":"a\nb"};'], TERMS)


def _scripts(content: bytes) -> None:
    """The same text as a script of a page."""
    script = content.decode("utf-8", "replace").replace("</", "<\\/")
    tree = LexborHTMLParser(f'<script type="application/ld+json">{script}</script>')
    for found in html_parser._find_objects(tree):
        orjson.dumps(found)


def _found(reader: Callable[[File, VectorRules], Iterator[Item]], file: File, content: bytes) -> None:
    """Every document of a file, or why there is none."""
    file.path.write_bytes(content)
    try:
        for each in reader(file, RULES):
            if isinstance(each, Rejected):
                one_line(InvalidDocument(each.reason))
            elif isinstance(each, tuple):
                sound(each[1])
    except InvalidDocument as error:
        one_line(error)


# -- files ---------------------------------------------------------------------------------------------------------


def rows(folder: Path) -> Parser:
    """Tables, lines of JSON, JSON texts, Markdown with front matter: the first byte says which."""
    readers = (read_csv, read_json_lines, read_json_file, read_markdown)
    files = [File(folder / f"a{number}", "docs", "a.x") for number in range(len(readers))]

    def read(content: bytes) -> None:
        kind = (content[0] if content else 0) % len(readers)
        _found(readers[kind], files[kind], content[1:])

    seeds = [
        b'\x00id,title,text,n\n1,"a ""b""",some words,7\n2,c,"over\ntwo lines",1e400\n',
        b"\x00text;metadata;day\nwords;{\"a\": [1, true]};2026-01-01\n\xff\xfe;;\n",
        b'\x01{"id":"a","text":"words","metadata":{"n":1}}\n{"@type":"Article","text":"w"}\n\nnull\n',
        b'\x01https://example.com/a\t{"@type":"Article","text":"w"}\nhttps://example.com/b\t[{"@graph":[]}]\n',
        b'\x02[{"id":"a","text":"words"},{"id":"b"}]', b'\x02{"@graph":[{"@type":"Article","text":"w"}]}',
        b"\x03---\ntitle: A\ndate: 2026-04-01\ntags: &a [x, *a]\nlang: no\n---\n# A\n\nwords\n\nB\n===\n",
        b"\x03---\n? {a: 1}\n: !!binary aGk=\nupdated_at: 0001-01-01\nid: 7\n...\n```\n# no\n```\n",
    ]  # fmt: skip
    words = (
        "id",
        "title",
        "text",
        "url",
        "updated_at",
        "section",
        "metadata",
        "vectors",
        "!!python/object",
        "<<: *a",
        "---",
    )
    return Parser(read, seeds, words)


def pages(folder: Path) -> Parser:
    """HTML, down to the document that is made of it."""
    file = File(folder / "a.html", "docs", "a.html", url=ADDRESS)

    def read(content: bytes) -> None:
        try:
            found = html_parser.parse(content, {"url": ADDRESS})
            sound(page_to_document(check_answer(orjson.loads(orjson.dumps(found))), file))
        except InvalidDocument as error:
            one_line(error)

    seeds = [
        b"<!doctype html><html lang=en><head><meta charset=utf-8><title>T</title><link rel=canonical href=/x>"
        b'<script type="application/ld+json">{"@type":"Article","headline":"H","url":"https://example.com/x"}</script>'
        b"</head><body><h1>A</h1><p>"
        + b"some words of a page " * 12
        + b"</p><ul><li>a<li>b</ul><table><tr><td>c</table>",
        b'<?xml version="1.0" encoding="iso-8859-1"?><html><meta property="og:url" content="//e.com"><pre>a\xe9</pre>',
        b"<svg><title>no</title></svg><p><b><i></p><template><p>x</template><textarea></p>" + b"<div>" * 40,
    ]
    words = ("<p>", "</p>", "<h2>", "<table>", "<script type='application/ld+json'>", "</script>",
             "<meta charset=utf-7>",
             "<base href='http://[::1'>", "<link rel=canonical href=", "&#0;", "&#xd800;", "<!--", "<![CDATA[",
             "<select>")  # fmt: skip
    return Parser(read, seeds, words)


def xml_lists(folder: Path) -> Parser:
    """Feeds and sitemaps, as the child of the sandbox reads them."""

    def read(content: bytes) -> None:
        sniff_xml(content)
        for parse in (sitemap.parse, feed.parse):
            try:
                orjson.dumps(parse(content, {"url": ADDRESS}))
            except InvalidDocument as error:
                one_line(error)
        with suppress(InvalidDocument):
            sitemap.read_sitemap(sitemap.parse(content, {}))

    seeds = [
        b'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>https://e.com/a'
        b"</loc><lastmod>2026-04-01</lastmod></url></urlset>",
        b"<sitemapindex><sitemap><loc>https://e.com/s.xml</loc></sitemap></sitemapindex>",
        b'<rss version="2.0"><channel><title>F</title><item><title>a</title><link>https://e.com/1</link>'
        b"<pubDate>Wed, 01 Apr 2026 10:00:00 GMT</pubDate>"
        b"<description>&lt;p&gt;words&lt;/p&gt;</description></item></channel></rss>",
        b'<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>urn:1</id><content type="html">w</content>'
        b"<updated>2026-04-01T10:00:00Z</updated></entry></feed>",
        b'<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><rss><channel>&b;</channel></rss>',
    ]
    words = ("<!ENTITY a SYSTEM 'file:///etc/passwd'>", "<!DOCTYPE r [", "]>", "&a;", "<![CDATA[", "]]>", "<item>",
             "<entry>",
             "<url>", "<loc>", "xmlns:a=", "<georss:point>", "<media:content>", "<itunes:image",
             "<dc:date>")  # fmt: skip
    return Parser(read, seeds, words)


# -- header fields and addresses -------------------------------------------------------------------------------------


def fields(folder: Path) -> Parser:
    """Header fields that are read by hand, and URLs of sources; parts are separated by zero bytes."""
    addresses = ClientAddresses(["10.0.0.0/8", "::1", "unix"])

    def read(content: bytes) -> None:
        parts = [part.decode("latin-1") for part in content.split(b"\0", 3)]
        name, value, other = (*parts, "", "", "")[:3]
        assert 0.0 <= quality(value, "application/json") <= 1.0
        assert 0.0 <= exact_quality(value, "application/json") <= 1.0
        assert len(parse_content_type(value)) == 2
        http_date(value)
        headers = [(b"if-none-match", value.encode("latin-1")), (b"if-modified-since", other.encode("latin-1"))]
        for some in (headers, headers[1:]):
            scope: dict[str, Any] = {"type": "http", "method": "GET", "headers": some}
            assert not_modified(Request(scope), '"abc"', 1_700_000_000.0) in (True, False)
        forwarded = [(b"x-forwarded-for", part.encode("latin-1")) for part in (value, other)]
        called = addresses.of({"client": (name or "10.0.0.1", 1), "headers": forwarded})
        assert len(called) <= 64, called
        _url(content.decode("utf-8", "replace"))

    def _url(text: str) -> None:
        is_url(text)
        one_line(FetchFailed(display_url(text)))
        try:
            url = read_url(text)
        except FetchFailed as error:
            one_line(error)
            return
        assert read_url(str(url)) == url, f"{text!r} is {url}, and read again another"
        assert str(url).isascii() and not set(str(url)) & set(" \r\n\t\\\x7f")
        with suppress(FetchFailed):
            url.join(text[::-1])

    seeds = [
        b"10.0.0.1\0application/json;q=0.5, */*;q=0\0Wed, 01 Apr 2026 10:00:00 GMT",
        b'\0W/"abc", "x"\x00203.0.113.7:1234, [2001:db8::7]:80, 10.0.0.2', b"::1%eth0\x00::ffff:10.1.2.3\x00fe80::1%1",
        b"https://b\xc3\xbccher.de:8080/a%2f?q=\xc3\xa9#f", b"http://[::1]:80/", b"http://0x7f.1/", b"//user:pw@host/",
    ]  # fmt: skip
    words = (
        "application/aidre+json",
        "text/html;charset=",
        "q=0.001",
        "2026-04-01T10:00:00Z",
        "http://",
        "https://",
        "@",
        "xn--",
    )
    return Parser(read, seeds, words)


READERS: dict[str, Make] = {
    "jsonld": linked_data,
    "rows": rows,
    "page": pages,
    "feed": xml_lists,
    "fields": fields,
}
