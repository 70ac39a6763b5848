"""The handlers of MCP's methods for the official SDK: tools, resources, prompts and completion.

Importing the SDK takes most of a second, so its names are imported by the functions that need them. The resources of
MCP: each collection that the caller may see, described in JSON.

The prompts of MCP, which a person picks in a chat program, and the completion of their arguments.

A prompt says which tools the model is to call. It holds no text of documents, so it tells nothing and costs no budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import orjson

from aidre.api.access import ANONYMOUS, Caller, caller_of
from aidre.api.protocols.nlweb.answer.answering import AskService
from aidre.api.protocols.nlweb.mcp_tools import DATA_NOTICE, Tool, ToolResult, call_tool, list_tools

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.lowlevel.server import Server
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        CompleteRequestParams,
        CompleteResult,
        GetPromptRequestParams,
        GetPromptResult,
        ListPromptsResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        ListToolsResult,
        PaginatedRequestParams,
        ReadResourceRequestParams,
        ReadResourceResult,
    )

MAX_ARGUMENT_CHARS = 4_096
MAX_COMPLETIONS = 100
"""Values in one completion, by the protocol."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a prompt."""

    name: str
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """`text` is a template with the arguments; `when_given` are sentences added for optional arguments."""

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    text: str
    when_given: Mapping[str, str]


PROMPTS = (
    Prompt(
        "ask_with_sources",
        "Ask with sources",
        "Answers a question from the documents of this server alone, and cites them.",
        (
            Argument("question", "What to answer", required=True),
            Argument("collection", "The collection to search; left out: all"),
        ),
        "Answer this question from the documents that the tool search finds, and from nothing else: {question}\n"
        "Cite title and URL of each document behind the sentence that rests on it. Read a whole document with the tool "
        "fetch where a passage is too short. Where search finds nothing that answers, say so.",
        {"collection": "Search the collection {collection}."},
    ),
    Prompt(
        "summarize_document",
        "Summarize a document",
        "Reads one document and sums it up.",
        (Argument("id", "The id of a result of the tool search, as collection:document", required=True),),
        "Read the document {id} with the tool fetch. Sum it up in at most five sentences by what it says alone, and "
        "end with its title and URL.",
        {},
    ),
)


def write_prompt(name: str, arguments: Mapping[str, str]) -> tuple[Prompt, str] | str:
    """The prompt and its text, or what is wrong with the request."""
    prompt = next((candidate for candidate in PROMPTS if candidate.name == name), None)
    if prompt is None:
        return f"there is no prompt {name[:64]!r}: use {' or '.join(candidate.name for candidate in PROMPTS)}"
    known = [argument.name for argument in prompt.arguments]
    unknown = next((argument_name for argument_name in arguments if argument_name not in known), None)
    if unknown is not None:
        return f"{name} has no argument {unknown[:64]!r}: use {', '.join(known)}"
    values = {key: value.strip() for key, value in arguments.items() if value.strip()}
    for argument in prompt.arguments:
        if argument.required and argument.name not in values:
            return f"{argument.name} is missing: {argument.description[0].lower()}{argument.description[1:]}"
        if len(values.get(argument.name, "")) > MAX_ARGUMENT_CHARS:
            return f"{argument.name} must have at most {MAX_ARGUMENT_CHARS} characters"
    sentences = [prompt.text, *(text for key, text in prompt.when_given.items() if key in values)]
    return prompt, "\n".join(sentence.format_map(values) for sentence in sentences)


def complete(argument: str, beginning: str, caller: Caller, service: AskService) -> list[str]:
    """The collections whose names begin so; nothing for other arguments."""
    if argument != "collection":
        return []
    names = service.retrieval.collections.names(caller, "nlweb")
    return sorted(name for name in names if name.startswith(beginning))


SCHEME = "aidre://collections/"


@dataclass(frozen=True, slots=True)
class Resource:
    """`text` is the JSON that reading it gives."""

    uri: str
    name: str
    description: str
    text: str


def list_resources(caller: Caller, service: AskService) -> Iterator[Resource]:
    """The collections that the caller may see over NLWeb."""
    for collection in service.retrieval.collections.visible(caller, "nlweb"):
        snapshot = collection.snapshot
        content = {
            "name": collection.name,
            "description": collection.description,
            "visibility": collection.visibility,
            "updated_at": snapshot.collection.updated_at,
            "documents": snapshot.documents,
            "chunks": snapshot.chunks,
            "site": collection.name,
        }
        text = orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()
        yield Resource(SCHEME + collection.name, collection.name, collection.description, text)


def read_resource(uri: str, caller: Caller, service: AskService) -> Resource | None:
    """None for one that does not exist for the caller."""
    return next((resource for resource in list_resources(caller, service) if resource.uri == uri), None)


INVALID_PARAMS: Final = -32_602
RESOURCE_NOT_FOUND: Final = -32_002
"""The code of an unknown resource up to 2025-11-25; from 2026-07-28 on it is INVALID_PARAMS."""
LAST_WITH_RESOURCE_NOT_FOUND: Final = "2025-11-25"
MIME_TYPE: Final = "application/json"
UNKNOWN_CLIENT = {"name": "unknown", "version": "0"}


def create_server(service: AskService) -> Server[Any]:
    from mcp.server.lowlevel.server import Server

    handlers = _Handlers(service)
    server: Server[Any] = Server(
        "aidre",
        version=version("aidre"),
        title=service.retrieval.settings.server.organization or None,
        instructions=f"Ask in natural language with the tool ask; search and fetch give plain documents. {DATA_NOTICE}",
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_resource_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
    )
    server.middleware[:] = [_complete_initialize]  # replaces the SDK's tracer, which has no exporter here
    return server


async def _complete_initialize(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Adds members of `initialize` that the SDK requires and some clients omit; the SDK reads this object later."""
    if ctx.method == "initialize" and type(ctx.params) is dict:
        for name, value in (("capabilities", {}), ("clientInfo", UNKNOWN_CLIENT)):
            if ctx.params.get(name) is None:
                ctx.params[name] = value
    return await call_next(ctx)


@dataclass(frozen=True, slots=True)
class _Handlers:
    """A method for each method of the protocol that the server answers."""

    service: AskService

    async def list_tools(
        self, context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        from mcp_types import ListToolsResult

        tools = list_tools(_caller(context), self.service)
        return ListToolsResult(tools=[_describe(tool, self.service) for tool in tools])

    async def call_tool(self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        result = await call_tool(params.name, params.arguments, _caller(context), self.service)
        if result is None:
            raise _error(INVALID_PARAMS, f"there is no tool {params.name[:64]!r}")
        return _to_sdk_result(result)

    async def list_resources(
        self, context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        from mcp_types import ListResourcesResult, Resource

        return ListResourcesResult(
            resources=[
                Resource(
                    uri=resource.uri, name=resource.name, description=resource.description or None, mime_type=MIME_TYPE
                )
                for resource in list_resources(_caller(context), self.service)
            ]
        )

    async def list_resource_templates(
        self, context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """None: resources/list names every resource. Clients ask wherever there are resources, and stop at an error."""
        from mcp_types import ListResourceTemplatesResult

        return ListResourceTemplatesResult(resource_templates=[])

    async def read_resource(
        self, context: ServerRequestContext[Any, Any], params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        from mcp_types import ReadResourceResult, TextResourceContents

        found = read_resource(str(params.uri), _caller(context), self.service)
        if found is None:
            is_older = context.protocol_version <= LAST_WITH_RESOURCE_NOT_FOUND  # versions are dates
            code = RESOURCE_NOT_FOUND if is_older else INVALID_PARAMS
            raise _error(code, "there is no such resource: resources/list names all")
        return ReadResourceResult(contents=[TextResourceContents(uri=found.uri, mime_type=MIME_TYPE, text=found.text)])

    async def list_prompts(
        self, context: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        from mcp_types import ListPromptsResult

        return ListPromptsResult(prompts=[_describe_prompt(prompt) for prompt in PROMPTS])

    async def get_prompt(
        self, context: ServerRequestContext[Any, Any], params: GetPromptRequestParams
    ) -> GetPromptResult:
        from mcp_types import GetPromptResult, PromptMessage, TextContent

        written = write_prompt(params.name, params.arguments or {})
        if isinstance(written, str):
            raise _error(INVALID_PARAMS, written)
        prompt, text = written
        message = PromptMessage(role="user", content=TextContent(type="text", text=text))
        return GetPromptResult(description=prompt.description, messages=[message])

    async def complete(self, context: ServerRequestContext[Any, Any], params: CompleteRequestParams) -> CompleteResult:
        from mcp_types import CompleteResult, Completion

        found = complete(params.argument.name, params.argument.value, _caller(context), self.service)
        shown = found[:MAX_COMPLETIONS]
        return CompleteResult(completion=Completion(values=shown, total=len(found), has_more=len(found) > len(shown)))


def _error(code: int, message: str) -> Exception:
    from mcp.shared.exceptions import MCPError

    return MCPError(code=code, message=message)


def _caller(context: ServerRequestContext[Any, Any]) -> Caller:
    """The caller of the request; anonymous on standard input."""
    return ANONYMOUS if context.request is None else caller_of(context.request)


def _describe(tool: Tool, service: AskService) -> Any:
    from mcp_types import Tool as McpTool, ToolAnnotations

    template = service.retrieval.settings.nlweb.template if tool.name == "ask" else None
    meta: dict[str, Any] | None = None
    if template is not None:
        meta = {"openai/outputTemplate": template.uri, "openai/widgetAccessible": template.widget_accessible}
    return McpTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=dict(tool.schema),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
        _meta=meta,
    )


def _to_sdk_result(result: ToolResult) -> CallToolResult:
    from mcp_types import CallToolResult, TextContent

    return CallToolResult(
        content=[TextContent(type="text", text=text) for text in result.texts],
        structured_content=dict(result.structured),
        is_error=result.is_error,
        _meta=None if result.meta is None else dict(result.meta),
    )


def _describe_prompt(prompt: Prompt) -> Any:
    from mcp_types import Prompt as McpPrompt, PromptArgument

    return McpPrompt(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            PromptArgument(name=argument.name, description=argument.description, required=argument.required)
            for argument in prompt.arguments
        ],
    )
