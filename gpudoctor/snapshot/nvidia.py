"""NVIDIA GPUs: what NVML says (read/nvidia.py) and what the CUDA driver says (read/cuda.py)."""

from typing import Literal

from gpudoctor.named import PciAddress, PciOrNone, Uuid, Version
from gpudoctor.snapshot.reading import NOT_IN_SNAPSHOT, Reading
from gpudoctor.snapshot.section import Section


class RemappedRows(Section, frozen=True):
    """nvmlDeviceGetRemappedRows (Ampere and later)."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


class RetiredPages(Section, frozen=True):
    """Pages retired before Ampere, counted by cause, and whether a retirement waits for a reset."""

    single_bit: int
    double_bit: int
    pending: bool


class EccCounts(Section, frozen=True):
    """ECC errors of one counter set (volatile: since the driver loaded; aggregate: over the GPU's life)."""

    corrected: int | None
    """None where only the other is told: in the table of nvidia-smi."""
    uncorrected: int


class NvLink(Section, frozen=True):
    """One NVLink of a GPU. `remote` is "gpu", "switch", "cpu" or "unknown"; errors are counts since load."""

    link: int
    active: bool
    remote: str = "unknown"
    remote_pci_bus_id: PciOrNone = ""
    replay_errors: int | None = None
    recovery_errors: int | None = None
    crc_errors: int | None = None


class Fabric(Section, frozen=True):
    """nvmlDeviceGetGpuFabricInfo: `state` 0 not supported, 1 not started, 2 in progress, 3 completed.

    `status` is the nvmlReturn_t of the registration, meaningful once completed; `health` is the summary mask of
    the V2/V3 call where the driver has it, else None. `is_unhealthy` is the summary of nvidia-smi (580 and later).
    """

    state: int
    status: int
    health: int | None = None
    is_unhealthy: bool | None = None


class MigDevice(Section, frozen=True):
    """One MIG device (a compute instance) of a GPU."""

    index: int
    uuid: Reading[Uuid] = NOT_IN_SNAPSHOT
    name: Reading[str] = NOT_IN_SNAPSHOT
    gpu_instance: Reading[int] = NOT_IN_SNAPSHOT
    compute_instance: Reading[int] = NOT_IN_SNAPSHOT
    memory_total_bytes: Reading[int] = NOT_IN_SNAPSHOT
    memory_used_bytes: Reading[int] = NOT_IN_SNAPSHOT


class GpuProcess(Section, frozen=True):
    """A process that holds memory on a GPU, as NVML names it.

    `pid` is the host's pid. `user` and `command` are missing when the pid is not visible from here (another PID
    namespace) or may not be read. `memory_bytes` is None where NVML cannot tell (WDDM, MIG parents).
    """

    pid: int
    kind: Literal["compute", "graphics"]
    memory_bytes: int | None
    user: Reading[str] = NOT_IN_SNAPSHOT
    command: Reading[str] = NOT_IN_SNAPSHOT
    is_own: bool = False
    """The doctor itself, or a worker it started."""


class Gpu(Section, frozen=True):
    """One NVIDIA GPU. `index` is NVML's (nvidia-smi's), not the CUDA ordinal."""

    index: int
    name: Reading[str] = NOT_IN_SNAPSHOT
    uuid: Reading[Uuid] = NOT_IN_SNAPSHOT
    serial: Reading[str] = NOT_IN_SNAPSHOT
    pci_bus_id: Reading[PciAddress] = NOT_IN_SNAPSHOT
    """Lower case, 8-digit domain: "00000000:5d:00.0". Missing with kind "lost" when the GPU fell off the bus."""
    minor_number: Reading[int] = NOT_IN_SNAPSHOT
    """N of /dev/nvidiaN."""
    compute_capability: Reading[tuple[int, int]] = NOT_IN_SNAPSHOT
    vbios_version: Reading[str] = NOT_IN_SNAPSHOT
    gsp_firmware_version: Reading[str] = NOT_IN_SNAPSHOT
    numa_node: Reading[int] = NOT_IN_SNAPSHOT
    cpu_affinity: Reading[tuple[int, ...]] = NOT_IN_SNAPSHOT
    """CPUs near this GPU."""

    memory_total_bytes: Reading[int] = NOT_IN_SNAPSHOT
    memory_used_bytes: Reading[int] = NOT_IN_SNAPSHOT
    memory_free_bytes: Reading[int] = NOT_IN_SNAPSHOT
    memory_reserved_bytes: Reading[int] = NOT_IN_SNAPSHOT
    utilization_gpu_percent: Reading[int] = NOT_IN_SNAPSHOT
    utilization_memory_percent: Reading[int] = NOT_IN_SNAPSHOT
    processes: Reading[tuple[GpuProcess, ...]] = NOT_IN_SNAPSHOT

    temperature_celsius: Reading[int] = NOT_IN_SNAPSHOT
    temperature_slowdown_celsius: Reading[int] = NOT_IN_SNAPSHOT
    temperature_shutdown_celsius: Reading[int] = NOT_IN_SNAPSHOT
    memory_temperature_celsius: Reading[int] = NOT_IN_SNAPSHOT
    memory_temperature_max_celsius: Reading[int] = NOT_IN_SNAPSHOT
    power_draw_watts: Reading[float] = NOT_IN_SNAPSHOT
    power_limit_watts: Reading[float] = NOT_IN_SNAPSHOT
    """The limit in force (enforced limit)."""
    power_limit_default_watts: Reading[float] = NOT_IN_SNAPSHOT
    clock_sm_mhz: Reading[int] = NOT_IN_SNAPSHOT
    clock_sm_max_mhz: Reading[int] = NOT_IN_SNAPSHOT
    clock_memory_mhz: Reading[int] = NOT_IN_SNAPSHOT
    clock_memory_max_mhz: Reading[int] = NOT_IN_SNAPSHOT
    clock_event_reasons: Reading[int] = NOT_IN_SNAPSHOT
    """Bit mask of nvmlDeviceGetCurrentClocksEventReasons; `gpudoctor.knowledge.gpus.clock_events` names the bits."""
    performance_state: Reading[int] = NOT_IN_SNAPSHOT
    fan_percent: Reading[int] = NOT_IN_SNAPSHOT
    """Of the first fan, absent without one. ERR! here can be the first sign of a GPU that wants a reset."""

    ecc_mode: Reading[bool] = NOT_IN_SNAPSHOT
    ecc_mode_pending: Reading[bool] = NOT_IN_SNAPSHOT
    ecc_volatile: Reading[EccCounts] = NOT_IN_SNAPSHOT
    ecc_aggregate: Reading[EccCounts] = NOT_IN_SNAPSHOT
    sram_threshold_exceeded: Reading[bool] = NOT_IN_SNAPSHOT
    remapped_rows: Reading[RemappedRows] = NOT_IN_SNAPSHOT
    retired_pages: Reading[RetiredPages] = NOT_IN_SNAPSHOT
    recovery_action: Reading[int] = NOT_IN_SNAPSHOT
    """NVML_FI_DEV_GET_GPU_RECOVERY_ACTION (driver >= 570): 0 none, 1 reset, 2 reboot, 3 drain P2P, 4 drain+reset."""
    inforom_valid: Reading[bool] = NOT_IN_SNAPSHOT
    vgpu_licence: Reading[str] = NOT_IN_SNAPSHOT
    """In nvidia-smi's words: Licensed, Unlicensed, or that with (Unrestricted) or (Restricted); absent where none is
    asked for."""

    pcie_generation: Reading[int] = NOT_IN_SNAPSHOT
    pcie_generation_max: Reading[int] = NOT_IN_SNAPSHOT
    """The most that GPU and slot together support."""
    pcie_width: Reading[int] = NOT_IN_SNAPSHOT
    pcie_width_max: Reading[int] = NOT_IN_SNAPSHOT
    pcie_replays: Reading[int] = NOT_IN_SNAPSHOT

    persistence_mode: Reading[bool] = NOT_IN_SNAPSHOT
    compute_mode: Reading[Literal["default", "exclusive-thread", "prohibited", "exclusive-process"]] = NOT_IN_SNAPSHOT
    display_active: Reading[bool] = NOT_IN_SNAPSHOT
    mig_mode: Reading[bool] = NOT_IN_SNAPSHOT
    mig_mode_pending: Reading[bool] = NOT_IN_SNAPSHOT
    mig_devices: Reading[tuple[MigDevice, ...]] = NOT_IN_SNAPSHOT
    nvlinks: Reading[tuple[NvLink, ...]] = NOT_IN_SNAPSHOT
    fabric: Reading[Fabric] = NOT_IN_SNAPSHOT


class PeerAccess(Section, frozen=True):
    """nvmlDeviceGetP2PStatus from GPU `from_gpu` to GPU `to_gpu` (NVML indices).

    `read` and `nvlink` are "ok", "chipset-not-supported", "gpu-not-supported", "topology-not-supported",
    "disabled-by-registry", "not-supported" or "unknown".
    """

    from_gpu: int
    to_gpu: int
    read: str
    nvlink: str = "unknown"


class TopologyLevel(Section, frozen=True):
    """nvmlDeviceGetTopologyCommonAncestor of two GPUs.

    `level` is "internal", "single", "multiple", "hostbridge", "node" or "system".
    """

    gpu: int
    other: int
    level: str


class Nvidia(Section, frozen=True):
    """The NVIDIA driver, as NVML answers."""

    init_code: Reading[int] = NOT_IN_SNAPSHOT
    """nvmlReturn_t of nvmlInit: 0 success, 9 driver not loaded, 12 no library, 18 version mismatch, 4 no permission."""
    driver_version: Reading[Version] = NOT_IN_SNAPSHOT
    nvml_version: Reading[Version] = NOT_IN_SNAPSHOT
    cuda_version: Reading[tuple[int, int]] = NOT_IN_SNAPSHOT
    """The newest CUDA that the driver serves (its ceiling), not an installed toolkit."""
    kernel_module_version: Reading[Version] = NOT_IN_SNAPSHOT
    """/proc/driver/nvidia/version."""
    gpus: Reading[tuple[Gpu, ...]] = NOT_IN_SNAPSHOT
    """Every GPU that NVML counts, in index order; one that could not be opened has missing readings."""
    attached: Reading[int] = NOT_IN_SNAPSHOT
    """How many GPUs a log of nvidia-smi says there are; a part of a log holds fewer."""
    peers: Reading[tuple[PeerAccess, ...]] = NOT_IN_SNAPSHOT
    """All ordered pairs; absent with fewer than two GPUs."""
    topology: Reading[tuple[TopologyLevel, ...]] = NOT_IN_SNAPSHOT
    """Unordered pairs (gpu < other); absent with fewer than two GPUs."""


class CudaDevice(Section, frozen=True):
    """One device as libcuda enumerates it. `uuid` has its GPU- or MIG- prefix; `pci_bus_id` an 8-digit domain."""

    ordinal: int
    uuid: Uuid
    pci_bus_id: PciOrNone
    name: str
    memory_total_bytes: int | None = None
    gpu_direct_rdma: bool | None = None
    """CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED (116); None when the driver did not say."""
    dma_buf: bool | None = None
    """CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED (124)."""


class CudaAnswer(Section, frozen=True):
    """What libcuda said in a fresh process: `error` is cuInit's CUresult (0 success) and `error_name` its name."""

    error: int
    error_name: str = ""
    driver_version: tuple[int, int] | None = None
    library: str = ""
    """Path of the libcuda that was loaded, from /proc/self/maps."""
    devices: tuple[CudaDevice, ...] = ()


class Cuda(Section, frozen=True):
    """The CUDA driver asked twice: under this environment, and with CUDA_VISIBLE_DEVICES removed."""

    visible: Reading[CudaAnswer] = NOT_IN_SNAPSHOT
    all: Reading[CudaAnswer] = NOT_IN_SNAPSHOT
