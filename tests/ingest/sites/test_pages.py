from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aidre.engine.model import Document
from aidre.ingest.records import File, Unpublished
from aidre.ingest.sites import Sites, UrlStyle
from tests.commands.site_builds import SAMPLES
from tests.support.folders import found_in, write

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def read(
    folder: Path, *, url_base: str | None = None, url_style: UrlStyle = "auto", notes: list[str] | None = None
) -> dict[str, Document]:
    """The documents of a source by the paths of their files."""
    items = found_in(folder, url_base=url_base, url_style=url_style, notes=notes, as_of=NOW)
    return {item[1].origin: item[1] for item in items if isinstance(item, tuple)}


def left_out(folder: Path) -> dict[str, str]:
    return {item.origin: item.reason for item in found_in(folder, as_of=NOW) if isinstance(item, Unpublished)}


def sample(name: str, tmp_path: Path) -> Path:
    return shutil.copytree(SAMPLES / name, tmp_path / name)


def mkdocs(tmp_path: Path, settings: str = "") -> Path:
    write(tmp_path / "mkdocs.yml", f"site_name: Mill\nsite_url: https://mill.example/book/\n{settings}")
    write(tmp_path / "docs/index.md", "# Mill\n")
    return tmp_path


def test_a_page_has_its_address_and_its_links_lead_to_pages() -> None:
    notes: list[str] = []
    found = read(SAMPLES / "mkdocs", notes=notes)
    assert found["docs/guide/install.md"].url == "https://mill.example.org/handbook/guide/install/"
    assert found["docs/guide/Größe.md"].url == "https://mill.example.org/handbook/guide/Gr%C3%B6%C3%9Fe/"
    home = found["docs/index.md"]
    assert "[install](https://mill.example.org/handbook/guide/install/#steps)" in home.text
    assert "[the guide](https://mill.example.org/handbook/guide/)" in home.text
    form = "https://mill.example.org/handbook/guide/install/"
    assert f"mkdocs: a site of MkDocs (mkdocs.yml): pages have addresses as {form}" in notes


def test_what_a_page_includes_is_in_its_text() -> None:
    assert "The stone turns fast." in read(SAMPLES / "mkdocs")["docs/guide/install.md"].text
    assert "The stone turns fast." in read(SAMPLES / "vitepress")["guide/install.md"].text
    assert 'turn("wheel")' in read(SAMPLES / "vitepress")["guide/install.md"].text
    assert "The stone turns fast." in read(SAMPLES / "jekyll")["about.md"].text
    assert "The stone turns fast." in read(SAMPLES / "eleventy")["src/guide/install.md"].text


def test_boxes_and_tabs_keep_their_text() -> None:
    text = read(SAMPLES / "mkdocs")["docs/guide/use.md"].text
    assert [word in text for word in ("Oil:", "Oil the wheel.", "Linux:", "Turn left.", "Turn right.")] == [True] * 5


def test_the_base_that_the_user_names_is_where_the_home_page_is(tmp_path: Path) -> None:
    found = read(mkdocs(tmp_path), url_base="http://localhost:8000/preview/")
    assert found["docs/index.md"].url == "http://localhost:8000/preview/"


def test_the_configuration_may_be_above_the_folder_or_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "repo/.git/HEAD")
    mkdocs(tmp_path / "repo")
    assert read(tmp_path / "repo/docs")["index.md"].url == "https://mill.example/book/"
    write(tmp_path / "other/.git/HEAD")
    write(
        tmp_path / "other/website/docusaurus.config.js",
        "module.exports = {url: 'https://mill.example', baseUrl: '/', "
        "presets: [['classic', {docs: {path: '../docs'}}]]}",
    )
    write(tmp_path / "other/docs/a.md", "[b](sub/b.md) [c](/sub/b.md)")
    write(tmp_path / "other/docs/sub/b.md")
    found = read(tmp_path / "other/docs")
    assert found["sub/b.md"].url == "https://mill.example/docs/sub/b"
    assert found["a.md"].text == "[b](https://mill.example/docs/sub/b) [c](https://mill.example/docs/sub/b)"


def test_a_configuration_beyond_the_repository_says_nothing(tmp_path: Path) -> None:
    mkdocs(tmp_path)
    write(tmp_path / "docs/repo/.git/HEAD")
    write(tmp_path / "docs/repo/a.md")
    assert read(tmp_path / "docs/repo")["a.md"].url is None


def test_a_folder_that_a_site_above_does_not_hold_keeps_plain_addresses(tmp_path: Path) -> None:
    mkdocs(tmp_path)
    write(tmp_path / "notes/a.md")
    write(tmp_path / "site/guide/index.html", "<title>Guide</title><p>Built text of some words.</p>")
    assert read(tmp_path / "notes", url_base="https://n.example")["a.md"].url == "https://n.example/a.md"
    built = read(tmp_path / "site", url_base="https://n.example")
    assert built["guide/index.html"].url == "https://n.example/guide/index.html"


def test_what_is_built_and_what_is_code_is_left_out_inside_a_site(tmp_path: Path) -> None:
    mkdocs(tmp_path)
    write(tmp_path / "site/index.html", "<p>Built text of some words.</p>")
    write(tmp_path / "README.md", "# Of the repository")
    assert left_out(tmp_path) == {"site/index.html": "built by MkDocs, or code"}
    assert read(tmp_path)["README.md"].url is None


@pytest.mark.parametrize(
    ("style", "url"),
    [
        ("file", "https://x.example/docs/guide/a.md"),
        ("directory", "https://x.example/docs/guide/a/"),
        ("html", "https://x.example/docs/guide/a.html"),
        ("bare", "https://x.example/docs/guide/a"),
    ],
)
def test_a_style_overrides_the_generator(tmp_path: Path, style: UrlStyle, url: str) -> None:
    mkdocs(tmp_path)
    write(tmp_path / "docs/guide/a.md")
    assert read(tmp_path, url_base="https://x.example", url_style=style)["docs/guide/a.md"].url == url


def test_settings_that_a_program_computes_leave_pages_without_addresses(tmp_path: Path) -> None:
    write(
        tmp_path / ".vitepress/config.js", "export default {sitemap: {hostname: 'https://x.example'}, rewrites: make()}"
    )
    write(tmp_path / "a.md", "[b](b.md)")
    write(tmp_path / "b.md")
    notes: list[str] = []
    assert read(tmp_path, notes=notes)["a.md"].url is None
    assert any("because a program computes rewrites: --url-style" in note for note in notes)


def test_without_an_address_of_the_site_the_notice_says_what_to_do(tmp_path: Path) -> None:
    notes: list[str] = []
    found = read(sample("eleventy", tmp_path), notes=notes)
    assert found["src/index.md"].url is None
    assert any("because it does not say where the site is: --url-base says it" in note for note in notes)


def test_drafts_are_left_out_by_the_rules_of_their_generator() -> None:
    assert left_out(SAMPLES / "jekyll") | {"_drafts/draft.md": "a draft of Jekyll"} == left_out(SAMPLES / "jekyll")
    assert left_out(SAMPLES / "jekyll")["_posts/2099-01-01-future.md"] == "date 2099-01-01T00:00:00Z is ahead"
    assert left_out(SAMPLES / "hugo")["content/docs/future.md"] == "date 2099-01-01T00:00:00Z is ahead"
    assert left_out(SAMPLES / "mkdocs")["docs/later.md"] == "draft_docs of MkDocs"
    assert left_out(SAMPLES / "docusaurus")["docs/tips/unlisted.md"] == "unlisted: true"


def test_drafts_are_taken_where_they_are_asked_for_and_parts_are_not() -> None:
    origins = {item[1].origin for item in found_in(SAMPLES / "jekyll") if isinstance(item, tuple)}
    assert {"_drafts/draft.md", "_posts/2099-01-01-future.md"} < origins
    assert "_includes/warning.md" not in origins


def test_a_link_to_a_page_that_is_not_published_stays_as_it_is(tmp_path: Path) -> None:
    mkdocs(tmp_path, "draft_docs: later.md\n")
    write(tmp_path / "docs/a.md", "[d](d.md) [later](later.md) [i](index.md)")
    write(tmp_path / "docs/d.md", "---\ndraft: true\n---\n")
    write(tmp_path / "docs/later.md")
    assert read(tmp_path)["docs/a.md"].text == "[d](d.md) [later](later.md) [i](https://mill.example/book/)"


def test_documents_come_in_the_order_of_the_site(tmp_path: Path) -> None:
    found = list(read(SAMPLES / "mkdocs"))
    assert found[:3] == ["docs/index.md", "docs/guide/use.md", "docs/guide/install.md"]
    write(tmp_path / "hugo.toml", 'baseURL = "https://x.example"')
    write(tmp_path / "content/a/_index.md", "---\nweight: 2\n---\nA")
    write(tmp_path / "content/b/_index.md", "---\nweight: 1\n---\nB")
    write(tmp_path / "content/b/one.md", "---\nweight: 20\n---\nOne")
    write(tmp_path / "content/b/two.md", "---\nweight: 10\n---\nTwo")
    write(tmp_path / "content/a/three.md", "Three")
    assert [name for name in read(tmp_path) if "index" not in name] == [
        "content/b/two.md", "content/b/one.md", "content/a/three.md",
    ]  # fmt: skip


def test_nothing_outside_of_the_ingested_folder_is_included(tmp_path: Path) -> None:
    write(tmp_path / "secret.md", "SECRET")
    root = mkdocs(tmp_path / "repo", "markdown_extensions: [pymdownx.snippets]\n")
    (root / "docs/link.md").symlink_to(tmp_path / "secret.md")
    (root / "docs/up").symlink_to(tmp_path)
    names = (
        "../../secret.md",
        "link.md",
        "docs/link.md",
        "up/secret.md",
        "docs/up/secret.md",
        str(tmp_path / "secret.md"),
    )
    write(root / "docs/a.md", "\n".join(f'--8<-- "{name}"' for name in names) + "\nEnd\n")
    write(root / "docs/sub/b.md", '--8<-- "mkdocs.yml"\nEnd\n')
    assert "SECRET" not in "".join(document.text for document in read(root).values())
    assert "site_name" in read(root)["docs/sub/b.md"].text
    assert "site_name" not in read(root / "docs")["sub/b.md"].text


def test_files_of_sphinx_and_antora_have_what_they_include() -> None:
    for name, origin in (("sphinx", "guide/install.rst"), ("antora", "docs/modules/ROOT/pages/guide/install.adoc")):
        path = SAMPLES / name / origin
        page = Sites(SAMPLES / name, name).page(File(path, name, origin, within=SAMPLES / name))
        content = page.with_includes(path.read_bytes())
        assert b"The stone turns fast." in content and b"include::" not in content
        assert page.with_includes(b"\xff include::") == b"\xff include::"


def test_names_that_no_file_can_have_lead_nowhere(tmp_path: Path) -> None:
    long = "x" * 300
    mkdocs(tmp_path, "markdown_extensions: [pymdownx.snippets]\n")
    text = f'--8<-- "{long}.md"\n[a]({long}.md) [b](a%00b.md) [[{long}]] [c](%ff.md)\nEnd'
    write(tmp_path / "docs/a.md", text)
    found = read(tmp_path)["docs/a.md"].text
    assert found.endswith(f"[a]({long}.md) [b](a%00b.md) [[{long}]] [c](%ff.md)\nEnd")


def test_wikilinks_of_a_vault_become_words_and_links(tmp_path: Path) -> None:
    vault = sample("obsidian", tmp_path)
    text = read(vault, url_base="https://publish.example/v")["Start here.md"].text
    assert "[the steps](https://publish.example/v/Guide/Install+it#First+steps)" in text
    assert "Nowhere and ." in text
    assert "`[[Oil]]` stays." in text
    assert "[[" not in text.replace("`[[Oil]]`", "")
    assert "See the steps, Oil, oil > Kinds, Nowhere" in read(vault)["Start here.md"].text


def test_in_a_plain_folder_wikilinks_to_its_files_are_links_and_others_text(tmp_path: Path) -> None:
    write(tmp_path / "a.md", "[[b|the other]] [[ -f x ]] [b](b.md)")
    write(tmp_path / "b.md")
    assert read(tmp_path, url_base="https://x.example")["a.md"].text == (
        "[the other](https://x.example/b.md) [[ -f x ]] [b](b.md)"
    )


def test_an_address_of_the_front_matter_that_is_a_path_is_below_the_home_page(tmp_path: Path) -> None:
    write(tmp_path / "hugo.toml", 'baseURL = "https://x.example/site/"')
    write(tmp_path / "content/a.md", "---\nurl: /else/\n---\nA")
    write(tmp_path / "content/b.md", "---\nurl: https://y.example/b\n---\nB")
    found = read(tmp_path)
    assert found["content/a.md"].url == "https://x.example/site/else/"
    assert found["content/b.md"].url == "https://y.example/b"
