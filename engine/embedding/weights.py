"""Locates, identifies and reads the weights of an embedding model, without importing a model library.

A model is a known one or another that was added to this machine, a sentence-transformers folder, or a name on the
Hugging Face hub. Its tensors are in the format of `models/four_bits.py`, or in that of
https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding.cache import cache_folder, write_file
from aidre.engine.embedding.graph import TOKENIZER, prefixes_of_model, prefixes_part
from aidre.engine.embedding.models import (
    DEFAULT,
    FOUR_BITS,
    KNOWN,
    KnownModel,
    find_model,
    is_offline,
    known_model,
    missing_offline,
    obtain,
)
from aidre.engine.errors import ModelUnavailable
from aidre.engine.model import EmbeddingSpace

REVISION_FORMAT = "v1"
TRANSFORMER_MODULES = ("Transformer", "Pooling", "Normalize")
FOLDER_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
HEADER_BYTES = 8
"""The length of the header of a safetensors file, a little-endian unsigned integer, at its start."""

Tensors: TypeAlias = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class ModelWeights:
    """A model folder. `digest` is the SHA-256 of the weights (of the digests of several files); `revision` identifies
    the weights together with pooling, normalization, length and prompts."""

    folder: Path
    digest: str
    revision: str

    @property
    def known(self) -> KnownModel | None:
        """The known model that these are, of which a graph can be built without torch."""
        return next(
            (model for model in KNOWN.values() if (model.digest, model.revision) == (self.digest, self.revision)), None
        )


def find_weights(model: str, *, fetch: bool = True) -> ModelWeights:
    """Locate and identify `model`; raises ModelUnavailable if it is missing, altered, or not in safetensors format.

    A known one that is not on this machine is fetched, unless `fetch` is False.
    """
    known = known_model(model)
    if known is None:
        folder = _local_folder(model, fetch=fetch)
        digest = _digest_of_weights(folder)
    else:
        folder = _known_folder(known, fetch=fetch)
        digest = _digest_of_weights(folder)
        if digest != known.digest:
            raise ModelUnavailable(
                f"the weights in {folder} are not those of {known.title}: run `aidre model add {known.name}`, or "
                f"reinstall package {known.package}",
                package=known.package,
                expected=known.digest,
                actual=digest,
            )
    return ModelWeights(folder, digest, _revision(folder, digest))


def fetch_model(space: EmbeddingSpace) -> None:
    """Fetch the model of a space if it is a known one that is not on this machine. ModelUnavailable, StorageFailed."""
    known = known_model(space.model or "")
    if known is not None and space.provider in {None, "sentence-transformers"}:
        obtain(known)


def _known_folder(known: KnownModel, *, fetch: bool) -> Path:
    if fetch:
        return obtain(known)
    folder = find_model(known.name)
    if folder is None:
        cure = f"the {known.name} model is not here: run `aidre model add {known.name}`"
        raise ModelUnavailable(missing_offline(known) if is_offline() else cure, model=known.name)
    return folder


def dimensions_of(model: str) -> int:
    """The length of the model's vectors, read from its folder. ModelUnavailable where the folder does not say it."""
    known = known_model(model)
    if known is not None:
        return known.dimensions
    folder = _local_folder(model, fetch=True)
    modules = _read_json(folder / "modules.json", default=[{"path": ""}])
    for module in reversed(modules):  # the last one that has a length decides
        config = _read_json(folder / str(module.get("path", "")) / "config.json", default={})
        for name in ("out_features", "word_embedding_dimension", "embedding_dimension", "hidden_size"):
            if isinstance(length := config.get(name), int):
                return length
    raise ModelUnavailable(f"model folder {folder} does not say how long its vectors are: declare dimensions = N")


def require_sentence_transformers(model: str) -> None:
    """Raises ModelUnavailable where the package is not installed: it is that of an extra."""
    if find_spec("sentence_transformers") is None:
        raise ModelUnavailable(
            f"model {model!r} needs package sentence-transformers, which is not installed: run `pip install "
            f"'aidre[models]'`, or use a model that needs none: {', '.join(KNOWN)}",
            package="sentence-transformers",
        )


def revision_of(weights: ModelWeights, space: EmbeddingSpace) -> str:
    """The revision of the space's vectors: of the weights and the declared prefixes, and the operator's label."""
    own, _, form = weights.revision.rpartition(";")
    return with_label(";".join([own, *prefixes_part(space), form]), space.revision)


def with_label(revision: str, declared: str | None) -> str:
    """`revision` followed by the operator's label, if the declared revision is one or contains one."""
    if not declared:
        return revision
    label = declared.partition(f";{REVISION_FORMAT}")[2].lstrip(";") if declared.startswith("sha256:") else declared
    return f"{revision};{label}" if label else revision


_vocabularies: dict[Path, Mapping[str, int]] = {}


def default_vocabulary() -> Mapping[str, int]:
    """The English words, in lower case, that the tokenizer of the default model does not split, and their numbers, of
    which frequent words have low ones; empty while the model is not on this machine."""
    if _vocabularies:
        return next(iter(_vocabularies.values()))
    folder = find_model(DEFAULT.name)
    if folder is None:
        return {}
    tokenizer = _read_json(folder / TOKENIZER, default={})
    words = {word: number for word, number in tokenizer.get("model", {}).get("vocab", {}).items() if word.isalpha()}
    return _vocabularies.setdefault(folder, words)


def _local_folder(model: str, *, fetch: bool) -> Path:
    added = find_model(model)
    if added is not None:
        return added
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder.absolute()
    if folder.is_absolute() or model.startswith((".", "~")) or model.count("/") != 1:
        raise ModelUnavailable(
            f"model {model!r} is neither one that was added, nor a folder, nor a name on the hub: correct the space's "
            "model, or run `aidre model add FOLDER`"
        )
    return _hub_folder(model, fetch=fetch)


def _hub_folder(model: str, *, fetch: bool) -> Path:
    require_sentence_transformers(model)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, allow_patterns=FOLDER_FILES, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        if not fetch or is_offline():
            raise ModelUnavailable(f"model {model!r} is not on this machine: download it, or give a folder") from error
    try:
        return Path(snapshot_download(model, allow_patterns=FOLDER_FILES, ignore_patterns=["onnx/*", "openvino/*"]))
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        raise ModelUnavailable(
            f"model {model!r} is not on this machine and the hub cannot be reached: download it, or give a folder"
        ) from error


def _digest_of_weights(folder: Path) -> str:
    files = sorted(folder.rglob("*.safetensors")) or [path for path in (folder / FOUR_BITS,) if path.is_file()]
    if not files:
        raise ModelUnavailable(f"model folder {folder} has no *.safetensors: only weights in that format are loaded")
    digests = [_digest_of_file(path) for path in files]
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _digest_of_file(path: Path) -> str:
    """SHA-256 of a file, cached while its path, size, modification time and inode stay the same."""
    state = path.stat()
    identity = f"{path.resolve()}\0{state.st_size}\0{state.st_mtime_ns}\0{state.st_ino}"
    notes = cache_folder() / "digests"
    note = notes / hashlib.sha256(identity.encode()).hexdigest()[:32]
    try:
        cached = note.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        cached = ""
    if len(cached) == 64:
        return cached
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    notes.mkdir(exist_ok=True)
    write_file(note, digest.encode())
    return digest


def _revision(folder: Path, digest: str) -> str:
    """The revision: digest, pooling, normalization, other modules, length and prompts, read from the model folder."""
    modules = _read_json(folder / "modules.json", default=[])
    names = [str(module["type"]).rpartition(".")[2] for module in modules]
    pooling = next((str(m["path"]) for m, name in zip(modules, names, strict=True) if name == "Pooling"), None)
    parts = [f"sha256:{digest[:16]}", _pooling_mode(folder / pooling) if pooling else "mean"]
    parts.append("l2" if "Normalize" in names else "raw")
    parts += [name for name in names if name not in TRANSFORMER_MODULES]
    length = _read_json(folder / "sentence_bert_config.json", default={}).get("max_seq_length")
    parts += [f"length={length}"] if length else []
    config = _read_json(folder / "config_sentence_transformers.json", default={})
    prompts = config.get("prompts") or {}
    if any(prompts.values()):
        document = prefixes_of_model({"document": "", **prompts}, config.get("default_prompt_name"))["document"]
        named = {"document": document} if document != (prompts.get("document") or "") else {}
        canonical = json.dumps({**prompts, **named}, sort_keys=True).encode()
        parts.append(f"prompts={hashlib.sha256(canonical).hexdigest()[:8]}")
    return ";".join([*parts, REVISION_FORMAT])


def _pooling_mode(folder: Path) -> str:
    config = _read_json(folder / "config.json", default={})
    if "pooling_mode" in config:
        mode = config["pooling_mode"]
        return mode if isinstance(mode, str) else "+".join(mode)
    prefix = "pooling_mode_"
    names = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max"}
    flags = [key.removeprefix(prefix) for key, on in config.items() if key.startswith(prefix) and on is True]
    return "+".join(names.get(flag, flag) for flag in flags) or "mean"


def _read_json(path: Path, default: Any) -> Any:
    if not path.is_file():
        return default
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ModelUnavailable(f"model file {path} is not JSON: install the model again") from error


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
