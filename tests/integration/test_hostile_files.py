"""A folder of hostile and broken files is ingested: each is named, the others are read, and memory stays."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import orjson
import pytest

from aidre.ingest.sandbox.parent import SHARED
from tests.support.documents import ENCRYPTED, docx, laughing, lying, part, pdf, pdf_file, repacked, stream
from tests.support.ingests import Bench

BODY = "word/document.xml"


@cache
def hostile_files() -> Mapping[str, bytes]:
    plain = docx(lambda document: document.add_paragraph("HERE"))
    body = part(plain, BODY)
    bomb = repacked(plain, {BODY: body.replace(b"HERE", b" " * (80 << 20))})
    pages = b"<</Type/Pages/Count 1000000/Kids[3 0 R]>>"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>"
    inflating = stream(b" " * (80 << 20), deflated=True)
    catalog = b"<</Type/Catalog/Pages 2 0 R>>"
    return {
        "bomb.docx": bomb,
        "bomb.pdf": pdf_file([catalog, pages.replace(b"1000000", b"1"), page, inflating, b"[" * 500_000]),
        "encrypted.pdf": pdf([["x"]], trailer=b"/Encrypt " + ENCRYPTED),
        "garbage.pdf": b"%PDF-1.7\n" + bytes(range(256)) * 4000,
        "laughs.docx": repacked(plain, {BODY: laughing(body)}),
        "lying.docx": lying(bomb, BODY, 1000),
        "million.pdf": pdf_file([catalog, pages, page, stream(b"")]),
        "nested.docx": repacked(plain, {BODY: body.replace(b"<w:body>", b"<w:body>" + b"<w:sdt>" * 100_000)}),
        "other.docx": pdf([["x"]]),
        "other.pdf": plain,
        "truncated.docx": plain[:20_000],
        "truncated.pdf": pdf([["x"]] * 100)[:5000],
    }


@pytest.mark.slow
def test_hostile_files_are_named_and_the_others_are_ingested(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    hostile = hostile_files()
    for name, content in hostile.items():
        bench.write(name, content)
    bench.write("a-good.pdf", pdf([["A page."]]))
    bench.write("z-good.docx", docx(lambda document: document.add_paragraph("A paragraph.")))
    bench.write("scanned.pdf", pdf([[], []]))
    summary = bench.run()
    failed = [problem.split(": ")[0] for problem in bench.problems]
    # PDFium may get through a stream of nothing: then it has no text, and is not a failure.
    assert sorted({*failed, "bomb.pdf"}) == sorted(hostile)
    assert (summary.documents, summary.new, summary.exit_status) == (2, 2, 1)
    assert bench.text("docs/a-good.pdf#chunk_1") == "A page."
    assert bench.text("docs/z-good.docx#chunk_1") == "A paragraph."
    assert "scanned.pdf: no text, skipped: scanned pages need text recognition (--ocr)" in bench.notices
    assert SHARED._child is None


@pytest.mark.slow
def test_what_is_unchanged_is_not_written_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.write("one.pdf", pdf([["A page."]]))
    bench.write("two.docx", docx(lambda document: document.add_paragraph("A paragraph.")))
    assert bench.run().updated == 2
    again = bench.run()
    assert (again.unchanged, again.updated, bench.commits) == (2, 0, [])


@pytest.mark.process
def test_hostile_files_meet_no_parser_in_the_reader_and_leave_its_memory_where_it_was(tmp_path: Path) -> None:
    """In a process of its own, by its peak: memory that is given back counts too."""
    for name, content in hostile_files().items():
        (tmp_path / f"x-{name}").write_bytes(content)
    (tmp_path / "a.pdf").write_bytes(pdf([["A page."]]))
    (tmp_path / "a.docx").write_bytes(docx())
    script = """
        import sys
        from pathlib import Path
        import orjson
        from aidre.ingest.sources.folder import read_source
        from aidre.ingest.sources.locate import locate_sources
        from aidre.ingest.records.vectors import VectorRules

        def peak():
            return int(next(x for x in Path("/proc/self/status").open() if x.startswith("VmHWM")).split()[1]) >> 10

        peaks = []
        for found in read_source(locate_sources([Path(sys.argv[1])])[0], VectorRules([], []), print):
            peaks.append(peak())
        parsers = sorted({"docx", "lxml", "pypdfium2"} & sys.modules.keys())
        sys.stdout.buffer.write(orjson.dumps([peaks, parsers]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], capture_output=True, check=True
    )
    peaks, parsers = orjson.loads(done.stdout)
    assert len(peaks) == 2 + len(hostile_files())
    assert peaks[-1] - peaks[1] < 64
    assert (parsers, done.stderr) == ([], b"")
