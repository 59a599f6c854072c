"""`python -m tests.bench.html`: pages of 1,024 ranks and nodes: how large, how long to write, how long until drawn.

Seconds of the wall, and of a processor: what a crowded machine does to the first, it does not to the second."""

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from gpudoctor.check import Fix, Problem
from gpudoctor.fleet.survey import NodesProblem, Survey
from gpudoctor.folder.answer import FolderAnswer, KeptRun, StepsOverTime, TimelineMoment, UseOverTime
from gpudoctor.hang.conclude import conclude
from gpudoctor.hang.job import Rank
from gpudoctor.hang.report import HangReport
from gpudoctor.render.html.fleet import survey_page
from gpudoctor.render.html.folder import folder_page
from gpudoctor.render.html.hang import hang_page
from gpudoctor.snapshot.evidence import Collective, Evidence, Frame, Group, Recorder
from tests.browser import browser, program
from tests.hang_jobs import PROGRAM, a_job, sleeps, waits

RANKS, NODES = 1024, 1024
DEEP = 60
"""Frames of a stack."""
MOST_BYTES, MOST_SECONDS = 5_000_000, 2.0
"""What was promised."""


def one_elsewhere(ranks: int = RANKS) -> HangReport:
    return conclude(one_elsewhere_evidence(ranks))


def one_elsewhere_evidence(ranks: int, time: float = 0.0, frames: int = DEEP) -> Evidence:
    """All ranks but one wait for that one, and their recorders tell the collectives before."""
    members = [sleeps(0, host="n0000"), *(waits(rank, host=f"n{rank // 8:04}") for rank in range(1, ranks))]
    return replace(_deep([_recorded(each, ranks) for each in members], frames), time=time)


def _recorded(each: Rank, ranks: int) -> Rank:
    """64 collectives; rank 0 has not come to the last, and every third has called one more."""
    number = each.rank
    last = 163 if number == 0 else 165 if number % 3 == 0 else 164
    entries = tuple(
        Collective(
            group="0",
            sequence=at,
            operation="all_reduce" if at % 4 else "broadcast",
            state="completed" if at < 164 else "started" if at == 164 else "scheduled",
            input_sizes=((1024, 64),),
            dtypes=("Float",),
            created_ns=10**18 + at * 20_000_000 + number * 1000,
            frames=(Frame("main", PROGRAM, 41 + at % 4),),
        )
        for at in range(102, last + 1)
    )
    group = Group(key="0", description="default_pg", ranks=tuple(range(ranks)), last_enqueued=last)
    found = Recorder(source=f"rank {number}", rank=number, backend="nccl", entries=entries, groups=(group,), total=164)
    return replace(each, evidence=replace(each.evidence, recorder=found))


def all_elsewhere() -> HangReport:
    """Every rank stands at a line of its own, under a deep stack."""
    return conclude(_deep([waits(rank, at=40 + rank, host=f"n{rank // 8:04}") for rank in range(RANKS)]))


def _deep(members: Sequence[Rank], frames: int = DEEP) -> Evidence:
    evidence = a_job(*members).evidence
    below = tuple(Frame(f"call_{number}", f"/opt/venv/lib/python3.11/site-packages/deep/module_{number}.py", number)
                  for number in range(frames))  # fmt: skip
    nodes = tuple(
        replace(
            node,
            processes=tuple(
                replace(each, samples=tuple(
                    replace(sample, threads=tuple(
                        replace(thread, frames=(*thread.frames, *below)) for thread in sample.threads
                    )) for sample in each.samples
                )) for each in node.processes
            ),
        )
        for node in evidence.nodes
    )  # fmt: skip
    return replace(evidence, nodes=nodes)


def many_nodes() -> Survey:
    """24 findings, each on other nodes."""
    names = tuple(f"n{number:04}" for number in range(NODES))
    found = tuple(
        NodesProblem(
            check=f"check-{number}",
            nodes=names[number :: 2 + number * 3],
            problem=Problem(severity="error" if number % 3 else "warning", summary="It is 64 MiB; 8 GiB are wanted",
                            meaning="Loaders die.", fix=Fix("Make it larger."), evidence=()),
        )
        for number in range(24)
    )  # fmt: skip
    return Survey(nodes=names, examined=names, problems=found)


def long_run(waiting: HangReport) -> FolderAnswer:
    """A day of 1,024 ranks: all that is kept of their steps, of 16 GPUs each few minutes, two looks of `hang`."""
    day, samples, told = 86400.0, 720, 20
    steps = tuple(
        StepsOverTime(rank=rank, points=tuple((at * day / told, at * 5000.0 - rank) for at in range(1, told)))
        for rank in range(RANKS)
    )
    busy = [tuple((at * day / samples, (at * 37.0 + 11 * gpu) % 100) for at in range(samples)) for gpu in range(18)]
    use = (
        *(UseOverTime(name=f"GPU {gpu}", unit="%", points=busy[gpu]) for gpu in range(16)),
        UseOverTime(name="processors", unit="cores", points=busy[16]),
        UseOverTime(name="memory", unit="bytes", points=busy[17]),
    )
    moments = tuple(
        TimelineMoment(kind="log", text="a line " * 20, seconds=at * day / 300, source=f"output.log:{at}")
        for at in range(300)
    )
    run = KeptRun(
        command=("torchrun", "train.py"), host="n0000", started=1.0, seconds=day, status=-9, cause="rank-died"
    )
    hangs = {"hang-1-evidence.json": waiting, "hang-2-evidence.json": waiting}
    return FolderAnswer(run=run, moments=moments, clock="the start", use=use, steps=steps, hangs=hangs)


def thousands_of_findings() -> Survey:
    survey = many_nodes()
    found = (replace(survey.problems[number % 24], check=f"check-{number}") for number in range(10_000))
    return replace(survey, nodes=survey.nodes[:8], examined=survey.nodes[:8],
                   problems=tuple(replace(each, nodes=survey.nodes[:2]) for each in found))  # fmt: skip


def pages() -> dict[str, Callable[[], bytes]]:
    waiting, apart, survey = one_elsewhere(), all_elsewhere(), many_nodes()
    run = long_run(waiting)
    return {
        "report, a day of 1,024 ranks": lambda: folder_page(run),
        "hang, 1,023 ranks wait for one": lambda: hang_page(waiting),
        "hang, each rank at another line": lambda: hang_page(apart),
        "check --hosts, 24 findings": lambda: survey_page(survey, status=1),
    }


def main() -> None:
    print(f"{'page of 1,024':34} {'MB':>6} {'written':>9} {'(processor)':>11} {'drawn':>9} {'(processor)':>11}")
    with tempfile.TemporaryDirectory() as folder:
        findings = thousands_of_findings()
        more: dict[str, Callable[[], bytes]] = {
            "check --hosts, 10,000 findings": lambda: survey_page(findings, status=1)
        }
        for name, made in {**pages(), **more}.items():
            began, used = time.perf_counter(), time.process_time()
            raw = made()
            written, used = time.perf_counter() - began, time.process_time() - used
            place = Path(folder) / "page.html"
            place.write_bytes(raw)
            print(f"{name:34} {len(raw) / 1e6:6.2f} {written:7.2f} s {used:9.2f} s {_drawn(place, folder)}")


def _drawn(page: Path, folder: str) -> str:
    """From the start of its loading until it has been painted, with all that is folded opened."""
    if program() is None:
        return "no browser"
    with browser(Path(folder) / "profile") as tab:
        tab.tell("Performance.enable", timeDomain="threadTicks")
        tab.open(page)
        loaded = tab.ask("performance.getEntriesByType('navigation')[0].loadEventEnd")
        opened = tab.ask("""new Promise((done) => {
            const began = performance.now();
            for (const each of document.querySelectorAll("details")) each.open = true;
            requestAnimationFrame(() => setTimeout(() => done(performance.now() - began), 0));
        })""")
        told = tab.tell("Performance.getMetrics")["metrics"]
        used = next(each["value"] for each in told if each["name"] == "TaskDuration")
        return f"{(loaded + opened) / 1000:7.2f} s {used:9.2f} s"


if __name__ == "__main__":
    main()
