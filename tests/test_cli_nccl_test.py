"""`gpudoctor nccl-test` as a user types it: real ranks over gloo on this machine, its outputs, wrong usage, Ctrl-C."""

import csv
import json
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import jsonschema
import psutil
import pytest

from tests.lab import warm
from tests.lab.sshd import user_environment

ROOT = Path(__file__).parent.parent
COMMAND = (sys.executable, "-m", "gpudoctor", "nccl-test")


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return warm.run_to_its_end(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env={**user_environment(), **variables},
        text=True,
        timeout=110,
    )


def test_a_machine_without_a_gpu_is_tested_over_gloo_and_says_so(tmp_path: Path) -> None:
    answer, picture = tmp_path / "answer.json", tmp_path / "picture.svg"
    logs = tmp_path / "logs"
    logs.mkdir()
    done = run(
        *("--collective", "all_reduce,all_gather", "--min-bytes", "1K", "--max-bytes", "4K", "--factor", "4"),
        *("--backend", "gloo", "--json", "--plot", str(picture), "--keep-logs", str(logs)),
        NCCL_ALGO="Ring",
    )
    assert done.returncode == 0, done.stderr
    answer.write_text(done.stdout)
    found = json.loads(done.stdout)
    jsonschema.validate(found, json.loads((ROOT / "docs" / "schemas" / "nccl-test.json").read_text()))
    assert (found["backend"], found["world_size"], found["outcome"], found["exit_status"]) == ("gloo", 2, "complete", 0)
    rows = found["run"]["rows"]
    assert [(row["collective"], row["size_bytes"], row["wrong"]) for row in rows] == [
        ("all_reduce", 1024, 0), ("all_reduce", 4096, 0), ("all_gather", 1024, 0), ("all_gather", 4096, 0),
    ]  # fmt: skip
    for row in rows:
        factor = {"all_reduce": 1.0, "all_gather": 0.5}[row["collective"]]
        assert row["bus_bandwidth"] == pytest.approx(row["algorithm_bandwidth"] * factor)
        assert row["minimum_us"] <= row["mean_us"] <= row["maximum_us"]
    assert found["settings"] == {"NCCL_ALGO": "Ring"}
    assert "<svg" in picture.read_text()
    assert sorted(path.name.partition("-rank")[2] for path in logs.iterdir()) == ["0.log", "1.log"]

    again = run("--from", str(answer))
    assert again.returncode == 0
    assert "gloo over CPU, not NCCL" in again.stdout and "set for every rank: NCCL_ALGO=Ring" in again.stdout
    assert "world size 2 as the ranks see it" in again.stdout
    table = run("--from", str(answer), "--csv")
    assert [line["size_bytes"] for line in csv.DictReader(table.stdout.splitlines())] == ["1024", "4096"] * 2


WRONG = [
    (("--json", "--csv"), "exclude each other"),
    (("--max-bytes", "8X"), "no size"),
    (("--min-bytes", "2M", "--max-bytes", "1M"), "more than"),
    (("--collective", "all_reduce,scatter"), "choose of all_reduce"),
    (("--factor", "1"), "--factor"),
    (("--hosts", "-oProxyCommand=x"), "'-oProxyCommand=x'"),
    (("--hosts", "a;reboot"), "'a;reboot'"),
    (("--hosts", "a,b", "--nodes", "3"), "2 hosts named"),
    (("--hosts", "a", "--nodes", "3"), "1 host named"),
    (("--hosts", " "), "no host is named"),
    (("--hosts", "a,b", "--exclude", "a,b"), "leaves no node"),
    (("--hosts", "a", "--hostfile", "f"), "exclude each other"),
    (("--hostfile", "/nonexistent/hosts"), "no such file"),
    (("--exclude", "n01"), "--exclude"),
    (("--join", "10.0.0.1:29500"), "GPUDOCTOR_TOKEN"),
    (("--join", "somewhere"), "HEAD:PORT"),
    (("--master-addr", "-x"), "--master-addr '-x': a host's name"),
    (("--master-addr", "a;b"), "--master-addr 'a;b': a host's name"),
    (("--master-addr", "fe80::1::2"), "--master-addr 'fe80::1::2': a host's name"),
    (("--compare", "LD_PRELOAD=/tmp/x.so,"), "LD_PRELOAD"),
    (("--compare", "NCCL_ALGO=Ring,Tree", "--find-slow"), "exclude each other"),
    (("--find-slow",), "at least two"),
    (("--plot", "picture.gif"), ".svg or .png"),
    (("--plot", "/nonexistent/picture.svg"), "no folder"),
    (("--keep-logs", "/nonexistent"), "not a folder"),
    (("--backend", "nccl"), "--backend nccl cannot run"),
    (("--emit", "slurm"), "--nodes N"),
    (("--emit", "slurm", "--nodes", "2", "--hosts", "a,b"), "excludes --hosts"),
    (("--emit", "kubernetes", "--nodes", "2", "--find-slow"), "excludes --find-slow"),
    (("--emit", "kubernetes", "--nodes", "2", "--compare=NCCL_ALGO=Ring,Tree"), "excludes --compare"),
    (("--emit", "slurm", "--nodes", "2", "--join", "a:1"), "--emit excludes --join"),
    (("--python", "/nonexistent/python"), "no such file"),
    (("--gpus-per-node", "0"), "--gpus-per-node"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_wrong_usage_is_one_line_and_status_2(arguments: tuple[str, ...], says: str) -> None:
    if arguments == ("--backend", "nccl") and shutil.which("nvidia-smi"):
        pytest.skip("this machine has a GPU")
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout
    assert says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_an_empty_answer_tells_nothing() -> None:
    done = run("--from", "/dev/null")
    assert (done.returncode, done.stdout) == (3, "")
    assert "the file is empty" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_token_that_is_no_text_is_wrong_usage_before_anybody_is_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        head.setblocking(False)
        done = run("--join", f"127.0.0.1:{head.getsockname()[1]}", GPUDOCTOR_TOKEN="\udcff\udcfe")
        with pytest.raises(BlockingIOError):
            head.accept()
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "needs the token" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_test_says_what_it_measured_and_leaves_no_process(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--collective", "all", "--max-bytes", "16M"],
        env=user_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if line.split()[:1] == ["1024"]:
            children = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(number)
            break
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert "what was measured until then is above" in " ".join(rest.split())
    assert any("collective" in word for child in children for word in _command(child)) or len(children) >= 4
    assert psutil.wait_procs(children, timeout=10)[1] == []


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_reader_that_leaves_ends_the_test() -> None:
    shell = (
        f"{sys.executable} -m gpudoctor nccl-test --collective all --max-bytes 16M | head -2; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(
        ["bash", "-c", shell], env=user_environment(), capture_output=True, text=True, timeout=100, check=False
    )
    assert len(done.stdout.splitlines()) == 2
    assert done.returncode == 128 + signal.SIGPIPE
    assert "Traceback" not in done.stderr


def test_settings_are_compared_and_judged_against_noise() -> None:
    done = run(
        *("--max-bytes", "64K", "--min-bytes", "64K", "--backend", "gloo", "--json"),
        *("--compare", "OMP_NUM_THREADS=1,"),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [setting["settings"] for setting in found["compared"]] == [{"OMP_NUM_THREADS": "1"}, {}]
    assert all(setting["bus_bandwidth"]["all_reduce"] > 0 for setting in found["compared"])
    assert "all_reduce" in found["comparison"]


def test_a_rank_that_cannot_import_torch_is_named(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')\n")
    (package / "version.py").write_text("__version__ = '2.13.0'\ncuda = None\n")
    done = run("--max-bytes", "1K", "--timeout", "20", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "libcudart.so.12" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
