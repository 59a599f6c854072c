"""A file that a setting of NCCL names is not there.

Why it matters: virtual machines of cloud vendors need NCCL_TOPO_FILE to know which NIC is near which GPU. Without the
file NCCL guesses, warns at most, and a healthy node measures like a broken one.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.nccl.repair import take_out
from gpudoctor.knowledge.nccl.settings import effective, evidence, where

NAMES = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_IBVERBS_LIB")


@check("nccl-path-missing", title="The files that NCCL's settings name are there")
def nccl_path_missing(machine: Snapshot) -> Problems:
    settings = effective(machine)
    for setting in (settings[name] for name in NAMES if name in settings and settings[name].value):
        paths = machine.network.nccl_paths
        if paths.value.get(setting.value, True):
            continue
        yield Problem(
            severity="warning",
            summary=f"{setting.name} is {setting.value}{where(setting)}; there is no such file",
            meaning="NCCL goes on without it, with what it finds of this machine by itself.",
            fix=Fix(
                "Correct the path (mount it into the container), or take the variable out.",
                commands=(command("ls -l {}", setting.value), *take_out(setting)),
            ),
            evidence=evidence(machine, setting, paths),
        )
