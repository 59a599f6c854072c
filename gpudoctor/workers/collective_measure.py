"""Measures one collective at one size: warm, check, time in windows, check again.

A window is one barrier, then K operations one after the other, then the wait for the last: CUDA events around them
on the current stream, the clock on a CPU. Nothing else happens between, so the launch of an operation overlaps the
one before it, as in nccl-tests. Each rank's time is the median of its windows. All ranks take the same decisions:
these rest on numbers that were exchanged.
"""

import json
import statistics
import time
from typing import Any, Dict, List, Type

from collective_data import Pattern
from collective_kinds import Collective, unsupported
from collective_member import LONGEST
from collective_memory import COPIES, MIB, RESERVE_BYTES, free_bytes

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
NAMED_RANKS = 64  # of those with wrong data, so that the message fits one line
SAID_AGAIN_SECONDS = 1.0
"""Windows that take longer are announced one by one: whoever watches sees that the rank gets on."""


class Tester:
    """Runs the measurements of a launch on this rank. `rank` is collective.Rank."""

    def __init__(self, torch: Any, launch: Dict[str, Any], device: Any, rank: Any) -> None:
        self.torch = torch
        self.launch = launch
        self.device = device
        self.rank = rank
        self.ranks = torch.distributed.get_world_size()
        self.dtype = launch["dtype"]
        self.item_bytes = ITEM_BYTES[self.dtype]
        # Ranks of a node have a GPU each, unless they share it; they always share the host's memory.
        shared = device.type != "cuda" or launch.get("ranks_share_gpu")
        self.free_bytes = free_bytes(torch, device, rank.ranks_here if shared else 1)
        self.room = 0
        self.buffers: List[Any] = []
        self.pattern = Pattern(torch, self.dtype, device, self.ranks)

    # ---- what all ranks do together, outside the measured windows

    def gather(self, numbers: List[float]) -> List[List[float]]:
        """Every rank's numbers, by rank."""
        every = self.from_all(self.torch.tensor(numbers, dtype=self.torch.float64, device=self.device))
        return [[float(number) for number in of_rank] for of_rank in every]

    def exchange(self, fields: Dict[str, Any]) -> List[Dict[str, Any]]:
        """Every rank's fields, by rank: JSON in tensors of fixed size, for a pickle from elsewhere may run code."""
        text = json.dumps(fields).encode("ascii")
        padded = list(text[:LONGEST].ljust(LONGEST))
        every = self.from_all(self.torch.tensor(padded, dtype=self.torch.int32, device=self.device))
        if self.rank.rank != 0:
            return []
        return [json.loads(bytes(of_rank).decode("ascii")) for of_rank in every]

    def from_all(self, own: Any) -> List[List[Any]]:
        """Every rank's numbers, by rank: the sum of tables in which each has filled its own row.

        Trees and NVLS cannot gather, and since 2.24 NCCL ends with an error where NCCL_ALGO leaves nothing else, which
        --compare is there to try; sums of 32 and 64 bits all of its algorithms can do."""
        table = self.torch.zeros((self.ranks, len(own)), dtype=own.dtype, device=own.device)
        table[self.rank.rank] = own
        self.torch.distributed.all_reduce(table)
        rows: List[List[Any]] = table.tolist()
        return rows

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)

    def wait_for_all(self) -> None:
        on = [self.device.index] if self.device.type == "cuda" else None
        self.torch.distributed.barrier(device_ids=on)
        self.synchronize()

    def agree_on_room(self) -> None:
        """How many bytes the buffers may have: by the rank that has least left."""
        kind = self.device.type
        tables = 8 * 4 * (MIB << 2)  # the data check's tables (collective_data.PIECE)
        own = self.free_bytes - RESERVE_BYTES[kind] - (tables if kind == "cuda" else 0)
        least = min(numbers[0] for numbers in self.gather([float(max(0, own))]))
        self.room = int(least / COPIES[kind])

    # ---- one measurement

    def measure(self, kind: Type[Collective], name: str, size_bytes: int) -> None:
        phase = f"{name} of {size_bytes} bytes"
        self.rank.enter(phase)
        elements = kind.elements(size_bytes // self.item_bytes, self.ranks, self.item_bytes)
        needed = elements * self.item_bytes * kind.buffers
        if self.ranks < kind.least_ranks:
            return self.skip(name, size_bytes, f"needs {kind.least_ranks} ranks; there is 1")
        if elements == 0:
            return self.skip(name, size_bytes, f"less than one element for each of the {self.ranks} ranks")
        if needed > self.room or not self.allocate(elements, kind.buffers):
            want, have = -(-needed // MIB), self.room // MIB
            reason = f"needs {want} MiB of memory for its buffers; the rank with least has {have} MiB for them"
            return self.skip(name, size_bytes, reason)
        task = kind(self.torch, self.pattern, self.rank.rank, self.ranks, elements, self.buffers[0], self.buffers[-1])
        try:
            iterations = self.warm(task)
        except Exception as error:
            lacking = unsupported(error)
            if lacking is None:
                raise
            backend = self.launch["backend"]
            return self.skip(name, size_bytes, f"{backend} does not offer it for {self.dtype}: {lacking}")
        check = self.launch["check"]
        wrong = self.checked(task, phase, 0) if check else 0
        if check and task.keeps_its_data:
            task.fill(1)
        elif check:
            task.buffer.zero_()  # sums of sums would grow to infinity within the windows
        self.rank.enter(phase)
        times = []
        for _ in range(self.launch["repeats"]):
            times.append(self.window(task, iterations))
            if times[-1] * iterations > SAID_AGAIN_SECONDS:
                self.rank.enter(phase)
        if check:
            wrong = max(wrong, self.checked(task, phase, 1, filled=task.keeps_its_data))
        every = self.gather([statistics.median(times) * 1e6, float(wrong)])
        if self.rank.rank == 0:
            self.report(kind, name, elements, iterations, every)
        return None

    def warm(self, task: Collective) -> int:
        """Run the collective until its connections are made; the number of iterations that a window can have.

        The asked number, unless that took longer than `seconds_per_size` in all, or than half the timeout a window.
        """
        launch = self.launch
        warmup, iterations, repeats = launch["warmup"], launch["iterations"], launch["repeats"]
        task.fill(0)
        done = 0
        seconds = 0.0
        while True:
            self.wait_for_all()
            started = time.perf_counter()
            task.run()
            self.synchronize()
            done += 1
            # The ranks' slowest: all must come to the same number.
            seconds = max(1e-9, max(numbers[0] for numbers in self.gather([time.perf_counter() - started])))
            fits = int(launch["timeout"] / 2 / seconds)
            if launch["seconds_per_size"] > 0:
                fits = min(fits, int((launch["seconds_per_size"] / seconds - warmup) / repeats))
            if done > 1 or fits >= iterations:
                break  # the first may have made connections, and is not believed when it says "slow"
        few = fits < iterations
        for _ in range(0 if few else warmup - done):
            task.run()
        self.synchronize()
        return int(min(iterations, max(2, fits)))

    def window(self, task: Collective, iterations: int) -> float:
        """Seconds of one operation."""
        run = task.run
        self.wait_for_all()
        if self.device.type == "cuda":
            began, ended = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            for _ in range(iterations):
                run()
            ended.record()
            ended.synchronize()
            return float(began.elapsed_time(ended)) / 1e3 / iterations
        started = time.perf_counter()
        for _ in range(iterations):
            run()
        return (time.perf_counter() - started) / iterations

    def checked(self, task: Collective, phase: str, turn: int, filled: bool = False) -> int:
        """Wrong elements on this rank: of what the windows left when it is `filled`, else of one more run."""
        self.rank.enter("data check of " + phase)
        if not filled:
            task.fill(turn)
            task.run()
        wrong = int(task.wrong(turn))
        self.wait_for_all()  # nobody writes into a buffer that another rank still compares
        return wrong

    def allocate(self, elements: int, count: int) -> bool:
        """Have `count` buffers of at least so many elements, on all ranks or on none."""
        if len(self.buffers) >= count and all(buffer.numel() >= elements for buffer in self.buffers[:count]):
            return True
        self.buffers = []
        if self.device.type == "cuda":
            self.torch.cuda.empty_cache()
        try:
            dtype = getattr(self.torch, self.dtype)
            self.buffers = [self.torch.empty(elements, dtype=dtype, device=self.device) for _ in range(count)]
        except (RuntimeError, MemoryError):  # torch.cuda.OutOfMemoryError is a RuntimeError
            self.buffers = []
        everywhere = min(numbers[0] for numbers in self.gather([float(bool(self.buffers))])) > 0
        if not everywhere:
            self.buffers = []
        return everywhere

    # ---- what is said, by rank 0

    def skip(self, name: str, size_bytes: int, reason: str) -> None:
        if self.rank.rank == 0:
            self.rank.tell("skipped", collective=name, size_bytes=size_bytes, reason=reason)

    def report(
        self, kind: Type[Collective], name: str, elements: int, iterations: int, every: List[List[float]]
    ) -> None:
        times = [numbers[0] for numbers in every]
        wrong = [int(numbers[1]) for numbers in every]
        size = elements * self.item_bytes
        slowest = max(range(self.ranks), key=times.__getitem__)
        algorithm = size / times[slowest] / 1e3 if times[slowest] > 0 else 0.0  # bytes a microsecond are MB/s
        self.rank.tell(
            "row",
            collective=name,
            size_bytes=size,
            count=elements // self.ranks if kind.counts_one_part else elements,
            dtype=self.dtype,
            iterations=iterations,
            minimum_us=min(times),
            mean_us=sum(times) / self.ranks,
            maximum_us=times[slowest],
            slowest_rank=slowest,
            algorithm_bandwidth=algorithm,
            bus_bandwidth=algorithm * kind.factor(self.ranks),
            wrong=sum(wrong) if self.launch["check"] else None,
            wrong_ranks=[number for number, count in enumerate(wrong) if count][:NAMED_RANKS],
        )
