"""Cases of the checks in host/ that look at kernel, buses, CPUs, names, processes and the kernel log."""

from gpudoctor.snapshot import (
    AcsBridge,
    GpuProcess,
    KernelLog,
    LinkLimit,
    Snapshot,
    StuckProcess,
    XidEvent,
    absent,
    read,
)
from gpudoctor.testing.cases import error, info, silent, skipped, warning
from gpudoctor.testing.machines import GIB, but, but_gpu, h100_node, rtx_4090_node, unread
from tests.checks.host import H100, LOG, T4, logged, with_environment, with_host

HOUR, DAY = 3600.0, 86400.0
NO_PEERS = tuple(peer.__class__(peer.from_gpu, peer.to_gpu, "chipset-not-supported") for peer in T4.nvidia.peers.value)

IOMMU_ON = with_host(T4, iommu_group_types={"DMA-FQ": 30, "identity": 2}, kernel_command_line="ro quiet")
SWITCH = (AcsBridge("0000:17:00.0", False), AcsBridge("0000:18:00.0", True), AcsBridge("0000:18:01.0", False))
ACS_ON = with_host(T4, acs_bridges=(AcsBridge("0000:16:01.0", True), *SWITCH))
SYSTEM_CASES = {
    "kernel-too-old": [
        warning(with_host(H100, kernel_release="5.4.0-216-generic"), "5.4.0-216-generic", "5.5"),
        info(with_host(H100, kernel_release="4.18.0-553.el8_10.x86_64")),
        silent(with_host(H100, kernel_release="4.4.0", virtualization="gvisor")),
        skipped("host.kernel_release"),
    ],
    "iommu-translation-on": [
        warning(
            IOMMU_ON,
            "30 of 32 groups",
            "1 pair of GPUs",
            runs=(
                "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX iommu=pt\"' | "
                "sudo tee /etc/default/grub.d/90-iommu.cfg",
                "sudo update-grub",
            ),
        ),
        warning(
            with_host(IOMMU_ON, distribution="Rocky Linux 9.5"), runs="sudo grubby --update-kernel=ALL --args=iommu=pt"
        ),
        warning(with_host(IOMMU_ON, kernel_command_line="ro iommu=pt")),
        silent(with_host(IOMMU_ON, virtualization="kvm")),  # there it is the hypervisor's
        # NVSwitch: nothing goes over PCIe
        silent(with_host(H100, iommu_group_types={"DMA": 140})),
        # GeForce cards have no peer access to lose
        silent(but(IOMMU_ON, "nvidia.peers", NO_PEERS)),
        skipped(but(IOMMU_ON, "host.virtualization", unread("/sys/class/dmi/id"))),
        skipped(but(T4, "host.iommu_group_types", unread("/sys/kernel/iommu_groups"))),
    ],
    "acs-redirects-peer-traffic": [
        warning(ACS_ON, "1 switch port (0000:18:00.0)", runs="sudo setpci -v -s 0000:18:00.0 ECAP_ACS+0x6.w=0000"),
        silent(with_host(ACS_ON, virtualization="kvm")),
        # root ports: the kernel itself turns ACS on there when it uses an IOMMU
        silent(with_host(T4, acs_bridges=(AcsBridge("0000:16:01.0", True), AcsBridge("0000:40:01.1", True)))),
        skipped(but(ACS_ON, "host.acs_bridges", unread("/sys/bus/pci/devices/*/config", "run as root"))),
    ],
    "cpu-governor-slow": [
        info(
            with_host(H100, cpu_governors={"powersave": 112}),
            "112 of 112",
        ),
        silent(with_host(H100, cpu_governors={"schedutil": 100, "ondemand": 12})),
        # most VMs
        silent(but(H100, "host.cpu_governors", absent("/sys", "the kernel scales no CPU frequency"))),
        skipped("host.cpu_governors"),
    ],
    "cpus-too-few": [
        warning(with_host(H100, cpus_allowed=(0,)), "1 CPU (0) of 112", "8 GPUs", "16", runs="taskset -pc 0-111 $$"),
        warning(with_environment(with_host(H100, cpus_allowed=(0, 1)), SLURM_JOB_ID="7")),
        info(with_host(T4, cpus=2, cpus_allowed=(0, 1))),
        # One rank of a SLURM job: its own four CPUs and its own GPU
        silent(but(with_host(H100, cpus_allowed=(4, 5, 6, 7)), "cuda.visible", h100_node(1).cuda.visible.value)),
        silent(with_host(h100_node(1), cpus=2, cpus_allowed=(0, 1))),
        skipped("host.cpus_allowed"),
    ],
    "gpu-cpus-excluded": [
        warning(
            with_host(H100, cpus_allowed=tuple(range(56))), "GPUs 4-7", "56-111", "(0-55)", runs="taskset -pc 0-111 $$"
        ),
        silent(but(with_host(H100, cpus_allowed=tuple(range(56))), "cuda.visible", h100_node(2).cuda.visible.value)),
        skipped(but_gpu(H100, 5, cpu_affinity=unread("nvml"))),
    ],
}

TWO_NODES = {"SLURM_NNODES": "2", "SLURM_JOB_ID": "7"}
UBUNTU_NAME = with_host(H100, hostname_addresses=("127.0.1.1",))
NO_CLOCK = with_host(H100, clock_synchronised=False)
NETWORK_CASES = {
    "clock-unsynchronised": [
        warning(with_environment(NO_CLOCK, **TWO_NODES), runs="sudo timedatectl set-ntp true"),
        info(NO_CLOCK),
        silent(with_host(NO_CLOCK, virtualization="wsl2")),
        skipped("host.clock_synchronised", but(NO_CLOCK, "environment", unread())),
    ],
    "clock-offset-large": [
        error(
            but(H100, "host.clock_offset_seconds", -17.25),
            "17.2 s behind",
            runs=("sudo chronyc makestep", "chronyc tracking"),
        ),
        warning(
            but(H100, "host.clock_offset_seconds", read("ntpq -n -c 'rv 0 leap,offset'", 15.0)),
            "15.0 s ahead of",
            runs=("sudo systemctl restart ntpd", "ntpq -n -p"),
        ),
        warning(with_host(H100, clock_offset_seconds=5.0), "5.0 s ahead of"),
        silent(with_host(H100, clock_offset_seconds=-4.9)),
        skipped("host.clock_offset_seconds"),
    ],
    "hostname-loopback": [
        warning(
            with_environment(UBUNTU_NAME, WORLD_SIZE="16", LOCAL_WORLD_SIZE="8"),
            "node-1",
            "127.0.1.1",
            runs=(
                "getent ahosts node-1",
                r"""sudo sed -i.bak "s/^127\.0\.1\.1\([[:space:]].*\b$(hostname)\b\)/"""
                r"""$(hostname -I | cut -d' ' -f1)\1/" /etc/hosts""",
            ),
        ),
        info(UBUNTU_NAME),  # as Debian and Ubuntu install it
        info(with_host(H100, hostname="bad;name", hostname_addresses=("::1",))),
        silent(with_host(H100, hostname_addresses=("10.0.0.4", "127.0.1.1"))),
        skipped("host.hostname_addresses", but(UBUNTU_NAME, "environment", unread())),
    ],
    "hostname-unresolvable": [
        warning(
            with_environment(with_host(H100, hostname_addresses=()), MASTER_ADDR="10.0.0.4"),
            "node-1",
            runs='echo "$(hostname -I | cut -d" " -f1)" node-1 | sudo tee -a /etc/hosts',
        ),
        info(with_environment(with_host(H100, hostname_addresses=()), MASTER_ADDR="localhost")),
        silent(with_environment(with_host(H100, hostname_addresses=("::1",)), MASTER_ADDR="10.0.0.4")),
        skipped("host.hostname_addresses"),
    ],
}


def stuck(*processes: StuckProcess, machine: Snapshot = H100) -> Snapshot:
    return with_host(machine, stuck_processes=processes)


HELD = but_gpu(H100, 3, processes=(GpuProcess(4242, "compute", 70 * GIB),))
ZOMBIE = stuck(StuckProcess(4242, "python", "Z", parent_pid=4200), machine=HELD)
PROCESS_CASES = {
    "process-stuck-in-driver": [
        error(
            stuck(StuckProcess(4242, "python", "D", "uvm_va_space_mm_or_current_retain", 1, 900.0)),
            "4242 (python)",
            "uvm_va_space",
            "900 seconds",
            runs="sudo cat /proc/4242/stack",
        ),
        # waiting for a disk; a short call; a zombie; another function of the kernel that begins like a name of ours
        silent(
            stuck(
                StuckProcess(1, "python", "D", "folio_wait_bit_common", 1, 900.0),
                StuckProcess(2, "nvidia-smi", "D", "", 1, 2.0),
                StuckProcess(3, "python", "Z", "", 1, 900.0),
                StuckProcess(4, "python", "D", "", 1, 900.0),
            )
        ),
        skipped("host.stuck_processes"),
    ],
    "zombie-holds-gpu": [
        error(ZOMBIE, "4242 (python)", "70 GiB", "GPU 3", runs="kill 4200"),
        # an unreaped process that holds nothing is untidy and no more
        silent(stuck(StuckProcess(9, "python", "Z", parent_pid=4200), machine=HELD)),
        skipped("host.stuck_processes", with_host(ZOMBIE, private_pid_namespace=True)),
    ],
    "pid-namespace-private": [
        info(
            with_host(HELD, private_pid_namespace=True, container="docker"),
            "1 process on GPU 3",
            runs="ps -o pid,user,etime,args -p 4242",
        ),
        silent(with_host(H100, private_pid_namespace=True, container="docker")),
        skipped(but(HELD, "host.private_pid_namespace", unread("/proc/self/ns/pid"))),
    ],
}

OFF_BUS = XidEvent(79, "0000:4b:00", "pid=1, GPU has fallen off the bus.", seconds_ago=2 * HOUR)
LIMITED = (
    "63.008 Gb/s available PCIe bandwidth, limited by {} link at 0000:00:01.1 (capable of 252.048 Gb/s with {} link)"
)
SLOW_LINK = with_host(
    T4, kernel_log=KernelLog((), (LinkLimit("0000:2b:00.0", LIMITED.format("8.0 GT/s PCIe x8", "16.0 GT/s PCIe x16")),))
)
KERNEL_LOG_CASES = {
    "gpu-xid-hardware": [
        error(logged(OFF_BUS), "Xid 79", "GPU 3 (0000:4b:00.0), once", "2 hours ago", runs="sudo nvidia-bug-report.sh"),
        error(
            logged(
                XidEvent(95, "0000:1b:00.0", "", seconds_ago=60.0), XidEvent(95, "0000:2b:00.0", "", seconds_ago=50.0)
            ),
            "GPUs 0-1",
            "2 times, the last 50 seconds ago",
            runs=("sudo nvidia-smi --gpu-reset -i 0", "sudo nvidia-smi --gpu-reset -i 1"),
        ),
        warning(logged(XidEvent(94, "0000:1b:00.0", "Contained"))),
        warning(logged(XidEvent(4711, "0000:1b:00.0", "")), "Xid 4711"),
        # the log of the host, read in a container that was given another GPU
        info(logged(XidEvent(48, "0000:ff:00.0", ""), machine=with_host(h100_node(1), container="docker"))),
        silent(logged(XidEvent(31, "0000:4b:00.0", "pid=1"))),
        skipped(but(H100, LOG, unread("/dev/kmsg"))),
    ],
    "gpu-xid-application": [
        warning(
            logged(XidEvent(31, "0000:4b:00", "pid=77, name=python, Ch 00000008", seconds_ago=HOUR)),
            "Xid 31 (GPU memory page fault)",
            "GPU 3",
        ),
        # what every killed CUDA program leaves behind
        info(logged(XidEvent(45, "0000:4b:00", "", seconds_ago=5.0))),
        silent(logged(OFF_BUS, XidEvent(20034, "0000:05:00.0", "", is_switch=True, fatal=True))),
        skipped(but(H100, LOG, unread("/dev/kmsg"))),
    ],
    "nvswitch-sxid": [
        error(
            logged(
                XidEvent(20034, "0000:05:00.0", "Fatal, Link 48 LTSSM Fault Up", True, HOUR, True),
                XidEvent(20034, "0000:05:00.0", "Severity 1 Engine instance 48", True, HOUR, None),
            ),
            "Fatal SXid 20034 (an NVLink went down)",
            "0000:05:00.0",
            "once",
        ),
        warning(logged(XidEvent(12028, "0000:05:00.0", "Non-fatal, ...", True, 60.0, False))),
        info(logged(XidEvent(11012, "0000:05:00.0", "Non-fatal, ECC", True, 60.0, False))),
        silent(logged(OFF_BUS)),
        skipped(but(H100, LOG, unread("/dev/kmsg"))),
    ],
    "pcie-link-limited-by-slot": [
        warning(
            SLOW_LINK,
            "GPU 1 (0000:2b:00.0)",
            "8.0 GT/s x8",
            "16.0 GT/s x16",
            "1 of the same model",
            runs="sudo lspci -vv -s 0000:2b:00.0 | grep -E 'LnkCap:|LnkSta:'",
        ),
        # a laptop is wired like this
        info(
            with_host(
                rtx_4090_node(1),
                kernel_log=KernelLog((), (LinkLimit("0000:1b:00.0", LIMITED.format("8.0 GT/s x8", "16.0 GT/s x16")),)),
            )
        ),
        # an idle GPU at boot, and a network card
        silent(
            with_host(
                T4,
                kernel_log=KernelLog(
                    (),
                    (
                        LinkLimit("0000:1b:00.0", LIMITED.format("2.5 GT/s PCIe x16", "8.0 GT/s PCIe x16")),
                        LinkLimit("0000:99:00.0", LIMITED.format("8.0 GT/s PCIe x8", "16.0 GT/s PCIe x16")),
                    ),
                ),
            )
        ),
        skipped(but(SLOW_LINK, LOG, unread("/dev/kmsg"))),
        skipped(but(SLOW_LINK, "accelerators.pci", unread("/sys/bus/pci/devices"))),
    ],
}

CASES = {**SYSTEM_CASES, **NETWORK_CASES, **PROCESS_CASES, **KERNEL_LOG_CASES}
