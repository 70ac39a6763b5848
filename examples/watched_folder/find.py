"""Asks the store that a watcher fills until it answers from the note on the ferry, or with `--gone` no longer does."""

from __future__ import annotations

import sys
import time

import aidre

WANTED = "notes/ferry.md"


def main(question: str, *, gone: bool) -> None:
    notes = aidre.open("store").collection("notes")
    while True:
        hits = notes.search(question, k=1) if len(notes) else []
        if hits and (hits[0].document_id == WANTED) != gone:
            print(f"{hits[0].score:.2f} {hits[0].document_id}: {hits[0].text}")
            return
        time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1], gone="--gone" in sys.argv)
