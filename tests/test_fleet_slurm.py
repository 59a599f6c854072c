"""Nodes of a Slurm allocation: where in Slurm we are, what srun prints, and agents started by it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given, strategies as st

from gpudoctor.fleet.fleet import Lost, Node
from gpudoctor.fleet.messages import MAXIMUM_LINE_BYTES, Examine, Examined, Hello, Ping, Pong, encode
from gpudoctor.fleet.reach import reach
from gpudoctor.fleet.slurm import OPTIONS, NoSlurm, SlurmFleet, node_names, situation, step_environment
from gpudoctor.fleet.slurm_lines import Assembly, Placed, StepEnded, TaskFailure, task_failure, tasks_of
from tests.lab.slurm import SlurmCluster, slurm_cluster

FAKE = (sys.executable, str(Path(__file__).parent / "fake_srun.py"))
INSIDE = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-2],m07", "PATH": os.environ["PATH"]}
STEP = INSIDE | {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1"}


def fleet(names: tuple[str, ...] = ("n1", "n2"), /, **story: object) -> SlurmFleet:
    environment = INSIDE | {"GPUDOCTOR_FAKE_SRUN": json.dumps(story)}
    return SlurmFleet(tuple(Node(name) for name in names), srun=FAKE, environment=environment)


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, "none"),
        ({"SLURM_CONF": "/etc/slurm/slurm.conf"}, "none"),
        (INSIDE, "allocation"),
        (INSIDE | {"SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0"}, "allocation"),
        (STEP | {"SLURM_STEP_NUM_TASKS": "3"}, "step"),
        (STEP | {"SLURM_STEP_NUM_TASKS": "1"}, "allocation"),
        (STEP | {"SLURM_STEP_NUM_TASKS": "3", "SLURM_PTY_PORT": "40000"}, "allocation"),
        (STEP | {"SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_ID": "4294967290"}, "allocation"),
    ],
    ids=[
        "outside",
        "configured only",
        "salloc",
        "sbatch",
        "srun",
        "srun of one task",
        "srun --pty",
        "interactive step",
    ],
)
def test_situation(environment: dict[str, str], wanted: str) -> None:
    assert situation(environment) == wanted


def test_node_names_come_from_the_allocation() -> None:
    assert set(node_names(INSIDE)) == {"n1", "n2", "m07"}


@pytest.mark.parametrize("folded", ["", "n[1-", "n[a]", "n[1-3", "@group/x["])
def test_a_node_list_that_cannot_be_read_is_one_line(folded: str) -> None:
    with pytest.raises(NoSlurm) as refused:
        node_names({"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": folded})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodes": 4}, "--nodes 4: Slurm job 12 has 3"),
        ({"exclude": ("n1", "n2", "m07")}, "--exclude leaves no node"),
        ({"exclude": ("x9",)}, "--exclude x9: Slurm job 12 has no such node"),
        ({"srun": ("/nonexistent/srun",)}, "srun cannot be run: No such file or directory"),
    ],
)
@pytest.mark.thorough
def test_what_the_allocation_cannot_give_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(NoSlurm, match=words):
        SlurmFleet.inside(environment=INSIDE, **options)  # type: ignore[arg-type]


def test_the_users_own_step_options_do_not_reach_our_step() -> None:
    asked = {"SLURM_MEM_PER_CPU": "10", "SLURM_GPUS_PER_TASK": "1", "SLURM_STDOUTMODE": "/x", "SLURM_NTASKS": "8"}
    kept = step_environment(INSIDE | asked | {"SLURM_CONF": "/c", "NCCL_DEBUG": "INFO", "SRUN_CPUS_PER_TASK": "2"})
    assert not asked.keys() & kept.keys()
    assert "SRUN_CPUS_PER_TASK" not in kept
    assert kept["SLURM_CONF"] == "/c" and kept["SLURM_JOB_ID"] == "12" and kept["NCCL_DEBUG"] == "INFO"


# what srun prints


def pieces(task: int, line: bytes, size: int = 1024) -> Iterator[bytes]:
    for begin in range(0, len(line), size):
        yield b"%d: %b\n" % (task, line[begin : begin + size])


messages = st.builds(
    lambda text, number: encode(Hello(node=0, hostname=text, gpudoctor=text, number=number)).rstrip(b"\n"),
    st.text(max_size=60),
    st.integers(0, 9),
)


@given(st.lists(st.tuples(st.integers(0, 2), messages), max_size=6), st.integers(1, 50), st.randoms())
def test_cut_lines_of_several_tasks_are_put_together(said: list[tuple[int, bytes]], size: int, random: object) -> None:
    queues = {
        task: [piece for each, line in said if each == task for piece in pieces(task, line, size)] for task in range(3)
    }
    assembly = Assembly(MAXIMUM_LINE_BYTES)
    heard: list[tuple[int, object]] = []
    while open_tasks := [task for task in queues if queues[task]]:
        heard += assembly.feed(queues[random.choice(open_tasks)].pop(0))  # type: ignore[attr-defined]
    for task in range(3):
        assert [what for each, what in heard if each == task] == [line for each, line in said if each == task]


@given(st.lists(st.binary(max_size=80), max_size=8))
def test_whatever_srun_prints_is_survived(lines: list[bytes]) -> None:
    assembly = Assembly(200)
    for line in lines:
        for task, what in [
            *assembly.feed(line),
            *assembly.feed(b"1: " + line),
            *assembly.feed(b"2: @gpudoctor " + line),
        ]:
            assert task >= 0 and isinstance(what, Placed | StepEnded | bytes)


@given(st.text(max_size=60))
def test_whatever_srun_complains_of_is_survived(line: str) -> None:
    assert task_failure(line) is None or line.startswith("srun: error: ")
    assert all(task >= 0 for task in tasks_of(line))


def test_a_message_without_end_is_given_up() -> None:
    assembly = Assembly(3000)
    heard = [what for _ in range(4) for what in assembly.feed(b"0: @gpudoctor " + b"x" * 1000)]
    assert len(heard) == 1 and isinstance(heard[0][1], bytes) and len(heard[0][1]) > 3000


def test_an_end_within_a_message_is_an_end() -> None:
    assembly = Assembly(3000)
    assert list(assembly.feed(b'1: @gpudoctor {"type":')) == []
    assert list(assembly.feed(b"1: gpudoctor-ended 137\n")) == [(1, StepEnded(137))]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("srun: error: n2: task 1: Killed", TaskFailure((1,), "n2: Killed")),
        (
            "srun: error: n[2-3]: tasks 1-2: Exited with exit code 7",
            TaskFailure((1, 2), "n[2-3]: Exited with exit code 7"),
        ),
        ("srun: error: Unable to create step for job 5: Invalid node name", None),
        ("srun: job 4 queued and waiting for resources", None),
    ],
)
def test_task_failures(line: str, wanted: TaskFailure | None) -> None:
    assert task_failure(line) == wanted


# agents, by a stand-in for srun


@pytest.mark.thorough
def test_agents_answer_and_end() -> None:
    nodes = fleet()
    with nodes:
        assert [type(said) for said in reach(nodes, timeout=150).values()] == [Hello, Hello]
        assert nodes.step == "12.7"
        answers = nodes.ask(Ping(), Pong, timeout=150)
        assert [type(answer) for answer in answers.values()] == [Pong, Pong]
        pids = running()
        assert pids
    assert not set(pids) & set(running())


def test_a_step_that_cannot_be_killed_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An srun that sleeps in the kernel: every wait for it has an end."""
    made = fleet()
    process = made._process
    real, waits = process.wait, list[float | None]()

    def wait(timeout: float | None = None) -> int:
        waits.append(timeout)
        assert timeout is not None
        raise subprocess.TimeoutExpired("srun", timeout)

    monkeypatch.setattr(process, "wait", wait)
    made.close()
    assert len(waits) >= 3 and None not in waits
    monkeypatch.undo()
    process.returncode = None
    assert real(60) is not None


def running() -> list[int]:
    """The agents that our stand-in started."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # ended meanwhile, or a zombie
            if "--node" in child.cmdline():
                found.append(child.pid)
    return found


@pytest.mark.thorough
def test_a_long_answer_arrives_whole() -> None:
    with fleet() as nodes:
        reach(nodes, timeout=150)
        answers = nodes.ask(Examine(timeout=100), Examined, timeout=150)
        sizes = [len(answer.snapshot) for answer in answers.values() if isinstance(answer, Examined)]
        assert len(sizes) == 2 and min(sizes) > 2000


@pytest.mark.thorough
def test_the_nodes_are_named_as_slurm_placed_the_tasks() -> None:
    with fleet(("n1", "n2"), nodes=["n2", "n1"]) as nodes:
        reach(nodes, timeout=150)
        assert [node.name for node in nodes.nodes] == ["n2", "n1"]


@pytest.mark.thorough
def test_an_agent_that_is_killed_is_lost_and_the_others_stay() -> None:
    with fleet() as nodes:
        hello = reach(nodes, timeout=150)[1]
        assert isinstance(hello, Hello)
        os.kill(hello.pid, signal.SIGKILL)
        answers = nodes.ask(Ping(), Pong, timeout=150, of=[0])
        while 1 not in nodes.lost:
            assert nodes.next_event(30) is not None
        assert nodes.lost[1] == Lost("connection lost", "gpudoctor was ended there by SIGKILL")
        assert isinstance(answers[0], Pong)


@pytest.mark.thorough
def test_a_step_that_cannot_be_created_loses_all_with_sruns_words() -> None:
    with fleet(refuse="Unable to create step for job 12: Invalid account") as nodes:
        found = reach(nodes, timeout=150)
    assert set(found.values()) == {Lost("scheduler", "Unable to create step for job 12: Invalid account")}


@pytest.mark.thorough
def test_a_node_without_gpudoctor_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.fleet.slurm.own_module", lambda module: [str(tmp_path / "python"), "-c", "pass"])
    with fleet(("n1",), environment={"PATH": "/usr/bin:/bin"}) as nodes:
        (lost,) = reach(nodes, timeout=150).values()
    assert isinstance(lost, Lost) and lost.kind == "gpudoctor missing"


@pytest.mark.thorough
def test_an_agent_that_fails_tells_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [sys.executable, "-c", "raise SystemExit('no module of that name')"]
    monkeypatch.setattr("gpudoctor.fleet.slurm.own_module", lambda module: broken)
    with fleet(("n1",)) as nodes:
        (lost,) = reach(nodes, timeout=150).values()
    assert isinstance(lost, Lost) and lost.kind in ("gpudoctor failed", "scheduler")
    assert lost == Lost("gpudoctor failed", "no module of that name")


# the real thing

HEAD = """
import json, os, sys
from gpudoctor.fleet.slurm import SlurmFleet, situation
from gpudoctor.fleet.reach import reach
from gpudoctor.fleet.messages import Examine, Examined, Hello
answer = {"situation": situation(os.environ)}
with SlurmFleet.inside(**json.loads(sys.argv[1])) as fleet:
    found = reach(fleet, timeout=150)
    answer["hosts"] = [getattr(said, "hostname", repr(said)) for said in found.values()]
    answer["names"] = [node.name for node in fleet.nodes]
    answer["read"] = [type(each).__name__ for each in fleet.ask(Examine(timeout=100), Examined, timeout=150).values()]
    if os.environ.get("DIE"):
        os.kill(os.getpid(), 9)
print(json.dumps(answer))
"""
SITUATION = "import os; from gpudoctor.fleet.slurm import situation; print(situation(os.environ))"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster(3) as made:
        yield made


def head(options: dict[str, object] | None = None) -> tuple[str, ...]:
    return sys.executable, "-c", HEAD, json.dumps(options or {})


def test_on_slurm_a_salloc_shell_is_the_head(cluster: SlurmCluster) -> None:
    done = cluster.salloc("--nodes=3", *head())
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer == {
        "situation": "allocation",
        "hosts": ["n1", "n2", "n3"],
        "names": ["n1", "n2", "n3"],
        "read": ["Examined"] * 3,
    }
    assert cluster.left_over() == []


def test_on_slurm_fewer_nodes_than_the_allocation(cluster: SlurmCluster) -> None:
    done = cluster.salloc("--nodes=3", *head({"exclude": ["n2"]}))
    assert json.loads(done.stdout)["hosts"] == ["n1", "n3"], done.stderr


def test_on_slurm_a_batch_script_with_options_of_its_own(cluster: SlurmCluster, tmp_path: Path) -> None:
    program = tmp_path / "head.py"
    program.write_text(HEAD)
    script = (
        "#!/bin/sh\n#SBATCH --nodes=3 --ntasks-per-node=2 --cpus-per-task=2 --export=NONE\n"
        f"exec {sys.executable} {program} '{{}}'\n"
    )
    written = cluster.sbatch(script)
    assert json.loads(written)["hosts"] == ["n1", "n2", "n3"]
    assert cluster.left_over() == []


def test_on_slurm_a_head_that_is_killed_leaves_nothing(cluster: SlurmCluster) -> None:
    cluster.salloc("--nodes=3", *head(), DIE="1")
    assert cluster.left_over() == []


def test_on_slurm_situations(cluster: SlurmCluster) -> None:
    words = sys.executable, "-c", SITUATION
    assert cluster.srun("--nodes=3", *words).stdout.split() == ["step"] * 3
    assert cluster.srun("--nodes=1", "--ntasks=1", *words).stdout.split() == ["allocation"]
    terminal = cluster.run(
        "script",
        "--quiet",
        "--return",
        "--command",
        f"srun --quiet --nodes=3 --pty {words[0]} -c '{SITUATION}'",
        "/dev/null",
    )
    assert terminal.stdout.replace("^@", "").split() == ["allocation"], terminal  # the terminal echoes an end of file


def test_on_slurm_every_option_is_known(cluster: SlurmCluster) -> None:
    done = cluster.srun("--nodes=2", "--ntasks=2", *OPTIONS, "true")
    assert done.returncode == 0 and "unrecognized" not in done.stderr and "error" not in done.stderr, done.stderr
