"""Navigation, lists of contents, titles of boxes and rows of data, as generators of documentation write them."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from aidre.ingest.formats.pages.main_text import MainText, extract_main_text

FIRST = "The standard defines four levels of isolation, of which one is the most strict."
SECOND = "It guarantees the same effect as running one transaction at a time in some order of all."
BODY = f"<p>{FIRST}</p><p>{SECOND}</p>"
"""Few enough words that nothing of a page is left out for other reasons."""

DOCBOOK = """<div class="{name}"><table><tr><th colspan="3">13.2. Isolation</th></tr><tr>
<td><a accesskey="p" href="a.html">Prev</a></td><td><a accesskey="u" href="b.html">Up</a></td>
<td><a accesskey="n" href="c.html">Next</a></td></tr><tr><td>13.1. Introduction</td><td>Home</td>
<td>13.3. Locking</td></tr></table></div>"""
PUBLICAN = """<ul class="docnav">
<li class="previous"><a accesskey="p" href="a.html"><strong>上一页</strong>8.4. 用户</a></li>
<li class="next"><a accesskey="n" href="c.html"><strong>下一页</strong>8.6. 环境</a></li></ul>"""
TEXINFO = """<div class="header"><p>Next: <a href="#b" accesskey="n" rel="next">Installing</a>, Previous:
<a href="#a" rel="prev">Obtaining</a>, Up: <a href="#t" rel="up">Top</a> [<a href="#c" rel="contents">Contents</a>]
</p></div>"""
SPHINX = """<div class="related" role="navigation"><h3>Navigation</h3><ul>
<li><a href="i.html" accesskey="I">index</a></li><li><a href="/">3.11.2 Documentation</a> &#187;</li></ul></div>"""
PLAIN = '<p><a rel="prev" href="1">Zurück</a> <a rel="next" href="3">Weiter</a></p>'


def read(markup: str) -> MainText:
    return extract_main_text(LexborHTMLParser(markup), markup, deep=False)


@pytest.mark.parametrize(
    "navigation",
    [
        DOCBOOK.format(name="navheader"),
        DOCBOOK.format(name="navfooter"),
        DOCBOOK.format(name="unheard-of"),
        PUBLICAN,
        TEXINFO,
        SPHINX,
        PLAIN,
        '<div class="breadcrumbs"><a href="/">Docs</a> / <a href="/sql">SQL</a></div>',
        '<div role="search"><label>Search</label></div>',
    ],
)
@pytest.mark.parametrize("after", [False, True])
def test_navigation_is_no_text_whatever_its_language(navigation: str, after: bool) -> None:
    page = f"<body>{'' if after else navigation}<h1>Isolation</h1>{BODY}{navigation if after else ''}</body>"
    assert read(page).text == f"Isolation\n\n{FIRST}\n\n{SECOND}"


def test_links_above_the_first_heading_are_no_text() -> None:
    banner = '<div id="banner"><a href="/get">Download the ebook</a></div>'
    assert read(f"<body>{banner}<h1>Isolation</h1>{BODY}</body>").text.startswith("Isolation")
    assert read(f"<body>{banner}<p>Closed on Mondays.</p></body>").text.startswith("Download")


@pytest.mark.parametrize(
    "text",
    [
        '<p>Read <a rel="next" href="2">the next page</a> for the levels, then go on with locks and their kinds.</p>',
        "<div class='toc'>A toc without links is text.</div>",
        '<p>Press <a accesskey="s" href="#">S</a> to save and <a accesskey="x" href="#">X</a> to cut the line out.</p>',
        "<h2>See also</h2><ul><li><a href='a'>Locks of rows</a></li><li><a href='b'>Locks of tables</a></li></ul>",
    ],
)
def test_text_with_links_stays(text: str) -> None:
    words = LexborHTMLParser(text).text(deep=True, separator=" ").split()
    assert set(words) <= set(read(f"<body><h1>Isolation</h1>{BODY}{text}</body>").text.split())


CONTENTS = """<div class="toc"><p><b>Table of Contents</b></p>
<dl><dt><a href="a">Basics of them</a></dt><dt><a href="b">Keys and indexes</a></dt></dl></div>"""


def test_a_list_of_contents_is_no_text_of_a_page_that_has_other_text() -> None:
    assert "Basics" not in read(f"<body><h1>Tables</h1>{CONTENTS}{BODY}</body>").text
    assert (
        read(f"<body><h1>Tables</h1>{CONTENTS}</body>").text
        == "Tables\n\nTable of Contents\n\nBasics of them\nKeys and indexes"
    )


@pytest.mark.parametrize(
    ("box", "text"),
    [
        (
            '<div class="note"><h3 class="title">Note</h3><p>Locks stay.</p><p>All.</p></div>',
            "Note: Locks stay.\n\nAll.",
        ),
        ('<div class="admonition tip"><p class="admonition-title">Tip</p><p>Vacuum.</p></div>', "Tip: Vacuum."),
        (
            '<div class="sidebar"><div class="titlepage"><div><p class="title"><em>BASICS</em> Pipes</p>'
            '</div></div><div class="para">A pipe is named.</div></div>',
            "BASICS Pipes: A pipe is named.",
        ),
        ('<div class="warning"><h3>Beware!</h3>It bites.</div>', "Beware! It bites."),
        ('<div class="note"><h3><svg><title>i</title></svg></h3><p>It stays.</p></div>', "It stays."),
        ('<div class="note"><h3>Note</h3><pre>x = 1</pre></div>', "Note:\n\nx = 1"),
        ('<div class="note"><h3>注意</h3><ul><li>一</li><li>二</li></ul></div>', "注意:\n\n一\n二"),
    ],
)
def test_the_title_of_a_box_is_the_beginning_of_its_paragraph_and_no_heading(box: str, text: str) -> None:
    page = read(f"<body><h1>Isolation</h1><p>{FIRST}</p>{box}<p>{SECOND}</p></body>")
    assert page.text == f"Isolation\n\n{FIRST}\n\n{text}\n\n{SECOND}"
    assert [title for _, _, title in page.headings] == ["Isolation"]


@pytest.mark.parametrize(
    "page",
    [
        f"<body class='note'><h2>Isolation</h2>{BODY}</body>",
        f"<body><div class='note'><p>{FIRST}</p><h2>Isolation</h2><p>{SECOND}</p></div></body>",
        f"<body><div class='notes'><h2>Isolation</h2>{BODY}</div></body>",
    ],
)
def test_other_headings_stay_headings(page: str) -> None:
    assert [title for _, _, title in read(page).headings] == ["Isolation"]


def test_a_row_of_a_table_is_one_line_whatever_its_cells_are_made_of() -> None:
    table = (
        "<table><thead><tr><th><p>Name</p></th><th><p>Meaning</p></th></tr></thead><tbody>"
        "<tr><td><p>start</p></td><td><p>the first</p><p>number</p></td></tr>"
        "<tr><td>step</td><td><ul><li>one</li><li>two</li></ul></td></tr></tbody></table>"
    )
    page = read(f"<body><h1>Range</h1><p>{FIRST}</p>{table}<p>{SECOND}</p></body>")
    rows = "| Name | Meaning |\n|---|---|\n| start | the first number |\n| step | one two |"
    assert f"\n\n{rows}\n\n" in page.text
    assert [page.text[start:end] for start, end in page.verbatim] == [rows]


def test_code_is_one_passage_with_its_blank_lines() -> None:
    page = read(f"<body><h1>Range</h1>{BODY}<pre>one\n\ntwo</pre><pre>three</pre></body>")
    assert [page.text[start:end] for start, end in page.verbatim] == ["one\n\ntwo", "three"]


def test_a_table_that_lays_out_a_page_keeps_its_paragraphs() -> None:
    page = read(f"<body><table><tr><td>Menu</td><td><h1>Title</h1>{BODY}</td></tr></table></body>")
    assert f"Title\n\n{FIRST}\n\n{SECOND}" in page.text
    assert page.verbatim == ()


def test_a_box_between_paragraphs_stays_on_a_page_from_which_others_are_left_out() -> None:
    long = "".join(f"<p>Paragraph {number}. {FIRST} {SECOND} It is number {number} of many.</p>" for number in range(8))
    box = '<div class="sidebar"><p class="title">BASICS Pipes</p><p>A pipe is a file of a kind of its own.</p></div>'
    links = '<div class="sidebar"><p class="title">Read also</p><ul><li><a href="a">A teaser</a></li></ul></div>'
    text = read(f"<body><h1>Isolation</h1>{long}{box}{links}{long.replace('Paragraph', 'Part')}</body>").text
    assert "BASICS Pipes: A pipe is a file of a kind of its own." in text
    assert "teaser" not in text
