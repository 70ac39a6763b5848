"""Source code by definitions: each is a heading above its lines, comments and decorators."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.markup.code import parse
from aidre.ingest.sources.folder import FileSource, read_source
from tests.support.folders import RULES, documents, write
from tests.support.rows import documents as documents_of


def outline(code: str, suffix: str) -> list[tuple[int, str, str]]:
    """Level and name of each definition, and the line that it begins with."""
    found = parse(code.encode(), {"suffix": suffix})
    assert found["text"] == code
    return [(level, name, code[start:].split("\n", maxsplit=1)[0]) for start, level, name in found["headings"]]


def test_python_is_parsed() -> None:
    code = (
        '"""Doc."""\nimport os\n\n# why\n@deco(\n    1\n)\ndef f(a: int,\n      b=2):\n    """Does it."""\n'
        "    def inner(): pass\n\nclass C:\n    x = '''\ndef no(): pass\n'''\n\n    async def m(self):\n        pass\n"
    )
    assert outline(code, ".py") == [(2, "f", "# why"), (2, "C", "class C:"), (3, "C.m", "    async def m(self):")]


@pytest.mark.parametrize(
    ("suffix", "code", "names"),
    [
        (".py", "def broken(:\n  pass\nclass C:\n  def m(self):\n", ["broken", "C", "C.m"]),
        (".js", "/** Doc. */\nexport function f(a) {\n}\nclass C {\n  m(x) {\n    if (x) {\n    }\n  }\n}\n"
         "const g = () => 1\n", ["f", "C", "C.m", "g"]),
        (".ts", "export interface I {\n}\nexport default async function f<T>(a: T): Promise<T> {\n}\n", ["I", "f"]),
        (".go", "// Doc.\nfunc (s *Server) Run(a int) error {\n}\ntype T struct {\n}\n", ["Run", "T"]),
        (".rs", "pub(crate) fn f() {\n}\nimpl<T> S {\n    pub fn m(&self) {}\n}\n", ["f", "S", "S.m"]),
        (".java", "public class A {\n    @Override\n    public static int f(int a) {\n        return g(a);\n    }\n}\n",
         ["A", "A.f"]),
        (".c", "static int f(int a)\n{\n}\nint main(void) {\n  while (1) {\n  }\n}\n", ["main"]),
        (".rb", "module M\n  class C\n    def self.f\n    end\n  end\nend\n", ["M", "M.C", "M.C.f"]),
        (".sql", "select 1;\n", []),
    ],
)  # fmt: skip
def test_other_languages_by_the_words_of_lines(suffix: str, code: str, names: list[str]) -> None:
    assert [name for _, name, _ in outline(code, suffix)] == names


def test_comments_and_decorators_stand_above_their_definition() -> None:
    code = "fn a() {\n}\n\n/// Doc.\n#[test]\nfn b() {\n}\n"
    assert [line for _, _, line in outline(code, ".rs")] == ["fn a() {", "/// Doc."]


@pytest.mark.parametrize("code", ["x=1;" * 10_000, "a" * ((4 << 20) + 1)])
def test_code_of_programs_is_refused(code: str) -> None:
    with pytest.raises(InvalidDocument):
        parse(code.encode(), {"suffix": ".js"})


def test_it_is_read_in_folders_where_it_is_asked_for_and_by_name_in_any_case(tmp_path: Path) -> None:
    root = tmp_path / "src"
    write(root / "a.py", "def f():\n    pass\n")
    write(root / "b.md", "text")
    notes: list[str] = []
    found = documents_of(list(read_source(FileSource("src", root), RULES, notes.append)))
    assert [each.origin for each in found] == ["b.md"]
    assert notes == ["src: 1 file of other kinds skipped (.py 1: --code)"]
    found = documents_of(list(read_source(FileSource("src", root, code=True), RULES, notes.append)))
    assert [each.origin for each in found] == ["a.py", "b.md"]
    assert found[0].metadata == {"programming_language": "Python"}
    assert [each.title for each in documents(root / "a.py")] == ["a"]
