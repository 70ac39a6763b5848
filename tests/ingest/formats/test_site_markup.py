"""Markdown as its readers see it: nothing that speaks to a generator of sites, every word of the author."""

from __future__ import annotations

import pytest

from aidre.ingest.formats.site_markup import strip_site_markup


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("# Title {#title}\n\nwords", "# Title\n\nwords"),
        ("# Title {#title.of-it}\n", "# Title\n"),
        ("## Steps { #steps .wide } ##\n", "## Steps\n"),
        ("Title {#title}\n===\n", "Title\n===\n"),
        ("# Title¶\r\nwords\r\n", "# Title\r\nwords\r\n"),
        ('## run() <sup class="vt-badge" data-text="3.5+" /> {#run}', "## run() 3.5+"),
        ('## run() <Badge type="tip" text="new" />', "## run() new"),
        ('<h1 align="center">The <em>Project</em></h1>\n', "# The Project\n"),
        ("a\n\n{: .lead }\nwords", "a\n\nwords"),
        ('see [it](http://x.org){.external target="_blank"}.', "see [it](http://x.org)."),
    ],
)
def test_attributes_badges_and_permalinks_are_left_out(written: str, seen: str) -> None:
    assert strip_site_markup(written) == seen


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        (":::tip\nUse it.\n:::\n", "\nTip: Use it.\n\n"),
        ("::: warning Beware\nIt bites.\n:::\n", "\nBeware: It bites.\n\n"),
        ("a\n\n/// note | Technical Details\n\nYou could.\n\n///\n\nb", "a\n\nTechnical Details: You could.\n\nb"),
        ("/// details\n\nMore.\n\n///\n", "\nMore.\n\n"),
        ("//// tab | Python 3.10+\n\n```py\nx = 1\n```\n\n////\n", "\nPython 3.10+:\n\n```py\nx = 1\n```\n\n"),
        ('!!! note "A name"\n\n    Indented.\n', "\n    A name: Indented.\n"),
        ("> [!NOTE]\n> Words of it.\n", "\n> Note: Words of it.\n"),
        (":::tip\n- one\n- two\n:::\n", "\nTip:\n\n- one\n- two\n\n"),
        ("::: code-group\n```sh\nnpm i\n```\n:::\n", "\n```sh\nnpm i\n```\n\n"),
        ("- item\n\n  :::warning\n  Do not.\n  :::\n\n- other", "- item\n\n  Warning: Do not.\n\n- other"),
    ],
)
def test_the_name_of_a_box_is_the_beginning_of_its_paragraph(written: str, seen: str) -> None:
    assert strip_site_markup(written).strip("\n") == seen.strip("\n")


@pytest.mark.parametrize(
    "written",
    [
        "{* ../../docs_src/cors/tutorial001.py hl[2] *}",
        "{!> ../docs_src/first.py!}",
        "{% include 'x.md' %}",
        "{{#include ../x.md}}",
        "{{< figure src=x >}}",
        '--8<-- "file.md"',
        "```rust\n{{#rustdoc_include ../listings/a.rs:here}}\n```",
        "<!-- a comment\nof two lines -->",
        "<script setup>\nimport { ref } from 'vue'\n\nconst a = ref(0)\n</script>",
        "<svg viewBox='0 0 1 1'>\n<text>x</text>\n</svg>",
        '<div class="demo">',
        "<VueSchoolLink href='https://x.org/a' title='A lesson'/>",
        '<a id="old"></a>',
        "[methods]: ch05-03.html#methods",
        '[site]: https://x.org "A site"',
    ],
)
def test_what_no_reader_sees_is_left_out_and_one_blank_line_stays(written: str) -> None:
    assert strip_site_markup(f"before\n\n{written}\n\nafter\n") == "before\n\nafter\n"


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ('<span class="caption">Figure 1: Lists</span>', "Figure 1: Lists"),
        ('<abbr title="Cross-Origin">CORS</abbr> is', "CORS is"),
        ('<Listing number="4-1" file-name="a.rs" caption="A `Box<T>` of it">', "Listing 4-1: A `Box<T>` of it"),
        ("a <!-- ignore --> b", "a  b"),
        ("| a<br>b | c |", "| a b | c |"),
        ("```rust\nuse a;\n{{#include b.rs}}\n```", "```rust\nuse a;\n```"),
        (f"[Try it](https://play.example/#{'eNqF' * 60}) now", "[Try it](https://play.example/) now"),
    ],
)
def test_the_words_inside_of_markup_stay(written: str, seen: str) -> None:
    assert strip_site_markup(written) == seen


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain words, nothing else\n",
        "## Closed ##  \n",
        "A set {a, b}, `{#code}` and \\{#escaped}\n",
        "```md\n# Title {#title}\n:::tip\n<!-- kept -->\n<div>\n```\n",
        "~~~\n/// kept\n~~~\n",
        "    <div> in indented code\n",
        "`<div>` and ``a ` <b> `` and Vec<T>, a < b > c, <https://x.org>, <me@x.org>\n",
        "1 <!-- never closed\n\nthe rest\n",
        "# \\<script setup>\n\nwords\n\n```\n<script setup>\n</script>\n```\n\\<div class=x>\n",
        "a footnote[^1]\n\n[^1]: its text\n",
        "/// a comment in the manner of Rust\n",
        "!!! Attention\n",
        "x\r\n\r\ny\x00 \u2028z\r\n",
        "\n\n\nblank lines\n\n\n\nof the author\n\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "[see]: this\nis no definition: it has two words\n".replace("[see]: this", "[see]: this one, and"),
    ],
)
def test_other_text_stays_character_by_character(text: str) -> None:
    assert strip_site_markup(text) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    ["<!--", "<a ", "<a b=", "`", "`` ` ", "::: a ", "](x#", "{#", "[a]: ", "# a ", "a #", "<script>", "{{#a}} "],
)
def test_hostile_lines_are_read_to_their_end(part: str) -> None:
    """A search that took the square of the length of the text, or the third power of a line's, would not end here."""
    line = part * (19_900 // len(part))
    strip_site_markup("\n".join([line, part + " " * 19_900 + "x", *[part] * 10_000, line]))


def test_a_text_is_the_same_after_a_second_pass() -> None:
    once = strip_site_markup(":::tip\nUse.\n:::\n\n# A {#a}\n\n<div>\n\n```\n{{#include x}}\ny\n```\n")
    assert strip_site_markup(once) == once == "Tip: Use.\n\n# A\n\n```\ny\n```\n"


def test_the_label_of_a_box_or_a_tab_stands_before_its_text() -> None:
    assert strip_site_markup(":::tip[Often]\nClean it.\n:::") == "Often: Clean it.\n"
    assert strip_site_markup('=== "Linux"\n    Turn left.') == "    Linux: Turn left."
    assert strip_site_markup('<TabItem value="a" label="Apple">\n\nSour.\n\n</TabItem>').split() == ["Apple", "Sour."]
    assert strip_site_markup("Title\n=====\ntext") == "Title\n=====\ntext"
