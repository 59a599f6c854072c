"""`gpudoctor hang` on real jobs that do not start, over hosts of the lab, as a user asks it: by ssh, from the first.

The job knows nothing of it. GPUDOCTOR_HANG_SECONDS=FILE appends what each took, for measuring.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.lab.hangs.hosts import RunningJob, job, job_processes
from tests.lab.hangs.starting import PORT, RUN, SCENARIOS, Scenario
from tests.lab.sshd import Cluster, ssh_hosts

IDS = [scenario.name.replace(" ", "-") for scenario in SCENARIOS]
TWINS = [scenario for scenario in SCENARIOS if scenario.has_own_twin]
PATIENCE = 280.0
"""Seconds for the answer: ten on a machine that does nothing else, and this one runs the tests."""


def diagnose(cluster: Cluster, name: str) -> dict[str, Any]:
    """The report of the one job on these hosts."""
    hosts = ",".join(host.name for host in cluster.hosts)
    words = (sys.executable, "-m", "gpudoctor", "hang", "--hosts", hosts, "--json")
    done = cluster.head.run(*words, environment=cluster.environment(), timeout=PATIENCE)
    # 3: of a job outside of the lab's hosts, another test's that ends just now, something is not known.
    assert done.returncode in (0, 1, 3), done.stderr
    report = msgspec.json.decode(done.stdout)
    if measured := os.environ.get("GPUDOCTOR_HANG_SECONDS"):
        with Path(measured).open("a") as file:
            file.write(f"{name}: {report.get('seconds')} s\n")
    assert not report.get("lost"), report
    return dict(report)


def own_jobs(report: dict[str, Any], cluster: Cluster) -> list[dict[str, Any]]:
    """The job of the test: on one machine, agents also see what runs outside of the lab's hosts."""
    here = {pid for host in cluster.hosts for pid in job_processes(host)}
    return [
        each
        for each in report["jobs"]
        if f":{PORT}" in each["id"]
        or RUN in each["id"]
        or any(f"pid {pid}" in each["id"] for pid in here)
        or any(rank.get("pid") in here for rank in each["ranks"])
    ]


def started(scenario: Scenario, running: RunningJob) -> None:
    """Start the job with its fault, and wait until it has come to where it stays."""
    since = time.monotonic()
    scenario.start(running, False)
    if scenario.breaks is not None:
        running.wait_for_steps(*scenario.hosts)
        scenario.breaks(running)
        running.wait_until_stopped(*scenario.hosts)
    elif scenario.goes_on:
        running.wait_for_steps(*scenario.goes_on)
    else:
        if scenario.reached is not None:
            running.wait_for(*scenario.reached)
        running.wait_until_still(scenario.processes)
    while time.monotonic() < since + scenario.age:
        time.sleep(0.2)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=IDS)
def test_the_cause_is_named_first(scenario: Scenario) -> None:
    with ssh_hosts(*scenario.hosts, nics=scenario.nics) as cluster, job(cluster, scenario.truly) as running:
        started(scenario, running)
        report = diagnose(cluster, scenario.name)
        shown = msgspec.json.format(msgspec.json.encode(own_jobs(report, cluster))).decode()
        jobs = own_jobs(report, cluster)
        assert jobs and jobs[0].get("causes"), shown
        causes = jobs[0]["causes"]
        assert causes[0]["cause"] == scenario.cause, shown
        said = " ".join((causes[0]["summary"], *(each["text"] for each in causes[0]["evidence"])))
        assert [word for word in scenario.named if word not in said] == [], said
        if scenario.ranks is not None:
            assert tuple(causes[0].get("ranks", ())) == scenario.ranks, shown
        if not scenario.goes_on:
            assert jobs[0]["state"] == "hung", shown
    assert cluster.left_over() == {}


@pytest.mark.parametrize("scenario", TWINS, ids=[scenario.name.replace(" ", "-") for scenario in TWINS])
def test_its_healthy_twin_is_not_blamed(scenario: Scenario) -> None:
    with ssh_hosts(*scenario.hosts, nics=scenario.nics) as cluster, job(cluster, scenario.truly) as running:
        scenario.start(running, True)
        running.wait_for_steps(*scenario.hosts)
        report = diagnose(cluster, f"{scenario.name}, healthy")
        jobs = own_jobs(report, cluster)
        shown = msgspec.json.format(msgspec.json.encode(jobs)).decode()
        assert jobs, shown
        for each in jobs:
            assert each["state"] in ("running", "slow", "starting") and not each.get("causes"), shown
