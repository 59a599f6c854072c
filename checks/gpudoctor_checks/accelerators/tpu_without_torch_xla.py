"""A Google TPU is here, and the training interpreter has no torch_xla.

Why it matters: torch itself knows no TPUs; the package torch_xla brings them as the device "xla", and torch_tpu
is a newer way. Without either, training runs on the CPU of the TPU's host.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.pytorch.torch_wheels import interpreter
from gpudoctor.knowledge.tpu import evidence_of_tpu, tpu_backend

# torch and torch_xla have to be of one release (docs.pytorch.org/xla/release/r2.8, "Getting Started").
RELEASE = "2.8.0"
LIBTPU = "https://storage.googleapis.com/libtpu-releases/index.html"


@check("tpu-without-torch-xla", title="torch_xla is installed for the TPUs of this machine")
def tpu_without_torch_xla(machine: Snapshot) -> Problems:
    tpu = evidence_of_tpu(machine)
    if tpu and not tpu_backend(machine):
        torch = if_present(machine.training.torch_files)
        yield Problem(
            severity="error",
            summary=f"{tpu}, and the training interpreter has "
            + (f"torch {torch.version} without torch_xla" if torch else "neither torch nor torch_xla"),
            meaning="Training runs on the CPU of the TPU's host.",
            evidence=(machine.accelerators.pci, machine.training.packages),
            fix=Fix.of(
                "Install torch and torch_xla of one release into the training interpreter.",
                command(
                    "{:python} -m pip install torch=={:version} {:name} -f {:name}",
                    interpreter(machine),
                    RELEASE,
                    f"torch_xla[tpu]=={RELEASE}",
                    LIBTPU,
                ),
            ),
        )
