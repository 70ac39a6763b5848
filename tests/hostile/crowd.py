"""Clients that are slow on purpose, as a process of their own: `python -m tests.hostile.crowd PORT SECONDS COUNT`.

One third sends headers a line at a time, one third a body a byte at a time, one third asks for much and reads little.
What the server ends is begun anew, so that there are always as many. Prints, as JSON, how long each was borne.
"""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import sys
import time
from contextlib import suppress

RAMP_SECONDS = 0.02
"""Between one that comes and the next: fifty a second, as slowhttptest does it."""

PAUSE_SECONDS = 0.5
SMALL_BUFFER = 4_096
ANSWERS = 100
"""Asked for at once by one who reads little."""

GIVEN_UP_SECONDS = 32.0
"""Until then the server has ended it; what the system holds for the reader comes for hours."""

MOST_KEPT = 256


class Crowd:
    def __init__(self, port: int, seconds: float) -> None:
        self._port = port
        self._end = time.monotonic() + seconds
        self.borne: dict[str, list[float]] = {"headers": [], "bodies": []}
        self.said: dict[str, dict[str, int]] = {kind: {} for kind in self.borne}

    async def run(self, count: int) -> None:
        kinds = [self._headers, self._bodies, self._readers]
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                tasks.create_task(kinds[number % 3]())
                await asyncio.sleep(RAMP_SECONDS)  # all at once would be another attack

    @property
    def _over(self) -> bool:
        return time.monotonic() >= self._end

    async def _headers(self) -> None:
        begin = b"GET /collections HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        while not self._over:
            await self._trickle("headers", begin, b"X-Slow: yes\r\n")

    async def _bodies(self) -> None:
        begin = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        begin += b"Content-Length: 100000\r\n\r\n"
        while not self._over:
            await self._trickle("bodies", begin, b" ")

    async def _trickle(self, kind: str, begin: bytes, piece: bytes) -> None:
        began = time.monotonic()
        said = b""
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(begin)
            while not self._over:
                with suppress(TimeoutError):
                    said = await asyncio.wait_for(reader.read(MOST_KEPT), PAUSE_SECONDS)
                    break
                writer.write(piece)
            writer.transport.abort()
        if not self._over:
            self._note(kind, time.monotonic() - began, said)

    async def _readers(self) -> None:
        loop = asyncio.get_running_loop()
        request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        while not self._over:
            began = time.monotonic()
            with suppress(OSError), socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", self._port))
                with suppress(TimeoutError):
                    await asyncio.wait_for(loop.sock_sendall(client, request * ANSWERS), PAUSE_SECONDS)
                while (
                    not self._over and time.monotonic() < began + GIVEN_UP_SECONDS and await loop.sock_recv(client, 16)
                ):
                    await asyncio.sleep(PAUSE_SECONDS)

    def _note(self, kind: str, seconds: float, said: bytes) -> None:
        self.borne[kind].append(seconds)
        status = said[9:12].decode("latin-1") or "none"
        self.said[kind][status] = self.said[kind].get(status, 0) + 1


def main(port: int, seconds: float, count: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * count + 256), hard))
    crowd = Crowd(port, seconds)
    asyncio.run(crowd.run(count))
    json.dump({"borne": crowd.borne, "said": crowd.said}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
