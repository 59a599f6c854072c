"""The CUDA driver enumerates other devices than CUDA_VISIBLE_DEVICES names.

Why it matters: what libcuda enumerates is what every CUDA program gets. Where it is not what the rules of the variable
give, something else takes part: an MPS daemon that was started with its own CUDA_VISIBLE_DEVICES and renumbers,
device files that a container or cgroup withholds, MIG, or a form of the value that NVIDIA does not document.
"""

from gpudoctor.check import Fix, Problem, Problems, Severity, Snapshot, check, command
from gpudoctor.knowledge.visible.agreement import agrees, enumerated, error_of
from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.now import driver_list, gpu_list, selection, short, variable
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.snapshot import NotRead, missing

MPS = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
MPS_ADVICE = (
    "An MPS daemon renumbers the GPUs it was started with: name them by UUID, to the daemon and to its clients alike."
)


@check("cuda-visible-devices-disagrees", title="The CUDA driver enumerates what CUDA_VISIBLE_DEVICES names")
def cuda_visible_devices_disagrees(machine: Snapshot) -> Problems:
    now, answer = selection(machine), machine.cuda.visible
    devices = enumerated(answer.value)
    if devices is None:
        raise NotRead(missing(answer.source, error_of(answer.value)))
    everything = machine.cuda.all.value_or(None)
    if everything is not None and not enumerated(everything):
        raise NotRead(missing(machine.cuda.all.source, f"without {VARIABLE} too, {error_of(everything)}"))
    if agrees(now, answer.value):
        return
    expected = _named([device.identity or device.pci for device in now.devices])
    gets = _named([device.uuid or device.pci_bus_id for device in devices])
    severity: Severity = "error" if len(devices) < len(now.devices) else "warning"
    mps = [name for name in MPS if name in machine.environment.value]
    yield Problem(
        # A value that NVIDIA does not document is settled by the driver's answer, and nothing is broken.
        severity=severity if now.certain else "info",
        summary=f"The CUDA driver gives {gets}; {VARIABLE} names {expected}",
        meaning="Programs get the driver's devices in its order; a rank that counts on others fails or shares one.",
        fix=Fix(
            MPS_ADVICE if mps else "Name the GPUs by UUID; `nvidia-smi -L` lists them.",
            commands=(command("nvidia-smi -L"), *(command("printenv {:variable}", name) for name in mps)),
        ),
        evidence=(driver_list(answer), variable(machine, VARIABLE), gpu_list(machine)),
    )


def _named(uuids: list[str]) -> str:
    return f"{counted(len(uuids), 'device')} ({listed(short(uuid) for uuid in uuids)})" if uuids else "no device"
