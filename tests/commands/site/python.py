"""The reference of the library, for mkdocstrings: every name that `import aidre` offers."""

from __future__ import annotations

import inspect

import aidre
from aidre.engine.errors import AidreError
from tests.support.kitchen import DOCUMENTS

INTRODUCTION = """# Python

Everything in `aidre.__all__`, and nothing else, is public: documented here, typed, and stable within a minor version.
The exceptions are listed among the [error codes](errors.md#python). [The library](../library.md) and
[the client](../client.md) show these names at work.

Examples run. What they find is a store `db` in `folder`, with a collection `docs`:

```python
docs = db.collection("kitchen")
docs.add([
    DOCUMENTS
])
```
"""
GROUPS = {
    "A store on this machine": ("open", "open_async", "from_dataset"),
    "A server": ("connect", "connect_async", "Endpoint"),
    "Documents, spaces, queries and hits": ("Document", "Chunk", "EmbeddingSpace", "Query", "Hit", "Facet"),
    "Classes that these return": (),
}
OPTIONS = "    options:\n      show_root_heading: true\n      heading_level: 3\n"


def python_page() -> str:
    """The page in Markdown, with one directive of mkdocstrings a name. What no group lists is in the last."""
    names = [name for name in dir(aidre) if not _is_error(name) and not name.startswith("__")]
    listed = {name for group in GROUPS.values() for name in group}
    groups = GROUPS | {list(GROUPS)[-1]: tuple(name for name in names if name not in listed)}
    shown = INTRODUCTION.replace("DOCUMENTS", "\n    ".join(f"{one}," for one in DOCUMENTS))
    return shown + "".join(
        f"\n## {title}\n" + "".join(f"\n::: aidre.{name}\n{OPTIONS}" for name in group if name in names)
        for title, group in groups.items()
    )


def _is_error(name: str) -> bool:
    value = getattr(aidre, name)
    return inspect.isclass(value) and issubclass(value, AidreError)
