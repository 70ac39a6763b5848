"""HTML as a document: main text, headings in it, what head and JSON-LD say, encodings, and pages that are traps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document
from aidre.ingest.formats.html import read_html
from aidre.ingest.records.file import File
from aidre.ingest.records.vectors import VectorRules
from tests.support.ingests import Bench
from tests.support.rows import one


def read(tmp_path: Path, content: str | bytes, url: str | None = None) -> Document:
    path = tmp_path / "page.html"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return one(list(read_html(File(path, "docs", "page.html", url), VectorRules([], []))))


def test_words_have_no_characters_that_no_reader_sees(tmp_path: Path) -> None:
    hidden = "Unter&shy;neh&#173;mens&#xAD;f\u00adör\u200bde&ZeroWidthSpace;rung &amp;shy; می\u200cخواهم &#8211; "
    page = read(tmp_path, f"<title>Ti&shy;tel</title><main><h1>Kopf&shy;zeile</h1><p>{hidden}x</p></main>")
    assert (page.title, page.text) == (
        "Titel",
        "Kopfzeile\n\nUnternehmensförderung &shy; می\u200cخواهم – x",
    )


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
    [
        ("<h2>a</h2><h1>The <b>one</b></h1>", "The one"),
        ("<h3>First</h3><p>x<h3>Second</h3>", "First"),
        ("<p>x", "page"),
        ("<title> </title><p>x", "page"),
        ("<title>The one — A site</title><h1>The one</h1>", "The one"),
        ("<title>One | Two</title><meta property=og:site_name content=Two><p>x", "One"),
    ],
)
def test_the_title_is_that_of_the_head_the_first_heading_or_the_file(tmp_path: Path, page: str, title: str) -> None:
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


def test_a_heading_that_is_a_button_is_a_heading(tmp_path: Path) -> None:
    """As in the accordions of frequent questions."""
    item = "<h2 class=accordion-header><button type=button>{}</button></h2><div><p>{}</div>"
    answer = "Send it back within thirty days, in its own box, with the slip that came with it. " * 8
    page = item.format("May I return it?", answer) + "<button>Chat with us</button>" + item.format("Who pays?", answer)
    document = read(tmp_path, f"<main>{page}</main>")
    assert [each.title for each in document.headings] == ["May I return it?", "Who pays?"]
    assert "Chat" not in document.text


@pytest.mark.parametrize(
    ("given", "is_own"),
    [
        ("class='starlight-aside starlight-aside--caution' aria-label=Caution", True),
        ("class='footnote-list brackets'", True),
        ("role=note", True),
        ("class=sidebar", False),
        ("class=topics", False),
        ("", False),
    ],
)
def test_an_aside_that_is_a_note_is_part_of_the_text(tmp_path: Path, given: str, is_own: bool) -> None:
    prose = "<p>The command takes the name of a store, and looks for what has not been used for a long time. " * 6
    page = f"<main><h1>Clean</h1>{prose}<aside {given}><p>Caution<p>It deletes what it finds.</aside>{prose}</main>"
    assert ("It deletes what it finds." in read(tmp_path, page).text) == is_own


def test_the_declared_encoding_is_read(tmp_path: Path) -> None:
    page = '<meta charset="{}"><p>café “x”'
    assert read(tmp_path, page.format("windows-1252").encode("cp1252")).text == "café “x”"
    assert read(tmp_path, page.format("iso-8859-1").encode("cp1252")).text == "café “x”"
    legacy = "<meta http-equiv=content-type content='text/html; charset=shift_jis'>日本"
    assert read(tmp_path, legacy.encode("shift_jis")).text == "日本"
    assert read(tmp_path, b"\xef\xbb\xbf" + page.format("latin-1").encode()).text == "café “x”"


@pytest.mark.parametrize(
    ("name", "codec", "words"),
    [
        ("gb2312", "gbk", "朱镕基"),
        ("Shift_JIS", "cp932", "①髙﨑"),
        ("x-sjis", "cp932", "日本"),
        ("euc-kr", "cp949", "똠방각하"),
        ("big5", "cp950", "碁盤"),
        ("windows-874", "cp874", "ไทย"),
        ("iso-8859-8-i", "iso-8859-8", "שלום"),
        ("utf-16", "utf-8", "café"),
        ("gb2312", "utf-8", "新电脑"),
        ("no-such-code", "utf-8", "café"),
    ],
)
def test_an_encoding_is_read_as_browsers_read_it(tmp_path: Path, name: str, codec: str, words: str) -> None:
    """Older names are used for larger encodings, ASCII that says it is UTF-16 is not, and copies were converted."""
    page = f"<meta charset={name}><title>{words}</title><p>{words}"
    assert read(tmp_path, page.encode(codec)).text == words


@pytest.mark.parametrize("name", ["no-such-code", "zip", "hex", "undefined", "idna", "punycode"])
def test_an_encoding_that_is_none_is_passed_over(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, f"<meta charset={name}><p>caf".encode() + b"\xe9").text == "café"


@pytest.mark.slow
def test_a_depth_bomb_fails_and_a_deep_page_is_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument, match="inside each other"):
        read(tmp_path, "<div>" * 100_000)
    assert read(tmp_path, "<div>" * 3_000 + "deep").text == "deep"
    assert read(tmp_path, "<p>x" * 6_000).text.count("x") == 6_000


@pytest.mark.parametrize("page", ["", "<frameset>", "<", "<!--", "&#xD800;&#0;", "</p></html>", "<svg><p>"])
def test_broken_pages_do_not_break_the_reader(tmp_path: Path, page: str) -> None:
    read(tmp_path, page).text.encode()


def test_an_encoding_that_is_named_at_the_end_of_the_first_kilobyte_is_read_whole(tmp_path: Path) -> None:
    for padding in range(975, 1015):
        page = f"<!--{'x' * padding}--><meta charset=windows-1252><p>café"
        assert page.index("<meta") < 1024
        assert read(tmp_path, page.encode("cp1252")).text == "café"


def test_an_xhtml_page_is_read(tmp_path: Path) -> None:
    page = (
        '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml" lang="fr"><p>Été</p></html>'
    )
    document = read(tmp_path, page)
    assert (document.text, document.metadata) == ("Été", {"language": "fr"})


@pytest.mark.parametrize(
    ("head", "url"),
    [
        ("<link rel=canonical href=https://x.org/a><meta property=og:url content=https://x.org/b>", "https://x.org/a"),
        ("<meta property=og:url content=https://x.org/b>", "https://x.org/b"),
        ("<link rel=canonical href='/a?b=1'>", "https://base/a?b=1"),
        ("<base href=https://y.org/d/><link rel=canonical href=a>", "https://y.org/d/a"),
        ("<link rel=canonical href=''>", "https://base/docs/page.html"),
        ("<link rel=canonical href='javascript:x'>", "https://base/docs/page.html"),
        ("<link rel=canonical href='http://[x'>", "https://base/docs/page.html"),
        ("", "https://base/docs/page.html"),
    ],
)
def test_the_url_is_the_canonical_one_as_an_absolute_address(tmp_path: Path, head: str, url: str) -> None:
    document = read(tmp_path, f"<head>{head}</head><p>x", url="https://base/docs/page.html")
    assert (document.url, document.canonical) == (url, True)


def test_a_relative_canonical_address_of_nowhere_is_none(tmp_path: Path) -> None:
    assert read(tmp_path, "<link rel=canonical href=/a><p>x").url is None


def script(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return f'<script type="application/ld+json">{text}</script>'


RECIPE = {
    "@context": "https://schema.org",
    "@type": "Recipe",
    "name": "Pumpkin soup",
    "author": {"@id": "#jane"},
    "datePublished": "2026-03-01",
    "recipeIngredient": ["1 pumpkin", "salt"],
    "recipeInstructions": [{"@type": "HowToStep", "text": "Boil it."}],
}
SITE = {"@context": "https://schema.org", "@graph": [{"@type": "WebSite", "@id": "#s", "name": "Soups"}]}
JANE = {"@type": "Person", "@id": "#jane", "name": "Jane"}


def test_the_object_that_the_page_is_about_is_the_documents(tmp_path: Path) -> None:
    page = f"<title>Soup | Soups</title>{script(SITE)}{script(RECIPE)}{script([JANE])}<p>A soup for cold days.</p>"
    document = read(tmp_path, page)
    whole = RECIPE | {"author": JANE}
    assert document.schema_object == document.semantic_payload == whole
    assert (document.text, document.title, document.type) == ("A soup for cold days.", "Soup | Soups", "Recipe")
    assert (document.id, document.updated_at) == ("docs/page.html", "2026-03-01T00:00:00Z")


def test_a_page_without_words_has_those_of_its_object(tmp_path: Path) -> None:
    document = read(tmp_path, f"<body><div id=app></div>{script(RECIPE)}")
    assert (document.title, document.text) == ("Pumpkin soup", "1 pumpkin\n\nsalt\n\nBoil it.")


def test_the_object_is_chosen_by_the_address_of_the_page(tmp_path: Path) -> None:
    shoes = [{"@type": "Product", "name": name, "url": f"https://shop.example/{name}"} for name in ("boot", "shoe")]
    page = f"<link rel=canonical href=https://shop.example/shoe>{script(shoes)}<p>x"
    assert read(tmp_path, page).schema_object == shoes[1]
    assert read(tmp_path, f"{script(shoes)}<p>x", url="https://shop.example/boot").schema_object == shoes[0]


def test_a_page_that_lists_objects_is_one_document_with_all_of_them_as_its_payload(tmp_path: Path) -> None:
    shoes = [{"@type": "Product", "name": name, "url": f"https://shop.example/{name}"} for name in ("boot", "shoe")]
    document = read(tmp_path, f"{script(SITE)}{script(shoes)}{script(shoes)}<h1>Shoes</h1><p>All of them.")
    assert (document.schema_object, document.type, document.text) == (None, None, "Shoes\n\nAll of them.")
    assert document.semantic_payload == {"@context": "https://schema.org", "@graph": shoes}


@pytest.mark.parametrize(
    "text",
    [
        orjson.dumps(RECIPE).decode().replace("Boil it.", "Boil\n\tit."),
        f"<!-- {orjson.dumps(RECIPE).decode()} -->",
        f"//<![CDATA[\n{orjson.dumps(RECIPE).decode()};\n//]]>",
        f" {orjson.dumps([[], 3, RECIPE]).decode()} ",
    ],
)
def test_scripts_of_careless_templates_are_read(tmp_path: Path, text: str) -> None:
    document = read(tmp_path, script("{broken") + script(text) + "<p>x")
    assert document.schema_object is not None and document.schema_object["name"] == "Pumpkin soup"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[" * 2000,
        '{"a":' * 600 + "1" + "}" * 600,
        '{"@type": 3}',
        '{"@type": []}',
        '{"@type": "Organization", "name": "X"}',
        '{"@graph": ["x", {"no": "type"}]}',
        '"' + "x" * (5 << 20) + '"',
    ],
    ids=range(10),
)
def test_scripts_that_say_nothing_of_the_page_are_passed_over(tmp_path: Path, text: str) -> None:
    document = read(tmp_path, f"{script(text)}<p>words")
    assert (document.schema_object, document.semantic_payload, document.text) == (None, None, "words")


def test_an_odd_object_does_not_fail_its_page(tmp_path: Path) -> None:
    thing = {"@type": "Article", "type": 3, "updated_at": "soon", "dateModified": "yesterday", "url": [{}]}
    document = read(tmp_path, f"{script(thing)}<p>words")
    assert (document.text, document.updated_at, document.schema_object) == ("words", None, thing)


@pytest.mark.slow
def test_what_a_head_says_without_end_is_cut(tmp_path: Path) -> None:
    things = ",".join(f'{{"@type":"Thing","name":"{n}"}}' for n in range(20_000))
    document = read(tmp_path, f"<title>{'long ' * 100_000}</title>{script(f'[{things}]')}<p>words")
    assert document.title is not None and len(document.title) == 999, "white space at the cut is left out"
    assert len(document.semantic_payload["@graph"]) == 1000


def test_pages_are_read_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write("a.html", f"<title>Soup</title>{script(RECIPE)}<p>A soup for cold days.</p>")
    bench.write("b.html", "<div>" * 6000)
    assert (bench.run().updated, [each.split(":")[0] for each in bench.problems]) == (1, ["b.html"])
    again = bench.run()
    assert (again.updated, again.unchanged, again.embedded) == (0, 1, 0)
    bench.write("a.html", f"<title>Soup</title>{script(RECIPE | {'name': 'Other'})}<p>A soup for cold days.</p>")
    again = bench.run()
    assert (again.updated, again.embedded) == (1, 0)


def test_the_body_of_an_article_in_json_ld_is_the_text_where_the_page_shows_a_part(tmp_path: Path) -> None:
    body = "The old stone bridge was built in 1890 and crosses the river near the mill. " * 5
    script = orjson.dumps({"@context": "https://schema.org", "@type": "NewsArticle", "articleBody": body}).decode()
    page = f"<title>Bridge</title><script type='application/ld+json'>{script}</script><h1>Bridge</h1><p>%s</p>"
    assert read(tmp_path, page % "Subscribe to read on.").text == body.strip()
    assert read(tmp_path, page % body).text.startswith("Bridge\n\n")
    shorter = page.replace(body, body[:100])
    assert read(tmp_path, shorter % "Subscribe to read on.").text == "Bridge\n\nSubscribe to read on."


def test_tags_that_are_never_closed_are_no_depth(tmp_path: Path) -> None:
    """The script's tags are text; a page that is not deep is selected from."""
    script = "<script>" + "x = '<div>';" * 300 + "</script>"
    paragraph = "The city council voted on Tuesday to rebuild the old harbour bridge, closed for two winters. "
    page = f"<body>{script}<div class='cookie-banner'><p>Accept all cookies now.</p></div><h1>Bridge</h1>"
    text = read(tmp_path, page + "".join(f"<p>{number}. {paragraph * 2}</p>" for number in range(6)) + "</body>").text
    assert "5. The city council" in text and "cookies" not in text


@pytest.mark.parametrize(
    ("head", "image"),
    [
        ("<meta property=og:image content='https://x.org/a.png'>", "https://x.org/a.png"),
        ("<meta name=twitter:image content=/a.png>", "/a.png"),
        (f"<meta property=og:image content='data:image/png;base64,{'A' * 2_000}'>", None),
        ("", None),
    ],
)
def test_the_image_that_a_page_names_is_metadata(tmp_path: Path, head: str, image: str | None) -> None:
    assert read(tmp_path, f"{head}<p>x").metadata.get("image") == image
