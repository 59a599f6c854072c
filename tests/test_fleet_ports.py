"""Listeners and connections of the agents, over real sockets of this machine."""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from gpudoctor.fleet import touch as touch_module
from gpudoctor.fleet.listeners import MAXIMUM_CONNECTIONS
from gpudoctor.fleet.messages import Listen, Reach, Target, Touched, Unlisten, encode, order_from
from gpudoctor.fleet.ports import Ports
from gpudoctor.fleet.probe import MAXIMUM_PAYLOAD, RefusedProbe, answer, header, proof, understood

SECRET = "of this test"
NONCE = "0" * 32


@pytest.fixture
def ports() -> Iterator[Ports]:
    made = Ports(0)
    yield made
    made.close()


def target(port: int, address: str = "127.0.0.1", node: int = 1) -> Target:
    return Target(node, address, port)


def reached(*targets: Target, secret: str = SECRET, timeout: float = 20.0, payload: int = 65536) -> list[Touched]:
    order = Reach(number=7, targets={"0": targets}, secret=secret, timeout=timeout, payload_bytes=payload)
    reply = Ports(0).reach(order)
    assert reply.number == 7
    return list(reply.touched)


def outcome(*targets: Target, **how: object) -> str:
    return reached(*targets, **how)[0].outcome  # type: ignore[arg-type]


@contextlib.contextmanager
def stranger(reply: bytes | None) -> Iterator[int]:
    """A listener that is not ours: answers every connection with `reply` and closes; None: says nothing at all."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as held:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    if reply is None:
                        held.callback(connection.close)
                        continue
                    with connection:
                        connection.recv(1 << 20)
                        connection.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(20)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_listener_is_reached_over_both_families(ports: Ports, address: str) -> None:
    if ":" in address:
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("no IPv6 loopback here")
    opened = ports.listen(Listen(number=3, secret=SECRET))
    assert (opened.number, opened.error, opened.port_error) == (3, "", "")
    (touched,) = reached(target(opened.ephemeral, address))
    assert (touched.outcome, touched.detail, touched.target.node) == ("connected", "", 1)
    assert touched.milliseconds > 0


@pytest.mark.parametrize("payload", [0, 1, 65536, MAXIMUM_PAYLOAD])
def test_payloads_go_both_ways(ports: Ports, payload: int) -> None:
    opened = ports.listen(Listen(secret=SECRET))
    assert outcome(target(opened.ephemeral), payload=payload) == "connected"


def test_the_rendezvous_port_is_opened_on_its_node_only(ports: Ports) -> None:
    port = free_port()
    assert ports.listen(Listen(secret=SECRET, port=port, port_on=(1,))).port_error == ""
    assert outcome(target(port)) == "refused"
    assert ports.listen(Listen(secret=SECRET, port=port, port_on=(0,))).port_error == ""
    assert outcome(target(port)) == "connected"


def test_a_busy_port_names_its_holder(ports: Ports) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        opened = ports.listen(Listen(secret=SECRET, port=holder.getsockname()[1], port_on=(0,)))
    assert opened.port_error.startswith(f"in use by pid {os.getpid()} ")
    assert opened.ephemeral > 0


@pytest.mark.parametrize("port", [-1, 65536, 10**30])
def test_what_is_no_port_is_said_to_be_none(ports: Ports, port: int) -> None:
    assert ports.listen(Listen(secret=SECRET, port=port, port_on=(0,))).port_error


def test_closed_ports_are_refused(ports: Ports) -> None:
    opened = ports.listen(Listen(secret=SECRET))
    ports.close()
    assert outcome(target(opened.ephemeral)) == "refused"


def test_listening_ends_by_itself(ports: Ports) -> None:
    opened = ports.listen(Listen(secret=SECRET, seconds=0.05))
    assert ports._listeners is not None
    ports._listeners._thread.join(20)
    assert outcome(target(opened.ephemeral)) == "refused"


def test_another_secret_is_a_wrong_listener(ports: Ports) -> None:
    opened = ports.listen(Listen(secret="of another test"))
    assert outcome(target(opened.ephemeral)) == "wrong listener"


@pytest.mark.parametrize("reply", [b"", b"220 mail.example ESMTP\r\n", b"0" * 64 + b"\n", b"x" * 200])
def test_somebody_elses_answer_is_a_wrong_listener(reply: bytes) -> None:
    with stranger(reply) as port:
        assert outcome(target(port)) == "wrong listener"


def test_a_listener_that_says_nothing_is_a_wrong_one() -> None:
    with stranger(None) as port:
        (touched,) = reached(target(port), timeout=0.3)
    assert touched.outcome == "wrong listener"
    assert "did not answer" in touched.detail


def test_proof_without_payload_is_truncated() -> None:
    """As where large packets are lost: the first, small ones arrive."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as held:

        def serve() -> None:
            connection, _ = server.accept()
            held.callback(connection.close)
            line = connection.makefile("rb").readline()
            nonce, _ = understood(SECRET, line)
            connection.sendall(answer(SECRET, nonce) + bytes(1000))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        (touched,) = reached(target(server.getsockname()[1]), timeout=1.0)
        thread.join(20)
    assert touched.outcome == "truncated"
    assert touched.detail.startswith("1000 of 65536 bytes came back")


@pytest.mark.parametrize("address", ["", "not an address", "n01", "1.2.3.4.5", "\0", "-x"])
def test_what_is_no_address_fails_and_nothing_is_looked_up(address: str) -> None:
    assert outcome(target(1, address)) in ("failed", "unreachable", "refused")


def test_answers_come_in_the_order_of_the_targets(ports: Ports) -> None:
    opened = ports.listen(Listen(secret=SECRET))
    found = reached(*(target(opened.ephemeral if node % 2 else 1, node=node) for node in range(40)))
    assert [each.target.node for each in found] == list(range(40))
    assert [each.outcome for each in found] == ["refused", "connected"] * 20


def test_more_targets_than_are_tried_at_once(ports: Ports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touch_module, "MOST_AT_ONCE", 3)
    opened = ports.listen(Listen(secret=SECRET))
    found = reached(*(target(opened.ephemeral, node=node) for node in range(20)), payload=10)
    assert {each.outcome for each in found} == {"connected"}


def test_nodes_without_targets_answer_with_none() -> None:
    assert Ports(5).reach(Reach(targets={"0": (target(1),)}, secret=SECRET)).touched == ()


def test_strangers_get_nothing_and_do_not_keep_others_out(ports: Ports) -> None:
    opened = ports.listen(Listen(secret=SECRET))
    with contextlib.ExitStack() as stack:
        for said in (b"GET / HTTP/1.0\r\n\r\n", b"gpudoctor-probe 1 zz\n", b"\n", b"x" * 10_000):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", opened.ephemeral), timeout=20))
            connection.sendall(said)
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(1) == b""
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", opened.ephemeral), timeout=20))
            for _ in range(20)
        ]
        assert len(idle) < MAXIMUM_CONNECTIONS
        assert outcome(target(opened.ephemeral)) == "connected"


def test_orders_survive_the_way() -> None:
    order = Reach(number=1, targets={"0": (Target(1, "10.0.0.2", 61000, "rendezvous"),)}, secret=SECRET)
    assert order_from(encode(order)) == order
    assert isinstance(order_from(encode(Unlisten())), Unlisten)


@given(st.binary(max_size=300))
def test_no_line_of_others_is_understood(line: bytes) -> None:
    with pytest.raises(RefusedProbe):
        understood(SECRET, line)


@given(st.text("0123456789abcdef", min_size=32, max_size=32), st.integers(0, MAXIMUM_PAYLOAD))
def test_our_line_is_understood(nonce: str, size: int) -> None:
    assert understood(SECRET, header(SECRET, nonce, size)) == (nonce, size)


def test_too_much_is_refused() -> None:
    with pytest.raises(RefusedProbe, match="too large"):
        understood(SECRET, header(SECRET, NONCE, MAXIMUM_PAYLOAD + 1))
    assert proof(SECRET, "caller", NONCE) != proof(SECRET, "listener", NONCE)


def free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])
