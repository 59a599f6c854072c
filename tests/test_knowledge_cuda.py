"""What is known of CUDA versions, drivers, machine code, torch wheels and copies of libraries."""

import re

import msgspec
import pytest
from hypothesis import given, strategies as st

from gpudoctor.knowledge.gpus import cuda_errors
from gpudoctor.knowledge.network.pcie import link_bytes_per_second
from gpudoctor.knowledge.pytorch import cuda_versions, gpu_code, loaded, torch_wheels
from gpudoctor.knowledge.pytorch.torch_devices import gpu_tested, gpu_with_uuid
from gpudoctor.snapshot import Library, SmokeResult, SmokeTarget, missing, read
from gpudoctor.testing.machines import but, gpu, h100_node, node

# ---------------------------------------------------------------- drivers


@pytest.mark.parametrize(
    ("driver", "cuda", "runs"),
    [
        ("580.65.06", (13, 0), True),
        ("580.65.06", (13, 3), True),  # by minor-version compatibility
        ("575.57.08", (13, 0), False),
        ("525.60.13", (12, 9), True),
        ("470.256.02", (12, 1), False),
        ("450.80.02", (11, 8), True),
        ("450.51.05", (11, 8), False),  # a 450 driver of before the compatible ones
        ("610.57.04", (11, 8), True),
        ("390.48", (11, 8), False),
        ("580.95.05", (10, 2), None),
        ("580.95.05", (99, 0), None),
        ("", (13, 0), None),
    ],
)
def test_which_driver_runs_which_cuda(driver: str, cuda: tuple[int, int], runs: bool | None) -> None:
    assert cuda_versions.runs(driver, cuda) is runs


@pytest.mark.parametrize(
    ("driver", "serves"),
    [
        ("535.183.01", (12, 2)),
        ("550.54.15", (12, 4)),
        ("572.83", (12, 8)),  # a Windows number between two branches
        ("610.57.04", (13, 3)),
        ("999.1", (13, 3)),
        ("390.48", None),
        ("none", None),
    ],
)
def test_which_cuda_a_driver_serves(driver: str, serves: tuple[int, int] | None) -> None:
    assert cuda_versions.served_by(driver) == serves


def test_the_tables_agree() -> None:
    """The driver that a toolkit brings serves that toolkit, and runs its whole major version."""
    for cuda, driver in cuda_versions.TOOLKIT_DRIVER.items():
        text = ".".join(map(str, driver))
        assert cuda_versions.served_by(text) == cuda
        assert cuda_versions.runs(text, cuda) is True
    served = list(cuda_versions.BRANCH_SERVES.values())
    assert served == sorted(served), "a newer driver serves no less"


@given(st.text(max_size=30))
def test_any_text_may_stand_for_a_version(text: str) -> None:
    assert all(part >= 0 for part in cuda_versions.parsed(text))
    cuda_versions.minor(text)
    cuda_versions.served_by(text)
    cuda_versions.runs(text, (13, 0))


def test_versions_are_shown_as_nvidia_writes_them() -> None:
    assert cuda_versions.shown((450, 80, 2)) == "450.80.02"
    assert cuda_versions.shown((13, 0)) == "13.0"


# ---------------------------------------------------------------- machine code


@pytest.mark.parametrize(
    ("code", "device", "runs"),
    [
        ("sm_80", (8, 0), True),
        ("sm_80", (8, 6), True),
        ("sm_86", (8, 9), True),
        ("sm_86", (8, 0), False),
        ("sm_80", (9, 0), False),
        ("compute_80", (9, 0), True),
        ("compute_90", (8, 0), False),
        ("sm_90a", (9, 0), True),
        ("compute_90a", (10, 0), False),  # code for one architecture is not carried forward
        ("sm_100", (10, 3), True),
        ("sm_100", (12, 0), False),
        ("sm_120", (12, 1), True),
        ("sm_100f", (10, 3), True),
        ("sm_80", (8, 7), False),  # Orin
        ("sm_87", (8, 7), True),
        ("sm_87", (8, 9), False),
        ("sm_101", (11, 0), True),  # Thor's two names
        ("compute_80", (8, 7), True),
        ("gfx942", (9, 4), False),
        ("", (9, 0), False),
    ],
)
def test_which_code_runs_on_which_gpu(code: str, device: tuple[int, int], runs: bool) -> None:
    assert gpu_code.runs_on(code, device) is runs


@given(st.text(max_size=20), st.tuples(st.integers(0, 20), st.integers(0, 9)))
def test_any_text_may_stand_for_an_architecture(text: str, device: tuple[int, int]) -> None:
    gpu_code.runs_on(text, device)


@pytest.mark.parametrize(
    ("code", "device", "cuda", "runs"),
    [
        ("sm_80", (8, 7), (13, 2), True),
        ("sm_86", (8, 7), (13, 4), True),
        ("sm_80", (8, 7), (13, 0), False),
        ("sm_70", (7, 2), (13, 2), True),
        ("sm_87", (8, 7), (13, 2), True),
        ("sm_87", (8, 9), (13, 2), False),
        ("sm_100", (11, 0), (13, 2), False),
        ("sm_90", (8, 7), (13, 2), False),
    ],
)
def test_from_cuda_13_2_on_orin_runs_the_cards_code(
    code: str, device: tuple[int, int], cuda: tuple[int, int], runs: bool
) -> None:
    """DEVICE_REQUIREMENT_POST_JETSON_SBSA_UNIFICATION of torch 2.14's torch/cuda/__init__.py."""
    assert gpu_code.runs_on(code, device, cuda) is runs


# enum cudaError_enum of cuda.h, as the wheel nvidia-cuda-runtime 13.2.75 has it: the numbers that we explain.
CUDA_H = """2 OUT_OF_MEMORY 3 NOT_INITIALIZED 34 STUB_LIBRARY 46 DEVICE_UNAVAILABLE 100 NO_DEVICE 101 INVALID_DEVICE
214 ECC_UNCORRECTABLE 304 OPERATING_SYSTEM 802 SYSTEM_NOT_READY 803 SYSTEM_DRIVER_MISMATCH
804 COMPAT_NOT_SUPPORTED_ON_DEVICE 805 MPS_CONNECTION_FAILED 806 MPS_RPC_FAILURE 807 MPS_SERVER_NOT_READY
808 MPS_MAX_CLIENTS_REACHED 809 MPS_MAX_CONNECTIONS_REACHED 999 UNKNOWN"""


def test_cuda_errors_are_named_as_in_cuda_h() -> None:
    names = {int(code): f"CUDA_ERROR_{name}" for code, name in re.findall(r"(\d+) (\w+)", CUDA_H)}
    assert {code: error.name for code, error in cuda_errors.ERRORS.items()} == names


# ---------------------------------------------------------------- wheels


def test_architectures_are_those_of_torchs_own_table() -> None:
    """PYTORCH_RELEASES_CODE_CC of the wheels of torch 2.13.0 (12.6 to 13.2) and 2.15.0 (12.6, 13.0 and 13.2 again)."""
    released = {
        "cu126": {"x86_64": {50, 60, 70, 75, 80, 86, 90}, "aarch64": {80, 90}},
        "cu129": {"x86_64": {75, 80, 86, 90, 100, 120}, "aarch64": {80, 90, 100, 120}},
        "cu130": {"x86_64": {75, 80, 86, 90, 100, 120}, "aarch64": {80, 90, 100, 110, 120}},
        "cu132": {"x86_64": {75, 80, 86, 90, 100, 120}, "aarch64": {80, 90, 100, 110, 120}},
    }
    ours = {
        wheels.name: {
            machine: {int(code.removeprefix("sm_")) for code in codes}
            for machine, codes in wheels.architectures.items()
        }
        for wheels in torch_wheels.WHEELS
    }
    assert {name: ours[name] for name in released} == released


@pytest.mark.parametrize(
    ("serves", "capabilities", "architecture", "index"),
    [
        ((13, 0), ((9, 0),), "x86_64", "cu130"),
        ((13, 2), ((12, 0),), "x86_64", "cu130"),
        ((12, 8), ((10, 0),), "x86_64", "cu128"),
        ((12, 9), ((8, 9), (9, 0)), "x86_64", "cu129"),
        ((12, 9), ((12, 0),), "aarch64", "cu129"),
        ((13, 0), ((8, 7),), "aarch64", None),  # Orin runs the cards' code from CUDA 13.2 on
        ((13, 2), ((8, 7),), "aarch64", "cu132"),
        ((12, 4), ((9, 0),), "x86_64", "cu126"),
        ((12, 0), ((7, 5),), "x86_64", "cu126"),
        ((13, 0), ((7, 0),), "x86_64", "cu126"),  # Volta left the newer wheels
        ((13, 0), ((6, 1), (9, 0)), "x86_64", "cu126"),
        ((13, 0), ((6, 1), (12, 0)), "x86_64", None),  # Pascal and Blackwell: no wheel serves both
        ((12, 4), ((10, 0),), "x86_64", None),
        ((11, 4), ((7, 0),), "x86_64", "cu118"),
        ((10, 2), ((7, 0),), "x86_64", None),
        ((13, 0), ((9, 0),), "aarch64", "cu130"),
        ((12, 4), ((9, 0),), "aarch64", "cu126"),
        ((13, 0), ((7, 5),), "aarch64", None),
        ((13, 0), ((9, 0),), "ppc64le", None),
        ((13, 0), (), "x86_64", "cu130"),
    ],
)
def test_which_wheels_fit(
    serves: tuple[int, int], capabilities: tuple[tuple[int, int], ...], architecture: str, index: str | None
) -> None:
    found = torch_wheels.fitting(serves, capabilities, architecture)
    assert (found.name if found else None) == index


def test_wheels_that_fit_also_run() -> None:
    """No advice may lead into the next finding: driver-too-old-for-torch, torch-without-gpu-kernels."""
    for branch, serves in cuda_versions.BRANCH_SERVES.items():
        for capability in [(6, 1), (7, 0), (7, 5), (8, 6), (8, 9), (9, 0), (10, 0), (12, 1)]:
            found = torch_wheels.fitting(serves, (capability,))
            if found is not None:
                driver = f"{branch}.999.99"
                assert cuda_versions.runs(driver, found.cuda), (driver, found.name)
                assert gpu_code.any_runs_on(found.architectures["x86_64"], capability)


def test_the_line_suits_the_environment() -> None:
    wheels = torch_wheels.WHEELS[0]
    machine = but(h100_node(), "training.python", "/data/my envs/train/bin/python")
    assert torch_wheels.install(machine, wheels).startswith("'/data/my envs/train/bin/python' -m pip install ")
    uv = but(machine, "training.packages", {"torch": "2.13.0+cpu", "torchaudio": "2.13.0+cpu"})
    assert torch_wheels.install(uv, wheels) == (
        "uv pip install --python '/data/my envs/train/bin/python' --reinstall torch torchaudio "
        "--index-url https://download.pytorch.org/whl/cu130"
    )
    assert torch_wheels.pip(uv, "uninstall", "-y", "pynvml") == (
        "uv pip uninstall pynvml --python '/data/my envs/train/bin/python'"
    )


def test_the_advice_says_what_stands_in_the_way() -> None:
    two = node((gpu(0, compute_capability=(6, 1)), gpu(1, compute_capability=(12, 0))))
    text, lines = torch_wheels.advice(two)
    assert not lines and "CUDA_VISIBLE_DEVICES" in text
    pascal = node((gpu(0, compute_capability=(6, 1)),))
    old = but(but(pascal, "nvidia.driver_version", "390.48"), "nvidia.cuda_version", (9, 1))
    text, lines = torch_wheels.advice(old)
    assert "390.48" in text and "525 or newer" in text and "580" not in text, "the newest branches drop Pascal"
    assert lines[0].endswith("cu126")
    unknown = but(old, "nvidia.driver_version", missing("nvml", "no"))
    assert "pytorch.org" in torch_wheels.advice(but(unknown, "nvidia.cuda_version", missing("nvml", "no")))[0]


# ---------------------------------------------------------------- libraries


def foreign(origin: str, path: str) -> Library:
    return msgspec.convert({"name": "nccl", "path": path, "origin": origin, "found_as": path}, Library)


@pytest.mark.parametrize(
    ("variable", "value", "library", "line"),
    [
        ("LD_LIBRARY_PATH", "/a:/opt/x/lib/:/b", "/opt/x/lib/libnccl.so.2", "export LD_LIBRARY_PATH=/a:/b"),
        ("LD_LIBRARY_PATH", "/opt/x/lib", "/opt/x/lib/libnccl.so.2", "unset LD_LIBRARY_PATH"),
        ("LD_LIBRARY_PATH", "/my libs:/x", "/x/libnccl.so.2", "export LD_LIBRARY_PATH='/my libs'"),
        ("LD_PRELOAD", "/a.so /x/libnccl.so.2", "/x/libnccl.so.2", "export LD_PRELOAD=/a.so"),
        ("LD_PRELOAD", "/x/libnccl.so.2", "/x/libnccl.so.2", "unset LD_PRELOAD"),
    ],
)
def test_a_library_is_taken_out_of_the_way(variable: str, value: str, library: str, line: str) -> None:
    machine = but(h100_node(), "environment", {variable: value})
    assert loaded.take_out(machine, foreign(variable, library)) == (line,)


def test_nothing_is_proposed_for_an_environment_that_was_not_read() -> None:
    machine = but(h100_node(), "environment", missing("environment", "not in this file"))
    assert loaded.take_out(machine, foreign("LD_LIBRARY_PATH", "/x/libnccl.so.2")) == ()


def test_a_folder_is_a_whole_part_of_a_path() -> None:
    assert loaded.lies_in(foreign("system", "/usr/local/cuda/compat/lib.real/libcuda.so.1"), "compat")
    assert not loaded.lies_in(foreign("system", "/opt/compatible/libcuda.so.1"), "compat")


# ---------------------------------------------------------------- devices and links


def test_torch_leaves_out_what_nvml_writes_before_a_uuid() -> None:
    machine = h100_node(2)
    uuid = machine.nvidia.gpus.value[1].uuid.value
    for form in (uuid, uuid.removeprefix("GPU-")):
        found = gpu_with_uuid(machine, form)
        assert found is not None and found.index == 1
    assert gpu_with_uuid(machine, "") is None
    assert gpu_with_uuid(machine, "MIG-1234") is None


def test_a_smoke_test_is_of_the_gpu_it_names_and_else_of_torchs_ordinal() -> None:
    machine = h100_node(2)
    uuid = machine.nvidia.gpus.value[0].uuid.value
    # Torch's cuda:1 is NVML's 1 here, but the worker's own word counts for more: the environment may have changed.
    ran = SmokeTarget("cuda:1", read("smoke", SmokeResult("cuda:1", uuid)))
    crashed = SmokeTarget("cuda:1", missing("smoke", "killed by SIGSEGV"))
    named = [gpu_tested(machine, target) for target in (ran, crashed)]
    assert [found.index for found in named if found is not None] == [0, 1]


def test_links_are_as_fast_as_the_makers_of_pcie_say() -> None:
    assert round(link_bytes_per_second(3, 16) / 1e9, 1) == 15.8
    assert round(link_bytes_per_second(5, 16) / 1e9) == 63
    assert link_bytes_per_second(9, 16) == link_bytes_per_second(6, 16)


def test_index_names_say_their_cuda() -> None:
    for wheels in torch_wheels.WHEELS:
        assert re.fullmatch(r"cu\d{3}", wheels.name)
        assert wheels.name == f"cu{wheels.cuda[0]}{wheels.cuda[1]}"
