"""Writes every machine's report anew: `python -m tests.machines`."""

from tests.machines.reports import FOLDER, machines, report_of

for name, machine in machines().items():
    (FOLDER / f"{name}.txt").write_text(report_of(machine), encoding="utf-8")
