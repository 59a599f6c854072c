"""An agent under attack: orders on its standard input, and the head of a join test that wants more than a test."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpudoctor.fleet import orders
from gpudoctor.fleet.agent import MOST_AT_WORK, Agent, serve
from gpudoctor.fleet.followed import MOST_RANKS, Followed
from gpudoctor.fleet.lines import TooLong, lines_of
from gpudoctor.fleet.messages import (
    AnyOrder,
    Ended,
    Examine,
    Examined,
    FindRanks,
    Launch,
    Listen,
    LookAt,
    Measurement,
    OrderFailed,
    Ping,
    Pong,
    Reach,
    Reached,
    Reply,
    Run,
    Target,
    encode,
    reply_from,
)
from gpudoctor.fleet.orders import NotAllowed
from gpudoctor.fleet.torchrun import environment
from gpudoctor.fleet.touch import touch
from gpudoctor.marked import MARK
from gpudoctor.read import lookup
from gpudoctor.read.job.wanted import Wanted
from gpudoctor.read.process import look
from tests.attacks.registry import attack, attacks

LINE = "agent: a line of its standard input"
ORDER = "agent: an order"
JOINED = "join: the head's order to a node that joined"


def served(*lines: bytes, is_guest: bool = False, until: type[Reply] = Pong) -> list[Reply]:
    """What an agent in this thread replies to these lines, until it has answered a ping after them.

    What it does beside reading, it may answer later than the ping: `until` is waited for too.
    """
    over = threading.Event()
    replies: list[Reply] = []

    def write(line: bytes) -> None:
        reply = reply_from(line)
        replies.append(reply)
        if any(isinstance(each, Pong) for each in replies) and any(isinstance(each, until) for each in replies):
            over.set()

    def coming() -> Iterator[bytes]:
        yield from lines
        yield encode(Ping(number=99))
        over.wait(60)

    assert serve(0, coming(), write, silence=60, is_guest=is_guest) == 0
    assert over.is_set()
    return [each for each in replies[1:] if each.number != 99]  # without Hello and the Pong


def a_launch(**changes: Any) -> Launch:
    plain = Launch(
        id="1",
        nodes=(0,),
        ranks_per_node=(1,),
        master_address="127.0.0.1",
        master_port=29500,
        backend="gloo",
        device="cpu",
        measurements=(Measurement("all_reduce", 8),),
    )
    return msgspec.structs.replace(plain, **changes)


@attacks(
    "channels",
    "line",
    ("JSON deeper than the stack", b'{"type":"Examine","resolve":' + b"[" * 100_000),
    ("a number of a million digits", b'{"type":"Ping","number":' + b"9" * 1_000_000 + b"}"),
    ("text that is no UTF-8", b'{"type":"Examine","python":"\xff\xfe"}'),
    ("binary noise", bytes(range(256)) * 16),
    ("an order that there is not", b'{"type":"Execute","command":"id"}'),
    ("a field of another type", b'{"type":"Run","launch":{"id":["a"]},"python":7}'),
    ("a number that is not finite", b'{"type":"Examine","timeout":1e999}'),
    ("a reply instead of an order", MARK + b'{"type":"Pong","time":1}'),
    way=LINE,
)
def test_a_line_that_is_no_order_is_refused_and_the_agent_stays(line: bytes) -> None:
    (reply,) = served(line)
    assert isinstance(reply, OrderFailed) and reply.error.isprintable() and len(reply.error) < 1000


@attack("channels", way=LINE, weakness="a line without an end fills its memory")
def test_a_line_without_an_end_ends_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.fleet.lines.ArrivingLines.__init__.__defaults__", (1 << 16,))
    read, write = os.pipe()
    flood = threading.Thread(target=_flood, args=(write,))
    flood.start()
    try:
        with pytest.raises(TooLong):
            list(lines_of(read))
    finally:
        os.close(read)
        flood.join()


def _flood(descriptor: int) -> None:
    try:
        for _ in range(1000):
            os.write(descriptor, b"x" * 4096)
    except OSError:
        pass
    finally:
        os.close(descriptor)


@attack("channels", way=LINE, weakness="its last order is cut in the middle and obeyed in part")
def test_half_an_order_is_none() -> None:
    read, write = os.pipe()
    os.write(write, encode(Ping(number=1)) + encode(Ping(number=2)).rstrip(b"\n"))
    os.close(write)
    try:
        assert [msgspec.json.decode(line)["number"] for line in lines_of(read)] == [1]
    finally:
        os.close(read)


@attacks(
    "channels",
    "order, part",
    ("a million ranks on a node", Run(launch=a_launch(ranks_per_node=(10**6,))), "ranks_per_node"),
    ("fewer than no ranks", Run(launch=a_launch(ranks_per_node=(-1,))), "ranks_per_node"),
    ("nodes and ranks that do not fit", Run(launch=a_launch(ranks_per_node=(1, 1))), "ranks_per_node"),
    ("a master that is an option", Run(launch=a_launch(master_address="--rdzv_backend=x")), "master_address"),
    ("an id with a second option", Run(launch=a_launch(id="1 --no-python")), "id"),
    ("a port that is none", Run(launch=a_launch(master_port=70_000)), "master_port"),
    ("a size beyond all memory", Run(launch=a_launch(measurements=(Measurement("x", 1 << 60),))), "size"),
    ("an interpreter with a null in it", Run(launch=a_launch(), python="/x\0y"), "python"),
    ("LD_PRELOAD for the ranks", Run(launch=a_launch(environment={"LD_PRELOAD": "/x.so"})), "LD_PRELOAD"),
    ("PYTHONPATH for the ranks", Run(launch=a_launch(environment={"PYTHONPATH": "/x"})), "PYTHONPATH"),
    ("PATH for the ranks", Run(launch=a_launch(environment={"PATH": "/x"})), "PATH"),
    (
        "a variable whose name holds another",
        Run(launch=a_launch(environment={"NCCL_A=1\nLD_PRELOAD": "/x"})),
        "LD_PRELOAD",
    ),
    ("a listener on a port below zero", Listen(port=-1, port_on=(0,)), "port"),
    ("a wait of a million years", Examine(timeout=1e14), "timeout"),
    ("a million files to look at", Examine(files=("/x",) * 10**6), "files"),
    ("a look that never ends", LookAt(wanted=Wanted(seconds=1e9)), "seconds"),
    way=ORDER,
)
def test_an_order_beyond_reason_is_refused(order: AnyOrder, part: str) -> None:
    with pytest.raises(NotAllowed, match=part):
        orders.check(order)
    (reply,) = served(encode(order))
    assert isinstance(reply, OrderFailed) and part in reply.error


def test_what_a_head_does_order_is_allowed() -> None:
    plain = a_launch(environment={"NCCL_DEBUG": "INFO", "NCCL_IB_HCA": "=mlx5_0:1"}, id="0f-a.b_c:1")
    for order in (Run(launch=plain, python="/opt/a b/python"), Listen(port=29500), Examine(files=("/x", "torchrun"))):
        orders.check(order)
        assert orders.of_a_guest(Run(launch=plain, python=sys.executable), {}) == Run(
            launch=plain, python=sys.executable
        )


def test_a_variable_that_may_not_be_set_is_refused_where_it_would_be_set() -> None:
    with pytest.raises(ValueError, match="LD_PRELOAD"):
        environment(a_launch(environment={"LD_PRELOAD": "/x.so"}), {})


@attack("channels", way=ORDER, weakness="thousands at a time, each with a thread")
def test_orders_at_work_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    monkeypatch.setattr(Agent, "_begin", lambda agent, order: lambda: Pong(time=float(free.wait(60))))
    replies: list[Reply] = []
    agent = Agent(0, lambda line: replies.append(reply_from(line)))
    before = threading.active_count()
    for number in range(500):
        agent._obey(Listen(number=number))
    assert threading.active_count() - before <= MOST_AT_WORK
    free.set()
    agent.end()
    assert sum(isinstance(reply, OrderFailed) for reply in replies) == 500 - MOST_AT_WORK


@attack("channels", way=LINE, weakness="orders come faster than they are obeyed, and fill its memory")
def test_an_agent_reads_no_further_than_it_works() -> None:
    agent = Agent(0, lambda line: None)
    taken = []

    def endless() -> Iterator[bytes]:
        for number in range(1000):
            taken.append(number)
            yield encode(Ping(number=number))

    reading = threading.Thread(target=agent.listen, args=(endless(),), daemon=True)
    reading.start()
    reading.join(0.5)
    assert len(taken) < 50
    assert agent.work(60) == 0  # and it reads on when it works
    agent.end()
    assert len(taken) == 1000


@attack("channels", way=ORDER, weakness="names to look up keep it busy after its deadline")
def test_a_look_up_ends_with_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:

    asked: list[str] = []

    def slow(name: str) -> tuple[str, ...]:
        asked.append(name)
        threading.Event().wait(0.02)
        return ()

    monkeypatch.setattr(lookup, "addresses_of", slow)
    started = lookup.Lookup([f"n{number}" for number in range(10_000)], 0.2)
    assert len(started.answers()) < 10_000
    so_far = len(asked)
    threading.Event().wait(0.3)
    assert len(asked) <= so_far + 2 * lookup.RESOLVERS


@attacks(
    "channels",
    "address",
    ("a connection to a name, by a look-up elsewhere", "attacker.example"),
    ("a connection to what is no address", "127.0.0.1; id"),
    way=ORDER,
)
def test_only_addresses_are_connected_to(address: str) -> None:
    (touched,) = touch([Target(1, address, 80)], "s", timeout=5, payload_bytes=10**12)
    assert touched.outcome == "failed"


@attack("channels", way=ORDER, weakness="a port beyond 65535 is another one, of 16 bits")
def test_a_port_that_is_none_is_not_connected_to() -> None:
    order = Reach(targets={"0": (Target(1, "127.0.0.1", 65536 + 22), Target(1, "127.0.0.1", -1))}, secret="s", number=3)
    (reply,) = served(encode(order), until=Reached)
    assert isinstance(reply, Reached) and [each.outcome for each in reply.touched] == ["failed", "failed"]


# ---------------------------------------------------------------- a node that joined


@pytest.fixture
def interpreter(tmp_path: Path) -> Path:
    """A Python that is not root's alone: another user has put it there."""
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\ntouch " + str(tmp_path / "ran") + "\n")
    program.chmod(0o777)
    return program


@attack("channels", way=JOINED, weakness="its ranks run under an interpreter that others can write")
def test_no_interpreter_of_others_runs_on_a_node_that_joined(interpreter: Path) -> None:
    (reply,) = served(encode(Run(launch=a_launch(), python=str(interpreter))), is_guest=True)
    assert isinstance(reply, OrderFailed) and "is no Python that only root or this node's user can write" in reply.error
    order = encode(Examine(python=str(interpreter), timeout=0.5, number=4))
    examined = [each for each in served(order, is_guest=True, until=Examined) if isinstance(each, Examined)]
    assert examined and all(each.interpreter != str(interpreter) for each in examined)
    assert not (interpreter.parent / "ran").exists()


@attack("channels", way=JOINED, weakness="a program that is no interpreter runs")
def test_no_other_program_runs_on_a_node_that_joined(tmp_path: Path) -> None:
    for program in ("/bin/sh", "rm", "/usr/bin/env", str(tmp_path), "/no/such/python"):
        assert not orders.is_own_program(program)
    assert orders.is_own_program("") and orders.is_own_program(sys.executable)


def test_the_nodes_own_choice_runs_whoever_can_write_it(tmp_path: Path) -> None:
    """Its user has activated it there; as root in a container, for example, whose files are another uid's."""
    (tmp_path / "bin").mkdir(mode=0o777)
    (tmp_path / "bin").chmod(0o777)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "lib" / "python3.11" / "site-packages" / "torch").mkdir(parents=True)
    order = Run(launch=a_launch(), python=str(tmp_path / "bin" / "python"))
    assert orders.of_a_guest(order, {"VIRTUAL_ENV": str(tmp_path)}) == order
    with pytest.raises(NotAllowed):
        orders.of_a_guest(order, {})


@attack("channels", way=JOINED, weakness="an interpreter behind a link that others can turn")
def test_a_link_that_others_can_turn_is_no_own_program(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    (folder / "python3").symlink_to(sys.executable)
    assert orders.is_own_program(str(folder / "python3"))
    folder.chmod(0o777)
    assert not orders.is_own_program(str(folder / "python3"))


@attacks(
    "channels",
    "name, value",
    ("NCCL_NET_PLUGIN loads a library by its path", "NCCL_NET_PLUGIN", "/tmp/x.so"),
    ("NCCL_TUNER_PLUGIN leaves its folder", "NCCL_TUNER_PLUGIN", "../../tmp/x.so"),
    ("NCCL_DEBUG_FILE writes over a file", "NCCL_DEBUG_FILE", "/etc/passwd"),
    ("NCCL_TOPO_DUMP_FILE writes into the folder it runs in", "NCCL_TOPO_DUMP_FILE", "x"),
    ("TORCH_NCCL_DEBUG_INFO_TEMP_FILE writes over a file", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "/root/x"),
    ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE opens a pipe", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "x"),
    ("NCCL_CONF_FILE reads settings of another's", "NCCL_CONF_FILE", "/tmp/nccl.conf"),
    way=JOINED,
)
def test_a_node_that_joined_is_named_no_files(name: str, value: str) -> None:
    order = Run(launch=a_launch(environment={name: value}))
    (reply,) = served(encode(order), is_guest=True)
    assert isinstance(reply, OrderFailed) and f"{name} names a file" in reply.error
    assert orders.of_a_guest(order, {name: value}) == order  # its own user has set it there as well


@attacks(
    "channels",
    "order",
    ("stacks and sources of anybody's processes", LookAt(wanted=Wanted(pids={"0": ((1, 1),)}))),
    ("a list of anybody's processes", FindRanks()),
    ("which files there are", Examine(files=("/root/.ssh/id_rsa",))),
    way=JOINED,
)
def test_a_node_that_joined_shows_no_more_than_a_test_wants(order: AnyOrder) -> None:
    (reply,) = served(encode(order), is_guest=True)
    assert isinstance(reply, OrderFailed) and "joined" in reply.error


# ---------------------------------------------------------------- what ranks say to their agent


@attack("channels", way="agent: a line on the ranks' pipe", weakness="a file of another process is read and sent")
def test_no_file_of_another_process_is_opened() -> None:
    """As root, /proc/PID/fd/N of anybody's process could be."""
    said: list[object] = []
    followed = Followed(lambda rank, message: said.append(rank))
    begun = {
        "type": "begun",
        "rank": 0,
        "local_rank": 0,
        "world_size": 1,
        "pid": os.getppid(),
        "error_fd": 0,
        "log_fd": 0,
    }
    followed.hear(MARK + json.dumps(begun).encode())
    (rank,) = followed.all()
    assert rank.process is None and rank.log is None and rank.errors is None
    assert look(os.getppid()) is not None
    followed.close()


@attack("channels", way="agent: a line on the ranks' pipe", weakness="ranks without end fill its memory")
def test_ranks_of_a_node_are_bounded() -> None:
    followed = Followed(lambda rank, message: None)
    for number in range(MOST_RANKS + 500):
        begun = {"type": "begun", "rank": number, "local_rank": number, "world_size": 1, "pid": 2**22 + number}
        followed.hear(MARK + json.dumps(begun).encode())
    assert len(followed.all()) == MOST_RANKS
    followed.close()


def test_an_order_that_is_refused_is_an_end_for_its_launch() -> None:
    """The head takes `OrderFailed` for a launch that was not started (nccl/run.py); there is no other reply."""
    replies = served(encode(Run(launch=a_launch(ranks_per_node=(10**6,)), number=5)))
    assert [each.number for each in replies] == [5] and not any(isinstance(each, Ended) for each in replies)
