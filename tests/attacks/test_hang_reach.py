"""`hang` as root: where it connects, and what it says when it could not look."""

import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.cli import run as command
from gpudoctor.errors import CannotTell
from gpudoctor.examination import no_show
from gpudoctor.fleet.fleet import Lost
from gpudoctor.fleet.local import LocalFleet
from gpudoctor.fleet.reach import reach as reached
from gpudoctor.hang import ask, live
from gpudoctor.hang.conclude import conclude
from gpudoctor.hang.find import find_jobs
from gpudoctor.hang.report import HangReport
from gpudoctor.read import process
from gpudoctor.read.job import layers, reach, sampling
from gpudoctor.read.job.reach import NOT_TRIED, Attempts, Held, may_connect
from gpudoctor.read.job.wanted import Wanted
from gpudoctor.read.system import System
from gpudoctor.snapshot.evidence import Collective, Evidence, NodeEvidence, Process, ProcessEvidence, Recorder, to_json
from tests.attacks.registry import attack, attacks
from tests.attacks.test_hang_users import MALLORY, MASTER, as_root, hang, living
from tests.lab.requirements import require
from tests.lab.sshd import user_environment

PATIENCE = 250.0


class Service:
    """Something that listens on this machine, and counts who connects."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])
        self.count = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                connection, _ = self.socket.accept()
                self.count += 1
                connection.close()
        except OSError:
            pass


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.socket.close()


@attack(
    "processes", way="hang as root: MASTER_ADDR of another user", weakness="root connects to a service that it names"
)
def test_root_does_not_connect_to_what_a_process_names(service: Service) -> None:
    as_root()
    with living(MALLORY, MASTER_ADDR="127.0.0.1", MASTER_PORT=service.port, WORLD_SIZE=2) as (pid,):
        _, answer, _ = hang("--pid", str(pid))
    assert service.count == 0
    (said,) = (each for each in answer["unread"] if each["what"].startswith("connection to"))
    assert said["reason"] == NOT_TRIED and "--hosts" in said["reason"]


@attack(
    "processes", way="hang as root: NCCL_RAS_ADDR of another user", weakness="root connects to a service that it names"
)
def test_ras_is_asked_only_where_its_user_listens(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    as_root()
    asked: list[str] = []
    monkeypatch.setattr("gpudoctor.read.job.ras_elsewhere.ask", lambda *words, **more: asked.append(str(words)))
    monkeypatch.setattr(layers.Layers, "_may_be_in_init", lambda *words: False)
    with living(MALLORY, **MASTER, WORLD_SIZE=2) as (pid,):
        environment = {"NCCL_RAS_ADDR": f"127.0.0.1:{service.port}"}
        rank = layers.RankWithRas(pid, environment, "2.28.3", "")
        reader = layers.Layers(System(), Wanted(ranks={"0": {str(pid): 0}}), 0)
        _, unread = reader.ras([rank], {}, time.monotonic() + PATIENCE)
        own = reach.listener_of(System(), os.getpid(), service.port)
    assert asked == [] and service.count == 0
    assert "nothing of the job's user listens there" in unread[0].reason
    assert own == "127.0.0.1", "the same port is its own user's"


def test_where_the_job_is_connected_root_connects_too(service: Service) -> None:
    """Not an attack: what the rule must not cost."""
    with socket.create_connection(("127.0.0.1", service.port)):
        found, unread = Attempts(["127.0.0.1"], [service.port], 20.0, allowed=Held(System(), [os.getpid()])).results()
    assert [each.outcome for each in found] == ["connected"] and not unread


@attacks(
    "processes",
    "held, asked",
    ("another port of the same host counts as the same", 0, 1),
    ("a listener counts as a connection", None, 0),
    way="hang as root: connections of a job",
)
def test_a_connection_is_held_to_that_very_end(service: Service, held: int | None, asked: int) -> None:
    connection = socket.create_connection(("127.0.0.1", service.port + held)) if held is not None else None
    try:
        assert not Held(System(), [os.getpid()])("127.0.0.1", service.port + asked)
    finally:
        if connection is not None:
            connection.close()


def test_named_nodes_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert may_connect(System(), (), named=True)("10.0.0.1", 29500)
    assert not may_connect(System(), (), named=False)("10.0.0.1", 29500)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert may_connect(System(), (), named=False)("10.0.0.1", 29500), "as its user it is no more than the job may"


# ---------------------------------------------------------------- "it has ended" is said only of what was seen to


def a_rank(state: str = "S", **more: Any) -> ProcessEvidence:
    environment = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "29500", **more}
    command = ("python", "train.py")
    return ProcessEvidence(
        process=Process(
            pid=7, parent=1, started=9, state=state, name="python", command=command, environment=environment
        )
    )


def concluded(evidence: Evidence) -> HangReport:
    report = conclude(evidence)
    assert "ended" not in {job.state for job in report.jobs}
    return report


@attack("faults", way="hang: a rank that was not read", weakness="its job is said to have ended")
def test_what_was_not_read_has_not_ended() -> None:
    report = concluded(Evidence(nodes=(NodeEvidence(name="a", processes=(a_rank(),)),)))
    assert report.exit_status == 3
    assert "Could not look" in report.jobs[0].undecided


@attack("faults", way="hang: ranks that do not say their numbers", weakness="their job is said to have ended")
def test_a_job_whose_ranks_are_silent_has_not_ended() -> None:
    silent = a_rank(RANK="", WORLD_SIZE="")
    report = concluded(Evidence(nodes=(NodeEvidence(name="a", processes=(silent,)),)))
    assert [job.state for job in report.jobs] == ["running"]
    assert report.exit_status == 3


@attack("files", way="hang --dumps: recorders that agree", weakness="the job is said to have ended")
def test_dumps_that_agree_do_not_tell_that_it_has_ended() -> None:
    entry = Collective(group="0", sequence=1, operation="all_reduce", state="completed")
    dumps = tuple(Recorder(source=str(rank), rank=rank, entries=(entry,), total=1) for rank in (0, 1))
    assert concluded(Evidence(dumps=dumps)).exit_status == 3


def local_job(pid: int) -> Callable[[LocalFleet], Any]:
    return lambda fleet: [
        job for job in find_jobs(ask.processes(fleet).nodes) if pid in {each.process.pid for each in job.members}
    ]


@attack("faults", way="hang: kill -9 of the agent between two looks", weakness="the job is said to have ended")
def test_an_agent_that_is_killed_is_no_end_of_the_job() -> None:
    environment = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29578"}
    started = [subprocess.Popen(["/bin/sleep", "600"], env={**environment, "RANK": rank}) for rank in "01"]
    try:
        with LocalFleet(["here"]) as fleet:
            reached(fleet, timeout=PATIENCE)
            found = local_job(started[0].pid)(fleet)
            os.kill(fleet.pid(0), 9)
            evidence = ask.look(fleet, found, seconds=0.1, timeout=1.0)
    finally:
        for rank in started:
            rank.kill()
            rank.wait()
    report = concluded(evidence)
    assert [(row.pid, row.state) for row in report.jobs[0].ranks] == [(rank.pid, "not read") for rank in started]
    assert "killed by signal 9" in report.jobs[0].undecided
    assert report.exit_status == 3


class Deaf(LocalFleet):
    """A fleet whose one node is lost."""

    def __init__(self) -> None:
        super().__init__(["here"])
        self.lost[0] = Lost("gpudoctor failed", "MemoryError")


@attack("faults", way="hang --watch: an agent that is lost", weakness="the job is said to have ended")
def test_a_watch_that_cannot_look_says_so() -> None:
    with Deaf() as fleet, pytest.raises(CannotTell, match="MemoryError"):
        live.watch(fleet, live.JobsWanted(interval=0.1), 0.1, no_show)


@attack("faults", way="hang: an agent that is lost at once", weakness="no job is said to be there")
def test_no_answer_is_not_the_answer_that_there_is_none() -> None:
    with (
        Deaf() as fleet,
        pytest.raises(CannotTell, match=r"could not look for jobs on this machine: here: .*MemoryError"),
    ):
        live.look(fleet, live.JobsWanted(), no_show)


@attack("files", way="hang --from: a job that the file does not hold", weakness="it is said to have ended")
def test_a_job_that_a_file_lacks_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.json"
    path.write_bytes(to_json(Evidence(nodes=(NodeEvidence(name="a", processes=(a_rank(),)),))))
    assert command(["hang", "--from", str(path), "--job", "other"]) == 2
    assert "no job of the id other" in capsys.readouterr().err


@attacks(
    "faults",
    "error",
    ("no descriptor is left to look at a process", "it passes for gone", OSError(24, "Too many open files")),
    ("the kernel has no memory to show a process", "it passes for gone", OSError(12, "Out of memory")),
    ("/proc is not there", "the process passes for gone", PermissionError(13, "Permission denied")),
    way="hang:",
)
def test_what_cannot_be_looked_at_is_not_gone(error: OSError) -> None:
    class Failing(System):
        def raw(self, path: str, limit: int = 1 << 24) -> bytes:
            raise error

    for look in (lambda: process.look(7, Failing()), lambda: sampling.sample(Failing(), 7, 9, 0.0)):
        with pytest.raises(OSError, match=error.strerror):
            look()


def limited(which: int, value: int, words: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    def lower() -> None:
        resource.setrlimit(which, (value, value))

    return subprocess.run(
        [sys.executable, "-m", "gpudoctor", "hang", *words],
        env=user_environment(),
        preexec_fn=lower,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


@attacks(
    "faults",
    "which, value",
    ("ulimit -v 300000", "a job that is there is said to have ended", resource.RLIMIT_AS, 300_000 * 1024),
    ("ulimit -n 24", "a job that is there is said to have ended", resource.RLIMIT_NOFILE, 24),
    ("ulimit -v 150000", "no job is said to be there", resource.RLIMIT_AS, 150_000 * 1024),
    way="hang:",
)
def test_with_too_little_it_says_that_it_could_not_look(which: int, value: int) -> None:
    require(sys.platform.startswith("linux"), "needs Linux's limits")
    environment = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29579"}
    started = subprocess.Popen(["/bin/sleep", "600"], env=environment)
    try:
        done = limited(which, value, ("--pid", str(started.pid)))
        plain = limited(which, value, ("--pid", str(started.pid), "--json"))
    finally:
        started.kill()
        started.wait()
    text = (done.stdout + done.stderr).decode()
    assert "has ended" not in text and "no process of a distributed job" not in text
    assert done.returncode in (0, 1, 3) or "too few file descriptors" in text, text
    if plain.returncode in (0, 1) and plain.stdout:
        (job,) = json.loads(plain.stdout)["jobs"]
        assert [row["pid"] for row in job["ranks"] if row["pid"]] == [started.pid]
