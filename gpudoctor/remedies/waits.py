"""What a job's other programs say of what was not there in time: Ray's cluster, locks, pools, sockets, ssh."""

from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "workers-not-started",
        words=r"\bgroup startup timed out after (?P<time>[\d.]{1,12}) seconds waiting for (?P<count>\d{1,9}) worker",
        fix=(
            "The cluster did not start {count} workers in {time} s: `ray status` shows what its nodes have, what is "
            "taken, and which requests are pending. Ask for no more than that (num_workers, resources_per_worker, "
            "use_gpu), or start the nodes first; only where an autoscaler is still bringing them, raise "
            "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S."
        ),
        kind="scheduler",
        source="ray 2.60 train/v2/_internal/exceptions.py (WorkerGroupStartupTimeoutError)",
        sample="ray.train.v2._internal.exceptions.WorkerGroupStartupTimeoutError: The worker group startup timed out "
        "after 30.0 seconds waiting for 2 workers. Potential causes include: (1) temporary insufficient cluster",
        counter="RuntimeError: The worker group startup failed",
    ),
    Remedy(
        "cluster-too-small",
        words=(
            r'\bworker group requires \{"(?P<resource>[^"\n]{1,60})": (?P<wanted>[\d.e+]{1,20})\} but the cluster only '
            r'has a maximum of \{"[^"\n]{1,60}": (?P<has>[\d.e+]{1,20})\}'
        ),
        fix=(
            "All workers together ask for {wanted} of {resource}, and what nodes have comes to {has} at most: lower "
            "num_workers or resources_per_worker, or let the cluster have more nodes (`ray status`)."
        ),
        kind="scheduler",
        source="ray 2.60 train/v2 worker_group.py (InsufficientClusterResourcesError)",
        sample="ray.train.ControllerError: Training failed due to controller error:\nInsufficient cluster resources to "
        'launch training workers.\nThe worker group requires {"GPU": 4.0} but the cluster only has a maximum of '
        '{"GPU": 0} resources.',
        counter='RuntimeError: The worker group requires {"GPU": 4.0}',
    ),
    Remedy(
        "object-not-ready",
        words=r"^Get timed out: some object\(s\) not ready",
        fix=(
            "What ray.get waited for was not ready within its timeout; whether the task runs slowly, waits for "
            "resources or has died is not in these words: `ray list tasks` and `ray status` tell which, and the log of "
            "the worker tells why."
        ),
        kind="exception",
        restart="not decided",
        source="ray 2.60 exceptions.py (GetTimeoutError), _raylet.pyx",
        sample="ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.",
        counter="TimeoutError: Get timed out",
    ),
    Remedy(
        "ranks-do-not-report",
        words=r"\bThe following ranks have not joined the collective operation: (?P<ranks>\[[\d, ]{1,400}\])",
        fix=(
            "The ranks {ranks} did not come to ray.train.report in time, and the others waited there: each rank must "
            "report equally often (none only `if rank == 0`, none skipped by a shorter shard of data). Where they are "
            "only slow, raise RAY_TRAIN_COLLECTIVE_TIMEOUT_S."
        ),
        kind="slow-rank",
        restart="not decided",
        source="ray 2.60 train/v2/_internal/exceptions.py (BroadcastCollectiveTimeoutError)",
        sample="ray.train.v2._internal.exceptions.BroadcastCollectiveTimeoutError: The collective operation timed out "
        "after 60.00 seconds. The following ranks have not joined the collective operation: [1, 3]",
        counter="RuntimeError: The collective operation timed out after 60.00 seconds",
    ),
    Remedy(
        "training-preempted",
        words=r"\bTraining was interrupted by node preemption \(preempted_ranks=(?P<ranks>\[[\d, ]{0,400}\])",
        fix=(
            "The nodes of the ranks {ranks} were reclaimed: start again from the last checkpoint "
            "(FailureConfig(max_preemption_failures=-1) lets Ray Train do so), on nodes that are not reclaimed where "
            "that comes too often."
        ),
        kind="preempted",
        restart="as it is",
        source="ray 2.60 train/v2/api/exceptions.py (PreemptionError)",
        sample="ray.train.PreemptionError: Training was interrupted by node preemption (preempted_ranks=[0, 1], "
        "drain_timed_out=False).",
        counter="RuntimeError: Training was interrupted",
    ),
    Remedy(
        "node-of-task-gone",
        words=r"\bTask failed because the node it was running on is dead or unavailable\b"
        r"(?:\. Node IP: (?P<node>[\w.:-]{1,60}))?",
        fix=(
            "Ray lost the node on which the task ran: look there whether the machine is up, was reclaimed, or its "
            "raylet was killed (dmesg, /tmp/ray/session_latest/logs/raylet.out); start again without it."
        ),
        kind="node-lost",
        restart="elsewhere",
        source="ray 2.60 exceptions.py (NodeDiedError)",
        sample="ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead or unavailable. "
        "Node IP: 10.0.0.8, node ID: 00aa.",
        counter="RuntimeError: the node is busy",
    ),
    Remedy(
        "no-valid-worker",
        words=r"^Attempted to run task .{1,200} but timed out after (?P<time>[\d.]{1,12}) seconds waiting for a valid "
        r"worker",
        fix=(
            "No worker of the cluster has what the task is restricted to (the restrictions stand below): start workers "
            "with it (dask worker --resources, --name), or take the restriction away."
        ),
        kind="scheduler",
        source="distributed 2026.8 scheduler.py (NoValidWorkerError)",
        sample="distributed.scheduler.NoValidWorkerError: Attempted to run task 'sum-1' but timed out after 60.0 "
        "seconds waiting for a valid worker matching all restrictions.",
        counter="RuntimeError: Attempted to run task 'sum-1'",
    ),
    Remedy(
        "lock-is-held",
        words=r"^The file lock '(?P<lock>[^'\n]{1,400})' could not be acquired",
        fix=(
            "Another process holds the lock {lock} (fuser or lsof on its node names it): let it end, or end it where "
            "it hangs. Where nobody holds it, it lies on a file system whose locks do not work or survive their "
            "owner: put it on a local disk, and remove it only then."
        ),
        kind="deadlock",
        restart="not decided",
        source="filelock _error.py (Timeout)",
        sample="filelock._error.Timeout: The file lock '/home/a/.cache/x.lock' could not be acquired.",
        counter="RuntimeError: the lock could not be acquired",
    ),
    Remedy(
        "connections-all-taken",
        words=r"\bQueuePool limit of size (?P<size>\d{1,6}) overflow (?P<more>-?\d{1,6}) reached\b",
        fix=(
            "All of SQLAlchemy's {size} + {more} connections are taken: close sessions when they are done with, use "
            "fewer threads, or raise pool_size and max_overflow in create_engine (engine_kwargs of Optuna's storage)."
        ),
        kind="limits",
        source="sqlalchemy 2.0 pool/impl.py (QueuePool)",
        sample="sqlalchemy.exc.TimeoutError: QueuePool limit of size 2 overflow 3 reached, connection timed out, "
        "timeout 30.00",
        counter="TimeoutError: connection timed out",
    ),
    Remedy(
        "no-message-in-time",
        types=("Again",),
        words=r"Resource temporarily unavailable",
        fix=(
            "No message came over ZeroMQ within the socket's time (RCVTIMEO, or NOBLOCK): the peer is late, has died, "
            "or listens elsewhere. Its own log tells which."
        ),
        kind="exception",
        restart="not decided",
        source="pyzmq zmq/error.py (Again: EAGAIN)",
        sample="zmq.error.Again: Resource temporarily unavailable",
        counter="OSError: [Errno 11] Resource temporarily unavailable",
    ),
    Remedy(
        "no-ssh-there",
        words=r"\bUnable to connect to port (?P<port>\d{1,6}) on (?P<host>[\w.:, -]{1,200}\w)",
        fix=(
            "Nothing takes connections at port {port} of {host}: look there whether sshd runs and listens "
            "(ss -ltn), whether it is the right address and port, and whether a firewall drops them."
        ),
        kind="route",
        blame="environment",
        restart="not decided",
        source="paramiko ssh_exception.py (NoValidConnectionsError)",
        sample="paramiko.ssh_exception.NoValidConnectionsError: [Errno None] Unable to connect to port 22 on 10.0.0.8",
        counter="RuntimeError: Unable to connect to the port",
    ),
    Remedy(
        "ssh-key-refused",
        types=("AuthenticationException", "BadAuthenticationType"),
        words=r"^Authentication failed\.?$|^Bad authentication type\b",
        fix=(
            "The host takes none of the keys that are offered: look at the user's name, at the key (ssh -v HOST), and "
            "whether it stands in the host's ~/.ssh/authorized_keys."
        ),
        kind="permission",
        source="paramiko ssh_exception.py, auth_handler.py",
        sample="paramiko.ssh_exception.AuthenticationException: Authentication failed.",
        counter="RuntimeError: Authentication failed.",
    ),
    Remedy(
        "job-out-of-time",
        words=r"\bhas not produced any output \(state: TIMEOUT\)",
        fix="SLURM's time limit ended the job: ask for more (timeout_min), or checkpoint and requeue before it.",
        kind="time-limit",
        source="submitit 1.5.4 core/core.py (UncompletedJobError)",
        sample="submitit.core.utils.UncompletedJobError: Job 7 (task: 0) with path /logs/7_0_result.pkl\nhas not "
        "produced any output (state: TIMEOUT)",
        counter="RuntimeError: has not produced any output (state: COMPLETED)",
    ),
    Remedy(
        "job-lost-its-node",
        words=r"\bhas not produced any output \(state: (?:NODE_FAIL|BOOT_FAIL)\)",
        fix="The job's node failed: start it again, without that node (slurm_exclude).",
        kind="node-lost",
        restart="elsewhere",
        source="submitit 1.5.4 core/core.py; SLURM's job states",
        sample="submitit.core.utils.UncompletedJobError: Job 7 (task: 0) with path /logs/7_0_result.pkl\nhas not "
        "produced any output (state: NODE_FAIL)",
        counter="RuntimeError: has not produced any output (state: COMPLETED)",
    ),
    Remedy(
        "job-was-preempted",
        words=r"\bhas not produced any output \(state: PREEMPTED\)",
        fix="The job was taken away for another: start it again from its last checkpoint.",
        kind="preempted",
        restart="as it is",
        source="submitit 1.5.4 core/core.py; SLURM's job states",
        sample="submitit.core.utils.UncompletedJobError: Job 7 (task: 0) with path /logs/7_0_result.pkl\nhas not "
        "produced any output (state: PREEMPTED)",
        counter="RuntimeError: has not produced any output (state: COMPLETED)",
    ),
    Remedy(
        "job-out-of-memory",
        words=r"\bhas not produced any output \(state: OUT_OF_ME",
        fix="The job's memory limit ended it: ask for more (mem_gb), or hold less.",
        kind="host-memory",
        source="submitit 1.5.4 core/core.py; SLURM's job states",
        sample="submitit.core.utils.UncompletedJobError: Job 7 (task: 0) with path /logs/7_0_result.pkl\nhas not "
        "produced any output (state: OUT_OF_MEMORY)",
        counter="RuntimeError: has not produced any output (state: COMPLETED)",
    ),
    Remedy(
        "worker-of-ray-gone",
        words=r"\bA worker health check failed\.\s[^\0]{0,1500}?\bThe actor died unexpectedly before finishing",
        fix=(
            "The process of that worker was ended from outside or took its node with it: the kernel's log there "
            "(dmesg) says whether memory was what it lacked, raylet.out and the worker's own log in "
            "/tmp/ray/session_latest/logs what came last."
        ),
        kind="dead-rank",
        restart="not decided",
        source="ray 2.60 train/v2 worker_group.py (WorkerHealthCheckFailedError), exceptions.py (ActorDiedError)",
        sample="ray.train.WorkerGroupError: Training failed due to worker errors:\nA worker health check failed.\n"
        "Worker info: Worker(pid=1)\nThe actor died unexpectedly before finishing this task.",
        counter="RuntimeError: A worker health check failed.",
    ),
    Remedy(
        "worker-of-pool-gone",
        types=("TerminatedWorkerError",),
        words=r"\bworker process managed by the executor was unexpectedly terminated",
        fix=(
            "A worker of joblib's pool was ended from outside: by SIGKILL it is mostly the memory of the machine or "
            "cgroup (fewer n_jobs, smaller pieces), by SIGSEGV an extension that crashes (n_jobs=1 and "
            "python -X faulthandler show where). Its exit code stands below."
        ),
        kind="dead-rank",
        restart="not decided",
        source="joblib externals/loky/process_executor.py (TerminatedWorkerError)",
        sample="joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor "
        "was unexpectedly terminated.",
        counter="RuntimeError: a worker was terminated",
    ),
    Remedy(
        "map-of-lmdb-full",
        words=r"\bMDB_MAP_FULL\b",
        fix="The LMDB file has reached its map_size: open it with a larger one (lmdb.open(..., map_size=2**40)).",
        kind="config",
        source="LMDB lmdb.h (MDB_MAP_FULL); py-lmdb",
        sample="lmdb.MapFullError: mdb_put: MDB_MAP_FULL: Environment mapsize limit reached",
        counter="lmdb.Error: mdb_txn_begin: MDB_READERS_FULL",
    ),
    Remedy(
        "no-mongo-there",
        types=("ServerSelectionTimeoutError",),
        words=r"^(?P<server>[\w.-]{1,200}:\d{1,6}): ",
        fix=(
            "No MongoDB answered at {server}: look from this node whether it listens there, and whether the address of "
            "the connection string is one that this node reaches."
        ),
        kind="route",
        blame="environment",
        restart="not decided",
        source="pymongo errors.py, topology.py (ServerSelectionTimeoutError)",
        sample="pymongo.errors.ServerSelectionTimeoutError: db.example.org:27017: timed out, Timeout: 30s",
        counter="RuntimeError: db.example.org:27017: timed out",
    ),
)
