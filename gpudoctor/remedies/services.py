"""What runtimes of several processes say: XLA and TensorFlow (absl codes), gRPC, Ray, dask, OCI, Kubernetes."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "device-allocation",
        words=(
            r"\bRESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)",
            r"\bOOM when allocating tensor with shape\b[^\n]{0,160}\bdevice:GPU:",
        ),
        fix=(
            "The GPU's memory is full: a smaller batch or model, rematerialisation, or sharding over more GPUs; XLA "
            "takes 75 % of it at the start (XLA_PYTHON_CLIENT_MEM_FRACTION, XLA_PYTHON_CLIENT_PREALLOCATE=false where "
            "another process needs some)."
        ),
        kind="gpu-memory",
        source="openxla xla/pjrt, tsl/framework/bfc_allocator.cc; tensorflow core/framework/op_kernel.cc",
        sample="jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
        "8589934592 bytes.",
        counter="RESOURCE_EXHAUSTED: Received message larger than max (5195152 vs. 4194304)",
    ),
    Remedy(
        "tasks-not-all-there",
        words=(
            r"\bDEADLINE_EXCEEDED: Barrier timed out\b",
            r"\bRegisterTask\b[^\0]{0,400}\bDeadline Exceeded|\bDEADLINE_EXCEEDED: Deadline Exceeded\b",
            r"\bStopping coordination service as cluster registration failed\b",
        ),
        lines=True,
        fix=(
            "Not all processes of the job came to the meeting in time: start every one of num_processes, each with its "
            "own process_id and one coordinator_address that all reach; a task that is named as timed out died before "
            "or never started, and where nodes start slowly give jax.distributed.initialize a longer "
            "initialization_timeout."
        ),
        kind="rendezvous",
        restart="not decided",
        source="openxla xla/tsl/distributed_runtime/coordination/coordination_service.cc; jax _src/distributed.py",
        sample=(
            "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: "
            "PjRT_Client_Connect.",
            "E external/xla/xla/pjrt/distributed/client.cc:96] Coordination service agent in error status: "
            "DEADLINE_EXCEEDED: Deadline Exceeded",
        ),
        counter="TimeoutError: 30 s",
    ),
    Remedy(
        "task-lost",
        words=(
            r"\btasks? (?:are|is) unhealthy \(stopped sending heartbeats\)",
            r"\bheartbeat timeout\. This indicates that the remote task\b",
            r"\bCollective ops is aborted by: ",
            r"\bWatchTasks\w{0,10} failed\b|\bCoordinationService/WatchTasks\b",
        ),
        lines=True,
        fix=(
            "Another task of the job has died or cannot be reached, and these only tell of it: look for the first "
            "error in the log of the task that is named, and in its node's and scheduler's events."
        ),
        kind="dead-rank",
        restart="not decided",
        source="openxla coordination_service.cc; tensorflow core/common_runtime/base_collective_executor.cc",
        sample="jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: The following tasks are unhealthy (stopped sending "
        "heartbeats):",
        counter="UNAVAILABLE: failed to connect to all addresses",
    ),
    Remedy(
        "peer-does-not-listen",
        words=(
            r"\bfailed to connect to all addresses\b",
            r"\bFailed to connect to GCS at address (?P<address>\S{1,100})",
            r"\b[Tt]imed out trying to connect to (?P<address>(?:tcp|ucx|tls|inproc)://\S{1,200})",
            r"\bray client connection timeout\b",
        ),
        lines=True,
        fix=(
            "Nothing answers at the address of the head, scheduler or coordinator: look whether it still runs there, "
            "in its own log, and whether this node reaches that address and port (--interface, a firewall, the address "
            "of another network)."
        ),
        kind="route",
        restart="not decided",
        source="gRPC core (client_channel); Ray _private/gcs_utils.py; distributed comm/core.py",
        sample=(
            "RuntimeError: Failed to connect to GCS at address 10.0.3.2:6379 within 5 seconds.",
            "OSError: Timed out trying to connect to tcp://10.0.1.2:8786 after 30 s",
        ),
        counter="TimeoutError: timed out after 30 s",
    ),
    Remedy(
        "cudnn-not-started",
        words=r"\bDNN library (?:initialization failed|is not found)\b|Failed to get convolution algorithm",
        fix=(
            "cuDNN did not start: the lines before say why; mostly its release is not the one that jaxlib or "
            "TensorFlow was "
            "built for (LD_LIBRARY_PATH with another), or the GPU's memory was taken by another process already."
        ),
        kind="dependency-mismatch",
        source="openxla xla/service/gpu/stream_executor_util.cc, stream_executor/cuda/cuda_dnn.cc",
        sample="jaxlib.xla_extension.XlaRuntimeError: FAILED_PRECONDITION: DNN library initialization failed. Look at "
        "the errors above for more details.",
        counter="FAILED_PRECONDITION: the session is closed",
    ),
    Remedy(
        "session-lost",
        words=r"\bConnection to (?P<host>[\w.:-]{1,253}) closed by remote host\b|\bclient_loop: send disconnect: ",
        lines=True,
        fix=(
            "The ssh connection ended, and with it what was started in it: look whether the other machine still runs, "
            "and start what is to outlive a connection in tmux, by setsid or as a batch job (ServerAliveInterval keeps "
            "an idle one open)."
        ),
        kind="route",
        blame="node",
        restart="not decided",
        source="OpenSSH clientloop.c",
        sample=("Connection to gpu-3 closed by remote host.", "client_loop: send disconnect: Broken pipe"),
        counter="Connection to gpu-3 established.",
    ),
    Remedy(
        "device-assignment",
        words=r"\bDevice assignment \((?P<wanted>\d{1,6})\) is larger than the number of devices "
        r"\((?P<there>\d{1,6})\)",
        fix="The program was made for {wanted} devices and sees {there}: start it where it sees them all, or for so "
        "many.",
        kind="argument",
        source="openxla xla/pjrt",
        sample="XlaRuntimeError: INVALID_ARGUMENT: Device assignment (2) is larger than the number of devices (1)",
        counter="XlaRuntimeError: INVALID_ARGUMENT: shape",
    ),
    Remedy(
        "damaged-record",
        words=r"\bcorrupted record at \d+|\bDATA_LOSS: |\bcould not parse ModelProto from\b",
        fix=(
            "The file that is read is damaged or of another kind than the program takes it for: compare its size and "
            "checksum with the source's and fetch it again."
        ),
        kind="data",
        blame="environment",
        source="tensorflow core/lib/io/record_reader.cc; sentencepiece src/sentencepiece_processor.cc",
        sample="tensorflow.python.framework.errors_impl.DataLossError: corrupted record at 5837201 "
        "[Op:IteratorGetNext]",
        counter="EOFError: no record",
    ),
    Remedy(
        "worker-of-a-cluster-died",
        words=(
            r"\bKilledWorker\b|\ball those workers died while running it\b",
            r"\bThe worker died unexpectedly while executing this task\b",
            r"^\(?[\"']?\(?'[\w-]{3,160}', \d+\)[\"']?, <Worker '",
        ),
        types=("KilledWorker", "WorkerCrashedError"),
        fix=(
            "The process that ran the task died, several times or without a word: its own log and the kernel's on that "
            "node tell of what (mostly memory: fewer or smaller tasks at once, a higher --memory-limit)."
        ),
        kind="dead-rank",
        restart="not decided",
        source="distributed scheduler.py (KilledWorker); Ray exceptions.py (WorkerCrashedError)",
        sample="distributed.scheduler.KilledWorker: Attempted to run task 'read-7' on 4 different workers, but all "
        "those workers died while running it.",
        counter="RuntimeError: a worker died",
    ),
    Remedy(
        "object-store",
        words=r"\bin object store because it is full\b|\bObjectStoreFullError\b|\bstore is full of objects that\b",
        fix=(
            "Ray's object store is full: give it more (ray start --object-store-memory, object_store_memory of "
            "ray.init, and /dev/shm as much), let it spill, or hold fewer objects at once (`ray memory` lists them)."
        ),
        kind="shared-memory",
        source="Ray exceptions.py (ObjectStoreFullError)",
        sample="ray.exceptions.ObjectStoreFullError: Failed to put object 00ff in object store because it is full.",
        counter="RuntimeError: the queue is full",
    ),
    Remedy(
        "not-schedulable",
        words=r"^The (?:task|actor) is not schedulable: ",
        fix=(
            "No node of the cluster can take it: ask for what nodes have (num_gpus, resources, labels), and let the "
            "affinity go where its node is gone."
        ),
        kind="scheduler",
        source="Ray exceptions.py (TaskUnschedulableError, ActorUnschedulableError)",
        sample="ray.exceptions.TaskUnschedulableError: The task is not schedulable: The node specified via "
        "NodeAffinitySchedulingStrategy doesn't exist any more",
        counter="RuntimeError: the task is not there",
    ),
    Remedy(
        "cluster-of-other-versions",
        words=r"\bVersion mismatch: The cluster was started with:",
        fix="Give every node the same Ray and the same Python as the head has; the message lists both.",
        kind="dependency-mismatch",
        source="Ray _private/utils.py (check_version_info)",
        sample="RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.9.0",
        counter="RuntimeError: Version mismatch of the file",
    ),
    Remedy(
        "program-of-a-container",
        words=r"\bexec: \\?\"(?P<file>[^\"\\\n]{1,200})\\?\": permission denied",
        lines=True,
        fix=(
            "{file} may not be executed in the container: chmod +x it before it is copied in, or give it to its "
            "interpreter (bash FILE); on a volume that is mounted noexec put it elsewhere."
        ),
        kind="permission",
        source="runc libcontainer; execve(2), EACCES",
        sample='OCI runtime create failed: exec: "/run.sh": permission denied: unknown.',
        counter='OCI runtime create failed: exec: "/run.sh": stat /run.sh: no such file or directory',
    ),
    Remedy(
        "port-of-a-container",
        words=r"\bBind for (?P<address>\S{1,60}) failed: port is already allocated",
        lines=True,
        fix="{address} is another container's already: end that one, publish another port, or use --network=host.",
        commands=(command("docker ps"),),
        kind="port",
        source="moby libnetwork portallocator",
        sample="docker: Error response from daemon: driver failed programming external connectivity on endpoint fit "
        "(5f): Bind for 0.0.0.0:29500 failed: port is already allocated.",
        counter="port 29500 is free",
    ),
    Remedy(
        "name-of-a-container",
        words=r"\bThe container name (?P<name>\"[^\"\n]{1,120}\") is already in use",
        lines=True,
        fix="A container {name} is there already: docker rm it, give another name, or start it with --rm.",
        kind="config",
        source="moby daemon/names.go",
        sample='docker: Error response from daemon: Conflict. The container name "/fit" is already in use by '
        'container "5f".',
        counter="The container name is fit",
    ),
    Remedy(
        "docker-socket",
        words=r"\bpermission denied while trying to connect to the Docker (?:daemon socket|API)",
        lines=True,
        fix="The user may not speak to docker: put it into the group docker and log in anew, or use sudo or podman.",
        commands=(command("id"),),
        kind="permission",
        source="docker cli client/errors.go",
        sample="docker: permission denied while trying to connect to the Docker daemon socket at "
        "unix:///var/run/docker.sock",
        counter="Cannot connect to the Docker daemon",
    ),
    Remedy(
        "api-forbids",
        words=r"\bError from server \(Forbidden\)|\bforbidden: User \"[^\"\n]{1,253}\" cannot\b",
        lines=True,
        fix=(
            "Kubernetes does not let this account do that: give its role the verb and resource that the message names "
            "(kubectl auth can-i), or use an account that has it."
        ),
        kind="permission",
        source="kubernetes apimachinery pkg/api/errors, apiserver authorization",
        sample='Error from server (Forbidden): pods is forbidden: User "system:serviceaccount:ml:default" '
        "cannot list "
        'resource "pods" in API group "" in the namespace "ml"',
        counter='Error from server (NotFound): pods "fit-master-0" not found',
    ),
    Remedy(
        "api-not-found",
        words=r"\bError from server \(NotFound\): (?P<what>[\w./-]{1,80} \"[^\"\n]{1,253}\") not found",
        lines=True,
        fix="There is no {what} in that namespace: correct the name or the namespace (-n), or create it first.",
        kind="file-missing",
        blame="user",
        source="kubernetes apimachinery pkg/api/errors (NewNotFound)",
        sample='Error from server (NotFound): pods "fit-master-0" not found',
        counter='Error from server (Forbidden): pods is forbidden: User "a" cannot list resource "pods"',
    ),
    Remedy(
        "api-not-reached",
        words=r"\bThe connection to the server (?P<address>\S{1,253}) was refused - did you specify the right host "
        r"or port",
        lines=True,
        fix=(
            "kubectl looks for the cluster at {address}, where none answers: give it the right configuration "
            "(KUBECONFIG, kubectl config use-context); localhost:8080 means that it has none."
        ),
        kind="config",
        blame="environment",
        source="kubectl pkg/cmd/util/helpers.go",
        sample="The connection to the server localhost:8080 was refused - did you specify the right host or port?",
        counter="The connection to the server was made",
    ),
    Remedy(
        "map-not-found",
        words=r"\b(?P<what>configmap|secret) \"(?P<name>[^\"\n]{1,253})\" not found",
        lines=True,
        fix="Create the {what} {name} in the pod's namespace, or correct its name in the manifest.",
        commands=(command("kubectl get configmaps,secrets"),),
        kind="config",
        source="kubernetes pkg/kubelet, pkg/volume",
        sample='MountVolume.SetUp failed for volume "cfg" : configmap "train-config" not found',
        counter="the configmap was found",
    ),
    Remedy(
        "gpu-runtime-missing",
        words=r"\bno runtime for \"(?P<name>[\w-]{1,40})\" is configured|\bunknown or invalid runtime name: "
        r"(?P<other>[\w-]{1,40})|\bUnknown runtime specified (?P<older>[\w-]{1,40})",
        lines=True,
        fix=(
            "The container runtime of that node does not know NVIDIA's: install nvidia-container-toolkit there and "
            "enter it (nvidia-ctk runtime configure), then restart the runtime."
        ),
        commands=(command("nvidia-ctk --version"),),
        kind="driver",
        restart="after a fix",
        source="containerd pkg/cri; moby daemon/runtime_unix.go",
        sample='failed to get sandbox runtime: no runtime for "nvidia" is configured',
        counter="the runtime is configured",
    ),
)
