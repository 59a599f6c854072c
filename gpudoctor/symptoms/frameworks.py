"""What Lightning, accelerate, DeepSpeed, Horovod and Ray say."""

from gpudoctor.symptom import HINT, LIKELY, POSSIBLE, PROVED, Symptom

HOROVOD = "horovod/common"

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "lightning-member",
        pattern=r"GLOBAL_RANK: (?P<rank>\d+), MEMBER: (?P<member>\d+)/(?P<world_size>\d+)",
        role="context",
        seen="Lightning's rank {rank} of {world_size} is about to join the others",
        source="Lightning fabric/utilities/distributed.py",
        sample="[rank: 2] Initializing distributed: GLOBAL_RANK: 2, MEMBER: 3/16",
        counter="GLOBAL_RANK: 2",
    ),
    Symptom(
        "lightning-registered",
        pattern=r"All distributed processes registered\. Starting with (?P<world_size>\d+) processes",
        role="context",
        seen="all {world_size} processes of Lightning have joined",
        source="Lightning fabric/utilities/distributed.py",
        sample="All distributed processes registered. Starting with 16 processes",
        counter="distributed_backend=nccl",
    ),
    Symptom(
        "lightning-srun-not-used",
        needle="`srun` command is available on your system but is not used",
        cause="launcher-world-mismatch",
        variant="srun",
        role="context",
        confidence=POSSIBLE,
        seen="Lightning runs in a SLURM job and was not started by srun",
        source="Lightning plugins/environments/slurm.py",
        sample="PossibleUserWarning: The `srun` command is available on your system but is not used. HINT: If your "
        "intention is to run Lightning on SLURM, prepend your python command with `srun` like so: srun python fit.py",
        counter="The `srun` command is used",
    ),
    Symptom(
        "lightning-slurm-mismatch",
        pattern=(
            r"You set `(?P<name>devices|num_nodes)=(?P<value>\d+)` in Lightning, but the number of (?:tasks per "
            r"node|nodes) configured in SLURM `(?P<option>--[\w-]+)=(?P<wanted>\d+)` does not match",
            r"You set `(?P<name>--ntasks)=(?P<value>\d+)` in your SLURM bash script, but this variable is not "
            r"supported",
        ),
        cause="launcher-world-mismatch",
        variant="lightning",
        confidence=PROVED,
        seen="the Trainer and the SLURM script do not agree: {name} is {value}",
        source="Lightning plugins/environments/slurm.py",
        sample=(
            "ValueError: You set `devices=4` in Lightning, but the number of tasks per node configured in SLURM "
            "`--ntasks-per-node=1` does not match. HINT: Set `devices=1`.",
            "RuntimeError: You set `--ntasks=8` in your SLURM bash script, but this variable is not supported. HINT: "
            "Use `--ntasks-per-node=8` instead.",
        ),
        counter="You set `devices=4` in Lightning",
    ),
    Symptom(
        "accelerate-no-master",
        needle="Tried to launch on distributed with multinode, but `MASTER_ADDR` env was not set",
        cause="launcher-world-mismatch",
        variant="accelerate",
        seen="accelerate was started for several nodes without the address of the head",
        source="accelerate state.py",
        sample="ValueError: Tried to launch on distributed with multinode, but `MASTER_ADDR` env was not set, please "
        "try exporting rank 0's hostname as `MASTER_ADDR`",
        counter="MASTER_ADDR=gpu-a03",
    ),
    Symptom(
        "rank-told",
        needle=("orld size", "orld_size", "WORLD_SIZE"),
        pattern=r"\b(?:[Pp]rocess |[Gg]lobal |[Gg]lobal_)?(?:[Rr]ank|RANK)[=: ]{1,3}(?P<rank>\d{1,6})\b[^\n]{0,60}?"
        r"\b(?:[Ww]orld[ _][Ss]ize|WORLD_SIZE)[=: ]{1,3}(?P<size>\d{1,6})\b",
        role="context",
        seen="a process calls itself rank {rank} of {size}",
        source="transformers training_args.py, DeepSpeed comm.py, many scripts",
        sample=(
            "[INFO] Process rank: 5, world size: 16, device: cuda:5, distributed training: True",
            "RANK=5 LOCAL_RANK=5 WORLD_SIZE=16",
        ),
        counter="the world size is 16",
    ),
    Symptom(
        "deepspeed-ends",
        pattern=(
            r"exits with return code = (?!-9\b|-11\b|-7\b|137\b|139\b)(?P<exitcode>-?\d+)",
            r"sigkill_handler\] Killing subprocess (?P<pid>\d+)",
        ),
        role="consequence",
        confidence=HINT,
        seen="DeepSpeed's launcher ends the processes of this node: one has ended, or it was told to end",
        source="DeepSpeed launcher/launch.py",
        sample=(
            "[2025-08-19 11:40:02,170] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 6178",
            "['/opt/venv/bin/python', '-u', 'fit.py'] exits with return code = 1",
        ),
        counter="['/opt/venv/bin/python', '-u', 'fit.py'] exits with return code = -9",
    ),
    Symptom(
        "horovod-stall",
        pattern=r"broadcasted by ?subset of ranks and are waiting for remainder of ranks for more than "
        r"(?P<seconds>\d+) seconds",
        cause="rank0-only-collective",
        variant="absent",
        role="consequence",
        seen="Horovod has waited more than {seconds} s for ranks that did not submit a tensor; the lines below name "
        "them",
        source=HOROVOD + "/stall_inspector.cc",
        sample="[2025-08-19 11:40:02.345: W horovod/common/stall_inspector.cc:107] One or more tensors were submitted "
        "to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more "
        "than 60 seconds.",
        counter="all tensors were submitted to be reduced",
    ),
    Symptom(
        "horovod-stalled-rank",
        needle=("llreduce", "llgather", "roadcast"),
        pattern=r"^(?:[^\n]{0,80}\]: ?)?(?P<rank>\d{1,5}): \[(?P<tensor>[\w./:-]{0,200}(?i:allreduce|allgather|"
        r"broadcast)[\w./:-]{0,200})[\],]",
        role="context",
        seen="rank {rank} did not submit {tensor}",
        source=HOROVOD + "/stall_inspector.cc",
        sample="3: [DistributedAdam_Allreduce/HorovodAllreduce_grads_12, "
        "DistributedAdam_Allreduce/HorovodAllreduce_grads_13]",
        counter="rank 3: allreduce took 12 ms",
    ),
    Symptom(
        "horovod-shapes-differ",
        needle=("Mismatched ", "mismatched "),
        pattern=r"[Mm]ismatched (?P<operation>[A-Za-z]{3,20}) (?:tensor|output) shapes: One (?:or more )?rank",
        cause="shape-mismatch",
        seen="Horovod: the ranks gave tensors of different shapes to {operation}",
        source=HOROVOD + "/controller.cc",
        sample="horovod.common.exceptions.HorovodInternalError: Mismatched allreduce tensor shapes: One rank sent a "
        "tensor of shape [17], but another rank sent a tensor of shape [19].",
        counter="Mismatched quotes in the config",
    ),
    Symptom(
        "horovod-types-differ",
        needle="Mismatched data types: One ",
        cause="shape-mismatch",
        seen="Horovod: the ranks gave tensors of different types to one operation",
        source=HOROVOD + "/controller.cc",
        sample="Mismatched data types: One rank had type float32, but another rank had type float16.",
        counter="data types: float32",
    ),
    Symptom(
        "horovod-operations-differ",
        needle=("Mismatched MPI operations: One ", "Mismatched collective operations: One "),
        pattern=r"Mismatched (?:MPI"
        r"|collective) operations: One rank did an? (?P<operation>\w+), but another rank did "
        r"an? (?P<other_operation>\w+)",
        cause="collective-order-mismatch",
        seen="Horovod: one rank does {operation} where another does {other_operation}",
        source=HOROVOD + "/controller.cc",
        sample="Mismatched MPI operations: One rank did an allreduce, but another rank did an allgather.",
        counter="MPI operations: allreduce",
    ),
    Symptom(
        "horovod-shut-down",
        needle="Horovod has been shut down",
        role="consequence",
        confidence=HINT,
        seen="Horovod ended this rank, because another one had ended",
        source=HOROVOD + "/common.h",
        sample="Horovod has been shut down. This was caused by an exception on one of the ranks or an attempt to "
        "allreduce, allgather or broadcast a tensor after one of the ranks finished execution.",
        counter="Horovod has been initialized",
    ),
    Symptom(
        "ray-node-memory",
        pattern=r"(?:due to the node running low on memory|Memory on the node \(IP: (?P<host>[^,)]{1,60}))",
        cause="host-out-of-memory",
        variant="ray",
        seen="Ray killed a worker because its node ran out of memory",
        source="Ray's memory monitor",
        sample="ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        counter="Memory usage on this node: 12.1/64.0 GiB",
    ),
    Symptom(
        "bitsandbytes-no-binary",
        pattern=r"Could not find the bitsandbytes CUDA binary "
        r"at [^\n]{0,300}?libbitsandbytes_cuda(?P<version>\d{2,4})",
        cause="version-mismatch",
        variant="bitsandbytes",
        confidence=LIKELY,
        seen="bitsandbytes has no library for CUDA {version}",
        source="bitsandbytes cextension.py (get_native_library)",
        sample="Could not find the bitsandbytes CUDA binary at PosixPath('/e/bitsandbytes/libbitsandbytes_cuda126.so')",
        counter="Loading bitsandbytes native library from: /e/bitsandbytes/libbitsandbytes_cuda126.so",
    ),
    Symptom(
        "ray-node-dead",
        pattern=r"\bnode with node id: \w{1,80} and address: (?P<host>[\w.:-]{1,253})[^\n]{0,300}\bhas been "
        r"marked dead\b",
        cause="node-lost",
        confidence=LIKELY,
        seen="Ray no longer heard from the node {host}",
        source="Ray src/ray/gcs/gcs_server (health checks), python/ray/_private/worker.py",
        sample="WARNING worker.py:1829 -- The node with node id: a5f8 and address: 10.1.2.3 and node name: 10.1.2.3 "
        "has been marked dead because the detector has missed too many heartbeats from it.",
        counter="The node with node id: a5f8 and address: 10.1.2.3 is alive",
    ),
    Symptom(
        "ray-worker-died",
        pattern=(
            r"died or was killed while executing a task by an unexpected system error"
            r"(?:[^\n]{1,400}? Worker IP address: (?P<host>[\w.:]{2,60})[^\n]{1,60}? Worker PID: (?P<pid>\d{1,8})\b)?",
            "The actor died unexpectedly before finishing this task",
            "The actor is dead because its worker process has died",
        ),
        cause="rank-died",
        variant="ray",
        confidence=LIKELY,
        seen=("a worker process of Ray (pid {pid} on {host}) died", "a worker process of Ray died"),
        source="Ray's exceptions.py",
        sample=(
            "A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the "
            "problem, check the logs for the dead worker.",
            "(raylet) A worker died or was killed while executing a task by an unexpected system error. To trouble"
            "shoot the problem, check the logs for the dead worker. Lease ID: 08 Worker ID: 23fd Node ID: a041 Worker "
            "IP address: 10.4.0.2 Worker port: 10771 Worker PID: 20149 Worker exit type: SYSTEM_ERROR",
            "The actor died unexpectedly before finishing this task.",
            "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR",
        ),
        counter="The actor is alive",
    ),
    Symptom(
        "ray-train-gave-up",
        pattern=r"\bDistributedContext\(world_rank=(?P<rank>\d{1,6}), world_size=(?P<world_size>\d{1,6}), ",
        cause="rank-died",
        variant="ray",
        confidence=LIKELY,
        seen="Ray Train gave up rank {rank}: its worker had ended, or did not answer",
        source="ray.train v2 worker_group.py (Worker info), of a health check that failed or hung",
        sample="  distributed_context=DistributedContext(world_rank=3, world_size=4, local_rank=0, local_world_size=1, "
        "node_rank=1),",
        counter="- (ip=10.4.0.2, pid=4438) world_rank=3, local_rank=0, node_rank=1",
    ),
    Symptom(
        "library-lacks-function",
        pattern=r"AttributeError: (?P<library>[\w./+-]{1,300}\.so[\w.]{0,20}): undefined symbol: (?P<symbol>\w{1,400})",
        cause="version-mismatch",
        variant="lacks",
        seen="{library} has no {symbol}, which the Python code that loaded it calls",
        source="Python's Lib/ctypes/__init__.py (CDLL.__getitem__), dlsym(3)",
        sample="AttributeError: /opt/venv/lib/python3.11/site-packages/x/libx_cpu.so: undefined symbol: xquantize_nf4",
        counter="ImportError: /opt/venv/lib/python3.11/site-packages/x/libx.so: undefined symbol: xquantize_nf4",
    ),
)
