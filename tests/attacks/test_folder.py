"""Every command in a folder of somebody else's, which holds a bad module and a bad program of every name: none is run.

What is run leaves a line of evidence. The folder also stands in PATH, and, for what gpudoctor starts, in PYTHONPATH: of
gpudoctor's own start Python alone decides, so there its interpreter is asked to leave PYTHONPATH to others (-I).
"""

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gpudoctor.cli.commands import COMMANDS, HIDDEN
from tests.attacks.registry import attack, attacks
from tests.lab.machines import hgx_h100
from tests.lab.nvidia import fake_nvidia

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="fork, memfd, /proc"),
    pytest.mark.timeout(500),
]
ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "docs" / "examples"
GPUDOCTOR = Path(sys.executable).parent / "gpudoctor"
PATIENCE = 400
FURTHER = (
    "torch torchvision triton numpy accelerate lightning pytorch_lightning gpudoctor gpudoctor_checks sitecustomize "
    "usercustomize apex deepspeed torch_xla distutils imp collective train train_plain"
)
"""Modules that no installed distribution here may have, and that something asks for."""
PROGRAMS = (
    "srun squeue scancel scontrol ssh nft journalctl dmesg iptables py-spy python python3 gpudoctor torchrun sh bash "
    "ip nvidia-smi nvcc ldconfig lspci ibstat docker latex dvipng gs"
)


class Trap(NamedTuple):
    """The folder, and what was run of it."""

    folder: Path
    evidence: Path

    def sprung(self) -> list[str]:
        """What was run since the last call."""
        said = self.evidence.read_text().split("\n")[:-1] if self.evidence.exists() else []
        self.evidence.unlink(missing_ok=True)
        return said


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Trap:
    """A bad module for all of the standard library, of all that is installed and of ours; all programs of this PATH."""
    place = tmp_path_factory.mktemp("hostile")
    found = Trap(place / "here", place / "evidence")
    found.folder.mkdir()
    module = found.folder / "trap.py"
    # Also before Python has an `open`.
    flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
    module.write_text(
        f"import posix\nat = posix.open({str(found.evidence)!r}, {flags})\n"
        "posix.write(at, b'module ' + bytes(map(ord, __name__)) + b'\\n')\nposix.close(at)\n"
    )
    program = found.folder / "trap"
    program.write_text(f"#!/bin/sh\nprintf 'program %s\\n' \"$0\" >> '{found.evidence}'\n")
    program.chmod(0o755)
    workers = {each.stem for each in (ROOT / "gpudoctor" / "workers").glob("*.py")}
    modules = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), *FURTHER.split(), *workers}
    for name in modules:
        if name.isidentifier():
            (found.folder / f"{name}.py").symlink_to(module)
    folders = [Path(entry) for entry in os.environ["PATH"].split(":") if entry and Path(entry).is_dir()]
    for name in {*PROGRAMS.split(), *(each for folder in folders for each in os.listdir(folder))} - {"trap"}:  # noqa: PTH208
        if "." not in name:
            (found.folder / name).symlink_to(program)
    (found.folder / "lib").symlink_to(found.folder)
    return found


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a user: eight GPUs that answer, and the folder first on his PATH in three spellings."""
    with fake_nvidia(hgx_h100(2), NO_COLOR="1", PYTHONDONTWRITEBYTECODE="1") as environment:
        for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"):
            environment.pop(name, None)
        state = str(tmp_path_factory.mktemp("state"))
        yield {**environment, "PATH": f".::lib:{environment['PATH']}", "XDG_STATE_HOME": state}


def run(
    trap: Trap, environment: dict[str, str], *arguments: str, isolated: bool = False, told: str = ""
) -> "subprocess.CompletedProcess[str]":
    """`gpudoctor` as it is installed, in the folder, with descriptors and terminal of its own."""
    command = [sys.executable, "-I", str(GPUDOCTOR)] if isolated else [str(GPUDOCTOR)]
    assert trap.sprung() == []
    return subprocess.run(
        [*command, *arguments], cwd=trap.folder, env=environment, capture_output=True, text=True, input=told,
        timeout=PATIENCE, start_new_session=True,
    )  # fmt: skip


def test_the_traps_work(trap: Trap, machine: dict[str, str]) -> None:
    """What would be run, were it not for gpudoctor's care."""
    spawning = (
        "import sys; del sys.path[0]; import multiprocessing as m; "
        "p = m.get_context('spawn').Process(target=print); p.start(); p.join()"
    )
    subprocess.run([sys.executable, "-c", spawning], cwd=trap.folder, env=machine, capture_output=True, timeout=60)
    assert "module multiprocessing" in trap.sprung()
    subprocess.run(["/bin/sh", "-c", "srun; lib/ssh"], cwd=trap.folder, env=machine, timeout=60, check=True)
    assert trap.sprung() == ["program ./srun", "program lib/ssh"]
    for variable, value in (("PYTHONPATH", ":"), ("PYTHONPATH", "lib")):
        asked = {**machine, variable: value}
        subprocess.run([sys.executable, "/dev/null"], cwd=trap.folder, env=asked, capture_output=True, timeout=60)
        assert any(line.startswith("module ") for line in trap.sprung()), variable


class Case(NamedTuple):
    arguments: tuple[str, ...]
    statuses: tuple[int, ...] = (0, 1)
    says: str = ""
    told: str = ""
    variables: dict[str, str] = {}  # noqa: RUF012 - read only


SNAPSHOT = str(EXAMPLES / "broken-8xh100.json")
ALLOCATION = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_NUM_NODES": "1"}
SOME_CHECKS = ("--no-torch", "gpu", "host", "pytorch")
CASES = {
    "check": Case(("check", *SOME_CHECKS), says="2x H100"),
    "check --hosts": Case(("check", "--hosts", "127.0.0.1:9", "--timeout", "5"), (0, 1, 2, 3), "127.0.0.1"),
    "check in an allocation": Case(("check", "--nodes", "1"), (0, 1, 2, 3), "srun", variables=ALLOCATION),
    "capture": Case(("capture", "--no-torch"), says='"gpudoctor"'),
    "capture --job": Case(("capture", "--job", "7"), (0, 1, 2, 3)),
    "diff": Case(("diff", SNAPSHOT, SNAPSHOT), says="No difference"),
    "devices": Case(("devices",), says="H100"),
    "env": Case(("env", "--no-torch")),
    "topology": Case(("topology",), says="GPU0"),
    "amp": Case(("amp", "--device", "cpu", "--dtype", "bf16", "--python", sys.executable), says="bf16"),
    "launch": Case(("launch", "--", "train.py"), says="torchrun"),
    "launch --check": Case(("launch", "--check", "--timeout", "20", "--", "train.py"), (0, 1, 2, 3), "train.py"),
    "lint": Case(("lint", "-"), told="torchrun --nproc-per-node=2 train.py\n"),
    "lint --check": Case(("lint", "--check", "-"), (0, 1), told="python train.py --nnodes=2 --master-addr=127.0.0.1\n"),
    "sbatch": Case(("sbatch", "--wrap", "torchrun --nproc-per-nodes=2 t.py"), (1, 2)),
    "lsp": Case(("lsp",), (0, 2)),
    "run": Case(("run", "--preflight", "full", "--", "/bin/true"), (0,)),
    "report": Case(("report", str(EXAMPLES / "run-out-of-memory")), (1,), "GPU memory"),
    "explain": Case(("explain", str(EXAMPLES / "train-watchdog.log")), (0, 1)),
    "hang": Case(("hang",), (0, 1, 2, 3)),
    "slow": Case(("slow",), (0, 1, 2, 3)),
    "checkpoint": Case(("checkpoint", str(EXAMPLES / "ddp-epoch12.pt")), (0, 1), "module."),
    "about": Case(("about", "R01"), says="of lint"),
    "checks": Case(("checks",)),
    "agent": Case(("agent",), (0, 1)),
    "nccl-test in an allocation": Case(("nccl-test",), (1, 2, 3), "the scheduler did not", variables=ALLOCATION),
    "train-test": Case(("train-test", "--from", str(EXAMPLES / "train-test-gradient.json")), (0, 1)),
    "nccl-test": Case(("nccl-test", "--from", str(EXAMPLES / "nccl-test-slow-node.json")), (0, 1)),
}


def test_every_command_is_tried() -> None:
    """A new command is in the list, or this fails."""
    names = {*COMMANDS, *HIDDEN}
    assert names == {case.arguments[0] for case in CASES.values()}


@attacks(
    "surroundings",
    "case",
    *(
        (f"{name}: the current folder", "a module or a program of that folder runs as its user", case)
        for name, case in CASES.items()
    ),
)
def test_a_command_runs_nothing_of_the_folder_it_is_started_in(case: Case, trap: Trap, machine: dict[str, str]) -> None:
    done = run(trap, machine | case.variables, *case.arguments, told=case.told)
    assert trap.sprung() == []
    assert done.returncode in case.statuses and case.says in done.stdout + done.stderr, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr


@attack(
    "surroundings", way="train-test: spawn and Lightning's spawn in the current folder", weakness="python -c imports it"
)
def test_spawned_processes_import_nothing_of_the_folder(trap: Trap, machine: dict[str, str]) -> None:
    wanted = (
        "--steps",
        "10",
        "--strategy",
        "spawn,lightning_spawn",
        "--precision",
        "fp32",
        "--backend",
        "gloo",
        "--gpus-per-node",
        "2",
    )
    environment = {**machine, "PYTHONPATH": ":.:lib", "PYTHONUSERBASE": "."}
    done = run(
        trap, environment, "train-test", *wanted, "--python", sys.executable, "--timeout", "300", "--json",
        isolated=True,
    )  # fmt: skip
    assert trap.sprung() == []
    told = json.loads(done.stdout)
    outcomes = {each["way"]: each["outcome"] for each in told["cells"]}
    assert outcomes["spawn"] == "passed", done.stdout
