"""How the time of every reader grows with its input: a table of formats, and of shapes that such files may have.

The parsers run in this process, so that their processor time can be taken, without what the machine does meanwhile.
A format is one line in `SHAPES`, a shape one function from a size to the content of a file.
"""

from __future__ import annotations

import io
import json
import math
import random
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import orjson

from aidre.ingest.formats.pages.bounds import MAX_ATTRIBUTES
from aidre.ingest.records.file import File
from aidre.ingest.records.items import Rejected
from aidre.ingest.records.vectors import VectorRules
from aidre.ingest.sandbox.child import KINDS, Parse, _load
from aidre.ingest.sandbox.parent import SHARED, TABLES
from aidre.ingest.sources.readers import READERS, read_file
from tests.hostile.report import Report

Make = Callable[[int], str | bytes]

SIZES = (1_000, 10_000, 100_000)
MOST_EXPONENT = 1.2
NOISE_SECONDS = 0.25
"""A time below this says nothing of growth."""
GIVEN_UP_SECONDS = 6.0
"""After a size that takes so long the next one is not tried."""


def repeated(piece: str, before: str = "", after: str = "") -> Make:
    """The piece as often as the size says; `%d` in it is the number."""
    if "%d" in piece:
        return lambda size: before + "".join([piece % number for number in range(size)]) + after
    return lambda size: before + piece * size + after


def nested(opening: str, closing: str, inner: str = "x") -> Make:
    return lambda size: opening * size + inner + closing * size


def zipped(path: str, make: Make, others: Mapping[str, str]) -> Make:
    """An archive whose member `path` grows."""

    def archive(size: int) -> bytes:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as made:
            for name, text in {**others, path: make(size)}.items():
                made.writestr(name, text)
        return content.getvalue()

    return archive


TEXT = {
    "one word": repeated("x"),
    "words": repeated("word "),
    "lines": repeated("a line of words\n"),
    "blank lines": repeated("\n"),
    "blanks": repeated(" ", "a", "b"),
    "punctuation": repeated("-"),
    "no spaces": repeated("漢字"),
    "marks": repeated("e\u0301"),
    "underlines": repeated("Title\n=====\n"),
    "roles": repeated(":a:`"),
    "pages": repeated("page\f"),
}
MARKDOWN = {
    **TEXT,
    "headings": repeated("# Heading %d\n\ntext\n\n"),
    "emphasis": repeated("*a **b "),
    "brackets": repeated("["),
    "images": repeated("!["),
    "links": repeated("[a](b"),
    "references": repeated("[a%d]: /x\n"),
    "backticks": repeated("`"),
    "fences": repeated("```\n"),
    "quotes": repeated(">"),
    "lists": repeated("- item\n"),
    "nested lists": lambda size: "".join("  " * (number % 500) + "- x\n" for number in range(size)),
    "tables": repeated("| a | b |\n", "| a | b |\n|---|---|\n"),
    "wide table": lambda size: "|" + "a|" * size + "\n|" + "-|" * size + "\n",
    "tags": repeated("<b>"),
    "open tags": repeated("<a "),
    "comments": repeated("<!--"),
    "entities": repeated("&amp;"),
    "front matter": repeated("key%d: value\n", "---\n", "---\ntext\n"),
    "open front matter": repeated("key%d: value\n", "---\n"),
    "html table": repeated("<tr><td>a<td>b", "<table>", "</table>"),
    "shortcodes": repeated("{{< a "),
    "directives": repeated("::: note\n"),
    "attributes": repeated("{: .a"),
    "braces": repeated("{"),
    "math": repeated("$a"),
}
TAG_OF_MANY = "<p" + "".join(f" a{number}" for number in range(MAX_ATTRIBUTES))
HTML = {
    "attributes": repeated(" a%d=1", "<p", ">text</p>"),
    "attributes of many": lambda size: (TAG_OF_MANY + ">x") * (size // MAX_ATTRIBUTES),
    "equal attributes": repeated(" a=1", "<p", ">text</p>"),
    "quoted attributes": repeated(" a%d='>'", "<p", ">text</p>"),
    "joined attributes": repeated("a%d=''", "<p ", ">text</p>"),
    "slashed attributes": repeated("/a%d", "<p", ">text</p>"),
    "attribute name": repeated("a", "<p ", "=1>text</p>"),
    "attribute value": repeated("a", "<p title='", "'>text</p>"),
    "open tag": repeated("<p "),
    "open quote": repeated("<p a=\""),
    "classes": repeated("c%d ", "<p class='", "'>text</p>"),
    "paragraphs": repeated("<p>A paragraph of some words.</p>\n", "<body>", "</body>"),
    "unclosed paragraphs": repeated("<p>words"),
    "nested": nested("<div>", "</div>"),
    "nested bold": nested("<b>", "</b>"),
    "unclosed bold": repeated("<b>x"),
    "misnested": repeated("<b><i></b></i>x"),
    "formatting": repeated("<p><a><b>x"),
    "links": repeated("<a href='/%d'>link</a> "),
    "lists": repeated("<li>item", "<ul>"),
    "nested lists": nested("<ul><li>", ""),
    "table rows": repeated("<tr><td>a<td>b", "<table>", "</table>"),
    "table cells": repeated("<td>a", "<table><tr>", "</table>"),
    "spans": repeated("<tr><td rowspan=1000 colspan=1000>a", "<table>", "</table>"),
    "tables": repeated("<table><tr><td>a</table>"),
    "nested tables": nested("<table><tr><td>", ""),
    "fostered": repeated("<table>x"),
    "headings": repeated("<h2>Heading %d</h2><p>text"),
    "metas": repeated("<meta name='n%d' content='c'>"),
    "scripts": repeated("<script type='application/ld+json'>{\"@type\":\"Thing\",\"name\":\"%d\"}</script>"),
    "one script": repeated('{"@type":"Thing","name":"%d"},', "<script type='application/ld+json'>[", "{}]</script>"),
    "comments": repeated("<!-- x -->"),
    "open comments": repeated("<!--"),
    "entities": repeated("&amp;"),
    "open entities": repeated("&a"),
    "less than": repeated("<"),
    "close tags": repeated("</p>"),
    "unknown close tags": repeated("</b>"),
    "breaks": repeated("x<br>"),
    "pre": repeated("code\n", "<pre>", "</pre>"),
    "hidden": repeated("<p hidden>x</p>"),
    "styles": repeated("<p style='display:none'>x</p>"),
    "style rules": repeated(".c%d{display:none}", "<style>", "</style><p>x"),
    "ids": repeated("<p id='i%d'>x"),
    "anchors": repeated("<a href='#i%d'>x</a><p id='i%d'>".replace("%d", "1")),
    "forms": repeated("<form><input>"),
    "selects": repeated("<option>x", "<select>"),
    "groups of options": repeated("<optgroup>x<option>x", "<select>"),
    "lists of options": repeated("<select><option>x</select>"),
    "templates": repeated("<template>"),
    "frames": repeated("<frameset>"),
    "svg": nested("<svg>", "</svg>"),
    "math": nested("<math><mi>", ""),
    "articles": repeated("<article><h2>t</h2><p>words of an article</article>"),
    "navigation": repeated("<nav><a href=/>x</a></nav>"),
    "images": repeated("<img alt='picture'>"),
    "data addresses": repeated("<img src='data:image/png;base64,AAAA'>"),
    "words": repeated("word ", "<p>"),
    "one word": repeated("x", "<p>"),
}  # fmt: skip
FEED = {
    "items": repeated("<item><title>t%d</title><link>https://e.example/%d</link></item>".replace("%d</l", "1</l"),
                      "<rss version='2.0'><channel>", "</channel></rss>"),
    "html of an item": repeated("&lt;p&gt;x", "<rss version='2.0'><channel><item><title>t</title><description>",
                                "</description></item></channel></rss>"),
    "attributes of an item": repeated(" a%d=1", "<rss version='2.0'><channel><item><title>t</title><description>&lt;p",
                                      "&gt;x</description></item></channel></rss>"),
    "attributes": repeated(" a%d='1'", "<rss", "><channel/></rss>"),
    "namespaces": repeated(" xmlns:a%d='u:%d'".replace("u:%d", "u:1"), "<rss", "><channel/></rss>"),
    "nested": nested("<a>", "</a>"),
    "categories": repeated("<category>c%d</category>",
                           "<rss version='2.0'><channel><item><title>t</title>", "</item></channel></rss>"),
    "entities": repeated("&#65;", "<rss version='2.0'><channel><item><title>", "</title></item></channel></rss>"),
    "comments": repeated("<!-- c -->", "<rss version='2.0'><channel>", "</channel></rss>"),
}  # fmt: skip
MARKUP = {
    **TEXT,
    "sections": repeated("Heading %d\n==========\n\ntext\n\n"),
    "stars": repeated("*"),
    "headlines": repeated("* Heading %d\ntext\n"),
    "equals": repeated("== Heading %d\n\ntext\n\n"),
    "directives": repeated(".. note::\n\n   text\n\n"),
    "open directives": repeated(".. "),
    "blocks": repeated("----\n"),
    "begin": repeated("#+begin_src\n"),
    "drawers": repeated(":PROPERTIES:\n"),
    "attributes": repeated(":a%d: b\n"),
    "macros": repeated("link:a["),
    "references": repeated("<<a"),
    "brackets": repeated("[["),
    "backticks": repeated("`"),
    "colons": repeated(":a:"),
    "bars": repeated("|a"),
    "rows": repeated("|a |b\n", "|===\n", "|===\n"),
    "grid": repeated("+---+---+\n| a | b |\n"),
    "simple table": repeated("=== ===\na   b\n"),
    "lists": repeated("- item\n"),
    "indents": lambda size: "".join(" " * (number % 300) + "x\n" for number in range(size)),
    "substitutions": repeated("|a%d| "),
    "footnotes": repeated("[#]_ "),
    "braces": repeated("{a"),
}
CODE = {
    "functions": repeated("def f%d():\n    '''Text.'''\n"),
    "comments": repeated("# a comment\n"),
    "quotes": repeated("'"),
    "triple quotes": repeated("'''"),
    "brackets": repeated("("),
    "lines": repeated("x = 1\n"),
    "one line": repeated("x;"),
    "indents": lambda size: "".join(" " * (number % 300) + "if x:\n" for number in range(size)),
    "slashes": repeated("/*"),
    "escapes": repeated("\\"),
}
ROWS = {
    "rows": lambda size: "".join(f'{{"id": "{n}", "text": "words"}}\n' for n in range(size)),
    "members": lambda size: json.dumps({"id": "a", "text": "x", **{f"m{n}": n for n in range(size)}}),
    "list": lambda size: json.dumps({"id": "a", "text": "x", "tags": [str(n) for n in range(size)]}),
    "nested": lambda size: '{"id":"a","text":' + "[" * size + "]" * size + "}",
    "objects": lambda size: '{"a":' * size + "1" + "}" * size,
    "text": lambda size: json.dumps({"id": "a", "text": "word " * size}),
    "escapes": lambda size: '{"id":"a","text":"' + "\\u0041" * size + '"}',
    "digits": lambda size: '{"id":"a","text":"x","n":' + "9" * size + "}",
    "blanks": repeated(" ", "{", "}"),
    "open strings": repeated('"'),
    "bad rows": repeated("{x}\n"),
}
CSV = {
    "rows": repeated("%d,words\n", "id,text\n"),
    "columns": lambda size: ",".join(f"c{n}" for n in range(size)) + "\n" + ",".join("x" * size) + "\n",
    "quotes": repeated('"', "id,text\n"),
    "open quote": repeated("a,b\n", 'id,text\n1,"'),
    "cell": repeated("word ", "id,text\n1,", "\n"),
    "delimiters": repeated(";,\t|"),
    "blank lines": repeated("\n", "id,text\n"),
    "ragged": lambda size: "id,text\n" + "".join(f"{n},{'x,' * (n % 50)}\n" for n in range(size)),
}
CONTAINER = '<container><rootfiles><rootfile full-path="b.opf"/></rootfiles></container>'
W = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
W_END = "</w:body></w:document>"
DOCX_TYPES = {
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override '
    'PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.'
    'document.main+xml"/></Types>',
    "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
    'Id="r" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>',
}
DOCX_BODIES = {
    "paragraphs": repeated("<w:p><w:r><w:t>word</w:t></w:r></w:p>", W, W_END),
    "runs": repeated("<w:r><w:t>w</w:t></w:r>", W + "<w:p>", "</w:p>" + W_END),
    "rows": repeated("<w:tr><w:tc><w:p/></w:tc></w:tr>", W + "<w:tbl>", "</w:tbl>" + W_END),
    "cells": repeated("<w:tc><w:p/></w:tc>", W + "<w:tbl><w:tr>", "</w:tr></w:tbl>" + W_END),
    "attributes": repeated(" a%d='1'", W + "<w:p", "/>" + W_END),
    "tables": repeated("<w:tbl><w:tr><w:tc><w:p/></w:tc></w:tr></w:tbl>", W, W_END),
}
DOCX = {name: zipped("word/document.xml", make, DOCX_TYPES) for name, make in DOCX_BODIES.items()}
ODT_CONTENT = (
    '<o:document-content xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:b="urn:oasis:names:tc:opendocument:xmlns:table:1.0"><o:body><o:text>'
)
ODT_END = "</o:text></o:body></o:document-content>"
ODT = {
    name: zipped("content.xml", make, {"mimetype": "application/vnd.oasis.opendocument.text"})
    for name, make in {
        "paragraphs": repeated("<t:p>word</t:p>", ODT_CONTENT, ODT_END),
        "headings": repeated("<t:h>Heading %d</t:h>", ODT_CONTENT, ODT_END),
        "spaces": repeated("<t:s t:c='1000'/>", ODT_CONTENT + "<t:p>", "</t:p>" + ODT_END),
        "repeated cells": repeated("<b:table-row><b:table-cell b:number-columns-repeated='1000'/></b:table-row>",
                                   ODT_CONTENT + "<b:table>", "</b:table>" + ODT_END),
        "attributes": repeated(" a%d='1'", ODT_CONTENT + "<t:p", "/>" + ODT_END),
    }.items()
}  # fmt: skip
EPUB = {
    name: zipped("a.xhtml", make, {
        "mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER,
        "b.opf": '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.xhtml" '
                 'media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>'})
    for name, make in HTML.items() if name in {"attributes", "paragraphs", "nested", "headings", "table rows", "links"}
}  # fmt: skip
RTF = {
    "paragraphs": repeated("word\\par\n", "{\\rtf1 ", "}"),
    "groups": repeated("{a}", "{\\rtf1 ", "}"),
    "nested": nested("{\\rtf1 ", "}"),
    "open groups": repeated("{", "{\\rtf1 "),
    "controls": repeated("\\b", "{\\rtf1 ", "}"),
    "escapes": repeated("\\'e9", "{\\rtf1 ", "}"),
    "cells": repeated("a\\cell ", "{\\rtf1\\trowd ", "\\row}"),
    "rows": repeated("\\trowd a\\cell\\row ", "{\\rtf1 ", "}"),
    "unicode": repeated("\\u233?", "{\\rtf1 ", "}"),
}
EML = {
    "lines": repeated("a line\r\n", "Subject: s\r\n\r\n"),
    "headers": repeated("X-A%d: b\r\n", "Subject: s\r\n", "\r\ntext"),
    "folded": repeated(" word\r\n", "Subject: s\r\n", "\r\ntext"),
    "recipients": repeated("a%d@e.example, ", "Subject: s\r\nTo: ", "b@e.example\r\n\r\ntext"),
    "encoded words": repeated("=?utf-8?q?a?= ", "Subject: ", "\r\n\r\ntext"),
    "parts": repeated("--b\r\n\r\ntext\r\n", 'Content-Type: multipart/mixed; boundary="b"\r\n\r\n', "--b--\r\n"),
    "nested parts": lambda size: "".join(
        f'Content-Type: multipart/mixed; boundary="b{n}"\r\n\r\n--b{n}\r\n' for n in range(size)
    ),
    "parameters": repeated("; a%d=b", "Content-Type: text/plain", "\r\n\r\ntext"),
    "continuations": repeated("; a*%d=b", "Content-Type: text/plain", "\r\n\r\ntext"),
    "quoted printable": repeated("=41", "Content-Transfer-Encoding: quoted-printable\r\n\r\n"),
    "comments": repeated("(", "Subject: s\r\nFrom: ", "\r\n\r\ntext"),
    "angles": repeated("<a@b>", "Subject: s\r\nFrom: ", "\r\n\r\ntext"),
    "html": repeated("<p>x", "Content-Type: text/html\r\n\r\n"),
}
NOTEBOOK = {
    "cells": lambda size: json.dumps({"nbformat": 4, "metadata": {}, "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": f"# H{n}\ntext"} for n in range(size)]}),
    "lines": lambda size: json.dumps({"nbformat": 4, "metadata": {}, "cells": [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["x = 1\n"] * size}]}),
}  # fmt: skip
SHAPES: Mapping[str, Mapping[str, Make]] = {
    # suffix: shapes
    ".txt": TEXT,
    ".md": MARKDOWN,
    ".mdx": {**MARKDOWN, "imports": repeated("import A from 'a'\n"), "expressions": repeated("{a"),
             "components": repeated("<A>")},
    ".ipynb": NOTEBOOK,
    ".rst": MARKUP,
    ".adoc": MARKUP,
    ".org": MARKUP,
    ".html": HTML,
    ".xml": FEED,
    ".docx": DOCX,
    ".odt": ODT,
    ".epub": EPUB,
    ".rtf": RTF,
    ".eml": EML,
    ".jsonl": ROWS,
    ".json": ROWS,
    ".csv": CSV,
    ".tsv": CSV,
}  # fmt: skip
"""Not PDF, Parquet and XLSX: their libraries and limits of cells and pages bound them. Archives hold these formats."""


@dataclass(frozen=True, slots=True)
class Growth:
    """`seconds` of processor time by size, as far as it was tried; `said` is why a file was refused."""

    format: str
    shape: str
    seconds: tuple[float, ...]
    said: str

    @property
    def exponent(self) -> float | None:
        """Of the last two sizes; None below the noise."""
        if len(self.seconds) < 2 or self.seconds[-1] < NOISE_SECONDS:
            return None
        before, last = self.seconds[-2:]
        return math.log10(last / max(before, NOISE_SECONDS / 100))


@contextmanager
def parsed_here() -> Iterator[None]:
    """The parsers of the sandbox run in this process."""
    parsers: dict[str, Parse] = {}

    def parse(kind: str, content: bytes, options: Mapping[str, Any] | None = None, *, file: int | None = None) -> Any:
        if kind not in parsers:
            parsers[kind] = _load(KINDS[kind])
        given = dict(options or {}) | ({} if file is None else {"descriptor": file})
        answer = parsers[kind](content, given)
        return answer if isinstance(answer, Iterator) else orjson.loads(orjson.dumps(answer))

    with mock.patch.multiple(SHARED, parse=parse, stream=parse), mock.patch.multiple(TABLES, parse=parse, stream=parse):
        yield


def measure(folder: Path, suffix: str, shape: str, sizes: tuple[int, ...] = SIZES) -> Growth:
    make, seconds, said = SHAPES[suffix][shape], [], ""
    for size in sizes:
        content = make(size)
        path = folder / f"file{suffix}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        began = time.process_time()
        try:
            items = list(read_file(File(path, "source", path.name), VectorRules([], [])))
        except RecursionError:
            items = []
        seconds.append(time.process_time() - began)
        said = next((item.reason for item in items if isinstance(item, Rejected)), "")
        path.unlink()
        if seconds[-1] > GIVEN_UP_SECONDS:
            break
    return Growth(suffix, shape, tuple(seconds), said)


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """All shapes of all formats, or `rounds` of them."""
    cases = [(suffix, shape) for suffix, shapes in SHAPES.items() for shape in shapes]
    assert set(SHAPES) <= set(READERS)
    folder = report.place("files")
    with parsed_here():
        found = [measure(folder, *case) for case in (cases if rounds >= len(cases) else chance.sample(cases, rounds))]
    for growth in found:
        if growth.exponent is not None:
            times = ", ".join(f"{seconds:.2f}" for seconds in growth.seconds)
            report.say(f"{growth.format} {growth.shape}: {times} s, exponent {growth.exponent:.2f} {growth.said[:60]}")
    steep = [one for one in found if (one.exponent or 0.0) > MOST_EXPONENT]
    report.figure(
        "growth",
        f"{len(found)} shapes of {len(SHAPES)} formats: {len(steep)} grow faster than {MOST_EXPONENT}: "
        f"{[(one.format, one.shape) for one in steep]}",
    )
    assert not steep, steep
