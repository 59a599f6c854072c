"""What an armed process and the communication layer tell, asked in one place: stacks, the recorder, RAS."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpudoctor.knowledge.faulthandler_text import MOST_FRAMES
from gpudoctor.knowledge.places import main_thread, place_of
from gpudoctor.read.job import armed, engine, ras, ras_elsewhere, reach, recorder, stacks
from gpudoctor.read.job.armed import ArmedProcess
from gpudoctor.read.job.recorder_apart import Readers
from gpudoctor.read.job.stacks import Stacks
from gpudoctor.read.job.wanted import Wanted
from gpudoctor.read.system import System
from gpudoctor.snapshot.evidence import Recorder, Sample, Unread
from gpudoctor.snapshot.ras import Ras

MOST_RAS = 4
"""RAS servers of a node that are asked: jobs in containers of their own have one each."""
BEFORE_COMMUNICATION = frozenset({"communicator init", "rendezvous", "unknown"})


class RankWithRas(NamedTuple):
    """What deciding about RAS takes."""

    pid: int
    environment: Mapping[str, str]
    nccl: str
    """Its version; "?" where NCCL is loaded and does not tell, empty where it is not loaded."""
    network_namespace: str


class Layers:
    """Of one order on one node."""

    def __init__(self, system: System, order: Wanted, node: int) -> None:
        self.system = system
        self.order = order
        self.node = node
        self._armed: dict[int, ArmedProcess | None] = {}
        self._readers = Readers(1)

    def stacks(self, pids: Sequence[int], seconds: float, *, variables: bool = False) -> dict[int, Stacks]:
        """By py-spy; where that may not, as an armed process writes them itself."""
        deadline = time.monotonic() + seconds
        by_pid = stacks.dump(pids, timeout=max(0.2, seconds), native=self.order.native, variables=variables)
        for pid, stack in by_pid.items():
            left = deadline - time.monotonic()
            if not stack.by and left > 0.1 and (how := self.armed(pid)) is not None:
                own = armed.stacks(pid, how, left)
                if own.by:
                    by_pid[pid] = own
        return {
            pid: stack._replace(threads=engine.joined(stack.threads, pid, MOST_FRAMES)) for pid, stack in by_pid.items()
        }

    def armed(self, pid: int) -> ArmedProcess | None:
        if pid not in self._armed:
            self._armed[pid] = armed.find(pid)
        return self._armed[pid]

    def recorder(
        self, pid: int, rank: int, environment: Mapping[str, str], deadline: float
    ) -> tuple[Recorder | None, tuple[Unread, ...]]:
        """The flight recorder of a rank, and why it could not be read where there is one."""
        how = self.armed(pid)

        def left() -> float:
            return max(0.2, min(recorder.PIPE_ANSWERS_IN, deadline - time.monotonic()))

        ask: Callable[[], bytes | None] | None = None
        if how is not None:
            prepared = how

            def ask() -> bytes | None:
                return armed.recorder_dump(pid, prepared, left())

        pipe = how.pipe if how is not None else ""

        def reading(raw: bytes, source: str, written_at: float) -> Recorder:
            return self._readers.of_bytes(raw, source, written_at, left())

        return recorder.of_process(pid, rank, environment, ask=ask, pipe=pipe, timeout=left(), reading=reading)

    def end(self) -> None:
        """End what reads for us."""
        self._readers.end()

    # --- RAS

    def ras(
        self, ranks: Sequence[RankWithRas], samples: Mapping[int, Sample], deadline: float
    ) -> tuple[tuple[Ras, ...], list[Unread]]:
        """Two polls, `order.seconds` apart, of each RAS of this node; any node's answers for the whole job."""
        answers: list[Ras] = []
        unread: list[Unread] = []
        places: dict[tuple[str, str, int], RankWithRas] = {}
        for rank in ranks:
            if rank.nccl and self._is_ours_to_ask():
                places.setdefault((rank.network_namespace, *ras.address(rank.environment)), rank)
        for (_, address, port), rank in list(places.items())[:MOST_RAS]:
            what = f"NCCL's RAS at {address}:{port}"
            if reason := ras.may_ask(
                rank.nccl, in_init=self._may_be_in_init(ranks, samples), environment=rank.environment
            ):
                unread.append(Unread(what, reason, rank.pid))
                continue
            # Only a server of the job's own user, where it listens: the address is the job's word.
            if not (address := reach.listener_of(self.system, rank.pid, port)):
                unread.append(Unread(what, "nothing of the job's user listens there", rank.pid))
                continue
            try:
                answers.append(ras_elsewhere.ask(rank.pid, address, port, timeout=deadline - time.monotonic()))
                time.sleep(max(0.0, min(self.order.seconds, deadline - time.monotonic() - 1.0)))
                answers.append(ras_elsewhere.ask(rank.pid, address, port, timeout=deadline - time.monotonic()))
            except ras.NoRas as error:
                unread.append(Unread(what, str(error), rank.pid))
        return tuple(answers), unread

    def _is_ours_to_ask(self) -> bool:
        """One node of a job is enough: the one of its lowest rank. The order names the ranks of all nodes."""
        lowest = {node: min(ranks.values()) for node, ranks in self.order.ranks.items() if ranks}
        return bool(lowest) and lowest.get(str(self.node)) == min(lowest.values())

    def _may_be_in_init(self, ranks: Sequence[RankWithRas], samples: Mapping[int, Sample]) -> bool:
        """A rank makes a communicator, or it is not known that none does: those of other nodes are out of sight."""
        if any(self.order.ranks.get(node) for node in self.order.ranks if node != str(self.node)):
            return True
        for rank in ranks:
            sample = samples.get(rank.pid)
            if sample is None or place_of(main_thread(sample, rank.pid)).kind in BEFORE_COMMUNICATION:
                return True
        return False
