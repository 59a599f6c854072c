"""All machines of this folder, hand-built and recorded, and the text of their reports.

NAME.txt holds what stands out on a machine: its findings, and what could not look for a reason that few checks share.
`outcomes.txt` holds all checks, once: a column a machine.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gpudoctor.diagnose import diagnose
from gpudoctor.plugins import find_checks
from gpudoctor.render.terminal import plain
from gpudoctor.report import Outcome, Report
from gpudoctor.snapshot import Snapshot, from_json
from tests.machines.hand_built import MACHINES
from tests.machines.network_machines import NETWORK_MACHINES

FOLDER = Path(__file__).parent
FEW = 7
"""So many checks with one reason are named in a report; a driver that is silent blinds most of them."""
SIGNS: dict[Outcome, str] = {
    "ok": ".",
    "problem": "!",
    "skipped": "?",
    "not-applicable": "-",
    "not-run": "~",
    "crashed": "X",
}


def machines() -> dict[str, Snapshot]:
    """Name -> snapshot."""
    recorded = {file.stem: from_json(file.read_bytes()) for file in sorted(FOLDER.glob("*.json"))}
    return {name: build() for name, build in (*MACHINES.items(), *NETWORK_MACHINES.items())} | recorded


def judged(machine: Snapshot) -> Report:
    """The report of our own checks: other installed plugins do not count."""
    checks = [check for check in find_checks()[0] if check.module.startswith("gpudoctor_checks.")]
    return diagnose(machine, checks)


def report_of(machine: Snapshot) -> str:
    """The plain report of what stands out, so that a check which has nothing to say changes none."""
    report = judged(machine)
    sharing = Counter(reason for result in report.could_not_look for reason in result.reasons)
    standing_out = [
        result
        for result in report.results
        if result.problems or (result in report.could_not_look and all(sharing[why] <= FEW for why in result.reasons))
    ]
    text = plain(msgspec.structs.replace(report, results=tuple(standing_out)), machine)
    blinding = "".join(f"Blinds many checks: {why}\n" for why, count in sharing.items() if count > FEW)
    return f"{text}\n\n{blinding}Exit status {report.exit_status}\n"


def outcomes(reports: Mapping[str, Report]) -> str:
    """Every check's outcome on every machine: a line a check, a column a machine."""
    rows: dict[str, str] = {}
    for report in reports.values():
        for result in report.results:
            rows[result.check] = rows.get(result.check, "") + SIGNS[result.outcome]
    legend = ", ".join(f"{sign} {outcome}" for outcome, sign in SIGNS.items())
    columns = [f"{'|' * number}{name}" for number, name in enumerate(reports)]
    return "\n".join([legend, *columns, *(f"{row} {check}" for check, row in rows.items()), ""])
