"""The request for parsers that open a large file themselves, in the sandbox's child."""

from __future__ import annotations

import os

from aidre.ingest.records import File, open_file


def encode_paths(file: File) -> bytes:
    """The folder that the file must be in, or nothing, a null byte, and the file; raises OSError.

    The file is opened here first, since the child's errors say less about the cause.
    """
    with open_file(file):
        paths = ("" if file.within is None else file.within.absolute(), file.path.absolute())
        return b"\0".join(map(os.fsencode, paths))
