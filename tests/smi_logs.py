"""Whole logs of `nvidia-smi -q`, driver 580 on a board of H100s, with what a case changes in one GPU's section."""

from collections.abc import Mapping

GPU = """\
GPU 00000000:{bus}:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Product Brand                         : NVIDIA
    Product Architecture                  : Hopper
    Display Mode                          : Requested functionality has been deprecated
    Display Attached                      : Yes
    Display Active                        : Disabled
    Persistence Mode                      : {persistence}
    Addressing Mode                       : HMM
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    Serial Number                         : 16530231000{index}
    GPU UUID                              : GPU-0000000{index}-2222-3333-4444-555555555555
    GPU PDI                               : 0x1f2e3d4c5b6a700{index}
    Minor Number                          : {index}
    VBIOS Version                         : 96.00.A5.00.01
    Inforom Version
        Image Version                     : G520.0200.00.05
        OEM Object                        : 2.1
        ECC Object                        : 7.16
        Power Management Object           : N/A
    GSP Firmware Version                  : 580.82.07
    IBMNPU
        Relaxed Ordering Mode             : N/A
    PCI
        Bus                               : 0x{bus}
        Bus Id                            : 00000000:{bus}:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 5
                Device Current            : 5
                Device Max                : 5
                Host Max                  : 5
            Link Width
                Max                       : 16x
                Current                   : {width}x
        Replays Since Reset               : 0
        Replay Number Rollovers           : 0
    Fan Speed                             : N/A
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : Not Active
        Display Clock Setting             : Not Active
    FB Memory Usage
        Total                             : {total}
        Reserved                          : {reserved}
        Used                              : {used}
        Free                              : {free}
    Compute Mode                          : Default
    Utilization
        GPU                               : {busy}
        Memory                            : 0 %
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : {dram}
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 2
            DRAM Uncorrectable            : {dram}
            SRAM Threshold Exceeded       : No
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : {temperature}
        GPU T.Limit Temp                  : 55 C
        GPU Shutdown T.Limit Temp         : -8 C
        GPU Slowdown T.Limit Temp         : -2 C
        Memory Current Temp               : 41 C
        Memory Max Operating T.Limit Temp : 0 C
    GPU Power Readings
        Average Power Draw                : {power}
        Current Power Limit               : 700.00 W
        Default Power Limit               : 700.00 W
        Min Power Limit                   : 200.00 W
        Max Power Limit                   : 700.00 W
    Clocks
        Graphics                          : 345 MHz
        SM                                : 345 MHz
        Memory                            : 2619 MHz
    Max Clocks
        Graphics                          : 1980 MHz
        SM                                : 1980 MHz
        Memory                            : 2619 MHz
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 0
        ClusterUUID                       : 00000000-0000-0000-0000-000000000000
        Health
            Summary                       : {summary}
            Bandwidth                     : {bandwidth}
            Route Recovery in progress    : False
            Route Unhealthy               : {route}
            Access Timeout Recovery       : False
            Incorrect Configuration       : None
    Processes                             : None
    GPU Recovery Action                   : {action}
"""
BUSES = ("18", "2A", "3A", "5D", "9A", "AB", "BA", "DB")
HEALTHY = {
    "persistence": "Enabled",
    "width": "16",
    "total": "81559 MiB",
    "reserved": "594 MiB",
    "used": "1 MiB",
    "free": "80965 MiB",
    "busy": "0 %",
    "dram": "0",
    "temperature": "32 C",
    "power": "71.42 W",
    "summary": "Healthy",
    "bandwidth": "Full",
    "route": "False",
    "action": "None",
}
NONE = "    Processes                             : None\n"


def gpu(index: int, **changed: str) -> str:
    """One GPU's section."""
    return GPU.format(index=index, bus=BUSES[index], **{**HEALTHY, **changed})


def log(
    changed: Mapping[int, Mapping[str, str]] | None = None, *, count: int = 8, shown: int | None = None, **all_of: str
) -> str:
    """The log of `count` GPUs, of which the first `shown` have a section; by index what is changed in one of them."""
    head = f"""\

==============NVSMI LOG==============

Timestamp                                 : Tue Mar 10 04:11:09 2026
Driver Version                            : 580.82.07
CUDA Version                              : 13.0

Attached GPUs                             : {count}
"""
    every = (gpu(index, **{**all_of, **(changed or {}).get(index, {})}) for index in range(shown or count))
    return head + "\n".join(every) + "\n"


def processes(*rows: tuple[int, str, str, str]) -> str:
    """A section of processes: (pid, type, name, memory)."""
    lines = "".join(
        "        GPU instance ID                   : N/A\n"
        "        Compute instance ID               : N/A\n"
        f"        Process ID                        : {pid}\n"
        f"            Type                          : {kind}\n"
        f"            Name                          : {name}\n"
        f"            Used GPU Memory               : {memory}\n"
        for pid, kind, name, memory in rows
    )
    return f"    Processes\n{lines}"
