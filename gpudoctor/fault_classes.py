"""What kind of fault an answer speaks of, for programs that decide what to do with the job."""

from typing import Literal, get_args

Class = Literal[
    "gpu-memory",
    "host-memory",
    "shared-memory",
    "disk-full",
    "quota",
    "limits",
    "permission",
    "file-missing",
    "import",
    "dependency-mismatch",
    "driver",
    "no-device",
    "device-lost",
    "device-ordinal",
    "illegal-access",
    "assertion",
    "argument",
    "shape",
    "config",
    "data",
    "nan",
    "checkpoint",
    "download",
    "exception",
    "rendezvous",
    "launcher",
    "port",
    "name-resolution",
    "route",
    "firewall",
    "rdma",
    "peer-access",
    "nccl-setting",
    "nccl-timeout",
    "divergence",
    "deadlock",
    "dead-rank",
    "slow-rank",
    "stopped",
    "storage",
    "node-lost",
    "scheduler",
    "preempted",
    "time-limit",
    "image",
    "signal",
    "user-interrupt",
    "other",
]
CLASSES: tuple[Class, ...] = get_args(Class)
"""A contract with whoever reads the JSON: never renamed."""
MEANS: dict[Class, str] = {
    "gpu-memory": "the GPU's memory is full or fragmented",
    "host-memory": "the machine's, cgroup's or pod's memory is full (OOM killer, OOMKilled, cannot allocate memory)",
    "shared-memory": "/dev/shm or another shared-memory segment is too small or gone",
    "disk-full": "no space or inodes are left on a file system",
    "quota": "a user's or project's quota is used up (disk quota, resource quota of a namespace)",
    "limits": "a limit of the process (open files, processes or threads, locked memory, stack)",
    "permission": "access is denied: files, devices, keys, credentials, gated models",
    "file-missing": "a file, folder, script, command or module file that was named is not there",
    "import": "a Python package, or a name of the program's own files, is not installed, built or found",
    "dependency-mismatch": "versions of programs, libraries, plugins or compiled extensions do not fit each other",
    "driver": "the GPU driver, its library, NVML, or the container's access to it does not work or is too old",
    "no-device": "there is no accelerator where one is wanted, or it is busy or hidden",
    "device-lost": "a GPU, or its memory or links, is broken: Xid, ECC, fallen off the bus, reset needed",
    "device-ordinal": "a device number that does not exist: a wrong LOCAL_RANK or CUDA_VISIBLE_DEVICES",
    "illegal-access": "illegal or misaligned memory access on the GPU, by a kernel",
    "assertion": "an assertion on the device or in the program failed",
    "argument": "a call or command line with a wrong, unknown or missing argument, or one of another dtype or device",
    "shape": "sizes of tensors do not fit",
    "config": "a setting, configuration file or job script is wrong, and no narrower class fits",
    "data": "what is read (a dataset, batch, token, label) is damaged, empty or not of the form that is wanted",
    "nan": "loss or gradients are nan or inf, or a loss scale falls to its minimum",
    "checkpoint": "a checkpoint or model file cannot be loaded or saved, or does not fit the model",
    "download": "a file, model or package could not be fetched from the network",
    "exception": "the program raised an error of its own, and no narrower class fits",
    "rendezvous": "ranks or nodes did not find or join each other at the start (store, c10d, timeouts at init)",
    "launcher": "a launcher (mpirun, srun --mpi, torchrun) was called wrongly or cannot start ranks (slots, ssh)",
    "port": "an address and port are already in use",
    "name-resolution": "a host name cannot be resolved, or to the wrong address",
    "route": "no way to a host: unreachable, wrong interface, wrong address",
    "firewall": "connections are refused, dropped or time out though both ends are there",
    "rdma": "InfiniBand, RoCE, EFA, verbs or UCX's choice of transports do not work",
    "peer-access": "direct access between GPUs (P2P, NVLink, IPC) does not work",
    "nccl-setting": "an NCCL variable or plugin is wrong or cannot be used",
    "nccl-timeout": "a collective timed out, and the text does not tell why",
    "divergence": "ranks went to different collectives, or with different shapes or counts",
    "deadlock": "threads or locks in a program wait for each other",
    "dead-rank": "a rank died, and the text does not tell of what",
    "slow-rank": "a rank was late: others waited for it while it worked",
    "stopped": "a process is stopped (SIGSTOP, debugger)",
    "storage": "a file system or mount is slow, stale, read-only, or gives I/O errors",
    "node-lost": "a machine failed (its memory or processors too), rebooted or went away",
    "scheduler": "SLURM, Kubernetes, PBS or LSF did not start the job or refused it",
    "preempted": "the job was taken away for another, or a spot machine was reclaimed",
    "time-limit": "the job's time was used up",
    "image": "a container image cannot be pulled or started",
    "signal": "a signal ended it, and the text does not tell why",
    "user-interrupt": "a person ended it",
    "other": "a kind that a package's own cause brings, or none of these",
}
"""What each means. A fault has the class of its first cause, as far as that is seen; of several, the narrowest."""
MEET: tuple[tuple[str, str, str], ...] = (
    (
        "an option of a command line: unknown, ambiguous, without its value, of a value that is not allowed",
        "the program's own parser (argparse, click, getopt, a launcher's or scheduler's command too)",
        "argument",
    ),
    (
        (
            "a value that a program passed to a function or constructor: its type, its range, two that exclude "
            "each other, one that is missing"
        ),
        "a library, in words about the call",
        "argument",
    ),
    (
        "the same, where it is a tensor's size, number of dimensions or length",
        "a library",
        "shape",
    ),
    (
        (
            "a key or value of a settings file, of a job script's header or of an environment variable; settings "
            "that contradict each other or do not divide"
        ),
        (
            "whoever reads or validates settings (omegaconf, pydantic, a `*Config` or `*Arguments` class, a "
            "command that hands a job in)"
        ),
        "config",
    ),
    (
        "the same of a variable of NCCL's",
        "NCCL",
        "nccl-setting",
    ),
    (
        "ranks that cannot be started although they were asked for rightly: no daemon, no ssh, no slots",
        "a launcher",
        "launcher",
    ),
    (
        "a job, for what it asks or for whose it is: resources, partition, account, QOS, taints",
        "a scheduler",
        "scheduler",
    ),
    (
        "a daemon's own files, cgroups and plugins on a node",
        "slurmd, slurmstepd",
        "scheduler (node-lost where the node is gone)",
    ),
    (
        "a package that is not there",
        "the interpreter, or a library that says which one to install",
        "import",
    ),
    (
        "a package, toolkit or build that is there in another version than is wanted",
        "a library, a loader, a compiler",
        "dependency-mismatch",
    ),
    (
        "a path that is not there",
        "anybody, with the path in the message",
        "file-missing",
    ),
    (
        "a name that is not there and is no path: a model, a column, an operation",
        "a library",
        "argument, or what that name is of (data, checkpoint)",
    ),
    (
        "what was read, and not what was passed: a record, an image, a line",
        "whoever decodes it",
        "data",
    ),
)
"""Where classes meet: what is refused, by whom, and of what class that is. Ask first who speaks."""
