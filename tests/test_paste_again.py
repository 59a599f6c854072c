"""A second set of pastes, written with exit status and finding before gpudoctor was run on them: forms in which people
really posted nvidia-smi, ibstat, docker's and rocm-smi's output, in our own numbers.

First run and now: docs/measured/verdict.md; `python -m tests.test_paste_again` counts.
"""

import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.diagnose import diagnose
from gpudoctor.plugins import chosen_checks
from gpudoctor.read.file import snapshot_of
from gpudoctor.report import Report
from gpudoctor.snapshot import UnreadableSnapshot
from tests.pasted_examples import gpu_list, ibstat, matrix, nvlinks, port, rdma_link, rocm_smi
from tests.smi_logs import log
from tests.smi_tables import GEFORCE, SILENT, A, table

FIXTURES = Path(__file__).parent / "fixtures" / "nvidia_smi"
ADA = GEFORCE | {"fan": "30%", "draw": "4W", "cap": "130W", "used": "1MiB", "total": "20475MiB", "ecc": "Off"}
V100 = A | {"draw": "29W", "cap": "250W", "total": "16160MiB", "mig": "N/A"}
BANNER = (
    "\n==========\n== CUDA ==\n==========\n\nCUDA Version 12.4.1\n\nThis container image is governed by a licence.\n\n"
)
DOCKER = (
    "docker: Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime "
    "create failed: runc create failed: unable to start container process: error during container init: error running "
    "prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: "
    "initialization error: nvml error: driver not loaded: unknown.\n"
)
WATCHED = (
    "WARNING: Tue Mar  5 15:17:06 2026 - nvidia-smi failed to query current status. Watchdog has 60 seconds to react\n"
    "========= SMI Query output with errors @[GPU{}]:\n"
    "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost. Reboot the system to recover this GPU\n"
    "========= End of SMI query output\n"
)
VGPU = A | {"fan": "N/A", "temp": "N/A", "draw": "N/A", "cap": "N/A", "ecc": "0", "total": "10240MiB", "used": "0MiB"}
XML = (FIXTURES / "515-t4.xml").read_text()
EIGHT = tuple(port(f"mlx5_{each}") for each in range(8))
DOWN = port("mlx5_8", state="Down", physical="Polling", rate="10", lid="868", sm="334")
ETHERNET = port("mlx5_8", layer="Ethernet", rate="100", lid="0", sm="0")
UNUSED = port("mlx5_9", layer="Ethernet", rate="40", lid="0", sm="0", state="Down", physical="Disabled")
LOST = "Unable to determine the device handle for GPU0000:65:00.0: Unknown Error\n"


def changed(before: str, after: str, text: str = "") -> str:
    whole = text or log()
    assert before in whole
    return whole.replace(before, after, 1)


def screen(text: str, lines: int = 24) -> str:
    return "\n".join(["Every 2.0s: nvidia-smi    node7: Mon Mar  2 10:11:12 2026", "", *text.splitlines()][:lines])


CASES: dict[str, tuple[str, int, str]] = {
    # broken: 1, and the finding
    "a fan of sixteen Ada": (
        table(
            {
                each: {"bus": f"00000000:{each + 16:02X}:00.0", "fan": "ERR!" if each == 14 else "30%"}
                for each in range(16)
            },
            count=16,
            values=ADA,
            name="NVIDIA RTX 4000 Ada Gene...",
        ),
        1,
        "gpu-unreadable",
    ),
    "the power of a V100 of Azure": (
        table({1: {"draw": "ERR!", "bus": "00008ED0:00:00.0"}}, count=4, values=V100, driver="470.82.01"),
        1,
        "gpu-unreadable",
    ),
    "a container and a GPU without handle": (BANNER + table(count=1) + LOST, 1, "gpu-unreadable"),
    "an address that somebody shortened": (LOST.replace("0000:65:00.0", " 000:BA:80.0"), 1, "gpu-unreadable"),
    "a watchdog's log": ("".join(WATCHED.format(each) for each in range(3)), 1, "gpu-lost"),
    "docker logs": ((gpu_list(1) * 2) + "Failed to initialize NVML: Unknown Error\n" * 2, 1, "nvml-broken"),
    "docker's own error": (DOCKER, 1, "nvidia-driver-not-loaded"),
    "a log that wants a drain": ((FIXTURES / "565-h100.txt").read_text(), 1, "gpu-recovery-action-needed"),
    "a log that wants a reboot": ((FIXTURES / "590-l40s.txt").read_text(), 1, "gpu-recovery-action-needed"),
    "rows wait": (
        changed(
            "        Pending                           : No\n", "        Pending                           : Yes\n"
        ),
        1,
        "row-remap-pending",
    ),
    "a row could not be remapped": (
        changed("Remapping Failure Occurred        : No", "Remapping Failure Occurred        : Yes"),
        1,
        "row-remap-failed",
    ),
    "a reset is required": (
        changed(
            "    Serial Number",
            "    GPU Reset Status\n        Reset Required                    : Yes\n"
            "        Drain and Reset Recommended       : N/A\n    Serial Number",
        ),
        1,
        "gpu-recovery-action-needed",
    ),
    "ECC in XML": (
        changed("<dram_uncorrectable>4<", "<dram_uncorrectable>3<", XML),
        1,
        "ecc-uncorrected-errors",
    ),
    "SRAM over its threshold": (
        changed("SRAM Threshold Exceeded       : No", "SRAM Threshold Exceeded       : Yes"),
        0,
        "sram-errors-over-threshold",
    ),
    "links that cannot be asked": (
        nvlinks(4)
        + "GPU 4: NVIDIA H100 80GB HBM3 (UUID: GPU-0a0b0c04-1111-2222-3333-444444444444)\n"
        + "NVML: Unable to retrieve NVLink information as all links are inActive\n",
        1,
        "nvlink-inactive",
    ),
    "fewer links in the matrix": (
        "\n".join(line.replace("NV18", "NV12") if line.startswith("GPU5") else line for line in matrix().split("\n")),
        1,
        "nvlink-inactive",
    ),
    "lost, from PowerShell": (
        "\ufeff" + table({0: dict.fromkeys(("fan", "temp", "perf", "draw", "cap"), "GPU is lost")}, count=1),
        1,
        "gpu-lost",
    ),
    "silent, on one line": (" ".join(table({2: SILENT}, count=4).splitlines()), 1, "gpu-unreadable"),
    "a driver that is not there, of AMD": (
        "cat: /sys/module/amdgpu/initstate: No such file or directory\n"
        "ERROR:root:Driver not initialized (amdgpu not found in modules)\n",
        1,
        "amd-gpu-driver-missing",
    ),
    "one of nine ports polls": (ibstat(*EIGHT, DOWN), 0, "rdma-rail-missing"),
    # healthy: 0
    "eight A100 with short names": (
        table(values=A | {"cap": "400W"}, name="NVIDIA A100-SXM...", driver="525.85.12"),
        0,
        "",
    ),
    "quoted twice": ("".join(f"> > {line}\n" for line in table(driver="590.48.01").splitlines()), 0, ""),
    "four GB200": (
        table(
            {each: {"bus": f"0000000{each}:01:00.0"} for each in range(4)},
            count=4,
            values=A | {"cap": "1200W", "total": "189471MiB"},
            name="NVIDIA GB200",
        ),
        0,
        "",
    ),
    "seven instances": (
        table(
            {0: {"mig": "Enabled", "ecc": "On", "busy": "N/A"}},
            count=2,
            mig=tuple((0, each + 7, 0, each, "12MiB /  9856MiB") for each in range(7)),
        ),
        0,
        "",
    ),
    "InfiniBand beside unused Ethernet": (ibstat(*EIGHT, ETHERNET, UNUSED), 0, ""),
    "rdma link of both": (rdma_link(*EIGHT, ETHERNET), 0, ""),
    "a German date": (table().replace("Mon Mar  2 10:11:12 2026", "Mo 2. Mär 10:11:12 CET 2026"), 0, ""),
    "a session of three": (
        f"[root@n1 ~]# nvidia-smi\n{table()}[root@n1 ~]# nvidia-smi topo -m\n{matrix(nics=8)}"
        f"[root@n1 ~]# nvidia-smi nvlink -s\n{nvlinks()}",
        0,
        "",
    ),
    "a log": (log(), 0, ""),
    "a long process name": (
        table(processes=((0, 9001, "C", "/opt/" + "x" * 230 + "/python", "900MiB"),)),
        0,
        "",
    ),
    "four RTX PRO": (table(count=4, values=ADA | {"cap": "600W"}, name="NVIDIA RTX PRO 6000 Blac..."), 0, ""),
    "a container": (BANNER + table(count=2), 0, ""),
    "watch, tall": (screen(table(), 200), 0, ""),
    "a virtual GPU": (table(count=1, values=VGPU, name="GRID A100-10C"), 0, ""),
    "no-break spaces": (table().replace(" ", "\u00a0"), 0, ""),
    # cut or partial: 3
    "ibstat that panics": (
        ibstat(*EIGHT[:4]) + "ibpanic: [1323906] main: stat of IB device 'mlx5_4' failed: No such file or directory\n",
        3,
        "",
    ),
    "rocm-smi, cut": (rocm_smi(8)[:420], 3, ""),
    "a box of processes, cut": (
        table(processes=((0, 9001, "C", "python train.py", "900MiB"), (1, 9002, "C", "python", "9MiB")))[:-170],
        3,
        "",
    ),
    "a log, cut": (log()[: len(log()) // 2], 3, ""),
    "watch, 24 lines": (screen(table()), 3, ""),
}


def is_wrong(name: str) -> str:
    """Empty, or how the answer differs."""
    text, status, finding = CASES[name]
    try:
        report = diagnose(
            snapshot_of(text.encode("utf-16-le" if text.startswith("\ufeff") else "utf-8")), *chosen_checks([])
        )
    except UnreadableSnapshot as error:
        return f"{getattr(error, 'status', 2)} for {status}: {error}"
    found = {result.check for result, _ in report.problems}
    if report.exit_status != status:
        return f"{report.exit_status} for {status}: {sorted(found)} {report.sight.lacking}"
    return "" if not finding or finding in found else f"{finding} is not in {sorted(found)}"


@pytest.mark.parametrize("name", CASES)
def test_the_exit_status_and_the_finding(name: str) -> None:
    assert is_wrong(name) == ""


def before_each(words: str) -> Callable[[str], bytes]:
    return lambda text: "".join(f"{words}{line}\n" for line in text.split("\n")).encode()


SHAPES: dict[str, Callable[[str], bytes]] = {
    "quoted twice": before_each(">> "),
    "a mail": lambda text: b"Hi,\n\n" + before_each("> ")(text) + b"\nthanks\n",
    "indented": before_each("\t"),
    "PowerShell": lambda text: ("\ufeff" + text.replace("\n", "\r\n")).encode("utf-16-le"),
    "a fence": lambda text: f"see:\n```text\n{text}\n```\n".encode(),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0").encode(),
    "HTML": lambda text: before_each("&gt; ")(text.replace("<", "&lt;")),
    "a terminal": lambda text: f"me@host:~$ x\n{text}\nme@host:~$ \n".encode(),
    "colours": lambda text: ("\x1b[1m" + text.replace("|", "\x1b[0m|")).encode(),
    "cat -n": lambda text: "".join(f"{n:6}\t{each}\n" for n, each in enumerate(text.split("\n"), 1)).encode(),
    "kubectl --timestamps --prefix": before_each("[pod/gpu-0/main] 2026-03-02T10:11:12.5Z "),
    "pdsh": before_each("n07: "),
    "docker compose": before_each("trainer-1  | "),
}


@functools.cache
def as_it_is(name: str) -> Report:
    return diagnose(snapshot_of(CASES[name][0].encode()), *chosen_checks([]))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_is_read_however_it_was_pasted(shape: str) -> None:
    for name in ("the power of a V100 of Azure", "rows wait", "one of nine ports polls", "a watchdog's log", "a log"):
        plain, shaped = as_it_is(name), diagnose(snapshot_of(SHAPES[shape](CASES[name][0])), *chosen_checks([]))
        found = [{result.check for result, _ in each.problems} for each in (plain, shaped)]
        assert (found[1], shaped.exit_status) == (found[0], plain.exit_status), name


def test_lines_of_two_machines_are_not_read_as_one() -> None:
    text = "".join(f"n0{number % 2}: {line}\n" for number, line in enumerate(table().splitlines()))
    with pytest.raises(UnreadableSnapshot):
        snapshot_of(text.encode())


def main() -> None:
    """Prints what is wrong, and how many are right."""
    right, count = Counter[int](), Counter[int]()
    for name, (_, status, _) in CASES.items():
        wrong = is_wrong(name)
        count[status] += 1
        right[status] += not wrong
        if wrong:
            print(f"{name!r}: {wrong}")
    print({status: f"{right[status]} of {count[status]}" for status in count})


if __name__ == "__main__":
    main()
