"""What compilers, build tools and shells say when an extension or a program cannot be made or started."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

TOOLKIT = (command('python -c "import torch; print(torch.version.cuda)"'), command("nvcc --version"))
REMEDIES = (
    Remedy(
        "no-toolkit",
        words=(
            r"CUDA_HOME environment variable is not set|CUDA_HOME does not exist, unable to compile CUDA op",
            r"\bnvcc was not found|[Cc]ould not find nvcc",
            r"name 'bare_metal_version' is not defined",
        ),
        fix=(
            "An extension is compiled here, and no CUDA toolkit was found: install the toolkit of torch's CUDA version "
            "(the driver alone has no nvcc; in conda cuda-toolkit, on clusters a module) and name its folder in "
            "CUDA_HOME, or install a wheel that is built."
        ),
        commands=(command("ls -d /usr/local/cuda*"), *TOOLKIT),
        kind="dependency-mismatch",
        source="torch/utils/cpp_extension.py (_join_cuda_home); deepspeed op_builder/builder.py; mamba-ssm",
        sample=(
            "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
            "AssertionError: CUDA_HOME does not exist, unable to compile CUDA op(s)",
            "RuntimeError: --cuda_ext was requested, but nvcc was not found.",
            "NameError: name 'bare_metal_version' is not defined",
        ),
        counter="OSError: HOME is not set",
    ),
    Remedy(
        "other-toolkit",
        words=(
            r"Installed CUDA version (?P<have>[\d.]+) does not match the version torch was compiled with "
            r"(?P<wanted>[\d.]+)",
            r"detected CUDA version \((?P<have>[\d.]+)\) mismatches the version that was used to "
            r"compile\s{1,8}PyTorch "
            r"\((?P<wanted>[\d.]+)\)",
        ),
        fix=(
            "nvcc is of CUDA {have}, and torch was built with {wanted}: put the toolkit of {wanted} first (CUDA_HOME "
            "and PATH), or install a torch for {have}; where only the minor version differs DeepSpeed builds with "
            "DS_SKIP_CUDA_CHECK=1."
        ),
        commands=TOOLKIT,
        kind="dependency-mismatch",
        source="deepspeed/ops/op_builder/builder.py (assert_no_cuda_mismatch); torch/utils/cpp_extension.py "
        "(CUDA_MISMATCH_MESSAGE)",
        sample=(
            "CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 12.4 does not match the version "
            "torch was compiled with 11.8, unable to compile cuda/cpp extensions without a matching cuda version.",
            "RuntimeError: The detected CUDA version (12.2) mismatches the version that was used to compile "
            "PyTorch (11.8).",
        ),
        counter="RuntimeError: Installed CUDA version is too old",
    ),
    Remedy(
        "no-compiler",
        words=(
            r"\['which', '(?P<name>(?:c|g|clang)\+\+|gcc|cc|clang)'\]' returned non-zero",
            r"command '[^'\n]{0,200}?(?P<name>gcc|g\+\+|c\+\+|cc)' failed: No such file or directory",
            r"error: Microsoft Visual C\+\+ \S+ or greater is required|Failed to find C compiler",
        ),
        lines=True,
        fix=(
            "An extension is compiled here, and there is no compiler: install one (Debian and Ubuntu: build-essential; "
            "conda: gxx_linux-64), or name it in CC and CXX. What is said behind it of a missing attribute or operator "
            "only follows."
        ),
        commands=(command("sudo apt-get install --yes build-essential"),),
        kind="dependency-mismatch",
        source="torch/utils/cpp_extension.py (check_compiler_is_gcc); setuptools/distutils unixccompiler.py; triton "
        "runtime/build.py",
        sample=(
            "subprocess.CalledProcessError: Command '['which', 'g++']' returned non-zero exit status 1.",
            "error: command 'gcc' failed: No such file or directory",
        ),
        counter="subprocess.CalledProcessError: Command '['which', 'nvidia-smi']' returned non-zero exit status 1.",
    ),
    Remedy(
        "compiler-too-new",
        words=r"unsupported GNU version! gcc versions later than (?P<last>\d+) are not supported",
        lines=True,
        fix=(
            "nvcc takes gcc up to {last}: install that one and name it to the build (CC, CXX, and nvcc's "
            "NVCC_PREPEND_FLAGS='-ccbin ...'), or take a newer CUDA toolkit, of torch's major version."
        ),
        commands=(command("gcc --version"), command("nvcc --version")),
        kind="dependency-mismatch",
        source="CUDA toolkit include/crt/host_config.h",
        sample=(
            "/usr/local/cuda/include/crt/host_config.h:132:2: error: #error -- unsupported GNU version! gcc versions "
            "later than 12 are not supported!"
        ),
        counter="error: unsupported version",
    ),
    Remedy(
        "not-built-in",
        words=r"Distributed package doesn't have (?P<name>NCCL|MPI|UCC|XCCL) built in",
        fix=(
            "This torch was built without {name}, as those for Windows, macOS and CPUs are: name the backend gloo (for "
            "NCCL on Windows: run it under Linux or WSL 2), or install a build for CUDA."
        ),
        commands=(command('python -c "import torch; print(torch.__version__, torch.version.cuda)"'),),
        kind="dependency-mismatch",
        source="torch distributed/distributed_c10d.py (_new_process_group_helper)",
        sample="RuntimeError: Distributed package doesn't have NCCL built in",
        counter="RuntimeError: the package is not built",
    ),
    Remedy(
        "extension-build",
        words=(
            r"\AError building extension '(?P<name>[\w.-]{1,100})'\s*\Z",
            r"\AError compiling objects for extension\b",
        ),
        fix=(
            "Compiling failed, and the first `error:` before it says of what: it needs nvcc of the CUDA release that "
            "torch was built with (CUDA_HOME), a C++ compiler that this nvcc takes, and ninja; or install a build of "
            "the package that brings it compiled."
        ),
        commands=(command("nvcc --version"), command('python -c "import torch; print(torch.version.cuda)"')),
        kind="dependency-mismatch",
        source="torch utils/cpp_extension.py (_run_ninja_build)",
        sample="RuntimeError: Error building extension 'fused_optim'",
        counter="RuntimeError: the extension was built",
    ),
    Remedy(
        "linker-lacks",
        words=(
            r"\bld(?:\.\w+)?: cannot find -l(?P<name>[\w.+-]{1,80}?)(?::|\s|$)",
            r": undefined reference to [`'](?P<name>[^`'\n]{1,160})'",
        ),
        lines=True,
        fix=(
            "The linker was given no library that is or has {name}: install the one that does with its development "
            "files, in the release whose headers were included, and name it (-l) behind the objects that use it, and "
            "its folder (-L, or LIBRARY_PATH for gcc). Stand-ins for the driver's libcuda and libnvidia-ml lie in the "
            "CUDA toolkit's lib64/stubs."
        ),
        kind="dependency-mismatch",
        source="binutils ld/ldfile.c, ld/ldmain.c (undefined_symbol); gcc, Environment Variables (LIBRARY_PATH)",
        sample=(
            "/usr/bin/ld: cannot find -lcublas: No such file or directory",
            "main.cpp:(.text+0x2f): undefined reference to `ncclCommInitAll'",
        ),
        counter="/usr/bin/ld: warning: libm.so is needed",
    ),
    Remedy(
        "compiler-killed",
        words=(
            r"[Kk]illed signal terminated program (?P<name>\w+)",
            r"internal compiler error: Killed \(program (?P<name>\w+)\)",
            r"'(?P<name>[\w+]{2,20})' died due to signal 9\b",
        ),
        lines=True,
        fix=(
            "The compiler ({name}) was killed, as by the kernel where memory is used up: compile fewer files at once "
            "(MAX_JOBS=1 for torch's extensions, make -j1), give the build more memory, or install a wheel that is "
            "built."
        ),
        commands=(command("export MAX_JOBS=1"), command("free -h")),
        kind="host-memory",
        blame="environment",
        source="gcc/gcc.cc (execute); nvcc's driver; torch/utils/cpp_extension.py (_get_num_workers)",
        sample="c++: fatal error: Killed signal terminated program cc1plus",
        counter="c++: fatal error: no input files",
    ),
    Remedy(
        "extension-unfit",
        words=r"Unable to JIT load the (?P<name>\w{1,60}) op due to it not being compatible",
        fix=(
            "DeepSpeed does not build {name} here, and its warnings before this line say what it misses (a library's "
            "headers such as libaio-dev, a GPU of another kind, another CUDA release): install that, or take a setting "
            "that does without {name}."
        ),
        commands=(command("ds_report"),),
        kind="dependency-mismatch",
        source="deepspeed op_builder/builder.py (OpBuilder.jit_load)",
        sample="RuntimeError: Unable to JIT load the async_io op due to it not being compatible due to "
        "hardware/software issue. None",
        counter="JIT compiled ops require ninja",
    ),
    Remedy(
        "host-key",
        words=r"Host key verification failed\.",
        lines=True,
        fix=(
            "ssh does not know the other host's key, or knows another, and cannot ask: log in there once by hand from "
            "this machine as the job's user, or put its key into known_hosts (ssh-keyscan HOST >> ~/.ssh/known_hosts); "
            "remove an old one by ssh-keygen -R HOST."
        ),
        kind="permission",
        source="OpenSSH sshconnect.c (verify_host_key)",
        sample="pdsh@head: n2: Host key verification failed.",
        counter="Host key added to known hosts.",
    ),
    Remedy(
        "mpi-plugin",
        words=r"Couldn't find the specified plugin name for mpi/(?P<name>\w{1,30})",
        lines=True,
        fix=(
            "This SLURM was built without {name}: the first line lists what it has; give one of these (--mpi=pmix), or "
            "--mpi=none for ranks that do not use MPI (torch's do not)."
        ),
        commands=(command("srun --mpi=list"),),
        kind="launcher",
        source="slurm src/interfaces/mpi.c, common/plugin.c",
        sample="srun: error: Couldn't find the specified plugin name for mpi/pmix_v5 looking at all files",
        counter="srun: error: Couldn't find the program",
    ),
    Remedy(
        "two-cpu-variables",
        words=r"cpus-per-task set by two different environment variables (?P<first>SLURM_\w{1,40})=\S{1,20} != "
        r"(?P<second>SLURM_\w{1,40})",
        lines=True,
        fix=(
            "One of the two came from another allocation or shell: unset {first}, or start srun with --cpus-per-task "
            "given."
        ),
        commands=(command("unset SLURM_CPUS_PER_TASK"),),
        kind="config",
        source="slurm src/srun/opt.c",
        sample="srun: fatal: cpus-per-task set by two different environment variables SLURM_CPUS_PER_TASK=4 != "
        "SLURM_TRES_PER_TASK=cpu=8",
        counter="srun: fatal: cpus-per-task must be positive",
    ),
    Remedy(
        "cut-tar",
        words=r"^tar: (?:Unexpected EOF in archive|Error is not recoverable: exiting now|Skipping to next header)",
        lines=True,
        fix=(
            "The archive is cut off or damaged: compare its size and checksum with the source's, copy it again, and "
            "unpack what there is only where that is enough."
        ),
        kind="data",
        source="GNU tar src/buffer.c, src/common.h (FATAL_ERROR), src/list.c",
        sample="tar: Error is not recoverable: exiting now",
        counter="tar: removing leading / from member names",
    ),
    Remedy(
        "not-executable",
        words=r"(?:line \d{1,7}|^[\w./-]{1,200}: \d{1,7}|^-?(?:bash|zsh|sh|dash"
        r"|ksh)): (?P<file>[./][\w./+-]{1,300}): "
        r"Permission denied\s*$",
        lines=True,
        fix=(
            "{file} may not be executed: chmod +x it, or give it to its interpreter (bash FILE, python FILE); on a "
            "file system that is mounted noexec put it elsewhere. As a directory it is a name too short."
        ),
        commands=(command("findmnt -o TARGET,OPTIONS"),),
        kind="permission",
        source="bash execute_cmd.c (shell_execve), dash exec.c (shellexec)",
        sample=(
            "/var/spool/slurmd/job81/slurm_script: line 9: /home/u/env/bin/accelerate: Permission denied",
            "bash: ./run.sh: Permission denied",
        ),
        counter=(
            "mkdir: cannot create directory '/run/enroot': Permission denied",
            "bash: /data/out.txt: No such file or directory",
        ),
    ),
    Remedy(
        "torchcodec-libraries",
        words=r"Could not load libtorchcodec\b",
        fix=(
            "torchcodec loads FFmpeg's libraries (libavutil and its like) of one of the releases that it lists, and "
            "found none: install one of these where this Python looks (conda install -c conda-forge 'ffmpeg<8'; Debian "
            "and Ubuntu: apt install ffmpeg). Where the lines below name another library for the release that is "
            "there (libnvrtc, libtorch), install the torchcodec that was built for this torch and its CUDA."
        ),
        kind="dependency-mismatch",
        source="torchcodec _core/ops.py (load_torchcodec_shared_libraries)",
        sample="RuntimeError: Could not load libtorchcodec. Likely causes:",
        counter="RuntimeError: libtorchcodec was loaded",
    ),
)
