"""Why the newest NCCL does not start, ends, or warns: what `explain` is to say, and which check is to have found it.

Written before NCCL was asked; where NCCL was otherwise than thought, that is said behind the row. In "settings" a
variable does it; in "verbs" a port, in "driver" CUDA, both by stand-ins that fail as told (FAKE_RDMA_FAULT,
FAKE_CUDA_FAULT); in "apart" two processes that do not fit each other.
"""

from collections.abc import Iterator
from dataclasses import replace

from tests.lab.nccl import wheels
from tests.lab.nccl.cases import ALONE, ethernet, gpus, of_tree, rails
from tests.lab.nccl.oracle import Case

Tried = tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]
"""Settings; what `explain` may say first (none: NCCL goes on); checks of which one is to speak (none: not asked)."""
FILES = {
    "/etc/topo-cut.xml": '<system version="1">\n  <cpu numaid="0" affinity="3" arch="x86_64" vendor="GenuineIntel">\n',
    "/etc/topo-old.xml": '<system version="9">\n</system>\n',
    "/etc/topo-no-xml.xml": "version: 1\ncpus: 2\n",
    "/etc/graph-old.xml": '<graphs version="9">\n</graphs>\n',
}
WRONG, NONE = ("nccl-settings",), ()
OLDER = "2.30.7"


def settings() -> Iterator[Tried]:
    path, plugin = ("nccl-path-missing",), ("nccl-plugin-missing", "nccl-word-unknown", "efa-without-plugin")
    yield {"NCCL_TOPO_FILE": "/etc/nosuch.xml"}, NONE, path
    yield {"NCCL_TOPO_FILE": "/etc/topo-cut.xml"}, WRONG, NONE
    yield {"NCCL_TOPO_FILE": "/etc/topo-old.xml"}, WRONG, NONE
    yield {"NCCL_TOPO_FILE": "/etc/topo-no-xml.xml"}, WRONG, NONE
    yield {"NCCL_GRAPH_FILE": "/etc/nosuch.xml"}, WRONG, path
    yield {"NCCL_GRAPH_FILE": "/etc/graph-old.xml"}, WRONG, NONE
    yield {"NCCL_NET": "AWS Libfabric"}, (*WRONG, "rdma-unused"), plugin
    yield {"NCCL_NET": "AWS Libfabric", "NCCL_NET_PLUGIN": "aws-ofi"}, (*WRONG, "rdma-unused"), plugin
    yield {"NCCL_NVLS_ENABLE": "off"}, NONE, NONE  # what is said of it depends on the release (tests/checks/nccl.py)
    yield {"NCCL_SOCKET_NTHREADS": "32", "NCCL_NSOCKS_PERTHREAD": "32"}, NONE, ("nccl-sockets-many",)
    yield {"NCCL_CONF_FILE": "/etc/nosuch.conf"}, NONE, ("nccl-conf-file-missing",)
    yield {"NCCL_P2P_LEVEL": "NVLINK"}, NONE, ("nccl-word-unknown", "nccl-value-misread")
    yield {"NCCL_IB_TIMEOUT": "20s"}, NONE, ("nccl-value-misread",)
    yield ALONE | {"FAKE_OPEN_FILES": "40"}, ("open-files-limit",), NONE


def verbs() -> Iterator[Tried]:
    yield {"NCCL_IBVERBS_LIB": "/etc/nosuch.so", "NCCL_NET": "IB"}, NONE, ("nccl-path-missing",)  # it looks further
    for status, causes in (
        (12, ("ib-link-down", "rdma-peer-lost")),
        (13, ("rdma-peer-lost",)),
        (4, ("gdr-broken",)),
        (10, ("gdr-broken",)),
    ):
        yield ALONE | {"FAKE_RDMA_FAULT": f"status {status}"}, causes, NONE
    yield ALONE | {"FAKE_RDMA_FAULT": "event 10"}, NONE, NONE  # the port may come back: NCCL goes on
    yield ALONE | {"FAKE_RDMA_FAULT": "event 18"}, NONE, NONE
    yield ALONE | {"FAKE_RDMA_FAULT": "event 8"}, NONE, NONE  # told, and nothing is sent yet
    yield ALONE | {"FAKE_RDMA_FAULT": "event 3"}, ("gdr-broken", "nccl-bug"), NONE


def driver() -> Iterator[Tried]:
    memory = ("gpu-out-of-memory",)
    yield {"FAKE_CUDA_FAULT": "cudaMalloc=2", "NCCL_CUMEM_ENABLE": "0"}, memory, NONE
    yield {"FAKE_CUDA_FAULT": "cuMemCreate=2"}, memory, NONE
    yield {"FAKE_CUDA_FAULT": "cuMulticastCreate=801,cuMulticastAddDevice=801"}, ("fabric-manager",), NONE
    yield {"FAKE_CUDA_FAULT": "cuMulticastCreate=1,cuMulticastAddDevice=1"}, ("fabric-manager",), NONE
    peers = ("p2p-acs-iommu", "gpu-driver-p2p-bug", "xid-gpu-lost")
    yield {"FAKE_CUDA_FAULT": "cudaDeviceEnablePeerAccess=711", "NCCL_CUMEM_ENABLE": "0"}, peers, NONE


def apart() -> Iterator[Tried]:
    other = wheels.nccl_folder(OLDER) / "libnccl.so.2"
    world = ("launcher-world-mismatch",)
    mixed = ("rdma-unused", "nccl-settings", "rail-cross-nic", "ib-link-down")
    yield {}, NONE, NONE
    yield {"FAKE_OF_RANK_1": f"LIBRARY={other}"}, ("version-mismatch",), NONE
    yield {"FAKE_OF_RANK_1": "RANK=0"}, world, NONE
    yield {"FAKE_OF_RANK_1": "RANKS=3"}, (*world, "version-mismatch"), NONE
    yield {"FAKE_OF_RANK_1": "GPU=0"}, ("duplicate-gpu",), NONE
    yield ALONE | {"FAKE_OF_RANK_1": "NCCL_NET=Socket;NCCL_HOSTID=b"}, mixed, NONE
    yield ALONE | {"FAKE_OF_RANK_1": "NCCL_IB_HCA=mlx5_0;NCCL_HOSTID=b"}, NONE, NONE  # of one node's ports, 2 and 1
    ipc = {"NCCL_CUMEM_ENABLE": "0", "FAKE_CUDA_FAULT": "cudaIpcOpenMemHandle=1"}
    yield ipc, ("p2p-acs-iommu", "gpu-driver-p2p-bug", "host-identity-collision"), NONE
    yield {"FAKE_OF_RANK_1": "NCCL_CUMEM_ENABLE=0"}, ("nccl-settings", "p2p-acs-iommu"), NONE


def failure_cases() -> Iterator[Case]:
    port = ethernet("mlx5_0", "0000:0000:0000:0000:0000:ffff:0a01:0001", "eth0", 0x0C)
    for name, tried, hcas, nvlink, more in (
        ("settings", settings(), [], False, ()),
        ("verbs", verbs(), [port], False, ("stay",)),
        ("driver", driver(), [], True, ()),
        ("apart", apart(), rails(2), False, ("apart",)),
    ):
        case = of_tree(f"failures: {name}", "error", gpus(2), hcas, nvlink=nvlink)
        case.node.files = FILES
        for index in range(2) if nvlink else ():
            case.machine = case.machine.but_gpu(index, multicast=1)
        rows = list(tried)
        yield replace(
            case,
            settings=[each for each, _, _ in rows],
            releases=[wheels.NEWEST_NCCL, OLDER],
            wanted={repr(each): causes for each, causes, _ in rows},
            foreseen={repr(each): checks for each, _, checks in rows},
            more=more,
        )
