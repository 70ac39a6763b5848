"""The search page in a browser: first paint, first result and results while typing, over a collection of passages.

    python -m benchmarks page [--rows N] [--turns N] [--keep DIR]

A passage is three sentences drawn from this project's documentation, a document of its own, with a random vector in the
space of the default model: how long a search takes hardly depends on what it finds. The server and Chromium are
processes of their own on one machine, over loopback. Each turn opens the page in a fresh browser context without a
cache, at an address with a question. First paint is the browser's first contentful paint, first result the moment at
which the first result is in the document, both from the beginning of the navigation. Typing is the time from the last
key of a further question until its first result is there, with the pause of 220 ms after which the page asks.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE
from aidre.engine.model import Chunk, Document, Record
from benchmarks.harness.commands import server, until_answered
from benchmarks.report.results import ROOT, record

if TYPE_CHECKING:
    from playwright.sync_api import Browser

COLLECTION: Final = "passages"
BATCH: Final = 10_000
QUESTIONS: Final = 100
SENTENCE: Final = re.compile(r"(?<=[.?!] )[A-Z][A-Za-z ,;:'-]{30,200}[.?!]")
KINDS: Final = ("guide", "reference", "changelog", "tutorial")
WATCH: Final = """
addEventListener("DOMContentLoaded", () => {
  const results = document.querySelector("#results");
  new MutationObserver(() => {
    const first = results.querySelector("h2")?.innerText;
    if (first && !results.classList.contains("old")) window.shown = performance.now();
  }).observe(results, {childList: true});
  document.querySelector("#query").addEventListener("input", () => {
    window.typed = performance.now();
    window.shown = 0;
  });
});
"""
PAINTED: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
SEARCHED: Final = """
performance.getEntriesByType("resource").filter(one => one.name.endsWith("/search")).map(one => one.duration)
"""
WAIT_SECONDS: Final = 60


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    with kept(options.keep) as folder:
        passages, questions = texts(options.rows)
        fill(folder / "store", passages)
        with server(["--store", folder / "store"], 1) as (_, port):
            until_answered(port, orjson.dumps({"query": questions[0]}))
            figures = measure(f"http://127.0.0.1:{port}/", questions, options.turns)
    found = {"chunks": len(passages), "turns": options.turns, **figures}
    for name, value in found.items():
        print(f"{name:34} {value:,.0f}")
    record("bench_page", found)
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_page", description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--keep", type=Path, help="keep the store in this folder, and reuse an existing one")
    return parser.parse_args(argv)


@contextmanager
def kept(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def texts(rows: int) -> tuple[list[str], list[str]]:
    """Passages of three sentences each, drawn from this project's documentation, and questions: other sentences."""
    prose = " ".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
    sentences = SENTENCE.findall(" ".join(prose.split()))
    rng = np.random.default_rng(5)
    drawn = rng.integers(len(sentences), size=(rows, 3)).tolist()
    return [" ".join(sentences[place] for place in places) for places in drawn], sentences[
        :: len(sentences) // QUESTIONS
    ]


def fill(store: Path, passages: Sequence[str]) -> None:
    source = Store(store)
    if (store / COLLECTION).exists():
        return
    rng = np.random.default_rng(7)
    with source.writer(COLLECTION, spaces=(DEFAULT_SPACE,), description="Passages of documentation") as writer:
        for first in range(0, len(passages), BATCH):
            batch = passages[first : first + BATCH]
            records = [a_record(first + number, text) for number, text in enumerate(batch)]
            vectors = rng.normal(size=(len(batch), DEFAULT_SPACE.dimensions)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            keys = [blake2b(text.encode(), digest_size=16).digest() for text in batch]
            writer.upsert(
                records, {DEFAULT_SPACE.id: writer.encode(DEFAULT_SPACE.id, vectors)}, {DEFAULT_SPACE.id: keys}
            )
        writer.commit()


def a_record(number: int, text: str) -> Record:
    document = Document(
        f"p{number}",
        text,
        title=" ".join(text.split()[:6]),
        url=f"https://example.com/{number}",
        updated_at=f"2026-{number % 12 + 1:02}-01T00:00:00Z",
        metadata={"kind": KINDS[number % len(KINDS)], "version": number % 9},
    )
    chunk = Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text), None)
    return Record(document, (chunk,), blake2b(f"{number} {text}".encode(), digest_size=16).digest())


def measure(address: str, questions: Sequence[str], turns: int) -> dict[str, float]:
    """Medians in milliseconds."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        samples = [one_turn(browser, address, questions[2 * turn : 2 * turn + 2]) for turn in range(turns + 1)]
        browser.close()
    samples = samples[1:]  # the first one loads the model
    return {name: median(one[name] for one in samples) for name in samples[0]}


def one_turn(browser: Browser, address: str, questions: Sequence[str]) -> dict[str, float]:
    from urllib.parse import quote

    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(f"{address}#q={quote(questions[0][:80])}")
    shown = until(page, "window.shown")
    found = {"first_paint_ms": float(page.evaluate(PAINTED)), "first_result_ms": shown}
    page.locator("#query").fill("")
    page.locator("#query").press_sequentially(" ".join(questions[1].split()[:8]), delay=60)
    found["typed_ms"] = until(page, "window.shown && window.shown - window.typed")
    found["search_request_ms"] = median(page.evaluate(SEARCHED))
    context.close()
    return found


def until(page: Any, expression: str) -> float:
    """The value of an expression as soon as it is one. The page forbids `eval`, by which the driver would wait."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        value = page.evaluate(expression)
        if value:
            page.wait_for_timeout(400)  # later answers of the same typing replace it
            return float(page.evaluate(expression))
        page.wait_for_timeout(15)
    raise SystemExit(f"bench_page: this never came: {expression}")


def chromium() -> str:
    from shutil import which

    path = which("chromium") or which("google-chrome") or which("chromium-headless-shell")
    if path is None:
        raise SystemExit("bench_page: install Chromium")
    return path


if __name__ == "__main__":
    sys.exit(main())
