"""What other tools than `nvidia-smi` print, in our own numbers, with what a case changes."""

from collections.abc import Mapping, Sequence

LEGEND = (
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe and the SMP interconnect\n  NV#  = A bonded set\n"
)


def gpu_list(count: int = 8, name: str = "NVIDIA H100 80GB HBM3", *, mig: int = 0) -> str:
    lines = []
    for index in range(count):
        lines += [f"GPU {index}: {name} (UUID: {uuid(index)})"]
        lines += [f"  MIG 1g.10gb     Device  {each}: (UUID: MIG-{index}{each}-4444)" for each in range(mig)]
    return "\n".join([*lines, ""])


def uuid(index: int) -> str:
    return f"GPU-0a0b0c0{index}-1111-2222-3333-444444444444"


def nvlinks(count: int = 8, links: int = 18, dead: Mapping[int, Sequence[int]] | None = None) -> str:
    lines = []
    for index in range(count):
        lines += [f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: {uuid(index)})"]
        off = (dead or {}).get(index, ())
        lines += [f"\t Link {link}: {'<inactive>' if link in off else '26.562 GB/s'}" for link in range(links)]
    return "\n".join([*lines, ""])


def matrix(count: int = 8, bond: str = "NV18", alone: Sequence[int] = (), nics: int = 0) -> str:
    names = [f"GPU{index}" for index in range(count)] + [f"NIC{index}" for index in range(nics)]
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for index in range(count):
        cells = [
            " X " if other == index else "SYS" if index in alone or other in alone else bond for other in range(count)
        ]
        near = "0-55,112-167\t0\t\tN/A" if index < (count + 1) // 2 else "56-111,168-223\t1\t\tN/A"
        lines += ["\t".join([f"GPU{index}", *cells, *["PXB"] * nics, near])]
    lines += ["\t".join([f"NIC{index}", *["PXB"] * (count + nics)]) for index in range(nics)]
    return "\n".join(lines) + "\n" + LEGEND


def port(name: str, **changes: str) -> dict[str, str]:
    return {
        "name": name,
        "state": "Active",
        "physical": "LinkUp",
        "rate": "400",
        "lid": "12",
        "sm": "1",
        "layer": "InfiniBand",
    } | changes


def ibstat(*ports: Mapping[str, str]) -> str:
    return "".join(
        f"CA '{each['name']}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.39.2048\n"
        f"\tHardware version: 0\n\tNode GUID: 0x0011223344556677\n\tPort 1:\n"
        f"\t\tState: {each['state']}\n\t\tPhysical state: {each['physical']}\n"
        f"\t\tRate: {each['rate']}\n\t\tBase lid: {each['lid']}\n\t\tLMC: 0\n\t\tSM lid: {each['sm']}\n"
        f"\t\tPort GUID: 0x0011223344556677\n\t\tLink layer: {each['layer']}\n"
        for each in ports
    )


NUMBERS = {"Active": "4: ACTIVE", "Down": "1: DOWN", "Initializing": "2: INIT"}
PLACES = {"LinkUp": "5: LinkUp", "Polling": "2: Polling", "Disabled": "3: Disabled"}


def ibstatus(*ports: Mapping[str, str]) -> str:
    return "".join(
        f"Infiniband device '{each['name']}' port 1 status:\n\tdefault gid:\t fe80:0000:0000:0000:0011:2233:4455:6677\n"
        f"\tbase lid:\t {int(each['lid']):#x}\n\tsm lid:\t\t {int(each['sm']):#x}\n"
        f"\tstate:\t\t {NUMBERS[each['state']]}\n\tphys state:\t {PLACES[each['physical']]}\n"
        f"\trate:\t\t {each['rate']} Gb/sec (4X NDR)\n\tlink_layer:\t {each['layer']}\n\n"
        for each in ports
    )


def ibv_devinfo(*ports: Mapping[str, str]) -> str:
    words = {"Active": "PORT_ACTIVE (4)", "Down": "PORT_DOWN (1)", "Initializing": "PORT_INIT (2)"}
    return "".join(
        f"hca_id:\t{each['name']}\n\ttransport:\t\t\tInfiniBand (0)\n\tfw_ver:\t\t\t\t28.39.2048\n"
        f"\tboard_id:\t\t\tMT_0000000838\n\tphys_port_cnt:\t\t\t1\n\t\tport:\t1\n\t\t\tstate:\t\t\t{words[each['state']]}\n"
        f"\t\t\tactive_mtu:\t\t4096 (5)\n\t\t\tsm_lid:\t\t\t{each['sm']}\n\t\t\tport_lid:\t\t{each['lid']}\n"
        f"\t\t\tlink_layer:\t\t{each['layer']}\n\n"
        for each in ports
    )


def rdma_link(*ports: Mapping[str, str]) -> str:
    physical = {"LinkUp": "LINK_UP", "Polling": "POLLING", "Disabled": "DISABLED"}
    states = {"Active": "ACTIVE", "Down": "DOWN", "Initializing": "INIT"}
    return "".join(
        f"link {each['name']}/1 "
        + (
            ""
            if each["layer"] == "Ethernet"
            else f"subnet_prefix fe80:0000:0000:0000 lid {each['lid']} sm_lid 1 lmc 0 "
        )
        + f"state {states[each['state']]} physical_state {physical[each['physical']]}"
        + (f" netdev ens{each['name'][-1]}np0" if each["layer"] == "Ethernet" else "")
        + " \n"
        for each in ports
    )


def lspci(count: int = 8, silent: Sequence[int] = (), form: str = "") -> str:
    """`form`: the options: "" plain, "nn", "nnk"."""
    lines = ["00:00.0 Host bridge: Intel Corporation Device 09a2 (rev 20)"]
    for index in range(count):
        kind = "3D controller [0302]" if form else "3D controller"
        ids = " [10de:2330]" if form else ""
        end = "ff" if index in silent else "a1"
        bus = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")[index % 8]
        lines += [f"{bus}:00.0 {kind}: NVIDIA Corporation GH100 [H100 SXM5 80GB]{ids} (rev {end})"]
        if form == "nnk":
            lines += ["\tSubsystem: NVIDIA Corporation Device [10de:16c1]", "\tKernel driver in use: nvidia"]
            lines += ["\tKernel modules: nvidiafb, nouveau, nvidia_drm, nvidia"]
    return "\n".join([*lines, ""])


def rocm_smi(count: int = 8, form: str = "now") -> str:
    """The short table of releases before 6 ("early") and since ("now"); product and bus of each GPU ("all")."""
    title = "=" * 40 + " ROCm System Management Interface " + "=" * 40
    if form == "all":
        told = (
            f"GPU[{each}]\t\t: Card Series: \t\tAMD Instinct MI300X\n"
            f"GPU[{each}]\t\t: PCI Bus: 0000:{each + 5:02X}:00.0\n"
            for each in range(count)
        )
        return f"{title}\n{''.join(told)}{'=' * 80}\n"
    heads = {
        "early": (
            "GPU  Temp   AvgPwr  SCLK    MCLK     Fan  Perf  PwrCap  VRAM%  GPU%",
            "{}    41.0c  90.0W   800Mhz  0%   0%",
        ),
        "now": (
            "Device  Node  IDs   Temp  Power  VRAM%  GPU%",
            "{}       2     0x74a1,   12000  41.0\u00b0C  N/A  0%  N/A",
        ),
    }
    head, row = heads[form]
    rows = "".join(f"{row.format(each)}\n" for each in range(count))
    return f"{title}\n{head}\n{'=' * 80}\n{rows}{'=' * 80}\n{'=' * 30} End of ROCm SMI Log {'=' * 30}\n"
