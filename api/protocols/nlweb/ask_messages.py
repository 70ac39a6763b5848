"""The messages of NLWeb 0.55: requests to /ask and /await, the four answers, and MCP's envelope.

Requests of earlier versions are converted to these first, see `query/dialects.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from aidre.api.http import AS_LIST, AS_TEXT, NOT_BLANK, Message, NotBlank, OpenMessage, Text

Texts: TypeAlias = str | list[str]
"""A string, or a list of them. The form that the specification has is the one that is described."""
Start: TypeAlias = Annotated[int, Meta(ge=0, description="Documents to skip")]


# -- requests --------------------------------------------------------------------------------------------------------


class AskQuery(OpenMessage):
    """The question. Further members are filters: `itemType`, `price`, `location`, dates, any property of the items."""

    text: Annotated[NotBlank, Meta(description="The question", examples=["how is a backup restored"])]
    site: Annotated[
        Texts | None, Meta(description="A collection or a host, or a list; left out: all", extra_json_schema=AS_TEXT)
    ] = None
    limit: Annotated[int, Meta(ge=1, description="Documents at most")] | None = None
    start_num: Start | None = None
    decontextualized_query: Annotated[
        str | None, Meta(description="The question rewritten by the client so that it needs no context")
    ] = None


class AskContext(OpenMessage):
    """The conversation so far. In a context of another `@type` these members are used if they are texts."""

    type: Annotated[Texts | None, Meta(description="ConversationalContext", extra_json_schema=AS_TEXT)] = field(
        default=None, name="@type"
    )
    prev: Annotated[
        Texts | None, Meta(description="Earlier questions, the oldest first", extra_json_schema=AS_LIST)
    ] = None
    text: Annotated[str | None, Meta(description="Background of the question")] = None
    memory: Annotated[Texts | None, Meta(description="Facts about the user", extra_json_schema=AS_TEXT)] = None


class AskPrefer(OpenMessage):
    """How the answer is to be."""

    streaming: Annotated[bool | None, Meta(description="Whether to answer as text/event-stream")] = None
    respond_async: Annotated[bool | None, Meta(description="Whether to answer with a promise")] = field(
        default=None, name="respond-async"
    )
    response_format: Annotated[
        Texts | None,
        Meta(
            description="conversational_search or chatgpt_app; of a list the first that is supported",
            extra_json_schema=AS_TEXT,
        ),
    ] = None
    mode: Annotated[
        Texts | None, Meta(description="list or summarize, or both with a comma", extra_json_schema=AS_TEXT)
    ] = None
    accept_language: Annotated[str | None, Meta(description="As the header field Accept-Language")] = field(
        default=None, name="accept-language"
    )
    correct: Annotated[
        bool | None, Meta(description="false: answer the question as it is typed, and suggest nothing")
    ] = None
    operators: Annotated[
        bool | None, Meta(description="false: read no quotes, no -word and no conditions in the question")
    ] = None
    collapse: Annotated[bool | None, Meta(description="false: near-copies of an item are items of their own")] = None


class AskMeta(OpenMessage):
    """About the request itself."""

    version: str | None = None
    api_version: Annotated[str | None, Meta(description="The same in NLWeb 0.54")] = None
    session_context: Annotated[dict[str, Any] | None, Meta(description="Comes back in the answer")] = None
    user: Annotated[
        str | dict[str, Any] | None, Meta(description="An id, or a Person; it has no effect", extra_json_schema=AS_TEXT)
    ] = None
    remember: Annotated[bool | None, Meta(description="Accepted; nothing is remembered")] = None
    start_num: Start | None = None


class AskRequest(OpenMessage):
    """A question with its context. Requests of NLWeb 0.54 and before are read, too."""

    query: AskQuery
    context: AskContext | None = None
    prefer: AskPrefer | None = None
    meta: AskMeta | None = None


class AwaitMeta(OpenMessage):
    """About the request itself."""

    session_context: Annotated[dict[str, Any] | None, Meta(description="Comes back in the answer")] = None


class Token(Text, rule="the token of a promise", pattern=NOT_BLANK):
    pass


class AwaitRequest(OpenMessage):
    """A look at a promise, or its cancellation."""

    promise_token: Token
    action: Literal["checkin", "cancel"]
    meta: AwaitMeta | None = None


class RpcRequest(OpenMessage):
    """One JSON-RPC 2.0 message of the Model Context Protocol."""

    jsonrpc: Literal["2.0"]
    method: str
    id: str | int | UnsetType = UNSET
    params: dict[str, Any] | None = None


# -- answers ---------------------------------------------------------------------------------------------------------


class NlwebMeta(OpenMessage):
    """About the answer."""

    response_type: Literal["answer", "elicitation", "promise", "failure"]
    version: str
    response_format: Literal["conversational_search", "chatgpt_app"] | UnsetType = UNSET
    session_context: dict[str, Any] | UnsetType = UNSET
    processing_time_ms: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    decontextualized_query: str | UnsetType = UNSET
    corrected: Annotated[str, Meta(description="The question that was answered in place of the one as typed")] | (
        UnsetType
    ) = UNSET
    suggestion: Annotated[str, Meta(description="The question without what may be typing errors")] | UnsetType = UNSET
    understood: Annotated[
        dict[str, Any],
        Meta(description="What the question asks for: phrases in quotes, excluded words, and conditions on fields"),
    ] | (UnsetType) = UNSET
    ignored_filters: Annotated[list[str], Meta(description="Members of the query that do not filter")] | UnsetType = (
        UNSET
    )
    ignored_members: Annotated[
        list[str], Meta(description="Members beside the query that were read and changed nothing")
    ] | (UnsetType) = UNSET
    rewriting_method: Literal["rule", "llm"] | UnsetType = UNSET
    summary_method: Literal["extractive", "llm"] | UnsetType = UNSET
    remembered: bool | UnsetType = UNSET


class Copies(Message):
    """Documents that are near-copies of that of an item, and the ids of chunks of the first of them."""

    count: int
    ids: list[str]


class Grounding(Message):
    """The chunks that an item rests on."""

    chunk_ids: list[str]
    content_hashes: list[str]
    source_url: str | UnsetType = UNSET
    passage: str | UnsetType = UNSET
    copies: Copies | UnsetType = UNSET


class Action(OpenMessage):
    """Something that the user can do with an item."""

    name: str
    description: str | UnsetType = UNSET
    protocol: Literal["HTTP", "MCP", "A2A"] | UnsetType = UNSET


class Item(OpenMessage):
    """A schema.org object with its properties, or the summary of the answer."""

    type: Annotated[Any, Meta(description="A type of schema.org, or a list of them")] | UnsetType = field(
        default=UNSET, name="@type"
    )
    url: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    score: Annotated[float, Meta(ge=0, le=100, description="Relevance in percent")] | UnsetType = UNSET
    site: str | UnsetType = UNSET
    grounding: Grounding | UnsetType = UNSET
    actions: list[Action] | UnsetType = UNSET


class Prose(Message):
    """A paragraph of the answer."""

    type: Literal["text"]
    text: str


class Question(Message):
    """A question to the user."""

    id: str
    text: str
    type: Literal["single_select", "multi_select", "free_text", "number", "boolean"]
    options: list[str] | UnsetType = UNSET
    default: Any | UnsetType = UNSET


class Elicitation(Message):
    """Questions to the user, without whose answers nothing can be found."""

    text: str | UnsetType = UNSET
    questions: list[Question] | UnsetType = UNSET


class PromiseState(Message):
    """A token for an answer that is not ready. `progress` is from 0 to 1, `estimated_time` in seconds."""

    token: str
    estimated_time: Annotated[int, Meta(ge=0)] | UnsetType = UNSET
    message: str | UnsetType = UNSET
    progress: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET


class NlwebFault(Message):
    """A code of the protocol and what to do."""

    code: Annotated[str, Meta(description="A stable code")]
    message: str


class AskAnswer(Message):
    """One of the answers that `_meta.response_type` names.

    An answer has `results`, or in the format chatgpt_app `content` and `structuredData`; an elicitation has
    `elicitation`, a failure `error`.
    """

    meta: NlwebMeta = field(name="_meta")
    results: list[Item] | UnsetType = UNSET
    content: list[Prose] | UnsetType = UNSET
    structured_data: list[Item] | UnsetType = field(default=UNSET, name="structuredData")
    elicitation: Elicitation | UnsetType = UNSET
    error: NlwebFault | UnsetType = UNSET


class PromiseAnswer(Message):
    """The answer is not ready: send the token to /await."""

    meta: NlwebMeta = field(name="_meta")
    promise: PromiseState


class Failure(Message):
    """What is wrong with the request, and the cure."""

    meta: NlwebMeta = field(name="_meta")
    error: NlwebFault


class Site(Message):
    """A collection that can be asked."""

    name: str
    description: str
    documents: Annotated[int, Meta(ge=0)]


class SiteList(Message):
    """The values that `query.site` accepts."""

    meta: NlwebMeta = field(name="_meta")
    sites: list[str]
    collections: list[Site]


class RpcError(OpenMessage):
    """An error of JSON-RPC; `data.code` is the NLWeb code where the server refuses a request."""

    code: int
    message: str
    data: Any | UnsetType = UNSET


class RpcResponse(OpenMessage):
    """The response to a message; of one that was not read without its `id`."""

    jsonrpc: Literal["2.0"] | UnsetType = UNSET
    id: str | int | UnsetType | None = UNSET
    result: dict[str, Any] | UnsetType = UNSET
    error: RpcError | UnsetType = UNSET
