"""A kernel is loaded while another communicator spins."""

from gpudoctor.cause import Cause
from gpudoctor.check import Fix
from gpudoctor.command import command

CAUSE = Cause(
    id="cuda-lazy-loading",
    title="a kernel is loaded while another communicator spins",
    stages=("first collective",),
    blame="environment",
    hangs_by="start",
    meaning=(
        "CUDA loads a kernel at its first use, and may wait for the GPU to be idle. A running collective that "
        "waits for this rank is never idle."
    ),
    fix=Fix(
        "Load kernels at the start, or run each operation once before the communicators are used together.",
        (command("export CUDA_MODULE_LOADING=EAGER"),),
    ),
    confirm=("With CUDA_MODULE_LOADING=EAGER the same job runs."),
    source=("CUDA programming guide, lazy loading (concurrent execution)"),
)
