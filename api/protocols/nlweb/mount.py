"""NLWeb in the application: /ask, /await, /sites and /mcp over one service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from aidre.api.protocols.nlweb import mcp, routes
from aidre.api.protocols.nlweb.answer import ChatModel, Items, Service
from aidre.api.protocols.nlweb.envelope import Code, refuse
from aidre.api.protocols.nlweb.promise_table import MAX_PROMISES
from aidre.api.protocols.nlweb.promises import Promises
from aidre.api.retrieval import Retrieval
from aidre.api.server import Mounted


def mount(retrieval: Retrieval, folders: Sequence[Path]) -> Mounted:
    """The file of promises is in the first of `folders` that can be written. A replica promises nothing and answers
    instead: the request that comes back for the answer may reach another one."""
    settings = retrieval.settings.nlweb
    promises = Promises(folders, settings.timeout, max_promises=0 if retrieval.is_replica else MAX_PROMISES)
    model = ChatModel(settings.llm) if settings.llm is not None else None
    service = Service(retrieval, promises, Items(settings.actions), model)
    endpoint = mcp.McpEndpoint(service)

    async def close() -> None:
        await endpoint.close()
        await promises.close()

    return Mounted(
        routes=[*routes.routes, *mcp.routes],
        error_codes=get_args(Code),
        error_renderers=dict.fromkeys(("ask", "await", "mcp", "sites"), refuse),
        state={"nlweb": service, "mcp": endpoint},
        open=promises.open,
        close=close,
    )
