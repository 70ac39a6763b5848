"""The kernel without Python, given random and mutated bytes under sanitizers: by libFuzzer where clang has it, else by
the driver's own generator, in two processes."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from tests.hostile.report import Report
from tests.support.compiler import SANITIZED, STRICT, compile_driver, compilers, sanitizes

FUZZED = (
    "-g",
    "-O1",
    "-DLIBFUZZER",
    "-fsanitize=fuzzer,address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
)
PROCESSES = 2


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """For `rounds` seconds."""
    folder = report.place("kernel-fuzz")
    fuzzer = next((one for one in compilers() if "clang" in one and _has_fuzzer(one, folder)), None)
    if fuzzer is not None:
        _fuzz(fuzzer, report, folder, rounds, chance.randrange(1 << 31))
        return
    compiler = next((one for one in compilers() if sanitizes(one, folder)), None)
    assert compiler is not None, "neither gcc nor clang with sanitizers is found"
    program = folder / "driver"
    compile_driver([compiler], program, *STRICT, *SANITIZED)
    running = []
    for number in range(PROCESSES):
        place = folder / str(number)
        place.mkdir()
        words = [str(program), str(rounds), str(chance.randrange(1 << 31))]
        running.append(subprocess.Popen(words, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    cases = 0
    for number, process in enumerate(running):
        said, complained = process.communicate()
        assert process.returncode == 0, f"{complained}\ncase: {(folder / str(number) / 'last-case').read_bytes().hex()}"
        cases += int(said.split()[0])
    report.figure("kernel-fuzz", f"{cases:,} random cases in {rounds:,} s with {Path(compiler).name}, findings 0")


def _has_fuzzer(compiler: str, folder: Path) -> bool:
    source = folder / "fuzzer.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdint.h>\nint LLVMFuzzerTestOneInput(const uint8_t *b, size_t n);\n"
        "int LLVMFuzzerTestOneInput(const uint8_t *b, size_t n) { (void)b; (void)n; return 0; }\n",
        encoding="ascii",
    )
    words = [compiler, *FUZZED, str(source), "-o", str(folder / "fuzzer")]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def _fuzz(compiler: str, report: Report, folder: Path, seconds: int, seed: int) -> None:
    program = folder / "driver"
    compile_driver([compiler], program, *STRICT, *FUZZED)
    words = [str(program), f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=512", "-print_final_stats=1"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-10_000:]
    [cases] = [line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line]
    report.figure("kernel-fuzz", f"{int(cases):,} cases in {seconds:,} s with libFuzzer, findings 0")
