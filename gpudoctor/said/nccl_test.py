"""Of `nccl-test`; the nodes that it loses are in `nccl/lost.py`, and why it stops in `causes/`."""

from gpudoctor.command import command
from gpudoctor.said.one import Meaning, said_by

_said = said_by("nccl-test")
_WAIT = "The ranks wait for one another until their time-out."
_CHECK = command("gpudoctor check")

NCCL: dict[str, Meaning] = {
    "node-not-examined": _said(
        "A node answers, and its examination did not end.",
        "Nothing is known of what training needs there.",
        "Run it on the node itself, and look what it waits for.",
        _CHECK,
    ),
    "interpreter-missing-on-node": _said(
        "The interpreter of --python cannot be run on a node.",
        "The ranks there would run another Python, with another torch or none.",
        "Name an interpreter that every node has, as one on a shared file system, or install it there.",
    ),
    "torch-missing": _said(
        "A node's training interpreter has no torch.",
        "No rank can start there, and the others wait for it until their time-out.",
        "Name the interpreter that has torch with --python, or install torch there.",
    ),
    "torch-versions-differ": _said(
        "The nodes have different versions of torch.",
        "Ranks of different releases do not speak the same protocol: they fail as they meet, or wait.",
        "Install the same version everywhere.",
    ),
    "cuda-versions-differ": _said(
        "The nodes' torch is built for different versions of CUDA, or for none.",
        "A build without CUDA cannot use the node's GPUs; speed and rounding may differ too.",
        "Install the same build of torch everywhere.",
    ),
    "python-versions-differ": _said(
        "The nodes train with different versions of Python.",
        "What one rank pickles, another must be able to read.",
        "Use one environment on all nodes.",
    ),
    "nccl-versions-differ-between-nodes": _said(
        "The nodes have different versions of NCCL.",
        "NCCL compares them as the ranks meet, and ends with an error, or hangs.",
        "NCCL comes with torch: install the same torch everywhere, and look for a libnccl.so.2 that hides it.",
        command("gpudoctor check nccl-versions-differ nccl-library-shadowed"),
    ),
    "node-without-gpu": _said(
        "NVIDIA's driver shows no GPU on a node that is to take part.",
        "NCCL needs a GPU for every rank: none can start there.",
        "Leave the node out, or look why its GPUs are not there.",
        command("gpudoctor check driver"),
    ),
    "gpus-differ-between-nodes": _said(
        "The nodes have other models of GPU, or another number of them.",
        "All ranks go at the pace of the slowest GPU, and a node with fewer GPUs gets fewer ranks.",
        "Look whether a GPU was lost, or leave the node out.",
        command("gpudoctor check driver gpu"),
    ),
    "socket-interface-missing": _said(
        "NCCL_SOCKET_IFNAME, or GLOO_SOCKET_IFNAME, names an interface that a node does not have.",
        "NCCL or gloo ends with an error there; the others wait until their time-out.",
        "Name an interface that all nodes have, or leave the variable unset.",
        command("ip -brief address"),
    ),
    "hostname-loopback": _said(
        "A node's own hostname resolves to a loopback address.",
        "NCCL does not mind. gloo listens there, and so does torchrun's c10d rendezvous: no other node gets to it.",
        "Give the name the node's real address in /etc/hosts or DNS, or export GLOO_SOCKET_IFNAME in the job.",
        command("gpudoctor check hostname-loopback"),
    ),
    "socket-interface-loopback": _said(
        "NCCL would listen on a node at an address that means nothing to the other nodes.",
        f"No other node gets there. {_WAIT}",
        "Export NCCL_SOCKET_IFNAME with the interface that the other nodes are behind.",
        command("ip -brief address"),
    ),
    "mtu-mismatch": _said(
        "The interfaces that the ranks use have different MTUs.",
        "TCP goes by the smaller one and is slower. With RoCE the two ends may fail to connect.",
        "Give all of them the MTU that the switches between them carry.",
        command("ip -brief link"),
    ),
    "wrong-nic": _said(
        "The interfaces that are taken lie in networks that do not reach each other.",
        _WAIT,
        "Name the interface of each node that is in a network of all, or connect the networks by a route.",
        command("ip -brief address"),
    ),
    "clock-skew": _said(
        "The clocks of the nodes are seconds apart.",
        "torchrun's c10d rendezvous loses nodes without a word once they are 15 s apart: some ranks train alone, "
        "the others hang.",
        "Start a time service on every node, and step the clock once.",
        command("sudo timedatectl set-ntp true"),
    ),
    "master-addr-unresolvable": _said(
        "The head's name does not resolve on a node.",
        "Its ranks do not find the rendezvous; the others wait for them.",
        "Put the name into DNS or /etc/hosts there, or name the head by its address with --master-addr.",
    ),
    "master-addr-loopback": _said(
        "The head's name is a loopback address on another node.",
        "That node looks for the head on itself, until its time-out.",
        "Correct the name in /etc/hosts or DNS there, or name the head by its address with --master-addr.",
    ),
    "head-resolves-differently": _said(
        "The head's name means different machines or networks on the nodes.",
        "Some of them look for the head where it is not.",
        "Correct the name in /etc/hosts or DNS, or name the head by its address with --master-addr.",
    ),
    "only-ssh-gets-through": _said(
        "Between the nodes no port that ranks use is open; ssh is.",
        f"A packet filter lets ssh through and drops the rest. {_WAIT}",
        "Let the nodes' own addresses through on all ports from 1024 on, on every node.",
        command("sudo nft list ruleset"),
    ),
    "ports-blocked-between-nodes": _said(
        "Some nodes do not reach others on the ports that ranks use.",
        f"A packet filter, a security group or a missing route stands between them. {_WAIT}",
        "Let the nodes' own addresses through on all ports from 1024 on.",
        command("sudo nft list ruleset"),
    ),
    "ports-not-tried": _said(
        "The ports of a node could not be tried.",
        "Whether its ranks reach the others is not known; a closed port shows as a hang.",
        "Look what the message says of the node, and run the test again.",
        command("gpudoctor check network"),
    ),
    "master-port-busy": _said(
        "The port that --master-port asks for cannot be opened on the head.",
        "torchrun's store cannot start: all ranks end with an error, or join another job's.",
        "End the process that has it where it is a leftover, or leave --master-port out.",
        command("ss -tlnp"),
    ),
    "master-unreachable": _said(
        "Nodes cannot connect to the rendezvous port of the head, while other ports of it are open.",
        "Their ranks do not get to the rendezvous; all others wait for them until their time-out.",
        "Open that port on the head, or take another one with --master-port.",
        command("sudo nft list ruleset"),
    ),
    "master-addr-elsewhere": _said(
        "The rendezvous address does not lead to the node where rank 0 starts.",
        "The store listens on one machine and all ranks look for it on another, until their time-out.",
        "Leave --master-addr out, or name an address of the first node.",
        command("ip -brief address"),
    ),
    "large-packets-lost": _said(
        "Small packets get from node to node, and large ones do not.",
        "The ranks meet and hang in their first large transfer: a switch or tunnel carries only smaller packets, "
        "and says nothing.",
        "Give the interfaces the MTU that the whole way carries (1500 where in doubt), or raise it on the way.",
        command("ip -brief link"),
    ),
    "rdma-unused": _said(
        "NCCL goes over TCP although the nodes have RDMA ports.",
        "Data between the nodes goes at a fifth of what the ports offer, or less.",
        "Take what keeps NCCL from RDMA out of the way, on every node.",
        command("gpudoctor check network nccl"),
    ),
    "gpu-direct-rdma-off": _said(
        "NCCL sends over RDMA, and not out of the GPUs' own memory (GPUDirect RDMA).",
        "Data to other nodes is copied through host memory: a third to a half of the bandwidth is left.",
        "See which condition fails: the peer memory module, a setting, or the way between GPU and NIC.",
        command("gpudoctor check network"),
        command("gpudoctor topology"),
    ),
    "gpu-direct-too-far": _said(
        "NCCL holds GPU and NIC for too far apart for GPUDirect RDMA.",
        "Data to other nodes is copied through host memory. Whether the direct way is faster, one has to measure.",
        "Measure both ways.",
        command("gpudoctor nccl-test --compare NCCL_NET_GDR_LEVEL=PXB,PHB,SYS"),
    ),
    "peers-too-far": _said(
        "NCCL holds two GPUs of a node for too far apart to talk directly.",
        "They talk through host memory. Whether the direct way is faster, one has to measure.",
        "Measure both ways.",
        command("gpudoctor nccl-test --compare NCCL_P2P_LEVEL=PXB,SYS"),
    ),
    "nvls-unused": _said(
        "all_reduce goes by rings although the NVSwitches could reduce.",
        "all_reduce inside the node loses about a fifth of its bandwidth.",
        "Take out the setting that forbids it; where none does, look at Fabric Manager.",
        command("gpudoctor check driver"),
    ),
    "bandwidth-degraded": _said(
        "A collective reaches less than 90 % of the bus bandwidth of its kind of link, and at least 60 %.",
        "A step spends longer in this collective than it should.",
        "Find the node, link or NIC that is slow, with nothing else running.",
        command("gpudoctor nccl-test --find-slow"),
        command("gpudoctor check gpu driver host"),
    ),
    "bandwidth-broken": _said(
        "A collective reaches less than 60 % of the bus bandwidth of its kind of link.",
        "A step spends far longer in this collective than it should.",
        "Find the node, link or NIC that is slow, with nothing else running.",
        command("gpudoctor nccl-test --find-slow"),
        command("gpudoctor check gpu driver host"),
    ),
    "link-speeds-differ": _said(
        "The network of a node is slower than that of the others.",
        "Every ring and tree goes through all nodes: all of them send at the pace of the slowest network.",
        "Look at the ports, cables and settings of that node; or train without it.",
        command("gpudoctor check network"),
    ),
    "far-below-the-link": _said(
        "A collective reaches fifty times less than the slowest interface carries.",
        "Data takes another way, packets get lost, or a wire is shared: a training would mostly wait.",
        "Look for lost packets and for the way that the data takes; then find the slow node.",
        command("ip -s link"),
        command("gpudoctor nccl-test --find-slow"),
    ),
    "gpu-busy": _said(
        "A GPU was in use before the test began.",
        "Other work takes bandwidth and time: the numbers may be lower than the links'.",
        "Measure again when the GPUs are idle.",
        command("nvidia-smi"),
    ),
    "collective-data-wrong": _said(
        "A collective returned wrong numbers.",
        "Gradients would be wrong without any message. A GPU's memory, an NVLink, a NIC, or peer transfer through "
        "an IOMMU corrupts data.",
        "Take the node out of use. Where the data is right without peer access, ACS or the IOMMU is at fault; else "
        "the GPU or the NIC.",
        command("gpudoctor nccl-test --compare NCCL_P2P_DISABLE=0,1"),
        command("gpudoctor check gpu host --deep"),
    ),
    "too-many-messages": _said(
        "The ranks said more lines than the plan has room for.",
        "Something else writes into their output, or another rank program runs there: the figures may be its.",
        "Compare the installed gpudoctor of all nodes, and look what the interpreter loads at its start.",
        command("python3 -m pip show gpudoctor"),
    ),
    "test-stalled": _said(
        "No rank got on any more, and no cause is visible from outside.",
        "What is left is the way between the GPUs, the driver, or NCCL.",
        "Run it on halves and pairs of the nodes, which names the odd one.",
        command("gpudoctor nccl-test --find-slow"),
    ),
    "test-died": _said(
        "The test ended early, and what the ranks said names no cause of its own.",
        "A training would end there too.",
        "Examine the nodes, then run it on halves and pairs of them.",
        _CHECK,
        command("gpudoctor nccl-test --find-slow"),
    ),
    "launcher-world-mismatch": _said(
        "The launcher says another number of ranks than torch.distributed sees.",
        "There are several worlds beside each other, and each trains by itself.",
        "Start all ranks with one launcher and one MASTER_ADDR.",
    ),
    "world-on-other-nodes": _said(
        "The launcher says another number of nodes than the ranks run on.",
        "The figures are those of other paths than meant: ranks share a node, or nodes share a hostname.",
        "Look where the launcher places its tasks, and that each node has a hostname of its own.",
    ),
    "nccl-settings-differ-between-ranks": _said(
        "Ranks of one job have different values of a setting of NCCL, torch or gloo.",
        "Ranks that choose differently wait for one another for ever, or the slowest sets the pace.",
        "Give it the same value on all ranks, or none.",
    ),
    "slow-node": _said(
        "--find-slow: every group that this node takes part in is slow, and no other.",
        "All ranks of a job go at its pace.",
        "Leave it out of the job (--exclude), and look at its links, clocks and cables.",
        _CHECK,
    ),
    "slow-link": _said(
        "--find-slow: two nodes are slow together, and each is fast with others.",
        "A job whose ranks are neighbours across this link goes at its pace.",
        "Leave one of them out, and have the path between them looked at: switch ports, cables, routes.",
    ),
    "slow-nic": _said(
        "--find-slow: of the NICs of a node, one is slow.",
        "NCCL spreads its data over all NICs, and waits for the slowest.",
        "Look at its port, cable and PCIe link; until then leave it out with NCCL_IB_HCA=^NAME, or leave out the node.",
        command("gpudoctor check network"),
    ),
    "slow-unclear": _said(
        "--find-slow: something is slow, and the groups that were tried do not tell which of the nodes it is.",
        "A job over these nodes goes at that pace.",
        "Try more nodes that are known to be good beside them, or each of them in a job of its own.",
    ),
}
