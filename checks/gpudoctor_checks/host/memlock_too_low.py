"""The limit on locked memory (RLIMIT_MEMLOCK) is too low for InfiniBand or RoCE.

Why it matters: RDMA registers its buffers with the kernel, which counts them as locked memory. Over the limit,
NCCL and UCX fail with "Cannot allocate memory" in ibv_create_cq, ibv_create_qp or ibv_reg_mr. The limit is the
one of the process that starts the job: ssh, SLURM and containers each set their own.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.network.locked_memory import WANTED, how_to_raise, is_exempt
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import size
from gpudoctor.snapshot import require

OLD_DEFAULT = 64 * 1024  # Linux before 5.16, and containers on it; newer systems give 8 MiB


@check("memlock-too-low", title="RDMA may lock the memory it needs", follows=("rdma-memlock-low",))
def memlock_too_low(machine: Snapshot) -> Problems:
    limits, devices = machine.host.limits, machine.network.rdma_devices
    require(machine.nvidia.gpus, limits)  # without a GPU nothing here uses RDMA for training
    if any(port.state.value_or("") == "ACTIVE" for device in devices.value_or(()) for port in device.ports):
        return  # rdma-memlock-low speaks of it, and knows more
    soft = limits.value.memlock_soft_bytes
    if soft is None or soft >= WANTED or is_exempt(machine):
        return
    signs = _signs_of_rdma(machine)
    if signs or soft <= OLD_DEFAULT:
        yield Problem(
            severity="warning" if signs else "info",
            summary=f"RLIMIT_MEMLOCK is {size(soft)}; RDMA wants it unlimited, or {size(WANTED)}"
            + (f" ({signs})" if signs else ""),
            meaning='Over InfiniBand or RoCE the job dies at its first collective with "Cannot allocate memory"'
            + ("." if signs else "; without them this limit does no harm."),
            evidence=(limits,),
            fix=Fix(*how_to_raise(machine)),
        )


def _signs_of_rdma(machine: Snapshot) -> str:
    """What shows that jobs here use RDMA; empty when nothing does."""
    if "nvidia_peermem" in (if_present(machine.accelerators.kernel_modules) or ()):
        return "nvidia_peermem is loaded"
    if machine.environment.value.get("NCCL_IB_HCA"):
        return "NCCL_IB_HCA is set"
    return ""
