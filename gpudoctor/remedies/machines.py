"""What drivers, fabrics' libraries, schedulers' daemons and containers say of a machine that is not set up for it."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "ptx-newer",
        words=r"CUDA_ERROR_UNSUPPORTED_PTX_VERSION|Unsupported \.version \d|PTX JIT compilation failed|"
        r"cudaErrorUnsupportedPtxVersion",
        lines=True,
        fix=(
            "The CUDA toolkit that compiled this code is newer than the driver: update the driver, or take a build of "
            "the program (in conda cuda-version=..., cudatoolkit=...) for a CUDA that this driver knows; nvidia-smi's "
            "header names the newest."
        ),
        commands=(command("nvidia-smi"),),
        kind="driver",
        blame="environment",
        source="CUDA driver API, error 222; ptxas",
        sample="openmm.OpenMMException: Error loading CUDA module: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)",
        counter="PTX was compiled",
    ),
    Remedy(
        "fabric-manager-release",
        words=r"interface version (?P<there>[\d.]{7,20}\d) don't match with driver version (?P<wanted>[\d.]{7,20}\d)",
        lines=True,
        fix=(
            "Fabric Manager is {there} and the driver {wanted}, and they have to be of one number: install "
            "nvidia-fabricmanager in {wanted} exactly (and hold both back from updates), or the driver in {there}, "
            "then start it again."
        ),
        commands=(command("sudo systemctl restart nvidia-fabricmanager"),),
        kind="driver",
        source="NVIDIA Fabric Manager user guide (installing, driver package)",
        sample="NVIDIA GPU driver interface version 535.161.08 don't match with driver version 535.183.01. Please",
        counter="fabric manager is running with driver version 535.183.01",
    ),
    Remedy(
        "smi-finds-none",
        words=r"^No devices were found\s*$",
        lines=True,
        fix=(
            "nvidia-smi is given no GPU: ask the scheduler for some (SLURM: --gres=gpu:N; Kubernetes: nvidia.com/gpu "
            "under resources.limits), and have them handed into the container (docker: --gpus all; apptainer: --nv). "
            "Else the driver drives none: dmesg says why (NVRM lines: a GPU that failed or fell off "
            "the bus, one that wants the open kernel modules), and lspci whether the system sees one."
        ),
        commands=(command("lspci -nn | grep -i nvidia; sudo dmesg | grep -i nvrm | tail"),),
        kind="no-device",
        blame="node",
        source="nvidia-smi",
        sample="No devices were found",
        counter="No devices were found in the hostfile",
    ),
    Remedy(
        "no-hip-device",
        words=r"No HIP GPUs are available|hipErrorNoDevice|no ROCm-capable device is detected",
        lines=True,
        fix=(
            "ROCm sees no GPU: HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES name one that is not there (inside a "
            "container they count anew from 0: unset them), the container lacks /dev/kfd and /dev/dri, or the user is "
            "not in the groups render and video."
        ),
        commands=(command("rocminfo | grep gfx; id -nG; env | grep VISIBLE_DEVICES"),),
        kind="no-device",
        source="torch cuda/__init__.py; HIP hip_runtime_api.h; ROCm's docker guide",
        sample="RuntimeError: No HIP GPUs are available",
        counter="RuntimeError: No CUDA GPUs are available",
    ),
    Remedy(
        "tensorflow-without-libraries",
        words=r"Cannot dlopen some GPU libraries|Skipping registering GPU devices",
        lines=True,
        fix=(
            "TensorFlow found the GPU and not all CUDA libraries of its own release, and goes on without it; the lines "
            "before name them. Install these with it (python -m pip install 'tensorflow[and-cuda]'), or have their "
            "folders in LD_LIBRARY_PATH."
        ),
        commands=(command('python -c "import tensorflow as tf; print(tf.sysconfig.get_build_info())"'),),
        kind="no-device",
        source="tensorflow core/common_runtime/gpu/gpu_device.cc",
        sample="Skipping registering GPU devices...",
        counter="Created device /job:localhost/replica:0/task:0/device:GPU:0",
    ),
    Remedy(
        "image-built-without-gpu",
        words=r"failed to solve: process \"/bin/sh -c [^\n]{0,300}(?:setup\.py|pip install|TORCH_CUDA|cuda)",
        lines=True,
        fix=(
            "No GPU is there while an image is built: name the architectures that extensions are compiled for (ENV "
            'TORCH_CUDA_ARCH_LIST="8.0;9.0" FORCE_CUDA=1) and have nothing ask for a GPU in RUN, or build with '
            "NVIDIA's runtime as docker's default."
        ),
        kind="no-device",
        source="BuildKit solver/llbsolver; torch utils/cpp_extension.py",
        sample='ERROR: failed to solve: process "/bin/sh -c python setup.py install" did not complete',
        counter='ERROR: failed to solve: process "/bin/sh -c apt-get update" did not complete: exit code: 100',
    ),
    Remedy(
        "cudnn-not-loaded",
        words=r"Unable to load any of \{libcudnn|Could not load library libcudnn\w{3,40}\.so|"
        r"Cannot load symbol cudnn\w{3,40}",
        lines=True,
        fix=(
            "cuDNN's libraries are not found, or are of another major release than the program was built for (the .so "
            "number): python -m pip install nvidia-cudnn-cu12 in that number (9.*, 8.*) with its folder "
            "(site-packages/nvidia/cudnn/lib) in LD_LIBRARY_PATH, or a release of the program for the cuDNN that is "
            "there (ctranslate2 4.5 and later: cuDNN 9; 4.4 and before: 8)."
        ),
        commands=(command("python -m pip list | grep -i cudnn"),),
        kind="dependency-mismatch",
        source="cuDNN's shim library (cudnnGetErrorString's loader); CTranslate2's changelog",
        sample="Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9, libcudnn_ops.so}",
        counter="Loaded cuDNN version 8902",
    ),
    Remedy(
        "no-libnvvm",
        words=r"libNVVM cannot be found|Missing libdevice file|NvvmSupportError",
        fix=(
            "numba compiles for the GPU with the CUDA toolkit's NVVM and finds none: conda install -c conda-forge "
            "cuda-nvcc cuda-nvrtc 'cuda-version=12' (cudatoolkit before CUDA 12), numba-cuda[cu12] by pip, or "
            "CUDA_HOME of an installed toolkit."
        ),
        commands=(command("numba -s | grep -iA20 cuda"),),
        kind="dependency-mismatch",
        source="numba cuda/cudadrv/nvvm.py, cuda/cuda_paths.py",
        sample="numba.cuda.cudadrv.error.NvvmSupportError: libNVVM cannot be found. Do `conda install cudatoolkit`:",
        counter="numba.cuda.cudadrv.driver.CudaAPIError: [700] Call to cuMemcpyDtoH results in UNKNOWN_CUDA_ERROR",
    ),
    Remedy(
        "munge-credential",
        words=r"[Mm]unge decode failed: |\b(?:Expired|Rewound|Replayed) credential\b",
        lines=True,
        fix=(
            "munge on the two machines does not agree: their clocks are minutes apart (chronyc tracking on both), or "
            "the keys differ (/etc/munge/munge.key), or the machine was so busy that the credential ran out. Mend that "
            "on the node that tells it, and leave it out (--exclude) until then."
        ),
        commands=(command("date; munge -n | unmunge | head -n 3"),),
        kind="scheduler",
        blame="node",
        restart="elsewhere",
        source="slurm src/plugins/auth/munge/auth_munge.c; munge libmunge/strerror.c",
        sample="srun: error: Munge decode failed: Expired credential",
        counter="munge: success (0)",
    ),
    Remedy(
        "pbs-limit",
        words=r"\bqsub: would exceed [^\n]{3,160}",
        lines=True,
        fix=(
            "The queue or server takes no more of this user's jobs or resources at once: submit when own ones have "
            "ended, put them into one array job, or take another queue."
        ),
        commands=(command("qstat -Qf; qstat -u $USER"),),
        kind="quota",
        blame="user",
        source="OpenPBS src/include/pbs_error.h (PBSE_entlim_resv and its like), server/svr_chk_owner.c",
        sample="qsub: would exceed complex's per-user limit of jobs in 'Q' state",
        counter="qsub: waiting for job 12 to start",
    ),
    Remedy(
        "lsf-resources",
        words=r"Bad resource requirement syntax|Unknown resource name\b",
        lines=True,
        fix=(
            "LSF does not read what stands behind -R or -gpu: sections are select[...] rusage[...] span[...], in "
            'quotes as a whole (-R "rusage[mem=8000] span[ptile=4]", -gpu "num=2:mode=exclusive_process"), with '
            "resources that `lsinfo` lists."
        ),
        commands=(command("lsinfo -r"),),
        kind="scheduler",
        source="LSF's reference (bsub -R, -gpu), lserrno",
        sample="Job <1234> is not submitted. Bad resource requirement syntax",
        counter="Job <1234> is submitted to queue <gpu>.",
    ),
    Remedy(
        "efa-fork",
        words=r"libfabric EFA provider is operating in a condition that could result in memory corruption",
        lines=True,
        fix=(
            "A process that has opened EFA forks (DataLoader workers, subprocess): export FI_EFA_FORK_SAFE=1 "
            "(RDMAV_FORK_SAFE=1 for older libfabric) in the environment of every rank, or start workers by spawn; "
            "kernels since 5.13 with a new rdma-core need neither."
        ),
        commands=(command("export FI_EFA_FORK_SAFE=1"),),
        kind="rdma",
        source="libfabric prov/efa/src/efa_fork_support.c",
        sample="the libfabric EFA provider is operating in a condition that could result in memory corruption",
        counter="EFA is fork safe",
    ),
    Remedy(
        "no-fabric-provider",
        words=r"\bOFI (?:addrinfo|fi_getinfo)\(\) failed\b|\bOFI get address vector|\bfi_getinfo error: ret -61\b|"
        r"\bMPIDI_OFI_mpi_init_hook\b",
        lines=True,
        fix=(
            "libfabric finds no provider for the network here: see `fi_info -l`; name the folder of the providers "
            "(FI_PROVIDER_PATH: Intel MPI's and oneCCL's lie in their lib/prov; `source setvars.sh` sets it) and one "
            "that this machine has (FI_PROVIDER=tcp everywhere, verbs, psm3, cxi or efa on their fabrics); inside a "
            "container its devices have to be handed in. I_MPI_FABRICS=shm does on one node."
        ),
        commands=(command("fi_info -l"), command("export FI_PROVIDER=tcp")),
        kind="rdma",
        source="mpich src/mpid/ch4/netmod/ofi/init_provider.c; oneCCL atl/ofi/atl_ofi_helper.cpp; fi_provider(7)",
        sample="MPIDI_OFI_mpi_init_hook(1578): OFI addrinfo() failed (ofi_init.c:1578:create_vni_context)",
        counter="libfabric: fi_getinfo found 2 providers",
    ),
    Remedy(
        "pmix-storage",
        words=r"PMIX ERROR: [\w -]{3,40} in file (?:\S{0,80}/)?gds_\w{2,40}\.c",
        lines=True,
        fix=(
            "PMIx of the launcher and of the program keep their data in different ways, or have no room for it "
            "(TMPDIR, /dev/shm): export PMIX_MCA_gds=hash for both, and start with the mpirun, or the srun "
            "--mpi=pmix_vN, of the release that the program was built with."
        ),
        commands=(command("export PMIX_MCA_gds=hash"),),
        kind="launcher",
        blame="environment",
        source="openpmix src/mca/gds; slurm's MPI guide",
        sample="PMIX ERROR: OUT-OF-RESOURCE in file gds_shmem2.c at line 1",
        counter="PMIX ERROR: NOT-FOUND in file client/pmix_client.c at line 1",
    ),
    Remedy(
        "mpi-map",
        words=r"\bYour job has requested more processes than the ppr for\b|\bYour job failed to map\b"
        r"|\bA request was made to bind to that would result in binding more\b"
        r"|\bAll nodes which are allocated for this job are already filled\b"
        r"|\bNo nodes are available for this job, either due to a failure to\b",
        lines=True,
        fix=(
            "mpirun finds no place for the processes that it was asked for: compare their number with the nodes and "
            "slots that it has (mpirun --display allocation, before Open MPI 5 --display-allocation), with --map-by "
            "(ppr:N:node) and with --bind-to (none takes any processor; overload-allowed lets them share)."
        ),
        kind="launcher",
        restart="after a fix",
        source="prrte src/mca/rmaps (help-prte-rmaps-base.txt, help-prte-rmaps-ppr.txt); orte before",
        sample="Your job has requested more processes than the ppr for",
        counter="Your job has started",
    ),
    Remedy(
        "mpi-srun",
        words=r"\bsrun returned non-zero exit status \(\d{1,6}\) from launching\b"
        r"|\bThe SLURM process starter for Open ?MPI\b",
        lines=True,
        fix=(
            "mpirun starts its daemons by srun here, and that failed: srun must be on the PATH of the job, and get a "
            "step (no other step may hold the job's resources; --overlap); mpirun --mca plm_base_verbose 10 tells "
            "more. Start the program by srun itself (--mpi=pmix), or take ssh (--mca plm ^slurm)."
        ),
        commands=(command("command -v srun; srun --mpi=list"),),
        kind="launcher",
        blame="environment",
        source="prrte src/mca/plm/slurm/help-plm-slurm.txt",
        sample="srun returned non-zero exit status (256) from launching",
        counter="srun: error: Unable to create step",
    ),
    Remedy(
        "orte-route",
        words=r"ORTE does not know how to route a message|PRTE has lost communication with a remote daemon|"
        r"ORTE has lost communication with a remote daemon",
        lines=True,
        fix=(
            "mpirun's daemons do not reach each other: name the network that all hosts share (--mca oob_tcp_if_include "
            "eth0 --mca btl_tcp_if_include eth0, or its subnet), open the ports between them, and see that every host "
            "resolves the others' names to addresses of that network; one Open MPI on all. A node that went down in "
            "between tells so too."
        ),
        commands=(command("ip -brief address; getent hosts $(hostname)"),),
        kind="route",
        restart="not decided",
        source="Open MPI orte/mca/rml, errmgr help files; prrte",
        sample="ORTE does not know how to route a message to the specified daemon located on the indicated",
        counter="ORTE was unable to reliably start one or more daemons.",
    ),
    Remedy(
        "runs-as-root",
        words=r"container has runAsNonRoot and image will run as root|"
        r"runAsNonRoot and image has non-numeric user",
        lines=True,
        fix=(
            "The pod may not run as root and its image does: set securityContext.runAsUser to a number that is not 0 "
            "(and fsGroup for its volumes), or take an image with a numeric USER."
        ),
        kind="config",
        source="kubernetes pkg/kubelet/kuberuntime/security_context.go (verifyRunAsNonRoot)",
        sample="Error: container has runAsNonRoot and image will run as root",
        counter="Error: container has run",
    ),
    Remedy(
        "cpu-adam-not-built",
        words=r"'(?P<name>DeepSpeedCPU\w{2,20}|CPUAdam\w{0,20})' object has no attribute 'ds_opt_\w{2,20}'",
        fix=(
            "It only follows: DeepSpeed's optimizer for the CPU was not built, and the error before it says why (nvcc "
            "of another CUDA than torch's, no compiler, no ninja, no Python.h). Mend that, empty "
            "~/.cache/torch_extensions and start again, or take torch's own optimizer (torch_adam: true)."
        ),
        commands=(command("ds_report"),),
        kind="dependency-mismatch",
        source="deepspeed ops/adam/cpu_adam.py (__del__)",
        sample="AttributeError: 'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'",
        counter="AttributeError: 'DeepSpeedEngine' object has no attribute 'optimizer'",
    ),
    Remedy(
        "peer-memory-module",
        words=r"could not insert '?nvidia[_-]peermem'?: |nvidia_peermem: (?:disagrees about version|Unknown symbol)",
        lines=True,
        fix=(
            "nvidia_peermem was built without the symbols of the InfiniBand stack that runs: install MLNX_OFED (or "
            "DOCA) first and the driver again behind it, so that the module is built for it. Without it GPUDirect goes "
            "by dma-buf where kernel (5.12), open driver modules and NCCL (2.14) have it."
        ),
        commands=(command("modinfo nvidia_peermem; ofed_info -s"),),
        kind="rdma",
        blame="node",
        source="NVIDIA GPUDirect RDMA guide (nvidia-peermem)",
        sample="modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument",
        counter="modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
    ),
)
