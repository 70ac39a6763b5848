"""Reads tensors of a safetensors file with numpy alone: a JSON header, then the raw little-endian values.

The format is https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import ModelUnavailable

Tensors: TypeAlias = Mapping[str, NDArray[np.float32]]

HEADER_BYTES = 8
"""The length of the header, a little-endian unsigned integer, at the start of the file."""


def read_tensors(path: Path) -> Tensors:
    """The float32 tensors of `path` by name, mapped read-only; raises ModelUnavailable if the file is damaged."""
    try:
        content = np.memmap(path, np.uint8, "r")
        values = HEADER_BYTES + int.from_bytes(content[:HEADER_BYTES].tobytes(), "little")
        header = json.loads(content[HEADER_BYTES:values].tobytes())
        return {
            name: content[values + entry["data_offsets"][0] : values + entry["data_offsets"][1]]
            .view("<f4")
            .reshape(entry["shape"])
            for name, entry in header.items()
            if entry.get("dtype") == "F32"
        }
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise ModelUnavailable(f"the weights in {path} are damaged: install the model again") from error
