"""One page out of its parts: HTML with an empty style and an empty script, joined with files in their order.

They are joined at import without indentation, lines of comments, most spaces and ends of lines: a quarter of the page.
A Content-Security-Policy names the hashes of what was joined, so nothing else runs in the page, and it loads from its
own origin only, but for images of documents where these are shown.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from aidre.api.http import etag_digest

HTML = "text/html"
FOLDER = Path(__file__).parent
LITERAL = re.compile(
    rb'("(?:[^"\\]|\\.)*"|`(?:[^`$\\]|\\.|\$(?!\{)|\$\{[^{}`]*\})*`'
    rb"|(?:(?<=[=(,:&|!?\[{;])|(?<=return)) ?/(?![/*])(?:[^/\\\[]|\\.|\[(?:[^\]\\]|\\.)*\])+/[a-z]*)"
)
"""A string in double quotes, a template with plain expressions, or a pattern, which follows an operator or `return`."""
UNSURE = re.compile(rb"[\"'`\\]|/[/*]")
OPERATORS = re.compile(
    rb"(?:(?<!\s)\s+)?([=<>?:,;{}()&|*\[\]]+|(?<!\+)(?<!\+ )\+(?!\+)(?! \+)|(?<!-)(?<!- )-(?!-)(?! -))\s*"
)
BLOCKS = rb"</?(?:meta|link|title|style|head|body|header|nav|main|form|div|section|article|ol|ul|p|h1|details|dialog)\b"
BESIDE_BLOCKS = re.compile(rb"(%b[^>]*>)\n|\n(%b)" % (BLOCKS, BLOCKS))
"""Ends of lines beside an element that is a block or is not shown: they separate nothing."""
STRICT = b'"use strict";\n'


@dataclass(frozen=True, slots=True)
class ServedPage:
    """A page and the fields of its answers."""

    content: bytes
    headers: Mapping[str, str]


def assembled(
    markup: str, styles: Sequence[str], scripts: Sequence[str], *, vary: str = "", images: bool = False
) -> ServedPage:
    """The page of some files of this folder. With `images` it may show those of documents; without, `main` is
    marked."""
    parts = [(b"style", _without_spaces(_joined(styles))), (b"script", STRICT + _squeezed(_joined(scripts)))]
    content = BESIDE_BLOCKS.sub(rb"\1\2", (FOLDER / markup).read_bytes())
    for element, inner in parts:
        content = content.replace(b"<%b></%b>" % (element, element), b"<%b>\n%b</%b>" % (element, inner, element), 1)
    if not images:
        content = content.replace(b"<main ", b"<main data-plain ", 1)
    allowed = policy(content, images=images)
    headers = {
        "ETag": f'"{etag_digest(content + allowed.encode())}-h"',
        "Cache-Control": "no-cache",
        **({"Vary": vary} if vary else {}),
        "Content-Security-Policy": allowed,
    }
    return ServedPage(content, headers)


def with_data(page: ServedPage, data: bytes) -> ServedPage:
    """The page with JSON-LD in its head. The policy needs no hash for it: browsers do not run it."""
    element = b'<script type="application/ld+json">%b</script></head>' % data.replace(b"<", b"\\u003c")
    content = page.content.replace(b"</head>", element, 1)
    allowed = page.headers["Content-Security-Policy"]
    return ServedPage(content, {**page.headers, "ETag": f'"{etag_digest(content + allowed.encode())}-h"'})


def policy(page: bytes, *, images: bool = False) -> str:
    """The Content-Security-Policy of the page: its own script and style, requests to its own origin, and with `images`
    those of documents, from where they are."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hashes(page, b'script')}",
            f"style-src {_hashes(page, b'style')}",
            "connect-src 'self'",
            # data: is the empty icon, so that browsers do not request /favicon.ico
            f"img-src data:{' http: https:' if images else ''}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _joined(names: Sequence[str]) -> bytes:
    """The files as one, without indents and comment lines: no string literal spans lines, so this changes none."""
    lines = [line.strip() for name in names for line in (FOLDER / name).read_bytes().splitlines()]
    return b"".join(line + b"\n" for line in lines if line and not line.startswith(b"//"))


def _without_spaces(style: bytes) -> bytes:
    """No string of a style has a brace, comma, colon, semicolon or `>`, so the spaces beside these can go."""
    return re.sub(rb":\s+", b":", re.sub(rb"(?<!\s)\s*([{};,>])\s*", rb"\1", style)).replace(b";}", b"}")


def _squeezed(script: bytes) -> bytes:
    """Without the spaces around operators, and without the ends of lines after those that need none, in lines whose
    templates are plain; others stay as they are."""
    made = b""
    for line in script.splitlines():
        parts = LITERAL.split(line)
        if any(map(UNSURE.search, parts[::2])):
            made += line + b"\n"
            continue
        parts[::2] = [OPERATORS.sub(rb"\1", part) for part in parts[::2]]
        squeezed = b"".join(parts)
        # A brace alone in its line ends a block: values end with "};".
        is_open = squeezed == b"}" or squeezed.endswith((b";", b"{", b",", b"("))
        made += squeezed if is_open else squeezed + b"\n"
    return made.replace(b"\n}", b"}")


def _hashes(page: bytes, element: bytes) -> str:
    contents = [part.partition(b"</%b>" % element)[0] for part in page.split(b"<%b>" % element)[1:]]
    return " ".join(f"'sha256-{b64encode(sha256(content).digest()).decode()}'" for content in contents)
