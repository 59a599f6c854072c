"""The limit on locked memory (RLIMIT_MEMLOCK), which RDMA's buffers count against."""

from gpudoctor.command import Command, command
from gpudoctor.knowledge.wording import GIB
from gpudoctor.snapshot import Snapshot

WANTED = 32 * GIB  # Primus node_smoke fails a node below it, unless unlimited


def is_exempt(machine: Snapshot) -> bool:
    """Root outside a container has CAP_IPC_LOCK, for which the kernel does not apply the limit. Raises `NotRead`."""
    return machine.host.is_root.value and machine.host.container.value_or("") == "none"


def how_to_raise(machine: Snapshot) -> tuple[str, tuple[Command, ...]]:
    """A sentence, and lines to paste. Raises `NotRead`."""
    if machine.host.container.value_or("none") != "none":
        return "Start the container with `--ulimit memlock=-1` (docker, podman), or give it CAP_IPC_LOCK.", ()
    if machine.host.limits.value.memlock_hard_bytes is None:
        return "Raise it in the shell or script that starts the job.", (command("ulimit -l unlimited"),)
    return (
        "Raise it for all users and log in again; for SLURM jobs, set LimitMEMLOCK=infinity in slurmd's unit.",
        (
            command(
                "printf '* soft memlock unlimited\\n* hard memlock unlimited\\n'"
                " | sudo tee /etc/security/limits.d/90-memlock.conf"
            ),
        ),
    )
