"""Which environment variables this machine needs, each with its reason: the answer of `gpudoctor env`.

A rule speaks only where NCCL's or torch's own choice is wrong here. What a rule could not read is named, so that an
empty answer means that everything was looked at.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from gpudoctor.knowledge.job import gpu_count, is_multi_node
from gpudoctor.knowledge.nccl.interfaces import nccl_choice
from gpudoctor.knowledge.nccl.settings import ENVIRONMENT, Setting, dotted, effective, version_if_known
from gpudoctor.knowledge.network.rdma_selection import cannot_open, usable_ports
from gpudoctor.knowledge.suggest.advice import Advice, Present, Suggestion, Unjudged
from gpudoctor.knowledge.suggest.debugging import debugging
from gpudoctor.knowledge.suggest.rdma import cross_nic, gdr_level, gid_index, hca, no_rdma
from gpudoctor.knowledge.suggest.situation import having, rdma_ports, scope, switched_off, without
from gpudoctor.knowledge.suggest.sockets import gloo_interface, socket_interface, socket_threads
from gpudoctor.knowledge.suggest.threads import omp_threads
from gpudoctor.knowledge.suggest.work_arounds import peer_access, shared_memory
from gpudoctor.knowledge.wording import listed
from gpudoctor.snapshot import NotApplicable, NotRead, Snapshot

Rule = Callable[[Snapshot, bool], Iterator[Suggestion]]


class Advised(NamedTuple):
    """A rule, and the variables that it may suggest."""

    names: tuple[str, ...]
    rule: Rule


RULES = (
    Advised(("NCCL_IB_HCA",), hca),
    Advised(("NCCL_IB_DISABLE",), no_rdma),
    Advised(("NCCL_IB_GID_INDEX",), gid_index),
    Advised(("NCCL_NET_GDR_LEVEL",), gdr_level),
    Advised(("NCCL_CROSS_NIC",), cross_nic),
    Advised(("NCCL_SOCKET_IFNAME",), socket_interface),
    Advised(("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"), socket_threads),
    Advised(("GLOO_SOCKET_IFNAME",), gloo_interface),
    Advised(("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE"), peer_access),
    Advised(("NCCL_SHM_DISABLE",), shared_memory),
    Advised(("OMP_NUM_THREADS",), omp_threads),
)
WITHOUT_NCCL = (Advised(("GLOO_SOCKET_IFNAME",), gloo_interface),)
"""What is left where there is no GPU for NCCL, and a launch over several nodes shows that somebody means to train."""


def suggest(machine: Snapshot, nodes: int | None = None, debug: bool = False) -> Advice:
    """The advice for this machine; `nodes` is how many take part, None for what the environment shows. Never raises."""
    wanted = scope(machine, nodes)
    rules, no_gpus = _rules(machine, nodes)
    suggested, unjudged = _ask(rules, machine, wanted.several)
    settings, unread = _settings(machine)
    if unread:
        unjudged.append(Unjudged("what is set already", unread))
    present = _present(rules, machine, wanted.several, {suggestion.name for suggestion in suggested}, settings)
    if debug:
        suggested += debugging(machine)
    repeated = [
        suggestion
        for suggestion in suggested
        if suggestion.name in settings and settings[suggestion.name].value == suggestion.value
    ]
    present += [
        Present(suggestion.name, suggestion.value, settings[suggestion.name].origin, suggestion.value)
        for suggestion in repeated
    ]
    suggestions = tuple(_replacing(suggestion, settings) for suggestion in suggested if suggestion not in repeated)
    version = version_if_known(machine)
    return Advice(
        suggestions=suggestions,
        silent="" if unjudged else no_gpus or _silence(machine, suggestions, present),
        nodes=nodes,
        scope=wanted.sentence,
        nccl_version=dotted(version) if version else "",
        present=tuple(present),
        unjudged=_grouped(unjudged),
        knows_gpus=machine.nvidia.gpus.is_read or machine.nvidia.gpus.missing_kind == "absent",
    )


def _rules(machine: Snapshot, nodes: int | None) -> tuple[tuple[Advised, ...], str]:
    """The rules that matter here, and why there are no others."""
    try:
        if gpu_count(machine):
            return RULES, ""
    except NotRead:
        return RULES, ""
    silent = "This machine has no NVIDIA GPU, so NCCL is not used here and needs nothing."
    means_to_train = (nodes or 0) > 1 or (nodes is None and is_multi_node(machine.environment.value_or({})))
    return (WITHOUT_NCCL if means_to_train else ()), silent


def _ask(rules: tuple[Advised, ...], machine: Snapshot, several: bool) -> tuple[list[Suggestion], list[Unjudged]]:
    """What the rules say, and what they could not tell.

    Each judges the machine as it is once what was suggested before is set: the sockets matter otherwise when the HCAs
    are put right.
    """
    suggested: list[Suggestion] = []
    unjudged: list[Unjudged] = []
    for entry in rules:
        try:
            suggestions = list(entry.rule(machine, several))
            suggested += suggestions
            machine = having(machine, {suggestion.name: suggestion.value for suggestion in suggestions})
        except NotApplicable:
            continue
        except NotRead as error:
            unjudged.append(Unjudged(", ".join(entry.names), str(error)))
        except Exception as error:  # a fault of one rule (or an absurd file) must not silence the others
            unjudged.append(Unjudged(", ".join(entry.names), f"internal error: {type(error).__name__}: {error}"))
    return suggested, unjudged


def _settings(machine: Snapshot) -> tuple[Mapping[str, Setting], str]:
    """Everything that is set, by the environment or NCCL's files, and what could not be read of it."""
    environment = machine.environment.value_or({})
    plain = {name: Setting(name, value, ENVIRONMENT) for name, value in environment.items()}
    try:
        return plain | effective(machine), ""
    except NotRead as error:
        return plain, str(error)


def _present(
    rules: tuple[Advised, ...], machine: Snapshot, several: bool, asked: set[str], settings: Mapping[str, Setting]
) -> list[Present]:
    """Variables that would be suggested if they were not set already, with a value that no rule objects to."""
    names = [name for entry in rules for name in entry.names if name in settings]
    if not names:
        return []
    try:
        bare = without(machine, *names)
    except NotRead:
        return []
    return [
        Present(suggestion.name, settings[suggestion.name].value, settings[suggestion.name].origin, suggestion.value)
        for suggestion in _ask(rules, bare, several)[0]
        if suggestion.name in settings and suggestion.name not in asked
    ]


def _replacing(suggestion: Suggestion, settings: Mapping[str, Setting]) -> Suggestion:
    """The suggestion with the value that it takes the place of."""
    setting = settings.get(suggestion.name)
    if setting is None:
        return suggestion
    return replace(suggestion, replaces=setting.value, replaces_from=setting.origin)


def _grouped(unjudged: list[Unjudged]) -> tuple[Unjudged, ...]:
    """One entry a reason."""
    reasons: dict[str, list[str]] = {}
    for reading in unjudged:
        reasons.setdefault(reading.reason, []).append(reading.what)
    return tuple(Unjudged(", ".join(whats), reason) for reason, whats in reasons.items())


def _silence(machine: Snapshot, suggestions: tuple[Suggestion, ...], present: list[Present]) -> str:
    """Why nothing, or nothing more, is suggested."""
    some = bool(suggestions or present)
    start = "Nothing else is needed" if some else "Nothing to set"
    if off := switched_off(machine):
        return (
            f"{start} for TCP, over which NCCL goes only because {listed(off)} "
            f"{'keeps' if len(off) == 1 else 'keep'} it from RDMA; take that out where it is not meant."
        )
    if idle := _idle_rdma(machine):
        return (
            f"{start}: NCCL goes over TCP{'' if some else _own_choices(machine)}, for it can use no port of "
            f"{listed(idle)}, which no variable cures; `gpudoctor check network` says what does."
        )
    if some:
        return f"{start}: for the rest, NCCL's own choices are right on this machine."
    return f"{start}: NCCL's own choices are right on this machine{_own_choices(machine)}."


def _idle_rdma(machine: Snapshot) -> list[str]:
    """RDMA devices, where NCCL can use none of them and no plugin drives them; none where that is not known."""
    try:
        by_settings = bool(usable_ports(machine)) and not cannot_open(machine)  # then a variable does cure it
        if by_settings or machine.network.net_plugins.value:
            return []
        return [device.name for device in machine.network.rdma_devices.value]
    except NotRead:
        return []


def _own_choices(machine: Snapshot) -> str:
    """What NCCL takes by itself, as far as it is known."""
    try:
        names = nccl_choice(machine).names
        devices = list(dict.fromkeys(device.name for device, _ in rdma_ports(machine)))
    except NotRead:
        return ""
    if devices:
        return f" ({listed(devices, 8)} for data, {names[0] if names else 'no interface'} to connect the ranks)"
    return f" ({listed(names)})" if names else ""
