"""What stands within a line: elements that say more than their characters, and addresses that say less.

Raised numbers, formulas, pictures and numbers of items are written as text; `data:` addresses are taken out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

_ADDRESS = re.compile(
    r"data:[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}(?:;[a-z0-9_.+-]{1,40}(?:=[\w.+-]{1,60})?){0,5},[^\s<>\"')\]]{64,}",
    re.IGNORECASE,
)
_WRAPPED = re.compile(r"(?<=\u2026)(?:\r?\n[ \t]*[A-Za-z0-9+/=]{40,})+")
"""The further lines of an address that is broken into lines."""

_PICTURE = re.compile(
    r"!\[([^\[\]]{0,500})\]\([ \t]*<?data:[^\s<>()]{0,200}\u2026>?(?:[ \t]+\"[^\"\n]{0,500}\")?[ \t]*\)"
)
_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*<?data:[^\s<>]{0,200}\u2026>?.*$\n?", re.MULTILINE)


def strip_data_addresses(text: str) -> str:
    """The text with an ellipsis in place of the data of each address; a picture of Markdown becomes its description.

    Addresses are found by their form, so that the time is linear; a text about them, with a short one, stays as it is.
    """
    if "data:" not in text and "DATA:" not in text:
        return text
    shortened = _ADDRESS.sub(lambda match: f"{match[0].partition(',')[0]},\u2026", text)
    if shortened == text:
        return text
    return _DEFINITION.sub("", _PICTURE.sub(r"\1", _WRAPPED.sub("", shortened)))


_MAX_ROMAN = 4000
_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
    (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip


def to_letters(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    letters = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return letters


def to_roman(number: int) -> str:
    """A Roman numeral in capitals; a number without one (0, 4000) stays decimal."""
    if not 0 < number < _MAX_ROMAN:
        return str(number)
    written = ""
    for value, letters in _ROMAN:
        written += letters * (number // value)
        number %= value
    return written


_MAX_RAISED_CHARACTERS = 12
_MAX_ALT_CHARACTERS = 500
_MIN_ALT_WORDS = 3
_MIN_PIXELS = 64
"""A picture that is smaller in one direction is an icon, or measures its readers."""

_MAX_MATH_DEPTH = 30
_MAX_ITEMS = 100_000
_MAX_NUMBER = 1 << 20

_EXPONENT = re.compile(r"[-+\u2212]?\d+(?:[.,/]\d+)?|[-+\u2212]\w{1,3}|[nkx]")
_MARKER = re.compile(r"\d{1,3}(?:\s?[,\u2013-]\s?\d{1,3})*")
_WORD_BEFORE = re.compile(r"[^\W\d_]+$")
_UNIT_LETTERS = 2
"""A raised number after a longer word is the mark of a note: after a shorter one it is an exponent (km, x)."""

_POWER = re.compile(
    r"(?:arc|ar)?(?:sin|cos|tan|cot|sec|csc)h?|log|lim|exp|det|rms|alpha|beta|gamma|delta|theta|lambda|sigma|omega|"
    r"phi|psi|chi|eta|rho|tau|[kmgtpnuµμ]?(?:ev|hz|pa|wh|bar|mol|cal|rad|pc|ohm|newton)|inch(?:es)?|foot|feet|yards?|"
    r"miles?|rods?|[a-z]{0,6}met(?:er|re)s?|pixels?|voxels?|zoll|fu(?:ß|ss)|pieds?|pouces?|seconds?|seg|sek",
    re.IGNORECASE,
)
"""Functions, letters and units that are longer words and have exponents."""

_NOTE_NAME = re.compile(
    r"(?<![a-z])(?:foot-?notes?|end-?notes?|notes?|fn|cit(?:e|ation)s?|ref(?:erence)?s?)(?![a-z])", re.IGNORECASE
)
"""Classes and ids of note marks that are not links."""

_WORD = re.compile(r"\w+")
_FILE_NAME = re.compile(
    r"\S*\.(?:jpe?g|png|gif|webp|svg|avif|bmp|tiff?)|https?://\S*|[\w-]*\d{4,}[\w-]*", re.IGNORECASE
)
_FORMULA_PICTURE = re.compile(r"(?<![a-z])(?:math|latex|tex|katex|equation)(?![a-z])", re.IGNORECASE)
_ORNAMENT = re.compile(
    r"(?<![a-z])(?:icon|logo|avatar|emoji|sprite|spacer|pixel|tracking|badge|gravatar|ads?|banner|thumb(?:nail)?s?|"
    r"placeholder|profile|author)(?![a-z])",
    re.IGNORECASE,
)
_DISPLAY_STYLE = re.compile(r"\{\\(?:display|text)style(.*)\}", re.DOTALL)
_NO_MARKS = re.compile(r"list-style(?:-type)?\s*:[^;]{0,40}\bnone\b", re.IGNORECASE)
_NO_LIST = "nav,[role=navigation],[role=presentation],[role=none]"


def is_raised(node: LexborNode) -> bool:
    """Whether a <sup> is short enough for an exponent or the mark of a note."""
    return len(_text_of(node)) <= _MAX_RAISED_CHARACTERS and node.css_first("img,math") is None


def write_raised(node: LexborNode, before: str) -> str:
    """The text of a short <sup> behind a text: "^3" behind 10, "[1]" for the mark of a note, else its characters.

    Not the character of Unicode: compatibility normalization, which the lexical index and many models apply, joins
    `10³` to 103.
    """
    text = _text_of(node)
    if not text:
        return ""
    link = node.css_first("a[href]") or (node.parent if node.parent is not None and node.parent.tag == "a" else None)
    if link is not None and "#" in (link.attributes.get("href") or ""):
        return text if text[0] in "[(" or not text[-1].isalnum() else f"[{text}]"
    if _MARKER.fullmatch(text) and _NOTE_NAME.search(_names_of(node)):
        return f"[{text}]"
    return _write_unlinked(text, before) if before and not before[-1].isspace() else text


def _names_of(node: LexborNode) -> str:
    return f"{node.attributes.get('class') or ''} {node.attributes.get('id') or ''}"


def _write_unlinked(text: str, before: str) -> str:
    word = _WORD_BEFORE.search(before)
    if word is not None and _POWER.fullmatch(word[0]) and _EXPONENT.fullmatch(text):
        return f"^{text}"
    is_behind_number = word is None and (before[-1].isdigit() or before[-1] in ")]}|")
    is_marked = not is_behind_number if word is None else len(word[0]) > _UNIT_LETTERS
    if is_marked:
        is_exponent = word is not None and text[0] in "-+\u2212" and _EXPONENT.fullmatch(text)
        return f"[{text}]" if _MARKER.fullmatch(text) else f"^{text}" if is_exponent else text
    if _EXPONENT.fullmatch(text):
        return f"^{text}"
    return f"[{text}]" if _MARKER.fullmatch(text) else text


def read_math(node: LexborNode) -> str:
    """A formula as TeX where the page has it, else its characters with signs for fractions and exponents."""
    tex = (node.attributes.get("alttext") or "").strip()
    if not tex:
        annotation = node.css_first('annotation[encoding*="tex" i]')
        tex = "" if annotation is None else _text_of(annotation)
    if tex:
        return _without_style(tex)
    return " ".join("".join(_read_formula(node, _MAX_MATH_DEPTH)).split())


def is_formula(node: LexborNode) -> bool:
    """Whether an element is a formula, or the picture of one, as wikis have them."""
    return node.tag == "math" or _FORMULA_PICTURE.search(node.attributes.get("class") or "") is not None


def read_picture(node: LexborNode) -> str:
    """The description of a picture that belongs to the text; empty for ornaments, icons and names of files."""
    attributes = node.attributes
    alt = strip_data_addresses(" ".join((attributes.get("alt") or "").split()))
    names = _names_of(node)
    if is_formula(node):
        return _without_style(alt)[:_MAX_ALT_CHARACTERS]
    is_ornament = attributes.get("role") in ("presentation", "none") or attributes.get("aria-hidden") == "true"
    if is_ornament or _ORNAMENT.search(names) or _FILE_NAME.fullmatch(alt) or _is_tiny(node):
        return ""
    return alt[:_MAX_ALT_CHARACTERS] if len(_WORD.findall(alt)) >= _MIN_ALT_WORDS and not _has_caption(node) else ""


def number_items(tree: LexborHTMLParser) -> dict[int, str]:
    """The numbers of the items of ordered lists, as browsers show them, by the `mem_id` of the items."""
    numbers: dict[int, str] = {}
    for ordered in tree.css("ol")[:_MAX_ITEMS]:
        if ordered.css_matches(_NO_LIST) or _NO_MARKS.search(ordered.attributes.get("style") or ""):
            continue
        items = [child for child in children(ordered) if child.tag == "li"]
        is_reversed = "reversed" in ordered.attributes
        number = _to_number(ordered.attributes.get("start"), len(items) if is_reversed else 1)
        form = ordered.attributes.get("type") or "1"
        for item in items:
            number = _to_number(item.attributes.get("value"), number)
            numbers[item.mem_id] = f"{_write_number(number, form)}."
            number += -1 if is_reversed else 1
    return numbers


def _write_number(number: int, form: str) -> str:
    if form in ("a", "A") and number > 0:
        return to_letters(number) if form == "a" else to_letters(number).upper()
    if form in ("i", "I"):
        return to_roman(number) if form == "I" else to_roman(number).lower()
    return str(number)


def _read_formula(node: LexborNode, depth: int) -> Iterator[str]:
    sign = {"msup": "^", "msub": "_", "mfrac": "/"}.get(node.tag or "", "")
    parts = [child for child in children(node) if not sign or child.tag != "-text"]
    for index, child in enumerate(parts):
        if child.tag in ("annotation", "annotation-xml", "-comment"):
            continue
        text = (child.text_content or "") if child.tag == "-text" else ""
        if child.tag != "-text":
            text = "".join(_read_formula(child, depth - 1)).strip() if depth else _text_of(child)
        yield sign * (index > 0) + (f"({text})" if sign and len(text) > 1 and not text.isalnum() else text)


def _has_caption(node: LexborNode) -> bool:
    """Whether a figure describes its picture in a caption, which is text already."""
    for _ in range(4):
        parent = node.parent
        if parent is None:
            return False
        if parent.tag == "figure":
            caption = parent.css_first("figcaption")
            return caption is not None and bool(_text_of(caption))
        node = parent
    return False


def _is_tiny(node: LexborNode) -> bool:
    sizes = (_to_number(node.attributes.get(name), _MIN_PIXELS) for name in ("width", "height"))
    return min(sizes) < _MIN_PIXELS


def _without_style(tex: str) -> str:
    found = _DISPLAY_STYLE.fullmatch(tex.strip())
    return " ".join((tex if found is None else found[1]).split())


def _to_number(text: str | None, default: int) -> int:
    text = (text or "").strip()
    digits = text.removeprefix("-").removesuffix("px")
    if not (digits.isascii() and digits.isdecimal() and int(digits[:9]) < _MAX_NUMBER):
        return default
    return -int(digits[:9]) if text.startswith("-") else int(digits[:9])


def _text_of(node: LexborNode) -> str:
    return " ".join((node.text(deep=True) or "").split())


def children(node: LexborNode) -> Iterator[LexborNode]:
    child = node.child
    while child is not None:
        yield child
        child = child.next
