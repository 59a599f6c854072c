"""`hang` and `check`: another user's processes are no part of a job, whatever they say of themselves."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpudoctor.hang import choose
from gpudoctor.hang.ask import order_for
from gpudoctor.hang.assemble import assemble
from gpudoctor.hang.conclude import conclude
from gpudoctor.hang.find import find_jobs
from gpudoctor.hang.job import Members
from gpudoctor.knowledge.nccl.rank_settings import differences, jobs
from gpudoctor.read import shares, users
from gpudoctor.read.job import processes
from gpudoctor.read.ranks import MOST_RANKS, read_ranks
from gpudoctor.read.system import System
from gpudoctor.snapshot.evidence import NodeProcesses, Process
from tests.attacks.registry import attack, attacks
from tests.fake_tree import Link, fake
from tests.hang_jobs import a_job, member, place_at, waits
from tests.lab.requirements import require
from tests.lab.sshd import user_environment, wait_until
from tests.test_hang_find import node, only, process, rank, ranks, told, torchrun

PATIENCE = 250.0
MARA, MALLORY = 12345, 65534
MASTER: dict[str, Any] = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29577"}
HOSTILE: dict[str, Any] = {"user_id": MALLORY, "user": "mallory"}
OWN: dict[str, Any] = {"user_id": MARA, "user": "mara"}


def job_of_mara() -> list[Process]:
    return [torchrun(10, **OWN), rank(11, 10, 0, **OWN), rank(12, 10, 1, **OWN)]


def of(jobs: Sequence[Members], user: str) -> Members:
    (found,) = (job for job in jobs if job.user == user)
    return found


# ---------------------------------------------------------------- who says what, on processes made by hand


@attacks(
    "processes",
    "claims",
    ("the same master: it becomes a rank of the job", [rank(666, 1, 1, state="T", **HOSTILE)]),
    ("a rank that the job has already: it is there twice", [rank(666, 1, 0, **HOSTILE)]),
    (
        "the job's run id: it becomes a part of it",
        [process(666, "python x.py", TORCHELASTIC_RUN_ID="exp7", RANK=1, WORLD_SIZE=2, **HOSTILE)],
    ),
    (
        "the job's Slurm number: it becomes a task of it",
        [process(666, "python x.py", SLURM_JOB_ID=4711, SLURM_PROCID=1, SLURM_NTASKS=9, **HOSTILE)],
    ),
    (
        "the job's launcher: its ranks are numbered anew",
        [torchrun(666, "--nproc-per-node 9 --master-addr 10.0.0.1 --master-port 29500", **HOSTILE)],
    ),
    ("a world size that most ranks claim", [rank(number, 1, number, 4000, **HOSTILE) for number in range(1000, 1600)]),
    (
        "a twin, for whose sake the job gets another id",
        [torchrun(666, **HOSTILE), rank(667, 666, 0, **HOSTILE), rank(668, 666, 1, **HOSTILE)],
    ),
    ("the launcher as its parent, which reparenting may show", [rank(666, 10, 2, 3, **HOSTILE)]),
    way="hang: another user's process",
)
def test_a_claim_of_another_user_changes_nothing(claims: list[Process]) -> None:
    slurm = {"SLURM_JOB_ID": "4711", "TORCHELASTIC_RUN_ID": "exp7"}
    own = [replace(each, environment={**each.environment, **slurm}) for each in job_of_mara()]
    alone = only(find_jobs([node(*own)]))
    beside = of(find_jobs([node(*claims, *own)]), "mara")
    assert beside == alone
    assert order_for([beside], seconds=1.0, timeout=1.0) == order_for([alone], seconds=1.0, timeout=1.0)


@attack("processes", way="hang: another user's process", weakness="its claim is kept from whoever asks")
def test_a_claim_is_said_in_a_note() -> None:
    every = find_jobs([node(*job_of_mara(), rank(666, 1, 1, **HOSTILE), rank(5, 1, 0, port=29600, **HOSTILE))])
    chosen = choose.choose([of(every, "mara")], named=True)
    rest = tuple(job for job in every if job.user != "mara")
    notes = {other.pid: (other.user, other.claims) for other in choose.others(rest, chosen.looks[0])}
    assert notes == {666: ("mallory", "torchrun at 10.0.0.1:29500"), 5: ("mallory", "")}


@attack("processes", way="hang --from: evidence of several users", weakness="a stopped stranger is the culprit")
def test_evidence_of_several_users_is_told_apart() -> None:
    built = a_job(waits(0), waits(1), member(2, place_at("unknown"), state="T", pid=666)).evidence
    (seen,) = built.nodes
    owners = {each.process.pid: HOSTILE if each.process.pid == 666 else OWN for each in seen.processes}
    owned = tuple(replace(each, process=replace(each.process, **owners[each.process.pid])) for each in seen.processes)
    evidence = replace(built, nodes=(replace(seen, processes=owned),))
    (own,) = (job for job in conclude(evidence).jobs if job.user == "mara")
    assert not [cause for cause in own.causes if cause.cause == "stopped-rank" or 2 in cause.ranks]
    assert 666 not in {row.pid for row in own.ranks}
    assert {rank.pid for job in assemble(evidence) if job.user == "mara" for rank in job.ranks} == {4000, 4001}


@attacks(
    "processes",
    "theirs, together",
    ("the same number of another name joins", (MARA, "eve"), False),
    ("the same name is taken for another user", (999, "mara"), True),
    ("a number without a name is nobody's", (MARA, "12345"), True),
    ("a name that is a number joins", (77, "12345"), False),
    way="hang: nodes that number users differently",
)
def test_between_nodes_the_name_decides(theirs: tuple[int, str], together: bool) -> None:
    here = rank(11, 1, 0, **OWN)
    there = rank(12, 1, 1, user_id=theirs[0], user=theirs[1])
    found = find_jobs([node(here), node(there, name="b")])
    assert len(found) == (1 if together else 2)


@attack("processes", way="hang: containers that map users", weakness="a job with one number on each node is torn")
def test_numbers_of_one_user_may_be_named() -> None:
    here, there = rank(11, 1, 0, user_id=131072, user="131072"), rank(12, 1, 1, user_id=262144, user="262144")
    nodes = [node(here), node(there, name="b")]
    assert len(find_jobs(nodes)) == 2, "who could be anybody is not believed"
    job = only(find_jobs(nodes, ("131072", "262144")))
    assert ranks(job) == [(0, 0, 11), (1, 1, 12)]
    assert choose.fits_user(job, "131072,262144")


@attack(
    "processes", way="hang: a number of a container's user", weakness="its owner's job is torn, or a service's joined"
)
def test_subordinate_numbers_are_their_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    table = tmp_path / "subuid"
    table.write_text("nonsense\nlogin-user:100000:65536\nkubelet:200000:65536\n::\nlogin-user:x:y\n")
    monkeypatch.setattr(users, "SUBORDINATE", str(table))
    accounts = {"login-user": 1234, "kubelet": 998}

    def by_name(name: str) -> Any:
        return pwd.struct_passwd((name, "x", accounts[name], 1, "", "/", "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwnam", by_name)
    assert users.user_name(100_999) == "login-user"
    assert users.user_name(200_001) == "200001", "many users' containers are behind a service"
    assert users.user_name(4_000_000_000) == "4000000000"


@attack(
    "processes", way="hang: ranks without number beside a job", weakness="a stranger in state D is adopted as a rank"
)
def test_a_silent_stranger_is_not_adopted() -> None:
    own = rank(11, 1, 0, **OWN)
    silent = process(666, parent=1, state="D", name="python3", environment_read=False, **HOSTILE)
    assert [member.process.pid for member in of(find_jobs([node(own, silent)]), "mara").members] == [11]


# ---------------------------------------------------------------- which user's jobs are looked at


def several(*users: str) -> tuple[Members, ...]:
    return tuple(
        find_jobs(
            [
                node(
                    *(
                        rank(100 + number, 1, 0, 1, port=20000 + number, user=user, user_id=2000 + number)
                        for number, user in enumerate(users)
                    )
                )
            ]
        )
    )


@attack("processes", way="hang without --user", weakness="jobs of many users are looked at together, or for hours")
def test_users_are_looked_at_each_by_itself_and_not_all() -> None:
    chosen = choose.choose(several("a", "b", "c", "d", "e", "f"), named=False)
    assert [{job.user for job in look} for look in chosen.looks] == [{"a"}, {"b"}, {"c"}, {"d"}]
    assert [job.user for job in chosen.others] == ["e", "f"]


@attack(
    "processes", way="hang through sudo", weakness="another user's larger job is looked at in the place of one's own"
)
def test_behind_sudo_the_caller_is_meant() -> None:
    chosen = choose.choose(several("mallory", "mara"), named=False, first="mara")
    assert [job.user for look in chosen.looks for job in look] == ["mara"]
    assert [job.user for job in chosen.others] == ["mallory"]


@attack("processes", way="hang as root, a process that ends as it is read", weakness="its job is looked at alone")
def test_for_root_a_job_of_nobody_known_is_not_the_only_one() -> None:
    gone, own = several("mallory", "mara")
    unowned = replace(gone, user="")
    chosen = choose.choose((unowned, own), named=False, first="")
    assert [job.user for look in chosen.looks for job in look] == ["", "mara"] and not chosen.others


@attacks(
    "surroundings",
    "told",
    ("it is no number", "1;id"),
    ("a number that no user has", "9" * 4000),
    ("a digit of another script", "\u0661"),
    way="hang: SUDO_UID",
)
def test_a_caller_that_sudo_cannot_have_named_is_none(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert choose.who_asks({"SUDO_UID": told}) == ""


# ---------------------------------------------------------------- what one user can add, on trees made by hand


def seen(pid: int, user: int, *, parent: int = 1, **variables: object) -> dict[str, str | bytes | Link]:
    raw = b"".join(f"{key}={value}".encode() + b"\0" for key, value in variables.items())
    tail = f"{pid} {pid} 0 -1 0 " + "0 " * 12 + f"{pid * 10} 9 9 " + "0 " * 27 + "9\n"
    return {
        f"/proc/{pid}/stat": f"{pid} (python3) S {parent} {tail}",
        f"/proc/{pid}/status": f"Name:\tpython3\nUid:\t{user}\t0\t0\t0\n",
        f"/proc/{pid}/environ": raw,
        f"/proc/{pid}/cmdline": b"python3\0train.py\0",
        f"/proc/{pid}/ns/net": Link("net:[4026531840]"),
        f"/proc/{pid}/maps": "",
        f"/proc/{pid}/fd/": "",
    }


def machine(folder: Path, *files: dict[str, str | bytes | Link]) -> System:
    base: dict[str, str | bytes | Link] = {"/proc/uptime": "1000.00 1.0\n", "/proc/self/ns/net": Link("net:[1]")}
    return fake(folder, {key: value for each in (base, *files) for key, value in each.items()})


def users_of(found: NodeProcesses) -> list[int]:
    return sorted(each.user_id for each in found.processes)


A_RANK = {**told(0, 2), "LOCAL_RANK": 0}


@attack("processes", way="hang: thousands of another user's ranks", weakness="they take all places of the answer")
def test_each_user_has_places_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST_PROCESSES", 20)
    hostile = [seen(100 + number, MALLORY, **A_RANK) for number in range(60)]
    found = processes.find(machine(tmp_path, *hostile, seen(900, MARA, **A_RANK)), doctor=0)
    assert users_of(found) == [MARA, *[MALLORY] * 20]
    (said,) = (each for each in found.unread if each.what == "processes")
    assert "only 20 of the 60" in said.reason
    assert said.user != "", "it is not said of another user's job"


@attack(
    "processes", way="hang: thousands of another user's ranks", weakness="their environments fill the answer's line"
)
def test_the_answers_length_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MOST_BYTES", 100_000)
    hostile = [seen(100 + number, MALLORY, **A_RANK, NCCL_X="x" * 9000) for number in range(40)]
    own = [seen(900 + number, MARA, **A_RANK) for number in range(8)]
    found = processes.find(machine(tmp_path, *hostile, *own), doctor=0)
    assert users_of(found).count(MARA) == 8
    assert 0 < users_of(found).count(MALLORY) < 12


@attack("processes", way="hang: environments of megabytes", weakness="reading them takes all memory")
def test_the_memory_of_one_user_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "MOST_KEPT", 50_000)
    hostile = [seen(100 + number, MALLORY, **A_RANK, X="x" * 20_000) for number in range(9)]
    found = processes.find(machine(tmp_path, *hostile, seen(900, MARA, **A_RANK)), doctor=0)
    assert [each.environment_read for each in found.processes if each.user_id == MARA] == [True]
    assert any("environments and command lines" in each.reason for each in found.unread if each.user)


@attack("processes", way="hang: processes that are slow to read", weakness="their time is taken from other users'")
def test_the_time_of_one_user_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    class Slow(System):
        def raw(self, path: str, limit: int = 1 << 24) -> bytes:
            now[0] += 1.0 if path.startswith("/proc/1") and path.endswith("environ") else 0.0
            return super().raw(path, limit)

    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(shares, "slowdown", lambda: 1.0)  # that of the machine which runs the tests is none of theirs
    hostile = [seen(100 + number, MALLORY, **A_RANK) for number in range(9)]
    tree = machine(tmp_path, *hostile, seen(900, MARA, **A_RANK))
    found = processes.find(Slow(tree.root, {}), doctor=0)
    assert [each.environment_read for each in found.processes if each.user_id == MARA] == [True]
    assert now[0] <= shares.SECONDS + 2.0
    assert any("took more than" in each.reason for each in found.unread)


@attack(
    "processes", way="hang: a parent of another user", weakness="a copied command line makes it and its children ranks"
)
def test_a_parent_of_another_user_is_no_relative(tmp_path: Path) -> None:
    """A service of root's starts every user's processes, and one of these takes the service's own command line."""
    service = seen(50, 0)
    copied = seen(100, MALLORY, parent=50, **{**A_RANK, "LOCAL_RANK": 1})
    other = seen(900, MARA, parent=50, **A_RANK)
    found = processes.find(machine(tmp_path, service, copied, other), doctor=0)
    assert [each.pid for each in found.processes] == [100, 900]
    assert [len(job.members) for job in find_jobs([found])] == [1, 1]


@attack("processes", way="check: settings of running ranks", weakness="another user's process is a rank that differs")
def test_settings_are_compared_within_one_user(tmp_path: Path) -> None:
    files = [
        seen(30, MARA, **told(0, 2)),
        seen(31, MARA, **told(1, 2)),
        seen(5, MALLORY, **told(1, 2), NCCL_ALGO="Tree"),
    ]
    found = read_ranks(machine(tmp_path, *files), 0, 0)["network.rank_settings"].value
    own, theirs = sorted(jobs(found), key=len, reverse=True)
    assert [each.pid for each in own] == [30, 31]
    assert not differences(own) and [each.pid for each in theirs] == [5]


@attack("processes", way="check: settings of running ranks", weakness="thousands of ranks of one user hide the others'")
def test_the_ranks_of_one_user_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.read.ranks.MOST_RANKS", 10)
    hostile = [seen(100 + number, MALLORY, **told(number, 4000)) for number in range(40)]
    files = [*hostile, seen(900, MARA, **told(0, 2)), seen(901, MARA, **told(1, 2))]
    found = read_ranks(machine(tmp_path, *files), 0, 0)["network.rank_settings"].value
    assert sorted(each.user_id for each in found) == [MARA, MARA, *[MALLORY] * 10]
    assert MOST_RANKS > 1000


# ---------------------------------------------------------------- live


def as_root() -> None:
    require(hasattr(os, "geteuid") and os.geteuid() == 0, "only root can become another user")


@contextlib.contextmanager
def living(user: int, count: int = 1, *, program: str = "/bin/sleep", **variables: Any) -> Iterator[list[int]]:
    """Processes of a user that say of themselves what they like. A shell starts them: this process has much memory, and
    each fork of it would cost as much as twenty of a shell's."""
    settings = " ".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())
    start = f"env {settings} RANK=$n {shlex.quote(program)} 600 < /dev/null > /dev/null & echo $!"
    shell = subprocess.Popen(
        ["/bin/sh"], user=user, group=user, extra_groups=[], cwd="/", env={"PATH": "/usr/bin:/bin"}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert shell.stdin is not None and shell.stdout is not None
    shell.stdin.write(f"n=0; while [ $n -lt {count} ]; do {start}; n=$((n + 1)); done; wait\n")
    shell.stdin.close()
    started = [int(shell.stdout.readline()) for _ in range(count)]
    try:
        wait_until(lambda: all(started_with(pid) == program for pid in started))
        yield started
    finally:
        for pid in started:
            os.kill(pid, signal.SIGKILL)
        shell.wait()
        shell.stdout.close()


def started_with(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()


def hang(*words: str) -> tuple[int, dict[str, Any], float]:
    begun = time.monotonic()
    environment = {name: value for name, value in user_environment().items() if not name.startswith("SUDO_")}
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "hang", "--json", *words],
        env=environment,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode in (0, 1, 3), done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, answer, time.monotonic() - begun


def told_of(answer: dict[str, Any], user: int) -> dict[str, Any]:
    found: list[dict[str, Any]] = [job for job in answer["jobs"] if job["user"] == f"uid {user}"]
    (job,) = found
    return job


@attack("processes", way="hang as root: a stopped process of another uid", weakness="its pid stands in the fix")
def test_a_stopped_stranger_is_neither_culprit_nor_in_a_fix() -> None:
    as_root()
    with living(MARA, 2, **MASTER, WORLD_SIZE=2) as own:
        _, alone, _ = hang("--pid", str(own[0]))
        with living(MALLORY, 2, **MASTER, WORLD_SIZE=2) as theirs:
            os.kill(theirs[1], signal.SIGSTOP)
            _, beside, _ = hang("--pid", str(own[0]))
    assert [row["pid"] for row in told_of(beside, MARA)["ranks"]] == own
    assert told_of(beside, MARA)["causes"] == told_of(alone, MARA)["causes"]
    (other,) = (each for each in beside["others"] if each["pid"] in theirs)
    assert other["claims"] == told_of(beside, MARA)["id"] and other["ranks"] == 2
    assert not any(str(pid) in json.dumps(job) for pid in theirs for job in beside["jobs"])


@attack("processes", way="hang as root: thousands of ranks of another uid", weakness="no answer comes of the job")
def test_a_crowd_of_another_user_changes_neither_answer_nor_time_much() -> None:
    """Four hundred, which is what this machine bears beside other tests; the bounds are for each user."""
    as_root()
    with living(MARA, 2, **MASTER, WORLD_SIZE=2) as own:
        status, alone, _ = hang("--user", str(MARA))
        with living(MALLORY, 400, **MASTER, WORLD_SIZE=3000) as theirs:
            crowded, beside, seconds = hang("--user", str(MARA))
    assert crowded == status
    assert told_of(beside, MARA) == told_of(alone, MARA)
    assert [row["pid"] for row in told_of(beside, MARA)["ranks"]] == own
    assert {each["pid"] for each in beside["others"]} & set(theirs)
    assert seconds < PATIENCE / 2


@attack("processes", way="hang as root: a process that forbids to be dumped", weakness="it passes for one of root's")
def test_a_process_that_is_not_dumpable_is_still_its_users() -> None:
    as_root()
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    require(python, "needs a Python that every user may run")
    program = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); print(flush=True); time.sleep(600)"
    process = subprocess.Popen(
        [str(python), "-c", program], user=MALLORY, group=MALLORY, extra_groups=[], stdout=subprocess.PIPE, cwd="/",
        env={**MASTER, "RANK": "0", "WORLD_SIZE": "2"},
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline()
        (found,) = (each for each in processes.find(System(), doctor=-1).processes if each.pid == process.pid)
    finally:
        process.kill()
        process.communicate()
    assert found.user_id == MALLORY


@attack("processes", way="hang as root: a program with the set-user-ID bit", weakness="its starter passes for root")
def test_who_runs_a_program_of_roots_is_not_root(tmp_path: Path) -> None:
    as_root()
    folder = Path("/var/tmp") / f"gpudoctor-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        program = folder / "sleep"
        shutil.copy("/bin/sleep", program)
        program.chmod(0o4755)
        with living(MALLORY, 1, program=str(program), **MASTER, WORLD_SIZE=2) as (pid,):
            effective = Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[1]
            require(effective == "0", "the file system obeys no set-user-ID bit")
            (found,) = (each for each in processes.find(System(), doctor=-1).processes if each.pid == pid)
    finally:
        shutil.rmtree(folder)
    assert found.user_id == MALLORY
