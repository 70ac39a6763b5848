"""A small right server, which shares no code with this project: the one of docs/implement.md, and NLWeb beside it.

Its NLWeb is written from the text alone: two sites, two types of items, promises, streams, and the tools of MCP.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tests import ROOT
from tests.support.servers import Server
from tests.wrong_servers.faults import Fault, FaultMiddleware

PAGE = (ROOT / "docs/implement.md").read_text(encoding="utf-8")
QUERY, SITE = "keys of the address", "guides.example"
ITEMS: list[dict[str, Any]] = [
    {
        "@type": kind,
        "name": name,
        "url": f"https://{site}/{name.lower()}",
        "site": site,
        "description": text,
        "score": 80 - number,
        "grounding": {"source_urls": [f"https://{site}/"]},
        "actions": [
            {
                "name": "Open",
                "description": "Opens it",
                "protocol": "HTTP",
                "method": "GET",
                "endpoint": f"https://{site}/",
            }
        ],
    }
    for number, (kind, site, name, text) in enumerate(
        (
            ("Article", SITE, "Expiry", "Keys expire after a year."),
            ("HowTo", SITE, "Rotation", "Rotate keys before they expire."),
            ("Article", "bakery.example", "Locks", "The keys of the bakery hang by the door."),
        )
    )
]
MODES, FORMATS = {"list", "summarize"}, {"conversational_search", "chatgpt_app"}
TOOLS = [
    {
        "name": "ask",
        "inputSchema": {
            "type": "object",
            "properties": {"query": {"type": "object", "required": ["text"]}},
            "required": ["query"],
        },
    },
    {
        "name": "await",
        "inputSchema": {
            "type": "object",
            "properties": {"promise_token": {"type": "string"}, "action": {"enum": ["checkin", "cancel"]}},
            "required": ["promise_token", "action"],
        },
    },
]


# -- AIDRE -----------------------------------------------------------------------------------------------------------


def published_program() -> str:
    """The server of docs/implement.md."""
    [program] = re.findall(r"^```python\n(.*?^app = .*?)^```$", PAGE.partition("## ")[0], re.DOTALL | re.MULTILINE)
    return str(program)


def published_app(base_url: str) -> ASGIApp:
    names: dict[str, Any] = {}
    exec(published_program(), names)
    names["BASE"] = base_url
    app: ASGIApp = names["app"]
    return app


# -- NLWeb -----------------------------------------------------------------------------------------------------------


class Nlweb:
    """Answers asks and awaits as status and body."""

    def __init__(self) -> None:
        self._promises: dict[str, dict[str, Any] | None] = {}

    def ask(self, body: Any) -> tuple[int, dict[str, Any]]:
        query = body.get("query") if isinstance(body, dict) else None
        text = query.get("text") if isinstance(query, dict) else None
        if not isinstance(query, dict) or not isinstance(text, str) or not text.strip():
            return 400, failure("INVALID_QUERY")
        prefer = body.get("prefer") or {}
        modes = {one.strip() for one in prefer.get("mode", "list").split(",")}
        form = prefer.get("response_format", "conversational_search")
        if not modes <= MODES:
            return 200, failure("UNSUPPORTED_MODE")
        if form not in FORMATS:
            return 200, failure("UNSUPPORTED_FORMAT")
        found = [item for item in ITEMS if matches(item, query)]
        answer = answer_of(found, form, summarize="summarize" in modes) if found else failure("NO_RESULTS")
        if prefer.get("respond-async"):
            token = f"promise-{len(self._promises)}"
            self._promises[token] = answer
            return 202, {"_meta": meta("promise"), "promise": {"token": token}}
        return 200, answer

    def look(self, body: Any) -> tuple[int, dict[str, Any]]:
        token, action = (body.get(name) if isinstance(body, dict) else None for name in ("promise_token", "action"))
        if not isinstance(token, str) or action not in {"checkin", "cancel"}:
            return 400, failure("INVALID_QUERY")
        if action == "cancel" and token in self._promises:
            self._promises[token] = None
        return 200, self._promises.get(token, failure("UNKNOWN_PROMISE")) or failure("CANCELLED")


def matches(item: dict[str, Any], query: dict[str, Any]) -> bool:
    words = set(re.findall(r"\w+", query["text"].lower()))
    known = set(re.findall(r"\w+", f"{item['name']} {item['description']}".lower()))
    in_site = query.get("site") in {None, "all", item["site"]}
    return bool(words & known) and in_site and query.get("itemType") in {None, item["@type"], "Recipe"}


def meta(kind: str, **more: Any) -> dict[str, Any]:
    return {"response_type": kind, "version": "0.55", **more}


def failure(code: str) -> dict[str, Any]:
    return {"_meta": meta("failure"), "error": {"code": code, "message": code}}


def answer_of(found: list[dict[str, Any]], form: str, *, summarize: bool) -> dict[str, Any]:
    stated = meta("answer", response_format=form)
    summary = {"@type": "SearchSummary", "text": f"{len(found)} pages tell of it."}
    if form == "chatgpt_app":
        text = summary["text"] if summarize else "These were found."
        return {"_meta": stated, "content": [{"type": "text", "text": text}], "structuredData": found}
    return {"_meta": stated, "results": [*([summary] if summarize else []), *found]}


def stream_of(answer: dict[str, Any]) -> Response:
    events: list[tuple[str, Any]] = [("start", {"_meta": {**answer["_meta"], "streaming": True}})]
    events += [("error", answer)] if "error" in answer else []
    events += [("result", {"index": n, "item": one}) for n, one in enumerate(answer.get("results", ()))]
    events += [] if "error" in answer else [("complete", {"_meta": answer["_meta"]})]
    text = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
    return Response(text, media_type="text/event-stream")


def nlweb_app() -> Starlette:
    nlweb = Nlweb()

    async def body_of(request: Request) -> Any:
        try:
            return json.loads((await request.body()).decode())
        except ValueError:
            return None

    async def ask(request: Request) -> Response:
        body = await body_of(request)
        status, answer = nlweb.ask(body)
        wants_stream = isinstance(body, dict) and bool((body.get("prefer") or {}).get("streaming"))
        return stream_of(answer) if wants_stream and status == 200 else JSONResponse(answer, status)

    async def look(request: Request) -> Response:
        status, answer = nlweb.look(await body_of(request))
        return JSONResponse(answer, status)

    async def call(request: Request) -> Response:
        message = await body_of(request)
        if "id" not in message:
            return Response(status_code=202)
        told = outcome(message["method"], message.get("params", {}))
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], **told})

    def outcome(method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            info = {"name": "small", "version": "1"}
            return {
                "result": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
            }
        if method == "tools/list":
            return {"result": {"tools": TOOLS}}
        if method != "tools/call":
            return {"error": {"code": -32601, "message": "unknown method"}}
        tools = {"ask": nlweb.ask, "await": nlweb.look}
        if parameters.get("name") not in tools:
            return {"error": {"code": -32602, "message": "unknown tool"}}
        status, answer = tools[parameters["name"]](parameters.get("arguments"))
        content = [{"type": "text", "text": json.dumps(answer)}]
        return {"result": {"content": content, "_meta": answer["_meta"], "isError": status == 400}}

    routes = {"/ask": ask, "/await": look, "/mcp": call}
    return Starlette(routes=[Route(path, endpoint, methods=["POST"]) for path, endpoint in routes.items()])


# -- both ------------------------------------------------------------------------------------------------------------


class SmallServer:
    """Both behind one address, with the fault that is set while one is."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.url = ""
        self._nlweb: ASGIApp = nlweb_app()
        self._aidre: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await FaultMiddleware(self._right, self.fault)(scope, receive, send)

    async def _right(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._aidre is not None
        app = self._nlweb if scope["path"] in {"/ask", "/await", "/mcp"} else self._aidre
        await app(scope, receive, send)

    @contextmanager
    def run(self) -> Iterator[None]:
        server = Server(self, lifespan="off")
        self.url = f"http://127.0.0.1:{server.port}"
        self._aidre = published_app(self.url)
        with server.run():
            yield
