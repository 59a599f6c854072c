"""How many nodes and ranks a start has, by each who says so: the scheduler, the launcher, and what its program is told.

A statement is a number, what it counts, and where it stands. Those of the program come from its options, its files and
hydra's overrides, by names that mean nothing else; those of who starts it from the header and the launcher.
"""

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look, processes, understood
from gpudoctor.lint.model import LintJob, LintLaunch, Span
from gpudoctor.lint.told_files import everywhere
from gpudoctor.lint.told_options import ToldOption, told, world_of

Quantity = Literal["nodes", "ranks a node", "ranks"]
_NODES = lazy_re(r"(?:num_?|n_?|number_of_)(?:nodes|machines|hosts)|node_?count|instance_count", re.ASCII)
_EACH = lazy_re(
    r"(?:n|num|nb)?_?(?:gpus?|devices|procs?|processes|workers|tasks|ranks)_?per_?(?:node|machine|host)"
    r"|local_world_size",
    re.ASCII,
)
_WORLD = lazy_re(r"(?:distributed_)?world_size|(?:num|n|total)_ranks|total_gpus|num_gpus_total", re.ASCII)
_GROUPS = lazy_re(
    r"trainer|train(?:ing)?|dist(?:ributed)?|ddp|fsdp|cluster|launch(?:er)?|resources?|compute|hardware|slurm|job|infra"
    r"|environment|system|runtime|parallel(?:ism)?|deploy(?:ment)?|accelerator|multi_?node",
    re.ASCII,
)
"""What the mapping is called below which such a name is about the start: `num_nodes` alone may be those of a graph."""
_OF_GPUS = lazy_re(r"gpu|device", re.ASCII)
"""A node may have more of them than ranks, where a rank has several."""
_LOCAL = lazy_re(r"(?:trainer|fabric)\.(?:devices|gpus|n_gpus)", re.ASCII)


class CountStatement(Struct, frozen=True):
    """One place that says a number."""

    of: Quantity
    number: int
    written: str
    """As a message names it: "trainer.num_nodes", "#SBATCH --nodes"."""
    span: Span | None


def of_program(job: LintJob, launch: LintLaunch) -> Iterator[CountStatement]:
    """What the program of a start is told of its own ranks: on its command line, else in its files. A 1 in a file is
    what many have before the program puts the true number in."""
    everything, on_line = everywhere(job, launch), told(launch)
    names = {name: name.lower().replace("-", "_") for name in everything}
    has_each = any(_EACH.fullmatch(name.rpartition(".")[2]) for name in names.values())
    leaves = {name.lower().rpartition(".")[2] for name in on_line}
    found: list[tuple[bool, CountStatement]] = []
    for written, name in names.items():
        option, number = everything[written], everything[written].number
        of = _quantity(name, has_each)
        if number is None or of is None or not option.is_known or not 0 < number <= 100_000:
            continue
        if written not in on_line and name.rpartition(".")[2] in leaves:
            continue  # `--devices 4` beside a file's trainer.devices
        is_default = number == 1 and written not in on_line and not name.startswith(("trainer.", "fabric."))
        if not is_default and not (_OF_GPUS.search(name) and number == processes.gpus(job, launch)):
            found.append((written in on_line, CountStatement(of, number, _named(option), option.word.span)))
    told_there = {each.of for is_there, each in found if is_there}
    yield from (each for is_there, each in found if is_there or each.of not in told_there)


def _quantity(name: str, has_each: bool) -> Quantity | None:
    group, _, leaf = name.rpartition(".")
    if name.startswith("hydra."):
        return None
    is_of_start = _GROUPS.fullmatch(group.rpartition(".")[2]) is not None
    if _LOCAL.fullmatch(name):
        return "ranks a node"
    if _EACH.fullmatch(leaf) and (is_of_start or not group):
        return "ranks a node"
    if _NODES.fullmatch(leaf) and (is_of_start or (has_each and not group)):
        return "nodes"
    if _WORLD.fullmatch(leaf) and (is_of_start or not group):
        return "ranks"
    return None


def _named(option: ToldOption) -> str:
    return option.written.lstrip("+")


_OF_SUBMITIT: tuple[tuple[Quantity, str], ...] = (("nodes", "nodes"), ("ranks a node", "tasks_per_node"))


def submits_itself(job: LintJob, launch: LintLaunch) -> bool:
    """By hydra's launcher of submitit, which starts the ranks: the line itself is none of them."""
    plugin = everywhere(job, launch).get("hydra/launcher")
    return plugin is not None and plugin.value == "submitit_slurm"


def of_start(job: LintJob, launch: LintLaunch) -> Iterator[CountStatement]:
    """What the launcher, and the scheduler around it, make of the same."""
    if submits_itself(job, launch):
        options = everywhere(job, launch)
        for of, name in _OF_SUBMITIT:
            own = options.get(f"hydra.launcher.{name}")
            if own is not None and own.number:
                yield CountStatement(of, own.number, _named(own), own.word.span)
        return
    nodes = understood.nodes_of(job, launch)
    each = understood.processes_of(job, launch)
    if nodes is not None:
        yield CountStatement("nodes", nodes, *_who_says_nodes(job, launch))
    if each is not None and not (each == 1 and _may_spawn(launch)):
        count = look.traits(launch).ranks_option
        option = launch.option(count) if count else None
        place = option.span if option is not None else None
        yield CountStatement("ranks a node", each, option.written if option is not None else launch.launcher, place)
    world = world_of(job, launch)
    if world is not None and not (each == 1 and _may_spawn(launch)):
        yield CountStatement("ranks", world, launch.launcher, launch.invocation.span)


def _may_spawn(launch: LintLaunch) -> bool:
    """One process of a node may start the ranks of that node itself."""
    return launch.launcher in ("srun", "mpirun") or launch.option("nproc-per-node") is None


def _who_says_nodes(job: LintJob, launch: LintLaunch) -> tuple[str, Span | None]:
    option = launch.option("nnodes", "num-machines", "num-nodes")
    if option is not None:
        return option.written, option.span
    header = allocation.in_force(job, "nodes")
    if header is not None and look.sruns(launch):
        return f"#SBATCH {header.written}", header.span
    return launch.launcher, None
