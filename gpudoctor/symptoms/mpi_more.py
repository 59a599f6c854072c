"""Open MPI's help texts and its last words where processes cannot meet, and UCX's and libfabric's below them."""

from gpudoctor.symptom import HINT, LIKELY, POSSIBLE, Symptom

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "mpi-without-transport",
        needle=(
            "at least one MPI process is unreachable",
            "At least one pair of MPI processes are unable to reach each other",
            "PML add procs failed",
        ),
        cause="wrong-nic",
        variant="mpi",
        confidence=POSSIBLE,  # its help names several: a transport not loaded, not allowed, or without a way
        seen="Open MPI's processes have no transport (BTL, MTL, PML) in common by which they reach each other",
        source="ompi/runtime/help-mpi-runtime.txt (pml-add-procs-fail), ompi/mca/bml/r2/help-mca-bml-r2.txt",
        sample=(
            "MPI_INIT has failed because at least one MPI process is unreachable",
            "At least one pair of MPI processes are unable to reach each other for",
        ),
        counter="MPI_INIT has reached all processes",
    ),
    Symptom(
        "ucx-connect-failed",
        pattern=r"UCX\s{1,4}ERROR\s{1,4}[^\n]{0,80}?connect\([^\n]{0,60}dest_addr=(?P<address>[\w.:-]{1,80}?)\) "
        r"failed: (?P<reason>[^\n]{1,80})",
        cause="wrong-nic",
        variant="mpi",
        confidence=LIKELY,
        seen="UCX could not connect to {address}: {reason}; UCX_NET_DEVICES chooses the interface",
        source="ucx src/ucs/sys/sock.c (ucs_socket_connect)",
        sample="[1695332443.361791] [hi0:1224050:0]            sock.c:323  UCX  ERROR   connect(fd=42, "
        "dest_addr=172.17.0.1:54351) failed: Connection refused",
        counter="[1695332443.361791] [hi0:1224050:0]            sock.c:323  UCX  DEBUG   connect(fd=42) succeeded",
    ),
    Symptom(
        "mpi-tcp-address-refused",
        pattern=r"Message:\s{1,8}connect\(\) to (?P<address>[\w.:-]{1,80}) failed",
        cause="wrong-nic",
        variant="mpi",
        confidence=LIKELY,
        seen="Open MPI chose the address {address}, which does not lead to the peer; btl_tcp_if_include chooses the "
        "interface",
        source="ompi opal/mca/btl/tcp/help-mpi-btl-tcp.txt (client connect fail)",
        sample="  Message:    connect() to 172.17.0.1:1040 failed",
        counter="  Message:    connect() to 10.0.0.7:1040 was tried",
    ),
    Symptom(
        "mpi-without-pmi",
        needle=("was not built with SLURM's PMI support", "was not built with SLURM support"),
        cause="version-mismatch",
        variant="pmi",
        seen="this Open MPI was built without SLURM's PMI, and srun started it: it cannot find its ranks",
        source="ompi orte/mca/ess/pmi/help-ess-base.txt, ompi/runtime/help-mpi-runtime.txt (no-pmi)",
        sample="but OMPI was not built with SLURM's PMI support and therefore cannot",
        counter="OMPI was built with SLURM's PMI support",
    ),
    Symptom(
        "mpi-exit-status",
        needle=(
            "detected that one or more processes exited with non-zero status",
            "*** An error occurred in MPI_",
            "MPI_ERRORS_ARE_FATAL",
        ),
        role="consequence",
        confidence=HINT,
        seen="Open MPI ended the job because of an error in one of its processes; the lines before it say why",
        source="ompi orte help-orterun.txt; ompi/errhandler/errhandler_predefined.c",
        sample=(
            "mpirun detected that one or more processes exited with non-zero status, thus causing",
            "[lc1:3001] *** An error occurred in MPI_Init",
        ),
        counter="mpirun detected 8 slots",
    ),
    Symptom(
        "efa-no-locked-memory",
        pattern=r"Unable to register MR: (?P<reason>Cannot allocate memory)",
        cause="memlock-limit",
        confidence=LIKELY,
        seen="EFA could not lock memory for the adapter ({reason}): the limit of locked memory is too low",
        source="libfabric prov/efa/src/efa_mr.c (efa_mr_reg_impl)",
        sample="libfabric:718892:1658904526::efa:mr:efa_mr_reg_impl():517<warn> Unable to register MR: Cannot allocate "
        "memory",
        counter="Unable to register MR: Bad address",
    ),
    Symptom(
        "efa-internal-error",
        needle="Libfabric EFA provider has encountered an internal error",
        role="consequence",
        cause="rdma-peer-lost",
        variant="efa",
        confidence=POSSIBLE,
        seen="libfabric's EFA provider ended the process",
        source="libfabric prov/efa/src/efa_base_ep.c (efa_base_ep_write_eq_error)",
        sample="Libfabric EFA provider has encountered an internal error:",
        counter="Libfabric EFA provider is used",
    ),
    Symptom(
        "horovod-no-common-interface",
        needle="Unable to find a set of common task-to-task communication interfaces",
        cause="wrong-nic",
        variant="mpi",
        seen="the hosts have no network interface of one name that leads from each to the next",
        source="horovod/runner/driver/driver_service.py",
        sample="Exception: Unable to find a set of common task-to-task communication interfaces: [(0, {'lo': []})]",
        counter="Found common interfaces: eth0",
    ),
    Symptom(
        "nccl-network-not-found",
        pattern=r"NCCL WARN Error: network (?P<network>[^\n]{1,60}) not found",
        cause="nccl-settings",
        variant="network",
        confidence=POSSIBLE,
        seen="NCCL_NET asks for the network {network}, whose plugin was not found or did not start",
        source="NCCL net.cc (ncclNetInit), 2.12 to 2.25",
        sample="ip-10-1-3-7:12:12 [0] net.cc:579 NCCL WARN Error: network AWS Libfabric not found.",
        counter="NCCL INFO Using network AWS Libfabric",
    ),
)
