"""Coverage-guided fuzzing of every parser (atheris, which is libFuzzer); without it, mutations of the same seeds.

A parser runs in a process of its own, in which all of aidre is instrumented while it is imported. The clock is that
of the processor, so that a pause, or a busy machine, takes nothing away. One execution may take a second.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

from tests import ROOT
from tests.hostile.parsing import Parser
from tests.hostile.report import Report

NAMES = (
    "filter", "cursor", "manifest", "signature", "jsonld", "token", "parameters", "fields", "page", "rows", "feed",
    "markup", "office", "archive", "images", "buffer", "store",
)  # fmt: skip
AT_ONCE = 2
MOST_SECONDS = 1.0
"""Of the processor, for one input."""
GIVEN_UP_SECONDS = 10
LONGEST = 4096
OTHERS = 0.2
"""Share of the inputs of a parser with a hand of its own that libFuzzer alters."""
GROWS_WITHIN = 60
"""Seconds after which coverage must have grown: where it has not, nothing was instrumented."""
SANITIZER = "detect_leaks=0:allocator_may_return_null=1:handle_segv=1"
STATUS = re.compile(r"^#(\d+)\s+(\w+).*? cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)
FAULT = re.compile(r"^==\d+==.*(?:ERROR|libFuzzer)", re.MULTILINE)
EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
SLOWEST = re.compile(r"^slowest (\d+\.\d+) s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """What one run did: executions, coverage (edges of aidre) by the seeds and at the end, inputs that were kept."""

    executed: int
    first: int
    last: int
    kept: int
    slowest: float


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """`rounds` seconds of the processor for each parser."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        seeds = {name: chance.getrandbits(31) for name in NAMES}
        for name, found in zip(NAMES, pool.map(lambda one: fuzz(report, one, rounds, seeds[one]), NAMES), strict=True):
            report.figure(f"fuzzing {name}", in_words(found, rounds, seeds[name]))


def in_words(found: Fuzzed, seconds: int, seed: int) -> str:
    return (
        f"{seconds} s of processor time, {found.executed:,} executions, coverage {found.first} -> {found.last} edges, "
        f"{found.kept} inputs kept, slowest {found.slowest * 1e3:.0f} ms, faults 0 (seed {seed})"
    )


def fuzz(report: Report, name: str, seconds: int, seed: int, *, runs: int = -1, kernel: Path | None = None) -> Fuzzed:
    """Fuzz one parser, with the sanitized kernel of a folder; AssertionError with the input where it has a fault."""
    folder = report.place(f"{name}-{seed}")
    log = folder / "log"
    command = [sys.executable, "-m", "tests.hostile.fuzzing", name, str(folder), str(seconds), str(seed), str(runs)]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    surroundings = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(folder)}
    if kernel is not None:
        import atheris

        surroundings |= {"LD_PRELOAD": f"{atheris.path()}/asan_with_fuzzer.so", "ASAN_OPTIONS": SANITIZER}
        command.append(str(kernel))
    with log.open("wb") as output:
        done = subprocess.run(
            command, cwd=folder, env=surroundings, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    text = log.read_text(errors="replace")
    assert done.returncode == 0, f"{name} (seed {seed}, status {done.returncode}): {_fault(text)}"
    found = _fuzzed(text)
    assert found.last > found.first or seconds < GROWS_WITHIN, f"{name}: coverage does not grow: {found}"
    report.say(f"{name}: {in_words(found, seconds, seed)}")
    return found


def _fault(text: str) -> str:
    """What a log says of a fault: its first lines, where the stack begins, and its last ones, where the input is."""
    found = FAULT.search(text)
    first = text[found.start() :][:6_000] if found else ""
    return f"{first}\n...\n{text[-2_000:]}"


def _fuzzed(text: str) -> Fuzzed:
    states = STATUS.findall(text)
    executed = EXECUTED.search(text)
    assert states and executed, f"nothing was executed: {text[-2_000:]}"
    first = next((int(state[2]) for state in states if state[1] == "INITED"), 0)
    slowest = [float(found) for found in SLOWEST.findall(text)]
    return Fuzzed(int(executed[1]), first, int(states[-1][2]), int(states[-1][4]), max(slowest, default=0.0))


# -- without atheris -----------------------------------------------------------------------------------------------


def mutate(report: Report, name: str, rounds: int, chance: random.Random) -> None:
    """The seeds of a parser, and mutations of them; AssertionError with the input where it has a fault."""
    from tests.hostile.parsers import PARSERS

    parser = PARSERS[name](report.place(name))
    corpus = [*parser.seeds]
    for number in range(rounds + len(corpus)):
        content = corpus[number] if number < len(parser.seeds) else _mutated(parser, chance.choice(corpus), chance)
        try:
            parser.parse(content)
        except Exception as error:
            raise AssertionError(f"{name}, round {number}: {content!r}: {type(error).__name__}: {error}") from error
        corpus.append(content) if chance.random() < 0.05 else None
    report.figure(f"mutations {name}", f"{rounds:,} inputs; faults 0")


def _mutated(parser: Parser, content: bytes, chance: random.Random) -> bytes:
    return parser.mutate(content, chance) if parser.mutate else mutated(content, parser.words, chance)


def mutated(content: bytes, words: Sequence[str], chance: random.Random) -> bytes:
    """The same with a few changes, each in one place."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(5):
            case 0 if changed:
                changed[at % len(changed)] = chance.randrange(256)
            case 1 if changed:
                changed[at % len(changed)] ^= 1 << chance.randrange(8)
            case 2:
                del changed[at : at + chance.randint(1, 8)]
            case 3 if words:
                changed[at:at] = chance.choice(words).encode()
            case _:
                changed[at:at] = chance.randbytes(chance.randint(1, 16))
    return bytes(changed[:LONGEST])


# -- in the process of a parser ------------------------------------------------------------------------------------


def _main(name: str, folder: Path, seconds: float, seed: str, runs: str, kernel: str = "") -> None:
    """Fuzz until so much of the processor was used, or so many inputs; whatever comes out of the parser ends the
    process."""
    import atheris

    with atheris.instrument_imports(include=["aidre"]):
        from aidre.engine import native

        if kernel:
            native.__path__.insert(0, kernel)
            from aidre.engine.native import kernel as loaded

            assert str(loaded.__file__).startswith(kernel), loaded
        from tests.hostile.parsers import PARSERS

        parser = PARSERS[name](Path(tempfile.mkdtemp(dir=folder)))
    corpus, words = folder / "corpus", folder / "words"
    corpus.mkdir()
    for number, content in enumerate(parser.seeds):
        (corpus / f"seed{number}").write_bytes(content)
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in parser.words if word))
    slowest = 0.0
    signal.signal(signal.SIGVTALRM, _gave_up)

    def one(content: bytes) -> None:
        nonlocal slowest
        signal.setitimer(signal.ITIMER_VIRTUAL, GIVEN_UP_SECONDS)
        began = time.thread_time()
        parser.parse(content)
        spent = time.thread_time() - began
        if spent > slowest:
            slowest = spent
            print(f"slowest {spent:.6f} s", flush=True)  # noqa: T201 - read by who started this
        assert spent <= MOST_SECONDS, f"took {spent:.2f} s of the processor"
        if time.process_time() - started > seconds:
            os.kill(os.getpid(), signal.SIGUSR1)  # libFuzzer ends in good order

    longest = max(LONGEST, *(len(content) + 1 for content in parser.seeds))
    flags = [f"-seed={seed}", f"-runs={runs}", f"-max_len={longest}", f"-artifact_prefix={folder}/"]
    flags += [f"-dict={words}"] * bool(words.stat().st_size)
    flags += [
        "-timeout=86400",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=1",
        "-use_value_profile=1",
        "-len_control=20",
    ]
    own = {} if parser.mutate is None else {"custom_mutator": partial(_altered, parser.mutate)}
    atheris.Setup([sys.argv[0], *flags, str(corpus)], one, **own)
    started = time.process_time()
    atheris.Fuzz()


def _altered(mutate: Callable[[bytes, random.Random], bytes], content: bytes, longest: int, seed: int) -> bytes:
    """By the parser's own hand, or at times by libFuzzer's."""
    import atheris

    chance = random.Random(seed)
    return atheris.Mutate(content, longest) if chance.random() < OTHERS else mutate(content, chance)


def _gave_up(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"no end after {GIVEN_UP_SECONDS} s of the processor")


def _escaped(word: str) -> str:
    return "".join(chr(byte) if 32 < byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word.encode())


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
