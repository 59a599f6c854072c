"""The answer of `gpudoctor topology` on a terminal: a matrix of path classes, the devices, the tree."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from gpudoctor.knowledge.wording import listed
from gpudoctor.render.prose import show
from gpudoctor.render.words import safe
from gpudoctor.topology import Branch, Pair, TopologyAnswer, TreeDevice

LEGEND = (
    ("NV#", "over # NVLinks (NCCL: NVL)"),
    ("PIX", "through one PCIe switch at most"),
    ("PXB", "through several PCIe switches, not the CPU"),
    ("PHB", "through the CPU of a NUMA node (nvidia-smi: PHB or NODE)"),
    ("SYS", "between NUMA nodes, over the CPUs' interconnect"),
    ("?", "not known"),
)
STYLES = {"NV": "green", "PIX": "green", "PXB": "green", "PHB": "yellow", "SYS": "red"}
MANY = 12
"""Columns beyond which NICs are headed "N0", to fit."""


def show_topology(answer: TopologyAnswer, screen: Console) -> None:
    """Fits 80 columns for 8 GPUs and 8 NICs."""
    for row in _matrix(answer):
        screen.print(row, soft_wrap=True)
    used = {"NV#" if pair.nvlinks else _cell(pair) for pair in answer.pairs}
    if used:
        screen.print()
    for sign, meaning in LEGEND:
        if sign in used:
            show(f"{sign:4}{meaning}", screen, style="dim")
    screen.print()
    for line in _devices((*answer.gpus, *answer.nics)):
        screen.print(Text(line), soft_wrap=True)
    if answer.tree:
        screen.print()
        for line in _tree(answer.tree):
            screen.print(Text(line), soft_wrap=True)
    for line in _joined(answer):
        screen.print()
        show(line, screen)
    used_by = [f"{pair.a}-{pair.b}" for pair in answer.pairs if pair.gpu_direct]
    if used_by:
        screen.print()
        show(f"NCCL uses GPUDirect RDMA between {', '.join(used_by)}", screen)
    for note in (*_failing(answer), *answer.notes):
        screen.print()
        show(note, screen, style="yellow")


def _matrix(answer: TopologyAnswer) -> Iterator[Text]:
    """Rows are GPUs, or NICs on a machine without GPUs; columns all devices."""
    cells = {frozenset((pair.a, pair.b)): _cell(pair) for pair in answer.pairs}
    columns = [device.label for device in (*answer.gpus, *answer.nics)]
    rows = [device.label for device in answer.gpus or answer.nics]
    shown = {
        label: label.replace("NIC", "N") if len(columns) > MANY and label.startswith("NIC") else label
        for label in columns
    }
    widths = {
        label: max([len(shown[label]), *(len(cells.get(frozenset((row, label)), "X")) for row in rows)])
        for label in columns
    }
    margin = max((len(row) for row in rows), default=0)
    yield Text(" " * margin + "".join(f" {shown[label]:>{widths[label]}}" for label in columns), style="bold")
    for row in rows:
        line = Text(f"{row:{margin}}", style="bold")
        for label in columns:
            cell = "X" if label == row else cells.get(frozenset((row, label)), "?")
            style = next((style for start, style in STYLES.items() if cell.startswith(start)), "")
            line.append(" " * (widths[label] - len(cell) + 1))
            line.append(cell, style=style or "not bold")
        yield line


def _cell(pair: Pair) -> str:
    if pair.nvlinks:
        return f"NV{pair.nvlinks}"
    return pair.path or "?"


def _devices(devices: Sequence[TreeDevice]) -> Iterator[str]:
    rows = [["", "PCI", "NUMA", "CPUs", ""]]
    for device in devices:
        numa = "?" if device.numa_node is None else "-" if device.numa_node < 0 else str(device.numa_node)
        what = f"{device.name}  {device.ports}".rstrip() if device.ports else device.name
        rows.append([safe(cell) for cell in (device.label, device.pci or "?", numa, device.cpus or "?", what)])
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        yield "  ".join([*(f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)), row[4]]).rstrip()


def _tree(branches: Sequence[Branch]) -> Iterator[str]:
    for branch in branches:
        yield safe(branch.name)
        yield from _below(branch.children, "")


def _below(branches: Sequence[Branch], margin: str) -> Iterator[str]:
    for number, branch in enumerate(branches):
        last = number == len(branches) - 1
        yield f"{margin}{'└─' if last else '├─'} {safe(branch.name)}"
        yield from _below(branch.children, margin + ("   " if last else "│  "))


JOINED = {
    "P2P": "NCCL joins {} directly (P2P)",
    "SHM": "NCCL joins {} through host memory (SHM)",
    "NET": "NCCL joins {} over the network (NET)",
    "none": "NCCL does not start with {}",
    None: "How NCCL joins {} is not known",
}


def _joined(answer: TopologyAnswer) -> list[str]:
    """How NCCL joins the GPUs, and why; pairs that are alike together."""
    gpus = {device.label for device in answer.gpus}
    between = [pair for pair in answer.pairs if pair.a in gpus and pair.b in gpus]
    groups: dict[tuple[str | None, str], list[str]] = {}
    for pair in between:
        if pair.transport_reason:
            groups.setdefault((pair.transport, pair.transport_reason), []).append(f"{pair.a}-{pair.b}")
    return [
        f"{JOINED[kind].format('all GPUs' if len(pairs) == len(between) > 1 else listed(pairs, 4))}: {reason}"
        for (kind, reason), pairs in groups.items()
    ]


def _failing(answer: TopologyAnswer) -> list[str]:
    """Why near pairs do without GPUDirect RDMA; that far ones do is what the matrix shows."""
    reasons: dict[str, list[str]] = {}
    for pair in answer.pairs:
        if pair.gpu_direct_reason and not pair.gpu_direct and pair.path in ("PIX", "PXB"):
            reasons.setdefault(pair.gpu_direct_reason, []).append(f"{pair.a}-{pair.b}")
    return [
        f"GPUDirect RDMA, {', '.join(pairs[:4])}{f' and {len(pairs) - 4} more' if len(pairs) > 4 else ''}: {reason}"
        for reason, pairs in reasons.items()
    ]
