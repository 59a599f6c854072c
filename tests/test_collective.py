"""The rank program (workers/collective.py) under real torchrun with gloo: what it says and measures, how it ends."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.fleet.messages import Launch, Measurement
from gpudoctor.marked import MARK, messages
from gpudoctor.nccl.plan import COLLECTIVES, measurements
from gpudoctor.nccl.rank_messages import (
    AnyRankMessage,
    Begun,
    Failed,
    Finished,
    Member,
    Phase,
    Row,
    Skipped,
    decoder,
)
from tests.lab.requirements import require

ROOT = Path(__file__).parent.parent
WORKERS = ROOT / "gpudoctor" / "workers"
SECONDS = 90
"""A bound for what takes seconds, on a busy machine too."""
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memfd, PR_SET_PDEATHSIG")
pytestmark = [LINUX, pytest.mark.timeout(180)]


def launch(ranks: int, wanted: Sequence[Measurement], **fields: Any) -> Launch:
    given: dict[str, Any] = {"iterations": 2, "warmup": 1, "repeats": 1, "timeout": 60.0, **fields}
    return Launch(
        id="test",
        nodes=(0,),
        ranks_per_node=(ranks,),
        master_address="127.0.0.1",
        master_port=0,
        backend="gloo",
        device="cpu",
        measurements=tuple(wanted),
        **given,
    )


def command(wish: Launch, *, symmetric: bool = False) -> list[str]:
    """As the agent starts it; a rendezvous of torchrun's own, for the test chooses no port."""
    argument = json.dumps({"launch": msgspec.to_builtins(wish), "symmetric": symmetric})
    torchrun = [str(WORKERS / "under_doctor.py"), "-m", "torch.distributed.run", "--standalone"]
    return [
        sys.executable,
        *torchrun,
        f"--nproc-per-node={wish.ranks_per_node[0]}",
        str(WORKERS),
        "collective",
        argument,
    ]


def decoded(output: bytes) -> list[AnyRankMessage]:
    """The rank messages; every line that a worker says besides them has no type."""
    for line in output.split(b"\n"):
        assert len(line) <= 4096
        assert not line or line.startswith(MARK), line
    return [decoder.decode(json.dumps(said)) for said in messages(output) if "type" in said]


def run(wish: Launch, *, symmetric: bool = False, **environment: str) -> tuple[int, list[AnyRankMessage]]:
    done = subprocess.run(
        command(wish, symmetric=symmetric),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        env={**os.environ, **environment},
    )
    return done.returncode, decoded(done.stdout)


def rows(said: Sequence[AnyRankMessage]) -> list[Row]:
    return [message for message in said if isinstance(message, Row)]


@contextmanager
def started(wish: Launch, environment: Mapping[str, str] | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        command(wish),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)


def wait_for(process: "subprocess.Popen[bytes]", wanted: Mapping[type, int]) -> list[AnyRankMessage]:
    """Read messages until there are so many of each kind."""
    assert process.stdout is not None
    said: list[AnyRankMessage] = []
    for line in process.stdout:
        for message in messages(line):
            if "type" in message:
                said.append(decoder.decode(json.dumps(message)))
        if all(sum(isinstance(message, kind) for message in said) >= number for kind, number in wanted.items()):
            return said
    raise AssertionError(f"the ranks ended before: {said}")


def wait_until_gone(pids: Sequence[int]) -> None:
    deadline = time.monotonic() + SECONDS
    while left := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


# ---------------------------------------------------------------- measuring


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
        assert row.size_bytes == row.count * item
        assert size - 16 * ranks < row.size_bytes <= size
        assert row.collective not in shared or row.count % ranks == 0
        assert 0 < row.minimum_us <= row.mean_us <= row.maximum_us
        assert 0 <= row.slowest_rank < ranks
        assert row.iterations == 2
        factor = {"all_reduce": 2 * (ranks - 1) / ranks}.get(row.collective, 1.0)
        factor = (ranks - 1) / ranks if row.collective in shared else factor
        assert row.algorithm_bandwidth == pytest.approx(row.size_bytes / row.maximum_us / 1e3)
        assert row.bus_bandwidth == pytest.approx(row.algorithm_bandwidth * factor)


def test_what_the_ranks_say_and_in_which_order() -> None:
    wish = launch(2, [Measurement("all_reduce", 8)])
    status, said = run(wish)
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


def test_symmetric_ranks_say_their_settings() -> None:
    status, said = run(
        launch(2, [Measurement("broadcast", 64)]), symmetric=True, NCCL_SOCKET_IFNAME="eth0", NCCL_IB_HCA="x" * 5000
    )
    assert status == 0
    members = [message for message in said if isinstance(message, Member)]
    assert len(members) == 2
    for member in members:
        assert member.settings["NCCL_SOCKET_IFNAME"] == "eth0"
        assert "NCCL_DEBUG_FILE" not in member.settings
        assert member.python


def test_without_a_check_nothing_is_said_of_the_data() -> None:
    status, said = run(launch(2, [Measurement("all_reduce", 64)], check=False))
    assert status == 0
    assert [row.wrong for row in rows(said)] == [None]
    assert not any(isinstance(message, Phase) and message.phase.startswith("data check") for message in said)


def test_slow_sizes_get_fewer_iterations_when_asked() -> None:
    wish = launch(2, [Measurement("all_reduce", 8 << 20)], iterations=100_000, seconds_per_size=0.5, repeats=2)
    status, said = run(wish)
    assert status == 0
    assert 2 <= rows(said)[0].iterations < 100_000
    unhurried = launch(2, [Measurement("all_reduce", 1 << 10)], iterations=40, repeats=3)
    assert rows(run(unhurried)[1])[0].iterations == 40


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
    status, said = run(launch(3, [Measurement("all_gather", 8)]))
    assert status == 0
    assert [message.reason for message in said if isinstance(message, Skipped)] == [
        "less than one element for each of the 3 ranks"
    ]


# ---------------------------------------------------------------- wrong data

CORRUPT = """
import os
if os.environ.get("RANK") == "1":
    import torch
    import torch.distributed as dist
    right, calls = dist.{name}, [0]

    def {name}(*arguments, **options):
        work = right(*arguments, **options)
        calls[0] += 1
        if calls[0] {when}:
            arguments[0].view(-1)[0] += 1  # of all_gather: what rank 0 sent, for its own part goes out again
        return work

    dist.{name} = {name}
"""


@pytest.mark.parametrize(
    ("function", "collective", "when"),
    [
        ("all_reduce", "all_reduce", "== 3"),  # the first is the rendezvous', the second warms up
        ("all_reduce", "all_reduce", "== 6"),  # after two in the window: the last
        ("all_gather_single", "all_gather", "> 0"),
        ("reduce_scatter_single", "reduce_scatter", "> 0"),
        ("broadcast", "broadcast", "> 0"),
        ("all_to_all_single", "all_to_all", "> 0"),
    ],
)
def test_one_wrong_element_is_found_with_its_rank(tmp_path: Path, function: str, collective: str, when: str) -> None:
    distributed = pytest.importorskip("torch.distributed")
    require(hasattr(distributed, function), f"this torch has no {function}")
    (tmp_path / "sitecustomize.py").write_text(CORRUPT.format(name=function, when=when))
    status, said = run(launch(2, [Measurement(collective, 1 << 16)]), PYTHONPATH=str(tmp_path))
    assert status == 0
    row = rows(said)[0]
    assert (row.wrong, row.wrong_ranks) == (1, (1,))


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


# ---------------------------------------------------------------- ends


def test_an_exception_is_told_with_its_phase_and_in_the_standard_error(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('libcudart.so.13: ' + 'cannot open ' * 2000)")
    done = subprocess.run(
        [sys.executable, str(WORKERS), "collective", command(launch(1, []))[-1]],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1
    failed = [message for message in decoded(done.stdout) if isinstance(message, Failed)]
    assert [(message.rank, message.phase) for message in failed] == [(0, "import torch")]
    assert failed[0].error.startswith("ImportError: libcudart.so.13: cannot open")


def test_the_files_in_memory_outlive_the_rank_and_hold_its_stacks() -> None:
    wish = launch(2, [Measurement("all_reduce", 4 << 20)], iterations=1_000_000, timeout=3000.0)
    with started(wish) as process:
        said = wait_for(process, {Begun: 2, Phase: 12})
        begun = {message.rank: message for message in said if isinstance(message, Begun)}
        pids = [message.pid for message in begun.values()]
        errors = Path(f"/proc/{begun[1].pid}/fd/{begun[1].error_fd}")
        with errors.open("rb") as file:
            os.kill(begun[1].pid, signal.SIGUSR1)
            deadline = time.monotonic() + SECONDS
            text = b""
            while b"collective.py" not in text:
                assert time.monotonic() < deadline, text
                time.sleep(0.02)
                file.seek(0)
                text = file.read()
            process.kill()  # torchrun: its ranks follow
            wait_until_gone(pids)
            file.seek(0)
            assert b"most recent call first" in file.read()
            assert not errors.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_no_rank_outlives_torchrun(number: signal.Signals) -> None:
    wish = launch(2, [Measurement("all_reduce", 1 << 20)], iterations=1_000_000, timeout=3000.0)
    with started(wish) as process:
        said = wait_for(process, {Begun: 2, Member: 2})
        process.send_signal(number)
        wait_until_gone([message.pid for message in said if isinstance(message, Begun)])
        process.wait(SECONDS)


def test_nothing_outlives_whoever_started_torchrun() -> None:
    wish = launch(2, [Measurement("all_reduce", 1 << 20)], iterations=1_000_000, timeout=3000.0)
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "for line in child.stdout: print(line.decode(), end='', flush=True)\n"
    )
    doctor = subprocess.Popen(
        [sys.executable, "-c", code, *command(wish)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert doctor.stdout is not None
        torchrun = int(doctor.stdout.readline())
        said = wait_for(doctor, {Begun: 2, Member: 2})
        doctor.kill()
        wait_until_gone([torchrun, *(message.pid for message in said if isinstance(message, Begun))])
    finally:
        doctor.kill()
        doctor.communicate(timeout=SECONDS)


def test_it_ends_when_nobody_reads_any_more() -> None:
    """Its parent may live on, as ssh's shell does: then only the closed pipe tells it."""
    wish = launch(2, [Measurement("all_reduce", 1 << 20)], iterations=1_000_000, timeout=3000.0)
    with started(wish) as process:
        said = wait_for(process, {Begun: 2, Member: 2})
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        wait_until_gone([message.pid for message in said if isinstance(message, Begun)])
        process.wait(SECONDS)


def test_a_stopped_rank_ends_the_others_by_torch_s_timeout() -> None:
    wish = launch(2, [Measurement("all_reduce", 1 << 20)], iterations=1_000_000, timeout=8.0, seconds_per_size=3000.0)
    with started(wish) as process:
        said = wait_for(process, {Begun: 2, Member: 2})
        stopped = next(message.pid for message in said if isinstance(message, Begun) and message.rank == 1)
        os.kill(stopped, signal.SIGSTOP)
        try:
            failed = [message for message in wait_for(process, {Failed: 1}) if isinstance(message, Failed)]
            assert failed[0].rank == 0
            assert "timed out" in failed[0].error.lower() or "timeout" in failed[0].error.lower()
        finally:
            os.kill(stopped, signal.SIGKILL)


# ---------------------------------------------------------------- the environment of a rank


def rank_environment(wish: Launch, **environment: str) -> dict[str, str]:
    """What a rank has set by the time it imports torch; a stand-in for torch tells."""
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import collective;"
        "import json; wish = json.loads(sys.argv[2])['launch'];"
        "collective.set_environment(wish, collective.Rank(print)); out = os.dup(1); collective.capture(wish);"
        "os.write(out, json.dumps({k: v for k, v in os.environ.items() if 'NCCL' in k}).encode())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(WORKERS), command(wish)[-1]],
        capture_output=True,
        check=True,
        timeout=SECONDS,
        env={**{name: value for name, value in os.environ.items() if "NCCL" not in name}, **environment},
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_nccl_logs_into_memory_unless_the_user_has_a_file_for_it() -> None:
    found = rank_environment(launch(1, []), NCCL_DEBUG="WARN")
    assert found["NCCL_DEBUG"] == "INFO"
    assert found["NCCL_DEBUG_FILE"].startswith("/proc/self/fd/")
    assert "NET" in found["NCCL_DEBUG_SUBSYS"].split(",")
    own = rank_environment(launch(1, []), NCCL_DEBUG="WARN", NCCL_DEBUG_FILE="/data/nccl.log")
    assert (own["NCCL_DEBUG"], own["NCCL_DEBUG_FILE"]) == ("WARN", "/data/nccl.log")
    assert "NCCL_DEBUG_FILE" not in rank_environment(launch(1, [], rank_logs=False))
    assert rank_environment(launch(1, [], environment={"NCCL_ALGO": "Ring"}))["NCCL_ALGO"] == "Ring"


def test_ranks_that_share_a_gpu_are_hosts_of_their_own_to_nccl() -> None:
    wish = launch(2, [], ranks_share_gpu=True)
    found = rank_environment(wish, RANK="3", WORLD_SIZE="4", LOCAL_WORLD_SIZE="4", NCCL_IB_DISABLE="0")
    assert found["NCCL_HOSTID"] == "rank3"
    assert found["NCCL_SOCKET_IFNAME"] == "lo"
    assert found["NCCL_IB_DISABLE"] == "0"
    several = rank_environment(wish, RANK="3", WORLD_SIZE="8", LOCAL_WORLD_SIZE="4")
    assert "NCCL_SOCKET_IFNAME" not in several
    assert "NCCL_HOSTID" not in rank_environment(launch(2, []), RANK="3")
