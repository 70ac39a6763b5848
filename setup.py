"""Builds the C kernel, where there is a compiler and Python's headers; all else is in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
LINKS = ("engine", "ingest", "api")
"""In a checkout these are links in `aidre/` to the folders beside it, in a source archive folders."""

for _name in LINKS:
    if not (ROOT / "aidre" / _name).is_dir():
        raise SystemExit(
            f"aidre/{_name} is not a folder, so the package would lack it: this tree was copied or unpacked without "
            f"its links. Clone the repository, or make the link: ln -sfn ../{_name} aidre/{_name}"
        )

NATIVE = ROOT / "aidre" / "engine" / "native"
SOURCES = sorted(str(path.relative_to(ROOT)) for path in NATIVE.glob("*.c"))
HEADERS = sorted(str(path.relative_to(ROOT)) for path in NATIVE.glob("*.h"))


class BuildKernel(build_ext):
    """A build that goes on without the kernel, and says so in one line."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as problem:  # a missing compiler raises one of many kinds
            reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            message = f"aidre: the C kernel was not built ({reason}): searches use FAISS and numpy, slower"
            sys.stderr.write(message + "\n")


setup(
    ext_modules=[
        Extension(
            "aidre.engine.native.kernel",
            SOURCES,
            depends=HEADERS,
            extra_compile_args=["-std=c11", "-O3"],
            py_limited_api=True,
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildKernel},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
