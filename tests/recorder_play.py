"""Dumps of flight recorders of jobs that never ran: schedules played rank by rank, with a fault put in, and written as
torch's FlightRecorder writes them (version 2.10). What must be told of each
set is in `recorder_sets`.

A rank issues its operations in order, its GPU takes them in order, and one ends when the GPUs of all its ranks are at
it. Fields, numbers and states are those of torch/csrc/distributed/c10d/FlightRecorder: an entry is made when it is
issued, `collective_seq_id` counts a group's collectives, `p2p_seq_id` its sends and receives on this rank, `op_id`
both.
"""

import hashlib
import json
import os
import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

BASE = 1_790_000_000.0
"""Seconds: when the jobs ran."""
TIMEOUT = 180.0
TURN = 0.25
"""Seconds in which each rank issues up to three operations, and its GPU begins or ends one."""
Kind = Literal["away", "ended by peers", "never begun", "dead", "skips", "crossed", "link", ""]


class Fault(NamedTuple):
    """What is done to a rank, from one of its operations on."""

    rank: int
    kind: Kind
    at: int
    """Index of the operation among those of the rank; of a link, the turn."""


class SetOfDumps(NamedTuple):
    id: str
    layout: str
    faults: tuple[Fault, ...]
    culprits: Mapping[int, str]
    """What must be told: rank -> "away", "stuck" or "dead". Of a set without any: that nobody is to blame."""
    group: str = ""
    """The description of the group in which others wait for the first of them."""
    ring: int = 2000
    only_active: bool = False
    timing: bool = False
    """With TORCH_NCCL_ENABLE_TIMING a dump says what has begun."""
    without: tuple[int, ...] = ()
    """Ranks whose dump is not given."""
    written_after: Mapping[int, float] = {}
    """Seconds before (-) or after the others at which a rank has written its dump."""
    in_flight: int = 0
    """The job runs: the dumps were asked for after so many turns."""
    decidable: bool = True
    """Whether these dumps can tell it at all."""

    @property
    def keep(self) -> bool:
        """Whether its answer is only counted, and not looked at."""
        return hashlib.sha256(self.id.encode()).digest()[0] % 2 == 1


class Op(NamedTuple):
    kind: str
    group: str
    peer: int = -1
    elements: int = 4096
    free: bool = False
    """On its own stream: what follows does not wait for it."""
    parts: tuple["Op", ...] = ()
    """What was issued between startCoalescing and endCoalescing: each has an entry that stays "scheduled", and one
    entry more is that of the work."""


SYNC = Op("sync", "")
GATE = Op("gate", "")
"""What follows waits on the GPU for all that was issued before; no recorder has it."""


# ---------------------------------------------------------------- layouts


class Layout:
    """Groups by name, and what each rank does in a step."""

    def __init__(self, tp: int, pp: int, dp: int, *, experts: bool = False, ahead: bool = False) -> None:
        self.world, self.tp, self.pp, self.dp, self.experts = tp * pp * dp, tp, pp, dp, experts
        self.ahead, self.steps = ahead, 3
        self.groups: dict[str, tuple[str, tuple[int, ...]]] = {"0": ("default_pg", tuple(range(self.world)))}
        self.of: defaultdict[int, dict[str, str]] = defaultdict(dict)
        for rank in range(self.world):
            self.of[rank]["all"] = "0"
        every = range(self.world)
        self._add("tp", "TENSOR_MODEL_PARALLEL_GROUP", [(r // tp,) for r in every])
        self._add("pp", "PIPELINE_MODEL_PARALLEL_GROUP", [(r % tp, r // tp % dp) for r in every])
        self._add("dp", "DATA_PARALLEL_GROUP", [(r % tp, r // (tp * dp)) for r in every])
        if experts:
            self._add("ep", "EXPERT_MODEL_PARALLEL_GROUP", [(r // (tp * dp),) for r in every])

    def _add(self, short: str, description: str, keys: Sequence[tuple[int, ...]]) -> None:
        members: dict[tuple[int, ...], list[int]] = {}
        for rank, key in enumerate(keys):
            members.setdefault(key, []).append(rank)
        for ranks in members.values():
            if len(ranks) > 1:
                name = str(len(self.groups))
                self.groups[name] = (description, tuple(ranks))
                for rank in ranks:
                    self.of[rank][short] = name

    def stage(self, rank: int) -> int:
        return rank // (self.tp * self.dp)

    def program(self, rank: int) -> list[Op]:
        return [op for _ in range(self.steps) for op in self._step(rank)]

    def _step(self, rank: int) -> Iterator[Op]:
        own, stage = self.of[rank], self.stage(rank)
        before, after = stage - 1, stage + 1
        hop = self.tp * self.dp
        microbatches = self.pp + 1 if self.pp > 1 else 2
        for last, elements in ((self.pp, 4096), (-1, 4000)):  # forward, and backward
            source, target = (before, after) if last == self.pp else (after, before)
            takes, gives = 0 <= source < self.pp, 0 <= target < self.pp
            take = Op("recv", own.get("pp", ""), rank + (source - stage) * hop, elements, free=self.ahead)
            give = Op("send", own.get("pp", ""), rank + (target - stage) * hop, elements)
            if takes and self.ahead:
                yield take
            for microbatch in range(microbatches):
                if takes and self.ahead:
                    yield GATE
                if takes and (not self.ahead or microbatch + 1 < microbatches):
                    yield take
                yield from self._layers(rank)
                if gives:
                    yield give
        if "dp" in own:
            for bucket in range(3):
                yield Op("all_reduce", own["dp"], elements=1 << 20 + bucket, free=True)
        yield Op("all_reduce", "0", elements=1)
        yield SYNC

    def _layers(self, rank: int) -> Iterator[Op]:
        own = self.of[rank]
        if "tp" in own:
            yield Op("_all_gather_base", own["tp"])
        if "ep" in own:
            yield Op("all_to_all", own["ep"])
            yield Op("all_to_all", own["ep"])
        if "tp" in own:
            yield Op("_reduce_scatter_base", own["tp"])


LAYOUTS: Mapping[str, tuple[int, int, int, str]] = {
    "dp8": (1, 1, 8, ""),
    "tp2-pp4": (2, 4, 1, ""),
    "tp4-dp4": (4, 1, 4, ""),
    "tp2-pp2-dp4-ep": (2, 2, 4, "experts"),
    "pp4-dp2": (1, 4, 2, ""),
    "ep8": (1, 1, 8, "experts"),
    "tp2-pp4-ahead": (2, 4, 1, "ahead"),
}
"""Sizes, and whether there are experts, or receives are asked for one microbatch ahead."""


def layout_of(name: str) -> Layout:
    if name not in LAYOUTS:
        from tests.recorder_shapes import SHAPES

        return SHAPES[name]()
    tp, pp, dp, more = LAYOUTS[name]
    return Layout(tp, pp, dp, experts=more == "experts", ahead=more == "ahead")


# ---------------------------------------------------------------- playing it


class Entry:
    """An operation as one rank has issued it."""

    def __init__(self, op: Op, number: int, sequence: int, pairs: int, op_id: int, created: float) -> None:
        self.op, self.number, self.sequence, self.pairs, self.op_id = op, number, sequence, pairs, op_id
        self.created = created
        self.begun = self.ended = 0.0
        self.parts = op.parts or (op,)
        self.met: set[int] = set()
        """Of its parts, those that their peers have come to."""

    @property
    def is_pair(self) -> bool:
        return self.parts[0].kind in ("send", "recv")


class Player:
    def __init__(self, layout: Layout, faults: Sequence[Fault], turns: int) -> None:
        self.layout = layout
        self.now = 0.0
        self.faults = {fault.rank: fault for fault in faults}
        self.programs = {rank: self._with_fault(rank, layout.program(rank)) for rank in range(layout.world)}
        self.at = dict.fromkeys(self.programs, 0)
        self.issued: dict[int, list[Entry]] = {rank: [] for rank in self.programs}
        self.sequences: defaultdict[tuple[int, str, bool], int] = defaultdict(int)
        self.op_ids: defaultdict[tuple[int, str], int] = defaultdict(int)
        while turns and self._turn():
            self.now += TURN
            turns -= 1

    def _with_fault(self, rank: int, program: list[Op]) -> list[Op]:
        fault = self.faults.get(rank)
        if fault is not None and fault.kind == "skips":
            del program[fault.at]
        if fault is not None and fault.kind == "crossed":
            program[fault.at], program[fault.at + 1] = program[fault.at + 1], program[fault.at]
        return program

    def _turn(self) -> bool:
        moved = False
        for rank in self.programs:
            moved |= self._issue(rank)
        for rank in self.programs:
            moved |= self._begin(rank)
        return self._end() or moved

    def _issue(self, rank: int) -> bool:
        moved = False
        for _ in range(3):  # Python runs ahead of the GPU
            at, fault = self.at[rank], self.faults.get(rank)
            if at >= len(self.programs[rank]):
                return moved
            if fault is not None and fault.kind in ("away", "dead") and at >= fault.at:
                return moved
            op = self.programs[rank][at]
            if op.kind == "sync":
                if any(not entry.ended for entry in self.issued[rank]):
                    return moved
                self.at[rank] += 1
                moved = True
                continue
            pair = (op.parts or (op,))[0].kind in ("send", "recv")
            self.sequences[rank, op.group, pair] += op is not GATE
            self.op_ids[rank, op.group] += len(op.parts) or op is not GATE
            sequence, pairs = self.sequences[rank, op.group, False], self.sequences[rank, op.group, True]
            created = self.now + rank * 1e-5
            self.issued[rank].append(Entry(op, at, sequence, pairs, self.op_ids[rank, op.group], created))
            self.at[rank] += 1
            moved = True
        return moved

    def _begin(self, rank: int) -> bool:
        moved, fault = False, self.faults.get(rank)
        under_way: set[tuple[str, bool]] = set()
        for entry in self.issued[rank]:
            if entry.ended:
                continue
            gpu_stands = fault is not None and fault.kind in ("never begun", "ended by peers")
            if fault is not None and gpu_stands and entry.number >= fault.at + (fault.kind == "ended by peers"):
                return moved
            if entry.op is GATE:
                earlier = self.issued[rank][: self.issued[rank].index(entry)]
                if any(not each.ended for each in earlier):
                    return moved
                entry.begun = entry.ended = self.now
                moved = True
                continue
            own = (entry.op.group, entry.is_pair)
            if not entry.begun and not (own in under_way and (entry.op.parts or not entry.is_pair)):
                entry.begun = self.now
                moved = True
            under_way.add(own)  # what has a communicator of its own takes its turn there
            if not entry.op.free:
                return moved
        return moved

    def _end(self) -> bool:
        moved = False
        open_ones: defaultdict[tuple[str, int], dict[int, Entry]] = defaultdict(dict)
        for rank, entries in self.issued.items():
            for entry in entries:
                if entry.is_pair and entry.begun and not entry.ended:
                    moved |= self._end_pair(rank, entry)
                elif not entry.is_pair and entry.op is not GATE:
                    open_ones[entry.op.group, entry.sequence][rank] = entry
        for (group, _), by_rank in open_ones.items():
            if len(by_rank) < len(self.layout.groups[group][1]) or len({each.op.kind for each in by_rank.values()}) > 1:
                continue
            if all(each.begun for each in by_rank.values()) and any(not each.ended for each in by_rank.values()):
                for rank, entry in by_rank.items():
                    moved |= not entry.ended and self._ended(rank, entry)
        return moved

    def _end_pair(self, rank: int, entry: Entry) -> bool:
        """Sends and receives meet in the order in which they were issued; together they end when all have met."""
        before = len(entry.met)
        for at, part in enumerate(entry.parts):
            nth = self._way(rank, part.kind, part.peer).index((entry, at))
            others = self._way(part.peer, "recv" if part.kind == "send" else "send", rank)
            if nth < len(others) and others[nth][0].begun:
                entry.met.add(at)
                others[nth][0].met.add(others[nth][1])
        if len(entry.met) == len(entry.parts):
            return self._ended(rank, entry)
        return len(entry.met) > before

    def _way(self, rank: int, kind: str, peer: int) -> list[tuple[Entry, int]]:
        found = []
        for entry in self.issued[rank]:
            found += [(entry, at) for at, part in enumerate(entry.parts) if (part.kind, part.peer) == (kind, peer)]
        return found

    def _ended(self, rank: int, entry: Entry) -> bool:
        fault = self.faults.get(rank)
        if fault is not None and fault.kind == "ended by peers" and entry.number >= fault.at:
            return False
        if any(each.kind == "link" and self.now >= each.at * TURN for each in self.faults.values()):
            return False
        entry.ended = self.now + 0.1
        return True


# ---------------------------------------------------------------- writing it


def nanoseconds(seconds: float) -> int:
    return int((BASE + seconds) * 1e9)


def dump(each: SetOfDumps, layout: Layout, player: Player, rank: int, written: float) -> dict[str, Any]:
    own = {name: told for name, told in layout.groups.items() if rank in told[1]}
    numbers = {name: str(number) for number, name in enumerate(own)}
    issued = [entry for entry in player.issued[rank] if entry.created <= written and entry.op is not GATE]
    flat = [(entry, op) for entry in issued for op in (*entry.op.parts, entry.op)]
    entries = [
        _entry(entry, op, at, rank, own, numbers, each, written)
        for at, (entry, op) in list(enumerate(flat))[-each.ring :]
    ]
    status = {}
    for name, number in numbers.items():
        of_group = [entry for entry in issued if entry.op.group == name]
        counted = [(entry.pairs if entry.is_pair else entry.sequence, entry) for entry in of_group]
        status[number] = {
            "last_enqueued_collective": max((count for count, _ in counted), default=-1),
            "last_started_collective": -1,
            "last_completed_collective": max(
                (count for count, entry in counted if 0 < entry.ended <= written), default=-1
            ),
        }
    return {
        "version": "2.10",
        "pg_config": {
            name: {"name": name, "desc": description, "ranks": str(list(ranks))}
            for name, (description, ranks) in own.items()
        },
        "pg_status": status,
        "comm_lib_version": "2.27.3",
        "entries": [entry for entry in entries if not each.only_active or entry["state"] != "completed"],
    }


def _entry(
    entry: Entry,
    op: Op,
    at: int,
    rank: int,
    own: Mapping[str, tuple[str, tuple[int, ...]]],
    numbers: Mapping[str, str],
    each: SetOfDumps,
    written: float,
) -> dict[str, Any]:
    description, ranks = own[op.group]
    name = op.kind
    of_work = op is entry.op
    if op.peer >= 0:
        arrow = "->" if op.kind == "send" else "<-"
        name = f"{op.kind} {ranks.index(rank)}{arrow}{ranks.index(op.peer)}"
    ended = of_work and 0 < entry.ended <= written
    begun = of_work and each.timing and 0 < entry.begun <= written
    outputs = op.elements * (len(ranks) if op.kind == "_all_gather_base" else 1)
    line = {"send": 31, "recv": 30, "all_to_all": 22, "all_reduce": 44}.get(op.kind, 20)
    return {
        "record_id": at,
        "pg_id": int(numbers[op.group]),
        "process_group": (op.group, description),
        "collective_seq_id": entry.sequence,
        "p2p_seq_id": entry.pairs,
        "op_id": entry.op_id - (0 if of_work else len(entry.op.parts) - 1 - entry.op.parts.index(op)),
        "profiling_name": f"nccl:{name}",
        "time_created_ns": nanoseconds(entry.created),
        "input_sizes": [] if op.parts else [[op.elements]],
        "input_dtypes": [] if op.parts else ["Float"],
        "output_sizes": [] if op.parts else [[outputs]],
        "output_dtypes": [] if op.parts else ["Float"],
        "state": "completed" if ended else "started" if begun else "scheduled",
        "time_discovered_started_ns": nanoseconds(entry.begun) if begun else None,
        "time_discovered_completed_ns": nanoseconds(entry.ended) if ended else None,
        "retired": ended,
        "timeout_ms": int(TIMEOUT * 1000),
        "is_p2p": op.kind in ("send", "recv"),  # of what ends a batch of these torch says it is none (isP2POp)
        "thread_id": "1",
        "thread_name": "pt_main_thread",
        "frames": [{"name": "step", "filename": "/home/mara/train.py", "line": line}],
    }


def write(each: SetOfDumps, folder: Path) -> Path:
    """The dumps of a set, and its label beside them, in a folder of its own."""
    layout = layout_of(each.layout)
    player = Player(layout, each.faults, each.in_flight or 10_000)
    own = folder / each.id
    own.mkdir(parents=True, exist_ok=True)
    dead = {fault.rank for fault in each.faults if fault.kind == "dead"}
    for rank in range(layout.world):
        if rank in dead or rank in each.without:
            continue
        written = player.now + (0.0 if each.in_flight else TIMEOUT) + each.written_after.get(rank, 0.0) + rank * 0.01
        path = own / f"nccl_trace_rank_{rank}"
        path.write_bytes(pickle.dumps(dump(each, layout, player, rank, written), protocol=2))
        os.utime(path, (BASE + written, BASE + written))
    told = {"culprits": {str(rank): why for rank, why in each.culprits.items()}, "group": each.group}
    (own / "label.json").write_text(json.dumps({**told, "decidable": each.decidable, "keep": each.keep}))
    return own
