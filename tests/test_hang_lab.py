"""Real jobs that hang in training, diagnosed by `gpudoctor hang` from outside; and the same programs without the fault.

The job does not know of it, unless it is armed. What is asserted is the first cause, whose fault it is, the line, and
that a slow but living job is not called hung.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lab.hangs.hosts import RunningJob, job as job_on_hosts, job_processes
from tests.lab.hangs.of_users import OF_USERS
from tests.lab.hangs.starting import PORT
from tests.lab.hangs.training import SCENARIOS, Running, Scenario, running
from tests.lab.sshd import ssh_hosts, user_environment

PATIENCE = 280.0
"""Seconds for one look at a job, on a crowded machine."""
pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("forks")]
RECORDERS: dict[bool, dict[str, str]] = {True: {}, False: {"TORCH_FR_BUFFER_SIZE": "0"}}
"""The flight recorder is on unless that is said: since torch 2.11."""
NAMES = list(SCENARIOS)
HEALTHY = [name for name in NAMES if SCENARIOS[name].healthy]
LAUNCHED = ("sleeps", "loader_deadlock")
"""Healthy runs under a launcher; the others have their ranks started by hand."""
ARMED = ["early_continue", "order_of_metrics", "different_shapes", "different_groups", "holds_gil"]
Record = Callable[[str, object], None]


def report_on(job: Running, expected_status: int) -> Any:
    """`gpudoctor hang --json` of the job of this process."""
    # Of its script: a compressor that a rank starts for a checkpoint ends in its own time.
    before = {pid for pid, words in job.processes().items() if ".py" in words and not is_zombie(pid)}
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "hang", "--pid", str(job.pid), "--json"],
        env=user_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode in (0, 1), f"{done.returncode}\n{done.stderr}\n{job.output()}"
    answer = json.loads(done.stdout)
    assert len(answer["jobs"]) == 1, answer
    assert done.returncode == expected_status, shown(answer)
    assert before <= set(job.processes()), "a process of the job has ended while it was looked at"
    return answer


def is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def shown(answer: Any) -> str:
    """An answer for whoever reads why a test failed."""
    return json.dumps(answer, indent=1)[:12_000]


def check_cause(scenario: Scenario, answer: Any) -> None:
    """The first cause is right, and says whose and where."""
    (job,) = answer["jobs"]
    assert job["state"] in scenario.states, shown(answer)
    assert job["causes"], shown(answer)
    first = job["causes"][0]
    assert first["cause"] in scenario.causes, shown(answer)
    assert tuple(first["ranks"]) == scenario.culprits, shown(answer)
    assert first["confidence"] >= 0.5, shown(answer)
    assert first["summary"] and first["evidence"] and first["fix"]["text"], shown(answer)
    if scenario.lines:
        assert first["where"] is not None, shown(answer)
        assert Path(first["where"]["file"]).name == Path(scenario.script).name, shown(answer)
        assert first["where"]["line"] in scenario.numbers(), shown(answer)


def check_healthy(answer: Any) -> None:
    """It gets on, and no reason for a hang is made up."""
    (job,) = answer["jobs"]
    assert job["state"] in ("running", "slow"), shown(answer)
    assert {cause["cause"] for cause in job["causes"]} <= {"straggler"}, shown(answer)


@pytest.mark.parametrize("name", NAMES)
def test_a_hanging_job(name: str, tmp_path: Path, record_property: Record) -> None:
    scenario = SCENARIOS[name]
    recorder = NAMES.index(name) % 2 == 0
    with running(scenario, tmp_path, environment=RECORDERS[recorder]) as job:
        answer = report_on(job, 1)
    record_property("seconds", answer["seconds"])
    if scenario.recorder:
        check_that_it_is_left_open(scenario, answer)
    else:
        check_cause(scenario, answer)


def check_that_it_is_left_open(scenario: Scenario, answer: Any) -> None:
    """What only a flight recorder tells is not guessed, and that is said."""
    (job,) = answer["jobs"]
    assert job["state"] in scenario.states, shown(answer)
    assert job["only_recorder"], shown(answer)
    sure = [cause["cause"] for cause in job["causes"] if cause["confidence"] >= 0.5]
    assert set(sure) <= set(scenario.causes), shown(answer)
    assert sure or job["undecided"], shown(answer)


@pytest.mark.parametrize("name", ARMED)
def test_an_armed_job_shows_its_flight_recorder(name: str, tmp_path: Path, record_property: Record) -> None:
    with running(SCENARIOS[name], tmp_path, arm=True) as job:
        answer = report_on(job, 1)
    record_property("seconds", answer["seconds"])
    check_cause(SCENARIOS[name], answer)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_slow_but_living_job(name: str, tmp_path: Path) -> None:
    recorder = NAMES.index(name) % 2 == 1
    scenario = SCENARIOS[name] if name in LAUNCHED else SCENARIOS[name].cheaper()
    with running(scenario, tmp_path, healthy=True, environment=RECORDERS[recorder]) as job:
        answer = report_on(job, 0)
    check_healthy(answer)


@pytest.mark.parametrize("name", ["lock_twice", "handler_lock", "guard_table", "saves_what_failed"])
def test_a_job_as_users_write_them(name: str, tmp_path: Path) -> None:
    """Of `python -m tests.lab.hangs`: a lock taken twice, a handler that wants one, a collective by a table, what was
    swallowed below a barrier, a checkpoint that is saved after an exception, one copied between barriers."""
    with running(OF_USERS[name], tmp_path) as job:
        check_cause(OF_USERS[name], report_on(job, 1))


def test_a_rank_that_builds_one_thing_after_the_other_is_no_hang(tmp_path: Path) -> None:
    with running(OF_USERS["builds_kernels"], tmp_path, healthy=True) as job:
        (report,) = report_on(job, 1)["jobs"]
    assert report["state"] == "slow", shown(report)
    assert report["causes"][0]["cause"] == "slow-rank-timeout", shown(report)


def test_an_idle_server_waits_for_work(tmp_path: Path) -> None:
    with running(OF_USERS["idle_asyncio"], tmp_path, healthy=True) as job:
        answer = report_on(job, 0)
    check_healthy(answer)
    assert "waits for work from outside" in answer["jobs"][0]["undecided"], shown(answer)


@pytest.mark.parametrize("name", ["early_continue", "sleeps", "stops"])
def test_a_hanging_job_on_three_hosts(name: str, record_property: Record) -> None:
    scenario = SCENARIOS[name]._replace(ranks=3)
    with ssh_hosts("a", "b", "c") as cluster, job_on_hosts(cluster, truly=name == "stops") as job:
        for host in cluster.hosts:
            start_on(job, host.name, scenario.script)
        for host in cluster.hosts:
            job.wait_for(host.name, " step 1")
        job.wait_until_still(processes=6)
        answer = report_on_hosts(job)
    record_property("seconds", answer["seconds"])
    check_cause(scenario, answer)
    (report,) = answer["jobs"]
    assert [row["host"] for row in report["ranks"]] == ["a", "b", "c"], shown(answer)


def start_on(job: RunningJob, host: str, script: str) -> None:
    options = ["--nnodes=3", "--nproc-per-node=1", f"--node-rank={'abc'.index(host)}"]
    address = job.cluster["a"].address()
    job.torchrun_script(
        host,
        script,
        *options,
        *(f"--master-addr={address}", f"--master-port={PORT}"),
        PYTHONUNBUFFERED="1",
        GLOO_SOCKET_IFNAME="eth0",
    )


def report_on_hosts(job: RunningJob) -> Any:
    """`gpudoctor hang --hosts a,b,c --json` from the first host. All lab hosts share one machine, whose other jobs are
    seen too, and left out here."""
    done = job.cluster.head.run(
        *(sys.executable, "-m", "gpudoctor", "hang", "--hosts", "a,b,c", "--json"),
        environment=job.cluster.environment(),
        timeout=PATIENCE,
    )
    assert done.returncode == 1, f"{done.returncode}\n{done.stderr}\n{done.stdout}\n{job.everything()}"
    answer = json.loads(done.stdout)
    own = {pid for host in job.cluster.hosts for pid in job_processes(host)}
    answer["jobs"] = [each for each in answer["jobs"] if own & {row["pid"] for row in each["ranks"]}]
    assert len(answer["jobs"]) == 1, shown(answer)
    return answer
