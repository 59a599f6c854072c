"""This machine -> Snapshot. Readers run side by side, each with a deadline; what fails becomes a reason."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec

from gpudoctor import __version__
from gpudoctor.active import Child, ChildReply, Waiting, gather, messages
from gpudoctor.knowledge.environment import recorded
from gpudoctor.knowledge.gpus.nvidia_hardware import VENDOR
from gpudoctor.read import cuda, nvidia, python, smoke
from gpudoctor.read.children import ExamineWish
from gpudoctor.read.held import held
from gpudoctor.read.system import System
from gpudoctor.snapshot import (
    Accelerators,
    Active,
    Cuda,
    Host,
    Network,
    Nvidia,
    Reading,
    Snapshot,
    absent,
    missing,
    read,
)

Early = Callable[[Snapshot], None]
"""Called with what is known so far of the machine; what is still asked is "not asked" in it."""


def examine(
    wish: ExamineWish, children: Sequence[Child], waiting: Waiting | None = None, early: Early | None = None
) -> Snapshot:
    """Gather the children that `launch(wish)` started into a snapshot. Never raises for what a child did."""
    system = System()
    replies = gather(children, waiting, None if early is None else lambda said: early(so_far(said, system)))
    snapshot = assemble(wish, replies, system)
    if not wish.deep:
        return snapshot
    return msgspec.structs.replace(snapshot, active=Active(smoke=smoke.run(wish, snapshot, waiting)))


def assemble(wish: ExamineWish, replies: Mapping[str, ChildReply], system: System) -> Snapshot:
    """Replies of the children -> Snapshot."""
    fields = local_fields(replies["local"])
    accelerators = held(fields["accelerators"], Accelerators)
    visible = cuda.assemble(replies["cuda visible"])
    every = replies.get("cuda all")
    network = held(fields["network"], Network)
    return Snapshot(
        gpudoctor=__version__,
        taken_at=read("clock", datetime.now(timezone.utc).isoformat(timespec="seconds")),
        environment=_environment(system),
        nvidia=without_hardware(nvidia.assemble(replies["nvidia"]), accelerators),
        cuda=Cuda(visible=visible, all=cuda.assemble(every) if every else visible),
        accelerators=accelerators,
        host=held(fields["host"], Host),
        network=msgspec.structs.replace(network, nccl_names=python.nccl_names(wish, replies["python"])),
        training=python.assemble(wish, replies["python"], replies.get("torch")),
    )


def so_far(replies: Mapping[str, ChildReply], system: System) -> Snapshot:
    """The environment, and of host, network and NVML what is known; nothing of torch and libcuda."""
    fields = local_fields(replies["local"])
    accelerators = held(fields["accelerators"], Accelerators)
    return Snapshot(
        gpudoctor=__version__,
        environment=_environment(system),
        nvidia=without_hardware(nvidia.assemble(replies["nvidia"]), accelerators),
        accelerators=accelerators,
        host=held(fields["host"], Host),
        network=held(fields["network"], Network),
    )


def _environment(system: System) -> Reading[dict[str, str]]:
    return read("environment of gpudoctor", recorded(system.environment))


def local_fields(reply: ChildReply) -> dict[str, dict[str, Any]]:
    """The local readers' answers as nested dicts: section -> field -> reading.

    Fields whose reader did not answer get the reason: the deadline, or the child's death.
    """
    nested: dict[str, dict[str, Any]] = {
        section: {
            name: msgspec.to_builtins(
                missing(f"reader of {section}.{name}", reply.failure or "the reader did not answer", reply.missing_kind)
            )
            for name in structure.__struct_fields__
        }
        for section, structure in (("host", Host), ("accelerators", Accelerators), ("network", Network))
    }
    for message in messages(reply.output):
        for field, reading in message.get("fields", {}).items():
            section, _, name = field.partition(".")
            nested[section][name] = reading
    return nested


def without_hardware(found: Nvidia, accelerators: Accelerators) -> Nvidia:
    """The NVML section, made *absent* where there is nothing for NVML to find.

    No NVML library or no loaded driver, and no NVIDIA device on the PCI bus or in /dev: this machine has no NVIDIA
    GPU, and what is asked of one does not apply. With a device, or with a bus that could not be read, it stays unread.
    """
    driver_not_loaded, library_not_found = 9, 12
    if found.init_code.value_or(0) not in (driver_not_loaded, library_not_found):
        return found
    devices = accelerators.pci.value_or(None)
    nodes = accelerators.device_nodes.value_or(())
    if devices is None or any(device.vendor == VENDOR for device in devices):
        return found
    if any(node.path.startswith(("/dev/nvidia", "/dev/dxg")) for node in nodes):
        return found
    reason = absent("/sys/bus/pci/devices, /dev/nvidia*", "no NVIDIA GPU on this machine")
    return Nvidia(
        init_code=found.init_code,
        **{name: reason for name in Nvidia.__struct_fields__ if name != "init_code"},
    )
