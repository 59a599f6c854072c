"""RDMA ports are ACTIVE, and the limit on locked memory (RLIMIT_MEMLOCK) is too low for them.

Why it matters: RDMA registers its buffers with the kernel, which counts them as locked memory. Over the limit, NCCL
fails at its first connection: "Call to ibv_create_cq failed with error Cannot allocate memory", or ibv_reg_mr. The
limit is that of the process which starts the job: ssh, SLURM, systemd and containers each set their own.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.job import gpu_count
from gpudoctor.knowledge.network.locked_memory import WANTED, how_to_raise, is_exempt
from gpudoctor.knowledge.network.rdma_ports import DevicePort, places, taken
from gpudoctor.knowledge.network.rdma_selection import rdma_choice
from gpudoctor.knowledge.wording import MIB, counted, size

KERNEL_DEFAULT = 8 * MIB  # since Linux 5.16; 64 KiB before. Below it no communicator of several channels comes up.


@check("rdma-memlock-low", title="Jobs may lock the memory that the RDMA ports need")
def rdma_memlock_low(machine: Snapshot) -> Problems:
    ports, limits = _used(machine), machine.host.limits
    if not ports or not gpu_count(machine):
        return
    soft = limits.value.memlock_soft_bytes
    if soft is None or soft >= WANTED or is_exempt(machine):
        return
    yield Problem(
        severity="error" if soft <= KERNEL_DEFAULT else "warning",
        summary=f"RLIMIT_MEMLOCK is {size(soft)} with {counted(len(ports), 'ACTIVE RDMA port')}; "
        f"RDMA wants it unlimited, or {size(WANTED)}",
        meaning='NCCL dies at its first connection with "Cannot allocate memory".',
        evidence=(limits, ports[0].port.state),
        fix=Fix(*how_to_raise(machine)),
    )


def _used(machine: Snapshot) -> list[DevicePort]:
    """The ports that NCCL takes, and those of EFA, which its plugin takes. Raises `NotRead`."""
    efa = [place for place in places(machine) if place.device.driver == "efa" and place.port.state.value == "ACTIVE"]
    return [*taken(machine, rdma_choice(machine).taken), *efa]
