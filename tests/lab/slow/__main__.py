"""`python -m tests.lab.slow [NAME...] [--half tune]`: every job of `jobs.py`, and what `gpudoctor slow` says of it.

Of *keep* only sums are printed, unless names are given. Exit status: 1 when an answer was wrong.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from tests.lab.slow.jobs import SCENARIOS, SlowScenario, started
from tests.lab.sshd import user_environment

LIMIT = 200.0


class SlowAnswer(Struct, frozen=True):
    """What was said of one job, held against what was expected."""

    name: str
    half: str
    healthy: bool
    status: int
    said: str
    seconds: float
    rank_right: bool
    place_right: bool
    line_right: bool
    why_right: bool
    wrong_rank: bool
    """One is named that is not slow."""

    @property
    def all_right(self) -> bool:
        return self.rank_right and self.place_right and self.line_right and self.why_right


def judged(scenario: SlowScenario, answer: dict[str, Any], status: int, seconds: float) -> SlowAnswer:
    paces = answer.get("paces") or [{}]
    slow = paces[0].get("slow") or []
    first = slow[0] if slow else {}
    ranks = [rank for each in slow for rank in each["ranks"]]
    where = first.get("where") or {}
    healthy = scenario.rank is None
    right = not ranks if healthy else ranks == [scenario.rank]
    return SlowAnswer(
        name=scenario.name,
        half=scenario.half,
        healthy=healthy,
        status=status,
        said=str(first.get("summary") or paces[0].get("unknown") or paces[0].get("verdict") or answer),
        seconds=round(seconds, 1),
        rank_right=right and status == (0 if healthy else 1),
        place_right=healthy or not scenario.phases or first.get("phase") in scenario.phases,
        line_right=healthy or not scenario.line or where.get("line") in scenario.numbers(),
        why_right=healthy or not scenario.why or first.get("why") in scenario.why,
        wrong_rank=any(rank != scenario.rank for rank in ranks),
    )


def looked_at(scenario: SlowScenario, keep: Path | None) -> SlowAnswer:
    with tempfile.TemporaryDirectory() as folder, started(scenario, Path(folder)) as pid:
        return asked(scenario, pid, keep)


def asked(scenario: SlowScenario, pid: int, keep: Path | None) -> SlowAnswer:
    """What `gpudoctor slow` says of a job that runs."""
    begin = time.monotonic()
    words = [sys.executable, "-m", "gpudoctor", "slow", "--pid", str(pid), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, env=user_environment(), timeout=LIMIT)
    if keep:
        (keep / f"{scenario.name}.json").write_text(done.stdout or done.stderr)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {"verdict": done.stderr[-300:]}
    return judged(scenario, answer, done.returncode, time.monotonic() - begin)


def table(rows: Sequence[SlowAnswer]) -> str:
    lines = [
        "| half | planted | rank | place | line | why | all four | another rank named | healthy: somebody named |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for half in ("keep", "tune"):
        own = [row for row in rows if row.half == half and not row.healthy]
        well = [row for row in rows if row.half == half and row.healthy]
        names = ("rank_right", "place_right", "line_right", "why_right", "all_right", "wrong_rank")
        sums = " | ".join(str(sum(getattr(row, name) for row in own)) for name in names)
        lines.append(f"| {half} | {len(own)} | {sums} | {sum(not row.rank_right for row in well)} of {len(well)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--half", choices=("tune", "keep"))
    parser.add_argument("--answers", type=Path, help="write each answer's JSON here")
    given = parser.parse_args()
    chosen = [SCENARIOS[name] for name in given.names] or [
        each for each in SCENARIOS.values() if given.half in (None, each.half)
    ]
    rows = []
    for scenario in chosen:
        row = looked_at(scenario, given.answers)
        rows.append(row)
        if given.names or row.half == "tune":
            wrong = [name for name in ("rank", "place", "line", "why") if not getattr(row, f"{name}_right")]
            mark = "ok " if row.all_right else "BAD"
            print(
                f"{mark} {row.name} [{row.status}] {row.seconds} s: {row.said}  wrong: {', '.join(wrong) or '-'}",
                flush=True,
            )
    print(table(rows))
    return int(not all(row.all_right for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
