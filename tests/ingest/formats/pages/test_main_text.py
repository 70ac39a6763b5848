"""The main text of pages as they are: what belongs to a page stays, menus and teasers go, code keeps its lines."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from aidre.ingest.formats.pages import main_text as module
from aidre.ingest.formats.pages.main_text import MainText, extract_main_text

PARAGRAPHS = [
    "The city council voted on Tuesday to rebuild the old harbour bridge, which has been closed since a barge struck "
    "one of its piers two winters ago, and to pay for the work from the savings of the past four years.",
    "Engineers who examined the structure in spring found that three of the seven arches can be saved, while the "
    "others have to be taken down stone by stone and set up again on new foundations.",
    "Residents of the eastern quarter, who have had to take the ferry ever since, welcomed the decision, although "
    "some of them doubt that the bridge will be open again before the end of the decade.",
    "The works begin in April and are expected to take thirty months, during which the ferry will run every ten "
    "minutes and free of charge for everyone who lives on either side of the river.",
]
MENU = "".join(f'<li><a href="/{name}">{name}</a></li>' for name in ("Home", "Politics", "Sports", "Culture", "Shop"))
TEASERS = "".join(
    f'<li><a href="/{n}">{title}</a></li>'
    for n, title in enumerate(["Ferry tickets sell out again", "Ten bridges to see before you die", "Mayor resigns"])
)
NEWS = f"""<!doctype html><html lang="en"><head><title>Bridge</title></head><body>
<div class="cookie-banner"><p>We value your privacy. Accept all cookies to continue.</p></div>
<div id="menu"><ul>{MENU}</ul></div>
<div class="content"><div class="article-body"><h1>Old bridge to be rebuilt</h1>
<p>{PARAGRAPHS[0]}</p><p>{PARAGRAPHS[1]}</p><h2>What people say</h2><p>{PARAGRAPHS[2]}</p><p>{PARAGRAPHS[3]}</p></div>
<div class="related"><h3>Read also</h3><ul>{TEASERS}</ul></div></div>
<div class="sidebar widget"><h4>Most read</h4><ul>{TEASERS}</ul></div>
<div id="footer"><p>Copyright 2026 The Harbour Post. All rights reserved.</p></div></body></html>"""
MANUAL = f"""<!doctype html><html><head><title>range</title></head><body><div class="sidebar"><ul>{MENU}</ul></div>
<main><h1>range</h1><p>{PARAGRAPHS[0]}</p><h2>Usage</h2><p>Call it so:</p>
<pre><code>for n in range(3):
    print(n)
</code></pre><p>Short.</p>
<h2>Parameters</h2><table><tr><th>name</th><th>meaning</th></tr><tr><td>start</td><td>the first number</td></tr>
<tr><td>step</td><td>what is added</td></tr></table>
<dl><dt>StopIteration</dt><dd>after the last one</dd></dl><p>{PARAGRAPHS[1]}</p><p>{PARAGRAPHS[2]}</p>
<h2>Example</h2><pre>list(range(2))</pre></main>
<div class="footer"><a href="/next">next chapter</a></div></body></html>"""


def read(markup: str, *, deep: bool = False) -> MainText:
    return extract_main_text(LexborHTMLParser(markup), markup, deep=deep)


def test_an_article_comes_without_what_stands_around_it() -> None:
    text = read(NEWS).text
    assert text.split("\n\n") == [
        "Old bridge to be rebuilt",
        *PARAGRAPHS[:2],
        "What people say",
        *PARAGRAPHS[2:],
    ]


def test_a_manual_keeps_its_code_tables_and_definitions() -> None:
    text = read(MANUAL).text
    assert "for n in range(3):\n    print(n)\n" in text
    assert "| name | meaning |\n|---|---|\n| start | the first number |\n| step | what is added |" in text
    assert text.endswith("Example\n\nlist(range(2))")
    for passage in ("Call it so:", "Short.", "StopIteration\nafter the last one", *PARAGRAPHS[:3]):
        assert passage in text
    assert "next chapter" not in text and "Politics" not in text


@pytest.mark.parametrize("markup", [NEWS, MANUAL])
def test_headings_stand_where_they_begin_also_after_what_was_left_out(markup: str) -> None:
    page = read(markup)
    assert [page.text[start:].split("\n", 1)[0] for start, _, _ in page.headings] == [
        words for _, _, words in page.headings
    ]
    assert len(page.headings) == (2 if markup is NEWS else 4)


@pytest.mark.parametrize(
    "link",
    [
        '<a class="headerlink" href="#usage" title="Link to this heading">¶</a>',
        '<a href="#USAGE" class="id_link">#</a>',
        '<a class="header-anchor" href="#usage" aria-label="Permalink">&#8203;</a>',
        '<a href="#usage"><span> § </span></a>',
        '<a href="#usage"></a>',
    ],
)
def test_a_link_to_the_place_where_it_stands_is_no_text(link: str) -> None:
    page = read(f"<h2>Usage{link}</h2><dl><dt>range(stop){link}</dt><dd>counts</dd></dl>")
    assert page.text == "Usage\n\nrange(stop)\ncounts"
    assert [title for _, _, title in page.headings] == ["Usage"]


def test_other_links_are_text_whatever_their_words() -> None:
    page = '<p>Written in C<a href="/sharp">#</a>, see <a href="#note">note</a> and <a href="#two">§ 2</a></p>'
    assert read(page).text == "Written in C#, see note and § 2"


def test_a_short_page_is_kept_whole() -> None:
    assert read("<div>Closed on Mondays.</div><ul><li><a href=/>Home</a></ul>").text == "Closed on Mondays.\n\nHome"


def test_a_page_that_is_a_list_of_links_is_kept_whole() -> None:
    page = "<h1>Links</h1><ul>" + "".join(f"<li><a href=/{n}>Entry number {n}</a>" for n in range(50)) + "</ul>"
    assert read(page).text.count("Entry number") == 50


def test_paragraphs_of_the_kind_of_those_that_are_found_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_trafilatura", lambda _, fast: [PARAGRAPHS[0]])
    text = read(NEWS).text
    assert all(passage in text for passage in PARAGRAPHS)
    assert not any(passage in text for passage in ("All rights reserved", "Mayor resigns"))


@pytest.mark.parametrize("found", [[], ["Other words than the page has."]])
def test_a_page_of_which_nothing_is_found_is_kept_whole(monkeypatch: pytest.MonkeyPatch, found: list[str]) -> None:
    monkeypatch.setattr(module, "_trafilatura", lambda _, fast: found)
    assert all(passage in read(NEWS).text for passage in PARAGRAPHS)


def test_a_text_outside_of_the_element_that_is_named_main_is_found() -> None:
    body = "".join(f"<p>{paragraph}</p>" for paragraph in PARAGRAPHS)
    page = f"<body><main><p>Loading</p></main><div class='article-content'><h1>Bridge</h1>{body}</div></body>"
    assert all(paragraph in read(page).text for paragraph in PARAGRAPHS)


def test_a_page_that_stands_inside_a_form_is_read() -> None:
    body = "".join(f"<p>{paragraph}</p>" for paragraph in PARAGRAPHS)
    page = f"<body><form action='/'><h1>Bridge</h1><div>{body}</div><button>Send</button></form></body>"
    text = read(page).text
    assert all(paragraph in text for paragraph in PARAGRAPHS) and "Send" not in text


def test_pages_too_large_or_too_deep_are_what_the_walk_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "Accept all cookies"
    assert whole in read(NEWS, deep=True).text
    monkeypatch.setattr(module, "MAX_TAGS", 10)
    assert whole in read(NEWS).text


def test_japanese_without_spaces_is_sieved_as_well() -> None:
    sentences = ["市議会は火曜日、古い港の橋を建て直すことを決めました。橋は二年前の冬から閉鎖されています。"] * 2 + [
        "工事は四月に始まり、三十か月かかる見込みです。その間、渡し船は十分おきに無料で運航されます。",
        "東地区の住民は決定を歓迎しましたが、十年以内に橋が開通するかどうか疑う人もいます。技術者は三つの橋脚を調べました。",
    ]
    body = "".join(f"<p>{each}</p>" for each in sentences)
    page = NEWS.replace("".join(f"<p>{each}</p>" for each in PARAGRAPHS[:2]), body)
    assert all(each in read(page).text for each in sentences)


def paragraphs(*numbers: int) -> str:
    return "".join(f"<p>{PARAGRAPHS[number]}</p>" for number in numbers)


@pytest.mark.parametrize(
    "body",
    [
        "<div class='post'><h1>Bridge</h1><noscript>{}</noscript></div>",
        "<main><h1>Bridge</h1><noscript>{}</noscript></main>",
        "<main><aside class='text'><article><h1>Bridge</h1>{}</article></aside></main><footer><p>By post</p></footer>",
        "<noscript><div><h1>Bridge</h1>{}</div></noscript>",
    ],
)
@pytest.mark.parametrize("found", [True, False])
def test_a_text_that_stands_where_no_text_of_a_page_is_expected_is_found(
    body: str, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not found:
        monkeypatch.setattr(module, "_trafilatura", lambda _, fast: [])
    text = read(f"<html><body>{body.format(paragraphs(0, 1, 2))}</body></html>").text
    assert text.split("\n\n") == ["Bridge", *PARAGRAPHS[:3]]


@pytest.mark.parametrize(
    "page",
    [
        "<div id='root'></div><noscript>You need to enable JavaScript to run this app.</noscript>",
        "<main><p>Closed on Mondays.</p></main><aside><p>" + PARAGRAPHS[0] + "</p></aside>",
        f"<main><h1>Bridge</h1>{paragraphs(0)}<noscript><p>Enable JavaScript to see comments.</p></noscript></main>",
    ],
)
def test_what_a_page_says_beside_its_text_is_no_text_in_its_place(page: str) -> None:
    text = read(f"<html><body>{page}</body></html>").text
    assert "JavaScript" not in text and not ("Closed" in text and PARAGRAPHS[0] in text)


def test_a_teaser_is_not_the_page_though_it_is_the_only_article() -> None:
    rest = "".join(f"<p>Section {number}. {paragraph}</p>" for number in range(4) for paragraph in PARAGRAPHS)
    page = f"<body><article><h2>Read also</h2><p>A new ferry.</p></article><div class='text'>{rest}</div></body>"
    assert all(f"Section 3. {paragraph}" in read(page).text for paragraph in PARAGRAPHS)


def test_a_lead_between_the_title_and_the_text_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    lead = "After two winters the council has decided what becomes of the bridge."
    page = f"<body><h1>Bridge</h1><p class='article-lead'>{lead}</p><p class=date>1 May</p>{paragraphs(0, 1, 2)}</body>"
    monkeypatch.setattr(module, "_trafilatura", lambda _, fast: PARAGRAPHS[:3])
    assert read(page).text.split("\n\n") == ["Bridge", lead, *PARAGRAPHS[:3]]


def test_boxes_named_as_margins_go_unless_they_are_the_page() -> None:
    box = f"<div class='relatedPosts'><p>{PARAGRAPHS[3]}</p></div>"
    page = f"<body><div><h1>Bridge</h1>{paragraphs(0, 1)}{box}{paragraphs(2)}</div></body>"
    assert PARAGRAPHS[3] not in read(page).text
    assert (
        PARAGRAPHS[3] in read(f"<body><div class='comments'><h1>Bridge</h1>{paragraphs(0, 1, 2, 3)}</div></body>").text
    )


def test_readings_and_numbers_of_lines_are_no_text() -> None:
    assert (
        read("<p>彼は<ruby>体<rp>(</rp><rt>たい</rt><rp>)</rp>罰<rt>ばつ</rt></ruby>を受けた。").text
        == "彼は体罰を受けた。"
    )
    table = (
        "<table><tr><td class='linenos'><pre>1\n2</pre></td><td class='code'><pre>a = 1\nb = 2</pre></td></tr></table>"
    )
    assert read(table).text == "a = 1\nb = 2"
    assert read("<pre><span class='lnt'>1\n</span><span class='line'>x = 5</span></pre>").text == "x = 5"
    assert read("<table><tr><td class='lines'>12</td><td>sacks</td></tr></table>").text == "12\tsacks"
