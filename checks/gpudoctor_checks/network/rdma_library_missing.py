"""RDMA ports are ACTIVE, and libibverbs is not installed.

Why it matters: NCCL loads libibverbs.so.1 at run time. Without it (slim container images lack it) NCCL says "Failed
to open libibverbs.so[.1]" at NCCL_DEBUG=INFO only and runs over TCP. PyTorch's wheels do not bring it along.
(NCCL src/misc/ibvsymbols.cc and ibvwrap.cc, all versions that load it.)
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.job import gpu_count
from gpudoctor.knowledge.network.rdma_selection import usable_ports
from gpudoctor.knowledge.wording import counted

INSTALL = (
    (("Ubuntu", "Debian"), command("sudo apt-get install -y libibverbs1 ibverbs-providers")),
    (("SUSE", "SLES"), command("sudo zypper install -y libibverbs1 rdma-core")),
    (("Red Hat", "Rocky", "Alma", "CentOS", "Fedora", "Oracle", "Amazon"), command("sudo dnf install -y libibverbs")),
)
"""Package names of rdma-core in the distributions."""


@check("rdma-library-missing", title="libibverbs is installed where RDMA ports are ACTIVE")
def rdma_library_missing(machine: Snapshot) -> Problems:
    ports, library = usable_ports(machine), machine.network.verbs_library
    if not ports or not gpu_count(machine) or library.value:
        return
    system = machine.host.distribution.value_or("")
    lines = tuple(line for names, line in INSTALL if any(name in system for name in names)) or (INSTALL[0][1],)
    yield Problem(
        severity="warning",
        summary=f"{counted(len(ports), 'RDMA port')} {'is' if len(ports) == 1 else 'are'} ACTIVE, "
        "but libibverbs.so.1 is not installed",
        meaning="NCCL cannot use RDMA and falls back to TCP without a warning.",
        evidence=(library, ports[0][1].state),
        fix=Fix("Install it, with the drivers' part (providers), on the machine or in the image.", commands=lines),
    )
