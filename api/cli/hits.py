"""The hits of a search and its facets, as people read them in a terminal, and programs as JSON lines."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import repeat

from aidre.api.cli.console import counted, print_json, print_lines, print_message, printable, without_controls
from aidre.engine.index.text import strip_layout, without_headings
from aidre.engine.model import Highlight, Json
from aidre.engine.retrieve import RELEVANT, Answer, QuestionReading, told_copies
from aidre.engine.types import Facet, Hit

_DEFAULT_TERMINAL = (100, 24)
_MAX_WIDTH = 120
_SNIPPET_INDENT = 5
_SNIPPET_LINES = 2
_BEGIN, _END = "\ue000", "\ue001"
"""Marks of a word while lines are made; `without_controls` leaves none of a document's own."""
_BOLD, _PLAIN = "\x1b[1m", "\x1b[22m"


def print_found(found: Answer, query: str, *, as_json: bool) -> None:
    """The hits of a search, then its facets; messages say what was searched for, and whether anything fits."""
    if found.reading is not None:
        for line in _told(found.reading):
            print_message(line)
    if found.corrected is not None:
        print_message(f"results for {printable(found.corrected)!r}; --as-typed searches for {printable(query)!r}")
    if found.suggestion is not None:
        print_message(f"did you mean {printable(found.suggestion)!r}?")
    records = list(to_records(found))
    if records and records[0]["relevance"] < RELEVANT:
        print_message("nothing fits the query; these are the nearest hits")
    for number, record in enumerate(records):
        if as_json:
            print_json(record)
        else:
            print_lines(hit_lines(record, found.highlights[number] if found.highlights else None))
    facets = {request.field: facet for request, facet in zip(found.question.facets, found.facets, strict=True)}
    if facets and as_json:
        print_json({"facets": {name: _facet_record(facet) for name, facet in facets.items()}})
    elif facets:
        print_lines(facet_line(name, facet) for name, facet in facets.items())


def _told(reading: QuestionReading) -> Iterator[str]:
    """How a query was read: with the phrase "...", without ..., where a field is as some words say."""
    wording = [f"with {printable(phrase)!r} as it is written" for phrase in reading.phrases]
    wording += [f"without {printable(word)!r}" for word in reading.excluded]
    if wording:
        yield "hits " + ", ".join(wording)
    for condition in reading.conditions:
        words = printable(condition.words)
        if condition.filter is not None:
            filter = f"--filter '{printable(json.dumps(condition.filter, ensure_ascii=False))}'"
            means = f"{words!r} is read as {filter}"
            yield (
                means
                if condition.applied
                else f"{condition.note}: {words!r}"
                if condition.note
                else f"{words!r} may mean {filter}"
            )
        elif condition.order is not None:
            by = f"ordered by {printable(condition.order.field)}, {condition.order.direction}"
            yield (
                f"{words!r}: {by}"
                if condition.applied
                else f"{condition.note}: {words!r}"
                if condition.note
                else f"{words!r} may mean: {by}"
            )


def to_records(found: Answer) -> Iterator[dict[str, Json]]:
    """The hits as JSON objects, best first."""
    spelling = {"corrected": found.corrected, "suggestion": found.suggestion}
    more = {name: text for name, text in spelling.items() if text is not None}
    beside = found.passages or repeat(()), found.copies or repeat(())
    answers = zip(found.hits, found.relevances or (), *beside, strict=False)
    for rank, (hit, relevance, passages, copies) in enumerate(answers, 1):
        chunk = hit.chunk
        _, source, metadata, _ = chunk.fragments
        yield {
            "rank": rank,
            "id": chunk.id,
            "document_id": chunk.document_id,
            "score": hit.score,
            "relevance": relevance,
            "source": json.loads(source),
            "metadata": json.loads(b"{%b}" % metadata),
            "text": chunk.text,
            **({"passages": list(_passages(found, passages))} if found.question.group == "document" else {}),
            **({"copies": asdict(told_copies(copies))} if copies else {}),
            **more,
        }


def _passages(found: Answer, hits: Sequence[Hit]) -> Iterator[dict[str, Json]]:
    """The other chunks of a document."""
    for (chunk, score), relevance in zip(hits, found.relevances_of(hits) or (), strict=True):
        section = {} if chunk.section is None else {"section": chunk.section}
        yield {"id": chunk.id, "score": score, "relevance": relevance, **section, "text": chunk.text}


def hit_lines(hit: Mapping[str, Json], marks: Highlight | None = None) -> Iterable[str]:
    """Rank, relevance and title; url, or the id of the document, and section, if it is not the title; the best sentence
    and what follows it; the sections of its other passages."""
    width = max(min(shutil.get_terminal_size(_DEFAULT_TERMINAL).columns, _MAX_WIDTH) - _SNIPPET_INDENT, 20)
    source = hit["source"]
    title, url, section = source.get("title") or hit["document_id"], source.get("url"), source.get("section")
    yield f"{hit['rank']:>3}  {hit['relevance']:4.0%}  {printable(title)}"
    location = " · ".join(printable(part) for part in (url or hit["document_id"], section) if part and part != title)
    if location:
        yield f"     {location}"
    text = "\n".join(map(without_controls, hit["text"].split("\n")))
    first, spans = 0, list[tuple[int, int]]()
    if marks is not None:
        first = marks.snippets[0][0] if marks.snippets else 0
        spans = [(start, end) for start, end in marks.text if start >= first] if _is_styled() else []
    columns = _names_of_columns(text, first)
    shown = without_headings(_marked(text, first, spans), {*(section or "").split(" > "), title})
    marked = f"{columns} … " if columns else "… " if text[:first].strip() else ""
    snippet = textwrap.shorten(strip_layout(marked + shown), width=width * _SNIPPET_LINES, placeholder=" …")
    for line in textwrap.wrap(snippet, width):
        styled = line.replace(_BEGIN, _BOLD).replace(_END, _PLAIN)
        yield f"     {styled}{_PLAIN * (line.count(_BEGIN) > line.count(_END))}"
    if copies := hit.get("copies"):
        many = "near-copy" if copies["count"] == 1 else "near-copies"
        yield f"     and {copies['count']:,} {many}, which --copies shows"
    others = (passage.get("section") or passage["id"] for passage in hit.get("passages", ()))
    if names := dict.fromkeys(printable(name) for name in others if name != section):
        yield f"     also: {textwrap.shorten('; '.join(names), width=width * _SNIPPET_LINES, placeholder=' …')}"


def _names_of_columns(text: str, first: int) -> str:
    """The names of the columns of a table, if the snippet begins with one of its rows."""
    if "|" not in text[first:].partition("\n")[0]:
        return ""
    above = text[:first].splitlines()
    for number in range(len(above) - 1, 0, -1):
        if "|" not in above[number]:
            break
        if not above[number].strip(" \t|:-"):
            return above[number - 1].strip()
    return ""


def _marked(text: str, first: int, spans: Iterable[tuple[int, int]]) -> str:
    """The text from a place on, with a mark before and after each span."""
    parts = list[str]()
    for start, end in spans:
        parts += (text[first:start], _BEGIN, text[start:end], _END)
        first = end
    return "".join((*parts, text[first:]))


def _is_styled() -> bool:
    """Whether words are shown in bold: in a terminal, unless the variable NO_COLOR says no (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def facet_line(name: str, facet: Facet) -> str:
    """The most frequent values with their counts, how many more there are, and how many documents have none."""
    values = ", ".join(f"{printable(str(value))} ({count:,})" for value, count in facet.counts) or "no values"
    more = facet.distinct - len(facet.counts)
    rest = (
        f"{more:,} more values" if more > 0 else "",
        f"{counted(facet.missing, 'document')} without" if facet.missing else "",
    )
    return f"{printable(name)}: {'; '.join(filter(None, (values, *rest)))}"


def _facet_record(facet: Facet) -> dict[str, Json]:
    values = [{"value": value, "count": count} for value, count in facet.counts]
    bounds = {"min": facet.minimum, "max": facet.maximum}
    counted = {"documents": facet.documents, "missing": facet.missing, "distinct": facet.distinct, "values": values}
    return counted | {name: bound for name, bound in bounds.items() if bound is not None}
