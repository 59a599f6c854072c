"""What `gpudoctor launch` does once its options are read."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpudoctor import programs
from gpudoctor.cli.fleets import Where, in_allocation, local_fleet, named_nodes, slurm_fleet, ssh_fleet
from gpudoctor.errors import BadInput
from gpudoctor.launch.plan import CannotEmit, Emission, EmittedFile, LaunchPlan, LaunchWish
from gpudoctor.snapshot import Snapshot, UnreadableSnapshot, from_json

if TYPE_CHECKING:
    from gpudoctor.fleet.fleet import Fleet
    from gpudoctor.launch.decide import Surroundings
    from gpudoctor.launch.verify import Verified

RESOLVE_SECONDS = 4.0
"""For the names of all nodes together; a name server that does not answer must not hold up the command."""
MOST_RESOLVED = 256
LEFTOVERS = (
    *("LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "TORCHELASTIC_RUN_ID"),
    *("MASTER_ADDR", "MASTER_PORT"),
)
"""Of an earlier job: each changes what a launcher, or a script that starts its ranks itself, believes of itself."""


class How(NamedTuple):
    """The options that are not about the plan."""

    check: bool = False
    json: bool = False
    output: str | None = None
    timeout: float = 10.0
    no_color: bool = False
    given: bool = True
    """Whether a script was named."""


def run(wish: LaunchWish, where: Where, how: How) -> int:
    """Plan, verify where that was asked for, print or write; the exit status. Raises `BadInput`."""
    from gpudoctor.cli.live import examine_machine

    _refuse_superseded(wish, {})
    names, slots = _names(where)
    machine = examine_machine(python=wish.python or None, torch=False, timeout=how.timeout)
    addresses = _resolved(names)
    here = _here(machine, names, addresses)
    around = _surroundings(machine, names, slots, addresses, here, where)
    own = {around.here or names[0]: machine} if (around.here or not names) else {}
    plan = _plan(wish, own, around, machine)
    verified: tuple[Verified, ...] | None = None
    if how.check:
        plan, verified = _check(wish, where, around, own, plan, machine)
    _refuse_superseded(wish, plan.versions)
    emission = _emit(plan)
    written = _write(emission, how.output) if how.output is not None else ()
    _show(plan, emission, verified, how, written)
    from gpudoctor.launch.verify import has_false

    return 1 if verified is not None and has_false(verified) else 0


# --- what is known -------------------------------------------------------------------------------------------------


def _names(where: Where) -> tuple[tuple[str, ...], dict[str, int]]:
    """The nodes in node-rank order with their slots; () when nobody names them. Raises `BadInput`."""
    if where.is_named:
        named = named_nodes(where)
        return tuple(node.name for node in named), {node.name: node.slots for node in named if node.slots}
    if in_allocation(os.environ):
        from gpudoctor.fleet.slurm import NoSlurm, node_names

        try:
            return node_names(os.environ), {}
        except NoSlurm as error:
            raise BadInput(str(error)) from None
    return (), {}


def _resolved(names: Sequence[str]) -> dict[str, str]:
    """The first address of each name (IPv4 before IPv6), as far as name servers answer in time."""
    from gpudoctor.read.names import by_getaddrinfo, look_up

    if not names or len(names) > MOST_RESOLVED:
        names = names[:1]
    deadline = time.monotonic() + RESOLVE_SECONDS

    def first(name: str) -> str:
        left = max(0.1, deadline - time.monotonic())
        found = look_up(name, left, by_getaddrinfo).value_or(())
        return min(found, key=lambda address: ":" in address) if found else ""

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
    own = {address.address for each in machine.network.interfaces.value_or(()) for address in each.addresses}
    return next((name for name in names if addresses.get(name, name) in own), "")


def _surroundings(
    machine: Snapshot,
    names: tuple[str, ...],
    slots: Mapping[str, int],
    addresses: Mapping[str, str],
    here: str,
    where: Where,
) -> "Surroundings":
    from gpudoctor.launch.decide import Surroundings

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


def _plan(wish: LaunchWish, snapshots: Mapping[str, Snapshot], around: "Surroundings", machine: Snapshot) -> LaunchPlan:
    from gpudoctor.launch.decide import CannotPlan, decide

    try:
        return decide(wish, snapshots, around, example=machine)
    except CannotPlan as error:
        raise BadInput(str(error)) from None


def _emit(plan: LaunchPlan) -> Emission:
    from gpudoctor.launch.words import Unquotable
    from gpudoctor.launch.write import emission

    try:
        return emission(plan)
    except (CannotEmit, Unquotable) as error:
        raise BadInput(str(error)) from None


def _refuse_superseded(wish: LaunchWish, versions: Mapping[str, str]) -> None:
    """What tutorials teach and no longer works is answered with what replaces it."""
    from gpudoctor.launch.tutorials import answer

    if not wish.strategy:
        return
    known = dict(versions)
    if wish.framework_version and wish.framework not in known:
        known[wish.framework] = wish.framework_version
    elif not versions and wish.framework == "lightning":
        return  # the installed version decides; asked again when it is known
    if told := answer(wish.framework, wish.strategy, known):
        raise BadInput(told)


# --- --check -------------------------------------------------------------------------------------------------------


def _check(
    wish: LaunchWish,
    where: Where,
    around: "Surroundings",
    own: Mapping[str, Snapshot],
    plan: LaunchPlan,
    machine: Snapshot,
) -> "tuple[LaunchPlan, tuple[Verified, ...]]":
    """Examine the nodes, plan anew with what they are, and verify the plan there."""
    from gpudoctor.launch.verify import verify
    from gpudoctor.render.progress import Progress

    with Progress(sys.stderr) as progress:

        def step(text: str) -> None:
            progress.waiting([text])

        fleet = _fleet(where, plan)
        if fleet is None:
            return plan, verify(plan, None, own, on_step=step)
        with fleet:
            snapshots = {**own, **_examined(fleet, wish)}
            plan = _plan(wish, snapshots, around, machine)
            return plan, verify(plan, fleet, snapshots, on_step=step)


def _fleet(where: Where, plan: LaunchPlan) -> "Fleet | None":
    """The plan's nodes as they can be reached from here; None where nobody has named them."""
    if where.is_named:
        return ssh_fleet(where)
    if in_allocation(os.environ):
        return slurm_fleet(where)
    if len(plan.nodes) == 1 and plan.nodes[0].known:
        return local_fleet()
    return None


def _examined(fleet: "Fleet", wish: LaunchWish) -> dict[str, Snapshot]:
    from gpudoctor.cli.check_hosts import ANSWER_SECONDS, REACH_SECONDS
    from gpudoctor.fleet.messages import Examine, Examined
    from gpudoctor.fleet.reach import reach

    reach(fleet, timeout=REACH_SECONDS)
    if not fleet.present:
        return {}
    order = Examine(torch=False, python=wish.python, brief=False, timeout=ANSWER_SECONDS)
    answers = fleet.ask(order, Examined, timeout=2 * ANSWER_SECONDS, of=fleet.present)
    found: dict[str, Snapshot] = {}
    for node, reply in answers.items():
        if isinstance(reply, Examined):
            with suppress(UnreadableSnapshot):
                found[fleet.name(node)] = from_json(bytes(reply.snapshot))
    return found


# --- output --------------------------------------------------------------------------------------------------------


def _show(
    plan: LaunchPlan,
    emission: Emission,
    verified: "tuple[Verified, ...] | None",
    how: How,
    written: tuple[Path, ...],
) -> None:
    from gpudoctor.launcher import registry
    from gpudoctor.render.launch import as_json, remarks, text
    from gpudoctor.render.prose import console

    if how.json:
        print(as_json(plan, emission, verified))
        return
    said = [] if how.given else ["train.py stands for your script: gpudoctor launch ... -- SCRIPT ARGUMENTS."]
    if plan.leftovers and registry.frameworks()[plan.framework].in_this_shell:
        said.append(
            f"{', '.join(plan.leftovers)} {'is' if len(plan.leftovers) == 1 else 'are'} set in this shell, of another "
            "job as it seems, and taken out for the command or replaced."
        )
    remarks(
        plan,
        emission,
        console(no_color=how.no_color, file=sys.stderr),
        verified=verified or (),
        said=said,
        was_checked=verified is not None,
    )
    sys.stderr.flush()
    if written:
        for path in written:
            print(path)
    else:
        print(text(emission), end="")


def _write(emission: Emission, folder: str) -> tuple[Path, ...]:
    """All files into the folder, or none where one is there already. Raises `BadInput`."""
    from gpudoctor.render.launch import files

    place = Path(folder)
    every = list(files(emission))
    there = [each.name for each in every if os.path.lexists(place / each.name)]
    if there:
        raise BadInput(
            f"-o {folder}: {', '.join(there[:4])} is there already and is not overwritten; name another folder"
        )
    made: list[Path] = []
    try:
        place.mkdir(parents=True, exist_ok=True)
        for each in every:
            made.append(place / each.name)
            _create(made[-1], each)
    except OSError as error:
        for path in made:
            if not isinstance(error, FileExistsError) or path is not made[-1]:
                with suppress(OSError):
                    path.unlink()
        raise BadInput(f"-o {folder}: {error.strerror or error}") from None
    return tuple(made)


def _create(path: Path, file: EmittedFile) -> None:
    """A new file; one that has come meanwhile, or a link, is refused. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 if file.executable else 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as target:
        target.write(file.text)
