"""The sandbox: a child that reads for its parent, and what becomes of the documents that break it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest import sandbox as module
from aidre.ingest.extracted import extracted
from aidre.ingest.found import File
from aidre.ingest.sandbox import Limits, Sandbox

PROGRAM = (str(Path(__file__).with_name("hostile_parsers.py")),)
LIMITS = Limits(seconds=60, memory=1 << 30, answer=1 << 20)
HASTY = Limits(seconds=1)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(LIMITS, PROGRAM) as each:
        yield each


def pid(sandbox: Sandbox) -> int:
    number = sandbox.parse("echo", b"")["pid"]
    assert isinstance(number, int)
    return number


def is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def reason(sandbox: Sandbox, kind: str, content: bytes = b"x", **options: Any) -> str:
    with pytest.raises(InvalidDocument) as caught:
        sandbox.parse(kind, content, options)
    return caught.value.message


def test_one_child_reads_many_documents_and_is_another_process(sandbox: Sandbox) -> None:
    answer = sandbox.parse("echo", "é€😀".encode(), {"a": [1, None]})
    assert answer == {"text": "é€😀", "options": {"a": [1, None]}, "pid": answer["pid"]}
    assert answer["pid"] != os.getpid()
    assert {pid(sandbox) for _ in range(5)} == {answer["pid"]}


def test_documents_and_answers_may_be_larger_than_a_pipe() -> None:
    with Sandbox(Limits(answer=9 << 20), PROGRAM) as sandbox:
        text = "0123456789abcdef" * (1 << 19)
        assert sandbox.parse("echo", text.encode())["text"] == text


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("refuse", "is not ? what it says"),
        ("stumble", "cannot be read: KeyError: 'member'"),
        ("crash", "cannot be read: the parser crashed (SIGSEGV)"),
        ("abort", "cannot be read: the parser crashed (SIGABRT), perhaps for want of memory"),
        ("leave", "cannot be read: the parser ended early (status 7)"),
        ("eat", "needs more than 1024 MiB of memory to read"),
        ("recur", "is nested too deep to read"),
        ("flood", "gives more than 1 MiB of text: split it"),
        ("surrogate", "cannot be read: TypeError: str is not valid UTF-8: surrogates not allowed"),
        ("scribble", "cannot be read: the parser gave no answer that makes sense"),
        ("nothing of that name", "cannot be read: KeyError: 'nothing of that name'"),
    ],
)
def test_a_document_that_breaks_its_parser_is_invalid_and_the_next_one_is_read(
    sandbox: Sandbox, kind: str, said: str
) -> None:
    assert pid(sandbox)
    assert reason(sandbox, kind) == said
    assert sandbox.parse("echo", b"next")["text"] == "next"


def test_what_only_the_document_is_to_blame_for_does_not_cost_the_child(sandbox: Sandbox) -> None:
    first = pid(sandbox)
    for kind in ("refuse", "stumble", "flood"):
        assert reason(sandbox, kind)
    assert pid(sandbox) == first


@pytest.mark.parametrize("kind", ["spin", "sleep"])
def test_a_document_that_takes_too_long_is_invalid_and_its_child_gone(kind: str) -> None:
    with Sandbox(HASTY, PROGRAM) as sandbox:
        first = pid(sandbox)
        assert reason(sandbox, kind) == "took longer than 1 s to read"
        assert not is_alive(first)
        assert sandbox.parse("echo", b"next")["text"] == "next"


@pytest.mark.parametrize("kind", ["eat", "recur", "scribble"])
def test_a_child_that_failed_is_gone_and_no_zombie(sandbox: Sandbox, kind: str) -> None:
    first = pid(sandbox)
    assert reason(sandbox, kind)
    assert not is_alive(first)


def test_a_child_that_died_between_two_documents_costs_none(sandbox: Sandbox) -> None:
    first = pid(sandbox)
    os.kill(first, signal.SIGKILL)
    while sandbox._child is not None and sandbox._child.is_usable():
        time.sleep(0.01)
    assert pid(sandbox) != first


def test_the_child_is_replaced_after_some_documents() -> None:
    with Sandbox(Limits(documents=3), PROGRAM) as sandbox:
        pids = [pid(sandbox) for _ in range(7)]
    assert pids[0] == pids[2] != pids[3] == pids[5] != pids[6]
    assert not any(map(is_alive, pids))


def test_the_child_is_replaced_when_it_keeps_much_memory() -> None:
    with Sandbox(Limits(held=100), PROGRAM) as sandbox:
        first = pid(sandbox)
        assert sandbox.parse("hold", b"") == first
        assert pid(sandbox) != first


def test_after_close_nothing_is_left_and_a_further_document_starts_anew(sandbox: Sandbox) -> None:
    first = pid(sandbox)
    sandbox.close()
    sandbox.close()
    assert not is_alive(first)
    assert pid(sandbox) != first


def test_what_a_library_prints_goes_nowhere(sandbox: Sandbox, capfd: pytest.CaptureFixture[str]) -> None:
    assert sandbox.parse("talk", b"") == ""
    assert sandbox.parse("echo", b"next")["text"] == "next"
    assert capfd.readouterr() == ("", "")


def test_the_child_has_no_secrets_and_little_it_could_use(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIDRE_SECRET", "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    with (tmp_path / "open").open("wb") as file:
        os.set_inheritable(file.fileno(), True)
        found = sandbox.parse("surroundings", b"")
    assert "AIDRE_SECRET" not in found["environment"]
    assert found["environment"]["LANG"] == "C.UTF-8"
    assert found["limits"] == {
        "RLIMIT_AS": [1 << 30, 1 << 30],
        "RLIMIT_CORE": [0, 0],
        "RLIMIT_FSIZE": [0, 0],
        "RLIMIT_NOFILE": [16, 16],
        "RLIMIT_NPROC": [0, 0],
    }
    assert 60 <= found["processor"] <= 70
    assert found["session"]
    assert found["files"] <= 6
    assert reason(sandbox, "write", path=str(tmp_path / "new")).endswith(os.strerror(errno.EFBIG))
    assert "Too many open files" in reason(sandbox, "listen")


def test_threads_get_each_its_own_answer(sandbox: Sandbox) -> None:
    texts = [f"document {number}" for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda text: sandbox.parse("echo", text.encode()), texts))
    assert [answer["text"] for answer in answers] == texts
    assert len({answer["pid"] for answer in answers}) == 1


def test_an_interrupt_leaves_no_answer_behind_for_the_next_document() -> None:
    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    with Sandbox(Limits(seconds=60), PROGRAM) as sandbox:
        first = pid(sandbox)
        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with pytest.raises(KeyboardInterrupt):
                sandbox.parse("sleep", b"")
        finally:
            signal.signal(signal.SIGALRM, before)
        assert not is_alive(first)
        assert sandbox.parse("echo", b"next")["text"] == "next"


@pytest.mark.parametrize("kind", ["sleep", "spin"])
def test_a_child_ends_when_its_parent_is_killed(kind: str) -> None:
    script = f"""
        from aidre.ingest.sandbox import Limits, Sandbox
        sandbox = Sandbox(Limits(seconds=60), {PROGRAM!r})
        print(sandbox.parse("echo", b"")["pid"], flush=True)
        sandbox.parse({kind!r}, b"")
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.kill()
    for _ in range(500):
        if not is_alive(child):
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child outlived its parent")


def test_a_program_that_ends_without_closing_leaves_no_child() -> None:
    script = f"""
        from aidre.ingest.sandbox import Sandbox
        print(Sandbox(program={PROGRAM!r}).parse("echo", b"")["pid"])
    """
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(script)], capture_output=True, check=True
    )
    assert not is_alive(int(done.stdout))
    assert done.stderr == b""


def test_a_process_that_was_forked_off_starts_a_child_of_its_own(sandbox: Sandbox) -> None:
    script = f"""
        import os
        from aidre.ingest.sandbox import Sandbox
        with Sandbox(program={PROGRAM!r}) as sandbox:
            first = sandbox.parse("echo", b"")["pid"]
            forked = os.fork()
            if forked == 0:
                assert sandbox.parse("echo", b"")["pid"] != first
                sandbox.close()
                os._exit(0)
            assert os.waitpid(forked, 0)[1] == 0
            assert sandbox.parse("echo", b"")["pid"] == first
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_program_that_does_not_start_is_told() -> None:
    with Sandbox(LIMITS, ["-c", "raise SystemExit(3)"]) as sandbox:
        assert reason(sandbox, "pdf", b"x" * (1 << 20)) == "cannot be read: the parser ended early (status 3)"


def test_a_program_that_never_listens_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.2)
    with Sandbox(LIMITS, ["-c", "import time; time.sleep(600)"]) as sandbox:
        assert reason(sandbox, "pdf", b"x" * (1 << 20)) == "cannot be read: no parser started"


GOOD = {
    "text": "Title\n\nText",
    "title": "Title",
    "url": "https://x.org/a",
    "updated_at": "2026-04-01T10:00:00+02:00",
    "language": "de",
    "headings": [[0, 1, "Title"]],
    "metadata": {"author": "A"},
}


def test_an_answer_becomes_a_document() -> None:
    document = extracted(GOOD).document(File(Path("a/b.pdf"), "docs", "a/b.pdf", "https://base/a/b.pdf"))
    assert (document.id, document.title, document.url) == ("docs/a/b.pdf", "Title", "https://x.org/a")
    assert (document.updated_at, document.metadata) == ("2026-04-01T08:00:00Z", {"language": "de", "author": "A"})
    assert (document.text, document.headings[0].title) == ("Title\n\nText", "Title")


def test_what_an_answer_leaves_out_comes_from_the_file() -> None:
    document = extracted({"text": "x"}).document(File(Path("a/b.pdf"), "docs", "a/b.pdf", "https://base/a/b.pdf"))
    assert (document.title, document.url, document.metadata) == ("b", "https://base/a/b.pdf", {})
    assert document.updated_at is None


def test_a_date_in_another_notation_is_not_taken() -> None:
    assert extracted(GOOD | {"updated_at": "2026-13-45T99:00:00Z"}).updated_at is None


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "text",
        {},
        {"text": None},
        GOOD | {"title": 1},
        GOOD | {"url": ["x"]},
        GOOD | {"metadata": []},
        GOOD | {"objects": ["x"]},
        GOOD | {"objects": {}},
        GOOD | {"headings": {}},
        GOOD | {"headings": ["x"]},
        GOOD | {"headings": [[0, 1]]},
        GOOD | {"headings": [[0, True, "x"]]},
        GOOD | {"headings": [[-1, 1, "x"]]},
        GOOD | {"headings": [[12, 1, "x"]]},
        GOOD | {"headings": [[0, 1 << 40, "x"]]},
        GOOD | {"headings": [[5, 1, "x"], [4, 1, "y"]]},
    ],
)
def test_an_answer_of_another_shape_is_refused(answer: Any) -> None:
    with pytest.raises(InvalidDocument, match="no sense"):
        extracted(answer)


@pytest.mark.parametrize("parser", ["page", "pdf", "docx"])
def test_a_parser_in_the_child_brings_neither_arrow_nor_faiss(parser: str) -> None:
    """They take more room than the child has."""
    program = f"import sys, aidre.ingest.{parser}; print({{'pyarrow', 'faiss'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
