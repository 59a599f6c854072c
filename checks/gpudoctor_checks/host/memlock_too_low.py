"""The limit on locked memory (RLIMIT_MEMLOCK) is too low for InfiniBand or RoCE.

Why it matters: RDMA registers its buffers with the kernel, which counts them as locked memory. Over the limit,
NCCL and UCX fail with "Cannot allocate memory" in ibv_create_cq, ibv_create_qp or ibv_reg_mr. The limit is the
one of the process that starts the job: ssh, SLURM and containers each set their own.
"""

from collections.abc import Iterator

from gpudoctor.check import Fix, Problem, check
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import GIB, size
from gpudoctor.snapshot import Snapshot, require

WANTED = 32 * GIB  # Primus node_smoke fails a node below it, unless unlimited
OLD_DEFAULT = 64 * 1024  # Linux before 5.16, and containers on it; newer systems give 8 MiB


@check("memlock-too-low", title="RDMA may lock the memory it needs")
def memlock_too_low(machine: Snapshot) -> Iterator[Problem]:
    require(machine.nvidia.gpus)  # without a GPU nothing here uses RDMA for training
    limits = machine.host.limits
    soft, hard = limits.value.memlock_soft_bytes, limits.value.memlock_hard_bytes
    if soft is None or soft >= WANTED or _is_exempt(machine):
        return
    signs = _signs_of_rdma(machine)
    if signs or soft <= OLD_DEFAULT:
        container = machine.host.container.value_or("none") != "none"
        if container:
            fix = Fix("Start the container with `--ulimit memlock=-1` (docker, podman), or give it CAP_IPC_LOCK.")
        elif hard is None:
            fix = Fix("Raise it in the shell or script that starts the job.", commands=("ulimit -l unlimited",))
        else:
            fix = Fix(
                "Raise it for all users and log in again; for SLURM jobs, set LimitMEMLOCK=infinity in slurmd's unit.",
                commands=(
                    "printf '* soft memlock unlimited\\n* hard memlock unlimited\\n'"
                    " | sudo tee /etc/security/limits.d/90-memlock.conf",
                ),
            )
        yield Problem(
            severity="warning" if signs else "info",
            summary=f"RLIMIT_MEMLOCK is {size(soft)}; RDMA wants it unlimited, or {size(WANTED)}"
            + (f" ({signs})" if signs else ""),
            meaning='Over InfiniBand or RoCE the job dies at its first collective with "Cannot allocate memory"'
            + ("." if signs else "; without them this limit does no harm."),
            evidence=(limits,),
            fix=fix,
        )


def _is_exempt(machine: Snapshot) -> bool:
    """Root outside a container has CAP_IPC_LOCK, for which the kernel does not apply the limit."""
    return machine.host.is_root.value and machine.host.container.value_or("") == "none"


def _signs_of_rdma(machine: Snapshot) -> str:
    """What shows that jobs here use RDMA; empty when nothing does."""
    if "nvidia_peermem" in (if_present(machine.accelerators.kernel_modules) or ()):
        return "nvidia_peermem is loaded"
    if machine.environment.value.get("NCCL_IB_HCA"):
        return "NCCL_IB_HCA is set"
    return ""
