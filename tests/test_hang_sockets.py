"""TCP sockets of processes as `gpudoctor hang` reads them: read/sockets.py, read/job/reach.py."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from gpudoctor.read.job.reach import Attempts, listeners
from gpudoctor.read.sockets import MOST, STATES, Tables, bounded, end, rows
from gpudoctor.read.system import System
from gpudoctor.snapshot.evidence import Socket
from tests.fake_tree import Link, fake

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
PATIENCE = 120.0


def line(
    state: int, *, inode: int = 7, local: str = "0100007F:733C", remote: str = "00000000:0000", **more: int
) -> str:
    sent, received, again = more.get("unsent", 0), more.get("unread", 0), more.get("retransmits", 0)
    queues = f"{sent:08X}:{received:08X} 00:00000000 {again:08X}"
    return f"   0: {local} {remote} {state:02X} {queues}     0        0 {inode} 1\n"


# ---------------------------------------------------------------- the kernel's table


@pytest.mark.skipif(sys.byteorder != "little", reason="the samples are of a little-endian machine")
def test_a_line_is_read() -> None:
    text = HEADER + line(2, remote="0200000A:01BB", unsent=5, unread=17, retransmits=3)
    (row,) = rows(text)
    assert row == ("7", "SYN_SENT", "127.0.0.1", 29500, "10.0.0.2", 443, 5, 17, 3, 0)


@pytest.mark.skipif(sys.byteorder != "little", reason="the samples are of a little-endian machine")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("0100007F:0016", ("127.0.0.1", 22)),
        ("0000000000000000FFFF00000100007F:0016", ("127.0.0.1", 22)),
        ("000080FE000000000000000001000000:FFFF", ("fe80::1", 65535)),
        ("0100007F:10000", None),
        ("0100007F:-1", None),
        ("01007F:0016", None),
        ("zz:1", None),
        ("", None),
    ],
)
def test_an_end_of_a_connection_is_read(words: str, expected: tuple[str, int] | None) -> None:
    assert end(words) == expected


@given(st.one_of(st.text(), st.lists(st.text("0123456789ABCDEF: ", max_size=90), max_size=4).map("\n".join)))
def test_no_text_breaks_the_table(text: str) -> None:
    for row in rows(HEADER + text):
        assert row.state in STATES and 0 <= row.local_port < 65536


def test_the_unusual_is_kept_where_there_are_too_many() -> None:
    def made(state: str, number: int, unsent: int = 0) -> Socket:
        place = {"local": "10.0.0.1", "local_port": 1, "remote": "10.0.0.2"}
        return msgspec.convert({**place, "state": state, "remote_port": number, "unsent_bytes": unsent}, Socket)

    many = [made("ESTABLISHED", number) for number in range(MOST)]
    odd = [made("CLOSE_WAIT", 60001), made("SYN_SENT", 60002)]
    stuck = made("ESTABLISHED", 60003, 100)
    kept = bounded([*many, stuck, *odd])
    assert len(kept) == MOST
    assert {found.remote_port for found in kept[:3]} == {60001, 60002, 60003}


def test_tables_are_of_the_network_namespace_of_each_process(tmp_path: Path) -> None:
    files: dict[str, str | bytes | Link] = {}
    for pid, namespace, port in ((5, "net:[1]", "733C"), (6, "net:[2]", "733D")):
        files |= {
            f"/proc/{pid}/ns/net": Link(namespace),
            f"/proc/{pid}/net/tcp": HEADER + line(10, local=f"00000000:{port}", inode=70),
            f"/proc/{pid}/fd/3": Link("socket:[70]"),
        }
    tables = Tables(fake(tmp_path, files))
    assert [tables.sockets(pid, "x")[0].local_port for pid in (5, 6)] == [29500, 29501]
    assert tables.communicates(5) and not tables.communicates(5, without={"70"})


def test_files_that_may_not_be_listed_are_an_error_and_no_empty_answer(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        Tables(fake(tmp_path, {"/proc/5/net/tcp": HEADER})).sockets(5, "x")


# ---------------------------------------------------------------- this machine


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@LINUX
def test_own_sockets_are_seen_with_their_queues(server: socket.socket) -> None:
    port = server.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as accepted:
        client.sendall(b"x" * 1000)
        accepted.getpeername()
        end_of_wait = time.monotonic() + PATIENCE
        while time.monotonic() < end_of_wait:
            found = Tables(System()).sockets(os.getpid(), "pytest")
            mine = [each for each in found if each.local_port == port and each.state == "ESTABLISHED"]
            if mine and mine[0].unread_bytes == 1000:
                break
            time.sleep(0.02)
        assert [each.unread_bytes for each in mine] == [1000]
        assert any(each.state == "LISTEN" and each.local_port == port and not each.remote for each in found)
        assert mine[0].remote_port == client.getsockname()[1] and mine[0].process == "pytest"


@LINUX
def test_an_own_connection_without_an_answer_is_seen() -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second, socket.socket() as third:
        full.bind(("127.0.0.1", 0))
        full.listen(0)  # the kernel takes one more than that, and drops the next
        for client in (first, second, third):
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        mine = Tables(System()).sockets(os.getpid(), "pytest")
        assert {one.remote_port for one in mine if one.state == "SYN_SENT"} == {full.getsockname()[1]}


@LINUX
def test_the_listener_on_the_jobs_port_is_found_though_it_is_none_of_the_job() -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        try:
            port = int(child.stdout.readline())
            (found,) = listeners(System(), Tables(System()), [os.getpid()], {port}, {os.getpid(): "pytest"})
            assert (found.pid, found.local_port, found.state) == (child.pid, port, "LISTEN")
            assert found.process.startswith("python")
        finally:
            child.stdin.close()


def test_what_is_reached_is_told_apart(server: socket.socket) -> None:
    port = server.getsockname()[1]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = free.getsockname()[1]
        attempts = Attempts(["127.0.0.1", "no-such-host.invalid"], [port, closed], 20.0, own=("localhost",))
        found, unread = attempts.results()
    outcomes = {(each.address, each.port): each.outcome for each in found}
    assert outcomes[("127.0.0.1", port)] == "connected"
    assert outcomes[("127.0.0.1", closed)] == "refused"
    assert "localhost" in attempts.resolved and not any(each.address == "localhost" for each in found)
    # Whether a name server answers at all is this machine's affair.
    if "no-such-host.invalid" in attempts.resolved:
        assert outcomes[("no-such-host.invalid", port)] == "unresolvable"
    else:
        assert any("no-such-host.invalid" in each.what for each in unread)


def test_nothing_is_sent_to_the_job(server: socket.socket) -> None:
    Attempts(["127.0.0.1"], [server.getsockname()[1]], 20.0).results()
    server.settimeout(PATIENCE)
    connection, _ = server.accept()
    with connection:
        connection.settimeout(PATIENCE)
        assert connection.recv(10) == b""


@pytest.mark.thorough
def test_an_address_that_nobody_routes_does_not_hold_us() -> None:
    attempts = Attempts(["192.0.2.77"], [29500], 3.5)
    found, unread = attempts.results()
    assert [each.outcome for each in found] in (["no answer"], ["unreachable"], ["refused"]) or unread
