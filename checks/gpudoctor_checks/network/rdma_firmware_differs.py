"""RDMA devices of the same model run different firmware.

Why it matters: a rail that behaves unlike its siblings (congestion control, adaptive routing, a fixed bug) shows up
as a slow or failing rank that moves with the node. It is the first question of every support case.
"""

from collections import Counter

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.gpus.like_gpus import raise_unread
from gpudoctor.knowledge.network.rdma_ports import alike
from gpudoctor.knowledge.wording import listed


@check("rdma-firmware-differs", title="RDMA devices of a model run the same firmware")
def rdma_firmware_differs(machine: Snapshot) -> Problems:
    for group in alike(machine):
        known = [device for device in group if device.firmware.is_read]
        versions = Counter(device.firmware.value for device in known)
        if len(versions) > 1:
            usual, _ = versions.most_common(1)[0]
            others = [device for device in known if device.firmware.value != usual]
            address = others[0].pci_bus_id.value_or(others[0].name)
            yield Problem(
                severity="info",
                summary=f"{listed(f'{device.name} runs firmware {device.firmware.value}' for device in others)}; "
                f"{versions[usual]} of the same model ({group[0].board_id.value}) "
                f"{'runs' if versions[usual] == 1 else 'run'} {usual}",
                meaning="Links of one machine can differ in speed and in how they react to congestion.",
                evidence=tuple(device.firmware for device in (*others[:4], known[0])),
                fix=Fix(
                    "Bring all to one version, at best the one that the driver's release notes name.",
                    commands=(command("sudo mlxfwmanager -d {:name} --query", address),),
                ),
            )
    raise_unread(device.firmware for group in alike(machine) for device in group)
