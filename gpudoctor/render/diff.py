"""The answer of `gpudoctor diff` -> terminal: the two captures, what differs, what one does not tell, the verdict."""

from rich.console import Console

from gpudoctor.compare.report import DiffReport, DiffSide
from gpudoctor.knowledge.wording import counted
from gpudoctor.render.prose import COLORS, show

VERDICT_COLORS = {
    "the same": "bold green",
    "not worse": "bold green",
    "worse": "bold red",
    "cannot tell": "bold magenta",
}
KINSHIP = {
    "same": "One machine, at two times.",
    "other": "Two machines: what each has of its own (UUIDs, addresses, routes) is left out.",
    "unknown": "Whether they are one machine is not told: GPUs are compared by their place on the PCI bus.",
}


def show_diff(report: DiffReport, screen: Console) -> None:
    for letter, side in (("A", report.before), ("B", report.after)):
        show(f"{letter}: {_side(side)}", screen, style="bold")
    show(KINSHIP[report.kinship], screen)
    if _is_reversed(report):
        show("A was taken after B: what is gone in B came to it later.", screen)
    if report.changes:
        screen.print()
    for change in report.changes:
        word = {"better": "better", "mended": "better", "info": "changed"}.get(
            change.kind, "changed" if change.severity == "info" else change.severity
        )
        words = f"A only: {change.summary}" if change.kind == "mended" else change.summary
        ids = f"  [{', '.join(change.checks)}]" if change.checks else ""
        show(f"{word} {words}{ids}", screen, head=COLORS[change.severity])
    if report.unseen:
        screen.print()
        show("Not compared:", screen, style="bold magenta")
    for line in report.unseen:
        show(line, screen, indent=2)
    screen.print()
    show(_verdict(report), screen, style=VERDICT_COLORS[report.verdict])


def _side(side: DiffSide) -> str:
    taken = f", {side.taken_at}" if side.taken_at else ""
    return f"{side.machine} ({side.name}{taken})"


def _is_reversed(report: DiffReport) -> bool:
    return report.kinship == "same" and bool(report.after.taken_at) and report.before.taken_at > report.after.taken_at


def _verdict(report: DiffReport) -> str:
    severities = [change.severity for change in report.changes]
    counts = [
        counted(number, noun)
        for noun in ("error", "warning")
        if (number := severities.count("error" if noun == "error" else "warning"))
    ]
    others = severities.count("info")
    rest = f"; {counted(others, 'other difference')}" if others else ""
    lacking = "; ".join(report.lacking)
    if report.verdict == "worse":
        return f"B is worse: {', '.join(counts)}{rest}" + (f"; not all could be compared: {lacking}" if lacking else "")
    if report.verdict == "cannot tell":
        return f"Cannot tell: {lacking}{rest}"
    if report.verdict == "not worse":
        return f"B is not worse: {counted(others, 'difference')}, none for the worse"
    return "No difference that counts"
