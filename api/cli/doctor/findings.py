"""What a check finds, and what the checks look at. Only the standard library is imported."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from aidre.api.config import Settings
    from aidre.engine.errors import AidreError
    from aidre.engine.ports import Reader, Source

Level: TypeAlias = Literal["ok", "note", "warning", "refuses"]
"""`note` is worth knowing, `warning` is to be mended, `refuses` keeps a server from starting."""

ENDS_PROCESS = "ends the process that loads it"
"""The beginning of what is said of a library that no check may load."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: the state of what was examined, and the cure if it is not ok."""

    level: Level
    what: str
    text: str
    cure: str | None = None


@dataclass(frozen=True)
class Subject:
    """What is examined: a store (None: no store is), a configuration, and where a server would listen.

    Where the configuration is not valid, `settings` are the defaults, with its section of the store if that is valid:
    so the store is examined all the same.
    """

    store: Path | None
    config: Path | None
    host: str
    port: int

    @cached_property
    def settings(self) -> Settings:
        return self._valid_settings or self._store_settings

    @property
    def has_valid_settings(self) -> bool:
        return self._valid_settings is not None

    @cached_property
    def _valid_settings(self) -> Settings | None:
        from aidre.api.config import load_settings
        from aidre.engine.errors import ConfigurationError

        with suppress(ConfigurationError):
            return load_settings(self.config)
        return None

    @property
    def _store_settings(self) -> Settings:
        from aidre.api.config import load_settings, settings_of
        from aidre.engine.errors import ConfigurationError

        with suppress(OSError, ValueError, ConfigurationError):
            tables = tomllib.loads(Path(self.config or "").read_text(encoding="utf-8-sig"))
            return settings_of({"store": tables.get("store", {})})
        return load_settings(None)

    @cached_property
    def source(self) -> Source | None:
        """None where no store is examined, or there is none in the folder."""
        if self.store is None or (self.settings.store.backend == "local" and not self.store.is_dir()):
            return None
        return self.settings.store.open(self.store)

    @cached_property
    def readers(self) -> Mapping[str, Reader | AidreError]:
        """The collections, opened as a server opens them; or what opening them raised."""
        from aidre.api.server import raise_file_limit

        raise_file_limit()
        return {} if self.source is None else {name: self._opened(name) for name in self.source.collections()}

    def _opened(self, name: str) -> Reader | AidreError:
        from aidre.engine.errors import AidreError

        try:
            assert self.source is not None
            return self.source.open(name)
        except AidreError as error:
            return error

    @property
    def opened(self) -> Mapping[str, Reader]:
        """The collections that could be opened."""
        from aidre.engine.errors import AidreError

        return {name: reader for name, reader in self.readers.items() if not isinstance(reader, AidreError)}
