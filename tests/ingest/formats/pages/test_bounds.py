"""Tags with absurdly many attributes lose those beyond the limit but the known ones; so do lists of options."""

from __future__ import annotations

import re

import pytest
from selectolax.lexbor import LexborHTMLParser

from aidre.ingest.formats.html_parser import parse
from aidre.ingest.formats.pages.bounds import MAX_ATTRIBUTES, MAX_NAMES, MAX_OPTIONS, bound_markup, cut_attributes
from aidre.ingest.formats.pages.main_text import extract_fragment_text

MANY = 3 * MAX_ATTRIBUTES


def attributes(markup: str) -> list[int]:
    return [len(node.attributes) for node in LexborHTMLParser(markup).css("p")]


@pytest.mark.parametrize(
    "piece",
    [" a%d", " a%d=1", " a%d='>'", ' a%d="<p"', "/a%d", "a%d='x'", '\n\ta%d\f=\n"\'"', " <a%d", " a%d=<b", " =%d"],
)
@pytest.mark.parametrize("end", [">", "/>", " / >", ""])
def test_attributes_beyond_the_limit_are_left_out(piece: str, end: str) -> None:
    markup = f"<p {''.join(piece % number for number in range(MANY))}{end}"
    cut = cut_attributes(f"<p id=first>before</p>{markup}after<p id=last>")
    assert max(attributes(cut)) <= MAX_ATTRIBUTES + 1  # the id of the last, where the tag has no end
    if end:
        assert attributes(cut) == [1, MAX_ATTRIBUTES, 1]
        assert LexborHTMLParser(cut).body.text() == "beforeafter"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "markup",
    [
        "<p a='" + "b " * 9_000 + "'>x</p>",
        "<p>" + "a < b, c=d " * 9_000 + "</p>",
        "<p " + "a=1 " * 900 + ">x</p>",
        "<p>x</p>" * 9_000,
        '<p a="' + "<p b='" * 9_000,
        "< p " + "a " * 9_000 + ">",
    ],
)
def test_other_markup_is_as_it_was(markup: str) -> None:
    assert cut_attributes(markup) is markup


def test_a_page_keeps_its_text_around_such_a_tag() -> None:
    many = "".join(f" a{number}=1" for number in range(20_000))
    page = parse(f"<title>t</title><body{many}><p{many}>The text.</p><p>More of it.</p>".encode(), {})
    assert re.sub(r"\s+", " ", str(page["text"])) == "The text. More of it."


def test_options_beyond_the_limit_are_no_options() -> None:
    few, many = "<select>" + "<option>x" * 10, "<SELECT>" + "<OPTION value=1>x" * (2 * MAX_OPTIONS)
    tree = LexborHTMLParser(bound_markup(many))
    assert bound_markup(few) is few
    assert len(tree.css("option")) == MAX_OPTIONS
    assert (tree.body.text() if tree.body else "") == "x" * (2 * MAX_OPTIONS)


@pytest.mark.parametrize("piece", ["<u%d></u%d>.", "</u%d>.", "<p a%d>.", "<p class='a > b' a%d='1'/>.", "</p a%d>."])
def test_names_beyond_the_limit_are_no_names(piece: str) -> None:
    count = 2 * MAX_NAMES
    markup = "".join(piece.replace("%d", str(number)) for number in range(count))
    bounded = bound_markup(f"<p id=first class=first>before</p>{markup}<p class=last>after</p>")
    assert len(set(re.findall(r"[ua]\d+", bounded))) <= MAX_NAMES
    tree = LexborHTMLParser(bounded)
    assert (tree.body.text() if tree.body else "") == "before" + "." * count + "after"
    assert [node.text() for node in tree.css("p[id=first], p.last")] == ["before", "after"]


def test_many_tags_of_few_names_are_as_they_were() -> None:
    markup = "".join(f"<a href='{number}' title=\"a > b\" hidden>x</a >" for number in range(2 * MAX_NAMES))
    assert bound_markup(markup) == markup


def test_names_of_attributes_are_counted_over_all_tags() -> None:
    markup = "".join(
        f"<p {' '.join(f'a{tag}x{number}' for number in range(MAX_ATTRIBUTES - 1))}>." for tag in range(10)
    )
    assert len(set(re.findall(r"a\d+x\d+", bound_markup(markup)))) == MAX_NAMES


@pytest.mark.parametrize("piece", ["<x%d></x%d>", "<i a%d=1></i>"])
def test_what_hides_a_text_is_known_after_any_number_of_other_names(piece: str) -> None:
    others = "".join(piece.replace("%d", str(number)) for number in range(MAX_NAMES + 1))
    hidden = "<SCRIPT>secret</SCRIPT><style>secret</style><p HIDDEN>secret</p><p style='display:none'>secret</p>"
    hidden += f"<p {' '.join(f'a{number}' for number in range(MANY))} hidden>secret</p>"
    assert extract_fragment_text(f"<div>{others}{hidden}<p>one</p><p>two</p></div>").split() == ["one", "two"]
