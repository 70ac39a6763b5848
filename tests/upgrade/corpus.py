"""The documents from which `make` lets an older release make its store: the same in every run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

COSINE, DOT = "test:cosine:64", "test:dot:16"
ROWS = 400
UPDATED, DELETED = range(5), ("row-0390", "row-0391", "row-0392")
GONE, DELETED_NOTE = "tide-tables.md", "notes/extra-2"
SECRET, PARTNER_SECRET = "the secret of a caller, 0.1.0", "a secret of a platform, 0.1.0"
KEY_ID = "platform"
PERSON = {"email": "jane@example.com"}

PAGES: Mapping[str, str] = {
    "lighthouse.md": "---\ntitle: The lighthouse\nupdated_at: 2026-03-01\ntags: [coast, light]\n---\n# Lamp\n"
    "The keeper counts ships in the grey morning and trims the lamp at dusk.\n\n# Fog\nA horn sounds twice a minute.\n",
    "harbour.md": "---\ntitle: The harbour\nupdated_at: 2026-03-02\ntags: [coast]\n---\n"
    "Boats land herring on the quay. Salt and nets lie in the sun until the auction begins at noon.\n",
    "puncture.md": "---\ntitle: Repair a puncture\nupdated_at: 2026-03-03\ntags: [bicycle]\n---\n"
    "Find the hole under water, roughen the rubber, glue a patch and wait for five minutes.\n",
    "anleitung.md": "---\ntitle: Ein Rad flicken\nlang: de\nupdated_at: 2026-03-04\n---\n"
    "Das Loch findet man unter Wasser. Die Stelle wird aufgeraut und ein Flicken aufgeklebt.\n",
    "page.html": "<!doctype html><html lang=en><head><title>Opening hours</title></head><body><main>"
    "<h1>Opening hours</h1>"
    "<p>The museum of fishing opens at ten and closes at five, on Mondays it stays shut.</p></main></body></html>",
    GONE: "---\ntitle: Tides\n---\nHigh water comes fifty minutes later each day.\n",
}
CHANGED = {
    "harbour.md": PAGES["harbour.md"].replace("until the auction begins at noon", "until the bell of the auction"),
}
"""What the second ingest finds changed; `GONE` it does not find at all."""
ITEMS = [
    {
        "@context": "https://schema.org",
        "@type": "Recipe",
        "@id": f"https://example.com/recipes/{number}",
        "url": f"https://example.com/recipes/{number}",
        "name": name,
        "description": description,
        "offers": {"@type": "Offer", "price": 10 + number, "priceCurrency": "EUR"},
    }
    for number, (name, description) in enumerate(
        (
            ("Lentil soup", "A vegan soup of brown lentils, carrots and smoked paprika, ready in half an hour."),
            ("Leek pie", "A pie of slowly melted leeks and potatoes under a short crust, for a cold evening."),
            ("Herring salad", "Salted herring with apple, beetroot and dill, as it is eaten on the coast."),
        )
    )
]
EXTRAS = [{"id": f"notes/extra-{number}", "text": f"An extra note, number {number}."} for number in range(1, 4)]
PRIVATE = [{"id": f"minutes-{number}", "text": f"Minutes of meeting {number}: the ferry is late."} for number in (1, 2)]


def write_pages(folder: Path, *, first: bool = False) -> Path:
    """The folder that became the collection `docs`: as it is ingested last, or as it was at `first`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in PAGES.items():
        (folder / name).write_text(text if first else CHANGED.get(name, text), encoding="utf-8")
    if not first:
        (folder / GONE).unlink()
    write_rows(folder / "items.jsonl", ITEMS)
    return folder


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def rows(*, first: bool = False) -> list[dict[str, Any]]:
    """Rows with vectors of two spaces, the first ones changed after the `first` ingest.

    The vectors are near to one of twenty, as those of texts are near to others, and are whole numbers, which pack well.
    """
    rng = np.random.default_rng(20_261_125)
    kinds = rng.integers(0, 20, ROWS)
    cosine, dot = (
        rng.integers(-3, 4, (20, dimensions))[kinds] * 2.0 + rng.choice((-1, 0, 0, 1), (ROWS, dimensions))
        for dimensions in (64, 16)
    )
    return [
        {
            "id": f"row-{number:04d}",
            "text": f"Row {number} {'updated' if number in UPDATED and not first else 'written'}, {'abc'[number % 3]}.",
            "updated_at": "2026-03-01T00:00:00Z",
            "metadata": {"n": number, "group": "abc"[number % 3], "day": f"2026-01-{number % 28 + 1:02d}"},
            "vectors": {COSINE: cosine[number].tolist(), DOT: dot[number].tolist()},
        }
        for number in range(ROWS)
    ]


def live_rows() -> list[dict[str, Any]]:
    """Those that were not deleted."""
    return [row for row in rows() if row["id"] not in DELETED]


def queries(space: str, count: int = 3) -> NDArray[np.float64]:
    dimensions = int(space.rpartition(":")[2])
    return np.round(np.random.default_rng(dimensions).normal(size=(count, dimensions)), 3)
