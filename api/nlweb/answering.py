"""From an Ask to what it comes to, for every binding alike: ask back, rewrite, find, make items, summarize.

Nothing here raises but a cancellation: what goes wrong is a failure like any other outcome.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from aidre.api.access import Caller
from aidre.api.nlweb.documents import find_documents
from aidre.api.nlweb.elicitation import needed
from aidre.api.nlweb.envelope import (
    FAILED,
    Answered,
    NlwebFailure,
    Outcome,
    Promised,
    document,
    failure_of,
)
from aidre.api.nlweb.items import Item, Items, excerpt
from aidre.api.nlweb.language_model import ChatModel
from aidre.api.nlweb.promises import Progress, Promises
from aidre.api.nlweb.request import Ask
from aidre.api.nlweb.rewriting import Rewritten, rewrite, rewrite_by
from aidre.api.nlweb.summary import Embed, Summary, summarize
from aidre.api.retrieve import Retrieval, Shown
from aidre.api.settings import Settings
from aidre.engine.errors import AidreError
from aidre.engine.model import Json

logger = logging.getLogger("aidre")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Service:
    """What answering needs; one per process. Without a `model` rules do its work."""

    retrieval: Retrieval
    promises: Promises
    items: Items
    model: ChatModel | None = None

    @property
    def settings(self) -> Settings:
        return self.retrieval.settings


@dataclass(frozen=True, slots=True)
class Findings:
    """The items, before they are summarized. `began` is in the time of the event loop; `embed` is how the collection of
    the best item embeds text, if it does."""

    query: str
    items: Sequence[Item]
    meta: dict[str, Json]
    began: float
    embed: Embed | None


async def answer(ask: Ask, caller: Caller, service: Service) -> Outcome:
    """What an Ask comes to; a promise where that is wanted or takes longer than its budget."""

    async def work(progress: Progress) -> Outcome:
        found = await begin(ask, caller, service)
        if not isinstance(found, Findings):
            return found
        progress.at(0.5, f"{len(found.items)} found")
        return await finish(ask, found, service)

    budget = 0.0 if ask.respond_async else service.settings.nlweb.budget
    try:
        outcome = await service.promises.within(caller, work, lambda kept: document(kept, ask.dialect), budget)
    except NlwebFailure as error:
        return _failed(error, ask)
    return replace(outcome, meta=_echo(ask)) if isinstance(outcome, Promised) else outcome


async def begin(ask: Ask, caller: Caller, service: Service) -> Findings | Outcome:
    """What is found, or the outcome where there is nothing to go on with."""
    now = asyncio.get_running_loop().time()
    return await _guarded(ask, now + service.settings.nlweb.timeout, _find(ask, caller, service, now))


async def finish(ask: Ask, found: Findings, service: Service) -> Outcome:
    """The answer over what was found, with a summary where one is wanted."""
    if "summarize" not in ask.modes:
        return _answered(ask, found, None, service.settings)
    return await _guarded(ask, found.began + service.settings.nlweb.timeout, _summarized(ask, found, service))


async def _guarded(ask: Ask, deadline: float, work: Awaitable[T]) -> T | NlwebFailure:
    """What the work comes to, or the failure that it ends in."""
    try:
        async with asyncio.timeout_at(deadline):
            return await work
    except TimeoutError:
        return _failed(NlwebFailure("TIMEOUT", "this took too long: ask for less, or without a summary"), ask)
    except AidreError as error:
        return _failed(failure_of(error), ask)
    except Exception:  # the outermost handler: whatever went wrong, it is told as a failure
        logger.exception("an ask failed")
        return _failed(NlwebFailure("INTERNAL_ERROR", FAILED), ask)


def _failed(error: NlwebFailure, ask: Ask) -> NlwebFailure:
    error.meta = {**_echo(ask), **error.meta}
    return error


def _echo(ask: Ask) -> dict[str, Json]:
    """What every response to an Ask repeats or owns up to."""
    meta: dict[str, Json] = {}
    if ask.session is not None:
        meta["session_context"] = ask.session
    if ask.remember:
        meta["remembered"] = False
    return meta


async def _find(ask: Ask, caller: Caller, service: Service, now: float) -> Findings | Outcome:
    retrieval, rules = service.retrieval, service.settings.nlweb.elicitation
    asked_back = needed(ask, rules, retrieval.names(caller, "nlweb")) if rules else None
    if asked_back is not None:
        return replace(asked_back, meta={**_echo(ask), **asked_back.meta})
    query = await _rewritten(ask, service.model)
    meta = _echo(ask)
    if query.query != ask.text:
        meta["decontextualized_query"] = query.query
    if query.changed:
        meta["rewriting_method"] = query.method
    documents = await find_documents(retrieval, ask, query, caller)
    if documents.ignored:
        meta["ignored_filters"] = list(documents.ignored)
    if not documents.found:
        message = "nothing relevant was found" if documents.irrelevant else "nothing was found that matches the query"
        raise NlwebFailure("NO_RESULTS", message, meta=meta)
    items = await service.items.of(documents.found)
    meta = {"response_format": ask.format, **meta}
    return Findings(query.query, items, meta, now, _embedding(retrieval, documents.found[0].shown))


async def _rewritten(ask: Ask, model: ChatModel | None) -> Rewritten:
    """The query as it stands alone; a client's own rewriting stands as it is."""
    if ask.decontextualized is not None:
        return rewrite(ask.decontextualized, (), ask.background, ask.memory, ask.language)
    if not (ask.prev or ask.background or ask.memory):
        return Rewritten(ask.text)
    if model is None:
        return rewrite(ask.text, ask.prev, ask.background, ask.memory, ask.language)
    known = {"background": ask.background, "memory": ask.memory, "language": ask.language}
    return await rewrite_by(model, ask.text, ask.prev, **known)


def _embedding(retrieval: Retrieval, shown: Shown) -> Embed | None:
    space = next((space for space in shown.snapshot.collection.spaces if space.model is not None), None)
    if space is None:
        return None

    async def embed(texts: list[str]) -> NDArray[np.float32]:
        return np.stack(await asyncio.gather(*(retrieval.texts.embed(space, text) for text in texts)))

    return embed


async def _summarized(ask: Ask, found: Findings, service: Service) -> Answered:
    summary = await summarize(found.query, found.items, found.embed, service.model, ask.language)
    return _answered(ask, found, summary, service.settings)


def _answered(ask: Ask, found: Findings, summary: Summary | None, settings: Settings) -> Answered:
    meta, items = dict(found.meta), [item.json for item in found.items]
    if summary is not None:
        meta["summary_method"] = summary.method
    meta["processing_time_ms"] = round(1000 * (asyncio.get_running_loop().time() - found.began))
    text = None if summary is None else summary.text
    if ask.format != "chatgpt_app":
        return Answered(items, text, meta=meta)
    template = settings.nlweb.template
    if template is not None:
        meta |= {"openai/outputTemplate": template.uri, "openai/widgetAccessible": template.widget_accessible}
    return Answered(items, text, [*([text] if text else []), listing(ask, found.items)], meta)


def listing(ask: Ask, items: Sequence[Item]) -> str:
    """The items in prose, for a model to read."""
    lines = [f"{len(items)} {'result' if len(items) == 1 else 'results'} for \u201c{ask.text}\u201d:"]
    for number, item in enumerate(items, 1):
        where = f" ({item.url})" if item.url else ""
        what = f": {excerpt(item.description)}" if item.description else ""
        lines.append(f"{number}. {item.name}{where}{what}")
    return "\n".join(lines)
