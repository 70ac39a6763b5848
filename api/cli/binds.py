"""The binds of Agent Intake, decrypted for the operator. No server has to run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from aidre.api.config import Intake
from aidre.api.protocols.intake import LEDGER_FILE, Ledger, existing_bind_key, format_timestamp
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import Json


def decrypted_binds(store: Path, settings: Intake, folder: Path | None = None) -> Iterator[dict[str, Json]]:
    """All binds in the folder of receipts, by default that in the store, oldest first. `bind_data` is None after
    delivery to a webhook or the end of the retention period.

    Raises ConfigurationError after the last one if some were sealed with a key other than the configured one.
    """
    folder = store / ".log" if folder is None else folder
    if not (folder / LEDGER_FILE).exists():
        return
    ledger = Ledger(folder)
    try:
        key = existing_bind_key(settings, store)
        undecryptable: list[str] = []
        for bind in ledger.binds():
            data: Json = None
            if bind.sealed is not None and bind.forget > time.time():
                plaintext = None if key is None or key.id != bind.key else key.open(bind.sealed, bind.offer)
                if plaintext is None:
                    undecryptable.append(bind.offer)
                    continue
                data = orjson.loads(plaintext)["bind_data"]
            yield {"offer_id": bind.offer, "bound_at": format_timestamp(bind.bound), "bind_data": data}
        if undecryptable:
            raise ConfigurationError(
                f"{len(undecryptable)} binds were sealed with another bind key, the first of offer {undecryptable[0]}: "
                "name the configuration that was served, with --config"
            )
    finally:
        ledger.close()
