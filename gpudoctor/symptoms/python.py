"""Errors of Python, of its libraries and of CUDA that end a rank, and DataLoader workers.

Exceptions of the user's own are read from their traceback (`explain.tracebacks`); here stand those that say more.
"""

from gpudoctor.symptom import HINT, LIKELY, POSSIBLE, PROVED, Symptom

MEMORY = "Give the job or the container more memory, or start fewer DataLoader workers with smaller batches."

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "gpu-memory-exhausted",
        needle=(
            "out of memory. Tried to allocate",
            *("CUDA error: out of memory", "CUDA Error: out of memory", "CUDA driver error: out of memory"),
            *("HIP error: out of memory", "cudaErrorMemoryAllocation"),
        ),
        pattern=r"(?:CUDA|HIP|XPU|NPU) (?:(?:driver )?[eE]rror: )?out of memory"
        r"(?:\. Tried to allocate (?P<size>[\d.]+ \w{1,5}))?|\bcudaErrorMemoryAllocation\b: ",
        cause="gpu-out-of-memory",
        seen="a rank ran out of GPU memory",
        source="torch CUDACachingAllocator.cpp; darknet src/dark_cuda.c; cudaGetErrorName, as CuPy and GROMACS tell it",
        sample=(
            *("CUDA Error: out of memory", "CUDARuntimeError: cudaErrorMemoryAllocation: out of memory"),
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.91 GiB. GPU 2 has a total capacity of "
            "79.11 GiB of which 1.02 GiB is free.",
            "RuntimeError: CUDA error: out of memory",
        ),
        counter="CUDA memory allocated: 3.91 GiB",
    ),
    Symptom(
        "host-memory-exhausted",
        needle=(
            *("DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory"),
            *("[Errno 12] Cannot allocate memory", "ArrayMemoryError: ", "ArrowMemoryError: ", "std::bad_alloc"),
        ),
        unless="RMM failure",
        cause="host-out-of-memory",
        seen="a rank ran out of host memory",
        source="torch c10/core/impl/alloc_cpu.cpp, numpy, Arrow (memory_pool.cc), Python",
        sample=(
            "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
            "you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)",
            "OSError: [Errno 12] Cannot allocate memory",
            "pyarrow.lib.ArrowMemoryError: malloc of size 6442450944 failed",
        ),
        counter="Call to ibv_reg_mr failed with error Cannot allocate memory",
    ),
    Symptom(
        "shared-memory-of-workers-full",
        needle=(
            "is killed by signal: Bus error",
            "bus error encountered in worker",
            "unable to write to file </torch_",
            "unable to allocate shared memory(shm) for file </torch_",
            "out of shared memory. Please try to raise",
        ),
        cause="shm-too-small",
        seen="a DataLoader worker found /dev/shm full",
        source="torch DataLoader.cpp, MapAllocator.cpp",
        sample=(
            "RuntimeError: DataLoader worker (pid 7741) is killed by signal: Bus error. It is possible that "
            "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
            "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory "
            "(shm).",
            "RuntimeError: unable to write to file </torch_7741_2213_0>: No space left on device (28)",
            "RuntimeError: unable to allocate shared memory(shm) for file </torch_7741_2213_0>: No space left on "
            "device (28)",
        ),
        counter="RuntimeError: DataLoader worker (pid 7741) is killed by signal: Killed. ",
    ),
    Symptom(
        "worker-out-of-memory",
        pattern=r"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: Killed",
        cause="host-out-of-memory",
        confidence=LIKELY,
        seen="a DataLoader worker (pid {pid}) was killed by SIGKILL, mostly by the kernel's OOM killer",
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
        ),
        cause="native-crash",
        variant="worker",
        confidence=LIKELY,
        seen="a DataLoader worker (pid {pid}) crashed",
        source="torch DataLoader.cpp, dataloader.py",
        sample=("RuntimeError: DataLoader worker (pid 7741) is killed by signal: Segmentation fault. ",),
        counter="DataLoader worker (pid 7741) started",
    ),
    Symptom(
        "worker-gone",
        pattern=r"DataLoader worker \(pid\(?s?\)? (?P<pid>\d+)[\d, ]{0,200}\) exited unexpectedly",
        cause="native-crash",
        variant="worker",
        confidence=POSSIBLE,
        seen="a DataLoader worker (pid {pid}) was gone: crashed, or killed for want of memory",
        source="torch dataloader.py",
        sample="RuntimeError: DataLoader worker (pid(s) 7741, 7742) exited unexpectedly",
        counter="DataLoader worker (pid 7741) started",
    ),
    Symptom(
        "worker-raised",
        pattern=r"Caught (?P<exception>[\w.]{1,120}) in DataLoader worker process (?P<worker>\d+)",
        cause="program-error",
        variant="worker",
        role="context",
        confidence=POSSIBLE,
        seen="a DataLoader worker raised {exception}",
        source="torch _utils.py (ExceptionWrapper)",
        sample="KeyError: Caught KeyError in DataLoader worker process 3.",
        counter="starting DataLoader worker process 3",
    ),
    Symptom(
        "worker-timeout",
        pattern=r"DataLoader timed out after (?P<seconds>[\d.]+) seconds",
        cause="dataloader-fork-deadlock",
        variant="timeout",
        confidence=POSSIBLE,
        seen="DataLoader workers gave no batch within {seconds} s",
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
        seen="a process that has threads was forked, which can leave a lock held in the child",
        source="Python 3.12 os.fork, huggingface tokenizers, JAX",
        sample=(
            "DeprecationWarning: This process (pid=6177) is multi-threaded, use of fork() may lead to deadlocks in "
            "the child.",
            "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. "
            "Disabling parallelism to avoid deadlocks...",
        ),
        counter="This process (pid=6177) was forked",
    ),
    Symptom(
        "cuda-after-fork",
        needle="Cannot re-initialize CUDA in forked subprocess",
        cause="program-error",
        variant="fork",
        seen="a forked child used CUDA, which its parent had initialised",
        source="torch cuda/__init__.py",
        sample="RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you "
        "must use the 'spawn' start method",
        counter="CUDA initialized in subprocess",
    ),
    Symptom(
        "not-picklable",
        pattern=r"(?:Can't pickle (?P<object>[^\n]{1,120})|Can't get local object (?P<local>'[^'\n]{1,120}')|cannot "
        r"pickle '(?P<type>[^'\n]{1,80})')",
        cause="program-error",
        variant="pickle",
        seen="something that is handed to a started process cannot be pickled",
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
        pattern=r"attempt has been made to start a new process before the",
        cause="program-error",
        variant="main-guard",
        seen="the script starts processes while it is imported by one of them",
        source="Python multiprocessing/spawn.py",
        sample="        An attempt has been made to start a new process before the",
        counter="starting a new process",
    ),
    Symptom(
        "gpu-ecc",
        needle=(
            "uncorrectable ECC error encountered",
            "uncorrectable NVLink error detected",
            "CUDA_ERROR_ECC_UNCORRECTABLE",
        ),
        cause="xid-gpu-lost",
        confidence=PROVED,
        seen="a GPU or its NVLink reported an error that it could not correct",
        source="CUDA's error texts (214, 220)",
        sample="RuntimeError: CUDA error: uncorrectable ECC error encountered",
        counter="ECC errors: 0 uncorrectable",
    ),
    Symptom(
        "gpu-fault-of-program",
        needle=(
            "an illegal memory access was encountered",
            "Memory access fault by GPU node",
        ),
        cause="gpu-program-fault",
        confidence=LIKELY,
        seen="a kernel of a rank failed on the GPU",
        source="CUDA's error text (700); ROCm's runtime",
        sample="RuntimeError: CUDA error: an illegal memory access was encountered",
        counter="CUDA error: out of memory",
    ),
    Symptom(
        "gpu-assertion",
        needle="device-side assert triggered",
        cause="gpu-program-fault",
        variant="assertion",
        confidence=LIKELY,
        seen="an assertion in a kernel of a rank failed on the GPU",
        source="CUDA's error text (710)",
        sample="RuntimeError: CUDA error: device-side assert triggered",
        counter="CUDA error: out of memory",
    ),
    Symptom(
        "library-symbol-missing",
        needle=("undefined symbol: ", "' not found (required by"),
        pattern=(
            r"(?P<library>[\w./+-]{1,300}\.so[\w.]{0,20}): undefined symbol: (?P<symbol>\w{1,400})",
            r"symbol lookup error: (?P<library>[\w./+-]{1,300}): undefined symbol: (?P<symbol>\w{1,400})",
            r"(?P<library>[\w./+-]{1,300}): version [`'](?P<symbol>(?:GLIBC|GLIBCXX|CXXABI|libcu\w{1,20}|NCCL)[\w.]"
            r"{0,20})' not found",
        ),
        unless="AttributeError: ",
        cause="version-mismatch",
        variant="library",
        seen="{library} does not fit the other libraries: {symbol} is missing",
        source="the dynamic loader (ld.so)",
        sample=(
            "ImportError: /opt/venv/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommWindowDeregister",
            "./build/reduce_perf: symbol lookup error: ./build/reduce_perf: undefined symbol: ncclCommSplit",
            "ImportError: /lib/x86_64-linux-gnu/libm.so.6: version `GLIBC_2.38' not found (required by "
            "/opt/ext/fused.so)",
        ),
        counter="the symbol was not found in the table",
    ),
    Symptom(
        "library-missing",
        pattern=r"(?:Error|with error|error while loading shared libraries): "
        r"(?P<library>lib(?:nccl|cud|cublas|cufft|cusparse|cusolver|curand|cupti|nvrtc|nvJitLink|nvshmem|torch|"
        r"c10|mpi|efa|ibverbs|rccl|amdhip)[\w.+-]{0,60}): cannot open shared object file",
        unless="NET/Plugin",
        cause="library-missing",
        variant="shared",
        confidence=LIKELY,
        seen="{library} is not installed on this node",
        source="the dynamic loader (ld.so)",
        sample="ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory",
        counter="NCCL INFO NET/Plugin: libnccl-net.so: cannot open shared object file: No such file or directory",
    ),
    Symptom(
        "driver-too-old-for-torch",
        needle="The NVIDIA driver on your system is too old",
        pattern=r"The NVIDIA driver on your system is too old(?: \(found version (?P<found>\d{4,6})\))?",
        cause="driver-mismatch",
        seen="the driver of this node is older than the CUDA that torch was built with",
        source="torch cuda/__init__.py",
        sample="RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        counter="The NVIDIA driver is loaded",
    ),
    Symptom(
        "no-kernels-for-this-gpu",
        needle="no kernel image is available for execution on the device",
        cause="driver-mismatch",
        variant="kernels",
        seen="a library has no kernels for the GPU of this node",
        source="CUDA's error texts (209)",
        sample="RuntimeError: CUDA error: no kernel image is available for execution on the device",
        counter="a kernel image is available",
    ),
    Symptom(
        "ptx-newer-than-driver",
        needle="the provided PTX was compiled with an unsupported toolchain",
        cause="driver-mismatch",
        variant="ptx",
        seen="code was compiled by a CUDA that the driver of this node does not know",
        source="CUDA's error texts (222)",
        sample="RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
        counter="a supported toolchain",
    ),
    Symptom(
        "module-missing",
        pattern=(
            r"ModuleNotFoundError: No module named '(?P<module>[^'\n]{1,200})'",
            r"\bpython[\d.]{0,5}(?:\.exe)?: No module named '?(?P<module>[A-Za-z_][\w.]{0,200})",
        ),
        cause="library-missing",
        seen="the module {module} is not installed where this rank runs",
        source="Python's import; Lib/runpy.py (python -m)",
        sample=(
            "ModuleNotFoundError: No module named 'flash_attn'",
            "[1,0]<stderr>:/opt/conda/bin/python3.8: No module named mpi4py",
        ),
        counter="flash_attn is not installed, using sdpa",
    ),
    Symptom(
        "python-aborted",
        needle=(
            "Fatal Python error: Aborted",
            "terminate called after throwing an instance of",
            "terminate called without an",
        ),
        role="consequence",
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
        pattern=r"(?:^|[\s:\]])KeyboardInterrupt\b",
        unless='File "',
        role="consequence",
        confidence=HINT,
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
        role="consequence",
        confidence=HINT,
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
        role="connection",
        confidence=HINT,
        seen="nobody listens at the address that a rank connected to: that process has ended, or was not started",
        source="Python's OSError",
        sample="ConnectionRefusedError: [Errno 111] Connection refused",
        counter="ConnectionResetError: [Errno 104] Connection reset by peer",
    ),
    Symptom(
        "debugger-waits",
        pattern=r"(?:^|[\s:\]])(?:\(Pdb\)|\(ipdb\)|ipdb> ?|(?:bdb\.)BdbQuit)",
        cause="stopped-rank",
        variant="input",
        seen="a rank stands in the Python debugger",
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
        variant="refused",
        confidence=LIKELY,
        seen="storage failed while a rank read or wrote",
        source="Python's OSError; FUSE, NFS, Lustre",
        sample=(
            "OSError: [Errno 5] Input/output error: '/mnt/lustre/data/0007.tar'",
            "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/s3/data'",
        ),
        counter="OSError: [Errno 2] No such file or directory: '/mnt/s3/data'",
    ),
    Symptom(
        "argument-refused",
        needle=(
            *("unrecognized arguments: ", ": error: argument ", "arguments are required: ", "ambiguous option: "),
            *('error: Parser key "', "Error: No such ", "Error: Missing ", "Error: Invalid value", "extra argument"),
            *("error: invalid value '", "error: unexpected argument '", "error: the argument '"),
        ),
        pattern=(
            r"[\w./-]{1,120}: error: (?P<reason>unrecognized arguments: [^\n]{1,200}|argument [^\n]{1,200}|the "
            r"following arguments are required: [^\n]{1,200}|ambiguous option: [^\n]{1,200}|"
            r"Parser key \"[^\n]{1,200})",
            r"(?:^|[\s\]:])Error: (?P<reason>(?:No such (?:option|command)|Missing (?:option|argument|parameter)|"
            r"Invalid value)\b"
            r"[^\n]{1,200}|Got unexpected extra argument[^\n]{1,200})",
            r"(?:^|[\s\]:])error: (?P<reason>(?:invalid value '[^'\n]{1,80}' for '-|unexpected argument '-|"
            r"the argument '-)[^\n]{1,200})",
        ),
        cause="program-error",
        variant="arguments",
        seen="the program was given arguments that it does not take: {reason}",
        source="Python argparse.py (error); click exceptions.py (UsageError and its kinds); clap's error kinds",
        sample=(
            "main.py: error: unrecognized arguments: --local-rank=1",
            "Error: No such option: --bach-size Did you mean --batch-size?",
            "error: invalid value '16' for '--num-gpus <N>': 16 is not in 1..=8",
        ),
        counter="main.py: an error in an argument",
    ),
    Symptom(
        "hydra-refused",
        pattern=(
            r"(?:^|[\s\]:])(?P<what>Could not override '[^'\n]{1,100}')\.?\s*$",
            r"(?:^|[\s\]:])In '[^'\n]{1,100}': (?P<what>Could not find '[^'\n]{1,200}')",
            r"(?:^|[\s\]:])(?P<what>Primary config (?:module|directory) '?[^'\n]{1,200}'? not found)",
            r"(?:^|[\s\]:])(?P<what>Cannot find primary config '[^'\n]{1,100}')",
            r"(?:^|[\s.\]:])(?P<what>(?:MissingMandatoryValue|InterpolationKeyError|InterpolationResolutionError|"
            r"ConfigAttributeError|ConfigKeyError): [^\n]{1,160})",
        ),
        cause="program-error",
        variant="hydra",
        seen="what was set does not fit what is read of it: {what}",
        source="Hydra _internal/config_loader_impl.py, config_repository.py, defaults_list.py; omegaconf errors.py",
        sample=(
            "Could not override 'trainer.lr'.",
            "In 'config': Could not find 'model/gpt7'",
            "omegaconf.errors.MissingMandatoryValue: Missing mandatory value: data.path",
        ),
        counter="RuntimeError: Could not override the method 'forward'",
    ),
    Symptom(
        "ssh-lost",
        pattern=r"Timeout, server (?P<host>[\w.-]{1,253}) not responding\.",
        cause="node-lost",
        confidence=LIKELY,
        seen="the connection to {host} went silent, and ssh gave it up",
        source="OpenSSH clientloop.c",
        sample="gx8: Timeout, server gx8 not responding.",
        counter="server gx8 answered",
    ),
)
