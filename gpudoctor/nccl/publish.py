"""A test's answer as JSON and CSV."""

import csv
import io
from typing import Any

import msgspec

from gpudoctor.check import without_lines
from gpudoctor.errors import BadInput
from gpudoctor.nccl.rank_messages import Row
from gpudoctor.nccl.result import SCHEMA, TestResult

COLUMNS = Row.__struct_fields__


def to_json(result: TestResult) -> str:
    """The whole answer; its schema is docs/schemas/nccl-test.json. It ends with its exit status."""
    built = msgspec.to_builtins(result)
    built["exit_status"] = result.exit_status
    return msgspec.json.format(msgspec.json.encode(built), indent=2).decode()


class UnreadableResult(BadInput):
    """Bytes that are no answer of nccl-test; the message is one line for the user."""


def from_json(raw: bytes) -> TestResult:
    """Read an answer that `to_json` wrote. Raises `UnreadableResult`."""
    try:
        result = msgspec.json.decode(raw, type=TestResult)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableResult(f"not an answer of gpudoctor nccl-test --json: {error}") from None
    if result.schema != SCHEMA:
        raise UnreadableResult(f"nccl-test schema {result.schema}; this gpudoctor reads schema {SCHEMA}")
    return without_lines(result)


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


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the answer."""
    return msgspec.json.schema(TestResult)
