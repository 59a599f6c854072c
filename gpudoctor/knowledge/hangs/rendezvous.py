"""What goes wrong while the ranks look for each other."""

from gpudoctor.command import command
from gpudoctor.knowledge.hangs.cause import HangCause

RENDEZVOUS: tuple[HangCause, ...] = (
    HangCause(
        name="local-rank-preset",
        title="LOCAL_RANK or NODE_RANK was set before the framework started its processes",
        stages=("rendezvous",),
        meaning="Lightning starts one process per GPU by itself, unless LOCAL_RANK or NODE_RANK tells it that a "
        "launcher did so. A leftover value makes the one process there is wait for ranks that nobody starts.",
        fix="Take the variables out of the environment of the start: look in the shell's rc files, the image's ENV "
        "lines and the batch script. Under a launcher that starts all ranks, let that launcher set them.",
        commands=(command("env | grep -E '^(LOCAL_RANK|NODE_RANK|RANK|WORLD_SIZE|GROUP_RANK)='"),),
        confirm="Start the same command by env -u LOCAL_RANK -u NODE_RANK: it then starts all processes.",
        source="Lightning's ClusterEnvironment (creates_processes_externally); Lightning#5651",
    ),
    HangCause(
        name="launcher-world-mismatch",
        title="the ranks that were started are not the world that they were told",
        stages=("rendezvous",),
        meaning="Each rank waits until as many ranks as WORLD_SIZE have joined. Where fewer were started, or two have "
        "the same number, the group is never complete, and all wait until the rendezvous times out.",
        fix="Give the same number of nodes and of processes per node on every node, and another node rank on each. "
        "Under SLURM start by srun with as many tasks per node as devices.",
        commands=(command("env | grep -E '^(RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|SLURM_NTASKS|SLURM_PROCID)='"),),
        confirm="Count the ranks on all nodes: their RANKs are 0 to WORLD_SIZE - 1, each once. In SLURM compare "
        "SLURM_NTASKS with nodes times devices.",
        source="torch rendezvous.py and TCPStore (waitForWorkers); Lightning#6206",
    ),
    HangCause(
        name="master-addr-loopback",
        title="a node gave the others an address of its own loopback",
        stages=("rendezvous", "communicator"),
        meaning="The host's name, or MASTER_ADDR, stands for 127.x, which each node takes for itself. The other nodes "
        "connect to nobody, or to themselves.",
        fix="Write the host's routable address beside its name in /etc/hosts and take it off the 127.0.1.1 line; give "
        "MASTER_ADDR as an address that the other nodes reach; name the interface in GLOO_SOCKET_IFNAME.",
        commands=(command('getent ahosts "$(hostname)"'), command("gpudoctor check network")),
        confirm="Resolve the head's name on every node: none answers 127.x, and a connection from a peer is accepted.",
        source="gloo's transport/tcp (address of the host's name), Debian's 127.0.1.1 line; seen in our lab",
    ),
    HangCause(
        name="master-unreachable",
        title="the address of the head of the job cannot be reached",
        stages=("rendezvous",),
        meaning="The ranks meet at MASTER_ADDR:MASTER_PORT (torchrun: its endpoint). From at least one node no "
        "connection comes about: the name is unknown, the address is in another network, packets are dropped, or "
        "nothing listens.",
        fix="Give a name or address of the head in the network that all nodes share, open the port in its firewall, "
        "and see that the process on the head has started.",
        commands=(command("gpudoctor check network"),),
        confirm="From the node that fails, open a TCP connection to that address and port while the head waits.",
        source="torch c10d socket.cpp (connect timeout)",
    ),
    HangCause(
        name="master-port-in-use",
        title="another process holds the port of the head",
        stages=("rendezvous",),
        meaning="The store of rank 0 cannot listen on MASTER_PORT. The other ranks fail, or connect to a foreign "
        "process, often a rank that an earlier run left behind, and wait for it.",
        fix="End the process that holds the port, by its PID, or take a free port: torchrun --standalone on one node, "
        "another MASTER_PORT for every job on a shared node.",
        commands=(command("ss -ltnp"),),
        confirm="Look up the owner of the port on the head: it is no process of this job.",
        source="torch c10d socket.cpp (EADDRINUSE); mmpretrain#960",
    ),
    HangCause(
        name="rdzv-host-mismatch",
        title="no node recognises itself as the host of the rendezvous",
        stages=("rendezvous",),
        meaning="torchrun's c10d rendezvous makes that node the host whose own name or address equals the endpoint. "
        "Where none does (an alias, a service name, an address behind NAT), all nodes connect and none listens.",
        fix="Give the endpoint as the head calls itself (hostname -f), or write is_host=1 into the head's --rdzv-conf "
        "and is_host=0 into the others', or take the static rendezvous (--master-addr, --node-rank).",
        commands=(command("hostname -f"), command("hostname -I")),
        confirm="On the head compare the endpoint with its host name, full name and addresses; ss -ltn shows nobody "
        "on the port.",
        source="torch elastic/rendezvous/c10d_rendezvous_backend.py (_matches_machine_hostname); pytorch#69197",
    ),
    HangCause(
        name="double-init",
        title="the process group is initialised twice",
        stages=("rendezvous",),
        meaning="A library and the script both set up torch.distributed, or a private store is opened on the port of "
        "the launcher's. The second one waits for ranks that have joined already.",
        fix="Initialise once, before the library does, and guard by torch.distributed.is_initialized(). Give a store "
        "of your own another port.",
        confirm="Look at the stacks: init_process_group stands below a library's frame on some ranks and below the "
        "script's on others, or a second time in one process.",
        source="torch distributed_c10d.py (init_process_group), rendezvous.py (TORCHELASTIC_USE_AGENT_STORE)",
    ),
    HangCause(
        name="clock-skew",
        title="the clocks of the nodes differ by more than the rendezvous bears",
        stages=("rendezvous",),
        meaning="torchrun's c10d rendezvous compares the other nodes' heartbeats with its own clock: 3 of 5 s each. A "
        "node that is more than 15 s behind is taken for dead and left out. The others train with a smaller world "
        "without a word, and the node that was left out waits.",
        fix="Let all nodes keep their time by NTP (chrony, systemd-timesyncd), then start again.",
        commands=(command("timedatectl"), command("chronyc tracking")),
        confirm="Compare the clocks of all nodes: they lie more than 15 s apart.",
        source="torch elastic/rendezvous/dynamic_rendezvous.py (keep_alive_interval, keep_alive_max_attempt), measured "
        "with torch 2.13; awsome-distributed-ai#180, #202",
    ),
    HangCause(
        name="version-mismatch",
        title="the ranks run different software or settings",
        stages=("rendezvous", "communicator", "first collective"),
        meaning="Ranks with another torch, NCCL, network plugin or other NCCL settings do not understand each other: "
        "they disagree on sizes or algorithms and wait, or one of them cannot load its libraries.",
        fix="Start all ranks from one image or environment, with the same NCCL variables and plugin on all nodes; take "
        "foreign folders out of LD_LIBRARY_PATH.",
        commands=(command('python -c "import torch; print(torch.__version__, torch.cuda.nccl.version())"'),),
        confirm="Compare the loaded libraries (/proc/PID/maps) and the NCCL variables of all ranks.",
        source="NCCL init.cc (version check), bootstrap; torch's loader",
    ),
)
