"""Documents of offices that grow, for the proof `growth`: feeds, DOCX, ODT, PPTX, EPUB, RTF, EML, PDF, zip."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.hostile.shapes import HTML, MARKDOWN, TEXT, Make, archive, deep, nested, repeated, xml, zipped

_RSS = "<rss version='2.0'><channel>"
_RSS_END = "</channel></rss>"
_ITEM = f"{_RSS}<item><title>t</title><link>https://e.example/1</link>"
_ITEM_END = f"</item>{_RSS_END}"
_ATOM = "<feed xmlns='http://www.w3.org/2005/Atom'>"
FEED: dict[str, Make] = {
    **xml(_ITEM, "<description>%s</description>", "<category", _ITEM_END),
    "items": repeated("<item><title>t%d</title><link>https://e.example/%d</link></item>", _RSS, _RSS_END),
    "items of Atom": repeated("<entry><id>a%d</id><title>t</title></entry>", _ATOM, "</feed>"),
    "markup of an item": repeated("&lt;p&gt;x", f"{_ITEM}<description>", f"</description>{_ITEM_END}"),
    "attributes in an item": repeated(" a%d=1", f"{_ITEM}<description>&lt;p", f"&gt;x</description>{_ITEM_END}"),
    "attributes of the feed": repeated(" a%d='1'", "<rss", "><channel/></rss>"),
    "namespaces of the feed": repeated(" xmlns:a%d='u:%d'", "<rss", "><channel/></rss>"),
    "nested from the start": nested("<a>", "</a>"),
    "categories": repeated("<category>c%d</category>", _ITEM, _ITEM_END),
    "links of an item": repeated("<link rel='a' href='https://e.example/%d'/>", f"{_ATOM}<entry>", "</entry></feed>"),
    "authors of an item": repeated("<author><name>a%d</name></author>", f"{_ATOM}<entry>", "</entry></feed>"),
    "contents of an item": repeated("<content>x%d</content>", f"{_ATOM}<entry>", "</entry></feed>"),
    "pages of an item": repeated(
        "<content type='xhtml'><div xmlns='http://www.w3.org/1999/xhtml'><b>x</b></div></content>",
        f"{_ATOM}<entry>", "</entry></feed>"),
    "enclosures": repeated("<enclosure url='https://e.example/%d' length='1' type='a/b'/>", _ITEM, _ITEM_END),
    "titles": repeated("<title>t%d</title>", _ITEM, _ITEM_END),
    "categories of the feed": repeated("<category>c%d</category>", _RSS, _RSS_END),
    "a date": repeated("1", f"{_ITEM}<pubDate>", f"</pubDate>{_ITEM_END}"),
    "blanks of a date": repeated(" ", f"{_ITEM}<pubDate>Mon, 1", f"2</pubDate>{_ITEM_END}"),
    "ampersands": repeated("& ", f"{_ITEM}<description>", f"</description>{_ITEM_END}"),
}  # fmt: skip
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
DOCX_BODIES: dict[str, Make] = {
    **xml(W, "<w:p><w:r><w:t>%s</w:t></w:r></w:p>", "<w:p", W_END),
    "tables in tables": deep("<w:tbl><w:tr><w:tc>", "<w:p/></w:tc></w:tr></w:tbl>", 30, W, W_END),
    "merged cells": repeated("<w:tr><w:tc><w:tcPr><w:vMerge/><w:gridSpan w:val='9999'/></w:tcPr><w:p/></w:tc></w:tr>",
                             W + "<w:tbl>", "</w:tbl>" + W_END),
    "fields": repeated("<w:r><w:fldChar w:fldCharType='begin'/></w:r>", W + "<w:p>", "</w:p>" + W_END),
    "links": repeated("<w:hyperlink><w:r><w:t>a</w:t></w:r></w:hyperlink>", W + "<w:p>", "</w:p>" + W_END),
    "lists": repeated("<w:p><w:pPr><w:numPr><w:ilvl w:val='1'/><w:numId w:val='%d'/></w:numPr></w:pPr><w:r><w:t>x</w:t>"
                      "</w:r></w:p>", W, W_END),
    "headings": repeated("<w:p><w:pPr><w:outlineLvl w:val='0'/></w:pPr><w:r><w:t>h</w:t></w:r></w:p>", W, W_END),
    "breaks": repeated("<w:r><w:br/></w:r>", W + "<w:p>", "</w:p>" + W_END),
    "deleted": repeated("<w:del><w:r><w:t>w</w:t></w:r></w:del>", W + "<w:p>", "</w:p>" + W_END),
    "boxes": repeated("<w:r><w:txbxContent><w:p><w:r><w:t>w</w:t></w:r></w:p></w:txbxContent></w:r>", W + "<w:p>",
                      "</w:p>" + W_END),
    "runs": repeated("<w:r><w:t>w</w:t></w:r>", W + "<w:p>", "</w:p>" + W_END),
    "rows": repeated("<w:tr><w:tc><w:p/></w:tc></w:tr>", W + "<w:tbl>", "</w:tbl>" + W_END),
    "cells": repeated("<w:tc><w:p/></w:tc>", W + "<w:tbl><w:tr>", "</w:tr></w:tbl>" + W_END),
    "attributes": repeated(" a%d='1'", W + "<w:p", "/>" + W_END),
    "tables": repeated("<w:tbl><w:tr><w:tc><w:p/></w:tc></w:tr></w:tbl>", W, W_END),
}  # fmt: skip
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_WORDS = {"word/document.xml": W + "<w:p><w:r><w:t>x</w:t></w:r></w:p>" + W_END, **DOCX_TYPES}
DOCX: dict[str, Make] = {
    **{name: zipped("word/document.xml", make, DOCX_TYPES) for name, make in DOCX_BODIES.items()},
    "styles of others": zipped("word/styles.xml", repeated(
        "<w:style w:styleId='s%d'><w:basedOn w:val='s0'/></w:style>", f"<w:styles xmlns:w='{_WORD}'>", "</w:styles>"),
        _WORDS),
    "relations": zipped("word/_rels/document.xml.rels", repeated(
        "<Relationship Id='r%d' Type='a' Target='b%d'/>",
        "<Relationships xmlns='http://schemas.openxmlformats.org/package/2006/relationships'>", "</Relationships>"),
        _WORDS),
    "members": lambda size: archive([*_WORDS.items(), *((f"word/m{n}.xml", "<a/>") for n in range(size))]),
}  # fmt: skip
ODT_CONTENT = (
    '<o:document-content xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:b="urn:oasis:names:tc:opendocument:xmlns:table:1.0"><o:body><o:text>'
)
ODT_END = "</o:text></o:body></o:document-content>"
ODT: dict[str, Make] = {
    name: zipped("content.xml", make, {"mimetype": "application/vnd.oasis.opendocument.text"})
    for name, make in {
        **xml(ODT_CONTENT, "<t:p>%s</t:p>", "<t:p", ODT_END),
        "notes": repeated("<t:note><t:note-body><t:p>n</t:p></t:note-body></t:note>", ODT_CONTENT + "<t:p>",
                          "</t:p>" + ODT_END),
        "notes in notes": deep("<t:p><t:note><t:note-body>", "</t:note-body></t:note></t:p>", 12, ODT_CONTENT, ODT_END),
        "notes deep in notes": deep("<t:p><t:note><t:note-body>", "</t:note-body></t:note></t:p>", 60, ODT_CONTENT,
                                    ODT_END),
        "tables in tables": deep("<b:table><b:table-row><b:table-cell>",
                                 "<t:p>x</t:p></b:table-cell></b:table-row></b:table>", 60, ODT_CONTENT, ODT_END),
        "lists in lists": deep("<t:list><t:list-item>", "<t:p>x</t:p></t:list-item></t:list>", 60, ODT_CONTENT,
                               ODT_END),
        "spans": repeated("<t:span>x</t:span>", ODT_CONTENT + "<t:p>", "</t:p>" + ODT_END),
        "rows": repeated("<b:table-row><b:table-cell><t:p>a</t:p></b:table-cell></b:table-row>",
                         ODT_CONTENT + "<b:table>", "</b:table>" + ODT_END),
        "repeated rows": repeated("<b:table-row b:number-rows-repeated='1000'><b:table-cell><t:p>a</t:p></b:table-cell>"
                                  "</b:table-row>", ODT_CONTENT + "<b:table>", "</b:table>" + ODT_END),
        "headings": repeated("<t:h>Heading %d</t:h>", ODT_CONTENT, ODT_END),
        "spaces": repeated("<t:s t:c='1000'/>", ODT_CONTENT + "<t:p>", "</t:p>" + ODT_END),
        "repeated cells": repeated("<b:table-row><b:table-cell b:number-columns-repeated='1000'/></b:table-row>",
                                   ODT_CONTENT + "<b:table>", "</b:table>" + ODT_END),
        "attributes": repeated(" a%d='1'", ODT_CONTENT + "<t:p", "/>" + ODT_END),
    }.items()
}  # fmt: skip
_PACKAGE = (
    '<package xmlns="http://www.idpf.org/2007/opf"><manifest><item id="a" href="a.xhtml" '
    'media-type="application/xhtml+xml"/>%s</manifest><spine><itemref idref="a"/>%s</spine></package>'
)
_PAGE = '<html xmlns="http://www.w3.org/1999/xhtml"><body><p>x</p></body></html>'
_BOOK = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER}
EPUB: dict[str, Make] = {
    **{name: zipped("a.xhtml", make, {**_BOOK, "b.opf": _PACKAGE % ("", "")}) for name, make in HTML.items()},
    "items": zipped("b.opf", lambda size: _PACKAGE % (
        "".join(f'<item id="i{n}" href="a.xhtml" media-type="application/xhtml+xml"/>' for n in range(size)), ""),
        {**_BOOK, "a.xhtml": _PAGE}),
    "one page again and again": zipped("b.opf", lambda size: _PACKAGE % ("", '<itemref idref="a"/>' * size),
                                       {**_BOOK, "a.xhtml": _PAGE}),
    "pages": lambda size: archive([
        *_BOOK.items(), ("a.xhtml", _PAGE),
        ("b.opf", _PACKAGE % (
            "".join(f'<item id="i{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(size)),
            "".join(f'<itemref idref="i{n}"/>' for n in range(size)))),
        *((f"{n}.xhtml", _PAGE) for n in range(size))]),
}  # fmt: skip
_A = "http://schemas.openxmlformats.org/drawingml/2006/main"
_P = "http://schemas.openxmlformats.org/presentationml/2006/main"
_R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONS = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">%s</Relationships>'
_DECK = {
    "_rels/.rels": _RELATIONS % f'<Relationship Id="r1" Type="{_R}/officeDocument" Target="ppt/p.xml"/>',
    "ppt/p.xml": f'<p:presentation xmlns:p="{_P}" xmlns:r="{_R}"><p:sldIdLst><p:sldId r:id="r1"/></p:sldIdLst>'
    "</p:presentation>",
    "ppt/_rels/p.xml.rels": _RELATIONS % f'<Relationship Id="r1" Type="{_R}/slide" Target="s.xml"/>',
}
_SLIDE = f'<p:sld xmlns:p="{_P}" xmlns:a="{_A}" xmlns:r="{_R}"><p:cSld><p:spTree>'
_SLIDE_END = "</p:spTree></p:cSld></p:sld>"
_SHAPE = "<p:sp><p:txBody><a:p><a:r><a:t>%s</a:t></a:r></a:p></p:txBody></p:sp>"
_TABLE = f"{_SLIDE}<p:graphicFrame><a:graphic><a:graphicData><a:tbl>"
_TABLE_END = f"</a:tbl></a:graphicData></a:graphic></p:graphicFrame>{_SLIDE_END}"
_FULL_DECK = {**_DECK, "ppt/s.xml": _SLIDE + _SHAPE % "x" + _SLIDE_END}
PPTX: dict[str, Make] = {
    **{
        name: zipped("ppt/s.xml", make, _DECK)
        for name, make in {
            **xml(_SLIDE, _SHAPE, "<p:sp", _SLIDE_END),
            "paragraphs of a shape": repeated("<a:p><a:r><a:t>w</a:t></a:r></a:p>", f"{_SLIDE}<p:sp><p:txBody>",
                                              f"</p:txBody></p:sp>{_SLIDE_END}"),
            "runs": repeated("<a:r><a:t>w</a:t></a:r>", f"{_SLIDE}<p:sp><p:txBody><a:p>",
                             f"</a:p></p:txBody></p:sp>{_SLIDE_END}"),
            "groups in groups": deep("<p:grpSp>", "</p:grpSp>", 80, _SLIDE, _SLIDE_END),
            "titles": repeated("<p:sp><p:nvSpPr><p:nvPr><p:ph type='title'/></p:nvPr></p:nvSpPr><p:txBody><a:p/>"
                               "</p:txBody></p:sp>", _SLIDE, _SLIDE_END),
            "rows": repeated("<a:tr><a:tc><a:txBody><a:p/></a:txBody></a:tc></a:tr>", _TABLE, _TABLE_END),
            "cells": repeated("<a:tc><a:txBody><a:p/></a:txBody></a:tc>", f"{_TABLE}<a:tr>", f"</a:tr>{_TABLE_END}"),
            "wide cells": repeated("<a:tr><a:tc gridSpan='9999' rowSpan='9999'><a:txBody><a:p/></a:txBody></a:tc>"
                                   "</a:tr>", _TABLE, _TABLE_END),
            "breaks": repeated("<a:br/>", f"{_SLIDE}<p:sp><p:txBody><a:p>", f"</a:p></p:txBody></p:sp>{_SLIDE_END}"),
        }.items()
    },
    "one slide again and again": zipped("ppt/p.xml", repeated(
        '<p:sldId r:id="r1"/>', f'<p:presentation xmlns:p="{_P}" xmlns:r="{_R}"><p:sldIdLst>',
        "</p:sldIdLst></p:presentation>"), _FULL_DECK),
    "relations": zipped("ppt/_rels/p.xml.rels", repeated(
        f'<Relationship Id="r%d" Type="{_R}/slide" Target="s.xml"/>', _RELATIONS.partition("%s")[0],
        "</Relationships>"),
        _FULL_DECK),
    "notes of a slide": zipped("ppt/_rels/s.xml.rels", repeated(
        f'<Relationship Id="r%d" Type="{_R}/notesSlide" Target="n.xml"/>', _RELATIONS.partition("%s")[0],
        "</Relationships>"), {**_FULL_DECK, "ppt/n.xml": _SLIDE + _SHAPE % "x" + _SLIDE_END}),
    "members": lambda size: archive([*_FULL_DECK.items(), *((f"m{n}.xml", "<a/>") for n in range(size))]),
}  # fmt: skip


def _rtf(make: Make) -> Make:
    return lambda size: "{\\rtf1 " + str(make(size)) + "}"


RTF: dict[str, Make] = {
    **{name: _rtf(make) for name, make in TEXT.items()},
    "paragraphs": repeated("word\\par\n", "{\\rtf1 ", "}"),
    "groups": repeated("{a}", "{\\rtf1 ", "}"),
    "nested": nested("{\\rtf1 ", "}"),
    "open groups": repeated("{", "{\\rtf1 "),
    "controls": repeated("\\b", "{\\rtf1 ", "}"),
    "escapes": repeated("\\'e9", "{\\rtf1 ", "}"),
    "cells": repeated("a\\cell ", "{\\rtf1\\trowd ", "\\row}"),
    "rows": repeated("\\trowd a\\cell\\row ", "{\\rtf1 ", "}"),
    "unicode": repeated("\\u233?", "{\\rtf1 ", "}"),
    "fonts": repeated("{\\f%d Font;}", "{\\rtf1{\\fonttbl", "}x}"),
    "styles": repeated("{\\s%d Style;}", "{\\rtf1{\\stylesheet", "}x}"),
    "fields": repeated("{\\field{\\*\\fldinst a}{\\fldrslt b}}", "{\\rtf1 ", "}"),
    "bytes": repeated("\\bin1 x", "{\\rtf1 ", "}"),
    "many bytes": repeated("\\bin99999999 ", "{\\rtf1 ", "}"),
    "numbers": repeated("9", "{\\rtf1\\f", " x}"),
    "pictures": repeated("{\\pict 00}", "{\\rtf1 ", "}"),
    "tables in tables": repeated("\\itap%d\\nestcell", "{\\rtf1 ", "}"),
}


def _mail(make: Make) -> Make:
    return lambda size: "Subject: s\r\n\r\n" + str(make(size))


EML: dict[str, Make] = {
    **{name: _mail(make) for name, make in TEXT.items()},
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
    "boundaries": repeated("--b\r\n", 'Content-Type: multipart/mixed; boundary="b"\r\n\r\n'),
    "nested of one boundary": repeated(
        '--b\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n',
        'Content-Type: multipart/mixed; boundary="b"\r\n\r\n',
    ),
    "open boundary": repeated("--x\r\n", 'Content-Type: multipart/mixed; boundary="b"\r\n\r\n'),
    "alternatives": repeated(
        "--b\r\nContent-Type: text/html\r\n\r\nx\r\n", 'Content-Type: multipart/alternative; boundary="b"\r\n\r\n'
    ),
    "messages in messages": repeated("Content-Type: message/rfc822\r\n\r\n"),
    "attachments": repeated(
        '--b\r\nContent-Disposition: attachment; filename="f%d"\r\n\r\nx\r\n',
        'Content-Type: multipart/mixed; boundary="b"\r\n\r\n',
    ),
    "headers of one part": repeated(
        "X-A%d: b\r\n", 'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\n', "\r\ntext"
    ),
    "equal headers": repeated("To: a\r\n", "Subject: s\r\n", "\r\ntext"),
    "one long header": repeated("x", "Subject: s\r\nX-A: ", "\r\n\r\ntext"),
    "quoted parameters": repeated('; a%d="b;c"', "Content-Type: text/plain", "\r\n\r\ntext"),
    "open quote of a parameter": repeated(";", 'Content-Type: text/plain; a="', "\r\n\r\ntext"),
    "escaped quotes": repeated('\\"', 'Content-Type: text/plain; a="', "\r\n\r\ntext"),
    "encoded file name": repeated("; filename*%d=b", "Content-Disposition: attachment", "\r\n\r\ntext"),
    "base64": repeated("QUJD\r\n", "Content-Transfer-Encoding: base64\r\n\r\n"),
    "broken base64": repeated("=A", "Content-Transfer-Encoding: base64\r\n\r\n"),
    "uuencoded": repeated("#86)C\r\n", "Content-Transfer-Encoding: x-uuencode\r\n\r\nbegin 644 a\r\n"),
    "flowed": repeated("a \r\n", "Content-Type: text/plain; format=flowed\r\n\r\n"),
    "no headers": repeated("a\r\n"),
    "headers without an end": repeated("X-A%d: b\r\n"),
    "unfinished headers": repeated("X-A%d\r\n", "Subject: s\r\n"),
    "from lines": repeated("From a\r\n", "Subject: s\r\n"),
}


def _notebook(cells: Callable[[int], list[dict[str, Any]]], **metadata: Any) -> Make:
    return lambda size: json.dumps({"nbformat": 4, "metadata": metadata, "cells": cells(size)})


def _markdown_cell(make: Make) -> Make:
    return _notebook(lambda size: [{"cell_type": "markdown", "metadata": {}, "source": str(make(size))}])


NOTEBOOK: dict[str, Make] = {
    **{f"{name} (Markdown)": _markdown_cell(make) for name, make in MARKDOWN.items()},
    "outputs": _notebook(lambda size: [{"cell_type": "code", "metadata": {}, "source": "x", "outputs": [
        {"output_type": "stream", "text": ["a\n"]}] * size}]),
    "lines of an output": _notebook(lambda size: [{"cell_type": "code", "metadata": {}, "source": "x", "outputs": [
        {"output_type": "stream", "text": ["a\n"] * size}]}]),
    "pages of outputs": _notebook(lambda size: [{"cell_type": "code", "metadata": {}, "source": "x", "outputs": [
        {"output_type": "display_data", "data": {"text/html": "<b>x"}}] * size}]),
    "raw cells": _notebook(lambda size: [{"cell_type": "raw", "metadata": {}, "source": "x"}] * size),
    "empty cells": _notebook(lambda size: [{}] * size),

    "cells": lambda size: json.dumps({"nbformat": 4, "metadata": {}, "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": f"# H{n}\ntext"} for n in range(size)]}),
    "lines": lambda size: json.dumps({"nbformat": 4, "metadata": {}, "cells": [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["x = 1\n"] * size}]}),
}  # fmt: skip
ZIP: dict[str, Make] = {
    **{f"{name} (a text)": zipped("a.txt", make, {}) for name, make in TEXT.items()},
    "members": lambda size: archive((f"f{n}.txt", "x") for n in range(size)),
    "members of other kinds": lambda size: archive((f"f{n}.bin", "x") for n in range(size)),
    "members of kinds": lambda size: archive((f"f.k{n}", "x") for n in range(size)),
    "folders": lambda size: archive((f"d{n}/", "") for n in range(size)),
    "hidden members": lambda size: archive((f".f{n}.txt", "x") for n in range(size)),
    "members outside": lambda size: archive((f"../f{n}.txt", "x") for n in range(size)),
    "deep members": lambda size: archive(("d/" * (n % 200) + f"f{n}.txt", "x") for n in range(size // 100)),
    "long names": lambda size: archive((f"{n}" + "x" * 10_000 + ".txt", "x") for n in range(size // 1_000)),
    "pages": lambda size: archive((f"f{n}.html", "<p>x</p>") for n in range(size // 10)),
    "archives": lambda size: archive((f"f{n}.zip", "PK") for n in range(size)),
    "rows": zipped("a.jsonl", repeated('{"id":"%d","text":"x"}\n'), {}),
}
