"""What keeps a container from its GPUs, in the words of docker, runc, nvidia-container-cli and CDI.

Texts as in moby daemon, runc, libnvidia-container (nvc.c, error.c) and container-device-interface pkg/cdi/cache.go.
"""

from gpudoctor.symptom import LIKELY, PROVED, Symptom

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
        pattern=r"nvidia-container-cli: requirement error: unsatisfied condition: (?P<condition>[^\n,]{1,60})",
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
        "container-driver-absent",
        pattern=(
            r"nvidia-container-cli: initialization error: nvml error: (?P<reason>[\w /]{1,60})",
            r"nvidia-container-cli: initialization error: load library failed: (?P<reason>libnvidia-ml\S{1,20})",
            r"nvidia-container-cli: (?:initialization|detection|driver rpc|ldcache|mount|device) error: "
            r"(?P<reason>[^\n]{1,120})",
        ),
        cause="no-gpu-visible",
        variant="driver",
        seen="nvidia-container-cli could not hand the GPUs to the container: {reason}",
        source="libnvidia-container src/error.c, src/nvc.c",
        sample=(
            "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.",
            "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared "
            "object file: no such file or directory: unknown.",
            "nvidia-container-cli: device error: 5: unknown device: unknown",
        ),
        counter="nvidia-container-cli: info",
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
            r"OCI runtime (?:create|exec) failed: [^\n]{0,300}?exec: \\?\"(?P<name>[^\"\\\n]{1,200})",
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
