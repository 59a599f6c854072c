"""RDMA devices as folders of a fake /sys (tests/fake_tree.py)."""

from tests.fake_tree import Link

Files = dict[str, str | bytes | Link]
CLASS = "/sys/class/infiniband"
ZERO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
HEALTHY = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "rate": "400 Gb/sec (4X NDR)",
    "link_layer": "InfiniBand",
    "lid": "0x1a",
    "sm_lid": "0x1",
}
COUNTERS = ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards")
HW_COUNTERS = ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rx_icrc_encapsulated")


def device(
    name: str,
    bus_id: str = "0000:1a:00.0",
    *,
    gids: dict[int, tuple[str, str, str]] | None = None,
    table: int = 16,
    counters: dict[str, int] | None = None,
    **facts: str,
) -> Files:
    """A device with one port; `gids` by index as (GID, type, interface), `facts` replace files of the port."""
    place = f"/sys/devices/pci0000:17/0000:17:01.0/{bus_id}"
    port = f"{CLASS}/{name}/ports/1"
    files: Files = {
        f"{CLASS}/{name}/board_id": "MT_0000000838\n",
        f"{CLASS}/{name}/fw_ver": "28.39.1002\n",
        f"{CLASS}/{name}/device": Link(f"../../../devices/pci0000:17/0000:17:01.0/{bus_id}"),
        f"{place}/numa_node": "1\n",
        f"{place}/driver": Link("../../../../bus/pci/drivers/mlx5_core"),
        f"{place}/net/ib0/": "",
    }
    files |= {f"{port}/{file}": text + "\n" for file, text in (HEALTHY | facts).items()}
    entries = gids or {}
    for index in range(table):
        gid, kind, interface = entries.get(index, (ZERO_GID, "", ""))
        files[f"{port}/gids/{index}"] = gid + "\n"
        if kind:
            files[f"{port}/gid_attrs/types/{index}"] = kind + "\n"
        if interface:
            files[f"{port}/gid_attrs/ndevs/{index}"] = interface + "\n"
    counted = dict.fromkeys((*COUNTERS, *HW_COUNTERS), 0) | (counters or {})
    for counter, value in counted.items():
        folder = "hw_counters" if counter in HW_COUNTERS else "counters"
        files[f"{port}/{folder}/{counter}"] = f"{value}\n"
    return files
