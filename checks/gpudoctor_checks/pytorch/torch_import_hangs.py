"""Importing torch, or initialising CUDA from it, does not return.

Why it matters: the training hangs in the same place, without a message. A driver that waits for a GPU which no longer
answers blocks every process that initialises CUDA; a dead network file system blocks the import. A cold one, or a
machine that is busy with other work, only delays it: an import that the kernel did not hold is told as a warning, and
the verdict as "cannot tell".
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.pytorch.torch_wheels import interpreter


@check("torch-import-hangs", title="torch imports and finds its devices in time")
def torch_import_hangs(machine: Snapshot) -> Problems:
    training = machine.training
    probe = training.torch_probe.value
    if probe.outcome != "hung":
        return
    python = interpreter(machine)
    in_driver = probe.step.startswith("torch.cuda")
    folder = training.torch_files.value_or(None)
    where = f" from {folder.path}" if folder and not in_driver else ""
    seconds = probe.timeout_seconds * 6
    stuck = f" ({probe.detail})" if probe.detail else ""
    is_held = in_driver or bool(probe.detail)
    yield Problem(
        severity="error" if is_held else "warning",
        summary=f"{probe.step}{where} did not return within {probe.timeout_seconds:g} s{stuck}",
        meaning=(
            "A training hangs in the same place"
            if is_held
            else "A training waits in the same place, for ever or as long as a slow disk or a busy machine takes"
        )
        + "; what torch could tell was not read.",
        evidence=(training.torch_probe, training.python),
        fix=Fix.of(
            "See where it waits, and whether more time helps. "
            + (
                "Inside the CUDA driver, the kernel log names the GPU; a reset or a reboot frees it."
                if in_driver
                else "A first import from a network file system can take a minute; install torch on a local disk."
            ),
            command(
                "{:python} -c 'import faulthandler, sys; faulthandler.dump_traceback_later(float(sys.argv[1]), "
                "exit=True); import torch; torch.cuda.is_available()' {:number}"
                if in_driver
                else "{:python} -c 'import faulthandler, sys; "
                "faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True); import torch' {:number}",
                python,
                f"{seconds:g}",
            ),
            command("gpudoctor check --python {:path} --timeout {:number}", python, f"{seconds:g}"),
            *((command("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20"),) if in_driver else ()),
        ),
    )
