"""The courses of a program's ranks, for every start of it that the text has."""

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.seats import Seat, seats_of
from gpudoctor.lint.courses.values import Value, cloned
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.once import once_a_job
from gpudoctor.lint.python_code import PythonCode, codes_and_starts

if TYPE_CHECKING:  # what follows a program is imported where there is one
    from gpudoctor.lint.courses.follow import RankCourse

STRANGE = (
    "lightning",
    "pytorch_lightning",
    "composer",
    "colossalai",
    "mmengine",
    "fastai",
    "torch_xla",
)
"""Packages that start, wrap or save themselves: what ranks do there is told by others."""
MOST_LAUNCHES = 4
GROUPS = lazy_re(r"init_device_mesh|\bnew_group\(")


class Courses(Struct, frozen=True, eq=False):
    """What some ranks of one start do."""

    code: PythonCode
    launch: LintLaunch | None
    ranks: "tuple[RankCourse, ...]"
    spawn: ast.Call | None = None
    """What has started them, where the program does so itself."""
    count: int | None = None
    """Of these, on a node."""
    parent: "RankCourse | None" = None
    """The process that has started them."""


@once_a_job
def courses(job: LintJob) -> tuple[Courses, ...]:
    """Of every program of the text, in every start that is told; what is not followed to its end is left out."""
    return tuple(_found(job))


def _found(job: LintJob) -> Iterator[Courses]:
    for code, launches in codes_and_starts(job):
        from gpudoctor.lint.courses.values import CourseTooLong

        by_fabric = "Fabric(" in code.text and "Trainer(" not in code.text
        asks = bool(launches) and code.brings("argparse")
        if (code.brings(*STRANGE) and not by_fabric) or not (
            asks or code.brings("torch", "accelerate", "deepspeed", "transformers", "trl", "lightning", "ray")
        ):
            continue
        starts: list[tuple[LintLaunch | None, tuple[Seat, ...]]] = [
            (launch, seats_of(job, launch, GROUPS.search(code.text) is not None)) for launch in launches[:MOST_LAUNCHES]
        ]
        if not launches and job.kind == "python":
            gpus = job.facts.gpus_per_node
            alone = Seat(rank=0, local=0, node=0, world=1, each=1, gpus=gpus, variables={}, is_bare=False, launch=None)
            starts = [(None, (alone,))]
        if by_fabric:  # it starts its processes itself
            starts = [(launch, _two(seats[0])) if len(seats) == 1 else (launch, seats) for launch, seats in starts]
        for launch, seats in starts:
            try:
                yield from _of_start(job, code, launch, seats)
            except (CourseTooLong, RecursionError):
                continue


def _two(alone: Seat) -> tuple[Seat, ...]:
    return tuple(structs.replace(alone, rank=at, local=at, world=2, each=2, is_assumed=True) for at in range(2))


def _of_start(job: LintJob, code: PythonCode, launch: LintLaunch | None, seats: tuple[Seat, ...]) -> Iterator[Courses]:
    from gpudoctor.lint.courses.follow import RankCourse

    followed: list[RankCourse] = []
    for seat in seats:
        follower = RankCourse(code, seat)
        if _is_sharded(job, launch):
            follower.environment[" sharded"] = True
        follower.environment[" plain"] = _is_plain(job, launch)
        if followed:
            follower.seeds = _seeds(followed[0])
        follower.program()
        followed.append(follower)
    if not followed:
        return
    if len(seats) > 1 or not followed[0].spawned:
        yield Courses(code, launch, tuple(followed))
    if len(seats) == 1 and len(followed[0].spawned) > 1:
        parent = followed[0]
        first = parent.spawned[0][2]
        together = [each for each in parent.spawned[: parent.until_joined] if each[2] is first]
        if len(together) > 1:
            children: list[RankCourse] = []
            for index, (function, arguments, node) in enumerate(together):
                seat = structs.replace(seats[0], rank=index, local=index, world=len(together), each=len(together))
                child = RankCourse(code, seat, "__mp_main__")
                child.environment = dict(parent.environment)
                child.program()
                child.environment = {**parent.environment, **child.environment}
                if children:
                    child.seeds = _seeds(children[0])
                if not code.name(node.func).startswith("torch."):  # Ray's and Ignite's make the group themselves
                    child.rank, child.world, child.has_group = index, len(together), True
                child.events, child.deeds = [], []
                own = child.module.get(function.node.name) if isinstance(function.node, ast.FunctionDef) else None
                child.called_by(own if own is not None else function, tuple(cloned(each) for each in arguments), node)
                children.append(child)
            yield Courses(code, launch, tuple(children), first, len(together), parent)


def _seeds(first: "RankCourse") -> dict[int, Value]:
    return {id(deed.node): deed.value for deed in first.deeds if deed.what == "seed"}


def _is_plain(job: LintJob, launch: LintLaunch | None) -> bool:
    """Whether accelerate wraps in DistributedDataParallel, for all that is told."""
    if launch is None or _is_sharded(job, launch):
        return False
    told = any(value.path == ("distributed_type",) and value.value == "MULTI_GPU"
               for manifest in job.manifests for value in manifest.values)  # fmt: skip
    return told or launch.launcher == "torchrun" or launch.option("multi-gpu", "multi_gpu") is not None


def _is_sharded(job: LintJob, launch: LintLaunch | None) -> bool:
    """Whether accelerate is told DeepSpeed or FSDP."""
    if launch is None or launch.launcher != "accelerate":
        return False
    if launch.option("use-deepspeed", "use-fsdp") is not None:
        return True
    values = (value for manifest in job.manifests for value in manifest.values)
    return any(value.path == ("distributed_type",) and value.value in ("DEEPSPEED", "FSDP") for value in values)
