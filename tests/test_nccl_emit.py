"""The batch script and the manifest that run the test elsewhere."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gpudoctor.launch.parts import on_gloo
from gpudoctor.launchers.kubernetes import START, bandwidth_test as manifest
from gpudoctor.launchers.slurm import bandwidth_test as script
from tests.lab.slurm import slurm_cluster

arguments = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20), max_size=5
)


def last_words(text: str) -> list[str]:
    """The command of a batch script, as a shell splits it."""
    return shlex.split(text[text.index("\nexec ") + len("\nexec ") :])


@given(st.integers(1, 1000), st.none() | st.integers(1, 16), arguments)
def test_a_batch_script_runs_exactly_these_arguments(nodes: int, ranks: int | None, given_words: list[str]) -> None:
    text = script(nodes, ranks, given_words)
    assert last_words(text) == ["gpudoctor", "nccl-test", "--nodes", str(nodes), *given_words]
    header = text[: text.index("\nexec ")].splitlines()
    assert f"#SBATCH --nodes={nodes}" in header
    assert all(line.startswith("#") or not line for line in header)


@pytest.mark.parametrize(
    "words", [[], ["--compare", "NCCL_ALGO=Ring,Tree"], ["a'b", "$(touch /tmp/x)", "`x`", "\n#SBATCH --nodes=9"]]
)
def test_bash_takes_a_batch_script(words: list[str]) -> None:
    text = script(3, None, words)
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False, timeout=30).returncode == 0
    shown = text.replace("exec gpudoctor", "exec printf '%s\\0'")
    said = subprocess.run(["bash"], input=shown, text=True, capture_output=True, check=True, timeout=30).stdout
    assert said.split("\0")[:-1] == ["nccl-test", "--nodes", "3", *words]


def test_gpus_are_asked_for_unless_it_is_gloo() -> None:
    assert "#SBATCH --gpus-per-node=4" in script(2, 4, [])
    assert "CHANGE" not in script(2, 4, [])
    assert "CHANGE" in script(2, None, []) and "#SBATCH --gpus-per-node=8" in script(2, None, [])
    assert "gpus-per-node" not in script(2, None, ["--backend", "gloo"])
    assert on_gloo(["--backend", "nccl", "--backend=gloo"]) and not on_gloo(["--backend=gloo", "--backend", "auto"])


def documents(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    import yaml

    service, job = yaml.safe_load_all(text)
    return service, job


@given(st.integers(1, 1000), st.none() | st.integers(1, 16), arguments)
def test_a_manifest_hands_over_exactly_these_arguments(nodes: int, ranks: int | None, given_words: list[str]) -> None:
    _, job = documents(manifest(nodes, ranks, given_words))
    container = job["spec"]["template"]["spec"]["containers"][0]
    # As the kubelet does: $$ is one dollar sign, and no $(NAME) is left to expand.
    command = [word.replace("$$", "$") for word in container["command"]]
    assert all("$(" not in word.replace("$$", "") for word in container["command"])
    assert command[:3] == ["bash", "-c", START]
    assert command[8:] == given_words
    assert command[4] == str(nodes) == str(job["spec"]["completions"]) == str(job["spec"]["parallelism"])
    assert job["spec"]["completionMode"] == "Indexed"


def test_a_manifest_of_three_nodes() -> None:
    service, job = documents(manifest(3, 4, ["--collective", "all"], image="our/image:1"))
    pod = job["spec"]["template"]
    container = pod["spec"]["containers"][0]
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == pod["metadata"]["labels"]
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    assert container["command"][4:8] == ["3", "4", "gpudoctor-nccl-test-0.gpudoctor-nccl-test", "61234"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert container["image"] == "our/image:1"
    assert pod["spec"]["volumes"][0]["emptyDir"] == {"medium": "Memory"}
    assert container["volumeMounts"][0]["mountPath"] == "/dev/shm"
    assert "CHANGE" not in manifest(3, 4, [], image="our/image:1")
    assert manifest(3, None, []).count("CHANGE") == 2


def test_the_pods_command_line_is_torchruns(tmp_path: Path) -> None:
    """What bash makes of it, with a torchrun that prints its arguments."""
    torchrun = tmp_path / "torchrun"
    torchrun.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    torchrun.chmod(0o755)
    _, job = documents(manifest(3, 4, ["--dtype", "a b$HOME"]))
    command = [word.replace("$$", "$") for word in job["spec"]["template"]["spec"]["containers"][0]["command"]]
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "JOB_COMPLETION_INDEX": "2"}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30).stdout
    assert said.split("\0")[:-1] == [
        "--nnodes=3",
        "--nproc-per-node=4",
        "--node-rank=2",
        "--master-addr=gpudoctor-nccl-test-0.gpudoctor-nccl-test",
        "--master-port=61234",
        "-m",
        "gpudoctor.nccl",
        "--dtype",
        "a b$HOME",
    ]


def test_on_slurm_the_batch_script_really_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.lab.slurm.PATIENCE", 100.0)
    text = script(3, None, ["--backend", "gloo", "--min-bytes", "64K", "--max-bytes", "64K", "--iters", "2"])
    with slurm_cluster(3) as cluster:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        written = cluster.sbatch(text, PATH=path)
        assert "world size 3" in written and "gloo over CPU, not NCCL" in written, written
        assert cluster.left_over() == []
