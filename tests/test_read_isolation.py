"""Virtual machines, containers and PID namespaces, told apart by what each looks like from inside."""

from pathlib import Path

import pytest

from gpudoctor.read.isolation import container_of, read_isolation
from gpudoctor.read.system import System
from tests.fake_tree import INITIAL, Link, Refusing, fake

BARE = {"/proc/cpuinfo": "flags : fpu vmx\n", "/proc/version": "Linux version 6.8.0-60-generic\n"}
GUEST = {"/proc/cpuinfo": "flags : fpu hypervisor\n", "/proc/version": "Linux version 6.8.0-60-generic\n"}
ARM = {"/proc/cpuinfo": "Features : fp asimd\n", "/proc/version": "Linux version 6.8.0-60-generic\n"}
DMI = "/sys/class/dmi/id"
GVISOR_OLD = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n"


def dmi(vendor: str, product: str) -> dict[str, str]:
    return {f"{DMI}/sys_vendor": vendor + "\n", f"{DMI}/product_name": product + "\n"}


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (BARE | dmi("Supermicro", "SYS-821GE-TNHR"), "none"),
        (BARE | dmi("Amazon EC2", "p5.metal"), "none"),
        (BARE, "none"),
        (GUEST | dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)"), "kvm"),
        (GUEST | dmi("Amazon EC2", "p5.48xlarge"), "kvm"),
        (GUEST | dmi("Google", "Google Compute Engine"), "kvm"),
        (GUEST | dmi("Microsoft Corporation", "Virtual Machine"), "hyperv"),
        (GUEST | dmi("VMware, Inc.", "VMware7,1"), "vmware"),
        (GUEST | {"/sys/hypervisor/type": "xen\n"}, "xen"),
        (GUEST | dmi("Some Cloud", "Instance"), "vm"),
        (GUEST | {"/sys/firmware/acpi/tables/FACP": b"FACP\x14\x01\x00\x00\x06fFIRECKFCVMFADT"}, "firecracker"),
        (GUEST | {"/proc/cmdline": "reboot=k virtio_mmio.device=4K@0xd0000000:5\n"}, "firecracker"),
        (GUEST | {"/proc/version": "Linux version 5.15.167.4-microsoft-standard-WSL2\n"}, "wsl2"),
        (BARE | {"/proc/version": GVISOR_OLD}, "gvisor"),
        (ARM | {"/proc/version": "Linux version 4.19.0-gvisor\n"}, "gvisor"),
        (ARM | dmi("Supermicro", "ARS-111GL-NHR"), "none"),
        (ARM | dmi("Amazon EC2", "g5g.metal"), "none"),
        (ARM | dmi("Amazon EC2", "g5g.xlarge"), "kvm"),
        (ARM | {"/proc/device-tree/hypervisor/compatible": "linux,kvm\0"}, "kvm"),
    ],
)
def test_virtualization(tmp_path: Path, files: dict[str, str | bytes | Link], name: str) -> None:
    assert read_isolation(fake(tmp_path, files))["host.virtualization"].value == name


def test_a_machine_that_tells_nothing_is_not_called_bare_metal(tmp_path: Path) -> None:
    """ACS advice follows from "none", and it is harmful inside a virtual machine."""
    assert not read_isolation(fake(tmp_path, ARM))["host.virtualization"].is_read
    assert not read_isolation(fake(tmp_path / "empty", {}))["host.virtualization"].is_read


def mountinfo(root: str, source: str, filesystem: str = "ext4", options: str = "rw") -> dict[str, str]:
    line = f"27 1 254:0 {root} / rw,relatime shared:1 - {filesystem} {source} {options}\n"
    return {"/proc/self/mountinfo": "22 27 0:21 / /proc rw - proc proc rw\n" + line}


DISK = mountinfo("/", "/dev/nvme0n1p2")
OVERLAY = mountinfo("/", "overlay", "overlay", "rw,lowerdir=/l,upperdir=/u")
HOST_PIDS: dict[str, str | bytes | Link] = {"/proc/self/ns/pid": Link(INITIAL)}
OWN_PIDS: dict[str, str | bytes | Link] = {"/proc/self/ns/pid": Link("pid:[4026532500]")}


@pytest.mark.parametrize(
    ("files", "environment", "name"),
    [
        (DISK | HOST_PIDS, {}, "none"),
        # A disk image made of a container image, booted in a virtual machine.
        (DISK | HOST_PIDS | {"/.dockerenv": ""}, {}, "none"),
        # Diskless cluster nodes.
        (OVERLAY | HOST_PIDS, {}, "none"),
        (OVERLAY | OWN_PIDS | {"/.dockerenv": ""}, {}, "docker"),
        (OVERLAY | HOST_PIDS | {"/.dockerenv": ""}, {}, "docker"),
        (OVERLAY | OWN_PIDS | {"/run/.containerenv": ""}, {}, "podman"),
        (OVERLAY | OWN_PIDS | {"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        (OVERLAY | OWN_PIDS | {"/proc/1/cgroup": "0::/kubepods.slice/pod1\n"}, {}, "kubernetes"),
        (OVERLAY | OWN_PIDS | {"/proc/1/cgroup": "0::/kubepods/pod1\n"}, {}, "kubernetes"),
        (mountinfo("/", "/dev/loop0", "squashfs") | HOST_PIDS, {"APPTAINER_CONTAINER": "/x.sif"}, "singularity"),
        (mountinfo("/", "/dev/loop0", "squashfs") | HOST_PIDS | {"/.singularity.d/": ""}, {}, "singularity"),
        (mountinfo("/var/lib/enroot/data/user-1/pyxis_7", "/dev/sda1") | HOST_PIDS, {}, "enroot"),
        (mountinfo("/", "rpool/lxc/100", "zfs") | OWN_PIDS | {"/run/systemd/container": "lxc\n"}, {}, "lxc"),
        (OVERLAY | OWN_PIDS | {"/proc/1/environ": "PATH=/bin\0container=systemd-nspawn\0"}, {}, "container"),
        (DISK | OWN_PIDS, {}, "container"),
        (
            mountinfo("/", "overlay", "overlay", "rw,lowerdir=/var/lib/docker/overlay2/l/A") | HOST_PIDS,
            {},
            "docker",
        ),
    ],
)
def test_container(
    tmp_path: Path, files: dict[str, str | bytes | Link], environment: dict[str, str], name: str
) -> None:
    assert read_isolation(fake(tmp_path, files, environment))["host.container"].value == name


def test_the_environment_of_process_1_may_be_denied(tmp_path: Path) -> None:
    tree = fake(tmp_path, DISK | HOST_PIDS | {"/proc/1/environ": ""})
    assert read_isolation(Refusing(tree, "/proc/1/"))["host.container"].value == "none"


def test_pid_namespace(tmp_path: Path) -> None:
    field = "host.private_pid_namespace"
    assert read_isolation(fake(tmp_path / "a", HOST_PIDS))[field].value is False
    assert read_isolation(fake(tmp_path / "b", OWN_PIDS))[field].value is True
    assert not read_isolation(fake(tmp_path / "c", {}))[field].is_read


def test_hints_in_folders_that_may_not_be_entered_hint_at_nothing(tmp_path: Path) -> None:
    class Closed(System):
        def exists(self, path: str) -> bool:
            if path.startswith("/var/run/secrets/"):
                raise PermissionError(13, "Permission denied")
            return super().exists(path)

    assert read_isolation(Closed(fake(tmp_path, DISK | OWN_PIDS).root, {}))["host.container"].value == "container"


NUMBER = "3f2a91c0d7e4" + "5" * 52


@pytest.mark.parametrize(
    ("cgroup", "environment", "root", "named"),
    [
        (f"0::/system.slice/docker-{NUMBER}.scope\n", {}, "/", "docker 3f2a91c0d7e4"),
        (f"5:memory:/docker/{NUMBER}\n0::/\n", {}, "/", "docker 3f2a91c0d7e4"),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{NUMBER}.scope\n", {}, "/", "containerd 3f2a91c0d7e4"),
        (f"0::/kubepods/burstable/pod12ab/{NUMBER}\n", {}, "/", "kubernetes 3f2a91c0d7e4"),
        (f"0::/machine.slice/libpod-{NUMBER}.scope\n", {}, "/", "podman 3f2a91c0d7e4"),
        ("0::/slurm/job_4711\n", {"APPTAINER_CONTAINER": "/images/train.sif"}, "/", "apptainer train.sif"),
        ("0::/slurm/job_4711\n", {}, "/data/enroot/user-1000/pyxis_4711", "enroot pyxis_4711"),
        ("0::/user.slice/session-2.scope\n", {}, "/", ""),
    ],
)
def test_the_container_of_another_process(
    tmp_path: Path, cgroup: str, environment: dict[str, str], root: str, named: str
) -> None:
    system = fake(
        tmp_path,
        {
            "/proc/7/cgroup": cgroup,
            "/proc/7/mountinfo": f"31 23 0:28 {root} / rw - ext4 /dev/sda1 rw\n",
            "/proc/7/ns/mnt": Link("mnt:[2]"),
            "/proc/self/ns/mnt": Link("mnt:[1]"),
        },
    )
    assert container_of(system, 7, environment) == named
