"""Files outside of docs/ that the site shows, and links to them.

Files without a page are named, not linked: the site does not say where the repository is.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

SHOWN: Mapping[str, str] = {
    "ARCHITECTURE.md": "architecture/index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "benchmarks/REPORT.md": "report.md",
    "examples/README.md": "examples.md",
    "integrations/haystack/README.md": "haystack.md",
    "integrations/langchain/README.md": "langchain.md",
    "integrations/llama_index/README.md": "llama-index.md",
}
"""Files outside of docs/ and the pages that show them."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def rewritten(text: str, source: str, path: str) -> str:
    """The text of a file of the repository with its links as those of the page at `path` of the site."""
    folder = posixpath.dirname(source)

    def turned(match: re.Match[str]) -> str:
        image, label, target, anchor = match[1], match[2], match[3], match[4] or ""
        file = posixpath.normpath(posixpath.join(folder, target))
        if file.startswith("docs/"):
            page = file.removeprefix("docs/")
        elif file in SHOWN:
            page = SHOWN[file]
        elif file.startswith("benchmarks/plots/"):
            page = file.removeprefix("benchmarks/")
        else:
            return label
        return f"{image}[{label}]({posixpath.relpath(page, posixpath.dirname(path) or '.')}{anchor})"

    return LINK.sub(turned, text)
