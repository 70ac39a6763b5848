"""HTML as a document: main text, headings in it, what the head says, encodings, and pages that are traps."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document
from aidre.ingest.found import File, Rejected
from aidre.ingest.html import html
from aidre.ingest.vectors import VectorRules


def read(tmp_path: Path, content: str | bytes, url: str | None = None) -> Document:
    path = tmp_path / "page.html"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    (found,) = html(File(path, "docs", "page.html", url), VectorRules([], []))
    assert not isinstance(found, Rejected)
    return found[1]


def test_the_head_gives_title_url_language_and_date(tmp_path: Path) -> None:
    document = read(
        tmp_path,
        "<!doctype html><html lang='de-AT'><head><title> A\n B </title><link href='https://x.org/a' rel='Canonical'>"
        "<meta name=description content=' About '><meta property='article:modified_time' "
        "content='2026-04-01T10:00:00+02:00'></head><body><p>Text",
        url="https://base/page.html",
    )
    assert (document.id, document.title, document.url) == ("docs/page.html", "A B", "https://x.org/a")
    assert document.updated_at == "2026-04-01T08:00:00Z"
    assert document.metadata == {"language": "de-AT", "description": "About"}
    assert (document.text, document.canonical) == ("Text", True)


def test_a_date_in_another_notation_is_not_taken(tmp_path: Path) -> None:
    page = "<meta property='article:modified_time' content='last week'>x"
    assert read(tmp_path, page).updated_at is None


@pytest.mark.parametrize(
    ("page", "title"),
    [("<h2>a</h2><h1>The <b>one</b></h1>", "The one"), ("<p>x", "page"), ("<title> </title><p>x", "page")],
)
def test_the_title_is_the_first_h1_or_the_file_where_the_head_has_none(tmp_path: Path, page: str, title: str) -> None:
    assert read(tmp_path, page).title == title


def test_blocks_are_paragraphs_and_white_space_collapses_outside_pre(tmp_path: Path) -> None:
    document = read(
        tmp_path,
        "<h1>One  <b>two</b></h1>\n<p>Hello\n <i>world</i>, it&#39;s<br>me.<!-- no --></p><pre>  a\n   b</pre>"
        "<ul><li>x</li> <li>y</ul><table><tr><td>1<td>2<tr><td>3</table>end",
    )
    assert document.text == "One two\n\nHello world, it's\nme.\n\n  a\n   b\n\nx\ny\n\n1\t2\n3\n\nend"


def test_headings_stand_where_they_begin(tmp_path: Path) -> None:
    document = read(tmp_path, "<p>a<h1>One</h1><p>b<h3> <i>T</i>wo </h3>c<h2></h2>")
    assert [(each.level, each.title) for each in document.headings] == [(1, "One"), (3, "Two")]
    assert [document.text[each.start :][:3] for each in document.headings] == ["One", "Two"]


def test_main_text_comes_without_menus_scripts_and_forms(tmp_path: Path) -> None:
    page = "<nav>menu</nav><header>top</header><main><p>Text<script>x</script><style>y</style><form>z</form></main>foot"
    assert read(tmp_path, page).text == "Text"
    assert read(tmp_path, "<div>a</div><article>only</article>b").text == "only"
    assert read(tmp_path, "<article>one</article><article>two</article>").text == "one\n\ntwo"


def test_the_declared_encoding_is_read(tmp_path: Path) -> None:
    page = '<meta charset="{}"><p>café “x”'
    assert read(tmp_path, page.format("windows-1252").encode("cp1252")).text == "café “x”"
    assert read(tmp_path, page.format("iso-8859-1").encode("cp1252")).text == "café “x”"
    legacy = "<meta http-equiv=content-type content='text/html; charset=shift_jis'>日本"
    assert read(tmp_path, legacy.encode("shift_jis")).text == "日本"
    assert read(tmp_path, b"\xef\xbb\xbf" + page.format("latin-1").encode()).text == "café “x”"


@pytest.mark.parametrize("name", ["no-such-code", "zip", "hex", "undefined", "idna"])
def test_an_encoding_that_is_none_fails_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidDocument) as error:
        read(tmp_path, f"<meta charset={name}>caf".encode() + b"\xe9")
    assert "UTF-8" in error.value.message


def test_a_depth_bomb_fails_and_a_deep_page_is_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument, match="inside each other"):
        read(tmp_path, "<div>" * 100_000)
    assert read(tmp_path, "<div>" * 3_000 + "deep").text == "deep"
    assert read(tmp_path, "<p>x" * 20_000).text.count("x") == 20_000


@pytest.mark.parametrize("page", ["", "<frameset>", "<", "<!--", "&#xD800;&#0;", "</p></html>", "<svg><p>"])
def test_broken_pages_do_not_break_the_reader(tmp_path: Path, page: str) -> None:
    read(tmp_path, page).text.encode()
