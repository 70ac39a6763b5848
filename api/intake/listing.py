"""The binds of a store for its operator, decrypted; the server need not run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from aidre.api.intake.bind_key import existing_bind_key
from aidre.api.intake.ledger import LEDGER, Ledger
from aidre.api.intake.offers import timestamp
from aidre.api.intake.settings import Intake
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import Json


def records(store: Path, settings: Intake) -> Iterator[dict[str, Json]]:
    """All binds, the oldest first; `bind_data` is None where a webhook took them or their time is over.

    Raises ConfigurationError at the end where some were sealed with another key than the one in force.
    """
    folder = store / ".log"
    if not (folder / LEDGER).exists():
        return
    ledger = Ledger(folder)
    try:
        key = existing_bind_key(settings, store)
        closed: list[str] = []
        for bind in ledger.binds():
            data: Json = None
            if bind.sealed is not None and bind.forget > time.time():
                opened = None if key is None or key.id != bind.key else key.open(bind.sealed, bind.offer)
                if opened is None:
                    closed.append(bind.offer)
                    continue
                data = orjson.loads(opened)["bind_data"]
            yield {"offer_id": bind.offer, "bound_at": timestamp(bind.bound), "bind_data": data}
        if closed:
            raise ConfigurationError(
                f"{len(closed)} binds were sealed with another bind key, the first of offer {closed[0]}: "
                "name the configuration that was served, with --config"
            )
    finally:
        ledger.close()
