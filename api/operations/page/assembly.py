"""One page out of its parts: HTML with an empty style and an empty script, joined with files in their order.

They are joined at import without indentation, lines of comments and most spaces: a quarter of the page. A
Content-Security-Policy names the hashes of what was joined, so nothing else runs in the page, and it loads from its own
origin only.
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
UNSURE = re.compile(rb"['`/\\]")
OPERATORS = re.compile(rb"(?<!\s)\s*([=<>?:,;{}()&|]+)\s*")
STRICT = b'"use strict";\n'


@dataclass(frozen=True, slots=True)
class Page:
    """A page and the fields of its answers."""

    content: bytes
    headers: Mapping[str, str]


def assembled(markup: str, styles: Sequence[str], scripts: Sequence[str], *, vary: str = "") -> Page:
    """The page of some files of this folder."""
    parts = [(b"style", _without_spaces(_joined(styles))), (b"script", STRICT + _squeezed(_joined(scripts)))]
    content = (FOLDER / markup).read_bytes()
    for element, inner in parts:
        content = content.replace(b"<%b></%b>" % (element, element), b"<%b>\n%b</%b>" % (element, inner, element), 1)
    allowed = policy(content)
    headers = {
        "ETag": f'"{etag_digest(content + allowed.encode())}-h"',
        "Cache-Control": "no-cache",
        **({"Vary": vary} if vary else {}),
        "Content-Security-Policy": allowed,
    }
    return Page(content, headers)


def policy(page: bytes) -> str:
    """The Content-Security-Policy of the page: its own script and style, and requests to its own origin."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hashes(page, b'script')}",
            f"style-src {_hashes(page, b'style')}",
            "connect-src 'self'",
            "img-src data:",  # the empty icon, so that browsers do not request /favicon.ico
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
    """No string of a style has a brace, comma, colon or semicolon, so the spaces beside these can go."""
    return re.sub(rb":\s+", b":", re.sub(rb"(?<!\s)\s*([{};,])\s*", rb"\1", style))


def _squeezed(script: bytes) -> bytes:
    """Without the spaces around operators, in lines whose strings are all in double quotes and have no escapes; what
    has a pattern or a template stays as it is."""
    return b"\n".join(line if UNSURE.search(line) else _squeezed_line(line) for line in script.split(b"\n"))


def _squeezed_line(line: bytes) -> bytes:
    parts = line.split(b'"')
    parts[::2] = [OPERATORS.sub(rb"\1", part) for part in parts[::2]]
    return b'"'.join(parts)


def _hashes(page: bytes, element: bytes) -> str:
    contents = [part.partition(b"</%b>" % element)[0] for part in page.split(b"<%b>" % element)[1:]]
    return " ".join(f"'sha256-{b64encode(sha256(content).digest()).decode()}'" for content in contents)
