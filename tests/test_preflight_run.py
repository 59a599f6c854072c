"""The preflight's steps, on agents that answer wrongly, late or not at all."""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gpudoctor.fleet.fleet import Fleet, Lost, Node
from gpudoctor.fleet.messages import (
    Examine,
    Examined,
    Listen,
    Listening,
    Order,
    OrderFailed,
    Ping,
    Pong,
    Reach,
    Reached,
    Reply,
    Touched,
    Unlisten,
    encode,
    order_from,
)
from gpudoctor.fleet.ports import targets_of
from gpudoctor.nccl import preflight as module
from gpudoctor.nccl.preflight import PreflightWish, forwarded, preflight
from gpudoctor.snapshot import to_json
from tests.test_preflight import machine

Answer = Callable[[int, Any], "Reply | Lost | None"]


class Acted(Fleet):
    """A fleet whose agents answer at once, as a function says."""

    how = "ssh"

    def __init__(self, answer: Answer, count: int = 3) -> None:
        super().__init__([Node(f"n{number:02d}") for number in range(1, count + 1)])
        self.answer = answer
        self.orders: list[Order] = []

    def write(self, line: bytes) -> None:
        order = order_from(line)
        self.orders.append(order)
        for node in order.to or range(len(self.nodes)):
            said = self.answer(node, order)
            if isinstance(said, Lost):
                self.connection_over(node, said)
            elif said is not None:
                self.heard(node, encode(msgspec.structs.replace(said, number=order.number)).rstrip(b"\n"))

    def close(self) -> None:
        pass


def healthy(node: int, order: Any) -> Reply | Lost | None:
    if isinstance(order, Ping):
        return Pong(time=time.time())
    if isinstance(order, Examine):
        resolved: dict[str, tuple[str, ...]] = dict.fromkeys(order.resolve, ("192.0.2.11",))
        raw = msgspec.Raw(to_json(machine(node + 1)))
        return Examined(snapshot=raw, resolved=resolved, interpreter="/usr/bin/python3")
    if isinstance(order, Listen):
        return Listening(ephemeral=40000 + node)
    if isinstance(order, Reach):
        return Reached(touched=tuple(Touched(each, "connected") for each in targets_of(order, node)))
    return None


def but(kind: type[Order], node: int, said: "Reply | Lost | None") -> Answer:
    """Healthy agents, of which one answers something else to one kind of order."""
    return lambda index, order: said if isinstance(order, kind) and index == node else healthy(index, order)


@pytest.fixture(autouse=True)
def short_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PING_SECONDS", "LISTEN_SECONDS", "ANSWER_SECONDS", "FILTER_SECONDS", "CONNECT_SECONDS"):
        monkeypatch.setattr(module, name, SHORT)


SHORT = 0.3
"""An answer of all that is made here: they are given at once, but by a process that others may hold up meanwhile."""
WISH = PreflightWish(timeout=SHORT)


def test_healthy_agents() -> None:
    steps: list[str] = []
    fleet = Acted(healthy)
    found = preflight(fleet, WISH, on_step=steps.append)
    assert found.findings == ()
    assert (found.master_address, found.addresses[2]) == ("192.0.2.11", "192.0.2.13")
    assert found.interpreters == dict.fromkeys(range(3), "/usr/bin/python3")
    assert all(abs(clock.seconds) < 5 for clock in found.clocks.values()) and len(found.clocks) == 3
    assert [each.split()[0] for each in steps] == ["clocks", "examining", "ports"]
    assert any(isinstance(order, Unlisten) for order in fleet.orders)
    reach = next(order for order in fleet.orders if isinstance(order, Reach))
    assert len(reach.secret) == 32
    assert [len(targets_of(reach, node)) for node in range(3)] == [3, 3, 3]  # two others and the rendezvous


@pytest.mark.parametrize(
    ("kind", "said", "id"),
    [
        (Examine, None, "node-not-examined"),
        (Examine, OrderFailed(error="Examine: OSError: no memory"), "node-not-examined"),
        (Examine, Examined(snapshot=msgspec.Raw(b'{"schema":99}')), "node-not-examined"),
        (Listen, None, "ports-not-tried"),
        (Listen, Listening(error="permission denied"), "ports-not-tried"),
        (Reach, None, "ports-not-tried"),
        (Reach, OrderFailed(error="Reach: broken"), "ports-not-tried"),
    ],
)
def test_a_node_that_does_not_do_as_told(kind: type[Order], said: "Reply | None", id: str) -> None:
    found = preflight(Acted(but(kind, 1, said)), WISH)
    assert ("n02",) in [each.nodes for each in found.findings if each.id == id]
    assert found.findings[0].problem.severity in ("error", "warning")


@pytest.mark.parametrize("kind", [Ping, Examine, Listen, Reach])
@pytest.mark.parametrize("node", [0, 2])
def test_a_node_that_vanishes_is_left_to_lost_findings(kind: type[Order], node: int) -> None:
    fleet = Acted(but(kind, node, Lost("connection lost")))
    found = preflight(fleet, WISH)
    assert set(fleet.lost) == {node}
    assert not {"node-not-examined", "ports-not-tried"} & {each.id for each in found.findings}


def test_small_messages_get_through_and_a_large_one_does_not() -> None:
    """The examination is stuck on the way from n02, and every later answer behind it."""
    stuck: list[bool] = []

    def answer(node: int, order: Any) -> "Reply | Lost | None":
        if node == 1 and (stuck or isinstance(order, Examine)):
            stuck.append(True)
            return None
        return healthy(node, order)

    found = preflight(Acted(answer), WISH)
    assert [(each.id, each.nodes) for each in found.findings] == [("large-packets-lost", ("n02",))]
    problem = found.findings[0].problem
    assert problem.severity == "error" and "small messages get through and large ones do not" in problem.summary
    assert "MTU" in problem.fix.text and "ping -c 2 -M do -s 1472 n02" in problem.fix.commands


@pytest.mark.parametrize("count", [1, 3])
def test_a_master_address_that_does_not_resolve_ends_it(count: int) -> None:
    def answer(node: int, order: Any) -> "Reply | Lost | None":
        said = healthy(node, order)
        if isinstance(said, Examined) and node == count - 1:
            return msgspec.structs.replace(said, resolved=dict.fromkeys(order.resolve, ()))
        return said

    found = preflight(Acted(answer, count), msgspec.structs.replace(WISH, master_address="head.example"))
    named = [(each.id, each.nodes, each.problem.severity) for each in found.findings]
    assert ("master-addr-unresolvable", (f"n{count:02}",), "error") in named


def test_nobody_can_be_examined() -> None:
    found = preflight(Acted(lambda node, order: None if isinstance(order, Examine) else healthy(node, order)), WISH)
    assert found.snapshots == {}
    assert [(each.id, each.nodes) for each in found.findings] == [("node-not-examined", ("n01", "n02", "n03"))]


def test_a_silent_pong_leaves_the_clock_unknown() -> None:
    found = preflight(Acted(but(Ping, 1, None)), WISH)
    assert set(found.clocks) == {0, 2}


def test_a_port_that_is_taken_is_changed_unless_it_was_asked_for() -> None:
    ports: list[int] = []

    def busy_once(node: int, order: Any) -> "Reply | Lost | None":
        if isinstance(order, Listen) and node == 0:
            ports.append(order.port)
            return Listening(ephemeral=40000, port_error="in use by pid 7 python" if len(ports) == 1 else "")
        return healthy(node, order)

    assert preflight(Acted(busy_once), WISH).findings == ()
    assert len(ports) == 2
    ports.clear()
    found = preflight(Acted(busy_once), msgspec.structs.replace(WISH, master_port=29500))
    assert [(each.id, each.nodes) for each in found.findings] == [("master-port-busy", ("n01",))]
    assert (ports, found.master_port) == ([29500], 29500)
    assert "ps -fp 7" in " ".join(found.findings[0].problem.fix.commands)


def test_replies_about_nodes_that_do_not_exist_are_passed_over() -> None:
    def lying(node: int, order: Any) -> "Reply | Lost | None":
        if isinstance(order, Reach):
            targets = targets_of(order, node)
            return Reached(
                touched=tuple(Touched(msgspec.structs.replace(each, node=99), "refused") for each in targets)
            )
        return healthy(node, order)

    assert all(each.id != "ports-blocked-between-nodes" for each in preflight(Acted(lying), WISH).findings)


def test_the_order_for_a_thousand_nodes_is_short() -> None:
    fleet = Acted(lambda node, order: None, count=1000)
    listening: dict[int, Listening | Lost] = {node: Listening(ephemeral=40000) for node in range(1000)}
    run = module._Run(fleet, WISH, lambda text: None)
    addresses = {node.name: "192.168.100.100" for node in fleet.nodes}
    order = run.reach(list(range(1000)), listening, addresses, None, "0" * 32)
    assert len(encode(order)) < 100_000
    assert {len(targets_of(order, node)) for node in range(1000)} <= set(range(3, 30))


def test_one_node_alone_meets_on_its_own_address() -> None:
    found = preflight(Acted(healthy, count=1), WISH)
    assert (found.findings, found.master_address) == ((), "192.0.2.11")


def test_the_named_interface_is_set_for_both_backends_unless_set_otherwise() -> None:
    wish = PreflightWish(interface="eth1", settings={"GLOO_SOCKET_IFNAME": "eth2"})
    assert forwarded(wish) == {"NCCL_SOCKET_IFNAME": "=eth1", "GLOO_SOCKET_IFNAME": "eth2"}
