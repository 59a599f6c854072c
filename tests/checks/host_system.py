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
from tests.build import GIB, but, but_gpu, h100_node, nvml, rtx_4090_node, unread
from tests.cases import Case
from tests.checks.host import H100, LOG, T4, logged, with_environment, with_host, without_gpu

HOUR, DAY = 3600.0, 86400.0
NO_PEERS = tuple(peer.__class__(peer.from_gpu, peer.to_gpu, "chipset-not-supported") for peer in T4.nvidia.peers.value)

IOMMU_ON = with_host(T4, iommu_group_types={"DMA-FQ": 30, "identity": 2}, kernel_command_line="ro quiet")
SWITCH = (AcsBridge("0000:17:00.0", False), AcsBridge("0000:18:00.0", True), AcsBridge("0000:18:01.0", False))
ACS_ON = with_host(T4, acs_bridges=(AcsBridge("0000:16:01.0", True), *SWITCH))
SYSTEM_CASES = [
    Case(
        "kernel-too-old",
        fires=with_host(H100, kernel_release="5.4.0-216-generic"),
        silent=with_host(H100, kernel_release="4.4.0", virtualization="gvisor"),
        unread=but(H100, "host.kernel_release", unread("uname")),
        severity="warning",
        says=("5.4.0-216-generic", "5.5"),
    ),
    Case(
        "kernel-too-old",
        fires=with_host(H100, kernel_release="4.18.0-553.el8_10.x86_64"),
        silent=with_host(H100, kernel_release="23.6.0", system="Darwin"),
        severity="info",
    ),
    Case(
        "iommu-translation-on",
        fires=IOMMU_ON,
        silent=with_host(IOMMU_ON, virtualization="kvm"),  # there it is the hypervisor's
        unread=but(IOMMU_ON, "host.virtualization", unread("/sys/class/dmi/id")),
        severity="warning",
        says=("30 of 32 groups", "1 pair of GPUs"),
        commands=(
            "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX iommu=pt\"' | sudo tee /etc/default/grub.d/90-iommu.cfg",
            "sudo update-grub",
        ),
    ),
    Case(
        "iommu-translation-on",
        fires=with_host(IOMMU_ON, distribution="Rocky Linux 9.5"),
        silent=with_host(H100, iommu_group_types={"DMA": 140}),  # NVSwitch: nothing goes over PCIe
        unread=but(T4, "host.iommu_group_types", unread("/sys/kernel/iommu_groups")),
        severity="warning",
        commands=("sudo grubby --update-kernel=ALL --args=iommu=pt",),
    ),
    Case(
        "iommu-translation-on",
        fires=with_host(IOMMU_ON, kernel_command_line="ro iommu=pt"),
        silent=but(IOMMU_ON, "nvidia.peers", nvml(NO_PEERS)),  # GeForce cards have no peer access to lose
        severity="warning",
    ),
    Case(
        "acs-redirects-peer-traffic",
        fires=ACS_ON,
        silent=with_host(ACS_ON, virtualization="kvm"),
        unread=but(ACS_ON, "host.acs_bridges", unread("/sys/bus/pci/devices/*/config", "run as root")),
        severity="warning",
        says=("1 switch port (0000:18:00.0)",),
        commands=("sudo setpci -v -s 0000:18:00.0 ECAP_ACS+0x6.w=0000",),
    ),
    Case(
        "acs-redirects-peer-traffic",
        fires=ACS_ON,
        # root ports: the kernel itself turns ACS on there when it uses an IOMMU
        silent=with_host(T4, acs_bridges=(AcsBridge("0000:16:01.0", True), AcsBridge("0000:40:01.1", True))),
        unread=but(ACS_ON, "nvidia.peers", unread("nvml")),
        severity="warning",
    ),
    Case(
        "cpu-governor-slow",
        fires=with_host(H100, cpu_governors={"powersave": 112}),
        silent=with_host(H100, cpu_governors={"schedutil": 100, "ondemand": 12}),
        unread=but(H100, "host.cpu_governors", unread("/sys/devices/system/cpu")),
        severity="info",
        says=("112 of 112",),
        commands=("echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",),
    ),
    Case(
        "cpu-governor-slow",
        fires=with_host(H100, cpu_governors={"powersave": 1, "performance": 111}),
        silent=but(H100, "host.cpu_governors", absent("/sys", "the kernel scales no CPU frequency")),  # most VMs
        severity="info",
    ),
    Case(
        "cpus-too-few",
        fires=with_host(H100, cpus_allowed=(0,)),
        # One rank of a SLURM job: its own four CPUs and its own GPU
        silent=but(
            with_host(H100, cpus_allowed=(4, 5, 6, 7)),
            "cuda.visible",
            read("libcuda", h100_node(1).cuda.visible.value),
        ),
        unread=but(H100, "host.cpus_allowed", unread("sched_getaffinity")),
        severity="warning",
        says=("1 CPU (0) of 112", "8 GPUs", "16"),
        commands=("taskset -pc 0-111 $$",),
    ),
    Case(
        "cpus-too-few",
        fires=with_environment(with_host(H100, cpus_allowed=(0, 1)), SLURM_JOB_ID="7"),
        silent=with_host(h100_node(1), cpus=2, cpus_allowed=(0, 1)),
        severity="warning",
    ),
    Case("cpus-too-few", fires=with_host(T4, cpus=2, cpus_allowed=(0, 1)), severity="info"),
    Case(
        "gpu-cpus-excluded",
        fires=with_host(H100, cpus_allowed=tuple(range(56))),
        silent=but(
            with_host(H100, cpus_allowed=tuple(range(56))),
            "cuda.visible",
            read("libcuda", h100_node(2).cuda.visible.value),
        ),
        unread=but_gpu(H100, 5, cpu_affinity=unread("nvml")),
        severity="warning",
        says=("GPUs 4-7", "56-111", "(0-55)"),
        commands=("taskset -pc 0-111 $$",),
    ),
    Case(
        "gpu-cpus-excluded",
        fires=but_gpu(with_host(T4, cpus_allowed=tuple(range(56))), 1, cpu_affinity=nvml((60, 61))),
        silent=but_gpu(H100, 0, cpu_affinity=absent("nvml", "not supported by this GPU")),
        severity="warning",
        says=("GPU 1",),
    ),
]

TWO_NODES = {"SLURM_NNODES": "2", "SLURM_JOB_ID": "7"}
UBUNTU_NAME = with_host(H100, hostname_addresses=("127.0.1.1",))
NO_CLOCK = with_host(H100, clock_synchronised=False)
NETWORK_CASES = [
    Case(
        "clock-unsynchronised",
        fires=with_environment(NO_CLOCK, **TWO_NODES),
        silent=with_host(NO_CLOCK, virtualization="wsl2"),
        unread=but(H100, "host.clock_synchronised", unread("adjtimex")),
        severity="warning",
        commands=("sudo timedatectl set-ntp true",),
    ),
    Case(
        "clock-offset-large",
        fires=but(H100, "host.clock_offset_seconds", read("chronyc -n tracking", -17.25)),
        silent=with_host(H100, clock_offset_seconds=-4.9),
        unread=but(H100, "host.clock_offset_seconds", unread("chronyc -n tracking")),
        says=("17.2 s behind",),
        commands=("sudo chronyc makestep", "chronyc tracking"),
    ),
    Case(
        "clock-offset-large",
        fires=but(H100, "host.clock_offset_seconds", read("ntpq -n -c 'rv 0 leap,offset'", 15.0)),
        silent=but(H100, "host.clock_offset_seconds", absent("adjtimex", "no time daemon here tells the offset")),
        severity="warning",
        says=("15.0 s ahead of",),
        commands=("sudo systemctl restart ntpd", "ntpq -n -p"),
    ),
    Case(
        "clock-offset-large",
        fires=with_host(H100, clock_offset_seconds=5.0),
        silent=with_host(H100, clock_offset_seconds=4.99),
        severity="warning",
        says=("5.0 s ahead of",),
    ),
    Case("clock-unsynchronised", fires=NO_CLOCK, unread=but(NO_CLOCK, "environment", unread()), severity="info"),
    Case(
        "hostname-loopback",
        fires=with_environment(UBUNTU_NAME, WORLD_SIZE="16", LOCAL_WORLD_SIZE="8"),
        silent=with_host(H100, hostname_addresses=("10.0.0.4", "127.0.1.1")),
        unread=but(H100, "host.hostname_addresses", unread("getaddrinfo")),
        severity="warning",
        says=("node-1", "127.0.1.1"),
        commands=(
            "getent ahosts node-1",
            r"""sudo sed -i.bak "s/^127\.0\.1\.1\([[:space:]].*\b$(hostname)\b\)/$(hostname -I | cut -d' ' -f1)\1/" """
            "/etc/hosts",
        ),
    ),
    Case(  # as Debian and Ubuntu install it
        "hostname-loopback",
        fires=UBUNTU_NAME,
        silent=with_host(H100, hostname_addresses=()),
        unread=but(UBUNTU_NAME, "environment", unread()),
        severity="info",
    ),
    Case("hostname-loopback", fires=with_host(H100, hostname="bad;name", hostname_addresses=("::1",)), severity="info"),
    Case(
        "hostname-unresolvable",
        fires=with_environment(with_host(H100, hostname_addresses=()), MASTER_ADDR="10.0.0.4"),
        unread=but(H100, "host.hostname_addresses", unread("getaddrinfo")),
        severity="warning",
        says=("node-1",),
        commands=('echo "$(hostname -I | cut -d" " -f1)" node-1 | sudo tee -a /etc/hosts',),
    ),
    Case(
        "hostname-unresolvable",
        fires=with_environment(with_host(H100, hostname_addresses=()), MASTER_ADDR="localhost"),
        severity="info",
    ),
]


def stuck(*processes: StuckProcess, machine: Snapshot = H100) -> Snapshot:
    return with_host(machine, stuck_processes=processes)


HELD = but_gpu(H100, 3, processes=nvml((GpuProcess(4242, "compute", 70 * GIB),)))
ZOMBIE = stuck(StuckProcess(4242, "python", "Z", parent_pid=4200), machine=HELD)
PROCESS_CASES = [
    Case(
        "process-stuck-in-driver",
        fires=stuck(StuckProcess(4242, "python", "D", "uvm_va_space_mm_or_current_retain", 1, 900.0)),
        # waiting for a disk; a short call; a zombie; another function of the kernel that begins like a name of ours
        silent=stuck(
            StuckProcess(1, "python", "D", "folio_wait_bit_common", 1, 900.0),
            StuckProcess(2, "nvidia-smi", "D", "", 1, 2.0),
            StuckProcess(3, "python", "Z", "", 1, 900.0),
            StuckProcess(4, "python", "D", "", 1, 900.0),
        ),
        unread=but(H100, "host.stuck_processes", unread("/proc")),
        says=("4242 (python)", "uvm_va_space", "900 seconds"),
        commands=("sudo cat /proc/4242/stack",),
    ),
    Case(
        "process-stuck-in-driver", fires=stuck(StuckProcess(77, "nvidia-smi", "D", "", 1, None)), says=("nvidia-smi",)
    ),
    Case(
        "zombie-holds-gpu",
        fires=ZOMBIE,
        # an unreaped process that holds nothing is untidy and no more
        silent=stuck(StuckProcess(9, "python", "Z", parent_pid=4200), machine=HELD),
        unread=but(H100, "host.stuck_processes", unread("/proc")),
        says=("4242 (python)", "70 GiB", "GPU 3"),
        commands=("kill 4200",),
    ),
    Case("zombie-holds-gpu", fires=ZOMBIE, unread=with_host(ZOMBIE, private_pid_namespace=True)),
    Case(
        "pid-namespace-private",
        fires=with_host(HELD, private_pid_namespace=True, container="docker"),
        silent=with_host(H100, private_pid_namespace=True, container="docker"),
        unread=but(HELD, "host.private_pid_namespace", unread("/proc/self/ns/pid")),
        severity="info",
        says=("1 process on GPU 3",),
        commands=("ps -o pid,user,etime,args -p 4242",),
    ),
]

OFF_BUS = XidEvent(79, "0000:4b:00", "pid=1, GPU has fallen off the bus.", seconds_ago=2 * HOUR)
LIMITED = (
    "63.008 Gb/s available PCIe bandwidth, limited by {} link at 0000:00:01.1 (capable of 252.048 Gb/s with {} link)"
)
SLOW_LINK = with_host(
    T4, kernel_log=KernelLog((), (LinkLimit("0000:2b:00.0", LIMITED.format("8.0 GT/s PCIe x8", "16.0 GT/s PCIe x16")),))
)
KERNEL_LOG_CASES = [
    Case(
        "gpu-xid-hardware",
        fires=logged(OFF_BUS),
        silent=logged(XidEvent(31, "0000:4b:00.0", "pid=1")),
        unread=but(H100, LOG, unread("/dev/kmsg")),
        says=("Xid 79", "GPU 3 (0000:4b:00.0), once", "2 hours ago"),
        commands=("sudo nvidia-bug-report.sh",),
    ),
    Case(
        "gpu-xid-hardware",
        fires=logged(
            XidEvent(95, "0000:1b:00.0", "", seconds_ago=60.0), XidEvent(95, "0000:2b:00.0", "", seconds_ago=50.0)
        ),
        says=("GPUs 0-1", "2 times, the last 50 seconds ago"),
        commands=("sudo nvidia-smi --gpu-reset -i 0", "sudo nvidia-smi --gpu-reset -i 1"),
    ),
    Case("gpu-xid-hardware", fires=logged(XidEvent(48, "0000:1b:00.0", "", seconds_ago=3 * DAY)), severity="warning"),
    Case("gpu-xid-hardware", fires=logged(XidEvent(94, "0000:1b:00.0", "Contained")), severity="warning"),
    Case("gpu-xid-hardware", fires=logged(XidEvent(4711, "0000:1b:00.0", "")), severity="warning", says=("Xid 4711",)),
    # the log of the host, read in a container that was given another GPU
    Case(
        "gpu-xid-hardware",
        fires=logged(XidEvent(48, "0000:ff:00.0", ""), machine=with_host(h100_node(1), container="docker")),
        severity="info",
    ),
    Case("gpu-xid-hardware", fires=logged(OFF_BUS, machine=without_gpu()), says=("the GPU at 0000:4b:00",)),
    Case(
        "gpu-xid-application",
        fires=logged(XidEvent(31, "0000:4b:00", "pid=77, name=python, Ch 00000008", seconds_ago=HOUR)),
        silent=logged(OFF_BUS, XidEvent(20034, "0000:05:00.0", "", is_switch=True, fatal=True)),
        unread=but(H100, LOG, unread("/dev/kmsg")),
        severity="warning",
        says=("Xid 31 (GPU memory page fault)", "GPU 3"),
    ),
    Case("gpu-xid-application", fires=logged(XidEvent(13, "0000:4b:00", "", seconds_ago=2 * DAY)), severity="info"),
    # what every killed CUDA program leaves behind
    Case("gpu-xid-application", fires=logged(XidEvent(45, "0000:4b:00", "", seconds_ago=5.0)), severity="info"),
    Case(
        "nvswitch-sxid",
        fires=logged(
            XidEvent(20034, "0000:05:00.0", "Fatal, Link 48 LTSSM Fault Up", True, HOUR, True),
            XidEvent(20034, "0000:05:00.0", "Severity 1 Engine instance 48", True, HOUR, None),
        ),
        silent=logged(OFF_BUS),
        unread=but(H100, LOG, unread("/dev/kmsg")),
        says=("Fatal SXid 20034 (an NVLink went down)", "0000:05:00.0", "once"),
    ),
    Case(
        "nvswitch-sxid",
        fires=logged(XidEvent(12028, "0000:05:00.0", "Non-fatal, ...", True, 60.0, False)),
        severity="warning",
    ),
    Case(
        "nvswitch-sxid",
        fires=logged(XidEvent(11012, "0000:05:00.0", "Non-fatal, ECC", True, 60.0, False)),
        severity="info",
    ),
    Case(
        "pcie-link-limited-by-slot",
        fires=SLOW_LINK,
        # an idle GPU at boot, and a network card
        silent=with_host(
            T4,
            kernel_log=KernelLog(
                (),
                (
                    LinkLimit("0000:1b:00.0", LIMITED.format("2.5 GT/s PCIe x16", "8.0 GT/s PCIe x16")),
                    LinkLimit("0000:99:00.0", LIMITED.format("8.0 GT/s PCIe x8", "16.0 GT/s PCIe x16")),
                ),
            ),
        ),
        unread=but(SLOW_LINK, LOG, unread("/dev/kmsg")),
        severity="warning",
        says=("GPU 1 (0000:2b:00.0)", "8.0 GT/s x8", "16.0 GT/s x16", "1 of the same model"),
        commands=("sudo lspci -vv -s 0000:2b:00.0 | grep -E 'LnkCap:|LnkSta:'",),
    ),
    Case(  # a laptop is wired like this
        "pcie-link-limited-by-slot",
        fires=with_host(
            rtx_4090_node(1),
            kernel_log=KernelLog((), (LinkLimit("0000:1b:00.0", LIMITED.format("8.0 GT/s x8", "16.0 GT/s x16")),)),
        ),
        unread=but(SLOW_LINK, "accelerators.pci", unread("/sys/bus/pci/devices")),
        severity="info",
    ),
]

CASES = [*SYSTEM_CASES, *NETWORK_CASES, *PROCESS_CASES, *KERNEL_LOG_CASES]
