from __future__ import annotations

import pytest

from aidre.ingest.sites.settings.literals import COMPUTED, read_constant, read_exported


@pytest.mark.parametrize(
    "text",
    [
        "module.exports = {a: 1};",
        "export default {a: 1}",
        "export default defineConfig({ a: 1 })",
        "const config: Config = {a: 1};\nexport default config;",
        "/** @type {X} */\nconst config = {a: 1}\n\nmodule.exports = config",
        "export default {a: 1} satisfies Options",
        "module.exports = function (x) { x.add('b', () => { return {c: 2} }); return {a: 1}; };",
        "export default async (x) => { return {a: 1} }",
        "async function make() { const b = {c: 2}; return {a: 1}; }\nmodule.exports = make;",
        "export default withPlugin(defineConfig({a: 1}))",
        "export default /* a: 2 */ { // a: 3\n a: 1 }",
    ],
)
def test_the_exported_object_is_read_in_each_form(text: str) -> None:
    assert read_exported(text) == {"a": 1}


def test_values_that_are_written_out_are_read() -> None:
    text = r"""
    const base = '/x/', other = 1;
    export default {
      base, "quoted-name": 'it\'s', [computed]: 1, n: -2.5, hex: 0x10, yes: true, no: false, nothing: null,
      template: `plain`, list: ['a', ['b', {c: 1}],], re: /[/}]'/g, url: process.env.URL ?? 'https://a.example',
      ...{spread: 1}, unicode: 'Gr\u00f6\x65',
    }"""
    assert read_exported(text) == {
        "base": "/x/", "quoted-name": "it's", "n": -2.5, "hex": 16, "yes": True, "no": False, "nothing": None,
        "template": "plain", "list": ["a", ["b", {"c": 1}]], "re": COMPUTED, "url": "https://a.example", "spread": 1,
        "unicode": "Gröe",
    }  # fmt: skip


@pytest.mark.parametrize(
    "value", ["f('x')", "a + 'b'", "`${a}/b`", "x ? 'a' : 'b'", "() => 'a'.b", "require('./a').b", "new URL('x')"]
)
def test_a_value_that_is_computed_is_known_as_such(value: str) -> None:
    read = read_exported(f"export default {{ a: {value}, b: 1 }}")
    assert read == {"a": COMPUTED, "b": 1}


def test_a_method_is_computed() -> None:
    assert read_exported("export default { async a(x) { return {b: 1} }, c: 1 }") == {"a": COMPUTED, "c": 1}


@pytest.mark.parametrize("text", [None, "", "export default require('./other')", "const a = {b: 1}"])
def test_a_module_without_a_written_object_has_none(text: str | None) -> None:
    assert read_exported(text) is None


def test_a_named_export_is_read() -> None:
    assert read_constant("export const config = { dir: { input: 'src' } };\nexport default f", "config") == {
        "dir": {"input": "src"}
    }


@pytest.mark.parametrize(
    "text",
    [
        "export default " + "{a:" * 10_000,
        "export default " + "[" * 10_000,
        "export default " + "(" * 10_000,
        "export default f" + "(f" * 10_000,
        "export default " + "-" * 10_000,
        "function f" * 10_000,
        "return " * 10_000,
        "`" * 10_001,
        "/" * 10_000,
        "'" + "\\" * 10_000,
        "export default {" + "a:[b]," * 5_000,
        "const a = b; const b = a; export default a",
        "".join(f"const a{n} = [a{n + 1}, a{n + 1}];" for n in range(60)) + "export default {x: a0}",
    ],
)
def test_a_hostile_file_ends_without_recursion_errors_and_in_bounds(text: str) -> None:
    read = read_exported(text)
    assert read is None or isinstance(read, dict)
