"""Reports of `python -m torch.utils.collect_env`, as people paste them, with exit status and what must be told.

Written before gpudoctor read such a report. The form is that of torch/utils/collect_env.py (`env_info_fmt`, 1.0 to
2.13); names and numbers are our own. What is installed is told there and how the devices are is not: without a fault
the answer is "cannot tell" (3).
"""

import re
from io import BytesIO

import pytest
from hypothesis import given, strategies as st

from gpudoctor.diagnose import diagnose
from gpudoctor.explain.explain import explain
from gpudoctor.plugins import chosen_checks
from gpudoctor.read.file import snapshot_of
from gpudoctor.snapshot import UnreadableSnapshot
from tests.pasted_examples import ibstat, port
from tests.smi_tables import table
from tests.test_paste_unseen import answer

L40S = "\nGPU 0: NVIDIA L40S\nGPU 1: NVIDIA L40S\n"
H100 = "\n" + "".join(f"GPU {index}: NVIDIA H100 80GB HBM3\n" for index in range(8))


def report(
    torch: str = "2.6.0+cu124",
    cuda: str = "12.4",
    available: str = "True",
    gpus: str = L40S,
    driver: str = "550.90.07",
    packages: str = "[pip3] numpy==1.26.4\n[pip3] torch==2.6.0\n[conda] Could not collect",
    rocm: str = "N/A",
    system: str = "Ubuntu 22.04.4 LTS (x86_64)",
    head: str = "Collecting environment information...\n",
    xpu: str = "",
) -> str:
    return (
        f"{head}PyTorch version: {torch}\nIs debug build: False\nCUDA used to build PyTorch: {cuda}\n"
        f"ROCM used to build PyTorch: {rocm}\n\nOS: {system}\nGCC version: (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n"
        "Clang version: Could not collect\nCMake version: version 3.30.2\nLibc version: glibc-2.35\n\n"
        "Python version: 3.10.12 (main, Jul 29 2024, 16:56:48) [GCC 11.4.0] (64-bit runtime)\n"
        f"Python platform: Linux-5.15.0-113-generic-x86_64-with-glibc2.35\nIs CUDA available: {available}\n"
        "CUDA runtime version: Could not collect\nCUDA_MODULE_LOADING set to: LAZY\n"
        f"GPU models and configuration: {gpus.rstrip()}\n{chr(10) if gpus.startswith(chr(10)) else ''}"
        f"Nvidia driver version: {driver}\ncuDNN version: Could not collect\n{xpu}HIP runtime version: N/A\n"
        "MIOpen runtime version: N/A\nIs XNNPACK available: True\n\nCPU:\nArchitecture:        x86_64\n"
        "CPU op-mode(s):      32-bit, 64-bit\nVulnerability Tsx async abort: Not affected\n"
        "CPU(s):              64\nVulnerability Spectre v2: Mitigation; IBRS\n\n"
        f"Versions of relevant libraries:\n{packages}\n"
    )


OLD = (
    "PyTorch version: 1.5.0+cu101\nIs debug build: No\nCUDA used to build PyTorch: 10.1\n\nOS: Debian GNU/Linux 10\n"
    "GCC version: (Debian 8.3.0-6) 8.3.0\nCMake version: version 3.13.4\n\nPython version: 3.7\n"
    "Is CUDA available: Yes\nCUDA runtime version: 10.1.243\nGPU models and configuration: GPU 0: Quadro P2000\n"
    "Nvidia driver version: 440.82\ncuDNN version: Could not collect\n\nVersions of relevant libraries:\n"
    "[pip] numpy==1.18.4\n[pip] torch==1.5.0+cu101\n[pip] torchvision==0.6.0+cu101\n[conda] Could not collect\n"
)
MISMATCHED = "[pip3] numpy==1.26.4\n[pip3] torch==2.6.0\n[pip3] torchvision==0.19.1\n[conda] Could not collect"
OF_CONDA = (
    "[pip3] numpy==1.26.4\n[conda] numpy                     1.26.4          py310h5f9d8c6_0\n"
    "[conda] pytorch                   2.3.1           py3.10_cuda12.1_cudnn8.9.2_0    pytorch\n"
    "[conda] torchvision               0.17.2                py310_cu121    pytorch"
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    model.cuda()\n'
    "AssertionError: Torch not compiled with CUDA enabled\n\n### Versions\n\n"
)

OF_VLLM = (
    "\n".join(
        line.replace(":", "    :", 1)
        if re.match(r"(?:PyTorch|Is|CUDA|ROCM|GPU models|Nvidia|cuDNN)[ \w]*:", line)
        else line
        for line in report(available="False")
        .replace("Versions of relevant libraries:", "Versions of relevant libraries\n" + "=" * 30)
        .split("\n")
    )
    + f"{'=' * 30}\n         vLLM Info\n{'=' * 30}\nROCM Version    : Could not collect\nvLLM Version    : 0.9.1\n"
)

CASES: dict[str, tuple[str, int, str]] = {
    "built for the CPU beside two GPUs": (report("2.6.0+cpu", "Could not collect", "False"), 1, "torch-cpu-only"),
    "built for the CPU, CUDA is None": (report("2.6.0", "None", "False"), 1, "torch-cpu-only"),
    "below a traceback": (TRACEBACK + report("2.6.0+cpu", "None", "False", head=""), 1, "torch-cpu-only"),
    "quoted": (
        "\n".join("> " + line for line in report("2.6.0+cpu", "None", "False").split("\n")),
        1,
        "torch-cpu-only",
    ),
    "in a fence": (f"```\n{report('2.6.0+cpu', 'None', 'False', head='')}```\n", 1, "torch-cpu-only"),
    "a driver of before CUDA 12": (report(driver="470.223.02", available="False"), 1, "driver-too-old-for-torch"),
    "CUDA 13 on a driver of 12.4": (
        report("2.9.0+cu130", "13.0", "False", packages="[pip3] torch==2.9.0+cu130"),
        1,
        "driver-too-old-for-torch .*580",
    ),
    "everything fits, and CUDA is not there": (report(available="False"), 1, "torch-cuda-unavailable"),
    "CUDA is there": (report(gpus=H100), 3, r"(?i)collect_env.*not how the devices are"),
    "CUDA is there, of 2020": (OLD, 3, "collect_env"),
    "torchvision of another torch": (report(packages=MISMATCHED), 3, "torch-mixed-versions torchvision 0.19.1.*2.4.1"),
    "torchvision of another torch, by conda": (
        report("2.3.1", "12.1", packages=OF_CONDA),
        3,
        "torch-mixed-versions torchvision 0.17.2.*2.2.2",
    ),
    "a Blackwell with CUDA 12.4": (
        report(gpus="GPU 0: NVIDIA GeForce RTX 5090\n", driver="572.16"),
        1,
        "torch-without-gpu-kernels .*12.0",
    ),
    "a Blackwell with a build of one's own": (
        report("2.5.0a0+e000cf0ad9.nv24.10", gpus="GPU 0: NVIDIA GeForce RTX 5090\n", driver="572.16"),
        3,
        "collect_env",
    ),
    "a Blackwell with CUDA 12.8": (
        report("2.7.1+cu128", "12.8", gpus="GPU 0: NVIDIA GeForce RTX 5090\n", driver="572.16", packages="[pip3] x==1"),
        3,
        "collect_env",
    ),
    "built for ROCm": (
        report(
            "2.6.0+rocm6.2",
            "N/A",
            rocm="6.2.41133",
            gpus="AMD Instinct MI250X (gfx90a:sramecc+:xnack-)\n",
            driver="Could not collect",
        ),
        3,
        "collect_env",
    ),
    "no driver to be seen": (
        report("2.6.0+cu124", "12.4", "False", "No CUDA\n", "No CUDA"),
        3,
        "(?i)no driver|no GPU",
    ),
    "a Mac": (
        report("2.6.0", "None", "False", "Could not collect\n", "Could not collect", system="macOS 15.2 (arm64)"),
        3,
        "collect_env",
    ),
    "torch is not installed": (
        report("N/A", "N/A", "N/A", packages="[pip3] numpy==1.26.4\n[conda] Could not collect"),
        1,
        "torch-missing",
    ),
    "torch is installed and cannot be imported": (report("N/A", "N/A", "N/A"), 1, "torch-import-fails"),
    "cut before it says for what torch was built, beside a table": (
        table() + "\n" + report().partition("CUDA used to build PyTorch")[0],
        3,
        r"\A(?!.*torch-cpu-only)(?s:.*)cut",
    ),
    "cut in the middle": (report().partition("CUDA runtime")[0], 3, "cut"),
    "beside ibstat": (
        report("2.6.0+cpu", "None", "False") + "\n$ ibstat\n" + ibstat(port("mlx5_0")),
        1,
        "torch-cpu-only",
    ),
    "vLLM's collect-env": (OF_VLLM, 1, "torch-cuda-unavailable"),
    "for Intel's GPUs": (
        report(
            "2.7.0+xpu", "None", "False", "Could not collect\n", "Could not collect", xpu="Is XPU available: True\n"
        ),
        3,
        "collect_env",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_exit_status_and_what_is_told(name: str) -> None:
    text, status, told = CASES[name]
    exit_status, words = answer(text)
    assert (exit_status, bool(re.search(told, words))) == (status, True), words


def test_pip_made_the_list_and_so_puts_the_right_torch_there() -> None:
    report_of = diagnose(snapshot_of(CASES["a Blackwell with CUDA 12.4"][0].encode()), *chosen_checks([]))
    lines = [line for _, problem in report_of.problems for line in problem.fix.commands]
    assert lines == [
        "python3 -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu128"
    ]


def test_for_explain_it_is_no_log_of_something_that_failed() -> None:
    told = explain((), stdin=BytesIO(), texts=report("2.6.0+cpu", "None", "False").split("\n"))
    assert (told.causes, told.unknown, told.trouble) == ((), None, ())


@given(st.lists(st.sampled_from(report(gpus=H100).split("\n")) | st.text(max_size=30), max_size=40))
def test_lines_in_any_order_are_read_or_refused(lines: list[str]) -> None:
    try:
        snapshot_of(("PyTorch version: 2.6.0+cu124\n" + "\n".join(lines)).encode("utf-8", "replace"))
    except UnreadableSnapshot as error:
        assert str(error)
