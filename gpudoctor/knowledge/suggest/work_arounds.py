"""Settings that hide a fault until it is cured: PCIe peer access through ACS, and a /dev/shm that NCCL does not fit.

Each names its cure first. Sources: NCCL's user guide, troubleshooting (ACS; shared memory of containers) and env.rst.
"""

from collections.abc import Iterator

from gpudoctor.knowledge.job import job_gpu_count
from gpudoctor.knowledge.nccl.settings import dotted, nccl_version
from gpudoctor.knowledge.network.pcie_peers import is_bare_metal, pcie_peers, redirecting_switch_ports
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.suggest.advice import Suggestion
from gpudoctor.knowledge.wording import MIB, counted, listed, size
from gpudoctor.snapshot import NotRead, Snapshot, missing

DOCKER_DEFAULT = 64 * MIB  # what `docker run` gives without --shm-size
PROXIES = (((2, 31), 68_420_268), ((2, 28), 34_210_180), ((2, 22), 33_030_532), ((0,), 7_340_388))
"""From a release on, the bytes of /dev/shm that each rank's proxy takes for data over shared memory or the network
(proxy.cc, ncclProxyOpsPool; asked of 2.21.5, 2.27.5, 2.28.9, 2.30.7 and 2.32.3: between these the larger)."""


def peer_access(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """No P2P over PCIe while ACS bends it through the CPU, on bare metal only. Raises `NotRead`."""
    if not if_present(machine.nvidia.peers) or not is_bare_metal(machine):
        return
    pairs = pcie_peers(machine)
    redirecting = redirecting_switch_ports(machine.host.acs_bridges.value) if pairs else []
    if not redirecting:
        return
    has_nvlink = any(peer.nvlink == "ok" for peer in machine.nvidia.peers.value)
    yield Suggestion(
        "NCCL_P2P_LEVEL" if has_nvlink else "NCCL_P2P_DISABLE",
        "NVL" if has_nvlink else "1",
        f"ACS redirects the traffic between GPUs on {counted(len(redirecting), 'switch port')} "
        f"({listed(redirecting, 3)}): it is slow, and collectives may hang. The cure is to turn ACS off "
        "(`gpudoctor check acs-redirects-peer-traffic` has the lines); until then data between GPUs on PCIe goes "
        "through host memory instead. Take it out again after the cure.",
        "every NCCL version",
        'NCCL_DEBUG=INFO logs "via SHM" and no "via P2P"' + (" between GPUs without NVLink" if has_nvlink else ""),
        "work-around",
    )


def shared_memory(machine: Snapshot, several: bool) -> Iterator[Suggestion]:
    """No shared-memory transport, in a container with docker's default /dev/shm. Raises `NotRead`, also where none
    helps."""
    shm = if_present(machine.host.shared_memory)
    if shm is None or shm.total_bytes > DOCKER_DEFAULT or machine.host.container.value == "none":
        return
    count = job_gpu_count(machine)
    if count < 2 or all(peer.read == "ok" for peer in if_present(machine.nvidia.peers) or ()):
        return  # GPUs that reach one another do not exchange data through /dev/shm
    version = nccl_version(machine)
    proxies = count * next(taken for since, taken in PROXIES if version >= since)
    if proxies > shm.total_bytes:
        taken = f"NCCL {dotted(version)} takes {size(proxies)} of {size(shm.total_bytes)} over the network too"
        raise NotRead(missing("/dev/shm", f"{taken}: only --shm-size={count}g or --ipc=host helps"))
    yield Suggestion(
        "NCCL_SHM_DISABLE",
        "1",
        f"/dev/shm is {size(shm.total_bytes)}, and {counted(count, 'GPU')} without access to one another exchange "
        'their data through it; NCCL ends with "No space left on device". The cure is a container started with '
        f"--shm-size={count}g or --ipc=host; until then NCCL goes over its network transport, which is slower. Data "
        "loaders with workers need the cure anyhow.",
        "NCCL 2.27 and older; what later ones take of /dev/shm over the network does not fit either",
        'NCCL_DEBUG=INFO logs "via NET" between these GPUs',
        "work-around",
    )
