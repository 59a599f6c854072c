"""The Linux kernel is older than 5.5.

Why it matters: Hugging Face Accelerate warns that training can hang on kernels before 5.5.0, and GPUDirect RDMA
over DMA-BUF needs 5.12 (NCCL's documentation).
"""

import re

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.lazy import lazy_re

MINIMUM = (5, 5)  # accelerate/utils/other.py check_os_kernel: "this can cause the process to hang"
# Red Hat keeps the number of its enterprise kernels and brings fixes and drivers back into them.
ENTERPRISE = lazy_re(r"\.el[78]")


@check("kernel-too-old", title="The Linux kernel is 5.5 or newer")
def kernel_too_old(machine: Snapshot) -> Problems:
    kernel = machine.host.kernel_release
    # gVisor is no Linux: it always calls itself 4.4.0.
    if machine.host.system.value != "Linux" or machine.host.virtualization.value_or("") == "gvisor":
        return
    numbers = re.match(r"(\d+)\.(\d+)", kernel.value)
    if numbers and (int(numbers[1]), int(numbers[2])) < MINIMUM:
        yield Problem(
            severity="info" if ENTERPRISE.search(kernel.value) else "warning",
            summary=f"Linux {kernel.value} is running; {MINIMUM[0]}.{MINIMUM[1]} or newer is wanted",
            meaning="Training processes can hang at random, as Accelerate warns.",
            evidence=(kernel,),
            fix=Fix("Upgrade to a release of the distribution with a newer kernel, and restart the machine."),
        )
