"""The counts of faults find each fault where it was planted, and nothing in a document without faults."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aidre.engine.model import Chunk, Document
from benchmarks.ingest.faults import CHUNK_FAULTS, LOST, TITLE_FAULTS, Faults, ReadDocument, count_faults
from benchmarks.ingest.markup import Markup, Table, read_html_markup, read_markdown_markup

PROSE = "The first sentence of it ends here. The second one stands below it, and ends here."
CODE = "def first():\n    return 1\n\ndef second():\n    return 2"
ROWS = Table((("name", "meaning of it"), ("start", "the first number"), ("stop", "the number behind")))
TABLE = "name\tmeaning of it\nstart\tthe first number\nstop\tthe number behind"


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def read(
    *texts: str, gap: str = "\n\n", title: str | None = "A title", section: str | None = None, **more: object
) -> ReadDocument:
    """A document of these chunks."""
    origin = str(more.pop("origin", "page.html"))
    chunks, at = [], 0
    for number, text in enumerate(texts, 1):
        chunks.append(Chunk(f"d#chunk_{number}", number, text, at, at + len(text), section))
        at += len(text) + len(gap)
    document = Document("d", gap.join(texts), title, origin=origin)
    return ReadDocument(document, tuple(chunks), Markup(**more))  # type: ignore[arg-type]


def faults(*documents: ReadDocument) -> dict[str, int]:
    """The faults that were found, with their numbers."""
    return {fault: number for fault, number in count_faults(documents, words).counts.items() if number}


CLEAN = [
    read(PROSE, PROSE),
    read(PROSE, CODE, TABLE, code=(CODE,), tables=(ROWS,)),
    read("Steps\n\nNext to the lock stands the key.", links=("Steps", "Next")),
    read("Shares of them:\nplum 3\nbanana 12\nquince 7\napple 5\nfig 9\ncherry 1"),
    read("# Title\n\nSee `{#code}` and a set {a, b}.", origin="page.md"),
    read("```md\n## Title {#title}\n:::tip\n```", origin="page.md", code=("## Title {#title}\n:::tip",)),
    read("one item,", "another item", gap="\n", origin="page.html"),
    read("warning stops a program.", section="Conditions > warning"),
    read(PROSE, title="page-title", origin="page.html"),
]


@pytest.mark.parametrize("document", CLEAN)
def test_a_document_without_faults_has_none(document: ReadDocument) -> None:
    assert faults(document) == {}


PLANTED: dict[str, list[tuple[ReadDocument, ...]]] = {
    "anchors": [
        (read(PROSE, "## Steps { #steps }\n\nwords", origin="page.md"),),
        (read(PROSE, "Steps {#steps .wide}\n===", origin="page.md"),),
        (read(PROSE, section="Title {#title} > Steps"),),
    ],
    "directives": [
        (read(PROSE, ":::tip\nUse it.", origin="page.md"),),
        (read(PROSE, "/// note | Details\n\nUse it.", origin="page.md"),),
        (read(PROSE, "Use it.\n\n{* ../../docs_src/a.py hl[1] *}", origin="page.md"),),
        (read(PROSE, "{{#include ../a.rs}}", origin="page.md"),),
        (read(PROSE, "<!-- a comment -->", origin="page.md"),),
        (read(PROSE, '## run() <sup class="badge" />', origin="page.md"),),
        (read(PROSE, "<VueSchoolLink href='x' />", origin="page.md"),),
    ],
    "pilcrows": [(read(PROSE, "Steps¶\n\nwords"),), (read(PROSE, section="Steps¶"),)],
    "navigation": [
        (read(PROSE, "上一页8.4. 用户\n下一页8.6. 环境", links=("上一页8.4. 用户", "下一页8.6. 环境")),),
        (read(PROSE, "Prev\tUp\tNext", links=("Prev", "Up", "Next")),),
        (read(PROSE, "Next: Installing R, Up: Top [Contents]", links=("Installing R", "Top", "Contents")),),
        tuple(read(f"{number} {PROSE}", "Report a bug", origin=f"{number}.html") for number in range(3)),
    ],
    "admonitions": [(read(PROSE, section="Locks > Note"),), (read(PROSE, section="锁 > 注意"),)],
    "contents": [
        (read(PROSE, "1 Objects . . . . . . . . . . . . 12 2 Types . . . . . . 14"),),
        (read(PROSE, "1 Objects ............. 12"),),
        (read(PROSE, "apply, 3\narray, 12\nbinding, 7, 9\nclosure, 5\ndefault, 9\nformals, 1"),),
        (read(PROSE, "Objects 3\nBasic types 5\nEvaluation 9\nFunctions 14\nObjects again 21\nIndex 30"),),
    ],
    "tables": [
        (read("name\tmeaning of it\nstart\tthe first", "number\nstop\tthe number behind", gap=" ", tables=(ROWS,)),),
        (read("name\tmeaning of it\nstart\tthe first number", "stop\tthe number behind", gap="\n", tables=(ROWS,)),),
        (read(PROSE, TABLE.replace("start\t", "start\n\n"), tables=(ROWS,)),),
    ],
    "code": [
        (read("def first():\n    return 1", "def second():\n    return 2", code=(CODE,)),),
        (
            read(
                "x = 1\n" * 200 + "def first(): return",
                "one of them\n" + "y = 2\n" * 200,
                gap=" ",
                code=("x = 1\n" * 200 + "def first(): return one of them\n" + "y = 2\n" * 200,),
            ),
        ),
    ],
    "sentences": [
        (read("The first sentence goes on", "in the next chunk and ends.", gap=" "),),
        (read("The first sentence of a page that goes on", "in the next chunk, and ends.", origin="page.pdf"),),
        (read("A line that was wrapped", "in a sentence of it.", gap="\n", origin="page.md"),),
    ],
    "stems": [(read(PROSE, title="page"),), (read(PROSE, title=None),), (read(PROSE, title=" "),)],
    "tails": [tuple(read(f"{number} {PROSE}", title=f"Part {number} — A site") for number in range(4))],
    "lost": [(read(PROSE, paragraphs=(PROSE, "A paragraph of the file that was left out")),)],
}


@pytest.mark.parametrize(
    ("fault", "documents"), [(fault, documents) for fault, cases in PLANTED.items() for documents in cases]
)
def test_each_fault_is_found_where_it_was_planted_and_no_other(fault: str, documents: tuple[ReadDocument, ...]) -> None:
    found = faults(*documents)
    assert found.keys() == {fault}
    assert found[fault] == len(documents)


def test_every_fault_has_been_planted() -> None:
    assert PLANTED.keys() == {*CHUNK_FAULTS, *TITLE_FAULTS, *LOST}


def test_a_sentence_that_no_chunk_can_hold_may_be_cut() -> None:
    assert faults(read("a long one " * 60, "that goes on " * 60 + ".", gap=" ")) == {}


def test_documents_without_text_do_not_count() -> None:
    assert count_faults([read(title=None), read(PROSE)], words) == count_faults([read(PROSE)], words)


def test_shares_are_of_chunks_titles_and_paragraphs() -> None:
    found = Faults(200, 10, {"anchors": 1, "stems": 1, "lost": 1}, {}, 50)
    assert [found.share(fault) for fault in ("anchors", "stems", "lost")] == [0.005, 0.1, 0.02]
    assert Faults(0, 0, {"anchors": 0}, {}).share("anchors") == 0


def test_html_says_what_is_code_a_table_a_link_and_a_paragraph() -> None:
    found = read_html_markup(
        "<head><title>x</title></head><p>One two three four five six seven <b>eight</b> words.<p>Few words.</p>"
        '<p><a href="x">a link of many words is not a paragraph of text</a></p><pre>a\n b</pre>'
        '<table><tr><th>n<th>m<tr><td><p>1</p><td>2</table><a rel="next" href="b">Next</a><a href="c">Other</a>'
        "<script>p</script>"
    )
    assert found.code == ("a\n b",)
    assert found.tables == (Table((("n", "m"), ("1", "2"))),)
    assert found.links == ("Next",)
    assert found.paragraphs == ("One two three four five six seven eight words.",)


def test_a_table_inside_of_a_table_is_layout() -> None:
    inner = "<table><tr><td>1<td>2<tr><td>3<td>4</table>"
    assert [len(table.rows) for table in read_html_markup(f"<table><tr><td>{inner}<td>x</table>").tables] == []
    assert [len(table.rows) for table in read_html_markup(inner).tables] == [2]


def test_markdown_says_what_is_code_a_table_and_a_paragraph() -> None:
    found = read_markdown_markup(
        "Eight words stand on this line of text here.\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        "This line has eight words but [a link](x) in it.\n\n~~~\n```\n~~~\n"
    )
    assert found.code == ("x = 1", "```")
    assert [tuple(cell.strip() for cell in row) for row in found.tables[0].rows] == [
        ("a", "b"),
        ("---", "---"),
        ("1", "2"),
    ]
    assert found.paragraphs == ("Eight words stand on this line of text here.",)
