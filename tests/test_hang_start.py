"""Jobs that do not start: each rule on hand-made jobs, where it speaks, where it must be silent, what it names."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.causes import CAUSES
from gpudoctor.hang.all_rules import RULES as EVERY_RULE
from gpudoctor.hang.causes import (
    HangRule,
    start_clock,
    start_gpus,
    start_master,
    start_network,
    start_settings,
    start_world,
)
from gpudoctor.hang.conclude import state_of
from gpudoctor.hang.job import HangJob, Launcher, Rank
from gpudoctor.hang.progress import progress_of
from gpudoctor.hang.report import HangCause
from gpudoctor.hang.starts import command_with, starts_of
from gpudoctor.knowledge.places import Kind, Place
from gpudoctor.launcher.told import address_and_port, node_counts
from gpudoctor.snapshot.evidence import (
    ConnectionAttempt,
    Evidence,
    Frame,
    GpuUse,
    KernelEvent,
    NodeEvidence,
    NodeInterface,
    Process,
    ProcessEvidence,
    Sample,
    Socket,
    Thread,
)
from gpudoctor.sure import SCALE
from tests.hang_jobs import place_at

RULES: tuple[HangRule, ...] = (
    *start_world.RULES,
    *start_master.RULES,
    *start_network.RULES,
    *start_clock.RULES,
    *start_settings.RULES,
    *start_gpus.RULES,
)
PORT = 29500
ADDRESSES = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}


class Part(Struct, frozen=True, kw_only=True):
    """What runs on one host: a launcher and its ranks, or ranks alone."""

    host: str
    launcher: ProcessEvidence | None = None
    launcher_place: Kind = "rendezvous"
    ranks: tuple[tuple[int, ProcessEvidence, Place], ...] = ()
    node: dict[str, Any] = {}


def process(pid: int, command: Sequence[str], *, age: float = 60.0, parent: int = 1, sockets: Sequence[Socket] = (),
            environment: dict[str, str] | None = None, frames: Sequence[Frame] = (),
            **more: Any) -> ProcessEvidence:  # fmt: skip
    thread = Thread(id=pid, name="MainThread", frames=tuple(frames))
    return ProcessEvidence(
        process=Process(pid=pid, parent=parent, started=pid, age_seconds=age, state="S", command=tuple(command),
                        environment=environment or {}, environment_read=True),
        samples=(Sample(at=0.0, state="S", threads=(thread,)), Sample(at=2.5, state="S", threads=(thread,))),
        sockets=tuple(sockets),
        **more,
    )  # fmt: skip


def torchrun(host: str, *options: str, pid: int = 0, age: float = 60.0, sockets: Sequence[Socket] = (),
             place: Kind = "rendezvous", ranks: Sequence[int] = (), rank_place: Kind = "communicator init",
             rank_sockets: Sequence[Socket] = (), environment: dict[str, str] | None = None, world: int = 2,
             frames: Sequence[Frame] = (), rank_more: dict[str, Any] | None = None, **node: Any) -> Part:  # fmt: skip
    pid = pid or 1000 * (ord(host) - 96)
    command = ("/opt/bin/python", "/opt/bin/torchrun", *options, "train.py", "--lr", "0.1")
    own = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": str(PORT), "WORLD_SIZE": str(world), "TORCHELASTIC_RUN_ID": "none"}
    below = tuple(
        (
            number,
            process(
                pid + 1 + number,
                ("python", "train.py"),
                age=age,
                parent=pid,
                sockets=rank_sockets,
                environment={**own, "RANK": str(number), **(environment or {})},
                frames=frames,
                **(rank_more or {}),
            ),
            place_at(rank_place, "init_process_group"),
        )
        for number in ranks
    )
    starter = process(pid, command, age=age, sockets=sockets)
    return Part(host=host, launcher=starter, launcher_place="sleep" if ranks else place, ranks=below, node=node)


def by_hand(host: str, rank: int, world: int, *, place: Kind = "rendezvous", pid: int = 0, parent: int = 1,
            age: float = 60.0, environment: dict[str, str] | None = None, sockets: Sequence[Socket] = (),
            **node: Any) -> Part:  # fmt: skip
    own = {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": str(PORT)}
    started = process(pid or 1000 * (ord(host) - 96) + rank, ("python", "train.py"), age=age, parent=parent,
                      environment={**own, **(environment or {})}, sockets=sockets)  # fmt: skip
    return Part(host=host, ranks=((rank, started, place_at(place, "TCPStore")),), node=node)


def job(*parts: Part, lost: Sequence[str] = (), moved: bool = False) -> HangJob:
    nodes: dict[str, NodeEvidence] = {}
    for part in parts:
        known = nodes.get(part.host)
        own = {
            "interfaces": (
                NodeInterface("lo", ("127.0.0.1",)),
                NodeInterface("eth0", (ADDRESSES[part.host],)),
            ),
            "resolved": {part.host: (ADDRESSES[part.host],)},
            **part.node,
        }
        there = known.processes if known is not None else ()
        present = ((part.launcher,) if part.launcher else ()) + tuple(evidence for _, evidence, _ in part.ranks)
        nodes[part.host] = NodeEvidence(
            name=part.host, hostname=part.host, boot_id=f"boot {part.host}", network_namespace=f"net:[{part.host}]",
            processes=there + present, **{"own": tuple(each.process.pid for each in there + present), **own},
        )  # fmt: skip
    ranks = [
        Rank(
            rank=number,
            local_rank=0,
            world_size=int(evidence.process.environment["WORLD_SIZE"])
            if "WORLD_SIZE" in evidence.process.environment
            else None,
            node=nodes[part.host],
            evidence=evidence,
            place=place,
            first_place=place,
            moved=moved,
        )
        for part in parts
        for number, evidence, place in part.ranks
    ]
    sizes = [rank.world_size for rank in ranks if rank.world_size]
    return HangJob(
        id="job",
        evidence=Evidence(nodes=tuple(nodes.values()), lost=dict.fromkeys(lost, "no answer")),
        world_size=max(set(sizes), key=sizes.count) if sizes else 0,
        master_address="10.0.0.1",
        master_port=PORT,
        ranks=tuple(sorted(ranks, key=lambda rank: rank.rank)),
        launchers=tuple(
            Launcher(node=nodes[part.host], evidence=part.launcher, kind="torchrun",
                     place=place_at(part.launcher_place), moved=moved,
                     ranks=tuple(number for number, _, _ in part.ranks))
            for part in parts
            if part.launcher is not None
        ),
        nodes=tuple(nodes.values()),
    )  # fmt: skip


def causes(of: HangJob, rules: Sequence[HangRule] = RULES) -> list[HangCause]:
    """What all rules of the start say, best first."""
    found = [cause for rule in rules for cause in rule(of)]
    for cause in found:
        assert cause.cause in CAUSES
        assert cause.confidence in SCALE
        assert cause.summary and not cause.summary.endswith(".") and "\n" not in cause.summary
        assert cause.evidence and cause.fix.text.endswith(".")
        assert cause.confidence >= 0.9 or cause.confirm.rstrip(".")
        assert all(line and "\n" not in line for line in cause.fix.commands)
    return sorted(found, key=lambda cause: -cause.confidence)


def static(node_rank: int, nodes: int = 2, address: str = "10.0.0.1", port: int = PORT) -> tuple[str, ...]:
    return ("--nnodes", str(nodes), f"--node_rank={node_rank}", "--master-addr", address, "--master-port", str(port))


def c10d(nodes: int = 2, endpoint: str = f"10.0.0.1:{PORT}") -> tuple[str, ...]:
    return (f"--nnodes={nodes}", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "7")


def listening(address: str = "0.0.0.0", port: int = PORT, pid: int = 0, name: str = "") -> Socket:
    return Socket(state="LISTEN", local=address, local_port=port, pid=pid, process=name)


def connecting(remote: str, port: int = PORT, retransmits: int = 2) -> Socket:
    return Socket(state="SYN_SENT", local="10.0.0.2", local_port=40000, remote=remote, remote_port=port,
                  unsent_bytes=1, retransmits=retransmits)  # fmt: skip


def established(remote: str, port: int, *, unsent: int = 0, retransmits: int = 0, local_port: int = 41000) -> Socket:
    return Socket(state="ESTABLISHED", local="10.0.0.9", local_port=local_port, remote=remote, remote_port=port,
                  unsent_bytes=unsent, retransmits=retransmits)  # fmt: skip


def reached(outcome: str, address: str = "10.0.0.1", port: int = PORT) -> tuple[ConnectionAttempt, ...]:
    return (ConnectionAttempt(address=address, port=port, outcome=outcome),)


MASTER: dict[str, Any] = {"sockets": (listening(),)}
ENVIRONMENT_STORE = {"TORCHELASTIC_USE_AGENT_STORE": "True"}
PRIVATE = (
    Frame("_create_c10d_store", "/x/torch/distributed/rendezvous.py", 198),
    Frame("_tcp_rendezvous_handler", "/x/torch/distributed/rendezvous.py", 250),
    Frame("init_process_group", "/x/torch/distributed/distributed_c10d.py", 1890),
    Frame("main", "/home/mara/train.py", 52),
)
LIGHTNING = (
    Frame("_create_c10d_store", "/x/torch/distributed/rendezvous.py", 198),
    Frame("_init_dist_connection", "/x/site-packages/lightning/fabric/utilities/distributed.py", 298),
    Frame("main", "/home/mara/train.py", 52),
)
PEER: dict[str, Any] = {"rank_sockets": (connecting("10.0.0.1", 45001),)}

SPEAKS: dict[str, tuple[HangJob, str, tuple[int, ...] | None, tuple[str, ...]]] = {
    "different --nnodes": (
        job(torchrun("a", *static(0, 3), **MASTER), torchrun("b", *static(1, 2), place="store wait")),
        "launcher-world-mismatch",
        (),
        ("3 nodes on a", "2 nodes on b", "torchrun --nnodes 2 --node_rank=0 --master-addr 10.0.0.1"),
    ),
    "different --nnodes, three nodes, two agree": (
        job(torchrun("a", *c10d(3)), torchrun("b", *c10d(3)), torchrun("c", *c10d(2))),
        "launcher-world-mismatch",
        (),
        ("2 nodes on c", "torchrun --nnodes=3 --rdzv-backend c10d"),
    ),
    "one node rank twice": (
        job(torchrun("a", *static(0, 3)), torchrun("b", *static(1, 3)), torchrun("c", *static(1, 3))),
        "launcher-world-mismatch",
        (),
        ("node rank 1 on b and c", "nobody has node rank 2", "--node_rank=2"),
    ),
    "WORLD_SIZE by hand": (
        job(by_hand("a", 0, 3), by_hand("b", 1, 2), by_hand("c", 2, 3)),
        "launcher-world-mismatch",
        (1,),
        ("2 on rank 1", "export WORLD_SIZE=3"),
    ),
    "RANK twice": (
        job(by_hand("a", 0, 3), by_hand("b", 1, 3), by_hand("c", 1, 3)),
        "launcher-world-mismatch",
        (1,),
        ("rank 1 is claimed", "nobody is rank 2"),
    ),
    "a node has not come": (
        job(torchrun("a", *c10d(3), **MASTER), torchrun("b", *c10d(3))),
        "launcher-world-mismatch",
        (),
        ("2 of 3 nodes", "a and b"),
    ),
    "ranks were not started, SLURM": (
        job(
            by_hand("a", 0, 8, environment={"SLURM_NTASKS": "1", "SLURM_PROCID": "0"}),
        ),
        "launcher-world-mismatch",
        (1, 2, 3, 4, 5, 6, 7),
        ("1 of 8 ranks", "SLURM started 1 task"),
    ),
    "master is localhost on both": (
        job(torchrun("a", *c10d(2, "localhost:29500")), torchrun("b", *c10d(2, "localhost:29500"))),
        "master-addr-loopback",
        (),
        ("localhost", "--rdzv-endpoint 10.0.0.1:29500"),
    ),
    "no --master-addr on the second": (
        job(torchrun("a", *static(0), **MASTER), torchrun("b", "--nnodes=2", "--node-rank=1")),
        "master-addr-loopback",
        (),
        ("127.0.0.1", " on b", "--master-addr 10.0.0.1"),
    ),
    "another master on one node": (
        job(torchrun("a", *static(0), **MASTER), torchrun("b", *static(1, address="10.0.0.99"),
                                                          sockets=(connecting("10.0.0.99"),))),
        "master-unreachable",
        (),
        ("10.0.0.99:29500", "10.0.0.1:29500", "--master-addr 10.0.0.1"),
    ),
    "the master's name": (
        job(torchrun("a", *static(0), **MASTER),
            torchrun("b", *static(1, address="haed"), resolved={"haed": (), "b": ("10.0.0.2",)})),
        "master-unreachable",
        (),
        ("haed does not resolve on b", "--master-addr 10.0.0.1"),
    ),
    "the master's port is filtered": (
        job(torchrun("a", *static(0), **MASTER),
            torchrun("b", *static(1), sockets=(connecting("::ffff:10.0.0.1"),), reached=reached("no answer"))),
        "master-unreachable",
        (),
        ("where a listens", "--dport 29500"),
    ),
    "an old run has the port, the master has ended": (
        job(Part(host="a", node={"listeners": (listening("::", pid=77, name="python"),), "own": (77,)}),
            torchrun("b", *static(1), place="rendezvous")),
        "master-port-in-use",
        (),
        ("port 29500 on a", "pid 77 python", "kill 77", "--master-port 29501"),
    ),
    "somebody else has the port": (
        job(Part(host="a", node={"listeners": (listening("::", pid=77, name="python"),)}),
            torchrun("b", *static(1), place="rendezvous")),
        "master-port-in-use",
        (),
        ("port 29500 on a", "pid 77 python", "ps -fp 77", "--master-port 29501"),
    ),
    "sshd has the port": (
        job(torchrun("a", *c10d(2, "10.0.0.1:22"), listeners=(listening(port=22, pid=5, name="sshd"),)),
            torchrun("b", *c10d(2, "10.0.0.1:22"))),
        "master-port-in-use",
        (),
        ("port 22 on a", "pid 5 sshd", "10.0.0.1:23"),
    ),
    "nobody hosts the rendezvous": (
        job(torchrun("a", *c10d(2, "10.0.1.1:29500"), reached=reached("refused", "10.0.1.1"),
                     interfaces=(NodeInterface("eth0", ("10.0.0.1",)), NodeInterface("eth1", ("10.0.1.1",)))),
            torchrun("b", *c10d(2, "10.0.1.1:29500"), reached=reached("refused", "10.0.1.1"))),
        "rdzv-host-mismatch",
        (),
        ("10.0.1.1:29500", "a has that address", "--rdzv-endpoint 10.0.0.1:29500"),
    ),
    "high ports are dropped": (
        job(torchrun("a", *static(0), ranks=(0,), rank_sockets=(listening("10.0.0.1", 45001),)),
            torchrun("b", *static(1), ranks=(1,), **PEER)),
        "firewall-ephemeral-ports",
        (0,),
        ("rank 1 on b", "45001", "iptables -I INPUT -s 10.0.0.2 -p tcp -j ACCEPT"),
    ),
    "docker's interface on one host": (
        job(torchrun("a", *static(0), ranks=(0,), rank_sockets=(listening("172.17.0.1", 45001),),
                     interfaces=(NodeInterface("docker0", ("172.17.0.1",)), NodeInterface("eth0", ("10.0.0.1",)))),
            torchrun("b", *static(1), ranks=(1,), rank_sockets=(connecting("172.17.0.1", 45001),))),
        "wrong-nic",
        (0,),
        ("docker0", "172.17.0.1", "=eth0"),
    ),
    "another interface is named on one host": (
        job(torchrun("a", *static(0), ranks=(0,), environment={"GLOO_SOCKET_IFNAME": "eth1"},
                     rank_sockets=(listening("10.9.0.1", 45001),),
                     interfaces=(NodeInterface("eth0", ("10.0.0.1",)), NodeInterface("eth1", ("10.9.0.1",)))),
            torchrun("b", *static(1), ranks=(1,), environment={"GLOO_SOCKET_IFNAME": "eth0"},
                     rank_sockets=(connecting("10.9.0.1", 45001),))),
        "wrong-nic",
        (0,),
        ("GLOO_SOCKET_IFNAME=eth1", "export GLOO_SOCKET_IFNAME=eth0"),
    ),
    "hostnames lead to loopback": (
        job(*(torchrun(host, *static(number), ranks=(number,), rank_sockets=(listening("127.0.1.1", 45001),),
                       resolved={host: ("127.0.1.1",)}) for number, host in enumerate("ab"))),
        "master-addr-loopback",
        (0, 1),
        ("127.0.1.1", "GLOO_SOCKET_IFNAME=eth0"),
    ),
    "closed in mid-run": (
        job(torchrun("a", *static(0), ranks=(0,), rank_place="collective"),
            torchrun("b", *static(1), ranks=(1,), rank_place="collective",
                     rank_sockets=(established("10.0.0.1", 45001, unsent=262144, retransmits=6),))),
        "firewall-ephemeral-ports",
        (0, 1),
        ("1 connection between a and b is dead",),
    ),
    "clocks": (
        job(torchrun("a", *c10d(), ranks=(0,), rank_place="collective", world=1, clock_offset_seconds=0.0),
            torchrun("b", *c10d(), clock_offset_seconds=-25.2)),
        "clock-skew",
        (0,),
        ("25 s apart", "b and a", "a trains with a smaller world"),
    ),
    "a private store": (
        job(torchrun("a", *static(0), ranks=(0, 1), rank_place="rendezvous", environment=ENVIRONMENT_STORE,
                     frames=PRIVATE)),
        "double-init",
        (0, 1),
        ("ranks 0-1", "tcp://"),
    ),
    "a child initialises again": (
        job(by_hand("a", 0, 1, place="sleep", pid=50), by_hand("a", 0, 1, pid=51, parent=50)),
        "double-init",
        (0,),
        ("a second time",),
    ),
    "versions": (
        job(torchrun("a", *static(0), ranks=(0,), rank_more={"versions": {"nccl": "2.27.3"}}),
            torchrun("b", *static(1), ranks=(1,), rank_more={"versions": {"nccl": "2.21.5"}})),
        "version-mismatch",
        (1,),
        ("2.21.5 on rank 1",),
    ),
    "NCCL's settings": (
        job(*(torchrun(host, *static(n), ranks=(n,), environment={"NCCL_ALGO": algorithm} if algorithm else {},
                       rank_more={"libraries": {"libnccl.so.2": "/x/libnccl.so.2"}})
              for n, (host, algorithm) in enumerate((("a", "Ring"), ("b", "Ring"), ("c", ""))))),
        "version-mismatch",
        (2,),
        ("NCCL_ALGO differs", "export NCCL_ALGO=Ring"),
    ),
    "DETAIL on one rank": (
        job(torchrun("a", *static(0), ranks=(0,), environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
            torchrun("b", *static(1), ranks=(1,))),
        "debug-wrapper-artifact",
        (0,),
        ("rank 0 only",),
    ),
    "locked memory": (
        job(torchrun("a", *static(0), ranks=(0,),
                     rank_more={"limits": {"memlock": "65536"}, "open_files": ("/dev/infiniband/uverbs0",)})),
        "memlock-limit",
        (0,),
        ("65536",),
    ),
    "blocking launches": (
        job(torchrun("a", *static(0), ranks=(0,), environment={"CUDA_LAUNCH_BLOCKING": "1"},
                     rank_more={"libraries": {"libnccl.so.2": "/x/libnccl.so.2"}})),
        "launch-blocking-env",
        (0,),
        (),
    ),
    "two ranks on one GPU": (
        job(torchrun("a", "--nproc-per-node=3", ranks=(0, 1, 2), world=3,
                     gpus=(GpuUse(index=0, uuid="x", pids=(1001, 1003)), GpuUse(index=1, uuid="y", pids=(1002,))))),
        "duplicate-gpu",
        (0, 2),
        ("3 ranks on 2 GPUs",),
    ),
    "all ranks on GPU 0": (
        job(torchrun("a", "--nproc-per-node=2", ranks=(0, 1),
                     gpus=(GpuUse(index=0, uuid="x", pids=(1001, 1002)), GpuUse(index=1, uuid="y")))),
        "device-not-set",
        (1,),
        ("all use GPU 0",),
    ),
    "one NCCL_HOSTID": (
        job(*(torchrun(host, *static(n), ranks=(n,), environment={"NCCL_HOSTID": "image"},
                       rank_more={"libraries": {"libnccl.so.2": "/x/libnccl.so.2"}}) for n, host in enumerate("ab"))),
        "host-identity-collision",
        (0, 1),
        ("NCCL_HOSTID=image",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPEAKS)
def test_names_the_cause_with_its_values(name: str) -> None:
    of, cause, ranks, words = SPEAKS[name]
    found = causes(of)
    assert found and found[0].cause == cause, [(each.cause, each.confidence, each.summary) for each in found]
    first = found[0]
    assert ranks is None or first.ranks == ranks
    said = "\n".join((first.summary, *first.fix.commands))
    assert [word for word in words if word not in said] == [], said


RUNNING: dict[str, Any] = {"rank_place": "collective"}
SILENT: dict[str, HangJob] = {
    "a job of two nodes that trains": job(
        torchrun("a", *static(0), ranks=(0,), sockets=(listening(pid=1000),), **RUNNING),
        torchrun("b", *static(1), ranks=(1,), **RUNNING),
    ),
    "nodes that are only seconds old": job(torchrun("a", *c10d(2), age=4.0, sockets=(listening(pid=1000),))),
    "the second node is only seconds old": job(
        torchrun("a", *c10d(3), age=40.0, sockets=(listening(pid=1000),)), torchrun("b", *c10d(3), age=3.0)
    ),
    "one node, its master localhost": job(torchrun("a", "--nproc-per-node=2", sockets=(listening(pid=1000),))),
    "standalone": job(torchrun("a", "--standalone", "--nproc-per-node=2")),
    "the master's own name is 127.0.1.1 on the master": job(
        torchrun("a", *c10d(2, "a:29500"), resolved={"a": ("127.0.1.1",)}, sockets=(listening(pid=1000),)),
        torchrun("b", *c10d(2, "a:29500"), resolved={"a": ("10.0.0.1",), "b": ("10.0.0.2",)}),
    ),
    "another listener on a worker": job(
        torchrun("a", *static(0), sockets=(listening(pid=1000),)),
        torchrun("b", *static(1), listeners=(listening(pid=9, name="sshd"),)),
    ),
    "the launcher's own listener": job(
        torchrun("a", *static(0), sockets=(listening("::", pid=1000),), listeners=(listening("::", pid=1000),)),
        torchrun("b", *static(1), reached=reached("connected")),
    ),
    "different counts in a job that runs": job(
        torchrun("a", *static(0, 3), ranks=(0,), **RUNNING), torchrun("b", *static(1, 2), ranks=(1,), **RUNNING)
    ),
    "clocks fourteen seconds apart": job(
        torchrun("a", *c10d(), clock_offset_seconds=0.0, sockets=(listening(pid=1000),)),
        torchrun("b", *c10d(), clock_offset_seconds=14.0),
    ),
    "clocks apart and a job that trains": job(
        torchrun("a", *c10d(), ranks=(0,), clock_offset_seconds=0.0, **RUNNING),
        torchrun("b", *c10d(), ranks=(1,), clock_offset_seconds=40.0, **RUNNING),
    ),
    "clocks apart with a static rendezvous": job(
        torchrun("a", *static(0), clock_offset_seconds=0.0, sockets=(listening(pid=1000),)),
        torchrun("b", *static(1), clock_offset_seconds=40.0),
    ),
    "a packet that was late": job(
        torchrun("a", *static(0), ranks=(0,), **RUNNING),
        torchrun("b", *static(1), ranks=(1,),
                 rank_sockets=(established("10.0.0.1", 45001, unsent=1448, retransmits=1),),
                 **RUNNING),
    ),
    "a listener on loopback beside a running job": job(
        torchrun("a", *static(0), ranks=(0,), rank_sockets=(listening("127.0.0.1", 45001),), **RUNNING),
        torchrun("b", *static(1), ranks=(1,), **RUNNING),
    ),
    "LOCAL_RANK under torchrun": job(
        torchrun("a", "--nproc-per-node=2", ranks=(0, 1), environment={"LOCAL_RANK": "0"}, rank_place="rendezvous")
    ),
    "different versions in a rank that computes": job(
        torchrun("a", *static(0), ranks=(0,), rank_place="user code", rank_more={"versions": {"torch": "2.7"}}),
        torchrun("b", *static(1), ranks=(1,), rank_place="user code", rank_more={"versions": {"torch": "2.8"}}),
    ),
    "a rank was killed": job(
        by_hand("a", 0, 2, kernel=(KernelEvent(kind="oom", text="Killed process 7", pid=7),)),
    ),
    "each rank has its GPU": job(
        torchrun("a", "--nproc-per-node=2", ranks=(0, 1), gpus=(GpuUse(index=0, uuid="x", pids=(1001, 1002)),
                                                                GpuUse(index=1, uuid="y", pids=(1002,)))),
    ),
    "a service that reports metrics is blocked": job(
        torchrun("a", *static(0), ranks=(0,), rank_sockets=(connecting("35.186.228.49", 443),)),
        torchrun("b", *static(1), ranks=(1,), rank_sockets=(connecting("35.186.228.49", 8443),)),
    ),
    "a service's connection went dead": job(
        torchrun("a", *static(0), ranks=(0,), rank_place="collective"),
        torchrun("b", *static(1), ranks=(1,), rank_place="collective",
                 rank_sockets=(established("35.186.228.49", 443, unsent=99, retransmits=8),)),
    ),
    "a launcher of another user, whose ranks could not be read": job(
        torchrun("a", *c10d(2), place="unknown"),
        Part(host="a", ranks=((0, process(1500, ("python", "train.py"), parent=1000, environment={"WORLD_SIZE": "1"}),
                               place_at("unknown")),)),
    ),
    "listeners whose owners could not be read, the job's own among them": job(
        torchrun("a", *static(0), listeners=(listening(),)), torchrun("b", *static(1))
    ),
    "the doctor is filtered, the launcher is not": job(
        torchrun("a", *static(0), sockets=(listening(pid=1000),)),
        torchrun("b", *static(1), sockets=(established("10.0.0.1", PORT),), reached=reached("no answer")),
    ),
    "Lightning over two nodes by hand": job(
        Part(host="b", ranks=((1, process(50, ("python", "train.py"), frames=LIGHTNING,
                                          environment={"NODE_RANK": "1", "MASTER_ADDR": "a"}),
                               place_at("rendezvous", "TCPStore")),)),
    ),
    "nobody": HangJob(id="none", evidence=Evidence(), world_size=0),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_is_silent_where_nothing_is_wrong(name: str) -> None:
    assert [(cause.cause, cause.confidence, cause.summary) for cause in causes(SILENT[name])] == []


def test_local_rank_is_preset() -> None:
    """Lightning's process has no rank in its environment, only LOCAL_RANK."""
    part = process(50, ("python", "train.py"), environment={"LOCAL_RANK": "0"}, frames=LIGHTNING)
    where = place_at("rendezvous", "TCPStore", at=52)
    found = causes(job(Part(host="a", ranks=((0, part, where),))))
    assert [cause.cause for cause in found] == ["local-rank-preset"]
    assert found[0].ranks == (0,) and found[0].confidence >= 0.9
    assert found[0].where is not None and found[0].where.line == 52
    assert found[0].fix.commands == ("env -u LOCAL_RANK python train.py",)


def test_a_node_that_was_not_asked_leaves_it_open() -> None:
    """With a lost node, a missing launcher is a guess, and the report says how to decide it."""
    seen = job(torchrun("a", *c10d(3)), torchrun("b", *c10d(3)), lost=("c",))
    found = causes(seen)
    assert found[0].confidence < 0.5 and "c could not be asked" in found[0].summary and "--hosts" in found[0].confirm


def test_a_node_that_nobody_reaches_is_named_before_a_firewall() -> None:
    """Hosts of the lab, one of them cut off: ssh gets no answer, and data for its address is not acknowledged."""
    own = {"LOCAL_WORLD_SIZE": "1"}
    dead = (established("10.0.0.3", 45001, unsent=99, retransmits=9),)
    first = torchrun("a", *static(0, 3), ranks=(0,), rank_place="collective", world=3, environment=own)
    behind = torchrun("b", *static(1, 3), ranks=(1,), rank_place="collective", world=3, environment=own)
    cut = torchrun("b", *static(1, 3), ranks=(1,), rank_place="collective", world=3, environment=own, rank_sockets=dead)
    (cause, *_) = causes(job(first, cut, lost=("c",)), EVERY_RULE)
    assert (cause.cause, cause.confidence, cause.ranks) == ("node-lost", 0.85, (2,))
    assert "c does not answer" in cause.summary and "10.0.0.3" in cause.summary and "ping -c 3 c" in str(cause.fix)
    (cause, *_) = causes(job(first, behind, lost=("c",)), EVERY_RULE)
    assert (cause.cause, cause.confidence) == ("node-lost", 0.65) and "rank 2 was not seen" in cause.summary
    two = [torchrun(host, *static(at), ranks=(at,), rank_place="collective") for at, host in enumerate("ab")]
    assert "node-lost" not in {
        each.cause for each in causes(job(*two, lost=("c",)), EVERY_RULE)
    }  # it is no node of this job
    assert "node-lost" not in {each.cause for each in causes(job(first, behind), EVERY_RULE)}


def test_ranks_whose_launcher_still_imports_torch_are_not_missed() -> None:
    """As `run` called a start of eight nodes a stall at a load of 58: one node's ranks are there, the others' torchruns
    compute. A launcher that waits for nodes is no such one."""
    there = torchrun("a", *c10d(), ranks=(0,), rank_place="user code", environment={"LOCAL_WORLD_SIZE": "1"})

    def seen(place: Kind, moved: bool) -> HangJob:
        of_all = job(there, torchrun("b", *c10d(), place=place))
        first, second = of_all.launchers
        return replace(of_all, launchers=(first, replace(second, moved=moved)))

    one = seen("user code", True)
    assert progress_of(one).verdict == "starting" and state_of(one, progress_of(one), ()) == "starting"
    by_mpi = seen("user code", True)  # an mpirun whose ranks are elsewhere polls for ever
    by_mpi = replace(by_mpi, launchers=tuple(replace(each, kind="mpirun") for each in by_mpi.launchers))
    for other in (seen("rendezvous", True), seen("user code", False), seen("unknown", True), by_mpi):
        assert progress_of(other).verdict != "starting"


def test_a_dead_peer_is_not_surely_a_firewall() -> None:
    """Nothing was seen of the host that does not acknowledge: it may as well be gone."""
    part = torchrun("b", *static(1), ranks=(1,), rank_place="collective",
                    rank_sockets=(established("10.0.0.1", 45001, unsent=99, retransmits=9),))  # fmt: skip
    found = causes(job(part))
    assert found[0].cause == "firewall-ephemeral-ports" and found[0].confidence <= 0.5 and "gone" in found[0].confirm


@pytest.mark.thorough
def test_a_thousand_ranks_are_judged_without_asking_each_pair() -> None:
    """1,024 ranks on 128 nodes, each with the connections of a full mesh of nodes that is filtered: linear work."""
    nodes = [f"n{number:03}" for number in range(128)]
    far = tuple(connecting(f"10.1.0.{number + 1}", 45000 + number) for number in range(1, 128))
    one = job(torchrun("a", *static(0, 128), ranks=tuple(range(8)), world=1024, rank_sockets=far))
    made = {
        host: replace(
            one.nodes[0],
            name=host,
            hostname=host,
            network_namespace=host,
            interfaces=(NodeInterface("eth0", (f"10.1.0.{number + 1}",)),),
        )
        for number, host in enumerate(nodes)
    }
    ranks = tuple(
        replace(rank, rank=8 * number + rank.rank, node=made[host])
        for number, host in enumerate(nodes)
        for rank in one.ranks
    )
    launchers = tuple(
        replace(one.launchers[0], node=made[host], ranks=tuple(range(8 * number, 8 * number + 8)))
        for number, host in enumerate(nodes)
    )
    every = tuple(made.values())
    large = replace(one, evidence=Evidence(nodes=every), world_size=1024, ranks=ranks, launchers=launchers, nodes=every)
    found = causes(large)
    assert found[0].cause == "firewall-ephemeral-ports" and len(found[0].evidence) < 20


def test_lines_to_paste_keep_the_rest_of_the_start() -> None:
    part = torchrun("a", "--nnodes", "3", "--nproc_per_node=gpu", "--master_addr", "x y")
    (start,) = starts_of(job(part))
    assert command_with(start, nnodes="2") == (
        "/opt/bin/torchrun --nnodes 2 --nproc_per_node=gpu --master_addr 'x y' train.py --lr 0.1"
    )
    assert "--node-rank 1 --nnodes 3" in command_with(start, node_rank="1")
    assert command_with(start, master_addr="b").count("--master_addr b") == 1


@pytest.mark.parametrize("word", ["x" * 512, "--token=***", "two\nlines"])
def test_no_line_is_made_of_what_is_not_whole(word: str) -> None:
    part = torchrun("a", "--nnodes", "3")
    assert part.launcher is not None
    command = (*part.launcher.process.command, word)
    changed = replace(part.launcher, process=replace(part.launcher.process, command=command))
    (start,) = starts_of(job(replace(part, launcher=changed)))
    assert command_with(start, nnodes="2") == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node1:29501", ("node1", 29501)),
        ("10.0.0.1", ("10.0.0.1", 29400)),
        ("[fd00::1]:29500", ("fd00::1", 29500)),
        ("fd00::1", ("fd00::1", 29400)),
        ("", ("", 29400)),
    ],
)
def test_endpoints(text: str, expected: tuple[str, int]) -> None:
    assert address_and_port(text, 29400) == expected


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_an_endpoint_or_a_count(text: str) -> None:
    address, port = address_and_port(text, 1)
    assert isinstance(address, str) and port >= 0
    node_counts(text)


WORDS = st.sampled_from(
    ["torchrun", "python", "-m", "torch.distributed.run", "--nnodes", "--nnodes=2", "2", "1:4", "gpu", "--rdzv-backend",
     "c10d", "--rdzv-endpoint=h:1", "--standalone", "accelerate", "launch", "--num_machines=2", "--main_process_ip",
     "h",
     "--node-rank", "--rdzv-conf=is_host=1,x", "train.py", "--", "-", "", "--master-addr", "\x00", "é" * 9, "$X"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.lists(WORDS, max_size=9), max_size=3))
def test_any_command_line_is_survived(commands: list[list[str]]) -> None:
    parts = []
    for number, words in enumerate(commands):
        part = torchrun("abc"[number], "--nnodes=2")
        assert part.launcher is not None
        changed = replace(part.launcher, process=replace(part.launcher.process, command=tuple(words)))
        parts.append(replace(part, launcher=changed))
    causes(job(*parts))
