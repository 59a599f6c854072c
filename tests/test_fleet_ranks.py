"""Ranks on this machine: real torchrun and gloo, stopped and killed in the middle, and nothing left of them."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from hypothesis import given, strategies as st

from gpudoctor import active
from gpudoctor.fleet.followed import Followed
from gpudoctor.fleet.messages import Ended, Launch, Measurement, Reply, Run, Said, Stop
from gpudoctor.fleet.ranks import Ranks
from gpudoctor.knowledge.places import main_thread, place_of
from gpudoctor.nccl.rank_messages import AnyRankMessage, Failed, Member, Phase, Row, decoder
from gpudoctor.read import process as processes
from gpudoctor.snapshot.evidence import NodeEvidence, ProcessEvidence

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="ranks are followed through /proc"),
    pytest.mark.usefixtures("forks"),
]
PATIENCE = 90.0
"""torch may take long to import on a busy machine; nothing here depends on it."""
LONG = (Measurement("all_reduce", 1 << 20),)
LONG_PHASE = "all_reduce of 1048576 bytes"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def a_launch(**changes: object) -> Launch:
    plain = Launch(
        id=uuid.uuid4().hex,
        nodes=(0,),
        ranks_per_node=(2,),
        master_address="127.0.0.1",
        master_port=free_port(),
        backend="gloo",
        device="cpu",
        measurements=(Measurement("all_reduce", 4096),),
        iterations=2,
        warmup=1,
    )
    return msgspec.structs.replace(plain, **changes)


def endless(**changes: object) -> Launch:
    """One that stays in its first measurement."""
    return a_launch(measurements=LONG, iterations=10_000_000, timeout=600.0, **changes)


class Heard:
    """What the head would hear of one node."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self._changed = threading.Condition()

    def __call__(self, reply: Reply) -> None:
        with self._changed:
            self.replies.append(reply)
            self._changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), self.replies

    @property
    def messages(self) -> list[AnyRankMessage]:
        return [decoder.decode(reply.message) for reply in self.replies if isinstance(reply, Said)]

    @property
    def ended(self) -> Ended:
        self.wait(lambda: any(isinstance(reply, Ended) for reply in self.replies))
        (found,) = [reply for reply in self.replies if isinstance(reply, Ended)]
        return found

    def wait_for_windows(self) -> None:
        """Until the ranks are in the measured windows, after the first data check."""
        self.wait(lambda: [m.phase for m in self.messages if isinstance(m, Phase)].count(LONG_PHASE) >= 2)


def of_launch(launch: Launch) -> dict[int, psutil.Process]:
    """Its processes that are there, by number."""
    found = {}
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and any(launch.id in word for word in process.cmdline()):
                found[process.pid] = process
        except psutil.Error:
            continue
    return found


def wait_until_gone(launch: Launch) -> None:
    deadline = time.monotonic() + 30
    while left := of_launch(launch):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def torchrun_of(launch: Launch) -> psutil.Process:
    return next(process for process in of_launch(launch).values() if "torch.distributed.run" in process.cmdline())


def ranks_of(launch: Launch) -> list[psutil.Process]:
    """In the order of their local ranks."""
    found = [process for process in of_launch(launch).values() if "torch.distributed.run" not in process.cmdline()]
    return sorted(found, key=lambda process: int(process.environ()["LOCAL_RANK"]))


def seen(ended: Ended) -> dict[int, ProcessEvidence]:
    """What was read of its processes, by number."""
    evidence = msgspec.json.decode(ended.evidence, type=NodeEvidence)
    return {process.pid: process for process in evidence.processes}


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def ranks(heard: Heard) -> Iterator[Ranks]:
    found = Ranks(0, heard)
    yield found
    found.end_all()
    active.end_all()


def test_a_launch_runs_to_its_end(ranks: Ranks, heard: Heard) -> None:
    launch = a_launch()
    ranks.run(Run(number=7, launch=launch))
    ended = heard.ended
    assert (ended.how, ended.number, ended.error, ended.launch) == ("done", 7, "", launch.id)
    assert [(state.rank, state.local_rank, state.ended, state.status) for state in ended.ranks] == [
        (0, 0, "done", 0),
        (1, 1, "done", 0),
    ]
    assert [message.size_bytes for message in heard.messages if isinstance(message, Row)] == [4096]
    assert [message.rank for message in heard.messages if isinstance(message, Member)] == [0, 1]
    phases = [message for message in heard.messages if isinstance(message, Phase)]
    assert phases[0].phase == "import torch"
    since = next(number for number, phase in enumerate(phases) if phase.rank == 0)  # rank 1 may have begun before it
    assert {phase.rank for phase in phases[since:]} == {0}, "only the lowest local rank's are wanted"
    assert not of_launch(launch)


def test_the_number_of_a_reaped_torchrun_is_not_asked_for(
    ranks: Ranks, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be somebody else's by then, whose children are not ours to end."""
    asked: list[int] = []

    def descendants(pid: int) -> tuple[processes.ProcStat, ...]:
        asked.append(pid)
        return ()

    monkeypatch.setattr(processes, "descendants", descendants)
    ranks.run(Run(number=7, launch=a_launch()))
    assert heard.ended.how == "done"
    assert not asked


def wait_until_idle(process: psutil.Process) -> None:
    """Until it computes nothing for a while: it waits for somebody."""
    end = time.monotonic() + 30
    before = None
    while before != (before := sum(process.cpu_times()[:2])):
        assert time.monotonic() < end, "it goes on computing"
        time.sleep(0.3)


def test_a_stopped_rank_is_seen_and_the_other_tells_where_it_waits(ranks: Ranks, heard: Heard) -> None:
    launch = endless()
    ranks.run(Run(launch=launch))
    heard.wait_for_windows()
    waiting, stopping = ranks_of(launch)
    stopping.suspend()
    wait_until_idle(waiting)  # until then it may be between two operations
    ranks.stop(Stop(number=9, launch=launch.id))
    ended = heard.ended
    assert (ended.how, ended.number) == ("stopped", 9)
    waits, stopped = ended.ranks
    processes = seen(ended)
    assert processes[stopped.pid].state == "T" and stopped.ended == ""
    assert processes[waits.pid].state in "SR" and waits.phase == LONG_PHASE
    place = place_of(main_thread(processes[waits.pid].samples[-1], waits.pid))
    # each window begins with a barrier: it waits there where the other was stopped on its way to that
    assert place.kind == "collective" and place.operation in ("all_reduce", "barrier"), processes[waits.pid]
    assert any(process.process.command[2:4] == ("-m", "torch.distributed.run") for process in processes.values())
    assert not of_launch(launch)


def test_a_killed_rank_is_told_from_those_that_it_took_along(ranks: Ranks, heard: Heard) -> None:
    launch = endless()
    ranks.run(Run(launch=launch))
    heard.wait_for_windows()
    ranks_of(launch)[1].kill()
    ended = heard.ended
    assert ended.how == "failed"
    assert (ended.ranks[1].ended, ended.ranks[1].status) == ("signal", signal.SIGKILL)
    assert ended.ranks[0].ended in ("exit", ""), "it complains, or torchrun has ended it: no signal of its own"
    killed = seen(ended)[ended.ranks[1].pid]
    assert (killed.state, killed.process.exit_code, killed.oom_kills) == ("X", signal.SIGKILL, 0)
    assert not of_launch(launch)


def test_a_crash_leaves_its_stack(ranks: Ranks, heard: Heard) -> None:
    launch = endless()
    ranks.run(Run(launch=launch))
    heard.wait_for_windows()
    ranks_of(launch)[0].send_signal(signal.SIGSEGV)
    crashed = heard.ended.ranks[0]
    assert (crashed.ended, crashed.status) == ("signal", signal.SIGSEGV)
    main = main_thread(seen(heard.ended)[crashed.pid].samples[-1], crashed.pid)
    assert main is not None and any("collective" in frame.file for frame in main.frames)


def test_a_killed_torchrun_takes_its_ranks_along(ranks: Ranks, heard: Heard) -> None:
    launch = endless()
    ranks.run(Run(launch=launch))
    heard.wait_for_windows()
    torchrun_of(launch).kill()
    ended = heard.ended
    assert (ended.how, ended.error) == ("failed", "torchrun was ended by SIGKILL")
    assert not of_launch(launch)


def test_a_stopped_torchrun_is_seen_and_ended(ranks: Ranks, heard: Heard) -> None:
    launch = endless()
    ranks.run(Run(launch=launch))
    heard.wait_for_windows()
    torchrun = torchrun_of(launch)
    torchrun.suspend()
    ranks_of(launch)[1].kill()
    ended = heard.ended  # without any order: torchrun cannot tell that its rank is dead, the agent can
    assert ended.how == "failed"
    assert seen(ended)[torchrun.pid].state == "T"
    assert (ended.ranks[1].ended, ended.ranks[1].status) == ("signal", signal.SIGKILL), "the zombie tells"
    assert not of_launch(launch)


def test_the_first_word_of_torchrun_tells_of_a_busy_port(ranks: Ranks, heard: Heard) -> None:
    with socket.socket() as busy:
        busy.bind(("", 0))
        busy.listen()
        launch = a_launch(master_port=busy.getsockname()[1])
        ranks.run(Run(launch=launch))
        ended = heard.ended
    assert (ended.how, ended.ranks) == ("failed", ())
    assert "EADDRINUSE" in ended.error and f"port: {launch.master_port}" in ended.error


def test_an_exception_is_told_at_once_and_in_the_end(ranks: Ranks, heard: Heard) -> None:
    ranks.run(Run(launch=a_launch(environment={"GLOO_SOCKET_IFNAME": "eth9"})))
    ended = heard.ended
    assert ended.how == "failed" and ended.error == ""
    assert any(state.ended == "exit" and "Unable to find address for: eth9" in state.error for state in ended.ranks)
    assert any(isinstance(message, Failed) and message.phase == "rendezvous" for message in heard.messages)


def test_an_interpreter_without_torch(ranks: Ranks, heard: Heard) -> None:
    ranks.run(Run(launch=a_launch(), python="/usr/bin/env"))
    assert heard.ended.how == "failed"
    assert "under_doctor.py" in heard.ended.error


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (Run(launch=a_launch(), python="/nowhere/python"), "No such file"),
        (Run(launch=a_launch(nodes=(1,))), "has no ranks on node 0"),
        (Run(launch=a_launch(environment={"LD_PRELOAD": "/tmp/x.so"})), "LD_PRELOAD may not be set"),
        (Run(launch=a_launch(environment={"NCCL_DEBUG": "a\0b"})), "null character"),
    ],
)
def test_what_cannot_be_started_is_said(ranks: Ranks, heard: Heard, order: Run, words: str) -> None:
    ranks.run(order)
    assert heard.ended.how == "not started" and words in heard.ended.error


def test_the_same_launch_is_not_started_twice(ranks: Ranks, heard: Heard) -> None:
    launch = endless()
    ranks.run(Run(number=1, launch=launch))
    ranks.run(Run(number=2, launch=launch))
    assert (heard.ended.number, heard.ended.how) == (2, "not started")


def test_an_order_to_stop_what_was_never_started_is_answered(ranks: Ranks, heard: Heard) -> None:
    ranks.stop(Stop(number=4, launch="unknown"))
    assert (heard.ended.number, heard.ended.how) == (4, "not started")


def test_end_all_leaves_nothing(ranks: Ranks, heard: Heard) -> None:
    launch = endless()
    ranks.run(Run(launch=launch))
    heard.wait(lambda: bool(heard.messages))
    ranks.end_all()
    assert not of_launch(launch)
    assert heard.ended.how == "stopped"


AGENT = """
import sys
from gpudoctor.fleet.messages import order_from
from gpudoctor.fleet.ranks import Ranks
def send(reply):
    print(type(reply).__name__, flush=True)
ranks = Ranks(0, send)
ranks.run(order_from(sys.stdin.buffer.readline()))
sys.stdin.buffer.read()
"""


def test_nothing_is_left_of_an_agent_that_is_killed() -> None:
    launch = endless()
    agent = subprocess.Popen([sys.executable, "-c", AGENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None and agent.stdout is not None
    with agent:
        agent.stdin.write(msgspec.json.encode(Run(launch=launch)) + b"\n")
        agent.stdin.flush()
        assert agent.stdout.readline() == b"Said\n"
        assert len(of_launch(launch)) >= 2
        agent.kill()
    wait_until_gone(launch)


def test_an_outer_launcher_leaves_no_trace(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PET_NNODES": "5",
        "RANK": "3",
        "TORCHELASTIC_ERROR_FILE": "/nowhere/x",
        "LOGLEVEL": "50",
    }.items():
        monkeypatch.setenv(name, value)
    ranks = Ranks(0, heard)
    ranks.run(Run(launch=a_launch()))
    assert heard.ended.how == "done"


def test_no_descriptor_is_left(ranks: Ranks, heard: Heard) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    ranks.run(Run(launch=a_launch()))
    assert heard.ended.how == "done"
    deadline = time.monotonic() + 10
    while len(list(Path("/proc/self/fd").iterdir())) > before:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def begun(pid: int) -> bytes:
    return b'@gpudoctor {"type": "begun", "rank": 0, "local_rank": 0, "world_size": 1, "pid": %d}' % pid


def test_only_what_the_agent_has_started_is_taken_for_a_rank() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        own, foreign = Followed(lambda rank, message: None), Followed(lambda rank, message: None)
        own.hear(begun(child.pid))
        foreign.hear(begun(os.getppid()))
        assert [process.pid for process in own.processes()] == [child.pid]
        assert foreign.processes() == () and len(foreign.all()) == 1
    finally:
        child.kill()
        child.wait()


@given(
    st.binary() | st.text().map(str.encode) | st.sampled_from([b'{"type": "phase", "rank": 7, "phase": "x"}', b"[]"])
)
def test_no_line_of_a_rank_breaks_the_agent(line: bytes) -> None:
    said: list[int] = []
    followed = Followed(lambda rank, message: said.append(rank))
    followed.hear(line)
    followed.hear(b"@gpudoctor " + line)
    assert said == [], "neither a row nor a phase of a rank that has begun"
    followed.close()


def test_a_number_that_somebody_else_has_now_is_not_killed() -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        seen = processes.look(stranger.pid)
        assert seen is not None
        former = seen._replace(start_ticks=seen.start_ticks - 1)
        assert processes.end([former], patience=0.5) == ()
        assert stranger.poll() is None
        assert processes.end([seen], patience=30) == ()
        assert stranger.wait(30) == -signal.SIGKILL
    finally:
        stranger.kill()
        stranger.wait()
