"""A test's answer as CSV."""

import csv
import io

from gpudoctor.nccl.rank_messages import Row
from gpudoctor.nccl.result import TestResult

COLUMNS = Row.__struct_fields__


def to_csv(result: TestResult) -> str:
    """The measured rows, one a line: the backend (gloo's figures say nothing about NCCL), then the fields of `Row`.

    With --compare a line a combination and collective, the settings in front; with --find-slow a line a group.
    """
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    if result.compared:
        names = list(dict.fromkeys(name for setting in result.compared for name in setting.settings))
        writer.writerow([*names, "backend", "collective", "bus_bandwidth", "outcome"])
        for setting in result.compared:
            cells = [setting.settings.get(name, "") for name in names]
            for collective, value in setting.bus_bandwidth.items() or [("", "")]:
                writer.writerow([*cells, result.backend, collective, value, setting.outcome])
        return page.getvalue()
    if result.isolation is not None:
        writer.writerow(["backend", "round", "nodes", "bus_bandwidth"])
        for number, done in enumerate(result.isolation.rounds, 1):
            for group, bandwidth in zip(done.groups, done.bus_bandwidth, strict=True):
                writer.writerow([result.backend, f"{number} {done.purpose}", " ".join(group), _cell(bandwidth)])
        return page.getvalue()
    writer.writerow(["backend", *COLUMNS])
    for row in result.run.rows if result.run else ():
        writer.writerow([result.backend, *(_cell(getattr(row, column)) for column in COLUMNS)])
    return page.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return value
