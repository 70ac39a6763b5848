"""A client over kept connections that says exactly what was sent and came: no library between it and the socket."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from tests.support.clocks import WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class Answer:
    """`status` 0: the connection ended without an answer."""

    status: int
    fields: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def request(method: str, path: str, body: bytes | None = None, **fields: str) -> bytes:
    """A request as bytes; an underscore in the name of a field stands for a hyphen."""
    said = {"Host": "127.0.0.1", **{name.replace("_", "-"): value for name, value in fields.items()}}
    if body is not None:
        said = {"Content-Type": "application/json", **said, "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b"")


def posted(path: str, body: Any, **fields: str) -> bytes:
    return request("POST", path, json.dumps(body).encode(), **fields)


class Connection:
    """One connection, opened when it is needed, and again where the server has ended it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, content: bytes) -> Answer:
        """Its answer. A kept connection that ends without a byte is tried once more on a new one."""
        kept = self._streams is not None
        try:
            answer = await asyncio.wait_for(self._asked(content), WAIT_SECONDS)
        except (OSError, EOFError):
            answer = Answer(0, {}, b"")
        if answer.status:
            return answer
        self.close()
        return await self.ask(content) if kept else answer

    async def _asked(self, content: bytes) -> Answer:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        reader, writer = self._streams
        writer.write(content)
        await writer.drain()
        answer = await read_answer(reader, head_only=content.startswith(b"HEAD "))
        if answer.fields.get("connection") == "close":
            self.close()
        return answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def read_answer(reader: asyncio.StreamReader, *, head_only: bool = False) -> Answer:
    """The next answer; EOFError where none comes."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.strip().split("\r\n")
    pairs = (part.partition(":") for part in lines)
    fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
    status = int(line.split(" ", 2)[1])
    if head_only or status in {204, 304}:
        return Answer(status, fields, b"")
    if fields.get("transfer-encoding") == "chunked":
        return Answer(status, fields, await _chunks(reader))
    if "content-length" in fields:
        return Answer(status, fields, await reader.readexactly(int(fields["content-length"])))
    return Answer(status, fields, await reader.read())


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(parts)


def ask(port: int, content: bytes) -> Answer:
    """One answer on a connection of its own."""

    async def asked() -> Answer:
        connection = Connection(port)
        try:
            return await connection.ask(content)
        finally:
            connection.close()

    return asyncio.run(asked())
