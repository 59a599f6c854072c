"""NCCL was told NCCL_NET=IB and ended, for it found no RDMA port that it can use: what is wrong is the port. And a job
whose ranks all run on one host, to which it is the same which interface NCCL takes.

Up to 2.26 NCCL names the network ("Error: network IB not found."). Since 2.28.9 it says that no network started, and
looks for RDMA ports only where NCCL_NET is not set or says IB; where it is not set, it would have gone over TCP. In
between it readies TCP too, whatever NCCL_NET says, and its log does not tell. (NCCL net.cc, plugin/net.cc.)
"""

from collections.abc import Iterator

from gpudoctor.explain.candidate import Candidate
from gpudoctor.explain.order import Facts
from gpudoctor.sure import PROVED

ENDED, NO_DEVICE, OVER_TCP = "no-net-plugin-started", "no-rdma-device", "socket-network-started"


def without_its_network(facts: Facts) -> Iterator[Candidate]:
    """One for the first rank that ended so."""
    ended = next((event for event in facts.events if event.symptom.id == ENDED), None)
    if ended is None or ended.values.get("network", "ib").casefold() != "ib":
        return
    looked = next((event for event in facts.events if event.symptom.id == NO_DEVICE), None)
    tcp = any(event.symptom.id == OVER_TCP for event in facts.events)
    if (looked is None or tcp) and "network" not in ended.values:
        return
    yield Candidate(
        cause="rdma-unused",
        variant="no-device",
        values={},
        confidence=PROVED,
        standing="cause",
        moment=ended.moment,
        summary="NCCL_NET=IB leaves NCCL nothing but RDMA, and it found no port here that it can use",
        ranks=() if ended.rank is None else (ended.rank,),
        evidence=(ended.at,) if looked is None else (looked.at, ended.at),
    )


STARTS, LEADS_TO_NO_NODE = "nccl-init-start", ("nccl-interface-virtual",)


def on_one_host(facts: Facts) -> bool:
    """Whether all ranks of NCCL's communicators run on one host, as its own lines tell: lo and bridges do for these."""
    starts = [event for event in facts.events if event.symptom.id == STARTS]
    ranks = {event.values.get("rank") for event in starts}
    hosts, sizes = ({event.host for event in starts}, {event.values.get("world_size", "") for event in starts})
    size = max((int(text) for text in sizes if text.isdecimal() and len(text) < 9), default=0)
    return len(hosts) == 1 and "" not in hosts and len(ranks) >= max(size, 1)
