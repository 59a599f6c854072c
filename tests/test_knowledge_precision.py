"""knowledge/precision: hardware, published factors, spellings, and what old tutorials say."""

import json

import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.precision import apex
from gpudoctor.knowledge.precision.factors import PEAKS, expected_factor, source_of_factor
from gpudoctor.knowledge.precision.spelling import lightning_value, spelled, torch_lines
from gpudoctor.knowledge.precision.support import DTYPES, Dtype, Hardware, has_tensor_cores, least_for_fp8, supported
from gpudoctor.knowledge.pytorch.gpu_code import Capability

# The project's facts, part 5.1: compute capability -> fp16, bf16, tf32, fp8.
TABLE: list[tuple[Capability, tuple[str, str, str, str]]] = [
    ((5, 2), ("emulated", "emulated", "none", "none")),
    ((6, 0), ("hardware", "emulated", "none", "none")),
    ((6, 1), ("hardware, slow", "emulated", "none", "none")),
    ((7, 0), ("hardware", "emulated", "none", "none")),
    ((7, 5), ("hardware", "emulated", "none", "none")),
    ((8, 0), ("hardware", "hardware", "hardware", "none")),
    ((8, 6), ("hardware", "hardware", "hardware", "none")),
    ((8, 9), ("hardware", "hardware", "hardware", "hardware")),
    ((9, 0), ("hardware", "hardware", "hardware", "hardware")),
    ((10, 0), ("hardware", "hardware", "hardware", "hardware")),
    ((12, 0), ("hardware", "hardware", "hardware", "hardware")),
]


@pytest.mark.parametrize(("capability", "expected"), TABLE)
def test_support_follows_the_compute_capability(capability: Capability, expected: tuple[str, ...]) -> None:
    hardware = Hardware("cuda", capability=capability)
    assert tuple(supported(dtype, hardware).support for dtype in DTYPES) == expected


def test_emulation_that_torch_calls_supported_is_no_support() -> None:
    """torch.cuda.is_bf16_supported() is True on a T4 since torch 2.4."""
    found = supported("bf16", Hardware("cuda", "Tesla T4", (7, 5), bf16_native=None))
    assert found.support == "emulated" and "8.0" in found.why


def test_a_build_without_code_for_the_gpu_is_the_builds_fault() -> None:
    found = supported("fp16", Hardware("cuda", "Tesla V100", (7, 0), architectures=("sm_75", "sm_80", "sm_90")))
    assert found.support == "build" and "sm_75, sm_80, sm_90" in found.why and "7.0" in found.why
    # Machine code runs on later devices of its major; PTX on any later.
    for architectures in (("sm_80",), ("compute_70",)):
        assert supported("fp16", Hardware("cuda", "A10", (8, 6), architectures=architectures)).support == "hardware"


def test_a_torch_without_the_product_of_fp8_is_the_builds_fault() -> None:
    assert supported("fp8", Hardware("cuda", "H100", (9, 0), scaled_mm=False)).support == "build"
    assert supported("bf16", Hardware("cuda", "A100", (8, 0), bf16_native=False)).support == "build"


def test_small_turing_chips_have_no_tensor_cores() -> None:
    found = supported("fp16", Hardware("cuda", "NVIDIA GeForce GTX 1660 Ti", (7, 5)))
    assert found.support == "hardware" and "no tensor cores" in found.why
    assert expected_factor("fp16", "NVIDIA GeForce GTX 1660 Ti", (7, 5)) is None
    # the names that lspci's pci.ids has for TU116 and TU117 (device ids 0x1f82 to 0x21d1), as NVML says them
    for name in ("T2000", "Quadro T2000", "Quadro T2000 with Max-Q Design", "T1200 Laptop GPU", "T600", "T1000 8GB"):
        assert not has_tensor_cores("fp16", name, (7, 5)), name
    for name in ("Tesla T4", "Quadro RTX 3000", "NVIDIA GeForce RTX 2060", "Quadro RTX 5000"):
        assert has_tensor_cores("fp16", name, (7, 5)), name


@pytest.mark.parametrize(
    ("flags", "fp16", "bf16"),
    [
        (("avx2",), "emulated", "emulated"),
        (("avx2", "avx512f"), "emulated", "emulated"),
        (("avx512f", "avx512_bf16"), "emulated", "hardware"),
        (("avx512_bf16", "avx512_fp16", "amx_bf16"), "hardware, slow", "hardware"),
        (("amx_bf16", "amx_fp16", "avx512_fp16"), "hardware", "hardware"),
        (("asimd", "asimdhp", "bf16"), "hardware, slow", "hardware"),
        (None, "unknown", "unknown"),
    ],
)
def test_a_cpu_has_what_its_instructions_give(flags: tuple[str, ...] | None, fp16: str, bf16: str) -> None:
    hardware = Hardware("cpu", cpu_flags=flags)
    assert (supported("fp16", hardware).support, supported("bf16", hardware).support) == (fp16, bf16)
    assert supported("tf32", hardware).support == "none"
    assert supported("fp8", hardware).support == "emulated"


def test_amd_and_unknown_devices_are_not_judged_by_nvidias_table() -> None:
    rocm = Hardware("rocm", "AMD Instinct MI300X", amd_architecture="gfx942:sramecc+:xnack-")
    assert supported("bf16", rocm).support == "hardware"
    assert supported("fp8", rocm).support == "unknown"
    assert supported("bf16", Hardware("rocm", amd_architecture="gfx803")).support == "unknown"
    assert supported("bf16", Hardware("xpu", "Intel Max")).support == "unknown"
    assert supported("bf16", Hardware("cuda", "a GPU whose capability was not told")).support == "unknown"


def test_what_fp8_needs_is_said_where_no_gpu_has_it() -> None:
    assert least_for_fp8([(8, 0), (8, 6)]) == "fp8 needs compute capability 8.9"
    assert least_for_fp8([(8, 0), (9, 0)]) == "" and least_for_fp8([]) == ""


@pytest.mark.parametrize(
    ("name", "capability", "factors"),
    [
        ("Tesla V100-SXM2-32GB", (7, 0), (8.0, None, None, None)),
        ("Tesla T4", (7, 5), (8.0, None, None, None)),
        ("NVIDIA A100-SXM4-80GB", (8, 0), (16.0, 16.0, 8.0, None)),
        ("NVIDIA GeForce RTX 3090", (8, 6), (2.0, 2.0, 1.0, None)),
        ("NVIDIA A40", (8, 6), (4.0, 4.0, 2.0, None)),
        ("NVIDIA GeForce RTX 4090", (8, 9), (2.0, 2.0, 1.0, 4.0)),
        ("NVIDIA L40S", (8, 9), (4.0, 4.0, 2.0, 8.0)),
        ("NVIDIA L40", (8, 9), (2.0, 2.0, 1.0, 4.0)),
        ("NVIDIA H100 80GB HBM3", (9, 0), (14.8, 14.8, 7.4, 29.5)),
        ("NVIDIA H20", (9, 0), (3.4, 3.4, 1.7, 6.7)),
        ("NVIDIA B200", (10, 0), (30.0, 30.0, 15.0, 60.0)),
        ("Tesla P100-PCIE-16GB", (6, 0), (None, None, None, None)),
        ("NVIDIA Something New", (13, 0), (None, None, None, None)),
    ],
)
def test_factors_are_those_of_the_published_rates(
    name: str, capability: Capability, factors: tuple[float | None, ...]
) -> None:
    order: tuple[Dtype, ...] = ("fp16", "bf16", "tf32", "fp8")
    assert tuple(expected_factor(dtype, name, capability) for dtype in order) == factors
    assert bool(source_of_factor(name, capability)) is any(factors)


def test_every_rate_has_a_source_and_lower_precision_is_no_slower() -> None:
    for entry in PEAKS:
        assert entry.source
        rates = [rate for rate in (entry.fp32, entry.tf32, entry.half, entry.fp8) if rate is not None]
        assert rates == sorted(rates)


@given(st.sampled_from(DTYPES), st.text(max_size=40), st.tuples(st.integers(0, 20), st.integers(0, 9)))
def test_no_name_and_capability_confuses_the_tables(dtype: Dtype, name: str, capability: Capability) -> None:
    found = supported(dtype, Hardware("cuda", name, capability))
    assert found.why
    factor = expected_factor(dtype, name, capability)
    assert factor is None or (factor >= 1 and found.support == "hardware")


# ---------------------------------------------------------------- spelling


def test_the_installed_lightning_decides_over_the_string() -> None:
    assert spelled("bf16", {"lightning": "2.6.6"})["Lightning 2.6"] == 'Trainer(precision="bf16-mixed")'
    assert spelled("fp16", {"pytorch-lightning": "1.9.5"})["Lightning 1.9"] == "Trainer(precision=16)"
    assert spelled("fp16", {})["Lightning"] == 'Trainer(precision="16-mixed")'


@pytest.mark.thorough
def test_lightning_takes_what_is_spelled_for_it() -> None:
    precision = pytest.importorskip("lightning.fabric.plugins.precision.precision")
    taken = precision._PRECISION_INPUT_STR.__args__
    for chosen in ("bf16", "fp16", "fp32"):
        assert lightning_value(chosen, (2, 6)).strip('"') in taken


def test_accelerate_takes_what_is_spelled_for_it() -> None:
    values = {member.value for member in pytest.importorskip("accelerate.utils").PrecisionType}
    for chosen in ("bf16", "fp16", "fp32"):
        line = spelled(chosen, {"accelerate": "1.15.0"})["accelerate 1.15"]
        assert line.split('"')[1] in values


def test_torch_lines_are_python_and_only_fp16_has_a_scaler() -> None:
    for chosen in ("bf16", "fp16"):
        lines = torch_lines(chosen, (2, 13), "cuda")
        compile(lines, "lines", "exec")
        assert ("GradScaler" in lines) is (chosen == "fp16")
    assert 'torch.amp.GradScaler("cuda")' in torch_lines("fp16", (2, 3))
    assert "torch.cuda.amp.GradScaler()" in torch_lines("fp16", (2, 2, 2))
    assert 'torch.autocast("cpu", dtype=torch.bfloat16)' in torch_lines("bf16", None, "cpu")


def test_deepspeeds_entry_is_json() -> None:
    assert json.loads("{" + spelled("bf16", {})["DeepSpeed"] + "}") == {"bf16": {"enabled": True}}


# ---------------------------------------------------------------- old tutorials


def test_apex_levels_are_translated() -> None:
    entries = apex.translations({})
    for level in ("O0", "O1", "O2", "O3"):
        assert any(f'"{level}"' in entry.old and entry.today for entry in entries)
    assert any('"O2"' in entry.old and "exact equal" in entry.remark for entry in entries)


def test_what_the_installed_versions_lack_is_translated() -> None:
    old = {entry.old: entry for entry in apex.translations({"torch": "2.13.0+cpu", "lightning": "2.6.6"})}
    assert old["Trainer(amp_level=...)"].remark == "Removed in lightning 2.0."
    assert "Trainer(use_amp=...)" in old and "Trainer(amp_backend=...)" in old
    assert old["Trainer(precision=16)"].today == 'Trainer(precision="16-mixed")'
    assert old["torch.cuda.amp.GradScaler()"].today == 'torch.amp.GradScaler("cuda")'
    # A torch before 2.3 has nothing else, and a Lightning before 2.0 knows no "16-mixed".
    before = {entry.old: entry for entry in apex.translations({"torch": "2.2.2", "lightning": "1.9.5"})}
    assert "torch.cuda.amp.GradScaler()" not in before and "Trainer(precision=16)" not in before
    assert "torch.cuda.amp.GradScaler()" in before['amp.initialize(..., opt_level="O1")'].today


@given(st.dictionaries(st.sampled_from(["torch", "lightning", "accelerate", "deepspeed"]), st.text(max_size=12)))
def test_any_version_is_read(versions: dict[str, str]) -> None:
    assert len(spelled("bf16", versions)) == 4
    assert apex.translations(versions)
