"""What compilers, TensorFlow, JAX, TensorRT, llama.cpp, renderers, Open MPI and Fortran's programs say."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "cudnn-older-than-built",
        words=r"Loaded runtime CuDNN library: (?P<there>[\d.]+\d) but source was compiled with: (?P<wanted>[\d.]+\d)",
        lines=True,
        fix=(
            "cuDNN {there} is what is found, and this build of TensorFlow or JAX wants {wanted} or a newer one of the "
            "same major number: python -m pip install --upgrade 'nvidia-cudnn-cu12>={wanted}' (cu11, cu13: of the CUDA "
            "that it was built for), and take folders with another cuDNN out of LD_LIBRARY_PATH. A torch beside it "
            "pins a cuDNN of its own: give each its environment where the two do not agree."
        ),
        commands=(command("python -m pip list | grep -i cudnn"),),
        kind="dependency-mismatch",
        source="xla stream_executor/cuda/cuda_dnn.cc (CudnnSupport::Init)",
        sample="E0000 cuda_dnn.cc:522] Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.",
        counter="Loaded cuDNN version 90300",
    ),
    Remedy(
        "no-libdevice",
        words=r"libdevice not found at \./libdevice\.10\.bc|Can't find libdevice directory",
        lines=True,
        fix=(
            "XLA looks for the CUDA toolkit's nvvm/libdevice/libdevice.10.bc and finds no toolkit: name its folder "
            "(export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda, or the module's CUDA_HOME), or install it "
            "beside (conda install -c nvidia cuda-nvcc; pip: nvidia-cuda-nvcc-cu12)."
        ),
        commands=(command("ls -d /usr/local/cuda*/nvvm/libdevice"),),
        kind="dependency-mismatch",
        source="xla service/gpu/llvm_gpu_backend (GetLibdevicePath), service/gpu/nvptx_compiler.cc",
        sample="InternalError: libdevice not found at ./libdevice.10.bc [Op:Pow]",
        counter="using libdevice of /usr/local/cuda",
    ),
    Remedy(
        "jax-and-jaxlib",
        words=(
            r"jaxlib version (?P<there>[\d.]+\w*) is newer than and incompatible with jax version (?P<wanted>[\d.]+\d)",
            r"jaxlib is version (?P<there>[\d.]+), but this version of jax requires version >= ?(?P<wanted>[\d.]+\d)",
        ),
        fix=(
            "jax and jaxlib are of two releases (jaxlib {there}; {wanted} is wanted): install both at once and of one "
            "number, python -m pip install 'jax[cuda12]=={wanted}' (or --upgrade 'jax[cuda12]'), and what pins one of "
            "them (flax, optax, the project's requirements) for the same."
        ),
        commands=(command("python -m pip list | grep -i jax"),),
        kind="dependency-mismatch",
        source="jax _src/lib/__init__.py (check_jaxlib_version)",
        sample="RuntimeError: jaxlib version 0.4.23 is newer than and incompatible with jax version 0.4.20.",
        counter="RuntimeError: jaxlib is not there",
    ),
    Remedy(
        "nvcc-architecture",
        words=r"Unsupported gpu architecture '(?P<name>(?:compute|sm)_\w{2,5})'",
        lines=True,
        fix=(
            "This nvcc does not know {name}: an architecture that is newer than it wants a newer toolkit (89 and 90: "
            "CUDA 11.8; 100 and 120: 12.8), and old ones were dropped (35 in CUDA 12, below 75 in CUDA 13). Take a "
            "toolkit that has it, or leave it out of what is built (TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES, "
            "-gencode)."
        ),
        commands=(command("nvcc --version; nvcc --list-gpu-arch"),),
        kind="dependency-mismatch",
        source="nvcc's driver; CUDA toolkit release notes",
        sample="nvcc fatal   : Unsupported gpu architecture 'compute_89'",
        counter="nvcc fatal   : Unknown option '-std=c++20'",
    ),
    Remedy(
        "no-rust",
        words=r"can't find Rust compiler|\bcargo, the Rust package manager, is not installed\b",
        lines=True,
        fix=(
            "pip found no wheel for this Python and platform, and builds the package from its Rust sources: take a "
            "newer pip and a release that has a wheel for this Python (or a Python that the pinned release has one "
            "for); else install Rust (https://rustup.rs, or conda install -c conda-forge rust)."
        ),
        commands=(command("python -m pip install --upgrade pip"),),
        kind="dependency-mismatch",
        source="setuptools-rust rustc_info.py; maturin",
        sample="error: can't find Rust compiler",
        counter="error: rustc failed",
    ),
    Remedy(
        "compiler-too-old",
        words=(
            r"too old version of GCC\. We need (?P<wanted>GCC \d{1,2})",
            r"(?P<wanted>C\+\+\d\d)(?: or later)? compatible compiler is required",
            r"#error [^\n]{0,60}\b(?:requires|needs)[^\n]{0,30}(?P<wanted>C\+\+ ?\d\d|GCC \d{1,2})",
        ),
        lines=True,
        fix=(
            "It wants {wanted}: take a compiler that has it (module load gcc, conda install -c conda-forge "
            "gxx_linux-64; name it in CC and CXX, and to nvcc by -ccbin). Where the compiler is new enough, the "
            "package sets an older standard itself (-std=c++14 in its setup.py): take its newer release, or write "
            "-std=c++17 there."
        ),
        commands=(command("gcc --version"),),
        kind="dependency-mismatch",
        source="torch c10/util/C++17.h, torch/csrc/api/include/torch/all.h",
        sample='error: #error "You\'re trying to build PyTorch with a too old version of GCC. We need GCC 9 or later."',
        counter="#error -- unsupported GNU version! gcc versions later than 12 are not supported!",
    ),
    Remedy(
        "engine-of-another",
        words=r"Version tag does not match\b|engine plan file is not compatible with this version of TensorRT|"
        r"engine plan file is generated on an incompatible device",
        lines=True,
        fix=(
            "An engine of TensorRT runs with the release, and on the kind of GPU, that it was built with: build it "
            "again here from the model (ONNX, checkpoint), or install the TensorRT release that built it."
        ),
        commands=(command("python -m pip list | grep -i tensorrt"),),
        kind="dependency-mismatch",
        source="TensorRT's developer guide (version compatibility), support matrix",
        sample="[TRT] [E] IRuntime::deserializeCudaEngine: Error Code 1: Serialization (Version tag does not match. "
        "Note: Current Version: 239, Serialized Engine Version: 236)",
        counter="[TRT] [I] Loaded engine size: 12 MiB",
    ),
    Remedy(
        "gguf-newer",
        words=r"unknown (?:model architecture|pre-tokenizer type): '[\w.-]{1,60}'",
        lines=True,
        fix=(
            "The llama.cpp in this program (ollama, llama-cpp-python, LM Studio) is older than the model: take a newer "
            "release of it, or build it anew from its sources; for a model that it never knew take another format."
        ),
        kind="dependency-mismatch",
        source="llama.cpp src/llama-model.cpp, src/llama-vocab.cpp (format \"unknown pre-tokenizer type: '%s'\")",
        sample="llama_model_load: error loading model: error loading model architecture: unknown model architecture: "
        "'qwen3next'",
        counter="llama_model_loader: - kv 0: general.architecture str = llama",
    ),
    Remedy(
        "ggml-memory",
        words=r"\bggml_\w{3,60}: [^\n]{0,120}(?:cudaMalloc failed: )?out of memory\b|"
        r"\bunable to allocate \w{2,20} buffer\b|\bfailed to allocate (?:compute buffers|buffer for kv cache)\b",
        lines=True,
        fix=(
            "The layers, the context's cache and the buffers of llama.cpp do not fit into that GPU together: offload "
            "fewer layers (-ngl; ollama: num_gpu), take a smaller context (-c; num_ctx) or batch (-b), a cache of "
            "fewer bits (-ctk, -ctv) or a smaller quantization, and end what else holds the GPU's memory."
        ),
        commands=(command("nvidia-smi"),),
        kind="gpu-memory",
        source="ggml src/ggml-cuda/ggml-cuda.cu (ggml_backend_cuda_buffer_type_alloc_buffer), llama.cpp "
        "src/llama-context.cpp",
        sample="ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9216.00 MiB on device 0: cudaMalloc failed: out "
        "of memory",
        counter="ggml_cuda_init: found 1 CUDA devices",
    ),
    Remedy(
        "pydantic-two",
        words=r"`(?P<name>\w{1,60})` has been (?:moved to the `pydantic-settings` package|removed in V2)|"
        r"If you use `@root_validator` with pre=False|"
        r"A non-annotated attribute was detected",
        fix=(
            "What imports it was written for pydantic 1: python -m pip install 'pydantic<2', or a newer release of the "
            "package whose file the traceback names, which was made for pydantic 2."
        ),
        commands=(command("python -m pip install 'pydantic<2'"),),
        kind="dependency-mismatch",
        source="pydantic 2 _migration.py, deprecated/class_validators.py, _internal/_model_construction.py",
        sample="pydantic.errors.PydanticImportError: `BaseSettings` has been moved to the `pydantic-settings` package.",
        counter="pydantic.errors.PydanticUserError: the model is wrong",
    ),
    Remedy(
        "no-display-of-gpu",
        words=r"Cannot initialize a EGL device display|unable to find CUDA device \d+ among \d+ EGL devices|"
        r"unable to find EGL device for CUDA device|Unable to create windowless context|"
        r"\bEGL_NOT_INITIALIZED\b|\bno EGL devices found\b|Failed to initialize OpenGL\b|"
        r"The DISPLAY environment variable is missing|gladLoadGL error",
        lines=True,
        fix=(
            "Drawing without a display goes through EGL, and EGL has no device of that GPU: install the part of the "
            "driver that draws (libEGL_nvidia.so.0, libnvidia-gl of the driver's release) and libegl1, have "
            "/usr/share/glvnd/egl_vendor.d/10_nvidia.json name it (__EGL_VENDOR_LIBRARY_FILENAMES for a file "
            "elsewhere, as in conda), and give a container NVIDIA_DRIVER_CAPABILITIES=all, which has graphics in it. "
            "MuJoCo draws on the CPU with MUJOCO_GL=osmesa, and on the GPU with MUJOCO_GL=egl."
        ),
        commands=(command("ls /usr/share/glvnd/egl_vendor.d; ldconfig -p | grep -i egl"),),
        kind="driver",
        blame="environment",
        source="magnum Platform/WindowlessEglApplication.cpp; mujoco egl/__init__.py; glvnd's EGL vendors",
        sample="WindowlessEglApplication::create(): unable to find CUDA device 0 among 2 EGL devices in total",
        counter="EGL is used to draw",
    ),
    Remedy(
        "mpi-as-root",
        words=r"\b(?P<name>mpirun|mpiexec|orterun|prun|prterun) has detected an attempt to run as root",
        lines=True,
        fix=(
            "Open MPI refuses to start as root: {name} --allow-run-as-root ..., or OMPI_ALLOW_RUN_AS_ROOT=1 and "
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 in the environment (Open MPI 5: the same with PRTE_), or start it as a "
            "user."
        ),
        kind="launcher",
        source="Open MPI orte/tools/orterun; prrte src/mca/schizo/base (prte_schizo_base_root_error_msg)",
        sample="mpirun has detected an attempt to run as root.",
        counter="mpirun has detected 4 hosts",
    ),
    Remedy(
        "openib-queue-pair",
        words=r"There was an error initializing an OpenFabrics device|process failed to create a queue pair\b",
        lines=True,
        fix=(
            "Open MPI's old openib transport does not get on with that card: leave InfiniBand to UCX (mpirun --mca pml "
            "ucx --mca btl ^openib,uct), and have the limit of locked memory unlimited for the job (ulimit -l; "
            "SLURM: it passes its daemon's). TCP alone: --mca pml ob1 --mca btl tcp,self."
        ),
        commands=(command("ulimit -l"), command("ibv_devinfo")),
        kind="rdma",
        source="Open MPI 4 opal/mca/btl/openib/help-mpi-btl-openib.txt, help-mpi-btl-openib-cpc-base.txt",
        sample="WARNING: There was an error initializing an OpenFabrics device.",
        counter="btl: openib: using port 1",
    ),
    Remedy(
        "fortran-memory",
        words=r"forrtl: severe \(41\): insufficient virtual memory|"
        r"forrtl: severe \(179\): Cannot allocate array|\bError allocating \d{1,20} bytes\b",
        lines=True,
        fix=(
            "An array of the program does not fit into the memory that its process may have: give the job more "
            "[SLURM: --mem; PBS: -l mem=...; LSF: -M], start fewer processes on a node or take more nodes, and have "
            "ulimit -v and ulimit -s unlimited."
        ),
        commands=(command("free -h; ulimit -a"),),
        kind="host-memory",
        blame="user",
        source="Intel Fortran's run-time errors 41, 179; libgfortran runtime/memory.c",
        sample="forrtl: severe (41): insufficient virtual memory",
        counter="forrtl: severe (24): end-of-file during read, unit 5",
    ),
    Remedy(
        "notebook-cuda",
        words=r"CUDA has been initialized before the `notebook_launcher` could create|"
        r"you need to restart your notebook and make sure no cells initializes CUDA|"
        r"To launch a multi-GPU training from your notebook, the `Accelerator` should only be initialized",
        fix=(
            "Processes that are forked from a notebook cannot use CUDA once it has: start the kernel again, and have "
            "no cell or import before notebook_launcher touch the GPU (no .to('cuda'), torch.cuda calls, "
            "Accelerator(), or packages that ask for the GPU when they are imported); make model and Accelerator "
            "inside of the function that is launched. Where nothing of yours does, a newer accelerate may not either."
        ),
        kind="launcher",
        source="accelerate launchers.py (notebook_launcher)",
        sample="RuntimeError: CUDA has been initialized before the `notebook_launcher` could create a forked process.",
        counter="RuntimeError: Cannot re-initialize CUDA in forked subprocess.",
    ),
    Remedy(
        "other-platform",
        words=r"no matching manifest for (?P<name>[\w/.-]{3,60})",
        lines=True,
        fix=(
            "The registry has that image, and no build of it for {name}: take a tag that has one, build it for this "
            "machine, or name the platform for which there is one (--platform linux/amd64), which runs here only under "
            "emulation and without the GPU."
        ),
        commands=(command("uname -m"),),
        kind="image",
        source="moby distribution/pull_v2.go; containerd platforms",
        sample="docker: no matching manifest for linux/arm64/v8 in the manifest list entries.",
        counter="docker: manifest for lab/x:latest not found: manifest unknown",
    ),
    Remedy(
        "no-user-namespace",
        words=r"(?i)failed to create user namespace|user namespaces? (?:is |are )?(?:disabled|not (?:enabled|allowed))|"
        r"unprivileged user namespaces",
        lines=True,
        fix=(
            "The container is to run without root's help, and that node lets no user make a user namespace: who runs "
            "it raises user.max_user_namespaces (and kernel.unprivileged_userns_clone where that is there), allows it "
            "where AppArmor restricts it (kernel.apparmor_restrict_unprivileged_userns, Ubuntu since 24.04), or "
            "installs apptainer with its setuid part (apptainer-suid)."
        ),
        commands=(command("sysctl -e user.max_user_namespaces kernel.unprivileged_userns_clone"),),
        kind="permission",
        blame="node",
        source="apptainer cmd/starter/c/starter.c; enroot bin/enroot-nsenter; apptainer's admin guide",
        sample="ERROR  : Failed to create user namespace: user namespace disabled",
        counter="INFO: using the user namespace of 1000",
    ),
    Remedy(
        "admission-refused",
        words=r"\bis forbidden: (?!User )(?P<why>[^\n]{4,200}?)\s*$",
        lines=True,
        fix=(
            "The cluster does not admit the object, whoever sends it: {why}. Write its template as that asks (a class, "
            "account or queue that is there, no more than the quota leaves), or have the cluster's rule changed."
        ),
        commands=(command("kubectl get runtimeclass,priorityclass,resourcequota,limitrange"),),
        kind="config",
        source="kubernetes apiserver pkg/admission/errors.go (NewForbidden), plugin/pkg/admission",
        sample='Error creating: pods "train-" is forbidden: pod rejected: RuntimeClass "nvidia" not found',
        counter='pods is forbidden: User "system:serviceaccount:ml:default" cannot list resource "pods"',
    ),
)
