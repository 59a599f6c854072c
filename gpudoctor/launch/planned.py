"""A launch as it is asked for: what is known here, the plan, its claims verified, its text. All raise `BadInput`;
`--check` raises `Unreached` too."""

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from gpudoctor import programs
from gpudoctor.active import Waiting
from gpudoctor.errors import BadInput, Unreached
from gpudoctor.examination import examine_machine
from gpudoctor.fleet.fleet import Fleet
from gpudoctor.fleet.messages import Examine, Examined
from gpudoctor.fleet.reach import ANSWER_SECONDS, REACH_SECONDS, reach
from gpudoctor.fleet.slurm import node_names
from gpudoctor.fleet.where import Where, in_allocation, local_fleet, named_nodes, slurm_fleet, ssh_fleet
from gpudoctor.knowledge.rank_variables import OF_A_GROUP
from gpudoctor.knowledge.wording import counted
from gpudoctor.launch.decide import NotCounted, Surroundings, decide
from gpudoctor.launch.plan import Emission, LaunchPlan, LaunchWish
from gpudoctor.launch.tutorials import answer
from gpudoctor.launch.verified import Verified
from gpudoctor.launch.verify import verify
from gpudoctor.launch.write import emission
from gpudoctor.launcher import registry
from gpudoctor.lazy import lazy_re
from gpudoctor.read.names import by_getaddrinfo, look_up
from gpudoctor.snapshot import Snapshot, UnreadableSnapshot, from_json

RESOLVE_SECONDS = 4.0
"""For the names of all nodes together; a name server that does not answer must not hold up the command."""
MOST_RESOLVED = 256
LEFTOVERS = (*OF_A_GROUP, "NODE_RANK", "GROUP_RANK", "TORCHELASTIC_RUN_ID")
"""Of an earlier job: each changes what a launcher, or a script that starts its ranks itself, believes of itself."""
SHELLS = ("bash", "sh", "dash", "zsh", "env", "sudo", "nohup", "time")
PYTHON = lazy_re(r"python[0-9.]*")
VERSION = lazy_re(r"[0-9]{1,5}(\.[0-9]{1,5}){0,3}([a-z+.][a-z0-9.+]{0,30})?", re.ASCII)


class Planned(NamedTuple):
    plan: LaunchPlan
    emission: Emission
    verified: tuple[Verified, ...] | None
    """None: nobody asked for it."""


def planned(wish: LaunchWish, where: Where, waiting: Waiting, *, timeout: float, check: bool = False) -> Planned:
    """The plan and its text; with `check`, what was seen of its claims on the nodes."""
    if wish.framework not in registry.frameworks():
        raise BadInput(f"--framework {wish.framework[:40]!r}: choose of {', '.join(registry.frameworks())}")
    _refuse_superseded(wish, {})
    names, slots = _names(where)
    machine = examine_machine(python=wish.python or None, torch=False, timeout=timeout, waiting=waiting)
    addresses = _resolved(names)
    here = _here(machine, names, addresses)
    around = _surroundings(machine, names, slots, addresses, here, where)
    own = {around.here or names[0]: machine} if (around.here or not names) else {}
    plan: LaunchPlan | None = None
    try:
        plan = decide(wish, own, around, example=machine)
    except NotCounted:
        if not (check and where.is_named):
            raise  # else the nodes are looked at first
    verified: tuple[Verified, ...] | None = None
    if check:
        plan, verified = _check(wish, where, around, own, plan, machine, waiting)
    assert plan is not None
    _refuse_superseded(wish, plan.versions)
    text = emission(plan)
    return Planned(plan, replace(text, notes=(*text.notes, *_not_here(wish, plan, machine))), verified)


def _not_here(wish: LaunchWish, plan: LaunchPlan, machine: Snapshot) -> Iterator[str]:
    """What the ranks need and this machine has not, which need not be one of the nodes; sentences."""
    script = wish.program[0] if wish.program else ""
    if script.endswith(".py") and not Path(script).is_file():
        yield f"{script} is not here: every node needs it where the command is started."
    if machine.training.torch_files.missing_kind == "absent":
        yield f"The training interpreter here ({plan.python}) has no torch; without it no rank of PyTorch starts."


# --- options, read -------------------------------------------------------------------------------------------------


def split_program(given: list[str]) -> tuple[tuple[str, ...], str]:
    """The script with its arguments, and the interpreter where the words begin with one."""
    words, python = list(given), ""
    if words and PYTHON.fullmatch(Path(words[0]).name):
        python = words[0]
        if python in ("python", "python3"):  # whatever the training interpreter is found to be
            python = ""
        elif "/" not in python:
            python = programs.find(python) or ""
            if not python:
                raise BadInput(f"-- {words[0]}: no such interpreter on PATH; name it by its path")
        words = words[1:]
        while words and words[0] == "-u":
            words = words[1:]
        if not words:
            raise BadInput(f"-- {given[0]}: which script? gpudoctor launch ... -- train.py --lr 0.1")
    if not words:
        return (), python
    if not words[0].strip():
        raise BadInput("the script's name after -- is empty")
    if Path(words[0]).name in (*registry.first_words(module=False), "sbatch"):
        raise BadInput(
            f"-- {words[0]}: name the script and its arguments only; `gpudoctor launch` writes the launcher "
            "(`gpudoctor lint -- COMMAND` judges a command that is there already)"
        )
    if Path(words[0]).name in SHELLS or words[0].endswith((".sh", ".bash")):
        raise BadInput(
            f"-- {words[0]}: python cannot run it, and every rank starts python; name the Python script that it starts"
        )
    if words[0] == "-m" and len(words) < 2:
        raise BadInput("-- -m: which module?")
    if words[0].startswith("-") and words[0] != "-m":
        raise BadInput(f"-- {words[0][:40]}: the script comes first, then its arguments")
    return tuple(words), python


def elastic_range(text: str | None) -> tuple[int, int] | None:
    """MIN:MAX."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,4}):([0-9]{1,4})", text.strip(), re.ASCII)
    if match is None:
        raise BadInput(f"--elastic {text[:40]!r}: MIN:MAX, as in 2:4 (at least 2 nodes, at most 4)")
    fewest, most = int(match[1]), int(match[2])
    if not 1 <= fewest <= most:
        raise BadInput(f"--elastic {text}: from 1 on, and MIN not above MAX")
    return fewest, most


def version_of(text: str | None) -> str:
    if text is not None and VERSION.fullmatch(text) is None:
        raise BadInput(f"--framework-version {text[:40]!r}: a version is like 2.4 or 1.9.5")
    return text or ""


def plain(option: str, text: str | None) -> str:
    if text is not None and re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", text) is None:
        raise BadInput(f"{option} {text[:64]!r}: a name is letters, digits, '_', '-' and '.'")
    return text or ""


# --- what is known -------------------------------------------------------------------------------------------------


def _names(where: Where) -> tuple[tuple[str, ...], dict[str, int]]:
    """The nodes in node-rank order with their slots; () when nobody names them."""
    if where.is_named:
        named = named_nodes(where)
        return tuple(node.name for node in named), {node.name: node.slots for node in named if node.slots}
    return (node_names(os.environ) if in_allocation(os.environ) else ()), {}


def _resolved(names: Sequence[str]) -> dict[str, str]:
    """The first address of each name (IPv4 before IPv6), as far as name servers answer in time."""
    if not names or len(names) > MOST_RESOLVED:
        names = names[:1]
    deadline = time.monotonic() + RESOLVE_SECONDS

    def first(name: str) -> str:
        left = max(0.1, deadline - time.monotonic())
        addresses = look_up(name, left, by_getaddrinfo).value_or(())
        return min(addresses, key=lambda address: ":" in address) if addresses else ""

    if not names:
        return {}
    with ThreadPoolExecutor(max_workers=16) as pool:
        return {name: address for name, address in zip(names, pool.map(first, names), strict=True) if address}


def _here(machine: Snapshot, names: Sequence[str], addresses: Mapping[str, str]) -> str:
    """Which of the nodes this machine is; "" when it is none of them."""
    own_name = machine.host.hostname.value_or("").lower()
    for name in names:
        if own_name and name.lower() in (own_name, own_name.partition(".")[0]):
            return name
        if own_name and name.lower().partition(".")[0] == own_name and not name[:1].isdigit():
            return name
    own = {address.address for interface in machine.network.interfaces.value_or(()) for address in interface.addresses}
    return next((name for name in names if addresses.get(name, name) in own), "")


def _surroundings(
    machine: Snapshot,
    names: tuple[str, ...],
    slots: Mapping[str, int],
    addresses: Mapping[str, str],
    here: str,
    where: Where,
) -> Surroundings:
    return Surroundings(
        names=names,
        hosts_named=where.is_named,
        here=here if names else machine.host.hostname.value_or("") or "this-machine",
        slots=slots,
        addresses=addresses,
        python=_written(machine.training.python.value_or("")),
        interpreter=machine.training.python.value_or(""),
        exported=tuple(name for name in ("PATH", "LD_LIBRARY_PATH") if os.environ.get(name)),
        leftovers=tuple(
            name for name in os.environ if name in LEFTOVERS or (name.startswith("PET_") and name.isidentifier())
        ),
    )


def _written(python: str) -> str:
    """The interpreter as a shell like this one finds it: by name where PATH leads to the same file, else by path."""
    for name in ("python", "python3"):
        if python and programs.find(name) == python:
            return name
    return python or "python"


# --- the plan ------------------------------------------------------------------------------------------------------


def _refuse_superseded(wish: LaunchWish, versions: Mapping[str, str]) -> None:
    """What tutorials teach and no longer works is answered with what replaces it."""
    if not wish.strategy:
        return
    known = dict(versions)
    if wish.framework_version and wish.framework not in known:
        known[wish.framework] = wish.framework_version
    elif not versions and wish.framework == "lightning":
        return  # the installed version decides; asked again when it is known
    if refusal := answer(wish.framework, wish.strategy, known):
        raise BadInput(refusal)


# --- --check -------------------------------------------------------------------------------------------------------


def _check(
    wish: LaunchWish,
    where: Where,
    around: Surroundings,
    own: Mapping[str, Snapshot],
    plan: LaunchPlan | None,
    machine: Snapshot,
    waiting: Waiting,
) -> tuple[LaunchPlan, tuple[Verified, ...]]:
    """Examine the nodes, plan anew with what they are, and verify the plan there."""

    def step(text: str) -> None:
        waiting([text])

    fleet = ssh_fleet(where) if plan is None else _fleet(where, plan)
    if fleet is None:
        assert plan is not None
        return plan, verify(plan, None, own, on_step=step)
    with fleet:
        snapshots = {**own, **_examined(fleet, wish)}
        if plan is None and fleet.lost:
            raise Unreached(_told(fleet))
        plan = decide(wish, snapshots, around, example=machine)
        return plan, verify(plan, fleet, snapshots, on_step=step)


def _fleet(where: Where, plan: LaunchPlan) -> Fleet | None:
    """The plan's nodes as they can be reached from here; None where nobody has named them."""
    if where.is_named:
        return ssh_fleet(where)
    if in_allocation(os.environ):
        return slurm_fleet(where)
    if len(plan.nodes) == 1 and plan.nodes[0].known:
        return local_fleet()
    return None


def _told(fleet: Fleet) -> str:
    lost = [f"{fleet.name(node)}: {why.words}" for node, why in sorted(fleet.lost.items())]
    more = f", and {len(lost) - 4} more" if len(lost) > 4 else ""
    return (
        f"{len(lost)} of {counted(len(fleet.nodes), 'node')} cannot be reached, so that their GPUs cannot be counted: "
        f"{'; '.join(lost[:4])}{more}"
    )


def _examined(fleet: Fleet, wish: LaunchWish) -> dict[str, Snapshot]:
    reach(fleet, timeout=REACH_SECONDS)
    if not fleet.present:
        return {}
    order = Examine(torch=False, python=wish.python, brief=False, timeout=ANSWER_SECONDS)
    answers = fleet.ask(order, Examined, timeout=2 * ANSWER_SECONDS, of=fleet.present)
    snapshots: dict[str, Snapshot] = {}
    for node, reply in answers.items():
        if isinstance(reply, Examined):
            with suppress(UnreadableSnapshot):
                snapshots[fleet.name(node)] = from_json(bytes(reply.snapshot))
    return snapshots
