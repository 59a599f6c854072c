"""The table of plain `nvidia-smi`: what its rows say, of every driver's form, and what a cut leaves."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor.diagnose import diagnose
from gpudoctor.plugins import chosen_checks
from gpudoctor.read.file import snapshot_of
from gpudoctor.read.pasted import table as reader
from gpudoctor.read.pasted.part import Pasted
from gpudoctor.snapshot import EccCounts, Gpu, Snapshot, UnreadableSnapshot, from_json, to_json
from tests.smi_tables import GEFORCE, SILENT, A, table

MIB = 1024**2
FORMS = ("367.57", "384.81", "418.87.00", "440.33.01", "450.80.02", "515.65.01", "535.54.03", "550.90.07", "580.82.07")


def gpus(text: str) -> tuple[Gpu, ...]:
    return snapshot_of(text.encode()).nvidia.gpus.value


@pytest.mark.parametrize("driver", [*FORMS, "610.57.04"])
def test_every_form_says_the_same(driver: str) -> None:
    text = table(driver=driver, count=2, name="Tesla P100-PCIE", values=A | {"cap": "250W", "used": "310MiB"})
    machine = snapshot_of(text.encode())
    assert machine.nvidia.driver_version.value == driver and machine.origin == f"nvidia-smi (driver {driver})"
    assert machine.nvidia.cuda_version.value_or((13, 0)) == (13, 0) and machine.lacks == ()
    one = machine.nvidia.gpus.value[1]
    assert (one.index, one.name.value, one.pci_bus_id.value) == (1, "Tesla P100-PCIE", "00000000:43:00.0")
    assert (one.temperature_celsius.value, one.performance_state.value) == (33, 0)
    assert (one.power_draw_watts.value, one.power_limit_watts.value) == (71.0, 250.0)
    assert (one.memory_used_bytes.value, one.memory_total_bytes.value) == (310 * MIB, 81559 * MIB)
    assert (one.utilization_gpu_percent.value, one.compute_mode.value) == (0, "default")
    assert (one.persistence_mode.value, one.display_active.value, one.ecc_mode.value) == (True, False, True)
    assert one.ecc_volatile.value == EccCounts(None, 0) and one.processes.value == ()
    assert one.fan_percent.missing_kind == "absent" and one.uuid.reason == "never in output of this kind"
    assert one.mig_mode.value_or(False) is False


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"ecc": "3"}, "ecc_volatile", EccCounts(None, 3)),
        ({"ecc": "Off"}, "ecc_mode", False),
        ({"ecc": "On", "mig": "Enabled"}, "ecc_mode", True),
        ({"mig": "Enabled*"}, "mig_mode_pending", False),
        ({"mig": "Disabled*"}, "mig_mode_pending", True),
        ({"compute": "E. Process"}, "compute_mode", "exclusive-process"),
        ({"compute": "Prohibited"}, "compute_mode", "prohibited"),
        ({"persistence": "Off"}, "persistence_mode", False),
        ({"display": "On"}, "display_active", True),
        ({"fan": "41%"}, "fan_percent", 41),
        ({"draw": "9.5W"}, "power_draw_watts", 9.5),
    ],
)
def test_a_cell_is_a_fact(change: dict[str, str], field: str, value: object) -> None:
    assert getattr(gpus(table({1: change}, count=2))[1], field).value == value


@pytest.mark.parametrize(
    ("change", "fields", "kind"),
    [
        ({"ecc": "N/A"}, ("ecc_mode", "ecc_volatile"), "absent"),
        (
            SILENT,
            ("name", "ecc_volatile", "fan_percent", "temperature_celsius", "power_draw_watts", "mig_mode"),
            "failed",
        ),
        ({"fan": "ERR!"}, ("fan_percent",), "failed"),
        ({"busy": "ERR!"}, ("utilization_gpu_percent",), "failed"),
        ({"draw": "Unknown Error", "cap": "Unknown Error"}, ("power_draw_watts", "power_limit_watts"), "failed"),
        ({"used": "N/A", "total": "N/A"}, ("memory_used_bytes", "memory_total_bytes"), "absent"),
        ({"ecc": "GPU is lost"}, ("ecc_mode",), "lost"),
        ({"persistence": "WDDM"}, ("persistence_mode",), "absent"),
    ],
)
def test_a_word_in_a_cell_is_the_reason(change: dict[str, str], fields: tuple[str, ...], kind: str) -> None:
    found = gpus(table({2: change}, count=4))[2]
    assert [getattr(found, field).missing_kind for field in fields] == [kind] * len(fields)
    assert found.pci_bus_id.value == "00000000:52:00.0"


def test_one_word_may_stand_for_half_a_row() -> None:
    text = table(count=2).splitlines()
    row = next(place for place, line in enumerate(text) if line.startswith("|   1"))
    text[row + 1] = (
        "|" + "GPU requires reset".center(41) + "|" + "Unknown Error".center(24) + "|     ERR!        ERR! |"
    )
    found = gpus("\n".join(text))[1]
    assert "reset" in found.temperature_celsius.reason and "Unknown Error" in found.memory_total_bytes.reason
    assert found.utilization_gpu_percent.reason == found.compute_mode.reason == "nvidia-smi says ERR!"


def test_processes_of_every_kind_are_listed() -> None:
    rows = (
        (0, 4711, "C", "python train.py --a|b", "70123MiB"),
        (0, 4712, "C+G", "C:\\Windows\\explorer.exe", "N/A"),
        (1, 4713, "M+C", "...envs/x/bin/python3.11", "120MiB"),
        (1, 4714, "G", "/usr/lib/xorg/Xorg", "9MiB"),
        (1, 4715, "C", "Insufficient Permissions", "N/A"),
    )
    one, two = gpus(table(count=2, processes=rows))
    first, second = one.processes.value
    assert (first.pid, first.kind, first.command.value) == (4711, "compute", "python train.py --a|b")
    assert first.memory_bytes == 70123 * MIB
    assert (second.kind, second.memory_bytes, second.command.value) == ("compute", None, "C:\\Windows\\explorer.exe")
    assert [each.kind for each in two.processes.value] == ["compute", "graphics", "compute"]
    assert two.processes.value[2].command.missing_kind == "denied"


def test_old_cards_do_not_tell_their_processes() -> None:
    text = table(count=1, driver="367.57", values=GEFORCE).replace(
        "No running processes found", "  0                  Not Supported"
    )
    assert gpus(text)[0].processes.missing_kind == "absent"


def test_mig_devices_are_those_of_their_box() -> None:
    rows = ((0, 2, 0, 0, "26MiB / 40448MiB"), (0, 10, 0, 3, " 9MiB /  9984MiB"))
    one, two = gpus(table({0: {"mig": "Enabled", "ecc": "On", "busy": "N/A"}}, count=2, mig=rows))
    assert [(each.index, each.gpu_instance.value) for each in one.mig_devices.value] == [(0, 2), (3, 10)]
    assert one.mig_devices.value[0].memory_total_bytes.value == 40448 * MIB and two.mig_devices.value == ()
    assert gpus(table({0: {"mig": "Enabled"}}, count=1, mig=()))[0].mig_devices.value == ()
    assert not gpus(table({0: {"mig": "Enabled"}}, count=1))[0].mig_devices.is_read


@pytest.mark.parametrize(
    "pasted",
    [
        lambda text: "(base) ann@gpu17:~$ nvidia-smi\n" + text + "ann@gpu17:~$ df\nFilesystem 1\n",
        lambda text: "".join(f"> {line}\n" for line in text.splitlines()) + "\nOn Monday Bob wrote\n",
        lambda text: "".join(f"    {line}\n" for line in text.splitlines()),
        lambda text: "Hello,\n\n```text\n" + text + "```\nwhat is this?\n",
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\x1b[1m" + text + "\x1b[0m",
    ],
    ids=["session", "quoted", "indented", "fenced", "windows", "coloured"],
)
def test_it_is_found_in_what_people_paste(pasted: object) -> None:
    assert callable(pasted)
    text = table(count=3)
    machine = snapshot_of(pasted(text).encode())
    assert machine.nvidia.gpus == snapshot_of(text.encode()).nvidia.gpus and machine.lacks == ()
    assert snapshot_of(pasted(text).encode("utf-16")).nvidia.gpus == machine.nvidia.gpus


@pytest.mark.thorough
def test_a_cut_anywhere_is_said_and_changes_no_fact() -> None:
    text = table({1: SILENT}, count=3, processes=((0, 77, "C", "python", "3000MiB"),))
    whole = gpus(text)
    for end in range(0, len(text) - 90, 2):
        try:
            machine = snapshot_of(text[:end].encode())
        except UnreadableSnapshot:
            continue
        assert machine.lacks or not machine.nvidia.gpus.is_read, end
        for part, complete in zip(machine.nvidia.gpus.value_or(()), whole, strict=False):
            for field in Gpu.__struct_fields__[1:]:
                reading = getattr(part, field)
                assert not reading.is_read or reading == getattr(complete, field), (end, field)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (table(count=3, first=5), "a part"),
        (table().replace(table(count=3)[:120], ""), ""),
        ("\n".join(table().splitlines()[14:]), "after its title"),
        ("\n".join(table().splitlines()[:8]), "before its first GPU"),
        (table() + table(count=2, driver="535.54.03"), "several machines"),
    ],
)
def test_a_part_is_said(text: str, words: str) -> None:
    assert words in " ".join(snapshot_of(text.encode()).lacks)


def test_of_several_tables_the_one_with_a_fault_is_judged() -> None:
    later = table({3: SILENT})
    machine = snapshot_of((table() + later).encode())
    assert machine.nvidia.gpus == snapshot_of(later.encode()).nvidia.gpus and machine.lacks == ()


def survives(text: str) -> None:
    try:
        machine = snapshot_of(text.encode("utf-8", "replace"))
    except UnreadableSnapshot as error:
        assert str(error) and "\n" not in str(error)
        return
    assert isinstance(machine, Snapshot) and from_json(to_json(machine)) == machine


LINES = [line for driver in FORMS[::3] for line in table({0: SILENT}, count=2, driver=driver, mig=()).splitlines()]


@settings(max_examples=60, deadline=None)
@given(
    lines=st.lists(
        st.one_of(
            st.sampled_from(LINES),
            st.text(st.sampled_from("| +-=019NAEROf/%WMiB:.CP!"), max_size=90),
            st.builds(
                lambda line, cut, more: line[:cut] + more + line[cut:],
                st.sampled_from(LINES),
                st.integers(0, 90),
                st.text(),
            ),
        ),
        max_size=40,
    )
)
def test_survives_any_lines(lines: list[str]) -> None:
    survives("\n".join(["| NVIDIA-SMI 535.54.03   Driver Version: 535.54.03   CUDA Version: 12.2 |", *lines]))


@pytest.mark.parametrize(
    "line", ["|" * 600, "|   0" + " " * 590 + "|", "|  1 " + "a " * 297, "| 0 N/A N/A 7 C " + " a" * 290]
)
def test_long_lines_take_no_long_time(line: str) -> None:
    started = time.monotonic()
    reader.parse(Pasted((*table().splitlines()[:8], *[line] * 300, *table(count=1).splitlines()[-3:])))
    assert time.monotonic() - started < 5


def test_names_are_cut_by_the_table_and_stay_so() -> None:
    assert gpus(table(name="NVIDIA GeForce RTX 4070 Ti SUPER", driver="470.57.02"))[0].name.value.endswith("...")
    assert all(one.index < two.index for one, two in pairwise(gpus(table())))


def test_gpus_whose_names_are_shortened_alike_may_differ() -> None:
    text = table({1: {"total": "11019MiB"}}, driver="470.57.02", count=2, name="NVIDIA GeForce RTX 2080 SUPER")
    report = diagnose(snapshot_of(text.encode()), *chosen_checks(["gpu"]))
    assert "gpu-memory-differs" not in {result.check for result, _ in report.problems}


def test_prose_with_bars_is_no_table() -> None:
    with pytest.raises(UnreadableSnapshot):
        snapshot_of(b"My training hangs. I have | 8 GPUs | of H100 |\n| Processes: | yes |\n")
