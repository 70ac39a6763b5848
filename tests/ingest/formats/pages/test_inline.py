"""Raised numbers, formulas, pictures and numbers of items say in a text what a reader sees in a page."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from aidre.ingest.formats.pages.inline import to_letters, to_roman
from aidre.ingest.formats.pages.main_text import extract_main_text
from tests.ingest.formats.pages.test_main_text import PARAGRAPHS


def read(markup: str) -> str:
    return extract_main_text(LexborHTMLParser(markup), markup, deep=False).text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("H<sub>2</sub>O", "H2O"),
        ("10<sup>3</sup>", "10^3"),
        ("10<sup>&minus;6</sup>", "10^\u22126"),
        ("x<sup>2</sup> + (a)<sup>n</sup>", "x^2 + (a)^n"),
        ("5 km<sup>2</sup>", "5 km^2"),
        ("sin<sup>2</sup>x + log<sup>-1</sup>", "sin^2x + log^-1"),
        ("9 feet<sup>2</sup>, 4 GeV<sup>2</sup>, cm&middot;kPa<sup>2</sup>", "9 feet^2, 4 GeV^2, cm·kPa^2"),
        ("a fee<sup>2</sup>, Hz<sup>2, 3</sup>", "a fee[2], Hz[2, 3]"),
        ('x<sup class="footnote-ref">2</sup>, x <sup id="fn3">3</sup>', "x[2], x [3]"),
        ("the 1<sup>st</sup>, le 2<sup>e</sup>, Brand<sup>TM</sup>", "the 1st, le 2e, BrandTM"),
        ("<sup>14</sup>C", "14C"),
        ("so they say.<sup>1</sup>", "so they say.[1]"),
        ("a report<sup>2, 3</sup>", "a report[2, 3]"),
        ('since 1990<sup><a href="#fn4">4</a></sup>', "since 1990[4]"),
        ('since 1990<a href="/page#fn4"><sup>4</sup></a>', "since 1990[4]"),
        ('since 1990<sup><a href="#cite">[4]</a></sup>', "since 1990[4]"),
        ("<sup>a whole remark that is raised</sup>", "a whole remark that is raised"),
    ],
)
def test_raised_numbers_do_not_join_what_is_before_them(markup: str, text: str) -> None:
    assert read(f"<p>{markup}</p>") == text


def test_raised_numbers_in_code_are_its_characters() -> None:
    assert read("<pre>10<sup>3</sup></pre>") == "103"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<ol><li>a<li>b</ol>", "1. a\n2. b"),
        ('<ol start="3"><li>a<li value="9">b<li>c</ol>', "3. a\n9. b\n10. c"),
        ('<ol reversed><li>a<li>b</ol><ol start="-1"><li>c</ol>', "2. a\n1. b\n\n-1. c"),
        ('<ol type="A" start="27"><li>a</ol><ol type="a"><li>b</ol>', "AA. a\n\na. b"),
        ('<ol type="i" start="4"><li>a</ol><ol type="I"><li>b</ol>', "iv. a\n\nI. b"),
        ("<ol><li><p>a</p><p>more</p><li><ul><li>b</ul><li></ol>", "1. a\n\nmore\n\n2. b"),
        ('<ol style="list-style: none"><li>a</ol><ul><li>b</ul>', "a\n\nb"),
        ("<ol><li><h2>a</h2><p>text</p></ol>", "1. a\n\ntext"),
    ],
)
def test_items_have_the_numbers_that_browsers_show(markup: str, text: str) -> None:
    assert read(markup) == text


def test_a_heading_in_an_item_begins_behind_the_number() -> None:
    markup = "<p>before</p><ol><li><h2>Fill the tank</h2><p>text</p></ol>"
    page = extract_main_text(LexborHTMLParser(markup), markup, deep=False)
    assert [(page.text[start:].split("\n")[0], title) for start, _, title in page.headings] == [("Fill the tank",) * 2]


def test_numbers_beyond_those_of_romans_and_of_one_letter() -> None:
    assert [to_roman(number) for number in (4, 1994, 3999, 4000, 0)] == ["IV", "MCMXCIV", "MMMCMXCIX", "4000", "0"]
    assert [to_letters(number) for number in (1, 26, 27, 52, 703)] == ["a", "z", "aa", "az", "aaa"]


TEX = '<annotation encoding="application/x-tex">\\frac{a}{b}</annotation>'


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ('<math alttext="{\\displaystyle E=mc^{2}}"><mi>E</mi></math>', "E=mc^{2}"),
        (f"<math><semantics><mi>a</mi>{TEX}</semantics></math>", "\\frac{a}{b}"),
        ("<math><msup><mi>x</mi><mn>2</mn></msup><mo>+</mo><mn>1</mn></math>", "x^2+1"),
        ("<math><mfrac><mi>a</mi><mrow><mi>b</mi><mo>+</mo><mn>1</mn></mrow></mfrac></math>", "a/(b+1)"),
        (
            f'<span class="katex"><math><semantics><mi>a</mi>{TEX}</semantics></math>'
            '<span class="katex-html" aria-hidden="true">ab</span></span>',
            "\\frac{a}{b}",
        ),
        ('<img class="mwe-math-fallback-image-inline" alt="{\\displaystyle x}" src="x.svg" aria-hidden="true">', "x"),
    ],
)
def test_a_formula_is_its_tex_or_its_characters(markup: str, text: str) -> None:
    assert read(f"<p>So {markup} holds.</p>") == f"So {text} holds."


PUMP = "Section through the pump"


@pytest.mark.parametrize(
    ("markup", "is_text"),
    [
        (f'<img alt="{PUMP}" src="pump.png">', True),
        (f'<img alt="{PUMP}" src="data:image/png;base64,{"A" * 100}">', True),
        ('<img alt="" src="pump.png">', False),
        ('<img alt="IMG_20240101.jpg" src="pump.png">', False),
        ('<img alt="Pump" src="pump.png">', False),
        (f'<img alt="{PUMP}" role="presentation" src="pump.png">', False),
        (f'<img alt="{PUMP}" class="site-icon" src="pump.png">', False),
        (f'<img alt="{PUMP}" width="16" height="16" src="pump.png">', False),
        (f'<figure><img alt="{PUMP}"><figcaption>How the pump looks inside</figcaption></figure>', False),
    ],
)
@pytest.mark.parametrize("place", ["<p>Here: {} and so on.</p>", "<div>{}</div>"])
def test_a_description_is_text_where_a_picture_belongs_to_it(place: str, markup: str, is_text: bool) -> None:
    page = (
        f"<article><p>{PARAGRAPHS[0]}</p>{place.format(markup)}<p>{PARAGRAPHS[1]}</p><p>{PARAGRAPHS[2]}</p></article>"
    )
    text = read(f"<html><body>{page}</body></html>")
    assert (PUMP in text) == is_text
    assert all(paragraph in text for paragraph in PARAGRAPHS[:3]) and "base64" not in text


def test_pictures_around_the_text_and_links_with_pictures_say_nothing() -> None:
    picture = f'<img alt="{PUMP}" src="pump.png">'
    text = f"<article>{''.join(f'<p>{paragraph}</p>' for paragraph in PARAGRAPHS)}</article>"
    linked = text.replace("</p><p>", f'</p><div><a href="/other">{picture}</a></div><p>', 1)
    assert PUMP not in read(f"<html><body>{linked}<div>{picture}</div></body></html>")


def test_a_description_is_read_once_and_not_in_headings_or_where_a_heading_says_the_same() -> None:
    picture = f'<img alt="{PUMP}" src="pump.png">'
    assert read(f"<p>a {picture} b</p><p>c {picture} d</p>") == f"a {PUMP} b\n\nc d"
    assert read(f"<h2>{picture} Parts</h2><p>a</p>") == "Parts\n\na"
    assert read(f"<h2>{PUMP}</h2><p>a {picture} b</p>") == f"{PUMP}\n\na b"
    formula = '<img class="math" alt="a + b + c">'
    assert read(f"<p>{formula} is {formula}.</p>") == "a + b + c is a + b + c."
