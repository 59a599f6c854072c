"""Jobs that do not start, or start wrong, each as a real job under real launchers on lab hosts; and its healthy twin.

A scenario starts the parts of a job as a user would, with one thing wrong, and says what must be found. Its twin is
the same start with that thing right, or nearly wrong in a way that works: a slow but living job, of which nothing may
be said.
"""

import os
import sys
from collections.abc import Callable

from msgspec import Struct

from tests.lab.hangs.hosts import HANGS, RunningJob
from tests.lab.hosts import in_namespace

PORT = 20000 + os.getpid() % 8000
"""Of every master here. Agents on one machine see each other's processes, and tests that run beside this one must not
look like one job with it: hosts of the lab have the same addresses in each."""
RUN = f"lab{os.getpid()}"
EPHEMERAL = "tcp dport 32768-60999 ct state new"


class Scenario(Struct, frozen=True, kw_only=True):
    name: str
    cause: str
    """From the taxonomy."""
    start: Callable[[RunningJob, bool], None]
    """Starts the parts: with the fault, or (True) without."""
    hosts: tuple[str, ...] = ("a", "b")
    nics: int = 1
    processes: int = 2
    """So many are there when it hangs."""
    ranks: tuple[int, ...] | None = None
    """The culprits; None: whichever."""
    named: tuple[str, ...] = ()
    """Words of the summary: hosts and values."""
    goes_on: tuple[str, ...] = ()
    """Hosts whose ranks train on all the same."""
    age: float = 0.0
    """Seconds that its launchers must be old before it can be told from a start that takes its time."""
    reached: tuple[str, str] | None = None
    """A host ("": any), and what is to be read in its output when it hangs."""
    breaks: Callable[[RunningJob], None] | None = None
    """What goes wrong after the job has begun."""
    truly: bool = False
    """Each process imports torch itself, as a user's does."""
    has_own_twin: bool = True
    """False where the healthy start is another scenario's, to the word."""


def static(job: RunningJob, host: str, node_rank: int, *, nodes: int = 2, address: str = "", ranks: int = 1,
           port: int = PORT, **environment: str) -> None:  # fmt: skip
    """torchrun with --master-addr."""
    job.torchrun(
        host,
        *("--nnodes", str(nodes), "--nproc-per-node", str(ranks), "--node-rank", str(node_rank)),
        *("--master-addr", address or job.cluster.head.address(), "--master-port", str(port)),
        **environment,
    )


def c10d(job: RunningJob, host: str, *options: str, nodes: int = 2, endpoint: str = "", **environment: str) -> None:
    """torchrun with a c10d rendezvous."""
    job.torchrun(
        host,
        *("--nnodes", str(nodes), "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", RUN),
        *("--rdzv-endpoint", f"{endpoint or job.cluster.head.address()}:{PORT}", *options),
        **environment,
    )


def world_size(job: RunningJob, healthy: bool) -> None:
    static(job, "a", 0, nodes=2 if healthy else 3)
    static(job, "b", 1, nodes=2)


def world_size_by_hand(job: RunningJob, healthy: bool) -> None:
    for rank, host in enumerate(("a", "b")):
        size = "2" if healthy or host == "b" else "3"
        job.start(host, sys.executable, str(HANGS / "steps.py"), RANK=str(rank), LOCAL_RANK="0", WORLD_SIZE=size,
                  MASTER_ADDR=job.cluster.head.address(), MASTER_PORT=str(PORT))  # fmt: skip


def node_rank(job: RunningJob, healthy: bool) -> None:
    static(job, "a", 0, nodes=3)
    static(job, "b", 1, nodes=3)
    static(job, "c", 2 if healthy else 1, nodes=3)


def a_node_is_not_started(job: RunningJob, healthy: bool) -> None:
    c10d(job, "a", nodes=2)
    if healthy:
        c10d(job, "b", nodes=2)


def master_address(job: RunningJob, healthy: bool) -> None:
    """The twin has two names for one address."""
    static(job, "a", 0)
    static(job, "b", 1, address="a" if healthy else "10.0.0.99")


def master_filtered(job: RunningJob, healthy: bool) -> None:
    """The twin drops another port."""
    job.cluster["a"].filter(f"iifname eth0 tcp dport {PORT + 1 if healthy else PORT} drop")
    static(job, "a", 0)
    static(job, "b", 1)


def loopback_hostname(job: RunningJob, healthy: bool) -> None:
    """127.0.1.1 for the own name on both hosts, as Debian writes it; gloo tells the other rank that address.

    On one host alone it works, for gloo connects from the larger address to the smaller: that is the twin.
    """
    for host in job.cluster.hosts[: 1 if healthy else 2]:
        others = "".join(f"{each.address()} {each.name}\n" for each in job.cluster.hosts if each is not host)
        host.etc("hosts", f"127.0.0.1 localhost\n127.0.1.1 {host.name}\n{others}")
    static(job, "a", 0)
    static(job, "b", 1)


def loopback_master(job: RunningJob, healthy: bool) -> None:
    """The twin is two jobs of one node, each with its own store."""
    nodes = 1 if healthy else 2
    c10d(job, "a", endpoint="127.0.0.1", nodes=nodes)
    c10d(job, "b", endpoint="127.0.0.1", nodes=nodes)


def local_rank(job: RunningJob, healthy: bool) -> None:
    preset = {} if healthy else {"LOCAL_RANK": "0"}
    job.start("a", sys.executable, str(HANGS / "preset_local_rank.py"), **preset)


def stale_process(job: RunningJob, healthy: bool) -> None:
    """The twin has its old process on a worker, where nobody wants the port."""
    host = "b" if healthy else "a"
    job.start(host, sys.executable, str(HANGS / "old_run.py"), str(PORT))
    job.wait_for(host, "the store is up")
    static(job, "a", 0)
    static(job, "b", 1)


def firewall(job: RunningJob, healthy: bool) -> None:
    """The twin drops nothing that the job needs."""
    job.cluster["a"].filter("tcp dport 1024-9999 drop" if healthy else f"{EPHEMERAL} drop")
    static(job, "a", 0)
    static(job, "b", 1)


def wrong_interface(job: RunningJob, healthy: bool) -> None:
    """A fast network on eth1, and one host whose image names docker0. gloo connects to the smaller address."""
    for host in job.cluster.hosts:
        in_namespace(host.namespace, "ip", "address", "flush", "dev", "eth1")
        in_namespace(host.namespace, "ip", "address", "add", f"192.168.5.{host.number}/24", "dev", "eth1")
        in_namespace(host.namespace, "ip", "route", "add", "default", "via", "10.0.0.254")
    in_namespace(job.cluster.head.switch, "ip", "address", "add", "10.0.0.254/24", "dev", "switch0")
    c = job.cluster["c"].namespace
    in_namespace(c, "ip", "link", "add", "docker0", "type", "bridge")
    in_namespace(c, "ip", "address", "add", "172.17.0.1/16", "dev", "docker0")
    in_namespace(c, "ip", "link", "set", "docker0", "up")
    for number, each in enumerate(("a", "b", "c")):
        interface = "docker0" if each == "c" and not healthy else "eth1"
        static(job, each, number, nodes=3, address="192.168.5.1", GLOO_SOCKET_IFNAME=interface)


def closed_port(job: RunningJob, healthy: bool) -> None:
    static(job, "a", 0)
    static(job, "b", 1)


def close_the_port(job: RunningJob) -> None:
    job.cluster["b"].filter("tcp sport 32768-60999 tcp dport 32768-60999 drop")


def clocks(job: RunningJob, healthy: bool) -> None:
    """Ten seconds apart work."""
    job.cluster["b"].shift_clock(-10 if healthy else -25)
    c10d(job, "a")
    c10d(job, "b")


def initialised_twice(job: RunningJob, healthy: bool) -> None:
    for number, host in enumerate(("a", "b")):
        job.start(
            host,
            *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(number)),
            *("--master-addr", job.cluster.head.address(), "--master-port", str(PORT)),
            str(HANGS / "private_store.py"),
            *(("--healthy",) if healthy else ()),
        )


def endpoint_of_another_nic(job: RunningJob, healthy: bool) -> None:
    """The twin says who is the host."""
    for host in ("a", "b"):
        told = ("--rdzv-conf", f"is_host={int(host == 'a')}") if healthy else ()
        c10d(job, host, *told, endpoint=job.cluster.head.address(1))


SCENARIOS = (
    Scenario(name="world size", cause="launcher-world-mismatch", start=world_size, named=("3 nodes", "2 nodes")),
    Scenario(
        name="world size by hand", cause="launcher-world-mismatch", start=world_size_by_hand, named=("3 on rank 0",)
    ),
    Scenario(
        name="node rank",
        cause="launcher-world-mismatch",
        start=node_rank,
        hosts=("a", "b", "c"),
        processes=3,
        named=("node rank 1", "b and c"),
    ),
    Scenario(
        name="a node is not started",
        cause="launcher-world-mismatch",
        start=a_node_is_not_started,
        processes=1,
        age=16.0,
        named=("1 of 2 nodes",),
    ),
    Scenario(
        name="master address", cause="master-unreachable", start=master_address, named=("10.0.0.99", "b"), truly=True
    ),
    Scenario(
        name="master filtered", cause="master-unreachable", start=master_filtered, named=(f"10.0.0.1:{PORT}", "b")
    ),
    Scenario(
        name="loopback hostname",
        cause="master-addr-loopback",
        start=loopback_hostname,
        reached=("", "connectFullMesh failed"),  # of whichever rank has the larger port
        processes=2,
        named=("127.0.1.1",),
    ),
    Scenario(name="loopback master", cause="master-addr-loopback", start=loopback_master, named=("127.0.0.1",)),
    Scenario(
        name="local rank",
        cause="local-rank-preset",
        start=local_rank,
        hosts=("a",),
        processes=1,
        ranks=(0,),
        named=("LOCAL_RANK=0",),
    ),
    Scenario(name="stale process", cause="master-port-in-use", start=stale_process, named=(str(PORT), "a")),
    Scenario(name="firewall", cause="firewall-ephemeral-ports", start=firewall, processes=4, ranks=(0,)),
    Scenario(
        name="wrong interface",
        cause="wrong-nic",
        start=wrong_interface,
        hosts=("a", "b", "c"),
        nics=2,
        processes=6,
        ranks=(2,),
        named=("docker0",),
    ),
    Scenario(
        name="closed port",
        cause="firewall-ephemeral-ports",
        start=closed_port,
        processes=4,
        breaks=close_the_port,
        has_own_twin=False,
        named=("a", "b"),
    ),
    Scenario(name="clocks", cause="clock-skew", start=clocks, processes=3, goes_on=("a",), named=("25 s",)),
    Scenario(name="double init", cause="double-init", start=initialised_twice, processes=4, ranks=(0, 1)),
    Scenario(
        name="endpoint of another NIC",
        cause="rdzv-host-mismatch",
        start=endpoint_of_another_nic,
        nics=2,
        named=("10.0.1.1",),
    ),
)
