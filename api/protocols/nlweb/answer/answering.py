"""Answers an `Ask` for every transport: elicit, rewrite the query, find documents, render items, summarize.

The functions here raise only cancellation: every other fault becomes an `NlwebFailure` that is returned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from aidre.api.access import Caller
from aidre.api.config import Settings
from aidre.api.protocols.nlweb.answer.document_search import find_documents
from aidre.api.protocols.nlweb.answer.elicitation import elicit
from aidre.api.protocols.nlweb.answer.items import AnswerItem, Items, excerpt
from aidre.api.protocols.nlweb.answer.llm import ChatModel
from aidre.api.protocols.nlweb.answer.rewriting import RewrittenQuery, rewrite, rewrite_with_model
from aidre.api.protocols.nlweb.answer.summary import AnswerSummary, Embed, summarize
from aidre.api.protocols.nlweb.nlweb_envelope import (
    INTERNAL_ERROR_MESSAGE,
    AnswerResponse,
    NlwebFailure,
    Outcome,
    PromiseResponse,
    render_json,
    to_failure,
)
from aidre.api.protocols.nlweb.promises import PromiseProgress, Promises
from aidre.api.protocols.nlweb.query.ask import Ask
from aidre.api.retrieval import Retrieval, VisibleCollection
from aidre.engine.errors import AidreError
from aidre.engine.model import Json
from aidre.engine.retrieve import text_spaces

logger = logging.getLogger("aidre")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AskService:
    """The collaborators of an answer; one per process. Without a `model`, rules rewrite and summarize. `cites_chunks`:
    a document without a URL is cited by the address of its chunk, which somebody has to serve."""

    retrieval: Retrieval
    promises: Promises
    items: Items
    model: ChatModel | None = None
    cites_chunks: bool = True


@dataclass(frozen=True, slots=True)
class PartialAnswer:
    """The items of an answer before it is summarized. `started` is in the time of the event loop; `embed` embeds text
    as the collection of the best item does, None if that has no model."""

    query: str
    items: Sequence[AnswerItem]
    meta: dict[str, Json]
    started: float
    embed: Embed | None


async def answer(ask: Ask, caller: Caller, service: AskService) -> Outcome:
    """The outcome of an Ask; a promise if the client prefers one or the work exceeds its budget."""

    async def work(progress: PromiseProgress) -> Outcome:
        partial = await find_items(ask, caller, service)
        if not isinstance(partial, PartialAnswer):
            return partial
        progress.advance(0.5, f"{len(partial.items)} found")
        return await complete_answer(ask, partial, service)

    def render(outcome: Outcome) -> bytes:
        return render_json(outcome, ask.dialect)

    budget = 0.0 if ask.respond_async else service.retrieval.settings.nlweb.budget
    try:
        outcome = await service.promises.run_or_promise(caller, work, render, budget)
    except NlwebFailure as error:
        return _add_echo(error, ask)
    return replace(outcome, meta=_echo(ask)) if isinstance(outcome, PromiseResponse) else outcome


async def find_items(ask: Ask, caller: Caller, service: AskService) -> PartialAnswer | Outcome:
    """The items of an answer, or the outcome if there are none or the user has to be asked first."""
    now = asyncio.get_running_loop().time()
    return await _guard(ask, now + service.retrieval.settings.nlweb.timeout, _find(ask, caller, service, now))


async def complete_answer(ask: Ask, partial: PartialAnswer, service: AskService) -> Outcome:
    """The answer, with a summary if the mode asks for one."""
    if "summarize" not in ask.modes:
        return _build_answer(ask, partial, None, service.retrieval.settings)
    return await _guard(
        ask, partial.started + service.retrieval.settings.nlweb.timeout, _summarize(ask, partial, service)
    )


async def _guard(ask: Ask, deadline: float, work: Awaitable[T]) -> T | NlwebFailure:
    """The result of the work, or its error as a failure; `deadline` is in the time of the event loop."""
    try:
        async with asyncio.timeout_at(deadline):
            return await work
    except TimeoutError:
        return _add_echo(NlwebFailure("TIMEOUT", "this took too long: ask for less, or without a summary"), ask)
    except AidreError as error:
        return _add_echo(to_failure(error), ask)
    except Exception:  # the outermost handler: the client gets a failure, the log the traceback
        logger.exception("an ask failed")
        return _add_echo(NlwebFailure("INTERNAL_ERROR", INTERNAL_ERROR_MESSAGE), ask)


def _add_echo(error: NlwebFailure, ask: Ask) -> NlwebFailure:
    error.meta = {**_echo(ask), **error.meta}
    return error


def _echo(ask: Ask) -> dict[str, Json]:
    """The members of `_meta` that repeat the session context and report that nothing is remembered."""
    meta: dict[str, Json] = {}
    if ask.session is not None:
        meta["session_context"] = ask.session
    if ask.remember:
        meta["remembered"] = False
    return meta


async def _find(ask: Ask, caller: Caller, service: AskService, now: float) -> PartialAnswer | Outcome:
    retrieval, rules = service.retrieval, service.retrieval.settings.nlweb.elicitation
    elicitation = elicit(ask, rules, retrieval.collections.names(caller, "nlweb")) if rules else None
    if elicitation is not None:
        return replace(elicitation, meta={**_echo(ask), **elicitation.meta})
    query = await _rewrite(ask, service.model)
    page = await find_documents(retrieval, ask, query, caller)
    meta = _echo(ask)
    if page.query != ask.text:
        meta["decontextualized_query"] = page.query
    if query.changed and page.query == query.query:
        meta["rewriting_method"] = query.method
    for name, text in (("corrected", page.corrected), ("suggestion", page.suggestion)):
        if text is not None:
            meta[name] = text
    if page.reading is not None:
        meta["understood"] = page.reading.understood
    if page.ignored:
        meta["ignored_filters"] = list(page.ignored)
    unused = _unused(ask, query, service.model) if ask.dialect == "0.55" else ()
    if unused:
        meta["ignored_members"] = list(unused)
    if not page.documents:
        message = "nothing relevant was found" if page.irrelevant else "nothing was found that matches the query"
        raise NlwebFailure("NO_RESULTS", message, meta=meta)
    items = await service.items.build(page.documents, as_articles=ask.dialect == "0.54")
    meta = {"response_format": ask.format, **meta}
    return PartialAnswer(page.query, items, meta, now, _embedding_of(retrieval, page.documents[0].collection, caller))


def _unused(ask: Ask, query: RewrittenQuery, model: ChatModel | None) -> tuple[str, ...]:
    """Members of the request that were read and changed nothing in the answer."""
    has_language = model is not None and "summarize" in ask.modes
    dynamic = {
        "prefer.accept-language": ask.language is not None and not has_language,
        "context.prev": bool(ask.prev) and ask.decontextualized is not None,
        "context.memory": ask.memory is not None and not query.keywords,
        "context.text": ask.background is not None and not query.keywords,
    }
    return (*ask.unused, *(name for name, is_unused in dynamic.items() if is_unused))


async def _rewrite(ask: Ask, model: ChatModel | None) -> RewrittenQuery:
    """The query without references to earlier ones; a rewriting by the client is used unchanged."""
    if ask.decontextualized is not None:
        return rewrite(ask.decontextualized, (), ask.background, ask.memory, ask.language)
    if not (ask.prev or ask.background or ask.memory):
        return RewrittenQuery(ask.text)
    if model is None:
        return rewrite(ask.text, ask.prev, ask.background, ask.memory, ask.language)
    user = {"background": ask.background, "memory": ask.memory, "language": ask.language}
    return await rewrite_with_model(model, ask.text, ask.prev, **user)


def _embedding_of(retrieval: Retrieval, collection: VisibleCollection, caller: Caller) -> Embed | None:
    """Embeds text in the space of a collection that answers texts."""
    space = next(iter(text_spaces(collection.snapshot.collection.spaces, collection.settings.spaces)), None)
    if space is None:
        return None

    async def embed(texts: list[str]) -> NDArray[np.float32]:
        embeddings = (retrieval.embedders.embed(space, text, caller.name) for text in texts)
        return np.stack(await asyncio.gather(*embeddings))

    return embed


async def _summarize(ask: Ask, partial: PartialAnswer, service: AskService) -> AnswerResponse:
    summary = await summarize(partial.query, partial.items, partial.embed, service.model, ask.language)
    return _build_answer(ask, partial, summary, service.retrieval.settings)


def _build_answer(
    ask: Ask, partial: PartialAnswer, summary: AnswerSummary | None, settings: Settings
) -> AnswerResponse:
    meta, items = dict(partial.meta), [item.json for item in partial.items]
    if summary is not None:
        meta["summary_method"] = summary.method
    meta["processing_time_ms"] = round(1000 * (asyncio.get_running_loop().time() - partial.started))
    text = None if summary is None else summary.text
    if ask.format != "chatgpt_app":
        return AnswerResponse(items, text, meta=meta)
    template = settings.nlweb.template
    if template is not None:
        meta |= {"openai/outputTemplate": template.uri, "openai/widgetAccessible": template.widget_accessible}
    return AnswerResponse(items, text, [*([text] if text else []), render_list(ask, partial.items, meta)], meta)


def render_list(ask: Ask, items: Sequence[AnswerItem], meta: Mapping[str, Json]) -> str:
    """The items as a numbered list in prose, for a language model."""
    corrected, suggestion = meta.get("corrected"), meta.get("suggestion")
    lines = [f"{len(items)} {'result' if len(items) == 1 else 'results'} for \u201c{corrected or ask.text}\u201d:"]
    if corrected is not None:
        lines.insert(0, f"Nothing fits \u201c{ask.text}\u201d as well.")
    if suggestion is not None:
        lines.insert(0, f"Did you mean \u201c{suggestion}\u201d?")
    understood = meta.get("understood") or {}
    applied = [
        f"\u201c{condition['words']}\u201d" for condition in understood.get("conditions", ()) if condition["applied"]
    ]
    if applied:
        lines.insert(0, f"Conditions of the question: {', '.join(applied)}.")
    for number, item in enumerate(items, 1):
        url = f" ({item.url})" if item.url else ""
        description = f": {excerpt(item.description)}" if item.description else ""
        lines.append(f"{number}. {item.name}{url}{description}")
    return "\n".join(lines)
