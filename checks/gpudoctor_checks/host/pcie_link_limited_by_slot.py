"""The kernel found a GPU's PCIe link slower than GPU and slot could go.

Why it matters: a card that is not fully seated, a bad riser or a slot with fewer lanes halves or quarters the speed
of every copy. Laptops and two-card desktops are built that way, so this is a remark, unless sister cards of the same
model have the full link.
"""

import re

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check, command
from gpudoctor.knowledge.accelerator_kinds import is_nvidia_gpu
from gpudoctor.knowledge.gpus.by_hand import by_hand
from gpudoctor.knowledge.gpus.gpu_lookup import gpus_at, place, same_address
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import PciDevice, read

# "..., limited by 8.0 GT/s PCIe x8 link at 0000:00:01.1 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)"
# (Linux drivers/pci/pci.c, __pcie_print_link_status); kernels before 5.x leave "PCIe" out of it.
LIMIT = lazy_re(
    r"limited by (?P<speed>[\d.]+) GT/s(?: PCIe)? x(?P<width>\d+) link at (?P<bridge>[0-9a-f:.]+) "
    r"\(capable of [\d.]+ Gb/s with (?P<able_speed>[\d.]+) GT/s(?: PCIe)? x(?P<able_width>\d+) link"
)
IDLE_SPEED = 2.5  # GT/s to which GPUs drop their link when idle; the kernel looks before the driver wakes them


@check("pcie-link-limited-by-slot", title="Slots give GPUs their full PCIe link")
def pcie_link_limited_by_slot(machine: Snapshot) -> Problems:
    log, pci = machine.host.kernel_log, machine.accelerators.pci
    cards = [device for device in pci.value if is_nvidia_gpu(device)]
    limited: dict[str, re.Match[str]] = {}
    for limit in log.value.link_limits:
        words = LIMIT.search(limit.message)
        card = next((card for card in cards if same_address(card.bus_id, limit.pci_bus_id)), None)
        if words and card and _is_real(words):
            limited[card.bus_id] = words
    for card in cards:
        if card.bus_id in limited:
            words = limited[card.bus_id]
            sisters = [other for other in cards if other.device == card.device and other.bus_id not in limited]
            yield _problem(machine, card, words, sisters)


def _is_real(words: re.Match[str]) -> bool:
    return int(words["width"]) < int(words["able_width"]) or IDLE_SPEED < float(words["speed"]) < float(
        words["able_speed"]
    )


def _problem(machine: Snapshot, card: PciDevice, words: re.Match[str], sisters: list[PciDevice]) -> Problem:
    gpus = machine.nvidia.gpus.value_or(())
    named = place(gpus, [card.bus_id])
    return Problem(
        severity="warning" if sisters else "info",
        summary=f"{named[0].upper()}{named[1:]} has a PCIe link of {words['speed']} GT/s x{words['width']}, "
        f"limited at {words['bridge']}; it could have {words['able_speed']} GT/s x{words['able_width']}"
        + (f", as {len(sisters)} of the same model do" if sisters else ""),
        meaning="Copies to and from this GPU are slower by as much, and with them loading, offloading and PCIe peers.",
        evidence=(read(machine.host.kernel_log.source, f"{card.bus_id}: {words.string}"),),
        fix=Fix(
            *by_hand(
                machine,
                "Reseat the card and its riser, or move it to a slot with all lanes; slots that share lanes are in the "
                "mainboard's manual.",
                command("sudo lspci -vv -s {:pci} | grep -E 'LnkCap:|LnkSta:'", card.bus_id),
            )
        ),
        gpus=tuple(gpu.index for gpu in gpus_at(gpus, [card.bus_id])),
    )
