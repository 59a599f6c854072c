"""From a wish to launches: which cells share one, and which do not apply here. Pure rules."""

from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.fleet.messages import TrainCell, TrainPlan
from gpudoctor.knowledge.wording import counted
from gpudoctor.train.report import Cell
from gpudoctor.train.ways import WAYS, Way
from gpudoctor.train.wish import TrainWish

ALL_ON_ONE_NODE = "runs on one node only, and {nodes} are tested; run gpudoctor train-test on one of them for it"
ALONE = "one rank has no other to agree with; "


class CellGroup(NamedTuple):
    """Cells that one launch trains, one after the other."""

    cells: tuple[TrainCell, ...]
    one_process: bool
    """One rank, on the first node; else torchrun's ranks on all nodes."""


class Plan(NamedTuple):
    groups: tuple[CellGroup, ...]
    without: tuple[Cell, ...]
    """What is not run, and why."""


def plan(wish: TrainWish, ranks_per_node: Sequence[int], *, device: str = "cpu") -> Plan:
    """What is launched on nodes with so many ranks."""
    groups: dict[bool, list[TrainCell]] = {False: [], True: []}
    without = answered_cells(wish)
    for name in wish.ways:
        way = WAYS[name]
        for precision in wish.precisions:
            if why := _why_not(way, ranks_per_node, device):
                without.append(Cell(way=name, precision=precision, outcome="not applicable", reason=why))
            else:
                groups[way.launched == "one process"].append(TrainCell(name, precision))
    # torchrun's first: it gets the rendezvous port that the preflight has tried.
    made = tuple(CellGroup(tuple(cells), one_process) for one_process, cells in groups.items() if cells)
    return Plan(made, tuple(without))


def answered_cells(wish: TrainWish) -> list[Cell]:
    """The names that nothing is run for, as the answer shows them."""
    return [
        Cell(way=name, precision=precision, outcome="not applicable", reason=why)
        for name, why in wish.answered.items()
        for precision in wish.precisions
    ]


def train_plan(wish: TrainWish, cells: Sequence[TrainCell], world_size: int) -> TrainPlan:
    """`world_size`: the processes that spawn starts, and the devices of dp and split."""
    return TrainPlan(cells=tuple(cells), steps=wish.steps, world_size=world_size)


def _why_not(way: Way, ranks_per_node: Sequence[int], device: str) -> str:
    if len(ranks_per_node) > 1 and not way.spans_nodes:
        return ALL_ON_ONE_NODE.format(nodes=counted(len(ranks_per_node), "node"))
    if way.needs_peers and sum(ranks_per_node) < 2:
        more = (
            "--gpus-per-node 2 --ranks-share-gpu puts two on this GPU, --backend gloo on the CPU"
            if device == "cuda"
            else "--gpus-per-node 2 starts two"
        )
        return ALONE + more
    return ""
