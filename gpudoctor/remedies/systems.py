"""What the machine around a program lacks: libraries of the system, Windows' memory, a shell's set-up, the commands of
a scheduler; and builds that were made without a part.

Packages by their files as Debian, Fedora, conda-forge and the package index have them.
"""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

NOT_OPENED = r": cannot open shared object file"
_LIBRARIES: tuple[tuple[str, str, str], ...] = (
    (
        "gl",
        r"libGL\.so|libEGL\.so|libOpenGL\.so",
        "libgl1 libegl1 (mesa-libGL); for OpenCV opencv-python-headless needs none",
    ),
    ("glib", r"libgthread-2|libglib-2", "libglib2.0-0 (glib2)"),
    (
        "x11",
        r"libSM\.so|libICE\.so|libXext\.so|libXrender\.so|libX11\.so|libxcb",
        "libsm6 libxext6 libxrender1 libx11-6",
    ),
    ("sound", r"libsndfile\.so|libportaudio\.so|libsox\.so", "libsndfile1, libportaudio2 or libsox-dev"),
    (
        "ffmpeg",
        r"libswscale\.so|libav(?:codec|format|util|device|filter)\.so|libsw(?:scale|resample)\.so",
        "ffmpeg, in the release that it was built for",
    ),
    (
        "mpi",
        r"libmpi\.so|libmpi(?:cxx|_cxx|_usempif08|\.so|\w{0,10}\.so)|libopen-rte|libpmix\.so|libprrte\.so",
        "openmpi-bin libopenmpi3 (conda: openmpi), or load its module",
    ),
    (
        "verbs",
        r"libibverbs\.so|librdmacm\.so|libmlx5\.so|libefa\.so|libibumad\.so",
        "libibverbs1 librdmacm1 ibverbs-providers (rdma-core)",
    ),
    ("fabric", r"libfabric\.so|libuc[pst]\.so|libucc\.so|libpsm2\.so", "libfabric1 or libucx0 (conda: libfabric, ucx)"),
    ("numa", r"libnuma\.so|libhwloc\.so", "libnuma1 (numactl-libs) and libhwloc15"),
    ("aio", r"libaio\.so|liburing\.so", "libaio1 libaio-dev (libaio-devel)"),
    ("omp", r"libgomp\.so|libomp\.so|libiomp5|libmkl_\w+\.so", "libgomp1 or libomp5; of MKL: pip's mkl, conda's mkl"),
    (
        "ssl",
        r"libssl\.so|libcrypto\.so",
        "the OpenSSL of that release (libssl3, or libssl1.1 of an older system), or build the program anew",
    ),
    ("crypt", r"libcrypt\.so|libxcrypt", "libcrypt1 (libxcrypt-compat)"),
    (
        "python",
        r"libpython3\.11|libpython3\.\d{1,2}",
        "libpython3.N of that Python, or put its lib folder into LD_LIBRARY_PATH",
    ),
    (
        "tensorrt",
        r"libnvinfer\.so|libnvinfer\w{0,20}\.so|libnvonnxparser\.so|libnvparsers\.so",
        "tensorrt in that release (python -m pip install tensorrt==N.*)",
    ),
    (
        "cupti",
        r"libcupti\.so|libnvToolsExt\.so|libnvJitLink\.so|libnvrtc\w{0,20}\.so",
        "nvidia-cuda-cupti, nvidia-nvtx, nvidia-nvjitlink or nvidia-cuda-nvrtc of that CUDA",
    ),
    (
        "fortran",
        r"libgfortran\.so|libquadmath\.so|libopenblas\.so|liblapack\.so|libblas\.so",
        "libgfortran5 libopenblas0 (conda: libgfortran, openblas)",
    ),
    (
        "tcmalloc",
        r"libtcmalloc\.so|libtcmalloc\w{0,10}\.so|libjemalloc\.so",
        "libgoogle-perftools4 or libjemalloc2, or take it out of LD_PRELOAD",
    ),
    (
        "hdf",
        r"libhdf5\.so|libhdf5\w{0,10}\.so|libnetcdf\.so|libleveldb\.so|liblmdb\.so",
        "libhdf5-103, libnetcdf19, libleveldb1d or liblmdb0",
    ),
    (
        "terminal",
        r"libtinfo\.so|libncurses\w?\.so|libreadline\.so|libffi\.so",
        "libtinfo6 (libtinfo5 for old builds), libffi8 (libffi7)",
    ),
)
"""Name, files, and what brings them."""


def _first(files: str) -> str:
    return files.partition("|")[0].replace("\\", "").removesuffix(".so")


REMEDIES = (
    *(
        Remedy(
            f"system-{name}",
            words=rf"(?P<library>(?:{files})[\w.+-]{{0,40}}){NOT_OPENED}",
            fix=f"The system (or image) lacks {{library}}: install {packages}, on all nodes, or a build of the "
            f"package "
            "that brings its own; where it is there, name its folder in LD_LIBRARY_PATH.",
            kind="import",
            lines=True,
            source="ld.so(8); the file lists of Debian's packages",
            sample=f"ImportError: {_first(files)}.so.1{NOT_OPENED}: No such file or directory",
            counter="ImportError: libhere.so.1: cannot open shared object file: No such file or directory",
        )
        for name, files, packages in _LIBRARIES
    ),
    Remedy(
        "paging-file",
        words=r"\[WinError 1455\]|The paging file is too small|0xC000012D",
        fix="Windows reserves memory for each process that loads torch: make the paging file larger (System, "
        "Advanced, Performance, Virtual memory), or take fewer workers of data loaders (num_workers=0).",
        kind="host-memory",
        blame="environment",
        lines=True,
        source="Windows' system error codes, ERROR_COMMITMENT_LIMIT",
        sample="OSError: [WinError 1455] The paging file is too small for this operation to complete.",
        counter="OSError: [WinError 126] The specified module could not be found.",
    ),
    Remedy(
        "session-memory",
        words=(
            r"(?i)session crashed after using all available (?:RAM|memory)|"
            r"kernel (?:appears to have )?died[^\n]{0,80}memory"
        ),
        fix="The notebook's machine ran out of memory: take a machine with more (high RAM), read the data in "
        "parts, load weights with low_cpu_mem_usage=True or straight to the GPU, and use fewer workers.",
        kind="host-memory",
        lines=True,
        source="Google Colab's and Jupyter's messages",
        sample="Your session crashed after using all available RAM.",
        counter="Your session is running.",
    ),
    Remedy(
        "conda-activate",
        words=(
            r"invalid choice: '(?:activate|deactivate)' \(choose from",
            r"Run 'conda init' before 'conda (?:de)?activate'|not been properly configured to use 'conda activate'",
        ),
        fix="conda activate is a function of the shell, which a script's shell does not have: write `eval "
        '"$(conda shell.bash hook)"` or `source FOLDER/etc/profile.d/conda.sh` before it, once `conda init` for '
        "shells of your own, or start by `conda run -n NAME`.",
        kind="config",
        lines=True,
        source="conda conda/cli/main.py, conda/exceptions.py (CommandNotFoundError)",
        sample="conda: error: argument COMMAND: invalid choice: 'activate' (choose from 'clean', 'compare')",
        counter="conda: error: unrecognized arguments: --yess",
    ),
    Remedy(
        "blanks-unquoted",
        words=r"error: unrecognized arguments: (?P<word>(?!-)[^\s-]\S{0,80})(?= \S)",
        fix="{word} stands behind no option: a value with blanks in it was split into words. Put the whole value in "
        "quotes, so that they reach the program (in a settings file and behind another launcher once more), or take "
        "the blanks out; a backslash that should go on with the line must be its last character.",
        kind="argument",
        blame="user",
        lines=True,
        source="Python's argparse (parse_args); the shell's splitting of words",
        sample="train.py: error: unrecognized arguments: red fox --save_as=a",
        counter="train.py: error: unrecognized arguments: --local-rank=0",
    ),
    Remedy(
        "build-isolation",
        words=(
            r"(?:ModuleNotFoundError: No module named '(?P<module>torch|numpy|packaging|wheel|psutil|pybind11|"
            r"Cython)')"
            r"[\s\S]{0,400}(?:error: (?:subprocess-exited-with-error|metadata-generation-failed)|"
            r"Getting requirements to build)",
            r"(?:Getting requirements to build wheel|get_requires_for_build_wheel|Preparing metadata|"
            r"prepare_metadata_for_build"
            r"|Failed to build)[\s\S]{0,3000}No module named '(?P<module>torch|numpy|packaging|psutil|pybind11|"
            r"Cython)'",
        ),
        fix="pip and uv build in an environment of its own, in which {module} is not, wherever else it is installed: "
        "with {module} in the environment itself build by that (python -m pip install --no-build-isolation PACKAGE), "
        "or take a wheel that fits torch, CUDA and Python.",
        kind="import",
        lines=True,
        source="pip src/pip/_internal/build_env.py; PEP 517",
        sample=(
            "Getting requirements to build wheel did not run successfully. ModuleNotFoundError: No module named 'torch'"
        ),
        counter="ModuleNotFoundError: No module named 'torch'",
    ),
    Remedy(
        "no-scheduler",
        words=(
            r"(?P<command>sbatch|srun|salloc|squeue|scontrol|sinfo|scancel|qsub|qstat|bsub|bjobs|jsrun|flux)"
            r"(?:: command not found|: not found|: No such file or directory)\s*$",
            r"command not found: (?P<command>sbatch|srun|salloc|squeue|scontrol|sinfo|scancel|qsub|qstat|bsub|"
            r"bjobs|jsrun|flux)",
            r"No such file or directory: '(?P<command>sbatch|srun|salloc|squeue|scontrol|sinfo|qsub|qstat|bsub)'",
        ),
        fix="{command} is the scheduler's, which this machine (or the container) has not: submit from a login "
        "node of the cluster, outside of containers; where there is no scheduler, choose a local launcher in the "
        "program's settings (submitit's local executor, hydra/launcher=basic), or start by torchrun.",
        commands=(command("command -v sbatch qsub bsub"),),
        kind="file-missing",
        lines=True,
        source="bash execute_cmd.c; submitit submitit/slurm/slurm.py",
        sample=("bash: sbatch: command not found", "FileNotFoundError: [Errno 2] No such file or directory: 'srun'"),
        counter="bash: torchrun: command not found",
    ),
    Remedy(
        "shared-tensors",
        words=r"[Ss]ome tensors share memory, this will lead to duplicate memory on disk",
        fix="A file of safetensors holds no weight twice, and tied weights (an embedding and the head) are two "
        "names of one: save by safetensors.torch.save_model or the model's own save_pretrained, name them in "
        "_tied_weights_keys, or save in torch's form (save_safetensors=False in TrainingArguments, "
        "safe_serialization=False in save_pretrained).",
        kind="checkpoint",
        source="safetensors bindings/python/py_src/safetensors/torch.py (_flatten)",
        sample=(
            "RuntimeError: Some tensors share memory, this will lead to duplicate memory on disk and "
            "potential differences"
        ),
        counter="RuntimeError: Some tensors are on the meta device",
    ),
    Remedy(
        "inotify-limit",
        words=r"(?i)inotify (?P<name>watch|instance)(?:es)? limit reached|limit on inotify (?P<which>watches) reached",
        lines=True,
        fix="No disk is full: the kernel's limit of files that one user may watch is reached. Raise it on the node, or "
        "watch fewer folders (let data, caches and checkpoints out).",
        commands=(command("sudo sysctl fs.inotify.max_user_watches=1048576 fs.inotify.max_user_instances=8192"),),
        kind="limits",
        source="inotify_add_watch(2), ENOSPC; watchdog observers/inotify_c.py (_raise_error)",
        sample="OSError: [Errno 28] inotify watch limit reached",
        counter="OSError: [Errno 28] No space left on device",
    ),
    Remedy(
        "built-without",
        words=r"\b(?:is |was |been |version )?(?:not|n't) (?:been )?(?:compiled|"
        r"built) with (?P<part>(?:the )?[\w .+-]{2,40}?)"
        r"(?: (?:support|enabled|backend))?(?:[.,;!]|$)",
        fix="That build has no part for {part}: take it away (python -m pip uninstall, all its variants), and install "
        "a build that has it (another wheel, conda's build for GPUs), or build it from its sources with that part.",
        commands=(command("python -m pip list"),),
        kind="dependency-mismatch",
        source="xgboost src/common/common.h; torch, OpenMPI, PyCUDA and others in the same words",
        sample="XGBoostError: XGBoost version not compiled with GPU support.",
        counter="XGBoostError: Check failed: valid",
    ),
)
