"""What shows that a machine has Google TPUs, and that its interpreter can use them."""

from gpudoctor.knowledge.accelerator_kinds import TPU_GENERATIONS, is_tpu
from gpudoctor.knowledge.presence import if_present
from gpudoctor.knowledge.wording import counted
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import Snapshot

# TPU VMs up to v4 have /dev/accel0; Linux's own accelerators (Intel's NPU) lie in a folder: /dev/accel/accel0.
ACCEL_NODE = lazy_re(r"/dev/accel\d+")


def evidence_of_tpu(machine: Snapshot) -> str:
    """What TPUs there are, as the beginning of a sentence; empty when nothing shows any. Raises `NotRead`."""
    chips = [device for device in machine.accelerators.pci.value if is_tpu(device)]
    if chips:
        return f"{counted(len(chips), 'TPU chip')} ({TPU_GENERATIONS[chips[0].device]}) on the PCI bus"
    paths = [node.path for node in if_present(machine.accelerators.device_nodes) or ()]
    accel = [path for path in paths if ACCEL_NODE.fullmatch(path)]
    if accel:
        return f"{counted(len(accel), 'TPU device file')} ({accel[0]})"
    # Newer TPU VMs pass the chips as VFIO groups; VFIO alone is any passed-through device.
    if not any(path.startswith("/dev/vfio/") for path in paths):
        return ""
    announced = [name for name in machine.environment.value if name.startswith("TPU_")]
    return f"TPUs announced by {announced[0]} and /dev/vfio" if announced else ""


def tpu_backend(machine: Snapshot) -> str:
    """What lets the training interpreter's torch use TPUs: "torch_xla", the newer "torch_tpu", or "".

    Raises `NotRead`.
    """
    packages = {name.lower().replace("-", "_") for name in machine.training.packages.value}
    return next((name for name in ("torch_xla", "torch_tpu") if name in packages), "")
