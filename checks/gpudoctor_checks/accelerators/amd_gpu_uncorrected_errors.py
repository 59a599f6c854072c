"""An AMD GPU has met errors that it could not correct.

Why it matters: amdgpu ends the process that has met such an error, and resets the GPU where it must; the results until
then are not to be trusted. Only amd-smi's table tells the count (UEC), which holds since the driver was loaded.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.wording import counted


@check("amd-gpu-uncorrected-errors", title="No AMD GPU counts errors that it could not correct")
def amd_gpu_uncorrected_errors(machine: Snapshot) -> Problems:
    pci = machine.accelerators.pci
    for device in pci.value:
        if not device.uncorrected_errors:
            continue
        yield Problem(
            severity="error",
            summary=f"AMD GPU at {device.bus_id} counts {counted(device.uncorrected_errors, 'uncorrectable error')} "
            f"since its driver was loaded; none are expected",
            meaning="A job on this GPU was killed by it or will be, and its last results are not to be trusted.",
            evidence=(pci,),
            fix=Fix.of(
                "See in the kernel log which part has failed; reboot once, which retires faulty memory. When errors "
                "come back, have the GPU replaced.",
                command("sudo dmesg | grep -iE 'amdgpu.*(uncorrect|poison|retired|ras)' | tail -n 20"),
            ),
        )
