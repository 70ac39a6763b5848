"""A folder of documents of many kinds, of which release 0.2.0 made a store: what it read otherwise, or not at all.

    python -m tests.upgrade.mixed

makes that store again, by release 0.2.0 itself (commit ba1a932, the last before its successor was begun).
"""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.documents import pdf
from tests.upgrade.make import checked_out

COMMIT: Final = "ba1a932"
MAIN: Final = "from aidre.api.cli.main import run; import sys; sys.exit(run(sys.argv[1:]))"
ADDRESS: Final = "https://example.com/"
ARCHIVE: Final = Path(__file__).parent / "release_0_2_0" / "store.tar.xz"
SAME: Final = ("harbour.md", "tides.txt", "hours.pdf")
"""Documents that are read as they were."""

OTHERWISE: Final = ("fares.html", "yeast.md")
"""Documents whose text is another one now: empty cells, spans and exponents; a picture in the text."""

NEW: Final = ("prices.csv", "letter.txt", "feed.xml", "log.md", "memo.md", "plant.html")
"""Files that 0.2.0 refused: without a column of text, in other encodings, with another date, without front matter."""

_PROSE: Final = "The ferry to the islands leaves at noon from the second quay, and returns with the evening tide. "
_FARES: Final = (
    "<html><head><title>Fares</title></head><body><main><h1>Fares</h1><p>" + _PROSE * 3 + "</p><table>"
    "<tr><th></th><th colspan=2>2026</th></tr><tr><th></th><th>Adult</th><th>Child</th></tr>"
    "<tr><td>Bus</td><td></td><td>2</td></tr><tr><td>Tram</td><td>10<sup>2</sup></td><td></td></tr>"
    "</table></main></body></html>"
)
_FEED: Final = (
    '<?xml version="1.0" encoding="euc-kr"?><rss version="2.0"><channel><title>소식</title><link>https://example.com/'
    "</link><item><title>항구</title><link>https://example.com/port</link><guid>https://example.com/port</guid>"
    "<description>배가 정오에 떠난다.</description></item></channel></rss>"
)
FILES: Final[Mapping[str, bytes]] = {
    "harbour.md": b"# The harbour\n\nBoats land herring on the quay before the auction begins at noon.\n",
    "tides.txt": b"High water comes fifty minutes later each day.\n",
    "hours.pdf": pdf([["The museum of fishing opens at ten and closes at five."]], info={"Title": "Opening hours"}),
    "fares.html": _FARES.encode(),
    "yeast.md": b"# Yeast\n\nBeat for ten minutes.\n\n![](data:image/png;base64," + b"iVBORw0KGgo" * 400 + b")\n",
    "prices.csv": b"name,description,price\nKettle,A kettle of copper for two litres,49\nPan,A pan of iron,29\n",
    "letter.txt": "Der Käufer zahlt die Gebühr für die Überfahrt.\n".encode("utf-16"),
    "feed.xml": _FEED.encode("euc-kr"),
    "log.md": b"---\ntitle: Log of the lighthouse\ndate: May 1, 2024\n---\nThe horn sounded all night.\n",
    "memo.md": b"---\n*From the office of the harbour master*\n---\n\nAll boats stay in port until the gale is over.\n",
    "plant.html": "<html><head><title>Garten</title></head><body><main>"
    "<p>Die Rose blüht im späten Frühling über dem Tor.</p></main></body></html>".encode("cp1252"),
}
QUESTIONS: Final[Mapping[str, str]] = {
    "herring auction": "harbour.md",
    "high water fifty minutes later": "tides.txt",
    "museum of fishing opens": "hours.pdf",
    "ferry islands evening tide": "fares.html",
}
"""The document that answers each, before and after."""


def write_mixed(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


def main() -> None:
    with checked_out(COMMIT) as release:
        write_mixed(release.place / "mixed")
        words = ("ingest", "mixed", "--collection", "mixed", "--store", "store", "--url-base", ADDRESS)
        release.run(*words, program=MAIN, check=False)
        ARCHIVE.parent.mkdir(exist_ok=True)
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            archive.add(release.place / "store", "store")


if __name__ == "__main__":
    main()
