"""What network cards, InfiniBand's tools, mounts and network file systems, Kerberos and sshd say.

Every text was found in the source that its `source` names, but for what Ceph's kernel client, BeeGFS and IBM Storage
Scale say, of which only users' logs were found.
"""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "address-of-another-machine",
        words=r"(?i)\bbind\b[^\n]{0,160}\bcannot assign requested address",
        lines=True,
        fix=(
            "It wants to listen on an address that this machine does not have (of another node, of an interface that "
            "is down, of the host where a container has its own): MASTER_ADDR or what stands for it must be an address "
            "of the node that listens, and GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME an interface that is up."
        ),
        commands=(command("ip -brief address"),),
        kind="route",
        restart="after a fix",
        source="bind(2), EADDRNOTAVAIL; gloo transport/tcp/device.cc, c10d socket.cpp, Python asyncio/base_events.py",
        sample="OSError: [Errno 99] error while attempting to bind on address ('10.4.0.9', 29500): cannot assign "
        "requested address",
        counter="connect: Cannot assign requested address",
    ),
    Remedy(
        "card-not-healthy",
        words=(
            r"\bmlx[45]_core [0-9a-f:.]{7,12}:? [^\n]{0,160}(?:\bhealth compromised|\bassert_var\b|\bfatal"
            r"|\btimeout\b|"
            r"\bfailed\b|\bnot healthy|\bUnrecoverable|\bINTERNAL_TIMEOUT)",
            r"\b(?:bnxt_en|bnxt_re|irdma|ice|efa|hfi1|qedr) [0-9a-f:.]{7,12}:? [^\n]{0,120}\b(?:fatal"
            r"|firmware (?:error|hang)|reset)",
        ),
        lines=True,
        fix=(
            "The network card or its firmware failed on that node: leave the node out; its driver is loaded again or "
            "the card reset by who runs the cluster, and its firmware brought to what the driver wants."
        ),
        commands=(command("sudo dmesg --ctime | grep -iE 'mlx5|bnxt|irdma|efa|hfi1'"),),
        kind="rdma",
        blame="node",
        restart="elsewhere",
        source="kernel drivers/net/ethernet/mellanox/mlx5/core (health.c, cmd.c), broadcom/bnxt, drivers/infiniband/hw",
        sample="mlx5_core 0000:9d:00.0: print_health_info:439:(pid 0): Health issue observed, firmware internal "
        "error, fatal",
        counter="mlx5_core 0000:9d:00.0: firmware version: 28.39.1002",
    ),
    Remedy(
        "no-such-rdma-device",
        words=r"\bIB device \S{1,40} (?:was )?not found\b|\bNo IB devices found\b"
        r"|\b[Ff]ailed to get IB devices list\b|\bUnable to find the Infiniband/RoCE device\b"
        r"|\bCA '\S{1,40}' (?:not found|port)\b",
        lines=True,
        fix=(
            "There is no such InfiniBand or RoCE device: ibv_devices lists those that this node or container sees; a "
            "container needs /dev/infiniband, and the driver must be loaded."
        ),
        commands=(command("ibv_devices; ls /dev/infiniband"),),
        kind="rdma",
        source="linux-rdma perftest_resources.c, rdma-core ibverbs, infiniband-diags",
        sample="IB device mlx5_9 not found",
        counter="IB device mlx5_0",
    ),
    Remedy(
        "rdma-test-not-connected",
        words=(
            r"\b(?:Unable|Failed|Couldn't) to (?:init the socket connection|exchange data|connect the QPs"
            r"|modify QP|create QP)\b|"
            r"\bCouldn't connect to \S{1,253}:\d{1,6}\b|\bFailed to modify QP \d{1,9} to RT[RS]\b",
            r"\bCompletion with error at (?:client|server)\b|\bFailed status \d{1,2}: wr_id \d",
        ),
        lines=True,
        fix=(
            "The two ends do not reach each other over that device and GID: the server must run first, on the same "
            "device, GID index (-x) and MTU; between them the fabric (subnet manager, VLAN, PFC, a firewall for the "
            "first TCP connection) must let it pass."
        ),
        commands=(command("ibv_devinfo | grep -E 'hca_id|state|link_layer'"),),
        kind="rdma",
        blame="fabric",
        restart="not decided",
        source="linux-rdma perftest perftest_communication.c, perftest_resources.c",
        sample=("Failed to modify QP 281 to RTR", " Completion with error at client"),
        counter="local address: LID 0x01 QPN 0x0119",
    ),
    Remedy(
        "subnet-manager",
        words=r"\b[Ss]ubnet manager\b[^\n]{0,60}\b(?:not (?:running|found)|unreachable|down)\b"
        r"|\bosm_vendor_\w{3,30}: ERR\b|"
        r"\bibwarn: \[\d{1,8}\][^\n]{0,120}\b(?:failed|can't|bad|timeout)",
        lines=True,
        fix="InfiniBand needs one subnet manager that answers (opensm or the switch's): start it, and look at "
        "sminfo and the links.",
        commands=(command("sudo sminfo; ibstat"),),
        kind="rdma",
        blame="fabric",
        restart="not decided",
        source="opensm; infiniband-diags libibmad",
        sample="ibwarn: [4431] mad_rpc_open_port: can't open UMAD port (mlx5_0:1)",
        counter="SM lid: 1",
    ),
    Remedy(
        "queue-pairs",
        words=r"(?:failed to create (?:\w{1,8} )?QP\b|mlx5dv_devx_obj_create\(QP\) failed|\bibv_(?:exp_)?create_qp\b"
        r"[^\n]{0,40}failed)[^\n]{0,200}Cannot allocate memory",
        lines=True,
        fix=(
            "The card gives no further queue pair: see that the job's limit of locked memory is unlimited (ulimit -l "
            "in the job itself); with many processes a node take transports that need fewer (UCX_TLS=dc_x,self,sm, or "
            "ud), or fewer processes; where other nodes do it, compare the card's firmware."
        ),
        commands=(command("ulimit -l; ibv_devinfo -v | grep -E 'hca_id|fw_ver|max_qp:'"),),
        kind="rdma",
        source="ucx src/uct/ib (ib_mlx5_dv.c, ib_iface.c); verbs",
        sample="ib_mlx5_dv.c:161  UCX  ERROR   mlx5dv_devx_obj_create(QP) failed, syndrome 0: Cannot allocate memory",
        counter="UCX  ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory",
    ),
    Remedy(
        "mount-helper",
        words=r"\bmount: [^\n]{0,300}(?:wrong fs type|bad option)[^\n]{0,120}helper program",
        lines=True,
        fix=(
            "mount itself knows that kind of file system by a helper only (/sbin/mount.nfs and its like), which that "
            "node does not have: install it there (Debian, Ubuntu: nfs-common; Red Hat, Amazon Linux: nfs-utils; "
            "cifs-utils, or the client of Lustre or the cloud). Where it is there, an option is not one that it takes."
        ),
        commands=(command("ls /sbin/mount.*"),),
        kind="storage",
        blame="node",
        source="util-linux libmount/src/context_mount.c",
        sample="mount: /data: bad option; for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> "
        "helper program.",
        counter="mount.nfs: access denied by server while mounting filer:/data",
    ),
    Remedy(
        "mount-kernel",
        words=r"\bmount(?:\.(?P<type>\w{2,12}))?: (?:[^\n]{0,300}: )?(?:No such device$|unknown filesystem type)",
        lines=True,
        fix=(
            "The kernel of that node has no such file system: load its module there (modprobe nfs; of Lustre and the "
            "like the client that was made for this kernel), or install the kernel's package of further modules."
        ),
        commands=(command("cat /proc/filesystems"),),
        kind="storage",
        blame="node",
        source="util-linux libmount/src/context_mount.c; mount(2), ENODEV",
        sample=("mount.nfs: No such device", "mount: /data: unknown filesystem type 'nfs4'."),
        counter="mount.nfs: access denied by server while mounting filer:/data",
    ),
    Remedy(
        "mount-refused",
        words=(
            r"\bmount(?:\.\w{2,12})?: [^\n]{0,200}?(?P<why>access denied by server|requested NFS "
            r"version[^\n]{0,60}|Protocol not supported|special device \S{1,200} does not exist|system call failed)",
            r"\bmount\.lustre: [^\n]{0,120}(?P<why>failed|unknown)",
        ),
        lines=True,
        fix=(
            "The file system could not be mounted there ({why}): look at the server's exports, their path and version "
            "of NFS, and at what the kernel of that node tells."
        ),
        commands=(command("mount | tail; sudo dmesg --ctime | tail"),),
        kind="storage",
        blame="environment",
        restart="not decided",
        source="util-linux sys-utils/mount.c; nfs-utils utils/mount/error.c; lustre utils/mount_lustre.c",
        sample="mount.nfs: access denied by server while mounting filer:/data",
        counter="mount.nfs: timeout set for Mon",
    ),
    Remedy(
        "file-server-gone",
        words=(
            r"\bLustreError: \d[^\n]{0,200}\b(?:evicted|failed|timed out|not available"
            r"|Connection to \S{1,80} was lost)\b|\bLNetError: \d",
            r"\b(?:ceph|libceph): [^\n]{0,120}\b(?:hung|stale|socket closed|went (?:down|away)|denied reconnect"
            r"|blocklisted)\b",
            r"\bCIFS: VFS: [^\n]{0,120}\b(?:has not responded|Send error|rc = -)\b"
            r"|\bbeegfs[^\n]{0,80}\b(?:[Cc]ommunication error|unreachable)\b",
            r"\b(?:mmfs|GPFS)\w{0,4}:? [^\n]{0,60}\[E\]|\bfuse: [^\n]{0,60}\b(?:not connected|failed)\b"
            r"|\bwekafs\b[^\n]{0,80}\berror\b",
        ),
        lines=True,
        fix=(
            "The file system's servers are lost to that node: whoever reads or writes there waits or fails. Look at "
            "its state there and on other nodes; leave the node out where only it has lost them."
        ),
        commands=(command("sudo dmesg --ctime | tail -50; df -h"),),
        kind="storage",
        blame="fabric",
        restart="not decided",
        source="lustre ptlrpc and lnet; kernel fs/ceph, net/ceph, fs/smb/client; BeeGFS client; IBM Storage Scale",
        sample="[ 77.1] LustreError: 167-0: scratch-MDT0000-mdc-ffff: This client was evicted by "
        "scratch-MDT0000; in progress operations fail",
        counter="Lustre: scratch-MDT0000: Connection restored to 10.0.0.2@o2ib",
    ),
    Remedy(
        "ticket-expired",
        words=r"\bTicket (?:has )?expired\b|\bClock skew too great\b|\bNo (?:valid )?credentials were supplied\b"
        r"|\bNo Kerberos credentials available\b|"
        r"\bkinit: |\bCredentials cache (?:file|keyring)[^\n]{0,80}not found\b|\bKey has expired\b"
        r"|\bRequired key not available\b|"
        r"\bTokens? (?:for \S{1,60} )?ha(?:s|ve) expired\b|\bexpired credential\b|\bRewound credential\b",
        lines=True,
        fix=(
            "The credential that opens it has run out, or clocks differ: get a new one (kinit, aklog; on the node, in "
            "the job, with a renewing keytab for long ones), and have the nodes' clocks set (chrony)."
        ),
        commands=(command("klist; date; chronyc tracking"),),
        kind="permission",
        source="MIT krb5 lib/krb5/error_tables; OpenAFS; kernel keys; munge libmunge/strerror.c",
        sample="kinit: Clock skew too great while getting initial credentials",
        counter="Ticket cache: FILE:/tmp/krb5cc_1000",
    ),
    Remedy(
        "ssh-not-let-in",
        words=r"\bToo many authentication failures\b|\bkex_exchange_identification: "
        r"|\bssh_exchange_identification: |\bPermission denied \(publickey"
        r"|\bno matching (?:host key type|key exchange method|cipher) found\b"
        r"|\bREMOTE HOST IDENTIFICATION HAS CHANGED\b",
        lines=True,
        fix=(
            "ssh is refused before anything is started there: give the job's user a key that this host takes without a "
            "question, its present host key in known_hosts (ssh-keygen -R HOST), and no more connections at once than "
            "sshd lets wait (MaxStartups)."
        ),
        kind="permission",
        source="OpenSSH sshconnect2.c, kex.c, sshconnect.c",
        sample="kex_exchange_identification: Connection closed by remote host",
        counter="Authenticated to gpu-3 using publickey",
    ),
)
