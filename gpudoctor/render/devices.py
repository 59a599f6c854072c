"""The answer of `gpudoctor devices` on a terminal: the mapping as a table, then what is wrong."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from gpudoctor.devices import DevicesAnswer, SeenDevice, Trouble
from gpudoctor.knowledge.wording import shortened
from gpudoctor.render.prose import show, show_command, show_table
from gpudoctor.render.words import safe

WIDE = 100
"""Columns from which whole UUIDs fit beside the names."""
SHORTEST_UUID = len("GPU-") + 8
SHOWN_VALUE_CHARACTERS = 50


def show_devices(answer: DevicesAnswer, screen: Console) -> None:
    """The mapping CUDA ordinal -> nvidia-smi index -> UUID -> PCI -> name, the problems, and what libcuda said."""
    show(headline(answer), screen, style="bold")
    if answer.visible:
        screen.print()
        show_table(_table(answer.visible, whole=screen.width >= WIDE), screen, gives_way="Name")
    for trouble in answer.problems:
        screen.print()
        _show(trouble, screen)
    screen.print()
    show(driver_line(answer), screen, style="bold red" if answer.agrees is False else "dim")


def headline(answer: DevicesAnswer) -> str:
    """'CUDA_VISIBLE_DEVICES="2,1" selects 2 of 8 GPUs'."""
    value = answer.cuda_visible_devices
    count = len(answer.visible)
    if any(device.mig for device in answer.visible):
        what = f"{count} device{'s' * (count > 1)}"
    else:
        what = f"{count} of {answer.gpus} GPU{'s' * (answer.gpus != 1)}" if count else "no GPU"
    if value is None:
        return f"CUDA_VISIBLE_DEVICES is not set: a CUDA program gets {what}"
    return f'CUDA_VISIBLE_DEVICES="{safe(shortened(value, SHOWN_VALUE_CHARACTERS))}" selects {what}'


def driver_line(answer: DevicesAnswer) -> str:
    """Whether the CUDA driver says the same."""
    driver = answer.driver
    if driver.visible is None:
        kind = "By CUDA's rules" if answer.certain else "By CUDA's rules, partly a guess"
        return f"{kind}; no answer from the CUDA driver itself ({safe(driver.reason)})"
    if answer.agrees:
        return "The CUDA driver itself enumerates the same devices in the same order."
    listed = ", ".join(safe(uuid) for uuid in driver.visible) or "no device"
    return f"The CUDA driver itself says otherwise, and its answer is what programs get: {listed}"


def _table(devices: Sequence[SeenDevice], *, whole: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("CUDA", "nvidia-smi"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("UUID", "PCI"):
        table.add_column(title, no_wrap=True)
    table.add_column("Name", overflow="fold")
    uuids = _short([device.mig or device.uuid or "" for device in devices]) if not whole else {}
    for device in devices:
        uuid = device.mig or device.uuid or "?"
        table.add_row(
            str(device.cuda),
            "?" if device.nvml is None else str(device.nvml),
            safe(uuids.get(uuid, uuid)),
            safe((device.pci or "?").removeprefix("0000")),
            safe(device.name or "?"),
        )
    return table


def _short(uuids: Sequence[str]) -> dict[str, str]:
    """The beginnings of UUIDs that tell these apart. MIG UUIDs stay whole, for CUDA is not said to take their parts."""
    length = SHORTEST_UUID
    gpus = {uuid for uuid in uuids if uuid.startswith("GPU-")}
    while len({uuid[:length] for uuid in gpus}) < len(gpus):
        length += 1
    return {uuid: uuid[:length] for uuid in gpus}


def _show(trouble: Trouble, screen: Console) -> None:
    show(f"problem {trouble.problem}", screen, style="bold", head="bold yellow")
    show(trouble.meaning, screen, indent=2)
    show(f"Fix: {trouble.fix}", screen, indent=2)
    if trouble.command is not None:
        show_command(trouble.command, screen)
