"""The report as one page of HTML without scripts, which loads nothing.

All that comes from the store is text: it is escaped, its control characters are spaces, and addresses are not links.
The policy in the page allows its own style sheet alone, so that a mistake here would run nothing.
"""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from aidre.api.cli import console
from aidre.api.cli.report.facts import CollectionFacts, Excerpt, StoreReport
from aidre.api.cli.report.quality import NearCopies, Searches
from aidre.engine.types import SpaceStatus

_STYLE: Final = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)
_COLORS: Final = 8
_NOTHING: Final = "–"


def render(report: StoreReport) -> str:
    """The page, which is whole: it needs no other file."""
    sections = [_collection(number, facts) for number, facts in enumerate(report.collections)]
    failures = "".join(
        f'<section><div class="title"><h2>{_text(failure.name)}</h2><span class="badge private">cannot be opened'
        f'</span></div><p class="bad">{_text(failure.reason)}</p></section>'
        for failure in report.failures
    )
    nothing = "" if sections or failures else "<section><p>There is no collection in this store.</p></section>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n<meta name="referrer" content="no-referrer">\n'
        '<meta name="robots" content="noindex">\n<link rel="icon" href="data:,">\n'
        f"<title>Report on {html.escape(console.printable(report.store))}</title>\n"
        f"<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{_head(report)}<main>{failures}{''.join(sections)}{nothing}</main>\n{_foot(report)}</body>\n</html>\n"
    )


def _head(report: StoreReport) -> str:
    facts = report.collections
    tiles = _tiles(
        (
            ("collections", f"{len(facts) + len(report.failures):,}"),
            ("documents", f"{sum(collection.status['documents'] for collection in facts):,}"),
            ("chunks", f"{sum(collection.status['chunks'] for collection in facts):,}"),
            ("on disk", console.format_bytes(sum(sum(collection.sizes.values()) for collection in facts))),
            (
                "kernel",
                next((collection.status["kernel"] for collection in facts if collection.status["kernel"]), None)
                or report.engine,
            ),
        )
    )
    links = "".join(f'<a href="#c{number}">{_text(collection.name)}</a>' for number, collection in enumerate(facts))
    return (
        f"<header><h1>What is in this store</h1><p><code>{_text(report.store)}</code></p>"
        f'<p class="quiet">Made {_time(report.made_at)} by aidre {_text(report.version)} in {report.seconds:g} s, for '
        f"the operator: it shows texts of private collections, too.</p>{tiles}<nav>{links}</nav></header>\n"
    )


def _foot(report: StoreReport) -> str:
    return (
        '<footer class="quiet"><p>Numbers without a note are of everything that is stored. Lengths, copies and '
        "searches are of samples whose size stands beside them; the same store gives the same samples.</p></footer>\n"
    )


def _collection(number: int, facts: CollectionFacts) -> str:
    status = facts.status
    tiles = _tiles(
        (
            ("documents", f"{status['documents']:,}"),
            ("chunks", f"{status['chunks']:,}"),
            ("on disk", console.format_bytes(sum(facts.sizes.values()))),
            ("generation", f"{status['generation']:,}"),
            (f"last commit, {_clock(status['updated_at'])}", _text(status["updated_at"][:10])),
        )
    )
    cards = (
        _searches(facts.searches, facts.unavailable.get("sample searches")),
        _copies(facts.copies, facts.status["chunks"], facts.unavailable.get("near-duplicates")),
        _documents(facts),
        _languages(facts),
        _sources(facts),
        _sizes(facts),
        _lengths(facts),
    )
    excerpts = _excerpts("Longest chunks", facts.longest) + _excerpts("Shortest chunks", facts.shortest)
    warnings = "".join(f'<li class="warn">{_text(warning)}</li>' for warning in status["warnings"])
    description = f"<p>{_text(status['description'])}</p>" if status["description"] else ""
    return (
        f'<section id="c{number}"><div class="title"><h2>{_text(facts.name)}</h2>'
        f'<span class="badge {facts.visibility}">{facts.visibility}</span></div>{description}{tiles}'
        f"{f'<ul>{warnings}</ul>' if warnings else ''}{_spaces(status['spaces'])}"
        f'<div class="columns">{"".join(cards)}</div><div class="pair">{excerpts}</div>'
        f"{_unavailable(facts)}</section>\n"
    )


# -- cards -----------------------------------------------------------------------------------------------------


def _spaces(spaces: Sequence[SpaceStatus]) -> str:
    rows = [
        (
            _text(space["id"]),
            _text(space["model"] or "vectors come with the rows"),
            f"{space['dimensions']:,}",
            _text(space["distance"]),
            _text(space["precision"] or _NOTHING),
            _text(_index(space)),
            _recall(space),
            console.format_bytes(sum(space["bytes"].values())),
        )
        for space in spaces
    ]
    names = ("space", "model", "dimensions", "distance", "precision", "index", "recall as calibrated", "size")
    table = _table(names, rows, numbers={2, 7})
    reasons = "".join(
        f'<p class="quiet">{_text(space["id"])}: every row is compared ({_text(space["calibration"]["reason"])}).</p>'
        for space in spaces
        if space["calibration"] and space["calibration"].get("reason")
    )
    return _card("Embedding spaces", table + reasons)


def _index(space: SpaceStatus) -> str:
    if space["state"] != "live":
        return f"{space['state']}, {space['chunks']:,} chunks so far"
    calibration = space["calibration"]
    return "exact" if calibration is None else str(calibration["kind"])


def _recall(space: SpaceStatus) -> str:
    calibration = space["calibration"]
    if calibration is None or calibration["kind"] == "exact":
        return "1 (exact)"
    depths = [f"@{depth['results']:,} {depth['mean']:.4f} (p5 {depth['p5']:.2f})" for depth in calibration["depths"]]
    return "<br>".join(depths) or "not known"


def _sizes(facts: CollectionFacts) -> str:
    total = sum(facts.sizes.values()) or 1
    sizes = sorted(facts.sizes.items(), key=lambda pair: -pair[1])
    stack, at = "", 0.0
    for place, (_, size) in enumerate(sizes):
        width = 100 * size / total
        stack += f'<rect class="c{min(place, _COLORS - 1)}" x="{at:.2f}%" y="0" width="{width:.2f}%" height="100%"/>'
        at += width
    rows = [
        (
            f'<span class="key k{min(place, _COLORS - 1)}"></span>{_text(kind)}',
            console.format_bytes(size),
            _share(size, total),
        )
        for place, (kind, size) in enumerate(sizes)
    ]
    picture = f'<svg class="stack" role="img" aria-label="shares of the kinds">{stack}</svg>'
    return _card("On disk, by kind", picture + _table(("kind", "size", "share"), rows, numbers={1, 2}))


def _sources(facts: CollectionFacts) -> str:
    if not facts.sources:
        return ""
    rows = [
        (
            f"{_text(source.name) if source.name else '<em>written without a source</em>'}"
            f"{f'<br><code>{_text(source.root)}</code>' if source.root else ''}",
            f"{source.documents:,}",
            _time(source.last_read) if source.last_read else _NOTHING,
        )
        for source in facts.sources
    ]
    return _card("Sources", _table(("source", "documents", "last read"), rows, numbers={1}))


def _documents(facts: CollectionFacts) -> str:
    status, of = facts.status, facts.untitled_of
    where = "" if of == status["documents"] else f" of {of:,} sampled"
    rows = [
        ("without a title", _count(facts.untitled, of), _bar(facts.untitled, of)),
        (
            "without a url",
            _count(status["documents_without_url"], status["documents"]),
            _bar(status["documents_without_url"], status["documents"]),
        ),
    ]
    waiting = status["deleted_chunks"]
    deleted = f'<p class="quiet">{waiting:,} deleted chunks wait to be merged away.</p>' if waiting else ""
    note = f'<p class="quiet">Titles{where}.</p>' if where else ""
    return _card("Documents", _table(("", "documents", ""), rows, numbers={1}, bars={2}) + note + deleted)


def _languages(facts: CollectionFacts) -> str:
    total = sum(facts.languages.values()) or 1
    rows = [
        (f"<code>{_text(tag)}</code>", _count(chunks, total), _bar(chunks, total))
        for tag, chunks in list(facts.languages.items())[:12]
    ]
    note = f"Detected in {total:,} sampled chunks." if facts.languages_detected else "As stored, of all chunks."
    table = _table(("language", "chunks", ""), rows, numbers={1}, bars={2})
    return _card("Languages", f'{table}<p class="quiet">{note}</p>')


def _searches(searches: Searches | None, reason: str | None) -> str:
    if searches is None or not searches.asked:
        return _card("Sample searches", f"<p>{_text(reason or 'No sampled document has a title.')}</p>")
    share = searches.first / searches.asked
    grade = "good" if share >= 0.9 else "warn" if share >= 0.7 else "bad"
    verdict = (
        f'<p><span class="big {grade}">{searches.first} of {searches.asked}</span> titles find their document first, '
        f"{searches.in_ten} within ten.</p>{_bar(searches.first, searches.asked)}"
        f'<p class="quiet">Titles of sampled documents, asked as queries ({_text(searches.mode)}). Another document '
        "with the same title counts as found.</p>"
    )
    notes = "".join(f'<p class="warn">{_text(note)}</p>' for note in searches.notes)
    if not searches.missed:
        return _card("Sample searches", verdict + notes)
    rows = [
        (
            f"{_text(title_search.title)}<br><code>{_text(title_search.document_id)}</code>",
            f"{title_search.place}" if title_search.place else "not in ten",
            _text(title_search.first_title or title_search.first_id or _NOTHING),
        )
        for title_search in searches.missed
    ]
    table = _table(("title asked for", "place", "first answer"), rows, numbers={1})
    return _card("Sample searches", f"{verdict}{notes}<details open><summary>Not first</summary>{table}</details>")


def _copies(copies: NearCopies | None, chunks: int, reason: str | None) -> str:
    if copies is None or not copies.compared:
        return _card("Near-duplicates", f"<p>{_text(reason or 'There is nothing to compare.')}</p>")
    share = copies.copied / copies.compared
    low, high = (100 * bound for bound in copies.interval())
    range_ = f" (of all chunks {low:.1f} to {high:.1f} %)" if copies.compared < chunks else ""
    grade = "good" if share <= 0.02 else "warn" if share <= 0.15 else "bad"
    verdict = (
        f'<p><span class="big {grade}">{100 * share:.1f} %</span> of the chunks have a near-duplicate{range_}: '
        f"{copies.copied} of {copies.compared} sampled ones, {copies.exact} with the very same text, "
        f"{copies.elsewhere} in another document.</p>{_bar(copies.copied, copies.compared)}"
        '<p class="quiet">Nearest neighbours by vector in the whole collection that share four fifths of their word '
        "triples.</p>"
    )
    if not copies.examples:
        return _card("Near-duplicates", verdict)
    rows = [
        (
            f"<code>{_text(copy.id)}</code><br><code>{_text(copy.other_id)}</code>",
            "same text" if copy.similarity == 1 else f"{copy.similarity:.2f}",
            _text(_cut(copy.text, 120)),
        )
        for copy in copies.examples
    ]
    table = _table(("chunks", "similarity", "text"), rows, numbers={1})
    return _card("Near-duplicates", f"{verdict}<details open><summary>Examples</summary>{table}</details>")


def _lengths(facts: CollectionFacts) -> str:
    most = max((bucket.chunks for bucket in facts.lengths), default=0) or 1
    rows = [
        (
            f"{bucket.start:,} – {bucket.end - 1:,}" if bucket.end else f"{bucket.start:,} and more",
            f"{bucket.chunks:,}",
            _bar(bucket.chunks, most),
        )
        for bucket in facts.lengths
    ]
    extent = facts.extent
    what = "the first" if extent.is_head else "a sample of"
    note = f"Of {what} {extent.chunks:,} of {extent.total:,} chunks." if extent.chunks < extent.total else "All chunks."
    table = _table(("characters", "chunks", ""), rows, numbers={1}, bars={2})
    scanned = "" if extent.scanned == extent.total else f" Longest and shortest of {extent.scanned:,} chunks."
    return _card("Lengths of chunks", f'{table}<p class="quiet">{note}{scanned}</p>')


def _excerpts(heading: str, excerpts: Iterable[Excerpt]) -> str:
    parts = [
        f'<div class="excerpt"><p><strong>{excerpt.characters:,}</strong> characters · {_text(excerpt.title or "")} '
        f"<code>{_text(excerpt.id)}</code></p>{f'<p><code>{_text(excerpt.url)}</code></p>' if excerpt.url else ''}"
        f"<pre>{_lines(excerpt.text)}{' …' if excerpt.characters > len(excerpt.text) else ''}</pre></div>"
        for excerpt in excerpts
    ]
    return _card(heading, "".join(parts), "card long")


def _unavailable(facts: CollectionFacts) -> str:
    if not facts.unavailable and not facts.lacking:
        return ""
    items = "".join(f"<li>{_text(what)}: {_text(why)}</li>" for what, why in facts.unavailable.items())
    lacking = f"<p>This engine lacks: {_text(', '.join(facts.lacking))}.</p>" if facts.lacking else ""
    return _card("Not to be had here", f"{lacking}<ul>{items}</ul>")


# -- parts of cards --------------------------------------------------------------------------------------------


def _card(heading: str, content: str, kind: str = "card") -> str:
    return f'<div class="{kind}"><h3>{heading}</h3>{content}</div>'


def _tiles(facts: Iterable[tuple[str, str]]) -> str:
    tiles = "".join(
        f'<div class="tile"><strong>{value}</strong><span class="quiet">{name}</span></div>' for name, value in facts
    )
    return f'<div class="tiles">{tiles}</div>'


def _table(
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Collection[int] = (),
    bars: Collection[int] = (),
) -> str:
    """A table of cells that are HTML already."""

    def kind(column: int) -> str:
        return ' class="number"' if column in numbers else ' class="bar"' if column in bars else ""

    head = "".join(f"<th{kind(column)}>{name}</th>" for column, name in enumerate(names))
    body = "".join(
        f"<tr>{''.join(f'<td{kind(column)}>{cell}</td>' for column, cell in enumerate(row))}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _bar(count: int, total: int) -> str:
    width = 100 * count / total if total else 0
    rect = f'<rect class="c0" width="{width:.2f}%" height="100%"/>'
    return f'<svg class="inline" role="img" aria-label="{width:.0f} %">{rect}</svg>'


def _count(count: int, total: int) -> str:
    return f"{count:,} ({_share(count, total)})"


def _share(count: int, total: int) -> str:
    share = 100 * count / total if total else 0.0
    return f"{share:.1f} %" if share == 0 or share >= 0.1 else "&lt; 0.1 %"


def _time(moment: str) -> str:
    """A time as it is stored, to the minute."""
    return _text(f"{moment[:10]} {moment[11:16]} UTC" if moment.endswith("Z") and len(moment) >= 17 else moment)


def _clock(moment: str) -> str:
    """The time of day of a time as it is stored."""
    return _text(f"{moment[11:16]} UTC" if moment.endswith("Z") else moment[11:])


def _text(value: str) -> str:
    return f"<bdi>{html.escape(console.printable(value))}</bdi>"


def _lines(text: str) -> str:
    return "\n".join(map(_text, text.splitlines()))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
