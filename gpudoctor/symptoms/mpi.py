"""mpirun's words: Open MPI (ORTE, PRRTE) and the Hydra launchers of MPICH and Intel MPI."""

from gpudoctor.symptom import HINT, LIKELY, POSSIBLE, Symptom

NOTICED = r"noticed that process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<host>\S{1,253}) exited on signal "
OPEN_MPI = "Open MPI's help texts (ORTE, PRRTE)"
HYDRA = "MPICH and Intel MPI, Hydra"

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "mpi-rank-ended",
        pattern=(
            NOTICED + r"(?P<signal>6|15|2|1)\b",
            r"[Pp]rimary job\s{1,3}terminated normally, but \d+ process(?:es)? returned",
            r"process rank (?P<rank>\d+) with PID (?P<pid>\d+) on[^\n]{0,80}exiting improperly",
        ),
        role="consequence",
        confidence=HINT,
        seen="mpirun ended the job, since a process had ended",
        source=OPEN_MPI,
        sample=(
            "prterun noticed that process rank 3 with PID 811 on node gpu-a03 exited on signal 6 (Aborted).",
            "Primary job  terminated normally, but 1 process returned",
        ),
        counter="mpirun noticed that process rank 11 with PID 6177 on node gpu-a03 exited on signal 9 (Killed).",
    ),
    Symptom(
        "mpi-failed-process",
        pattern=r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]",
        role="context",
        seen="mpirun names rank {rank} as the process that ended with an error",
        source=OPEN_MPI,
        sample="  Process name: [[51221,1],6]",
        counter="  Process name: python",
    ),
    Symptom(
        "mpi-abort",
        pattern=r"MPI_ABORT was invoked on rank (?P<rank>\d+)",
        cause="rank-died",
        confidence=POSSIBLE,
        seen="rank {rank} ended the job by MPI_Abort",
        source=OPEN_MPI,
        sample="MPI_ABORT was invoked on rank 6 in communicator MPI_COMM_WORLD",
        counter="MPI_INIT was invoked on rank 6",
    ),
    Symptom(
        "mpi-daemons-not-started",
        pattern=r"(?:ORTE|PRTE|PRRTE|prterun|mpirun|Open MPI)[^\n]{0,20} was unable to (?:reliably start one or "
        r"more|launch the specified)",
        cause="launcher-world-mismatch",
        variant="mpi-daemons",
        confidence=LIKELY,
        seen="mpirun could not start its daemons or the program on a node",
        source=OPEN_MPI,
        sample=(
            "ORTE was unable to reliably start one or more daemons.",
            "mpirun was unable to launch the specified application as it could not access",
        ),
        counter="ORTE was able to start all daemons.",
    ),
    Symptom(
        "mpi-daemon-lacks-library",
        pattern=r"(?:^|[\s/:])(?P<program>orted|prted|hydra_pmi_proxy|pmi_proxy|hydra_bstrap_proxy): error while "
        r"loading shared libraries: (?P<library>[\w.+-]{1,80}): cannot open shared object file",
        cause="launcher-world-mismatch",
        variant="mpi-daemon-library",
        seen="{program}, which mpirun starts on the other node, does not find {library} there",
        source="the dynamic loader (ld.so); Open MPI's and MPICH's daemons",
        sample="orted: error while loading shared libraries: libopen-rte.so.40: cannot open shared object file: No "
        "such file or directory",
        counter="python: error while loading shared libraries: libcudnn.so.9: cannot open shared object file",
    ),
    Symptom(
        "mpi-daemon-not-on-path",
        pattern=r"(?P<program>\b(?:orted|prted|hydra_pmi_proxy|pmi_proxy|hydra_bstrap_proxy)): "
        r"(?:command not found|not found|No such file or directory)",
        cause="launcher-world-mismatch",
        variant="mpi-daemon-path",
        seen="the shell on the other node does not find {program}, which mpirun starts there",
        source="bash, dash, zsh; Open MPI orte/mca/plm/rsh, MPICH hydra",
        sample=("/bin/bash: orted: command not found", "bash: line 1: prted: command not found"),
        counter="bash: python: command not found",
    ),
    Symptom(
        "ssh-not-let-in",
        pattern=r"\bPermission denied \(publickey[\w,-]{0,80}\)\.|\bHost key verification failed\.",
        unless="git@",
        cause="program-error",
        variant="ssh-not-let-in",
        confidence=LIKELY,
        seen="ssh is not let in where the launcher wants to start something",
        source="OpenSSH sshconnect2.c, sshconnect.c",
        sample=("root@worker-1: Permission denied (publickey,password).", "Host key verification failed."),
        counter="git@github.com: Permission denied (publickey).",
    ),
    Symptom(
        "ssh-name-unknown",
        pattern=r"ssh: Could not resolve hostname (?P<address>[\w.-]{1,253})",
        cause="master-unreachable",
        variant="ssh-name",
        seen="ssh does not find the name {address}",
        source="OpenSSH ssh.c",
        sample="ssh: Could not resolve hostname worker-2: Name or service not known",
        counter="ssh: connected to worker-2",
    ),
    *(
        Symptom(
            f"ssh-{variant}",
            pattern=r"ssh: connect to host (?P<address>(?!(?:[\w-]{1,40}\.)?"
            r"(?:github|gitlab|bitbucket|hf|huggingface)\.)"
            rf"[\w.-]{{1,253}}) port (?P<port>\d{{1,5}}): (?:{errnos})",
            cause="master-unreachable",
            variant=f"ssh-{variant}",
            seen=f"{{address}} {seen}",
            source="OpenSSH sshconnect.c (ssh_connect_direct)",
            sample=f"ssh: connect to host worker-2 port 22: {sample}",
            counter=f"ssh: connect to host github.com port 22: {sample}",
        )
        for variant, errnos, seen, sample in (
            (
                "refused",
                "Connection refused",
                "answers, and nothing takes ssh there on port {port}",
                "Connection refused",
            ),
            (
                "no-answer",
                "Connection timed out|Operation timed out|No route to host|Network is unreachable",
                "is not reached by ssh on port {port}",
                "Connection timed out",
            ),
        )
    ),
    Symptom(
        "mpi-no-slots",
        pattern=r"not enough slots available in the system to satisfy the (?P<size>\d+)",
        cause="launcher-world-mismatch",
        variant="slots",
        seen="mpirun was asked for {size} ranks, and the hosts have fewer slots",
        source=OPEN_MPI,
        sample="There are not enough slots available in the system to satisfy the 16",
        counter="16 slots available in the system",
    ),
    Symptom(
        "mpi-daemon-lost",
        pattern=r"has lost communication with a remote daemon",
        cause="node-lost",
        confidence=LIKELY,
        seen="mpirun lost its daemon on a node: the node or its network failed, or the daemon was killed",
        source=OPEN_MPI,
        sample="ORTE has lost communication with a remote daemon.",
        counter="ORTE daemon started",
    ),
    Symptom(
        "mpi-daemon-not-back",
        pattern=r"daemon has unexpectedly failed after launch and before",
        cause="master-unreachable",
        confidence=POSSIBLE,
        seen="Open MPI started its daemon on another node, and it did not reach mpirun",
        source="prrte src/mca/plm/base/help-plm-base.txt, errmgr",
        sample="An ORTE daemon has unexpectedly failed after launch and before",
        counter="ORTE has lost communication with a remote daemon.",
    ),
    Symptom(
        "mpi-program-not-found",
        pattern=(
            r"(?P<launcher>mpirun|mpiexec|prterun|prun|orterun) was unable to find the specified executable file",
            r"HYDU_create_process[^\n]{0,80}execvp error on file (?P<file>\S{1,200}) \(No such file",
        ),
        cause="program-error",
        variant="no-program",
        confidence=LIKELY,
        seen=(
            "{launcher} did not find the program that it was to start",
            "Hydra did not find the program that it was to start ({file})",
        ),
        source="prrte src/tools/prte/help-prun.txt, src/runtime/help-prte-runtime.txt",
        sample="prterun was unable to find the specified executable file, and therefore did",
        counter="mpirun found the executable",
    ),
    Symptom(
        "mpi-connect-failed",
        needle=("failed to TCP connect to a peer MPI process", "was unable to complete a TCP connection"),
        cause="firewall-ephemeral-ports",
        variant="mpi",
        role="connection",
        seen="Open MPI could not connect from one node to another",
        source=OPEN_MPI,
        sample=(
            "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This",
            "A process or daemon was unable to complete a TCP connection",
        ),
        counter="Open MPI uses TCP to connect",
    ),
    Symptom(
        "hydra-ended",
        pattern=(
            r"RANK (?P<rank>\d+) PID (?P<pid>\d+) RUNNING AT (?P<host>\S{1,253})",
            r"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        ),
        role="consequence",
        confidence=HINT,
        seen="the launcher ended the job, since a process had ended",
        source=HYDRA,
        sample=("=   RANK 6 PID 6177 RUNNING AT gpu-a03", "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"),
        counter="RANK 6 RUNNING",
    ),
)
