"""What installers and the dynamic loader say: pip, conda, uv, apt, environment modules, ld.so, Java."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "no-environment",
        words=(
            r"\bEnvironmentNameNotFound\b[^\n]{0,80}?: (?!Could not find conda environment: )(?P<name>[\w./-]{1,80})",
            r"\bCould not find conda environment: (?P<name>\S{1,200})",
            r"\bEnvironmentLocationNotFound\b[^\n]{0,40}: (?P<name>\S{1,200})",
            r"\bNo interpreter found for (?P<name>Python [\w.]{1,20})",
        ),
        lines=True,
        fix=(
            "There is no {name} here, so that what follows ran without it: name one of those that are there (by its "
            "path where another conda made it), or make it; on a node the list may be another than where it was made."
        ),
        commands=(command("conda info --envs"),),
        kind="file-missing",
        source="conda exceptions.py; uv's uv-python (Error::MissingPython)",
        sample="* EnvironmentNameNotFound: Could not find conda environment: train",
        counter="Could not find the environment variable HOME",
    ),
    Remedy(
        "no-package",
        words=(
            r"\bPackagesNotFoundError\b",
            r"^E: Unable to locate package (?P<name>[\w.+-]{1,80})",
            r"^E: Package '(?P<name>[\w.+-]{1,80})' has no installation candidate",
            r"\bUnable to find a match: (?P<name>\S{1,80})",
        ),
        lines=True,
        fix=(
            "No source that is asked has that package in that version: add the channel or repository that has it "
            "(conda -c nvidia, NVIDIA's apt repository; apt-get update first), or name a version that there is."
        ),
        kind="dependency-mismatch",
        source="conda exceptions.py; apt-pkg cacheset.cc; dnf",
        sample="* PackagesNotFoundError: The following packages are not available from current channels:",
        counter="E: Could not open lock file",
    ),
    Remedy(
        "modules-unknown",
        words=r"\bThe following module\(s\) are unknown: (?P<name>\"[^\n]{1,160}\")",
        lines=True,
        fix=(
            "There is no module {name} here: `module spider` lists those that there are, and what must be loaded "
            "before them; on another partition there may be others."
        ),
        commands=(command("module avail"),),
        kind="file-missing",
        blame="user",
        source="Lmod messageDir/en.lua",
        sample='Lmod has detected the following error: The following module(s) are unknown: "cuda/12.9"',
        counter="Lmod has loaded cuda/12.4",
    ),
    Remedy(
        "modulefile-unknown",
        words=r"ERROR:(?:105:)? Unable to locate a modulefile for '(?P<name>[^'\n]{1,80})'",
        lines=True,
        fix=(
            "There is no module {name} on that machine, and what it was to bring is missing behind it: `module avail` "
            "lists those that there are (a login node may have others than the partition for which the script is "
            "written: it is given to sbatch, and not to bash). Write the name that is listed."
        ),
        commands=(command("module avail"),),
        kind="file-missing",
        blame="user",
        source="Modules 3.2 ModuleCmd_Load.c, ErrorLogger (105); 4 and 5: tcl/cache.tcl.in",
        sample="ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for 'conda'",
        counter="ERROR: Unable to locate the file",
    ),
    Remedy(
        "no-virtual-environment",
        words=r"(?P<folder>/\S{1,300})/bin/activate: No such file or directory",
        lines=True,
        fix=(
            "There is no virtual environment {folder} on that node, so that what follows ran with another Python: "
            "give the path that it has there, on a file system that the node sees too, or make it there."
        ),
        kind="file-missing",
        blame="user",
        source="bash builtins/source.def; venv",
        sample="/var/spool/slurmd/job7/slurm_script: line 9: /home/ana/venv/bin/activate: No such file or directory",
        counter="bash: /home/ana/train.sh: No such file or directory",
    ),
    Remedy(
        "modules-order",
        words=r"\b(?:module|extension)\(s\)(?: or extension\(s\))? exist but cannot be loaded as requested: "
        r"(?P<name>\"[^\n]{1,160}\")",
        lines=True,
        fix=(
            "{name} is there and needs others first: `module spider` with its whole name tells which (a compiler, an "
            "MPI)."
        ),
        kind="config",
        source="Lmod messageDir/en.lua",
        sample='These module(s) or extension(s) exist but cannot be loaded as requested: "nccl/2.20"',
        counter="These modules exist",
    ),
    Remedy(
        "not-a-library",
        words=(
            r"(?P<file>[\w./+-]{1,300}\.so[\w.]{0,20}): (?:file too short|invalid ELF header|cannot read file data)",
            r"(?P<file>[\w./+-]{1,300}\.so[\w.]{0,20}): ELF load command ",
        ),
        lines=True,
        fix=(
            "{file} is no whole library (cut off, a Git LFS pointer, a linker script, or a copy that a full disk "
            "broke): install its package again."
        ),
        kind="dependency-mismatch",
        source="glibc elf/dl-load.c",
        sample="OSError: /opt/lib/libcublas.so.12: file too short",
        counter="OSError: libcublas.so.12: cannot open shared object file: No such file or directory",
    ),
    Remedy(
        "other-machine",
        words=(
            r"(?P<file>[\w./+-]{1,300}): wrong ELF class: ",
            r"(?P<file>[\w./+-]{1,300}): (?:cannot execute binary file: )?Exec format error",
            r"\bexec (?P<file>[\w./+-]{1,300}): exec format error",
        ),
        lines=True,
        fix=(
            "{file} is for another kind of processor than this machine has (arm64 and x86-64), or a script without its "
            "first line #!: take the build or image for this one (docker pull --platform)."
        ),
        commands=(command("uname -m"),),
        kind="dependency-mismatch",
        source="glibc elf/dl-load.c; execve(2), ENOEXEC",
        sample=(
            "OSError: /usr/lib/libcudnn.so.8: wrong ELF class: ELFCLASS32",
            "exec /usr/bin/python3: exec format error",
        ),
        counter="OSError: /usr/lib/libcudnn.so.8: file too short",
    ),
    Remedy(
        "link-time-reference",
        words=r"symbol (?P<symbol>\w{1,200}),? version (?P<version>\S{1,60}) not defined in file (?P<file>\S{1,200})",
        lines=True,
        fix=(
            "{file} that is found is of another release than the library that asks it for {symbol}: let both come from "
            "one place (LD_LIBRARY_PATH empty for pip's torch, which brings its own CUDA libraries), or install both "
            "again in one release."
        ),
        commands=(command("unset LD_LIBRARY_PATH"),),
        kind="dependency-mismatch",
        source="glibc elf/dl-lookup.c",
        sample="OSError: /opt/lib/libcublas.so.11: symbol cublasLtGetStatusString version libcublasLt.so.11 not "
        "defined in file libcublasLt.so.11 with link time reference",
        counter="OSError: /opt/lib/libx.so: undefined symbol: cublasCreate",
    ),
    Remedy(
        "java-heap",
        words=(
            r"\bjava\.lang\.OutOfMemoryError\b",
            r"\bThere is insufficient memory for the Java Runtime Environment to continue",
            r"\bNative memory allocation \(\w{1,20}\) failed to (?:map|allocate)",
        ),
        lines=True,
        fix=(
            "Java's memory is used up: give it more (-Xmx, spark.driver.memory, spark.executor.memory), and the job as "
            "much as that and half as much again."
        ),
        kind="host-memory",
        source="OpenJDK share/runtime/os.cpp, share/utilities/vmError.cpp",
        sample=(
            'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space',
            "# There is insufficient memory for the Java Runtime Environment to continue.",
        ),
        counter="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ),
    Remedy(
        "c-assertion",
        words=r": (?P<source>[\w./-]{1,200}\.(?:c|cc|cpp|cu|h|hpp):\d{1,6}): [^\n]{1,200}: Assertion "
        r"[`'](?P<what>(?!0'|false'|NULL')[^\n]{1,200})' "
        r"failed\.",
        lines=True,
        fix=(
            "A check in the library's own source does not hold at {source}: {what}. It is a fault of that library or "
            "of what it was given: look for that line in its reports, and take another release of it."
        ),
        kind="assertion",
        restart="not decided",
        source="glibc assert/assert.c",
        sample="python: ../sysdeps/unix/x.c:210: fn: Assertion `n > 0' failed.",
        counter="x.cu:210: block: [0,0,0], thread: [3,0,0] Assertion `t < n` failed.",
    ),
    Remedy(
        "make-no-rule",
        words=r"\bNo rule to make target '(?P<file>[^'\n]{1,200})'",
        lines=True,
        fix=(
            "{file} is not there, and nothing tells how to make it: start make in the folder of its Makefile, and "
            "fetch what a submodule or a configure step should have brought (git submodule update --init --recursive)."
        ),
        kind="file-missing",
        source="GNU make src/remake.c",
        sample="make: *** No rule to make target 'all_reduce.cu', needed by 'all_reduce.o'.  Stop.",
        counter="make: *** [Makefile:33: all] Error 127",
    ),
    Remedy(
        "conda-unsatisfiable",
        words=(
            r"\bpackage [\w.-]{1,120} requires [^,\n]{1,120}, but none of the providers can be installed",
            r"\bLibMambaUnsatisfiableError\b|\bUnsatisfiableError: |\bResolvePackageNotFound\b",
            r"^Encountered problems while solving:",  # the message of the first of these
        ),
        lines=True,
        fix=(
            "conda finds no set of releases for all that was asked for at once: the lines behind name those that "
            "exclude each other. Fix the version of the one that matters (as pytorch-cuda=12.1) and let conda choose "
            "the others, or install from the channels in one order (--override-channels -c pytorch -c nvidia -c "
            "conda-forge)."
        ),
        commands=(command("conda config --show channels"),),
        kind="dependency-mismatch",
        source="libmamba core/satisfiability_error.cpp; conda exceptions.py",
        sample="LibMambaUnsatisfiableError: Encountered problems while solving:",
        counter="Solving environment: done",
    ),
)
