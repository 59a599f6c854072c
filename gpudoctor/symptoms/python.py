"""Errors of Python, of its libraries and of CUDA that end a rank, and DataLoader workers.

Exceptions of the user's own are read from their traceback (`explain.tracebacks`); here stand those that say more.
"""

from gpudoctor.command import command
from gpudoctor.symptom import Symptom

CHECKPOINT = r"(?i:checkpoint|ckpt|[\w-]*\.tmp|tmp-|global_step|safetensors|optimizer|\.pth?\b|best_model|last_model)"
MEMORY = "Give the job or the container more memory, or start fewer DataLoader workers with smaller batches."

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "gpu-memory-exhausted",
        needle=("out of memory. Tried to allocate", "CUDA error: out of memory", "HIP error: out of memory"),
        pattern=r"(?:CUDA|HIP|XPU|NPU) (?:error: )?out of memory(?:\. Tried to allocate (?P<size>[\d.]+ \w{1,5}))?",
        cause="rank-died",
        confidence=0.9,
        seen="a rank ran out of GPU memory",
        fix="Take smaller batches or shorter sequences, or shard the model; where only one rank fails, look at what it "
        "holds besides (data of rank 0, another process on its GPU).",
        commands=(command("nvidia-smi"),),
        source="torch CUDACachingAllocator.cpp",
        sample=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 2 has a total capacity of "
            "79.11 GiB "
            "of which 1.02 GiB is free.",
            "RuntimeError: CUDA error: out of memory",
        ),
        counter="CUDA memory allocated: 3.91 GiB",
    ),
    Symptom(
        "host-memory-exhausted",
        needle=(
            "DefaultCPUAllocator: can't allocate memory",
            "DefaultCPUAllocator: not enough memory",
            "[Errno 12] Cannot allocate memory",
            "ArrayMemoryError: ",
            "std::bad_alloc",
        ),
        cause="rank-died",
        confidence=0.9,
        seen="a rank ran out of host memory",
        fix=MEMORY,
        commands=(command("free -h"),),
        source="torch c10/core/impl/alloc_cpu.cpp, numpy, Python",
        sample=(
            "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
            "you "
            "tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)",
            "OSError: [Errno 12] Cannot allocate memory",
        ),
        counter="Call to ibv_reg_mr failed with error Cannot allocate memory",
    ),
    Symptom(
        "shared-memory-of-workers-full",
        needle=(
            "is killed by signal: Bus error",
            "bus error encountered in worker",
            "unable to write to file </torch_",
            "out of shared memory. Please try to raise",
        ),
        cause="shm-too-small",
        confidence=0.9,
        seen="a DataLoader worker found /dev/shm full",
        source="torch DataLoader.cpp, MapAllocator.cpp",
        sample=(
            "RuntimeError: DataLoader worker (pid 7741) is killed by signal: Bus error. It is possible that "
            "dataloader's "
            "workers are out of shared memory. Please try to raise your shared memory limit.",
            "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory "
            "(shm).",
            "RuntimeError: unable to write to file </torch_7741_2213_0>: No space left on device (28)",
        ),
        counter="RuntimeError: DataLoader worker (pid 7741) is killed by signal: Killed. ",
    ),
    Symptom(
        "worker-out-of-memory",
        needle="is killed by signal: Killed",
        pattern=r"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: Killed",
        cause="rank-died",
        confidence=0.85,
        seen="a DataLoader worker (pid {pid}) was killed by SIGKILL, mostly by the kernel's OOM killer",
        fix=MEMORY,
        commands=(command("sudo dmesg --ctime | grep -iE 'out of memory|oom-kill'"),),
        source="torch DataLoader.cpp",
        sample="RuntimeError: DataLoader worker (pid 7741) is killed by signal: Killed. ",
        counter="RuntimeError: DataLoader worker (pid 7741) is killed by signal: Segmentation fault. ",
    ),
    Symptom(
        "worker-crashed",
        needle="DataLoader worker (pid",
        pattern=(
            r"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: "
            r"(?:Segmentation fault|Aborted|Illegal instruction|Floating point exception)",
            r"DataLoader worker \(pid\(?s?\)? (?P<pid>\d+)[\d, ]{0,200}\) exited unexpectedly",
        ),
        cause="rank-died",
        confidence=0.7,
        seen="a DataLoader worker (pid {pid}) crashed",
        fix="Start with num_workers=0 to see the error itself; look at dmesg for the kernel's OOM killer.",
        source="torch DataLoader.cpp, dataloader.py",
        sample=(
            "RuntimeError: DataLoader worker (pid 7741) is killed by signal: Segmentation fault. ",
            "RuntimeError: DataLoader worker (pid(s) 7741, 7742) exited unexpectedly",
        ),
        counter="DataLoader worker (pid 7741) started",
    ),
    Symptom(
        "worker-raised",
        needle=" in DataLoader worker process ",
        pattern=r"Caught (?P<exception>[\w.]{1,120}) in DataLoader worker process (?P<worker>\d+)",
        cause="rank-died",
        confidence=0.8,
        seen="a DataLoader worker raised {exception}",
        fix="Repair what its traceback shows, mostly one sample of the data set.",
        source="torch _utils.py (ExceptionWrapper)",
        sample="KeyError: Caught KeyError in DataLoader worker process 3.",
        counter="starting DataLoader worker process 3",
    ),
    Symptom(
        "worker-timeout",
        needle="DataLoader timed out after",
        pattern=r"DataLoader timed out after (?P<seconds>[\d.]+) seconds",
        cause="dataloader-fork-deadlock",
        confidence=0.45,
        seen="DataLoader workers gave no batch within {seconds} s",
        fix="Look at the stacks of the workers: a lock (then start them by spawn or forkserver), or storage that "
        "does not "
        "answer.",
        source="torch dataloader.py",
        sample="RuntimeError: DataLoader timed out after 180 seconds",
        counter="DataLoader(timeout=180)",
    ),
    Symptom(
        "forked-with-threads",
        needle=(
            "is multi-threaded, use of fork() may lead to deadlocks",
            "The current process just got forked, after parallelism has already been used",
            "os.fork() is incompatible with multithreaded code",
        ),
        cause="dataloader-fork-deadlock",
        role="context",
        confidence=0.3,
        seen="a process that has threads was forked, which can leave a lock held in the child",
        source="Python 3.12 os.fork, huggingface tokenizers, JAX",
        sample=(
            "DeprecationWarning: This process (pid=6177) is multi-threaded, use of fork() may lead to deadlocks in "
            "the child.",
            "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. "
            "Disabling "
            "parallelism to avoid deadlocks...",
        ),
        counter="This process (pid=6177) was forked",
    ),
    Symptom(
        "cuda-after-fork",
        needle="Cannot re-initialize CUDA in forked subprocess",
        cause="rank-died",
        confidence=0.85,
        seen="a forked child used CUDA, which its parent had initialised",
        fix="Start the processes by spawn (multiprocessing_context='spawn' for a DataLoader), and keep CUDA out of "
        "the data "
        "set.",
        source="torch cuda/__init__.py",
        sample="RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
        "must use the "
        "'spawn' start method",
        counter="CUDA initialized in subprocess",
    ),
    Symptom(
        "not-picklable",
        needle=("Can't pickle", "Can't get local object", "cannot pickle '"),
        pattern=r"(?:Can't pickle (?P<object>[^\n]{1,120})|Can't get local object (?P<local>'[^'\n]{1,120}')|cannot "
        r"pickle '(?P<type>[^'\n]{1,80})')",
        cause="rank-died",
        confidence=0.85,
        seen="something that is handed to a started process cannot be pickled",
        fix="Give spawned processes and workers functions and classes of a module, not lambdas, local functions or "
        "open "
        "files.",
        source="Python's pickle documentation",
        sample=(
            "AttributeError: Can't pickle local object 'build.<locals>.<lambda>'",
            "_pickle.PicklingError: Can't pickle <function <lambda> at 0x7f1>: attribute lookup <lambda> on __main__ "
            "failed",
            "TypeError: cannot pickle '_thread.lock' object",
        ),
        counter="pickle protocol 5",
    ),
    Symptom(
        "no-main-guard",
        needle="start a new process before the",
        pattern=r"attempt has been made to start a new process before the",
        cause="rank-died",
        confidence=0.9,
        seen="the script starts processes while it is imported by one of them",
        fix="Put what the script does below: if __name__ == '__main__'.",
        source="Python multiprocessing/spawn.py",
        sample="        An attempt has been made to start a new process before the",
        counter="starting a new process",
    ),
    Symptom(
        "rename-race",
        needle=(
            "[Errno 2] No such file or directory: ",
            "[Errno 17] File exists: ",
            "[Errno 39] Directory not empty: ",
        ),
        pattern=r"\[Errno (?:2|17|39)\] (?:No such file or directory|File exists|Directory not empty): "
        r"b?'(?P<file>[^'\n]{1,1000})' -> b?'(?P<target>[^'\n]{1,1000})'",
        cause="checkpoint-race",
        confidence=0.75,
        seen="{file} could not be renamed: another process had moved, created or deleted it",
        source="Python's os.rename, os.replace",
        sample="FileNotFoundError: [Errno 2] No such file or directory: '/mnt/run7/tmp-checkpoint-900' -> "
        "'/mnt/run7/checkpoint-900'",
        counter="FileNotFoundError: [Errno 2] No such file or directory: '/data/train/0001.tar'",
    ),
    Symptom(
        "checkpoint-file-race",
        needle=(
            "[Errno 2] No such file or directory: ",
            "[Errno 39] Directory not empty: ",
            "[Errno 116] Stale file handle",
        ),
        pattern=(
            r"\[Errno (?:2|39)\] (?:No such file or directory|Directory not empty): b?'(?P<file>[^'\n]{0,900}"
            + CHECKPOINT
            + r"[^'\n]{0,300})'(?! ->)",
            r"\[Errno 116\] Stale file handle(?:: b?'(?P<file>[^'\n]{1,1000})')?",
        ),
        cause="checkpoint-race",
        confidence=0.55,
        seen="a file of a checkpoint was gone when a rank wanted it",
        fix="Where another rank writes or deletes it: do that on one rank, and let the others wait in a barrier. "
        "Where it was "
        "never there: correct the path.",
        source="Python's os functions on shared file systems",
        sample=(
            "FileNotFoundError: [Errno 2] No such file or directory: '/mnt/run7/checkpoint-900/rng_state_3.pth'",
            "OSError: [Errno 39] Directory not empty: 'checkpoint-800'",
        ),
        counter="FileNotFoundError: [Errno 2] No such file or directory: '/data/train/0001.tar'",
    ),
    Symptom(
        "folder-race",
        needle="[Errno 17] File exists: ",
        pattern=r"\[Errno 17\] File exists: b?'(?P<file>[^'\n]{1,1000})'(?! ->)",
        cause="checkpoint-race",
        confidence=0.7,
        seen="{file} was made by another rank in the same moment",
        fix="Use os.makedirs(path, exist_ok=True), or make the folder on one rank before a barrier.",
        source="Python's os.mkdir",
        sample="FileExistsError: [Errno 17] File exists: '/mnt/run7/logs'",
        counter="FileExistsError: [Errno 17] File exists: 'a.tmp' -> 'a'",
    ),
    Symptom(
        "disk-full",
        needle=(
            "[Errno 28] No space left on device",
            "[Errno 122] Disk quota exceeded",
            "PytorchStreamWriter failed writing file",
        ),
        cause="rank-died",
        confidence=0.8,
        seen="a rank could not write: the disk or its quota is full",
        fix="Make room, or write elsewhere; the message before names the path.",
        commands=(command("df -h"), command("df -i")),
        source="Python's OSError; torch caffe2/serialize/inline_container.cc",
        sample=(
            "OSError: [Errno 28] No space left on device",
            "RuntimeError: PytorchStreamWriter failed writing file data/117: file write failed",
        ),
        counter="Error: failed to extend /dev/shm/nccl-a to 1 bytes, error: No space left on device (28)",
    ),
    Symptom(
        "gpu-ecc",
        needle=(
            "uncorrectable ECC error encountered",
            "uncorrectable NVLink error detected",
            "CUDA_ERROR_ECC_UNCORRECTABLE",
        ),
        cause="xid-gpu-lost",
        confidence=0.95,
        seen="a GPU or its NVLink reported an error that it could not correct",
        source="CUDA's error texts (214, 220)",
        sample="RuntimeError: CUDA error: uncorrectable ECC error encountered",
        counter="ECC errors: 0 uncorrectable",
    ),
    Symptom(
        "gpu-fault-of-program",
        needle=(
            "an illegal memory access was encountered",
            "device-side assert triggered",
            "CUDA error: misaligned address",
            "CUDA error: an illegal instruction was encountered",
            "CUDA error: unspecified launch failure",
            "CUDA error: the launch timed out and was terminated",
            "Memory access fault by GPU node",
        ),
        cause="rank-died",
        confidence=0.7,
        seen="a kernel of a rank failed on the GPU",
        fix="Start that rank with CUDA_LAUNCH_BLOCKING=1 to see which call, or with compute-sanitizer; look in dmesg "
        "for an "
        "Xid of the same time.",
        commands=(command("sudo dmesg --ctime | grep -i xid"),),
        source="CUDA's error texts (700, 710, 715, 716, 719, 702)",
        sample=(
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            "RuntimeError: CUDA error: device-side assert triggered",
        ),
        counter="CUDA error: out of memory",
    ),
    Symptom(
        "library-symbol-missing",
        needle=("undefined symbol: ", "' not found (required by"),
        pattern=(
            r"(?P<library>[\w./+-]{1,300}\.so[\w.]{0,20}): undefined symbol: (?P<symbol>\w{1,400})",
            r"(?P<library>[\w./+-]{1,300}): version "
            r"[`'](?P<symbol>(?:GLIBC|GLIBCXX|CXXABI|libcu\w{1,20}|NCCL)[\w.]{0,20})' "
            r"not found",
        ),
        cause="version-mismatch",
        confidence=0.85,
        seen="{library} does not fit the other libraries: {symbol} is missing",
        fix="Install torch, NCCL and extensions that were built for each other, the same on all nodes; take foreign "
        "folders "
        "out of LD_LIBRARY_PATH.",
        commands=(command("gpudoctor check pytorch nccl"),),
        source="the dynamic loader (ld.so)",
        sample=(
            "ImportError: /opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: "
            "ncclCommWindowDeregister",
            "ImportError: /lib/x86_64-linux-gnu/libm.so.6: version `GLIBC_2.38' not found (required by "
            "/opt/ext/fused.so)",
        ),
        counter="the symbol was not found in the table",
    ),
    Symptom(
        "library-missing",
        needle="cannot open shared object file",
        pattern=r"(?:Error|error while loading shared libraries): "
        r"(?P<library>lib(?:nccl|cud|cublas|cufft|cusparse|cusolver|curand|cupti|nvrtc|nvJitLink|nvshmem|torch|"
        r"c10|mpi|efa|ibverbs|rccl|amdhip)[\w.+-]{0,60}): cannot open shared object file",
        unless="NET/Plugin",
        cause="version-mismatch",
        confidence=0.7,
        seen="{library} is not installed on this node",
        source="the dynamic loader (ld.so)",
        sample="ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory",
        counter="NCCL INFO NET/Plugin: libnccl-net.so: cannot open shared object file: No such file or directory",
    ),
    Symptom(
        "driver-too-old-for-torch",
        needle=(
            "The NVIDIA driver on your system is too old",
            "no kernel image is available for execution on the device",
        ),
        cause="version-mismatch",
        confidence=0.85,
        seen="torch does not fit the driver or the GPU of this node",
        fix="Install a torch that was built for this driver and GPU.",
        commands=(command("gpudoctor check driver pytorch"),),
        source="torch cuda/__init__.py; CUDA's error texts (209)",
        sample=(
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        ),
        counter="The NVIDIA driver is loaded",
    ),
    Symptom(
        "module-missing",
        needle="ModuleNotFoundError: No module named ",
        pattern=r"ModuleNotFoundError: No module named '(?P<module>[^'\n]{1,200})'",
        cause="rank-died",
        confidence=0.8,
        seen="the module {module} is not installed where this rank runs",
        fix="Install it in the environment of all nodes; where only one node fails, it has another environment.",
        source="Python's import",
        sample="ModuleNotFoundError: No module named 'flash_attn'",
        counter="flash_attn is not installed, using sdpa",
    ),
    Symptom(
        "download-failed",
        needle=(
            "LocalEntryNotFoundError",
            "HfHubHTTPError",
            "urllib3.exceptions.MaxRetryError",
            "requests.exceptions.ConnectionError",
            "requests.exceptions.ReadTimeout",
            "We couldn't connect to 'https://",
        ),
        unless="Retrying",
        cause="rank-died",
        confidence=0.7,
        seen="a rank could not download a model or data set",
        fix="Download once before the job starts and set HF_HUB_OFFLINE=1, or give compute nodes a way to the "
        "internet.",
        commands=(command("export HF_HUB_OFFLINE=1"),),
        source="huggingface_hub, requests, urllib3",
        sample=(
            "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on "
            "the Hub",
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in "
            "the cache.",
        ),
        counter="WARNING:urllib3: Retrying (Retry(total=4)) after connection broken by "
        "urllib3.exceptions.MaxRetryError",
    ),
    Symptom(
        "python-crashed",
        needle="Fatal Python error: ",
        pattern=r"Fatal Python error: (?P<error>Segmentation fault|Bus error|Illegal instruction|Floating-point "
        r"exception|"
        r"Floating point exception)",
        cause="rank-died",
        confidence=0.85,
        seen="a rank crashed in native code: {error}",
        fix="The stack below names the call; look for libraries that do not fit together.",
        source="Python faulthandler",
        sample="Fatal Python error: Segmentation fault",
        counter="Fatal Python error: Aborted",
    ),
    Symptom(
        "python-aborted",
        needle=(
            "Fatal Python error: Aborted",
            "terminate called after throwing an instance of",
            "terminate called without an",
        ),
        cause="",
        role="consequence",
        confidence=0.4,
        seen="a rank ended itself, because of the error that stands with it",
        source="Python faulthandler, libstdc++",
        sample=(
            "Fatal Python error: Aborted",
            "terminate called after throwing an instance of 'c10::DistBackendError'",
        ),
        counter="Fatal Python error: Segmentation fault",
    ),
    Symptom(
        "interrupted",
        needle="KeyboardInterrupt",
        pattern=r"(?:^|[\s:\]])KeyboardInterrupt\b",
        unless='File "',
        cause="",
        role="consequence",
        confidence=0.3,
        seen="somebody pressed Ctrl-C, or a launcher passed SIGINT on",
        source="Python's signal handling",
        sample="[rank2]: KeyboardInterrupt",
        counter="except KeyboardInterruptLike",
    ),
    Symptom(
        "pipe-broken",
        needle=(
            "BrokenPipeError: [Errno 32]",
            "ConnectionResetError: [Errno 104]",
            "ConnectionAbortedError: [Errno 103]",
        ),
        cause="",
        role="consequence",
        confidence=0.3,
        seen="a process that this one talked to has ended",
        source="Python's OSError",
        sample=(
            "BrokenPipeError: [Errno 32] Broken pipe",
            "ConnectionResetError: [Errno 104] Connection reset by peer",
        ),
        counter="OSError: [Errno 5] Input/output error",
    ),
    Symptom(
        "connection-refused",
        needle="ConnectionRefusedError: [Errno 111]",
        cause="",
        role="connection",
        confidence=0.3,
        seen="nobody listens at the address that a rank connected to: that process has ended, or was not started",
        source="Python's OSError",
        sample="ConnectionRefusedError: [Errno 111] Connection refused",
        counter="ConnectionResetError: [Errno 104] Connection reset by peer",
    ),
    Symptom(
        "debugger-waits",
        needle=("(Pdb)", "(ipdb)", "ipdb> ", "bdb.BdbQuit", "--KeyboardInterrupt--"),
        pattern=r"(?:^|[\s:\]])(?:\(Pdb\)|\(ipdb\)|ipdb> ?|(?:bdb\.)BdbQuit)",
        cause="stopped-rank",
        confidence=0.85,
        seen="a rank stands in the Python debugger",
        fix="Take breakpoint() and pdb.set_trace() out; under a launcher nobody can type into a rank.",
        source="Python pdb",
        sample=("(Pdb) ", "bdb.BdbQuit"),
        counter="use the debugger (pdb)",
    ),
    Symptom(
        "input-output-error",
        needle=(
            "[Errno 5] Input/output error",
            "[Errno 107] Transport endpoint is not connected",
            "[Errno 121] Remote I/O error",
        ),
        cause="storage-stall",
        confidence=0.7,
        seen="storage failed while a rank read or wrote",
        source="Python's OSError; FUSE, NFS, Lustre",
        sample=(
            "OSError: [Errno 5] Input/output error: '/mnt/lustre/data/0007.tar'",
            "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/s3/data'",
        ),
        counter="OSError: [Errno 2] No such file or directory: '/mnt/s3/data'",
    ),
)
