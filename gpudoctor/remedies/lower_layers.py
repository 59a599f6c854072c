"""What locks of shared file systems, keys and starters of processes say, and what refuses a job.

Words from the sources of HDF5, pdsh, OpenSSH, Intel MPI, UCX, gloo, PBS and Kubernetes.
"""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "hdf5-lock",
        words=r"unable to (?:f)?lock file, errno = (?P<errno>\d{1,3}), error message = '(?P<reason>[^'\n]{1,80})'",
        fix="HDF5 locks each file that it opens, and that was refused ({reason}). Where nobody else has the file open, "
        "its file system takes no locks (Lustre without flock, NFS, DVS): export HDF5_USE_FILE_LOCKING=FALSE before "
        "Python starts, and let one process write. Where another process has it open for writing, open it once for "
        "reading (mode 'r') in all, or close it there first.",
        commands=(command("export HDF5_USE_FILE_LOCKING=FALSE"),),
        kind="limits",
        lines=True,
        source="HDF5 H5FDsec2.c (H5FD__sec2_lock); its release notes 1.10.1; h5py#1101, hdf5#3311",
        sample="BlockingIOError: [Errno 11] Unable to open file (unable to lock file, errno = 11, error message = "
        "'Resource temporarily unavailable')",
        counter="OSError: Unable to open file (truncated file: eof = 96, sblock->base_addr = 0)",
    ),
    Remedy(
        "no-locks-there",
        words=r"\[Errno (?:37|524)\] (?:No locks available|Unknown error 524)|: No locks available\s*$",
        fix="The file system of that file takes no locks (NFS without its lock service, Lustre mounted without flock): "
        "put what is locked on a disk of the node (HF_HOME, HF_DATASETS_CACHE, TRITON_CACHE_DIR, conda's packages, a "
        "tool's state), or have it mounted with locks (Lustre: -o flock; NFS: rpc.statd on both ends, or version 4).",
        commands=(command("mount | grep -E ' type (nfs|lustre)'"),),
        kind="limits",
        lines=True,
        source="flock(2), ENOLCK; the kernel's ENOTSUPP (524); datasets#2618, cactus#1299, huggingface_hub#2399",
        sample="OSError: [Errno 37] No locks available",
        counter="OSError: [Errno 11] Resource temporarily unavailable",
    ),
    Remedy(
        "linker-libcuda",
        words=r"\bcannot find -lcuda(?:: No such file or directory)?\s*$",
        fix="The linker wants libcuda.so, and the driver brings libcuda.so.1 only, or lies in a folder that is not "
        "searched: export LIBRARY_PATH=/usr/local/cuda/lib64/stubs:$LIBRARY_PATH (the toolkit's stand-in for linking), "
        "make a link libcuda.so to the driver's libcuda.so.1 in a folder of yours and name it in LIBRARY_PATH; for "
        "Triton also TRITON_LIBCUDA_PATH.",
        commands=(command("ldconfig -p | grep libcuda.so"),),
        kind="dependency-mismatch",
        lines=True,
        source="GNU ld; triton backends/nvidia/driver.py (libcuda_dirs)",
        sample="/usr/bin/ld: cannot find -lcuda: No such file or directory",
        counter="/usr/bin/ld: cannot find -lcudart: No such file or directory",
    ),
    Remedy(
        "cudnn-without-number",
        words=r"Could not load library libcudnn\w{0,40}\.so\.\d{1,2}\. Error: (?P<library>libnvrtc|libcuda)\.so: "
        r"cannot open",
        fix="cuDNN looks for {library}.so without a number, which neither pip's packages nor the driver bring. Of "
        "libnvrtc make a link with that name to libnvrtc.so.12 (11.2 of CUDA 11) in its folder "
        "(site-packages/nvidia/cuda_nvrtc/lib) and put that folder into LD_LIBRARY_PATH, or take a torch with cuDNN 9; "
        "libcuda.so is the driver's: in WSL put /usr/lib/wsl/lib into LD_LIBRARY_PATH.",
        commands=(command("ldconfig -p | grep -E 'libnvrtc|libcuda.so'"),),
        kind="import",
        lines=True,
        source="cuDNN 8's loader; the file lists of nvidia-cuda-nvrtc-cu11 and -cu12; facefusion-docker#9, "
        "mmdetection3d#2132",
        sample="Could not load library libcudnn_cnn_infer.so.8. Error: libnvrtc.so: cannot open shared object file: No "
        "such file or directory",
        counter="Could not load library libcudnn_ops_infer.so.8. Error: libcudnn_ops_infer.so.8: cannot open shared "
        "object file: No such file or directory",
    ),
    Remedy(
        "mapped-without-right",
        words=r"(?P<file>/\S{1,300}): failed to map segment from shared object",
        fix="{file} is there and may not be run: its file system is mounted noexec (mount | grep noexec), or SELinux "
        "or AppArmor forbids it; seldom memory is short (ulimit -v). Put it elsewhere: TMPDIR, TRITON_CACHE_DIR and "
        "TORCH_EXTENSIONS_DIR name the folder for what is compiled, of an environment move it.",
        commands=(command("mount | grep noexec"),),
        kind="permission",
        lines=True,
        source="glibc elf/dl-load.c (_dl_map_segments); mount(8), noexec",
        sample="ImportError: /tmp/lu/cuda_utils.so: failed to map segment from shared object",
        counter="ImportError: /tmp/lu/cuda_utils.so: cannot open shared object file: No such file or directory",
    ),
    Remedy(
        "enroot-helper",
        words=r"\b(?P<name>enroot-(?:aufs2ovlfs|mksquashovlfs|makedev|mount|switchroot|nsenter)): command not found",
        fix="enroot's own helper {name} is not in that shell's PATH: install enroot and enroot+caps of one release on "
        "every node, in a folder of slurmd's PATH (/usr/bin, or the prefix with which it was built).",
        commands=(command("command -v enroot enroot-aufs2ovlfs"),),
        kind="file-missing",
        lines=True,
        source="enroot Makefile, src/docker.sh (docker::import); pyxis#8",
        sample="slurmstepd: error: pyxis:     /bin/bash: enroot-aufs2ovlfs: command not found",
        counter="slurmstepd: error: pyxis:     enroot-mount: failed to mount: /etc/a: No such file or directory",
    ),
    Remedy(
        "pdsh-insecure",
        words=r"module path \"(?P<path>/[^\"\n]{1,200})\" insecure|\bCouldn't load any pdsh modules?\b"
        r"|Owner not root, current uid, or pdsh executable owner",
        fix="pdsh loads its modules only from folders that root (or who runs it) owns and nobody else may write, all "
        "of them up to /: give them back to root (as the message names them, in images mostly /usr/lib), or use "
        "another launcher of DeepSpeed (--launcher openmpi).",
        commands=(command("sudo chown root:root / /usr /usr/lib"),),
        kind="permission",
        lines=True,
        source="pdsh src/pdsh/mod.c (_path_permissions_ok); chaos/pdsh#16",
        sample='pdsh@head: module path "/usr/lib/x86_64-linux-gnu/pdsh" insecure.',
        counter="pdsh@head: n1: ssh exited with exit code 255",
    ),
    Remedy(
        "key-too-open",
        words=r"Permissions 0\d{3} for '(?P<file>[^'\n]{1,200})' are too open",
        fix="ssh does not use a key that others may read: chmod 600 {file} (a key in a pod's secret: defaultMode: "
        "0600, or copy it to a folder of the container first).",
        kind="permission",
        lines=True,
        source="OpenSSH authfile.c (sshkey_perm_ok)",
        sample="Permissions 0644 for '/root/.ssh/id_rsa' are too open.",
        counter="lu@n2: Permission denied (publickey).",
    ),
    Remedy(
        "hydra-bootstrap",
        words=r"unable to run bstrap_proxy on (?P<host>[\w.-]{1,253})",
        fix="Intel MPI could not start its proxy on {host}: by ssh that node must let this user in without a question "
        "(ssh {host} true), and Intel MPI lie at the same path there; inside of SLURM start it by "
        "I_MPI_HYDRA_BOOTSTRAP=slurm, in a single container by fork. Where that works, the proxy comes back to a wrong "
        "interface: I_MPI_HYDRA_IFACE names the right one.",
        commands=(command("export I_MPI_HYDRA_BOOTSTRAP=ssh I_MPI_HYDRA_DEBUG=1"),),
        kind="launcher",
        blame="environment",
        lines=True,
        source="Intel MPI's i_hydra (hydra_demux_poll.c), its reference of I_MPI_HYDRA_*; az-hop#906, azhpc-images#375",
        sample="[mpiexec@n1] check_exit_codes (../../demux/hydra_demux_poll.c:117): unable to run bstrap_proxy on n12 "
        "(pid 99, exit code 65280)",
        counter="[mpiexec@n1] poll_for_event (../../demux/hydra_demux_poll.c:159): check exit codes error",
    ),
    Remedy(
        "ucx-proc-link",
        words=r"mm_posix\.c:\d+\s+UCX\s+ERROR\s+open\(file_name=/proc/\d+/fd/\d+",
        fix="UCX opens another rank's shared memory by /proc/PID/fd, which does not work between containers or users "
        "of one node: export UCX_POSIX_USE_PROC_LINK=n for all ranks, or give the containers one PID namespace "
        "(docker: --pid=host; Kubernetes: hostPID: true).",
        commands=(command("export UCX_POSIX_USE_PROC_LINK=n"),),
        kind="config",
        blame="environment",
        lines=True,
        source="UCX src/uct/sm/mm/posix/mm_posix.c (USE_PROC_LINK); ucx#4224",
        sample="[1.1] [n1:12 :0] mm_posix.c:234 UCX ERROR open(file_name=/proc/311/fd/41 flags=0x0) failed: No such "
        "file or directory",
        counter="[1.1] [n1:12 :0] mm_posix.c:206 UCX ERROR not enough memory to write total of 8447344 bytes",
    ),
    Remedy(
        "gloo-name-of-others",
        words=r"Unable to find interface for: (?P<address>\S{1,60})",
        fix="gloo looked up this host's own name and got {address}, which no interface of this host (or container) "
        "has: enter the host's name into /etc/hosts with an address of its own, or name the interface (export "
        "GLOO_SOCKET_IFNAME=INTERFACE), on every node.",
        commands=(command("getent ahosts $(hostname)"), command("ip -brief address")),
        kind="name-resolution",
        source="gloo transport/tcp/device.cc (sockaddrToInterfaceName, lookupAddrForHostname)",
        sample="RuntimeError: [../third_party/gloo/gloo/transport/tcp/device.cc:208] ifa != nullptr. Unable to find "
        "interface for: [10.2.0.4]:0",
        counter="RuntimeError: [enforce fail at device.cc:83] ifa != nullptr. Unable to find address for: enp65s0f1",
    ),
    Remedy(
        "pbs-route",
        words=r"Job rejected by all possible destinations",
        fix="That queue only hands jobs on, and none behind it takes this one: hold nodes, processors, walltime and "
        "account of the request against what each execution queue allows, or name one of them (-q).",
        commands=(command("qstat -Q; qstat -Qf"),),
        kind="scheduler",
        lines=True,
        source="PBS and Torque src/include/pbs_error.h (PBSE_ROUTEREJ)",
        sample="qsub: Job rejected by all possible destinations",
        counter="qsub: Unknown queue",
    ),
    Remedy(
        "gpus-as-limit",
        words=r"must be equal to (?P<what>[\w.-]{1,60}/[\w.-]{1,60}) limit",
        fix="GPUs cannot be shared out in Kubernetes: write {what} under resources.limits (requests may be left out, "
        "or hold the same number).",
        kind="config",
        lines=True,
        source="kubernetes pkg/apis/core/validation (ValidateResourceRequirements)",
        sample='The Pod "t" is invalid: spec.containers[0].resources.requests: Invalid value: "1": must be equal to '
        "nvidia.com/gpu limit of 0",
        counter='The Pod "t" is invalid: spec.containers[0].image: Required value',
    ),
    Remedy(
        "session-over",
        words=r"\b(?:ExpiredToken(?:Exception)?|RequestExpired)\b|security token included in the request is expired",
        fix="The temporary credential ran out, and the job's does not renew itself: log in again (aws sso login, "
        "assume-role), or let the job take an identity that is renewed (an instance profile, IRSA or Pod Identity) in "
        "place of AWS_SESSION_TOKEN in the environment, which outlives no long run.",
        commands=(command("aws sts get-caller-identity"),),
        kind="permission",
        lines=True,
        source="AWS's common errors (ExpiredToken, ExpiredTokenException, RequestExpired)",
        sample="botocore.exceptions.ClientError: An error occurred (ExpiredToken) when calling the GetObject "
        "operation: The provided token has expired.",
        counter="botocore.exceptions.ClientError: An error occurred (403) when calling the HeadObject operation: "
        "Forbidden",
    ),
)
