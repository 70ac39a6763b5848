"""The models that are on this machine: a folder each, with a card that says what is in it.

A model is in `weights/NAME` of the cache folder, or of `share/aidre` in the environment, where an image has it. The
default model may also be a package of the environment.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from aidre.engine.embedding import cache_folders, sha256_of
from aidre.engine.embedding.models.catalogue import KNOWN, KnownModel, known_model
from aidre.engine.errors import ModelUnavailable
from aidre.engine.storage import durable

SHELF: Final = "weights"
CARD: Final = "model.json"
ENVIRONMENT: Final = "share/aidre"


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is beside the files of a model: `model` is its name in a space, `source` where it came from; the sizes and
    SHA-256 of its files."""

    name: str
    model: str
    source: str
    licence: str
    files: Mapping[str, tuple[int, str]]

    @property
    def bytes(self) -> int:
        return sum(size for size, _ in self.files.values())

    def write(self, folder: Path) -> None:
        (folder / CARD).write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """`card` is None for a package of the environment."""

    name: str
    folder: Path
    card: ModelCard | None


def shelves() -> list[Path]:
    """The folders that may have models, the first of which is written to."""
    roots = [*cache_folders(), Path(sys.prefix) / ENVIRONMENT]
    return [root / SHELF for root in dict.fromkeys(roots)]


def find_model(name: str) -> Path | None:
    """The folder of a model by its name, or that of a known one in a space; None where it is not on this machine."""
    known = known_model(name)
    own = name if known is None else known.name
    if not is_plain(own):
        return None
    for shelf in shelves():
        if is_complete(shelf / own):
            return shelf / own
    return None if known is None else packaged_folder(known)


def packaged_folder(known: KnownModel) -> Path | None:
    """The folder of a model whose package is installed; None for models in another form."""
    if not any(name.endswith(".safetensors") for name in known.members.values()):
        return None
    spec = find_spec(known.module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "model"


def installed_models() -> Iterator[InstalledModel]:
    """All models of this machine, of each name the one that is used."""
    names = {path.name for shelf in shelves() for path in _folders(shelf)} | set(KNOWN)
    for name in sorted(names, key=lambda model_name: (model_name not in KNOWN, model_name)):
        folder = find_model(name)
        if folder is not None:
            yield InstalledModel(name, folder, read_model_card(folder))


def read_model_card(folder: Path) -> ModelCard | None:
    try:
        content = json.loads((folder / CARD).read_bytes())
        files = {str(name): (int(size), str(digest)) for name, (size, digest) in content.pop("files").items()}
        return ModelCard(**content, files=files)
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None


def is_complete(folder: Path) -> bool:
    """Whether a model has all its files in their sizes. `is_intact` reads them."""
    card = read_model_card(folder)
    if card is None:
        return False
    try:
        return all((folder / name).stat().st_size == size for name, (size, _) in card.files.items())
    except OSError:
        return False


def is_intact(folder: Path) -> bool:
    card = read_model_card(folder)
    try:
        return card is not None and all(sha256_of(folder / name) == digest for name, (_, digest) in card.files.items())
    except OSError:
        return False


def is_plain(name: str) -> bool:
    """Whether a name can be that of a folder."""
    return bool(name) and name[0] not in ".-" and all(letter.isalnum() or letter in "._-" for letter in name)


def remove_model(name: str) -> list[Path]:
    """Remove a model from all folders that have it; returns these. ModelUnavailable where there is none, or it is part
    of a package; StorageFailed."""
    known = known_model(name)
    own = name if known is None else known.name
    removed = []
    for shelf in shelves():
        folder = shelf / own
        if is_plain(own) and folder.is_dir():
            with durable.write_errors(folder):
                (folder / CARD).unlink(missing_ok=True)  # first: what is half removed is not there
                shutil.rmtree(folder)
            removed.append(folder)
    packaged = None if known is None else packaged_folder(known)
    if known is not None and packaged is not None and not removed:
        raise ModelUnavailable(f"the model in {packaged} is a package: run `pip uninstall {known.package}`")
    if not removed:
        raise ModelUnavailable(f"there is no model {name!r} here: `aidre model list` lists them")
    return removed


def _folders(shelf: Path) -> list[Path]:
    try:
        return [path for path in shelf.iterdir() if path.is_dir() and is_plain(path.name)]
    except OSError:
        return []
