"""`gpudoctor hang` and `capture --pid` as a user types them."""

import contextlib
import json
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import psutil
import pytest
from msgspec.structs import replace

from gpudoctor.hang.conclude import conclude
from gpudoctor.hang.report import HangReport
from gpudoctor.hang.watch import spanned
from gpudoctor.render.hang import what_was_not_read
from gpudoctor.snapshot.evidence import Evidence, Sample, to_json
from tests.hang_examples import EXAMPLES
from tests.hang_jobs import a_job, waits
from tests.lab.hangs.training import HANGS, SCENARIOS, running
from tests.lab.slurm import SlurmCluster, slurm_cluster
from tests.lab.sshd import user_environment, wait_until

PATIENCE = 250.0
pytestmark = [pytest.mark.timeout(400), pytest.mark.usefixtures("forks")]


def gpudoctor(*words: str, columns: int = 80, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "gpudoctor", *words],
        env=user_environment() | {"COLUMNS": str(columns), "NO_COLOR": "1"},
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture
def rank0_only(tmp_path: Path) -> str:
    path = tmp_path / "job.json"
    path.write_bytes(to_json(EXAMPLES["hang-rank0-only"]()))
    return str(path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--json", "--paste"), "--json and --paste exclude each other"),
        (("--from", "x.json", "--pid", "7"), "--from diagnoses a file"),
        (("--from", "x.json", "--hosts", "a"), "--from diagnoses a file"),
        (("--from", "/nonexistent/x.json"), "no such file"),
        (("--from", "/"), "is a folder"),
        (("--from", __file__), "what gpudoctor has written is wanted"),
        (("--pid", "7", "--hosts", "a"), "--job names the job"),
        (("--pid", "0"), "--pid"),
        (("--pid", str(2**22 + 1)), "there is no such process on this machine"),
        (("--dumps", "/nonexistent"), "no such folder"),
        (("--nodes", "3"), "--hosts"),
        (("--exclude", "a"), "--exclude leaves out nodes"),
        (("--job", "no-such-run"), "no such job on this machine"),
        (("--interval", "1", "--watch"), "--interval"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line(words: tuple[str, ...], said: str) -> None:
    done = gpudoctor("hang", *words)
    assert done.returncode == 2 and done.stdout == b"", done
    message = done.stderr.decode()
    assert message.startswith("gpudoctor: ") and message.count("\n") == 1 and said in message


def test_a_file_of_evidence_is_concluded(rank0_only: str) -> None:
    done = gpudoctor("hang", "--from", rank0_only)
    text = done.stdout.decode()
    assert done.returncode == 1
    assert "[rank0-only-collective]" in text and "train.py:118" in text
    assert max(map(len, text.splitlines())) <= 100, "at 80 columns only the table's last words may hang over"
    assert text.splitlines()[-1].endswith("it hangs [rank0-only-collective]") and "Seen:" not in text
    reasons = gpudoctor("hang", "--from", rank0_only, "-v").stdout.decode()
    assert reasons.splitlines()[-1] == text.splitlines()[-1] and "Seen:" in reasons
    piped = gpudoctor("hang", "--from", "-", stdin=Path(rank0_only).read_bytes())
    assert piped.stdout == done.stdout


def test_the_answer_keeps_its_schema(rank0_only: str) -> None:
    done = gpudoctor("hang", "--from", rank0_only, "--json")
    answer = json.loads(done.stdout)
    jsonschema.validate(answer, msgspec.json.schema(HangReport))
    (job,) = answer["jobs"]
    assert job["state"] == "hung" and job["causes"][0]["where"]["line"] == 115
    assert [row["rank"] for row in job["ranks"]] == list(range(8))


def test_a_job_by_its_id(rank0_only: str) -> None:
    assert json.loads(gpudoctor("hang", "--from", rank0_only, "--json", "--job", "10.0.0.1:29500").stdout)["jobs"]
    assert not json.loads(gpudoctor("hang", "--from", rank0_only, "--json", "--job", "other").stdout)["jobs"]


def test_what_is_pasted_names_nobody(tmp_path: Path) -> None:
    evidence = EXAMPLES["hang-rank0-only"]()
    told = replace(evidence, lost={"gpu-03.secret.example": "refused: ssh to gpu-03.secret.example"})
    path = tmp_path / "job.json"
    path.write_bytes(to_json(told))
    text = gpudoctor("hang", "--from", str(path), "--paste").stdout.decode()
    assert text.startswith("<details><summary>gpudoctor") and "rank0-only-collective" in text
    for name in ("mara", "gpu-01", "secret"):
        assert name not in text


def test_other_files_of_gpudoctor_are_told_apart(rank0_only: str, tmp_path: Path) -> None:
    done = gpudoctor("check", "--from", rank0_only)
    assert done.returncode == 2 and b"gpudoctor hang --from FILE" in done.stderr
    machine = tmp_path / "machine.json"
    assert gpudoctor("capture", "--no-torch", "-o", str(machine)).returncode == 0
    done = gpudoctor("hang", "--from", str(machine))
    assert done.returncode == 2 and b"no evidence of a job" in done.stderr


def test_evidence_is_captured_here_and_concluded_elsewhere(tmp_path: Path) -> None:
    with running(SCENARIOS["sleeps"], tmp_path) as job:
        done = gpudoctor("capture", "--pid", str(job.pid), "-o", str(tmp_path / "job.json"))
        assert done.returncode == 0, done.stderr
        hidden = gpudoctor("capture", "--pid", str(job.pid), "--redact")
    for path in (str(tmp_path / "job.json"), "-"):
        done = gpudoctor("hang", "--from", path, "--json", stdin=hidden.stdout)
        (report,) = json.loads(done.stdout)["jobs"]
        assert report["causes"][0]["cause"] == "slow-rank-timeout" and report["causes"][0]["ranks"] == [0]


def look(step: int, switches: int) -> Evidence:
    """A job of two ranks whose steps take longer than a look: both samples of a look are alike."""
    return a_job(*(waits(rank, at=41 + step, switches=(switches, switches)) for rank in (0, 1))).evidence


def test_looks_far_apart_tell_slow_from_stuck() -> None:
    first = look(0, 50)
    assert {job.state for job in conclude(first).jobs} == {"hung"}, "one look of a few seconds cannot know"
    assert {job.state for job in conclude(spanned(first, look(1, 90))).jobs} == {"running"}
    assert {job.state for job in conclude(spanned(first, look(0, 50))).jobs} == {"hung"}


def test_a_process_that_is_new_keeps_its_own_samples() -> None:
    node = replace(look(0, 50).nodes[0], processes=())
    joined = spanned(replace(look(0, 50), nodes=(node,)), look(1, 90))
    samples: list[tuple[Sample, ...]] = [each.samples for each in joined.nodes[0].processes]
    assert samples == [each.samples for each in look(1, 90).nodes[0].processes]


@contextlib.contextmanager
def watching(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "gpudoctor", "hang", "--watch", "--interval", "2", "--json", *words],
        env=user_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=True,  # said so, it is no fork (tests/lab/warm.py): what it has started so far is looked at
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_watch_reports_a_job_that_stands_still(tmp_path: Path) -> None:
    with running(SCENARIOS["sleeps"], tmp_path) as job, watching("--pid", str(job.pid)) as watch:
        answer, errors = watch.communicate(timeout=PATIENCE)
    assert watch.returncode == 1, errors
    (report,) = json.loads(answer)["jobs"]
    assert report["state"] == "hung" and report["causes"][0]["cause"] == "slow-rank-timeout"


def test_watch_lets_a_living_job_be_and_ends_with_it(tmp_path: Path) -> None:
    with running(SCENARIOS["sleeps"], tmp_path, healthy=True) as job, watching("--pid", str(job.pid)) as watch:
        with pytest.raises(subprocess.TimeoutExpired):
            watch.wait(12)
        psutil.Process(job.pid).send_signal(signal.SIGTERM)
        answer, errors = watch.communicate(timeout=PATIENCE)
    assert watch.returncode == 0, (answer, errors)
    assert json.loads(answer)["jobs"] == []


def test_an_interrupted_watch_leaves_nothing(tmp_path: Path) -> None:
    with running(SCENARIOS["sleeps"], tmp_path, healthy=True) as job, watching("--pid", str(job.pid)) as watch:
        family: list[psutil.Process] = []

        def has_an_agent() -> bool:
            family[:] = psutil.Process(watch.pid).children(recursive=True)
            return bool(family)

        wait_until(has_an_agent, PATIENCE)
        watch.send_signal(signal.SIGINT)
        _, errors = watch.communicate(timeout=PATIENCE)
        assert psutil.pid_exists(job.pid)
    assert watch.returncode == 130 and errors.decode().endswith("gpudoctor: interrupted\n")
    assert psutil.wait_procs(family, timeout=PATIENCE)[1] == []


BATCH = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1) MASTER_PORT={port} OMP_NUM_THREADS=1
srun bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS exec {python} {script}'
"""


def submitted(cluster: SlurmCluster, folder: Path) -> tuple[str, Path]:
    """A batch job that gets stuck: its number, and its output."""
    script, output = folder / "job.sh", folder / "job.out"
    script.write_text(BATCH.format(port=29571, python=sys.executable, script=HANGS / "sleeps.py"))
    done = cluster.run("sbatch", "--parsable", f"--output={output}", str(script))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), output


def test_a_slurm_job_is_looked_at_from_the_login_node(tmp_path: Path) -> None:
    with slurm_cluster(2) as cluster:
        number, output = submitted(cluster, tmp_path)
        wait_until(lambda: output.exists() and "upload of step 2" in output.read_text(), PATIENCE)
        words = (sys.executable, "-m", "gpudoctor", "hang", "--job", number, "--json")
        answers: list[Any] = []

        def hangs() -> bool:
            """The other rank may still be on its way to the collective."""
            done = cluster.run(*words)
            assert done.returncode in (0, 1), done.stderr
            answers.append(json.loads(done.stdout))
            return bool(answers[-1]["jobs"][0]["state"] == "hung")

        wait_until(hangs, PATIENCE)
        missing = cluster.run(*words[:-2], str(int(number) + 1000))
        cluster.run("scancel", number)
        assert cluster.left_over() == []
    (report,) = answers[-1]["jobs"]
    assert report["causes"][0]["cause"] == "slow-rank-timeout" and report["causes"][0]["ranks"] == [0]
    assert {row["host"] for row in report["ranks"]} == {"n1", "n2"} and f"slurm {number}" in report["id"].lower()
    assert missing.returncode == 2 and "Slurm knows no job" in missing.stderr


def test_a_host_that_cannot_be_reached_is_a_fault() -> None:
    done = gpudoctor("hang", "--hosts", "no-such-host.invalid")
    assert done.returncode == 1 and done.stdout == b"", done
    assert b"none of 1 nodes can be asked" in done.stderr and done.stderr.count(b"\n") == 1


def test_nothing_to_look_at_is_said(tmp_path: Path) -> None:
    """A run id that no job here has: other tests' jobs run beside this one."""
    done = gpudoctor("capture", "--job", uuid.uuid4().hex, "-o", str(tmp_path / "job.json"))
    assert done.returncode == 2 and b"no such job" in done.stderr
    assert not (tmp_path / "job.json").exists()


def test_what_was_not_read_is_told_in_few_words() -> None:
    names = [*(f"environment of pid {pid} python" for pid in (7, 8, 9)), "flight recorder of rank 3", "node b"]
    assert what_was_not_read(names) == "environment of pids 7-9, flight recorder of rank 3, node b"
    assert what_was_not_read([f"stack of pid {pid}" for pid in range(1, 999, 2)]) == "stack of pid: 499 of them"
    assert (
        what_was_not_read([f"thing {letter}" for letter in "abcdefg"])
        == "thing a, thing b, thing c, thing d and 3 more"
    )
