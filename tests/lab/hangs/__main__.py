"""Jobs as users write them, run and looked at three times: `python -m tests.lab.hangs [NAME...] [--half tune]`,
or only those after public threads (`--strangers`), or only a later lot of these (`--later`, `--third` to
`--eighteenth`), which want the frameworks of the `frameworks` extra: what is not installed is left out, with a word.

Of *keep* only sums are printed, unless names are given. Exit status: 1 when an answer was wrong, or a job did not
survive being looked at.
"""

import argparse
import ast
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins

from gpudoctor.hang.live import recorded
from gpudoctor.snapshot.evidence import from_json
from gpudoctor.sure import LIKELY
from tests.lab.hangs.of_users import GETTING_ON, LOTS, OF_USERS, half
from tests.lab.hangs.training import HANGS, Running, Scenario, running
from tests.lab.sshd import user_environment

EVIDENCE = ".evidence"
LOOK_LIMIT = 120.0
"""Seconds for one look, on a crowded machine."""


class Look(Struct, frozen=True):
    """What one call of `gpudoctor hang` said of a job, held against what was expected."""

    name: str
    half: str
    number: int
    state: str
    status: int
    cause: str
    sure: float
    culprits: tuple[int, ...]
    line: int
    summary: str
    seconds: float
    state_right: bool
    cause_right: bool
    ranks_right: bool
    line_right: bool
    survived: bool = True

    @property
    def all_right(self) -> bool:
        return self.state_right and self.cause_right and self.ranks_right and self.line_right

    @property
    def surely_wrong(self) -> bool:
        """Likely or surer, and not the cause."""
        return self.sure >= LIKELY and not self.cause_right


def judged(scenario: Scenario, number: int, answer: dict[str, Any], status: int, seconds: float) -> Look:
    """One answer held against the expectation."""
    jobs = answer.get("jobs") or [{}]
    causes = jobs[0].get("causes") or [{}]
    first = causes[0]
    where = first.get("where") or {}
    own = str(where.get("file", "")).endswith(scenario.script.rpartition("/")[2])
    line = int(where.get("line", 0)) if own else 0
    named = tuple(sorted(first.get("ranks") or ()))
    state = str(jobs[0].get("state", "no answer"))
    sure = float(first.get("confidence") or 0.0)
    claimed = str(first.get("cause", "")) if sure >= 0.5 else ""
    healthy = scenario.name in GETTING_ON
    return Look(
        scenario.name,
        half(scenario.name),
        number,
        state,
        status,
        str(first.get("cause", "")),
        sure,
        named,
        line,
        str(first.get("summary", "") or jobs[0].get("undecided", "")),
        round(seconds, 1),
        state_right=state in scenario.states,
        cause_right=not claimed or sure < LIKELY if healthy else claimed in scenario.causes,
        ranks_right=healthy or named in (scenario.culprits, *scenario.or_culprits),
        line_right=healthy or not scenario.lines or line in scenario.numbers(),
    )


def looked_at(scenario: Scenario, job: Running, number: int, keep: Path | None) -> Look:
    """One call of the command."""
    begin = time.monotonic()
    told = ["gpudoctor", "hang"]
    if keep:
        told = ["tests.lab.hangs.kept", str(keep.absolute() / f"{scenario.name}.{number}{EVIDENCE}")]
    words = [sys.executable, "-m", *told, "--pid", str(job.pid), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, env=user_environment(), timeout=LOOK_LIMIT)
    seconds = time.monotonic() - begin
    if keep:
        (keep / f"{scenario.name}.{number}.json").write_text(done.stdout or done.stderr)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {}
    return judged(scenario, number, answer, done.returncode, seconds)


def looks(scenario: Scenario, count: int, keep: Path | None) -> list[Look]:
    """A job started, looked at so many times, and ended."""
    healthy = scenario.name in GETTING_ON
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running(scenario, folder, healthy=healthy) as job:
            before = job.processes()
            found = [looked_at(scenario, job, number, keep) for number in range(count)]
            gone = {pid for pid in before if pid not in job.processes()} if not healthy else set()
            over = "Traceback" in job.output().rpartition("step")[2] and healthy
            if keep:
                (keep / f"{scenario.name}.log").write_text(job.output())
    if gone or over:
        found = [Look(**{**to_builtins(look), "survived": False}) for look in found]
    return found


def again(row: Look, folder: Path) -> Look:
    """The same look, concluded by the rules as they are."""
    kept = folder / f"{row.name}.{row.number}{EVIDENCE}"
    if not kept.exists():
        return row
    answer = to_builtins(recorded(from_json(kept.read_bytes())))
    return judged(OF_USERS[row.name], row.number, answer, row.status, row.seconds)


def not_installed(scenario: Scenario) -> list[str]:
    """Packages that a program imports and that are not there."""
    tree = ast.parse((HANGS / scenario.script).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    packages = {name.partition(".")[0] for name in names}
    beside = {path.stem for path in (HANGS / scenario.script).parent.glob("*.py")}
    return sorted(name for name in packages - beside if importlib.util.find_spec(name) is None)


def share(part: int, whole: int) -> str:
    return f"{part} of {whole}"


def table(rows: Sequence[Look]) -> str:
    """Sums by half: of hanging jobs all looks, of healthy ones all looks."""
    lines = [
        "| half | looks at hanging jobs | state | cause | ranks | line | all four | surely wrong "
        "| healthy called hung |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for side in ("keep", "tune"):
        bad = [row for row in rows if row.half == side and row.name not in GETTING_ON]
        well = [row for row in rows if row.half == side and row.name in GETTING_ON]
        sums = [
            sum(getattr(row, name) for row in bad)
            for name in ("state_right", "cause_right", "ranks_right", "line_right", "all_right", "surely_wrong")
        ]
        hung = sum(row.state == "hung" for row in well)
        lines.append(f"| {side} | {len(bad)} | " + " | ".join(map(str, sums)) + f" | {share(hung, len(well))} |")
    return "\n".join(lines)


def said(row: Look) -> str:
    wrong = [name for name in ("state", "cause", "ranks", "line") if not getattr(row, f"{name}_right")]
    end = "" if row.survived else "  DID NOT SURVIVE"
    return (
        f"{'ok ' if not wrong else 'BAD'} {row.name} look {row.number}: {row.state} {row.cause} {row.sure:.2f} "
        f"{list(row.culprits)} line {row.line} {row.seconds} s  wrong: {', '.join(wrong) or '-'}{end}\n"
        f"      {row.summary[:220]}"
    )


def _of(lots: Sequence[str]) -> list[str]:
    return [scenario.name for lot in lots for made in LOTS[lot] for scenario in made()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.hangs", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of users/; none: all")
    parser.add_argument("--half", choices=("tune", "keep"), help="of one half only")
    for lot in LOTS:
        parser.add_argument(f"--{lot}", dest="lots", action="append_const", const=lot, help="only these")
    parser.add_argument("--looks", type=int, default=3, help="so many looks at each job")
    parser.add_argument("--part", default="1/1", help="of two processes that share the work, the first: 1/2")
    parser.add_argument("--score", action="store_true", help="only the sums of the rows in --keep's folder")
    parser.add_argument("--again", action="store_true", help="the same, of what these looks had seen, by today's rules")
    parser.add_argument("--keep", type=Path, help="a folder for answers, evidence, logs and rows.jsonl")
    chosen = parser.parse_args()
    if unknown := {*chosen.names} - {*OF_USERS}:
        parser.error(f"{', '.join(sorted(unknown))}: no such scenario; there are {', '.join(OF_USERS)}")
    names = [
        name
        for name in chosen.names or (_of(chosen.lots) if chosen.lots else OF_USERS)
        if chosen.half in (None, half(name))
    ]
    if chosen.keep:
        chosen.keep.mkdir(parents=True, exist_ok=True)

    rows: list[Look] = []
    if chosen.score or chosen.again:
        rows = [convert(json.loads(line), Look) for line in (chosen.keep / "rows.jsonl").read_text().splitlines()]
        if chosen.again:
            rows = [again(row, chosen.keep) for row in rows if chosen.half in (None, row.half)]
            for row in rows:
                if row.half == "tune" and not row.all_right:
                    print(said(row))
        names = []
    part, _, parts = chosen.part.partition("/")
    for name in names[int(part) - 1 :: int(parts)]:
        shown = half(name) == "tune" or bool(chosen.names)
        if absent := not_installed(OF_USERS[name]):
            print(f"{name}: left out, for {', '.join(absent)} is not installed", flush=True)
            continue
        try:
            found = looks(OF_USERS[name], chosen.looks, chosen.keep)
        except TimeoutError as error:
            print(f"{name if shown else 'one of keep'}: not looked at: {str(error)[:300] if shown else ''}", flush=True)
            continue
        rows += found
        for row in found:
            if shown:
                print(said(row), flush=True)
            if chosen.keep:
                with (chosen.keep / "rows.jsonl").open("a") as file:
                    file.write(json.dumps(to_builtins(row)) + "\n")
    print(f"\n{table(rows)}")
    broken = sum(not row.survived for row in rows)
    print(f"{len({row.name for row in rows})} jobs; looks at jobs that did not survive: {broken}")
    return int(broken > 0 or any(not row.all_right for row in rows))


if __name__ == "__main__":
    sys.exit(main())
