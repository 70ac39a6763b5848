"""The operations of NLWeb for the OpenAPI document. NLWeb's specification is authoritative."""

from __future__ import annotations

from functools import partial

from aidre.api.http import NOT_BLANK, Content, Operation, Parameter, link
from aidre.api.protocols.nlweb.messages import (
    AskAnswer,
    AskRequest,
    AwaitRequest,
    Failure,
    PromiseAnswer,
    RpcRequest,
    RpcResponse,
    SiteList,
)
from aidre.api.protocols.nlweb.stream import EVENT_STREAM

STREAM = {EVENT_STREAM: {"type": "string"}}
ANSWER = "An answer, an elicitation, or a failure to find one"
ERRORS = (400, 408, 413, 415, 500)
QUERY = Parameter(
    "query",
    "query",
    "The question; left out: the answer says how to ask",
    "how is a backup restored",
    {"type": "string", "pattern": NOT_BLANK},
)
PROMISE = Content(PromiseAnswer, description="A promise")
AWAIT = {
    "await": link("await", "Check on the promise: `promise_token` is `promise.token` of this answer, `action` checkin")
}

_operation = partial(Operation, tag="NLWeb", method="post", error=Content(Failure, description="A failure"))

OPERATIONS: tuple[Operation, ...] = (
    _operation(
        method="get",
        path="/ask",
        name="askByAddress",
        summary="Ask with a query string",
        description="For EventSource and older clients: each member of the request may be a parameter.",
        answers={200: Content(AskAnswer, description=ANSWER, also=STREAM), 202: PROMISE},
        errors=ERRORS,
        parameters=(QUERY,),
        conditional=True,
    ),
    _operation(
        path="/ask",
        name="ask",
        summary="Ask in natural language",
        description="Answers with the best documents, and with a summary of them if `prefer.mode` says so.",
        request=Content(AskRequest),
        answers={200: Content(AskAnswer, description=ANSWER, also=STREAM), 202: PROMISE},
        errors=ERRORS,
        links=AWAIT,
    ),
    _operation(
        path="/await",
        name="await",
        summary="Check on a promise, or cancel it",
        description="Answers with the promise while the work runs, then with its answer.",
        request=Content(AwaitRequest),
        answers={200: Content(AskAnswer, description=ANSWER), 202: PROMISE},
        errors=ERRORS,
        links=AWAIT,
    ),
    _operation(
        path="/mcp",
        name="mcp",
        summary="One message of the Model Context Protocol",
        description="Streamable HTTP without sessions (NLWeb, appendix C); the tools are ask, await, search and fetch.",
        request=Content(RpcRequest),
        answers={200: Content(RpcResponse), 202: Content({}, (), "A notification was accepted")},
        error=Content(RpcResponse, description="A failure"),
        errors=(400, 404, 406, 408, 413, 415, 421, 500),
    ),
    _operation(
        method="get",
        path="/sites",
        name="listSites",
        summary="The values that query.site accepts",
        description="The collections that the caller may ask, and configured hosts.",
        answers={200: Content(SiteList)},
        errors=(500,),
        conditional=True,
    ),
)
