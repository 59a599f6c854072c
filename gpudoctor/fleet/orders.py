"""What an order may hold, whoever it comes from, and what the head of a join test may order besides.

Through ssh and srun the head is this node's own user, who could run anything here. Whoever made the line that was
pasted for join mode is not: such a head may have this node measured by this node's own programs, and no more. It names
no program that others can write, no file to load, read or write, and no process to look at.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gpudoctor import programs
from gpudoctor.fleet.messages import AnyOrder, Examine, FindRanks, Launch, Listen, LookAt, Reach, Run, Watch, may_set
from gpudoctor.lazy import lazy_re
from gpudoctor.read.interpreter import choose

MOST_NODES = 16384
MOST_RANKS = 1024
"""Of one node: many times the GPUs that one has."""
MOST_PARTS = 4096
"""Measurements of a launch, variables, files to look at."""
MOST_BYTES = 1 << 44
"""Of one collective: 16 TiB, which no node has room for."""
LONGEST_VALUE = 32768
LONGEST_SECONDS = 86400.0
_ID = lazy_re(r"[A-Za-z0-9_.:-]{1,128}")
_INTERPRETER = lazy_re(r"(?:python|pypy)[0-9.]*t?")
_NAMES_A_FILE = lazy_re(r".*_(?:FILE|PATH|DIR)")


class NotAllowed(Exception):
    """The order is refused; the message says which part of it, in a phrase."""


def check(order: AnyOrder) -> None:
    """Raise `NotAllowed` for an order that no head of ours sends: numbers beyond reason, words that are options."""
    for name in ("timeout", "seconds"):
        _want(0 <= getattr(order, name, 0.0) <= LONGEST_SECONDS, name)
    if isinstance(order, Listen):
        _want(0 <= order.port <= 65535, "port")
    elif isinstance(order, Examine):
        _want(len(order.files) <= MOST_PARTS and all(_is_text(path, 4096) for path in order.files), "files")
    elif isinstance(order, LookAt | Watch):
        wanted = order.wanted
        _want(0 <= wanted.seconds <= 60 and 0 <= wanted.timeout <= LONGEST_SECONDS, "seconds")
        _want(len(wanted.ports) <= MOST_PARTS and len(wanted.addresses) <= MOST_PARTS, "seconds")
    elif isinstance(order, Run):
        _want(_is_text(order.python, 4096), "python")
        _check_launch(order.launch)


def _check_launch(launch: Launch) -> None:
    from gpudoctor.fleet.hosts import is_host

    _want(_ID.fullmatch(launch.id) is not None, "id")
    _want(1 <= len(launch.nodes) <= MOST_NODES, "nodes")
    _want(len(launch.ranks_per_node) == len(launch.nodes), "ranks_per_node")
    _want(all(0 <= count <= MOST_RANKS for count in launch.ranks_per_node), "ranks_per_node")
    _want(is_host(launch.master_address), "master_address")
    _want(0 <= launch.master_port <= 65535, "master_port")
    _want(0 < launch.timeout <= LONGEST_SECONDS, "timeout")
    _want(len(launch.measurements) <= MOST_PARTS, "measurements")
    _want(all(0 <= measurement.size_bytes <= MOST_BYTES for measurement in launch.measurements), "size_bytes")
    for name, value in launch.environment.items():
        _want(may_set(name) and _is_text(value, LONGEST_VALUE), f"environment: {name[:80]!r}")
    if launch.train is not None:
        _want(len(launch.train.cells) <= MOST_PARTS and 1 <= launch.train.world_size <= MOST_RANKS, "train")


def _want(holds: bool, part: str) -> None:
    if not holds:
        raise NotAllowed(f"{part} is beyond what an order may hold")


def _is_text(text: str, longest: int) -> bool:
    return len(text) <= longest and "\0" not in text


def of_a_guest(order: AnyOrder, environment: Mapping[str, str]) -> AnyOrder:
    """What is done of an order on a node that joined, whose environment this is. Raises `NotAllowed`.

    An interpreter that others can write is taken for one that is not there: the node then chooses its own.
    """
    if isinstance(order, FindRanks | LookAt | Watch):
        raise NotAllowed("a node that joined a test shows nobody's processes")
    if isinstance(order, Examine):
        _want(not order.files, "files of a node that joined")
        return order if _may_run(order.python, environment) else msgspec.structs.replace(order, python="")
    if isinstance(order, Run):
        for name, value in order.launch.environment.items():
            if ("/" in value or _NAMES_A_FILE.fullmatch(name)) and environment.get(name) != value:
                raise NotAllowed(
                    f"{name} names a file, which a head does not choose for a node that joined: "
                    "unset it on the head, or set the same on every node before it joins"
                )
        if not _may_run(order.python, environment):
            raise NotAllowed(f"{order.python[:200]!r} is no Python that only root or this node's user can write")
    return order


def of_a_look(order: AnyOrder, environment: Mapping[str, str]) -> AnyOrder:
    """What is done of an order on a node whose doctor attends the same job as the head's: it reads, and tries the ways
    between the nodes as one that joined a test; it starts no rank. Raises `NotAllowed`."""
    if isinstance(order, FindRanks | LookAt | Watch):
        return order
    if isinstance(order, Examine | Listen | Reach):
        return of_a_guest(order, environment)
    raise NotAllowed("a node of a job that is attended is looked at, and does nothing else")


def _may_run(python: str, environment: Mapping[str, str]) -> bool:
    """Whether this node would choose that interpreter itself, or nobody else could have put it there."""
    return python == choose(None, environment).path or is_own_program(python)


def is_own_program(python: str) -> bool:
    """Whether this names a Python of root's or our own that nobody else could replace; also where it names none."""
    if not python:
        return True
    program = programs.find(python)
    if program is None:
        return False
    given = Path(program).absolute()
    if not _INTERPRETER.fullmatch(given.name):
        return False
    try:
        real = given.resolve(strict=True)
        return all(_is_ours(path) for path in {given, *given.parents, real, *real.parents})
    except (OSError, RuntimeError):  # it vanished; a loop of links
        return False


def _is_ours(path: Path) -> bool:
    facts = path.stat()
    is_sticky = stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX
    others = stat.S_IWOTH if os.geteuid() else stat.S_IWOTH | (stat.S_IWGRP if facts.st_gid else 0)
    return facts.st_uid in (0, os.geteuid()) and (bool(is_sticky) or not facts.st_mode & others)
