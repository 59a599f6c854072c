"""Who waits for whom over all groups of a job, and where that ends."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from gpudoctor.hang.conclude import conclude
from gpudoctor.hang.recorders import compare
from gpudoctor.hang.report import JobReport
from gpudoctor.hang.watch import spanned
from gpudoctor.read.job import recorder
from gpudoctor.snapshot.evidence import Collective, Evidence, Group, Recorder
from gpudoctor.sure import PRIMARY
from tests.recorder_play import Fault, SetOfDumps, write
from tests.recorder_sets import FURTHER, SETS

OF_ALL, PAIR, OTHER = Group(key="0", ranks=(0, 1, 2, 3)), Group(key="1", ranks=(0, 1)), Group(key="2", ranks=(2, 3))


def done(number: int, group: str = "0", **more: Any) -> Collective:
    return Collective(group=group, sequence=number, operation="all_reduce", state="completed", **more)


def waits(number: int, group: str = "0", **more: Any) -> Collective:
    return Collective(group=group, sequence=number, operation=more.pop("operation", "all_reduce"), **more)


def pair(operation: str, peer: int, number: int, **more: Any) -> Collective:
    return Collective(group="0", sequence=number, operation=operation, point_to_point=True, peer=peer, **more)


def job(*ranks: tuple[Collective, ...] | None, **more: Any) -> dict[int, Recorder]:
    """The recorders of ranks 0 to 3 with what each has; None left none."""
    return {
        rank: Recorder(source="", rank=rank, backend="nccl", entries=entries, groups=(OF_ALL, PAIR, OTHER), **more)
        for rank, entries in enumerate(ranks)
        if entries is not None
    }


ENDS: Mapping[str, tuple[dict[int, Recorder], set[tuple[int, str]]]] = {
    "one never came": (job((waits(1),), (waits(1),), (), (waits(1),)), {(2, "away")}),
    "over two groups": (job((waits(1, "1"),), (waits(1, "0"),), (waits(1, "0"),), ()), {(3, "away")}),
    "two chains, two ends": (job((waits(1, "1"),), (), (waits(1, "2"),), ()), {(1, "away"), (3, "away")}),
    "its peers have ended it": (
        job((done(1), waits(2)), (done(1), waits(2)), (done(1), waits(2)), (waits(1), waits(2))),
        {(3, "stuck")},
    ),
    "its peers have begun it": (
        job(*[(waits(1, state="started" if rank != 1 else "scheduled"),) for rank in range(4)]),
        {(1, "stuck")},
    ),
    "what one has begun ahead of its peers is no fault of theirs": (
        job(
            *[
                (
                    waits(1, str(1 + rank // 2), state="scheduled" if rank == 1 else "started"),
                    waits(1, state="started" if rank > 1 else "scheduled"),
                )
                for rank in range(4)
            ]
        ),
        {(1, "stuck")},
    ),
    "it left no dump": (job((waits(1),), (waits(1),), None, (waits(1),)), {(2, "unseen")}),
    "each waits in the other's group": (
        job((waits(1, "0"),), (waits(1, "1"),), (waits(1, "0"),), (waits(1, "0"),)),
        {(0, "ring"), (1, "ring")},
    ),
    "along a pipeline": (job((pair("recv", 1, 1),), (pair("recv", 2, 1),), (pair("recv", 3, 1),), ()), {(3, "away")}),
    "a receive asked for ahead of time": (
        job((pair("recv", 1, 1), done(1, "2")), (pair("recv", 0, 1),), (), ()),
        {(0, "away")},
    ),
    "a send behind what keeps its receiver": (
        job((pair("send", 1, 1),), (waits(1, "1"), pair("recv", 0, 1)), (), ()),
        {(0, "ring"), (1, "ring")},
    ),
    "all came and nobody ends it": (job(*[(waits(1),)] * 4), set()),
    "nothing is open": (job(*[(done(1),)] * 4), set()),
    "a broadcast that its root has left": (job((done(1),), *[(waits(1, operation="broadcast"),)] * 3), set()),
}


@pytest.mark.parametrize("name", ENDS)
def test_where_chains_end(name: str) -> None:
    recorders, ends = ENDS[name]
    found = compare(recorders, 4).waits.suspects
    assert {(each.rank, each.why) for each in found} == ends


def test_what_was_issued_just_before_it_was_written_is_on_its_way() -> None:
    now = waits(1, created_ns=int(999e9))
    found = job((now,), (now,), (), (now,), written_at=1000.0)
    assert compare(found, 4).waits.in_flight
    (told,) = conclude(Evidence(dumps=tuple(found.values()))).jobs
    assert (told.state, told.causes) == ("running", ())
    assert "just before" in told.undecided


def test_a_dump_of_before_does_not_blame_its_rank() -> None:
    now = waits(1, created_ns=int(900e9))
    found = job((now,), (now,), (), (), written_at=1000.0)
    found[3] = replace(found[3], written_at=800.0)
    assert {(each.rank, each.why) for each in compare(found, 4).waits.suspects} == {(2, "away")}


def test_dumps_are_not_lost_with_a_further_look_at_the_jobs_beside_them() -> None:
    dumps = tuple(job((waits(1),)).values())
    assert spanned(Evidence(dumps=dumps), Evidence()).dumps == dumps


def test_recorders_that_were_off_tell_nothing_of_what_ranks_wait_in() -> None:
    """torch 2.8 writes dumps at a time-out, and records nothing unless it is asked to."""
    written = pickle.dumps({"version": "2.9", "pg_config": {}, "nccl_version": "", "pg_status": {}, "entries": []}, 2)
    dumps = [replace(recorder.read(written, f"nccl_trace_rank_{rank}", 1000.0), rank=rank) for rank in range(2)]
    (off,) = conclude(Evidence(dumps=tuple(dumps))).jobs
    assert {row.state for row in off.ranks} == {"nothing is recorded"} and "they were off" in (off.undecided or "")
    (on,) = conclude(Evidence(dumps=tuple(job((done(1),), (done(1),), (done(1),), (done(1),)).values()))).jobs
    assert {row.state for row in on.ranks} == {"waits in nothing"} and "they were off" not in (on.undecided or "")


# ---------------------------------------------------------------- sets with a fault in them


def answer(folder: Path) -> JobReport:
    dumps = [
        replace(recorder.read(path.read_bytes(), path.name, path.stat().st_mtime), rank=int(path.name.split("_")[-1]))
        for path in folder.glob("nccl_trace_rank_*")
    ]
    (job,) = conclude(Evidence(dumps=tuple(dumps))).jobs
    return job


SAYS = {"rank-away": "away", "gpu-stuck": "stuck", "rank-died": "dead", "collective-order-mismatch": "diverged"}


def said(job: JobReport) -> dict[int, str]:
    causes = [cause for cause in job.causes if cause.confidence >= PRIMARY]
    return {rank: SAYS.get(cause.cause, cause.cause) for cause in causes for rank in cause.ranks}


@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_over_gloo_no_gpu_stands(backend: str) -> None:
    """What the peers have ended and one rank has not: there, a callback of its program may not have come to its end."""
    recorders, _ = ENDS["its peers have ended it"]
    dumps = tuple(replace(recorder, backend=backend) for recorder in recorders.values())
    (told,) = conclude(Evidence(dumps=dumps)).jobs
    assert ("gpu-stuck" in {cause.cause for cause in told.causes}) is (backend == "nccl")


@pytest.mark.parametrize(
    ("operation", "kept", "told"),
    [
        ("all_reduce", 2, True),
        ("all_to_all_single", 2, False),
        ("all_to_all_single", 1, True),
        ("gather", 1, False),
        ("scatter", 2, False),
    ],
)
def test_what_is_made_of_messages_tells_of_no_gpus_that_stand(operation: str, kept: int, told: bool) -> None:
    """Of an exchange with other parts than were sent some ranks are through, and several are not; a root that waits for
    one who has another root in mind is alone."""
    recorders = job(*[(waits(1), waits(2)) if rank < kept else (done(1), waits(2)) for rank in range(4)])
    dumps = tuple(
        replace(own, backend="nccl", entries=tuple(replace(each, operation=operation) for each in own.entries))
        for own in recorders.values()
    )
    (found,) = conclude(Evidence(dumps=dumps)).jobs
    assert ("gpu-stuck" in {cause.cause for cause in found.causes if cause.confidence >= PRIMARY}) is told


LESS: Mapping[str, Mapping[int, str]] = {
    # The other has asked for a receive that waits for the first: nothing tells it from a rank that stands in that.
    "ahead-two-away": {2: "away"},
    "halves-two-away": {5: "away"},
    "keys-gpu-error-active": {},  # a send ends once NCCL's buffers hold it: 0.45
    "strides-node-lost": {},  # nor is it known that the dumps of half of the ranks were given
}


@pytest.mark.parametrize("each", [each for each in SETS + FURTHER if not each.keep], ids=lambda each: each.id)
def test_a_set_is_told(each: SetOfDumps, tmp_path: Path) -> None:
    job = answer(write(each, tmp_path))
    assert said(job) == LESS.get(each.id, each.culprits)
    if each.id == "strides-node-lost":
        return
    assert {rank for cause in job.causes for rank in cause.ranks} >= {*each.culprits}, "the other is a candidate"
    assert "missing" not in {row.state for row in job.ranks}, "of ranks whose dump is there"


def test_a_ring_that_begins_in_the_middle_of_a_work_is_no_other_call(tmp_path: Path) -> None:
    """Of several that were coalesced some dumps have lost more than others."""
    cut = SetOfDumps("cut", "coalesced", (Fault(5, "away", 25),), {5: "away"}, ring=20)
    assert said(answer(write(cut, tmp_path))) == {5: "away"}


@pytest.mark.parametrize(
    ("layout", "fault", "told"),
    [
        # A dump that holds nothing active is there: its rank has not died.
        ("interleaved", Fault(5, "away", 50), {}),
        # Parts of a work that has ended are no other call than the parts and the end of one that has not.
        ("coalesced", Fault(6, "ended by peers", 25), {6: "stuck"}),
    ],
)
def test_dumps_of_what_is_active(layout: str, fault: Fault, told: Mapping[int, str], tmp_path: Path) -> None:
    active = SetOfDumps("active", layout, (fault,), {}, ring=2000 if told else 20, only_active=True)
    assert said(answer(write(active, tmp_path))) == told


@pytest.mark.thorough
def test_of_those_kept_apart_nearly_all_are_told(tmp_path: Path) -> None:
    kept = [each for each in SETS if each.keep]
    right = [said(answer(write(each, tmp_path))) == each.culprits for each in kept]
    assert sum(right) >= len(kept) - 1
    further = [(each, said(answer(write(each, tmp_path)))) for each in FURTHER if each.keep]
    assert sum(told == each.culprits for each, told in further) >= 11
    assert all({*told} <= {*each.culprits} for each, told in further), "no innocent rank"


# ---------------------------------------------------------------- odd ones

ENTRIES = st.builds(
    Collective,
    group=st.sampled_from("012"),
    sequence=st.integers(-1, 4),
    operation=st.sampled_from(("all_reduce", "broadcast", "send", "recv", "coalesced")),
    point_to_point=st.booleans(),
    peer=st.none() | st.integers(-1, 5),
    state=st.sampled_from(("scheduled", "started", "completed")),
    created_ns=st.sampled_from((0, 5, 1 << 61)),
)
GROUPS = st.builds(
    Group, key=st.sampled_from("012"), ranks=st.lists(st.integers(0, 5), max_size=4).map(tuple),
    last_enqueued=st.integers(-1, 5),
)  # fmt: skip
RECORDERS = st.builds(
    Recorder,
    source=st.just(""),
    entries=st.lists(ENTRIES, max_size=6).map(tuple),
    groups=st.lists(GROUPS, max_size=3).map(tuple),
    forgotten=st.integers(0, 1),
    written_at=st.sampled_from((0.0, 1000.0, -1.0)),
)


@given(st.dictionaries(st.integers(0, 5), RECORDERS, max_size=5), st.integers(0, 6))
def test_whatever_recorders_hold_has_its_ends(found: dict[int, Recorder], world: int) -> None:
    waits = compare(found, world).waits
    assert all(0 <= each.chains <= 16 for each in waits.suspects)
    assert {each.rank for each in waits.suspects if each.why in ("away", "stuck")} <= set(found)
    dumps = tuple(replace(each, rank=rank) for rank, each in found.items())
    assert not [each for each in conclude(Evidence(dumps=dumps)).unread if "defect" in each.reason]
