"""What this machine is inside of: a virtual machine, a container, a PID namespace of its own."""

import re
from collections.abc import Mapping

from gpudoctor.lazy import lazy_re
from gpudoctor.read import mounts
from gpudoctor.read.process import PID_NAMESPACE, in_first_pid_namespace
from gpudoctor.read.reader import Facts, reader
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import missing, read

DMI_NAMES = (
    # (what the vendor or product says, the hypervisor); systemd's detect-virt knows the same (src/basic/virt.c)
    ("vmware", "vmware"),
    ("microsoft corporation virtual machine", "hyperv"),
    ("hyper-v", "hyperv"),
    ("xen", "xen"),
    ("google compute engine", "kvm"),
    ("amazon ec2", "kvm"),
    ("qemu", "kvm"),
    ("kvm", "kvm"),
    ("openstack", "kvm"),
    ("red hat", "kvm"),
    ("innotek", "vm"),
    ("virtualbox", "vm"),
    ("parallels", "vm"),
    ("bochs", "kvm"),
)

CONTAINER_NAMES = ("docker", "podman", "lxc", "singularity", "apptainer", "enroot", "kubernetes")
SINGULARITY_NAMES = ("SINGULARITY_CONTAINER", "APPTAINER_CONTAINER")
CGROUP_NAMES = (("kubepods", "kubernetes"), ("libpod", "podman"), ("docker", "docker"), ("lxc", "lxc"))


def there(system: System, path: str) -> bool:
    """A hint's existence; behind a folder that may not be entered (/run/secrets) it hints at nothing."""
    try:
        return system.exists(path)
    except OSError:
        return False


# --- virtual machine ----------------------------------------------------------------------------------------------


def virtualization(system: System) -> str:
    """As `Host.virtualization`. "none" only where something says so; raises `OSError` where nothing does."""
    version = system.text("/proc/version").lower()
    if "wsl2" in version or "microsoft-standard" in version:
        return "wsl2"
    # gVisor's kernel gives one fixed build date; newer releases also name themselves.
    if "gvisor" in version or "sun jan 10 15:06:54 pst 2016" in version:
        return "gvisor"
    dmi = " ".join(
        system.text_or_empty(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name", "bios_vendor")
    ).lower()
    tree = _device_tree(system)
    is_x86, flagged = _hypervisor_flag(system.text_or_empty("/proc/cpuinfo"))
    if is_x86 and not flagged:
        return "none"
    named = _named(system, dmi) or tree
    if is_x86:
        return named or "vm"
    # Other processors have no such flag. AWS names its bare-metal ARM machines like its virtual ones, but for "metal".
    if named and ".metal" not in dmi:
        return named
    if dmi.strip():
        return "none"
    raise OSError("neither the CPU nor the firmware says whether this machine is virtual")


def _hypervisor_flag(cpuinfo: str) -> tuple[bool, bool]:
    """Whether this is an x86 CPU with flags, and whether it has the hypervisor's (CPUID 1 ECX bit 31)."""
    match = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    return match is not None, match is not None and "hypervisor" in match[1].split()


def _device_tree(system: System) -> str:
    compatible = system.text_or_empty("/proc/device-tree/hypervisor/compatible").lower()
    return next((name for name in ("kvm", "xen", "vmware") if name in compatible), "vm" if compatible else "")


def _named(system: System, dmi: str) -> str:
    """The hypervisor's name, "" when nothing names it."""
    if system.text_or_empty("/sys/hypervisor/type").lower() == "xen" and "amazon ec2" not in dmi:
        return "xen"
    for words, name in DMI_NAMES:
        if words in dmi:
            return name
    if _is_firecracker(system):
        return "firecracker"
    return ""


def _is_firecracker(system: System) -> bool:
    """Firecracker has no DMI; its ACPI tables carry its OEM id (root may read them), its command line its devices."""
    try:
        if b"FIRECK" in system.raw("/sys/firmware/acpi/tables/FACP", 64):
            return True
    except OSError:
        pass
    line = system.text_or_empty("/proc/cmdline")
    return "firecracker" in line or "virtio_mmio.device=" in line


# --- container ----------------------------------------------------------------------------------------------------


def container(system: System) -> str:
    """As `Host.container`. Raises `OSError` when this process's own mounts cannot be read."""
    root = mounts.holding(mounts.parse(system.text("/proc/self/mountinfo")), "/")
    private = _is_private(system)
    environment = system.environment
    # First, since it has no PID namespace of its own, and may mount an image as a whole, through a loop device.
    if there(system, "/.singularity.d") or not environment.keys().isdisjoint(SINGULARITY_NAMES):
        return "singularity"
    # The other engines' marks also lie on a disk that a virtual machine was booted from (made of a container image):
    # there the whole disk is mounted, and the PID namespace is the kernel's own.
    if private is False and _is_whole_disk(root):
        return "none"
    if "KUBERNETES_SERVICE_HOST" in environment or there(system, "/var/run/secrets/kubernetes.io"):
        return "kubernetes"
    if there(system, "/run/.containerenv"):
        return "podman"
    if there(system, "/.dockerenv"):
        return "docker"
    if said := _said(system):
        return said
    if named := _storage(root):
        return named
    return "container" if private else "none"


def _is_whole_disk(root: mounts.Mount | None) -> bool:
    return (
        root is not None
        and root.root == "/"
        and root.source.startswith("/dev/")
        and not root.source.startswith(("/dev/loop", "/dev/fuse", "/dev/mapper/docker-"))
    )


def _is_private(system: System) -> bool | None:
    """Whether the PID namespace is not the kernel's first; None when that cannot be told."""
    try:
        return not in_first_pid_namespace(system)
    except OSError:
        return None


def _said(system: System) -> str:
    """What the container's manager wrote down: systemd's file, process 1's environment (root only) or cgroup."""
    words = [system.text_or_empty("/run/systemd/container")]
    for entry in system.text_or_empty("/proc/1/environ").split("\0"):
        name, _, value = entry.partition("=")
        if name == "container":
            words.append(value)
    for word in words:
        if word:
            known = next((name for name in CONTAINER_NAMES if name in word.lower()), "container")
            return {"apptainer": "singularity"}.get(known, known)
    groups = system.text_or_empty("/proc/1/cgroup")
    return next((name for mark, name in CGROUP_NAMES if f"/{mark}" in groups), "")


def _storage(root: mounts.Mount | None) -> str:
    """What the root file system's storage says: the folder of a container engine in its source or layers.

    An overlay alone says nothing: diskless cluster nodes boot from one.
    """
    if root is None:
        return ""
    words = " ".join((root.root, root.source, *root.super_options)).lower()
    marks = (
        ("enroot", "enroot"),
        ("singularity", "singularity"),
        ("apptainer", "singularity"),
        ("containers/storage", "podman"),
        ("/docker", "docker"),
        ("containerd", "container"),
    )
    return next((name for mark, name in marks if mark in words), "")


# --- readers ------------------------------------------------------------------------------------------------------


@reader("isolation", "host.virtualization", "host.container", "host.private_pid_namespace")
def read_isolation(system: System) -> Facts:
    """Virtual machine, container and PID namespace."""
    private, link = _is_private(system), PID_NAMESPACE
    return {
        "host.virtualization": attempt(
            "/proc/version, /proc/cpuinfo, /sys/class/dmi/id", lambda: virtualization(system), must_exist=True
        ),
        "host.container": attempt("/proc/self/mountinfo, /proc/1", lambda: container(system), must_exist=True),
        "host.private_pid_namespace": (
            missing(link, "this kernel does not tell its namespaces") if private is None else read(link, private)
        ),
    }


# --- of another process -------------------------------------------------------------------------------------------

ENGINES = (
    # (how its scope or folder begins, the engine's name); the number of a container is 64 digits
    (lazy_re(r"docker[-/]"), "docker"),
    (lazy_re(r"cri-containerd-|containerd[-/]|nerdctl[-/]"), "containerd"),
    (lazy_re(r"crio-"), "cri-o"),
    (lazy_re(r"libpod-"), "podman"),
    (lazy_re(r"kubepods"), "kubernetes"),
)
NUMBER = lazy_re(r"([0-9a-f]{12})[0-9a-f]{52}(?:\.scope)?")
LXC = lazy_re(r"/lxc(?:\.payload\.|/)([\w.-]{1,64})(?:/|$)", re.ASCII)
ENROOT = lazy_re(r"/enroot/(?:[\w.-]+/)*([\w.-]{1,64})$", re.ASCII)
"""A container of enroot is a folder, which is bound to its root; pyxis names it for the job."""
IMAGE = lazy_re(r"[\w.+-]{1,100}", re.ASCII)


def container_of(system: System, pid: int, environment: Mapping[str, str]) -> str:
    """ "docker 3f2a91c0d7e4", "apptainer train.sif", "enroot pyxis_4711": which container a process is in. Empty for
    one that is in none, or in ours (a container has no names from inside)."""
    path = system.text_or_empty(f"/proc/{pid}/cgroup")
    numbered = next((match for part in re.split(r"[/\n]", path) if (match := NUMBER.search(part))), None)
    if numbered is not None:
        engine = next((name for pattern, name in ENGINES if pattern.search(path)), "container")
        return f"{engine} {numbered[1]}"
    if named := LXC.search(path):
        return f"lxc {named[1]}"
    for name in SINGULARITY_NAMES:
        image = environment.get(name, "").rpartition("/")[2]
        if IMAGE.fullmatch(image):
            return f"{name.partition('_')[0].lower()} {image}"
    if system.link_or_empty(f"/proc/{pid}/ns/mnt") == system.link_or_empty("/proc/self/ns/mnt"):
        return ""
    root = mounts.holding(mounts.parse(system.text_or_empty(f"/proc/{pid}/mountinfo")), "/")
    folder = ENROOT.search(root.root) or ENROOT.search(root.source) if root is not None else None
    return f"enroot {folder[1]}" if folder is not None else ""
