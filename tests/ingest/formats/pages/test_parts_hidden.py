"""Elements that no reader sees are left out of a page; what a click shows stays."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from aidre.ingest.formats.pages.main_text import extract_fragment_text, extract_main_text

SEEN = "<p>The old stone bridge was built in 1890 and crosses the river near the mill.</p>"


def read(markup: str, *, deep: bool = False) -> str:
    return extract_main_text(LexborHTMLParser(markup), markup, deep=deep).text


@pytest.mark.parametrize(
    "element",
    [
        "<p hidden>Unfinished.</p>",
        "<p hidden=''>Unfinished.</p>",
        "<p hidden=hidden>Unfinished.</p>",
        "<p style='display:none'>Unfinished.</p>",
        "<div style='color: red; DISPLAY : None !important'><p>Unfinished.</p></div>",
        "<p>Near the <span style='visibility: hidden'>Unfinished.</span> mill</p>",
        "<section hidden><h2>Unfinished.</h2></section>",
        "<table><tr hidden><td>Unfinished.</td><td>1</td></tr><tr><td>a</td><td>2</td></tr></table>",
        "<div role=tabpanel><p hidden>Unfinished.</p></div>".replace("tabpanel", "group"),
        "<article hidden><p>Unfinished.</p></article>",
        "<div hidden><article><p>Unfinished.</p></article></div>",
        "<p id=x hidden>Unfinished.</p><a href='/x'>x</a>",
    ],
)
@pytest.mark.parametrize("around", ["<main>{}</main>", "<div>{}</div>"])
def test_what_no_reader_sees_is_left_out(element: str, around: str) -> None:
    for deep in (False, True):
        text = read(f"<html><body>{around.format(SEEN + element)}", deep=deep)
        assert "stone bridge" in text
        assert "Unfinished" not in text


@pytest.mark.parametrize(
    "element",
    [
        "<div role=tabpanel hidden>In Rust.</div>",
        "<div role=tabpanel style='display: none'>In Rust.</div>",
        "<div hidden=until-found>In Rust.</div>",
        "<details><summary>More</summary><p>In Rust.</p></details>",
        "<div class='collapse' style='display:none'>In Rust.</div>",
        "<div class='tabItem_Ymn6' hidden>In Rust.</div>",
        "<div class='tab-pane fade' hidden>In Rust.</div>",
        "<amp-accordion><section><h2>Q</h2><div style='display:none'>In Rust.</div></section></amp-accordion>",
        "<div class=accordion><h3>Q</h3><div><div style='display:none'>In Rust.</div></div></div>",
        "<div class=mw-collapsible-content style='display:none'>In Rust.</div>",
        "<div class=question>Q</div><div class=faqAnswer style='display:none'>In Rust.</div>",
        "<div class=carousel-item hidden>In Rust.</div>",
        "<button aria-controls=a1>Q</button><p>between</p><div id=a1 hidden>In Rust.</div>",
        "<h3><button aria-expanded=false>Q</button></h3><div hidden role=region>In Rust.</div>",
        "<button>Q</button><div hidden>In Rust.</div>",
        "<div aria-expanded=false>Q</div><!-- --> <div hidden>In Rust.</div>",
        "<a href='#t2'>Rust</a><p>between</p><div id=t2 style='display:none'>In Rust.</div>",
        "<a onclick=\"show('more')\">More</a><p>between</p><span id=more style='display:none'>In Rust.</span>",
        "<p aria-hidden=true>In Rust.</p>",
        "<p style='display: block'>In Rust.</p>",
        "<p style='background: url(a?display:none)'>In Rust.</p>",
    ],
)
def test_what_a_click_shows_stays(element: str) -> None:
    assert "In Rust." in read(f"<html><body><main>{SEEN}{element}</main>")


def test_a_page_that_hides_all_of_itself_is_shown_by_its_script() -> None:
    for deep in (False, True):
        for tag in ("body", "main", "div"):
            page = f"<html><body><p>Skip</p><{tag} style='visibility:hidden'><main>{SEEN}</main></{tag}>"
            assert "stone bridge" in read(page, deep=deep)
    assert "stone bridge" in read(f"<html><body><div id=app hidden>{SEEN}</div>")


def test_a_hidden_draft_that_is_longer_than_the_page_is_left_out() -> None:
    assert read(f"<html><body><p>Soon.</p><div hidden>{SEEN * 20}</div>") == "Soon."


def test_the_preview_of_a_newsletter_is_no_text_of_a_feed() -> None:
    assert extract_fragment_text("<div style='display:none'>Preview</div><p>Dear all</p>") == "Dear all"
