"""A partner of a publisher: retrieves passages over Agentic Intent, shows them with their source, and reports it."""

from __future__ import annotations

import os
import sys

import aidre


def main(url: str, question: str) -> None:
    with aidre.connect(url) as client:
        publisher = client.intent("partner", os.environ["PARTNER_SECRET"])
        found = publisher.retrieve(question, "food.recipes")
        for passage in found.passages:
            print(f"{passage.id}: {passage.text}")
        print(f"limits: {dict(found.limits)}")
        shown = found.citations[0]
        print(f"\nas it is shown: {shown.title}, {shown.publisher}, {shown.source_url}")
        publisher.cite(found, shown)
        print("reported")
        stranger = client.intent("partner", "a secret that somebody guessed")
        try:
            stranger.retrieve(question, "food.recipes")
        except aidre.AidreError as error:
            print(f"with another secret: {error.code}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
