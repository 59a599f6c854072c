"""NCCL's RAS: its reports as text and JSON, its protocol against servers of every kind, two polls, when it is asked.

The reports are written by hand after the formats in NCCL's src/ras/client_support.cc of the versions they name.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpudoctor.read.job import ras, ras_elsewhere
from gpudoctor.read.job.ras import NoRas, may_ask
from gpudoctor.read.job.ras_text import UnreadableRas, parse
from gpudoctor.snapshot.ras import RasRank
from tests.lab.requirements import require

HEAD = """NCCL version {version} compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  {errors}
    1         4         2       1-2         2         8   RUNNING      OK

Errors
======

"""
V224 = (
    HEAD.format(version="2.24.3", errors="MISMATCH")
    + """Warnings
========

#0-0 (00d5e8b7a1c2f401) MISMATCH
  Communicator ranks have different collective operation counts
  7 ranks have launched up to operation 1041
  Rank 3 has launched up to operation 1040 -- GPU 3 managed by process 4714 on node 10.0.0.1

"""
)
V226 = (
    HEAD.format(version="2.26.2", errors="INCOMPLETE")
    + """DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 4718 on node 10.0.0.2 managing GPU 7 (NVML 3)

#0-0 (00d5e8b7a1c2f401) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 7

Warnings
========

#0-0 (00d5e8b7a1c2f401) MISMATCH
  Communicator ranks have different status
  5 ranks have status RUNNING
  2 ranks have status ABORT
  Rank 4 -- GPU 0 (NVML 4) managed by process 4715 on node 10.0.0.2
  Rank 5 -- GPU 1 (NVML 5) managed by process 4716 on node 10.0.0.2
  Rank 7 has status NOCOMM
  Communicator ranks have different AllReduce operation counts
  4 ranks have launched up to operation 12
  2 ranks have launched up to operation 13
  Rank 0 -- GPU 0 managed by process 4711 on node 10.0.0.1
  Rank 1 -- [process information not found]
  Rank 6 has not launched any operations -- GPU 2 managed by process 4717 on node 10.0.0.2

"""
)
OK_227 = HEAD.format(version="2.27.3", errors="      OK") + "Warnings\n========\n\n"


def json_report(*counts: dict[str, int], missing: int | None = None) -> bytes:
    ranks = [
        {
            "rank": rank,
            "host": "10.0.0.1",
            "pid": 4711 + rank,
            "cuda_dev": rank,
            "nvml_dev": rank,
            "status": {
                "init_state": 0,
                "async_error": 0,
                "finalize_called": False,
                "destroy_flag": False,
                "abort_flag": False,
            },
            "collective_counts": count,
        }
        for rank, count in enumerate(counts)
    ]
    lost = [{"rank": missing, "host": "10.0.0.2", "pid": 9, "status": {"unresponsive": True, "considered_dead": True}}]
    communicator = {
        "hash": "0xd5e8",
        "secondary_hash": "0x1:0x2",
        "size": len(counts) + (missing is not None),
        "ranks": ranks,
        "missing_ranks": lost if missing is not None else [],
    }
    return json.dumps({"nccl_version": "2.28.9", "communicators": [communicator], "ras": {}}, indent=2).encode()


# ---------------------------------------------------------------- reports


def test_text_of_2_24_counts_all_collectives_together() -> None:
    found = parse(V224.encode(), 5.0, "here")

    first = found.communicators[0]
    assert (found.nccl, found.at, first.id, first.size) == ("2.24.3", 5.0, "00d5e8b7a1c2f401", 8)
    assert first.errors == "MISMATCH"
    assert first.ranks == (RasRank(rank=3, host="10.0.0.1", pid=4714, counts={"": 1040}),)
    assert first.parties == {"": ((7, 1041), (1, 1040))}
    assert [(each.size, each.errors) for each in found.communicators[1:]] == [(8, "MISMATCH"), (2, "OK")]


def test_text_of_2_26_counts_by_collective_and_names_who_is_lost() -> None:
    first = parse(V226.encode(), 5.0, "here").communicators[0]

    assert first.errors == "INCOMPLETE MISMATCH"
    assert [each.rank for each in first.missing] == [7]
    by_rank = {each.rank: each for each in first.ranks}
    assert by_rank[4].status == by_rank[5].status == "ABORT"
    assert (by_rank[0].counts, by_rank[0].pid) == ({"AllReduce": 13}, 4711)
    assert by_rank[1].counts == {"AllReduce": 13}
    assert by_rank[6].counts == {"AllReduce": 0}
    assert first.parties == {"AllReduce": ((4, 12), (2, 13), (1, 0))}


def test_a_healthy_report_has_groups_only() -> None:
    found = parse(OK_227.encode(), 5.0, "here")

    assert [each.errors for each in found.communicators] == ["OK", "OK"]


def test_json_of_2_28_has_every_rank() -> None:
    (found,) = parse(json_report({"AllReduce": 9}, {"AllReduce": 8}, missing=2), 5.0, "here").communicators

    assert [each.counts for each in found.ranks] == [{"AllReduce": 9}, {"AllReduce": 8}]
    assert [each.status for each in found.ranks] == ["RUNNING", "RUNNING"]
    assert [(each.rank, each.status) for each in found.missing] == [(2, "dead")]


@pytest.mark.parametrize(
    "raw", [b"HTTP/1.1 400 Bad Request\r\n", b"{}", b"{", b'{"communicators": 5}', b"\xff\xfe", b"[]"]
)
def test_what_is_no_report_is_told(raw: bytes) -> None:
    with pytest.raises(UnreadableRas):
        parse(raw, 0.0, "here")


@given(st.lists(st.sampled_from([*V224.splitlines(), *V226.splitlines()]) | st.text(max_size=60), max_size=60))
def test_lines_in_any_order_do_no_harm(lines: list[str]) -> None:
    parse("\n".join(["NCCL version 2.26.2", *lines]).encode("utf-8", "replace"), 0.0, "here")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["hash", "size", "ranks", "missing_ranks", "rank", "host", "pid", "status", "collective_counts"]
)


@given(st.lists(st.dictionaries(NAMES, VALUES | st.lists(st.dictionaries(NAMES, VALUES), max_size=2)), max_size=3))
def test_json_of_any_values_does_no_harm(communicators: list[Any]) -> None:
    try:
        parse(json.dumps({"communicators": communicators}).encode(), 0.0, "here")
    except UnreadableRas as error:
        assert "JSON" in str(error)


# ---------------------------------------------------------------- the protocol


class Server:
    """RAS as a client sees it, or something else on its port."""

    def __init__(self, report: bytes, *, knows_format: bool = False, behaves: str = "well") -> None:
        self.report = report
        self.knows_format = knows_format
        self.behaves = behaves
        self.heard: list[str] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        try:
            connection, _ = self.socket.accept()
        except OSError:
            return
        with connection:
            try:
                self._talk(connection)
            except OSError:
                pass  # the client has had enough

    def _talk(self, connection: socket.socket) -> None:
        if self.behaves == "silent":
            self.over.wait(60)
            return
        if self.behaves == "floods":
            while not self.over.is_set():
                connection.sendall(b"x" * 65536)
            return
        if self.behaves == "closes":
            return
        received = b""
        while chunk := connection.recv(4096):
            received += chunk
            while b"\n" in received:
                line, _, received = received.partition(b"\n")
                word = line.decode()
                self.heard.append(word)
                if self._answer(connection, word):
                    return

    def _answer(self, connection: socket.socket, word: str) -> bool:
        if word.startswith("CLIENT PROTOCOL"):
            connection.sendall(b"SERVER PROTOCOL 2\n")
        elif word.startswith("TIMEOUT"):
            connection.sendall(b"OK\n")
        elif word.startswith("SET FORMAT"):
            connection.sendall(b"OK\n" if self.knows_format else b"ERROR: Unknown command " + word.encode() + b"\n")
        elif word == "VERBOSE STATUS":
            if self.behaves == "hangs in its report":
                connection.sendall(self.report[: len(self.report) // 2])
                self.over.wait(60)
            elif self.behaves != "says nothing":
                for at in range(0, len(self.report), 500):
                    connection.sendall(self.report[at : at + 500])
            return True
        return False

    def end(self) -> None:
        self.over.set()
        self.socket.close()
        with socket.socket() as nobody:
            nobody.settimeout(0.1)
            nobody.connect_ex(("127.0.0.1", self.port))
        self.thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def make(report: bytes = b"", **more: Any) -> Server:
        made.append(Server(report, **more))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.mark.parametrize(
    ("report", "knows_format"),
    [(V224.encode(), False), (V226.encode(), False), (OK_227.encode(), False), (json_report({"AllReduce": 1}), True)],
    ids=["2.24", "2.26", "2.27", "2.28"],
)
def test_ras_of_each_version_answers(serve: Callable[..., Server], report: bytes, knows_format: bool) -> None:
    server = serve(report, knows_format=knows_format)

    found = ras.ask("127.0.0.1", server.port, timeout=30)

    assert found.communicators == parse(report, 0, "").communicators
    assert found.source == f"RAS at 127.0.0.1:{server.port}"
    assert server.heard == ["CLIENT PROTOCOL 2", "TIMEOUT 3", "SET FORMAT json", "VERBOSE STATUS"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("behaves", "reason"),
    [
        ("silent", "no answer within"),
        ("floods", "not NCCL's RAS"),
        ("closes", "closed the connection"),
        ("says nothing", "without a report"),
        ("hangs in its report", "no answer within"),
    ],
)
def test_a_server_that_does_not_behave_is_left(serve: Callable[..., Server], behaves: str, reason: str) -> None:
    server = serve(V224.encode(), behaves=behaves)

    with pytest.raises(NoRas, match=reason):
        ras.ask("127.0.0.1", server.port, timeout=1.0)


def test_another_service_on_the_port_is_recognised(serve: Callable[..., Server]) -> None:
    with pytest.raises(NoRas, match="not NCCL's RAS"):
        ras.ask("127.0.0.1", serve(b"<html></html>").port, timeout=30)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    with pytest.raises(NoRas, match="nothing listens"):
        ras.ask("127.0.0.1", port, timeout=30)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "", "a" * 300, "\udcff", "127.0.0.1\0"])
def test_an_address_that_is_none(host: str) -> None:
    with pytest.raises(NoRas):
        ras.ask(host, 1, timeout=10)


# ---------------------------------------------------------------- when, and where


@pytest.mark.parametrize(
    ("version", "in_init", "environment", "reason"),
    [
        ("2.27.5", False, {}, ""),
        ("2.24.3", False, {}, ""),
        ("2.26.2", True, {}, "2.27.3"),
        ("2.27.3", True, {}, ""),
        ("2.28.9+cuda12.9", True, {}, ""),
        ("2.21.5", False, {}, "has no RAS"),
        ("", False, {}, "not known"),
        ("unknown", False, {}, "not known"),
        ("2.27.5", False, {"NCCL_RAS_ENABLE": "0"}, "turned it off"),
        ("2.27.5", False, {"NCCL_RAS_ENABLE": "1"}, ""),
    ],
)
def test_when_ras_may_be_asked(version: str, in_init: bool, environment: dict[str, str], reason: str) -> None:
    found = may_ask(version, in_init=in_init, environment=environment)

    assert reason in found
    assert bool(found) == bool(reason)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("localhost", 28028)),
        ("10.0.0.5:28100", ("10.0.0.5", 28100)),
        ("[::1]:28100", ("::1", 28100)),
        (":28100", ("localhost", 28100)),
        ("node1", ("localhost", 28028)),
        ("node1:x", ("localhost", 28028)),
        ("node1:99999999999", ("localhost", 28028)),
        ("node1:0", ("localhost", 28028)),
    ],
)
def test_where_ras_listens(text: str, address: tuple[str, int]) -> None:
    assert ras.address({"NCCL_RAS_ADDR": text}) == address


def test_in_our_own_namespace_it_is_asked_directly(serve: Callable[..., Server]) -> None:
    server = serve(V226.encode())

    assert ras_elsewhere.ask(os.getpid(), "127.0.0.1", server.port, timeout=30).nccl == "2.26.2"


IN_NAMESPACE = """
import fcntl, socket, struct, sys
with socket.socket() as control:  # lo is down in a new namespace
    request = struct.pack("16sH22x", b"lo", 0x1)
    fcntl.ioctl(control, 0x8914, request)
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
file = connection.makefile("rwb")
for line in file:
    if line.startswith(b"VERBOSE"):
        file.write(sys.argv[1].encode())
        break
    file.write(b"SERVER PROTOCOL 2\\n" if line.startswith(b"CLIENT") else b"OK\\n")
    file.flush()
file.close()
connection.close()
"""


@pytest.fixture
def elsewhere() -> Iterator[tuple[int, int]]:
    """pid and port of a server in a network namespace of its own."""
    require(os.geteuid() == 0 and shutil.which("unshare"), "needs root and unshare")
    server = subprocess.Popen(
        ["unshare", "--net", sys.executable, "-c", IN_NAMESPACE, V226], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    yield server.pid, int(server.stdout.readline())
    server.kill()
    server.wait()
    server.stdout.close()


def test_ras_in_another_network_namespace_is_asked_by_a_child(elsewhere: tuple[int, int]) -> None:
    pid, port = elsewhere

    found = ras_elsewhere.ask(pid, "127.0.0.1", port, timeout=30)

    assert (found.nccl, len(found.communicators)) == ("2.26.2", 3)


def test_a_refusal_in_another_network_namespace_is_told(elsewhere: tuple[int, int]) -> None:
    pid, port = elsewhere

    with pytest.raises(NoRas, match="nothing listens"):
        ras_elsewhere.ask(pid, "127.0.0.1", port - 1, timeout=30)


def test_who_is_not_root_is_told_why_it_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(ras_elsewhere, "NAMESPACE_OF", "/nowhere/{pid}")

    with pytest.raises(NoRas, match="only root may enter"):
        ras_elsewhere.ask(1, "127.0.0.1", 28028, timeout=5)
