"""Screenshots of the search page in six states, at desktop and at phone width, for the documentation.

    python demo/screenshots.py [--port PORT] [--folder docs/page]

The demo's documents are ingested and served as `demo/run.py` does. It needs Chromium and the library playwright of the
extra `test`. Half of the pictures are dark.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

WIDTHS = {"desktop": (1200, 760), "phone": (390, 760)}
WAIT_MS = 700
MOST_BYTES = 150_000
COLOURS = 64
"""Of the palette: text on plain ground needs few."""


@dataclass(frozen=True, slots=True)
class State:
    """What is shown: an address, what is typed there, and whether it is dark."""

    name: str
    fragment: str
    is_dark: bool = False
    typed: str = ""
    path: str = ""


STATES = (
    State("typing", "#in=ellery", typed="something warm with len"),
    State("results", "#q=something+warm+with+lentils&in=ellery&is%3Atype=Recipe"),
    State("snippets", "#q=back+up+and+restore+a+store&in=docs", is_dark=True),
    State("document", "#q=back+up+and+restore&in=docs&doc=docs%2Foperations.md&at=docs%2Foperations.md%23chunk_7"),
    State("collection", "#view=browse&in=ellery", is_dark=True),
    State("program", "#view=code&q=something+warm+with+lentils&in=ellery"),
)


def main() -> int:
    options = arguments()
    options.folder.mkdir(parents=True, exist_ok=True)
    run.ingest("demo/corpus", "--collection", "ellery")
    run.ingest("docs", "--collection", "docs", "--url-base", "https://example.com/aidre/docs/")
    port = run.usable(options.port)
    server = run.start(port)
    try:
        return shoot(f"http://127.0.0.1:{port}/", options.folder)
    finally:
        run.stop(server)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="screenshots", description="Write the screenshots of the documentation.")
    parser.add_argument("--port", type=int, default=8322)
    parser.add_argument("--folder", type=Path, default=run.ROOT / "docs/page")
    return parser.parse_args()


def shoot(address: str, folder: Path) -> int:
    from shutil import which

    from playwright.sync_api import sync_playwright

    program = which("chromium") or which("google-chrome")
    if program is None:
        raise SystemExit("screenshots: install Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for state in STATES:
            for width in WIDTHS:
                path = folder / f"{state.name}-{width}.png"
                shrink(picture(browser, address, state, width), path)
                print(f"{path.relative_to(run.ROOT)}  {path.stat().st_size:,} bytes")
        browser.close()
    return 0


def picture(browser: Browser, address: str, state: State, width: str) -> bytes:
    wide, high = WIDTHS[width]
    context = browser.new_context(
        viewport={"width": wide, "height": high}, color_scheme="dark" if state.is_dark else "light", locale="en-GB"
    )
    page = context.new_page()
    page.goto(f"{address}{state.path}{state.fragment}")
    settle(page)
    if state.typed:
        page.locator("#query").press_sequentially(state.typed, delay=20)
        page.get_by_role("option").first.wait_for()
        settle(page)
    content = page.screenshot()
    context.close()
    return content


def settle(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(WAIT_MS)


def shrink(content: bytes, path: Path) -> None:
    """Few colours, so that the picture stays small."""
    from io import BytesIO

    from PIL import Image

    with Image.open(BytesIO(content)) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"screenshots: {path} has more than {MOST_BYTES:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
