"""`aidre report`: what it finds in a store, and what its page shows and may do."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import stat
from html.parser import HTMLParser
from pathlib import Path

import pytest

import aidre
from aidre.api.cli.main import run
from aidre.api.cli.report import sample
from aidre.api.cli.report.quality import NearCopies
from aidre.engine.collection.store import Store
from tests.support.browsers import needs_browser, told_by_page
from tests.support.shell import Shell, one_line

HOSTILE = "</title></style><script>alert(1)</script><img src=x onerror=alert(2)>"
SPACE = aidre.EmbeddingSpace("given", 2, "cosine")
ROWS = (
    {"id": "a", "title": HOSTILE, "url": "javascript:alert(3)", "text": f"{HOSTILE} one two three four \u202e five"},
    {"id": "b", "title": "", "text": "the very same words in two documents"},
    {"id": "c", "title": "Third", "text": "the very same words in two documents"},
    {"id": "d", "title": "Fourth", "text": "third things, third time, third try"},
)


class Page(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a collection of copies and hostile texts, and one that the configuration makes private."""
    folder = tmp_path_factory.mktemp("report")
    database = aidre.open(folder / "store")
    vectors = [[1.0, 0.0], [0.0, 1.0], [0.01, 1.0], [1.0, 1.0]]
    database.collection("rows", space=SPACE).add([dict(row) for row in ROWS], vectors=vectors)
    database.collection("vault", space=SPACE).add([{"id": "x", "title": "X", "text": "hidden"}], vectors=[[1.0, 0.0]])
    (folder / "aidre.toml").write_text('[collections.vault]\nvisibility = "private"\n', encoding="utf-8")
    return folder / "store"


def facts(store: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, object]]:
    capsys.readouterr()
    assert run(["report", "--store", str(store), "--json", *words]) == 0
    return {one["name"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}


def page_of(store: Path, out: Path, *words: str) -> str:
    assert run(["report", "--store", str(store), "--out", str(out), *words]) == 0
    return out.read_text(encoding="utf-8")


def test_it_counts_what_is_there_and_finds_what_is_wrong_with_it(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = facts(store, capsys, "--config", str(store.with_name("aidre.toml")))["rows"]
    assert (rows["untitled"], rows["untitled_of"]) == (1, 4)
    copies = rows["copies"]
    assert isinstance(copies, dict)
    assert (copies["compared"], copies["copied"], copies["exact"], copies["elsewhere"]) == (4, 2, 2, 2)
    [pair] = copies["examples"]
    assert {pair["id"], pair["other_id"]} == {"b#chunk_1", "c#chunk_1"}
    assert rows["longest"][0]["id"] == "a#chunk_1"  # type: ignore[index]
    searches = rows["searches"]
    assert isinstance(searches, dict)
    assert (searches["mode"], searches["asked"], searches["first"]) == ("lexical", 3, 2)
    [missed] = searches["missed"]
    assert (missed["document_id"], missed["place"], missed["first_id"]) == ("c", 2, "d")


def test_the_files_of_a_collection_are_counted_by_kind_and_its_documents_by_source(
    changed: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = facts(changed.store, capsys)["docs"]
    on_disk = sum(path.stat().st_size for path in (changed.store / "docs").rglob("*") if path.is_file())
    sizes = docs["sizes"]
    assert isinstance(sizes, dict)
    assert sum(sizes.values()) == on_disk
    assert sizes.keys() >= {"documents", "chunks", "vectors", "lexicon", "words", "manifests", "changes", "tombstones"}
    sources = docs["sources"]
    assert isinstance(sources, list)
    [source] = sources
    assert (source["name"], source["documents"]) == ("texts", 2), "the deleted ones do not count"
    assert source["last_read"] is not None


def test_a_killed_writer_leaves_what_is_called_temporary(filled: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    (filled.store / "docs" / "segments" / ".new.tmp").mkdir()
    (filled.store / "docs" / "segments" / ".new.tmp" / "chunks.arrow").write_bytes(b"1234")
    (filled.store / "docs" / "segments" / "forgotten").mkdir()
    (filled.store / "docs" / "segments" / "forgotten" / "chunks.arrow").write_bytes(b"12")
    sizes = facts(filled.store, capsys)["docs"]["sizes"]
    assert isinstance(sizes, dict)
    assert (sizes["temporary"], sizes["older generations"]) == (4, 2)


def test_the_page_marks_private_collections_and_only_its_owner_reads_it(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    page = page_of(store, out, "--config", str(store.with_name("aidre.toml")))
    badges = re.findall(r'<h2><bdi>(\w+)</bdi></h2><span class="badge (\w+)">', page)
    assert badges == [("rows", "public"), ("vault", "private")]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_hostile_texts_are_texts_and_the_page_loads_nothing(store: Path, tmp_path: Path) -> None:
    page = page_of(store, tmp_path / "report.html")
    read = Page(page)
    assert {tag for tag, _ in read.elements}.isdisjoint({"script", "img", "iframe", "form", "object", "base"})
    assert HOSTILE in read.text
    assert "javascript:alert(3)" in read.text
    assert "\u202e" not in page
    addresses = [value for _, given in read.elements for name, value in given.items() if name in {"href", "src"}]
    assert all(address is not None and address[0] in "#d" for address in addresses), addresses
    assert not any(name == "style" or name.startswith("on") for _, given in read.elements for name in given)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = next(given["content"] for _, given in read.elements if "http-equiv" in given)
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def test_a_collection_that_cannot_be_opened_is_named_and_the_others_follow(filled: Shell, tmp_path: Path) -> None:
    (filled.store / "broken").mkdir()
    (filled.store / "broken" / "CURRENT").write_text("nonsense")
    status, _, err = filled.run("report", "--store", filled.store, "--out", tmp_path / "report.html")
    assert (status, one_line(err)) == (1, True)
    text = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "broken/CURRENT does not hold a generation number" in text
    assert "texts/tea.md" in text


def test_the_page_goes_to_stdout_or_to_a_file_of_its_own_name(
    read_only: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = read_only.run("report", "--store", read_only.store, "--out", "-")
    assert (status, out[:15], out[-8:], err) == (0, "<!doctype html>", "</html>\n", "")
    assert not (tmp_path / "report.html").exists()
    assert read_only.run("report", "--store", read_only.store)[0] == 0
    assert (tmp_path / "report.html").is_file()
    assert read_only.run("report", "--store", read_only.store, "--out", "no/folder.html")[0] == 1


def test_a_sample_is_bounded_and_lengths_are_compared_beyond_it(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "MAX_TEXTS", 2)
    monkeypatch.setattr(sample, "MAX_DOCUMENTS", 1)
    reader = Store(store).open("rows")
    drawn = sample.draw(reader)
    assert (drawn.scanned, len(drawn.chunks), len(drawn.documents), drawn.is_head) == (4, 2, 1, False)
    assert drawn.longest[0].id == "a#chunk_1"
    assert [chunk.id for chunk in drawn.chunks] == [chunk.id for chunk in sample.draw(reader).chunks]
    monkeypatch.setattr(sample, "MAX_SCANNED", 2)
    assert sample.draw(reader).scanned == 2


def test_a_share_in_a_sample_has_its_uncertainty() -> None:
    low, high = NearCopies(400, 12, 12, 12, ()).interval()
    assert (round(low, 4), round(high, 4)) == (0.0172, 0.0517)
    assert NearCopies(400, 0, 0, 0, ()).interval()[0] == 0


def test_an_engine_of_another_machine_is_sampled_at_its_head(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "MAX_TEXTS", 3)
    reader = Store(store).open("rows")
    monkeypatch.setattr(type(reader), "waits", True)
    drawn = sample.draw(reader)
    assert (drawn.scanned, drawn.is_head) == (3, True)


@needs_browser
@pytest.mark.process
@pytest.mark.slow
def test_a_browser_runs_and_loads_nothing_of_it(store: Path, tmp_path: Path) -> None:
    """A script beside the page tells what the page would have done: the policy of the page stops its own script too."""
    page = page_of(store, tmp_path / "report.html")
    teller = (
        "<script>const s=[];addEventListener('securitypolicyviolation',e=>s.push(e.violatedDirective));"
        "addEventListener('load',()=>setTimeout(()=>fetch('/told',{method:'POST',body:JSON.stringify({violations:s,"
        "loaded:performance.getEntriesByType('resource').length,alerts:window.alerts||0,"
        "title:document.title,rows:document.querySelectorAll('tr').length})}),50));"
        "window.alert=()=>{window.alerts=1}</script>"
    )
    policy = re.search(r'<meta http-equiv="Content-Security-Policy"[^>]*>', page)
    assert policy is not None
    told = told_by_page(page.replace(policy[0], teller), tmp_path / "profile")
    assert (told["alerts"], told["loaded"], told["violations"]) == (0, 0, [])
    assert told["title"].startswith("Report on ")
    assert told["rows"] > 20
