"""The rank program (workers/collective.py) under torchrun: what it says, measures and checks."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor.fleet.messages import Measurement
from gpudoctor.nccl.plan import COLLECTIVES, measurements
from gpudoctor.nccl.rank_messages import (
    Begun,
    Finished,
    Member,
    Phase,
    Skipped,
)
from tests.collective_ranks import (
    WORKERS,
    launch,
    rows,
    run,
)
from tests.lab.requirements import require

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memfd, PR_SET_PDEATHSIG")
pytestmark = [LINUX, pytest.mark.timeout(180)]


@pytest.mark.parametrize(("ranks", "dtype"), [(2, "float32"), (3, "float32"), (3, "float16"), (3, "bfloat16")])
def test_every_collective_is_measured_and_its_data_is_right(ranks: int, dtype: str) -> None:
    sizes = (24, 1 << 12, 3 << 18)
    status, said = run(launch(ranks, measurements(COLLECTIVES, sizes), dtype=dtype))
    assert status == 0, said
    found = rows(said)
    assert [(row.collective, row.dtype) for row in found] == [(name, dtype) for name in COLLECTIVES for _ in sizes]
    item = 4 if dtype == "float32" else 2
    shared = ("all_gather", "reduce_scatter", "all_to_all")
    for row, size in zip(found, sizes * len(COLLECTIVES), strict=True):
        assert row.wrong == 0 and row.wrong_ranks == ()
        # nccl-tests counts one rank's part of what is shared out (paramcount of its src/*.cu).
        assert row.size_bytes == row.count * item * (ranks if row.collective in shared else 1)
        assert size - 16 * ranks < row.size_bytes <= size
        assert 0 < row.minimum_us <= row.mean_us <= row.maximum_us
        assert 0 <= row.slowest_rank < ranks
        assert row.iterations == 2
        factor = {"all_reduce": 2 * (ranks - 1) / ranks}.get(row.collective, 1.0)
        factor = (ranks - 1) / ranks if row.collective in shared else factor
        assert row.algorithm_bandwidth == pytest.approx(row.size_bytes / row.maximum_us / 1e3)
        assert row.bus_bandwidth == pytest.approx(row.algorithm_bandwidth * factor)


def test_what_the_ranks_say_and_in_which_order() -> None:
    wish = launch(2, [Measurement("all_reduce", 8)])
    status, said = run(wish, truly=True)
    assert status == 0
    members = [message for message in said if isinstance(message, Member)]
    assert [(member.rank, member.local_rank, member.world_size) for member in members] == [(0, 0, 2), (1, 1, 2)]
    assert all(member.torch and member.host and member.free_bytes > 0 for member in members)
    assert all(member.settings == {} for member in members)
    for rank in (0, 1):
        begun = next(message for message in said if isinstance(message, Begun) and message.rank == rank)
        assert begun.world_size == 2 and begun.pid > 0 and begun.log_fd > 2 and begun.error_fd > 2
        phases = [message.phase for message in said if isinstance(message, Phase) and message.rank == rank]
        assert phases[:3] == ["import torch", "rendezvous", "first all_reduce"]
        measured = phases.index("all_reduce of 8 bytes")
        assert phases[measured + 1] == "data check of all_reduce of 8 bytes"
        assert phases[-1] == "leaving"
        own = [
            message for message in said if getattr(message, "rank", None) == rank and not isinstance(message, Member)
        ]
        assert isinstance(own[0], Begun) and isinstance(own[-1], Finished)
    assert said.index(members[-1]) < said.index(rows(said)[0])


def test_symmetric_ranks_say_their_settings_and_skip_what_is_too_small() -> None:
    wish = launch(3, [Measurement("broadcast", 64), Measurement("all_gather", 8)])
    status, said = run(wish, symmetric=True, NCCL_SOCKET_IFNAME="eth0", NCCL_IB_HCA="x" * 5000)
    assert status == 0
    assert [message.reason for message in said if isinstance(message, Skipped)] == [
        "less than one element for each of the 3 ranks"
    ]
    members = [message for message in said if isinstance(message, Member)]
    assert len(members) == 3
    for member in members:
        assert member.settings["NCCL_SOCKET_IFNAME"] == "eth0"
        assert "NCCL_DEBUG_FILE" not in member.settings
        assert member.python


def test_without_a_check_nothing_is_said_of_the_data_and_without_a_bound_all_iterations_are_made() -> None:
    status, said = run(launch(2, [Measurement("all_reduce", 1 << 10)], check=False, iterations=40, repeats=3))
    assert status == 0
    assert [(row.wrong, row.iterations) for row in rows(said)] == [(None, 40)]
    assert not any(isinstance(message, Phase) and message.phase.startswith("data check") for message in said)


def test_slow_sizes_get_fewer_iterations_when_asked() -> None:
    wish = launch(2, [Measurement("all_reduce", 8 << 20)], iterations=100_000, seconds_per_size=0.5, repeats=2)
    status, said = run(wish)
    assert status == 0
    assert 2 <= rows(said)[0].iterations < 100_000


def test_sizes_that_do_not_fit_and_kinds_that_need_more_ranks_are_skipped_with_the_reason() -> None:
    wanted = [Measurement("all_reduce", 1 << 40), Measurement("send_recv", 64), Measurement("all_reduce", 64)]
    status, said = run(launch(1, wanted))
    assert status == 0
    skipped = [message for message in said if isinstance(message, Skipped)]
    assert [(message.collective, message.size_bytes) for message in skipped] == [
        ("all_reduce", 1 << 40),
        ("send_recv", 64),
    ]
    assert "needs 1048576 MiB" in skipped[0].reason
    assert "needs 2 ranks" in skipped[1].reason
    assert [row.bus_bandwidth for row in rows(said)] == [0.0]  # one rank moves nothing


# ---------------------------------------------------------------- wrong data

CORRUPT = """
import os
if os.environ.get("RANK") == "1":
    import torch
    import torch.distributed as dist

    def corrupted(right, sizes):
        calls = dict.fromkeys(sizes, 0)

        def corrupt(*arguments, **options):
            work = right(*arguments, **options)
            size = arguments[0].nbytes
            # of all_reduce only what is measured counts: ranks tell each other who they are by sums too
            if size in sizes:
                calls[size] += 1
            if not sizes or (size in sizes and calls[size] == sizes[size]):
                arguments[0].view(-1)[0] += 1  # of all_gather: what rank 0 sent, for its own part goes out again
            return work

        return corrupt

    dist.all_reduce = corrupted(dist.all_reduce, {1 << 16: 2, 1 << 17: 5})
    for name in ("all_gather_single", "reduce_scatter_single", "broadcast", "all_to_all_single"):
        setattr(dist, name, corrupted(getattr(dist, name), {}))
"""


def test_one_wrong_element_is_found_with_its_rank(tmp_path: Path) -> None:
    """Of the sums the second, as the first warms up; of larger ones the fifth, which is the last of the window."""
    distributed = pytest.importorskip("torch.distributed")
    require(hasattr(distributed, "all_to_all_single"), "this torch has no all_to_all_single")
    (tmp_path / "sitecustomize.py").write_text(CORRUPT)
    others = ("all_gather", "reduce_scatter", "broadcast", "all_to_all")
    wanted = [("all_reduce", 1 << 16), ("all_reduce", 1 << 17), *((name, 1 << 16) for name in others)]
    status, said = run(launch(2, [Measurement(*each) for each in wanted]), PYTHONPATH=str(tmp_path))
    assert status == 0
    assert [(row.collective, row.wrong, row.wrong_ranks) for row in rows(said)] == [
        (name, 1, (1,)) for name, _ in wanted
    ]


def pattern_of(dtype: str, ranks: int) -> Any:
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(WORKERS))
    try:
        module = importlib.import_module("collective_data")
        module.PIECE["cpu"] = 1 << 12  # so that short views have several pieces
        return torch, module.Pattern(torch, dtype, torch.device("cpu"), ranks)
    finally:
        sys.path.remove(str(WORKERS))


@given(
    st.sampled_from(["float32", "float16", "bfloat16"]),
    st.integers(1, 600),
    st.integers(1, 20_000),
    st.integers(0, 10_000),
    st.data(),
)
@settings(max_examples=25, deadline=None)
def test_the_patterns_are_exact_and_a_wrong_or_shifted_element_shows(
    dtype: str, ranks: int, length: int, start: int, data: st.DataObject
) -> None:
    torch, pattern = pattern_of(dtype, ranks)
    for table in (pattern.total(1), pattern.share(ranks - 1, 0), pattern.moved(ranks - 1, 0, 0)[0]):
        view = torch.empty(length, dtype=pattern.dtype)
        table.write(view, start)
        assert int(table.wrong(view, start)) == 0
        place = data.draw(st.integers(0, length - 1))
        view[place] += 1
        assert int(table.wrong(view, start)) == 1
        view[place] = float("nan")
        assert int(table.wrong(view, start)) == 1
    # The sum in the type itself, rank after rank, is what it must be: no partial sum was rounded.
    total = torch.zeros(min(length, 2000), dtype=pattern.dtype)
    share = torch.empty_like(total)
    for rank in range(ranks):
        pattern.share(rank, 1).write(share, start)
        total += share
    assert int(pattern.total(1).wrong(total, start)) == 0


@pytest.mark.parametrize("shift", [1, 2, 4, 64, 1024, 1 << 16])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_data_that_lands_beside_its_place_shows(dtype: str, shift: int) -> None:
    torch, pattern = pattern_of(dtype, 8)
    for table in (pattern.total(0), pattern.moved(0, 0, 0)[0]):
        view = torch.empty(1 << 12, dtype=pattern.dtype)
        table.write(view, shift)
        assert int(table.wrong(view, 0)) > 1 << 11
