"""The plan of a launch: what was wished, what the snapshots show, and where neither says so, what is taken for true."""

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from gpudoctor import defaults
from gpudoctor.command import command
from gpudoctor.errors import BadInput
from gpudoctor.knowledge.job import is_loopback
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.launch import address, environment, port, ranks, words, write
from gpudoctor.launch.plan import LaunchPlan, LaunchWish, NodePlan, Unverified
from gpudoctor.launcher import registry
from gpudoctor.snapshot import NotRead, Snapshot

MAXIMUM_NODES = 4096


class CannotPlan(BadInput):
    """What was wished cannot be started; the message is one line for the user."""


class NotCounted(CannotPlan):
    """How many GPUs a node has is not known here."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """What is known besides the snapshots."""

    names: tuple[str, ...] = ()
    """The nodes in node-rank order, when they are known."""
    hosts_named: bool = False
    """Whether the user named them (else the allocation did)."""
    here: str = ""
    """Which of them this machine is; empty: none of them."""
    slots: Mapping[str, int] = field(default_factory=dict)
    """Ranks a node, as a hostfile says."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """What names resolve to, seen from this machine."""
    python: str = "python"
    """The training interpreter as it is to be written."""
    interpreter: str = ""
    """The same by its path."""
    exported: tuple[str, ...] = ("PATH",)
    leftovers: tuple[str, ...] = ()


def decide(
    wish: LaunchWish,
    snapshots: Mapping[str, Snapshot],
    around: Surroundings = Surroundings(),  # noqa: B008 - frozen
    *,
    example: Snapshot | None = None,
) -> LaunchPlan:
    """The start of one job; `snapshots` by node name, `example` a machine whose versions count where no node's are
    known (the one that the command runs on). Raises `CannotPlan`.
    """
    try:
        words.check(wish.program)
        return _decide(wish, snapshots, around, example)
    except ranks.GpusUncounted as error:
        raise NotCounted(str(error)) from None
    except (address.BadAddress, port.NoPort, ranks.NoRanks, words.Unquotable) as error:
        raise CannotPlan(str(error)) from None


def _decide(
    wish: LaunchWish, snapshots: Mapping[str, Snapshot], around: Surroundings, example: Snapshot | None
) -> LaunchPlan:
    if registry.frameworks()[wish.framework].a_chip:
        if wish.gpus_per_node:
            raise CannotPlan(
                "--gpus-per-node: a TPU has no GPUs, and PJRT starts a process a chip by itself; leave it out"
            )
        wish = replace(wish, gpus_per_node=1)  # the emitter names no number
    names, known = _names(wish, around)
    versions = _versions(wish, snapshots.get(around.here) or next(iter(snapshots.values()), example))
    elsewhere = bool(registry.frameworks()[wish.framework].scheduler) and not around.names
    if elsewhere:
        snapshots = _like_the_nodes(wish, snapshots, names[0])
    head = snapshots.get(names[0])
    counts = ranks.of_nodes(wish, names, snapshots, around.slots)
    head_address = _scheduled(wish) if elsewhere else _master(wish, names, head, around)
    program = wish.program or (defaults.PROGRAM,)
    head_port = port.choose(
        head, around.here == names[0] and not elsewhere, wish.master_port, " ".join((*names, *program))
    )
    shared, own, guesses = environment.variables(names, snapshots, counts.processes, counts.accelerator)
    nodes = tuple(
        NodePlan(
            rank=rank,
            name=name,
            address=_address_of(rank, name, head_address.address, snapshots, around, known[rank]),
            processes=counts.processes[rank],
            environment=own.get(name, ()),
            known=known[rank],
            guessed=() if name in snapshots else environment.naming_devices(shared),
        )
        for rank, name in enumerate(names)
    )
    return LaunchPlan(
        framework=wish.framework,
        nodes=nodes,
        master_address=head_address.address,
        master_name=head.host.hostname.value_or("") if head is not None else (names[0] if known[0] else ""),
        master_port=head_port.port,
        program=program,
        python=wish.python or _python(around, len(names)),
        interpreter=wish.python if "/" in wish.python else around.interpreter,
        strategy=wish.strategy,
        precision=wish.precision,
        elastic=wish.elastic,
        versions=versions,
        environment=shared,
        cpus_per_process=environment.cpus_per_process(names, snapshots, counts.processes),
        why={
            "master_address": head_address.why,
            "master_port": head_port.why,
            "processes": counts.why,
            **({"precision": write.lacks_bf16(snapshots)} if wish.precision == "bf16" else {}),
        },
        unverified=(
            *(() if elsewhere else _unverified(nodes, head_address.address, head_port.port, snapshots)),
            *guesses,
            *counts.guesses,
        ),
        accelerator=counts.accelerator,
        as_root=any(machine.host.is_root.value_or(False) for machine in snapshots.values()),
        hosts_named=around.hosts_named,
        exported=around.exported,
        leftovers=around.leftovers,
    )


def _names(wish: LaunchWish, around: Surroundings) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Names in node-rank order, and which of them are real."""
    if around.names:
        names = around.names[: wish.nodes or None]
        if wish.nodes > len(names):
            where = "--hosts or --hostfile names" if around.hosts_named else "the SLURM allocation has"
            raise CannotPlan(f"--nodes {wish.nodes}, but {where} {counted(len(names), 'node')}")
    else:
        most = wish.elastic[1] if wish.elastic else 1
        count = wish.nodes or most
        if count > MAXIMUM_NODES:
            raise CannotPlan(f"--nodes {count}: at most {MAXIMUM_NODES}")
        first = "NODE0" if registry.frameworks()[wish.framework].scheduler else around.here or "this-machine"
        names = (first, *(f"NODE{rank}" for rank in range(1, count)))
    if wish.elastic and wish.elastic[1] > len(names):
        raise CannotPlan(
            f"--elastic {wish.elastic[0]}:{wish.elastic[1]}, but only {counted(len(names), 'node')} may take part; "
            f"give --nodes {wish.elastic[1]}, or name as many"
        )
    return names, tuple(bool(around.names) or not name.startswith("NODE") for name in names)


def _python(around: Surroundings, nodes: int) -> str:
    """By its path on several nodes, unless it is the system's: a shell there may not have the environment activated."""
    if nodes == 1 or not around.interpreter or around.interpreter.startswith(("/usr/bin/", "/bin/")):
        return around.python
    return around.interpreter


def _like_the_nodes(wish: LaunchWish, snapshots: Mapping[str, Snapshot], head: str) -> Mapping[str, Snapshot]:
    """This machine as an example of the scheduler's nodes, where it has GPUs; a login node is none."""
    for machine in snapshots.values():
        try:
            if ranks.gpus(machine):
                return {head: machine}
        except NotRead:
            continue
    if not wish.gpus_per_node:
        raise CannotPlan(
            f"--framework {wish.framework}: this machine has no GPU that a program gets, and tells nothing of the "
            "scheduler's nodes; say how many GPUs each has with --gpus-per-node"
        )
    return {}


def _scheduled(wish: LaunchWish) -> address.ChosenAddress:
    """Where the scheduler's first node is the head, the emitted text asks for its name."""
    if wish.master_address:
        return address.ChosenAddress(address.check_given(wish.master_address, wish.nodes or 1), "as asked for")
    return address.ChosenAddress("HEAD_ADDRESS", "the first node that the scheduler chooses")


def _master(
    wish: LaunchWish, names: tuple[str, ...], head: Snapshot | None, around: Surroundings
) -> address.ChosenAddress:
    """MASTER_ADDR with its reason."""
    if wish.master_address:
        given = address.check_given(wish.master_address, len(names))
        if head is not None and address.is_own(head, given) is False:
            raise CannotPlan(
                f"--master-addr {given}: no interface of {names[0]}, where node rank 0 starts, has this address; "
                f"start node rank 0 where it belongs (--hosts with that node first), or leave the option out"
            )
        return address.ChosenAddress(given, "as asked for")
    if head is not None:
        return address.of_head(head, len(names))
    seen = around.addresses.get(names[0], "")
    if seen and not (len(names) > 1 and is_loopback(seen)):
        return address.ChosenAddress(seen, f"what {names[0]} resolves to on this machine")
    if len(names) > 1 and is_loopback(names[0]):
        raise CannotPlan(
            f"{names[0]}, the head, is a loopback address: each of {len(names)} nodes would wait for itself; name the "
            "head as the others reach it, or give --master-addr"
        )
    resolved = (
        f"resolves to {seen} here, which is no address for others" if seen else "does not resolve on this machine"
    )
    if address.NAME.fullmatch(names[0]) is None:  # an IPv6 address as a host's name
        return address.ChosenAddress(names[0], "the head as it was named")
    return address.ChosenAddress(names[0], f"the head's name, for it {resolved}")


def _address_of(
    rank: int, name: str, master: str, snapshots: Mapping[str, Snapshot], around: Surroundings, known: bool
) -> str:
    if rank == 0:
        return master
    if not known:
        return f"{name}_ADDRESS"
    if name in snapshots:
        try:
            return address.of_head(snapshots[name], 2).address
        except address.BadAddress:
            pass
    return around.addresses.get(name, "") or name


def _versions(wish: LaunchWish, machine: Snapshot | None) -> dict[str, str]:
    """Installed versions, as the node that this machine is (else the first that is known) has them."""
    versions: dict[str, str] = {}
    if machine is not None:
        packages = {
            name.lower().replace("_", "-"): version for name, version in machine.training.packages.value_or({}).items()
        }
        for launcher in registry.every():
            for each in (launcher.package, *launcher.other_packages):
                if version := packages.get(each.replace("_", "-")):
                    versions.setdefault(launcher.package, version)
        files = machine.training.torch_files.value_or(None)
        if files is not None:
            versions["torch"] = files.version
    if wish.framework_version:
        versions[registry.frameworks()[wish.framework].package or "torch"] = wish.framework_version
    return versions


def _unverified(
    nodes: tuple[NodePlan, ...], master: str, master_port: int, snapshots: Mapping[str, Snapshot]
) -> tuple[Unverified, ...]:
    """What nobody has looked at: --check does, where it can reach the nodes."""
    if len(nodes) == 1:
        return ()
    unseen = [node.name for node in nodes if node.known and node.name not in snapshots]
    unverified = [
        Unverified(
            f"the other nodes reach {master} port {master_port}, and no firewall lies between",
            command("gpudoctor check --hosts {:name}", ",".join(node.name for node in nodes))
            if all(node.known for node in nodes)
            else command("gpudoctor nccl-test --nodes {:number} --master-addr {:host}", len(nodes), master),
        )
    ]
    if unseen:
        unverified.append(
            Unverified(
                f"{listed(unseen)} {'has' if len(unseen) == 1 else 'have'} the interpreter, the GPUs and the script "
                "that the plan counts on",
                command("gpudoctor check --hosts {:name}", ",".join(unseen)),
            )
        )
    return tuple(unverified)
