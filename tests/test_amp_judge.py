"""What amp's numbers mean: assembling a device from its worker's words, and judging devices."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gpudoctor.amp import assemble
from gpudoctor.amp.judge import judge
from gpudoctor.amp.report import AmpDevice, AmpReport, ComparedNet, Precision, Scaled, Speed
from gpudoctor.envelope import encode
from gpudoctor.knowledge.precision.support import DTYPES, Dtype
from gpudoctor.snapshot import Probe

UNWELCOME = re.compile(r"\b(simply|just|ensure|please)\b|!", re.IGNORECASE)
ANSWERED = Probe(timeout_seconds=60.0)
H100: dict[str, Any] = {
    "torch": "2.13.0+cu130", "name": "NVIDIA H100 80GB HBM3", "capability": [9, 0],
    "arch_list": ["sm_80", "sm_90"], "bf16_native": True, "scaled_mm": True, "reference_error": 3e-7,
}  # fmt: skip
GOOD_NET: dict[str, Any] = {
    "output_error": 0.0004, "gradient_error": 0.0005, "gradient_cosine": 0.9999999, "worst_parameter": "0.up.weight",
    "worst_error": 0.0008, "out_dtype": "float16", "layers_elsewhere": [], "finite": True,
}  # fmt: skip
GOOD_SCALER: dict[str, Any] = {
    "enabled": True, "scale_before": 65536.0, "gradient_error": 0.0005, "moved": True, "scale_after_normal": 65536.0,
    "skipped": True, "scale_after": 32768.0, "recovered": True, "scale_reloaded": 32768.0,
}  # fmt: skip


def fp16(scaler: dict[str, Any] | None = None, overflow: bool = True, **changes: Any) -> list[dict[str, Any]]:
    """What a healthy worker says of fp16, with the transformer's numbers changed."""
    return [
        {"doing": "fp16: autocast of the convolution", "dtype": "fp16"},
        {"dtype": "fp16", "compared": GOOD_NET | {"net": "convolution"}},
        {"dtype": "fp16", "compared": GOOD_NET | {"net": "transformer"} | changes},
        {"dtype": "fp16", "overflow": overflow},
        {"dtype": "fp16", "scaler": GOOD_SCALER | (scaler or {})},
        {"dtype": "fp16", "finished": True},
    ]


def device_of(said: list[dict[str, Any]], *dtypes: Dtype, probe: Probe = ANSWERED, **facts: Any) -> AmpDevice:
    return assemble.device("cuda:0", dtypes or ("fp16",), [{"device": H100 | facts}, *said], probe, 3.0)


def speed_of(factor: float, what: str = "matmul") -> dict[str, Any]:
    return {"what": what, "size": "8192x8192x8192", "seconds": 1.0, "fp32_seconds": factor, "teraflops": 100.0}


# ---------------------------------------------------------------- assembling


def test_a_healthy_dtype_passes() -> None:
    (found,) = device_of(fp16()).precisions
    assert found.outcome == "passed" and found.support == "hardware" and found.error == ""


@pytest.mark.parametrize(
    ("changes", "outcome", "words"),
    [
        ({"out_dtype": "float32"}, "failed", "autocast did nothing"),
        ({"layers_elsewhere": ["0.up:float32"]}, "failed", "0.up:float32"),
        ({"finite": False}, "wrong-result", "not finite"),
        ({"output_error": 0.0051}, "wrong-result", "off by 5.1e-03; the limit is 0.005"),
        ({"output_error": None}, "wrong-result", "an unknown amount"),
        ({"gradient_error": 0.011}, "wrong-result", "that of 0.up.weight"),
        ({"worst_error": 0.5}, "wrong-result", "the gradient of 0.up.weight is off by 5.0e-01"),
        ({"gradient_cosine": 0.99}, "wrong-result", "point elsewhere"),
        ({"gradient_cosine": None}, "wrong-result", "point elsewhere"),
    ],
)
def test_each_number_has_a_limit(changes: dict[str, Any], outcome: str, words: str) -> None:
    (found,) = device_of(fp16(**changes)).precisions
    assert found.outcome == outcome
    assert words in found.compared[1].error
    assert found.compared[0].outcome == "passed"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"enabled": False}, "disabled itself"),
        ({"gradient_error": 1.0}, "after unscale_"),
        ({"gradient_error": None}, "after unscale_"),
        ({"moved": False}, "left the parameters"),
        ({"scale_after_normal": 32768.0}, "changed the scale"),
        ({"skipped": False}, "was not skipped"),
        ({"skipped": None}, "did not end"),
        ({"scale_after": 65536.0}, "not half of 65536"),
        ({"scale_after": 0.0}, "not half of 65536"),
        ({"recovered": False}, "after the skipped one"),
        ({"scale_reloaded": 65536.0}, "state_dict"),
    ],
)
def test_each_duty_of_a_scaler_is_judged(changes: dict[str, Any], words: str) -> None:
    (found,) = device_of(fp16(scaler=changes)).precisions
    assert found.scaler is not None and found.scaler.outcome == "failed" and words in found.scaler.error
    assert found.outcome == "failed"


def test_a_product_that_does_not_overflow_was_not_computed_in_fp16() -> None:
    (found,) = device_of(fp16(overflow=False)).precisions
    assert found.outcome == "wrong-result" and "not computed in fp16" in found.error


@pytest.mark.parametrize("lost", ["compared", "overflow", "finished"])
def test_what_the_worker_did_not_say_is_no_pass(lost: str) -> None:
    said = [message for message in fp16() if lost not in message]
    (found,) = device_of(said).precisions
    assert found.outcome == "failed" and found.error


def test_one_net_alone_is_no_pass() -> None:
    said = [m for m in fp16() if m.get("compared", {}).get("net") != "convolution"]
    assert device_of(said).precisions[0].outcome == "failed"


def test_speed_without_memory_for_it_leaves_the_outcome_alone() -> None:
    said: list[dict[str, Any]] = [
        *fp16(),
        {"dtype": "fp16", "failed": "OutOfMemoryError: CUDA out of memory.", "optional": True, "step": "S"},
    ]
    (found,) = device_of(said).precisions
    assert found.outcome == "passed" and found.error == "S: OutOfMemoryError: CUDA out of memory."


def test_a_hang_while_measuring_is_a_timeout_of_that_dtype() -> None:
    said: list[dict[str, Any]] = [*fp16(), {"doing": "fp16: the speed of a matrix product", "dtype": "fp16"}]
    hung = Probe("hung", "fp16: the speed of a matrix product", "", 60.0)
    (found,) = device_of(said, probe=hung).precisions
    assert found.outcome == "timeout" and "speed of a matrix product did not return within 60 s" in found.error


def test_a_device_lost_on_the_way_leaves_nothing_after_it_untold() -> None:
    said = [{"doing": "fp16: autocast", "dtype": "fp16"}, {"dtype": "fp16", "failed": "AcceleratorError", "step": "a"}]
    raised = Probe("raised", "fp16: autocast", "the device stopped answering", 60.0)
    first, second = device_of(said, "fp16", "bf16", probe=raised).precisions
    assert first.outcome == "failed" and second.outcome == "failed"
    assert "not tested" in second.error and "stopped answering" in second.error


def test_tf32_that_changes_nothing_was_not_used() -> None:
    def tf32(error: float) -> Precision:
        told = {"net": "matmul", "output_error": error, "off_error": 4e-7, "out_dtype": "float32", "finite": True}
        said: list[dict[str, Any]] = [{"dtype": "tf32", "compared": told}, {"dtype": "tf32", "finished": True}]
        return device_of(said, "tf32").precisions[0]

    assert tf32(4e-7).outcome == "failed" and "changed nothing" in tf32(4e-7).compared[0].error
    assert tf32(3e-4).outcome == "passed"
    assert tf32(0.01).outcome == "wrong-result"


def test_what_the_device_cannot_have_is_not_applicable_and_what_it_has_must_be_said() -> None:
    assert device_of([{"dtype": "fp16"}], "fp8", capability=[8, 0], name="A100").precisions[0].outcome == (
        "not applicable"
    )
    assert device_of([{"dtype": "fp16"}], "fp8").precisions[0].outcome == "failed"


def test_a_cpu_whose_torch_lacks_the_kernels_is_not_at_fault() -> None:
    text = """RuntimeError: "slow_conv2d_cpu" not implemented for 'Half\'"""
    said: list[dict[str, Any]] = [{"dtype": "fp16", "failed": text, "step": "autocast", "net": "convolution"}]
    found = assemble.device("cpu", ["fp16"], said, ANSWERED, 1.0).precisions[0]
    assert (found.support, found.outcome) == ("build", "not applicable") and "slow_conv2d_cpu" in found.why
    assert device_of(said).precisions[0].outcome == "failed", "on a GPU it is a fault"


@pytest.mark.parametrize(
    ("said", "probe", "verdict"),
    [
        ([{"dtype": "bf16", "compiled": {"error": 1e-3, "out_dtype": "bfloat16"}}], ANSWERED, "passed"),
        ([{"dtype": "bf16", "compiled": {"error": 0.5, "out_dtype": "bfloat16"}}], ANSWERED, "failed: off by"),
        ([{"dtype": "bf16", "compiled": {"error": None, "out_dtype": "bfloat16"}}], ANSWERED, "failed: off by"),
        ([{"dtype": "bf16", "compiled": {"error": 0.0, "out_dtype": "float32"}}], ANSWERED, "failed: the output is"),
        ([{"dtype": "bf16", "compiled": {"absent": "Triton is not installed"}}], ANSWERED, "not applicable: Triton"),
        ([{"dtype": "bf16", "failed": "no C compiler"}], ANSWERED, "failed: no C compiler"),
        ([], ANSWERED, "failed: the worker did not say"),
        ([], Probe("hung", "bf16: torch.compile with autocast", "", 30.0), "timeout: bf16: torch.compile"),
        ([], Probe("crashed", "bf16: torch.compile", "killed by SIGSEGV", 30.0), "failed: bf16: torch.compile"),
    ],
)
def test_what_torch_compile_gave(said: list[dict[str, Any]], probe: Probe, verdict: str) -> None:
    dtype = said[0]["dtype"] if said else None
    found = assemble.compiled_verdict("bf16", said, probe)
    assert found.startswith(verdict)
    device = assemble.device("cuda:0", ["fp16"], [{"device": H100}, *fp16()], ANSWERED, 3.0, (said, probe))
    assert bool(device.precisions[0].compiled) is (dtype is None), "the verdict goes to the dtype that was compiled"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = (
    "device",
    "compared",
    "scaler",
    "speed",
    "memory",
    "overflow",
    "failed",
    "disabled",
    "finished",
    "compiled",
    "doing",
)
MESSAGES = st.lists(
    st.dictionaries(st.sampled_from([*KEYS, "step", "net"]), VALUES, max_size=4).flatmap(
        lambda message: st.sampled_from([*DTYPES, "fp3", 7, None]).map(lambda dtype: message | {"dtype": dtype})
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(MESSAGES, st.sampled_from(["cpu", "cuda:0", "xpu:1", ""]))
def test_no_words_of_a_worker_are_a_crash_or_a_pass(said: list[dict[str, Any]], name: str) -> None:
    device = assemble.device(name, DTYPES, said, ANSWERED, 1.0, (said, ANSWERED))
    assert not any(each.outcome == "passed" for each in device.precisions)
    report = judge([device], {})
    assert msgspec.json.decode(encode(report), type=AmpReport).devices[0].device == name


@given(st.dictionaries(st.sampled_from(sorted(GOOD_SCALER)), VALUES))
def test_any_change_of_a_scalers_words_is_no_crash(changes: dict[str, Any]) -> None:
    device_of(fp16(scaler=changes))


# ---------------------------------------------------------------- judging


def precision(dtype: Any, support: Any = "hardware", outcome: Any = "passed", **rest: Any) -> Precision:
    if dtype == "fp16" and outcome == "passed":
        rest.setdefault("scaler", Scaled(outcome="passed"))
    return Precision(dtype=dtype, support=support, outcome=outcome, **rest)


def gpu(*precisions: Precision, name: str = "NVIDIA H100 80GB HBM3", **rest: Any) -> AmpDevice:
    rest.setdefault("capability", (9, 0))
    return AmpDevice(
        device=rest.pop("device", "cuda:0"), name=name, torch="2.13.0+cu130", precisions=precisions, **rest
    )


T4: dict[str, Any] = {"name": "Tesla T4", "capability": (7, 5)}


def test_a_healthy_gpu_has_no_problems_and_bf16_is_advised() -> None:
    speed = Speed(what="matmul", size="8192", seconds=1.0, fp32_seconds=12.0, expected_factor=14.8)
    report = judge(
        [gpu(precision("fp16"), precision("bf16", speeds=(speed,)), precision("fp8"))], {"lightning": "2.6.6"}
    )
    assert report.problems == () and report.exit_status == 0
    assert report.advice is not None and report.advice.precision == "bf16"
    assert "fp16 would need GradScaler" in report.advice.why and "fp8" not in report.advice.why
    assert report.advice.spelled["Lightning 2.6"] == 'Trainer(precision="bf16-mixed")'
    assert "torch 2.13" in report.advice.spelled


def test_where_bf16_is_emulated_fp16_is_advised_and_what_fp8_needs_is_said() -> None:
    slow = Speed(what="matmul", size="4096", seconds=1.0, fp32_seconds=0.4)
    device = gpu(precision("fp16"), precision("bf16", "emulated", why="7.5", speeds=(slow,)), **T4)
    report = judge([device], {})
    assert report.advice is not None and report.advice.precision == "fp16"
    assert "bf16 is emulated" in report.advice.why and "fp8 needs compute capability 8.9" in report.advice.why
    (problem,) = report.problems
    assert problem.severity == "warning" and "0.40 times fp32's speed" in problem.summary
    assert "is_bf16_supported() says yes" in problem.meaning


def test_fp16_without_a_working_scaler_is_not_advised() -> None:
    failed = precision("fp16", outcome="failed", scaler=Scaled(outcome="failed", error="was not skipped"))
    report = judge([gpu(failed, **T4)], {})
    assert report.advice is not None and report.advice.precision == "fp32"
    assert report.exit_status == 1 and "GradScaler: was not skipped" in report.problems[0].summary


def test_the_advice_is_for_all_devices() -> None:
    devices = [gpu(precision("bf16"), precision("fp16")), gpu(precision("bf16", "emulated"), precision("fp16"), **T4)]
    report = judge(devices, {})
    assert report.advice is not None and report.advice.precision == "fp16"


def test_on_a_cpu_emulation_is_no_reason_for_lower_precision() -> None:
    device = gpu(
        precision("bf16", "emulated"), precision("fp16", "emulated"), device="cpu", name="Xeon", capability=None
    )
    report = judge([device], {})
    assert report.advice is not None and report.advice.precision == "fp32" and report.problems == ()


def test_less_than_half_of_the_published_factor_is_told() -> None:
    def report(factor: float) -> AmpReport:
        speed = Speed(what="matmul", size="8192", seconds=1.0, fp32_seconds=factor, expected_factor=14.8)
        return judge([gpu(precision("bf16", speeds=(speed,)))], {})

    assert report(7.5).problems == ()
    (problem,) = report(7.0).problems
    assert problem.severity == "warning" and "7.0 times as fast as in fp32; 14.8 times" in problem.summary
    assert "H100 datasheet" in problem.summary and report(7.0).exit_status == 0


def test_a_convolution_slower_than_fp32_is_told_on_tensor_cores_only() -> None:
    product = Speed(what="matmul", size="4096", seconds=1.0, fp32_seconds=12.0, expected_factor=14.8)
    slow = Speed(what="convolution channels_last", size="x", seconds=2.0, fp32_seconds=1.0)
    (problem,) = judge([gpu(precision("fp16", speeds=(product, slow)))], {}).problems
    assert "2.0 times as long" in problem.summary
    pascal = gpu(precision("fp16", speeds=(product, slow)), name="Tesla P100", capability=(6, 0))
    assert judge([msgspec.structs.replace(pascal)], {}).problems == ()


def test_a_build_without_code_for_the_gpu_is_one_problem() -> None:
    said = [
        {"dtype": dtype, "failed": "AcceleratorError: no kernel image is available", "step": "autocast", "net": net}
        for dtype in ("fp16", "bf16")
        for net in ("convolution", "transformer")
    ]
    device = device_of(said, "fp16", "bf16", capability=[7, 0], name="Tesla V100", arch_list=["sm_75", "sm_80"])
    (problem,) = judge([device], {}).problems
    assert problem.severity == "error" and "sm_75, sm_80" in problem.summary


def test_wrong_results_are_errors_even_by_emulation() -> None:
    wrong = ComparedNet(net="convolution", outcome="wrong-result", error="the output is off by 3.0e-01")
    (problem,) = judge([gpu(precision("bf16", "emulated", "wrong-result", compared=(wrong,)), **T4)], {}).problems
    assert problem.severity == "error" and "convolution: the output is off by" in problem.summary


def test_fp32_that_is_wrong_itself_is_the_first_thing_said() -> None:
    report = judge([gpu(precision("bf16"), reference_error=0.02)], {})
    assert "fp32 with TF32 off is off by 2.0e-02" in report.problems[0].summary and report.exit_status == 1


def test_tf32_set_by_the_environment_is_told_where_the_gpu_has_it() -> None:
    switches = {"NVIDIA_TF32_OVERRIDE": "0"}
    (problem,) = judge([gpu(precision("bf16"), switches=switches)], {}).problems
    assert "NVIDIA_TF32_OVERRIDE=0 forces TF32 off" in problem.summary
    assert judge([gpu(precision("fp16"), switches=switches, **T4)], {}).problems == ()


def test_a_switch_that_cannot_be_read_is_told() -> None:
    switches = {"torch.backends.cuda.matmul.allow_tf32": "raises RuntimeError: mix of the legacy and new APIs"}
    (problem,) = judge([gpu(precision("bf16"), switches=switches)], {}).problems
    assert problem.severity == "info" and "allow_tf32 cannot be read" in problem.summary


def test_torch_compile_that_fails_is_a_warning() -> None:
    (problem,) = judge([gpu(precision("bf16", compiled="timeout: did not return within 30 s"))], {}).problems
    assert problem.severity == "warning" and "did not return within 30 s" in problem.summary
    assert judge([gpu(precision("bf16", compiled="not applicable: Triton is not installed"))], {}).problems == ()


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            Precision,
            dtype=st.sampled_from(DTYPES),
            support=st.sampled_from(["hardware", "hardware, slow", "emulated", "build", "none", "unknown"]),
            outcome=st.sampled_from(["passed", "wrong-result", "failed", "not applicable", "timeout"]),
            why=st.sampled_from(["compute capability 7.5", "this torch build has code for sm_90"]),
            compiled=st.sampled_from(["", "passed", "failed: off", "timeout: 30 s"]),
            error=st.sampled_from(["", "killed by SIGSEGV"]),
            speeds=st.lists(
                st.builds(
                    Speed,
                    what=st.sampled_from(["matmul", "convolution", "convolution channels_last"]),
                    size=st.just("4096"),
                    seconds=st.floats(0, 10),
                    fp32_seconds=st.floats(0, 10),
                    expected_factor=st.none() | st.floats(1, 60),
                ),
                max_size=3,
            ).map(tuple),
        ),
        max_size=4,
    ),
    st.sampled_from([None, (7, 5), (9, 0)]),
)
def test_every_text_keeps_the_rules_of_messages(
    precisions: list[Precision], capability: tuple[int, int] | None
) -> None:
    report = judge([gpu(*precisions, capability=capability)], {})
    for problem in report.problems:
        assert not problem.summary.endswith(".") and problem.evidence
        for sentence in (problem.meaning, problem.fix.text):
            assert sentence.endswith(".")
        for text in (problem.summary, problem.meaning, problem.fix.text):
            assert not UNWELCOME.search(text)
    if report.advice is not None:
        assert not report.advice.why.endswith(".") and report.advice.spelled
    assert report.exit_status in (0, 1, 2)


def test_no_device_is_no_success() -> None:
    assert judge([], {}).exit_status == 3
    lost = gpu(device="cuda:1", error="the first allocation: out of memory")
    assert judge([lost], {}).exit_status == 1
    assert judge([gpu(precision("bf16")), lost], {}).exit_status == 1
