"""What drivers, kernels and accelerators' runtimes say of a node: ROCm, NVIDIA's installer, DKMS, MIG, Neuron, Ascend,
Gaudi, Level Zero, memory that is broken.

Every text was found in the source that its `source` names; nvidia-smi's, libtpu's and synapse's own, which are closed,
in their headers' texts and in users' logs.
"""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "amd-hardware-exception",
        words=(
            r"\bHW Exception by GPU node-(?P<gpu>\d{1,4}) \(Agent handle: \w{1,20}\) "
            r"reason ?: ?(?P<reason>\w[\w ]{0,40})"
        ),
        lines=True,
        fix=(
            "The driver gave the GPU of node {gpu} (rocminfo) up: {reason}. Leave this machine out until the GPU was "
            "reset (rocm-smi --gpureset) or the machine restarted, and read dmesg for amdgpu's lines; where it comes "
            "again on others, install a newer release of the driver and ROCm."
        ),
        kind="device-lost",
        restart="elsewhere",
        source="ROCR-Runtime core/runtime/runtime.cpp (HwExceptionHandler)",
        sample="HW Exception by GPU node-5 (Agent handle: 0x55d1c24be210) reason :GPU Hang",
        counter="Memory access fault by GPU node-5 (Agent handle: 0x55d1c24be210) on address 0x7f. Reason: Unknown.",
    ),
    Remedy(
        "rocm-no-code",
        words=(
            r"\bhipError(?:NoBinaryForGpu|InvalidKernelFile|InvalidImage|SharedObject\w{4,20}"
            r"|InvalidDeviceFunction)\b|\bHIP error: invalid device function\b",
            r"\bUnable to find code object for all current devices\b|\bCannot (?:retrieve"
            r"|find) (?:Static function|Symbol|"
            r"Function)\b|\bHSA_STATUS_ERROR_INVALID_(?:CODE_OBJECT|ISA|SYMBOL_NAME)\w{0,20}\b",
            r"\brocBLAS error: Cannot read \S{1,300}TensileLibrary\S{0,40}",
        ),
        lines=True,
        fix=(
            "This build holds no code for this GPU's architecture: install the one for its gfx name (rocminfo), or "
            "build torch, RCCL or the extension for it (PYTORCH_ROCM_ARCH, GPU_TARGETS); a near relative's code is "
            "taken with HSA_OVERRIDE_GFX_VERSION."
        ),
        commands=(command("rocminfo | grep gfx"),),
        kind="dependency-mismatch",
        source="ROCm clr hipamd/src (hip_error.cpp, hip_platform.cpp); rocBLAS tensile_host.cpp",
        sample=(
            '"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"',
            "Cannot find Symbol with name: _Z9broadcastPfi",
        ),
        counter="hipErrorOutOfMemory: out of memory",
    ),
    Remedy(
        "rocm-device-file",
        words=r"\bUnable to open /dev/(?:kfd|dri/\w{1,20})\b[^\n]{0,40}\b(?:denied|permitted)"
        r"|\bis not (?:a )?member of ['\"`]?(?:render"
        r"|video)['\"`]? group\b",
        lines=True,
        fix=(
            "The user may not open the GPU's device file: put him into the groups render and video, or give the "
            "container /dev/kfd and /dev/dri and these groups (--device, --group-add)."
        ),
        commands=(command("ls -l /dev/kfd /dev/dri; id -nG"),),
        kind="permission",
        source="ROCm rocminfo.cc; ROCR-Runtime libhsakmt openclose.c",
        sample="Unable to open /dev/kfd read-write: Permission denied",
        counter="/dev/kfd is open",
    ),
    Remedy(
        "rocm-no-driver",
        words=r"\bUnable to open /dev/kfd\b[^\n]{0,40}\bNo such file\b|\bROCk module is NOT loaded\b"
        r"|\bNo AMD GPUs? (?:were )?found\b",
        lines=True,
        fix=(
            "The GPU's driver is not loaded there, or the container was not given its device files: load amdgpu on the "
            "host, and start the container with --device /dev/kfd --device /dev/dri."
        ),
        commands=(command("ls -l /dev/kfd /dev/dri; lsmod | grep amdgpu"),),
        kind="no-device",
        source="ROCm rocminfo.cc; ROCR-Runtime libhsakmt openclose.c",
        sample="ROCk module is NOT loaded, possibly no GPU devices",
        counter="ROCk module version 6.8.5 is loaded",
    ),
    Remedy(
        "amd-gpu-hangs",
        words=(
            r"\bamdgpu\b[^\n]{0,80}\*ERROR\*[^\n]{0,40}\b(?:timeout|failed to response|hang)"
            r"|\bamdgpu: GPU reset (?:begin|fail)",
            r"\bamdgpu\b[^\n]{0,80}\b(?:unrecoverable state|RAS (?:fatal|uncorrectable)"
            r"|uncorrectable (?:hardware )?error)",
        ),
        lines=True,
        fix=(
            "The GPU no longer answered its driver, which resets it: leave this node out, and where a reboot does not "
            "keep it, look at its ECC counts, firmware and power (rocm-smi --showrasinfo)."
        ),
        commands=(command("sudo dmesg --ctime | grep -i amdgpu"),),
        kind="device-lost",
        restart="elsewhere",
        source="kernel drivers/gpu/drm/amd/amdgpu (amdgpu_job.c, amdgpu_device.c, mes_v11_0.c, amdgpu_ras.c)",
        sample="[ 2237.944] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=9, "
        "emitted seq=11",
        counter="amdgpu 0000:0a:00.0: amdgpu: SMU is initialized successfully!",
    ),
    Remedy(
        "broken-memory",
        words=(
            r"\bEDAC \w{0,8} ?MC\d{1,3}: \d{1,6} UE\b|\bUncorrected hardware memory error\b"
            r"|\bMemory failure: 0x[0-9a-f]+: ",
            r"\[Hardware Error\]: [^\n]{0,60}(?:\bUE\b|[Uu]ncorrected|\b[Ff]atal\b)"
            r"|\bmce: [^\n]{0,60}\b[Ff]atal machine check\b",
            r"\bKernel panic - not syncing: (?:Fatal|Timeout)[^\n]{0,40}[Mm]achine check\b",
        ),
        lines=True,
        fix=(
            "A memory module or a part of this machine is broken (an error that could not be corrected): leave the "
            "node out, and have what the line names replaced."
        ),
        commands=(command("sudo dmesg --ctime | grep -iE 'EDAC|mce|Hardware Error'"),),
        kind="node-lost",
        restart="elsewhere",
        source="kernel drivers/edac/edac_mc.c, drivers/firmware/efi/cper.c, mm/memory-failure.c, "
        "arch/x86/kernel/cpu/mce",
        sample="EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0 (channel:2 slot:0)",
        counter="EDAC MC3: 1 CE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0 (channel:2 slot:0)",
    ),
    Remedy(
        "module-not-built",
        words=(
            r"\bBad return status for module build on kernel\b|\bMissing \S{1,60} kernel headers\b",
            r"\bUnable to (?:find the kernel source tree|determine the path to the kernel source"
            r"|load the kernel module "
            r"'nvidia|load the 'nvidia)",
            r"\bmodprobe: (?:FATAL: Module nvidia\w{0,20} not found|ERROR: could not insert 'nvidia)",
            r"\bKernel module load error: "
            r"|\bAn NVIDIA kernel module '\w{1,30}' appears to (?:already )?be (?:already )?loaded\b"
            r"|\bThe Nouveau kernel driver is currently in use\b"
            r"|\bYour kernel headers for kernel \S{1,60} cannot be found\b",
        ),
        lines=True,
        fix=(
            "The driver's kernel module is not there for the kernel that runs: install that kernel's headers and build "
            "it again (dkms autoinstall), sign it or enrol its key where secure boot rejects it (mokutil), unload what "
            "holds the old one (nouveau, a running X or persistenced), and reboot."
        ),
        commands=(command("uname -r; dkms status; mokutil --sb-state"),),
        kind="driver",
        source="dkms; kmod modprobe.c; NVIDIA's installer (nvidia-installer kernel.c, sanity.c)",
        sample=(
            "Error! Bad return status for module build on kernel: 6.8.0-40-generic (x86_64)",
            "-> Kernel module load error: Key was rejected by service",
            "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-40-generic",
        ),
        counter="DKMS: install completed.",
    ),
    Remedy(
        "driver-not-for-kernel",
        words=r"\bGPL-incompatible module nvidia\S{0,20} uses GPL-only symbol\b",
        lines=True,
        fix=(
            "This release of NVIDIA's driver does not build for that kernel: install a newer one (or the open kernel "
            "modules, on GPUs since Turing), or boot the kernel before it."
        ),
        commands=(command("uname -r; dkms status"),),
        kind="driver",
        source="kernel scripts/mod/modpost.c",
        sample=" ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock_strict'",
        counter="module nvidia loaded",
    ),
    Remedy(
        "nvml-permission",
        words=r"^(?:Failed|Unable) to [^\n:]{3,160}: Insufficient Permissions\b",
        lines=True,
        fix=(
            "Only root may do that (nvidia-smi of MIG's instances, clocks, modes): call it by sudo, or give the user "
            "MIG's capability file below /dev/nvidia-caps."
        ),
        kind="permission",
        source="nvml.h (nvmlErrorString); nvidia-smi",
        sample="Failed to display GPU instances: Insufficient Permissions",
        counter="Failed to create GPU instances: Insufficient Resources",
    ),
    Remedy(
        "mig-does-not-fit",
        words=r"^(?:Failed|Unable) to [^\n:]{0,80}\b(?:GPU"
        r"|compute) instances?\b[^\n:]{0,80}: (?!Insufficient Permissions)\w",
        lines=True,
        fix=(
            "The GPU takes no such instance now: `nvidia-smi mig -lgip` and `-lcip` list the profiles and how many are "
            "left; delete others first, and end what runs on the GPU."
        ),
        commands=(command("nvidia-smi mig -lgip"),),
        kind="config",
        source="nvml.h (nvmlErrorString); nvidia-smi mig",
        sample="Failed to create GPU instances: Insufficient Resources",
        counter="Successfully created GPU instance ID 9 on GPU 0",
    ),
    Remedy(
        "neuron-no-cores",
        words=(
            r"\bNRT_LOAD_NOT_ENOUGH_NC\b|\bLogical Neuron Core\(s\) not available\b|\bnot enough (?:Neuron"
            r"|NC) cores\b",
            r"\bNRT_EXEC_NC_BUSY\b|\bNeuron Core\(s\) (?:are )?(?:in use|not available)\b",
        ),
        lines=True,
        fix=(
            "There are not so many free NeuronCores: start so many processes as NEURON_RT_NUM_CORES and "
            "NEURON_RT_VISIBLE_CORES give cores, and end what an earlier run left (neuron-ls, neuron-top)."
        ),
        commands=(command("neuron-ls"),),
        kind="no-device",
        source="AWS Neuron nrt/nrt_status.h",
        sample="ERROR  TDRV:nrt_allocate  Logical Neuron Core(s) not available - Requested:32 Available:0",
        counter="NRT_SUCCESS",
    ),
    Remedy(
        "accelerator-busy",
        words=(
            r"\bDevice acquire failed\b|\bFailed to acquire (?:a )?(?:Gaudi|HPU|device)\b"
            r"|\bsynDeviceAcquire\w{0,20}[^\n]{0,40}fail",
            r"\b(?:TPU|libtpu)[^\n]{0,60}\balready in use by (?:another )?process\b"
            r"|\bUnable to initialize backend 'tpu'|\bTPU initialization failed\b",
        ),
        lines=True,
        fix=(
            "The accelerator is held by another process, or is not seen: end what an earlier run left there, and give "
            "the container its device files."
        ),
        commands=(command("sudo fuser -v /dev/accel* /dev/accel/* /dev/vfio/*"),),
        kind="no-device",
        source="habana synapse_api.h; libtpu; jax _src/xla_bridge.py",
        sample="RuntimeError: synStatus=26 [Generic failure] Device acquire failed.",
        counter="device acquired",
    ),
    Remedy(
        "thread-limit-of-a-library",
        words=r"\bpthread_create failed for thread \d{1,6} of \d{1,6}\b|\bRLIMIT_NPROC \d{1,9} current\b|"
        r"\bOMP: Error #\d{1,4}: [^\n]{0,80}(?:thread|resource)|\bThread creation failed\b",
        lines=True,
        fix=(
            "A library could not start the threads of its pool: raise the limit of processes (ulimit -u, the "
            "container's pids limit), and let it take fewer: OMP_NUM_THREADS, OPENBLAS_NUM_THREADS or MKL_NUM_THREADS, "
            "1 for each rank and DataLoader worker."
        ),
        commands=(command("ulimit -u"),),
        kind="limits",
        source="OpenBLAS driver/others/blas_server.c; LLVM openmp kmp_i18n; PyTorch caffe2/utils/threadpool",
        sample="OpenBLAS blas_thread_init: pthread_create failed for thread 61 of 64: Resource temporarily unavailable",
        counter="OpenBLAS : 64 threads",
    ),
    Remedy(
        "apptainer-nvccli",
        words=r"container creation failed: [^\n]{0,80}/nvidia-container-cli\b",
        lines=True,
        fix=(
            "--nvccli (or --nv where apptainer.conf says 'use nvidia-container-cli') calls nvidia-container-cli on the "
            "host, which lacks it: install libnvidia-container-tools there, or start with --nv alone and unset "
            "APPTAINER_NVCCLI and SINGULARITY_NVCCLI, which needs the driver only."
        ),
        commands=(command("unset APPTAINER_NVCCLI SINGULARITY_NVCCLI"),),
        kind="driver",
        source="apptainer internal/pkg/util/gpu/nvcli.go",
        sample='FATAL:   container creation failed: exec: "/usr/bin/nvidia-container-cli": stat '
        "/usr/bin/nvidia-container-cli: no such file or directory",
        counter="INFO:    Setting --writable-tmpfs (required by nvidia-container-cli)",
    ),
    Remedy(
        "apptainer-squashfs",
        words=(
            r"(?:can't mount image|mounting image)[^\n]{0,200}(?:failed to mount squashfs filesystem: "
            r"|kernel reported a bad superblock for squashfs)"
        ),
        lines=True,
        fix=(
            "The image's file cannot be mounted: it was not copied whole (compare its size; a full disk or quota), it "
            "lies on a file system that cannot be mounted from (FUSE, AFS, a shared folder: copy it to a local disk), "
            "or its compression is unknown to this kernel or release: pull or build it again with the apptainer "
            "(singularity) that is there, or take a newer one."
        ),
        kind="image",
        source="apptainer internal/pkg/runtime/engine/apptainer/container_linux.go, pkg/util/loop",
        sample="FATAL:   container creation failed: mount /proc/self/fd/5->/var/x/rootfs error: can't mount image "
        "/proc/self/fd/5: failed to mount squashfs filesystem: invalid argument",
        counter="INFO:    squashfuse not found, will not be able to mount SIF or other squashfs files",
    ),
    Remedy(
        "pyxis-workdir",
        words=r"\bpyxis: couldn't chdir to (?P<folder>(?!container cwd)\S{1,200}): ",
        lines=True,
        fix=(
            "The container has no folder {folder}: mount one there (--container-mounts), make it in the image, or name "
            "another in --container-workdir."
        ),
        kind="file-missing",
        source="pyxis pyxis_slurmstepd.c",
        sample="slurmstepd: error: pyxis: couldn't chdir to /workspace/fit: No such file or directory",
        counter="slurmstepd: error: pyxis: couldn't mkdir /run/pyxis/1000: No such file or directory",
    ),
    Remedy(
        "apptainer-fuse",
        words=r"(?:squashfuse\w{0,4}|fuse2fs|gocryptfs|fuse-overlayfs)[^\n]{0,80}(?:fusermount3?: |failed to exec "
        r"fusermount|fuse: (?:failed|device not found))",
        lines=True,
        fix=(
            "Apptainer mounts the image by FUSE here and cannot: install fuse3 (fusermount3, setuid root) and load the "
            "fuse module on that node; where a container or SELinux forbids it, unpack the image first "
            "(apptainer build --sandbox), or install apptainer-suid."
        ),
        commands=(command("command -v fusermount3; ls -l /dev/fuse"),),
        kind="storage",
        blame="node",
        restart="after a fix",
        source="apptainer internal/pkg/image/driver; libfuse lib/mount.c",
        sample="FATAL:   container creation failed: mount /proc/self/fd/3->/var/x/rootfs error: while mounting image "
        "/proc/self/fd/3: squashfuse_ll exited with status 1: fuse: failed to exec fusermount3: No such file or "
        "directory",
        counter="INFO:    squashfuse not found, will not be able to mount SIF or other squashfs files",
    ),
    Remedy(
        "apptainer-destination",
        words=r"while mounting (?P<source>\S{1,200}): destination (?P<folder>\S{1,200}) doesn't exist in container",
        lines=True,
        fix=(
            "{folder} is mounted into the container by the site's configuration or --bind, and the image has no such "
            "folder: let it be made (`enable underlay = yes` or overlay in apptainer.conf; --writable-tmpfs; another "
            "kernel's user namespaces), make it in the image (mkdir in %post), or leave that mount out (--no-mount, "
            "--no-home, -H FOLDER)."
        ),
        kind="image",
        source="apptainer internal/pkg/runtime/engine/apptainer/container_linux.go",
        sample="FATAL:   container creation failed: mount /opt/cray->/opt/cray error: while mounting /opt/cray: "
        "destination /opt/cray doesn't exist in container",
        counter="WARNING: Skipping mount /etc/hosts [binds]: /etc/hosts doesn't exist in container",
    ),
    Remedy(
        "apptainer-proc",
        words=r"failed to mount proc filesystem: operation not permitted",
        lines=True,
        fix=(
            "Here a new container may not mount /proc: this is a container itself, whose /proc is partly hidden. Build "
            "the image on another machine, on which you have root or user namespaces (or by a remote builder) and copy "
            "it, or have the outer container started with more rights (--security-opt systempaths=unconfined)."
        ),
        kind="permission",
        source="apptainer cmd/starter, internal/pkg/runtime/engine/imgbuild",
        sample="FATAL:   failed to mount proc filesystem: operation not permitted",
        counter="mount: /proc: proc already mounted",
    ),
)
