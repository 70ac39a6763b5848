"""Inputs that grow, for the proof `growth`: texts and markup. A shape makes the content of a file of a size."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterable, Mapping

from aidre.ingest.formats.pages.bounds import MAX_ATTRIBUTES

Make = Callable[[int], str | bytes]


def repeated(piece: str, before: str = "", after: str = "") -> Make:
    """The piece as often as the size says; each `%d` in it is the number."""
    if "%d" in piece:
        return lambda size: before + "".join([piece.replace("%d", str(number)) for number in range(size)]) + after
    return lambda size: before + piece * size + after


def nested(opening: str, closing: str, inner: str = "x") -> Make:
    return lambda size: opening * size + inner + closing * size


def deep(opening: str, closing: str, depth: int, before: str = "", after: str = "") -> Make:
    """Elements inside each other, as deep as a parser allows, again and again."""
    tree = opening * depth + "x" + closing * depth
    return lambda size: before + tree * (size // depth) + after


def archive(members: Iterable[tuple[str, str | bytes]]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in members:
            made.writestr(name, text)
    return content.getvalue()


def zipped(path: str, make: Make, others: Mapping[str, str]) -> Make:
    """An archive whose member `path` grows."""
    return lambda size: archive({**others, path: make(size)}.items())


def xml(before: str, element: str, attribute: str, after: str) -> dict[str, Make]:
    """What any XML may be made of, at a place between `before` and `after`: `element` holds a text, `%s`, and
    `attribute` is an opening tag whose attributes grow."""
    closing = f"</{attribute[1:].split(maxsplit=1)[0]}>"
    opening, end = element.split("%s")

    def text(piece: str) -> Make:
        return repeated(piece, before + opening, end + after)

    return {
        "elements": repeated(element % "word", before, after),
        "one text": text("word "),
        "one word": text("x"),
        "marks": text("e\u0301"),
        "lines of text": text("a line\n"),
        "entities": text("&amp;"),
        "numbers of characters": text("&#65;"),
        "open entities": text("&a"),
        "sections of characters": text("<![CDATA[x]]>"),
        "open sections": text("<![CDATA["),
        "comments": text("<!-- c -->"),
        "open comments": text("<!--"),
        "instructions": text("<?a b?>"),
        "unknown elements": text("<u%d/>"),
        "unknown texts": text("<u>x</u>"),
        "nested": lambda size: before + attribute + ">" + "<u>" * size + "x" + "</u>" * size + closing + after,
        "nested elements": lambda size: before + opening * size + "x" + end * size + after,
        "nested again and again": deep(opening, end, 40, before, after),
        "unclosed": repeated(opening, before),
        "closing tags": repeated(end, before),
        "less than": text("<"),
        "blank lines": repeated("\n", before, after),
        "attributes": repeated(" a%d='1'", before + attribute, f">{closing}{after}"),
        "equal attributes": repeated(" a='1'", before + attribute, f">{closing}{after}"),
        "namespaces": repeated(" xmlns:a%d='u:%d'", before + attribute, f">{closing}{after}"),
        "namespaces of elements": repeated("<n%d:u xmlns:n%d='u:%d'/>", before, after),
        "attributes of namespaces": repeated(" n:a%d='1'", f"{before}{attribute} xmlns:n='u'", f">{closing}{after}"),
        "an attribute's value": repeated("v ", f"{before}{attribute} a='", f"'>{closing}{after}"),
        "an attribute's name": repeated("n", f"{before}{attribute} ", f"='1'>{closing}{after}"),
        "an element's name": repeated("n", f"{before}<", f"/>{after}"),
        "blanks of a tag": repeated(" ", before + attribute, f">{closing}{after}"),
        "languages": repeated("<u xml:lang='l%d'/>", before, after),
        "ids": repeated("<u xml:id='i%d'/>", before, after),
    }


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
    "sentences": repeated("A sentence of words. "),
    "questions": repeated("?! "),
    "full stops": repeated("."),
    "initials": repeated("A. "),
    "tabulators": repeated("a\t"),
    "returns": repeated("a\r"),
    "both ends of lines": repeated("a\r\n"),
    "zeros": repeated("\0"),
    "replaced": repeated("\ufffd"),
    "from right": repeated("\u202ea"),
    "no width": repeated("\u200b"),
    "joined pictures": repeated("\U0001f468\u200d"),
    "Thai": repeated("\u0e01\u0e34"),
    "Arabic": repeated("\u0628\u064e "),
    "numbers": repeated("1,234.5 "),
    "addresses": repeated("https://e.example/%d "),
    "mails": repeated("a@b"),
    "paths": repeated("a/"),
    "rows": repeated("a  b  c\n"),
    "quotes": repeated("\u201ca\u201d "),
    "hyphens": repeated("a-\nb"),
    "lists": repeated("- item %d\n"),
    "numbered": repeated("%d. item\n"),
    "words of upper case": repeated("WORD "),
    "words without end": lambda size: " ".join(["x" * 1_000] * (size // 100)),
    "different words": repeated("w%d "),
    "bars": repeated("| "),
    "quoted lines": repeated("> a\n"),
    "rules": repeated("-----\n\n"),
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
    "other attributes of many": lambda size: "".join(
        "<p" + "".join(f" a{number}" for number in range(first, first + MAX_ATTRIBUTES - 1)) + ">x"
        for first in range(0, size, MAX_ATTRIBUTES - 1)
    ),
    "equal attributes": repeated(" a=1", "<p", ">text</p>"),
    "quoted attributes": repeated(" a%d='>'", "<p", ">text</p>"),
    "joined attributes": repeated("a%d=''", "<p ", ">text</p>"),
    "slashed attributes": repeated("/a%d", "<p", ">text</p>"),
    "names of elements": repeated("<u%d></u%d>"),
    "names of ends": repeated("</u%d>"),
    "names of attributes": repeated("<p a%d>"),
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
MARKUP |= {
    "nested lists": lambda size: "".join("*" * (number % 6 + 1) + " x\n" for number in range(size)),
    "terms": repeated("term::\n  text\n"),
    "conditions": repeated("ifdef::a[]\n"),
    "anchors": repeated("[[i%d]]\n"),
    "links": repeated("`a <b>`_ "),
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
