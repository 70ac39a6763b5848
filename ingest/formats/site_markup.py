"""Markdown without what speaks to the generator of a site: its readers see the page, not these lines.

Left out are attributes and permalink signs behind headings, comments, tags, references to invisible characters, scripts
and drawings, includes of other files, link definitions, and the data of very long addresses. The marks of a box become
the first words of its paragraph ("Tip: ..."). Code stays as it is, except that lines which include a file are left out,
and a block of only such lines. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from aidre.engine.index.text import strip_layout_references

_ATTRIBUTE = re.compile(r"#[^\s#={}]+|\.[^\s#.={}]+|[\w-]+=[^\s{}]+")
"""One attribute as Pandoc, kramdown and Python-Markdown have them behind a heading: `#id`, `.class`, `name=value`."""
_PERMALINK = "¶"

_FENCE = re.compile(r"([ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r"( {0,3}#{1,6}[ \t]+)(.*)")
_HEADING_ELEMENT = re.compile(r"<h([1-6])(?:\s[^<>]*)?>(.+)</h\1\s*>", re.IGNORECASE)
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_INCLUDE = re.compile(r"[ \t]*(?:\{\{ ?#\w.*\}\}|\{([*!%])[> \t].*\1\}|\{\{[<%].*[%>]\}\}|-{1,3}8<-{1,3}.*)$")
"""A line that a generator replaces by a file or a component: mdBook, MkDocs, Jinja, Hugo, PyMdown."""

_BOX = re.compile(
    r"([ \t]*)(:{3,}|/{3,}|!!!|\?\?\?\+?|===[!+]?(?=[ \t]+[\"']))[ \t]{0,40}"
    r"(?:\{?\.?([A-Za-z][\w-]*)\}?)?(?:\[([^\[\]\n]{1,200})\])?(?:[ \t|]{1,40}(.*))?$"
)
"""The first or last line of a box of VitePress, PyMdown or MkDocs, or the first of a tab: its mark, kind and title.
Blanks are bounded, so that many of them take linear time."""

_CALLOUT = re.compile(r"([ \t]*>[ \t]*)\[!(\w+)\][-+]?[ \t]*(.*)$")
_KINDS = frozenset(
    {
        "note", "tip", "hint", "info", "important", "warning", "caution", "danger", "error", "attention",
        "example", "abstract", "summary", "question", "success", "failure", "bug", "quote", "seealso",
    }
)  # fmt: skip
"""Boxes whose kind tells the reader something; of others only the title is text."""

_DEFINITION = re.compile(r" {0,3}\[(?!\^)[^\]\n]+\]:[ \t]*\S+(?:[ \t]+(?:\"[^\"]*\"|'[^']*'|\([^)]*\)))?[ \t]*$")
_LONG_TARGET = re.compile(r"(\]\([^\s()#]{1,200})#[^\s()]{200,}\)")
_INLINE_ATTRIBUTES = re.compile(r"(?<=[)\]])\{:?[ \t]*[#.][^{}\n]{0,200}\}")
_LONE_ATTRIBUTES = re.compile(r"[ \t]*\{:[ \t]*[#.][^{}\n]{0,200}\}[ \t]*$")

_HIDDEN = {"<!--": "-->", "<script": "</script>", "<style": "</style>", "<svg": "</svg>"}
"""What begins a passage that no reader sees, and what ends it."""

_OPENING = re.compile(r"(?<!\\)<!--|(?<!\\)<(?:script|style|svg)(?=[\s>])", re.IGNORECASE)
_TAG = re.compile(
    r"(?<!\\)</?([A-Za-z][\w.-]{0,60})((?:\s+[\w:@#.-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s\"'<>`]+))?)*)\s*/?>"
)
_LABEL = re.compile(r"\s(?:data-)?text\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_TAB_LABEL = re.compile(r"\slabel\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_CAPTION = re.compile(r"\scaption\s*=\s*\"([^\"]*)\"")
_NUMBER = re.compile(r"\snumber\s*=\s*\"([^\"]*)\"")
_CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(?:.*?[^`])\1(?!`)")
_NO_TEXT = re.compile(r"[ \t]*(?:[>|+*#]|[-=]{3,}|-[ \t]|\d+[.)][ \t]|`{3}|~{3}|:{3}|/{3}|!\[)")
"""The beginning of a line that the name of a box cannot stand before."""

_MARKS = re.compile(r"[<{:/!?>\[#=¶`~&]|-8<")
_MAX_LINE_CHARACTERS = 20_000
"""A longer line stays as it is: the search for tags in it could take long."""

_ELEMENTS = frozenset(
    {
        "a", "abbr", "article", "aside", "b", "big", "blockquote", "br", "button", "center", "cite", "code",
        "col", "colgroup", "dd", "del", "details", "dfn", "div", "dl", "dt", "em", "figcaption", "figure",
        "font", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "i", "iframe", "img", "input",
        "ins", "kbd", "label", "li", "main", "mark", "nav", "object", "ol", "option", "p", "param", "picture",
        "pre", "q", "s", "samp", "section", "select", "small", "source", "span", "strike", "strong", "sub",
        "summary", "sup", "table", "tbody", "td", "template", "tfoot", "th", "thead", "time", "tr", "tt", "u",
        "ul", "var", "video", "audio", "wbr",
    }
)  # fmt: skip
_SPACED = frozenset(
    {
        "br", "td", "th", "tr", "li", "p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "dd", "dt",
    }
)  # fmt: skip


def strip_site_markup(text: str) -> str:
    """The text as a reader sees it, still Markdown; unchanged if there is nothing to leave out."""
    return "\n".join(_MarkupPage(text.split("\n")).lines()) if _MARKS.search(text) else text


def strip_attributes(heading: str) -> str:
    """A heading without the attributes behind it, `{#anchor .class}`, and without the sign of its permalink."""
    heading = heading.rstrip().removesuffix(_PERMALINK).rstrip()
    start = heading.rfind("{")
    if start <= 0 or not heading.endswith("}") or heading[start - 1] == "\\":
        return heading
    words = heading[start + 1 : -1].removeprefix(":").split()
    is_attributes = words and all(map(_ATTRIBUTE.fullmatch, words))
    return heading[:start].rstrip() if is_attributes else heading


class _MarkupPage:
    """A pass over the lines of a page."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._last = {
            end: max((index for index, line in enumerate(lines) if end in line.lower()), default=-1)
            for end in _HIDDEN.values()
        }
        self._hidden: str | None = None
        """The end of the passage that no reader sees, inside such a passage."""
        self._code_line = -1
        """The last line of indented code."""
        self._box = ""
        """The name of a box whose first words are not reached."""

    def lines(self) -> Iterator[str]:
        """The lines that stay; one blank line stands for all that are left out beside each other."""
        index, is_blank, is_stripped = 0, True, False
        while index < len(self._lines):
            fence = None if self._hidden else _FENCE.match(self._lines[index])
            if fence and not (fence[2][0] == "`" and "`" in fence[3]):
                end = self._find_fence_end(index, fence[2])
                block = [*self._name_box(), *_strip_includes(self._lines[index:end])]
                yield from block
                index, is_blank, is_stripped = end, is_blank and not block, not block
                continue
            following = self._lines[index + 1] if index + 1 < len(self._lines) else ""
            was_blank = not self._lines[index].strip()
            for line in self._strip_line(index, following):
                is_left_out = not line.strip() and not was_blank
                if line.strip() or not (is_blank and (is_left_out or is_stripped)):
                    yield line
                is_stripped = is_left_out or (is_stripped and not line.strip())
                is_blank = not line.strip()
            index += 1

    def _find_fence_end(self, start: int, mark: str) -> int:
        """The line after a block of code."""
        for index in range(start + 1, len(self._lines)):
            match = _FENCE.match(self._lines[index])
            if match and match[2].startswith(mark) and not match[3].strip():
                return index + 1
        return len(self._lines)

    def _strip_line(self, index: int, following: str) -> Iterator[str]:
        line = self._lines[index]
        if len(line) > _MAX_LINE_CHARACTERS or not (self._hidden or self._box or _MARKS.search(line)):
            yield line
            return
        body, ending = (line[:-1], "\r") if line.endswith("\r") else (line, "")
        if self._hidden or not self._is_indented_code(index):
            body = self._strip_passages(_to_heading(body), index)
        named = _to_name(body)
        if named is not None:
            yield from self._name_box()
            self._box = named
            yield ending
            return
        if _INCLUDE.match(body.rstrip()) or _DEFINITION.match(body) or _LONE_ATTRIBUTES.match(body):
            yield ending
            return
        body = _strip_heading(body, following)
        body = _LONG_TARGET.sub(r"\1)", _INLINE_ATTRIBUTES.sub("", body))
        if self._box and body.strip(" \t>"):
            if _NO_TEXT.match(body.lstrip(" \t>")) or _HEADING.match(body):
                yield from self._name_box()
            else:
                start = len(body) - len(body.lstrip(" \t>"))
                body, self._box = f"{body[:start]}{self._box} {body[start:]}", ""
        yield body + ending

    def _is_indented_code(self, index: int) -> bool:
        """Whether a line is indented as code is, below a blank line or below such a line."""
        follows = index == 0 or self._code_line == index - 1 or not self._lines[index - 1].strip()
        if follows and self._lines[index].startswith(("    ", "\t")):
            self._code_line = index
        return self._code_line == index

    def _name_box(self) -> Iterator[str]:
        """The name of a box that does not begin with a paragraph, as a paragraph."""
        if self._box:
            yield from (self._box, "")
            self._box = ""

    def _strip_passages(self, line: str, index: int) -> str:
        """The line without what no reader sees, and without tags; code between grave accents stays."""
        if not self._hidden and _TAG.fullmatch(line.strip()) and not _OPENING.search(line):
            return _strip_tags(line)
        passages: list[str] = []
        lowered, position = line.lower(), 0
        code = _CODE_SPAN.search(line)
        while position < len(line) or self._hidden:
            if self._hidden:
                end = lowered.find(self._hidden, position)
                if end < 0:
                    return "".join(passages).rstrip()
                position, self._hidden = end + len(self._hidden), None
                continue
            if code and code.start() < position:
                code = _CODE_SPAN.search(line, position)
            stop = code.start() if code else len(line)
            opening = _OPENING.search(line, position, stop)
            ending = _HIDDEN[opening[0].lower()] if opening else ""
            if opening and (self._last[ending] > index or lowered.find(ending, opening.end()) >= 0):
                passages.append(_strip_tags(line[position : opening.start()]))
                position, self._hidden = opening.end(), ending
                continue
            passages += (_strip_tags(line[position:stop]), code[0] if code else "")
            position = code.end() if code else len(line)
        stripped = "".join(passages)
        return stripped if stripped.strip() or not line.strip() else ""


def _strip_includes(block: Sequence[str]) -> Sequence[str]:
    """A block of code without the lines that include files; nothing if no other line has text."""
    remaining = [line for line in block if not _INCLUDE.match(line.removesuffix("\r"))]
    return block if len(remaining) == len(block) else remaining if any(map(str.strip, remaining[1:-1])) else ()


def _to_heading(line: str) -> str:
    """A heading that is written as an element, as on the first page of many projects, in Markdown."""
    match = _HEADING_ELEMENT.fullmatch(line.strip())
    return f"{'#' * int(match[1])} {match[2].strip()}" if match else line


def _strip_heading(line: str, following: str) -> str:
    match = _HEADING.match(line)
    if match is None and not (line.strip() and _UNDERLINE.match(following.removesuffix("\r"))):
        return line
    mark, words = (match[1], match[2].rstrip()) if match else ("", line.rstrip())
    if match and words.rstrip("#").endswith((" ", "\t")):
        words = words.rstrip("#").rstrip()
    stripped = strip_attributes(words)
    return line if stripped == words else mark + stripped


def _to_name(line: str) -> str | None:
    """The words that stand for the first line of a box, with a colon; empty for its last line; None for other lines."""
    callout = _CALLOUT.match(line)
    if callout:
        return _with_colon(callout[3] or callout[2].capitalize())
    match = _BOX.match(line.rstrip())
    if match is None:
        return None
    indentation, mark, kind, label, title = match.groups()
    title = label or title
    if mark[0] in "!?" and (kind not in _KINDS or (title and title[0] not in "\"'")):
        return None
    if mark[0] == "/" and (len(indentation) > 3 or (title and "|" not in line)):
        return None
    title = (title or "").strip(" \"'{}")
    if (kind or "").lower() not in _KINDS:
        return _with_colon(title)
    return _with_colon(title or (kind or "").capitalize())


def _with_colon(name: str) -> str:
    name = name.strip()
    return name if not name or name.endswith((":", "?", "!", ".")) else f"{name}:"


def _strip_tags(text: str) -> str:
    text = strip_layout_references(text) if "&" in text else text
    return _TAG.sub(_to_words, text) if "<" in text else text


def _to_words(tag: re.Match[str]) -> str:
    """What a tag shows: nothing, a space, the text of a badge, the caption of a listing; the tag, if it may be text."""
    name, attributes = tag[1], tag[2]
    caption = _CAPTION.search(attributes)
    if caption:
        number = _NUMBER.search(attributes)
        return f"{name} {number[1]}: {caption[1]}" if number else caption[1]
    label = (_TAB_LABEL if name.startswith("Tab") else _LABEL).search(attributes)
    if label:
        return label[1] or label[2] or ""
    if name.lower() in _SPACED:
        return " "
    is_component = "-" in name or (name[0].isupper() and (attributes.strip() or tag[0].endswith("/>")))
    is_closing = tag[0].startswith("</") and name[0].isupper()
    return "" if name.lower() in _ELEMENTS or is_component or is_closing else tag[0]
