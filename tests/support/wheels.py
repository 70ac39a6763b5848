"""Wheels with tiny models, and what a catalogue would say of them: pip finds them in their folder, without network."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from aidre.engine.embedding.models import DEFAULT, KnownModel

MODULES = b"""[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
 {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]"""
MODEL: Mapping[str, bytes] = {
    "config.json": b'{"hidden_size": 4}',
    "modules.json": MODULES,
    "sentence_bert_config.json": b'{"max_seq_length": 256}',
    "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
    "tokenizer.json": b'{"model": {"vocab": {"tea": 1, "##s": 2}}}',
    "model.safetensors": b"weights of a tiny model",
}
"""The files of a folder of sentence-transformers."""


def write_model(folder: Path, files: Mapping[str, bytes] = MODEL) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def write_wheel(folder: Path, files: Mapping[str, bytes], name: str = "tiny_model", tag: str = "py3-none-any") -> Path:
    """A wheel of version 1.0 that needs a package which is nowhere: models are fetched without what they need."""
    metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\nRequires-Dist: nowhere-at-all\n"
    described = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    inner = f"{name}-1.0.dist-info"
    every = {
        **files,
        f"{inner}/METADATA": metadata.encode(),
        f"{inner}/WHEEL": described.encode(),
        f"{inner}/licenses/LICENSE": b"You may.",
    }
    lines = [f"{path},sha256={_record_digest(content)},{len(content)}" for path, content in every.items()]
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in every.items():
            archive.writestr(path, content)
        archive.writestr(f"{inner}/RECORD", "\n".join([*lines, f"{inner}/RECORD,,", ""]))
    return wheel


def known_of(wheel: Path, files: Mapping[str, bytes] = MODEL) -> KnownModel:
    """What the catalogue would say of a wheel with these files in `tiny_model/model`."""
    digest = hashlib.sha256(files["model.safetensors"]).hexdigest()
    return replace(
        DEFAULT,
        title="a tiny model",
        package="tiny-model",
        version="1.0",
        wheel=wheel.name,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        module="tiny_model",
        members={
            **{f"tiny_model/model/{name}": name for name in files},
            "tiny_model-1.0.dist-info/licenses/LICENSE": "LICENSE",
        },
        digest=digest,
        revision=f"sha256:{digest[:16]};mean;l2;length=256;v1",
    )


def packed(files: Mapping[str, bytes] = MODEL) -> dict[str, bytes]:
    """The files as a wheel of `known_of` has them."""
    return {"tiny_model/__init__.py": b"raise SystemExit('never run')", **_below("tiny_model/model", files)}


def _below(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}


def _record_digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
