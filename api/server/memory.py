"""How many bytes a process keeps for its callers: of requests that have not come whole, and of answers not yet read.

Each of the two has a budget, and each address a share of it. A request that comes whole in one piece and an answer that
the system's buffers take are not counted: nearly all are such, so counting costs them nothing. One connection has one
`Charge` on each budget, which it resizes as its buffers grow and shrink.
"""

from __future__ import annotations

from typing import Any

from aidre.api.access import ClientAddresses

MAX_UNFINISHED_BYTES = 128 << 20
"""The default of a budget."""
ADDRESS_SHARE = 4
"""An address may hold a quarter of a budget, or what one of its connections holds alone."""
RESERVE_SHARE = 8
"""An eighth of a budget is kept for small requests, so that large ones leave room for searches."""
REQUEST_BYTES = 10_240
"""What the objects of a request that has begun occupy beside its bytes, as measured."""
QUEUED_BYTES = 4_096
"""The same for one that waits for the one before it, and has no task."""
PIECE_BYTES = 64
"""The same for one piece of a body."""
SMALL_BYTES = 32_768
"""A request up to this size may use the reserve, and is not measured by the share of its address: other callers from
the same proxy or machine are served while one of them fills its share."""


class Charge:
    """What one connection holds of a budget."""

    __slots__ = ("_address", "_budget", "size")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._address = ""
        self.size = 0

    def resize(self, size: int, address: str) -> bool:
        """Whether there is room for `size` bytes; if not, the charge stays what it was."""
        budget = self._budget
        if size > self.size and not budget.has_room(self.size, size, address):
            return False
        self.release()
        if size:
            self.size, self._address = size, address
            budget.add(address, size)
        return True

    def shrink(self, size: int) -> None:
        if size < self.size:
            self._budget.add(self._address, size - self.size)
            self.size = size

    def release(self) -> None:
        self.shrink(0)


class MemoryBudget:
    """A shared budget: the bytes of all charges may be at most `most`."""

    __slots__ = ("_of_addresses", "most", "used")

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self._of_addresses: dict[str, int] = {}

    @property
    def is_pressed(self) -> bool:
        """Whether half of it is used: who makes no progress is given up sooner then."""
        return self.used > self.most // 2

    def has_room(self, former: int, size: int, address: str) -> bool:
        """Whether a charge may grow from `former` bytes to `size`."""
        used = self.used - former + size
        if size <= SMALL_BYTES:
            return used <= self.most
        if used > self.most - self.most // RESERVE_SHARE:
            return False
        others = self._of_addresses.get(address, 0) - former
        return others <= 0 or others + size <= self.most // ADDRESS_SHARE

    def add(self, address: str, size: int) -> None:
        self.used += size
        held = self._of_addresses.get(address, 0) + size
        if held:
            self._of_addresses[address] = held
        else:
            del self._of_addresses[address]


class ClientMemory:
    """The two budgets of a process, of `most` bytes each. `addresses` says whose connection or request one is."""

    __slots__ = ("_addresses", "answers", "requests")

    def __init__(self, most: int = MAX_UNFINISHED_BYTES, addresses: ClientAddresses | None = None) -> None:
        self.requests = MemoryBudget(most)
        self.answers = MemoryBudget(most)
        self._addresses = ClientAddresses() if addresses is None else addresses

    def address_of(self, scope: Any) -> str:
        return self._addresses.of(scope)
