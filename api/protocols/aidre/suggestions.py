"""Completions of a query as it is typed (an extension of ours): the collection's own words, the most frequent first.

A completion tells a word of the collection, so one that withholds its texts refuses them, and a caller whose budget of
chunks is spent gets none.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from aidre.api.access import caller_of
from aidre.api.config import Limits
from aidre.api.http import (
    BadRequest,
    Forbidden,
    NotFound,
    conditional_message,
    negotiate,
    render_error,
    renders_errors_with,
)
from aidre.api.protocols.aidre.changes import parse_limit
from aidre.api.protocols.aidre.search_messages import SuggestAnswer
from aidre.api.retrieval import VisibleCollection, retrieval_of

SUGGESTIONS_DEFAULT = 8
SUGGESTIONS_MAX = 50


def parse_query(value: str | None, limits: Limits) -> str:
    """Raises BadRequest. A blank text is accepted, and completes to nothing: a page sends what is typed."""
    if value is None:
        raise BadRequest("q is missing: send the text to complete", missing=["q"])
    if len(value) > limits.query_chars:
        raise BadRequest(f"q must have at most {limits.query_chars} characters", member="q")
    return value


def check_tells_words(collection: VisibleCollection) -> None:
    """Raises Forbidden where the texts are withheld, NotFound where there are no words to offer."""
    if not collection.settings.return_text:
        raise Forbidden("this collection does not return text, and completions would tell its words")
    if not collection.snapshot.can.words:
        raise NotFound("this collection completes no words: its engine lacks the capability words")
    if not collection.settings.lexical:
        raise NotFound(f"this collection completes no words: collections.{collection.name}.lexical is false")


@renders_errors_with(render_error)
async def suggest(request: Request) -> Response:
    variant = negotiate(request)
    retrieval = retrieval_of(request)
    text = parse_query(request.query_params.get("q"), retrieval.settings.limits)
    limit = parse_limit(request.query_params.get("limit"), SUGGESTIONS_DEFAULT, SUGGESTIONS_MAX)
    caller = caller_of(request)
    await retrieval.reach(request, request.path_params["name"])
    collection = await retrieval.find_here(request.path_params["name"], caller, "aidre")
    check_tells_words(collection)
    retrieval.check_budget(caller)
    suggestions = await asyncio.to_thread(collection.snapshot.completions, text, limit)  # long in many segments
    content = SuggestAnswer(collection=collection.name, suggestions=suggestions, request_id="")
    return conditional_message(request, variant, content)


routes = [Route("/collections/{name}/suggest", suggest, methods=["GET"])]
