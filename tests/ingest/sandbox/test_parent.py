"""The sandbox: a child that reads for its parent, and what becomes of the documents that break it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.sandbox import parent as module
from aidre.ingest.sandbox.parent import Sandbox, SandboxLimits
from tests.ingest.sandbox.sandboxes import LIMITS, PROGRAM, is_alive, pid, reason
from tests.support.clocks import Clock, until


def test_one_child_reads_many_documents_and_is_another_process(sandbox: Sandbox) -> None:
    answer = sandbox.parse("echo", "é€😀".encode(), {"a": [1, None]})
    assert answer == {"text": "é€😀", "options": {"a": [1, None]}, "pid": answer["pid"]}
    assert answer["pid"] != os.getpid()
    assert {pid(sandbox) for _ in range(5)} == {answer["pid"]}


def test_documents_and_answers_may_be_larger_than_a_pipe() -> None:
    with Sandbox(SandboxLimits(answer=9 << 20), PROGRAM) as sandbox:
        text = "0123456789abcdef" * (1 << 19)
        assert sandbox.parse("echo", text.encode())["text"] == text


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("refuse", "is not ? what it says"),
        ("stumble", "cannot be read: KeyError: 'member'"),
        ("crash", "cannot be read: the parser crashed (SIGSEGV)"),
        ("abort", "cannot be read: the parser crashed (SIGABRT), perhaps for lack of memory"),
        ("leave", "cannot be read: the parser ended early (status 7)"),
        ("eat", "needs more than 1024 MiB of memory to read"),
        ("recur", "is nested too deep to read"),
        ("flood", "gives more than 1 MiB of text: split it"),
        ("surrogate", "cannot be read: TypeError: str is not valid UTF-8: surrogates not allowed"),
        ("scribble", "cannot be read: the parser gave an invalid answer"),
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["spin", "sleep"])
def test_a_document_that_takes_too_long_is_invalid_and_its_child_gone(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    first = pid(sandbox)
    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "limits", replace(LIMITS, seconds=0.2))
        assert reason(sandbox, kind) == "took longer than 0.2 s to read: split it, or raise sources.parse_timeout"
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
    until(lambda: sandbox._child is None or not sandbox._child.is_usable())
    assert pid(sandbox) != first


def test_the_child_is_replaced_after_some_documents() -> None:
    with Sandbox(SandboxLimits(documents=3), PROGRAM) as sandbox:
        pids = [pid(sandbox) for _ in range(7)]
    assert pids[0] == pids[2] != pids[3] == pids[5] != pids[6]
    assert not any(map(is_alive, pids))


@pytest.mark.slow
def test_the_child_is_replaced_when_it_keeps_much_memory() -> None:
    with Sandbox(SandboxLimits(held=100), PROGRAM) as sandbox:
        first = pid(sandbox)
        assert sandbox.parse("hold", b"") == first
        assert pid(sandbox) != first


def test_after_close_nothing_is_left_and_a_further_document_starts_anew(sandbox: Sandbox) -> None:
    first = pid(sandbox)
    sandbox.close()
    sandbox.close()
    assert not is_alive(first)
    assert pid(sandbox) != first


def test_threads_get_each_its_own_answer(sandbox: Sandbox) -> None:
    texts = [f"document {number}" for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda text: sandbox.parse("echo", text.encode()), texts))
    assert [answer["text"] for answer in answers] == texts
    assert len({answer["pid"] for answer in answers}) == 1


def test_an_interrupt_leaves_no_answer_behind_for_the_next_document(sandbox: Sandbox) -> None:
    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    first = pid(sandbox)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            sandbox.parse("sleep", b"")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not is_alive(first)
    assert sandbox.parse("echo", b"next")["text"] == "next"


@pytest.mark.process
@pytest.mark.parametrize("kind", ["sleep", "spin"])
def test_a_child_ends_when_its_parent_is_killed(kind: str) -> None:
    script = f"""
        from aidre.ingest.sandbox.parent import Sandbox, SandboxLimits
        sandbox = Sandbox(SandboxLimits(seconds=60), {PROGRAM!r})
        print(sandbox.parse("echo", b"")["pid"], flush=True)
        sandbox.parse({kind!r}, b"")
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.kill()
    try:
        until(lambda: not is_alive(child))
    finally:
        if is_alive(child):
            os.kill(child, signal.SIGKILL)


@pytest.mark.process
def test_a_program_that_ends_without_closing_leaves_no_child() -> None:
    script = f"""
        from aidre.ingest.sandbox.parent import Sandbox
        print(Sandbox(program={PROGRAM!r}).parse("echo", b"")["pid"])
    """
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(script)], capture_output=True, check=True
    )
    assert not is_alive(int(done.stdout))
    assert done.stderr == b""


@pytest.mark.process
def test_a_process_that_was_forked_off_starts_a_child_of_its_own() -> None:
    script = f"""
        import os
        from aidre.ingest.sandbox.parent import Sandbox
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


# -- streams -------------------------------------------------------------------------------------------------------


def numbers(sandbox: Sandbox, parts: int, **options: Any) -> Iterator[tuple[int, int]]:
    """The numbers of the parts as they come, each with the process that sent it."""
    for part in sandbox.stream("count", b"", {"parts": parts, **options}):
        number, sender = bytes(part).split()
        yield int(number), int(sender)


def test_a_stream_comes_part_by_part_from_the_child_that_stays(sandbox: Sandbox) -> None:
    first = pid(sandbox)
    assert list(numbers(sandbox, 1000)) == [(number, first) for number in range(1000)]
    assert list(numbers(sandbox, 0)) == []
    assert pid(sandbox) == first


@pytest.mark.parametrize(
    ("then", "said", "lacks_memory"),
    [
        ("refuse", "is not ? what it says", False),
        ("crash", "cannot be read: the parser crashed (SIGSEGV)", False),
        ("abort", "cannot be read: the parser crashed (SIGABRT), perhaps for lack of memory", True),
        ("eat", "needs more than 1024 MiB of memory to read", True),
        ("recur", "is nested too deep to read", False),
        ("part", "cannot be read: a part of it has more than 1 MiB", False),
        ("scribble", "cannot be read: the parser gave an invalid answer", False),
    ],
)
def test_what_breaks_in_a_stream_costs_what_follows_and_not_what_came_before(
    sandbox: Sandbox, then: str, said: str, lacks_memory: bool
) -> None:
    stream, found = numbers(sandbox, 5, at=3, then=then, size=(1 << 20) + 1), []
    with pytest.raises(InvalidDocument) as caught:
        for number, _ in stream:
            found.append(number)
    assert found == [0, 1, 2]
    assert caught.value.message == said
    assert caught.value.details.get("memory", False) == lacks_memory
    assert [number for number, _ in numbers(sandbox, 2)] == [0, 1]


@pytest.mark.parametrize("kind", ["spin", "sleep"])
def test_each_part_of_a_stream_has_its_time_and_the_consumer_any(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr(module, "monotonic", clock)
    stream = numbers(sandbox, 2000, at=1900, then=kind, padding=1024)  # more than a pipe holds
    for number in range(1900):
        clock.now += 1000.0  # the consumer takes its time before it asks for the next part
        found, child = next(stream)
        assert found == number
    monkeypatch.setattr(module, "monotonic", chain([clock.now], repeat(clock.now + 61.0)).__next__)
    with pytest.raises(InvalidDocument, match="took longer than 60 s to read"):
        next(stream)
    assert not is_alive(child)


def test_a_stream_that_is_let_go_ends_its_child(sandbox: Sandbox) -> None:
    stream = numbers(sandbox, 1 << 40)
    _, child = next(stream)
    del stream
    assert not is_alive(child)
    assert pid(sandbox) != child


def test_two_streams_at_once_come_from_two_children_one_of_which_stays(sandbox: Sandbox) -> None:
    pairs = list(zip(numbers(sandbox, 50), numbers(sandbox, 50), strict=True))
    assert [(one[0], other[0]) for one, other in pairs] == [(number, number) for number in range(50)]
    children = {pairs[0][0][1], pairs[0][1][1]}
    assert len(children) == 2
    assert pid(sandbox) in children
    assert sum(map(is_alive, children)) == 1


def test_close_ends_a_stream_that_is_under_way(sandbox: Sandbox) -> None:
    stream = numbers(sandbox, 1 << 40)
    _, child = next(stream)
    sandbox.close()
    assert not is_alive(child)
    with pytest.raises(InvalidDocument, match="cannot be read"):
        list(stream)
    assert pid(sandbox) != child


def test_a_program_that_does_not_start_is_told() -> None:
    with Sandbox(LIMITS, ["-c", "raise SystemExit(3)"]) as sandbox:
        assert reason(sandbox, "pdf", b"x" * (1 << 20)) == "cannot be read: the parser ended early (status 3)"


def test_a_program_that_never_listens_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.2)
    with Sandbox(LIMITS, ["-c", "import time; time.sleep(600)"]) as sandbox:
        assert reason(sandbox, "pdf", b"x" * (1 << 20)) == "cannot be read: no parser started"
