"""Documents as filters see them, and the rows of them that a filter finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aidre.engine.index.fields.builder import FieldRow
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.index.fields.reader import FieldIndex, build_fields


def row(metadata: dict[str, Any], number: int = 0, **reserved: Any) -> FieldRow:
    given: dict[str, Any] = {"url": None, "type": None, "updated_at": "2026-04-01T10:00:00Z"} | reserved
    return FieldRow(document_id=f"d{number}", metadata=metadata, **given)


def matches(rows: Sequence[FieldRow], written: Any, dates: Sequence[str] = ()) -> list[int]:
    mask = FieldIndex(build_fields(rows, dates)).mask(parse_filter(written, dates))
    return np.flatnonzero(mask).tolist()
