"""The agent and its head on one machine: fleet/{agent,local,reach,fleet,facts,lines,messages}.py."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor import __version__, snapshot
from gpudoctor.active import own_module
from gpudoctor.fleet import facts
from gpudoctor.fleet.agent import Agent, node_index, serve
from gpudoctor.fleet.fleet import Arrival, Fleet, Lost, Node
from gpudoctor.fleet.lines import ArrivingLines, TooLong
from gpudoctor.fleet.local import LocalFleet
from gpudoctor.fleet.messages import (
    Bye,
    Ended,
    Examine,
    Examined,
    Garbled,
    Hello,
    Listen,
    Listening,
    Order,
    OrderFailed,
    Ping,
    Pong,
    Reply,
    Unlisten,
    encode,
    order_from,
    reply_from,
)
from gpudoctor.fleet.reach import reach
from gpudoctor.marked import MARK
from gpudoctor.read.lookup import Lookup

PATIENCE = 120.0
"""Bound on every wait; nothing here takes a second on an idle machine."""


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "not so in time"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Ended, or a zombie that nobody has reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def fleet() -> Iterator[LocalFleet]:
    with LocalFleet(["a", "b"]) as agents:
        assert all(isinstance(hello, Hello) for hello in reach(agents, timeout=PATIENCE).values())
        yield agents


# ---------------------------------------------------------------- real agents


def test_agents_say_hello_and_answer(fleet: LocalFleet) -> None:
    answers = fleet.ask(Ping(), Pong, timeout=PATIENCE)
    assert list(answers) == [0, 1]
    assert all(isinstance(pong, Pong) for pong in answers.values())
    only = fleet.ask(Ping(to=(1,)), Pong, timeout=PATIENCE)
    assert list(only) == [1]


def test_a_brief_examination_is_a_snapshot_that_says_what_it_left_out(fleet: LocalFleet) -> None:
    names = ("localhost", "no-such-name.invalid", "a\0b")
    answers = fleet.ask(Examine(to=(0,), python=sys.executable, resolve=names), Examined, timeout=PATIENCE)
    answer = answers[0]
    assert isinstance(answer, Examined)
    assert answer.interpreter == sys.executable
    assert answer.resolved["localhost"]
    assert answer.resolved["no-such-name.invalid"] == answer.resolved["a\0b"] == ()
    seen = snapshot.from_json(bytes(answer.snapshot))
    assert seen.host.hostname.value
    assert seen.host.hostname_addresses.is_read
    assert seen.network.interfaces.is_read
    assert seen.training.torch_files.is_read
    assert seen.network.nccl_names.missing_kind != "not-asked"
    for left_out in (seen.host.kernel_log, seen.host.stuck_processes, seen.cuda.visible, seen.training.torch):
        assert left_out.missing_kind == "not-asked"


def test_a_whole_examination_imports_torch(fleet: LocalFleet) -> None:
    order = Examine(to=(1,), brief=False, torch=True, python=sys.executable, timeout=60.0)
    answer = fleet.ask(order, Examined, timeout=90.0)[1]
    assert isinstance(answer, Examined)
    seen = snapshot.from_json(bytes(answer.snapshot))
    assert seen.training.torch.is_read
    assert seen.host.stuck_processes.is_read


def test_an_interpreter_that_is_not_there_is_the_nodes_own_choice(fleet: LocalFleet) -> None:
    answer = fleet.ask(Examine(to=(0,), python="/no/such/python"), Examined, timeout=PATIENCE)[0]
    assert isinstance(answer, Examined)
    assert answer.interpreter not in ("", "/no/such/python")


def test_ports_open_and_close(fleet: LocalFleet) -> None:
    answers = fleet.ask(Listen(secret="s" * 32), Listening, timeout=PATIENCE)
    assert all(isinstance(answer, Listening) and answer.ephemeral for answer in answers.values())
    fleet.send(Unlisten())
    assert all(isinstance(pong, Pong) for pong in fleet.ask(Ping(), Pong, timeout=PATIENCE).values())


def test_agents_end_with_close(fleet: LocalFleet) -> None:
    pids = [fleet.pid(0), fleet.pid(1)]
    fleet.close()
    assert all(is_gone(pid) for pid in pids)
    fleet.close()  # a second time is nothing


def test_a_frozen_agent_is_killed(fleet: LocalFleet) -> None:
    pid = fleet.pid(0)
    os.kill(pid, signal.SIGSTOP)
    fleet.write(encode(Ping()) * 20000)  # more than a pipe holds: the head must not block on it
    fleet.close()
    assert is_gone(pid)


def test_an_agent_that_dies_is_lost_and_the_others_answer(fleet: LocalFleet) -> None:
    os.kill(fleet.pid(0), signal.SIGKILL)
    answers = fleet.ask(Ping(), Pong, timeout=PATIENCE)
    if isinstance(answers[0], Pong):  # it was faster than the signal
        answers = fleet.ask(Ping(), Pong, timeout=PATIENCE)
    assert answers[0] == Lost("gpudoctor failed", "killed by signal 9")
    assert isinstance(answers[1], Pong)
    assert fleet.present == (1,)
    again = fleet.ask(Ping(), Pong, timeout=PATIENCE)
    assert again[0] == answers[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_agent_ends_by_a_signal(fleet: LocalFleet, number: signal.Signals) -> None:
    os.kill(fleet.pid(1), number)
    wait_until(lambda: fleet.next_event(0.05) is not None)
    assert fleet.lost[1].kind == "gpudoctor failed"
    assert f"exit status {128 + number}" in fleet.lost[1].detail


HEAD = """
import os, sys
from gpudoctor.fleet.local import LocalFleet
from gpudoctor.fleet.messages import Examine
from gpudoctor.fleet.reach import reach
fleet = LocalFleet(["a", "b"])
reach(fleet, timeout=30)
fleet.send(Examine(brief=False, torch=True, timeout=60))
print(fleet.pid(0), fleet.pid(1), flush=True)
sys.stdin.read()
"""


def descendants(pid: int) -> set[int]:
    children = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                children.add(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return children | {grandchild for child in children for grandchild in descendants(child)}


def test_nothing_survives_the_death_of_the_head() -> None:
    head = subprocess.Popen([sys.executable, "-c", HEAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with head:
        assert head.stdout is not None
        pids = [int(word) for word in head.stdout.readline().split()]
        assert len(pids) == 2
        wait_until(lambda: all(descendants(pid) for pid in pids))  # the children of the examination
        everybody = descendants(head.pid)
        assert everybody >= set(pids)
        head.kill()
    wait_until(lambda: all(is_gone(pid) for pid in everybody))


def talk(lines: bytes) -> tuple[int, list[bytes], str]:
    """An agent that is given these lines and then the end; its status, its lines, its standard error."""
    done = subprocess.run(
        own_module("gpudoctor.fleet.agent", "--node", "3"), input=lines, capture_output=True, timeout=PATIENCE
    )
    return done.returncode, done.stdout.split(b"\n"), done.stderr.decode()


def test_an_agent_ends_with_its_input_and_begins_on_a_line_of_its_own() -> None:
    status, lines, errors = talk(b"")
    assert (status, errors) == (0, "")
    assert lines[0] == b""
    hello = reply_from(lines[1])
    assert isinstance(hello, Hello)
    assert (hello.node, hello.gpudoctor) == (3, __version__)


def test_garbage_does_not_end_an_agent() -> None:
    garbage = b'\x00\xff\n{}\n[]\n{"type":"Nope"}\n{"type":"Ping","number":"x"}\n' + b"[" * 100000 + b"\n"
    status, lines, errors = talk(garbage + encode(Ping(number=7)))
    said = [reply_from(line) for line in lines if line]
    assert (status, errors) == (0, "")
    assert [type(reply) for reply in said] == [Hello, *[OrderFailed] * 6, Pong]
    assert said[-1].number == 7


def test_the_hidden_command_is_the_same_agent() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "agent", "--node", "2"], input=b"", capture_output=True, timeout=PATIENCE
    )
    hello = reply_from(done.stdout.split(b"\n")[1])
    assert isinstance(hello, Hello)
    assert hello.node == 2
    shown = subprocess.run([sys.executable, "-m", "gpudoctor", "--help"], capture_output=True, timeout=PATIENCE)
    assert b"agent" not in shown.stdout


def test_which_node_an_agent_is() -> None:
    assert node_index(4, {"SLURM_PROCID": "2"}) == 4
    assert node_index(None, {"SLURM_PROCID": "2"}) == 2
    assert node_index(None, {"SLURM_PROCID": "x"}) == node_index(None, {}) == 0


# ---------------------------------------------------------------- serve, in this process


def served(orders: list[Order | bytes], **options: Any) -> tuple[int, list[Reply]]:
    """An agent in this thread, given these orders and no end of them."""
    said: list[bytes] = []
    more: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    for order in orders:
        more.put(order if isinstance(order, bytes) else encode(order))

    def lines() -> Iterator[bytes]:
        while (line := more.get()) is not None:
            yield line

    try:
        status = serve(0, lines(), said.append, **options)
    finally:
        more.put(None)
    return status, [reply_from(line) for line in said]


def test_silence_of_the_head_ends_an_agent() -> None:
    status, said = served([], silence=0.05)
    assert status == 1
    assert [type(reply) for reply in said] == [Hello]


def test_orders_for_others_are_not_obeyed() -> None:
    status, said = served([Ping(number=1, to=(1,)), Ping(number=2, to=(0, 1)), Bye(to=(5,))])
    assert (status, [reply.number for reply in said]) == (0, [0, 2])


def test_an_order_that_fails_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(order: Examine) -> Callable[[], Examined]:
        if order.python:
            raise OSError("no memory")

        def finish() -> Examined:
            raise ValueError("not so")

        return finish

    monkeypatch.setattr(facts, "begin", begin)
    answered = threading.Event()
    said: list[Reply] = []

    def write(line: bytes) -> None:
        said.append(reply_from(line))
        if len(said) == 3:
            answered.set()

    def lines() -> Iterator[bytes]:
        yield encode(Examine(number=1, python="x"))
        yield encode(Examine(number=2))
        assert answered.wait(PATIENCE)

    assert serve(0, lines(), write) == 0
    assert [reply.number for reply in said] == [0, 1, 2]
    errors = [reply.error for reply in said if isinstance(reply, OrderFailed)]
    assert errors == ["Examine: OSError: no memory", "Examine: ValueError: not so"]


def test_a_connection_that_breaks_ends_an_agent() -> None:
    def broken(line: bytes) -> None:
        raise BrokenPipeError

    def lines() -> Iterator[bytes]:
        yield encode(Ping())
        threading.Event().wait(PATIENCE)

    assert serve(0, lines(), broken) == 0


# ---------------------------------------------------------------- the examination's parts


def test_nvml_is_not_asked_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpudoctor.read import driver_traces, nvidia

    assert nvidia.assemble(facts.no_nvml()).init_code.value == 12
    monkeypatch.setattr(driver_traces, "DRIVER_TRACES", ("/proc/self/stat",))
    assert driver_traces.may_have_nvml()


@pytest.mark.thorough
def test_a_python_that_cannot_be_run_does_not_cost_the_examination(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    seen = snapshot.from_json(bytes(facts.begin(Examine(python=str(broken)))().snapshot))
    assert seen.host.hostname.is_read
    assert not seen.training.torch_files.is_read
    assert "No such file" in str(seen.training.torch_files.missing)


def test_a_name_server_that_never_answers_costs_its_names_only(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def resolve(name: str, *rest: object, **options: object) -> list[tuple[object, ...]]:
        if name == "slow":
            release.wait(PATIENCE)
        return [(0, 0, 0, "", ("10.0.0.1", 0)), (0, 0, 0, "", ("10.0.0.1", 0))]

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    lookup = Lookup(("a", "slow", "a", "b"), 0.3)
    try:
        assert lookup.answers() == {"a": ("10.0.0.1",), "b": ("10.0.0.1",)}
    finally:
        release.set()


# ---------------------------------------------------------------- the head's side, without agents


class Told(Fleet):
    """A fleet whose agents are these tests."""

    def __init__(self, count: int) -> None:
        super().__init__([Node(f"n{index}") for index in range(count)])
        self.written: list[Order] = []
        self.on_order: Callable[[Order], None] = lambda order: None

    def write(self, line: bytes) -> None:
        order = order_from(line)
        self.written.append(order)
        self.on_order(order)

    def close(self) -> None:
        pass


def test_reach_takes_each_node_for_what_it_said() -> None:
    fleet = Told(6)
    fleet.heard(0, encode(Hello(node=0, hostname="n0", gpudoctor=__version__)))
    fleet.heard(1, encode(Hello(node=1, hostname="n1", gpudoctor="0.0.1")))
    fleet.heard(2, encode(Hello(node=2, hostname="n2", gpudoctor=__version__, protocol=99)))
    fleet.connection_over(3, Lost("refused", "Connection refused"))
    fleet.heard(4, MARK + b'{"type":"Nope"}')
    assert not fleet.heard(5, b"Welcome to n5")
    changes: list[int] = []
    found = reach(fleet, timeout=0.3, on_change=lambda known: changes.append(len(known)))
    assert isinstance(found[0], Hello)
    kinds = [found[node].kind for node in range(1, 6) if isinstance(found[node], Lost)]  # type: ignore[union-attr]
    assert kinds == ["other version", "other version", "refused", "gpudoctor failed", "no answer"]
    assert found[1] == Lost("other version", f"gpudoctor 0.0.1 there, {__version__} here")
    assert fleet.present == (0,)
    assert changes[-1] == 5
    assert changes == sorted(changes)


def test_who_is_only_asked_may_be_of_another_version_and_is_named() -> None:
    fleet = Told(3)
    fleet.heard(0, encode(Hello(node=0, hostname="n0", gpudoctor=__version__)))
    fleet.heard(1, encode(Hello(node=1, hostname="n1", gpudoctor="0.0.1")))
    fleet.heard(2, encode(Hello(node=2, hostname="n2", gpudoctor="0.0.1", protocol=99)))
    reach(fleet, timeout=0.3, only_asks=True)
    assert fleet.present == (0, 1) and fleet.other_versions[1] == "0.0.1"
    assert fleet.lost[2].kind == "other version"


def test_ask_takes_only_the_answer_to_its_own_order() -> None:
    fleet = Told(3)

    def answer(order: Order) -> None:
        fleet.heard(0, encode(Pong(number=order.number - 1, time=1.0)))  # late, to the order before
        fleet.heard(0, encode(Ended(number=order.number, launch="x", how="done")))  # of another kind
        fleet.heard(0, encode(Pong(number=order.number, time=2.0)))
        fleet.heard(1, encode(OrderFailed(number=order.number, error="cannot")))

    fleet.on_order = answer
    found = fleet.ask(Ping(), Pong, timeout=0.3)
    assert found == {
        0: Pong(number=1, time=2.0),
        1: Lost("gpudoctor failed", "cannot"),
        2: Lost("no answer", "within 0.3 s"),
    }
    assert fleet.lost == {}


def test_a_waiting_head_pings_and_hears_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.fleet.fleet.PING_SECONDS", 0.02)
    fleet = Told(1)
    fleet.on_order = lambda order: fleet.arrived.put(Arrival(0, Pong(number=order.number, time=0.0)))
    wait_until(lambda: fleet.next_event(0.05) is None and len(fleet.written) >= 2)
    assert all(isinstance(order, Ping) for order in fleet.written)


def test_of_a_lost_node_nothing_more_is_told() -> None:
    fleet = Told(1)
    fleet.connection_over(0, Lost("connection lost", "first"))
    fleet.connection_over(0, Lost("gpudoctor failed", "second"))
    fleet.heard(0, encode(Pong(time=0.0)))
    assert fleet.next_event(0.0) == Arrival(0, Lost("connection lost", "first"))
    assert fleet.next_event(0.0) is None


def test_whom_a_question_waits_for_is_told() -> None:
    fleet = Told(3)
    fleet.on_order = lambda order: fleet.arrived.put(Arrival(1, Pong(number=order.number, time=0.0)))
    told: list[Sequence[str]] = []
    until = time.monotonic() + 0.5
    fleet.ask(Ping(), Pong, timeout=0.5, of=(0, 1), waiting=told.append)
    assert list(told[0]) == [fleet.name(0), fleet.name(1)]
    assert list(told[-1]) == [fleet.name(0)]
    assert len(told) <= 4  # not once an event
    assert all(until <= getattr(names, "until", 0.0) <= until + 0.5 for names in told)  # and for how long


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=60), st.booleans()), max_size=20))
@settings(deadline=None)
def test_whatever_arrives_the_head_stays(said: list[tuple[int, bytes, bool]]) -> None:
    fleet = Told(3)
    for node, line, marked in said:
        fleet.heard(node, MARK + line if marked else line)
    found = reach(fleet, timeout=0.0)
    assert list(found) == [0, 1, 2]
    assert all(isinstance(lost, Lost) for lost in found.values())


# ---------------------------------------------------------------- parsers


@given(st.binary(max_size=300))
def test_any_line_is_a_message_or_garbled(line: bytes) -> None:
    for decode in (order_from, reply_from, lambda line: reply_from(MARK + line)):
        try:
            decode(line)
        except Garbled as error:
            assert str(error)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5))
def test_any_json_is_a_message_or_garbled(value: object) -> None:
    for kind in ("Ping", "Examine", "Run", "Hello", "Ended", "Reach"):
        line = msgspec.json.encode({"type": kind, "number": value, "to": value, "launch": value, "targets": value})
        for decode in (order_from, lambda line: reply_from(MARK + line)):
            try:
                decode(line)
            except Garbled as error:
                assert str(error)


@given(st.lists(st.binary(max_size=20)), st.integers(1, 30))
@settings(deadline=None)
def test_lines_are_the_same_however_they_arrive(parts: list[bytes], size: int) -> None:
    stream = b"\n".join(parts)
    lines = ArrivingLines()
    found = [line for start in range(0, len(stream), size) for line in lines.feed(stream[start : start + size])]
    assert [*found, lines.rest] == stream.split(b"\n")


def test_a_line_without_end_is_bounded() -> None:
    lines = ArrivingLines(maximum=10)
    assert lines.feed(b"0123456789\n") == [b"0123456789"]
    with pytest.raises(TooLong):
        for _ in range(3):
            lines.feed(b"01234")


def test_a_reply_is_found_behind_a_banner_without_an_end() -> None:
    assert reply_from(b"Last login: today " + encode(Pong(number=3, time=0.5))) == Pong(number=3, time=0.5)


def test_a_signal_does_not_cut_the_clearing_up_short() -> None:
    """Slurm's own SIGTERM comes while the agent is ending its ranks."""
    ended: list[str] = []

    class Ranks:
        def end_all(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            ended.append("ranks")

    class Ports:
        def close(self) -> None:
            ended.append("ports")

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    agent = Agent(0, lambda line: None)
    agent._ranks, agent._ports = Ranks(), Ports()  # type: ignore[assignment]
    before = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            agent.end()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == ["ranks", "ports"]
