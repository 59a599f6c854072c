"""Who is late, and where: of jobs made by hand, and of one that runs."""

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gpudoctor import active, cli
from gpudoctor.read.job import granted
from gpudoctor.read.job.file_waits import FileWaits
from gpudoctor.read.job.links import LinksOfRanks
from gpudoctor.read.job.recorder_times import times_of
from gpudoctor.slow import attend
from gpudoctor.slow.attend import PaceTask, PaceTold, PaceWatch
from gpudoctor.slow.attended import told
from gpudoctor.slow.conclude import concluded, paces_of
from gpudoctor.slow.lateness import pace_of
from gpudoctor.slow.links import slow_network
from gpudoctor.slow.report import JobPace
from gpudoctor.slow.times import GroupTimes
from gpudoctor.slow.where import TimeSpent, time_spent
from gpudoctor.slow.why import LateRank, reason
from gpudoctor.snapshot.evidence import Frame, GpuUse
from gpudoctor.snapshot.holds import CgroupMemory
from gpudoctor.snapshot.pace import CpuQuota, LinkUse, NodePace, ProcessPace
from tests.fake_tree import fake
from tests.lab.slow.jobs import SCENARIOS, started
from tests.lab.sshd import user_environment
from tests.slow_examples import (
    BEGIN,
    IN_BACKWARD,
    IN_FORWARD,
    IN_INPUT,
    WAITS,
    even,
    group_of,
    input_of_rank,
    members,
    not_armed,
    report,
    stands,
    times,
)


def late(nodes: list[NodePace], since: int = 0) -> list[tuple[int, ...]]:
    return [pace.late for pace in paces_of(nodes, since).late]


def test_the_rank_that_is_late_in_every_step_is_named_with_its_cost_and_place() -> None:
    pace = input_of_rank(2)
    (slow,) = pace.slow
    assert (slow.ranks, slow.phase, slow.why) == ((2,), "input", "no-workers")
    assert slow.where is not None and (slow.where.file, slow.where.line) == ("/home/mara/data.py", 41)
    assert slow.lost_seconds == pytest.approx(0.02, abs=0.002)
    assert slow.step_seconds == pytest.approx(0.22, abs=0.01)
    assert report(pace).exit_status == 1


def test_an_even_job_names_nobody_and_a_job_that_is_not_armed_is_not_called_even() -> None:
    assert (even().verdict, report(even()).exit_status) == ("even", 0)
    blind = not_armed()
    assert (blind.verdict, report(blind).exit_status) == ("unknown", 3)
    assert "gpudoctor run" in blind.unknown


def test_noise_that_is_even_names_nobody() -> None:
    for seed in range(12):
        assert late(times({}, ranks=2 + seed % 4 * 2, step=0.03, noise=0.02, seed=seed)) == []


@pytest.mark.parametrize("every", [5, 10])
def test_what_a_rank_does_each_so_many_steps_is_not_rare(every: int) -> None:
    """Of a part of 16 steps two at most: log-each-tenth of tests/lab/slow."""
    chance = random.Random(every)
    at, came = [0.0] * 4, []
    for number in range(130):
        at = [now + 0.02 + chance.expovariate(500) for now in at]
        at[1] += 0.02 * every if number % every == 0 else 0.0
        came.append(tuple(at))
        at = [max(at)] * 4
    group = GroupTimes(
        key="0", description="", ranks=(0, 1, 2, 3), nodes=(0,) * 4, came=tuple(came), names=("all_reduce",) * 130,
        timed=False, backend="gloo",
    )  # fmt: skip
    assert pace_of(group).late == (1,)


@pytest.mark.parametrize("steps", [36, 400])
def test_who_read_ahead_is_late_once_that_is_used_up(steps: int) -> None:
    noise, came, now = random.Random(steps), [], 0.0
    for number in range(steps):
        own = [now + noise.uniform(0.19, 0.21) for _ in range(4)]
        own[1] += 0.02 if number >= 0.3 * steps else 0.0
        came.append(tuple(own))
        now = max(own)
    group = GroupTimes(
        key="0", description="", ranks=(0, 1, 2, 3), nodes=(0,) * 4, came=tuple(came), names=("all_reduce",) * steps,
        timed=False, backend="gloo",
    )  # fmt: skip
    assert pace_of(group).late == (1,)


def test_stages_of_a_pipeline_are_not_held_against_each_other() -> None:
    """The first stage ends each step last; a late rank among those of one stage is named all the same."""
    (node,) = times({0: 0.02, 1: 0.02}, ranks=4)
    pipes = {0: "pp0", 2: "pp0", 1: "pp1", 3: "pp1"}
    ranks = tuple(replace(each, pipelines=(pipes[each.rank],)) for each in node.ranks)
    assert paces_of([replace(node, ranks=ranks)]).groups == ()
    pace = concluded(members(), [replace(node, ranks=ranks)], paces_of([replace(node, ranks=ranks)]), None)
    assert pace.verdict == "unknown" and "pipeline" in pace.unknown
    stage = tuple(
        replace(each, groups=(replace(each.groups[0], group=f"dp{each.rank % 2}"),), pipelines=(f"pp{each.rank // 2}",))
        for each in times({0: 0.02}, ranks=4)[0].ranks
    )
    assert late([replace(node, ranks=stage)]) == [(0,)]


def test_a_job_without_steps_that_repeat_is_compared_all_the_same() -> None:
    nodes = times({1: 0.02}, steps=20)
    ranks = tuple(
        replace(each, groups=(replace(each.groups[0], kinds=tuple(range(40)), names=tuple(map(str, range(40)))),))
        for each in nodes[0].ranks
    )
    (pace,) = paces_of([replace(nodes[0], ranks=ranks)]).late
    assert (pace.late, pace.is_step) == ((1,), False)


def test_a_jobs_start_does_not_hide_who_is_late_in_its_first_steps() -> None:
    """Ranks begin up to 2 s apart, and their first sums have sizes that do not come again."""
    (node,) = times({2: 0.02}, steps=24)
    chance = random.Random(1)
    begun = sorted(BEGIN - round(chance.uniform(0, 2) * 1e9) for _ in range(4 * 7))
    ranks = []
    for each in node.ranks:
        (own,) = each.groups
        more = (*own.names, "broadcast [[5]]", "broadcast [[1]]", "all_gather [[1]]")
        kinds = (4, 2, 3, 0, 1, 2, 3, *own.kinds)
        created = (*begun[(2 - each.rank) % 4 :: 4], *own.created_ns)
        whole = replace(own, names=more, kinds=kinds, created_ns=created, sequences=tuple(range(len(kinds))))
        ranks.append(replace(each, groups=(whole,)))
    (pace,) = paces_of([replace(node, ranks=tuple(ranks))]).late
    assert (pace.late, pace.is_step, pace.collectives) == ((2,), True, 48)
    assert pace.lateness[2] == pytest.approx(0.02, abs=0.002)


def test_two_nodes_with_clocks_apart_are_compared_by_what_was_measured() -> None:
    """A clock that is 2 s ahead makes nobody slow, and hides nobody who is."""
    nodes = times({5: 0.02}, ranks=8, node_of=lambda rank: rank // 4, skew={1: 2.0})
    measured = [
        replace(node, clock_offset_seconds=2.0 * number, clock_uncertainty_seconds=0.0005)
        for number, node in enumerate(nodes)
    ]
    assert late(measured) == [(5,)]
    unsure = [replace(node, clock_uncertainty_seconds=0.0005) for node in nodes]
    found = paces_of(unsure)
    assert not found.late and "clock differs" in found.notes[0]
    pace = concluded(members(8, lambda rank: rank // 4), unsure, found, None)
    assert pace.verdict == "unknown"


def test_a_whole_node_that_is_late_is_named_as_one() -> None:
    nodes = times(dict.fromkeys(range(4, 8), 0.03), ranks=12, node_of=lambda rank: rank // 4)
    assert late(nodes) == [(4, 5, 6, 7)]


def test_who_waits_for_its_partner_is_not_blamed_in_another_group() -> None:
    """Rank 1 waits for rank 0 in their pair, and so comes late to rank 3 in another."""
    nodes = times({0: 0.02, 1: 0.02}, ranks=4)
    pair = {0: 0.02, 1: 0.0}
    ranks = []
    for each in nodes[0].ranks:
        (world,) = each.groups
        rows = [replace(world, group="dp1")] if each.rank in (1, 3) else [replace(world, group="dp0")]
        if each.rank in pair:
            early = 0.0 if each.rank == 0 else -0.02
            rows.append(group_of([at + round(early * 1e9) for at in world.created_ns], "tp0"))
        ranks.append(replace(each, groups=tuple(rows)))
    assert {rank for pace in paces_of([replace(nodes[0], ranks=tuple(ranks))]).late for rank in pace.late} == {0}


def test_how_long_each_gpu_was_in_a_collective_counts_where_it_is_recorded() -> None:
    """NCCL: CPUs issue at once, and the GPU of rank 3 comes last: it is in each collective for the shortest time."""
    nodes = times({}, backend="nccl")
    assert concluded(members(), nodes, paces_of(nodes), None).verdict == "unknown"
    ranks = tuple(
        replace(
            each, groups=(replace(each.groups[0], ran_ms=tuple(3.0 if each.rank == 3 else 25.0 for _ in range(240))),)
        )
        for each in nodes[0].ranks
    )
    assert late([replace(nodes[0], ranks=ranks)]) == [(3,)]


def test_a_cpu_that_may_wait_for_its_gpu_is_not_named_where_all_stand_as_often() -> None:
    """healthy-ahead on an H100 that two ranks share: rank 1 issued 1.6 ms later, and was where a batch is copied to the
    GPU in 46 of 52 samples, the other in 42 of 52."""
    copies, own_code = ((Frame("main", "/home/mara/train.py", number),) for number in (145, 60))

    def told(backend: str, where: tuple[Frame, ...]) -> JobPace:
        nodes = times({1: 0.05}, backend=backend)
        first = paces_of(nodes)
        looks = [stands(4000 + rank, (42, copies), (10, WAITS)) for rank in (0, 2, 3)]
        sampled = replace(nodes[0], processes=(*looks, stands(4001, (46, where), (6, WAITS))))
        return concluded(members(), nodes, first, first, [sampled], 40.0)

    behind = told("nccl", copies)
    assert (behind.verdict, behind.slow) == ("unknown", ()) and "TORCH_NCCL_ENABLE_TIMING" in behind.unknown
    assert told("gloo", copies).slow[0].ranks == (1,)
    (late_rank,) = told("nccl", own_code).slow
    assert late_rank.where is not None and late_rank.where.line == 60


def test_what_holds_back_the_whole_process_is_told_before_what_its_code_does() -> None:
    quota = CpuQuota(cpus=0.5, folder="/sys/fs/cgroup/job", throttled_seconds=20.0, throttled_periods=400, periods=500)
    nodes = times({1: 0.05})
    first = paces_of(nodes)
    looks = [
        stands(4000 + rank, (20, IN_FORWARD), (20, WAITS), quota=quota if rank == 1 else None) for rank in range(4)
    ]
    pace = concluded(members(), nodes, first, first, [replace(nodes[0], processes=tuple(looks))], 40.0)
    assert pace.slow[0].why == "cpu-quota"
    shared = [replace(each, quota=quota) for each in looks]
    pace = concluded(members(), nodes, first, first, [replace(nodes[0], processes=tuple(shared))], 40.0)
    assert pace.slow[0].why != "cpu-quota"


IN_OWN_CODE = TimeSpent(phase="host code", samples=10, of=20)
AT_ITS_LOADER = TimeSpent(phase="input", samples=10, of=20, waits_for_worker=True)
READS = ProcessPace(pid=9, file_looks=100, file_waits=75, file="/data/shard-3.tar")
COMPUTES = ProcessPace(pid=9, seconds=20.0, cpu_seconds=19.0)
HOT, COOL = GpuUse(index=3, clock_mhz=900, clock_events=0x40), GpuUse(index=0, clock_mhz=1900, clock_events=0)


CROWDED = ProcessPace(pid=1, seconds=20.0, main_ran_seconds=5.0, main_delayed_seconds=5.0)
"""It computes for 5 s of 20 where others do for one, and waits as long for a processor."""


@pytest.mark.parametrize(
    ("spent", "variant", "more"),
    [
        (IN_OWN_CODE, "host-code", {}),
        (IN_OWN_CODE, "storage", {"process": READS}),
        (IN_OWN_CODE, "host-code", {"process": READS, "others": (replace(READS, file_waits=60),)}),
        (replace(AT_ITS_LOADER, waits_for_worker=False), "no-workers", {}),
        (AT_ITS_LOADER, "few-workers", {"workers": (COMPUTES,)}),
        (AT_ITS_LOADER, "storage", {"workers": (READS,)}),
        (IN_OWN_CODE, "gpu", {"gpus": (HOT,), "other_gpus": (COOL,)}),
        (None, "gpu", {"timed": True}),
        (None, "gpu", {"timed": True, "gpus": (replace(COOL, pids=(1, 70)),)}),  # with a stranger
        (None, "gpu-work", {"timed": True, "gpus": (replace(COOL, pids=(1, 2)),)}),  # with a rank that is not late
        (None, "gpu-work", {"timed": True, "gpus": (COOL,), "other_gpus": (COOL,)}),
        (IN_OWN_CODE, "host-code", {"gpus": (HOT,), "other_gpus": (replace(HOT, index=0),)}),
        (IN_OWN_CODE, "memory-high", {"process": replace(READS, file_waits=0, memory_waits=40)}),
        (AT_ITS_LOADER, "memory-high", {"workers": (replace(READS, file_waits=0, memory_waits=40),)}),
        (IN_OWN_CODE, "cpu-shared", {"process": ProcessPace(pid=1, seconds=20.0, main_delayed_seconds=4.0)}),
        (IN_OWN_CODE, "cpu-shared", {"process": replace(CROWDED, main_ran_seconds=1.2)}),
        (IN_OWN_CODE, "host-code", {"process": CROWDED}),
    ],
)
def test_why_it_takes_its_time_there(spent: TimeSpent | None, variant: str, more: dict[str, Any]) -> None:
    others = (ProcessPace(pid=2, seconds=20.0, main_delayed_seconds=0.1, main_ran_seconds=1.0),)
    own: dict[str, Any] = {"process": ProcessPace(pid=1, seconds=20.0, main_delayed_seconds=0.1), "others": others}
    found = reason(LateRank(rank=1, share=0.3, **(own | more)), spent)
    assert found is not None and found.variant == variant


@pytest.mark.parametrize("version", [1, 2])
def test_the_quota_is_that_of_the_tightest_cgroup_above(version: int, tmp_path: Path) -> None:
    top = "/sys/fs/cgroup"
    if version == 2:
        mount, member = f"30 1 0:26 / {top} rw - cgroup2 cgroup2 rw\n", "0::/pod/rank\n"
        files = {
            "pod/cpu.max": "50000 100000\n",
            "pod/rank/cpu.max": "max 100000\n",
            "pod/cpu.stat": "usage_usec 9\nnr_periods 500\nnr_throttled 400\nthrottled_usec 20000000\n",
            "pod/memory.max": "1073741824\n",
            "pod/rank/memory.max": "max\n",
            "pod/memory.high": "max\n",
            "pod/rank/memory.high": "536870912\n",
            "pod/rank/memory.current": "500000000\n",
            "pod/rank/cgroup.events": "populated 1\nfrozen 1\n",
            "pod/cgroup.events": "populated 1\nfrozen 0\n",
        }
    else:
        mount = f"30 1 0:26 / {top} rw - cgroup cgroup rw,cpu,memory\n"
        member = "4:memory:/pod/rank\n3:cpu:/pod/rank\n"
        files = {
            "pod/cpu.cfs_quota_us": "50000\n",
            "pod/cpu.cfs_period_us": "100000\n",
            "pod/rank/cpu.cfs_quota_us": "-1\n",
            "pod/rank/cpu.cfs_period_us": "100000\n",
            "pod/cpu.stat": "nr_periods 500\nnr_throttled 400\nthrottled_time 20000000000\n",
            "pod/memory.limit_in_bytes": "1073741824\n",
            "pod/rank/memory.limit_in_bytes": "9223372036854771712\n",
            "pod/memory.usage_in_bytes": "500000000\n",
        }
    tree = {f"{top}/{name}": text for name, text in files.items()}
    system = fake(tmp_path, {"/proc/self/mountinfo": mount, "/proc/7/cgroup": member, **tree})
    assert granted.throttled(system, 7) == (0.5, f"{top}/pod", 20.0, 400, 500)
    assert granted.memory_limit(system, 7) == 1 << 30
    folder, limit = (f"{top}/pod/rank", 1 << 29) if version == 2 else (f"{top}/pod", 1 << 30)
    assert granted.memory(system, 7) == CgroupMemory(folder=folder, limit_bytes=limit, used_bytes=500_000_000)
    assert granted.frozen(system, 7) == (f"{top}/pod/rank/cgroup.freeze" if version == 2 else "")


HELD = "7 (python) D 1" + " 1" * 48


@pytest.mark.parametrize(
    ("wchan", "stack", "rises", "near", "memory", "files"),
    [
        ("mem_cgroup_handle_over_high", "", False, True, 2, 0),
        (
            "process_timeout",
            "[<0>] schedule_timeout+0x1/0x2\n[<0>] mem_cgroup_handle_over_high+0x1/0x2\n",
            False,
            1,
            2,
            0,
        ),
        ("process_timeout", "", True, True, 1, 1),  # nothing but the counter, from the second look on
        ("0", "", True, True, 1, 1),
        ("process_timeout", "", True, False, 0, 2),
        ("process_timeout", "", False, True, 0, 2),
        ("nfs_wait_bit_killable", "", True, True, 0, 2),
    ],
)
def test_a_rank_that_memory_high_holds_waits_for_no_file(
    wchan: str, stack: str, rises: bool, near: bool, memory: int, files: int, tmp_path: Path
) -> None:
    group = "/sys/fs/cgroup/rank"
    tree = {
        "/proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "/proc/7/cgroup": "0::/rank\n",
        f"{group}/memory.high": "536870912\n",
        f"{group}/memory.current": f"{530_000_000 if near else 400_000_000}\n",
        f"{group}/memory.events": "low 0\nhigh 41\nmax 0\n",
        "/proc/7/wchan": wchan,
        "/proc/7/stack": stack,
        "/proc/7/task/7/stat": HELD,
    }
    waits = FileWaits(fake(tmp_path, tree), 7)
    waits.look()
    (tmp_path / group.strip("/") / "memory.events").write_text(f"low 0\nhigh {41 + rises}\nmax 0\n")
    waits.look()
    assert (waits.for_memory, waits.waits) == (memory, files)


def test_a_place_where_others_stand_as_often_is_not_named() -> None:
    own = [stands(1, (10, IN_FORWARD), (10, IN_INPUT))]
    assert time_spent(own, [stands(2, (10, IN_FORWARD), (10, IN_INPUT))], 0.1) is None
    spent = time_spent(own, [stands(2, (10, IN_FORWARD), (10, WAITS))], 0.5)
    assert spent is not None and spent.phase == "input"


def test_a_line_where_only_the_late_rank_stands_tells_where_all_are_long_in_the_same_part() -> None:
    """As sampled in the lab: a step of 200 ms in the program's own code, and 20 ms at a line in the backward, or in the
    program; while the late rank runs the backward, the others wait at its line for what is summed up."""
    own_code, at_delay = ((Frame("main", "/home/mara/train.py", number),) for number in (125, 48))
    delayed = (Frame("delay", "/home/mara/net.py", 9), *IN_BACKWARD)
    others = [stands(2, (128, own_code), (25, IN_BACKWARD), (3, WAITS))]
    in_backward = time_spent([stands(1, (42, own_code), (4, delayed), (3, IN_BACKWARD), (3, WAITS))], others, 0.09)
    assert in_backward is not None and in_backward.where is not None
    assert (in_backward.phase, in_backward.where.line) == ("backward", 9)
    in_code = time_spent([stands(1, (40, own_code), (5, at_delay), (3, IN_BACKWARD), (4, WAITS))], others, 0.07)
    assert in_code is not None and in_code.where is not None
    assert (in_code.phase, in_code.where.line) == ("host code", 48)


def test_who_may_wait_is_not_named_by_a_few_samples_more_than_others() -> None:
    """six-megabits of the lab: the rank behind a slow way slept in 22 of 52 samples, the others in 37 of 104."""
    step, own_line = ((Frame("main", "/home/mara/train.py", number),) for number in (142, 48))
    others = [stands(2, (37, step), (67, WAITS))]
    behind = [stands(1, (22, step), (30, WAITS))]
    assert time_spent(behind, others, 0.13) is not None
    assert time_spent(behind, others, 0.13, may_wait=True) is None
    late_rank = time_spent([stands(1, (17, step), (9, own_line), (26, WAITS))], others, 0.13, may_wait=True)
    assert late_rank is not None and late_rank.where is not None and late_rank.where.line == 48


def test_where_a_rank_is_no_longer_than_others_is_no_place_of_its_delay() -> None:
    """As sampled in the lab of one whose delay of 8% was met in no sample: the step itself was named."""
    step = (Frame("main", "/home/mara/train.py", 142),)
    others = [stands(2, (135, step), (21, WAITS))]
    assert time_spent([stands(1, (47, step), (5, WAITS))], others, 0.08) is None


def test_lines_of_one_loop_are_one_place() -> None:
    """writes_metrics of tests/lab/slow: a loop of two lines; a line far from them is another place."""
    step, one, two, far = ((Frame("main", "/home/mara/train.py", number),) for number in (20, 156, 157, 80))
    others = [stands(2, (16, step), (32, WAITS))]
    loop = time_spent([stands(1, (4, step), (5, one), (5, two), (2, WAITS))], others, 0.4)
    assert loop is not None and loop.where is not None and loop.where.line in (156, 157)
    apart = time_spent([stands(1, (4, step), (5, far), (5, two), (2, WAITS))], others, 0.4)
    assert apart is not None and apart.where is None


def test_who_may_only_pass_on_what_came_late_to_it_is_not_named() -> None:
    """Over gloo a slow way delays the rank at its end: asleep in the backward, it waits for what is summed up there."""

    def of_hosts(hosts: int, own: tuple[Frame, ...], waits_in: str) -> JobPace:
        nodes = times({1: 0.02}, node_of=lambda rank: rank % hosts)
        looks = [stands(4000 + rank, (12, own if rank == 1 else WAITS), (20, WAITS)) for rank in range(4)]
        asleep = [
            replace(
                each, stacks=tuple(replace(one, thread=replace(one.thread, waits_in=waits_in)) for one in each.stacks)
            )
            for each in looks
        ]
        sampled = [
            replace(node, processes=tuple(asleep[rank.rank] for rank in node.ranks), clock_offset_seconds=0.0)
            for node in nodes
        ]
        first = paces_of(sampled)
        return concluded(members(4, lambda rank: rank % hosts), sampled, first, first, sampled, 40.0)

    passed_on = of_hosts(2, IN_BACKWARD, "futex_do_wait")
    assert (passed_on.verdict, passed_on.slow) == ("unknown", ()) and "by its network" in passed_on.unknown
    (computes,) = of_hosts(2, IN_BACKWARD, "").slow
    assert (computes.ranks, computes.phase) == ((1,), "backward")
    (alone,) = of_hosts(1, IN_BACKWARD, "futex_do_wait").slow
    assert (alone.ranks, alone.phase) == ((1,), ""), "no network is between them"


def test_what_a_recorder_says_is_taken_with_care() -> None:
    entry = {"collective_seq_id": 1, "profiling_name": "gloo:all_reduce", "process_group": ["0", "default_pg"]}
    rows = [
        entry | {"time_created_ns": 5, "is_p2p": False, "input_sizes": [[4]]},
        entry | {"time_created_ns": "six", "is_p2p": False, "collective_seq_id": 2},
        entry | {"time_created_ns": 7, "is_p2p": True, "p2p_seq_id": 1, "profiling_name": "gloo:send"},
        "no entry",
        entry | {"time_created_ns": 9, "is_p2p": False, "collective_seq_id": 3, "duration_ms": 1.5},
    ]
    told = times_of(json.dumps({"entries": rows}).encode())
    assert [(group.group, group.sequences, group.created_ns, group.ran_ms) for group in told.groups] == [
        ("0", (1, 3), (5, 9), (0.0, 1.5))
    ]
    assert told.pipelines == ["0"]
    assert times_of(b"[]").groups == []
    with pytest.raises(msgspec.DecodeError):
        times_of(b"\x80\x04.")


def test_run_says_once_who_is_slow_and_at_the_end_how_it_went(tmp_path: Path) -> None:
    task = PaceTask(pid=1, folder=str(tmp_path), name="slow-1.json")
    found = told(report(input_of_rank()), task)
    assert "rank 2 is late" in found.slow[0] and found.slow[-1].endswith("slow-1.json -v")
    assert gpudoctor("slow", "--from", str(tmp_path / "slow-1.json")) == 1
    said: list[Sequence[str]] = []
    watch = PaceWatch(1, tmp_path, said.append)
    for answer in (found, found, PaceTold()):
        watch.hear(msgspec.json.encode(answer))
    assert said == [found.slow]
    assert [line.partition(":")[0] for line in watch.end()] == ["pace", "slowest", "memory"]
    assert not told(report(even()), task).slow and not told(report(not_armed()), task).is_job


def test_the_first_look_waits_for_the_first_collective(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks may take minutes to begin: a look before finds nothing, and the next comes two minutes later."""
    now, asked, begun = [1000.0], list[float](), list[bool]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = PaceWatch(1, None, lambda lines: None, has_begun=lambda: bool(begun))
    monkeypatch.setattr(watch, "_ask", asked.append)
    while now[0] < 1060:
        watch.look()
        now[0] += 1.5
    assert not asked
    begun.append(True)
    while not asked:
        watch.look()
        now[0] += 1.5
    assert 1060 + attend.FIRST_SECONDS <= asked[0] < 1064 + attend.FIRST_SECONDS


def test_a_look_that_has_not_met_all_ranks_is_soon_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank's number was not read in a third of the looks at a crowded lab; the next one came two minutes later."""
    now, asked = [1000.0], list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = PaceWatch(1, None, lambda lines: None)
    monkeypatch.setattr(active, "start", lambda *words, **options: asked.append(now[0]))
    answers = [PaceTold(is_job=True, is_whole=whole) for whole in (False, False, False, True)]
    while now[0] < 1300:
        watch.look()
        if len(asked) > 4 - len(answers):
            watch.hear(msgspec.json.encode(answers.pop(0)))
        now[0] += 1.0
    assert [round(after - before) for before, after in pairwise(asked)] == [30, 30, 120]


def gpudoctor(*words: str) -> int:
    return cli.run(words)


def slow(pid: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpudoctor", "slow", "--pid", str(pid), "--json", *words]
    return subprocess.run(command, capture_output=True, text=True, env=user_environment(), timeout=200)


def test_a_job_that_runs_is_asked_and_its_slow_rank_named(tmp_path: Path) -> None:
    """On gloo, two ranks, one of them 80 ms longer in its input: so much that a crowded machine cannot hide it."""
    words = ("--at", "input", "--rank", "1", "--ms", "80", "--step-ms", "13")
    scenario = SCENARIOS["input-20-in-15"]._replace(ranks=2, options=words)
    with started(scenario, tmp_path, seconds=5.0) as pid:
        done = slow(pid, "--seconds", "10")
    answer = json.loads(done.stdout)
    assert done.returncode == 1, (answer, done.stderr)
    (found,) = answer["paces"][0]["slow"]
    assert (found["ranks"], found["phase"], found["where"]["line"] in scenario.numbers()) == ([1], "input", True)


def linked(worse: int, **facts: float) -> list[NodePace]:
    """Three nodes, each connected to both others; of node `worse` all connections are so."""
    usual = {"answers_after": 0.0002, "sent": 1000, "busy": 0.2}
    return [
        NodePace(
            hostname=f"n{node}",
            links=tuple(
                LinkUse(
                    local=f"10.0.0.{node}",
                    peer=f"10.0.0.{peer}",
                    **{**usual, **(facts if worse in (node, peer) else {})},  # type: ignore[arg-type]
                )
                for peer in (1, 2, 3)
                if peer != node
            ),
        )
        for node in (1, 2, 3)
    ]


def test_the_node_whose_network_is_slow_is_told_by_its_connections() -> None:
    late = slow_network(linked(2, answers_after=0.18, busy=0.9))
    assert late is not None and late.node == 1
    assert late.words == "what is sent to and from it is answered after 180 ms, between other nodes after 0.2 ms"
    assert any("n2 to n1: answered after 180 ms" in seen.text for seen in late.evidence)
    lossy = slow_network(linked(3, sent_again=50))
    assert lossy is not None and lossy.node == 2 and "5.0% of what is sent to it is lost" in lossy.words
    assert slow_network(linked(2)) is None
    assert slow_network(linked(2, answers_after=0.18)) is None, "no busier than others: a machine that is crowded"
    assert slow_network(linked(2, answers_after=0.002, busy=0.9)) is None, "another rack"
    every = [replace(node, links=tuple(replace(link, answers_after=0.1) for link in node.links)) for node in linked(2)]
    assert slow_network(every) is None, "all alike"
    assert slow_network(linked(2, answers_after=0.18, busy=0.9)[:2]) is None, "of two nobody tells whose it is"


def ring(held: dict[tuple[int, int], float], carried: float = 350e3) -> list[NodePace]:
    """Four nodes that hand on what they have in a ring, and little to the others; some ways hold it back."""
    return [
        NodePace(
            hostname=f"n{node}",
            links=tuple(
                LinkUse(
                    local=f"10.0.0.{node}",
                    peer=f"10.0.0.{peer}",
                    answers_after=0.0002,
                    sent=1000,
                    busy=0.2,
                    carried=carried if peer == node % 4 + 1 else 7e3,
                    held_to=held.get((node, peer), 0.0),
                    reached=9e8,
                )
                for peer in (1, 2, 3, 4)
                if peer != node
            ),
        )
        for node in (1, 2, 3, 4)
    ]


def test_a_way_that_holds_back_what_it_is_given() -> None:
    narrow = slow_network(ring({(3, 4): 750e3}))
    assert narrow is not None and (narrow.node, narrow.to) == (2, 3)
    assert narrow.words.startswith("what is sent from n3 to n4 is held to 6 Mbit/s, which takes 47% of the time")
    assert any("n3 to n4" in seen.text and seen.text.endswith("held to 6 Mbit/s") for seen in narrow.evidence)
    several = slow_network(ring({(3, 4): 750e3, (3, 1): 600e3}))
    assert several is not None and (several.node, several.to) == (2, None) and "from n3 is held" in several.words
    into = slow_network(ring({(3, 4): 750e3, (2, 4): 600e3}))
    assert into is not None and (into.node, into.to) == (3, None) and "to n4 is held" in into.words
    assert slow_network(ring({(3, 4): 750e3, (1, 2): 750e3})) is None, "two that share no end"
    assert slow_network(ring({(3, 4): 4e8})) is None, "no narrower than others"
    assert slow_network(ring({(3, 4): 750e3}, carried=30e3)) is None, "it is seldom waited for"
    assert slow_network(ring({(1, 2): 7e5, (2, 3): 7e5, (3, 4): 7e5, (4, 1): 7e5})) is None, "all alike"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's sock_diag")
def test_what_the_kernel_counts_of_a_connection() -> None:
    with (
        socket.create_server(("127.0.0.2", 0)) as listener,
        socket.create_connection(listener.getsockname(), source_address=("127.0.0.1", 0)) as client,
        listener.accept()[0] as server,
    ):
        links = LinksOfRanks([os.getpid()])
        for _ in range(30):
            client.send(b"x" * 1000)
            server.recv(1000)
        there = {(link.local, link.peer): link for link in links.told()}
    assert there["127.0.0.1", "127.0.0.2"].sent >= 30 and 0 < there["127.0.0.1", "127.0.0.2"].answers_after < 1
    assert LinksOfRanks([]).told() == ()
