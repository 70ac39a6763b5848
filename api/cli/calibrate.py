"""Calibrates a space with queries of users, read from a file: texts, or vectors of the space."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import ConfigurationError, InvalidInput, ModelUnavailable
from aidre.engine.retrieve import text_spaces

if TYPE_CHECKING:
    from aidre.api.config import Settings
    from aidre.engine.maintenance import Recalibration
    from aidre.engine.model import EmbeddingSpace, Json
    from aidre.engine.ports import Source
    from aidre.engine.storage import Calibration

_TEXT_MEMBERS = ("text", "query")
_VECTOR_MEMBER = "vector"
_ARROW_MAGIC = b"ARROW1"


@dataclass(frozen=True, slots=True)
class QueryFile:
    """The queries of a file: either `texts`, or `vectors` of shape (n, dimensions)."""

    texts: tuple[str, ...] = ()
    vectors: NDArray[np.float32] | None = None


def read_queries(path: Path) -> QueryFile:
    """Read .npy, Arrow (.arrow, .feather, .ipc), JSON Lines (.jsonl, .ndjson), or any other file as one text per line.

    ConfigurationError names the file, the line and the cure; OSError.
    """
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return QueryFile(vectors=_read_npy(path))
    if suffix in {".arrow", ".feather", ".ipc"}:
        return QueryFile(vectors=_read_arrow(path))
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise _refused(path, "is neither UTF-8 text nor .npy nor .arrow") from None
    numbered = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise _refused(path, "has no queries: give at least one")
    if suffix in {".jsonl", ".ndjson"}:
        return _read_json_lines(path, numbered)
    return QueryFile(texts=tuple(line for _, line in numbered))


def calibrate(
    store: Source,
    collection: str,
    space_id: str | None,
    queries: QueryFile,
    settings: Settings,
) -> tuple[str, Recalibration]:
    """Calibrate a live space with queries; returns its id and the calibrations before and after.

    Without `space_id` it is the space that texts are searched in, or for vectors the only one. ConfigurationError,
    ModelUnavailable for texts, and what `recalibrate` raises.
    """
    from aidre.engine.embedding import load_stored
    from aidre.engine.maintenance import recalibrate

    space = _space(store.open(collection).collection.spaces, settings, collection, space_id, queries)
    models = {}
    vectors = queries.vectors
    if space.model is not None:
        try:
            model = load_stored(space, runtime=settings.embedding.runtime, endpoints=settings.endpoints)
            models = {space.id: model.embed_queries}
        except ModelUnavailable:
            if vectors is None:
                raise
    if vectors is None:
        vectors = models[space.id](queries.texts)
    if vectors.shape[1] != space.dimensions:
        raise ConfigurationError(
            f"--queries: the vectors have {vectors.shape[1]} dimensions, but space {space.id!r} has {space.dimensions}"
        )
    try:
        return space.id, recalibrate(store, collection, space.id, vectors, models)
    except InvalidInput as error:
        raise ConfigurationError(f"--queries: {error.message}") from error


def facts_of(collection: str, space_id: str, result: Recalibration) -> dict[str, Json]:
    return {
        "collection": collection,
        "space": space_id,
        "generation": result.generation,
        "queries": result.queries,
        "before": _calibration_facts(result.before, result.found_before),
        "after": _calibration_facts(result.after, result.found_after),
    }


def lines_of(collection: str, space_id: str, result: Recalibration) -> Iterator[str]:
    queries = "1 query" if result.queries == 1 else f"{result.queries:,} queries"
    yield f"{collection}: space {space_id} calibrated with {queries}, generation {result.generation}"
    for name, calibration, found in (
        ("before", result.before, result.found_before),
        ("after", result.after, result.found_after),
    ):
        yield f"  {name}: {_described(calibration)}; these queries found {found:.4f} of their ten nearest"


def _described(calibration: Calibration | None) -> str:
    if calibration is None or calibration.kind == "exact":
        return "exact, every row is compared" + (
            f" ({calibration.reason})" if calibration and calibration.reason else ""
        )
    return ", ".join(
        f"recall@{depth.results} {depth.mean:.4f} promised with {depth.candidates:,} candidates"
        for depth in calibration.depths
    )


def _calibration_facts(calibration: Calibration | None, found: float) -> dict[str, Json]:
    depths = () if calibration is None else calibration.depths
    return {
        "kind": "exact" if calibration is None else calibration.kind,
        "found": round(found, 4),
        "depths": [
            {"results": depth.results, "candidates": depth.candidates, "recall": round(depth.mean, 4)}
            for depth in depths
        ],
    }


def _space(
    spaces: Sequence[EmbeddingSpace], settings: Settings, collection: str, space_id: str | None, queries: QueryFile
) -> EmbeddingSpace:
    names = ", ".join(space.id for space in spaces)
    if space_id is not None:
        named = next((space for space in spaces if space.id == space_id), None)
        if named is None:
            raise ConfigurationError(f"--space: collection {collection!r} has no space {space_id!r}: {names}")
        if queries.vectors is None and named.model is None:
            raise ConfigurationError(f"--queries: space {space_id!r} has no model to embed texts: give vectors")
        return named
    with_model = text_spaces(spaces, settings.collection(collection).spaces)
    possible = list(spaces) if queries.vectors is not None else with_model
    if not possible:
        raise ConfigurationError(f"--queries: no space of {collection!r} has a model to embed texts: give vectors")
    if len(possible) > 1 and queries.vectors is not None:
        raise ConfigurationError(f"--space: say which one the vectors belong to: {names}")
    return possible[0]


# -- files ---------------------------------------------------------------------------------------------------


def _read_npy(path: Path) -> NDArray[np.float32]:
    try:
        found = np.load(path, allow_pickle=False)
    except (EOFError, ValueError):
        raise _refused(path, "is no .npy file of numbers") from None
    return _matrix(path, found)


def _read_arrow(path: Path) -> NDArray[np.float32]:
    import pyarrow as pa

    try:
        content = path.read_bytes()
        read = pa.ipc.open_file if content.startswith(_ARROW_MAGIC) else pa.ipc.open_stream
        table = read(content).read_all()
        values = table.column(_VECTOR_MEMBER).to_pylist()
    except (KeyError, pa.ArrowException):
        raise _refused(path, f"is not an Arrow file with a column named {_VECTOR_MEMBER}") from None
    return _rows(path, [(row, value) for row, value in enumerate(values, 1)], "row")


def _read_json_lines(path: Path, numbered: Sequence[tuple[int, str]]) -> QueryFile:
    texts, vectors = list[str](), list[tuple[int, Any]]()
    for number, line in numbered:
        try:
            value = json.loads(line)
        except ValueError:
            raise _refused(path, f"line {number} is not JSON") from None
        members = value if isinstance(value, dict) else {"text": value}
        text = next((members[name] for name in _TEXT_MEMBERS if name in members), None)
        if _VECTOR_MEMBER in members:
            vectors.append((number, members[_VECTOR_MEMBER]))
        elif isinstance(text, str) and text.strip():
            texts.append(text)
        else:
            raise _refused(path, f"line {number} has no text, query or vector")
    if texts and vectors:
        raise _refused(path, "has texts and vectors: give one kind")
    return QueryFile(vectors=_rows(path, vectors, "line")) if vectors else QueryFile(texts=tuple(texts))


def _rows(path: Path, numbered: Sequence[tuple[int, Any]], unit: str) -> NDArray[np.float32]:
    for number, value in numbered:
        is_vector = isinstance(value, list) and value and all(type(each) in {int, float} for each in value)
        if not is_vector or len(value) != len(numbered[0][1]):
            problem = "is not as long as the first" if is_vector else "is not a list of numbers"
            raise _refused(path, f"the vector of {unit} {number} {problem}")
    return _matrix(path, np.array([value for _, value in numbered], np.float64))


def _matrix(path: Path, found: NDArray[Any]) -> NDArray[np.float32]:
    if found.ndim != 2 or found.dtype.kind not in "fiu":
        shape = " x ".join(map(str, found.shape)) or "one"
        raise _refused(
            path, f"holds {shape} values of type {found.dtype}: give an array (queries, dimensions) of float32"
        )
    if not len(found):
        raise _refused(path, "has no queries: give at least one")
    with np.errstate(over="ignore"):
        return np.asarray(found, np.float32)


def _refused(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(f"--queries: {path} {problem}")
