"""`gpudoctor checkpoint` from the outside: exit statuses, forms, and what it leaves behind: nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import torch

from gpudoctor.checkpoint.report import CheckpointReport
from gpudoctor.checkpoint.run import concluded, name_it, progress
from gpudoctor.checkpoint.unreadable import BadFile
from tests.checkpoint_files import as_torch, attack

pytestmark = pytest.mark.usefixtures("forks")


def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpudoctor", "checkpoint", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
        **more,
    )


def inside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def ddp(tmp_path: Path) -> Path:
    path = tmp_path / "ddp.pt"
    torch.save(
        {"state_dict": {"module.a.weight": torch.randn(3, 2), "module.a.bias": torch.zeros(3)}, "epoch": 7}, path
    )
    return path


def test_what_it_is_and_how_to_load_it(ddp: Path) -> None:
    done = run(ddp.name, cwd=ddp.parent)
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    assert 'Names carry "module."' in said and '["epoch"] 7' in said
    assert 'state = torch.load("ddp.pt", map_location="cpu", weights_only=True)["state_dict"]' in done.stdout
    assert 'Missing key(s) in state_dict: "a.weight", "a.bias".' in done.stdout
    assert inside(ddp.parent) == ["ddp.pt"]


def test_json_follows_its_schema(ddp: Path) -> None:
    done = run(str(ddp), "--json")
    told = json.loads(done.stdout)
    jsonschema.validate(told, msgspec.json.schema(CheckpointReport))
    assert told["wrappers"] == ["module."] and told["values_read"] is True and told["fixed"] is None


def test_nan_fails(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"w": torch.tensor([float("nan")])}, path)
    assert run(str(path)).returncode == 1
    done = run(str(path), "--no-values")
    assert done.returncode == 0 and "its numbers were not read" in done.stdout


@pytest.mark.parametrize(
    ("content", "word", "status"),
    [
        (b"", "empty", 1),
        (b"<html></html>", "web page", 2),
        (b"PK\x03\x04" + bytes(500), "cut off", 1),
        (None, "no such file", 2),
    ],
)
def test_what_cannot_be_read_gets_one_line(tmp_path: Path, content: bytes | None, word: str, status: int) -> None:
    path = tmp_path / "x.pt"
    if content is not None:
        path.write_bytes(content)
    done = run(str(path), "--json")
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith(f"gpudoctor: {path}: ") and word in done.stderr and done.stderr.count("\n") == 1


def test_an_attack_gets_one_line_and_is_not_run(tmp_path: Path) -> None:
    path, marker = tmp_path / "x.pt", tmp_path / "marker"
    path.write_bytes(as_torch(attack(marker)))
    done = run(str(path), "--fix", str(tmp_path / "out.pt"))
    assert done.returncode == 2 and "system" in done.stderr and done.stderr.count("\n") == 1
    assert inside(tmp_path) == ["x.pt"]


@pytest.mark.parametrize("ending", [".pt", ".safetensors"])
def test_the_clean_copy(ddp: Path, ending: str) -> None:
    out = ddp.with_name(f"clean{ending}")
    done = run(str(ddp), "--fix", str(out), "--json", env={**os.environ, "VIRTUAL_ENV": sys.prefix})
    assert done.returncode == 0, done.stderr
    fixed = json.loads(done.stdout)["fixed"]
    assert (fixed["tensors"], fixed["renamed"], fixed["path"]) == (2, 2, str(out))
    assert fixed["reloaded"].startswith(f"torch {torch.__version__}, ")
    assert inside(ddp.parent) == sorted(["ddp.pt", out.name])
    assert out.stat().st_mode & 0o777 == 0o666 & ~_umask()
    again = run(str(out))
    assert again.returncode == 0 and "wrapper-prefix" not in again.stdout


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_the_input_is_never_written_to(ddp: Path, tmp_path: Path) -> None:
    before = ddp.read_bytes()
    (tmp_path / "soft").symlink_to(ddp)
    os.link(ddp, tmp_path / "hard")
    (tmp_path / "to-nowhere").symlink_to(tmp_path / "nowhere")
    for out, word in [
        ("ddp.pt", "input itself"),
        ("soft", "input itself"),
        ("hard", "input itself"),
        ("../" + tmp_path.name + "/ddp.pt", "input itself"),
        ("to-nowhere", "exists already"),
        ("none/x.pt", "does not exist"),
        (".", "is a folder"),
    ]:
        done = run("ddp.pt", "--fix", out, cwd=tmp_path)
        assert done.returncode == 2 and word in done.stderr, (out, done.stderr)
    (tmp_path / "other.pt").write_bytes(b"precious")
    assert "exists already" in run(str(ddp), "--fix", str(tmp_path / "other.pt")).stderr
    assert (tmp_path / "other.pt").read_bytes() == b"precious" and ddp.read_bytes() == before
    assert not (tmp_path / "nowhere").exists()
    assert not [name for name in inside(tmp_path) if name.startswith(".")]


def test_a_file_made_meanwhile_is_kept(tmp_path: Path) -> None:
    (tmp_path / "temporary").write_bytes(b"new")
    (tmp_path / "out").write_bytes(b"precious")
    with (tmp_path / "temporary").open("rb") as file, pytest.raises(BadFile, match="meanwhile"):
        name_it(str(tmp_path / "temporary"), tmp_path / "out", file.fileno())
    assert (tmp_path / "out").read_bytes() == b"precious"


def test_without_torch_the_copy_is_written_and_that_is_said(ddp: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 3\n")
    python.chmod(0o755)
    done = run(str(ddp), "--fix", str(tmp_path / "out.pt"), "--python", str(python), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["fixed"]["reloaded"].startswith("not reloaded by torch: ")
    assert (tmp_path / "out.pt").exists()


def test_a_copy_that_torch_reads_differently_is_thrown_away(ddp: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\necho \'@gpudoctor {"torch": "9.9"}\'\necho \'@gpudoctor {"listing": "other", "tensors": 2}\'\n'
    )
    python.chmod(0o755)
    done = run(str(ddp), "--fix", str(tmp_path / "out.pt"), "--python", str(python))
    assert done.returncode == 2 and "torch 9.9 reads other tensors" in done.stderr
    assert inside(tmp_path) == ["ddp.pt", "python"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_ended_in_the_middle_it_leaves_nothing(ddp: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho started >&2\nexec sleep 600\n")
    python.chmod(0o755)
    command = [sys.executable, "-m", "gpudoctor", "checkpoint", str(ddp), "--fix", str(tmp_path / "out.pt")]
    process = subprocess.Popen(
        [*command, "--python", str(python)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not any(name.startswith(".out.") and (tmp_path / name).stat().st_size for name in inside(tmp_path)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
    assert inside(tmp_path) == ["ddp.pt", "python"]


def test_a_state_dict_is_chosen_by_its_key(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"model": {"a": torch.zeros(1)}, "ema": {"b": torch.zeros(2)}}, path)
    assert json.loads(run(str(path), "--json").stdout)["chosen"] == '["model"]'
    assert json.loads(run(str(path), "--json", "--key", "ema").stdout)["chosen"] == '["ema"]'
    done = run(str(path), "--key", "nope")
    assert done.returncode == 2 and "it has: model, ema" in done.stderr


@pytest.mark.parametrize(
    "arguments", [[], ["-"], [""], ["x.pt", "--fix", ""], ["x.pt", "--timeout", "0"], ["x.pt", "--like", "nowhere.pt"]]
)
def test_wrong_usage(arguments: list[str], tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1)}, tmp_path / "x.pt")
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("gpudoctor: ") and done.stderr.count("\n") == 1


def test_names_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff\x1b[31m.pt")
    torch.save({"a\x1b[2J\udc80": torch.zeros(1)}, tmp_path / "x.pt")
    (tmp_path / "x.pt").rename(path)
    done = run(str(path))
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert json.loads(run(str(path), "--json").stdout)["tensor_count"] == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.pt"
    torch.save({f"{number}": torch.zeros(1 << 23) for number in range(8)}, path)  # 256 MiB
    watched = (
        "import os, sys; from gpudoctor.checkpoint.examine import main; end = os._exit\n"
        "os._exit = lambda status: (print(open('/proc/self/status').read(), flush=True), end(status))\n"
        "main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", watched, json.dumps({"file": str(path)})], capture_output=True, text=True, check=True
    )
    high = re.search(r"VmHWM:\s+(\d+) kB", done.stdout)
    assert '"tensor_count":8' in done.stdout and high and int(high[1]) < 100_000


def test_a_reader_that_dies_is_said() -> None:
    from gpudoctor.active import ChildReply

    reply = ChildReply("checkpoint", b"", "", -9, timed_out=False, stuck=False, seconds=1.0, pid=1)
    with pytest.raises(BadFile, match="killed by SIGKILL"):
        concluded(reply)
    with pytest.raises(BadFile, match="no further for 60 s"):
        concluded(reply._replace(return_code=None, timed_out=True, seconds=60.2))


def test_progress_is_told_in_bytes() -> None:
    assert progress(b'@gpudoctor {"done": 1073741824, "of": 4294967296}\n', "/x/m.pt") == "m.pt: 1 GiB of 4 GiB"
    assert progress(b"", "/x/m.pt") == "m.pt"
