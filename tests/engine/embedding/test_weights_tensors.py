"""Reading safetensors with numpy: the float32 tensors of a file, and one message for any damage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from aidre.engine.embedding.weights import read_tensors
from aidre.engine.errors import ModelUnavailable

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
COUNTS = np.arange(4, dtype=np.int64)


def written(path: Path, header: object, values: bytes) -> Path:
    encoded = json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + values)
    return path


def header(**changed: object) -> dict[str, object]:
    matrix = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24], **changed}
    return {
        "__metadata__": {"format": "pt"},
        "m": matrix,
        "n": {"dtype": "I64", "shape": [4], "data_offsets": [24, 56]},
    }


def test_float32_tensors_are_read_by_name_and_others_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "model.safetensors", header(), MATRIX.tobytes() + COUNTS.tobytes())
    tensors = read_tensors(path)
    assert list(tensors) == ["m"]
    np.testing.assert_array_equal(tensors["m"], MATRIX)
    assert not tensors["m"].flags.writeable


@pytest.mark.parametrize(
    "changed", [{"shape": [3, 3]}, {"data_offsets": [0]}, {"data_offsets": [0, 23]}, {"shape": "2"}]
)
def test_a_tensor_that_does_not_fit_its_description_is_refused(tmp_path: Path, changed: dict[str, object]) -> None:
    path = written(tmp_path / "model.safetensors", header(**changed), MATRIX.tobytes() + COUNTS.tobytes())
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors are damaged: install the model again"):
        read_tensors(path)


@pytest.mark.parametrize("content", [b"", b"\x05", b"\xff" * 64, b"\x02" + b"\x00" * 7 + b"[]"])
def test_a_file_without_a_header_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelUnavailable, match="are damaged"):
        read_tensors(tmp_path / "model.safetensors")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="are damaged"):
        read_tensors(tmp_path / "model.safetensors")
