"""The parsers of documents in markup and of office programs, each as a function of bytes for fuzzers; see parsers.py.

Archives are made here around what a fuzzer gives: mutated archives would hardly ever be opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats import feed
from aidre.ingest.formats.markup import asciidoc, code, mdx, notebook, org, rst
from aidre.ingest.formats.office import eml, epub, odf, pptx, rtf, zip_child
from aidre.ingest.formats.scans import rasters
from aidre.ingest.records.file import File
from aidre.ingest.records.source_items import Rejected
from aidre.ingest.sandbox.result import check_answer
from tests.hostile.parsing import Make, Parser, one_line
from tests.hostile.readers import RULES, sound
from tests.support.documents import repacked
from tests.support.office import archive, odt, pptx as presentation, shape

Parse = Callable[[bytes, Mapping[str, Any]], dict[str, Any]]


def _checked(parse: Parse, content: bytes, file: File, **options: Any) -> None:
    """The document of a text, or why there is none; deep nesting may be a fault of the file."""
    try:
        answer = parse(content, options)
        sound(check_answer(orjson.loads(orjson.dumps(answer))).document(file))
    except InvalidDocument as error:
        one_line(error)
    except RecursionError:
        pass  # the child of the sandbox answers so, and is not used again


def markup(folder: Path) -> Parser:
    """reStructuredText, AsciiDoc, Org, MDX, notebooks and code: the first byte says which."""
    file = File(folder / "a.x", "docs", "a.x")
    suffixes = (".py", ".js", ".go", ".c")

    def read(content: bytes) -> None:
        kind, rest = (content[0] if content else 0) % 6, content[1:]
        if kind < 3:
            _checked((rst.parse, asciidoc.parse, org.parse)[kind], rest, file)
        elif kind == 3:
            mdx.strip_mdx(rest.decode("utf-8", "replace"))
        elif kind == 4:
            file.path.write_bytes(rest)
            try:
                for each in notebook.read_notebook(file, RULES):
                    if isinstance(each, tuple):
                        sound(each[1])
            except InvalidDocument as error:
                one_line(error)
        else:
            _checked(code.parse, rest, file, suffix=suffixes[len(rest) % len(suffixes)])

    seeds = [
        b"\x00T\n=\n\n:Date: 2024-01-01\n\n.. note:: a *b*\n\n.. list-table::\n\n   * - a\n     - b\n\n"
        b":ref:`x <y>` |s|\n",
        b"\x00+---+---+\n| a | b |\n+===+===+\n| 1 |   |\n+---+---+\n\n.. role:: r(code)\n\n:r:`a`\n\n.. include:: x\n",
        b"\x01= T\nA B <a@b.c>\n:a: {b}\n\n[NOTE]\n====\n* x\n+\n----\nc <1>\n----\n====\n\n|===\n|a |b\n2+|c\n|===\n",
        b"\x01ifdef::a[]\nx::\n  y\nendif::[]\n<<a,b>> *b* `c` link:x[y] footnote:[z] (((i))) +++p+++\n",
        b"\x02#+TITLE: t\n* TODO [#A] h :x:\n:P:\n:END:\n| a | b |\n|--|\n#+begin_src x\ny\n#+end_src\n"
        b"- a :: [[b][c]]\n",
        b"\x03import A from 'a'\nexport const b = {\n\n}\n\n<A t='x' {...b}>c {d}</A> $x$ `y` {/* z */}\n",
        b'\x04{"cells":[{"cell_type":"code","source":["a"],"outputs":[{"data":{"text/plain":"b"}}]}],"metadata":{}}',
        b'\x05# c\n@d\nclass A:\n  """x"""\n  def f(self): pass\nfunction g(a) {\n}\n',
    ]
    words = (".. ", "::\n\n   ", "|===\n", "====\n", "[source]\n", "ifdef::a[]\n", "#+begin_", ":END:", "<A b={", "/>",
             "{#", "```\n", ":role:`", "|s|", "+---+\n", "\n~~~\n", "include::")  # fmt: skip
    return Parser(read, seeds, words)


def office(folder: Path) -> Parser:
    """Presentations, OpenDocument texts, books, messages and RTF: the first byte says which."""
    file = File(folder / "a.x", "docs", "a.x")
    slides, text = presentation([shape("x", "title")]), odt("<text:p>x</text:p>")

    def read(content: bytes) -> None:
        kind, rest = (content[0] if content else 0) % 7, content[1:]
        if kind == 0:
            _checked(pptx.parse, repacked(slides, {"ppt/slides/slide0.xml": rest}), file)
        elif kind == 1:
            _checked(odf.parse, repacked(text, {"content.xml": rest}), file)
        elif kind == 2:
            book, _, page = rest.partition(b"\0")
            parts = {"META-INF/container.xml": b'<c><rootfile full-path="b"/></c>', "b": book, "p": page}
            _checked(epub.parse, archive(parts), file)
        elif kind < 5:
            _checked((eml.parse, rtf.parse)[kind - 3], rest, file)
        elif kind == 5:
            _checked(lambda found, _: {"text": str(feed.parse_json_feed(found, {}))}, rest, file)
        else:
            file.path.write_bytes(rest)
            try:
                with file.path.open("rb") as opened:
                    list(zip_child.read_members(b"", {"suffixes": [".md"], "descriptor": opened.fileno()}))
            except InvalidDocument as error:
                one_line(error)

    slide = b'<p:sld xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:a="http://schemas.'
    slide += (
        b'openxmlformats.org/drawingml/2006/main"><p:cSld><p:spTree><p:sp><a:p><a:r><a:t>x</a:t></a:r></a:p></p:sp>'
    )
    slide += (
        b"<p:graphicFrame><a:tbl><a:tr><a:tc vMerge='1'/></a:tr></a:tbl></p:graphicFrame></p:spTree></p:cSld></p:sld>"
    )
    body = b'<o:d xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:t="urn:oasis:names:tc:opendocument:'
    body += b'xmlns:text:1.0"><o:body><o:text><t:h t:outline-level="1">a</t:h><t:p>b<t:s/><t:note/>c</t:p></o:text>'
    body += b"</o:body></o:d>"
    book = b'<package><manifest><item id="a" href="p" media-type="text/html"/></manifest>'
    book += b'<spine><itemref idref="a"/></spine>'
    seeds = [
        b"\x00" + slide, b"\x01" + body, b"\x02" + book + b"</package>\0<h1>a</h1><table><tr><td>b<td>c</table>",
        b"\x03Subject: =?utf-8?q?a?=\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--b\n"
        b"Content-Type: text/html; charset=x\n\n<p>y\n--b--\n",
        b"\x04{\\rtf1{\\fonttbl{\\f0\\fcharset204 A;}}{\\stylesheet{\\s1 heading 1;}}\\s1 a\\par\\trowd\\intbl "
        b"b\\cell\\row \\u8364?\\'e4\\bin2 ab}",
        b'\x05{"version":"https://jsonfeed.org/version/1","items":[{"id":1,"content_html":"<p>x","tags":["a"]}]}',
        b"\x06" + archive({"a.md": "x", "b/c.md": "y" * 100}),
    ]  # fmt: skip
    words = ("<a:tbl>", "</a:tc>", "<t:list>", "t:number-columns-repeated='9'", "<itemref idref='a'/>", "{\\*\\",
             "\\par ", "\\cell ", "\\uc9", "message/rfc822", "format=flowed", "--b\n", "content_text",
             "PK\x03\x04")  # fmt: skip
    return Parser(read, seeds, words)


def images(folder: Path) -> Parser:
    """PNG, JPEG, TIFF and WebP for OCR. Pillow raises any exception on broken files; what comes is an image."""
    from PIL import Image

    def read(content: bytes) -> None:
        try:
            for image in islice(rasters.decode_images(content, {}), 8):
                head, _, pixels = image.partition(b"\n")
                width, height = map(int, head.split()[1:3])
                assert len(pixels) == width * height <= rasters.MAX_PIXELS, head
        except InvalidDocument as error:
            one_line(error)
        except AssertionError:
            raise
        except Exception:
            pass

    seeds = []
    for kind, mode in (
        ("PNG", "RGBA"),
        ("JPEG", "RGB"),
        ("TIFF", "1"),
        ("WEBP", "RGB"),
        ("PNG", "P"),
        ("TIFF", "I;16"),
    ):
        written = BytesIO()
        Image.new(mode, (9, 7)).save(written, kind)
        seeds.append(written.getvalue())
    return Parser(read, seeds, ("IHDR", "IDAT", "tRNS", "acTL", "eXIf", "II*\0", "MM\0*", "Exif\0\0", "VP8X", "ALPH"))


def members(folder: Path) -> Parser:
    """Kept apart from `office`: what an archive holds, as documents."""
    from aidre.ingest.sources.readers import read_file

    file = File(folder / "a.zip", "docs", "a.zip")

    def read(content: bytes) -> None:
        file.path.write_bytes(content)
        for each in read_file(file, RULES):
            if isinstance(each, Rejected):
                one_line(InvalidDocument(each.reason))
            elif isinstance(each, tuple):
                sound(each[1])

    return Parser(read, [archive({"a.txt": "x"}), archive({"a.csv": "a,b\n1,2\n", "b/c.txt": "y"})])


DOCUMENTS: dict[str, Make] = {"markup": markup, "office": office, "archive": members, "images": images}
