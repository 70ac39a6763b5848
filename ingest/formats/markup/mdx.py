"""MDX without what is program: imports and exports, components, expressions and their comments. Their text stays.

Words that a component shows (`title`, `label`, ...) stand where its tag was. Code stays as it is. The time is linear in
the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

MDX_SUFFIX = ".mdx"

_NAMED = r"(?:[\w$]{1,100}|\*\s{1,20}as\s{1,20}[\w$]{1,100}|\{[^{};]{0,2000}\})"
_IMPORT = re.compile(
    rf"import\s{{1,20}}(?:(?:type\s{{1,20}})?{_NAMED}(?:\s{{0,20}},\s{{0,20}}{_NAMED})?\s{{1,20}}from\s{{1,20}}|)"
    r"(['\"])[^'\"\n]{1,500}\1[ \t]{0,99};?[ \t]{0,99}(?:\n|\Z)"
)
_EXPORT = re.compile(
    r"export\s{1,99}(?:default\b|const\b|let\b|var\b|function\b|async\b|class\b|type\b|interface\b|[{*])"
)
_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_CODE_OR_MATH = re.compile(
    r"(?<!`)(`{1,99})(?!`)[^\n]{0,2000}?[^`\n]\1(?!`)|(?<![\\$\w])\$\$?(?=\S)[^$\n]{1,500}?(?<=\S)\$\$?(?!\w)"
)
_TAG_START = re.compile(r"</?([A-Za-z][\w.:-]{0,60})?(?=[\s/>])|</?>")
_SHOWN = re.compile(
    r"\s(?:title|label|description|summary|heading|caption|question|text|name|alt)\s{0,99}=\s{0,99}"
    r"(?:\{?\"([^\"]{1,1000})\"\}?|\{?'([^']{1,1000})'\}?|\{`([^`$]{1,1000})`\})"
)
_LITERAL = re.compile(r"\{\s{0,99}(?:\"([^\"\n]*)\"|'([^'\n]*)'|`([^`$]*)`)\s{0,99}\}")
_BLANK_LINE = re.compile(r"\n[ \t]{0,99}(?=\n|\Z)")
_MARK = re.compile(r"[<{]")
_MAX_TAG_CHARACTERS = 20_000
_MAX_EXPORT_PARAGRAPHS = 40
_ANCHOR = re.compile(r"\{#[^{}\s]{1,200}\}")


def is_mdx(text: str, suffix: str) -> bool:
    """Whether a Markdown text is of a file of MDX, or begins with an import, as pages of Docusaurus do that are called
    .md."""
    return suffix.lower() == MDX_SUFFIX or _IMPORT.match(text.lstrip()) is not None


def strip_mdx(text: str) -> str:
    """The text as its readers see it, still Markdown."""
    return "".join(_strip_part(part) if is_text else part for part, is_text in _split_code(text))


def _split_code(text: str) -> Iterator[tuple[str, bool]]:
    """The parts outside of fenced code, and (False) those inside."""
    part: list[str] = []
    mark = ""
    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line)
        if not mark and fence and not (fence[1][0] == "`" and "`" in line[fence.end() :]):
            yield "".join(part), True
            part, mark = [line], fence[1]
        elif mark and fence and fence[1].startswith(mark) and not line[fence.end() :].strip():
            yield "".join([*part, line]), False
            part, mark = [], ""
        else:
            part.append(line)
    yield "".join(part), not mark


def _strip_part(text: str) -> str:
    text = _strip_modules(text)
    return "".join(_strip_markup(text)) if "<" in text or "{" in text else text


def _strip_modules(text: str) -> str:
    """Without imports and exports, which begin a paragraph; those with brackets end where all are closed."""
    if "import" not in text and "export" not in text:
        return text
    lines: list[str] = []
    position, is_start = 0, True
    while position < len(text):
        end = text.find("\n", position) + 1 or len(text)
        line = text[position:end]
        found = _IMPORT.match(text, position) if is_start and line.startswith("import") else None
        if found:
            position = found.end()
        elif is_start and line.startswith("export") and _EXPORT.match(line):
            position = _find_export_end(text, position)
        else:
            lines.append(line)
            position, is_start = end, not line.strip()
    return "".join(lines)


def _find_export_end(text: str, start: int) -> int:
    """The end of the first paragraph after which all brackets are closed; of the paragraph where none are."""
    depth, position, first = 0, start, 0
    for _ in range(_MAX_EXPORT_PARAGRAPHS):
        blank = _BLANK_LINE.search(text, position)
        end = blank.start() + 1 if blank else len(text)
        first = first or end
        block = text[position:end]
        depth += sum(map(block.count, "{[(")) - sum(map(block.count, "}])"))
        if depth <= 0:
            return end
        if blank is None or end - start > _MAX_TAG_CHARACTERS or text.startswith("export", end + 1):
            break
        position = end
    return first


def _strip_markup(text: str) -> Iterator[str]:
    """The text without tags and expressions; what is escaped, code and formulas stay."""
    closings = _match_braces(text)
    position = copied = 0
    protected = _CODE_OR_MATH.search(text)
    while position < len(text):
        if protected and protected.start() < position:
            protected = _CODE_OR_MATH.search(text, position)
        stop = protected.start() if protected else len(text)
        place = _find_mark(text, position, stop)
        if place == stop:
            position = protected.end() if protected else len(text)
            continue
        end, words = _read_mark(text, place, closings)
        if end > place and text[place - 1 : place] != "\\":
            yield text[copied:place] + words
            copied = end
        position = max(end, place + 1)
    yield text[copied:]


def _find_mark(text: str, start: int, stop: int) -> int:
    found = _MARK.search(text, start, stop)
    return stop if found is None else found.start()


def _read_mark(text: str, place: int, closings: Mapping[int, int]) -> tuple[int, str]:
    """The end of a tag or an expression, `place` for none, and the words that stand for it."""
    if text[place] == "{":
        if _ANCHOR.match(text, place) or place not in closings:
            return place, ""
        end = closings[place] + 1
        literal = _LITERAL.fullmatch(text, place, end)
        return end, next(filter(None, literal.groups()), "") if literal else ""
    start = _TAG_START.match(text, place)
    if start is None:
        return place, ""
    end = _find_tag_end(text, start.end(), closings)
    if end < 0:
        return place, ""
    name = start[1] or ""
    is_component = name[:1].isupper() or "." in name
    tag = text[place:end]
    if name and not is_component and "{" not in tag:
        return place, ""  # an element of HTML, which Markdown may have, too
    shown = [next(filter(None, words), "") for words in _SHOWN.findall(tag)] if is_component else []
    words = ". ".join(dict.fromkeys(word.strip().rstrip(".") for word in shown if word.strip()))
    is_line = words and text[text.rfind("\n", 0, place) + 1 : place].strip() == ""
    return end, f"{words}\n" if is_line and text[end : end + 1] != "\n" else words


def _find_tag_end(text: str, position: int, closings: Mapping[int, int]) -> int:
    """Behind the `>` of a tag; -1 if there is none, or another tag begins before."""
    if text[position - 1] == ">":
        return position
    limit = min(len(text), position + _MAX_TAG_CHARACTERS)
    while position < limit:
        character = text[position]
        if character == ">":
            return position + 1
        if character == "<":
            return -1
        if character in "\"'":
            position = text.find(character, position + 1, limit)
            if position < 0:
                return -1
        elif character == "{":
            position = closings.get(position, limit)
        position += 1
    return -1


def _match_braces(text: str) -> dict[int, int]:
    """The place of the closing brace of each opening one."""
    closings: dict[int, int] = {}
    opened: list[int] = []
    for match in re.finditer(r"[{}]", text):
        if match[0] == "{":
            opened.append(match.start())
        elif opened:
            closings[opened.pop()] = match.start()
    return closings
