"""The picture of a node: sockets with their bridges, GPUs and NICs, those that a finding speaks of marked.

One picture a socket: beside each other where there is room, below each other on a phone. Boxes lie in boxes as the PCI
tree has them.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpudoctor.check import Severity
from gpudoctor.render.html.markup import Markup, folded, table, tag
from gpudoctor.topology import Branch, TopologyAnswer, TreeDevice

TILE, TALL, GAP, MARGIN, TITLE = 80, 46, 6, 7, 17
A_LETTER = 5.6
"""Of a box's title, at most."""
IN_A_ROW = 4
"""Devices beside each other: with three boxes around them as wide as a phone."""
Ill = Mapping[str, tuple[Severity, str]]
"""Label of a device -> how bad it is, and in a few words why."""
MARKS: dict[Severity, str] = {"error": "✕", "warning": "!"}


class Drawn(NamedTuple):
    """A part of the picture, at the origin."""

    width: int
    height: int
    markup: Markup


def picture(answer: TopologyAnswer, ill: Ill) -> Markup | None:
    """Sockets with their devices, what connects the GPUs, and the path classes folded; None without a device."""
    devices = {device.label: device for device in (*answer.gpus, *answer.nics)}
    if not devices:
        return None
    figures = [_socket(branch, devices, ill) for branch in answer.tree or _by_socket(devices.values())]
    notes = [tag("p", note, class_="soft") for note in (*_links(answer), *answer.notes)]
    return tag("div", tag("div", figures, class_="pictures"), notes, _paths(answer))


def ill_nics(answer: TopologyAnswer, problems: Iterable[tuple[Severity, str, str]]) -> dict[str, tuple[Severity, str]]:
    """NICs that a finding (severity, summary, in short) speaks of by name; the worst first."""
    ill: dict[str, tuple[Severity, str]] = {}
    for severity, summary, short in problems:
        for nic in answer.nics:
            if severity in MARKS and re.search(rf"(?<![\w-]){re.escape(nic.name)}(?![\w-])", summary):
                ill.setdefault(nic.label, (severity, short))
    return ill


def _by_socket(devices: Iterable[TreeDevice]) -> list[Branch]:
    """Where the PCI tree was not read: by what NVML and the kernel say of the NUMA node."""
    sockets: dict[str, list[Branch]] = {}
    for device in devices:
        known = device.numa_node is not None and device.numa_node >= 0
        name = f"NUMA node {device.numa_node}" if known else "NUMA node unknown"
        sockets.setdefault(name, []).append(Branch(device.label))
    return [Branch(name, tuple(inside)) for name, inside in sorted(sockets.items())]


def _socket(branch: Branch, devices: Mapping[str, TreeDevice], ill: Ill) -> Markup:
    drawn = _box(branch, devices, ill)
    inside = [device for device in devices if device in _labels(branch)]
    sick = [f"{label}: {ill[label][1]}" for label in inside if label in ill]
    title = f"{branch.name}: {', '.join(inside)}" + (f"; {'; '.join(sick)}" if sick else "")
    shown = tag(
        "svg",
        tag("title", title),
        drawn.markup,
        viewBox=f"0 0 {drawn.width + 2} {drawn.height + 2}",
        width=drawn.width + 2,
        height=drawn.height + 2,
        role="img",
        aria_label=title,
    )
    return tag("figure", shown)


def _labels(branch: Branch) -> set[str]:
    return {branch.name.partition(" ")[0], *(label for child in branch.children for label in _labels(child))}


def _box(branch: Branch, devices: Mapping[str, TreeDevice], ill: Ill) -> Drawn:
    """A branch with its children in rows of what fits beside each other."""
    if not branch.children:
        return _tile(branch, devices, ill)
    widest = IN_A_ROW * (TILE + GAP) + 4 * MARGIN
    x = y = right = row = 0
    inside = []
    for child in branch.children:
        drawn = _box(child, devices, ill)
        if x and x + drawn.width > widest:
            x, y, row = 0, y + row + GAP, 0
        inside.append(tag("g", drawn.markup, transform=f"translate({x + MARGIN} {y + TITLE + MARGIN})"))
        x, right, row = x + drawn.width + GAP, max(right, x + drawn.width), max(row, drawn.height)
    title = branch.name.replace("host bridge pci", "host bridge ")
    width = max(right, int(len(title) * A_LETTER)) + 2 * MARGIN
    height = y + row + TITLE + 2 * MARGIN
    return Drawn(
        width,
        height,
        Markup(
            tag("rect", x=1, y=1, width=width, height=height, rx=6, class_="box")
            + tag("text", title, x=MARGIN + 1, y=TITLE - 2, class_="small")
            + "".join(inside)
        ),
    )


def _tile(branch: Branch, devices: Mapping[str, TreeDevice], ill: Ill) -> Drawn:
    label, _, address = branch.name.partition(" ")
    device = devices.get(label)
    is_nic = label.startswith("NIC")
    severity, why = ill.get(label, ("info", ""))
    kind = f"is-{severity}" if why else "nic" if is_nic else "gpu"
    mark = f"{MARKS[severity]} " if why else ""
    below = (device.name if is_nic else _model(device.name)) if device is not None else ""
    pci = address or (device.pci if device is not None else "") or ""
    inside = (
        tag("title", ", ".join(part for part in (label, device.name if device else "", pci, why) if part)),
        tag("rect", x=1, y=1, width=TILE, height=TALL, rx=5, class_=kind),
        tag("text", mark, label, x=7, y=15, class_=f"on-{severity}" if why else None),
        tag("text", below[:14], x=7, y=28, class_="small"),
        tag("text", pci.removeprefix("0000:")[:14], x=7, y=40, class_="small"),
    )
    return Drawn(TILE, TALL, tag("g", *inside))


def _model(name: str) -> str:
    """ "H100 80GB" of "NVIDIA H100 80GB HBM3": what fits."""
    return " ".join(name.removeprefix("NVIDIA ").split()[:2])


def _links(answer: TopologyAnswer) -> list[str]:
    """What connects the GPUs, in a line: all alike, or the classes there are."""
    labels = {gpu.label for gpu in answer.gpus}
    kinds: dict[str, int] = {}
    for pair in answer.pairs:
        if pair.a in labels and pair.b in labels:
            words = f"NVLink ({pair.nvlinks} links)" if pair.nvlinks else f"PCIe ({pair.path or 'path not known'})"
            kinds[words] = kinds.get(words, 0) + 1
    if not kinds:
        return []
    if len(kinds) == 1:
        return [f"Each two GPUs are connected by {next(iter(kinds))}."]
    return ["Pairs of GPUs: " + ", ".join(f"{count} by {words}" for words, count in kinds.items()) + "."]


SHADES = {"NVL": "k2", "PIX": "k2", "PXB": "k2", "PHB": "k1", "SYS": "k4"}


def _paths(answer: TopologyAnswer) -> Markup | None:
    """The path classes of each two devices, as a matrix."""
    cells = {frozenset((pair.a, pair.b)): pair for pair in answer.pairs}
    labels = [device.label for device in (*answer.gpus, *answer.nics)]
    if len(labels) < 2:
        return None
    rows = []
    for row in labels:
        line = [tag("th", row, scope="row")]
        for label in labels:
            pair = cells.get(frozenset((row, label)))
            words = "" if pair is None else f"NV{pair.nvlinks}" if pair.nvlinks else pair.path or "?"
            shade = None if pair is None else "k2" if pair.nvlinks else SHADES.get(pair.path or "", "k5")
            line.append(tag("td", words, class_=shade))
        rows.append(tag("tr", line))
    return folded(
        "What connects each two (NCCL's path classes)",
        tag("div", table(["", *labels], rows, label="Path classes"), class_="small"),
        tag("p", "NV#: # NVLinks. PIX, PXB: PCIe switches. PHB: through the CPU. SYS: between sockets.", class_="soft"),
    )
