"""Links of a page: those to files of the site become the addresses of their pages, and wikilinks become links.

Code stays as it is. The time is linear in the length of the text.

Addresses by the path of a file alone: what `--url-style` names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, TypeAlias, cast, get_args
from urllib.parse import unquote

from aidre.engine.errors import ConfigurationError
from aidre.ingest.sites.settings.place import PAGES, split_name

_FENCE = re.compile(r"[ \t>]{0,80}(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,9})?(`{3,}|~{3,})([^\n]*)")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(?:.*?[^`])\1(?!`)")
_LINK = re.compile(r"(\]\()(<[^<>\n]{1,500}>|[^\s()<>]{1,500})(?=[ \t]{0,9}(?:[\"'(][^\n]{0,300}?)?\))")
_HREF = re.compile(r"(\shref[ \t]{0,9}=[ \t]{0,9}[\"'])([^\"'\s<>{}]{1,500})(?=[\"'])")
_DEFINITION = re.compile(r"( {0,3}\[[^\]\n]{1,200}\]:[ \t]{0,9})(\S{1,500})")
_REFERENCE = re.compile(
    r"(\]\()\{\{[<%][ \t]{0,9}(?:rel)?ref[ \t]{1,9}[\"']?([^\s\"'<>%{}]{1,400})[\"']?[ \t]{0,9}[%>]\}\}(?=\))"
    r"|(\]\()\{%-?[ \t]{0,9}(?:link|post_url)[ \t]{1,9}([^\s%{}]{1,400})[ \t]{0,9}-?%\}(?=\))"
)
_WIKILINK = re.compile(r"(!?)\[\[([^\[\]\n]{1,400})\]\]")
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:|//|#|\{")
_SIZE = re.compile(r"\d{1,5}(?:x\d{1,5})?")
_PICTURES = frozenset(
    {"png", "jpg", "jpeg", "gif", "svg", "webp", "bmp", "avif", "mp3", "wav", "ogg", "m4a", "mp4", "webm", "mov",
     "canvas", "base"}
)  # fmt: skip
_MARKS = ("](", "href", "[[", "]:")
_MAX_LINE = 20_000


class Wikilink(NamedTuple):
    """The parts of `[[target#heading|words]]`."""

    target: str
    heading: str
    words: str


Find: TypeAlias = Callable[[str], str | None]


def rewrite_links(text: str, *, find: Find, find_reference: Find, find_note: Find, keeps_unknown: bool) -> str:
    """The text with other targets. `find` gives the address that a relative target leads to, None to leave it;
    `find_reference` does so for what a generator refers to in a form of its own.

    `find_note` gives that of a note by its name, "" for one without an address; None if there is no such note: that
    link becomes its words, too, unless `keeps_unknown`.
    """
    if not any(mark in text for mark in _MARKS):
        return text
    rewrite = partial(
        _rewrite_line, find=find, find_reference=find_reference, find_note=find_note, keeps_unknown=keeps_unknown
    )
    fence = ""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        match = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if fence:
            if match and match[1].startswith(fence) and not match[2].strip():
                fence = ""
        elif match and not (match[1][0] == "`" and "`" in match[2]):
            fence = match[1]
        elif len(line) <= _MAX_LINE and any(mark in line for mark in _MARKS):
            lines[index] = rewrite(line)
    return "\n".join(lines)


def _rewrite_line(line: str, *, find: Find, find_reference: Find, find_note: Find, keeps_unknown: bool) -> str:
    def link(match: re.Match[str]) -> str:
        target = match[2].removeprefix("<").removesuffix(">")
        address = None if _SCHEME.match(target) else find(target)
        return match[0] if address is None else match[1] + address

    def reference(match: re.Match[str]) -> str:
        address = find_reference(match[2] or match[4])
        return match[0] if address is None else (match[1] or match[3]) + address

    def rewrite(part: str) -> str:
        if "{{" in part or "{%" in part:
            part = _REFERENCE.sub(reference, part)
        return _HREF.sub(link, _LINK.sub(link, part))

    line = _DEFINITION.sub(link, line, count=1) if "]:" in line else line
    if "[[" in line:
        line = _rewrite_wikilinks(line, find_note, keeps_unknown)
    if "`" not in line:
        return rewrite(line)
    parts: list[str] = []
    position = 0
    for code in _CODE_SPAN.finditer(line):
        parts += (rewrite(line[position : code.start()]), code[0])
        position = code.end()
    return "".join((*parts, rewrite(line[position:])))


def _rewrite_wikilinks(line: str, find_note: Find, keeps_unknown: bool) -> str:
    """The line with its wikilinks as links: code may be in their words, those in code stay."""
    spans = [(code.start(), code.end()) for code in _CODE_SPAN.finditer(line)] if "`" in line else []
    parts: list[str] = []
    position = 0
    for match in _WIKILINK.finditer(line):
        while spans and spans[0][1] <= match.start():
            spans.pop(0)
        if not (spans and spans[0][0] < match.start()):
            parts += (line[position : match.start()], _to_link(match, find_note, keeps_unknown))
            position = match.end()
    return "".join((*parts, line[position:]))


def split_wikilink(inner: str) -> Wikilink:
    """The parts of what stands between the brackets. A block reference (`#^id`) is not a heading."""
    target, _, words = inner.replace("\\|", "|").partition("|")
    target, _, heading = target.partition("#")
    heading = "" if heading.startswith("^") else heading.partition("#^")[0]
    return Wikilink(target.strip(), heading.strip(), words.strip())


def _to_link(match: re.Match[str], find_note: Find, keeps_unknown: bool) -> str:
    is_embed, link = bool(match[1]), split_wikilink(match[2])
    if is_embed and link.target.rpartition(".")[2].lower() in _PICTURES:
        return "" if _SIZE.fullmatch(link.words) else link.words
    address = find_note(link.target) if link.target else ""
    if address is None and keeps_unknown:
        return match[0]
    words = link.words if not (is_embed and _SIZE.fullmatch(link.words)) else ""
    words = words or " > ".join(filter(None, [link.target, *link.heading.split("#")]))
    if not address:
        return words
    return f"[{words}]({address}{'#' + to_fragment(link.heading) if link.heading else ''})"


def to_fragment(heading: str) -> str:
    """The last of some nested headings as the part of an address behind `#`."""
    last = heading.rpartition("#")[2].strip()
    return re.sub(r"[\s]+", "+", re.sub(r"[()<>\"\\]", "", last))


def split_target(target: str) -> tuple[str, str]:
    """Path and the rest (query, fragment) of a target."""
    cut = min((at for at in (target.find("#"), target.find("?")) if at >= 0), default=len(target))
    return unquote(target[:cut]), target[cut:]


UrlStyle: TypeAlias = Literal["auto", "file", "directory", "html", "bare"]
"""`auto`: as the generator of the folder has them, else `file`: sub/page.md. The others: sub/page/, sub/page.html and
sub/page."""

_INDEXES = frozenset({"index", "_index", "readme"})


def to_url_style(name: str) -> UrlStyle:
    """The style of that name; raises ConfigurationError for another one."""
    found = next((style for style in get_args(UrlStyle) if style == name), None)
    if found is None:
        raise ConfigurationError(f"url style {name!r} is unknown: use one of {', '.join(get_args(UrlStyle))}")
    return cast("UrlStyle", found)


def styled(path: str, style: UrlStyle) -> str:
    """The address of a file. Files that are not pages, such as PDF, keep their names."""
    folder, stem, suffix = split_name(path)
    if style in ("auto", "file") or suffix not in PAGES:
        return path
    is_index = stem.lower() in _INDEXES
    if style == "html":
        return f"{folder}{'index' if is_index else stem}.html"
    if is_index:
        return folder if style == "directory" else folder.rstrip("/")
    return f"{folder}{stem}{'/' if style == 'directory' else ''}"
