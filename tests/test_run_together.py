"""`gpudoctor run` on several nodes: doctors find each other, one keeps the report. Torchruns on hosts of the lab."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpudoctor.fleet import orders
from gpudoctor.fleet.messages import Examine, FindRanks, Launch, Listen, Reach, Run
from gpudoctor.read.process import descendants
from gpudoctor.run import hub
from gpudoctor.run.hub_messages import HubTask
from gpudoctor.run.meeting import Meeting, found_token, leave_token, meeting, ports, take_back_token
from tests.lab.ends.started import truly
from tests.lab.hosts import Host, hosts
from tests.lab.sshd import user_environment

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="run attends commands on Linux"),
    pytest.mark.timeout(600),  # waits for most of a minute
]
PATIENCE = 240.0
TORCHRUN = ("torchrun", "--nnodes=2", "--rdzv-endpoint=n1:29500", "train.py")
SECRETS = ("hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345", "pa55w0rd", "0123456789abcdef0123456789abcdef01234567")
RANK = textwrap.dedent(
    """
    import os, signal, time
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    for step in range(100000):
        if step == 20 and dist.get_rank() == 1 and {how!r} == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 20 and dist.get_rank() == 1 and {how!r} == "sleeps":
            time.sleep(10000)
        if step == 0 and dist.get_rank() == 1:
            print("with hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345", "at https://mara:pa55w0rd@data/", flush=True)
        dist.all_reduce(torch.ones(4))
        if step % 20 == 0:
            print(f"rank {{dist.get_rank()}} step {{step}}", flush=True)
        time.sleep(0.05)
    """
)


def test_where_they_meet_is_told_by_the_line_the_operator_or_slurm(tmp_path: Path) -> None:
    token = {"GPUDOCTOR_TOKEN": "secret"}
    assert meeting(TORCHRUN, token) == (Meeting(nodes=2, head="n1", is_head=None), "")
    static = ("torchrun", "--nnodes", "2", "--node_rank=1", "--master-addr", "10.0.0.1", "train.py")
    assert meeting(static, token) == (Meeting(nodes=2, head="10.0.0.1", is_head=False), "")
    accelerate = ("accelerate", "launch", "--num_machines=2", "--machine_rank=0", "--main_process_ip=n1", "train.py")
    assert meeting(accelerate, token) == (Meeting(nodes=2, head="n1", is_head=True), "")
    of_operator = {"PET_NNODES": "4", "PET_NODE_RANK": "0", "PET_MASTER_ADDR": "train-master-0", **token}
    assert meeting(("torchrun", "train.py"), of_operator)[0] == Meeting(nodes=4, head="train-master-0", is_head=True)
    step = {"NUM_NODES": "3", "NUM_TASKS": "3", "NODELIST": "n[1-3]", "ID": "0"}
    of_slurm = {f"SLURM_STEP_{name}": value for name, value in step.items()} | {
        "SLURM_JOB_ID": "4711",
        "SLURM_PROCID": "2",
        "XDG_STATE_HOME": str(tmp_path),
    }
    shared = str(tmp_path / "gpudoctor" / "meetings" / "4711-0-0")
    assert meeting(("bash", "train.sh"), of_slurm)[0] == Meeting(nodes=3, head="n1", is_head=False, shared=shared)
    assert meeting(("torchrun", "--nproc-per-node=2", "train.py"), token) == (None, "")
    assert "set GPUDOCTOR_TOKEN" in meeting(TORCHRUN, {})[1]
    assert "names no node" in meeting(("torchrun", "--nnodes=2", "train.py"), token)[1]


def test_a_token_is_taken_from_a_file_of_this_user_alone(tmp_path: Path) -> None:
    place = str(tmp_path / "meetings" / "1-0-0")
    assert found_token(place, 0.0) == ""
    token = leave_token(place)
    assert found_token(place, 0.0) == token and len(set(ports(token))) == 4
    Path(place).chmod(0o644)
    assert found_token(place, 0.0) == ""
    take_back_token(place, "another's")
    assert Path(place).exists()
    take_back_token(place, token)
    assert not Path(place).exists()


def test_a_token_that_an_earlier_job_has_left_is_given_up_for_the_head_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clusters with one home count jobs alike: eight nodes of a step met nobody, and each told its own."""
    place = str(tmp_path / "meetings" / "1-0-0")
    asked = []

    def tried(token: str) -> list[int]:
        asked.append(token)
        leave_token(place)
        return []

    monkeypatch.setattr(hub, "ports", tried)
    monkeypatch.setattr(hub, "AGAIN_SECONDS", 0.01)
    stale = leave_token(place)
    where = Meeting(nodes=2, head="n1", is_head=False, shared=place)
    task = HubTask(meeting=where, name="n2", began=0.0, folder="", control=0)
    with pytest.raises(ValueError):
        hub.MemberHub(task, hub.DoctorLine(0), "")._found(0.1)
    assert asked[0] == stale and len(set(asked)) == len(asked) > 1


def test_who_comes_to_a_look_reads_and_starts_nothing() -> None:
    for order in (FindRanks(), Listen(), Reach(), Examine()):
        assert orders.of_a_look(order, {}) == order
    launch = Launch("1", (0,), (1,), "n1", 29500, "gloo", "cpu", ())
    for forbidden in (Run(launch=launch, python=sys.executable), Examine(files=("/etc/shadow",))):
        with pytest.raises(orders.NotAllowed):
            orders.of_a_look(forbidden, {})
    anybodys = orders.of_a_look(Examine(python="/tmp/python3"), {})
    assert isinstance(anybodys, Examine) and not anybodys.python


@pytest.fixture
def two() -> Iterator[tuple[Host, ...]]:
    with hosts("n1", "n2") as machines:
        yield machines


def started(
    machines: tuple[Host, ...],
    folder: Path,
    how: str,
    *options: str,
    variables: Mapping[str, str],
    around: tuple[str, ...] = (),
    launcher: tuple[str, ...] = (sys.executable, "-m", "torch.distributed.run"),
) -> list["subprocess.Popen[bytes]"]:
    """The same line on every node, but for its number; what each says is in a file of its name."""
    script = folder / "train.py"
    script.write_text(RANK.format(how=how))
    processes = []
    for number, machine in enumerate(machines):
        ours = (sys.executable, "-m", "gpudoctor", "run", "--preflight", "none", *options, "--")
        torchrun = (*launcher, "--nnodes=2", "--nproc-per-node=1")
        where = (f"--node-rank={number}", "--master-addr=10.0.0.1", "--master-port=29511", str(script))
        alone = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")  # hosts of the lab see all processes
        environment = {
            **truly(user_environment()),
            "XDG_STATE_HOME": str(folder / machine.name),
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        with (folder / f"said-{machine.name}").open("wb") as said:
            processes.append(
                subprocess.Popen(
                    machine.command(*alone, *around, *ours, *torchrun, *where),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
            )
    return processes


def ours(folder: Path, name: str) -> str:
    text = (folder / f"said-{name}").read_text(errors="replace")
    return "".join(line for line in text.splitlines(keepends=True) if line.startswith("gpudoctor:"))


def ended(processes: list["subprocess.Popen[bytes]"]) -> None:
    for process in processes:
        if process.poll() is None:
            with_group(process, signal.SIGKILL)
        process.wait()


def with_group(process: "subprocess.Popen[bytes]", number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def test_a_rank_that_dies_on_another_node_is_named_by_the_node_that_keeps_the_report(
    two: tuple[Host, ...], tmp_path: Path
) -> None:
    variables = {"GPUDOCTOR_TOKEN": "of this test", "WANDB_API_KEY": SECRETS[-1]}
    processes = started(two, tmp_path, "killed", variables=variables)
    try:
        statuses = [process.wait(PATIENCE) for process in processes]
    finally:
        ended(processes)
    said = ours(tmp_path, "n1")
    assert statuses == [1, 1], said
    assert " on n2) was killed by SIGKILL" in said and "[rank-died]" in said, said
    assert "is told by the node that keeps the report" in ours(tmp_path, "n2"), ours(tmp_path, "n2")
    kept = next((tmp_path / "n1" / "gpudoctor" / "runs").glob("*/nodes/n2"))
    assert (kept / "run.json").exists() and (kept / "output.log").exists()
    assert "of this test" not in said + "".join(path.read_text() for path in kept.parent.parent.glob("*.json"))
    page = tmp_path / "page.html"
    words = (sys.executable, "-m", "gpudoctor", "report", str(kept.parent.parent), "--redact", "--html", str(page))
    shown = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
    assert "With n2 (exit status 1 after" in shown and "its part on n2 ended with exit status 1" in shown, shown
    assert " on n2) was killed by SIGKILL" in " ".join(shown.partition("\n\n")[0].split()), shown
    sent = page.read_text()
    assert "SIGKILL" in sent and not re.search(r"\bn[12]\b", sent)
    for secret in (*SECRETS, "of this test"):
        assert secret not in sent and secret not in shown


def test_a_job_that_stands_on_another_node_is_named_once_and_ended_on_both(
    two: tuple[Host, ...], tmp_path: Path
) -> None:
    options = ("--stall", "10", "--on-stall", "kill")
    # srun writes what all nodes say into one: there the head alone says why.
    step = {"GPUDOCTOR_TOKEN": "of this test", "SLURM_STEP_ID": "0"}
    processes = started(two, tmp_path, "sleeps", *options, variables=step)
    try:
        for process in processes:
            process.wait(PATIENCE)
    finally:
        ended(processes)
    said = ours(tmp_path, "n1")
    assert "rank 1 sleeps at train.py:" in said and "rank 1 on n2" in said and "[slow-rank-timeout]" in said, said
    other = ours(tmp_path, "n2")
    assert "stands still" not in other and "cause" not in other and "is told by" not in other, other


def test_without_a_way_each_keeps_its_own_and_says_so(two: tuple[Host, ...], tmp_path: Path) -> None:
    stands_in = tmp_path / "torchrun"
    stands_in.write_text("#!/bin/sh\nsleep 1\nexit 1\n")
    stands_in.chmod(0o755)
    processes = started(two, tmp_path, "killed", variables={}, launcher=(str(stands_in),))
    try:
        for process in processes:
            process.wait(PATIENCE)
    finally:
        ended(processes)
    for name in ("n1", "n2"):
        assert "each of the 2 nodes keeps a report of its own: they have no way to know each other" in ours(
            tmp_path, name
        )


def test_a_node_that_is_lost_is_told(two: tuple[Host, ...], tmp_path: Path) -> None:
    processes = started(two, tmp_path, "goes on", variables={"GPUDOCTOR_TOKEN": "of this test"})
    try:
        kept = tmp_path / "n1" / "gpudoctor" / "runs"
        deadline = time.monotonic() + PATIENCE
        while not list(kept.glob("*/rank-0.log")) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(10)
        two[1].unplug(0)
        while "n2:" not in ours(tmp_path, "n1") and time.monotonic() < deadline:
            time.sleep(0.5)
        with_group(processes[0], signal.SIGTERM)
        processes[0].wait(PATIENCE)
    finally:
        ended(processes)
    assert "n2: nothing is heard of this node any more after" in ours(tmp_path, "n1"), ours(tmp_path, "n1")


def test_doctors_that_a_cut_has_parted_find_each_other_again_and_tell_what_was_missed(
    two: tuple[Host, ...], tmp_path: Path
) -> None:
    processes = started(two, tmp_path, "goes on", variables={"GPUDOCTOR_TOKEN": "of this test"})
    try:
        deadline = time.monotonic() + PATIENCE
        while min(steps_said(tmp_path, name) for name in ("n1", "n2")) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(5)  # the doctors have met
        two[1].unplug(0)
        while "nothing is heard of this node" not in ours(tmp_path, "n1") and time.monotonic() < deadline:
            time.sleep(0.5)
        two[1].plug_in(0)
        while "is heard again" not in ours(tmp_path, "n1") and time.monotonic() < deadline:
            time.sleep(0.5)
        os.kill(doctor_of(processes[1]), signal.SIGTERM)  # what n2 alone knows of its end comes by the new way
        for process in processes:
            process.wait(PATIENCE)
    finally:
        ended(processes)
    said = ours(tmp_path, "n1")
    assert re.search(r"gpudoctor: n2 is heard again, after \d+ s", said), said
    assert re.search(r"nothing was heard of n2 from \d+ s to \d+ s: looks of that time were without its ranks", said)
    assert "its part on n2 was asked to end: it got SIGTERM" in said, said
    kept = next((tmp_path / "n1" / "gpudoctor" / "runs").glob("*/run.json"))
    assert "nothing was heard of n2" in kept.read_text()
    assert (kept.parent / "nodes" / "n2" / "run.json").exists()


OUTLIVED = ("sh", "-c", '"$@"; while pgrep -f "^/.*train.py"; do sleep 0.2; done > /dev/null', "sh")
"""Around a doctor that is to be killed: as process 1 of its host it would take all others along."""


def doctor_of(process: "subprocess.Popen[bytes]") -> int:
    """The pid of a part's doctor."""
    for child in descendants(process.pid):
        words = Path(f"/proc/{child.pid}/cmdline").read_bytes().split(b"\0")
        if words[1:4] == [b"-m", b"gpudoctor", b"run"]:
            return child.pid
    raise AssertionError("no doctor")


def steps_said(folder: Path, name: str) -> int:
    return (folder / f"said-{name}").read_text(errors="replace").count(" step ")


@pytest.mark.parametrize("which", [0, 1])
def test_a_doctor_that_is_killed_hurts_no_job_and_the_other_says_so(
    two: tuple[Host, ...], tmp_path: Path, which: int
) -> None:
    token = {"GPUDOCTOR_TOKEN": "of this test"}
    processes = started(two, tmp_path, "goes on", variables=token, around=OUTLIVED)
    killed, other = two[which].name, two[1 - which].name
    try:
        deadline = time.monotonic() + PATIENCE
        while min(steps_said(tmp_path, name) for name in (killed, other)) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(5)  # the doctors have met
        os.kill(doctor_of(processes[which]), signal.SIGKILL)
        time.sleep(3)
        before = {name: steps_said(tmp_path, name) for name in (killed, other)}
        while any(steps_said(tmp_path, name) < before[name] + 3 for name in before) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert all(steps_said(tmp_path, name) >= before[name] + 3 for name in before), "the job has stopped"
        os.kill(doctor_of(processes[1 - which]), signal.SIGTERM)
        processes[1 - which].wait(PATIENCE)
    finally:
        ended(processes)
    said = ours(tmp_path, other)
    if which == 1:  # the node that keeps the report goes on
        assert "n2: its gpudoctor has gone without a word after" in said, said
        assert "its part of the job may go on" in said
    else:
        assert "n2 has seen; each of the 2 nodes keeps a report of its own: " in said, said
        assert "the head, after" in said
