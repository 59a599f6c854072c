"""The tables about GPUs, against nvidia-ml-py's constants where it has them, and their pure functions."""

import pynvml
import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.gpus import clock_events, cuda_errors, gpu_models, nvml_errors
from gpudoctor.knowledge.gpus.gpu_labels import label, labels
from gpudoctor.knowledge.gpus.like_gpus import known, majority, models, raise_unread
from gpudoctor.snapshot import Gpu, NotApplicable, NotRead, absent, missing, read
from gpudoctor.testing.machines import gpu, nvml, t4
from gpudoctor_checks.gpu import fabric_not_ready, gpu_recovery_action_needed

CLOCK_EVENT_NAMES = {
    "idle": "nvmlClocksEventReasonGpuIdle",
    "application clocks": "nvmlClocksEventReasonApplicationsClocksSetting",
    "software power cap": "nvmlClocksEventReasonSwPowerCap",
    "hardware slowdown": "nvmlClocksThrottleReasonHwSlowdown",
    "sync boost": "nvmlClocksEventReasonSyncBoost",
    "software thermal slowdown": "nvmlClocksEventReasonSwThermalSlowdown",
    "hardware thermal slowdown": "nvmlClocksThrottleReasonHwThermalSlowdown",
    "hardware power brake": "nvmlClocksThrottleReasonHwPowerBrakeSlowdown",
    "display clock setting": "nvmlClocksEventReasonDisplayClockSetting",
}


@pytest.mark.parametrize("name", CLOCK_EVENT_NAMES)
def test_clock_event_bits_are_nvmls(name: str) -> None:
    constant = getattr(pynvml, CLOCK_EVENT_NAMES[name], None)
    if constant is None:
        pytest.skip(f"this nvidia-ml-py has no {CLOCK_EVENT_NAMES[name]}")
    assert [event.bit for event in clock_events.EVENTS if event.name == name] == [constant]


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_harmful_clock_events_are_a_matter_of_four_bits(mask: int) -> None:
    found = sum(event.bit for event in clock_events.harmful(mask))
    assert found == mask & (0x8 | 0x20 | 0x40 | 0x80)


@pytest.mark.parametrize("error", nvml_errors.ERRORS.values(), ids=lambda error: error.name)
def test_nvml_error_names_are_nvmls(error: nvml_errors.NvmlError) -> None:
    assert getattr(pynvml, f"NVML_ERROR_{error.name}") == error.code


@pytest.mark.parametrize(
    ("code", "action"),
    [(0, "NONE"), (1, "GPU_RESET"), (2, "NODE_REBOOT"), (3, "DRAIN_P2P"), (4, "DRAIN_AND_RESET")],
)
def test_recovery_actions_are_nvmls(code: int, action: str) -> None:
    constant = getattr(pynvml, f"NVML_GPU_RECOVERY_ACTION_{action}", None)
    if constant is None:
        pytest.skip("this nvidia-ml-py knows no recovery actions")
    assert constant == code
    assert code == 0 or code in gpu_recovery_action_needed.ACTIONS


def test_fabric_health_fields_are_nvmls() -> None:
    degraded = getattr(pynvml, "NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW", None)
    unhealthy = getattr(pynvml, "NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY", None)
    if degraded is None or unhealthy is None:
        pytest.skip("this nvidia-ml-py knows no fabric health")
    assert degraded == fabric_not_ready.DEGRADED_BANDWIDTH_SHIFT
    assert unhealthy == fabric_not_ready.UNHEALTHY_ROUTE_SHIFT


def test_an_unknown_number_gets_advice_too() -> None:
    assert "4242" in nvml_errors.explain(4242).name
    assert cuda_errors.explain(4242, "CUDA_ERROR_NEW").name == "CUDA_ERROR_NEW"
    assert cuda_errors.explain(4242).commands


MODELS = [
    # name, consumer, laptop, data center, superchip, baseboard
    ("NVIDIA H100 80GB HBM3", False, False, True, False, True),
    ("NVIDIA H100 PCIe", False, False, True, False, False),
    ("NVIDIA H100 NVL", False, False, True, False, False),
    ("NVIDIA H200", False, False, True, False, True),
    ("NVIDIA H200 NVL", False, False, True, False, False),
    ("NVIDIA B200", False, False, True, False, True),
    ("NVIDIA A100-SXM4-80GB", False, False, True, False, True),
    ("NVIDIA A100 80GB PCIe", False, False, True, False, False),
    ("NVIDIA A100-PCIE-40GB", False, False, True, False, False),
    ("Tesla V100-SXM2-32GB", False, False, True, False, True),
    ("Tesla T4", False, False, True, False, False),
    ("NVIDIA A10G", False, False, True, False, False),
    ("NVIDIA L40S", False, False, True, False, False),
    ("NVIDIA GH200 480GB", False, False, True, True, False),
    ("NVIDIA GB200", False, False, True, True, False),
    ("NVIDIA GB10", False, False, False, True, False),
    ("NVIDIA RTX A6000", False, False, False, False, False),
    ("NVIDIA RTX 6000 Ada Generation", False, False, False, False, False),
    ("Quadro RTX 8000", False, False, False, False, False),
    ("NVIDIA T400 4GB", False, False, False, False, False),
    ("NVIDIA GeForce RTX 4090", True, False, False, False, False),
    ("NVIDIA GeForce RTX 4070 Laptop GPU", True, True, False, False, False),
    ("NVIDIA GeForce MX450", True, True, False, False, False),
    ("NVIDIA GeForce GTX 970M", True, True, False, False, False),
    ("NVIDIA GeForce RTX 2080 with Max-Q Design", True, True, False, False, False),
    ("NVIDIA TITAN RTX", True, False, False, False, False),
]


@pytest.mark.parametrize(("name", "consumer", "laptop", "datacenter", "superchip", "baseboard"), MODELS)
def test_product_names(
    name: str, consumer: bool, laptop: bool, datacenter: bool, superchip: bool, baseboard: bool
) -> None:
    assert gpu_models.is_consumer(name) == consumer
    assert gpu_models.is_laptop(name) == laptop
    assert gpu_models.is_datacenter(name) == datacenter
    assert gpu_models.is_superchip(name) == superchip
    assert gpu_models.is_on_baseboard(name) == baseboard


@given(st.text(max_size=60))
def test_no_product_name_raises(name: str) -> None:
    for question in (gpu_models.is_datacenter, gpu_models.is_laptop, gpu_models.is_on_baseboard):
        assert question(name) in (True, False)


@given(st.lists(st.integers(0, 3)))
def test_majority_is_more_than_half(values: list[int]) -> None:
    found = majority(values)
    expected: list[int | None] = [value for value in set(values) if 2 * values.count(value) > len(values)]
    assert [found] == (expected or [None])


def test_like_gpus_keep_apart_what_differs_and_what_is_unknown() -> None:
    nameless = gpu(3, name=missing("nvml", "lost", "lost"), pcie_width=nvml(4))
    cards = [gpu(0), t4(1), gpu(2), nameless]
    assert [[card.index for card in group] for group in models(cards)] == [[0, 2], [1]]
    assert [(card.index, width) for card, width in known(cards, lambda card: card.pcie_width)][-1] == (3, 4)


def test_what_was_not_read_ends_a_comparison_but_what_is_absent_beside_it_does_not() -> None:
    there, none, hidden = read("nvml", 1), absent("nvml", "not supported"), missing("nvml", "denied", "denied")
    raise_unread([there, none])
    raise_unread([])
    with pytest.raises(NotApplicable):
        raise_unread([none, none])
    with pytest.raises(NotRead, match="denied"):
        raise_unread([there, none, hidden])


def test_labels_do_without_an_address() -> None:
    assert label(gpu(3)) == "GPU 3 (0000:4b:00.0)"
    assert label(Gpu(3)) == "GPU 3"
    assert label(gpu(3, pci_bus_id=nvml("rubbish"))) == "GPU 3"
    assert labels([gpu(0), gpu(1), gpu(5)]) == "GPUs 0-1,5"
