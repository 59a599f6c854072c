"""`gpudoctor check --hosts`: usage, and several hosts of the lab at once."""

import json
import sys
from collections.abc import Iterator

import pytest

from gpudoctor import cli
from tests.lab.sshd import Cluster, ssh_hosts


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--nodes", "3"), "--nodes 3: which ones"),
        (("--hosts", "-oProxyCommand=x"), "-oProxyCommand"),
        (("--hosts", "a;reboot"), "a;reboot"),
        (("--hosts", "a,a"), "a"),
        (("--hosts", "a", "--hostfile", "x"), "exclude each other"),
        (("--hostfile", "/nonexistent/hosts"), "/nonexistent/hosts"),
        (("--hosts", "a", "--deep"), "--json, --html, --redact and --strict only"),
        (("--hosts", "a", "--paste"), "--json, --html, --redact and --strict only"),
        (("--hosts", "a", "--from", "x"), "--json, --html, --redact and --strict only"),
        (("--hosts", "a", "no-such-check"), "no-such-check"),
        (("--hosts", "a", "--exclude", "a"), "--exclude leaves no node"),
        (("--exclude", "a"), "go with --hosts"),
        (("--remote-gpudoctor", "/opt/gpudoctor"), "go with --hosts"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: tuple[str, ...],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    assert cli.run(["check", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("gpudoctor: ") and err.count("\n") == 1 and says in err


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ssh_hosts("n01", "n02", "n03") as made:
        made["n02"].set(NCCL_ALGO="Ring", NCCL_IB_DISABLE="1")
        yield made


def check(cluster: Cluster, *arguments: str) -> tuple[int, str, str]:
    words = (sys.executable, "-m", "gpudoctor", "check", "--no-torch", "--timeout", "40", *arguments)
    done = cluster.head.run(*words, environment=cluster.environment(COLUMNS="200"))
    assert cluster.left_over() == {}
    return done.returncode, done.stdout, done.stderr


def test_what_differs_and_what_is_wrong_is_told_by_node(cluster: Cluster) -> None:
    status, out, err = check(cluster, "--hosts", "n[01-03]", "--expect", "cpu")
    assert err == "" and status in (0, 1)  # 1: this interpreter may lack torch
    assert "3 nodes examined through ssh" in out
    assert "NCCL_ALGO: n02 has 'Ring'; not set on 2 nodes" in out
    assert "info all 3 nodes: No GPU" in out


def test_a_node_that_is_not_there_is_never_green(cluster: Cluster) -> None:
    status, out, _ = check(cluster, "--hosts", "n[01-02],n09", "shm-too-small")
    assert status == 1
    assert "[node-unresolvable]" in out
    assert out.splitlines()[-1].startswith("Not ready to train: n09 not examined")


def test_json_holds_everything(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    hostfile = tmp_path_factory.mktemp("hosts") / "hosts"
    hostfile.write_text("# three\nn01 slots=8\nn02 slots=8\nn03\n")
    status, out, _ = check(cluster, "--hostfile", str(hostfile), "--json", "--strict")
    survey = json.loads(out)
    assert status == 1  # --strict: they differ
    assert (survey["schema"], survey["reached_by"], survey["examined"]) == (3, "ssh", ["n01", "n02", "n03"])
    assert {each["fact"] for each in survey["differences"]} >= {"NCCL_ALGO", "NCCL_IB_DISABLE"}
    found = {each["subject"] for each in survey["findings"] if each["id"] == "settings-differ-between-nodes"}
    assert "node n02" in found


def test_nobody_answers(cluster: Cluster) -> None:
    status, out, _ = check(cluster, "--hosts", "n08,n09")
    assert status == 1
    assert "Not ready to train: none of 2 nodes could be examined" in out
