"""What people paste besides: diagnostics' tables, `--query-gpu`, other programs' reports of an environment, and what
is only named. After real ones that were found in public repositories, in our own names and numbers."""

import re
from io import BytesIO

import pytest
from hypothesis import given, strategies as st

from gpudoctor.explain.explain import explain
from gpudoctor.read.file import snapshot_of
from gpudoctor.snapshot import UnreadableSnapshot
from tests.test_paste_unseen import answer

RULE = "+---------------------------+------------------------------------------------+\n"


def dcgmi(*rows: tuple[str, str], end: str = RULE) -> str:
    body = "".join(
        f"|-----  {name[1:]}  ----------+{'-' * 48}|\n" if name[:1] == "#" else f"| {name:<25} | {told:<46} |\n"
        for name, told in rows
    )
    heading = f"| {'Diagnostic':<25} | {'Result':<46} |\n"
    return f"Successfully ran diagnostic for group.\n{RULE}{heading}{RULE.replace('-', '=')}{body}{end}"


WELL = (("#Deployment", ""), ("Denylist", "Pass"), ("Inforom", "Pass"), ("#Integration", ""), ("PCIe", "Pass - All"))
FAILED = (
    *WELL,
    ("#Hardware", ""),
    ("GPU Memory", "Pass - GPUs: 0, 1, 2"),
    ("", "Fail - GPU: 3"),
    ("Warning", "GPU 3 A row could not be written back as it wa"),
    ("", "s read, and stays so"),
)
OF_DCGM_4 = (("#Hardware", ""), ("memory", "Fail"), ("", "GPU0: Pass"), ("", "GPU1: Fail"), ("Warning: GPU1", "No."))
JSON = (
    '{"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [{"name": "Inforom", '
    '"results": [{"status": "Pass"}]}]}, {"category": "Hardware", "tests": [{"name": "GPU Memory", "results": '
    '[{"gpu_ids": "2", "status": "%s", "warnings": "a word was wrong"}]}]}]}, "version": "3.1"}'
)
BURN = "10.0%  proc'd: 12 (900 Gflop/s)   errors: 0   temps: 61 C\nKilling processes.. done\n\nTested 2 GPUs:\n"
ASKED = "index, name, driver_version, temperature.gpu, utilization.gpu [%], memory.used [MiB]\n"
LOST = "1, NVIDIA L40S, 550.90.07, [GPU is lost], [GPU is lost], [GPU is lost]\n"
DETECTRON2 = (
    "----------------------  ----------------------------------\nsys.platform            linux\n"
    "Python                  3.10.4 (main, Mar 31 2022, 08:41:55) [GCC 7.5.0]\nnumpy                   1.26.4\n"
    "PyTorch                 2.4.1+{build} @/opt/env/lib/python3.10/site-packages/torch\n"
    "GPU available           {there}\n"
    "GPU 0,1                 NVIDIA {model} (arch=8.9)\nDriver version          {driver}\n"
    "torchvision             0.19.1+{build} @/opt/env/lib/python3.10/site-packages/torchvision\n"
)
MMENGINE = (
    "------------------------------------------------------------\nEnvironment info:\nsys.platform: linux\n"
    "Python: 3.10.4 (main) [GCC 7.5.0]\nCUDA available: True\nGPU 0,1,2,3: NVIDIA A40\nCUDA_HOME: /usr/local/cuda\n"
    "PyTorch: 2.4.1+cu121\nPyTorch compiling details: PyTorch built with:\n  - CUDA Runtime 12.1\n"
    "TorchVision: 0.18.1+cu121\n"
)
TRANSFORMERS = (
    "Copy-and-paste the text below in your GitHub issue.\n\n- `transformers` version: 4.45.2\n"
    "- Platform: Linux-6.5.0-x86_64-with-glibc2.35\n- Python version: 3.11.9\n- Accelerate config:    not found\n"
    "- PyTorch version (GPU?): {torch}\n- Using GPU in script?: <fill in>\n- GPU type: NVIDIA GeForce RTX 5080\n"
)
LIGHTNING = (
    "* CUDA:\n        - GPU:\n                - NVIDIA GeForce RTX 5090\n                - NVIDIA GeForce RTX 5090\n"
    "        - available:         True\n        - version:           12.1\n* Lightning:\n"
    "        - lightning:         2.4.0\n        - torch:             2.4.1+cu121\n* Packages:\n"
)
PIP = "Package      Version\n------------ ------------\nnumpy        1.26.4\ntorch        {}\ntorchvision  0.18.1\n"
CONDA = (
    "# packages in environment at /opt/env:\n#\n# Name                    Version                   Build  Channel\n"
    "python                    3.10.4               h12_0\npytorch                   2.4.1           "
    "py3.10_cuda12.1_cudnn9_0    pytorch\ntorchvision               0.18.1              py310_cu121    pytorch\n"
)
XFORMERS = (
    "WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:\n"
    "    PyTorch 2.3.0+cu121 with CUDA 1201 (you have 2.2.2+cu121)\n    Python  3.10.14 (you have 3.10.4)\n"
    "xFormers 0.0.26\nmemory_efficient_attention.cutlassF:               unavailable\n"
)
INTEL = (
    "$ xpu-smi\n|            Intel XPU-SMI v2.0    Driver: 9A0    Level Zero: 1.2            |\n"
    "| GPU  Name                    Persistence-M   | Bus-Id            Disp.A   |   Volatile Uncorr. ECC |\n"
    "|   0  Intel(R) Arc(TM) A770   Off             | 0000:03:00.0      Off      |               Disabled |\n"
)
NPU = (
    "| NPU   Name   | Health   | Power(W)   Temp(C)   Hugepages-Usage(page)|\n"
    "| 0     910B3  | OK       | 90.1       41        0    / 0             |\n"
)
PORT = (
    "CA 'mlx5_0'\n\tNumber of ports: 1\n\tFirmware version: 28.39.1002\n\tPort 1:\n\t\tState: {}\n"
    "\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tBase lid: 7\n\t\tSM lid: 1\n\t\tLink layer: InfiniBand\n"
)
CASES: dict[str, tuple[str, int, str]] = {
    "dcgmi: all passed": (dcgmi(*WELL), 3, "3 tests passed"),
    "dcgmi: a GPU failed": (dcgmi(*FAILED), 1, r"GPU Memory failed \(GPU: 3\): GPU 3 A row .* and stays so"),
    "dcgmi 4": (dcgmi(*OF_DCGM_4), 1, r"memory failed \(GPU 1\): No\."),
    "dcgmi: the software failed": (dcgmi(*WELL[:2], ("Persistence Mode", "Fail")), 3, "Persistence Mode failed"),
    "dcgmi: a GPU in use": (dcgmi(*WELL[3:4], ("PCIe", "Fail - All"), ("Warning", "GPU 0 out of memory")), 3, "PCIe"),
    "dcgmi: cut": (dcgmi(*WELL, end=""), 3, "cut"),
    "dcgmi -j, a GPU failed": (JSON % "FAIL", 1, r"GPU Memory failed \(GPU: 2\): a word was wrong"),
    "dcgmi -j, all passed": (JSON % "Pass", 3, "2 tests passed"),
    "gpu-burn: well": (f"{BURN}\tGPU 0: OK\n\tGPU 1: OK\n", 3, "2 GPUs computed rightly"),
    "dcgmi: without its heading": (dcgmi(*FAILED).partition("Integration")[2], 1, r"GPU Memory failed \(GPU: 3\)"),
    "gpu-burn: nothing was begun": (
        f"Couldn't init a GPU test: Error: CUDA_ERROR_UNKNOWN\n{BURN}\tGPU 0: OK\n\tGPU 1: OK\n",
        3,
        r"\A(?!.*rightly)(?s:.*)could not begin on a GPU",
    ),
    "gpu-burn: died": (
        "20.0%  proc'd: -1 (0 Gflop/s) - 4 (9 Gflop/s)   errors: -8  (DIED!)- 0   temps: 31 C\n",
        3,
        "died on GPU 0",
    ),
    "gpu-burn: wrong results": (f"{BURN}\tGPU 0: OK\n\tGPU 1: FAULTY\n", 1, "wrong results on GPU 1"),
    "--query-gpu": (ASKED + "0, NVIDIA L40S, 550.90.07, 41, 0 %, 3 MiB\n", 3, "what was asked for"),
    "--query-gpu, a GPU is lost": (ASKED + "0, NVIDIA L40S, 550.90.07, 41, 0 %, 3 MiB\n" + LOST, 1, "gpu-lost GPU 1"),
    "--query-gpu, nounits, a watch": (ASKED + "0, NVIDIA L40S, 550.90.07, 41, 0, 3\n" * 90, 3, r"1x|asked for"),
    "--query-gpu, cut": (ASKED + "0, NVIDIA L40S, 550.9", 3, "cut"),
    "--query-gpu, noheader": (
        "0, GPU-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f, NVIDIA L40S, 41\n",
        2,
        "without its heading",
    ),
    "another table": ("name, size, kind\nbob, 3, big\n", 2, "neither|--query"),
    "detectron2": (DETECTRON2.format(build="cu121", there="Yes", model="L4", driver="550.54.15"), 3, "detectron2"),
    "detectron2, built for the CPU": (
        DETECTRON2.format(build="cpu", there="False", model="L4", driver="550.54.15"),
        1,
        "torch-cpu-only",
    ),
    "detectron2, an old driver": (
        DETECTRON2.format(build="cu121", there="False", model="L4", driver="470.82.01"),
        1,
        "driver-too-old-for-torch",
    ),
    "mmengine, torchvision of another torch": (MMENGINE, 3, "torch-mixed-versions torchvision 0.18.1.*2.3.1"),
    "transformers, no kernels for a Blackwell": (
        TRANSFORMERS.format(torch="2.4.1+cu121 (True)"),
        1,
        "torch-without-gpu-kernels",
    ),
    "transformers, of PyPI": (TRANSFORMERS.format(torch="2.8.0 (True)"), 3, "transformers env"),
    "accelerate, no CUDA": (
        "- `Accelerate` version: 0.34.0\n- PyTorch version (GPU?): 2.4.1+cu121 (False)\n",
        3,
        "sees no CUDA",
    ),
    "diffusers": (
        "- `diffusers` version: 0.29.2\n- PyTorch version (GPU?): 2.4.1+cu121 (True)\n",
        3,
        "diffusers-cli env",
    ),
    "Lightning": (LIGHTNING, 1, "torch-without-gpu-kernels"),
    "nightlies' numbers lag": (
        PIP.format("2.8.0.dev20250407+cu128").replace("0.18.1", "0.22.0.dev20250408"),
        3,
        "pip list",
    ),
    "torchaudio 2.0.2 asks for torch 2.0.1": (
        PIP.format("2.0.1+cu118").replace("torchvision  0.18.1", "torchaudio   2.0.2"),
        3,
        r"\A(?!.*mixed)(?s:.*)pip list",
    ),
    "pip list, torchvision of another torch": (PIP.format("2.4.1+cu121"), 3, "torch-mixed-versions"),
    "pip list": (PIP.format("2.3.1+cu121"), 3, r"\A(?!.*mixed)(?s:.*)pip list"),
    "conda list, torchvision of another torch": (CONDA, 3, "torch-mixed-versions"),
    "xFormers of another torch": (XFORMERS, 3, r"built for torch 2\.3\.0\+cu121 and finds 2\.2\.2"),
    "Intel's table is not NVIDIA's": (INTEL, 3, "xpu-smi"),
    "Habana's rows without their title": (
        "|   0  HL-225              N/A  | 0000:33:00.0     N/A |                   0  |\n"
        "| N/A   27C   N/A    75W / 600W |    768MiB / 98304MiB |     0%           N/A |\n",
        3,
        "hl-smi",
    ),
    "the only port is disabled": (
        PORT.format("Down").replace("LinkUp", "Disabled"),
        0,
        r"rdma-port-down no RDMA port is ACTIVE: mlx5_0 is DOWN \(Disabled\)",
    ),
    "gres.conf": ("AutoDetect=nvml\nName=gpu Type=h100 File=/dev/nvidia0\n", 2, "gres.conf"),
    "show_gids": ("DEV     PORT    INDEX   GID     IPv4    VER     DEV\n---     ----\n", 2, "show_gids"),
    "variables": ("NCCL_DEBUG=INFO\nNCCL_IB_DISABLE=1\n", 2, "variables of an environment"),
    "npu-smi without its title": (NPU, 3, "npu-smi"),
    "a port's state with words behind it": (
        PORT.replace("SM lid: 1", "SM lid: 0").format("Initializing\t# waits"),
        0,
        "without-subnet-manager",
    ),
    "a port's state that nobody knows": (PORT.format("Dreaming"), 3, "state of mlx5_0 is not understood"),
    "a kernel log of no GPU": ("[    1.234567] usb 1-1: new device\n", 2, "kernel log.*explain"),
    "SLURM's nodes": (
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\nall*  up  infinite  2  drain  a[1-2]\n",
        2,
        "SLURM",
    ),
    "nccl-tests": ("# nThread 1 nGpus 8 minBytes 8\n# Avg bus bandwidth    : 61.2\n", 2, "nccl-tests"),
    "kubectl describe": ("Capacity:\n  cpu: 64\n  nvidia.com/gpu: 8\nAllocatable:\n  cpu: 64\n", 2, "kubectl"),
}
NO_ERRORS = (
    "Is CUDA available: No\nCUDA runtime version: No CUDA\nNvidia driver version: No CUDA\ncuDNN version: No CUDA\n",
    "    Remapped Rows\n        Pending                           : No\n"
    "        Remapping Failure Occurred        : No\n",
    "GPU: 0\n    POWER:\n        THROTTLE_STATUS: UNTHROTTLED\n",
    "OS: Debian GNU/Linux 12\n\n[... truncated for brevity ...]\n",
    "[ 5309.327420] OOM killer enabled.\n[ 5309.327421] Restarting tasks ... done.\n",
)


@pytest.mark.parametrize("name", CASES)
def test_the_exit_status_and_what_is_told(name: str) -> None:
    text, status, told = CASES[name]
    exit_status, words = answer(text)
    assert (exit_status, bool(re.search(told, words))) == (status, True), words


@pytest.mark.parametrize("text", NO_ERRORS)
def test_a_field_that_says_no_is_no_error(text: str) -> None:
    assert explain((), stdin=BytesIO(), texts=text.split("\n")).unknown is None


LINES = [
    line
    for text in (
        dcgmi(*FAILED),
        BURN,
        "\tGPU 0: FAULTY",
        ASKED,
        LOST,
        DETECTRON2,
        MMENGINE,
        TRANSFORMERS,
        PIP,
        CONDA,
        XFORMERS,
    )
    for line in text.split("\n")
]


@given(st.lists(st.sampled_from(LINES) | st.text(max_size=30), max_size=30))
def test_lines_in_any_order_are_read_or_refused(lines: list[str]) -> None:
    try:
        snapshot_of("\n".join(lines).encode("utf-8", "replace"))
    except UnreadableSnapshot as error:
        assert str(error)


@given(
    st.recursive(
        st.text(max_size=9) | st.integers() | st.none(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["test_categories", "category", "tests", "name", "results", "status", "warnings", "entity_id"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_json_calls_itself_dcgm_is_read_or_refused(inside: object) -> None:
    import json

    try:
        snapshot_of(json.dumps({"DCGM": inside, "x": {"test_categories": 1}}).encode())
    except UnreadableSnapshot as error:
        assert str(error)
