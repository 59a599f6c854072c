"""NVLinks of a GPU, and peer access and distance between GPUs."""

import itertools
from collections.abc import Callable
from typing import Any

from gpudoctor.knowledge import pci_address
from gpudoctor.read.nvml_calls import GPU_IS_LOST, INVALID_ARGUMENT, NOT_SUPPORTED, CallFailed, Calls, text
from gpudoctor.snapshot import NvLink, PeerAccess, TopologyLevel

Ask = Callable[..., Any]
"""`Device.ask`: an NVML function of this GPU's handle."""

MAXIMUM_LINKS = 64
"""More than any GPU has (36 in NVML 13.3): an end for a driver that never answers with an error."""
REMOTES = {0: "gpu", 1: "cpu", 2: "switch"}  # nvmlIntNvLinkDeviceType_t; 1 is IBM's POWER9
REPLAY, RECOVERY, CRC_FLIT = 0, 1, 2  # nvmlNvLinkErrorCounter_t
P2P_READ, P2P_NVLINK = 0, 2  # nvmlGpuP2PCapsIndex_t
P2P_STATUS = (
    "ok",
    "chipset-not-supported",
    "gpu-not-supported",
    "topology-not-supported",
    "disabled-by-registry",
    "not-supported",
    "unknown",
)
"""By nvmlGpuP2PStatus_t."""
LEVELS = {0: "internal", 10: "single", 20: "multiple", 30: "hostbridge", 40: "node", 50: "system"}
"""nvmlGpuTopologyLevel_t."""


def nvlinks(ask: Ask) -> tuple[NvLink, ...]:
    """Every link of the GPU. Raises `CallFailed` when links are not supported or one could not be asked.

    Links are counted by asking until NVML refuses the number: how many there can be at most differs between
    GPUs and between releases of nvidia-ml-py.
    """
    links: list[NvLink] = []
    for link in range(MAXIMUM_LINKS):
        try:
            active = ask("nvmlDeviceGetNvLinkState", link)
        except CallFailed as error:
            if error.code not in (INVALID_ARGUMENT, NOT_SUPPORTED):
                raise
            if not links:  # no link 0: this GPU has none, in whichever way the driver says so
                raise CallFailed(error.source, NOT_SUPPORTED) from None
            break
        links.append(_described(ask, link) if active else NvLink(link, False))
    return tuple(links)


def _described(ask: Ask, link: int) -> NvLink:
    remote = _if_known(ask, "nvmlDeviceGetNvLinkRemoteDeviceType", link)
    place = _if_known(ask, "nvmlDeviceGetNvLinkRemotePciInfo", link)
    replay, recovery, crc = (
        _if_known(ask, "nvmlDeviceGetNvLinkErrorCounter", link, counter) for counter in (REPLAY, RECOVERY, CRC_FLIT)
    )
    return NvLink(
        link,
        True,
        "unknown" if remote is None else REMOTES.get(remote, "unknown"),
        _address(place),
        replay_errors=replay,
        recovery_errors=recovery,
        crc_errors=crc,
    )


def _if_known(ask: Ask, name: str, *arguments: object) -> Any:
    """The function's result, or None: the snapshot keeps what the link says of itself without the rest."""
    try:
        return ask(name, *arguments)
    except CallFailed as error:
        if error.code == GPU_IS_LOST:
            raise
        return None


def _address(place: Any) -> str:
    try:
        return pci_address.normalised(text(place.busId)) if place is not None else ""
    except ValueError:
        return ""


def peers(calls: Calls, count: int) -> tuple[PeerAccess, ...]:
    """Peer access of all ordered pairs. Raises `CallFailed` when no pair could be asked."""
    failures: list[CallFailed] = []
    attempted = _forgiving(calls, failures)
    handles = [attempted("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
    accesses: list[PeerAccess] = []
    answered = False
    for source, target in itertools.permutations(range(count), 2):
        codes: list[int | None] = [None, None]
        if handles[source] is not None and handles[target] is not None:
            pair = handles[source], handles[target]
            codes = [attempted("nvmlDeviceGetP2PStatus", *pair, capability) for capability in (P2P_READ, P2P_NVLINK)]
        answered = answered or codes[0] is not None
        accesses.append(PeerAccess(source, target, *(_p2p_status(code) for code in codes)))
    if failures and not answered:
        raise failures[-1]
    return tuple(accesses)


def topology(calls: Calls, count: int) -> tuple[TopologyLevel, ...]:
    """The nearest common ancestor of all pairs that tell it. Raises `CallFailed` when none does."""
    failures: list[CallFailed] = []
    attempted = _forgiving(calls, failures)
    handles = [attempted("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
    topology_levels: list[TopologyLevel] = []
    for one, other in itertools.combinations(range(count), 2):
        if handles[one] is None or handles[other] is None:
            continue
        level = attempted("nvmlDeviceGetTopologyCommonAncestor", handles[one], handles[other])
        if level in LEVELS:
            topology_levels.append(TopologyLevel(one, other, LEVELS[level]))
    if failures and not topology_levels:
        raise failures[-1]
    return tuple(topology_levels)


def _forgiving(calls: Calls, failures: list[CallFailed]) -> Ask:
    """`calls.ask` with None for a call that fails, which is added to `failures`.

    A lost GPU answers nothing; the pairs of the others still count.
    """

    def attempted(name: str, *arguments: object) -> Any:
        try:
            return calls.ask(name, *arguments)
        except CallFailed as error:
            failures.append(error)
            return None

    return attempted


def _p2p_status(code: int | None) -> str:
    return P2P_STATUS[code] if code is not None and 0 <= code < len(P2P_STATUS) else "unknown"
