"""What goes wrong while communicators are made: interfaces, GPUs, shared memory, NVSwitch."""

from gpudoctor.command import command
from gpudoctor.knowledge.hangs.cause import HangCause

COMMUNICATOR: tuple[HangCause, ...] = (
    HangCause(
        name="wrong-nic",
        title="the ranks talk over a network interface that does not lead to the others",
        stages=("communicator",),
        meaning="NCCL or gloo took loopback, a container's bridge, a virtual or a link-local address, or the variable "
        "that names the interface fits none. Peers are told an address that means another machine to them, or nothing.",
        fix="Name the interface that routes between the nodes in NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, or take "
        "both out; an exclusion list excludes lo too (^docker0,lo).",
        commands=(command("ip -brief address"), command("gpudoctor check network"), command("gpudoctor env")),
        confirm="Compare the interface of the log with the one that ip route get shows for a peer's address. A bridge "
        "has the same address on several hosts.",
        source="NCCL misc/socket.cc (ncclFindInterfaces), gloo transport/tcp; horovod#584",
    ),
    HangCause(
        name="firewall-ephemeral-ports",
        title="a firewall drops connections to the ports that the ranks open",
        stages=("communicator", "first collective"),
        meaning="The rendezvous has one known port, and behind it every rank listens on ports of the kernel's choice. "
        "With only MASTER_PORT open the ranks meet, and then cannot connect to each other.",
        fix="Open all TCP ports between the nodes in both directions (cloud: a rule of the security group that names "
        "itself). NCCL's ports cannot be chosen.",
        commands=(command("gpudoctor check network"), command("sudo nft list ruleset")),
        confirm="Listen on a free high port on one node and connect from another; do so both ways.",
        source="nccl#388; NCCL bootstrap, gloo transport/tcp",
    ),
    HangCause(
        name="host-identity-collision",
        title="two hosts look like one to NCCL",
        stages=("communicator",),
        meaning="NCCL takes ranks with the same host name and boot id for neighbours on one machine, and tries shared "
        "memory or NVLink between machines.",
        fix="Give hosts and containers their own names and boot ids, or set another NCCL_HOSTID on each.",
        commands=(command("hostname; cat /proc/sys/kernel/random/boot_id"),),
        confirm="Compare host name and boot id over the nodes; in NCCL's log channels between nodes say P2P or SHM.",
        source="NCCL misc/utils.cc (getHostHash)",
    ),
    HangCause(
        name="duplicate-gpu",
        title="two ranks use the same GPU",
        stages=("communicator",),
        meaning="NCCL wants one GPU per rank of a communicator. It ends with an error, and older releases hang.",
        fix="Choose the GPU by torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before anything else, and start no "
        "more ranks than GPUs are visible.",
        commands=(command("gpudoctor devices"), command("nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv")),
        confirm="See which PIDs stand on which GPU, and compare with their LOCAL_RANK.",
        source="NCCL init.cc (Duplicate GPU detected); verl#161",
    ),
    HangCause(
        name="device-not-set",
        title="ranks do not choose their own GPU",
        stages=("communicator", "first collective"),
        meaning="Without torch.cuda.set_device every process works on GPU 0, or a barrier guesses the GPU from the "
        "rank. Where the guess is wrong, communicators are made over wrong devices, and the ranks wait for each other.",
        fix="Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first and hand the device to "
        "init_process_group(device_id=...), or to barrier(device_ids=[...]).",
        commands=(command("nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv"),),
        confirm="All ranks' PIDs hold memory on GPU 0; torch warned that the devices used by this process are unknown.",
        source="torch distributed_c10d.py and ProcessGroupNCCL (guessDeviceId)",
    ),
    HangCause(
        name="shm-too-small",
        title="/dev/shm is too small",
        stages=("communicator", "training"),
        meaning="NCCL and DataLoader workers share memory through /dev/shm. Docker gives 64 MiB; when it is full, "
        "NCCL cannot make its segments, and DataLoader workers end by a bus error.",
        fix="Give it more: docker's --shm-size=8g or --ipc=host; in Kubernetes an emptyDir with medium Memory at "
        "/dev/shm. Remove segments that dead jobs left.",
        commands=(command("df -h /dev/shm"), command("gpudoctor check host")),
        confirm="Compare the free space of /dev/shm in the rank's container with what the log asks for.",
        source="NCCL misc/shmutils.cc; torch DataLoader; nccl#525",
    ),
    HangCause(
        name="memlock-limit",
        title="the limit of locked memory is too low for RDMA",
        stages=("communicator",),
        meaning="RDMA pins its buffers. Under a low limit they cannot be registered, and the connection is not made.",
        fix="Lift the limit for the ranks: docker's --ulimit memlock=-1, LimitMEMLOCK=infinity for the launcher's "
        "unit (slurmd, sshd), or /etc/security/limits.conf.",
        commands=(command("ulimit -l"), command("gpudoctor check network")),
        confirm="Read Max locked memory in /proc/PID/limits of a rank; a shell on the node may have another one.",
        source="ibv_reg_mr(3), NCCL misc/ibvwrap.cc; nccl-tests#206",
    ),
    HangCause(
        name="fabric-manager",
        title="Fabric Manager is not running or does not fit the driver",
        stages=("communicator",),
        meaning="On machines with NVSwitch no CUDA program starts until Fabric Manager has set up the fabric, and NVLS "
        "fails where it was restarted or differs from the driver.",
        fix="Start Fabric Manager in the driver's version and enable it at boot; after a restart beside running GPUs "
        "reset them or reboot.",
        commands=(
            command("systemctl status nvidia-fabricmanager"),
            command("sudo systemctl restart nvidia-fabricmanager"),
            command("gpudoctor check driver"),
        ),
        confirm="nvidia-smi -q shows the fabric's state; it is Completed with status Success when all is well.",
        source="NVIDIA Fabric Manager user guide; CUDA error 802; nccl-tests#264",
    ),
)
