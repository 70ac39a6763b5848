from __future__ import annotations

import pytest

from aidre.ingest.sites.includes import MAX_CHARACTERS, MAX_DEPTH, MAX_FILES, Expansion

FILES = {
    "part.md": "---\ntitle: Part\n---\nThe stone.\n",
    "code.py": "a = 1\n# region x\nb = 2\n# endregion x\nc = 3\n",
    "cut.md": "one\n<!-- --8<-- [start:x] -->\ntwo\n<!-- --8<-- [end:x] -->\nthree\n",
    "marked.md": "one\n<!-- begin -->\ntwo\n<!-- stop -->\nthree",
    "tagged.rb": "one\n# tag::x[]\ntwo\n# end::x[]\n",
    "self.md": "again\n--8<-- 'self.md'\n",
}


def expand(text: str, *forms: str, files: dict[str, str] | None = None) -> str:
    known = FILES if files is None else files
    return Expansion(forms, lambda _, name: (name, known[name]) if name in known else None).expand(text, "page.md")


@pytest.mark.parametrize(
    ("form", "line", "expected"),
    [
        ("snippet", '--8<-- "part.md"', "The stone."),
        ("snippet", "    -8<- 'part.md'", "    The stone."),
        ("snippet", '--8<-- "cut.md:x"', "two"),
        ("snippet", '--8<-- "code.py:1:1"', "a = 1"),
        ("snippet", "--8<--\npart.md\n\ncut.md:x\n--8<--", "The stone.\n\ntwo"),
        ("include-markdown", '{% include-markdown "part.md" %}', "The stone."),
        ("include-markdown", '{% include "marked.md" start="<!-- begin -->" end="<!-- stop -->" %}', "two"),
        ("brace", "{!part.md!}", "The stone."),
        ("comment", "<!--@include: part.md-->", "The stone."),
        ("comment", "<!-- @include: part.md{4,4} -->", "The stone."),
        ("code", "<<< code.py", "```py\na = 1\n# region x\nb = 2\n# endregion x\nc = 3\n```"),
        ("code", "<<< code.py#x{1}", "```py\nb = 2\n```"),
        ("liquid", "{% include part.md a='b' %}", "The stone."),
        ("liquid", "{% include_relative part.md %}", "The stone."),
        ("shortcode", "{{< include part.md >}}", "The stone."),
        ("directive", "```{include} part.md\n:start-line: 1\n```", "The stone."),
        ("rst", ".. include:: part.md\n   :start-line: 0", "The stone."),
        ("adoc", "include::part.md[leveloffset=+1]", "The stone."),
        ("adoc", "include::tagged.rb[tag=x]", "two"),
        ("adoc", "include::tagged.rb[]", "one\ntwo"),
        ("component", "import Part from 'part.md';\n\n<Part />", "import Part from 'part.md';\n\nThe stone."),
    ],
)
def test_an_included_file_stands_for_its_line(form: str, line: str, expected: str) -> None:
    assert expand(f"before\n{line}\nafter", form) == f"before\n{expected}\nafter"


@pytest.mark.parametrize(
    "line", ['--8<-- "missing.md"', ';--8<-- "part.md"', "--8<-- https://x.example/part.md", '--8<-- "part.md" more']
)
def test_what_is_no_include_or_is_not_found_stays(line: str) -> None:
    assert expand(line, "snippet") == line


def test_a_page_of_a_generator_without_includes_stays() -> None:
    assert expand('--8<-- "part.md"') == '--8<-- "part.md"'


def test_a_file_that_includes_itself_ends() -> None:
    assert expand("--8<-- 'self.md'", "snippet") == "again\n--8<-- 'self.md'"


def test_includes_within_includes_end_at_a_depth() -> None:
    files = {f"{n}.md": f"{n}\n--8<-- '{n + 1}.md'" for n in range(100)}
    lines = expand("--8<-- '0.md'", "snippet", files=files).split("\n")
    assert lines[:-1] == [str(n) for n in range(MAX_DEPTH)]


def test_files_that_include_each_other_many_times_are_bounded() -> None:
    files = {f"{n}.md": f"--8<-- '{n + 1}.md'\n" * 50 for n in range(MAX_DEPTH)} | {f"{MAX_DEPTH}.md": "x"}
    assert len(expand("--8<-- '0.md'", "snippet", files=files)) < MAX_FILES * 50 * 20
    large = {"large.md": "x" * (MAX_CHARACTERS // 3)}
    assert len(expand("--8<-- 'large.md'\n" * 100, "snippet", files=large)) < MAX_CHARACTERS + 3000
