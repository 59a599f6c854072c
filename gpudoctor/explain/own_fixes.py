"""Fixes that name what has to be installed or where room has to be made, by the values that a line tells."""

import re
from collections.abc import Mapping

from gpudoctor.explain.releases_apart import of_module
from gpudoctor.knowledge.gpus.xid import OF_NVLINK
from gpudoctor.knowledge.modules import brought_by, part_of_namespace
from gpudoctor.knowledge.schedulers.slurm_words import of_refusal
from gpudoctor.lazy import lazy_re

DISTRIBUTIONS: Mapping[str, str] = {
    "cv2": "opencv-python",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "flash_attn_2_cuda": "flash-attn",
    "flash_attn_3_cuda": "flash-attn",
    "causal_conv1d_cuda": "causal-conv1d",
    "selective_scan_cuda": "mamba-ssm",
    "transformer_engine_torch": "transformer-engine[pytorch]",
    "transformer_engine_extensions": "transformer-engine[pytorch]",
    **dict.fromkeys(("exllama_kernels", "exllamav2_kernels", "autogptq_cuda_64", "autogptq_cuda_256"), "auto-gptq"),
    **dict.fromkeys(("awq_ext", "awq_inference_engine", "awq_v2_ext"), "autoawq-kernels"),
    "_XLAC": "torch_xla",
    "_XLAC_cuda_functions": "torch_xla",
    "google": "protobuf",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "git": "gitpython",
    "mpi4py": "mpi4py",
    "pytorch_lightning": "pytorch-lightning",
    "tensorboardX": "tensorboardX",
    "pycocotools": "pycocotools",
    "hydra": "hydra-core",
    "attr": "attrs",
    "Crypto": "pycryptodome",
    "OpenSSL": "pyopenssl",
    "fitz": "pymupdf",
    "docx": "python-docx",
    "umap": "umap-learn",
    "faiss": "faiss-cpu",
    "ruamel": "ruamel.yaml",
    "decord": "decord",
    "bitsandbytes": "bitsandbytes",
    "sentencepiece": "sentencepiece",
}
"""Names under which a module is imported, and under which PyPI has it, where they differ or are often asked for."""
OF_A_PROGRAM = frozenset(
    {
        *("utils", "util", "src", "models", "model", "config", "configs", "data", "dataset", "lib", "libs", "core"),
        *(
            "tools",
            "modules",
            "common",
            "helpers",
            "train",
            "trainer",
            "main",
            "network",
            "networks",
            "layers",
            "losses",
        ),
        *("engine", "options", "scripts", "app", "project", "code", "eval", "metrics", "args", "arguments", "registry"),
    }
)
"""Folders and files that programs have of their own: PyPI has others by these names."""
COMPILED = lazy_re(r"(?i)\._|(?:cuda|ext|kernels?|ops|fast|cython|native|cpp|_c)$")
"""How parts that are compiled are called, as a rule; other parts are missing for the release."""
PACKAGE = lazy_re(r"(?:site|dist)-packages/(?P<name>[A-Za-z_]\w{1,60})")
OF_NVIDIA = lazy_re(r"/nvidia/\w{2,20}/lib/")
"""Where the nvidia-* packages put the libraries that torch loads."""
OF_TORCH = lazy_re(r"/torch/lib/")
SETTINGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (lazy_re(text), setting)
    for text, setting in (
        (
            r"^/run/(?:user|enroot|pyxis)\b",
            "ENROOT_RUNTIME_PATH (enroot.conf) says where enroot keeps what runs; only a login makes /run/user/UID",
        ),
        (r"^/dev/shm", "shared memory is given by --shm-size, or a volume of medium Memory"),
        (r"huggingface", "HF_HOME says where models and data sets are kept"),
        (r"/\.?triton\b", "TRITON_CACHE_DIR says where Triton keeps what it compiles"),
        (r"torch_extensions", "TORCH_EXTENSIONS_DIR says where extensions are built"),
        (r"torchinductor", "TORCHINDUCTOR_CACHE_DIR says where torch.compile keeps what it compiles"),
        (r"matplotlib", "MPLCONFIGDIR says where matplotlib keeps its fonts and settings"),
        (r"/numba|__pycache__", "NUMBA_CACHE_DIR, and PYTHONPYCACHEPREFIX, say where compiled code is kept"),
        (r"/\.nv/|ComputeCache", "CUDA_CACHE_PATH says where the driver keeps what it compiles"),
        (r"vllm", "VLLM_CACHE_ROOT says where vLLM keeps what it makes"),
        (r"nltk_data", "NLTK_DATA says where NLTK looks"),
        (r"/ray(?:/|$)", "--temp-dir of `ray start` (or _temp_dir of ray.init) says where Ray writes"),
        (r"apptainer|singularity", "APPTAINER_CACHEDIR and APPTAINER_TMPDIR say where images are kept and unpacked"),
        (r"enroot", "ENROOT_CACHE_PATH, ENROOT_DATA_PATH and ENROOT_RUNTIME_PATH say where enroot writes"),
        (r"conda|/pkgs(?:/|$)", "CONDA_PKGS_DIRS and CONDA_ENVS_PATH say where conda writes"),
        (r"/pip(?:/|$)", "PIP_CACHE_DIR says where pip keeps what it fetches"),
        (r"wandb", "WANDB_DIR, WANDB_CACHE_DIR and WANDB_DATA_DIR say where wandb writes"),
        (r"/\.cache", "XDG_CACHE_HOME says where caches are kept"),
        (r"^/(?:var/)?tmp(?:/|$)", "TMPDIR says where temporary files are made"),
    )
)  # fmt: skip
"""By a part of the path, what moves it elsewhere."""
DEVICES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (lazy_re(text), of)
    for text, of in (
        (r"^/dev/infiniband/", "the RDMA drivers (ib_uverbs, rdma_ucm: modprobe, rdma-core)"),
        (r"^/dev/nvidia-caps", "the NVIDIA driver (IMEX and MIG; nvidia-modprobe, nvidia-caps)"),
        (r"^/dev/nvidia", "the NVIDIA driver (nvidia-modprobe -c0 -u, or nvidia-smi once as root)"),
        (r"^/dev/gdrdrv", "gdrcopy's driver (gdrdrv)"),
        (r"^/dev/(?:kfd|dri/)", "the amdgpu driver"),
        (r"^/dev/accel/", "the accelerator's driver"),
        (r"^/dev/fuse", "the fuse module (modprobe fuse)"),
        (r"^/dev/net/tun", "the tun module"),
        (r"^/dev/(?:cxi|hfi|xpmem|knem|cros?s)", "the fabric's driver"),
        (r"^/dev/(?!shm\b|null\b|std|fd/|tty)", "its driver"),
    )
)
"""Files that drivers make: nobody can put them there."""
IN_A_SCRIPT = " activate that one in the script itself (a job does not read what a login shell reads),"
COMMANDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (lazy_re(rf"^(?:{text})$"), of)
    for text, of in (
        (r"source|\[\[|pushd|declare|shopt",
         "{name} is bash's own, and another shell reads the script: start it by `bash SCRIPT`, and let it begin with "
         "#!/bin/bash (under sh or dash `.` stands for source)."),
        (r"module|ml",
         "`module` is a function that a login shell gets: let the script begin with #!/bin/bash -l, or read its "
         "definition first (source /etc/profile.d/modules.sh, or lmod.sh there)."),
        (r"conda|mamba|micromamba",
         "`conda` is a function that a login shell gets: source CONDA/etc/profile.d/conda.sh in the script before "
         "`conda activate`, or start by `conda run -n ENVIRONMENT`."),
        (r"torchrun|accelerate|deepspeed|transformers-cli|hf|huggingface-cli|vllm|ray|wandb|tensorboard|composer|"
         r"lightning|fabric|colossalai|axolotl|llamafactory-cli|tune|ds_report|tqdm|pip3?|ninja",
         "{name} lies in the bin folder of the Python environment that it was installed into:" + IN_A_SCRIPT + " "
         "give its whole path, or install it there; torchrun is `python -m torch.distributed.run` too."),
        (r"sbatch|srun|salloc|scontrol|squeue|sinfo|sacct|scancel",
         "SLURM's commands are not on this machine, or not in this container: call {name} on a node of the cluster "
         "(PATH of its login shell), outside of the container. Without SLURM leave it out: bash SCRIPT runs the script "
         "here, and torchrun --nproc-per-node starts what srun would."),
        (r"qsub|qstat|qdel|bsub|bjobs|jsrun|aprun|condor_submit|flux|pjsub",
         "{name} is of a scheduler that is not on this machine, or not in this container: call it on a node of that "
         "cluster, or leave it out and start what it would start by hand."),
        (r"mpirun|mpiexec|orterun|prterun|mpicc|ompi_info|horovodrun",
         "No MPI is on the PATH there: load its module in the script (module load openmpi), or put its bin folder "
         "into PATH and its lib folder into LD_LIBRARY_PATH, on every node."),
        (r"nvcc|ptxas|nsys|ncu|cuda-gdb|compute-sanitizer",
         "{name} is of the CUDA toolkit, which is not on the PATH there: load its module (module load cuda) or put "
         "/usr/local/cuda/bin into PATH; in a container take an image of kind devel."),
        (r"nvidia-smi|nvidia-debugdump|nvidia-persistenced|nvidia-cuda-mps-control|nvidia-cuda-mps-server|nv-fabricmanager",
         "{name} comes with the driver: on a host install that; into a container the runtime brings it from the host "
         "(NVIDIA_DRIVER_CAPABILITIES has utility; docker: --gpus all; apptainer: --nv)."),
        (r"ibstat|ibv_devinfo|ibdev2netdev|ib_write_bw|rdma|ibstatus|show_gids",
         "{name} is of rdma-core, infiniband-diags or perftest: install that package on the node, or in the image."),
        (r"gcc|g\+\+|c\+\+|cc|clang|make|cmake|gfortran|ld|as",
         "No compiler or build tool {name} is there: install it (Debian, Ubuntu: build-essential, cmake; conda: gxx, "
         "cmake), or load its module."),
        (r"python|python3(?:\.\d+)?",
         "No {name} is on the PATH there: activate the environment in the script itself, or give its whole path; many "
         "systems have python3 only."),
        (r"numactl|taskset|jq|rsync|wget|curl|git|git-lfs|unzip|ssh|pdsh|tmux|screen|bc|time|ffmpeg|aria2c",
         "{name} is a package of the system: install it on every node or in the image, or take that line out."),
        (r"aws|gsutil|gcloud|azcopy|az|rclone|s3cmd|s5cmd|kubectl|helm|docker|apptainer|singularity|enroot",
         "{name} is not installed there, or not in this container: install it, give its whole path, or call it where "
         "it is."),
    )
)  # fmt: skip
"""Who brings a command, and where that is."""
ELSEWHERE = "what is written there can go to a larger file system, and old checkpoints and logs away"


def module_fix(module: str) -> tuple[str, dict[str, str]]:
    """The variant of the cause library-missing for a module that is not there, and its values."""
    top = module.partition(".")[0]
    if not top.isidentifier():
        return "", {}
    if told := brought_by(module):
        return "brought", {"how": told}
    if released := of_module(module):
        return "brought", {"how": released.how}
    if part := part_of_namespace(module):
        return "package", {"package": part}
    if top in OF_A_PROGRAM:
        return "own-module", {"name": top}
    if "." in module:  # Python names the first part that it does not find: what stands before it is there
        package = DISTRIBUTIONS.get(top, top.replace("_", "-"))
        if COMPILED.search(module):
            return "part", {"package": package, "module": module}
        return "part-release", {"package": package, "module": module, "top": top}
    return "package", {"package": DISTRIBUTIONS.get(top, top.replace("_", "-"))}


def extension_fix(library: str) -> tuple[str, dict[str, str]]:
    """The variant of the cause version-mismatch for a package's compiled file; "" where it is no package's."""
    match = PACKAGE.search(library)
    if match is None or match["name"] in ("torch", "nvidia"):
        return "", {}
    name = match["name"].partition(".")[0]
    if name in ("torchtext", "torchaudio"):
        return name, {}
    package = DISTRIBUTIONS.get(name, name.replace("_", "-"))
    return ("extension", {"package": package}) if package[0].isalpha() else ("", {})


def loader_fix(values: Mapping[str, str]) -> str:
    """The variant of the cause version-mismatch for whose library is too old or found too early; "" where it is that of
    no one whom the symbol shows."""
    symbol, library = values.get("symbol", ""), values.get("library", "")
    if symbol.startswith(("GLIBCXX", "CXXABI")):
        return "cxx"
    if symbol.startswith("GLIBC_"):
        return "libc"
    if symbol.startswith("iJIT_"):
        return "mkl"
    if symbol.startswith("nccl") and OF_TORCH.search(library):
        return "nccl-first"
    if symbol.startswith("__nvJitLink") or OF_NVIDIA.search(library):
        return "cuda-libraries"
    return "torch-first" if symbol.startswith("THP") and not OF_TORCH.search(library) else ""


def room_fix(path: str) -> tuple[str, dict[str, str]]:
    """The variant of the cause disk-full for a path, and its values."""
    plain = path.strip("'\"")
    return "path", {"path": plain, "how": setting_of(plain) or ELSEWHERE}


def setting_of(path: str) -> str:
    """What moves elsewhere what is written there; empty where no setting is known to."""
    return next((setting for words, setting in SETTINGS if words.search(path)), "")


def device_of(path: str) -> str:
    """Whose driver makes that file; empty where it is no device's."""
    return next((of for words, of in DEVICES if words.search(path)), "")


def library_fix(message: str) -> tuple[str, dict[str, str]] | None:
    """The same for a shared library that the dynamic loader did not find; None where it is none."""
    match = SHARED_OBJECT.search(message)
    if match is None:
        return None
    path = message[: match.end("library")].rpartition(" ")[2].strip("'\"")
    if "/" in path and not path.startswith(("/usr/", "/lib", "/opt/")) and "-packages/" not in path:
        return "own-library", {"path": path}
    variant, values = by_values("library-missing", "shared", match.groupdict())
    return variant, {**match.groupdict(), **values}


def command_fix(name: str) -> tuple[str, dict[str, str]]:
    """The variant of the cause library-missing for a command that is not found, and its values."""
    last = name.rpartition("/")[2]
    told = next((of for words, of in COMMANDS if words.match(last)), "")
    return ("command-of", {"how": told.format(name=last)}) if told else ("", {})


SHARED_OBJECT = lazy_re(r"(?P<library>lib[\w.+-]{1,80}\.so(?:\.\d{1,4}){0,3}): cannot open shared object file")
"""The dynamic loader's (elf/dl-load.c)."""
OF_TORCH_ITSELF = lazy_re(r"^lib(?:torch|c10|shm\b)")
BESIDE_CUDA = lazy_re(r"^lib(?P<part>cudnn|nccl)(?:_\w{1,30})?\.so\.(?P<number>\d{1,2})\b")
"""NVIDIA's libraries that count their releases apart from CUDA's."""
OF_CUDA = lazy_re(r"^lib(?P<name>[A-Za-z]+)\.so\.(?P<number>\d{1,2})\b")
CUDA_PARTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    **dict.fromkeys(("cublas", "cublasLt"), ("cublas", {"11": "11", "12": "12", "13": "13"})),
    "cudart": ("cuda-runtime", {"11": "11", "12": "12", "13": "13"}),
    "cufft": ("cufft", {"10": "11", "11": "12", "12": "13"}),
    "cusparse": ("cusparse", {"11": "11", "12": "12"}),
    "nvrtc": ("cuda-nvrtc", {"11": "11", "12": "12", "13": "13"}),
    "cusparseLt": ("cusparselt", {"0": "12"}),
    "nvJitLink": ("nvjitlink", {"12": "12", "13": "13"}),
}
"""A library of the CUDA toolkit: the part of pip's nvidia-PART-cuN, and by its number the toolkit (its release notes,
and the wheels' contents)."""


def cuda_part(library: str) -> dict[str, str]:
    """Values for the toolkit that has this library; empty: not told by its name."""
    match = OF_CUDA.match(library)
    part, toolkits = CUDA_PARTS.get(match["name"] if match else "", ("", {}))
    toolkit = toolkits.get(match["number"], "") if match else ""
    return {"part": part, "toolkit": toolkit} if toolkit else {}


BY_REASON: Mapping[tuple[str, str], tuple[tuple[re.Pattern[str], str], ...]] = {
    ("node-lost", "launch"): (
        (lazy_re(r"(?i)credential|munge|authentication"), "launch-credential"),
        (lazy_re(r"(?i)prolog"), "launch-prolog"),
        (lazy_re(r"(?i)layout tasks|more processors|CPU count|memory|cpu bind"), "launch-layout"),
        (lazy_re(r"(?i)user (?:id )?not found|invalid user|uid"), "launch-user"),
        (lazy_re(r"(?i)timed out|connection|communication|connect|no response"), "launch-unreached"),
    ),
    ("no-gpu-visible", "driver"): (
        (lazy_re(r"device rules|device filters|bpf|devices\.allow"), "no-cgroups"),
        (lazy_re(r"(?i)unknown device"), "no-such-gpu"),
        (lazy_re(r"nvcgo rpc error: timed out"), "slow-helper"),
        (lazy_re(r"(?i)timed out"), "slow-driver"),
        (lazy_re(r"read-only file system"), "read-only"),
        (lazy_re(r"no space left"), "no-room"),
        (lazy_re(r"(?i)permission denied|operation not permitted"), "denied"),
        (lazy_re(r"driver/library version mismatch"), "host-reload"),
        (lazy_re(r"nvml error: (?!driver not loaded)|(?i:unknown error|gpu is lost)"), "nvml"),
        (lazy_re(r"(?i)stat failed|no such file"), "host-file"),
    ),
    ("scheduler-refused", "controller"): ((lazy_re(r"(?i)munge|authentication"), "munge"),),
    ("scheduler-refused", "pod"): (
        (lazy_re(r"untolerated taint|had taints? \{?|tolerat"), "pod-taint"),
        (lazy_re(r"(?i)persistentvolumeclaim|PersistentVolumeClaims|volume node affinity"), "pod-volume"),
        (lazy_re(r"(?i)node affinity|node selector|affinity/selector"), "pod-selector"),
    ),
}
"""By the reason that the line itself gives: slurm_errno.c's texts, the scheduler's plugins of Kubernetes."""


BY_LINE: Mapping[tuple[str, str], tuple[tuple[re.Pattern[str], str], ...]] = {
    ("container-not-started", ""): (
        (lazy_re(r"nvidia-container-cli"), "enroot-cli"),
        (lazy_re(r"--container-mounts: invalid format"), "mounts-form"),
    ),
    ("container-not-started", "sandbox"): (
        (lazy_re(r"no runtime for"), "sandbox-runtime"),
        (lazy_re(r"sandbox image"), "sandbox-image"),
        (lazy_re(r"no space left"), "sandbox-room"),
        (lazy_re(r"cgroupsPath|systemd cgroups"), "sandbox-cgroup"),
        (
            lazy_re(r"assign an IP address|no (?:more )?IP addresses|allocate for range|no available IP"),
            "sandbox-address",
        ),
        (lazy_re(r"network for (?:sandbox|pod)|(?i:\bcni\b)|plugin type="), "sandbox-network"),
    ),
    ("scheduler-refused", "admission"): (
        (lazy_re(r"(?i)gpu is lost|fallen off|reset required"), "admission-lost"),
        (lazy_re(r"(?i)\bnvml\b"), "admission-nvml"),
        (lazy_re(r"transport is closing|error reading from server|code = Unavailable"), "admission-plugin"),
        (lazy_re(r"TopologyAffinityError|SMTAlignmentError"), "admission-place"),
        (lazy_re(r"\bOutOf(?:cpu|memory|pods|ephemeral)"), "admission-room"),
    ),
    ("scheduler-refused", "pod"): (
        (lazy_re(r"Insufficient[^\n]{0,200}?(?:taint|affinity|selector)"), "pod-both"),
        (lazy_re(r"(?:taint|affinity|selector)[^\n]{0,200}?Insufficient"), "pod-both"),
        (lazy_re(r"Too many pods"), "pod-count"),
        (lazy_re(r"free ports"), "pod-ports"),
    ),
    ("xid-gpu-lost", "reset-gpu"): ((lazy_re(r"\bXid \S{1,30}: (?:119|120), "), "gsp"),),
    ("gpu-program-fault", ""): (
        (lazy_re(r"\bXid \S{1,30}: 13, "), "xid-13"),
        (lazy_re(r"\bXid \S{1,30}: 31, "), "xid-31"),
    ),
    ("library-missing", ""): ((lazy_re(r"; '[\w.]{1,80}' is not a package"), "no-package"),),
    ("disk-full", "evicted"): ((lazy_re(r"node was low on resource"), "evicted-node"),),
    ("firewall-ephemeral-ports", ""): (
        (lazy_re(r"(?i)connection refused"), "refused"),
        (lazy_re(r"gloo|connectFullMesh"), "gloo"),
    ),
    ("image-not-pulled", ""): (
        (lazy_re(r"toomanyrequests|\b429\b|rate limit"), "rate"),
        (lazy_re(r"no space left"), "room"),
        (lazy_re(r"x509|certificate"), "certificate"),
        (lazy_re(r"HTTP response to HTTPS client"), "plain"),
        (lazy_re(r"size validation|unexpected commit digest|unexpected EOF|checksum"), "damaged"),
        (lazy_re(r"no match for platform|no matching manifest for"), "platform"),
        (
            lazy_re(
                r"i/o timeout|TLS handshake timeout|no such host|connection (?:refused|reset)|no route to "
                r"host|deadline "
                r"exceeded|server misbehaving|network is unreachable"
            ),
            "unreached",
        ),
        (lazy_re(r"(?i)authoriz|authentic|denied|forbidden|\b40[13]\b|insufficient_scope|docker login"), "login"),
        (lazy_re(r"(?i)not ?found|manifest unknown|\b404\b|invalid reference|InvalidImageName|parse image"), "name"),
    ),
    ("volume-not-mounted", ""): (
        (lazy_re(r"reason given by server: No such file"), "no-export"),
        (lazy_re(r"helper program|mount\.\w{2,10}: (?:command )?not found"), "helper"),
        (lazy_re(r"\bmount\b[^\n]{0,400}No such device|unknown filesystem type"), "kernel"),
        (lazy_re(r"access denied by server|AccessDenied|reason given by server: Permission"), "denied"),
        (lazy_re(r"list of registered CSI drivers|does not contain driver"), "csi"),
        (lazy_re(r"Multi-Attach|already (?:used by|attached to|exclusively)"), "attached"),
        (lazy_re(r"hostPath type check failed"), "host-path"),
        (lazy_re(r"references non-existent (?:config|secret) key"), "key"),
        (
            lazy_re(
                r"mount[^\n]{0,80}(?:[Cc]onnection (?:timed out|refused)|No route to host)|Failed to resolve|Name or "
                r"service not known"
            ),
            "unreached",
        ),
    ),
}
"""By what stands anywhere in the line, or in those with which it goes on: kubelet's events quote whoever refused."""


def by_line(cause: str, variant: str, text: str) -> str:
    """The variant that the line's own reason shows; the same where it shows none."""
    return next((of for words, of in BY_LINE.get((cause, variant), ()) if words.search(text)), variant)


OF_OLD_LAUNCHER = lazy_re(r"--local[-_]rank\b")
OF_ASSERTIONS: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_re(r"\bt >= 0 && t < n_classes|\bcur_target >= 0 && cur_target < n_classes|\bt != ignore_index"), "label"),
    (lazy_re(r"input_val >= zero && input_val <= one|\btarget_val >= zero && target_val <= one"), "between-0-and-1"),
    (lazy_re(r"probability tensor contains either|\bval >= zero\b|sum of probabilities"), "no-probability"),
    (lazy_re(r"srcIndex < srcSelectDimSize|index out of bounds|\bidx(?:_dim)? (?:>=|<)|\bdstIndex <"), "index"),
)
"""By what a kernel of torch asserts (aten/src/ATen/native/cuda: Loss.cu, NLLLoss2d.cu, TensorCompare.cu,
MultinomialKernel.cu, Indexing.cu, IndexKernel.cu, ScatterGatherKernel.cu)."""


def by_values(cause: str, variant: str, values: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """A narrower variant than a symptom's own, with its values; the same where there is none."""
    if (cause, variant) == ("gpu-program-fault", "assertion"):
        of_kernel = (of for words, of in OF_ASSERTIONS if words.search(values.get("what", "")))
        return next(of_kernel, variant), {}
    if (cause, variant) == ("program-error", "arguments") and OF_OLD_LAUNCHER.search(values.get("reason", "")):
        return "arguments-rank", {}
    for words, by_reason in BY_REASON.get((cause, variant), ()):
        if words.search(values.get("reason", "")):
            return by_reason, {}
    if cause == "library-missing" and variant == "shared" and OF_TORCH_ITSELF.match(values.get("library", "")):
        return "shared-torch", {}
    if (cause, variant) == ("xid-gpu-lost", "reboot") and values.get("earlier", "") in map(str, OF_NVLINK):
        return "check-nvlink", {}
    if (cause, variant) == ("scheduler-refused", "devices") and values.get("step"):
        return "step-devices", {}
    if cause == "library-missing" and variant == "shared" and (match := BESIDE_CUDA.match(values.get("library", ""))):
        return "shared-nvidia", match.groupdict()
    if cause == "library-missing" and variant == "shared" and (part := cuda_part(values.get("library", ""))):
        return "shared-cuda", part
    if (
        cause == "library-missing"
        and variant in ("command", "program")
        and (of := command_fix(values.get("name", "")))[0]
    ):
        of_image = {"how": of[1]["how"].replace(IN_A_SCRIPT, "")}  # of what a container starts there is no script
        return ("program-of", of_image) if variant == "program" else of
    if cause == "library-missing" and not variant and values.get("module"):
        return module_fix(values["module"])
    if cause == "version-mismatch" and variant == "library" and (of_loader := loader_fix(values)):
        return of_loader, {}
    if cause == "version-mismatch" and variant == "library" and values.get("library"):
        narrower = extension_fix(values["library"])
        return narrower if narrower[0] else (variant, {})
    if cause == "scheduler-refused" and not variant and values.get("reason"):
        return of_refusal(values["reason"]), {}
    if cause == "driver-mismatch" and not variant and (found := values.get("found", "")):  # CUDA 12.4 is 12040
        major = f"{int(found) // 1000}"
        return "too-old", {"major": major, "newest": f"{major}.{int(found) % 1000 // 10}"}
    if cause == "disk-full" and not variant and values.get("path"):
        return room_fix(values["path"])
    return variant, {}
