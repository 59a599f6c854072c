"""What comes through ssh and srun from nodes that lie, and names of nodes that are none."""

import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gpudoctor import __version__
from gpudoctor.fleet import descriptors
from gpudoctor.fleet.fleet import Lost, Node
from gpudoctor.fleet.hosts import BadHosts, from_hostfile, from_hosts
from gpudoctor.fleet.messages import Ended, Examine, Examined, Hello, Ping, Pong, RankState, Reply, encode
from gpudoctor.fleet.names import folded
from gpudoctor.fleet.reach import reach
from gpudoctor.fleet.slurm import NoSlurm, SlurmFleet, node_names
from gpudoctor.fleet.slurm_lines import Assembly
from gpudoctor.fleet.ssh import SshFleet
from gpudoctor.fleet.ssh_errors import lost_from
from gpudoctor.nccl.rank_messages import Member
from gpudoctor.nccl.run import run_launches
from tests.attacks.registry import attack, attacks
from tests.test_nccl_run import ROW, Script, launch

PATIENCE = 120.0
SSH = "ssh: a node's output"
SRUN = "srun: a task's output"
NAMES = "names of nodes (--hosts, hostfile, SLURM, evidence)"
ENGINE = "ssh: the library that runs it"

Ssh = Callable[[str], SshFleet]


def hello(node: int = 0) -> str:
    """A shell command that says Hello as an agent does."""
    return said(Hello(node=node, hostname="a", gpudoctor=__version__))


def said(reply: Reply) -> str:
    return f"printf '\\n%s\\n' {shlex.quote(encode(reply).decode().rstrip())}"


@pytest.fixture
def ssh(tmp_path: Path) -> Ssh:
    """Node 0 is honest; node 1 does what the script says."""

    def made(script: str) -> SshFleet:
        program = tmp_path / "ssh"
        program.write_text(
            "#!/bin/sh\nfor word; do host=$remote; remote=$word; done\n"
            f'case $host in bad) {script} ;; *) exec sh -c "$remote" ;; esac\n'
        )
        program.chmod(0o755)
        return SshFleet([Node("good"), Node("bad")], environment={"GPUDOCTOR_SSH": str(program)})

    return made


def outcome(fleet: SshFleet) -> Lost | Hello:
    """What becomes of the bad node, while the good one answers."""
    found = reach(fleet, timeout=PATIENCE)
    good = fleet.ask(Ping(), Pong, of=[0], timeout=PATIENCE)[0]
    assert isinstance(good, Pong)
    return found[1]


@attacks("channels", "script, words",
    ("a line without an end", "head -c 40000000 /dev/zero", "more than 33554432 bytes"),
    ("lines without end that are no answers", "yes no answer of ours", "what is no answer without end"),
    ("an answer that is no JSON", f"printf '@gpudoctor {{{{{{\\n'; {hello()}; cat", "no reply"),
    ("an answer nested deeper than the stack", "printf '@gpudoctor '; head -c 200000 /dev/zero | tr '\\0' '['; echo; cat", "no reply"),  # noqa: E501
    ("an answer that is no UTF-8", "printf '@gpudoctor {\"type\":\"Hello\",\"hostname\":\"\\377\"}\\n'; cat", "no reply"),  # noqa: E501
    ("an answer that ends in the middle", "printf '@gpudoctor {\"type\":\"Hel'; exit 3", "exit status 3"),
    ("a shell that obeys the order instead", "printf 'no end'; exec cat >/dev/null & sleep 1; exit 1", "exit status 1"),
    way=SSH,
)  # fmt: skip
def test_a_node_that_says_anything_else_costs_itself(
    ssh: Ssh, script: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpudoctor.fleet.fleet.MOST_NOISE_BYTES", 1 << 20)
    with ssh(script) as fleet:
        lost = outcome(fleet)
    assert isinstance(lost, Lost) and words in lost.detail and lost.detail.isprintable()


@attack("channels", way=SSH, weakness="answers without end fill the head's memory")
def test_answers_without_end_cost_the_node(ssh: Ssh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.fleet.fleet.MOST_UNREAD_BYTES", 1 << 20)
    line = shlex.quote(encode(Pong(number=7, time=0.0)).decode().rstrip())
    with ssh(f"{hello(1)}; yes {line}") as fleet:
        end = time.monotonic() + PATIENCE
        while not fleet.is_over(1):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert fleet.arrived.qsize() < 2000
        outcome(fleet)
        fleet.ask(Ping(), Pong, timeout=5)
        assert "answers that nobody asked for without end" in fleet.lost[1].detail


@attack("channels", way=SSH, weakness="it answers as another node")
def test_a_node_answers_for_itself_whatever_it_says(ssh: Ssh) -> None:
    with ssh(f"{hello(0)}; {hello(5)}; {hello(-1)}; cat >/dev/null") as fleet:
        found = outcome(fleet)
        assert isinstance(found, Hello)
        answers = fleet.ask(Ping(), Pong, timeout=1)
        assert isinstance(answers[0], Pong) and answers[1] == Lost("no answer", "within 1 s")


@attack("channels", way=SSH, weakness="it answers an order before it is given")
def test_an_answer_to_another_order_is_none(ssh: Ssh) -> None:
    early = "; ".join(said(Pong(number=number, time=1.0)) for number in (0, 1, 2, 3))
    with ssh(f"{hello(1)}; {early}; cat >/dev/null") as fleet:
        outcome(fleet)
        for _ in range(5):
            fleet.send(Ping(to=(0,)))
        assert fleet.ask(Ping(), Pong, of=[1], timeout=0.5)[1] == Lost("no answer", "within 0.5 s")


@attack("channels", way=SSH, weakness="it answers twice, and the second answer counts")
def test_the_first_answer_counts(ssh: Ssh) -> None:
    first, second = (Examined(number=1, snapshot=msgspec.Raw(b"{}"), interpreter=name) for name in ("first", "second"))
    with ssh(f"{hello(1)}; read order; {said(first)}; {said(second)}; cat >/dev/null") as fleet:
        reach(fleet, timeout=PATIENCE)
        answers = fleet.ask(Examine(to=(1,)), Examined, timeout=PATIENCE)
        assert isinstance(answers[1], Examined) and answers[1].interpreter == "first"


@attacks(
    "channels",
    "line",
    ("a sequence that the terminal obeys", "\x1b]0;x\x07\x1b[2Jno"),
    ("text that shows in another order than it is", "no\u202egnihton"),
    ("a line of a megabyte", "no" * 500_000),
    ("a cause that is ours to say", "gpudoctor-is-missing \x1b[31m" + "x" * 9999),
    way="ssh: its standard error",
)
def test_what_ssh_passes_on_is_a_short_line(line: str) -> None:
    for status in (255, 127, 1, -9):
        for begun in (True, False):
            detail = lost_from(status, [line], had_begun=begun).detail
            assert detail.isprintable() and len(detail) < 400


# ---------------------------------------------------------------- the library


BROKEN = """
import sys, time
from gpudoctor.fleet.fleet import Node
from gpudoctor.fleet.messages import Ping
from gpudoctor.fleet.ssh import SshFleet
with SshFleet([Node("n1"), Node("n2")], environment={"GPUDOCTOR_SSH": sys.argv[1]}) as fleet:
    while len({fleet.next_event(60).node for _ in range(2)}) < 2:
        pass
    # Both close their input while the engine is at work on orders, and another one follows at once.
    fleet._engine._order(lambda: time.sleep(1.5))
    fleet.send(Ping())
    fleet.next_event(3)
"""


@attack("channels", way=ENGINE, weakness="its own words reach the terminal")
def test_no_object_of_the_library_is_printed(tmp_path: Path) -> None:
    """ "<... instance at 0x7f... key 0>: [Errno 32] Broken pipe", for each node that ends while it is written to."""
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\n{hello()}\nsleep 0.7\nexec <&-\nsleep 3\n")
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", BROKEN, str(program)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


CONFIGURED = """
import sys
from gpudoctor.fleet.hosts import BadHosts, from_hosts
from gpudoctor.fleet.names import folded
from gpudoctor.fleet.slurm import NoSlurm, node_names
for text in ("@gpu", "@*", "@", "*", "@evil:gpu", "n1,@gpu", "n[1-2]!@gpu"):
    for call in (from_hosts, lambda name: node_names({"SLURM_JOB_NODELIST": name}), lambda name: folded([name, "n1"])):
        try:
            call(text)
        except (BadHosts, NoSlurm):
            pass
import gpudoctor.fleet.ssh_engine
from ClusterShell.Task import task_self
print(task_self().default("distant_worker").__name__)
"""


@attacks(
    "channels",
    "variable, folder",
    ("a user's configuration runs a shell ($CLUSTERSHELL_CFGDIR)", "CLUSTERSHELL_CFGDIR", "."),
    ("a user's configuration runs a shell ($XDG_CONFIG_HOME)", "XDG_CONFIG_HOME", "clustershell"),
    ("a user's configuration runs a shell ($HOME)", "HOME", ".local/etc/clustershell"),
    way=ENGINE,
)
def test_no_configuration_of_the_library_is_read(tmp_path: Path, variable: str, folder: str) -> None:
    """Groups are shell commands, and defaults name modules to import."""
    there = tmp_path / "home" / folder
    there.mkdir(parents=True, exist_ok=True)
    ran = tmp_path / "ran"
    upcall = f"touch {ran}; echo n1"
    (there / "groups.conf").write_text(
        f"[Main]\ndefault: evil\n[evil]\nmap: {upcall}\nall: {upcall}\nlist: {upcall}\nreverse: {upcall}\n"
    )
    (there / "defaults.conf").write_text("[task.default]\ndistant_workername: antigravity\n[engine]\nport_qlimit: x\n")
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", CONFIGURED],
        cwd=root,
        env={"PATH": os.environ["PATH"], variable: str(tmp_path / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "WorkerSsh\n"), done.stderr
    assert not ran.exists()


# ---------------------------------------------------------------- names


@attacks(
    "channels",
    "text",
    ("an option of ssh", "-oProxyCommand=id"),
    ("a second command", "n1;id"),
    ("a substitution", "n$(id)"),
    ("a sequence that the terminal obeys", "n\x1b[2J1"),
    ("a user that is an option", "-l@n1"),
    ("a port that is an option", "n1:-oProxyCommand=id"),
    ("more names than there is memory for", "n[1-999999999]"),
    ("more names than there is memory for, in two ranges", "n[1-99999]m[1-99999]"),
    ("a number of a million digits", "n[1-" + "9" * 1_000_000 + "]"),
    ("brackets nested a hundred thousand deep", "n" + "[" * 100_000),
    ("an operator of the library", "n[1-9]!n[1-9]"),
    way=NAMES,
)
def test_what_is_no_name_is_refused_at_once(text: str, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text(f"{text}\n")
    began = time.monotonic()
    for refused, call in (
        (BadHosts, lambda: from_hosts(text)),
        (BadHosts, lambda: from_hostfile(str(file))),
        (NoSlurm, lambda: node_names({"SLURM_JOB_NODELIST": text})),
    ):
        with pytest.raises(refused) as error:
            call()
        assert str(error.value).isprintable() and len(str(error.value)) < 600
    assert folded([text, "n1"]) == f"{text},n1"  # shown as it is, and escaped by whoever prints it
    assert time.monotonic() - began < 20


# ---------------------------------------------------------------- srun


def tasks(script: str) -> SlurmFleet:
    """Two tasks of one step, of whose output this shell script is the whole."""
    environment = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": "n[1-2]", "PATH": os.environ["PATH"]}
    return SlurmFleet((Node("n1"), Node("n2")), srun=("sh", "-c", script, "srun"), environment=environment)


def ended(script: str) -> SlurmFleet:
    """The same, when all of it has been heard."""
    with tasks(script) as fleet:
        while len(fleet.lost) < 2:
            fleet.next_event(1.0)
    return fleet


@attack("channels", way=SRUN, weakness="a task goes by a node that is not of the job")
def test_a_task_runs_on_a_node_of_the_job() -> None:
    fleet = ended("echo '0: gpudoctor-task -oProxyCommand=id 7'; echo '1: gpudoctor-task elsewhere 7'")
    assert [node.name for node in fleet.nodes] == ["n1", "n2"]


@attack("channels", way=SRUN, weakness="two tasks go by one node")
def test_no_two_tasks_are_one_node() -> None:
    fleet = ended("echo '1: gpudoctor-task n1 7'; echo '0: gpudoctor-task n1 7'; echo '1: gpudoctor-task n2 7'")
    assert [node.name for node in fleet.nodes] == ["n2", "n1"]


@attack("channels", way=SRUN, weakness="a task has another step of the job cancelled")
def test_a_step_that_not_all_name_is_not_cancelled() -> None:
    fleet = ended("echo '0: gpudoctor-task n1 7'; echo '1: gpudoctor-task n2 0'")
    assert fleet.step == ""
    assert ended("echo '0: gpudoctor-task n1 7'; echo '1: gpudoctor-task n2 7'").step == "12.7"


@attacks("channels", "script",
    ("srun: its standard error", "a sequence that the terminal obeys", "printf '0: \\033]0;x\\007 bad\\n' >&2"),
    ("srun: its standard error", "a task's number of 5,000 digits", "printf '%05000d: x\\n' 1 >&2"),
    ("srun: its standard error", "a task's number that is none of the job's", "echo '7777777: x' >&2"),
    ("srun: its standard error", "a failure of a hundred million tasks", "echo 'srun: error: n1: tasks 0-99999999: x' >&2"),  # noqa: E501
    ("srun: its standard error", "binary noise", "head -c 100000 /dev/urandom >&2"),
    (SRUN, "binary noise", "head -c 100000 /dev/urandom"),
    (SRUN, "a status of many digits", "printf '0: gpudoctor-ended %0500d\\n' 1"),
)  # fmt: skip
def test_whatever_srun_passes_on_ends_in_a_line(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[object] = []
    monkeypatch.setattr("threading.excepthook", broken.append)
    fleet = ended(f"{script}; echo '0: gpudoctor-ended 1'; echo '1: gpudoctor-ended 1'; echo 'srun: error: over' >&2")
    assert not broken
    assert all(lost.detail.isprintable() and len(lost.detail) < 400 for lost in fleet.lost.values())


@attack("channels", way=SRUN, weakness="a message in many pieces is read again with each of them")
def test_pieces_are_put_together_in_one_pass() -> None:
    """Pieces that all end like a message, of one that goes on: to decode what is there at each is quadratic."""
    assembly = Assembly(1 << 23)
    piece = b"0: " + b',{"a":{}}' * 110
    began = time.monotonic()
    list(assembly.feed(b'0: @gpudoctor {"x":[{}'))
    pieces = 0
    while not any(True for _ in assembly.feed(piece)):
        pieces += 1
    assert pieces > 8000 and time.monotonic() - began < 20


# ---------------------------------------------------------------- what a node says of its ranks


@attack("channels", way="a node's ranks", weakness="rows of rank 0 from a node that has it not")
def test_a_node_without_rank_0_says_no_rows() -> None:
    def obey(fleet: Script, order: object) -> None:
        fleet.say(1, ROW)
        fleet.say(1, Member(rank=0, world_size=2, host="n02", local_rank=0))
        fleet.say(0, ROW)
        for node in (0, 1):
            fleet.arrive(node, Ended(launch="1", how="done"))

    (result,) = run_launches(Script(2, obey), [launch(0, 1)], pythons={}, timeout=PATIENCE)
    assert len(result.rows) == 1 and not result.members and result.dropped == 2


@attack("channels", way="a node's ranks", weakness="it tells how another node's rank ended")
def test_a_node_tells_of_its_own_ranks() -> None:
    def obey(fleet: Script, order: object) -> None:
        states = tuple(RankState(rank=rank, local_rank=0, pid=7, ended="exit", status=1) for rank in (0, 1, 99, -1))
        fleet.arrive(1, Ended(launch="1", how="failed", ranks=states))
        fleet.arrive(0, Ended(launch="1", how="done"))

    (result,) = run_launches(Script(2, obey), [launch(0, 1)], pythons={}, timeout=PATIENCE)
    assert [state.rank for state in result.ends[1].ranks] == [1]


# ---------------------------------------------------------------- descriptors


@attack("channels", way="few descriptors (ulimit -n)", weakness="a test stalls, and nothing names them")
@pytest.mark.parametrize("command", ["nccl-test", "train-test", "hang", "check --hosts n[1-64]", "nccl-test --nodes 4"])
def test_few_descriptors_are_said_before_anything_stalls(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", *command.split()],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)),
    )
    assert done.returncode in (2, 3) and done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "file descriptors: 20 are allowed (ulimit -n)" in done.stderr and "ulimit -n " in done.stderr


def test_what_many_nodes_want() -> None:
    """64 nodes through ssh fit the usual limit of 1,024 many times."""
    assert descriptors.wanted("ssh", 64) == 256
    assert descriptors.wanted("srun", 4096) == descriptors.wanted("local", 1) == 64
    assert descriptors.wanted("ssh", 320) == 1024


@attack("channels", way="few descriptors (ulimit -n)", weakness="more nodes than the limit has room for")
def test_the_own_limit_is_raised_for_ssh_and_no_further_than_it_may() -> None:
    code = (
        "import resource; from gpudoctor.fleet import descriptors as d; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 400)); d.ensure('ssh', 100); print(d.allowed())\n"
        "try:\n    d.ensure('ssh', 200)\nexcept d.TooFew as error:\n    print(error)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 400))\n"
        "try:\n    d.ensure('local', 1)\nexcept d.TooFew as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    raised, far, local = done.stdout.splitlines()
    assert raised == "364"
    assert "200 nodes wants 664" in far and "the hard limit is 400" in far
    assert local.endswith("in this shell: ulimit -n 400")
