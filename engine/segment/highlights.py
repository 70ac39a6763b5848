"""Highlights of a chunk: the words of a query in its text, title and section, by the language that it is indexed in."""

from __future__ import annotations

from aidre.engine.index.text import WordFinder
from aidre.engine.model import Highlight, HighlightLimits, Span
from aidre.engine.segment.stored_chunk import StoredChunk


def highlight_chunk(finder: WordFinder, chunk: StoredChunk, limits: HighlightLimits) -> Highlight:
    lexicon = chunk.segment.lexicon
    language = lexicon.tags[lexicon.languages[chunk.row]]
    text = chunk.text
    words = finder.find(text, language)

    def spans(heading: str | None) -> list[Span]:
        return [] if not heading else [word[:2] for word in finder.find(heading, language)[: limits.spans]]

    snippets = finder.snippets(text, words, limits.snippets, limits.snippet_chars)
    return Highlight([word[:2] for word in words[: limits.spans]], spans(chunk.title), spans(chunk.section), snippets)
