"""The collectives that the test runs: how large, in which buffers, what their data must be, and how they are called.

Sizes, counts and bus-bandwidth factors are those of nccl-tests (src/*.cu, doc/PERFORMANCE.md), in its in-place
layout where it has one that it checks; so a row can be held against its row.
"""

from typing import Any, Dict, List, Optional, Type

from collective_data import NEVER, Pattern

TWO_WAY = 2.0  # an all-reduce moves everything twice: to where it is added up, and back


class Collective:
    """One collective at one size, on this rank. `first` and `second` are buffers of at least `elements` elements."""

    buffers = 1
    keeps_its_data = True
    """Run again on what it left, it gives the same: the last of many can be checked."""
    least_ranks = 1
    counts_one_part = False
    """The count of nccl-tests is of one rank's part, not of the whole."""

    def __init__(
        self, torch: Any, pattern: Pattern, rank: int, ranks: int, elements: int, first: Any, second: Any
    ) -> None:
        self.torch = torch
        self.distributed = torch.distributed
        self.pattern = pattern
        self.rank = rank
        self.ranks = ranks
        self.part = elements // ranks
        self.buffer = first[:elements]
        self.arrived = second[:elements] if self.buffers > 1 else self.buffer
        self.prepare()

    @staticmethod
    def elements(wanted: int, ranks: int, item_bytes: int) -> int:
        """Elements of the whole buffer, for a size that wants so many."""
        return wanted

    @staticmethod
    def factor(ranks: int) -> float:
        """Bus bandwidth = algorithm bandwidth times this."""
        return 1.0

    def prepare(self) -> None:
        """What can be made once, outside the measured windows."""

    def run(self) -> None:
        raise NotImplementedError

    def fill(self, turn: int) -> None:
        """Write what this rank gives, and `NEVER` where something must arrive."""
        raise NotImplementedError

    def wrong(self, turn: int) -> Any:
        """How many elements differ from what must have arrived (a tensor)."""
        raise NotImplementedError

    def slice(self, buffer: Any, index: int) -> Any:
        return buffer[index * self.part : (index + 1) * self.part]


def shared_out(wanted: int, ranks: int, item_bytes: int) -> int:
    """Total elements when each rank has an equal part, a multiple of 16 bytes unless that would be nothing."""
    part = wanted // ranks
    if part * item_bytes >= 16:
        part -= part % (16 // item_bytes)
    return part * ranks


class AllReduce(Collective):
    keeps_its_data = False

    @staticmethod
    def factor(ranks: int) -> float:
        return TWO_WAY * (ranks - 1) / ranks

    def run(self) -> None:
        self.distributed.all_reduce(self.buffer)

    def fill(self, turn: int) -> None:
        self.pattern.share(self.rank, turn).write(self.buffer, 0)

    def wrong(self, turn: int) -> Any:
        return self.pattern.total(turn).wrong(self.buffer, 0)


class Shared(Collective):
    """Each rank gives or gets a part of the whole."""

    counts_one_part = True
    elements = staticmethod(shared_out)

    @staticmethod
    def factor(ranks: int) -> float:
        return (ranks - 1) / ranks


class AllGather(Shared):
    def prepare(self) -> None:
        # Renamed in torch 2.13; the old name warns there.
        newest = getattr(self.distributed, "all_gather_single", None)
        self.gather = newest or self.distributed.all_gather_into_tensor
        self.own = self.slice(self.buffer, self.rank)

    def run(self) -> None:
        self.gather(self.buffer, self.own)

    def fill(self, turn: int) -> None:
        self.buffer.fill_(NEVER)
        table, start = self.pattern.moved(self.rank, 0, turn)
        table.write(self.own, start)

    def wrong(self, turn: int) -> Any:
        wrong: Any = 0
        for source in range(self.ranks):
            table, start = self.pattern.moved(source, 0, turn)
            wrong = wrong + table.wrong(self.slice(self.buffer, source), start)
        return wrong


class ReduceScatter(Shared):
    keeps_its_data = False

    def prepare(self) -> None:
        newest = getattr(self.distributed, "reduce_scatter_single", None)
        self.scatter = newest or self.distributed.reduce_scatter_tensor
        self.own = self.slice(self.buffer, self.rank)

    def run(self) -> None:
        self.scatter(self.own, self.buffer)

    def fill(self, turn: int) -> None:
        self.pattern.share(self.rank, turn).write(self.buffer, 0)

    def wrong(self, turn: int) -> Any:
        return self.pattern.total(turn).wrong(self.own, self.rank * self.part)


class Broadcast(Collective):
    """From rank 0 to all."""

    def run(self) -> None:
        self.distributed.broadcast(self.buffer, 0)

    def fill(self, turn: int) -> None:
        if self.rank == 0:
            table, start = self.pattern.moved(0, 0, turn)
            table.write(self.buffer, start)
        else:
            self.buffer.fill_(NEVER)

    def wrong(self, turn: int) -> Any:
        table, start = self.pattern.moved(0, 0, turn)
        return table.wrong(self.buffer, start)


class AllToAll(Shared):
    """Out of place: nccl-tests does not check its in-place one."""

    buffers = 2

    def run(self) -> None:
        self.distributed.all_to_all_single(self.arrived, self.buffer)

    def fill(self, turn: int) -> None:
        self.arrived.fill_(NEVER)
        for destination in range(self.ranks):
            table, start = self.pattern.moved(self.rank, destination, turn)
            table.write(self.slice(self.buffer, destination), start)

    def wrong(self, turn: int) -> Any:
        wrong: Any = 0
        for source in range(self.ranks):
            table, start = self.pattern.moved(source, self.rank, turn)
            wrong = wrong + table.wrong(self.slice(self.arrived, source), start)
        return wrong


class SendReceive(Collective):
    """Every rank sends to the next and receives from the one before, at the same time: a ring."""

    buffers = 2
    least_ranks = 2

    def prepare(self) -> None:
        distributed = self.distributed
        self.before = (self.rank - 1) % self.ranks
        self.both: List[Any] = [
            distributed.P2POp(distributed.isend, self.buffer, (self.rank + 1) % self.ranks),
            distributed.P2POp(distributed.irecv, self.arrived, self.before),
        ]

    def run(self) -> None:
        for work in self.distributed.batch_isend_irecv(self.both):
            work.wait()

    def fill(self, turn: int) -> None:
        self.arrived.fill_(NEVER)
        table, start = self.pattern.moved(self.rank, 0, turn)
        table.write(self.buffer, start)

    def wrong(self, turn: int) -> Any:
        table, start = self.pattern.moved(self.before, 0, turn)
        return table.wrong(self.arrived, start)


KINDS: Dict[str, Type[Collective]] = {
    "all_reduce": AllReduce,
    "all_gather": AllGather,
    "reduce_scatter": ReduceScatter,
    "broadcast": Broadcast,
    "all_to_all": AllToAll,
    "send_recv": SendReceive,
}


def unsupported(error: BaseException) -> Optional[str]:
    """Why a backend has no such collective or type, when that is what an exception says; all ranks see it alike."""
    text = " ".join(str(error).split())
    lowered = text.lower()
    says_so = any(
        words in lowered for words in ("not support", "unsupported", "not implemented", "invalid scalar type")
    )
    if isinstance(error, NotImplementedError) or (isinstance(error, (RuntimeError, ValueError)) and says_so):
        return text[:300] or "not implemented"
    return None
