"""What is read of jobs on NCCL, kept and concluded again: `python -m tests.lab.torch_nccl.evidence DIR [NAME...]`.

One start of a job serves four answers: with its flight recorders as they were asked for through the pipe, and without;
as on the host, where NVML names the ranks, and as in a container, where it names none. What is read does not depend on
these: recorders and names are left out of the evidence afterwards. So the rules of `hang` can be tried again and again
on what real processes have shown, in a second. With `--judge` nothing is started. With `--after` the job is left until
its time-out has ended it: its log is kept for `explain`, and what its ranks have dumped for `hang --dumps`.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from msgspec import structs

from gpudoctor.hang.conclude import conclude
from gpudoctor.snapshot.evidence import Evidence, NodeEvidence, from_json
from tests.lab import machines
from tests.lab.hangs.on_gpus import EVERY, ON_GPUS
from tests.lab.hangs.training import SCENARIOS, Scenario, running
from tests.lab.nccl import standins, wheels
from tests.lab.nvidia import fake_nvidia
from tests.lab.torch_nccl import looks, score, scripts

LIMIT = 100
"""Seconds of the group's time-out where it is waited for: every look must be over before it."""
TRIES = 2
"""Looks, where processors are so crowded that a dump takes longer than is waited for."""
WAYS = ("plain", "pipe")
VIEWS: tuple[looks.View, ...] = ("bare", "container")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.torch_nccl.evidence", description=__doc__)
    parser.add_argument("folder", type=Path, help="where evidence is kept")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of tests/lab/hangs; none: all")
    parser.add_argument("--judge", action="store_true", help="start nothing: conclude from what is kept")
    parser.add_argument("--new", action="store_true", help="those of on_gpus.py, without names")
    parser.add_argument("--healthy", action="store_true", help="the same programs without the fault")
    parser.add_argument(
        "--after", action="store_true", help="wait for the time-out: its log and its dumps are kept too"
    )
    parser.add_argument("--limit", type=int, default=LIMIT, help="the group's time-out, in seconds")
    parser.add_argument("--at-once", type=int, default=1, help="so many jobs at a time")
    chosen = parser.parse_args()
    if unknown := {*chosen.names} - {*EVERY}:
        parser.error(f"{', '.join(sorted(unknown))}: no such scenario; there are {', '.join(EVERY)}")
    default = ON_GPUS if chosen.new else SCENARIOS
    names = [name for name in chosen.names or default if EVERY[name].healthy or not chosen.healthy]
    if not chosen.judge:
        release = looks.Wheels(wheels.fetch_torch(wheels.NEWEST_TORCH), Path())
        release = release._replace(standins=standins.for_torch(release.site))

        def take(name: str) -> str:
            try:
                limit = chosen.limit if chosen.after else 0
                return captured(name, chosen.folder, release, healthy=chosen.healthy, limit=limit)
            except Exception as error:  # the others go on
                return f"FAILED {name}: {type(error).__name__}: {error}"[-3000:]

        with ThreadPoolExecutor(chosen.at_once) as pool:
            for said in pool.map(take, names):
                print(said, flush=True)
    rows = [row for name in names for row in judged(name, chosen.folder, healthy=chosen.healthy)]
    for row in rows:
        if not score.is_kept(row):
            print(score.line(row), flush=True)
    print(f"\n{score.table(rows)}")
    return int(any("wrong" in score.judged(row).values() for row in rows))


def captured(name: str, folder: Path, release: looks.Wheels, *, healthy: bool = False, limit: int = 0) -> str:
    """Start the job and keep what is read of it, as on the host and with its recorders; a time-out is waited for."""
    scenario = EVERY[name]._replace(truly=True)
    own = folder / f"{name}{'-healthy' if healthy else ''}"
    own.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(own / "dumps", ignore_errors=True)
    programs = scripts.write(own / "scripts", limit or 600)
    with looks.meeting_place() as place, fake_nvidia(machines.hgx_h100()) as around:
        variables = looks.environment(release, "pipe", own, place)
        variables["FAKE_NVIDIA_MACHINE"] = around["FAKE_NVIDIA_MACHINE"]
        with running(scenario, own, healthy=healthy, environment=variables, scripts=programs) as job:
            (own / "spin").touch()
            time.sleep(2)
            machine = looks.machine_of(looks.ranks_of(job), "bare")
            read, looked, seconds = 0, 0, 0.0
            while looked < TRIES and read < max(1, scenario.ranks - len(scenario.culprits)):
                looked += 1
                begin = time.monotonic()
                with fake_nvidia(machine) as here:
                    here.pop("PYTHONPATH", None)
                    words = ("capture", "--pid", str(job.pid), "--output", str(own / "evidence.json"))
                    subprocess.run(
                        [sys.executable, "-m", "gpudoctor", *words], env=here, timeout=looks.LOOK, check=True
                    )
                seconds = time.monotonic() - begin
                read = recorders(own / "evidence.json")
            (own / "spin").unlink()
            if limit:
                looks.wait_for_end(job, limit)
    return f"{name}{' healthy' if healthy else ''}: {seconds:.1f} s, {read} recorders at look {looked}"


def recorders(file: Path) -> int:
    nodes = from_json(file.read_bytes()).nodes
    return sum(process.recorder is not None for node in nodes for process in node.processes)


def judged(name: str, folder: Path, *, healthy: bool = False) -> Iterator[looks.Row]:
    """The answers to what is kept of a scenario."""
    own = folder / f"{name}{'-healthy' if healthy else ''}"
    try:
        evidence = from_json((own / "evidence.json").read_bytes())
    except OSError:
        return
    for way in WAYS:
        for view in VIEWS:
            seen = evidence if way == "pipe" else without_recorders(evidence)
            seen = seen if view == "bare" else without_pids(seen)
            begin = time.monotonic()
            answer = json.loads(encoded(seen))
            seconds = round(time.monotonic() - begin, 1)
            yield looks.row_of_job(EVERY[name], way, view, healthy, answer, seconds)
    yield from after_the_end(EVERY[name], own)


def after_the_end(scenario: Scenario, own: Path) -> Iterator[looks.Row]:
    """The answers to what a job has left at its time-out, where it was waited for."""
    log = own / f"{scenario.name}.log"
    if "ran for " in log.read_text(errors="replace"):
        yield looks.explain_row(scenario, "pipe", log, own)
    if any((own / "dumps").glob("nccl_trace_rank_*")):
        yield looks.dumps_row(scenario, "pipe", own / "dumps", own)


def encoded(evidence: Evidence) -> bytes:
    return msgspec.json.encode(conclude(evidence))


def without_recorders(evidence: Evidence) -> Evidence:
    """As of a job without the pipe."""

    def bare(node: NodeEvidence) -> NodeEvidence:
        processes = tuple(structs.replace(process, recorder=None) for process in node.processes)
        unread = tuple(each for each in node.unread if "recorder" not in each.what)
        return structs.replace(node, processes=processes, unread=unread)

    return structs.replace(evidence, nodes=tuple(map(bare, evidence.nodes)))


def without_pids(evidence: Evidence) -> Evidence:
    """As in a container, whose processes NVML does not name."""

    def contained(node: NodeEvidence) -> NodeEvidence:
        return structs.replace(node, gpus=tuple(structs.replace(gpu, pids=()) for gpu in node.gpus))

    return structs.replace(evidence, nodes=tuple(map(contained, evidence.nodes)))


if __name__ == "__main__":
    sys.exit(main())
