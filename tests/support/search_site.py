"""A site with a search page, and a browser that looks at it: documents that are pleasant, hostile, right to left and
withheld; the rules of axe.

One browser serves all tests of a module. Whatever it logs as an error fails the test that looked.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import ROOT
from tests.support.clients import TEXT, a_document, fill
from tests.support.clocks import WAIT_SECONDS
from tests.support.programs import CHROMIUM, needed
from tests.support.servers import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SECRET = "the secret of the partner"
PARTNER = "a-platform"
PARTNER_SECRET = "known-to-all-who-read-this"
CONFIGURATION = f"""
{(ROOT / "demo/aidre.toml").read_text(encoding="utf-8")}
[[keys]]
name = "partner"
sha256 = "{hashlib.sha256(SECRET.replace(" ", "-").encode()).hexdigest()}"
collections = ["sealed"]
[collections.withheld]
return_text = false
"""
KEY = SECRET.replace(" ", "-")
GUIDE = """# Keeping a sourdough starter

A starter is flour and water that wild yeast has moved into.

## Feeding by weight

Feed the starter twice a day:

- discard all but 50 grams of starter
- add 50 grams of rye flour
- add 50 grams of water

```sh
scale --tare jar
feed --starter 50 --flour 50 --water 50
```

| hours | temperature |
|---|---|
| 6 | 26 degrees |
| 12 | 20 degrees |

""" + "\n\n".join(
    f"## Day {number}\n\nOn day {number} the starter smells of {smell}, and the loaf takes {number} hours to prove. "
    * 3
    for number, smell in enumerate(["apples", "vinegar", "yoghurt", "beer", "nuts"] * 18, 1)
)
HOSTILE_TITLE = '<img src=x onerror="document.title=1"><b>bold</b>'
HOSTILE_TEXT = """<script>document.title = "broken"</script> A marmoset <b onclick="alert(1)">leaps</b>.

[a marmoset link](javascript:alert(1)) and [another](data:text/html,<script>alert(1)</script>) and
[a good one](https://example.com/good)

- <iframe srcdoc="<script>alert(1)</script>"></iframe> marmoset
"""
ONE, TWO = {"group": "<u>one</u>"}, {"group": "two"}
UNREADABLE = "https://user:pass@example.com/%E0%A4%A"
ODD = [
    a_document("hostile", HOSTILE_TEXT, title=HOSTILE_TITLE, url="javascript:alert(document.domain)", metadata=ONE),
    a_document(
        "data", "A marmoset in data.", title="Data", url="data:text/html,<script>alert(1)</script>", metadata=TWO
    ),
    a_document("../..", "A marmoset in a path.", title="\u202eesrever", url=UNREADABLE, metadata=ONE),
    a_document("emoji", "😀😀 a marmoset 😀 sits", title="😀 marmoset", metadata=TWO),
    a_document("arabic", "تخبز الخبازة الخبز كل صباح في الميناء", title="خبز الميناء", url="https://example.com/ar"),
    a_document("hebrew", "הדייג מתקן את הרשת", title="הדייג"),
]


@dataclass(frozen=True, slots=True)
class Site:
    """Where the page is."""

    address: str
    served: Served


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """The demo's documents and a guide in `ellery`, odd ones, ones that need a key, and ones without their text."""
    documents, store = folder / "documents", folder / "store"
    documents.mkdir()
    shutil.copy(ROOT / "demo/corpus/items.jsonl", documents)
    (documents / "guide.md").write_text(GUIDE, encoding="utf-8")
    command = ["ingest", documents, "--store", store, "--collection", "ellery", "--url-base", "https://example.com/"]
    subprocess.run(
        [sys.executable, "-m", "aidre", *map(str, command)],
        check=True,
        capture_output=True,
        timeout=WAIT_SECONDS,
    )
    fill(store, "odd", ODD)
    fill(store, "sealed", [a_document("secret", "a hidden marmoset", title="Sealed")], (TEXT,), "private")
    fill(store, "withheld", [a_document("w", "a withheld marmoset", title="Withheld")])
    served = Served(store, CONFIGURATION)
    with served.run():
        yield Site(f"http://127.0.0.1:{served.port}/", served)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Skips where there is no Chromium, or no library to drive it."""
    program = needed(*CHROMIUM)
    driver = pytest.importorskip("playwright.sync_api")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Tab:
    """A page of a browser context of its own, and what it logged and asked."""

    page: Page
    address: str
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    expected: str = "Failed to load resource"
    """Errors that a test provokes begin with this."""
    elsewhere: str = "about:"
    """Where a test lets the page load images from."""

    def open(self, fragment: str = "", path: str = "") -> None:
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}{path}{fragment}")

    def ready(self) -> None:
        """Waits until a search was answered."""
        self.until("document.querySelector('#results').getAttribute('aria-busy') === 'false'")

    def until(self, expression: str) -> None:
        """Waits until an expression of JavaScript is true. The driver's own way needs `eval`, which is forbidden."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.page.evaluate(expression):
            assert time.monotonic() < deadline, f"this never came true: {expression}"
            self.page.wait_for_timeout(20)

    def titles(self) -> list[str]:
        return self.page.locator("#results h2").all_inner_texts()

    def focused(self) -> str:
        """The id or the text of what has the focus."""
        return str(self.page.evaluate("document.activeElement.id || document.activeElement.innerText"))


@contextmanager
def tab_of(browser: Browser, address: str, **options: Any) -> Iterator[Tab]:
    context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, "reduced_motion": "reduce", **options})
    tab = Tab(context.new_page(), address)
    tab.page.set_default_timeout(20_000)
    tab.page.on("console", lambda message: tab.errors.append(message.text) if message.type == "error" else None)
    tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.page.on("dialog", lambda dialog: tab.errors.append(f"dialog: {dialog.message}"))
    tab.page.on("request", lambda request: tab.asked.append(request.url))
    try:
        yield tab
        assert [one for one in tab.errors if not one.startswith(tab.expected)] == []
        assert [url for url in tab.asked if not url.startswith((address, tab.elsewhere, "about:", "data:,"))] == []
    finally:
        context.close()


@cache
def _axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def violations(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """What axe finds, with its best practices."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html'][:160]} {json.dumps(node.get('failureSummary', ''))[:200]}"
        for one in found["violations"]
        for node in one["nodes"]
        if not rules or one["id"] in rules
    ]
