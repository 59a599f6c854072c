"""Cases of the checks in checks/gpudoctor_checks/host/."""

from gpudoctor.snapshot import Space, read
from tests.build import GIB, MIB, but, h100_node, rtx_4090_node, unread
from tests.cases import Case

SHM = "host.shared_memory"

CASES = [
    Case(
        "shm-too-small",
        fires=but(h100_node(), SHM, read("statvfs /dev/shm", Space(64 * MIB, 64 * MIB))),
        silent=but(rtx_4090_node(), SHM, read("statvfs /dev/shm", Space(8 * GIB, 8 * GIB))),
        unread=but(h100_node(), SHM, unread("statvfs /dev/shm")),
        says=("0.06 GiB", "8 GPUs want 8 GiB"),
        commands=("docker run --shm-size=8g ...",),
    ),
    Case(
        "shm-too-small",
        fires=but(h100_node(), SHM, read("statvfs /dev/shm", Space(2 * GIB, 2 * GIB))),
        severity="warning",
    ),
]
