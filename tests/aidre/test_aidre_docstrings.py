"""Public docstrings of the library: each has its parameters, and an example that prints what it says."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aidre
from aidre.engine import embedding
from aidre.engine.embedding.embedder import load_embedder
from aidre.engine.errors import AidreError
from aidre.engine.model import EmbeddingSpace
from tests.support.kitchen import kitchen

REMOTE = re.compile(r"connect|.*Client$|.*Remote")
"""What asks a server: docs/client.md has the examples, which packages/client/tests run."""
NEEDED = {"to_pandas": "pandas", "to_polars": "polars"}
"""Libraries that an example needs beside those of the installation."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def documented() -> Iterator[tuple[str, Any]]:
    """Public functions and classes by name, also those of a module, and the public methods that a class has of its
    own."""
    for name in sorted(vars(aidre)["__all__"]):
        value = getattr(aidre, name)
        if name.startswith("__") or REMOTE.match(name) or (inspect.isclass(value) and issubclass(value, AidreError)):
            continue
        if inspect.ismodule(value):
            yield from ((f"{name}.{inner}", getattr(value, inner)) for inner in value.__all__)
            continue
        yield name, value
        for inner, method in vars(value).items() if inspect.isclass(value) else ():
            if inspect.isfunction(method) and not inner.startswith("_"):
                yield f"{name}.{inner}", method


NAMES = dict(documented())
AWAITED = {name for name in NAMES if name.startswith("Async")}
"""They say of which class or verb they are the asynchronous form, which has the example."""
SAID = {"Hits.set_relevance"}
"""Of use to those who make hits, not to those who read them."""
EXAMPLES = {
    name: test
    for name, value in NAMES.items()
    for test in doctest.DocTestFinder(recurse=False).find(value, name, globs={})
    if test.examples
}


def test_every_public_name_has_an_example() -> None:
    assert NAMES.keys() - EXAMPLES.keys() - AWAITED == SAID
    assert len(EXAMPLES) >= 40


def test_every_parameter_is_told() -> None:
    lacking = []
    for name, value in NAMES.items():
        if inspect.isclass(value) or name in AWAITED | SAID:
            continue
        told = (value.__doc__ or "").partition("Parameters:")[2].partition("Examples:")[0]
        names = [one for one in inspect.signature(value).parameters if one != "self"]
        lacking += [f"{name}({one})" for one in names if not re.search(rf"^ *\**{one}: \S", told, re.MULTILINE)]
    assert lacking == []


def test_asynchronous_names_say_what_they_await() -> None:
    for name in AWAITED:
        assert f"As `{name.removeprefix('Async')}`" in NAMES[name].__doc__, name


@pytest.fixture(scope="module")
def loaded_once() -> Iterator[None]:
    """Every example opens a database of its own: all have the default model of the first."""
    model = embedding.load_embedder(embedding.DEFAULT_SPACE)

    def load(space: EmbeddingSpace, **options: Any) -> embedding.Embedder:
        return model if space == embedding.DEFAULT_SPACE else load_embedder(space, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(embedding, "load_embedder", load)
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("loaded_once")
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_example_prints_what_it_says(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if library := NEEDED.get(name.rpartition(".")[2]):
        pytest.importorskip(library)
    with kitchen(tmp_path) as names:
        test = EXAMPLES[name]
        test.globs = names
        done = doctest.DocTestRunner(optionflags=FLAGS).run(test, clear_globs=False)
    assert done.failed == 0, capsys.readouterr().out


def test_an_example_that_is_wrong_is_found() -> None:
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner().run(test, out=lambda text: None).failed == 1
