"""MDX: what is program goes, what is text stays, and code is not touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.ingest.formats.markup.mdx import is_mdx, strip_mdx
from tests.support.folders import documents, write


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("import A from './a'\nimport {\n  B,\n  C\n} from \"b\";\n\n# T\n", "\n# T\n"),
        ("import './style.css'\n\nText", "\nText"),
        ("export const a = {\n  b: 1,\n\n  c: 2\n}\n\nText", "\nText"),
        ("import taxes are high\n\nexport of goods\n", "import taxes are high\n\nexport of goods\n"),
        ("Text\nimport A from 'a'\n", "Text\nimport A from 'a'\n"),
        ("<Tabs items={['a', 'b']}>\nwords\n</Tabs>", "\nwords\n"),
        ('<TabItem value="x" label="Apple">\n\ntext\n</TabItem>', "Apple\n\ntext\n"),
        ('A <Chip title="new" {...props} /> thing', "A new thing"),
        ("Total {props.count} of {'ten'} {/* a\n comment */}end", "Total  of ten end"),
        ("<>\nwords\n</>", "\nwords\n"),
        ("<div style={{color: 'red'}}>red</div>", "red</div>"),
        ("a \\{b\\} and \\<c>", "a \\{b\\} and \\<c>"),
        ("`<A {b}>` and `{x}`", "`<A {b}>` and `{x}`"),
        ("```jsx\nimport A from 'a'\n<A b={1}/>\n```\n<B c={2}/>", "```jsx\nimport A from 'a'\n<A b={1}/>\n```\n"),
        ("$\\frac{a}{b}$ is {x}", "$\\frac{a}{b}$ is "),
        ("## Heading {#anchor}", "## Heading {#anchor}"),
        ("1 < 2 and {unclosed", "1 < 2 and {unclosed"),
    ],
)
def test_text_stays_and_program_goes(markup: str, expected: str) -> None:
    assert strip_mdx(markup) == expected


def test_a_file_of_that_name_is_read_so_and_one_of_markdown_that_begins_with_an_import(tmp_path: Path) -> None:
    page = "---\ntitle: T\nid: own\n---\nimport A from '@site/a'\n\nSome <A b={1}>words</A>.\n"
    for name in ("a.mdx", "b.md"):
        write(tmp_path / name / name, page)
        [found] = documents(tmp_path / name)
        assert (found.id, found.title, found.text.strip()) == ("own", "T", "Some words.")
    write(tmp_path / "c" / "c.md", "Some {braces} stay.\n")
    assert documents(tmp_path / "c")[0].text == "Some {braces} stay.\n"


def test_an_import_of_goods_is_none() -> None:
    assert not is_mdx("import duties are paid from 'home'\n", ".md")
    assert is_mdx("\nimport A from 'a';\n", ".md")
