"""Pulls of collections that a replica does not have yet: one for all who ask at once, in threads of their own."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from aidre.api.http import Unavailable
from aidre.api.retrieval.snapshots import LiveSnapshots
from aidre.engine.errors import AidreError

logger = logging.getLogger("aidre")
THREADS = 4
"""Pulls at a time, each of several files. They wait for the bucket, and must not keep searches out of their threads."""
MOST_PULLED = 16
"""Collections that one question may pull."""


class Pulls:
    """One per process."""

    def __init__(self, snapshots: LiveSnapshots) -> None:
        self._snapshots = snapshots
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="pull")
        self._running: dict[str, asyncio.Future[None]] = {}

    async def pull(self, name: str) -> None:
        """Until the collection is open. A caller that goes away does not end it. Unavailable."""
        running = self._running.get(name)
        if running is None:
            running = asyncio.get_running_loop().run_in_executor(self._threads, self._snapshots.pull, name)
            self._running[name] = running
            running.add_done_callback(lambda done: self._forget(name, done))
        try:
            await asyncio.shield(running)
        except (AidreError, OSError) as error:
            text = "this collection cannot be fetched at the moment: try again later"
            raise Unavailable(text, collection=name) from error

    def _forget(self, name: str, done: asyncio.Future[None]) -> None:
        self._running.pop(name, None)
        if not done.cancelled() and (problem := done.exception()) is not None:
            logger.error("collection %s cannot be fetched: %s", name, problem)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
