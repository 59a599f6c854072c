"""`gpudoctor devices`: the real entry point, on files and on machines with a fake NVIDIA driver."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from gpudoctor.devices import DevicesAnswer, recorded_value, what_if
from gpudoctor.knowledge.environment import recorded
from gpudoctor.render.devices import show_devices
from gpudoctor.render.prose import console
from gpudoctor.snapshot import from_json, missing, read, to_json
from gpudoctor.testing.machines import but, but_gpu, h100_node
from tests.lab import machines
from tests.lab.nvidia import fake_nvidia

COMMAND = [sys.executable, "-m", "gpudoctor", "devices"]
NOT_ASKED = missing("libcuda", "not asked", "not-asked")
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the fake driver is an ELF library")


def devices(*arguments: str | bytes, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        stdin=subprocess.DEVNULL,
        env=None if env is None else dict(env),
    )


def answer(*arguments: str | bytes, env: Mapping[str, str] | None = None, status: int = 0) -> Any:
    done = devices(*arguments, "--json", env=env)
    assert (done.returncode, done.stderr) == (status, "")
    found = json.loads(done.stdout)
    jsonschema.validate(found, msgspec.json.schema(DevicesAnswer))
    return found


@pytest.fixture
def h100s(tmp_path: Path) -> str:
    file = tmp_path / "h100s.json"
    file.write_bytes(to_json(h100_node()))
    return str(file)


def test_answers_what_if_for_a_machine_in_a_file(h100s: str) -> None:
    found = answer("--from", h100s, "--cuda-visible-devices", "2,-1,0", status=1)
    assert found["cuda_visible_devices"] == "2,-1,0"
    assert found["visible"] == [
        {
            "cuda": 0,
            "nvml": 2,
            "uuid": "GPU-00000002-1111-2222-3333-444444444444",
            "pci": "00000000:3b:00.0",
            "name": "NVIDIA H100 80GB HBM3",
            "mig": None,
        }
    ]
    (problem,) = found["problems"]
    assert (problem["entry"], problem["suggested_value"], problem["lost"]) == ("-1", "2,0", ["-1", "0"])
    assert {"problem", "meaning", "fix"} <= problem.keys()
    assert found["agrees"] is None
    assert "in a file" in found["driver"]["reason"]


def test_the_machine_s_own_value_comes_with_its_driver_s_answer(h100s: str) -> None:
    found = answer("--from", h100s)
    assert found["cuda_visible_devices"] is None
    assert len(found["visible"]) == 8
    assert found["agrees"] is True


@pytest.mark.skipif(os.name != "posix", reason="arguments are text elsewhere")
def test_a_value_that_is_no_utf8_is_answered(h100s: str) -> None:
    found = answer("--from", h100s, b"--cuda-visible-devices=0,\xff\n", status=1)
    assert found["problems"][0]["kind"] == "not-a-number"


@pytest.mark.parametrize(
    ("content", "words", "status"),
    [
        (to_json(but(h100_node(), "environment", missing("file", "not in it"))), "give --cuda-visible-devices", 3),
        (b"{", "JSON", 2),
    ],
)
def test_a_file_that_cannot_answer_is_refused_in_one_line(
    tmp_path: Path, content: bytes, words: str, status: int
) -> None:
    file = tmp_path / "machine.json"
    file.write_bytes(content)
    done = devices("--from", str(file))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (status, "", 1)
    assert words in done.stderr


def test_a_machine_without_a_list_of_gpus_is_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_bytes(to_json(but(h100_node(), "nvidia.gpus", missing("nvmlInit", "driver/library version mismatch"))))
    done = devices("--from", str(file), "--cuda-visible-devices", "0")
    assert done.returncode == 3
    assert done.stderr == "gpudoctor: no GPUs to select from: nvmlInit: driver/library version mismatch\n"


def test_fits_80_columns_but_for_lines_to_paste(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    machine = but_gpu(h100_node(), 3, name="NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition")
    for value in (None, "", "3,2,x", "GPU-0", "0,GPU-00000001", "9" * 500):
        show_devices(what_if(machine, value, NOT_ASKED), console())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 30
    assert [line for line in lines if len(line) > 80 and "export " not in line] == []


def test_shortened_uuids_tell_the_gpus_apart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    machine = but_gpu(h100_node(2), 1, uuid="GPU-00000000-1112-2222-3333-444444444444")
    show_devices(what_if(machine, "0,1", NOT_ASKED), console())
    shown = capsys.readouterr().out
    assert "GPU-00000000-1111 " in shown
    assert "GPU-00000000-1112 " in shown


def test_a_disagreement_with_the_driver_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    machine = h100_node(2)
    found = what_if(machine, "0", read("libcuda", machine.cuda.all.value))
    assert found.agrees is False
    show_devices(found, console())
    assert "says otherwise" in capsys.readouterr().out


@LINUX
@pytest.mark.parametrize(
    ("value", "indices", "status"),
    [("0", [1], 0), ("1,0", [0, 1], 0), ("0,0", [], 1), ("", [], 1), ("0,GPU-9e8d0000", [1], 1)],
)
def test_the_driver_is_asked_for_the_value_in_question(value: str, indices: list[int], status: int) -> None:
    with fake_nvidia(machines.mixed_cards(), CUDA_VISIBLE_DEVICES="1") as environment:
        found = answer("--cuda-visible-devices", value, env=environment, status=status)
    assert [device["nvml"] for device in found["visible"]] == indices
    assert found["agrees"] is True
    assert len(found["driver"]["visible"]) == len(indices)


@LINUX
def test_the_environment_s_value_is_the_default() -> None:
    with fake_nvidia(machines.hgx_h100(), CUDA_VISIBLE_DEVICES="5,9") as environment:
        found = answer(env=environment, status=1)
    assert (found["cuda_visible_devices"], [device["nvml"] for device in found["visible"]]) == ("5,9", [5])
    assert found["agrees"] is True


@LINUX
def test_a_driver_that_hangs_costs_its_deadline_and_nothing_else() -> None:
    with fake_nvidia(machines.two_t4().call("cuInit", "block")) as environment:
        found = answer("--cuda-visible-devices", "1", "--timeout", "1.5", env=environment)
    assert [device["nvml"] for device in found["visible"]] == [1]
    assert (found["agrees"], found["driver"]["visible"]) == (None, None)
    assert "cuInit" in found["driver"]["reason"] or "no answer" in found["driver"]["reason"]


@LINUX
def test_mig_devices_carry_their_uuid_and_parent() -> None:
    with fake_nvidia(machines.hgx_a100_with_mig()) as environment:
        everything = answer(env=environment)
        mig = next(device for device in everything["visible"] if device["mig"])
        found = answer("--cuda-visible-devices", mig["mig"], env=environment)
    assert everything["agrees"] is True
    assert [device | {"cuda": 0} for device in found["visible"]] == [mig | {"cuda": 0}]
    assert mig["nvml"] == 2
    assert mig["uuid"].startswith("GPU-")


@pytest.mark.skipif(os.name != "posix", reason="environment variables are text elsewhere")
def test_a_variable_that_is_no_utf8_stands_in_a_snapshot() -> None:
    value = os.fsdecode(b"0,\xff")
    machine = but(h100_node(), "environment", recorded({"CUDA_VISIBLE_DEVICES": value}))
    assert recorded_value(from_json(to_json(machine))) == "0,***"
