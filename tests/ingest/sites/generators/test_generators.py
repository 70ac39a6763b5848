"""What configurations say beside the samples, each rule by the addresses that follow from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.ingest.records import File
from aidre.ingest.sites import Sites
from tests.support.folders import write


def addresses(root: Path, files: dict[str, str], *, of: str | None = None) -> dict[str, str | None]:
    """The addresses of the pages among the files, below the home page; None for one that has none."""
    for path, text in files.items():
        write(root / path, text)
    sites = Sites(root if of is None else root / of, "s", "https://x.example")
    found = {}
    for path in files:
        origin = path if of is None else path.removeprefix(f"{of}/")
        if path.endswith((".md", ".mdx", ".rst", ".adoc", ".qmd")) and "../" not in origin:
            page = sites.page(File(root / path, "s", origin, within=root))
            url = None if page.left_out(None) else page.url
            found[path] = None if url is None else url.removeprefix("https://x.example").removeprefix("/")
    return found


def test_mkdocs_inherits_settings_and_knows_its_tags(tmp_path: Path) -> None:
    files = {
        "base.yml": "docs_dir: pages\nuse_directory_urls: false\nhooks: !!python/name:os.system\n",
        "mkdocs.yml": "INHERIT: base.yml\nsite_name: !ENV [NAME, Mill]\n",
        "pages/a.md": "",
        "pages/sub/README.md": "",
        "pages/templates/x.md": "",
    }
    assert addresses(tmp_path, files) == {
        "pages/a.md": "a.html", "pages/sub/README.md": "sub/index.html", "pages/templates/x.md": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("presets: ['classic']", "docs/a/b"),
        ("presets: [['@docusaurus/preset-classic', {docs: {routeBasePath: 'guide'}}]]", "guide/a/b"),
        ("presets: [['classic', {docs: {numberPrefixParser: false}}]]", "docs/01-a/02_b"),
        ("presets: [['classic', {docs: {routeBasePath: '/'}}]], trailingSlash: true", "a/b/"),
        ("presets: [['classic', {docs: false}]]", None),
        ("plugins: [['@docusaurus/plugin-content-docs', {routeBasePath: 'x'}]]", "x/a/b"),
        ("presets: [['classic', {docs: {path: where()}}]]", None),
        ("presets: make()", None),
    ],
)
def test_docusaurus_by_its_options(tmp_path: Path, settings: str, expected: str | None) -> None:
    files = {"docusaurus.config.js": f"module.exports = {{{settings}}}", "docs/01-a/02_b.md": ""}
    assert addresses(tmp_path, files) == {"docs/01-a/02_b.md": expected}


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ("lastVersion: 'current'", ("docs/a", "docs/2.0/a")),
        ("lastVersion: 'current', versions: {current: {path: 'dev'}}", ("docs/dev/a", "docs/2.0/a")),
        ("includeCurrentVersion: false", (None, "docs/a")),
        ("disableVersioning: true", ("docs/a", None)),
        ("onlyIncludeVersions: ['2.0']", (None, "docs/a")),
    ],
)
def test_docusaurus_by_its_versions(tmp_path: Path, versions: str, expected: tuple[str | None, str | None]) -> None:
    files = {
        "docusaurus.config.js": f"module.exports = {{presets: [['classic', {{docs: {{{versions}}}}}]]}}",
        "versions.json": '["2.0"]',
        "docs/a.md": "",
        "versioned_docs/version-2.0/a.md": "",
    }
    assert tuple(addresses(tmp_path, files).values()) == expected


@pytest.mark.parametrize(
    ("permalink", "post", "page"),
    [
        ("none", "first.html", "p.html"),
        ("ordinal", "2024/031/first.html", "p.html"),
        ("/blog/:title", "blog/first", "p"),
        ("/blog/:year/:title/", "blog/2024/first/", "p/"),
        ("/:short_year/:i_month/:slug:output_ext", "24/1/first.html", "p.html"),
    ],
)
def test_jekyll_by_its_permalink(tmp_path: Path, permalink: str, post: str, page: str) -> None:
    files = {
        "_config.yml": f"permalink: {permalink}\n",
        "_posts/2024-01-31-first.md": "---\n---\n",
        "p.md": "---\n---\n",
        "_posts/undated.md": "---\n---\n",
    }
    assert addresses(tmp_path, files) == {
        "_posts/2024-01-31-first.md": post, "p.md": page, "_posts/undated.md": None,
    }  # fmt: skip


def test_jekyll_on_github_makes_pages_of_all_files(tmp_path: Path) -> None:
    files = {"_config.yml": "remote_theme: a/b\n", "README.md": "", "a.md": "", "LICENSE.md": ""}
    assert addresses(tmp_path, files) == {"README.md": "", "a.md": "a.html", "LICENSE.md": "LICENSE.md"}


def test_configurations_of_the_same_name_of_other_programs_are_not_jekyll(tmp_path: Path) -> None:
    assert addresses(tmp_path, {"_config.yml": "source_dir: source\n", "a.md": ""}) == {"a.md": "a.md"}


def test_hugo_by_languages_dates_of_files_and_cases(tmp_path: Path) -> None:
    files = {
        "config/_default/hugo.yaml": "baseURL: https://x.example/\ndefaultContentLanguage: en\n"
        "disablePathToLower: true\nfrontmatter: {date: [':filename', ':default']}\n",
        "config/_default/languages.yaml": "en: {}\nfr: {contentDir: content/french}\n",
        "content/A/Page.md": "",
        "content/french/une.md": "",
        "content/post/2024-01-31-first.md": "",
    }
    assert addresses(tmp_path, files) == {
        "content/A/Page.md": "A/Page/", "content/french/une.md": "fr/une/",
        "content/post/2024-01-31-first.md": "post/first/",
    }  # fmt: skip


def test_a_configuration_toml_of_another_program_is_not_hugo(tmp_path: Path) -> None:
    assert addresses(tmp_path, {"config.toml": "[server]\nport = 1\n", "content/a.md": ""}) == {
        "content/a.md": "content/a.md"
    }


def test_sphinx_by_its_suffixes_and_builder(tmp_path: Path) -> None:
    files = {
        "docs/conf.py": "project = 'x'\nextensions = ['myst_parser']\nexclude_patterns = ['_build'] + ['old*']\n",
        ".readthedocs.yaml": "sphinx:\n  builder: dirhtml\n",
        ".git/HEAD": "",
        "docs/index.rst": "",
        "docs/a/b.md": "",
        "docs/old/c.rst": "",
    }
    assert addresses(tmp_path, files, of="docs") == {
        "docs/index.rst": "",
        "docs/a/b.md": "a/b/",
        "docs/old/c.rst": None,
    }


def test_a_conf_py_of_another_program_is_not_sphinx(tmp_path: Path) -> None:
    assert addresses(tmp_path, {"conf.py": "DEBUG = True\nproject = 'x'\n", "a.md": ""}) == {"a.md": "a.md"}


@pytest.mark.parametrize(
    ("descriptor", "urls", "expected"),
    [
        ("name: c\nversion: ~\n", "", "c/m/a.html"),
        ("name: ROOT\nversion: '1'\n", "", "1/m/a.html"),
        ("name: c\nversion: '1'\n", "urls: {html_extension_style: drop}\n", "c/1/m/a"),
        (
            "name: c\nversion: '1'\n",
            "urls: {latest_version_segment: latest, latest_version_segment_strategy: replace}\n",
            "c/latest/m/a.html",
        ),
    ],
)
def test_antora_by_descriptor_and_playbook(tmp_path: Path, descriptor: str, urls: str, expected: str) -> None:
    files = {
        "antora-playbook.yml": f"site: {{}}\n{urls}",
        "docs/antora.yml": descriptor,
        "docs/modules/m/pages/a.adoc": "",
    }
    assert addresses(tmp_path, files) == {"docs/modules/m/pages/a.adoc": expected}


@pytest.mark.parametrize(
    ("matter", "expected"),
    [
        ("", "posts/a/"),
        ("permalink: /x/{{ page.fileSlug }}.html", "x/a.html"),
        ("permalink: '/x/{{ page.filePathStem }}/'", "x/posts/a/"),
        ("permalink: '/x/{{ page.date | date: \"%Y\" }}/'\ndate: 2024-05-06", "x/2024/"),
        ("permalink: /x/index.html", "x/"),
        ("permalink: '/{% if a %}x{% endif %}/'", None),
        ("permalink: /x/{{ collections.all | length }}/", None),
        ("permalink: false", None),
    ],
)
def test_eleventy_by_permalinks(tmp_path: Path, matter: str, expected: str | None) -> None:
    files = {".eleventy.js": "module.exports = c => {}", "posts/2024-01-02-a.md": f"---\n{matter}\n---\n"}
    expected = "posts/2024-01-02-a/" if matter == "" else expected
    assert addresses(tmp_path, files) == {"posts/2024-01-02-a.md": expected}


def test_eleventy_reads_data_of_folders_and_the_script_that_builds(tmp_path: Path) -> None:
    files = {
        "eleventy.config.mjs": "export default function (c) {}\nexport const config = { dir: { input: 'views' } };",
        "views/a/a.11tydata.js": "export default { permalink: '/all/{{ page.fileSlug }}/' };",
        "views/a/one.md": "",
        "views/b/b.11tydata.js": "module.exports = { permalink: data => data.x };",
        "views/b/two.md": "",
        "README.md": "",
    }
    assert addresses(tmp_path, files) == {"views/a/one.md": "all/one/", "views/b/two.md": None, "README.md": None}


def test_quarto_by_what_it_renders_and_by_chapters(tmp_path: Path) -> None:
    website = {
        "_quarto.yml": "project: {type: website, render: ['*.qmd', '!drafts/']}\n",
        "index.qmd": "", "a/b.qmd": "", "drafts/c.qmd": "", "d.md": "", "_e.qmd": "",
        "f.qmd": "---\noutput-file: named.html\n---\n",
    }  # fmt: skip
    assert addresses(tmp_path / "w", website) == {
        "index.qmd": "", "a/b.qmd": "a/b.html", "drafts/c.qmd": None, "d.md": None, "_e.qmd": None,
        "f.qmd": "named.html",
    }  # fmt: skip
    book = {
        "_quarto.yml": "project: {type: book}\nbook:\n  chapters: [index.qmd, {part: P, chapters: [one.qmd]}]\n",
        "index.qmd": "", "one.qmd": "", "two.qmd": "",
    }  # fmt: skip
    assert addresses(tmp_path / "b", book) == {"index.qmd": "", "one.qmd": "one.html", "two.qmd": None}


def test_vitepress_by_patterns_of_rewrites(tmp_path: Path) -> None:
    files = {
        ".vitepress/config.ts": "export default defineConfig({cleanUrls: true, "
        "rewrites: {'p/:pkg/docs/:page*': ':pkg/:page*'}})",
        "p/one/docs/a/b.md": "",
        "p/two/c.md": "",
        "[id].md": "",
    }
    assert addresses(tmp_path, files) == {"p/one/docs/a/b.md": "one/a/b", "p/two/c.md": "p/two/c", "[id].md": None}


def test_astro_by_routes_bases_and_format(tmp_path: Path) -> None:
    files = {
        "astro.config.mjs": "export default defineConfig({trailingSlash: 'never'})",
        "src/content.config.ts": "const notes = defineCollection({ loader: "
        "glob({ base: './notes', pattern: '*.md' }) });",
        "src/pages/n/[slug].astro": "await getCollection('notes')",
        "notes/My Note.md": "",
        "src/content/other/a.md": "",
        "src/pages/_p.md": "",
        "src/pages/q.md": "",
    }
    assert addresses(tmp_path, files) == {
        "notes/My Note.md": "n/my-note", "src/content/other/a.md": None, "src/pages/_p.md": None, "src/pages/q.md": "q",
    }  # fmt: skip
