"""Join mode under attack: who is not asked in, who is and means harm, and a head that is another's."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from gpudoctor import __version__
from gpudoctor.errors import BadInput
from gpudoctor.fleet import join_door
from gpudoctor.fleet.join import JoinFleet
from gpudoctor.fleet.join_channel import REFUSED, Admission, Forged, NotProved, introduce
from gpudoctor.fleet.join_door import LEFT, MADE_ROOM, MOST_WAITING, SILENT, Doorkeeper, shown, source
from gpudoctor.fleet.join_messages import Newcomer, Verdict, Welcome, machine_identity
from gpudoctor.fleet.messages import PROTOCOL, Hello, Ping, Pong, encode
from gpudoctor.fleet.reach import reach
from gpudoctor.fleet.take_part import take_part
from gpudoctor.nccl import live
from tests.attacks.registry import attack, attacks
from tests.join_ends import PATIENCE, At, joined, newcomer, proved, welcome

TOKEN = "a-token-for-this-test"
WAY = "join: connections of one address"
NODE = "join: a node that knows the token"
HEAD = "join: a head that is another's"


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def head(notices: list[str]) -> Iterator[JoinFleet]:
    with JoinFleet(3, address="127.0.0.1", wait=PATIENCE, on_turned_away=notices.append) as fleet:
        yield fleet


@pytest.fixture
def strangers() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def knock(fleet: JoinFleet, stack: contextlib.ExitStack, count: int, *, address: str = "127.0.0.1") -> None:
    """So many connections, from this address of this machine, that stay open and silent."""
    for _ in range(count):
        knocking = socket.create_connection(("127.0.0.1", fleet.port), timeout=PATIENCE, source_address=(address, 0))
        stack.enter_context(knocking)


def gone(connection: socket.socket) -> bool:
    """Its other end has closed it."""
    connection.setblocking(False)
    try:
        while connection.recv(1000, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:  # closed with bytes of ours unread
        pass
    return True


# ---------------------------------------------------------------- who is not asked in


@attack("channels", way=WAY, weakness="silent ones keep a node out")
def test_silent_connections_keep_nobody_out(head: JoinFleet, strangers: contextlib.ExitStack) -> None:
    knock(head, strangers, 3 * MOST_WAITING)
    began = time.monotonic()
    strangers.enter_context(joined(head, "n02")[0])
    assert time.monotonic() - began < 30  # it was 60 s: those above were never closed
    until(lambda: head.turned_away[f"127.0.0.1: {MADE_ROOM}"] >= 2 * MOST_WAITING)


@attack("channels", way=WAY, weakness="it happens unseen")
def test_the_user_hears_live_who_is_turned_away(
    head: JoinFleet, notices: list[str], strangers: contextlib.ExitStack
) -> None:
    knock(head, strangers, MOST_WAITING + 1)
    until(lambda: notices)
    assert notices == [f"turned away: 127.0.0.1: {MADE_ROOM} (1 x)"]


@attack("channels", way="join: strangers from many addresses", weakness="the terminal is flooded with notices")
def test_notices_are_few_however_many_come() -> None:
    said: list[str] = []
    now = [0.0]
    keeper = Doorkeeper(said.append, clock=lambda: now[0])
    for number in range(100_000):
        keeper.turned_away(f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", MADE_ROOM)
        now[0] += 0.001
    assert len(said) <= 100 / Doorkeeper.EVERY_SECONDS + 1
    assert max(map(len, said)) < 500 and all(line.isprintable() for line in said)
    now[0] += 1e6
    for _ in range(200):
        keeper.turned_away("10.0.0.1", MADE_ROOM)
        now[0] += 10
    assert len(said) == Doorkeeper.MOST_LINES


@attack("channels", way="join: strangers from many addresses", weakness="the head's memory grows with each")
def test_what_is_kept_of_strangers_is_bounded() -> None:
    keeper = Doorkeeper(None)
    for number in range(10_000):
        keeper.turned_away(f"2001:db8::{number:x}", SILENT)
    assert len(keeper.counts) <= Doorkeeper.KEPT + 1 and keeper.counts.total() == 10_000
    assert "and " in Doorkeeper.summary(keeper.counts)


@attack("channels", way="join: connections that send a byte now and then", weakness="they hold their place")
def test_a_slow_stranger_is_given_up_and_keeps_nobody_out(
    head: JoinFleet, strangers: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_door, "HANDSHAKE_SECONDS", 1.0)
    slow = [strangers.enter_context(socket.create_connection(("127.0.0.1", head.port))) for _ in range(MOST_WAITING)]
    for each in slow:
        each.send(b"0")
    strangers.enter_context(joined(head, "n02")[0])

    def drip() -> bool:
        for each in slow:
            with contextlib.suppress(OSError):
                each.send(b"0")
        return all(map(gone, slow))

    until(drip)
    assert head.turned_away[f"127.0.0.1: {SILENT}"] + head.turned_away[f"127.0.0.1: {LEFT}"] >= MOST_WAITING - 1


@attack("channels", way="join: a flood that connects and closes", weakness="a node is kept out")
def test_who_connects_and_closes_keeps_nobody_out(head: JoinFleet, strangers: contextlib.ExitStack) -> None:
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", head.port), timeout=5).close()

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        until(lambda: head.turned_away[f"127.0.0.1: {LEFT}"] > 100)
        strangers.enter_context(joined(head, "n02")[0])
    finally:
        stop.set()
        flooding.join()
    assert "n02" in head.joined


@attack("channels", way=WAY, weakness="a node that has proved itself is displaced")
def test_a_node_that_has_joined_stays(head: JoinFleet, strangers: contextlib.ExitStack) -> None:
    connection, channel = joined(head, "n02")
    strangers.enter_context(connection)
    waits, knows = proved(head)  # it knows the token, and has no place yet
    strangers.enter_context(waits)
    knock(head, strangers, 3 * MOST_WAITING)
    until(lambda: head.turned_away[f"127.0.0.1: {MADE_ROOM}"] >= 2 * MOST_WAITING)
    head.send(Ping())
    assert channel.receive() is not None
    knows.send("C", msgspec.json.encode(Newcomer("another", "n03", __version__, PROTOCOL)))
    until(lambda: "n03" in head.joined)


@attack("channels", way="join: connections of another address", weakness="one who waits elsewhere is displaced")
def test_the_source_that_has_most_makes_room(head: JoinFleet, strangers: contextlib.ExitStack) -> None:
    knock(head, strangers, 1, address="127.0.0.3")
    knock(head, strangers, 3 * MOST_WAITING, address="127.0.0.2")
    until(lambda: head.turned_away[f"127.0.0.2: {MADE_ROOM}"] >= 2 * MOST_WAITING)
    assert not any(what.startswith("127.0.0.3") for what in head.turned_away)


@attacks(
    "channels",
    "host, wanted, named",
    ("an IPv4 address through IPv6", "it counts as another source", "::ffff:10.0.0.7", "10.0.0.7", None),
    ("many addresses of one IPv6 network", "each counts as a source", "2001:db8::7", "2001:db8::/64", None),
    ("an address with a scope", "it breaks the head", "fe80::1%eth0", "fe80::/64", "fe80::1"),
    way="join:",
)
def test_addresses_stand_for_machines(host: str, wanted: str, named: str | None) -> None:
    assert source(shown(host)) == wanted
    assert named is None or shown(host) == named


@attack("channels", way="join: a wrong proof", weakness="a connection may try again")
def test_a_connection_has_one_try(head: JoinFleet) -> None:
    with socket.create_connection(("127.0.0.1", head.port), timeout=PATIENCE) as connection:
        greeting = connection.recv(1000)
        assert greeting.startswith(b"gpudoctor-join 1 ")
        line = b"a" * 64 + b" " + b"b" * 64 + b"\n"
        connection.sendall(line + line)
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(1000):
                said += data
        assert said in (REFUSED + b"\n", b"")
    until(lambda: head.turned_away["127.0.0.1: wrong token"] == 1)
    assert head.token.encode() not in greeting + said


@attack("channels", way="join: a proof that was overheard", weakness="it proves again")
def test_a_proof_is_good_once() -> None:
    ours, theirs = socket.socketpair()
    heard = bytearray()
    with ours, theirs:
        other = threading.Thread(target=lambda: introduce(theirs, TOKEN, seconds=PATIENCE))
        other.start()
        admission = Admission(TOKEN)
        ours.sendall(admission.greeting)
        heard += ours.recv(1000)
        ours.sendall(admission.take(bytes(heard)) or b"")
        other.join()
    with pytest.raises(NotProved, match="wrong token"):
        Admission(TOKEN).take(bytes(heard))


@attack("channels", way="join: the head's own words sent back to it", weakness="its own proof proves another")
def test_the_heads_proof_is_no_joiners() -> None:
    """Under one key for both, a head's proof of (its number, ours) would be a joiner's of the same."""
    admission = Admission(TOKEN)
    mine = admission.greeting.split()[2]
    with pytest.raises(NotProved):
        admission.take(mine + b" " + mine + b"\n")


@attack("channels", way="join: a joiner's own words sent back to it", weakness="its own proof proves the head")
def test_a_mirror_is_no_head() -> None:
    ours, theirs = socket.socketpair()

    def mirror() -> None:
        theirs.sendall(b"gpudoctor-join 1 " + b"a" * 64 + b"\n")
        answer = theirs.recv(1000)
        theirs.sendall(answer.split()[1] + b"\n")

    with ours, theirs:
        other = threading.Thread(target=mirror)
        other.start()
        with pytest.raises(NotProved, match="does not know the token"):
            introduce(ours, TOKEN, seconds=PATIENCE)
        other.join()


@attack("channels", way="join: a proof relayed from an honest node", weakness="the relay speaks in its name")
def test_who_relays_a_proof_can_add_nothing(head: JoinFleet) -> None:
    """It carries every byte between an honest node and the head, and then one line of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        told: list[object] = []

        def honest() -> None:
            with socket.create_connection(listener.getsockname(), timeout=PATIENCE) as connection:
                introduce(connection, head.token, seconds=PATIENCE)
                told.append("proved")
                connection.recv(1)

        victim = threading.Thread(target=honest)
        victim.start()
        inner, _ = listener.accept()
        with inner, socket.create_connection(("127.0.0.1", head.port), timeout=PATIENCE) as outer:
            inner.sendall(outer.recv(1000))
            outer.sendall(inner.recv(1000))
            inner.sendall(outer.recv(1000))
            until(lambda: told)
            own = msgspec.json.encode(Newcomer("relay", "relay", __version__, PROTOCOL))
            outer.sendall(b"0" * 64 + b" C " + own + b"\n")
            with contextlib.suppress(ConnectionResetError):
                assert outer.recv(1000) == b""
        victim.join()
    assert "relay" not in head.joined
    until(lambda: head.turned_away[f"127.0.0.1: {LEFT}"] == 1)


@attacks(
    "channels",
    "sent, why",
    ("a line without an end before the proof", "it is kept", b"0" * 1_000_000, "it sent too much"),
    ("binary noise before the proof", "it stops the head", os.urandom(200) + b"\n", "no answer"),
    ("a web browser", "it stops the head", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "no answer"),
    way="join:",
)
def test_what_a_stranger_sends_is_refused_and_dropped(head: JoinFleet, sent: bytes, why: str) -> None:
    with socket.create_connection(("127.0.0.1", head.port), timeout=PATIENCE) as connection:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(sent)
        until(lambda: any(why in what for what in head.turned_away))
    with joined(head, "n02")[0]:
        assert "n02" in head.joined


FEW = """
import os, resource, sys
from gpudoctor.fleet import join_door
from gpudoctor.fleet.join import JoinFleet
join_door.HANDSHAKE_SECONDS = 1000.0
with JoinFleet(2, address="127.0.0.1", wait=60, token=sys.argv[1]) as fleet:
    own = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (own + 12, own + 12))
    print(fleet.port, flush=True)
    sys.stdin.readline()
    print(fleet.joined[1:], flush=True)
"""


@attack("channels", way="join: more connections than the head has descriptors", weakness="a node is kept out")
def test_a_head_without_descriptors_lets_the_oldest_go(strangers: contextlib.ExitStack) -> None:
    root = Path(__file__).parent.parent.parent
    head = subprocess.Popen(
        [sys.executable, "-c", FEW, TOKEN], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert head.stdout is not None
        port = int(head.stdout.readline())
        for _ in range(60):
            strangers.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
        connection, _, told = newcomer(At(port, TOKEN), "n02")
        with connection:
            assert told.node == 1
            assert head.communicate("\n", timeout=PATIENCE)[0] == "('n02',)\n"
    finally:
        head.kill()
        head.communicate()


@attack("channels", way="join: connections while no thread can be started", weakness="the door stays shut")
def test_a_head_without_threads_stays_open(
    head: JoinFleet, strangers: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def none_left(thread: threading.Thread) -> None:
        if "_meet" in repr(getattr(thread, "_target", "")):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        connection, channel = proved(head)
        with connection:
            assert channel.receive() is None
    strangers.enter_context(joined(head, "n02")[0])


# ---------------------------------------------------------------- who knows the token and means harm


@attack("channels", way=NODE, weakness="it takes another node's place")
def test_a_place_is_taken_once(head: JoinFleet, strangers: contextlib.ExitStack) -> None:
    strangers.enter_context(joined(head, "n02")[0])
    again, _, told = newcomer(head, "n02", machine="machine of n02")
    strangers.enter_context(again)
    assert told.node == -1 and "takes part already, as node 1" in told.refused
    own, _, told = newcomer(head, "n02", machine=machine_identity())
    strangers.enter_context(own)
    assert told.refused.endswith("as node 0, the head")


@attack("channels", way=NODE, weakness="it goes by another node's name")
def test_a_name_that_is_taken_is_told_apart(head: JoinFleet, strangers: contextlib.ExitStack) -> None:
    strangers.enter_context(joined(head, socket.gethostname())[0])
    assert head.joined[1] == f"{socket.gethostname()} (127.0.0.1)"


@attacks(
    "channels",
    "name",
    ("its name is an option of ssh", "-oProxyCommand=id"),
    ("its name steers the terminal", "n\x1b]0;x\x07\r\n2"),
    ("its name shows in another order than it is", "n2\u202e3"),
    ("its name is a second command", "n2;reboot"),
    ("its name is endless", "n" * 100_000),
    ("its name looks like another's", "n\u00b22"),
    way=NODE,
)
def test_a_name_that_is_no_hosts_is_its_address(head: JoinFleet, strangers: contextlib.ExitStack, name: str) -> None:
    strangers.enter_context(joined(head, name)[0])
    assert head.joined[1] == "127.0.0.1"


@attacks(
    "channels",
    "kind, payload",
    ("lines nested deeper than the stack", "C", b"[" * 100_000),
    ("a number of a million digits", "C", b'{"machine":"a","hostname":"b","protocol":1' + b"0" * 10**6 + b"}"),
    ("text that is no UTF-8", "C", b'{"machine":"a","hostname":"\xff\xfe"}'),
    ("replies before it has introduced itself", "O", encode(Hello(node=1, hostname="a", gpudoctor="1"))),
    ("another kind of value", "C", b'{"machine":["a"],"hostname":null}'),
    way=NODE,
)
def test_an_introduction_that_is_none_costs_the_head_nothing(
    head: JoinFleet, strangers: contextlib.ExitStack, kind: str, payload: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken: list[object] = []
    monkeypatch.setattr(threading, "excepthook", broken.append)
    connection, channel = proved(head)
    with connection:
        channel.send("O" if kind == "O" else "C", payload.rstrip(b"\n"))
        with contextlib.suppress(ConnectionResetError):
            assert channel.receive() is None
    until(lambda: head.turned_away[f"127.0.0.1: {LEFT}"] == 1)
    strangers.enter_context(joined(head, "n02")[0])
    assert not broken


@attack("channels", way=NODE, weakness="it introduces itself a byte at a time, for ever")
def test_an_introduction_has_a_deadline(head: JoinFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.fleet.join.HANDSHAKE_SECONDS", 0.5)
    connection, _ = proved(head)
    with connection:

        def drip() -> bool:
            with contextlib.suppress(OSError):
                connection.send(b"0")
            return head.turned_away[f"127.0.0.1: {LEFT}"] == 1

        until(drip)


@attack("channels", way=NODE, weakness="a line without an end fills the head's memory")
def test_a_line_without_an_end_ends_the_connection(head: JoinFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.fleet.lines.ArrivingLines.__init__.__defaults__", (1 << 16,))
    connection, channel = joined(head, "n02")
    with connection:
        until(lambda: "n02" in head.joined)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(100):
                connection.sendall(b"0" * (1 << 16))
        until(lambda: "n02" not in head.joined)
        channel.close()


@attack("channels", way=NODE, weakness="it says Hello as another node")
def test_a_node_speaks_for_its_own_place(head: JoinFleet, strangers: contextlib.ExitStack) -> None:
    connection, channel, told = newcomer(head, "n02")
    strangers.enter_context(connection)
    for claimed in (0, 2, -1, 10**9):
        hello = encode(Hello(node=claimed, hostname="n03", gpudoctor=__version__))
        channel.send("O", hello.rstrip(b"\n"))
    strangers.enter_context(joined(head, "n03")[0])
    found = reach(head, timeout=PATIENCE)
    assert told.node == 1 and head.name(1) == "n02" and head.name(2) == "n03"
    assert isinstance(found[0], Hello) and found[0].hostname == socket.gethostname()


@attack("channels", way=NODE, weakness="answers without end fill the head's memory")
def test_answers_that_nobody_takes_are_bounded(
    head: JoinFleet, strangers: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpudoctor.fleet.fleet.MOST_UNREAD_BYTES", 1 << 20)
    connection, channel = joined(head, "n02")
    strangers.enter_context(connection)
    strangers.enter_context(joined(head, "n03")[0])
    with contextlib.suppress(OSError):
        for number in range(3000):
            channel.send("O", encode(Pong(number=number, time=0.0)).rstrip(b"\n"))
    found = reach(head, timeout=PATIENCE)
    until(lambda: head.next_event(0.0) is None)
    assert head.lost[1].kind == "gpudoctor failed" and "without end" in head.lost[1].detail, found
    assert 2 not in head.lost and 0 not in head.lost


# ---------------------------------------------------------------- a head that is another's


def against(part: Callable[[socket.socket], None], *, patience: float = 0.5) -> tuple[int, list[str]]:
    """What a node that joins such a head ends with, and says."""
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        part(connection)

        other = threading.Thread(target=serve, daemon=True)
        other.start()
        status = take_part("127.0.0.1", listener.getsockname()[1], TOKEN, patience=patience, say=said.append)
    return status, said


def with_token(*messages: tuple[str, bytes]) -> Callable[[socket.socket], None]:
    """A head that knows the token, hears the introduction, and says this."""

    def part(connection: socket.socket) -> None:
        channel = welcome(connection, TOKEN)
        channel.receive()
        for kind, payload in messages:
            channel.send("O" if kind == "O" else "C", payload)
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(5)
        while connection.recv(1 << 16):
            pass

    return part


@attack("channels", way=HEAD, weakness="it learns of a node without knowing the token")
def test_an_impostor_learns_two_numbers() -> None:
    heard: list[bytes] = []

    def impostor(connection: socket.socket) -> None:
        connection.sendall(b"gpudoctor-join 1 " + b"a" * 64 + b"\n")
        heard.append(connection.recv(1000))
        connection.sendall(b"b" * 64 + b"\n")
        connection.settimeout(5)
        heard.append(connection.recv(1000))

    status, said = against(impostor)
    assert status == 1 and "does not know the token" in said[-1]
    until(lambda: len(heard) == 2)
    assert len(heard[0]) == 130 and heard[1] == b""
    assert machine_identity().encode() not in heard[0] and TOKEN.encode() not in heard[0]


@attacks(
    "channels",
    "greeting",
    ("a greeting without an end", b"x" * 10_000_000),
    ("a greeting that is binary", bytes(range(256)) + b"\n"),
    ("a version of many digits", b"gpudoctor-join " + b"9" * 200 + b" " + b"a" * 64 + b"\n"),
    way=HEAD,
)
def test_what_an_impostor_says_ends_in_a_line(greeting: bytes) -> None:
    status, said = against(lambda connection: connection.sendall(greeting))
    assert status == 1 and all(line.isprintable() and len(line) < 400 for line in said)


@attacks(
    "channels",
    "payload",
    ("a place that no test has", msgspec.json.encode(Welcome(node=5, nodes=3))),
    ("a place that is no number", b'{"node":1e400,"nodes":3}'),
    ("a test of 2**62 nodes", msgspec.json.encode(Welcome(node=1, nodes=2**62))),
    ("a refusal of a megabyte", msgspec.json.encode(Welcome(refused="no " * 400_000))),
    ("a welcome nested deeper than the stack", b"[" * 100_000),
    way=HEAD,
)
def test_a_welcome_that_is_none_is_told_in_a_line(payload: bytes) -> None:
    status, said = against(with_token(("C", payload)))
    assert status == 1 and len(said) == 1 and len(said[0]) < 500


@attack("channels", way=HEAD, weakness="a line that it did not sign is obeyed")
def test_an_order_that_is_not_signed_is_not_obeyed() -> None:
    def part(connection: socket.socket) -> None:
        channel = welcome(connection, TOKEN)
        channel.receive()
        channel.send("C", msgspec.json.encode(Welcome(node=1, nodes=2)))
        connection.sendall(b"0" * 64 + b" O " + encode(Ping()))
        with contextlib.suppress(Forged, OSError):
            while (received := channel.receive()) is not None:
                assert b"Pong" not in received[1]

    status, said = against(part)
    assert status == 1 and said[-1].endswith("ended without a verdict")


@attack("channels", way=HEAD, weakness="a verdict that is no status is a success")
def test_a_verdict_out_of_range_is_a_failure() -> None:
    place = msgspec.json.encode(Welcome(node=1, nodes=2))
    status, _ = against(with_token(("C", place), ("C", msgspec.json.encode(Verdict(256)))), patience=5)
    assert status == 1


@attacks(
    "channels",
    "where",
    ("a head that is an option", "-oProxyCommand=id:61000"),
    ("a head that is a second command", "a;id:61000"),
    ("a head that steers the terminal", "a\x1b[2J:61000"),
    ("a name of a megabyte", "a" * 1_000_000 + ":61000"),
    way="join: --join HEAD:PORT",
)
def test_a_head_that_is_none_is_wrong_usage(where: str) -> None:
    with pytest.raises(BadInput) as refused:
        live.take_part(where, TOKEN)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 300


def test_an_honest_node_and_an_honest_head_meet() -> None:
    """The stand-ins above are what they say."""
    with JoinFleet(2, address="127.0.0.1", wait=PATIENCE) as fleet, joined(fleet, "n02")[0]:
        assert all(isinstance(said, Hello) for said in reach(fleet, timeout=PATIENCE).values())
