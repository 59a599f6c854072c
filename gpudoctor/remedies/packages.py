"""What Python packages say that meet another Python, another library or another way to start than they want."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "local-rank-argument",
        words=r"unrecognized arguments: [^\n]{0,80}?(?P<name>--local[-_]rank)\b",
        lines=True,
        fix=(
            "{name} is what torch's old launcher gives (python -m torch.distributed.launch; with a hyphen since torch "
            "2.0): start by torchrun, which gives none and sets LOCAL_RANK, or have the program take it "
            "(parser.add_argument('--local-rank', '--local_rank', type=int, default=0))."
        ),
        kind="argument",
        blame="user",
        source="torch distributed/launch.py; Python argparse.py",
        sample="train.py: error: unrecognized arguments: --local-rank=0",
        counter="train.py: error: unrecognized arguments: --rank 0",
    ),
    Remedy(
        "python-took-away",
        words=(
            r"module '(?P<module>collections)' has no attribute '(?P<name>[A-Z]\w{3,30})'",
            r"cannot import name '(?P<name>[A-Z]\w{3,30})' from '(?P<module>collections)'",
            r"module '(?P<module>inspect|asyncio|pkgutil|configparser|fractions|time|ast)' has no attribute "
            r"'(?P<name>getargspec|formatargspec|coroutine|ImpImporter|SafeConfigParser|gcd|clock|Str|Num)'",
        ),
        fix=(
            "This Python has {module}.{name} no more (collections' since 3.10, inspect's and asyncio's 3.11, "
            "pkgutil's, configparser's and ast's 3.12 to 3.14, fractions' 3.9, time's 3.8): take a newer release of "
            "the package whose file the last frame names, or an older Python (conda create python=3.9 has all but "
            "time.clock and fractions.gcd)."
        ),
        commands=(command("python --version"),),
        kind="dependency-mismatch",
        source="Python's What's New, 3.8 to 3.14 (Removed)",
        sample=(
            "AttributeError: module 'inspect' has no attribute 'getargspec'. Did you mean: 'getargs'?",
            "AttributeError: module 'collections' has no attribute 'Iterable'",
        ),
        counter="AttributeError: module 'inspect' has no attribute 'signatures'",
    ),
    Remedy(
        "xformers-without-kernel",
        words=r"No operator found for `memory_efficient_attention",
        fix=(
            "xformers has no kernel for this call, and the lines below the message say for each why. Built for another "
            "torch or without CUDA: install the xformers that names this torch (python -m pip install --upgrade "
            "xformers, from torch's own index); a GPU, dtype or head size that none takes: leave it out and take "
            "torch's attention (sdpa)."
        ),
        commands=(command("python -m xformers.info"),),
        kind="dependency-mismatch",
        source="xformers ops/fmha/dispatch.py (_run_priority_list)",
        sample="NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:",
        counter="NotImplementedError: No operator for this",
    ),
    Remedy(
        "newer-engine",
        words=r"Model architectures? (?P<name>\[[^\]\n]{1,120}\]) (?:are|is) not supported|"
        r"Model architectures? \[[^\]\n]{1,120}\] failed to be inspected",
        fix=(
            "The installed vLLM or SGLang is older than this model, or never took it: take a newer one (python -m pip "
            "install --upgrade vllm), with the transformers that it asks for; its list of supported models says since "
            "when."
        ),
        commands=(command("python -m pip list | grep -iE '^(vllm|sglang|transformers)'"),),
        kind="dependency-mismatch",
        source="vllm model_executor/models/registry.py; sglang srt/models/registry.py",
        sample="ValueError: Model architectures ['Gemma3nForConditionalGeneration'] are not supported for now.",
        counter="ValueError: Model architecture is missing",
    ),
    Remedy(
        "threading-layer",
        words=r"MKL_THREADING_LAYER=INTEL is incompatible with libgomp",
        lines=True,
        fix=(
            "Two OpenMP libraries meet, MKL's and GNU's: export MKL_THREADING_LAYER=GNU in the job's script, or import "
            "numpy before torch."
        ),
        commands=(command("export MKL_THREADING_LAYER=GNU"),),
        kind="dependency-mismatch",
        source="mkl-service mkl/_init_helper.py, _mklinitmodule.c",
        sample="Error: mkl-service + Intel(R) MKL: MKL_THREADING_LAYER=INTEL is incompatible with libgomp.so.1",
        counter="MKL_THREADING_LAYER is set",
    ),
    Remedy(
        "two-openmp",
        words=r"Error #15: Initializing (?P<name>\S{3,60}), but found (?P<other>\S{3,60}) already initialized",
        lines=True,
        fix=(
            "Two packages bring an OpenMP library each ({other} and {name}): install both from one source (all of pip, "
            "or all of conda; conda's nomkl), so that one is left. KMP_DUPLICATE_LIB_OK=TRUE lets it go on, with no "
            "promise of right results."
        ),
        commands=(command("export KMP_DUPLICATE_LIB_OK=TRUE"),),
        kind="dependency-mismatch",
        source="LLVM openmp runtime/src/i18n/en_US.txt (DuplicateLibrary)",
        sample="OMP: Error #15: Initializing libiomp5md.dll, but found libiomp5md.dll already initialized.",
        counter="OMP: Info #277: omp_set_nested routine deprecated",
    ),
    Remedy(
        "static-tls",
        words=r"(?P<file>\S{3,200}): cannot allocate memory in static TLS block",
        lines=True,
        fix=(
            "No memory is short: {file} has to be loaded early, before the others have used up the loader's room for "
            "such libraries. Load it first (export LD_PRELOAD={file}), or import the package that brings it before all "
            "others (torch, cv2 and sklearn in another order)."
        ),
        commands=(command("ldd --version"),),
        kind="dependency-mismatch",
        source="glibc elf/dl-reloc.c (_dl_allocate_static_tls)",
        sample="ImportError: /lib/aarch64-linux-gnu/libgomp.so.1: cannot allocate memory in static TLS block",
        counter="ImportError: libgomp.so.1: cannot open shared object file",
    ),
    Remedy(
        "no-triton",
        words=r"Cannot find a working triton installation",
        fix=(
            "torch.compile makes its kernels by Triton, which is not here or is another torch's: install the one that "
            "belongs to this torch (python -m pip install --upgrade triton; on Windows triton-windows), or run without "
            "it (TORCHDYNAMO_DISABLE=1, no torch.compile). GPUs before 7.0 and most without CUDA have none."
        ),
        commands=(command("export TORCHDYNAMO_DISABLE=1"),),
        kind="dependency-mismatch",
        source="torch _inductor/scheduler.py, exc.py (TritonMissing)",
        sample="RuntimeError: Cannot find a working triton installation. Either the package is not",
        counter="RuntimeError: Triton is working",
    ),
    Remedy(
        "columns-of-files",
        words=r"\ACouldn't cast\b|because column names don't match|All the data files must have the same columns",
        fix=(
            "The files of the data set do not all have the same columns and types: load only those that belong "
            "together (data_files=..., one split or configuration each), bring the others to these columns, or give "
            "features=; where the set has grown, let it be made anew (download_mode='force_redownload')."
        ),
        kind="data",
        source="datasets table.py (cast_table_to_schema, CastError), builder.py (DatasetGenerationCastError)",
        sample=("datasets.table.CastError: Couldn't cast", "ValueError: x\nbecause column names don't match"),
        counter="TypeError: Couldn't be read",
    ),
    Remedy(
        "gloo-own-name",
        words=r"Unable to resolve hostname to a \(local\) address",
        lines=True,
        fix=(
            "gloo looks up this node's own name and finds no address of this node: enter it into /etc/hosts with the "
            "node's address, or name the interface to take (export GLOO_SOCKET_IFNAME=INTERFACE, one name), on every "
            "node."
        ),
        commands=(command("getent ahosts $(hostname)"), command("ip -brief address")),
        kind="name-resolution",
        source="gloo transport/tcp/device.cc (lookupAddrForHostname)",
        sample="RuntimeError: [../third_party/gloo/gloo/transport/tcp/device.cc:208] Unable to resolve hostname to a "
        "(local) address",
        counter="Unable to find address for: eth0",
    ),
    Remedy(
        "no-ray",
        words=r"Could not find any running Ray instance",
        fix=(
            "No Ray runs where it is looked for: start the head first (ray start --head) and give its address "
            "(--address HEAD:6379, or RAY_ADDRESS), as the same user and with the same --temp-dir; without an address "
            "ray.init() starts one of its own on this machine."
        ),
        commands=(command("ray status"),),
        kind="rendezvous",
        source="ray _private/services.py (canonicalize_bootstrap_address_or_die)",
        sample="ConnectionError: Could not find any running Ray instance. Please specify the one to connect to",
        counter="Connected to Ray cluster",
    ),
    Remedy(
        "ray-fewer-gpus",
        words=r"required GPUs exceeds the total number of available GPUs|"
        r"number of required \w{2,8}s? exceeds the total number of available",
        fix=(
            "Ray has fewer GPUs than tensor_parallel_size times pipeline_parallel_size: join the other nodes to it "
            "first (ray start --address=HEAD:6379 on each; `ray status` lists them), or take smaller sizes."
        ),
        commands=(command("ray status"),),
        kind="config",
        source="vllm executor/ray_utils.py (initialize_ray_cluster)",
        sample="ValueError: The number of required GPUs exceeds the total number of available GPUs in a group.",
        counter="The number of GPUs is 8",
    ),
    Remedy(
        "wandb-not-reached",
        words=r"Run initialization has timed out|wandb: ERROR Network error|Error communicating with wandb process",
        lines=True,
        fix=(
            "wandb does not reach its server from this node: WANDB_MODE=offline in the job and `wandb sync` afterwards "
            "where there is a way, a proxy in HTTPS_PROXY, or more time (WANDB_INIT_TIMEOUT=300)."
        ),
        commands=(command("export WANDB_MODE=offline"),),
        kind="route",
        source="wandb sdk/wandb_init.py, sdk/lib/retry.py",
        sample="wandb.errors.CommError: Run initialization has timed out after 90.0 sec.",
        counter="wandb: Run data is saved locally",
    ),
    Remedy(
        "engine-ranks",
        words=r"mpiSize == tp \* pp(?: \* cp)? \((?P<there>\d{1,6}) != (?P<wanted>\d{1,6})\)",
        lines=True,
        fix=(
            "The engine was built for {wanted} ranks and {there} were started: start it by mpirun -n {wanted} (Triton: "
            "launch_triton_server.py --world_size {wanted}), or build it for {there}."
        ),
        kind="config",
        source="TensorRT-LLM cpp/tensorrt_llm/runtime/worldConfig.cpp",
        sample="[TensorRT-LLM][ERROR] Assertion failed: mpiSize == tp * pp (1 != 2)",
        counter="[TensorRT-LLM][INFO] MPI size: 2, rank: 0",
    ),
    Remedy(
        "too-long-for-engine",
        words=r"(?i)\b(?:input|prompt|sequence) length \((?P<given>\d{1,8})\)[^\n]{0,60}exceeds? (?:the )?"
        r"max\w* (?:\w{1,12} ){0,3}length \((?P<most>\d{1,8})\)",
        lines=True,
        fix=(
            "The input of {given} tokens, with what is to be written, is more than the {most} that it was built or "
            "started for: shorten it or max_tokens, or build or start it for more (max_input_len and max_seq_len of "
            "trtllm-build, --max-model-len)."
        ),
        kind="argument",
        blame="user",
        source="TensorRT-LLM cpp/tensorrt_llm/batch_manager",
        sample="[TensorRT-LLM][ERROR] Input length (4096) + max new tokens (1024) exceeds max sequence length (4096)",
        counter="Input length (4096) is fine",
    ),
    Remedy(
        "pdsh-by-rsh",
        words=r"\bpdsh@[^\n]{1,80}: rcmd: socket: |\bpdsh@[^\n]{1,80}: connect: Connection refused",
        lines=True,
        fix=(
            "pdsh goes by rsh there, which no host answers: export PDSH_RCMD_TYPE=ssh before the launcher (DeepSpeed "
            "also takes --launcher openmpi, or --no_ssh with a start on each node)."
        ),
        commands=(command("export PDSH_RCMD_TYPE=ssh"),),
        kind="route",
        source="pdsh src/modules/xrcmd.c (xrcmd)",
        sample="pdsh@head: node2: rcmd: socket: Permission denied",
        counter="pdsh@head: node2: ssh exited with exit code 255",
    ),
    Remedy(
        "ascend-environment",
        words=r"\blib(?:hccl|ascend\w{2,30}|ge_\w{2,20}|acl_\w{2,20})\.so[\w.]*: cannot open shared object file",
        lines=True,
        fix=(
            "The libraries of CANN are not in this process's LD_LIBRARY_PATH: source "
            "/usr/local/Ascend/ascend-toolkit/set_env.sh (and nnal/atb/set_env.sh where it is) in the job's script, "
            "and in a container mount the driver's folder (/usr/local/Ascend/driver)."
        ),
        commands=(command("ls /usr/local/Ascend/ascend-toolkit/latest/lib64"),),
        kind="import",
        source="Ascend CANN's installation guide (set_env.sh); torch_npu __init__.py",
        sample="ImportError: libhccl.so: cannot open shared object file: No such file or directory",
        counter="ImportError: libnccl.so.2: cannot open shared object file: No such file or directory",
    ),
)
