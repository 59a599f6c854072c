"""The ranks that run here: whose settings are read, which process is the rank, and what is never kept."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.nccl.rank_settings import differences, jobs
from gpudoctor.read.ranks import parse_environment, read_ranks
from gpudoctor.read.system import System
from gpudoctor.redact import redact
from gpudoctor.snapshot import RankSettings, Reading, to_json
from gpudoctor.testing.machines import h100_node
from gpudoctor.testing.networks import with_network
from tests.fake_tree import Link, Refusing, fake

Files = dict[str, str | bytes | Link]
FIELD = "network.rank_settings"
ROOT, NOBODY = 0, 0


def process(pid: int, name: str = "python3", state: str = "S", *, parent: int = 1, **environment: str) -> Files:
    raw = b"".join(f"{key}={value}".encode() + b"\0" for key, value in environment.items())
    return {
        f"/proc/{pid}/stat": f"{pid} ({name}) {state} {parent} 1 1 0 -1 0 " + "0 " * 12 + f"{pid * 10} 9 9\n",
        f"/proc/{pid}/environ": raw,
        f"/proc/{pid}/ns/net": Link("net:[4026531840]"),
    }


def rank(pid: int, number: int, name: str = "python3", *, parent: int = 1, **more: str) -> Files:
    job = {"RANK": str(number), "WORLD_SIZE": "4", "LOCAL_RANK": str(number), "MASTER_ADDR": "10.0.0.1"}
    return process(pid, name, parent=parent, **job, MASTER_PORT="29500", **more)


def look(system: System, user: int = ROOT, doctor: int = NOBODY) -> Reading[Any]:
    return read_ranks(system, user, doctor)[FIELD]


def test_a_rank_is_described(tmp_path: Path) -> None:
    secrets = {"HF_TOKEN": "hf_secret", "NCCL_API_KEY": "secret", "HOME": "/home/a", "LD_LIBRARY_PATH": "/x"}
    settings = {"NCCL_ALGO": "Ring", "TORCH_NCCL_BLOCKING_WAIT": "1", "GLOO_SOCKET_IFNAME": "eth0"}
    variables: dict[str, Any] = {**secrets, **settings, "TP_SOCKET_IFNAME": "eth0"}
    system = fake(tmp_path, rank(30, 2, **variables))
    (found,) = look(system).value
    assert found == RankSettings(
        30,
        2,
        4,
        2,
        "10.0.0.1",
        "29500",
        "",
        "net:[4026531840]",
        {**settings, "TP_SOCKET_IFNAME": "eth0", "NCCL_API_KEY": "***"},
        os.geteuid(),
    )
    assert b"secret" not in msgspec.json.encode(found)


@pytest.mark.parametrize(
    ("files", "ranks"),
    [
        (process(5, RANK="1", WORLD_SIZE="2"), [1]),
        (process(5, "trainer", RANK="1", WORLD_SIZE="2"), [1]),
        (process(5, RANK="1"), []),
        (process(5, RANK="one", WORLD_SIZE="2"), []),
        (process(5, WORLD_SIZE="2"), []),
        (process(5, "bash", RANK="1", WORLD_SIZE="2"), []),
        (process(5, "python", "Z", RANK="1", WORLD_SIZE="2"), []),
        (process(5, SLURM_PROCID="3", SLURM_NTASKS="4"), [3]),
        (process(5, "a.out", SLURM_PROCID="3", WORLD_SIZE="4"), []),
        (process(5, OMPI_COMM_WORLD_RANK="3", OMPI_COMM_WORLD_SIZE="4"), [3]),
        (process(5, PMI_RANK="3", PMI_SIZE="4"), [3]),
        (process(5, RANK="1", WORLD_SIZE="2", SLURM_PROCID="0", SLURM_NTASKS="2"), [1]),
        (rank(5, 0) | rank(6, 0, parent=5, NCCL_ALGO="Ring") | rank(7, 1), [0, 1]),  # 6 is a data loader
        (rank(5, 0, "wrapper") | rank(6, 0, parent=5), [0]),
        (rank(5, 0, TORCHELASTIC_RUN_ID="a") | rank(6, 0, TORCHELASTIC_RUN_ID="b"), [0, 0]),
    ],
)
def test_what_counts_as_a_rank(tmp_path: Path, files: Files, ranks: list[int]) -> None:
    assert [each.rank for each in look(fake(tmp_path, files)).value] == ranks


def test_the_rank_itself_speaks_and_not_its_helpers(tmp_path: Path) -> None:
    files = rank(5, 0, "wrapper", NCCL_ALGO="Tree") | rank(6, 0, parent=5) | rank(7, 0, parent=6, NCCL_ALGO="Ring")
    (found,) = look(fake(tmp_path, files)).value
    assert (found.pid, found.settings) == (6, {})


def test_a_launcher_below_slurm_is_no_rank(tmp_path: Path) -> None:
    below = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "TORCHELASTIC_RUN_ID": "none"}
    files = process(5, "torchrun", WORLD_SIZE="4", SLURM_PROCID="0") | rank(6, 0, parent=5, **below)
    (found,) = look(fake(tmp_path, files | rank(7, 1, parent=5) | {"/proc/8/": ""})).value[:1]
    assert (found.pid, found.run_id) == (6, "")
    assert len(look(fake(tmp_path, {})).value) == 2


def test_the_doctor_in_the_environment_of_a_rank_is_none(tmp_path: Path) -> None:
    files = rank(50, 0, parent=40) | rank(60, 0, parent=50) | rank(55, 0, parent=60) | rank(70, 1, parent=40)
    assert [each.pid for each in look(fake(tmp_path, files), doctor=50).value] == [70]


def test_other_users_are_left_alone(tmp_path: Path) -> None:
    system = fake(tmp_path, rank(5, 0))
    owner = system.status("/proc/5").user_id
    assert len(look(system, owner or ROOT).value) == 1
    assert look(system, owner + 1).value == ()


def test_what_may_not_be_read_is_said(tmp_path: Path) -> None:
    files = rank(5, 0) | rank(6, 1) | rank(7, 2, "sshd") | process(8, "python", "D", RANK="3", WORLD_SIZE="4")
    some = look(Refusing(fake(tmp_path, files), "/proc/6/environ", "/proc/7/environ"))
    assert [each.rank for each in some.value] == [0]
    assert some.source == "/proc/*/environ (2 more could not be read)"
    none = look(Refusing(System(tmp_path, {}), "/proc/5/environ", "/proc/6/environ", "/proc/7/environ"))
    assert (none.missing_kind, "pid 5 python3" in none.reason) == ("denied", True)
    # What cannot be a rank keeps nothing from being known.
    assert look(Refusing(fake(tmp_path / "b", rank(7, 2, "sshd")), "/proc/7/environ")).value == ()
    assert look(fake(tmp_path / "c", {})).missing_kind == "failed"


def test_private_names_are_redacted() -> None:
    settings = {"NCCL_COMM_ID": "headnode-q:1", "NCCL_DEBUG_FILE": "/home/quentin/log", "NCCL_ALGO": "Ring"}
    found = RankSettings(5, 0, 2, 0, "headnode-q", "29500", "", "net:[4026531840]", settings)
    redacted = redact(with_network(h100_node(), rank_settings=(found,)))
    text = to_json(redacted).decode()
    assert "headnode-q" not in text and "quentin" not in text
    (kept,) = redacted.network.rank_settings.value
    assert (kept.pid, kept.network_namespace, kept.settings["NCCL_ALGO"]) == (5, "net:[4026531840]", "Ring")


@given(st.binary(max_size=300))
def test_any_environment_can_be_parsed(raw: bytes) -> None:
    for name, value in parse_environment(raw).items():
        assert os.fsencode(f"{name}={value}") in raw


VALUES = st.sampled_from(["", "0", "1", "Ring", "\udcff", "99999999999999999999", "0x10", "a=b"])
NAMES = st.sampled_from(["NCCL_ALGO", "NCCL_IB_DISABLE", "TORCH_NCCL_X", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG", "X"])


@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=5))
def test_differences_are_those_of_the_ranks(each: list[dict[str, str]]) -> None:
    ranks = [RankSettings(100 + number, number, 8, settings=settings) for number, settings in enumerate(each)]
    for job in jobs(ranks):
        for difference in differences(job):
            assert sorted(number for same in difference.ranks.values() for number in same) == list(range(len(each)))
            assert len(difference.ranks) > 1
            for value, numbers in difference.ranks.items():
                assert each[numbers[0]].get(difference.name) == value
            assert difference.name in difference.described()
    same = [RankSettings(100 + number, number, 8, settings=dict(each[0])) for number in range(3)] if each else []
    assert not any(differences(job) for job in jobs(same))


@given(st.dictionaries(st.sampled_from(["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "NCCL_X"]), st.binary()))
def test_no_environment_brings_the_reader_down(
    tmp_path_factory: pytest.TempPathFactory, each: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("proc")
    raw = b"\0".join(name.encode() + b"=" + value for name, value in each.items())
    found = look(fake(root, process(5) | {"/proc/5/environ": raw}))
    assert found.is_read
    msgspec.json.encode(found)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_two_real_processes_with_different_settings() -> None:
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    port = str(os.getpid() % 60000)
    ranks = []
    try:
        for number, settings in enumerate([{"NCCL_ALGO": "Ring"}, {"HF_TOKEN": "x"}]):
            job = {"RANK": str(number), "WORLD_SIZE": "2", "MASTER_ADDR": "192.0.2.77", "MASTER_PORT": port}
            pipe = subprocess.PIPE
            child = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, env={**job, **settings})
            ranks.append(child)
            assert child.stdout is not None and child.stdout.readline() == b"up\n"
        found = [each for each in read_ranks(System(), doctor=NOBODY)[FIELD].value if each.master_port == port]
        assert [each.pid for each in found] == [child.pid for child in ranks]
        ((difference,),) = [differences(job) for job in jobs(found)]
        assert difference.described() == "NCCL_ALGO is 'Ring' on rank 0 and not set on rank 1"
        assert difference.hangs
    finally:
        for child in ranks:
            child.communicate()
