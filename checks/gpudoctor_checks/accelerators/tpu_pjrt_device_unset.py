"""PJRT_DEVICE does not say TPU on a machine with TPUs.

Why it matters: torch_xla asks PJRT_DEVICE which runtime to start. Set to CPU or CUDA it leaves the TPUs alone and
training runs on the CPU; unset, newer releases look for TPUs themselves, and older ones fail.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.tpu import evidence_of_tpu, tpu_backend


@check("tpu-pjrt-device-unset", title="PJRT_DEVICE names the TPU")
def tpu_pjrt_device_unset(machine: Snapshot) -> Problems:
    tpu = evidence_of_tpu(machine)
    if not tpu or tpu_backend(machine) != "torch_xla":
        return
    device = machine.environment.value.get("PJRT_DEVICE")
    if device != "TPU":
        yield Problem(
            # torch_xla/runtime.py _maybe_select_default_device: unset, it takes the TPU when libtpu finds chips.
            severity="warning" if device else "info",
            summary=f"{tpu}, and PJRT_DEVICE is " + (f"{device!r}; TPU is wanted" if device else "not set"),
            meaning="torch_xla starts another runtime, and the TPUs stay idle."
            if device
            else "torch_xla guesses the runtime; where it guesses wrong, training runs on the CPU.",
            evidence=(machine.environment, machine.accelerators.pci),
            fix=Fix(
                "Set it in the shell or script that starts the job.", commands=(command("export PJRT_DEVICE=TPU"),)
            ),
        )
