"""Starts the MCP server of `mcp.json` as a chat program does, and calls its search tool."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def ask(question: str) -> None:
    configuration = json.loads(Path("mcp.json").read_text(encoding="utf-8"))
    server = StdioServerParameters(**configuration["mcpServers"]["notes"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        print("tools:", ", ".join(tool.name for tool in (await session.list_tools()).tools))
        answer = await session.call_tool("search", {"query": question})
        for content in answer.content:
            print(getattr(content, "text", ""))


if __name__ == "__main__":
    asyncio.run(ask(sys.argv[1]))
