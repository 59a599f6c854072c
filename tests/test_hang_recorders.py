"""What the recorders of all ranks say together: dumps of real gloo jobs, and hand-made ones for NCCL and groups."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpudoctor.hang.courses import words
from gpudoctor.hang.recorders import Agreement, compare
from gpudoctor.read.job import recorder
from gpudoctor.snapshot.evidence import Collective, Frame, Group, Recorder
from tests import recorder_jobs

# ---------------------------------------------------------------- real jobs


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Dumps of every scenario."""
    yield recorder_jobs.dumps(tmp_path_factory.mktemp("jobs"), *recorder_jobs.SCENARIOS)


def recorders_of(folder: Path, ending: str) -> dict[int, Recorder]:
    found = {}
    for path in folder.iterdir():
        if path.name.endswith(".json") == (ending == ".json"):
            rank = int(path.name.removesuffix(".json").rpartition("_")[2])
            found[rank] = recorder.read(path.read_bytes(), str(path))
    return found


EXPECTED: Mapping[str, tuple[str, int, str, tuple[int, ...], list[tuple[tuple[int, ...], str]]]] = {
    # scenario -> group, number (the barrier after init is 1), kind, behind, parties
    "skip": ("0", 4, "missing", (1,), [((0, 2), "all_reduce")]),
    "order": ("0", 3, "operation", (), [((0, 1), "all_reduce"), ((2,), "broadcast")]),
    "shape": ("0", 3, "shape", (), [((1,), "broadcast"), ((2,), "broadcast")]),
    "kind": ("0", 2, "dtype", (), [((1,), "broadcast"), ((2,), "broadcast")]),
    "groups": ("1", 2, "missing", (2,), [((1,), "all_reduce")]),
    "uneven": ("0", 6, "missing", (0,), [((1, 2), "all_reduce")]),
    "variety": ("0", 10, "missing", (0,), [((1, 2), "barrier")]),
    "many": ("0", 42, "missing", (0,), [((1,), "barrier")]),
}


@pytest.mark.parametrize("ending", ["", ".json"], ids=["pickle", "json"])
@pytest.mark.parametrize("scenario", EXPECTED)
def test_a_real_job_is_compared(jobs: Path, scenario: str, ending: str) -> None:
    found = recorders_of(jobs / scenario, ending)
    group, number, kind, behind, parties = EXPECTED[scenario]

    agreement = compare(found, len(found))

    first = agreement.first
    assert first is not None
    assert (first.group, first.sequence, first.kind, first.behind) == (group, number, kind, behind)
    assert sorted((ranks, entry.operation) for ranks, entry in first.parties) == sorted(parties)
    course = next(each for each in agreement.courses if each.group == group)
    at = [column.sequence for column in course.columns].index(number)
    letters = {rank: row.states[at] for row in course.rows for rank in row.ranks}
    assert {letters[rank] for rank in behind} <= {"."}
    assert {letters[rank] for rank in first.odd} <= {"d"}
    assert {letters[rank] for rank in first.parties[0][0]} <= {"s", "q"}
    if not ending:  # JSON has no frames
        assert first.parties[0][1].frames[0].file.endswith("recorder_jobs.py")
        assert first.parties[0][1].frames[0].function == scenario


def test_ranks_that_use_two_groups_in_different_orders_are_a_ring(jobs: Path) -> None:
    agreement = compare(recorders_of(jobs / "crossed", ""), 3)

    assert sorted(agreement.cycle) == ["0", "1"]
    assert {split.group: split.behind for split in agreement.splits} == {"0": (1,), "1": (0,)}
    assert {split.group: split.elsewhere[0][1].group for split in agreement.splits} == {"0": "1", "1": "0"}


def test_a_job_with_nothing_under_way_has_no_split(jobs: Path) -> None:
    agreement = compare(recorders_of(jobs / "finished", ""), 2)

    assert agreement.first is None
    assert agreement.current == {}
    assert agreement.last_completed == {"0": 4}


def test_the_group_that_a_rank_waits_in_explains_where_it_is_missing(jobs: Path) -> None:
    agreement = compare(recorders_of(jobs / "groups", ""), 3)

    outer = next(split for split in agreement.splits if split.group == "0")
    assert outer.behind == (1, 2)
    assert [(rank, entry.group) for rank, entry in outer.elsewhere] == [(1, "1")]


def test_a_recorder_knows_what_it_has_forgotten(jobs: Path) -> None:
    found = recorders_of(jobs / "many", "")

    assert found[1].total == 16
    assert found[1].forgotten == 26
    assert found[0].forgotten == 25


# ---------------------------------------------------------------- by hand


def entry(operation: str, number: int, state: str = "completed", **more: Any) -> Collective:
    more.setdefault("input_sizes", ((8,),))
    more.setdefault("dtypes", ("float32",))
    return Collective(group=more.pop("group", "0"), sequence=number, operation=operation, state=state, **more)  # type: ignore[arg-type]


def holds(*entries: Collective, groups: Sequence[Group] = (), **more: Any) -> Recorder:
    return Recorder(source="by hand", entries=entries, groups=tuple(groups), total=len(entries), **more)


def first_of(*of_ranks: Recorder, world: int = 0) -> Any:
    found = compare(dict(enumerate(of_ranks)), world or len(of_ranks)).first
    assert found is not None
    return found


def test_a_rank_without_a_recorder_is_unknown_and_not_behind() -> None:
    waiting = holds(entry("all_reduce", 1), entry("all_reduce", 2, "started"))

    split = first_of(waiting, waiting, world=3)

    assert (split.kind, split.behind, split.unknown) == ("none", (), (2,))
    assert compare({0: waiting, 1: waiting}, 3).unread == (2,)


def test_all_came_to_it_and_nobody_ends_it() -> None:
    waiting = holds(entry("all_reduce", 7, "started"))

    split = first_of(waiting, waiting)

    assert (split.kind, split.sequence, split.parties[0][0]) == ("none", 7, (0, 1))


def test_a_rank_that_has_enqueued_ahead_waits_where_the_others_are_missing() -> None:
    ahead = holds(entry("all_reduce", 4), *(entry("all_reduce", number, "scheduled") for number in range(5, 40)))
    behind = holds(entry("all_reduce", 3), entry("all_reduce", 4))

    split = first_of(ahead, behind)

    assert (split.kind, split.sequence, split.behind) == ("missing", 5, (1,))


def test_what_stands_on_all_ranks_comes_before_what_some_have_enqueued() -> None:
    """Rank 0's CPU ran ahead; the GPU of both stands at 4: nobody is missing."""
    ahead = holds(*(entry("all_reduce", number, "started" if number == 4 else "scheduled") for number in (4, 5, 6)))
    other = holds(entry("all_reduce", 4, "started"))

    split = first_of(ahead, other)

    assert (split.kind, split.sequence) == ("none", 4)


def test_a_broadcast_that_its_root_has_left_does_not_hide_who_is_missing() -> None:
    root = holds(entry("broadcast", 1), entry("barrier", 2, "scheduled"))

    split = first_of(root, holds())

    assert (split.kind, split.sequence, split.behind) == ("missing", 1, (1,))


def test_different_operations_that_completed_are_where_it_went_wrong() -> None:
    """gloo's broadcast ends on its root whatever the others do; the job stands one collective later."""
    one = holds(entry("broadcast", 1), entry("all_reduce", 2, "scheduled"))
    other = holds(entry("all_reduce", 1, "scheduled"))

    split = first_of(one, other)

    assert (split.kind, split.sequence) == ("operation", 1)
    assert sorted(each.operation for _, each in split.parties) == ["all_reduce", "broadcast"]


@pytest.mark.parametrize(
    "operation", ["all_to_all", "all_to_all_single", "gather", "scatter", "reduce_scatter", "all_gather_v"]
)
def test_sizes_that_may_differ_are_no_mismatch(operation: str) -> None:
    split = first_of(
        holds(entry(operation, 1, "scheduled", input_sizes=((4,),))),
        holds(entry(operation, 1, "scheduled", input_sizes=((9,),))),
    )

    assert split.kind == "none"


def test_the_bytes_of_objects_may_differ() -> None:
    split = first_of(
        holds(entry("all_gather", 2, "scheduled", input_sizes=((40,),), dtypes=("uint8",))),
        holds(entry("all_gather", 2, "scheduled", input_sizes=((90,),), dtypes=("uint8",))),
    )

    assert split.kind == "none"


@pytest.mark.parametrize("operation", ["all_reduce", "broadcast", "reduce", "all_gather_into_tensor"])
def test_sizes_that_must_agree(operation: str) -> None:
    split = first_of(
        holds(entry(operation, 1, "started", input_sizes=((4, 2),))),
        holds(entry(operation, 1, "started", input_sizes=((9,),))),
    )

    assert split.kind == "shape"


def test_the_same_number_of_elements_in_another_shape_is_no_mismatch() -> None:
    split = first_of(
        holds(entry("all_reduce", 1, "started", input_sizes=((4, 2),))),
        holds(entry("all_reduce", 1, "started", input_sizes=((8,),))),
    )

    assert split.kind == "none"


def test_the_same_call_under_two_names_is_no_mismatch() -> None:
    split = first_of(holds(entry("all_gather", 1, "started")), holds(entry("all_gather_into_tensor", 1, "started")))

    assert split.kind == "none"


def test_the_largest_party_comes_first() -> None:
    good, bad = entry("all_reduce", 1, "started"), entry("barrier", 1, "started", input_sizes=())

    split = first_of(holds(bad), holds(good), holds(good), holds(good))

    assert [ranks for ranks, _ in split.parties] == [(1, 2, 3), (0,)]


def group(key: str, *ranks: int, description: str = "", enqueued: int = -1) -> Group:
    return Group(key=key, ranks=ranks, description=description, last_enqueued=enqueued)


def test_ranks_that_do_not_belong_to_a_group_are_not_missing_from_it() -> None:
    left, right = group("1", 0, 1), group("2", 2, 3)
    started, done = entry("all_reduce", 5, "started", group="1"), entry("all_reduce", 9, group="2")

    agreement = compare(
        {
            0: holds(started, groups=[left]),
            1: holds(entry("all_reduce", 4, group="1"), groups=[left]),
            2: holds(done, groups=[right]),
            3: holds(done, groups=[right]),
        },
        4,
    )

    assert [(split.group, split.behind) for split in agreement.splits] == [("1", (1,))]
    assert agreement.last_completed == {"1": 4, "2": 9}


def test_groups_of_one_name_and_different_ranks_are_two() -> None:
    agreement = compare(
        {
            0: holds(entry("all_reduce", 3, "started", group="tp"), groups=[group("tp", 0, 1)]),
            1: holds(entry("all_reduce", 2, group="tp"), groups=[group("tp", 0, 1)]),
            2: holds(entry("all_reduce", 8, group="tp"), groups=[group("tp", 2, 3)]),
            3: holds(entry("all_reduce", 8, group="tp"), groups=[group("tp", 2, 3)]),
        },
        4,
    )

    assert [(split.group, split.behind) for split in agreement.splits] == [("tp of ranks 0, 1", (1,))]


def test_a_long_chain_of_groups_ends_at_the_rank_that_waits_nowhere() -> None:
    """Rank 0 waits for 1 in group a, 1 for 2 in b, 2 for 3 in c; rank 3 is somewhere in its program."""
    names = ["a", "b", "c"]
    every: dict[int, Recorder] = {3: holds(groups=[group("c", 2, 3)])}
    for rank, name in enumerate(names):
        own = [group(name, rank, rank + 1)] + ([group(names[rank - 1], rank - 1, rank)] if rank else [])
        every[rank] = holds(entry("all_reduce", 1, "started", group=name), groups=own)

    agreement = compare(every, 4)

    assert agreement.first is not None
    assert (agreement.first.group, agreement.first.behind) == ("c", (3,))
    assert agreement.cycle == ()


def test_a_ring_buffer_that_has_lost_a_group_says_nothing_about_it() -> None:
    lost = holds(entry("all_reduce", 5000, group="0"), forgotten=3000, groups=[group("7", 0, 1)])

    split = first_of(lost, holds(entry("all_reduce", 4, "started", group="7"), groups=[group("7", 0, 1)]))

    assert (split.kind, split.behind, split.unknown) == ("none", (), (0,))


def test_pg_status_tells_how_far_a_rank_is_whose_entries_are_gone() -> None:
    told = holds(forgotten=100, groups=[group("0", 0, 1, enqueued=6)])

    split = first_of(told, holds(entry("all_reduce", 8, "started")))

    assert (split.kind, split.sequence, split.behind) == ("missing", 7, (0,))
    assert split.parties == (((1,), entry("all_reduce", 8, "started")),)


def test_a_group_of_unknown_ranks_that_one_rank_alone_waits_in_lacks_somebody() -> None:
    split = first_of(holds(entry("all_reduce", 1, "scheduled", group="3")), holds(), holds())

    assert (split.kind, split.behind, split.members_known) == ("missing", (), False)


def test_files_of_different_times_are_stale_and_say_how_far_apart() -> None:
    agreement = compare({0: holds(written_at=1000.0), 1: holds(written_at=1060.0)}, 2)

    assert agreement.stale
    assert agreement.spread_seconds == 60


def test_no_recorders_are_no_agreement_about_anything() -> None:
    assert compare({}, 4) == Agreement(ranks=(), unread=(0, 1, 2, 3))


# ---------------------------------------------------------------- sends and receives


def pair(operation: str, peer: int, number: int = 1, state: str = "started", **more: Any) -> Collective:
    return entry(operation, number, state, point_to_point=True, peer=peer, **more)


def test_two_sends_that_face_each_other() -> None:
    split = first_of(holds(pair("send", 1)), holds(pair("send", 0)))

    assert split.kind == "peer"
    assert [(ranks, each.peer) for ranks, each in split.parties] == [((0,), 1), ((1,), 0)]


def test_two_receives_that_face_each_other_whatever_is_queued_behind() -> None:
    """On NCCL the sends behind them are recorded, and do not run before."""
    queued = [holds(pair("recv", peer), pair("send", peer, 2, "scheduled")) for peer in (1, 0)]
    batches = [holds(pair("recv", peer), pair("send", peer, 2)) for peer in (1, 0)]

    assert first_of(*queued).kind == "peer"
    assert first_of(*batches).kind == "none"


def test_a_receive_whose_sender_never_comes() -> None:
    split = first_of(holds(pair("recv", 1)), holds(entry("all_reduce", 4)))

    assert (split.kind, split.behind) == ("missing", (1,))


def test_in_a_pipeline_the_stage_that_waits_for_nobody_is_behind() -> None:
    split = first_of(holds(pair("send", 1)), holds(pair("send", 2)), holds(pair("send", 3)), holds())

    assert (split.kind, split.behind) == ("missing", (3,))
    assert split.waiting == (0, 1, 2)


def test_stages_that_wait_in_a_ring() -> None:
    split = first_of(holds(pair("send", 1)), holds(pair("send", 2)), holds(pair("send", 0)))

    assert (split.kind, split.behind) == ("peer", ())
    assert [ranks for ranks, _ in split.parties] == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("kind", "more"), [("shape", {"input_sizes": ((9,),)}), ("dtype", {"dtypes": ("float16",)}), ("none", {})]
)
def test_a_send_and_its_receive_must_fit(kind: str, more: dict[str, Any]) -> None:
    assert first_of(holds(pair("send", 1)), holds(pair("recv", 0, **more))).kind == kind


def test_a_send_that_has_gone_out_already_is_no_missing_one() -> None:
    split = first_of(holds(pair("recv", 1)), holds(pair("send", 0, state="completed")))

    assert split.kind == "none"


def test_a_peer_without_a_recorder_is_unknown() -> None:
    split = first_of(holds(pair("recv", 1)), world=2)

    assert (split.kind, split.behind, split.unknown) == ("none", (), (1,))


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("collective", "text"),
    [
        (entry("all_reduce", 12, input_sizes=((1024,),)), "all_reduce #12 float32[1024] in group default_pg"),
        (entry("all_reduce", 3, input_sizes=((2, 3), (4,)), dtypes=("Float", "Float"), group="5"),
         "all_reduce #3 float32[2, 3] and 1 more in group 5"),
        (entry("barrier", 1, input_sizes=(), dtypes=()), "barrier #1 in group default_pg"),
        (pair("send", 3, 7), "send #7 float32[8] to rank 3 in group default_pg"),
        (pair("recv", 3, 7), "recv #7 float32[8] from rank 3 in group default_pg"),
    ],
)  # fmt: skip
def test_words(collective: Collective, text: str) -> None:
    assert words(collective) == text


def test_words_with_a_description() -> None:
    assert words(entry("barrier", 1, input_sizes=(), group="7"), "tp") == "barrier #1 in group tp"


# ---------------------------------------------------------------- anything at all

COLLECTIVES = st.builds(
    Collective,
    group=st.sampled_from(["0", "1", "2"]),
    sequence=st.integers(-1, 6),
    operation=st.sampled_from(["all_reduce", "broadcast", "send", "recv", "coalesced", ""]),
    point_to_point=st.booleans(),
    peer=st.none() | st.integers(0, 5),
    state=st.sampled_from(["scheduled", "started", "completed"]),
    input_sizes=st.sampled_from([(), ((4,),), ((5,), (6,))]),
    dtypes=st.sampled_from([(), ("float32",), ("Long",)]),
    frames=st.sampled_from([(), (Frame("main", "t.py", 3),)]),
    created_ns=st.integers(0, 5),
)
GROUPS = st.builds(
    Group,
    key=st.sampled_from(["0", "1", "2"]),
    ranks=st.sampled_from([(), (0, 1), (2, 3), (0, 1, 2, 3)]),
    last_enqueued=st.integers(-1, 6),
)
RECORDERS = st.builds(
    Recorder,
    source=st.just("any"),
    groups=st.lists(GROUPS, max_size=3).map(tuple),
    entries=st.lists(COLLECTIVES, max_size=8).map(tuple),
    forgotten=st.sampled_from([0, 9]),
    written_at=st.sampled_from([0.0, 5.0]),
)


@given(st.dictionaries(st.integers(0, 5), RECORDERS, max_size=5), st.integers(0, 6))
def test_whatever_the_recorders_hold_is_compared(found: dict[int, Recorder], world: int) -> None:
    agreement = compare(found, world)

    assert (agreement.first is None) == (not agreement.splits)
    for split in agreement.splits:
        assert split.waiting
        assert split.parties
        assert set(split.behind).isdisjoint(
            rank for ranks, _ in split.parties for rank in ranks if split.kind == "missing"
        )
        for _, each in split.parties:
            words(each)
