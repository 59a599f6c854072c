"""Writes every machine's report anew: `python -m tests.machines`."""

from tests.machines.reports import FOLDER, judged, machines, outcomes, report_of

MACHINES = machines()
for name, machine in MACHINES.items():
    (FOLDER / f"{name}.txt").write_text(report_of(machine), encoding="utf-8")
table = outcomes({name: judged(machine) for name, machine in MACHINES.items()})
(FOLDER / "outcomes.txt").write_text(table, encoding="utf-8")
