"""The amp worker run for real on the CPU, and faults planted in torch that it has to find."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.active import messages
from gpudoctor.amp import assemble, run
from gpudoctor.amp.judge import judge
from gpudoctor.amp.report import AmpDevice, Precision
from gpudoctor.knowledge.precision.limits import LIMITS
from gpudoctor.read.python import how_it_ended
from tests.patients import environment, say, script

pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("forks")

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux")
TIMEOUT = 180.0  # seconds; the machine may be crowded


def examine(*dtypes: Any, speed: bool = False, device: str = "cpu", python: str = sys.executable) -> AmpDevice:
    (found,) = run.examine([device], dtypes, python, TIMEOUT, speed=speed)
    return found


def of(device: AmpDevice, dtype: str) -> Precision:
    return next(each for each in device.precisions if each.dtype == dtype)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that changes torch in every Python started from here on."""

    def plant(source: str) -> None:
        text = "import os, sys, torch\n" + textwrap.dedent(source)
        # Only in workers: the import of torch takes seconds, and a test's other processes do not need it.
        guarded = "import sys\nif any('workers' in part for part in sys.orig_argv):\n" + textwrap.indent(text, "    ")
        (tmp_path / "sitecustomize.py").write_text(guarded)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return plant


# ---------------------------------------------------------------- healthy


def test_on_a_cpu_every_dtype_is_proved_by_running() -> None:
    device = examine("fp16", "bf16", "tf32", "fp8", speed=True)
    assert device.error == "" and device.name and device.torch
    assert device.reference_error is not None and device.reference_error < 1e-5
    for dtype in ("fp16", "bf16"):
        found = of(device, dtype)
        assert found.outcome == "passed", found
        assert [each.net for each in found.compared] == ["convolution", "transformer"]
        for each in found.compared:
            assert each.output_error is not None and each.gradient_error is not None
            # More than nothing was rounded, and with room to the limit.
            assert 1e-5 < each.output_error < LIMITS[dtype].output / 2
            assert 1e-5 < each.gradient_error < LIMITS[dtype].gradient / 2
            assert each.gradient_cosine is not None and each.gradient_cosine > 0.9999
    assert of(device, "fp16").overflow is True and of(device, "bf16").overflow is False
    scaler = of(device, "fp16").scaler
    assert scaler is not None and scaler.outcome == "passed", scaler
    assert (scaler.scale_before, scaler.scale_after) == (65536.0, 32768.0)
    assert scaler.skipped is True and scaler.recovered is True
    assert of(device, "tf32").outcome == "not applicable" and of(device, "tf32").support == "none"
    assert of(device, "fp8").support in ("emulated", "build")
    # fp16 on a CPU can take 250 times as long: it is never timed.
    assert of(device, "fp16").speeds == ()
    (speed,) = of(device, "bf16").speeds
    assert speed.what == "matmul" and speed.seconds > 0 and speed.expected_factor is None
    report = judge([device], {})
    assert report.exit_status == 0
    assert report.advice is not None and report.advice.precision in ("bf16", "fp32")


def test_the_numbers_are_the_same_in_every_process() -> None:
    first, second = (of(examine("bf16"), "bf16").compared for _ in range(2))
    assert first == second


def test_without_speed_nothing_is_timed() -> None:
    assert of(examine("bf16"), "bf16").speeds == ()


def test_after_the_time_for_measuring_no_measurement_begins_and_that_is_said() -> None:
    reply = say(sys.executable, "amp", "cpu", json.dumps({"dtypes": ["bf16"], "seconds": 0.0}), variables=environment())
    said = messages(reply.output)
    found = of(assemble.device("cpu", ["bf16"], said, how_it_ended(reply, said, TIMEOUT), 1.0), "bf16")
    assert found.outcome == "passed" and found.speeds == ()
    assert "the speed of a matrix product: not measured" in found.error


def test_a_compiled_net_is_held_against_itself() -> None:
    wish = json.dumps({"dtypes": ["fp16", "bf16"], "seconds": 60.0, "compile": True, "backend": "aot_eager"})
    reply = say(sys.executable, "amp", "cpu", wish, variables=environment())
    said = messages(reply.output)
    assert assemble.compiled_verdict("bf16", said, how_it_ended(reply, said, TIMEOUT)) == "passed"


# ---------------------------------------------------------------- what only seems to run

NO_OP = """
    class Nothing:
        _enabled = True
        def __init__(self, *arguments, **keywords): pass
        def __enter__(self): pass
        def __exit__(self, *exception): pass
    torch.amp.autocast = Nothing
    """
DISABLED = """
    class Disabled(torch.amp.autocast):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **dict(keywords, enabled=False))
    torch.amp.autocast = Disabled
    """
DISABLED_WITH_A_WORD = """
    import warnings
    class Disabled(torch.amp.autocast):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **dict(keywords, enabled=False))
            warnings.warn("In CPU autocast, but the target dtype is not supported. CPU Autocast only supports ...")
    torch.amp.autocast = Disabled
    """
ONE_LAYER_IN_FP32 = """
    plain = torch.nn.Linear.forward
    def forward(self, x):
        if self.out_features != 512 or not torch.is_autocast_cpu_enabled():
            return plain(self, x)
        with torch.autocast("cpu", enabled=False):
            return plain(self, x.float())
    torch.nn.Linear.forward = forward
    """
WRONG_RESULT = """
    plain = torch.nn.functional.linear
    def linear(x, weight, bias=None):
        found = plain(x, weight, bias)
        return found * 1.1 if found.dtype == torch.bfloat16 and weight.shape[0] == 512 else found
    torch.nn.functional.linear = linear
    """
WRONG_GRADIENT = """
    plain = torch.nn.functional.linear
    def linear(x, weight, bias=None):
        if torch.is_autocast_cpu_enabled() and weight.shape[0] == 384:
            kept = weight.detach() - weight + weight.detach()  # right forward, its gradient turned round
            return plain(x, kept, bias)
        return plain(x, weight, bias)
    torch.nn.functional.linear = linear
    """
NOT_A_NUMBER = """
    plain = torch.nn.functional.linear
    def linear(x, weight, bias=None):
        found = plain(x, weight, bias)
        return found * float("nan") if found.dtype == torch.bfloat16 else found
    torch.nn.functional.linear = linear
    """
RAISES = """
    plain = torch.nn.functional.scaled_dot_product_attention
    def attention(q, k, v):
        if q.dtype == torch.bfloat16:
            raise RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED")
        return plain(q, k, v)
    torch.nn.functional.scaled_dot_product_attention = attention
    """


@pytest.mark.parametrize(
    ("source", "outcome", "words"),
    [
        (NO_OP, "failed", "the output is float32 and not bfloat16: autocast did nothing"),
        (DISABLED, "failed", "autocast disabled itself"),
        (DISABLED_WITH_A_WORD, "not applicable", "CPU Autocast only supports"),  # as torch does without the dtype
        (ONE_LAYER_IN_FP32, "failed", "0.up:float32"),
        (WRONG_RESULT, "wrong-result", "the output is off by"),
        (WRONG_GRADIENT, "wrong-result", "0.qkv.weight"),
        (NOT_A_NUMBER, "wrong-result", "not finite"),
        (RAISES, "failed", "CUDNN_STATUS_EXECUTION_FAILED"),
    ],
    ids=[
        "no-op",
        "disabled",
        "disabled and told",
        "one layer in fp32",
        "wrong result",
        "wrong gradient",
        "nan",
        "raises",
    ],
)
def test_a_fault_of_bf16_is_found_and_named(planted: Any, source: str, outcome: str, words: str) -> None:
    planted(source)
    device = examine("bf16")
    found = of(device, "bf16")
    assert found.outcome == outcome, found
    told = " ".join([found.error, found.why, *(each.error for each in found.compared)])
    assert words in told
    report = judge([device], {})
    if outcome == "not applicable":
        assert report.advice is not None and report.advice.precision == "fp32"
    else:
        assert any(words in problem.summary for problem in report.problems), report.problems
        assert report.advice is not None and report.advice.precision == "fp32"


# ---------------------------------------------------------------- GradScaler

NEVER_SKIPS = """
    def always(self, optimizer, optimizer_state, *arguments, **keywords):
        return optimizer.step(*arguments, **keywords)
    torch.amp.GradScaler._maybe_opt_step = always
    """
NEVER_STEPS = """
    torch.amp.GradScaler._maybe_opt_step = lambda self, *arguments, **keywords: None
    """
KEEPS_ITS_SCALE = """
    plain = torch.amp.GradScaler.update
    def update(self, new_scale=None):
        plain(self, self.get_scale())
    torch.amp.GradScaler.update = update
    """
SCALES_TWICE = """
    plain = torch.amp.GradScaler.scale
    torch.amp.GradScaler.scale = lambda self, loss: plain(self, loss) * 2
    """
OFF = """
    plain = torch.amp.GradScaler.__init__
    def __init__(self, *arguments, **keywords):
        plain(self, *arguments, **dict(keywords, enabled=False))
    torch.amp.GradScaler.__init__ = __init__
    """
FORGETS = """
    torch.amp.GradScaler.load_state_dict = lambda self, state: None
    """


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (NEVER_SKIPS, "was not skipped"),
        (NEVER_STEPS, "left the parameters as they were"),
        (KEEPS_ITS_SCALE, "not half of 65536"),
        (SCALES_TWICE, "after unscale_ the gradients are off"),
        (OFF, "GradScaler disabled itself"),
        (FORGETS, "state_dict"),
    ],
    ids=["never skips", "never steps", "keeps its scale", "scales twice", "off", "forgets"],
)
def test_a_scaler_that_does_not_do_its_work_is_a_failure(planted: Any, source: str, words: str) -> None:
    planted(source)
    device = examine("fp16")
    found = of(device, "fp16")
    assert found.scaler is not None and found.scaler.outcome == "failed"
    assert words in found.scaler.error
    assert found.outcome == "failed"
    assert any(words in problem.summary for problem in judge([device], {}).problems)


# ---------------------------------------------------------------- crashes, deadlines, no such device

CRASHES = """
    plain = torch.nn.functional.conv2d
    forward = torch.nn.Conv2d.forward
    def dying(self, x):
        if torch.is_autocast_cpu_enabled() and torch.get_autocast_cpu_dtype() == torch.bfloat16:
            os.kill(os.getpid(), 11)
        return forward(self, x)
    torch.nn.Conv2d.forward = dying
    """
HANGS = CRASHES.replace("os.kill(os.getpid(), 11)", "import time; time.sleep(3600)")


@LINUX
def test_a_crash_costs_its_dtype_and_names_it(planted: Any) -> None:
    planted(CRASHES)
    device = examine("bf16", "fp16")
    found = of(device, "bf16")
    assert found.outcome == "failed"
    assert "bf16: autocast of the convolution" in found.error and "SIGSEGV" in found.error
    assert of(device, "fp16").outcome == "passed", "another process goes on with what is left"


def test_a_deadline_names_the_part_under_way_and_keeps_what_was_measured(
    planted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(HANGS)
    variables = environment()
    wish = json.dumps({"dtypes": ["fp16", "bf16", "fp8"], "seconds": 60.0, "speed": False})
    reply = say(sys.executable, "amp", "cpu", wish, variables=variables, until=b"bf16: autocast of the convolution")
    assert reply.timed_out
    said = messages(reply.output)
    device = assemble.device("cpu", ["fp16", "bf16", "fp8"], said, how_it_ended(reply, said, 20.0), 20.0)
    assert of(device, "fp16").outcome == "passed"
    assert of(device, "bf16").outcome == "timeout"
    assert of(device, "bf16").error == "bf16: autocast of the convolution did not return within 20 s"
    assert of(device, "fp8").outcome == "timeout" and "not tested" in of(device, "fp8").error
    assert judge([device], {}).exit_status == 1


@LINUX
def test_a_worker_that_never_answers_is_ended_at_its_deadline(tmp_path: Path) -> None:
    python = script(tmp_path, '#!/bin/sh\necho \'@gpudoctor {"doing": "import torch"}\'\nsleep 1000\n')
    (device,) = run.examine(["cpu"], ["bf16"], python, 2.0)
    assert device.error == "import torch did not return within 2 s"
    assert judge([device], {}).exit_status == 1


def test_cuda_on_a_build_without_it_is_an_error_and_not_a_pass() -> None:
    """autocast("cuda") warns and does nothing there, and GradScaler disables itself."""
    device = examine("fp16", "bf16", device="cuda:7")
    assert device.error.startswith("the first allocation: ")
    assert device.precisions == ()
    report = judge([device], {})
    assert report.exit_status == 1 and report.advice is None
    assert "cuda:7 could not be tested" in report.problems[0].summary


@LINUX
def test_an_interpreter_without_torch_or_that_is_none_is_a_reason(tmp_path: Path) -> None:
    assert "cannot be run: No such file" in examine("bf16", python=str(tmp_path / "gone")).error
    torchless = script(tmp_path, f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    assert "No module named 'torch'" in examine("bf16", python=torchless).error


def test_what_the_environment_sets_for_tf32_is_told_and_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    monkeypatch.setenv("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1")
    device = examine("bf16")
    assert device.switches["NVIDIA_TF32_OVERRIDE"] == "1"
    assert device.switches["torch.backends.cuda.matmul.allow_tf32"] == "True"
    assert of(device, "bf16").outcome == "passed"


@LINUX
def test_files_of_torch_compile_go_into_a_folder_that_is_removed(tmp_path: Path) -> None:
    source = (
        "import os, sys; assert os.path.isdir(os.environ['TMPDIR']);"
        "open(os.environ['TMPDIR'] + '/left', 'w').close();"
        "open(os.environ['WITNESS'], 'w').write(os.environ['TRITON_CACHE_DIR'])"
    )
    with run.compiling_folder(True) as variables:
        assert variables is not None
        subprocess.run([sys.executable, "-c", source], env=variables | {"WITNESS": str(tmp_path / "w")}, check=True)
        assert Path(variables["TMPDIR"], "left").exists()
        assert (tmp_path / "w").read_text().startswith(variables["TMPDIR"])
    assert not Path(variables["TMPDIR"]).exists()
    with run.compiling_folder(False) as none:
        assert none is None
