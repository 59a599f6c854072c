"""Pasted output of broken, healthy and cut machines: exit status 1, 0 and 3, as written down before it was run.

The share of them that `python -m tests.test_paste_verdicts` prints stands in docs/measured/verdict.md; a case is of the
kept half by a hash of its name.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from gpudoctor.diagnose import diagnose
from gpudoctor.plugins import chosen_checks
from gpudoctor.read.file import snapshot_of
from tests.pasted_examples import gpu_list, ibstat, ibstatus, ibv_devinfo, lspci, matrix, nvlinks, port, rdma_link
from tests.smi_logs import log
from tests.smi_tables import GEFORCE, SILENT, T4, A, table


class Pasting(NamedTuple):
    """What was pasted, the exit status of `check --from`, and a finding that must be in the report."""

    text: str
    status: int
    finding: str = ""


def words(text: str, fields: str = "temp perf draw cap busy") -> dict[str, str]:
    return dict.fromkeys(fields.split(), text)


def ports(
    count: int = 8, changes: Mapping[int, Mapping[str, str]] | None = None, **every: str
) -> tuple[dict[str, str], ...]:
    return tuple(port(f"mlx5_{index}", **{**every, **(changes or {}).get(index, {})}) for index in range(count))


def quoted(text: str) -> str:
    return "".join(f"> {line}\n" for line in text.splitlines())


def indented(text: str) -> str:
    return "".join(f"      {line}\n" for line in text.splitlines())


def session(**outputs: str) -> str:
    return "".join(f"root@node7:~# {name.replace('_', ' ')}\n{text}" for name, text in outputs.items())


HANDLE = "Unable to determine the device handle for GPU0000:61:00.0: "
TALK = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n"
)
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.82\n"
HOLDER = ((3, 9001, "C", "python train.py", "70000MiB"),)
OLD = A | {"cap": "300W", "total": "16160MiB"}
UNREADABLE, RESET, LOST = "gpu-unreadable", "gpu-recovery-action-needed", "gpu-lost"

BROKEN = {
    "one of eight is silent": Pasting(table({3: SILENT}), 1, UNREADABLE),
    "the first is silent": Pasting(table({0: SILENT}), 1, UNREADABLE),
    "the last is silent": Pasting(table({7: SILENT}), 1, UNREADABLE),
    "all are silent": Pasting(table(dict.fromkeys(range(8), SILENT)), 1, UNREADABLE),
    "a silent one of driver 470": Pasting(table({4: SILENT}, driver="470.57.02", name="NVIDIA A40"), 1, UNREADABLE),
    "a silent one of driver 367": Pasting(table({1: SILENT}, driver="367.57", count=4, values=OLD), 1, UNREADABLE),
    "a silent one of driver 610": Pasting(table({1: SILENT}, driver="610.57.04", count=4), 1, UNREADABLE),
    "a silent one, quoted": Pasting("Hi,\n" + quoted(table({3: SILENT})) + "\nany idea?\n", 1, UNREADABLE),
    "a silent one, indented": Pasting(indented(table({3: SILENT})), 1, UNREADABLE),
    "a silent one, Windows": Pasting(table({3: SILENT}).replace("\n", "\r\n"), 1, UNREADABLE),
    "a silent one, cut below": Pasting(table({1: SILENT})[:2000], 1, UNREADABLE),
    "a silent one in the second table": Pasting(session(nvidia_smi=table()) + table({6: SILENT}), 1, UNREADABLE),
    "power is unknown": Pasting(table({2: words("Unknown Error", "draw cap temp")}), 1, UNREADABLE),
    "only memory is unknown": Pasting(table({2: words("ERR!", "used total")}), 1, UNREADABLE),
    "utilisation and ECC say ERR!": Pasting(table({5: words("ERR!", "busy ecc")}), 1, UNREADABLE),
    "half a row says reset": Pasting(table({5: words("GPU requires reset")}), 1, RESET),
    "memory says reset": Pasting(table({0: words("GPU requires reset", "used total")}), 1, RESET),
    "a row says lost": Pasting(table({5: words("GPU is lost")}), 1, LOST),
    "one fault counted by ECC": Pasting(table({5: {"ecc": "1"}}), 1, "ecc-uncorrected-errors"),
    "many faults counted by ECC": Pasting(table({5: {"ecc": "16384"}}), 1, "ecc-uncorrected-errors"),
    "ECC of a T4": Pasting(table({0: {"ecc": "2"}}, count=1, values=T4, name="Tesla T4"), 1, "ecc-uncorrected-errors"),
    "prohibited": Pasting(table({1: {"compute": "Prohibited"}}), 1, "compute-mode-restrictive"),
    "a handle is missing beside the table": Pasting(f"{HANDLE}Unknown Error\n" + table(count=7), 1, UNREADABLE),
    "a lost one beside the table": Pasting(f"{HANDLE}GPU is lost.  Reboot the system\n" + table(count=7), 1, LOST),
    "a container without": Pasting(
        session(nvidia_smi=table(), docker="Failed to initialize NVML: Unknown Error\n"), 1, "nvml-broken"
    ),
    "mismatch beside lspci": Pasting(session(lspci=lspci(), nvidia_smi=MISMATCH), 1, "nvidia-driver-library-mismatch"),
    "no driver beside lspci": Pasting(session(lspci=lspci(), nvidia_smi=TALK), 1, "nvidia-driver-not-loaded"),
    "one GPU less than the bus": Pasting(session(lspci=lspci(), nvidia_smi=table(count=7)), 1, "gpu-count-below-pci"),
    "two less than the bus": Pasting(
        session(nvidia_smi=table(count=6), lspci=lspci(form="nnk")), 1, "gpu-count-below-pci"
    ),
    "rev ff": Pasting(lspci(silent=(3,)), 1, "gpu-silent-on-pci"),
    "rev ff with -nn": Pasting(lspci(silent=(0, 7), form="nn"), 1, "gpu-silent-on-pci"),
    "rev ff beside a table": Pasting(
        session(nvidia_smi=table(count=7), lspci=lspci(silent=(7,))), 1, "gpu-silent-on-pci"
    ),
    "three links inactive": Pasting(nvlinks(dead={3: (2, 3, 4)}), 1, "nvlink-inactive"),
    "links inactive beside a table": Pasting(
        session(nvidia_smi=table(), links=nvlinks(dead={0: (17,)})), 1, "nvlink-inactive"
    ),
    "a GPU without links": Pasting(matrix(alone=(5,)), 1, "nvlink-inactive"),
    "a GPU without links, named": Pasting(session(nvidia_smi=table(), topo=matrix(alone=(0,))), 1, "nvlink-inactive"),
    "a silent one beside healthy ports": Pasting(
        session(nvidia_smi=table({3: SILENT}), ibstat=ibstat(*ports())), 1, UNREADABLE
    ),
    "a log and a table with a fault": Pasting(session(log=log(), nvidia_smi=table({3: SILENT})), 1, UNREADABLE),
    "a fan that fails": Pasting(table({3: {"fan": "ERR!", "temp": "ERR!"}}), 1, UNREADABLE),
    "a silent MIG parent": Pasting(table({0: SILENT}, count=2, mig=()), 1, UNREADABLE),
}

DRIVERS = (
    "367.57",
    "384.81",
    "390.48",
    "396.26",
    "410.79",
    "418.87.00",
    "430.50",
    "440.33.01",
    "450.80.02",
    "460.32.03",
)
NEWER = (
    "470.57.02",
    "495.29.05",
    "510.47.03",
    "515.65.01",
    "525.60.13",
    "535.54.03",
    "545.23.08",
    "550.90.07",
    "555.42.06",
)
NEWEST = ("560.35.03", "565.57.01", "570.86.15", "575.57.08", "580.82.07", "590.48.01", "595.80", "610.57.04")
MIG = ((0, 2, 0, 0, "26MiB / 40448MiB"), (0, 3, 0, 1, "17MiB / 20096MiB"))
DESKTOP = ((0, 1720, "G", "/usr/bin/gnome-shell", "173MiB"), (0, 4556, "G", "/usr/lib/xorg/Xorg", "3MiB"))
WDDM = GEFORCE | {"persistence": "WDDM", "display": "On", "used": "900MiB"}

HEALTHY = {
    **{
        f"eight of driver {driver}": Pasting(table(driver=driver, values=OLD, name="Tesla V100-SXM2-16GB"), 0)
        for driver in DRIVERS
    },
    **{f"four of driver {driver}": Pasting(table(driver=driver, count=4, name="NVIDIA A40"), 0) for driver in NEWER},
    **{f"eight H100 of driver {driver}": Pasting(table(driver=driver), 0) for driver in NEWEST},
    "one GeForce": Pasting(table(count=1, values=GEFORCE, name="NVIDIA GeForce RTX 3090"), 0),
    "two GeForce": Pasting(table(count=2, values=GEFORCE, name="NVIDIA GeForce RTX 3090"), 0),
    "a desktop": Pasting(table(count=1, values=GEFORCE, processes=DESKTOP, name="NVIDIA GeForce RTX 3090"), 0),
    "Windows": Pasting(table(count=1, values=WDDM, name="NVIDIA GeForce RTX 3090").replace("\n", "\r\n"), 0),
    "Windows with processes": Pasting(
        table(
            count=1,
            values=WDDM,
            name="NVIDIA GeForce RTX 3090",
            processes=((0, 90, "C+G", "C:\\x\\explorer.exe", "N/A"),),
        ),
        0,
    ),
    "WSL": Pasting(table(count=1, values=GEFORCE | {"draw": "N/A", "cap": "N/A"}, name="NVIDIA GeForce RTX 3090"), 0),
    "a T4": Pasting(table(count=1, values=T4, name="Tesla T4"), 0),
    "four T4": Pasting(table(count=4, values=T4, name="Tesla T4"), 0),
    "sixteen V100": Pasting(table(count=16, values=OLD, name="Tesla V100-SXM3-32GB", driver="450.80.02"), 0),
    "memory is shared with the CPU": Pasting(
        table(count=1, values=GEFORCE | words("N/A", "used total"), name="NVIDIA GB10"), 0
    ),
    "MIG": Pasting(table({0: {"mig": "Enabled", "ecc": "On", "busy": "N/A"}}, count=1, mig=MIG), 0),
    "a mix of MIG and whole": Pasting(table({0: {"mig": "Enabled", "ecc": "On", "busy": "N/A"}}, count=2, mig=MIG), 0),
    "somebody trains": Pasting(table({3: {"busy": "99%", "used": "70004MiB"}}, processes=HOLDER), 0, "gpu-memory-held"),
    "no persistence": Pasting(table(values=A | {"persistence": "Off"}), 0, "persistence-mode-off"),
    "ECC is off": Pasting(table(values=A | {"ecc": "Off"}), 0),
    "exclusive": Pasting(table(values=A | {"compute": "E. Process"}), 0, "compute-mode-restrictive"),
    "a session": Pasting(session(nvidia_smi=table()) + "root@node7:~# exit\n", 0),
    "quoted": Pasting(quoted(table()), 0),
    "indented": Pasting(indented(table()), 0),
    "fenced": Pasting("Look:\n```\n" + table() + "```\nfine?\n", 0),
    "twice, idle and busy": Pasting(table() + table({1: {"busy": "15%"}}), 0),
    "with its list": Pasting(session(nvidia_smi=table(), list=gpu_list()), 0),
    "with links": Pasting(session(nvidia_smi=table(), links=nvlinks()), 0),
    "with the matrix": Pasting(session(nvidia_smi=table(), topo=matrix(nics=4)), 0),
    "with the bus": Pasting(session(lspci=lspci(form="nnk"), nvidia_smi=table()), 0),
    "with ports": Pasting(session(nvidia_smi=table(), ibstat=ibstat(*ports())), 0),
    "ibstat": Pasting(ibstat(*ports()), 0),
    "ibstatus": Pasting(ibstatus(*ports()), 0),
    "ibv_devinfo": Pasting(ibv_devinfo(*ports()), 0),
    "rdma link of InfiniBand": Pasting(rdma_link(*ports()), 0),
    "trailing blanks are lost": Pasting("\n".join(line.rstrip() for line in table().splitlines()) + "\n", 0),
    "a fan that turns": Pasting(table({0: {"fan": "63%"}}, count=2, values=GEFORCE, name="NVIDIA RTX A6000"), 0),
    "rdma link of RoCE": Pasting(rdma_link(*ports(layer="Ethernet")), 0),
}

WHOLE = table()
SECOND = WHOLE.index("|   1")
CUT = {
    "nothing": Pasting("\n\n", 3),
    "the title": Pasting(WHOLE[: WHOLE.index("| GPU  Name")], 3),
    "the headings": Pasting(WHOLE[: WHOLE.index("|   0")], 3),
    "in the first row": Pasting(WHOLE[: WHOLE.index("|   0") + 60], 3),
    "in the second GPU": Pasting(WHOLE[: SECOND + 140], 3),
    "after a GPU": Pasting(WHOLE[:SECOND], 3),
    "after the GPUs": Pasting(WHOLE[: WHOLE.index("| Processes:") - 100], 3),
    "in the processes": Pasting(WHOLE[: WHOLE.index("| Processes:") + 200], 3),
    "before the last line": Pasting("\n".join(WHOLE.splitlines()[:-1]), 3),
    "without the top": Pasting("\n".join(WHOLE.splitlines()[14:]), 3),
    "GPUs 4 to 7": Pasting(table(count=4, first=4), 3),
    "the old form": Pasting(table(driver="384.81")[:1500], 3),
    "quoted and cut": Pasting(quoted(WHOLE[:2500]), 3),
    "two machines": Pasting(table() + table(count=2, driver="550.90.07"), 3),
    "a list": Pasting(gpu_list(), 3),
    "a list with MIG": Pasting(gpu_list(1, mig=4), 3),
    "links that are up": Pasting(nvlinks(), 3),
    "a whole matrix": Pasting(matrix(), 3),
    "the bus": Pasting(lspci(), 3),
    "ports, cut": Pasting(ibstat(*ports())[:-40], 3),
}

ALL = {"broken": BROKEN, "healthy": HEALTHY, "cut": CUT}
CASES = [(kind, name) for kind, cases in ALL.items() for name in cases]


def is_right(kind: str, name: str) -> str:
    """Empty, or how the answer differs."""
    case = ALL[kind][name]
    report = diagnose(snapshot_of(case.text.encode()), *chosen_checks([]))
    found = {result.check for result, _ in report.problems}
    if report.exit_status != case.status:
        return f"{report.exit_status} for {case.status}: {sorted(found)} {report.sight.lacking}"
    return "" if not case.finding or case.finding in found else f"{case.finding} is not in {sorted(found)}"


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_the_exit_status_and_the_finding(kind: str, name: str) -> None:
    assert is_right(kind, name) == ""


def test_there_are_as_many_as_are_told() -> None:
    assert {kind: len(cases) for kind, cases in ALL.items()} == {"broken": 40, "healthy": 60, "cut": 20}


def main() -> None:
    """Prints the table."""
    count, right = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for kind, name in CASES:
        half = "keep" if hashlib.sha256(name.encode()).digest()[0] % 2 else "tune"
        wrong = is_right(kind, name)
        count[kind, half] += 1
        right[kind, half] += not wrong
        if wrong:
            print(f"{half} {kind} {name!r}: {wrong}")
    for kind, half in sorted(count):
        print(f"| {kind} | {half} | {right[kind, half]} of {count[kind, half]} |")


if __name__ == "__main__":
    main()
