"""Importing torch takes long.

Why it matters: every rank, every restart and every data-loader process that is spawned pays for it. Installations on a
network file system are slow when many ranks read thousands of small files at the same time.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_wheels import interpreter

SLOW_SECONDS = 5.0  # our rule of thumb; from a local disk it takes 1.0 to 1.5 s (measured with torch 2.13)


@check("torch-import-slow", title="torch imports quickly")
def torch_import_slow(machine: Snapshot) -> Problems:
    torch, files = machine.training.torch, machine.training.torch_files
    seconds = torch.value.import_seconds
    if seconds <= SLOW_SECONDS:
        return
    folder = files.value_or(None)
    where = f" from {folder.path}" if folder else ""
    python = interpreter(machine)
    yield Problem(
        severity="info",
        summary=f"import torch took {seconds:.1f} s{where}; from a local disk it takes 1 to 2 s",
        meaning="Each rank and each restart waits as long; a first import after a reboot is always slower.",
        evidence=(torch, files),
        fix=Fix.of(
            "Measure again; when it stays slow, put the environment on a local disk or into a container image.",
            command("time {:python} -c 'import torch'", python),
            *((command("df -hT {:path}", folder.path),) if folder else ()),
        ),
    )
