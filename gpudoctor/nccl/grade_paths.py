"""What makes a run slow whatever its numbers say: data on another path than the machine offers, by NCCL's own log."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpudoctor.causes import CAUSES
from gpudoctor.check import Fix
from gpudoctor.command import Command, command
from gpudoctor.knowledge.bandwidth.links import gpu_direct_used, gpus_at, network_of, over_verbs, used_ports
from gpudoctor.knowledge.gpus.gpu_labels import sysfs_address
from gpudoctor.knowledge.gpus.gpu_models import is_consumer
from gpudoctor.knowledge.nccl.fabric import ports_in_words, rdma_port_names
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import ENVIRONMENT, Setting, effective, set_integer
from gpudoctor.knowledge.network.gpu_direct import GdrVerdict, verdicts
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.network.topology import class_or_reason, nvlinks_between, shares_switch
from gpudoctor.knowledge.suggest.suggestions import suggest
from gpudoctor.knowledge.wording import listed
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.grade_places import GradedPlace
from gpudoctor.snapshot import Gpu, NotRead, Snapshot, read
from gpudoctor.symptoms.in_text import symptoms

TCP_CAUSES = {
    "no-rdma-device": "no-device",
    "rdma-device-not-opened": "not-opened",
    "verbs-library-missing": "no-verbs",
}
"""Symptoms that say why NCCL passed RDMA over -> which remedy helps."""

AMPERE = (8, 0)
"""Compute capability."""


class PathFault(NamedTuple):
    """A path that is not the one the machine offers."""

    reason: str
    """For the grade, in half a sentence."""
    finding: Finding


def misconfigured(places: Sequence[GradedPlace]) -> tuple[PathFault, ...]:
    """Every such fault. Never raises: what was not read is no fault."""
    faults: list[PathFault] = []
    for rule in (_tcp_beside_rdma, _without_gpu_direct, _over_host_memory):
        faults += rule(places)
    return tuple(faults)


def settings_of(place: GradedPlace) -> dict[str, Setting]:
    """NCCL's settings on a node: as it was read, and what NCCL's log says it found."""
    named = {name: Setting(name, value, ENVIRONMENT) for name, value in place.log.settings.items()}
    try:
        return named | (effective(place.machine) if place.machine else {})
    except NotRead:
        return named


def _tcp_beside_rdma(places: Sequence[GradedPlace]) -> Iterator[PathFault]:
    if len(places) < 2:
        return
    guilty: list[tuple[GradedPlace, Snapshot, tuple[str, ...]]] = []
    for place in places:
        names = _usable(place.machine)
        if network_of(place.log) == "Socket" and place.machine is not None and names:
            guilty.append((place, place.machine, names))
    if not guilty:
        return
    place, machine, names = guilty[0]
    nodes = tuple(place.node for place, _, _ in guilty)
    why, commands = _why_tcp(place, machine)
    yield PathFault(
        f"NCCL's log says TCP (NET/Socket), and {place.node} has {ports_in_words(names)}",
        finding(
            "rdma-unused",
            "warning",
            f"NCCL goes over TCP on {listed(nodes)}; wanted is RDMA: {place.node} has {ports_in_words(names)}",
            # AReaL#639: about 5 where 25 were; nccl#465: 4 over IPoIB where 12 were.
            meaning=f"Data between the nodes goes at a fifth of what the ports offer, or less. {why}",
            fix=Fix("Take what keeps NCCL from RDMA out of the way, on every node.", commands=commands),
            evidence=(read(f"NCCL's log of {place.node}", "Using network Socket"),),
            nodes=nodes,
        ),
    )


def _usable(machine: Snapshot | None) -> tuple[str, ...]:
    try:
        return rdma_port_names(machine) if machine is not None else ()
    except NotRead:
        return ()


def _why_tcp(place: GradedPlace, machine: Snapshot) -> tuple[str, tuple[Command, ...]]:
    """The sentence that says why, and the lines that cure it."""
    settings = settings_of(place)
    blamed = [
        setting
        for name, setting in settings.items()
        if (name == "NCCL_IB_DISABLE" and setting.value not in ("", "0"))
        or (name == "NCCL_NET" and setting.value.lower() == "socket")
    ]
    if blamed:
        words = listed(f"{each.name}={each.value}" for each in blamed)
        return f"The cause is {words}.", take_out(*blamed)
    try:
        passed = rdma_choice(machine).passed_over
    except NotRead:
        passed = ()
    if passed:
        device, port, reason = passed[0]
        lines = suggested(machine, "NCCL_IB_", "NCCL_NET")
        return f"NCCL passes {device} port {port} over: {reason}.", lines or (command("gpudoctor check network nccl"),)
    for shown in symptoms(place.text):
        if variant := TCP_CAUSES.get(shown.symptom.id):
            fix = CAUSES["rdma-unused"].remedy(variant)
            return f"{shown.seen[0].upper()}{shown.seen[1:]}. {fix.text}", fix.commands
    return "Nothing that was read says why.", (command("NCCL_NET=IB NCCL_DEBUG=INFO gpudoctor nccl-test"),)


def suggested(machine: Snapshot, *beginnings: str) -> tuple[Command, ...]:
    """What `gpudoctor env` would set, as lines; only names that begin so, where beginnings are given."""
    return tuple(
        command("export {:variable}={:value}", suggestion.name, suggestion.value)
        for suggestion in suggest(machine, 2).suggestions
        if suggestion.kind == "needed" and suggestion.name.startswith(beginnings or "NCCL_")
    )


# ---------------------------------------------------------------- GPUDirect RDMA


def _without_gpu_direct(places: Sequence[GradedPlace]) -> Iterator[PathFault]:
    guilty = [(place, failing) for place, failing in lacking_gpu_direct(places) if not is_wiring(failing)]
    if not guilty:
        return
    place, failing = guilty[0]
    nodes = tuple(place.node for place, _ in guilty)
    why = failing.reason if failing else "nothing that was read of the machine speaks against it"
    yield PathFault(
        f"GPUDirect RDMA is off on {listed(nodes)}: {why}",
        finding(
            "gpu-direct-rdma-off",
            "warning",
            f"NCCL sends over NET/IB without GPUDirect RDMA on {listed(nodes)}: {why}",
            # nccl#1412: 33 to 93 GB/s; nccl#465: 6 to 12 on one port.
            meaning="Data to other nodes is copied through host memory: a third to a half of the bandwidth is left.",
            fix=Fix(*_gpu_direct_fix(place, failing)),
            evidence=(read(f"NCCL's log of {place.node}", "via NET/IB without /GDRDMA"),),
            nodes=nodes,
        ),
    )


def lacking_gpu_direct(places: Sequence[GradedPlace]) -> Iterator[tuple[GradedPlace, GdrVerdict | None]]:
    """The nodes that send over NET/IB without it though their GPUs may offer it, and the condition that fails."""
    for place in places:
        if place.machine is None or gpu_direct_used(place.log) is not False or _consumer(place):
            continue
        if not _only_reads_lack_it(place.machine, place):
            yield place, _failing(place.machine, place)


def _only_reads_lack_it(machine: Snapshot, place: GradedPlace) -> bool:
    """Whether only what the node sends goes without, on GPUs for which that is NCCL's default.

    Before Ampere and without NVLink (T4, V100 PCIe) NCCL lets NICs write to GPUs and not read from them, unless
    NCCL_NET_GDR_READ=1 (ncclTopoCheckGdr in graph/paths.cc).
    """
    ranks = {member.rank for member in place.members}
    lacking = [path for path in place.log.paths if over_verbs(path) and not path.gdr]
    receiving = [path for path in place.log.paths if over_verbs(path) and path.receiver in ranks and path.gdr]
    try:
        gpus = gpus_at(machine, place.addresses)
        old = all(gpu.compute_capability.value < AMPERE for gpu in gpus)
    except NotRead:
        return False
    linked = any(link.active for gpu in gpus for link in gpu.nvlinks.value_or(()))
    return old and not linked and bool(receiving) and all(path.sender in ranks for path in lacking)


def is_wiring(failing: GdrVerdict | None) -> bool:
    """Whether it is the GPU, or the way the board is wired, and no setting and no module."""
    if failing is None:
        return False
    by_distance = failing.condition == "distance" and "NCCL_NET_GDR_LEVEL" not in failing.reason
    return failing.condition == "gpu" or by_distance


def _consumer(place: GradedPlace) -> bool:
    """Whether its GPUs are GeForce cards, which do not offer GPUDirect RDMA."""
    return all(is_consumer(member.device) for member in place.members)


def _failing(machine: Snapshot, place: GradedPlace) -> GdrVerdict | None:
    """The condition that fails for the GPUs of the run and the NICs near them; None when none is known to."""
    try:
        gpus = {gpu.index for gpu in gpus_at(machine, place.addresses)}
        devices = {device.name for device, _ in used_ports(machine, place.addresses)}
        own = [verdict for verdict in verdicts(machine) if verdict.gpu in gpus and verdict.device in devices]
    except NotRead as error:
        return GdrVerdict(0, "", None, f"what it needs was not read: {error}", "", "unknown")
    served = {each.gpu for each in own if each.used}
    # A GPU is served by the best of its NICs, so of several verdicts the distance says least.
    failing = [each for each in own if each.gpu not in served]
    return min(failing, key=lambda each: each.condition == "distance", default=None)


def _gpu_direct_fix(place: GradedPlace, condition: GdrVerdict | None) -> tuple[str, tuple[Command, ...]]:
    if condition is not None and condition.condition == "module":
        return (
            "Load the peer memory module, and have it loaded at boot.",
            (
                command("sudo modprobe nvidia-peermem"),
                command("echo nvidia-peermem | sudo tee /etc/modules-load.d/nvidia-peermem.conf"),
            ),
        )
    settings = settings_of(place)
    names = ("NCCL_NET_GDR_LEVEL", "NCCL_DMABUF_ENABLE", "NCCL_NET_GDR_READ", "NCCL_NET_GDR_C2C")
    blamed = [settings[name] for name in names if name in settings]
    if blamed:
        return f"Take {listed(each.name for each in blamed)} out.", take_out(*blamed)
    return "See which condition fails on the node.", (command("gpudoctor check network"), command("gpudoctor topology"))


# ---------------------------------------------------------------- host memory between GPUs


def _over_host_memory(places: Sequence[GradedPlace]) -> Iterator[PathFault]:
    for place in places:
        if place.machine is None or "SHM" not in place.log.transports():
            continue
        pair = could_talk(place.machine, place)
        if pair is None:
            continue
        one, other, how = pair
        blamed = _forbidding(place)
        if blamed:
            cause = f"The cause is {listed(f'{each.name}={each.value}' for each in blamed)}."
            fix = Fix("Take it out, on every node.", commands=take_out(*blamed))
        else:
            cause = "No setting forbids it: containers without a common IPC namespace, MIG, or peer access that failed."
            commands = command("nvidia-smi topo -p2p r"), command("gpudoctor check driver host")
            fix = Fix("See why peer access is not used.", commands=commands)
        words = f"GPU {one.index} and GPU {other.index}"
        yield PathFault(
            f"{words} of {place.node} talk through host memory (SHM), and {how}",
            finding(
                "peers-over-host-memory",
                "warning",
                f"{words} of {place.node} talk through host memory (SHM); wanted is P2P, for {how}",
                meaning=f"Collectives inside the node go at a tenth of NVLink's rate, or half of PCIe's. {cause}",
                fix=fix,
                evidence=(read(f"NCCL's log of {place.node}", "via SHM"),),
                nodes=(place.node,),
            ),
        )


def _forbidding(place: GradedPlace) -> list[Setting]:
    """The settings that keep GPUs from reading each other's memory, or may."""
    settings = settings_of(place)
    off = set_integer(settings, "NCCL_P2P_DISABLE", 0) != 0
    names = (("NCCL_P2P_DISABLE",) if off else ()) + (("NCCL_P2P_LEVEL",) if "NCCL_P2P_LEVEL" in settings else ())
    return [settings[name] for name in names]


def could_talk(machine: Snapshot, place: GradedPlace, across: bool = False) -> tuple[Gpu, Gpu, str] | None:
    """Two GPUs that NCCL joins through host memory although they offer better, and what they offer.

    `across`: also where only NCCL's default distance is against it.
    """
    members = {member.rank: member for member in place.members}
    any_distance = across or bool(_forbidding(place))
    for path in place.log.paths:
        if not path.transport.startswith("SHM") or not {path.sender, path.receiver} <= members.keys():
            continue
        try:
            pair = gpus_at(machine, [members[path.sender].bus_id, members[path.receiver].bus_id])
            if len(pair) != 2:
                continue
            one, other = pair
            if links := nvlinks_between(machine, one, other):
                return one, other, f"{links} NVLinks join them" if links > 1 else "an NVLink joins them"
            reads = [
                peer.read
                for peer in machine.nvidia.peers.value
                if {peer.from_gpu, peer.to_gpu} == {one.index, other.index}
            ]
        except NotRead:
            continue
        apart, _ = class_or_reason(machine, sysfs_address(one), sysfs_address(other))
        # Beyond a PCIe switch, host memory is NCCL's own choice since 2.23.4.
        if reads and all(read_ == "ok" for read_ in reads) and (any_distance or (apart and shares_switch(apart))):
            return one, other, "the driver lets them read each other's memory"
    return None
