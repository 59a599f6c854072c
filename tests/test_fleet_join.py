"""Join mode: nodes that come by themselves, who is let in, and that nobody is left behind."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor import __version__
from gpudoctor.fleet.fleet import Lost
from gpudoctor.fleet.join import JoinFleet, NoListener, take_part
from gpudoctor.fleet.join_channel import Channel, Forged, Kind, NotProved, OtherVersion, introduce
from gpudoctor.fleet.join_door import MADE_ROOM, MOST_WAITING
from gpudoctor.fleet.join_messages import Newcomer, Verdict, Welcome, with_port
from gpudoctor.fleet.messages import PROTOCOL, Hello
from gpudoctor.fleet.own_address import NoAddress, address_of
from gpudoctor.fleet.reach import reach
from gpudoctor.snapshot import Address, Interface, Network, missing, read
from tests.join_ends import PATIENCE, joined as newcomer, welcome
from tests.lab.hosts import NAMESPACES, Host, hosts
from tests.lab.inhabitants import processes

TOKEN = "a-token-for-this-test"


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


# the handshake and the channel


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    head, joiner = socket.socketpair()
    with head, joiner:
        yield head, joiner


def shake(ends: tuple[socket.socket, socket.socket], head: str = TOKEN, joiner: str = TOKEN) -> list[object]:
    """What the head and the joiner get of the handshake: a channel, or the exception."""
    got: list[object] = [None, None]

    def half(index: int, part: Callable[..., Channel], token: str) -> None:
        try:
            got[index] = part(ends[index], token, seconds=PATIENCE)
        except (NotProved, OtherVersion, OSError) as error:
            got[index] = error
            ends[index].shutdown(socket.SHUT_RDWR)

    other = threading.Thread(target=half, args=(1, introduce, joiner))
    other.start()
    half(0, welcome, head)
    other.join()
    return got


def channels(ends: tuple[socket.socket, socket.socket]) -> tuple[Channel, Channel]:
    head, joiner = shake(ends)
    assert isinstance(head, Channel) and isinstance(joiner, Channel)
    return head, joiner


def test_lines_go_both_ways(ends: tuple[socket.socket, socket.socket]) -> None:
    head, joiner = channels(ends)
    head.send("O", b'{"x": "\xc3\xa9"}')
    head.send("C", b"")
    joiner.send("O", b"y" * 100)
    assert [joiner.receive(), joiner.receive()] == [("O", b'{"x": "\xc3\xa9"}'), ("C", b"")]
    assert head.receive() == ("O", b"y" * 100)
    joiner.close()
    assert head.receive() is None


def test_another_token_is_refused(ends: tuple[socket.socket, socket.socket]) -> None:
    head, joiner = shake(ends, joiner="another")
    assert isinstance(head, NotProved) and not head.stranger and str(head) == "wrong token"
    assert isinstance(joiner, NotProved) and not joiner.stranger


def test_a_head_that_does_not_know_the_token_is_not_served(ends: tuple[socket.socket, socket.socket]) -> None:
    head, joiner = ends
    found: list[object] = []

    def impostor() -> None:
        head.sendall(b"gpudoctor-join 1 " + b"a" * 64 + b"\n")
        found.append(head.recv(1000))
        head.sendall(b"b" * 64 + b"\n")

    other = threading.Thread(target=impostor)
    other.start()
    with pytest.raises(NotProved, match="does not know the token") as refused:
        introduce(joiner, TOKEN, seconds=PATIENCE)
    other.join()
    assert refused.value.stranger
    assert TOKEN.encode() not in found[0]  # type: ignore[operator]


def test_a_head_of_another_version_is_told(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].sendall(b"gpudoctor-join 2 " + b"a" * 64 + b"\n")
    with pytest.raises(OtherVersion, match="version 2"):
        introduce(ends[1], TOKEN, seconds=PATIENCE)


@pytest.mark.parametrize("change", ["flip", "repeat", "drop", "back"])
def test_a_changed_repeated_lost_or_returned_line_ends_the_session(
    ends: tuple[socket.socket, socket.socket], change: str
) -> None:
    head, joiner = channels(ends)
    head.send("O", b"first")
    head.send("O", b"second")
    lines = ends[1].recv(1000).split(b"\n")
    first, second = lines[0], lines[1]
    if change == "back":  # our own line, sent back to us
        ends[1].sendall(first + b"\n")
        with pytest.raises(Forged):
            head.receive()
        return
    told = {"flip": [first[:-1] + b"T"], "repeat": [first, first], "drop": [second]}[change]
    ends[0].sendall(b"".join(line + b"\n" for line in told))
    if change == "repeat":
        assert joiner.receive() == ("O", b"first")
    with pytest.raises(Forged):
        joiner.receive()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_whatever_a_stranger_sends_is_refused(sent: bytes) -> None:
    for part in (welcome, introduce):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(sent)
            theirs.shutdown(socket.SHUT_WR)
            with pytest.raises((NotProved, OtherVersion)):
                part(ours, TOKEN, seconds=PATIENCE)


def test_a_stranger_that_is_slow_is_given_up(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[1].sendall(b"0123")
    with pytest.raises(TimeoutError):
        welcome(ends[0], TOKEN, seconds=0.05)


# the listener


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "224.0.0.1", "localhost", "", "192.0.2.250", "x;y"])
def test_only_an_own_address_is_listened_on(address: str) -> None:
    with pytest.raises(NoListener) as refused:
        JoinFleet(2, address=address)
    assert "\n" not in str(refused.value)


@pytest.mark.thorough
def test_the_line_to_paste() -> None:
    with JoinFleet(2, address="127.0.0.1", wait=PATIENCE) as fleet:
        assert fleet.line == f"GPUDOCTOR_TOKEN={fleet.token} gpudoctor nccl-test --join 127.0.0.1:{fleet.port}"
        assert len(fleet.token) >= 32 and 61000 <= fleet.port <= 65535
    assert with_port("fd00::1", 61000) == "[fd00::1]:61000"


@pytest.mark.thorough
def test_who_is_missing_is_lost_after_the_wait() -> None:
    with JoinFleet(3, address="127.0.0.1", wait=0.3) as fleet:
        found = reach(fleet, timeout=PATIENCE)
        assert isinstance(found[0], Hello)
        assert [said.kind for node, said in found.items() if node and isinstance(said, Lost)] == ["joined too late"] * 2
        until(lambda: not listens(fleet.port))


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


@pytest.mark.thorough
def test_who_is_closed_to_make_room_tries_again() -> None:
    """The head is full of strangers: each newcomer lets one go, and nobody waits for them."""
    said: list[str] = []
    notices: list[str] = []
    with (
        JoinFleet(2, address="127.0.0.1", wait=PATIENCE, on_turned_away=notices.append) as fleet,
        contextlib.ExitStack() as strangers,
    ):
        for _ in range(MOST_WAITING):
            strangers.enter_context(socket.create_connection(("127.0.0.1", fleet.port), timeout=5))
        take_part("127.0.0.1", fleet.port, fleet.token, patience=PATIENCE, say=said.append)
    assert "takes part already" in said[-1]  # it came as far as this: it is the head's own machine
    assert notices[0] == f"turned away: 127.0.0.1: {MADE_ROOM} (1 x)"


def test_a_head_that_closes_at_once_is_tried_again() -> None:
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def busy() -> None:
            for _ in range(2):
                listener.accept()[0].close()

        other = threading.Thread(target=busy)
        other.start()
        assert take_part("127.0.0.1", listener.getsockname()[1], TOKEN, patience=0.8, say=said.append) == 1
        other.join()
    assert "busy with others" in said[0] and "it is no head" in said[-1]


@pytest.mark.thorough
def test_who_vanishes_at_the_door_is_lost_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    send = Channel.send

    def broken(channel: Channel, kind: Kind, payload: bytes) -> None:
        if b'"nodes":2' in payload:
            raise BrokenPipeError(32, "Broken pipe")
        send(channel, kind, payload)

    monkeypatch.setattr(Channel, "send", broken)
    with JoinFleet(2, address="127.0.0.1", wait=PATIENCE) as fleet:
        with socket.create_connection(("127.0.0.1", fleet.port), timeout=5) as connection:
            newcomer = introduce(connection, fleet.token, seconds=PATIENCE)
            newcomer.send("C", msgspec.json.encode(Newcomer("another machine", "n02", __version__, PROTOCOL)))
            newcomer.send("C", b"{}")
            until(lambda: fleet.turned_away or len(fleet.joined) == 2)
        found = reach(fleet, timeout=5)
        assert isinstance(found[1], Lost) and found[1].kind == "connection lost"


@pytest.mark.thorough
def test_who_leaves_before_the_start_may_come_back() -> None:
    with JoinFleet(3, address="127.0.0.1", wait=PATIENCE) as fleet:
        first, channel = newcomer(fleet, "n02")
        until(lambda: "n02" in fleet.joined)
        channel.close()
        first.close()
        until(lambda: "n02" not in fleet.joined)
        assert not fleet.lost
        with newcomer(fleet, "n03")[0], newcomer(fleet, "n02")[0]:
            found = reach(fleet, timeout=PATIENCE)
            assert all(isinstance(said, Hello) for said in found.values()), found
            assert set(fleet.joined[1:]) == {"n02", "n03"}


@pytest.mark.thorough
def test_who_leaves_before_the_start_and_stays_away_is_not_taken_for_there() -> None:
    """The others may all be there by then."""
    with JoinFleet(3, address="127.0.0.1", wait=3.0) as fleet:
        first, channel = newcomer(fleet, "n02")
        until(lambda: fleet.arrived.qsize() > 0)
        channel.close()
        first.close()
        until(lambda: "n02" not in fleet.joined)
        # The first place is free again: another node takes it, and the second one stays empty.
        with newcomer(fleet, "n03")[0]:
            found = reach(fleet, timeout=PATIENCE)
        late = [said for said in found.values() if isinstance(said, Lost)]
        assert [said.kind for said in late] == ["joined too late"]


@pytest.mark.parametrize(("told", "status"), [(0, 0), (255, 255), (256, 1), (-1, 1), (2**40, 1)])
def test_a_verdict_that_is_no_exit_status_is_a_failure(told: int, status: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def head() -> None:
            connection, _ = listener.accept()
            with connection:
                channel = welcome(connection, TOKEN, seconds=PATIENCE)
                channel.receive()
                channel.send("C", msgspec.json.encode(Welcome(node=1, nodes=2)))
                channel.send("C", msgspec.json.encode(Verdict(told)))
                channel.close()

        other = threading.Thread(target=head)
        other.start()
        said: list[str] = []
        found = take_part("127.0.0.1", listener.getsockname()[1], TOKEN, patience=PATIENCE, say=said.append)
        other.join()
    assert found == status and f"exit status {status};" in said[-1]


@pytest.mark.thorough
def test_a_machine_joins_once() -> None:
    said: list[str] = []
    with JoinFleet(2, address="127.0.0.1", wait=PATIENCE) as fleet:
        assert take_part("127.0.0.1", fleet.port, fleet.token, patience=1, say=said.append) == 1
        assert not fleet.lost
    assert len(said) == 1 and "takes part already, as node 0, the head" in said[0]


@pytest.mark.thorough
def test_a_wrong_token_is_told_to_both() -> None:
    said: list[str] = []
    with JoinFleet(2, address="127.0.0.1", wait=PATIENCE) as fleet:
        assert take_part("127.0.0.1", fleet.port, "another", patience=1, say=said.append) == 1
        until(lambda: fleet.turned_away["127.0.0.1: wrong token"] == 1)
    assert len(said) == 1 and "the token is that of another test" in said[0]
    assert fleet.token not in said[0] and "another\n" not in said[0]


def test_a_head_that_never_comes_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        said: list[str] = []
        assert take_part("127.0.0.1", free.getsockname()[1], TOKEN, patience=0.6, say=said.append) == 1
    assert said[0].startswith("no head at 127.0.0.1:") and "refuses the connection" in said[-1]


@pytest.mark.parametrize("address", ["a" * 80 + ".example", "n1..example", ".n1"])
def test_what_can_be_no_name_is_told(address: str) -> None:
    said: list[str] = []
    assert take_part(address, 61000, TOKEN, patience=1, say=said.append) == 1
    assert len(said) == 1 and "is no host's name" in said[0]


@pytest.mark.thorough
def test_what_the_head_says_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(JoinFleet, "_refusal", lambda fleet, newcomer, name: "no\x1b]0;title\x07\r\nroom")
    with JoinFleet(2, address="127.0.0.1", wait=PATIENCE) as fleet:
        assert take_part("127.0.0.1", fleet.port, fleet.token, patience=1) == 1
    said = capsys.readouterr().err
    assert "room" in said and said.rstrip("\n").isprintable()


def test_the_token_does_not_stay_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUDOCTOR_TOKEN", TOKEN)
    take_part("127.0.0.1", 1, TOKEN, patience=0, say=lambda text: None)
    assert "GPUDOCTOR_TOKEN" not in os.environ


# own address


def interface(name: str, *addresses: str, **facts: object) -> Interface:
    given = tuple(
        Address(family="IPv6" if ":" in address else "IPv4", address=address, prefix_length=24) for address in addresses
    )
    return Interface(index=1, name=name, kind="ethernet", is_up=True, is_running=True, addresses=given, **facts)  # type: ignore[arg-type]


def test_the_own_address() -> None:
    network = Network(
        interfaces=read("test", (interface("eth0", "fd00::1", "10.0.0.1"), interface("eth1", "10.1.0.1")))
    )
    assert address_of(network) == "10.0.0.1"
    assert address_of(network, "eth1") == "10.1.0.1"
    with pytest.raises(NoAddress, match="--interface ib0: this machine has none of that name; with an address: eth0"):
        address_of(network, "ib0")
    with pytest.raises(NoAddress, match="could not be read"):
        address_of(Network(interfaces=missing("getifaddrs", "no answer within 10 s", "timeout")))


# three hosts

HEAD = """
import json, os, sys, time
from gpudoctor.fleet.join import JoinFleet
from gpudoctor.fleet.reach import reach
from gpudoctor.fleet.join_door import MADE_ROOM, MOST_WAITING
from gpudoctor.fleet.join_messages import Newcomer, with_port
from gpudoctor.fleet.messages import Examine, Examined, Hello, Ping, Pong
options = json.loads(sys.argv[1])
with JoinFleet(3, address="10.0.0.1", port=61234, token="lab-token", wait=options.get("wait", 60)) as fleet:
    found = reach(fleet, timeout=90)
    answer = {"hello": [getattr(said, "hostname", getattr(said, "kind", "")) for said in found.values()]}
    answer["names"] = [node.name for node in fleet.nodes]
    print("reached", flush=True)
    if options.get("linger"):
        while 2 not in fleet.lost:
            fleet.next_event(1)
        answer["lost"] = fleet.lost[2].kind
        answer["others"] = [type(each).__name__ for each in fleet.ask(Ping(), Pong, timeout=30).values()]
    answer["examined"] = [type(each).__name__ for each in fleet.ask(Examine(timeout=20), Examined, timeout=60).values()]
    fleet.tell(options.get("status", 0))
print(json.dumps(answer))
"""
JOINER = """
import sys
from gpudoctor.fleet.join import take_part
sys.exit(take_part("10.0.0.1", 61234, sys.argv[1], patience=60))
"""


@pytest.fixture(scope="module")
def three() -> Iterator[tuple[Host, ...]]:
    with hosts("n1", "n2", "n3") as machines:
        yield machines


class Job:
    """A command on a host, with what it writes."""

    def __init__(self, host: Host, *words: str) -> None:
        self.process = subprocess.Popen(
            host.command(sys.executable, "-c", *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def end(self) -> tuple[int, str, str]:
        output, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output, errors


def head(host: Host, **options: object) -> Job:
    return Job(host, HEAD, json.dumps(options))


def nothing_left(machines: tuple[Host, ...]) -> None:
    until(lambda: not processes(*(NAMESPACES / host.namespace for host in machines)))


def test_three_hosts_join_and_get_the_verdict(three: tuple[Host, ...]) -> None:
    n1, n2, n3 = three
    joiners = [Job(n2, JOINER, "lab-token"), Job(n3, JOINER, "lab-token")]  # before the head is there
    status, output, errors = head(n1, status=1).end()
    assert status == 0, errors
    answer = json.loads(output.splitlines()[-1])
    assert answer["hello"][0] == "n1" and sorted(answer["hello"]) == ["n1", "n2", "n3"]
    assert answer["names"] == answer["hello"]
    assert answer["examined"] == ["Examined"] * 3
    for joiner in joiners:
        status, _, errors = joiner.end()
        assert status == 1
        assert "joined 10.0.0.1:61234 as node" in errors and "exit status 1" in errors
        assert "lab-token" not in errors
    nothing_left(three)


def test_two_of_three_hosts(three: tuple[Host, ...]) -> None:
    n1, n2, n3 = three
    wrong = Job(n3, JOINER, "other-token")
    joiner = Job(n2, JOINER, "lab-token")
    status, output, errors = head(n1, wait=6).end()
    assert status == 0, errors
    assert json.loads(output.splitlines()[-1])["hello"] == ["n1", "n2", "joined too late"]
    assert joiner.end()[0] == 0
    status, _, errors = wrong.end()
    assert status == 1 and "the token is that of another test" in errors
    nothing_left(three)


def test_a_joiner_that_dies_is_lost_and_the_others_stay(three: tuple[Host, ...]) -> None:
    n1, n2, n3 = three
    job = head(n1, linger=True)
    first = Job(n2, JOINER, "lab-token")
    assert first.process.stderr is not None
    while "joined" not in first.process.stderr.readline():
        assert first.process.poll() is None
    second = Job(n3, JOINER, "lab-token")
    assert job.process.stdout is not None and job.process.stdout.readline() == "reached\n"
    second.process.kill()
    second.end()
    for pid in processes(NAMESPACES / n3.namespace):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    status, output, errors = job.end()
    assert status == 0, errors
    answer = json.loads(output.splitlines()[-1])
    assert answer["lost"] == "connection lost" and answer["others"] == ["Pong", "Pong", "Lost"]
    assert first.end()[0] == 0
    nothing_left(three)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_head_that_ends_early_leaves_nobody(three: tuple[Host, ...], number: signal.Signals) -> None:
    n1, n2, n3 = three
    job = head(n1, linger=True)
    joiners = [Job(n2, JOINER, "lab-token"), Job(n3, JOINER, "lab-token")]
    assert job.process.stdout is not None and job.process.stdout.readline() == "reached\n"
    for pid, words in processes(NAMESPACES / n1.namespace).items():
        if "JoinFleet" in words:
            os.kill(pid, number)
    job.end()
    for joiner in joiners:
        status, _, errors = joiner.end()
        assert status == 1 and "ended without a verdict" in errors
    nothing_left(three)


def test_a_port_that_a_firewall_closes_is_told(three: tuple[Host, ...]) -> None:
    n1, n2, _ = three
    n1.filter("tcp dport 61999 drop")
    program = (
        "import sys; from gpudoctor.fleet import take_part as t; t.CONNECT_SECONDS = 0.3; "
        "sys.exit(t.take_part('10.0.0.1', 61999, 'x', patience=0))"
    )
    status, _, errors = Job(n2, program).end()
    assert status == 1 and "nothing answers at 10.0.0.1:61999; a firewall" in errors
