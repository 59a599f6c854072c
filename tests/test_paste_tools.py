"""What tools other than plain `nvidia-smi` say, alone and together, and what a cut leaves of it."""

import time

import pytest
from hypothesis import given, settings, strategies as st

from gpudoctor.diagnose import diagnose
from gpudoctor.expecting import expecting
from gpudoctor.plugins import chosen_checks
from gpudoctor.read.file import snapshot_of
from gpudoctor.read.pasted.tools import parts_of
from gpudoctor.snapshot import DRIVER_NOT_TOLD, Snapshot, UnreadableSnapshot, from_json, to_json
from tests.pasted_examples import (
    gpu_list,
    ibstat,
    ibstatus,
    ibv_devinfo,
    lspci,
    matrix,
    nvlinks,
    port,
    rdma_link,
    rocm_smi,
    uuid,
)
from tests.smi_tables import SILENT, table


def of(text: str) -> Snapshot:
    return snapshot_of(text.encode())


def test_a_list_names_gpus_and_mig_devices() -> None:
    machine = of(gpu_list(2, mig=3))
    one = machine.nvidia.gpus.value[1]
    assert (one.name.value, one.uuid.value, machine.origin) == ("NVIDIA H100 80GB HBM3", uuid(1), "nvidia-smi -L")
    assert [device.name.value for device in one.mig_devices.value] == ["1g.10gb"] * 3
    assert machine.lacks and not one.temperature_celsius.is_read and not one.nvlinks.is_read


def test_links_are_active_or_not() -> None:
    gpus = of(nvlinks(2, 4, {1: (2,)})).nvidia.gpus.value
    assert [[link.active for link in gpu.nvlinks.value] for gpu in gpus] == [[True] * 4, [True, True, False, True]]


def test_links_that_were_cut_off_are_not_inactive() -> None:
    text = nvlinks(2, 6)
    for end in range(text.index("Link 2"), len(text) - 3):
        gpus = of(text[:end]).nvidia.gpus.value
        assert all(link.active for gpu in gpus for link in gpu.nvlinks.value_or(())), end
        assert not gpus[-1].nvlinks.is_read or len(gpus[-1].nvlinks.value) == 6 or len(gpus) == 1, end


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("NVML: Unable to retrieve Nvlink information as all links are inActive", None),
        ("Nvlink queries are not supported for Devices in MIG mode", "absent"),
    ],
)
def test_a_gpu_without_links_says_why(line: str, kind: str | None) -> None:
    assert of(gpu_list(1) + line + "\n").nvidia.gpus.value[0].nvlinks.missing_kind == kind


def test_the_matrix_tells_links_and_cpus() -> None:
    machine = of(matrix(8, "NV18", alone=(5,), nics=2))
    gpus = machine.nvidia.gpus.value
    assert [len(gpu.nvlinks.value) for gpu in gpus] == [18, 18, 18, 18, 18, 0, 18, 18]
    assert (gpus[0].numa_node.value, gpus[7].numa_node.value) == (0, 1)
    assert gpus[7].cpu_affinity.value[:2] == (56, 57) and len(gpus[7].cpu_affinity.value) == 112
    assert not machine.nvidia.topology.is_read
    direct = of(matrix(4, "NV4"))
    assert [len(gpu.nvlinks.value) for gpu in direct.nvidia.gpus.value] == [12] * 4
    bus = of(matrix(3, "PIX"))
    assert [level.level for level in bus.nvidia.topology.value] == ["single"] * 3
    assert not bus.nvidia.gpus.value[0].nvlinks.is_read
    assert len(of(matrix(1)).nvidia.gpus.value) == 1


PORTS = (port("mlx5_0"), port("mlx5_1", state="Down", physical="Polling", rate="10"))


TOOLS = {"ibstat": ibstat, "ibstatus": ibstatus, "ibv_devinfo": ibv_devinfo, "rdma link": rdma_link}


@pytest.mark.parametrize("tool", TOOLS)
def test_ports_have_states(tool: str) -> None:
    machine = of(TOOLS[tool](*PORTS))
    one, two = (device.ports[0] for device in machine.network.rdma_devices.value)
    assert (one.state.value, two.state.value, one.link_layer.value) == ("ACTIVE", "DOWN", "InfiniBand")
    assert machine.lacks == () and machine.origin == tool
    if tool in ("ibstat", "ibstatus"):
        assert (one.rate_gbps.value, one.lid.value, one.subnet_manager_lid.value) == (400.0, 12, 1)
        assert two.physical_state.value == "Polling"


def test_what_two_tools_say_of_a_port_is_together() -> None:
    machine = of("$ ibv_devinfo\n" + ibv_devinfo(*PORTS) + "$ ibstat\n" + ibstat(*PORTS))
    device = machine.network.rdma_devices.value[0]
    assert device.board_id.value == "MT_0000000838" and device.ports[0].rate_gbps.value == 400.0
    ethernet = of(rdma_link(port("mlx5_3", layer="Ethernet")))
    assert ethernet.network.rdma_devices.value[0].interfaces == ("ens3np0",)


def test_lspci_tells_accelerators_only() -> None:
    devices = of(lspci(3, silent=(1,))).accelerators.pci.value
    assert [(each.bus_id, each.is_silent, each.driver) for each in devices] == [
        ("0000:1b:00.0", False, DRIVER_NOT_TOLD),
        ("0000:43:00.0", True, DRIVER_NOT_TOLD),
        ("0000:52:00.0", False, DRIVER_NOT_TOLD),
    ]
    known = of(lspci(1, form="nnk")).accelerators.pci.value[0]
    assert (known.driver, known.device, known.model) == ("nvidia", "0x2330", "H100 SXM5 80GB")
    assert not of(
        "17:00.0 Ethernet controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"
    ).accelerators.pci.is_read


def test_lspci_tells_links() -> None:
    text = lspci(1) + "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported\n"
    device = of(text + "\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)\n").accelerators.pci.value[0]
    assert (device.link_width, device.link_width_max) == (8, 16)
    assert (device.link_speed, device.link_speed_max) == ("2.5 GT/s PCIe", "32.0 GT/s PCIe")


def test_several_tools_tell_one_machine() -> None:
    parts = {
        "nvidia-smi": table(),
        "nvidia-smi -L": gpu_list(),
        "nvidia-smi nvlink -s": nvlinks(),
        "nvidia-smi topo -m": matrix(),
        "ibstat": ibstat(*PORTS),
        "lspci | grep -i nvidia": lspci(),
    }
    text = "".join(f"root@gpu17:~# {name}\n{output}" for name, output in parts.items())
    machine = of(text)
    gpu = machine.nvidia.gpus.value[3]
    assert len(machine.nvidia.gpus.value) == 8 and machine.lacks == ()
    assert (gpu.uuid.value, gpu.temperature_celsius.value, gpu.numa_node.value) == (uuid(3), 33, 0)
    assert len(gpu.nvlinks.value) == 18 and len(machine.accelerators.pci.value) == 8
    assert len(machine.network.rdma_devices.value) == 2
    assert machine.origin.startswith("nvidia-smi, nvidia-smi nvlink -s, nvidia-smi topo -m, ibstat, lspci")


def test_a_list_of_another_machine_is_not_mixed_in() -> None:
    machine = of(table(count=2) + gpu_list(2, "NVIDIA A40"))
    assert "another machine" in " ".join(machine.lacks) and not machine.nvidia.gpus.value[0].uuid.is_read
    assert machine.origin.endswith("; not read: nvidia-smi -L of another machine")
    assert machine.origin.startswith("nvidia-smi (driver"), "what is not mixed in is no source"


def survives(text: str) -> None:
    try:
        machine = snapshot_of(text.encode("utf-8", "replace"))
    except UnreadableSnapshot as error:
        assert str(error) and "\n" not in str(error)
        return
    assert from_json(to_json(machine)) == machine


@pytest.mark.parametrize(
    "prompt",
    [
        "$ df -h",
        "# exit",
        "root@gpu17:~# cat x",
        "(base) ann@gpu17:/data/my runs$ df",
        "[ann@gpu17 ~]$",
        "ann@mac ~ % ls",
        "bash-5.1$ ls",
        "PS C:\\Users\\ann> dir",
        "C:\\Users\\ann>",
        "```",
        "=== next ===",
    ],
)
def test_a_prompt_ends_an_output(prompt: str) -> None:
    machine = of("CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n" + prompt + "\nState: Down\nLink layer: InfiniBand\n")
    port = machine.network.rdma_devices.value[0].ports[0]
    assert port.state.value == "ACTIVE" and not port.link_layer.is_read


@pytest.mark.parametrize(
    "line",
    [
        "a@" + "b" * 280,
        "a" * 60 + "@" + "b" * 80 + "c" * 200,
        "GPU 0: " + "a " * 280,
        "GPU 0: a (UUID: " + "GPU-" * 140,
        "00:00.0 A" + " " * 500,
        "link a/1 " + "a b " * 140,
        "GPU0 GPU1 " + "GPU2 " * 110,
    ],
)
def test_long_lines_take_no_long_time(line: str) -> None:
    started = time.monotonic()
    parts_of("\n".join(["CA 'mlx5_0'", *[line] * 2000]))
    assert time.monotonic() - started < 2


WHOLE = (
    gpu_list(2, mig=2),
    nvlinks(2, 3),
    matrix(3, nics=2),
    ibstat(*PORTS),
    ibstatus(*PORTS),
    ibv_devinfo(*PORTS),
    rdma_link(*PORTS),
    rocm_smi(2),
    rocm_smi(2, "all"),
    lspci(3, (1,), "nnk"),
    table({0: SILENT}, count=1),
)


@pytest.mark.parametrize("form", ["early", "now", "all"])
def test_rocm_smi_tells_how_many_gpus_and_never_that_they_are_well(form: str) -> None:
    for text in (rocm_smi(8, form), "".join(f"> {line}\n" for line in rocm_smi(8, form).splitlines())):
        report = diagnose(of(text), *chosen_checks([]))
        assert report.exit_status == 3 and not report.problems
        assert "rocm-smi (8 AMD GPUs) tells" in report.sight.lacking[0]


@pytest.mark.parametrize(
    "line",
    [
        "ERROR:root:Driver not initialized (amdgpu not found in modules)",
        "ERROR: ROCm SMI returned 8 (the expected value is 0)",
    ],
)
def test_why_rocm_smi_shows_nothing_is_a_finding(line: str) -> None:
    report = diagnose(of(f"$ rocm-smi\ncat: /sys/module/amdgpu/initstate: No such file\n{line}\n"), *chosen_checks([]))
    assert [result.check for result, _ in report.problems] == ["amd-gpu-driver-missing"]
    assert report.exit_status == 1


def test_rocm_smi_is_held_against_what_was_expected() -> None:
    report = diagnose(expecting(of(rocm_smi(7, "all")), "8xMI300X"), *chosen_checks([]))
    assert [problem.summary for _, problem in report.problems] == ["7 GPUs of 8 MI300X expected (--expect)"]


@pytest.mark.thorough
@pytest.mark.parametrize("text", WHOLE)
def test_survives_being_cut_anywhere(text: str) -> None:
    for end in range(0, len(text), 5):
        survives(text[:end])


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from([line for text in WHOLE for line in text.splitlines()]),
            st.builds(
                lambda line, cut, more: line[:cut] + more + line[cut:],
                st.sampled_from([line for text in WHOLE for line in text.splitlines()]),
                st.integers(0, 60),
                st.text(max_size=12),
            ),
            st.text(max_size=30),
        ),
        max_size=60,
    )
)
def test_survives_any_lines(lines: list[str]) -> None:
    survives("\n".join(lines))
