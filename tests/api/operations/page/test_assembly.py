"""Joining a page, `api/operations/page/assembly.py`: what may be left out, and what may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.api.operations.page import assembly


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "page.html").write_text("<style></style><p>a  b</p><script></script>")
    (tmp_path / "a.css").write_text("a, b {\n  color: red; margin: 0 auto }\n")
    monkeypatch.setattr(assembly, "FOLDER", tmp_path)
    return tmp_path


def joined(folder: Path, script: str) -> str:
    (folder / "a.js").write_text(script, encoding="utf-8")
    return assembly.assembled("page.html", ["a.css"], ["a.js"]).content.decode()


def test_spaces_and_comments_go_outside_of_strings(folder: Path) -> None:
    page = joined(folder, '// a comment\n  const a = "b , c : d", e = [1, 2];\n')
    assert '<script>\n"use strict";\nconst a="b , c : d",e=[1,2];</script>' in page
    assert "<style>\na,b{color:red;margin:0 auto}</style>" in page
    assert "<p>a  b</p>" in page


@pytest.mark.parametrize(
    ("line", "squeezed"),
    [
        ("const a = `b , c`;", "const a=`b , c`;"),
        ("const a = `b ${c + d} , e`, f = [ 1 ];", "const a=`b ${c + d} , e`,f=[1];"),
        ("a = b + c;", "a=b+c;"),
        ("a = b + +c;", "a=b + +c;"),
        ("a = b++ + ++c;", "a=b++ + ++c;"),
        ("if (a) { b() }", "if(a){b()}"),
    ],
)
def test_templates_and_sums_are_squeezed_where_that_changes_nothing(folder: Path, line: str, squeezed: str) -> None:
    assert f'"use strict";\n{squeezed}' in joined(folder, f"  {line}\n")


def test_lines_are_joined_where_no_semicolon_would_be_put(folder: Path) -> None:
    page = joined(folder, "a();\nif (b) {\nc(d,\ne);\n}\nf = g\nh()\n")
    assert "a();if(b){c(d,e);}f=g\nh()\n</script>" in page


@pytest.mark.parametrize(
    ("line", "squeezed"),
    [
        (r'const a = "b \" , c";', r'const a="b \" , c";'),
        ("a = /b , c/;", "a= /b , c/;"),
        ("f(/[/] , c/g, d);", "f(/[/] , c/g,d);"),
        ("return /b , c/ && d;", "return /b , c/&&d;"),
        ("a = b / c / d - e * f;", "a=b / c / d-e*f;"),
        ("a = b - -c;", "a=b - -c;"),
        ("a = b-- - --c;", "a=b-- - --c;"),
    ],
)
def test_what_stands_in_strings_and_patterns_stays(folder: Path, line: str, squeezed: str) -> None:
    assert f"\n{squeezed}" in joined(folder, f"  {line}\n")


def test_ends_of_lines_stay_between_words_alone(folder: Path) -> None:
    (folder / "page.html").write_text("<style></style>\n<p>\na\n<b>c</b>\n<a>d</a>\n</p>\n<script></script>")
    assert "</style><p>a\n<b>c</b>\n<a>d</a></p>" in joined(folder, "a();\n")


def test_data_of_a_page_end_no_element_and_change_its_tag(folder: Path) -> None:
    (folder / "page.html").write_text("<head></head><style></style><script></script>")
    joined(folder, "a();\n")
    page = assembly.assembled("page.html", ["a.css"], ["a.js"])
    made = assembly.with_data(page, b'{"a": "</script>"}')
    assert b'<script type="application/ld+json">{"a": "\\u003c/script>"}</script></head>' in made.content
    assert made.headers["ETag"] != page.headers["ETag"]
    assert made.headers["Content-Security-Policy"] == page.headers["Content-Security-Policy"]


@pytest.mark.parametrize("line", ["const a = 'b , c';", "a() /* b , c */;"])
def test_a_line_with_other_strings_stays(folder: Path, line: str) -> None:
    assert f"\n{line}\n" in joined(folder, f"  {line}\n")


def test_a_page_whose_script_changes_has_another_policy_and_tag(folder: Path) -> None:
    (folder / "b.js").write_text("b();")
    (folder / "a.js").write_text("a();")
    first = assembly.assembled("page.html", ["a.css"], ["a.js"])
    second = assembly.assembled("page.html", ["a.css"], ["a.js", "b.js"])
    for name in ("ETag", "Content-Security-Policy"):
        assert first.headers[name] != second.headers[name]
