"""The asynchronous classes are those for threads, awaited: `make twins` writes them."""

from __future__ import annotations

import ast
import inspect

import pytest

import aidre_client
from tests.commands.twins import CLASSES, SOURCE, TARGET, twin

TWINS = [name for name in CLASSES if name != "Transport"]


def test_the_module_is_the_one_that_is_generated() -> None:
    made = twin(SOURCE.read_text(encoding="utf-8"))
    assert as_read(made) == as_read(TARGET.read_text(encoding="utf-8")), "run `make twins`"


def as_read(source: str) -> str:
    """Without comments, layout and the order of imported names, which the formatter decides."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            node.names.sort(key=lambda alias: alias.name)
    tree.body = _joined(tree.body)
    for node in tree.body:
        if isinstance(node, ast.If):
            node.body = _joined(node.body)
    return ast.dump(tree)


def _joined(statements: list[ast.stmt]) -> list[ast.stmt]:
    """With the imports first, a name in each."""
    imports = [node for node in statements if isinstance(node, ast.ImportFrom)]
    single = [ast.ImportFrom(node.module, [alias], node.level) for node in imports for alias in node.names]
    plain = [node for node in statements if isinstance(node, ast.Import)]
    return [
        *sorted(single, key=ast.unparse),
        *sorted(plain, key=ast.unparse),
        *(node for node in statements if not isinstance(node, ast.Import | ast.ImportFrom)),
    ]


@pytest.mark.parametrize("name", TWINS)
def test_twins_have_the_same_verbs_with_the_same_parameters(name: str) -> None:
    threads, awaited = getattr(aidre_client, name), getattr(aidre_client, f"Async{name}")
    special = {"__enter__": "__aenter__", "__exit__": "__aexit__", "__next__": "__anext__", "__iter__": "__aiter__"}
    verbs = {special.get(verb, verb) for verb in vars(threads)}
    assert verbs - {"__abstractmethods__", "_abc_impl"} == vars(awaited).keys() - {"__abstractmethods__", "_abc_impl"}
    for verb, method in vars(threads).items():
        if inspect.isfunction(method):
            other = vars(awaited)[special.get(verb, verb)]
            assert list(inspect.signature(method).parameters) == list(inspect.signature(other).parameters), verb


def test_what_waits_is_awaited() -> None:
    source = """
class RemoteCollection:
    @property
    def info(self) -> int:
        return self._transport.run(self._reader.info())

    def pages(self) -> Iterator[int]:
        return self._transport.each(self._next)

    @property
    def name(self) -> str:
        return self._reader.name
"""
    expected = """
class AsyncRemoteCollection:
    async def info(self) -> int:
        return await self._transport.run(self._reader.info())

    def pages(self) -> AsyncIterator[int]:
        return self._transport.each(self._next)

    @property
    def name(self) -> str:
        return self._reader.name
"""
    made = twin('"""Of a module."""\n' + source)
    assert ast.unparse(ast.parse(made.partition("\n")[2])) == ast.unparse(ast.parse(expected))
