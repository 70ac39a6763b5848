"""The front matter of a text in another markup than Markdown, as Hugo, Jekyll and Pandoc take it there, too."""

from __future__ import annotations

from aidre.engine.model import Json
from aidre.ingest.formats import split_front_matter

_OPENINGS = ("---", "+++")
_OF_ANSWERS = ("title", "updated_at", "language", "url", "canonical")
_NOT_METADATA = frozenset({"id", "type", "section", "metadata", "semantic_payload"})
"""Members that mean something in Markdown and in rows alone."""


def split_members(text: str) -> tuple[dict[str, Json], str]:
    """Members under the names of an answer, what else there is as its metadata, and the body."""
    if not text.lstrip("\ufeff\r\n\t ").startswith(_OPENINGS):
        return {}, text
    members, body = split_front_matter(text)
    if not members:
        return {}, text
    found = {name: str(members[name]) for name in _OF_ANSWERS if type(members.get(name)) in (str, int, float)}
    rest = {name: value for name, value in members.items() if name not in _OF_ANSWERS and name not in _NOT_METADATA}
    inner = members.get("metadata")
    return found | {"metadata": rest | (inner if type(inner) is dict else {})}, body
