"""Launches as the head sees them: a scripted fleet for what may arrive, and agents on this machine for the truth."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gpudoctor.fleet.fleet import Arrival, Fleet, Lost, Node
from gpudoctor.fleet.local import LocalFleet
from gpudoctor.fleet.messages import (
    AnyOrder,
    AnyReply,
    Ended,
    Launch,
    Measurement,
    OrderFailed,
    Ping,
    RankState,
    Run,
    Said,
    Stop,
    order_from,
)
from gpudoctor.fleet.reach import reach
from gpudoctor.nccl import run as run_module
from gpudoctor.nccl.flood import PER_MEASUREMENT, flood_finding
from gpudoctor.nccl.rank_messages import AnyRankMessage, Failed, Member, Phase, Row, Skipped
from gpudoctor.nccl.run import RunInterrupted, run_launches
from gpudoctor.nccl.stopped import why_stopped
from tests.test_fleet_ranks import LONG_PHASE, a_launch, endless, ranks_of, torchrun_of, wait_until_gone

pytestmark = pytest.mark.usefixtures("forks")


class Script(Fleet):
    """A fleet whose agents do what `obey(fleet, order)` says."""

    def __init__(self, count: int, obey: "Callable[[Script, AnyOrder], None]") -> None:
        super().__init__([Node(f"n{number:02}") for number in range(1, count + 1)])
        self.orders: list[AnyOrder] = []
        self._obey = obey

    def write(self, line: bytes) -> None:
        order = order_from(line)
        if not isinstance(order, Ping):
            self.orders.append(order)
            self._obey(self, order)

    def close(self) -> None:
        pass

    def arrive(self, node: int, what: AnyReply | Lost) -> None:
        self.arrived.put(Arrival(node, what))

    def say(self, node: int, message: AnyRankMessage, launch: str = "1") -> None:
        self.arrive(node, Said(launch=launch, rank=0, message=msgspec.Raw(msgspec.json.encode(message))))


def launch(*nodes: int, id: str = "1") -> Launch:
    return a_launch(id=id, nodes=nodes, ranks_per_node=(1,) * len(nodes))


ROW = Row(
    collective="all_reduce",
    size_bytes=1024,
    count=256,
    dtype="float32",
    iterations=2,
    minimum_us=1.0,
    mean_us=1.0,
    maximum_us=1.0,
    slowest_rank=0,
    algorithm_bandwidth=1.0,
    bus_bandwidth=1.0,
)
MEMBER = Member(rank=0, world_size=2, host="n01", local_rank=0)


def state(rank: int, **fields: Any) -> RankState:
    return RankState(rank=rank, local_rank=0, pid=100 + rank, **fields)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter waits for what never comes: the tests look at what follows, not at how long it took."""
    monkeypatch.setattr(run_module, "OWN_STORY_SECONDS", 0.2)
    monkeypatch.setattr(run_module, "STOP_SECONDS", 0.5)


def test_what_is_said_is_handed_on_and_gathered() -> None:
    def obey(fleet: Script, order: AnyOrder) -> None:
        assert isinstance(order, Run)
        fleet.say(0, Phase(rank=0, phase="import torch"))
        fleet.say(1, Phase(rank=1, phase="rendezvous"))
        fleet.say(0, MEMBER)
        fleet.say(0, ROW)
        fleet.say(0, Skipped(collective="all_reduce", size_bytes=1 << 40, reason="too large"))
        for node in (1, 0):
            fleet.arrive(node, Ended(launch="1", how="done", ranks=(state(node, ended="done"),)))

    told: list[object] = []
    waited: list[int] = []
    (result,) = run_launches(
        Script(2, obey),
        [launch(0, 1)],
        pythons={},
        timeout=60,
        heard=lambda launch, message: told.append(message),
        waiting=lambda: waited.append(1),
    )
    skipped = Skipped(collective="all_reduce", size_bytes=1 << 40, reason="too large")
    assert told == [Phase(rank=0, phase="import torch"), MEMBER, ROW, skipped]
    assert (result.outcome, result.nodes) == ("complete", ("n01", "n02"))
    assert (result.rows, result.members) == ((ROW,), (MEMBER,))
    ends = [(end.node, end.how, end.ranks[0].rank) for end in result.ends]
    assert ends == [("n01", "done", 0), ("n02", "done", 1)]
    assert why_stopped(result, {}) == ()


def test_each_interpreter_gets_its_own_order_and_torch_a_later_timeout() -> None:
    def obey(fleet: Script, order: AnyOrder) -> None:
        for node in order.to:
            fleet.arrive(node, Ended(launch="1", how="done"))

    fleet = Script(3, obey)
    run_launches(fleet, [launch(0, 1, 2)], pythons={0: "/a/python", 2: "/a/python"}, timeout=20)
    orders = {order.python: order for order in fleet.orders if isinstance(order, Run)}
    assert {python: order.to for python, order in orders.items()} == {"/a/python": (0, 2), "": (1,)}
    assert {order.launch.timeout for order in orders.values()} == {30.0}


def test_without_progress_the_ranks_are_asked_where_they_are() -> None:
    def obey(fleet: Script, order: AnyOrder) -> None:
        if isinstance(order, Run):
            fleet.say(0, ROW)
        elif isinstance(order, Stop):
            assert order.evidence and set(order.to) == {0, 1}
            fleet.arrive(0, Ended(launch="1", how="stopped", ranks=(state(0, phase=LONG_PHASE),)))

    fleet = Script(2, obey)
    (result,) = run_launches(fleet, [launch(0, 1)], pythons={}, timeout=0.3)
    assert (result.outcome, result.rows) == ("stalled", (ROW,))
    assert [end.how for end in result.ends] == ["stopped", "lost"]
    assert result.ends[1].error.startswith("no answer: to the order to stop")


@pytest.mark.parametrize(
    ("what", "how", "error"),
    [
        (Lost("connection lost", "exit status 255"), "lost", "connection lost: exit status 255"),
        (
            Ended(launch="1", how="failed", error="torchrun was ended by SIGKILL"),
            "failed",
            "torchrun was ended by SIGKILL",
        ),
        (Ended(launch="1", how="not started", error="no torchrun"), "not started", "no torchrun"),
    ],
)
def test_the_end_of_one_node_ends_the_launch(what: AnyReply | Lost, how: str, error: str) -> None:
    def obey(fleet: Script, order: AnyOrder) -> None:
        if isinstance(order, Run):
            fleet.arrive(1, what)
        elif isinstance(order, Stop):
            assert order.to == (0,)
            fleet.arrive(0, Ended(launch="1", how="stopped"))

    (result,) = run_launches(Script(2, obey), [launch(0, 1)], pythons={}, timeout=60)
    assert result.outcome == "died"
    assert [end.how for end in result.ends] == ["stopped", how]
    assert result.ends[1].error == error


def test_a_rank_that_tells_its_failure_ends_the_launch_even_if_torchrun_waits() -> None:
    def obey(fleet: Script, order: AnyOrder) -> None:
        if isinstance(order, Run):
            fleet.say(0, Failed(rank=0, phase="rendezvous", error="RuntimeError: no"))
        elif isinstance(order, Stop):
            fleet.arrive(0, Ended(launch="1", how="stopped"))

    (result,) = run_launches(Script(1, obey), [launch(0)], pythons={}, timeout=60)
    assert result.outcome == "died"


def test_an_order_that_an_agent_could_not_obey() -> None:
    def obey(fleet: Script, order: AnyOrder) -> None:
        fleet.arrive(0, OrderFailed(number=order.number, error="Run: MemoryError"))

    (result,) = run_launches(Script(1, obey), [launch(0)], pythons={}, timeout=60)
    assert (result.outcome, result.ends[0].how, result.ends[0].error) == ("died", "not started", "Run: MemoryError")


def test_a_node_that_was_lost_before_is_not_waited_for() -> None:
    fleet = Script(1, lambda fleet, order: None)
    fleet.lost[0] = Lost("refused")
    (result,) = run_launches(fleet, [launch(0)], pythons={}, timeout=60)
    assert (result.outcome, result.ends[0].error, fleet.orders) == ("died", "refused", [])


def test_launches_beside_each_other_have_their_own_ends() -> None:
    def obey(fleet: Script, order: AnyOrder) -> None:
        if isinstance(order, Run):
            name, node = order.launch.id, order.launch.nodes[0]
            fleet.say(node, msgspec.structs.replace(ROW, size_bytes=int(name)), launch=name)
            fleet.arrive(node, Ended(launch=name, how="done" if name != "2" else "failed"))

    ids = ["1", "2", "3"]
    launches = [launch(node, id=id) for node, id in enumerate(ids)]
    results = run_launches(Script(3, obey), launches, pythons={}, timeout=60)
    assert [result.outcome for result in results] == ["complete", "died", "complete"]
    assert [result.rows[0].size_bytes for result in results] == [1, 2, 3]


def test_no_rank_fills_the_heads_memory() -> None:
    """More than the plan can give is dropped and said, and keeps no launch alive."""
    plan = launch(0)
    wanted = PER_MEASUREMENT * len(plan.measurements)

    def obey(fleet: Script, order: AnyOrder) -> None:
        for _ in range(wanted + 5):
            fleet.say(0, ROW)
            fleet.say(0, Skipped(collective="all_reduce", size_bytes=1, reason="too large"))
        for rank in range(-1, 3):
            fleet.say(0, msgspec.structs.replace(MEMBER, rank=rank))
        fleet.arrive(0, Ended(launch="1", how="done"))

    (result,) = run_launches(Script(1, obey), [plan], pythons={}, timeout=60)
    assert (len(result.rows), len(result.skipped), len(result.members)) == (wanted, wanted, 1)
    assert result.dropped == 5 + 5 + 3
    (finding,) = flood_finding(result)
    assert "13 lines more than the plan" in finding.problem.summary
    assert flood_finding(msgspec.structs.replace(result, dropped=0)) == ()


def test_garbage_and_strangers_are_passed_over() -> None:
    def obey(fleet: Script, order: AnyOrder) -> None:
        fleet.arrive(0, Said(launch="1", rank=0, message=msgspec.Raw(b'{"type": "row", "size_bytes": "many"}')))
        fleet.arrive(0, Said(launch="another", rank=0, message=msgspec.Raw(b"{}")))
        fleet.arrive(1, Ended(launch="1", how="failed"))  # a node that has no part in it
        fleet.arrive(1, Lost("connection lost"))
        fleet.arrive(0, Ended(launch="another", how="failed"))
        fleet.arrive(0, Ended(launch="1", how="done", evidence=msgspec.Raw(b'{"processes": 7}')))

    (result,) = run_launches(Script(2, obey), [launch(0)], pythons={}, timeout=60)
    assert result.outcome == "complete" and result.ends[0].evidence is None


def test_an_interruption_stops_the_ranks_and_keeps_the_rows() -> None:
    def obey(fleet: Script, order: AnyOrder) -> None:
        if isinstance(order, Run):
            fleet.say(0, ROW)
            fleet.say(0, MEMBER)
        elif isinstance(order, Stop):
            assert not order.evidence
            fleet.arrive(0, Ended(launch="1", how="stopped"))

    def interrupt(launch: Launch, message: AnyRankMessage) -> None:
        if isinstance(message, Member):
            raise KeyboardInterrupt

    fleet = Script(1, obey)
    with pytest.raises(RunInterrupted) as caught:
        run_launches(fleet, [launch(0)], pythons={}, timeout=60, heard=interrupt)
    (result,) = caught.value.results
    assert (result.outcome, result.rows) == ("interrupted", (ROW,))
    assert result.ends[0].how == "stopped"
    assert why_stopped(result, {}) == ()


def test_a_display_that_fails_stops_the_ranks() -> None:
    def obey(fleet: Script, order: AnyOrder) -> None:
        fleet.say(0, ROW)

    def broken(launch: Launch, message: AnyRankMessage) -> None:
        raise BrokenPipeError

    fleet = Script(1, obey)
    with pytest.raises(BrokenPipeError):
        run_launches(fleet, [launch(0)], pythons={}, timeout=60, heard=broken)
    assert isinstance(fleet.orders[-1], Stop)


# ---------------------------------------------------------------- agents on this machine

local = pytest.mark.skipif(sys.platform != "linux", reason="ranks are followed through /proc")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "OWN_STORY_SECONDS", 2.0)
    monkeypatch.setattr(run_module, "STOP_SECONDS", 30.0)


def once(action: Callable[[], object]) -> Callable[[Launch, AnyRankMessage], None]:
    """Do something when the ranks are in their measured windows."""
    seen: list[str] = []

    def heard(launch: Launch, message: AnyRankMessage) -> None:
        if isinstance(message, Phase) and message.phase == LONG_PHASE:
            seen.append(message.phase)
            if len(seen) == 2:
                action()

    return heard


@local
@pytest.mark.usefixtures("patient")
def test_a_run_on_two_nodes_of_this_machine() -> None:
    with LocalFleet(["n01", "n02"]) as fleet:
        reach(fleet, timeout=60)
        plan = a_launch(nodes=(0, 1), ranks_per_node=(2, 1), measurements=(Measurement("all_reduce", 1 << 16),))
        (result,) = run_launches(fleet, [plan], pythons={}, timeout=90)
    assert result.outcome == "complete", result
    assert [member.world_size for member in result.members] == [3, 3, 3]
    assert [state.ended for end in result.ends for state in end.ranks] == ["done"] * 3
    assert result.rows[0].wrong == 0


@local
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("break_it", "id", "words"),
    [
        (lambda plan: ranks_of(plan)[0].suspend(), "stopped-rank", "stopped (state T)"),
        (lambda plan: ranks_of(plan)[0].kill(), "rank-died", "killed by SIGKILL"),
        (lambda plan: torchrun_of(plan).kill(), "rank-died", "was ended by SIGKILL"),
    ],
)
def test_the_fault_is_named_and_nothing_is_left(break_it: Callable[[Launch], object], id: str, words: str) -> None:
    plan = endless(nodes=(0, 1), ranks_per_node=(1, 1))
    with LocalFleet(["n01", "n02"]) as fleet:
        reach(fleet, timeout=60)
        (result,) = run_launches(fleet, [plan], pythons={}, timeout=15, heard=once(lambda: break_it(plan)))
        assert result.outcome in ("stalled", "died")
        (finding,) = why_stopped(result, {})
        assert finding.id == id and words in finding.problem.summary, result
        wait_until_gone(plan)


@local
@pytest.mark.usefixtures("patient")
def test_an_agent_that_dies_in_the_middle_is_a_lost_node() -> None:
    plan = endless(nodes=(0, 1), ranks_per_node=(1, 1))
    with LocalFleet(["n01", "n02"]) as fleet:
        reach(fleet, timeout=60)
        kill = once(lambda: os.kill(fleet.pid(1), signal.SIGKILL))
        (result,) = run_launches(fleet, [plan], pythons={}, timeout=60, heard=kill)
        assert (result.outcome, result.ends[1].how) == ("died", "lost")
        (finding,) = why_stopped(result, {})
        assert (finding.id, finding.nodes) == ("node-lost", ("n02",))
        wait_until_gone(plan)


@local
@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("settings", "id"), [({"GLOO_SOCKET_IFNAME": "eth9"}, "wrong-nic")])
def test_a_wrong_setting_is_named(settings: dict[str, str], id: str) -> None:
    with LocalFleet(["n01"]) as fleet:
        reach(fleet, timeout=60)
        (result,) = run_launches(fleet, [a_launch(environment=settings)], pythons={}, timeout=60)
    (finding,) = why_stopped(result, {})
    assert finding.id == id and "eth9" in finding.problem.summary


@local
@pytest.mark.usefixtures("patient")
def test_an_interruption_on_this_machine_leaves_nothing() -> None:
    plan = endless()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with LocalFleet(["n01"]) as fleet:
        reach(fleet, timeout=60)
        with pytest.raises(RunInterrupted) as caught:
            run_launches(fleet, [plan], pythons={}, timeout=60, heard=once(interrupt))
        assert caught.value.results[0].members[0].world_size == 2
        wait_until_gone(plan)
