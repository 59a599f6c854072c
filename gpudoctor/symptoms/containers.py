"""What keeps a container from its GPUs, in the words of docker, runc, nvidia-container-cli and CDI.

Texts as in moby daemon, runc, libnvidia-container (nvc.c, error.c) and container-device-interface pkg/cdi/cache.go.
"""

from gpudoctor.symptom import LIKELY, PROVED, Symptom

CLI = r"nvidia-container-cli(?:\.real)?: "
"""Its name is another where a package has put a script before it (GPU operator, snap)."""

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "container-no-gpu-driver",
        needle=(
            "could not select device driver",
            "unknown or invalid runtime name: nvidia",
            "nvidia-container-runtime",
        ),
        pattern=(
            r"could not select device driver \"{1,2}(?P<driver>[\w-]{0,40})\"{0,2}[^\n]{0,20}with capabilities: \[\[",
            r"could not select device driver",
            r"unknown or invalid runtime name: nvidia",
            r"nvidia-container-runtime\W{1,4}(?:executable file not found|no such file or directory)",
        ),
        cause="no-gpu-visible",
        variant="toolkit",
        confidence=PROVED,
        seen="the container's runtime knows no NVIDIA GPUs: its toolkit is not installed or not configured",
        source="moby daemon/devices.go, daemon/runtime_unix.go",
        sample=(
            'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
            "Error response from daemon: unknown or invalid runtime name: nvidia",
        ),
        counter="selected device driver nvidia",
    ),
    Symptom(
        "container-driver-too-old",
        pattern=CLI + r"requirement error: unsatisfied condition: (?P<condition>[^\n,]{1,60})",
        cause="driver-mismatch",
        variant="image",
        confidence=PROVED,
        seen="the image wants {condition}, and the driver of the host does not give it",
        source="libnvidia-container src/cli/dsl.c",
        sample="nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver "
        "to a newer version, or use an earlier cuda container: unknown.",
        counter="nvidia-container-cli: all requirements are met",
    ),
    Symptom(
        "runtime-not-run",
        pattern=r"fork/exec (?P<file>/\S{1,200}?): (?P<reason>permission denied|no such file or directory|exec format "
        r"error)",
        cause="container-not-started",
        variant="runtime-program",
        confidence=PROVED,
        seen="the container's runtime, {file}, could not be run: {reason}",
        source="containerd core/runtime (runc shim); Go os/exec",
        sample="docker: Error response from daemon: OCI runtime create failed: unable to retrieve OCI runtime error "
        "(open /run/containerd/io.containerd.runtime.v2.task/moby/9/log.json: no such file or directory): fork/exec "
        "/usr/bin/nvidia-container-runtime: permission denied: unknown.",
        counter="exec /usr/bin/python: exec format error",
    ),
    Symptom(
        "container-libraries-in-image",
        pattern=CLI + r"mount error: file creation failed: \S{0,300}/merged(?P<file>/\S{1,200}?): file exists",
        cause="no-gpu-visible",
        variant="in the image",
        seen="the image holds {file}, which nvidia-container-cli brings along from the host",
        source="libnvidia-container src/nvc_mount.c (file_create), src/utils.c",
        sample="nvidia-container-cli: mount error: file creation failed: /var/lib/docker/overlay2/5bf/merged/usr/lib/"
        "x86_64-linux-gnu/libnvidia-ml.so.1: file exists: unknown.",
        counter="nvidia-container-cli: mount error: stat failed: /dev/nvidia-uvm: no such file or directory",
    ),
    Symptom(
        "container-ldconfig-failed",
        pattern=CLI + r"ldcache error: (?P<reason>[^\n]{1,100}?)(?:: unknown|\\|\"|\.?\s*$)",
        cause="no-gpu-visible",
        variant="ldconfig",
        seen="nvidia-container-cli could not make the container's list of libraries: {reason}",
        source="libnvidia-container src/nvc_ldcache.c (nvc_ldcache_update)",
        sample="nvidia-container-cli: ldcache error: process /sbin/ldconfig failed with error code: 127: unknown",
        counter="nvidia-container-cli: initialization error: nvml error: driver not loaded",
    ),
    Symptom(
        "container-cgroup-not-found",
        pattern=CLI + r"(?:container|mount) error: (?P<reason>cgroup subsystem devices not found|failed to get device "
        r"cgroup mount path)",
        cause="no-gpu-visible",
        variant="cgroup version",
        seen="nvidia-container-cli does not find the controller of devices: {reason}",
        source="libnvidia-container src/cgroup_legacy.c (before 1.8: src/cgroup.c)",
        sample="nvidia-container-cli.real: container error: cgroup subsystem devices not found: unknown.",
        counter="nvidia-container-cli: container error: open failed: /proc/1/ns/mnt: permission denied",
    ),
    Symptom(
        "plugin-without-nvml",
        pattern=(
            r"Failed to initialize NVML: (?P<reason>could not load NVML library|ERROR_LIBRARY_NOT_FOUND)",
            r"factory\.go:\d{1,5}\] Incompatible (?:platform|strategy) detected",
        ),
        cause="no-gpu-visible",
        variant="runtime",
        seen="a container of this node has no library of the driver (NVML): NVIDIA's runtime did not start it",
        source="NVIDIA k8s-device-plugin main.go, 0.7 to 0.17; factory.go since",
        sample=(
            "2024/05/13 23:09:23 Failed to initialize NVML: could not load NVML library.",
            "E0303 11:12:13.352573       1 factory.go:115] Incompatible platform detected",
        ),
        counter="Failed to initialize NVML: Driver/library version mismatch",
    ),
    Symptom(
        "container-driver-absent",
        pattern=(
            CLI + r"(?:initialization|detection) error: (?P<reason>nvml error: [\w /]{1,60})",
            CLI + r"initialization error: load library failed: (?P<reason>libnvidia-ml[\w.]{1,20})",
            CLI + r"(?:initialization|detection|driver|driver rpc|mount|container|permission) error: "
            r"(?P<reason>(?!file creation failed: [^\n]*file exists|cgroup subsystem|failed to get device cgroup)"
            r"[^\n]{1,240})",
        ),
        cause="no-gpu-visible",
        variant="driver",
        seen="nvidia-container-cli could not hand the GPUs to the container: {reason}",
        source="libnvidia-container src/error.c, src/nvc.c",
        sample=(
            "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.",
            "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared "
            "object file: no such file or directory: unknown.",
        ),
        counter="nvidia-container-cli: info",
    ),
    Symptom(
        "container-device-unknown",
        pattern=CLI + r"device error: (?P<device>[\w./:-]{1,80}): unknown device",
        cause="no-gpu-visible",
        variant="no-such-gpu",
        confidence=LIKELY,
        seen="the container was to get GPU {device}, which this node does not have",
        source="libnvidia-container src/cli, nvidia-container-runtime-hook",
        sample="nvidia-container-cli: device error: 8: unknown device: unknown",
        counter="nvidia-container-cli: info",
    ),
    Symptom(
        "enroot-image-not-usable",
        pattern=(
            r"(?:pyxis: {1,8}|^|[\s\]:])\[ERROR\] (?P<reason>(?:Failed to mount|Invalid image format): \S{1,99}\.sqsh)",
            r"pyxis: {1,8}\[ERROR\] (?P<reason>(?:Invalid image reference|Checksum validation failed)[^\n]{0,100})",
            r"\[ERROR\] (?P<reason>URL \S{1,300} returned error code: \d{3}[^\n]{0,60})",
        ),
        cause="image-not-pulled",
        seen="enroot could not get or open the image: {reason}",
        source="enroot src/runtime.sh, src/docker.sh, src/common.sh",
        sample=(
            "slurmstepd: error: pyxis:     [ERROR] URL https://nvcr.io/v2/x returned error code: 404 Not Found",
            "[ERROR] Failed to mount: /scratch/images/train.sqsh",
        ),
        counter="[INFO] Fetching image manifest list",
    ),
    Symptom(
        "enroot-disk-full",
        pattern=r"\[ERROR\] Not enough space left in (?P<path>\S{1,200})",
        cause="disk-full",
        seen="enroot has no room left in {path}",
        source="enroot src/docker.sh",
        sample="slurmstepd: error: pyxis:     [ERROR] Not enough space left in /tmp",
        counter="[INFO] Fetching image manifest list",
    ),
    Symptom(
        "enroot-mount-missing",
        pattern=(
            r"pyxis: --container-mounts: source path does not exist: (?P<path>[^\n]{1,200})",
            r"pyxis: {1,8}\[ERROR\] No such file or directory: (?P<path>[^\n]{1,200})",
            r"(?:^|[\s\]:])\[ERROR\] No such file or directory: (?P<path>\S{1,200}\.sqsh)",
        ),
        cause="container-not-started",
        variant="bind",
        confidence=LIKELY,
        seen="{path}, of which the container was to be made or which it was to see, is not there",
        source="pyxis args.c; enroot src/runtime.sh",
        sample=(
            "slurmstepd: error: pyxis: --container-mounts: source path does not exist: /scratch/data",
            "[ERROR] No such file or directory: /scratch/images/train.sqsh",
        ),
        counter="[INFO] Extracting squashfs filesystem...",
    ),
    Symptom(
        "enroot-not-started",
        pattern=(
            r"pyxis: (?P<reason>--container-[\w-]{1,20}: (?:invalid format[^\n]{0,120}|argument required))",
            r"pyxis: {1,8}\[ERROR\] (?P<reason>Command not found: [^\n]{1,120}|Unsupported architecture: [^\n]{1,60})",
            r"(?:^|[\s\]:])\[ERROR\] (?P<reason>Command not found: nvidia-container-cli)",
        ),
        cause="container-not-started",
        confidence=LIKELY,
        seen="pyxis or enroot did not start the container: {reason}",
        source="pyxis args.c; enroot src/common.sh",
        sample=(
            "slurmstepd: error: pyxis: --container-mounts: invalid format: /a:/b:/c:/d",
            "[ERROR] Command not found: nvidia-container-cli, see https://github.com/NVIDIA/libnvidia-container",
        ),
        counter="[INFO] Extracting squashfs filesystem...",
    ),
    Symptom(
        "container-device-unknown-to-cdi",
        pattern=r"unresolvable CDI devices (?P<device>[\w./=:,-]{1,200})",
        cause="no-gpu-visible",
        variant="cdi",
        confidence=PROVED,
        seen="the runtime finds no CDI specification of {device}",
        source="container-device-interface pkg/cdi/cache.go (InjectDevices)",
        sample="Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all",
        counter="resolved CDI devices nvidia.com/gpu=all",
    ),
    Symptom(
        "container-lost-its-gpus",
        needle="Failed to initialize NVML: Unknown Error",
        cause="no-gpu-visible",
        variant="cgroup",
        confidence=LIKELY,
        seen="NVML may no longer open the GPUs: in a container mostly because systemd took its devices away",
        source="NVML_ERROR_UNKNOWN; nvidia-container-toolkit#48",
        sample="Failed to initialize NVML: Unknown Error",
        counter="Failed to initialize NVML: Driver/library version mismatch",
    ),
    Symptom(
        "nvml-not-there",
        needle=(
            "Failed to initialize NVML: Driver Not Loaded",
            "NVIDIA-SMI has failed because it couldn't communicate",
        ),
        cause="no-gpu-visible",
        variant="module",
        confidence=LIKELY,
        seen="the NVIDIA driver is not loaded on this node",
        source="NVML_ERROR_DRIVER_NOT_LOADED; nvidia-smi",
        sample=(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
            "NVIDIA driver is installed and running.",
        ),
        counter="NVIDIA-SMI 570.86.15  Driver Version: 570.86.15",
    ),
    Symptom(
        "container-program-missing",
        pattern=(
            r"exec: \"(?P<name>[^\"\n]{1,200})\": (?:executable file not found in|stat \S{1,200}: no such file)",
            r"OCI runtime (?:create|exec) failed: [^\n]{0,300}?exec: \\?\"(?P<name>[^\"\\\n]{1,200})"
            r"(?!\\?\": permission denied)",
        ),
        cause="library-missing",
        variant="program",
        seen="the container has no {name}",
        source="runc libcontainer; Go os/exec (ErrNotFound)",
        sample='docker: Error response from daemon: OCI runtime create failed: exec: "torchrun": executable file not '
        "found in $PATH: unknown.",
        counter='exec: "torchrun"',
    ),
    Symptom(
        "program-of-another-processor",
        pattern=r"(?:exec format error|cannot execute binary file: Exec format error)",
        cause="image-not-pulled",
        variant="architecture",
        seen="the program or image was built for another processor",
        source="execve(2), ENOEXEC; bash execute_cmd.c",
        sample=(
            "exec /usr/bin/python: exec format error",
            "bash: ./fit: cannot execute binary file: Exec format error",
        ),
        counter="the exec format is ELF",
    ),
    Symptom(
        "docker-unreachable",
        pattern=(r"Cannot connect to the Docker daemon at (?P<socket>\S{1,120}?)\. Is the docker daemon running",),
        cause="container-not-started",
        variant="daemon",
        confidence=PROVED,
        seen="docker's daemon cannot be reached at {socket}",
        source="docker client (errors.go)",
        sample="docker: Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?",
        counter="docker: connected",
    ),
    Symptom(
        "docker-not-permitted",
        pattern=(
            r"permission denied while trying to connect to the [Dd]ocker (?:daemon socket|API) at "
            r"(?P<socket>\S{1,120}?)[:,]? ",
        ),
        cause="container-not-started",
        variant="daemon-permission",
        confidence=PROVED,
        seen="this user may not use docker's daemon at {socket}",
        source="docker client (errors.go)",
        sample="permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: "
        "Get",
        counter="docker: connected",
    ),
    Symptom(
        "bind-source-missing",
        pattern=(
            r"bind source path does not exist: (?P<file>[^\n]{1,300})",
            r"mount source (?P<file>\S{1,300}) doesn't exist",
            r"while mounting (?P<file>\S{1,300}): [^\n]{0,60}no such file or directory",
        ),
        cause="container-not-started",
        variant="bind",
        confidence=PROVED,
        seen="{file}, which the container is to be given, is not on the host",
        source="moby volume/mounts; apptainer mount hooks",
        sample='docker: Error response from daemon: invalid mount config for type "bind": bind source path does not '
        "exist: /mnt/sets",
        counter="mounted /mnt/sets",
    ),
)
