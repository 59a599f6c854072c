"""The hang lab's jobs under `gpudoctor run`: `python -m tests.lab.ends.stalls healthy|hung [NAME...] [--rows FILE]`.

Each is started as a user starts it: by torchrun, by torch.multiprocessing.spawn, or as background processes of a
shell. Healthy ones get so many seconds, and must never be called a stall; a job that hangs is to be named by itself,
with its cause, within the stall time and 15 s.

With `--rows` a line of JSON is written for each job as it ends, and those that have a line are left out: what was cut
off goes on where it was. `--at-once` starts several; `--most-load` has each wait, half a minute at most, for others.
`--evidence FOLDER` keeps what was seen of jobs of *tune* and the lab, which `hang --from` and other rules can be asked.
`--score` only adds up. Of *keep* only sums are printed. Exit status: 1 where a healthy job was called a stall.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.lab.ends.started import truly
from tests.lab.hangs.__main__ import judged, not_installed
from tests.lab.hangs.of_users import GETTING_ON, OF_USERS, half
from tests.lab.hangs.training import HANGS, MARK, SCENARIOS, TICK, Scenario, end, free_port
from tests.lab.sshd import user_environment

STALL = 8.0
IN_TIME = STALL + 15
WATCHED = 50.0
"""Seconds that a healthy job is watched, from the first word that it says."""
LONGEST = 240.0
UNDECIDED = 45.0
"""Seconds after the word that it stands still in which a cause may still come."""
MOST_WAIT = 30.0
CALM = 4.0
"""At a higher load what is late may be so for others' sake."""
STANDS = re.compile(r"gpudoctor: it has (?:begun no collective|said nothing new) for (\d+) s.*, and stands still")
NAMED = re.compile(r"gpudoctor: cause: .*\[([\w-]+)\]")


class Row(Struct, frozen=True, kw_only=True):
    """What became of one job."""

    name: str
    half: str
    healthy: bool
    launcher: str
    seconds: float | None
    """Since its last collective, when it was said that it stands still; None: it was not."""
    cause: str
    """The first that was named; empty: none."""
    right: bool
    ranks_right: bool
    line_right: bool
    looks: int
    processor: float
    """Seconds of a core for each look, of all that the doctor started and has waited for."""
    load_before: float
    load_after: float
    ended: int | None
    """Its exit status, where it did not stand for as long as it was watched."""
    state: str
    """As the last look put it."""
    summary: str = ""
    """Of the last look; of *tune* only, as `said` is."""
    said: str = ""

    @property
    def late(self) -> bool:
        return self.seconds is not None and self.seconds > IN_TIME


def seen_half(name: str) -> str:
    """The jobs of the lab itself have no half: rules were written with them."""
    return "lab" if name in SCENARIOS else half(name)


def started(scenario: Scenario, options: Sequence[str]) -> list[str]:
    """The line that a user would type."""
    program = [sys.executable, str(HANGS / scenario.script), *scenario.options, *options]
    if scenario.launcher == "torchrun":
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        return [*torchrun, f"--nproc-per-node={scenario.ranks}", *program[1:]]
    head = ["env", "MASTER_ADDR=127.0.0.1", f"MASTER_PORT={free_port()}"]
    if scenario.launcher == "spawn":
        return [*head, *program, f"--spawn={scenario.ranks}"]
    each = f"RANK=$rank LOCAL_RANK=$rank WORLD_SIZE={scenario.ranks} {shlex.join(program)} &"
    return [*head, "bash", "-c", f"for rank in {' '.join(map(str, range(scenario.ranks)))}; do {each} done; wait"]


def waited_for(pid: int) -> float:
    """Seconds of a core of the children of a process that it has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) / TICK
    except (OSError, IndexError):
        return 0.0


def looked(
    scenario: Scenario,
    healthy: bool,
    evidence: Path | None = None,
    *,
    more: Mapping[str, str] | None = None,
    meanwhile: Callable[[float], None] | None = None,
) -> Row:
    """One job, from its start until it has been named, or has been watched long enough. `more`: of its environment;
    `meanwhile` is called with the seconds since its start."""
    mark = uuid.uuid4().hex
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="stalls-") as name:
        ours = ["--preflight", "none", "--report", name, "--stall", str(STALL)]
        words = [sys.executable, "-m", "gpudoctor", "run", *ours, "--"]
        option = ["--healthy"] if healthy else []
        variables = {
            **truly(user_environment()),
            **(more or {}),
            MARK: mark,
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
        }
        place = Path(name, "said")
        with place.open("wb") as file:
            process = subprocess.Popen(
                [*words, *started(scenario, option)],
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
                cwd=name,
            )
            drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL, start_new_session=True)
            begin, has_begun = time.monotonic(), False
            until = begin + LONGEST
            while time.monotonic() < until and process.poll() is None:
                time.sleep(0.2)
                if meanwhile is not None:
                    meanwhile(time.monotonic() - begin)
                if healthy and not has_begun and any(file.stat().st_size for file in Path(name).rglob("rank-*.log")):
                    until, has_begun = min(until, time.monotonic() + WATCHED), True
                text = place.read_text(errors="replace")
                if not healthy and NAMED.search(text):
                    break
                if not healthy and STANDS.search(text):
                    until = min(until, time.monotonic() + UNDECIDED)
            ended, after, processor = process.poll(), os.getloadavg()[0], waited_for(process.pid)
            # A progress bar leaves its line open, and ours is then its end.
            said = "".join(
                f"{line}\n" for line in re.findall(r"gpudoctor: [^\r\n]*", place.read_text(errors="replace"))
            )
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(40)
            answers = sorted(Path(name).rglob("hang-*[0-9].json"), key=lambda path: path.stat().st_mtime)
            answer = json.loads(answers[-1].read_text()) if answers else {}
            others = len([*Path(name).rglob("slow-*[0-9].json")])
            is_seen = evidence is not None and (healthy or seen_half(scenario.name) != "keep")
            seen = {path.name: path.read_bytes() for path in Path(name).rglob("hang-*-evidence.json") if is_seen}
            end(mark, [process, drain])
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.stdout.close()
    stands, named = STANDS.search(said), NAMED.search(said)
    look = judged(scenario, 1, answer, 0, 0.0)
    cause = named[1] if named else ""
    right = (stands is None) if healthy else cause in scenario.causes
    for file_name, content in seen.items():
        assert evidence is not None
        (evidence / f"{scenario.name}-{file_name}").write_bytes(content)
    return Row(
        name=scenario.name,
        half=seen_half(scenario.name),
        healthy=healthy,
        launcher=scenario.launcher,
        seconds=float(stands[1]) if stands else None,
        cause=cause,
        right=right,
        ranks_right=look.ranks_right,
        line_right=look.line_right,
        looks=len(answers),
        processor=round(processor / max(1, len(answers) + others), 2),
        load_before=round(before, 1),
        load_after=round(after, 1),
        ended=ended,
        state=look.state,
        summary="" if seen_half(scenario.name) == "keep" else f"{look.cause} {look.sure:.2f} {look.summary}",
        said="" if seen_half(scenario.name) == "keep" else said,
    )


def scored(rows: Sequence[Row]) -> Iterator[str]:
    """A table: sums by half."""
    hung, well = [row for row in rows if not row.healthy], [row for row in rows if row.healthy]
    yield "| half | jobs | said that it stands | cause named | right | rank too | line too | late | late at load <= 4 |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for side in ("keep", "tune", "lab"):
        own = [row for row in hung if row.half == side]
        late = [row for row in own if row.late]
        right = [row for row in own if row.right]
        calm = [row for row in own if max(row.load_before, row.load_after) <= CALM]
        sums = [
            *(len(own), sum(row.seconds is not None for row in own), sum(bool(row.cause) for row in own), len(right)),
            *(sum(row.ranks_right for row in right), sum(row.line_right for row in right), len(late)),
        ]
        yield f"| {side} | {' | '.join(map(str, sums))} | {sum(row.late for row in calm)} of {len(calm)} |"
    costs = sorted(row.processor for row in hung if row.looks)
    if costs:
        yield f"a look: {costs[len(costs) // 2]:.1f} s of a core (median), {costs[-1]:.1f} s at most"
    yield f"healthy jobs: {len(well)}; called a stall: {sum(not row.right for row in well)}"


def wanted(healthy: bool, names: Sequence[str]) -> list[Scenario]:
    """Which jobs, in their order."""
    twins = {name: each for name, each in SCENARIOS.items() if each.healthy or not healthy}
    every = {**twins, **(GETTING_ON if healthy else {name: OF_USERS[name] for name in OF_USERS.keys() - GETTING_ON})}
    chosen = [every[name] for name in names if name in every] if names else [each for _, each in sorted(every.items())]
    return [each for each in chosen if not each.memory_limit and not not_installed(each)]


def kept(place: Path | None) -> list[Row]:
    """The lines that are there."""
    if place is None or not place.exists():
        return []
    return [msgspec.json.decode(line, type=Row) for line in place.read_bytes().splitlines()]


def printed(row: Row) -> None:
    """What may be seen of one job."""
    if row.half == "keep" and not row.healthy:
        return
    words = "no stall" if row.seconds is None else f"a stall after {row.seconds:.0f} s, {row.cause or 'undecided'}"
    print(f"{row.name}: {words}", flush=True)
    if not row.right:
        print(row.said, flush=True)


def run_all(
    jobs: Iterable[Scenario],
    healthy: bool,
    at_once: int,
    most_load: float,
    place: Path | None,
    evidence: Path | None = None,
    look: Callable[[Scenario, bool, Path | None], Row] = looked,
) -> list[Row]:
    """Each once."""

    def one(scenario: Scenario) -> Row:
        until = time.monotonic() + MOST_WAIT
        while os.getloadavg()[0] > most_load and time.monotonic() < until:
            time.sleep(1)
        row = look(scenario, healthy, evidence)
        if place is not None:
            with place.open("ab") as file:
                file.write(msgspec.json.encode(row) + b"\n")
        printed(row)
        return row

    with ThreadPoolExecutor(at_once) as pool:
        return [*pool.map(one, jobs)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=["healthy", "hung"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--evidence", type=Path)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--most-load", type=float, default=float("inf"))
    parser.add_argument("--score", action="store_true")
    asked = parser.parse_args()
    healthy = asked.which == "healthy"
    rows = kept(asked.rows)
    if not asked.score:
        done = {row.name for row in rows if row.healthy == healthy}
        jobs = [each for each in wanted(healthy, asked.names) if each.name not in done]
        rows += run_all(jobs, healthy, asked.at_once, asked.most_load, asked.rows, asked.evidence)
    print("\n".join(scored(rows)))
    return int(healthy and any(row.healthy and not row.right for row in rows))


if __name__ == "__main__":
    sys.exit(main())
