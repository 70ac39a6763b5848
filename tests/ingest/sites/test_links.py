from __future__ import annotations

import pytest

from aidre.ingest.sites.links import rewrite_links, split_wikilink

PAGES = {"b.md": "https://x.example/b/", "a b.md": "https://x.example/a%20b/", "b.md#x": "https://x.example/b/#x"}
NOTES = {"oil": "https://x.example/Oil", "stone": ""}


def rewrite(text: str, *, keeps_unknown: bool = False) -> str:
    return rewrite_links(
        text,
        find=PAGES.get,
        find_reference=lambda name: f"https://x.example/{name}/",
        find_note=lambda name: NOTES.get(name.lower()),
        keeps_unknown=keeps_unknown,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see [b](b.md)", "see [b](https://x.example/b/)"),
        ('[b](b.md "Title")', '[b](https://x.example/b/ "Title")'),
        ("[a](<a b.md>)", "[a](https://x.example/a%20b/)"),
        ("[b](b.md#x) and [c](c.md)", "[b](https://x.example/b/#x) and [c](c.md)"),
        ("[![p](p.png)](b.md)", "[![p](p.png)](https://x.example/b/)"),
        ('<a class="x" href="b.md">b</a>', '<a class="x" href="https://x.example/b/">b</a>'),
        ("[b]: b.md", "[b]: https://x.example/b/"),
        ('[b]({{< ref "b" >}})', "[b](https://x.example/b/)"),
        ("[b]({{% relref b %}})", "[b](https://x.example/b/)"),
        ("[b]({% link b %})", "[b](https://x.example/b/)"),
        ("`[b](b.md)` [b](b.md)", "`[b](b.md)` [b](https://x.example/b/)"),
        ("```\n[b](b.md)\n```\n[b](b.md)", "```\n[b](b.md)\n```\n[b](https://x.example/b/)"),
        ("~~~~\n~~~\n[b](b.md)\n~~~~", "~~~~\n~~~\n[b](b.md)\n~~~~"),
    ],
)
def test_a_link_to_a_file_leads_to_its_page(text: str, expected: str) -> None:
    assert rewrite(text) == expected


@pytest.mark.parametrize("text", ["[b](https://b.md)", "[b](#b.md)", "[b](mailto:b.md)", "[b](//b.md)", "[b](c.md)"])
def test_other_links_stay(text: str) -> None:
    assert rewrite(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[Oil]]", "[Oil](https://x.example/Oil)"),
        ("[[Oil|the oil]]", "[the oil](https://x.example/Oil)"),
        ("[[Oil#Kinds of oil]]", "[Oil > Kinds of oil](https://x.example/Oil#Kinds+of+oil)"),
        ("[[Oil#A#B|c]]", "[c](https://x.example/Oil#B)"),
        ("[[Oil#^block]]", "[Oil](https://x.example/Oil)"),
        ("![[Oil]]", "[Oil](https://x.example/Oil)"),
        ("| [[Oil\\|c]] |", "| [c](https://x.example/Oil) |"),
        ("[[Stone|a stone]]", "a stone"),
        ("`x` [[Oil|`oil()`]] `[[Oil]]`", "`x` [`oil()`](https://x.example/Oil) `[[Oil]]`"),
        ("[[Nowhere]]", "Nowhere"),
        ("[[#Kinds]]", "Kinds"),
        ("![[wheel.png]]", ""),
        ("![[wheel.png|200x100]]", ""),
        ("![[wheel.png|A wheel]]", "A wheel"),
    ],
)
def test_a_wikilink_becomes_its_words_and_a_link_that_resolves(text: str, expected: str) -> None:
    assert rewrite(text) == expected


def test_where_no_vault_is_recognised_only_links_to_files_are_wikilinks() -> None:
    assert rewrite("if [[ -f x ]]; then [[Oil]]", keeps_unknown=True) == (
        "if [[ -f x ]]; then [Oil](https://x.example/Oil)"
    )


def test_a_wikilink_has_three_parts() -> None:
    assert split_wikilink("a#b|c") == ("a", "b", "c")
    assert split_wikilink(" a ") == ("a", "", "")


@pytest.mark.parametrize(
    "text",
    ["[" * 20_000, "](" * 9_000, "[[" * 9_000, "`" * 19_999, "{{< ref " * 2_000, "](<" * 6_000, " href=" * 3_000],
)
def test_hard_lines_stay_as_they_are(text: str) -> None:
    assert rewrite(text) == text
