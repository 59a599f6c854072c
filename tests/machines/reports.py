"""All machines of this folder, hand-built and recorded, and the text of their reports."""

from pathlib import Path

from gpudoctor.diagnose import diagnose
from gpudoctor.plugins import find_checks
from gpudoctor.render.terminal import plain
from gpudoctor.report import Report
from gpudoctor.snapshot import Snapshot, from_json
from tests.machines.hand_built import MACHINES
from tests.machines.network_machines import NETWORK_MACHINES

FOLDER = Path(__file__).parent


def machines() -> dict[str, Snapshot]:
    """Name -> snapshot."""
    recorded = {file.stem: from_json(file.read_bytes()) for file in sorted(FOLDER.glob("*.json"))}
    return {name: build() for name, build in (*MACHINES.items(), *NETWORK_MACHINES.items())} | recorded


def judged(machine: Snapshot) -> Report:
    """The report of our own checks: other installed plugins do not count."""
    checks = [check for check in find_checks()[0] if check.module.startswith("gpudoctor_checks.")]
    return diagnose(machine, checks)


def report_of(machine: Snapshot) -> str:
    """The plain report, and one line a check with its outcome."""
    report = judged(machine)
    outcomes = "\n".join(f"{result.outcome:15} {result.check}" for result in report.results)
    return f"{plain(report, machine)}\n\nExit status {report.exit_status()}\n\n{outcomes}\n"
