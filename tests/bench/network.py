"""How long the network takes to read on a large machine: 9 RDMA devices of 256 GIDs each, and 200 interfaces.

    python -m tests.bench.network [--runs N]

Two numbers, medians: each reader of the network by itself, and what all of them add to the local readers' child when
they run beside the others in threads, as they do in `gpudoctor check`. The promise is 60 ms. Nothing is asserted here.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from gpudoctor.read import interfaces
from gpudoctor.read.local import readers, run
from gpudoctor.read.reader import Reader
from gpudoctor.read.system import System
from gpudoctor.snapshot import Address
from tests.fake_rdma import Files, device
from tests.fake_tree import Link, fake

DEVICES, GIDS, INTERFACES = 9, 256, 200
PROMISED_SECONDS = 0.060


def tree(*, counting: bool) -> Files:
    """The machine; with `counting`, each port remembers an error, so that all are looked at twice."""
    files: Files = {"/proc/net/if_inet6": "", "/proc/net/route": "Iface\tDestination\n"}
    for index in range(DEVICES):
        used = {
            entry: (f"0000:0000:0000:0000:0000:ffff:0a{index:02x}:{entry:04x}", "RoCE v2", f"eth{index}")
            for entry in range(4)
        }
        bus_id = f"0000:{0x1A + 0x10 * index:02x}:00.0"
        files |= device(f"mlx5_{index}", bus_id, gids=used, table=GIDS, counters={"link_downed": 3} if counting else {})
        place = f"/sys/devices/pci0000:17/0000:17:01.0/{bus_id}"
        files |= {f"{place}/class": "0x020000\n", f"{place}/vendor": "0x15b3\n", f"{place}/device": "0x1021\n"}
        files[f"/sys/bus/pci/devices/{bus_id}"] = Link(f"../../../devices/pci0000:17/0000:17:01.0/{bus_id}")
    for index in range(INTERFACES):
        folder = f"/sys/class/net/eth{index}"
        facts = {"type": "1", "flags": "0x1003", "operstate": "up", "speed": "100000", "mtu": "9000", "uevent": "",
                 "address": "02:00:00:00:00:01", "ifindex": str(index + 2)}  # fmt: skip
        files |= {f"{folder}/{name}": text + "\n" for name, text in facts.items()}
    return files


def table() -> Mapping[str, tuple[Address, ...]]:
    """In the place of getifaddrs, which knows this machine only."""
    return {
        f"eth{index}": (Address("inet", f"10.{index}.0.1", 24),) if index < DEVICES else ()
        for index in range(INTERFACES)
    }


def network_readers() -> list[Reader[...]]:
    found = [reader for reader in readers() if all(field.startswith("network.") for field in reader.fields)]
    of_a_tree = Reader("interfaces", ("network.interfaces",), partial(interfaces.read_interfaces, table=table))
    return [of_a_tree if reader is interfaces.read_interfaces else reader for reader in found]


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def side_by_side(every: Sequence[Reader[...]], system: System) -> None:
    threads = [threading.Thread(target=run, args=(reader, system)) for reader in every]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(title: str, system: System, runs: int) -> None:
    network = network_readers()
    fields = {field for reader in network for field in reader.fields}
    others = [reader for reader in readers() if not fields & set(reader.fields)]
    print(f"{title}, medians of {runs} rounds:")
    alone: dict[str, list[float]] = {reader.name: [] for reader in network}
    added: list[float] = []
    together: list[float] = []
    side_by_side([*network, *others], system)  # imports, the page cache
    for _ in range(runs):
        for reader in network:
            alone[reader.name].append(seconds(lambda reader=reader: run(reader, system)))  # type: ignore[misc]
        without = seconds(lambda: side_by_side(others, system))
        added.append(seconds(lambda: side_by_side([*others, *network], system)) - without)
        together.append(seconds(lambda: side_by_side(network, system)))
    for name, taken in sorted(alone.items(), key=lambda item: -statistics.median(item[1])):
        print(f"  {name:20} {1000 * statistics.median(taken):7.1f} ms")
    print(f"  {'all, side by side':20} {1000 * statistics.median(together):7.1f} ms")
    spent = statistics.median(added)
    print(f"  {'added to the others':20} {1000 * spent:7.1f} ms (promised: {1000 * PROMISED_SECONDS:.0f} ms at most)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=15)
    runs: int = parser.parse_args().runs
    for title, counting in (("no errors counted", False), ("errors on every port", True)):
        with tempfile.TemporaryDirectory() as folder:
            measure(title, fake(Path(folder), tree(counting=counting)), runs)


if __name__ == "__main__":
    main()
