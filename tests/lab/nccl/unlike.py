"""Two nodes that are not alike, on the real NCCL: `python -m tests.lab.nccl.unlike [--drawn N] [--seed S]`.

Each has /sys, /dev and a driver of its own; the network of sockets is one, and of ports nothing is carried. One rank of
each joins the other's communicator and sends to it. Compared are, on each node, the ports that NCCL takes and the
network that it uses, with what we say of that node alone (as in oracle.py); and of the two together:

- where NCCL does not come through, `check --hosts` has told of a difference in RDMA ports or in a setting, or a check
  of one of the nodes has a finding in RDMA or NCCL; and `explain` is sure of a cause in `WHY`, or of none;
- where it does, `explain` is sure of none.

`WHY` and these sentences were written before NCCL was asked.
"""

import argparse
import copy
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from gpudoctor import diagnose, explain
from gpudoctor.fleet.compare import differences
from gpudoctor.snapshot import Snapshot, from_json
from tests.lab import machines
from tests.lab.nccl import wheels
from tests.lab.nccl.cases import ETH, ethernet, gpus, rails
from tests.lab.nccl.drawn import examples
from tests.lab.nccl.node import BESIDE, Hca, Node
from tests.lab.nccl.oracle import SURE, Case, as_seen, in_node, ports, run_of

WHY = {"rdma-unused", "nccl-settings", "rail-cross-nic", "ib-link-down", "roce-gid-index", "wrong-nic"}
TOLD_BY = re.compile(r"rdma|roce|nccl|hca|infiniband|ib-")
"""How checks are called that look at these."""
RDMA = re.compile(r"RDMA ports|NCCL_|settings")
PROCESS = re.compile(r"RESULT rank (\d+) is process (\d+)")
RESULTS = re.compile(r"RESULT (?:init|pairs) (-?\d+)")
"""Two processes write into one log: a line may hold two."""
STEPS = 2
DRIVERS = ("580.95.05", "580.95.05", "570.86.15", "550.54.15", "535.183.01")


class Pair(NamedTuple):
    name: str
    nodes: tuple[Node, Node]
    drivers: tuple[str, str]
    settings: tuple[dict[str, str], dict[str, str]]


def roce(index: int, hca: Hca) -> Hca:
    gid = f"0000:0000:0000:0000:0000:ffff:0a01:{index + 1:04x}"
    made = ethernet(hca.name, gid, "eth0", 0x0C, rate="400 Gb/sec (4X NDR)")
    return replace(made, path=hca.path, numa=hca.numa)


@st.composite
def pair(draw: st.DrawFn) -> Pair:
    """A node with a port for each of its GPUs, and one that differs from it in one to three things."""
    count = draw(st.sampled_from((1, 2, 2, 4)))
    plain = rails(count)
    if draw(st.integers(0, 3)) == 0:
        plain = [roce(index, hca) for index, hca in enumerate(plain)]
    one = Node(ETH, gpus(2), plain, nvswitch=False)
    other = copy.deepcopy(one)
    own: dict[str, str] = {}
    both = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "NCCL_IB_HCA": st.sampled_from(("mlx5", "mlx5_0", "=mlx5_0", "^mlx5_1", "mlx5_0:1")),
                "NCCL_NET": st.just("IB"),
            },
        )
    )
    kinds = ("names", "none", "down", "fewer", "layer", "verbs", "some verbs", "rate", "driver", "setting", "bond")
    for what in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3, unique=True)):
        ports_of_other = other.hcas
        if what == "names":
            for index, hca in enumerate(ports_of_other):
                hca.name = draw(st.sampled_from((f"ibp{index}s0", f"mlx5_{index + 4}", f"rocep{index}s0")))
        elif what == "bond" and ports_of_other:
            ports_of_other[0].name = "mlx5_bond_0"
        elif what == "none":
            other.hcas = []
        elif what == "down" and ports_of_other:
            down = draw(st.integers(0, 2)) > 0
            for hca in ports_of_other if down else ports_of_other[:1]:
                hca.ports["1"]["state"] = draw(st.sampled_from(("1: DOWN", "2: INIT")))
        elif what == "fewer":
            other.hcas = ports_of_other[: max(1, len(ports_of_other) // 2)]
        elif what == "layer":
            was_ethernet = any(hca.ports["1"].get("link_layer") == "Ethernet" for hca in ports_of_other)
            other.hcas = [
                Hca(hca.path, hca.numa, hca.name) if was_ethernet else roce(index + 8, hca)
                for index, hca in enumerate(ports_of_other)
            ]
        elif what in ("verbs", "some verbs"):
            for hca in ports_of_other if what == "verbs" else ports_of_other[:1]:
                hca.verbs = False
        elif what == "rate":
            for hca in ports_of_other:
                hca.ports["1"]["rate"] = "200 Gb/sec (4X HDR)"
        elif what == "setting":
            name, value = draw(
                st.sampled_from(
                    (
                        ("NCCL_IB_DISABLE", "1"),
                        ("NCCL_NET", "Socket"),
                        ("NCCL_IB_HCA", "mlx5_1"),
                        ("NCCL_IB_HCA", "nosuch"),
                        ("NCCL_IB_GID_INDEX", "3"),
                        ("NCCL_IB_MERGE_NICS", "1"),
                    )
                )
            )
            own[name] = value
    drivers = (DRIVERS[0], draw(st.sampled_from(DRIVERS)))
    return Pair("", (one, other), drivers, (both, both | own))


def pairs(count: int, seed: int) -> list[Pair]:
    return [made._replace(name=f"unlike {number}") for number, made in enumerate(examples(pair(), count, seed))]


class Answer(NamedTuple):
    pair: Pair
    came_through: bool
    compared: int
    differences: list[str]
    log: str


def ask(made: Pair, release: str) -> Answer:
    machine = replace(machines.hgx_h100(2), driver=made.drivers[0])
    case = Case(made.name, "unlike", made.nodes[0], machine=machine, gpus=2, more=("pairs", "apart"))
    with tempfile.TemporaryDirectory(prefix="gpudoctor-nccl-") as place:
        folder = Path(place)
        (folder / BESIDE).write_text(made.nodes[1].text())
        driver = folder / "machine-beside.txt"
        driver.write_text(replace(machine, driver=made.drivers[1]).text())
        beside = {
            "STAGE": str(folder / "stage-beside"),
            "FAKE_NVIDIA_MACHINE": str(driver),
            **made.settings[1],
        }
        of_rank = ";".join(f"{name}={value}" for name, value in {**beside, "NCCL_HOSTID": "b", "GPU": "0"}.items())
        plan = {
            "captures": [made.settings[0], beside],
            "runs": [run_of(case, release, made.settings[0] | {"FAKE_OF_RANK_1": of_rank})],
        }
        with in_node(case, plan, folder) as node:
            said, _ = node.communicate(timeout=300)
        log = (folder / "0.log").read_text(errors="replace") if (folder / "0.log").exists() else said
        snapshots = [
            as_seen(from_json((folder / f"snapshot-{number}.json").read_bytes()), release, None) for number in (0, 1)
        ]
        codes = [int(each) for each in RESULTS.findall(log)]
        came_through = not any(codes) and len(codes) == STEPS * 2
        causes = [cause.cause or "" for cause in explain(paths=[folder / "0.log"]).causes if cause.confidence >= SURE]
        compared, unlike = judged(case, snapshots, log, came_through, causes)
    return Answer(made, came_through, compared, unlike, log)


def judged(
    case: Case, snapshots: list[Snapshot], log: str, came_through: bool, causes: list[str]
) -> tuple[int, list[str]]:
    compared, unlike = 1, []
    pids = dict(PROCESS.findall(log))
    for rank, snapshot in enumerate(snapshots):
        own = "\n".join(line for line in log.splitlines() if f":{pids[str(rank)]}:" in line)
        number, found = ports(snapshot, own, case)
        compared += number
        unlike += [f"node {rank}: {each}" for each in found]
    if came_through:
        unlike += [f"NCCL comes through, and explain is sure of {cause}" for cause in causes[:1]]
        return compared, unlike
    facts = [each.fact for each in differences({"a": snapshots[0], "b": snapshots[1]})]
    told = [fact for fact in facts if RDMA.search(fact)]
    for snapshot in snapshots:
        told += [each.check for each in diagnose(snapshot).results if each.problems and TOLD_BY.search(each.check)]
    if not told:
        unlike.append(f"NCCL does not come through, and nothing is told but {', '.join(facts) or 'nothing'}")
    if causes and causes[0] not in WHY:
        unlike.append(f"NCCL does not come through, and explain is sure of {causes[0]}")
    if not causes:
        unlike.append("undecided: NCCL does not come through, and explain is not sure")
    return compared + 2, unlike


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.nccl.unlike", description=__doc__)
    parser.add_argument("--drawn", type=int, default=20, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--release", default=wheels.NEWEST_NCCL)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the logs of those that differ")
    chosen = parser.parse_args()
    counts: Counter[str] = Counter()
    with ThreadPoolExecutor(chosen.at_once) as pool:
        for answer in tried(pool, pairs(chosen.drawn, chosen.seed), chosen.release):
            if isinstance(answer, str):
                print(answer, flush=True)
                counts["failed"] += 1
                continue
            undecided = [each for each in answer.differences if each.startswith("undecided")]
            counts["pairs"] += 1
            counts["come through"] += answer.came_through
            counts["agree"] += not answer.differences
            counts["undecided only"] += bool(undecided) and len(undecided) == len(answer.differences)
            counts["things"] += answer.compared
            counts["things that differ"] += len(answer.differences) - len(undecided)
            for difference in answer.differences:
                print(f"{answer.pair.name} {answer.pair.settings} {answer.pair.drivers}\n    {difference}", flush=True)
            if chosen.keep and answer.differences:
                chosen.keep.mkdir(parents=True, exist_ok=True)
                (chosen.keep / f"{answer.pair.name}.log").write_text(answer.log)
    print(dict(counts))
    return int(counts["things that differ"] > 0)


def tried(pool: ThreadPoolExecutor, made: list[Pair], release: str) -> Iterator[Answer | str]:
    def one(each: Pair) -> Answer | str:
        try:
            return ask(each, release)
        except Exception as error:  # the others go on
            return f"{each.name} failed: {type(error).__name__}: {str(error)[-400:]}"

    yield from pool.map(one, made)


if __name__ == "__main__":
    sys.exit(main())
