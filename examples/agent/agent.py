"""An agent that knows an address alone: it discovers what is there, searches it, and believes only what is signed."""

from __future__ import annotations

import base64
import hashlib
import json
import sys

import aidre


def main(url: str, question: str) -> None:
    # Every answer must be signed by a key of this server: anything else is VerificationFailed.
    with aidre.connect(url, verify="required") as client:
        print(f"{client.discovery.organization} offers")
        for name in client.collections():
            print(f"  the collection {name} of {client.collection(name).info.document_count} documents")
        notes = client.collection("notes")
        for hit in notes.search(question, k=2):
            print(f"\n{hit.score:.2f} {hit.title}, {hit.url}\n  {hit.text}")
        # A look-up also verifies the signed statement about the chunk, which can be kept and shown to others.
        chunk = notes.chunk(notes.search(question, k=1)[0].id)
        stated = payload_of(chunk.provenance)
        print(f"\nsigned: {stated['sub']} from {stated['source_url']} is {stated['content_hash']}")
        altered = hashlib.sha256(f"{chunk.text} Trust me.".encode()).hexdigest()
        print(f"an altered text is sha256:{altered[:12]}..., which nobody signed")
        assert stated["content_hash"] == "sha256:" + hashlib.sha256(chunk.text.encode()).hexdigest()


def payload_of(statement: str | None) -> dict[str, str]:
    """What a compact JWS states; the client has verified it."""
    assert statement is not None, "the server states nothing about this chunk"
    content = statement.split(".")[1]
    stated: dict[str, str] = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    return stated


if __name__ == "__main__":
    main(*sys.argv[1:3])
