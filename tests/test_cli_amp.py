"""`gpudoctor amp` as a user runs it: on this CPU, on answers that were saved, on wrong options, and interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given, strategies as st

from gpudoctor.amp.asked import devices, dtypes
from gpudoctor.amp.judge import judge
from gpudoctor.amp.patient import NothingToTest, chosen, why_no_gpu
from gpudoctor.amp.report import AmpDevice, AmpReport, Precision
from gpudoctor.envelope import UnreadableAnswer, decode, encode
from gpudoctor.errors import BadInput
from gpudoctor.render.amp import closing_words, show_amp, show_old
from gpudoctor.render.plot import check_plot, draw_factors
from gpudoctor.render.prose import console
from gpudoctor.snapshot import TorchDevice, TorchFacts, Training, missing, read
from tests.amp_examples import H100, T4, VERSIONS, answer, compared, device, h100_broken_scaler, precision, t4, works
from tests.lab import warm
from tests.patients import torch_package

pytestmark = pytest.mark.usefixtures("forks")

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")
SCHEMA = Path(__file__).parent.parent / "docs" / "schemas" / "amp.json"


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return warm.run_to_its_end(
        [sys.executable, "-m", "gpudoctor", "amp", *arguments],
        text=True,
        timeout=300,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **environment},
    )


def shown(report: AmpReport, capsys: pytest.CaptureFixture[str], width: int = 80) -> str:
    show_amp(report, console(no_color=True, width=width))
    return capsys.readouterr().out


# ---------------------------------------------------------------- this machine


@pytest.fixture(scope="module")
def on_cpu() -> "subprocess.CompletedProcess[str]":
    return run("--device", "cpu", "--json", "--python", sys.executable, "--timeout", "240")


def test_a_cpu_is_tested_in_fp16_and_bf16_and_the_answer_is_as_published(
    on_cpu: "subprocess.CompletedProcess[str]",
) -> None:
    assert on_cpu.returncode == 0, on_cpu.stderr
    told = json.loads(on_cpu.stdout)
    jsonschema.validate(told, json.loads(SCHEMA.read_bytes()))
    assert told["exit_status"] == 0
    report = decode(on_cpu.stdout.encode(), AmpReport)
    assert [each.device for each in report.devices] == ["cpu"]
    outcomes = {each.dtype: each.outcome for each in report.devices[0].precisions}
    assert outcomes["bf16"] == "passed" and outcomes["tf32"] == "not applicable"
    assert report.versions["torch"] == report.devices[0].torch
    assert report.advice is not None and report.advice.precision in ("bf16", "fp32")


def test_the_same_answer_is_shown_from_its_file(
    on_cpu: "subprocess.CompletedProcess[str]", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "amp.json"
    file.write_text(on_cpu.stdout)
    done = run("--from", str(file))
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == shown(decode(on_cpu.stdout.encode(), AmpReport), capsys)
    assert decode(encode(decode(on_cpu.stdout.encode(), AmpReport)), AmpReport) == decode(
        on_cpu.stdout.encode(), AmpReport
    )


@LINUX
def test_without_a_gpu_it_says_that_the_cpu_was_tested() -> None:
    # A driver that is there would be hidden by this; on a machine without, it changes nothing.
    done = run("--dtype", "bf16", "--python", sys.executable, "--timeout", "240", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stderr
    first = " ".join(done.stdout.split("\n\n")[0].split())
    assert first.startswith("No GPU is usable by this torch (") and first.endswith("tested on the CPU.")
    assert "bf16" in done.stdout and "Traceback" not in done.stderr


def test_a_device_that_torch_does_not_have_is_not_tested_and_ends_with_1() -> None:
    done = run("--device", "cuda:987", "--dtype", "fp16", "--python", sys.executable, "--timeout", "240")
    assert done.returncode == 1
    assert "not tested" in done.stdout and "No device could be tested" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@LINUX
def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    """The worker sleeps for an hour; Ctrl-C must end it, and gpudoctor with 130."""
    witness = tmp_path / "pid"
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$2" in amp) echo $$ > {witness}; exec sleep 3600;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "gpudoctor", "amp", "--device", "cpu", "--python", str(python), "--timeout", "600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not (witness.exists() and witness.read_text().strip()):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, output, errors) == (130, "", "gpudoctor: interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(witness.read_text()), 0)


def test_an_interpreter_without_torch_is_one_line(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')  # -S: no site-packages
    python.chmod(0o755)
    done = run("--python", str(python))
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr == f"gpudoctor: {python} has no torch: name the training interpreter with --python\n"


def test_a_torch_without_autocast_is_one_line(tmp_path: Path) -> None:
    folder = torch_package(tmp_path, "raise SystemExit", version="1.9.1+cu111", cuda="11.1")
    done = run("--device", "cpu", PYTHONPATH=str(folder))
    assert done.returncode == 3 and done.stdout == ""
    assert "torch 1.9.1+cu111 has no torch.autocast, which came with 1.10" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--dtype", "fp32"), "--dtype 'fp32': choose of fp16, bf16, tf32, fp8, or all"),
        (("--dtype", ","), "--dtype"),
        (("--device", "gpu0"), "--device 'gpu0': write cuda:0"),
        (("--device", "cuda:0; rm -rf /"), "--device"),
        (("--from", "/nowhere/x.json"), "--from /nowhere/x.json: there is no such file"),
        (("--plot", "x.pdf", "--device", "cpu"), "must end in .svg or .png"),
        (("--timeout", "nan"), "--timeout"),
        (("--python", "/nowhere/python"), "--python /nowhere/python"),
    ],
)
def test_wrong_options_are_one_line(arguments: tuple[str, ...], says: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


# ---------------------------------------------------------------- which devices, which dtypes


def test_names_of_dtypes_and_devices() -> None:
    assert dtypes("bfloat16, half") == ("fp16", "bf16")
    assert dtypes("all") == ("fp16", "bf16", "tf32", "fp8")
    assert devices(None) == ()
    assert devices("CUDA:1,cpu") == ("cuda:1", "cpu")


@given(st.text(max_size=200))
def test_any_text_is_names_or_a_usage_problem(text: str) -> None:
    for parser in (dtypes, devices):
        try:
            assert parser(text)
        except BadInput as problem:
            assert "\n" not in str(problem)


def facts(*kinds: str, **odd: object) -> Training:
    listed = tuple(TorchDevice(number, kind, "a GPU") for number, kind in enumerate(kinds))
    told = msgspec.structs.replace(TorchFacts("2.13.0", devices=listed, cuda_built=True), **odd)
    return Training(torch=read("import torch", told))


def test_every_gpu_that_torch_sees_is_tested_and_the_cpu_only_without_one() -> None:
    assert chosen(facts("cuda", "cuda"), (), {}).devices == ("cuda:0", "cuda:1")
    assert chosen(facts("cuda", "cuda"), (), {}).why == ""
    assert chosen(facts("hip"), ("all",), {}).devices == ("cuda:0", "cpu")
    assert chosen(facts("xpu"), (), {}).devices == ("xpu:0",)
    alone = chosen(facts(init_error="CUDA driver version is insufficient\n for CUDA runtime version."), (), {})
    assert alone.devices == ("cpu",)
    assert "(CUDA driver version is insufficient for CUDA runtime version): tested on the CPU" in alone.why


def test_why_there_is_no_gpu_is_torchs_own_word() -> None:
    assert why_no_gpu(TorchFacts("2.13.0+cpu")) == "torch 2.13.0+cpu is built without CUDA and ROCm"
    assert why_no_gpu(TorchFacts("2.13.0", cuda_built=True)) == "torch 2.13.0 lists none"


def test_a_torch_that_hangs_is_a_reason() -> None:
    with pytest.raises(NothingToTest, match="import torch did not return within 60 s"):
        chosen(Training(torch=missing("x", "import torch did not return within 60 s", "timeout")), (), {})


# ---------------------------------------------------------------- what is shown


def test_80_columns_hold_every_table(capsys: pytest.CaptureFixture[str]) -> None:
    for report in (t4(), h100_broken_scaler()):
        lines = shown(report, capsys).splitlines()
        table = [line for line in lines if line.startswith(("dtype", "fp16 ", "bf16 ", "tf32 ", "fp8 "))]
        assert len(table) == 5 and max(map(len, table)) <= 80, table
        assert all(line == line.rstrip() for line in lines if line not in table)


def test_emulation_is_not_taken_for_support(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(shown(t4(), capsys).split())
    assert "bf16 emulated passed" in text
    assert "Use fp16: fp16 with GradScaler" in text
    assert 'scaler = torch.amp.GradScaler("cuda")' in text
    assert "fp8 needs compute capability 8.9" in text
    assert 'Trainer(precision="16-mixed")' in text
    assert t4().exit_status == 0


def test_old_tutorials_are_translated(capsys: pytest.CaptureFixture[str]) -> None:
    assert "tutorials" not in shown(t4(), capsys), "not asked for"
    show_old(t4(), console(no_color=True, width=80))
    text = " ".join(capsys.readouterr().out.split())
    for old in ('opt_level="O2"', "torch.cuda.amp.autocast()", "use_amp", "amp_level", "Trainer(precision=16)"):
        assert old in text


def test_a_scaler_that_does_not_skip_is_an_error_and_bf16_is_advised(capsys: pytest.CaptureFixture[str]) -> None:
    report = h100_broken_scaler()
    text = " ".join(shown(report, capsys).split())
    assert report.exit_status == 1
    assert "error cuda:0 (NVIDIA H100 80GB HBM3): fp16 does not work: GradScaler: a gradient was inf" in text
    assert "Use bf16" in text and closing_words(report) == "1 device tested: 1 error; 9.4 s"


def test_numbers_out_of_the_ordinary_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """NaN and infinity come from devices that compute wrongly: just then the table must stand."""
    odd = compared("fp16", output_error=float("nan"), gradient_error=float("inf"), outcome="wrong-result", error="off")
    broken = works("fp16", H100, 600.0, 48.0, compared=odd, outcome="wrong-result", memory_fp32_bytes=0)
    text = shown(answer(device(H100, broken)), capsys)
    assert "nan/5e-3" in text and "inf/1e-2" in text
    assert "wrong" in text


def test_a_device_that_crashed_beside_one_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    lost = AmpDevice(device="cuda:1", error="fp16: convolution: killed by SIGSEGV", seconds=3.0)
    report = answer(device(H100, works("bf16", H100, 600.0, 48.0)), lost)
    text = shown(report, capsys)
    assert "cuda:1\n  not tested: fp16: convolution: killed by SIGSEGV" in text
    assert "1 device tested; 1 device not tested: 1 error" in text and report.exit_status == 1
    assert judge([lost], VERSIONS).exit_status == 1
    assert judge([], VERSIONS).exit_status == 3


def test_what_was_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    short = works("fp16", T4, 24.0, 4.1, error="speed: not measured, for time ran out", compiled="timeout: 20 s")
    lacking = precision("bf16", T4, outcome="timeout", error="did not return within 60 s")
    text = " ".join(shown(answer(device(T4, short, lacking)), capsys).split())
    assert "fp16: speed: not measured, for time ran out; torch.compile timeout: 20 s" in text
    assert "bf16 did not answer" in text


def test_names_from_a_file_do_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    trap = "\x1b[2J\u202e"
    device_ = AmpDevice(
        device=trap, name=trap, error=trap, precisions=(Precision(dtype="fp16", support="none", why=trap),)
    )
    report = AmpReport(devices=(device_,), why_devices=trap, versions={"torch": trap})
    assert "\x1b[2J" not in shown(report, capsys) and "\u202e" not in shown(report, capsys)


@pytest.mark.thorough
def test_the_picture_shows_measured_and_published_factors(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "amp.svg"
    check_plot(str(file))
    draw_factors(h100_broken_scaler(), str(file))
    assert file.read_bytes().startswith(b"<?xml")
    draw_factors(AmpReport(), str(file))  # nothing was timed: a picture that says so


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not an answer of gpudoctor amp"),
        (b"[1]", "not an answer of gpudoctor amp"),
        (b'{"schema": 1}', "not an answer of gpudoctor amp"),
        (b'{"schema": 9, "devices": []}', "amp schema 9; this gpudoctor reads up to schema 3"),
        (b'{"schema": 1, "devices": [{"device": 3}]}', "not an answer of gpudoctor amp"),
        (b"\xff\xfe", "not an answer of gpudoctor amp"),
    ],
)
def test_a_file_that_is_no_answer_is_one_line(raw: bytes, says: str) -> None:
    with pytest.raises(UnreadableAnswer, match=says) as found:
        decode(raw, AmpReport)
    assert "\n" not in str(found.value)


@given(st.binary(max_size=400))
def test_any_bytes_are_an_answer_or_refused(raw: bytes) -> None:
    try:
        decode(raw, AmpReport)
    except UnreadableAnswer as error:
        assert str(error)
