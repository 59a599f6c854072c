"""What `gpudoctor launch` emits, run as it stands on hosts of the lab: every rank trains, and all end alike.

Nothing is added to an emitted line. The arguments of the script prove that the shells hand them on unchanged.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lab import inhabitants, warm
from tests.lab.hosts import NAMESPACES, Host, hosts
from tests.lab.requirements import require
from tests.lab.slurm import slurm_cluster
from tests.lab.sshd import ssh_hosts, user_environment, wait_until
from tests.launch_scripts import ACCELERATE, LIGHTNING, SPAWN, TORCH

ARGUMENTS = ("--name", "a b", "it's", '"$HOME"', "`id`", "x;y", "*", "--", "%s\\n", "=eth0", "")
"""Words that a shell would change, were they not quoted."""
PATIENCE = 350.0
"""Seconds for a training: torch is imported six times, on as few as two cores."""
pytestmark = pytest.mark.timeout(600)


@contextlib.contextmanager
def running(
    texts: Mapping[Host, str],
    folder: Path,
    frameworks: bool = False,
    truly: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Iterator[dict[Host, Path]]:
    """Each host's text in a shell of its own, and where what it writes goes. `frameworks`: it imports Lightning or
    accelerate; `truly`: each process imports what it needs itself, as a user's does."""
    forks = {"PYTHONPATH": ""} if truly else warm.by_others(frameworks)
    processes: list[subprocess.Popen[bytes]] = []
    outputs: dict[Host, Path] = {}
    try:
        for host, text in texts.items():
            outputs[host] = folder / f"{host.name}.out"
            with outputs[host].open("wb") as output:
                processes.append(
                    subprocess.Popen(
                        host.command("bash", "-c", f"cd {folder}\n{text}"),
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        env=user_environment() | forks | {"TMPDIR": str(folder)} | dict(variables or {}),
                    )
                )
        yield outputs
        wait_until(lambda: all(process.poll() is not None for process in processes), PATIENCE)
        written = "\n".join(path.read_text() for path in outputs.values())
        assert [process.returncode for process in processes] == [0] * len(processes), written[-6000:]
    finally:
        for process in processes:
            process.kill()
        inhabitants.kill(NAMESPACES / host.namespace for host in texts)
        for process in processes:
            process.wait()


def plan(host: Host, folder: Path, *words: str) -> dict[str, Any]:
    """`gpudoctor launch --json` on a host."""
    done = host.run(
        *("sh", "-c", 'cd "$0" && exec "$@"', str(folder)),
        *(sys.executable, "-m", "gpudoctor", "launch", "--json", *words),
        environment=user_environment(),
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def hostfile(folder: Path, names: Sequence[str], slots: int) -> str:
    path = folder / "hosts"
    path.write_text("".join(f"{name} slots={slots}\n" for name in names))
    return str(path)


def blocks(answer: dict[str, Any], machines: Sequence[Host]) -> dict[Host, str]:
    found = {machines[block["node"]]: block["text"] for block in answer["emission"]["blocks"]}
    assert len(found) == len(answer["emission"]["blocks"])
    return found


def check(written: str, world_size: int, local: int, arguments: Sequence[str] = ARGUMENTS) -> None:
    """Every rank was there once, trained, and ended with the weights of all the others."""
    said = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    assert sorted(each["rank"] for each in said) == list(range(world_size)), written[-6000:]
    for each in said:
        assert each["world_size"] == world_size
        assert each["equal"] and each["moved"], each
        assert each["local_rank"] == str(each["rank"] % local)
        assert each["arguments"] == list(arguments)


def train(
    machines: Sequence[Host],
    folder: Path,
    script: str,
    *options: str,
    slots: int = 2,
    truly: bool = False,
    variables: Any = None,
) -> str:
    """Emit on the first host, paste on each, and hand over what was written."""
    (folder / "train.py").write_text(script)
    named = hostfile(folder, [host.name for host in machines], slots)
    answer = plan(machines[0], folder, "--hostfile", named, *options, "--", "train.py", *ARGUMENTS)
    if answer["emission"]["code"]:
        (folder / "train.py").write_text(script.replace("TRAINER", answer["emission"]["code"]))
    frameworks = "--framework" in options
    with running(blocks(answer, machines), folder, frameworks, truly, variables) as outputs:
        pass
    return "\n".join(path.read_text() for path in outputs.values())


def test_torchrun_static_on_three_hosts(tmp_path: Path) -> None:
    with hosts("a", "b", "c") as machines:
        check(train(machines, tmp_path, TORCH), 6, 2)


def test_torchrun_static_in_a_shell_with_an_earlier_jobs_variables(tmp_path: Path) -> None:
    stale = {"LOCAL_RANK": "3", "WORLD_SIZE": "99", "RANK": "7", "PET_NNODES": "5", "TORCHELASTIC_RUN_ID": "old"}
    (tmp_path / "train.py").write_text(TORCH)
    with hosts("a") as machines:
        done = machines[0].run(
            *(sys.executable, "-m", "gpudoctor", "launch", "--json", "--hostfile", hostfile(tmp_path, "a", 2)),
            *("--", "train.py", *ARGUMENTS),
            environment=user_environment() | stale,
        )
        answer = json.loads(done.stdout)
        with running(blocks(answer, machines), tmp_path, variables=stale) as outputs:
            pass
    check(outputs[machines[0]].read_text(), 2, 2)


def test_torchrun_with_unequal_hosts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TORCH)
    (tmp_path / "hosts").write_text("a slots=1\nb slots=2\n")
    with hosts("a", "b") as machines:
        answer = plan(machines[0], tmp_path, "--hostfile", str(tmp_path / "hosts"), "--", "train.py")
        with running(blocks(answer, machines), tmp_path) as outputs:
            pass
    said = [json.loads(line) for path in outputs.values() for line in path.read_text().splitlines() if line[:1] == "{"]
    assert sorted((each["rank"], each["local_rank"], each["world_size"]) for each in said) == [
        (0, "0", 3),
        (1, "0", 3),
        (2, "1", 3),
    ]


@pytest.mark.parametrize("loopback", [False, True], ids=["names-resolve", "head-is-127.0.1.1"])
def test_torchrun_c10d_on_three_hosts(tmp_path: Path, loopback: bool) -> None:
    """is_host and --local-addr: it comes together, also where the head's own name leads to loopback, as on Ubuntu."""
    with hosts("a", "b", "c") as machines:
        if loopback:
            for host in machines:
                others = "".join(f"{each.address()} {each.name}\n" for each in machines if each is not host)
                host.etc("hosts", f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n{others}")
        written = train(machines, tmp_path, TORCH, "--elastic", "3:3")
    said = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    assert sorted(each["rank"] for each in said) == list(range(6)), written[-6000:]
    assert all(each["world_size"] == 6 and each["equal"] and each["moved"] for each in said)
    assert all(each["arguments"] == list(ARGUMENTS) for each in said)


def test_torchrun_standalone(tmp_path: Path) -> None:
    """Each rank imports torch itself, as a user's does."""
    with hosts("a") as machines:
        check(train(machines, tmp_path, TORCH, truly=True), 2, 2)


def test_lightning_on_three_hosts(tmp_path: Path) -> None:
    require(importlib.util.find_spec("lightning"), "no lightning: pip install lightning")
    with hosts("a", "b", "c") as machines:
        check(train(machines, tmp_path, LIGHTNING, "--framework", "lightning"), 6, 2)


def test_the_tutorials_lightning_command_hangs_with_every_other_rank_missing(tmp_path: Path) -> None:
    """LOCAL_RANK=0 and WORLD_SIZE=3 as tutorials have them: ranks 0, 2, 4 of 6, and nobody starts the others."""
    require(importlib.util.find_spec("lightning"), "no lightning: pip install lightning")
    with hosts("a", "b", "c") as machines:
        named = hostfile(tmp_path, "abc", 2)
        answer = plan(machines[0], tmp_path, "--hostfile", named, "--framework", "lightning", "--", "train.py")
        (tmp_path / "train.py").write_text(LIGHTNING.replace("TRAINER", answer["emission"]["code"]))
        pasted = {host: f"WORLD_SIZE=3 LOCAL_RANK=0 {lines(text)}" for host, text in blocks(answer, machines).items()}
        with pytest.raises(Hangs), running(pasted, tmp_path, frameworks=True) as outputs:

            def ranks() -> set[str]:
                text = "".join(path.read_text() for path in outputs.values())
                return {part.split(",")[0].strip() for part in text.split("GLOBAL_RANK:")[1:]}

            wait_until(lambda: len(ranks()) >= 3, PATIENCE)
            assert ranks() == {"0", "2", "4"}
            # One process a host, of this script: the others will not come.
            for host in machines:
                trainings = [
                    words
                    for words in inhabitants.processes(NAMESPACES / host.namespace).values()
                    if "train.py" in words and "bash" not in words and "sh -c" not in words
                ]
                assert len(trainings) == 1, trainings
            assert not any('"rank"' in path.read_text() for path in outputs.values())
            raise Hangs
    assert "{" not in "".join(path.read_text() for path in outputs.values())


class Hangs(Exception):
    """What was to be seen was seen: the block is left, and its processes end."""


def lines(text: str) -> str:
    """The command without its comments."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def test_accelerate_on_three_hosts(tmp_path: Path) -> None:
    require(importlib.util.find_spec("accelerate"), "no accelerate: pip install accelerate")
    with hosts("a", "b", "c") as machines:
        written = train(
            machines, tmp_path, ACCELERATE, "--framework", "accelerate", variables={"HF_HOME": str(tmp_path)}
        )
        check(written, 6, 2)


def test_accelerate_with_one_process_a_host(tmp_path: Path) -> None:
    """The case in which every node trains alone without --multi_gpu."""
    require(importlib.util.find_spec("accelerate"), "no accelerate: pip install accelerate")
    with hosts("a", "b") as machines:
        options = ("--framework", "accelerate")
        written = train(machines, tmp_path, ACCELERATE, *options, slots=1, variables={"HF_HOME": str(tmp_path)})
        check(written, 2, 1)


@pytest.mark.parametrize("names", ["a", "abc"], ids=["one", "three"])
def test_spawn(tmp_path: Path, names: str) -> None:
    with hosts(*names) as machines:
        (tmp_path / "train.py").write_text("")
        named = hostfile(tmp_path, names, 2)
        words = ("--hostfile", named, "--framework", "spawn", "--", "train.py", *ARGUMENTS)
        answer = plan(machines[0], tmp_path, *words)
        (tmp_path / "train.py").write_text(SPAWN + answer["emission"]["code"])
        with running(blocks(answer, machines), tmp_path, truly=names == "a") as outputs:
            pass
    check("\n".join(path.read_text() for path in outputs.values()), 2 * len(names), 2)


def test_mpirun_over_ssh(tmp_path: Path) -> None:
    require(shutil.which("mpirun"), "no mpirun: apt-get install openmpi-bin")
    with ssh_hosts("a", "b") as cluster:
        (tmp_path / "train.py").write_text(TORCH)
        machines = tuple(cluster.hosts)
        named = hostfile(tmp_path, "ab", 2)
        answer = plan(machines[0], tmp_path, "--hostfile", named, "--framework", "mpirun", "--", "train.py", *ARGUMENTS)
        agent = {"OMPI_MCA_plm_rsh_agent": f"ssh -F {cluster.ssh_config}", "TMPDIR": str(tmp_path)}
        with running(blocks(answer, machines), tmp_path, variables=agent) as outputs:
            pass
    check(outputs[machines[0]].read_text(), 4, 2)


@pytest.mark.parametrize("way", ["train.sbatch", "train-task-per-rank.sbatch"])
def test_slurm(tmp_path: Path, way: str) -> None:
    with slurm_cluster(2) as cluster:
        (tmp_path / "train.py").write_text(TORCH)
        named = hostfile(tmp_path, ("n1", "n2"), 2)
        answer = plan(
            cluster.nodes[0], tmp_path, "--hostfile", named, "--framework", "slurm", "--", "train.py", *ARGUMENTS
        )
        script = next(file["text"] for file in answer["emission"]["files"] if file["name"] == way)
        written = cluster.sbatch(script, f"--chdir={tmp_path}", TMPDIR=str(tmp_path), **warm.by_others())
    check(written, 4, 2)


def test_what_o_writes_runs_on_each_host(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TORCH)
    with hosts("a", "b") as machines:
        named = hostfile(tmp_path, "ab", 1)
        done = machines[0].run(
            *("sh", "-c", 'cd "$0" && exec "$@"', str(tmp_path)),
            *(sys.executable, "-m", "gpudoctor", "launch", "--hostfile", named, "-o", "start", "--", "train.py"),
            environment=user_environment(),
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [f"start{os.sep}node-0.sh", f"start{os.sep}node-1.sh"]
        scripts = {host: f"exec ./start/node-{rank}.sh" for rank, host in enumerate(machines)}
        with running(scripts, tmp_path) as outputs:
            pass
    check("\n".join(path.read_text() for path in outputs.values()), 2, 1, ())
