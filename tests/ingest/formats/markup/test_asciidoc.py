"""AsciiDoc as a document: blocks, lists, tables, inline marks, attributes and conditions."""

from __future__ import annotations

from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.markup.asciidoc import MAX_DEPTH, parse


def read(markup: str) -> dict[str, Any]:
    return parse(markup.encode(), {})


def text(markup: str) -> str:
    found = read(markup)["text"]
    assert isinstance(found, str)
    return found


def test_a_page_has_a_title_headings_and_the_members_of_its_header() -> None:
    page = (
        "= The Guide\nAnn Author <ann@x.org>\nv1.2, 2024-03-01: remark\n:keywords: a, b\n:description: On it.\n"
        ":draft:\n\nIntro.\n\n== One\n\nwords\n\n=== Two\n\nmore\n\n== Three\n"
    )
    found = read(page)
    assert (found["title"], found["updated_at"]) == ("The Guide", "2024-03-01")
    assert found["metadata"] == {"author": "Ann Author", "keywords": ["a", "b"], "description": "On it.", "draft": True}
    assert [(level, title) for _, level, title in found["headings"]] == [
        (1, "The Guide"), (2, "One"), (3, "Two"), (2, "Three"),
    ]  # fmt: skip
    assert found["text"] == "The Guide\n\nIntro.\n\nOne\n\nwords\n\nTwo\n\nmore\n\nThree"


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("*b* _i_ `m` #h# **b**old x^2^ H~2~O", "b i m h bold x^2 H2O"),
        ("https://x.org[a site] and https://y.org", "a site and https://y.org"),
        ("link:a.html[text,window=_blank] xref:b.adoc#c[see] xref:first-steps.adoc[]", "text see first steps"),
        ("<<anchor,words>> and <<other-anchor>>", "words and other anchor"),
        ("press kbd:[Ctrl+C], btn:[OK], menu:File[Save > All]", "press Ctrl+C, OK, File > Save > All"),
        ("a footnote:[the note] b", "a  (the note) b"),
        ("[[id]]words (((index,term))) ((shown)) icon:x[]", "words  shown"),
        ("snake_case_name and 2*3*4 and a_b", "snake_case_name and 2*3*4 and a_b"),
        ("\\*not bold* {undefined} {nbsp}{plus}", "*not bold* {undefined}  +"),
        ("image:a.png[A red mill] image:b.png[icon]", "A red mill"),
        ('AT&amp;T "`quoted`"', 'AT&T "quoted"'),
        ("one +\ntwo", "one two"),
    ],
)
def test_inline_marks_become_words(markup: str, expected: str) -> None:
    assert text(markup) == expected


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("NOTE: Mind it.", "Note: Mind it."),
        ("[TIP]\n====\nUse *it*.\n\nOr not.\n====", "Tip: Use it.\n\nOr not."),
        ("[WARNING]\n.Hot\n====\n* a\n* b\n====", "Hot:\n\na\nb"),
        (".Title\n----\na\n  b <1>\n----\n<1> why", "Title\n\na\n  b\n\n1. why"),
        ("```js\nx = 1\n```", "x = 1"),
        ("[source,ruby]\nputs 1\nputs 2\n\nafter", "puts 1\nputs 2\n\nafter"),
        (" literal\n   text", "literal\n  text"),
        ("____\nquoted\n____", "quoted"),
        ("****\nside\n****", "side"),
        ("////\nhidden\n////\n// hidden\nshown", "shown"),
        ("++++\n<b>raw</b>\n++++\nshown", "shown"),
        (
            "include::other.adoc[]\n\nimage::a.png[A long description]\n\ntoc::[]\n\n'''\n\nend",
            "A long description\n\nend",
        ),
        ("Title\n-----\n\nwords", "Title\n\nwords"),
        ("* one\n** inner\n* two\n+\nmore\n\n. first\n. second", "one\ninner\ntwo\n\nmore\n\n1. first\n2. second"),
        ("* [x] done\n* [ ] open", "done\nopen"),
        ("term:: meaning\nother::\n  more", "term\nmeaning\nother\nmore"),
    ],
)
def test_blocks_keep_what_readers_see(markup: str, expected: str) -> None:
    assert text(markup) == expected


def test_attributes_and_conditions_are_those_of_the_text() -> None:
    page = (
        ":product: Mill\n:long: {product} \\\nThree\n\nifdef::product[The {product}.]\n\n"
        "ifndef::product[]\nhidden\nendif::[]\n\nifdef::env-github[]\nhidden\nifdef::product[]\nhidden\nendif::[]\n"
        "endif::[]\n\n{long} runs.\n"
    )
    assert text(page) == "The Mill.\n\nMill Three runs."


def test_attributes_that_repeat_each_other_stay_small() -> None:
    names = "".join(f":a{n}: {{a{n - 1}}}{{a{n - 1}}}{{a{n - 1}}}\n" for n in range(1, 40))
    assert len(text(f":a0: ha\n{names}\n{{a39}}")) < 2000


@pytest.mark.parametrize(
    ("markup", "rows"),
    [
        ("|===\n|a |b\n\n|1 |2\n|===", ["| a | b |", "|---|---|", "| 1 | 2 |"]),
        ('[cols="1,2"]\n|===\n|a\n|b\n\n|1\n|2 and\nmore\n|===', ["| a | b |", "|---|---|", "| 1 | 2 and more |"]),
        ("|===\n|a |b |c\n\n2+|wide |3\n|===", ["| a | b | c |", "|---|---|---|", "| wide |  | 3 |"]),
        (',===\na,b\n1,"2,3"\n,===', ["| a | b |", "|---|---|", "| 1 | 2,3 |"]),
        ("[format=dsv]\n|===\na:b\n1:2\n|===", ["| a | b |", "|---|---|", "| 1 | 2 |"]),
        ("|===\n|a |b\n\n// no\na|* x |y\\|z\n|===", ["| a | b |", "|---|---|", "| * x | y\\|z |"]),
    ],
)
def test_tables_are_tables_of_markdown(markup: str, rows: list[str]) -> None:
    assert text(markup).split("\n") == rows


def test_front_matter_is_read_as_jekyll_and_hugo_do() -> None:
    found = read("---\ntitle: T\ndate: 2024-01-02\nlayout: post\n---\n= Other\n\ntext\n")
    assert (found["title"], found["updated_at"], found["metadata"]) == ("T", "2024-01-02", {"layout": "post"})


def test_blocks_too_deep_inside_each_other_are_refused() -> None:
    marks = ["=" * (4 + depth) for depth in range(MAX_DEPTH + 5)]
    with pytest.raises(InvalidDocument, match="inside each other"):
        read("\n".join([*marks, "x", *reversed(marks)]))


def test_unclosed_blocks_and_nothing_at_all_are_read() -> None:
    assert text("----\na\n\nb") == "a\n\nb"
    assert text("|===\n|a |b\n|1 |2") == "| a | b |\n|---|---|\n| 1 | 2 |"
    assert text("") == ""
    assert text("endif::[]\n+\n[\n[[\n::\n.\n..\nx") != ""
