"""Descriptions of machines for the fake NVIDIA driver, written from facts about the real ones.

Numbers (memory, power, clocks, link generations, PCI addresses) are those that NVML gives on such machines; UUIDs and
serials are invented. All are idle and healthy.
"""

from collections.abc import Callable

from tests.lab.nvidia import Card, Machine, Value

MIB = 1024**2


def uuid(index: int, prefix: str = "GPU") -> str:
    """Distinct in the first digits, as real ones are, and with a zero byte inside, as some are."""
    return f"{prefix}-{0x9E8D0000 + 0x1111 * index:08x}-00{index:02x}-4a5b-8c6d-{0xE7F000000000 + index:012x}"


def h100(index: int, **facts: Value) -> Card:
    """An H100 SXM behind NVSwitch."""
    card: dict[str, Value] = {
        "name": "NVIDIA H100 80GB HBM3",
        "uuid": uuid(index),
        "serial": f"165402{index:07d}",
        "pci": f"00000000:{0x1B + 0x10 * index:02X}:00.0",
        "minor": index,
        "major_capability": 9,
        "minor_capability": 0,
        "speed": 90,
        "vbios": "96.00.89.00.01",
        "gsp": "580.95.05",
        "cpus": "0-55" if index < 4 else "56-111",
        "memory": 81559 * MIB,
        "memory_used": 4 * MIB,
        "memory_reserved": 548 * MIB,
        "busy": 0,
        "memory_busy": 0,
        "temperature": 31 + index % 4,
        "slowdown": 87,
        "shutdown": 92,
        "memory_temperature": 40,
        "memory_temperature_max": 95,
        "milliwatts": 71_510,
        "milliwatts_limit": 700_000,
        "milliwatts_default": 700_000,
        "sm_clock": 345,
        "sm_clock_max": 1980,
        "memory_clock": 2619,
        "memory_clock_max": 2619,
        "clock_events": 1,
        "pstate": 0,
        "ecc": 1,
        "ecc_pending": 1,
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
        "ecc_corrected_ever": 0,
        "ecc_uncorrected_ever": 0,
        "sram_exceeded": 0,
        "remapped_rows": "0 0 0 0",
        "inforom": 1,
        "recovery_action": 0,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_replays": 0,
        "persistence": 1,
        "compute_mode": 0,
        "display": 0,
        "mig_mode": 0,
        "mig_pending": 0,
        "mig_slots": 7,
        "nvlinks": 18,
        "nvlink.active": 1,
        "nvlink.remote": 2,
        "nvlink.remote_pci": "00000000:07:00.0",
        "nvlink.replay": 0,
        "nvlink.recovery": 0,
        "nvlink.crc": 0,
        "fabric_state": 3,
        "fabric_status": 0,
        "fabric_health": 0,
        "gpu_direct_rdma": 1,
        "dma_buf": 1,
    }
    return card | facts


def without(card: Card, *names: str, **facts: Value) -> Card:
    """A card that does not support some things, and differs in others. A name ending in "." takes all below it."""
    kept = {
        key: value
        for key, value in card.items()
        if not any(key == name or (name.endswith(".") and key.startswith(name)) for name in names)
    }
    return kept | facts


NO_NVLINK = ("nvlinks", "nvlink.", "fabric_state", "fabric_status", "fabric_health")
NO_MIG = ("mig_mode", "mig_pending", "mig_slots")
NO_ECC = ("ecc_corrected", "ecc_uncorrected", "ecc_corrected_ever", "ecc_uncorrected_ever", "sram_exceeded")
NO_MEMORY_SENSOR = ("memory_temperature", "memory_temperature_max")


def h200(index: int, **facts: Value) -> Card:
    """An H200 SXM."""
    changes: dict[str, Value] = {"name": "NVIDIA H200", "memory": 143771 * MIB, "memory_clock": 3201}
    return h100(index, **(changes | {"memory_clock_max": 3201} | facts))


def a100(index: int, **facts: Value) -> Card:
    """An A100 SXM4 80 GB: 12 NVLinks, no fabric state (that came with Hopper)."""
    changes: dict[str, Value] = {
        "name": "NVIDIA A100-SXM4-80GB",
        "major_capability": 8,
        "speed": 80,
        "vbios": "92.00.45.00.03",
        "memory": 81920 * MIB,
        "memory_reserved": 617 * MIB,
        "milliwatts": 58_000,
        "milliwatts_limit": 400_000,
        "milliwatts_default": 400_000,
        "sm_clock": 210,
        "sm_clock_max": 1410,
        "memory_clock": 1593,
        "memory_clock_max": 1593,
        "pcie_generation": 4,
        "pcie_generation_max": 4,
        "nvlinks": 12,
    }
    return without(h100(index), "fabric_state", "fabric_status", "fabric_health", **(changes | facts))


def rtx_4090(index: int, **facts: Value) -> Card:
    """A GeForce RTX 4090, idle: link at generation 1, no ECC counters, no serial number; row remapping answers."""
    changes: dict[str, Value] = {
        "name": "NVIDIA GeForce RTX 4090",
        "major_capability": 8,
        "minor_capability": 9,
        "speed": 89,
        "vbios": "95.02.18.80.87",
        "memory": 24564 * MIB,
        "memory_used": 1 * MIB,
        "memory_reserved": 353 * MIB,
        "milliwatts": 14_020,
        "milliwatts_limit": 450_000,
        "milliwatts_default": 450_000,
        "sm_clock": 210,
        "sm_clock_max": 3105,
        "memory_clock": 405,
        "memory_clock_max": 10501,
        "pstate": 8,
        "slowdown": 97,
        "shutdown": 100,
        "ecc": 0,
        "ecc_pending": 0,
        "pcie_generation": 1,
        "pcie_generation_max": 4,
        "gpu_direct_rdma": 0,
        "persistence": 0,
    }
    missing = (*NO_NVLINK, *NO_MIG, *NO_ECC, *NO_MEMORY_SENSOR, "serial")
    return without(h100(index), *missing, **(changes | facts))


def t4(index: int, **facts: Value) -> Card:
    """A Tesla T4: page retirement instead of row remapping."""
    changes: dict[str, Value] = {
        "name": "Tesla T4",
        "major_capability": 7,
        "minor_capability": 5,
        "speed": 75,
        "vbios": "90.04.A7.00.01",
        "memory": 15360 * MIB,
        "memory_used": 1 * MIB,
        "memory_reserved": 431 * MIB,
        "milliwatts": 10_200,
        "milliwatts_limit": 70_000,
        "milliwatts_default": 70_000,
        "sm_clock": 300,
        "sm_clock_max": 1590,
        "memory_clock": 405,
        "memory_clock_max": 5001,
        "pstate": 8,
        "slowdown": 93,
        "shutdown": 96,
        "pages_single_bit": 0,
        "pages_double_bit": 0,
        "pages_pending": 0,
        "pcie_generation": 1,
        "pcie_generation_max": 3,
    }
    missing = (*NO_NVLINK, *NO_MIG, *NO_MEMORY_SENSOR, "remapped_rows", "sram_exceeded")
    return without(h100(index), *missing, **(changes | facts))


def old_geforce(index: int, name: str, speed: int, capability: tuple[int, int], **facts: Value) -> Card:
    """A GeForce before Volta: no ECC, no GSP firmware, no MIG, no NVLink."""
    major, minor = capability
    changes: dict[str, Value] = {
        "name": name,
        "speed": speed,
        "major_capability": major,
        "minor_capability": minor,
        "pcie_generation": 1,
        "pcie_generation_max": 3,
    }
    return without(rtx_4090(index), "gsp", "ecc", "ecc_pending", "remapped_rows", **(changes | facts))


def hgx_h100(count: int = 8) -> Machine:
    """Eight H100 SXM behind NVSwitch."""
    return Machine(tuple(h100(index) for index in range(count)), facts={"p2p.read": 0, "p2p.nvlink": 0, "level": 50})


def one_h200() -> Machine:
    return Machine((h200(0),))


def hgx_a100_with_mig(driver: str = "580.95.05") -> Machine:
    """Eight A100, two of them in MIG mode: GPU 2 with three instances, GPU 5 with one that is cut in two."""
    cards = [a100(index) for index in range(8)]
    for index, instances in ((2, ((0, 1, 0), (1, 2, 0), (3, 7, 0))), (5, ((0, 1, 0), (1, 1, 1)))):
        cards[index] = without(cards[index], "busy", "memory_busy", mig_mode=1, mig_pending=1)
        for slot, gpu_instance, compute_instance in instances:
            cards[index] = {
                **cards[index],
                f"mig.{slot}.uuid": uuid(16 * index + slot, "MIG"),
                f"mig.{slot}.name": "NVIDIA A100-SXM4-80GB MIG 2g.20gb",
                f"mig.{slot}.gi": gpu_instance,
                f"mig.{slot}.ci": compute_instance,
                f"mig.{slot}.memory": 19968 * MIB,
                f"mig.{slot}.memory_used": 25 * MIB,
            }
    return Machine(tuple(cards), driver=driver, cuda=12020 if driver < "570" else 13000, facts={"p2p.read": 0})


def four_rtx_4090() -> Machine:
    """Four RTX 4090 on PCIe: the driver offers no peer access between them."""
    return Machine(tuple(rtx_4090(index) for index in range(4)), facts={"p2p.read": 1, "p2p.nvlink": 5})


def two_t4(driver: str = "580.95.05") -> Machine:
    return Machine(tuple(t4(index) for index in range(2)), driver=driver, facts={"p2p.read": 0, "p2p.nvlink": 5})


def mixed_cards() -> Machine:
    """A GTX 745 for the display before a GTX 1080 Ti: CUDA counts the faster one first (pytorch#86539)."""
    slow = old_geforce(0, "NVIDIA GeForce GTX 745", 50, (5, 0), display=1, memory=4043 * MIB)
    fast = old_geforce(1, "NVIDIA GeForce GTX 1080 Ti", 61, (6, 1), memory=11264 * MIB)
    return Machine((slow, fast), driver="535.183.01", cuda=12020, facts={"p2p.read": 5, "p2p.nvlink": 5})


def dgx_station() -> Machine:
    """Four A100 and a display card that is the fourth in PCI order, as in a DGX Station A100."""
    cards = [a100(index) for index in range(5)]
    cards[3] = old_geforce(3, "NVIDIA DGX Display", 75, (7, 5), display=1, memory=4096 * MIB, pci=cards[3]["pci"])
    return Machine(tuple(cards), facts={"p2p.read": 0, "p2p.nvlink": 0})


def driver_mismatch() -> Machine:
    """The libraries were upgraded under a loaded kernel module: NVML says 18, CUDA 803."""
    return hgx_h100().call("nvmlInit", "fail:18").call("cuInit", "fail:803")


def no_permission() -> Machine:
    """/dev/nvidia* is not for this user."""
    return hgx_h100(2).call("nvmlInit", "fail:4").call("cuInit", "fail:100")


def driver_not_loaded() -> Machine:
    """The libraries are there, the kernel module is not."""
    return hgx_h100(2).call("nvmlInit", "fail:9").call("cuInit", "fail:100")


def without_fabric_manager() -> Machine:
    """NVSwitch without its fabric manager: NVML works, CUDA says 802."""
    machine = hgx_h100()
    for index in range(8):
        machine = machine.but_gpu(index, fabric_state=1)
    return machine.call("cuInit", "fail:802")


HEALTHY: dict[str, Callable[[], Machine]] = {
    "8xH100": hgx_h100,
    "8xA100 with MIG": hgx_a100_with_mig,
    "4xRTX4090": four_rtx_4090,
    "2xT4": two_t4,
    "1xH200": one_h200,
    "mixed": mixed_cards,
    "DGX Station": dgx_station,
}
