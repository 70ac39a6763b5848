"""Clients that make a server keep what they can, a process of their own: `python -m tests.hostile.hoard PORT COUNT`.

They send bodies and headers that do not end, ask ahead without end, or ask for much and read nothing. All keep
their connections until the standard input ends. Prints how many are connected when all have sent.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import sys
from contextlib import suppress

JSON_HEAD = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BODY = JSON_HEAD + b"Content-Length: 1048576\r\n\r\n" + b" " * 1_040_000
SMALL = JSON_HEAD + b"Content-Length: 20000\r\n\r\n" + b" " * 15_000
HEADER = JSON_HEAD + b"X-Long: " + b"a" * 60_000
AHEAD = b"GET /collections HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
READS_NOTHING = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50
KINDS = (BODY, SMALL, HEADER, AHEAD, READS_NOTHING)
SENDING_SECONDS = 2.0
SMALL_BUFFER = 4_096
AT_ONCE = 200
"""Clients that send at the same time."""


async def hoard(port: int, content: bytes, turns: asyncio.Semaphore) -> socket.socket | None:
    """A connection that has sent as much of the content as the server took."""
    loop = asyncio.get_running_loop()
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
    client.setblocking(False)
    async with turns:
        with suppress(OSError, TimeoutError):
            await asyncio.wait_for(loop.sock_connect(client, ("127.0.0.1", port)), 10 * SENDING_SECONDS)
            with suppress(TimeoutError):
                await asyncio.wait_for(loop.sock_sendall(client, content), SENDING_SECONDS)
            return client
    client.close()
    return None


async def run(port: int, count: int) -> None:
    turns = asyncio.Semaphore(AT_ONCE)
    clients = await asyncio.gather(*(hoard(port, KINDS[number % len(KINDS)], turns) for number in range(count)))
    print(sum(client is not None for client in clients), flush=True)  # noqa: T201 - a program's output
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2])))
