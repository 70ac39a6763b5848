"""Names in the code: one class name for one thing, and locals that say what they hold."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.rules.source_tree import BESIDE, PACKAGES, Source, Tree

ROOT = Path(__file__).resolve().parent.parent
SHARED = frozenset({
    # A message of a protocol, or a value in one, as the server and the client describe it.
    "AskAnswer", "BindAnswer", "Change", "ChangePage", "Citation", "CollectionList", "Condition", "Copies",
    "DeclaredIntake", "Discovery", "DocumentCount", "DocumentPage", "EmbeddingSpace", "Endpoints", "EventAnswer",
    "Facet", "FacetRangeCount", "FacetRequest", "FacetValue", "Fusion", "Highlight", "IntakeAnswer", "IntentEndpoint",
    "Offer", "Passage", "Result", "RetrieveAnswer", "SearchAnswer", "SearchMeta",
    # A thing of the glossary and the message that shows it.
    "Chunk", "Collection",
    # Names of messages that are public, beside words of the glossary.
    "Manifest", "Question", "Source",
})  # fmt: skip
EMPTY = frozenset({"anew", "asked", "given", "kept", "one", "ours", "said", "theirs", "told"})
"""What is stored in a local says none of these."""


def product(tree: Tree) -> list[Source]:
    return [source for source in tree.sources if source.folder in {*PACKAGES, "aidre", BESIDE}]


def repeated_classes(sources: Iterable[Source]) -> Iterator[str]:
    """Classes of one name that are not SHARED; a leading underscore makes no other name."""
    places: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(source.path)
    for name, paths in places.items():
        if len(paths) > 1 and name not in SHARED:
            yield f"class {name} is defined in {', '.join(paths)}"


def empty_locals(sources: Iterable[Source]) -> Iterator[str]:
    for source in sources:
        of_classes = {
            id(node.target)
            for member in source.nodes
            if isinstance(member, ast.ClassDef)
            for node in member.body
            if isinstance(node, ast.AnnAssign)
        }
        for node in source.nodes:
            name = node.arg if isinstance(node, ast.arg) else None
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in of_classes:
                name = node.id
            if name in EMPTY:
                yield f"{source.path}: {name}"


def source_of(path: str, text: str) -> Source:
    return Source(path, text, ast.parse(text))


def test_a_class_name_means_one_thing() -> None:
    breaches = sorted(repeated_classes(product(Tree(ROOT))))
    assert not breaches, "\n".join(breaches)


def test_a_shared_name_is_still_there_twice() -> None:
    names = [
        node.name.lstrip("_")
        for source in product(Tree(ROOT))
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted(name for name in SHARED if names.count(name) < 2) == []


def test_a_local_says_what_it_holds() -> None:
    breaches = sorted(set(empty_locals(product(Tree(ROOT)))))
    assert not breaches, "\n".join(breaches)


def test_a_planted_class_and_a_planted_local_are_found() -> None:
    sources = [
        source_of("engine/a.py", "class Page:\n    kept: int\n"),
        source_of(
            "api/b.py", "class _Page:\n    pass\ndef f(asked: int) -> None:\n    print([one for one in (asked,)])\n"
        ),
    ]
    assert list(repeated_classes(sources)) == ["class Page is defined in engine/a.py, api/b.py"]
    assert sorted(empty_locals(sources)) == ["api/b.py: asked", "api/b.py: one"]
