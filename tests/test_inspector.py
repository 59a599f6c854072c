"""What NCCL's Inspector writes, as its own code writes it (tried with the plugins of 2.28.3, 2.29.7 and 2.30.7, driven
by a program that calls them as NCCL does), and what is concluded of it."""

import json
import subprocess
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpudoctor.read.job import inspector
from gpudoctor.read.system import System
from gpudoctor.slow.conclude import concluded, paces_of
from gpudoctor.slow.where import time_spent
from gpudoctor.snapshot.evidence import GpuUse
from gpudoctor.snapshot.pace import NodePace
from tests.slow_examples import BEGIN, IN_FORWARD, members, stands, times

STEP_US, SIZES = 50_000, (1 << 20, 1 << 14)
BEGIN_US = BEGIN // 1000


def line(rank: int, number: int, *, ran: int = 25_000, written: int = 0, **more: object) -> str:
    """Two sums in each step; the first takes `ran` on the GPU. `written`: when, if not at once."""
    end = BEGIN_US + number // 2 * STEP_US + (35_000, 45_000)[number % 2]
    perf = {
        "coll": "AllReduce",
        "coll_sn": number,
        "coll_msg_size_bytes": SIZES[number % 2],
        "coll_exec_time_us": ran if number % 2 == 0 else 5_000,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 0.041943,
        "coll_busbw_gbs": 0.062915,
    }
    header = {"id": "0x51c0ffee51c0de", "comm_name": "world", "rank": rank, "n_ranks": 4, "nnodes": 1}
    metadata = {
        "inspector_output_format_version": "v4.0",
        "git_rev": "",
        "rec_mechanism": "nccl_profiler_interface",
        "dump_timestamp_us": written or end,
        "hostname": "gpu-01",
        "pid": 4000 + rank,
    }
    told = {"header": header, "metadata": metadata, "coll_perf": perf | more}
    return json.dumps(told, separators=(",", ":"))


def inspected(late: Mapping[int, int], numbers: range = range(400), nodes: list[NodePace] | None = None) -> NodePace:
    """A node whose ranks issue alike, over NCCL, with what the Inspector says of their GPUs."""
    (node,) = nodes or times({}, backend="nccl")
    ranks = []
    for each in node.ranks:
        raw = "\n".join(line(each.rank, number, ran=25_000 - late.get(each.rank, 0)) for number in numbers)
        ranks.append(replace(each, groups=(*each.groups, *inspector.times_of(raw.encode()).groups)))
    return replace(node, ranks=tuple(ranks))


def test_a_gpu_that_comes_late_is_named_where_the_cpus_issue_alike() -> None:
    node = inspected({3: 12_000})
    first = paces_of([node])
    (pace,) = first.late
    assert (pace.late, pace.timed, round(pace.lost_seconds, 3), round(pace.step_seconds, 3)) == (
        (3,),
        True,
        0.012,
        0.05,
    )
    looks = [stands(4000 + rank, (20, IN_FORWARD)) for rank in range(4)]
    (slow,) = concluded(members(), [node], first, first, [replace(node, processes=tuple(looks))], 20.0).slow
    assert (slow.ranks, slow.why, slow.phase) == ((3,), "gpu", "GPU")
    assert "its GPU comes late" in slow.summary and "Inspector" in slow.evidence[0].source
    for pid, known in ((4003, True), (17, False)):
        sampled = replace(node, processes=tuple(looks), gpus=(GpuUse(index=3, pids=(pid,)),))
        told = concluded(members(), [node], first, first, [sampled], 20.0)
        assert ("NVML names none of its ranks" in " ".join(told.notes)) is not known


def test_an_even_job_is_called_even_by_it_and_is_not_known_without() -> None:
    assert concluded(members(), [inspected({})], paces_of([inspected({})]), None).verdict == "even"
    without = times({}, backend="nccl")
    pace = concluded(members(), without, paces_of(without), None)
    assert pace.verdict == "unknown" and "Inspector" in pace.unknown


def test_when_they_ended_is_told_by_itself_or_by_when_lines_were_written() -> None:
    (alone,) = inspector.times_of("\n".join(line(0, number) for number in range(40)).encode()).groups
    assert alone.created_ns[9] == (BEGIN_US + 4 * STEP_US + 45_000) * 1000
    seldom = [line(0, number) for number in range(3)]
    seldom += [line(0, number, written=BEGIN_US + 500_000 + number) for number in range(3, 21)]
    (spread,) = inspector.times_of("\n".join(seldom).encode()).groups
    ends = spread.created_ns[2:]
    assert {round((after - before) / 1e6) for before, after in pairwise(ends)} == {23}
    trace = {"kernel_events": [{"channel_id": 0, "kernel_start_ts": 5, "kernel_stop_ts": BEGIN_US + 7}]}
    (verbose,) = inspector.times_of(line(0, 0, event_trace_ts=trace).encode()).groups
    assert verbose.created_ns == ((BEGIN_US + 7) * 1000,)


def test_what_is_no_line_of_it_costs_itself_only() -> None:
    whole = [line(1, number) for number in range(4)]
    sent = json.loads(line(1, 4))
    sent["p2p_perf"] = {"p2p": "Send", "p2p_sn": 1, "p2p_peer": 2}
    del sent["coll_perf"]
    call = line(1, 5, coll_timing_source="collective_cpu")
    odd = ["", "{", "[]", "\x00", line(1, 6, coll="Invalid"), line(1, -1), line(1, 7, coll_sn="x"), line(2, 8)]
    answer = inspector.times_of("\n".join([*whole, json.dumps(sent), call, *odd, whole[0][:99]]).encode())
    (group,) = answer.groups
    assert len(group.sequences) == 5 and group.ran_ms == (25.0, 5.0, 25.0, 5.0, 0.0)
    assert answer.pipelines == [group.group]


def test_one_that_keeps_the_last_only_and_writes_seldom_is_not_held_against_others() -> None:
    old = [line(0, number).replace('"comm_name":"world",', "") for number in range(100)]
    assert len(inspector.times_of("\n".join(old).encode()).groups) == 1
    answer = inspector.times_of("\n".join(old[::2]).encode())
    assert not answer.groups and "51%" in answer.lost


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("gpu-01-pid71.log", line(0, 0), "log"),
        ("gpu-01-pid71.log", "[INFO] epoch 3\n", ""),
        ("nccl_inspector_metrics_00010203.prom", "# HELP", "sums of each GPU"),
    ],
)
def test_it_is_found_among_the_files_that_the_rank_has_open(tmp_path: Path, name: str, text: str, found: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with path.open("a") as output, subprocess.Popen(["sleep", "60"], stdout=output) as process:
        try:
            if name.endswith(".prom"):
                with pytest.raises(OSError, match=found):
                    inspector.log_of(System(), process.pid)
            else:
                assert inspector.log_of(System(), process.pid) == (str(path) if found else "")
                assert inspector.end_of(process.pid, str(path)) == text.encode()
        finally:
            process.kill()


def test_a_place_where_all_always_stand_is_not_named() -> None:
    own, others = [stands(1, (26, IN_FORWARD))], [stands(2, (78, IN_FORWARD))]
    assert time_spent(own, others, 0.24) is None
