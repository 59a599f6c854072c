"""From evidence to the report: progress, the order of blame, states, what is undecided, hostile and large evidence."""

import ast
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import structs

from gpudoctor.check import Fix
from gpudoctor.hang import all_rules, causes, conclude as conclusion
from gpudoctor.hang.assemble import assemble
from gpudoctor.hang.conclude import conclude, conclude_job, ordered
from gpudoctor.hang.job import HangJob
from gpudoctor.hang.progress import Movement, progress_of
from gpudoctor.hang.report import HangCause, State
from gpudoctor.snapshot.evidence import (
    Collective,
    Evidence,
    Frame,
    Group,
    Recorder,
    Socket,
    from_json,
    to_json,
)
from gpudoctor.snapshot.ras import Ras, RasCommunicator, RasRank
from tests.hang_jobs import a_job, data_loader, is_in, member, place_at, sleeps, source, waits

RULE_FILES = sorted(Path(causes.__file__).parent.glob("*_*.py"))

# ---------------------------------------------------------------- progress

PROGRESS: dict[str, tuple[HangJob, Movement]] = {
    "all wait and none has run": (a_job(waits(0), waits(1)), "stuck"),
    "one that waits has been woken in between": (a_job(waits(0), waits(1, switches=(50, 51))), "moves"),
    "one that waits is at another line": (
        a_job(waits(0), waits(1, first=place_at("collective", "all_reduce", at=30))),
        "moves",
    ),
    "one computes and the others wait": (a_job(waits(0), is_in(1, "user code", moved=True)), "held"),
    "one sleeps for long and the others wait": (a_job(waits(0), sleeps(1)), "stuck"),
    "one sleeps a little, and so the others get on": (a_job(waits(0, moved=True), sleeps(1, moved=True)), "moves"),
    "all compute": (a_job(is_in(0, "user code", moved=True), is_in(1, "user code", moved=True)), "moves"),
    "nobody waits, nothing moves": (a_job(is_in(0, "data"), is_in(1, "data")), "stuck"),
    "all meet for the first time": (a_job(is_in(0, "rendezvous"), is_in(1, "rendezvous")), "starting"),
    "one look": (a_job(waits(0, samples=1), waits(1, samples=1)), "unknown"),
    "one look, and one is stopped": (a_job(waits(0, samples=1), member(1, place_at("unknown"), state="T")), "stuck"),
    "backward that computes": (
        a_job(is_in(0, "backward", moved=True), is_in(1, "backward", moved=True)),
        "moves",
    ),
}


@pytest.mark.parametrize("name", PROGRESS)
def test_progress_is_told_from_two_looks(name: str) -> None:
    job, verdict = PROGRESS[name]
    assert progress_of(job).verdict == verdict


def test_the_signal_of_a_look_is_no_progress() -> None:
    """A rank that is read by faulthandler's signal wakes for it, twice."""
    asked = waits(0, switches=(50, 54))
    samples = tuple(msgspec.structs.replace(each, stacks_by="faulthandler") for each in asked.evidence.samples)
    asked = msgspec.structs.replace(asked, evidence=msgspec.structs.replace(asked.evidence, samples=samples))
    assert progress_of(a_job(asked, waits(1))).verdict == "stuck"


@pytest.mark.parametrize(("later", "verdict"), [(7, "stuck"), (9, "moves")])
def test_counts_of_nccl_decide_where_ranks_spin(later: int, verdict: Movement) -> None:
    def poll(at: float, count: int) -> Ras:
        ranks = tuple(RasRank(rank=rank, counts={"AllReduce": count}) for rank in (0, 1))
        return Ras(at=at, source="localhost:28028", communicators=(RasCommunicator(id="a", size=2, ranks=ranks),))

    spin: dict[str, Any] = {"state": "R", "waits_in": "", "cpu": (3.0, 5.5), "switches": (50, 60), "moved": True}
    ranks = [
        is_in(rank, "cuda sync", "synchronize", libraries={"libcuda.so.580.95.05": "/x"}, **spin) for rank in (0, 1)
    ]
    job = a_job(*ranks, nodes={"a": {"ras": (poll(0.0, 7), poll(5.0, later))}})
    assert progress_of(job).verdict == verdict


@pytest.mark.parametrize("shared", [True, False])
def test_counts_of_another_job_on_the_node_say_nothing(shared: bool) -> None:
    """Its RAS has the usual port, or each job one of its own; that job trains, and this one stands."""

    def poll(port: int, count: int, *pids: int) -> Ras:
        ranks = tuple(RasRank(rank=rank, pid=pid, counts={"AllReduce": count}) for rank, pid in enumerate(pids))
        return Ras(at=0.0, source=f"[::1]:{port}", communicators=(RasCommunicator(id="a", size=2, ranks=ranks),))

    spin: dict[str, Any] = {"state": "R", "waits_in": "", "cpu": (3.0, 5.5), "switches": (50, 60), "moved": True}
    gpu: dict[str, Any] = {"libraries": {"libcuda.so.580.95.05": "/x"}}
    job = a_job(waits(0, **gpu, **spin), waits(1, **gpu, **spin))
    (node,), replace = job.nodes, msgspec.structs.replace
    own = [rank.pid for rank in job.ranks]
    others = [
        replace(process, process=replace(process.process, pid=process.pid + 1000)) for process in node.processes[:2]
    ]
    theirs = [process.pid for process in others]
    ras = [poll(28028, 7, *theirs), poll(28028, 90, *theirs)]
    ras += [] if shared else [poll(28029, 5, *own), poll(28029, 5, *own)]
    job = replace(job, nodes=(replace(node, processes=(*node.processes, *others), ras=tuple(ras)),))
    assert progress_of(job).verdict == ("unknown" if shared else "stuck")


def test_one_that_waits_does_not_get_on_because_others_launch_ahead() -> None:
    """stops_early of tests/lab/hangs: a rank has left the loop, and the others queue their steps behind its absence."""

    def poll(at: float, count: int) -> Ras:
        counts = (("a", 4000, count), ("a", 4001, 7))
        ranks = tuple(
            RasRank(rank=rank, host=host, pid=pid, counts={"AllReduce": own})
            for rank, (host, pid, own) in enumerate(counts)
        )
        return Ras(at=at, source="localhost:28028", communicators=(RasCommunicator(id="a", size=2, ranks=ranks),))

    spin: dict[str, Any] = {"state": "R", "waits_in": "", "cpu": (3.0, 5.5), "switches": (50, 60), "moved": True}
    gpu: dict[str, Any] = {"libraries": {"libcuda.so.580.95.05": "/x"}}
    ranks = (sleeps(0, moved=True, **gpu), waits(1, "barrier", **gpu, **spin))
    assert progress_of(a_job(*ranks, nodes={"a": {"ras": (poll(0.0, 7), poll(5.0, 90))}})).verdict == "held"


# ---------------------------------------------------------------- states

STATES: dict[str, tuple[HangJob, State]] = {
    "hung": (a_job(waits(0), sleeps(1)), "hung"),
    "slow": (a_job(waits(0), is_in(1, "user code", moved=True)), "slow"),
    "running": (a_job(waits(0, moved=True), waits(1)), "running"),
    "starting": (a_job(is_in(0, "rendezvous", age=3.0), is_in(1, "rendezvous", age=3.0)), "starting"),
    "ended": (
        a_job(*(member(rank, place_at("unknown"), state="Z", exit_code=0, samples=0) for rank in (0, 1))),
        "ended",
    ),
    "all sleep for themselves": (a_job(sleeps(0), sleeps(1)), "slow"),
    "read once": (a_job(waits(0, samples=1), waits(1, samples=1)), "running"),
}


@pytest.mark.parametrize("name", STATES)
def test_the_state_of_a_job(name: str) -> None:
    job, state = STATES[name]
    assert conclude_job(job).state == state


@pytest.mark.parametrize(("delayed", "state"), [(0.0, "hung"), (15.0, "starting")])
def test_a_job_is_young_for_longer_where_others_have_the_processors(delayed: float, state: State) -> None:
    ranks = []
    for number in range(2):
        rank = is_in(number, "rendezvous", age=65.0, cpu=(2.0, 2.0))
        samples = tuple(
            structs.replace(sample, threads=(structs.replace(sample.threads[0], delayed_seconds=delayed),))
            for sample in rank.evidence.samples
        )
        ranks.append(structs.replace(rank, evidence=structs.replace(rank.evidence, samples=samples)))
    assert conclude_job(a_job(*ranks)).state == state


def test_what_was_read_once_is_said_to_be_unknown() -> None:
    report = conclude_job(a_job(waits(0, samples=1), waits(1, samples=1)))
    assert report.causes == ()
    assert "not to be seen" in report.undecided


# ---------------------------------------------------------------- the order of blame


def cause(name: str, confidence: float, *ranks: int) -> HangCause:
    return HangCause(cause=name, confidence=confidence, ranks=ranks, summary=name, fix=Fix(""))


def names(*causes: HangCause) -> list[str]:
    return [each.cause for each in ordered(causes, progress_of(a_job(waits(0), waits(1))))]


def test_who_is_dead_comes_before_who_disagrees_and_who_is_elsewhere() -> None:
    found = names(
        cause("slow-rank-timeout", 0.95, 1), cause("rank0-only-collective", 0.92, 0), cause("stopped-rank", 0.9, 2)
    )
    assert found == ["stopped-rank"]


def test_the_surer_of_disagreement_and_a_rank_elsewhere_comes_first() -> None:
    found = names(cause("slow-rank-timeout", 0.85, 1), cause("rank-divergent-decision", 0.65, 0))
    assert found == ["slow-rank-timeout", "rank-divergent-decision"]
    found = names(cause("slow-rank-timeout", 0.85, 1), cause("rank-divergent-decision", 0.85, 0))
    assert found == ["rank-divergent-decision", "slow-rank-timeout"]


def test_what_is_hardly_shown_is_ordered_by_confidence_alone() -> None:
    found = names(cause("rank-died", 0.4, 1), cause("storage-stall", 0.88, 1))
    assert found[0] == "storage-stall"


def test_the_same_cause_of_the_same_ranks_is_said_once() -> None:
    found = ordered(
        [cause("storage-stall", 0.8, 1), cause("storage-stall", 0.88, 1)], progress_of(a_job(waits(0), waits(1)))
    )
    assert [each.confidence for each in found] == [0.88]


def test_a_rule_that_fails_does_not_take_the_others_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(job: HangJob) -> Any:
        raise KeyError("x")

    monkeypatch.setattr(conclusion, "RULES", (fails, *all_rules.RULES))
    unread: list[Any] = []
    report = conclude_job(a_job(waits(0), sleeps(1)), unread)
    assert report.causes[0].cause == "slow-rank-timeout"
    assert "fails" in unread[0].what
    assert "KeyError" in unread[0].reason


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.stem)
def test_a_rule_words_no_fix_of_its_own(path: Path) -> None:
    """Fixes are told in the file of their cause, once for all rooms."""
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    assert not [call.id for call in calls if isinstance(call, ast.Name) and call.id in ("Fix", "HangCause")]


# ---------------------------------------------------------------- evidence to jobs


def test_evidence_is_made_into_the_same_job() -> None:
    built = a_job(
        waits(0), sleeps(1, sources=(source(52),), data_loaders=(data_loader(77, 4001),)), waits(2, host="b", pid=4100)
    )
    (job,) = assemble(from_json(to_json(built.evidence)))
    assert [(rank.rank, rank.pid, rank.node.name, rank.place.kind) for rank in job.ranks] == [
        (rank.rank, rank.pid, rank.node.name, rank.place.kind) for rank in built.ranks
    ]
    assert job.world_size == 3
    assert job.ranks[1].moved is False
    assert [loader.process.pid for loader in job.ranks[1].data_loaders] == [77]
    report = conclude(built.evidence, seconds=1.5)
    assert report.seconds == 1.5
    assert report.hosts == ("a", "b")
    (found,) = report.jobs[0].causes
    assert (found.cause, found.ranks) == ("slow-rank-timeout", (1,))
    assert found.where is not None
    assert found.where.line == 52


def all_reduce(sequence: int, size: int = 16) -> Collective:
    return Collective(
        group="0",
        sequence=sequence,
        operation="all_reduce",
        input_sizes=((size,),),
        dtypes=("float32",),
        frames=(Frame("main", "/home/mara/train.py", 41),),
    )


@pytest.mark.parametrize("there", [44, 41])
def test_a_recorder_without_lines_is_told_them_by_the_stacks(there: int) -> None:
    """As torch's worker server tells it under `run`. Different operations are a matter of order where one line calls
    them; two lines are two ways through the program."""

    def recorder(operation: str) -> Recorder:
        before, now = (structs.replace(all_reduce(number), frames=()) for number in (6, 7))
        entries = (structs.replace(before, state="completed"), structs.replace(now, operation=operation))
        return Recorder(source="worker server of pid 4711", backend="gloo", entries=entries, total=2)

    ranks = [waits(rank, recorder=recorder("all_reduce")) for rank in range(2)]
    other = waits(2, "broadcast", at=there, recorder=recorder("broadcast"))
    (job,) = conclude(a_job(*ranks, other).evidence).jobs
    sure = max(cause.confidence for cause in job.causes if cause.cause == "collective-order-mismatch")
    assert sure == (0.85 if there == 41 else 0.45)


@pytest.mark.parametrize(
    ("others", "cause", "sure"),
    [
        ((1, 4096), "collective-order-mismatch", 0.65),
        ((1, 1), "shape-mismatch", 0.45),
    ],
)
def test_sizes_of_calls_whose_lines_are_not_known(others: tuple[int, int], cause: str, sure: float) -> None:
    """thread_saves under `run`: all wait in one synchronize, and torch's worker server tells no lines."""

    def recorder(*sizes: int) -> Recorder:
        entries = tuple(structs.replace(all_reduce(5 + at, size), frames=()) for at, size in enumerate(sizes))
        return Recorder(source="worker server of pid 4711", backend="nccl", entries=entries, total=2)

    ranks = [is_in(rank, "cuda sync", "synchronize", recorder=recorder(4096, 1)) for rank in range(2)]
    job = a_job(*ranks, is_in(2, "cuda sync", "synchronize", recorder=recorder(*others)))
    (report,) = conclude(job.evidence).jobs
    assert (report.causes[0].cause, report.causes[0].ranks, report.causes[0].confidence) == (cause, (2,), sure)


def test_dumps_alone_make_a_job() -> None:
    """Only the files of the ranks are left, hours later."""
    dumps = tuple(
        Recorder(source=f"dump {rank}", rank=rank, backend="nccl", entries=(all_reduce(7, 16 - rank // 3),), total=1)
        for rank in range(4)
    )
    report = conclude(Evidence(dumps=dumps))
    (job,) = report.jobs
    assert job.world_size == 4
    assert (job.causes[0].cause, job.causes[0].ranks) == ("shape-mismatch", (3,))
    assert [row.rank for row in job.ranks] == [0, 1, 2, 3]
    assert "all_reduce #7" in job.ranks[0].collective


@pytest.mark.parametrize(
    ("written", "world", "file", "joined"),
    [
        (900.0, 2, "train.py", True),
        (0.0, 2, "train.py", True),
        (300.0, 2, "train.py", False),  # before the job was started
        (900.0, 4, "train.py", False),
        (900.0, 2, "serve.py", False),
        (900.0, 16, "train.py", False),
    ],
)
def test_dumps_are_a_living_jobs_only_where_it_may_have_written_them(
    written: float, world: int, file: str, joined: bool
) -> None:
    job = a_job(waits(0), waits(1))
    entry = structs.replace(all_reduce(7), frames=(Frame("main", f"/home/mara/{file}", 41),))
    dumps = tuple(
        Recorder(
            source="",
            rank=rank,
            backend="nccl",
            written_at=written,
            groups=(Group(key="0", ranks=tuple(range(world)), last_enqueued=7),),
            entries=(structs.replace(entry, input_sizes=((16 + rank,),)),),
        )
        for rank in range(2)
    )
    nodes = tuple(structs.replace(node, time=1000.0) for node in job.evidence.nodes)
    jobs = conclude(structs.replace(job.evidence, nodes=nodes, dumps=dumps)).jobs
    assert len(jobs) == (1 if joined else 2)
    assert jobs[0].causes[0].cause == "shape-mismatch"
    assert any(row.pid for row in jobs[0].ranks) is joined


def test_evidence_without_a_job_has_none() -> None:
    assert conclude(Evidence()).jobs == ()


# ---------------------------------------------------------------- rows


def test_every_rank_has_a_row_and_missing_ones_too() -> None:
    job = a_job(waits(0), sleeps(1), member(2, place_at("unknown"), state="T"), missing=(3,), nodes={"a": {}})
    rows = conclude_job(job).ranks
    assert [(row.rank, row.state) for row in rows] == [
        (0, "waits in all_reduce"),
        (1, "sleeps in user code"),
        (2, "stopped"),
        (3, "missing"),
    ]
    assert rows[0].collective == "all_reduce"
    assert rows[0].frame is not None
    assert (rows[0].frame.line, rows[1].pid) == (41, 4001)


def test_the_nodes_of_ranks_that_were_not_seen_are_where_their_peers_came_from() -> None:
    sockets = (
        Socket(state="LISTEN", local="10.4.0.1", local_port=40001),
        Socket(state="ESTABLISHED", local="10.4.0.1", local_port=40001, remote="10.4.0.2", remote_port=51000),
        Socket(state="ESTABLISHED", local="10.4.0.1", local_port=40001, remote="10.4.0.1", remote_port=51002),
        Socket(
            state="ESTABLISHED", local="10.4.0.1", local_port=52000, remote="10.9.0.7", remote_port=443
        ),  # a service
    )
    job = a_job(waits(0, sockets=sockets), missing=(1, 2), nodes={"a": {}})
    assert "`gpudoctor hang --hosts 10.4.0.1,10.4.0.2`" in conclude_job(job).undecided
    assert "`gpudoctor hang --hosts`" in conclude_job(a_job(waits(0), missing=(1, 2), nodes={"a": {}})).undecided


def test_a_rank_without_a_stack_has_the_kernels_word() -> None:
    job = a_job(member(0, place_at("unknown"), waits_in="futex_do_wait"), member(1, place_at("unknown"), samples=0),
                member(2, place_at("unknown"), samples=0, state="X"))  # fmt: skip
    states = [row.state for row in conclude_job(job).ranks]
    assert states == ["sleeps in futex_do_wait", "not read", "gone"], "what was not read has not ended"


# ---------------------------------------------------------------- large and hostile


def thousand(away: int) -> HangJob:
    return a_job(
        *(
            sleeps(rank, at=52, host=f"n{rank // 8}", pid=4000 + rank % 8)
            if rank == away
            else waits(rank, host=f"n{rank // 8}", pid=4000 + rank % 8)
            for rank in range(1024)
        )
    )


def test_one_of_a_thousand_is_found_and_the_others_are_folded() -> None:
    report = conclude_job(thousand(611))
    assert (report.causes[0].cause, report.causes[0].ranks) == ("slow-rank-timeout", (611,))
    assert "ranks 0-610,612-1023 wait" in report.causes[0].summary
    assert len(report.causes[0].evidence) < 20
    assert len(report.ranks) == 1024


@pytest.mark.thorough
def test_the_work_grows_with_the_number_of_ranks_and_not_its_square() -> None:
    """Steps of the interpreter, not seconds: 1,024 ranks take no more than some ten times 128."""
    import sys

    def steps(count: int) -> int:
        job = a_job(*(sleeps(rank, at=rank) if rank % 3 == 0 else waits(rank, at=rank % 7) for rank in range(count)))
        lines = 0

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal lines
            lines += 1
            return None

        sys.setprofile(trace)
        try:
            conclude_job(job)
        finally:
            sys.setprofile(None)
        return lines

    assert steps(1024) < 12 * steps(128)


TEXT = st.sampled_from(("", "x", "rank == 0", "-1", "99999999999999999999", "127.0.0.1", "a\x00b", "é" * 20, "T", "D"))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 30), text=TEXT, number=st.sampled_from((-1, 0, 1, 3, 1 << 40)))
def test_evidence_that_anybody_wrote_never_raises(seed: int, text: str, number: int) -> None:
    """A file of evidence with some of its values replaced, of the right type or not decodable at all."""
    built = a_job(
        waits(0, sources=(source(41, inside=[("if", 40, "rank == 0"), ("for", 30, "x")]),)),
        sleeps(1, data_loaders=(data_loader(77, 4001),)),
        is_in(2, "backward", host="b"),
        missing=(3,),
        dumps=(Recorder(source="dump", rank=3, entries=(all_reduce(1),)),),
    )
    chooser = random.Random(seed)
    tree = json.loads(to_json(built.evidence))
    for _ in range(chooser.randrange(1, 12)):
        _spoil(tree, chooser, text, number)
    try:
        evidence = msgspec.convert(tree, Evidence)
    except msgspec.ValidationError:
        return
    report = conclude(evidence)
    assert not [each for each in report.unread if "defect" in each.reason]
    msgspec.json.encode(report)


def _spoil(tree: Any, chooser: random.Random, text: str, number: int) -> None:
    """Replace one leaf below a random path, or drop or double an entry of a list."""
    while isinstance(tree, dict | list) and tree:
        key = chooser.choice(list(tree)) if isinstance(tree, dict) else chooser.randrange(len(tree))
        value = tree[key]
        if isinstance(value, dict | list) and value and chooser.random() < 0.93:
            tree = value
            continue
        if isinstance(tree, list) and chooser.random() < 0.5:
            tree.append(value)
        elif isinstance(value, str):
            tree[key] = text
        elif isinstance(value, bool) or value is None:
            tree[key] = None
        elif isinstance(value, int | float):
            tree[key] = number
        return


def test_a_world_that_no_job_has_costs_nothing() -> None:
    """WORLD_SIZE of one rank is a number that would need gigabytes for its missing ranks."""
    built = a_job(waits(0, environment={"WORLD_SIZE": "4000000000", "RANK": "0"}, world_size=4_000_000_000))
    report = conclude(built.evidence)
    assert all(len(job.ranks) < 100 for job in report.jobs)
