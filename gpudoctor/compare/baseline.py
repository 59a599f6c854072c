"""`gpudoctor check --baseline FILE`: what an earlier capture had and this machine has not, as findings."""

from collections.abc import Sequence

from msgspec import DecodeError, convert
from msgspec.structs import replace

from gpudoctor.check import Check, Fix, Problem, Problems, command
from gpudoctor.compare.changes import compared, folded, unread_gpus
from gpudoctor.compare.pairing import Kinship, paired
from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.named import ModelName
from gpudoctor.snapshot import Change, Expectation, Reading, Snapshot, read, require

MOST_LISTED = 5


def with_baseline(machine: Snapshot, earlier: Snapshot, name: str) -> tuple[Snapshot, list[Check]]:
    """The machine, expected to have the earlier capture's GPUs where nobody said more; and what differs, as checks.

    `name`: of the earlier capture, for the evidence.
    """
    source = f"--baseline {name}"
    pairing = paired(earlier, machine)
    comparison = compared(earlier, machine, pairing)
    kept = [spot for spot in comparison.told if not (spot.change.kind == "gone" and _is_part(machine))]
    changes = folded((*unread_gpus(comparison.unread), *kept))
    wanted = _expectation(earlier)
    if not machine.expected.is_read and wanted is not None and not _gone(changes):
        machine = replace(machine, expected=read(source, wanted))
    name_of = read(source, earlier.host.hostname.value_or(""))
    return machine, [
        Check(
            "gpu-gone-since-baseline",
            title="Every GPU of the earlier capture is there",
            rule=lambda machine: _gone_gpus(changes, source, machine, earlier),
        ),
        Check(
            "worse-than-baseline",
            title="Nothing is slower or older than in the earlier capture",
            rule=lambda machine: _worse(changes, source),
        ),
        Check(
            "changed-since-baseline",
            title="Nothing else has changed since the earlier capture",
            rule=lambda machine: _changed(changes, source),
        ),
        Check(
            "baseline-of-another-machine",
            title="The earlier capture is of this machine",
            rule=lambda machine: _another(pairing.kinship, name_of, machine),
        ),
    ]


def _expectation(earlier: Snapshot) -> Expectation | None:
    """The number and kind of its GPUs; None where it does not tell."""
    gpus = earlier.nvidia.gpus
    if gpus.missing_kind == "absent" or gpus.value_or(None) == ():
        bus = earlier.accelerators.pci
        return Expectation("cpu") if bus.is_read and not bus.value else None
    if not gpus.is_read:
        return None
    names = {gpu.name.value_or("") for gpu in gpus.value}
    try:
        model = convert(names.pop() if len(names) == 1 else "", ModelName)
    except DecodeError:  # a name that nobody could have said
        model = ""
    return Expectation("gpus", len(gpus.value), model)


def _gone(changes: Sequence[Change]) -> list[Change]:
    return [
        change for change in changes if change.severity == "error" and change.kind in ("gone", "unread") and change.gpus
    ]


def _is_part(machine: Snapshot) -> bool:
    """Whether it comes from a file that is cut: what is not in it is not gone."""
    gpus = machine.nvidia.gpus.value_or(())
    return bool(machine.lacks) or machine.nvidia.attached.value_or(0) > len(gpus)


def _gone_gpus(changes: Sequence[Change], source: str, machine: Snapshot, earlier: Snapshot) -> Problems:
    for capture in (earlier, machine):
        if capture.nvidia.gpus.missing_kind != "absent":
            require(capture.nvidia.gpus)
    for change in _gone(changes):
        yield Problem(
            severity="error",
            summary=f"{change.summary}, since the earlier capture",
            meaning="A job that counts on this GPU does not start, or waits for its rank until it times out.",
            fix=Fix.of(
                "See whether the bus shows it and what the driver says; a GPU that fell off the bus comes back with a "
                "restart of the machine, or has to be replaced.",
                command("nvidia-smi -L"),
                command("lspci -nn | grep -i nvidia"),
                command("sudo dmesg -T | grep -iE 'nvrm|xid' | tail -n 20"),
            ),
            evidence=(read(source, change.summary), machine.nvidia.gpus),
        )


def _worse(changes: Sequence[Change], source: str) -> Problems:
    gone = _gone(changes)
    for change in changes:
        if change.severity == "info" or change in gone:
            continue
        yield Problem(
            severity=change.severity,
            summary=f"{change.summary}, since the earlier capture",
            meaning="What ran on this machine then runs slower now, or no longer.",
            fix=Fix.of("The finding of the part itself has its fix; `gpudoctor diff` shows all that differs."),
            evidence=(read(source, change.summary),),
            gpus=change.gpus if change.kind not in ("gone", "unread") else (),
        )


def _changed(changes: Sequence[Change], source: str) -> Problems:
    others = [change.summary for change in changes if change.severity == "info"]
    if others:
        yield Problem(
            severity="info",
            summary=f"{counted(len(others), 'other thing')} changed since the earlier capture: "
            + listed(others, MOST_LISTED),
            meaning="None of it is a fault by itself; where something broke since then, look here first.",
            fix=Fix.of("`gpudoctor diff` shows all that differs, most telling first."),
            evidence=tuple(read(source, other) for other in others),
        )


def _another(kinship: Kinship, name: Reading[str], machine: Snapshot) -> Problems:
    if kinship == "other":
        yield Problem(
            severity="warning",
            summary=f"The earlier capture is of another machine ({name.value or 'other GPUs'})",
            meaning="What differs need not have changed: the two may never have been alike.",
            fix=Fix.of("Keep a capture of this machine: `gpudoctor capture -o FILE`."),
            evidence=(name, machine.host.hostname),
        )
