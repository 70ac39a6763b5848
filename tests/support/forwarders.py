"""A forwarder of TCP between a client and a server of the tests, which can go away and come back."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_BYTES = 1 << 16


class Forwarder:
    """Listens on a port of the loopback interface; `stop` ends every connection, and refuses new ones until `start`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._listen()

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listen()

    def stop(self) -> None:
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._sockets.clear()

    def _listen(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=_copy, args=(source, sink), daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_BYTES):
            sink.sendall(data)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
