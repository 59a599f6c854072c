"""What the head spends on many nodes: `python -m tests.bench.fleet [NODES]`. Prints numbers, asserts nothing.

The nodes are simulated: each answers an order to examine with the snapshot of a healthy machine of eight GPUs, as a
line of bytes, as it would come out of an ssh. The last part starts real agents on this machine.
"""

import os
import resource
import sys
import threading
import time

import msgspec

from gpudoctor import __version__, snapshot
from gpudoctor.fleet.fleet import Fleet, Node
from gpudoctor.fleet.lines import CHUNK_BYTES, ArrivingLines
from gpudoctor.fleet.local import LocalFleet
from gpudoctor.fleet.messages import Examine, Examined, Hello, encode, order_from
from gpudoctor.fleet.reach import reach
from gpudoctor.testing.machines import h100_node

REAL_AGENTS = 16


class Simulated(Fleet):
    """Answers come from a thread, as those of ssh do."""

    how = "ssh"

    def __init__(self, count: int, machine: bytes) -> None:
        super().__init__([Node(f"n{index:04}") for index in range(count)])
        self._machine = machine
        for node in range(count):
            self.heard(node, encode(Hello(node=node, hostname=self.name(node), gpudoctor=__version__)))

    def write(self, line: bytes) -> None:
        order = order_from(line)
        if isinstance(order, Examine):
            threading.Thread(target=self._answer, args=(order.number,), daemon=True).start()

    def _answer(self, number: int) -> None:
        for node in range(len(self.nodes)):
            line = encode(Examined(number=number, snapshot=msgspec.Raw(self._machine)))
            lines = ArrivingLines()
            for start in range(0, len(line), CHUNK_BYTES):
                for complete in lines.feed(line[start : start + CHUNK_BYTES]):
                    self.heard(node, complete)

    def close(self) -> None:
        pass


def simulated(count: int) -> None:
    machine = snapshot.to_json(h100_node())
    begun, processor = time.perf_counter(), time.process_time()
    with Simulated(count, machine) as fleet:
        reached = reach(fleet, timeout=60)
        answers = fleet.ask(Examine(), Examined, timeout=60)
        snapshots = {}
        for node in sorted(answers):
            answer = answers.pop(node)  # its bytes are not kept beside what they were decoded to
            if isinstance(answer, Examined):
                snapshots[fleet.name(node)] = snapshot.from_json(bytes(answer.snapshot))
    took, processor = time.perf_counter() - begun, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count} simulated nodes, snapshots of {len(machine) / 1024:.0f} KiB: {len(reached)} reached,")
    print(f"  {len(snapshots)} examined and decoded in {took:.2f} s ({processor:.2f} s CPU), {peak:.0f} MiB at most")


def real(count: int) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    with LocalFleet([f"n{index}" for index in range(count)]) as fleet:
        reach(fleet, timeout=60)
        reached = time.perf_counter()
        fleet.ask(Examine(python=sys.executable), Examined, timeout=60)
        examined = time.perf_counter()
    closed = time.perf_counter()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{count} real agents on {os.cpu_count()} processors: said hello within {reached - begun:.2f} s,")
    print(f"  examined in {examined - reached:.2f} s, closed in {closed - examined:.2f} s;")
    print(f"  {processor / count:.3f} s CPU each")


if __name__ == "__main__":
    simulated(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
    real(REAL_AGENTS)
