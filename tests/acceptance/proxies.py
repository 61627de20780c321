"""A TCP proxy on loopback that can be away: it ends what is open and refuses what comes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from types import TracebackType
from typing import Self


class Proxy:
    """Passes connections on to an address of this machine until it is away."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        self._listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hang_up()

    @contextmanager
    def away(self) -> Iterator[None]:
        self._hang_up()
        try:
            yield
        finally:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._listen()

    def _listen(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _hang_up(self) -> None:
        for end in (self._listener, *self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits there
            end.close()
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _address = listener.accept()
                far = socket.create_connection(self._target)
                self._open |= {near, far}
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with closing(source), closing(sink), suppress(OSError):
            while block := source.recv(65_536):
                sink.sendall(block)
