"""Accelerators on the PCI bus, their device files and modules; bridges with ACS; IOMMU groups."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from gpudoctor.read.iommu import acs_control, is_pci_express, read_acs, read_iommu_groups
from gpudoctor.read.pci import names_by_id, read_device_nodes, read_modules, read_pci
from gpudoctor.snapshot import AcsBridge, DeviceNode, PciDevice
from tests.fake_tree import Link, Refusing, fake

BUS = "/sys/bus/pci/devices"
Files = dict[str, str | bytes | Link]


def device(bus_id: str, vendor: str, number: str, device_class: str, **more: str) -> Files:
    names = {"vendor": vendor, "device": number, "class": device_class, **more}
    return {f"{BUS}/{bus_id}/{name}": f"{text}\n" for name, text in names.items()}


H100 = {
    **device(
        "0000:1b:00.0",
        "0x10de",
        "0x2330",
        "0x030200",
        numa_node="1",
        current_link_width="16",
        max_link_width="16",
        current_link_speed="2.5 GT/s PCIe",
        max_link_speed="32.0 GT/s PCIe",
    ),
    f"{BUS}/0000:1b:00.0/driver": Link("../../../bus/pci/drivers/nvidia"),
}


def test_a_gpu_with_its_link_and_driver(tmp_path: Path) -> None:
    assert read_pci(fake(tmp_path, H100))["accelerators.pci"].value == (
        PciDevice(
            bus_id="0000:1b:00.0",
            vendor="0x10de",
            device="0x2330",
            device_class="0x030200",
            driver="nvidia",
            numa_node=1,
            link_width=16,
            link_width_max=16,
            link_speed="2.5 GT/s PCIe",
            link_speed_max="32.0 GT/s PCIe",
        ),
    )


@pytest.mark.parametrize(
    ("vendor", "number", "device_class", "wanted"),
    [
        ("0x10de", "0x2330", "0x030200", True),
        ("0x10de", "0x22a3", "0x068000", True),  # NVSwitch
        ("0x10de", "0x22ba", "0x040300", False),  # a graphics card's sound
        ("0x1002", "0x74a1", "0x120000", True),  # MI300X
        ("0x1002", "0x1636", "0x030000", True),
        ("0x8086", "0x0bd5", "0x038000", True),  # Data Center GPU Max
        ("0x8086", "0x0b25", "0x088000", False),  # a CPU's data streaming accelerator
        ("0x1ae0", "0x0062", "0x120000", True),  # TPU
        ("0x1ae0", "0x0042", "0x020000", False),  # Google's NIC
        ("0x1d0f", "0x7364", "0x120000", True),  # Trainium 2
        ("0x1d0f", "0xec20", "0x020000", False),  # Amazon's NIC
        ("0x1da3", "0x1020", "0x120000", True),  # Gaudi 2
        ("0x1234", "0x1111", "0x030000", False),  # QEMU's VGA
        ("0x1a03", "0x2000", "0x030000", False),  # a server's BMC
        ("0x15ad", "0x0405", "0x030000", False),  # VMware's VGA
    ],
)
def test_what_counts_as_an_accelerator(
    tmp_path: Path, vendor: str, number: str, device_class: str, wanted: bool
) -> None:
    found = read_pci(fake(tmp_path, device("0000:00:05.0", vendor, number, device_class)))["accelerators.pci"].value
    assert len(found) == wanted


def test_a_device_that_answers_nothing_has_no_link(tmp_path: Path) -> None:
    """What sysfs shows of a GPU that fell off the bus."""
    lost = {"current_link_width": "63", "max_link_width": "255", "current_link_speed": "Unknown"}
    files = device("0000:1b:00.0", "0x10de", "0x2330", "0x030200", numa_node="-1", **lost)
    (found,) = read_pci(fake(tmp_path, files))["accelerators.pci"].value
    assert (found.link_width, found.link_width_max, found.link_speed, found.driver) == (None, None, "", "")


def test_a_machine_without_pci_has_no_devices_but_one_without_sysfs_is_unread(tmp_path: Path) -> None:
    assert read_pci(fake(tmp_path / "a", {"/sys/bus/virtio/": ""}))["accelerators.pci"].value == ()
    assert read_acs(fake(tmp_path / "a", {}))["host.acs_bridges"].value == ()
    assert read_pci(fake(tmp_path / "b", {}))["accelerators.pci"].missing_kind == "failed"
    assert read_acs(fake(tmp_path / "b", {}))["host.acs_bridges"].missing_kind == "failed"


# --- device files and modules -------------------------------------------------------------------------------------


def test_device_files(tmp_path: Path) -> None:
    wanted = (
        "/dev/accel/accel0",
        "/dev/dri/renderD128",
        "/dev/dxg",
        "/dev/kfd",
        "/dev/nvidia-caps/nvidia-cap1",
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/vfio/devices/vfio0",
        "/dev/vfio/vfio",
    )
    others = ("/dev/dri/card0", "/dev/null", "/dev/nvme0")
    files: Files = dict.fromkeys((*wanted, *others), "")
    found = read_device_nodes(fake(tmp_path, files | {"/dev/nvidia9": Link("gone")}))["accelerators.device_nodes"]
    assert tuple(node.path for node in found.value) == wanted


def test_a_device_file_has_its_owners_names_and_our_rights(tmp_path: Path) -> None:
    node = tmp_path / "dev/nvidia0"
    system = fake(tmp_path, {"/dev/nvidia0": ""})
    node.chmod(0o660)
    status = node.stat()
    fake(tmp_path, {"/etc/passwd": f"ann:x:{status.st_uid}:1::/:/\n", "/etc/group": "other:x:99999:\n"})
    assert read_device_nodes(system)["accelerators.device_nodes"].value == (
        DeviceNode("/dev/nvidia0", True, True, 0o660, "ann", str(status.st_gid)),
    )


@pytest.mark.parametrize(
    ("files", "modules"),
    [
        ({"/proc/modules": "nvidia_uvm 1 0 - Live 0x0\nnvidia 5 2 nvidia_uvm,\next4 1 1\n"}, ("nvidia", "nvidia_uvm")),
        ({"/proc/modules": "", "/sys/module/i915/": ""}, ("i915",)),  # built in
        ({"/sys/module/amdgpu/": "", "/sys/module/kvm/": ""}, ("amdgpu",)),  # a kernel without loadable modules
    ],
)
def test_modules(tmp_path: Path, files: Files, modules: tuple[str, ...]) -> None:
    assert read_modules(fake(tmp_path, files))["accelerators.kernel_modules"].value == modules


def test_modules_that_cannot_be_seen_are_not_none(tmp_path: Path) -> None:
    assert read_modules(fake(tmp_path, {}))["accelerators.kernel_modules"].missing_kind == "failed"


# --- ACS ----------------------------------------------------------------------------------------------------------


def configuration(*capabilities: tuple[int, bytes], express: bool = True, size: int = 4096) -> bytes:
    """A bridge's configuration space with extended capabilities one after the other."""
    space = bytearray(size)
    if express:
        space[0x34] = 0x40
        space[0x40:0x42] = bytes((0x01, 0x50))  # power management, then
        space[0x50:0x52] = bytes((0x10, 0x00))  # PCI Express
    place = 0x100
    for number, (identifier, body) in enumerate(capabilities):
        following = 0 if number == len(capabilities) - 1 else place + 0x40
        space[place : place + 4] = (identifier | 1 << 16 | following << 20).to_bytes(4, "little")
        space[place + 4 : place + 4 + len(body)] = body
        place += 0x40
    return bytes(space)


def acs(control: int) -> tuple[int, bytes]:
    return 0x000D, b"\x7f\x00" + control.to_bytes(2, "little")


AER = (0x0001, b"")


@pytest.mark.parametrize(
    ("config", "redirects"),
    [
        (configuration(AER, acs(0x1D)), True),
        (configuration(acs(0x01)), True),
        (configuration(acs(0x04)), True),
        (configuration(acs(0x08)), True),
        (configuration(AER, acs(0x00)), False),
        (configuration(acs(0x52)), False),  # blocking, upstream forwarding and direct translation do not redirect
        (configuration(AER), False),
        (configuration(size=256, express=False), False),  # conventional PCI
    ],
)
def test_acs_of_a_bridge(tmp_path: Path, config: bytes, redirects: bool) -> None:
    files: Files = {**device("0000:16:01.0", "0x1000", "0xc030", "0x060400"), f"{BUS}/0000:16:01.0/config": config}
    assert read_acs(fake(tmp_path, files | H100))["host.acs_bridges"].value == (AcsBridge("0000:16:01.0", redirects),)


@pytest.mark.parametrize(
    ("config", "kind", "word"),
    [
        (configuration(acs(0x1D))[:64], "denied", "root"),
        (configuration(acs(0x1D))[:256], "failed", "extended"),
    ],
)
def test_acs_that_is_out_of_sight_is_not_off(tmp_path: Path, config: bytes, kind: str, word: str) -> None:
    files: Files = {**device("0000:16:01.0", "0x1000", "0xc030", "0x060400"), f"{BUS}/0000:16:01.0/config": config}
    found = read_acs(fake(tmp_path, files))["host.acs_bridges"]
    assert found.missing_kind == kind
    assert word in found.reason


def test_capabilities_that_point_at_themselves_end() -> None:
    loop = bytearray(configuration(AER, AER))
    loop[0x140:0x144] = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    assert acs_control(bytes(loop)) == 0


@given(st.binary(max_size=600))
def test_any_configuration_space_can_be_walked(config: bytes) -> None:
    is_pci_express(config)
    try:
        assert 0 <= acs_control(config) <= 0xFFFF
    except (PermissionError, ValueError):
        pass


@given(st.text())
def test_any_passwd_can_be_parsed(text: str) -> None:
    names_by_id(text)


# --- IOMMU --------------------------------------------------------------------------------------------------------

GROUPS = "/sys/kernel/iommu_groups"


@pytest.mark.parametrize(
    ("files", "types"),
    [
        ({f"{GROUPS}/0/type": "identity\n", f"{GROUPS}/1/type": "DMA-FQ\n", f"{GROUPS}/2/type": "DMA-FQ\n"}, None),
        ({f"{GROUPS}/0/devices/": ""}, {"unknown": 1}),  # kernels before 5.11
        ({f"{GROUPS}/": ""}, {}),
        ({"/sys/kernel/mm/": ""}, {}),
    ],
)
def test_iommu_groups(tmp_path: Path, files: Files, types: dict[str, int] | None) -> None:
    expected = {"identity": 1, "DMA-FQ": 2} if types is None else types
    assert read_iommu_groups(fake(tmp_path, files))["host.iommu_group_types"].value == expected


def test_iommu_groups_that_cannot_be_seen_are_not_off(tmp_path: Path) -> None:
    assert read_iommu_groups(fake(tmp_path / "a", {}))["host.iommu_group_types"].missing_kind == "failed"
    system = Refusing(fake(tmp_path / "b", {f"{GROUPS}/0/type": "identity\n"}), GROUPS)
    assert read_iommu_groups(system)["host.iommu_group_types"].missing_kind == "denied"
