"""References to characters of layout in markup: `&shy;`, `&#8203;`. What no reader sees is no text."""

from __future__ import annotations

import re
from typing import Final

from aidre.engine.index.text import strip_layout

_REFERENCE: Final = re.compile(
    r"&(?:shy|ZeroWidthSpace|NegativeVery(?:Thin|Thick)Space|NegativeMediumSpace|NoBreak|lrm|rlm);"
    r"|&#(?:[xX]0{0,4}([0-9a-fA-F]{2,4})|0{0,4}([0-9]{3,5}));"
)


def strip_references(markup: str) -> str:
    """The markup without references to characters of layout."""
    return _REFERENCE.sub(_kept, markup) if "&" in markup else markup


def _kept(reference: re.Match[str]) -> str:
    point = int(reference[1], 16) if reference[1] else int(reference[2] or 0)
    is_layout = not point or (point <= 0xFFFF and not strip_layout(chr(point)))
    return "" if is_layout else reference[0]
