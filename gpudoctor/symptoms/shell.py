"""How shells, glibc, UCX, CUDA's kernels and daemons that watch memory tell an end that Python says nothing of."""

from gpudoctor.symptom import LIKELY, Symptom

PROGRAM = r"(?:^|[\s\]:])(?P<program>[\w./+-]{1,200}): "
"""getopt(3) begins with it."""

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "option-unknown",
        pattern=(
            PROGRAM + r"(?:unrecognized|unknown|ambiguous) option (?P<option>'[^'\n]{1,90}'|\S{1,90})",
            PROGRAM + r"(?:invalid option|option requires an argument) -- (?P<option>'?\w'?)",
            PROGRAM + r"option (?P<option>'[^'\n]{1,90}') (?:requires|doesn't allow|is ambiguous)",
        ),
        cause="program-error",
        variant="options",
        confidence=LIKELY,
        seen="{program} does not take the option {option} so",
        source="glibc posix/getopt.c",
        sample=(
            "sbatch: unrecognized option '--gpus-per-noed=8'",
            "srun: invalid option -- 'y'",
            "mpirun: option '--np' requires an argument",
        ),
        counter="option '--fp16' is deprecated: use --bf16",
    ),
    Symptom(
        "shell-signalled",
        needle=("Killed", "Segmentation fault", "Bus error", "Illegal instruction", "Floating point exception"),
        pattern=(
            r"(?:^|^\d{1,6}: |\]:?\s?|Z |\) )(?P<signal>Killed|Segmentation fault|Bus error|"
            r"Illegal instruction|Floating point exception)"
            r"(?: \(core dumped\))?\s{0,4}$"
        ),
        cause="rank-died",
        confidence=LIKELY,
        seen="the shell tells that a signal ended its program ({signal})",
        source="bash jobs.c, dash jobs.c (strsignal's texts; made with both here)",
        sample=("Killed", "Segmentation fault (core dumped)", "Bus error"),
        counter=("Killed process 12", "  Killed by the king"),
    ),
    Symptom(
        "zsh-signalled",
        needle="zsh: ",
        pattern=r"zsh: (?:\d+ )?(?P<signal>killed|segmentation fault|bus error)(?:  ?\(core dumped\))?\s",
        cause="rank-died",
        confidence=LIKELY,
        seen="the shell tells that a signal ended its program ({signal})",
        source="zsh Src/signames2.awk, as in public reports",
        sample=("zsh: segmentation fault (core dumped)  python train.py", "zsh: killed     python fit.py"),
        counter="zsh: terminated  python train.py",
    ),
    Symptom(
        "fish-signalled",
        pattern=r"(?:['\u2019\u201d\"]|\u2026.) terminated by signal (?P<signal>SIG(?:KILL|SEGV|BUS|ILL|FPE)) \(",
        cause="rank-died",
        confidence=LIKELY,
        seen="the shell tells that a signal ended its program ({signal})",
        source="fish src/proc.cpp (print_job_status), as in public reports",
        sample="fish: Job 1, 'python train.py' terminated by signal SIGSEGV (Address boundary error)",
        counter="fish: Job 1, 'python train.py' terminated by signal SIGTERM (Polite quit request)",
    ),
    Symptom(
        "compose-signalled",
        pattern=(
            r"(?:^|[\s:])[\w.-]{1,100} exited with code (?P<exitcode>13[25679])\b",
            r"\sExited \((?P<exitcode>13[25679])\) [\w ]{1,40} ago\b",
        ),
        cause="rank-died",
        confidence=LIKELY,
        seen="a container was ended by a signal (status {exitcode})",
        source="docker compose cmd/formatter; docker cli/command/formatter/container.go; wait(2)",
        sample=(
            "trainer-1 exited with code 137",
            '8f1c2b  train:7  "python fit.py"  2 hours ago  Exited (139) 5 minutes ago',
        ),
        counter="trainer-1 exited with code 1",
    ),
    Symptom(
        "option-run-alone",
        needle=("command not found", ": not found"),
        pattern=(
            r": line (?P<line>\d+): (?P<option>--?[A-Za-z][\w./=,-]{0,200}): command not found\s{0,4}$",
            r"zsh: command not found: (?P<option>--?[A-Za-z][\w./=,-]{0,200})",
            r"(?:^|^\d{1,6}: |\]:?\s?|Z |\) )[\w./-]{1,200}: (?P<line>\d+): (?P<option>--?[A-Za-z][\w./=,-]{0,200}): "
            r"not found\s{0,4}$",
        ),
        cause="program-error",
        variant="option-run",
        seen="the shell took the option {option} for a command: the line before it does not end with its backslash",
        source="bash, dash: a backslash continues a line only where nothing stands behind it, a blank neither",
        sample=("job.sh: line 19: --lr: command not found", "run.sh: 7: --batch-size=4: not found"),
        counter="job.sh: line 19: torchrun: command not found",
    ),
    Symptom(
        "command-not-found",
        needle=("command not found", ": not found"),
        pattern=(
            r": line \d+: (?P<name>(?!(?:orted|prted|hydra_\w+|pmi_proxy):)[\w./+][\w./+-]{0,200}): command "
            r"not found\s{0,4}$",
            r"zsh: command not found: (?P<name>[\w./+][\w./+-]{0,200})",
            r"(?:^|^\d{1,6}: |\]:?\s?|Z |\) )[\w./-]{1,200}: \d+: (?P<name>[\w./+][\w./+-]{0,200}): not found\s{0,4}$",
        ),
        cause="library-missing",
        variant="command",
        seen="the script calls {name}, which is not on the PATH there",
        source="bash execute_cmd.c, dash exec.c (made with both here), zsh exec.c",
        sample=("job.sh: line 19: torchrun: command not found", "run.sh: 7: deepspeed: not found"),
        counter="checkpoint: not found, starting anew",
    ),
    Symptom(
        "script-not-there",
        pattern=r"can't open file '(?P<file>[^'\n]{1,400})': \[Errno 2\]",
        cause="program-error",
        variant="no-script",
        seen="Python was given the script {file}, which is not there",
        source="Python Modules/main.c (made here)",
        sample="python: can't open file '/w/fit.py': [Errno 2] No such file or directory",
        counter="python: can't open file '/w/fit.py': [Errno 13] Permission denied",
    ),
    Symptom(
        "heap-corrupted",
        needle=(
            *("double free or corruption", "corrupted size vs. prev_size", "corrupted double-linked list"),
            *(
                "malloc(): ",
                "free(): invalid",
                "munmap_chunk(): invalid",
                "malloc_consolidate(): ",
                "realloc(): invalid",
            ),
        ),
        pattern=(
            r"(?P<what>double free or corruption \((?:out|top|!prev|fasttop)\)|corrupted size vs\. prev_size|"
            r"corrupted double-linked list|free\(\): (?:invalid (?:pointer|size|next size)|double free detected)|"
            r"malloc\(\): (?:memory corruption|invalid (?:next )?size|corrupted|unsorted|unaligned|smallbin)|"
            r"malloc_consolidate\(\): (?:invalid chunk size|unaligned fastbin chunk)|munmap_chunk\(\): invalid pointer|"
            r"realloc\(\): invalid)"
        ),
        cause="native-crash",
        confidence=LIKELY,
        seen="native code destroyed the heap of a process, and glibc aborted it ({what})",
        source="glibc malloc/malloc.c (malloc_printerr)",
        sample=(
            "malloc_consolidate(): unaligned fastbin chunk detected",
            "*** Error in `python': double free or corruption (!prev): 0x000055bb ***",
        ),
        counter="calling malloc(): 12 times",
    ),
    Symptom(
        "ucx-signalled",
        pattern=r"\[(?P<host>[\w.-]{1,253}):(?P<pid>\d+)\s{0,5}:\d+:\d+\] Caught signal (?P<signal>4|7|8|11) \(",
        cause="rank-died",
        seen="a process on {host} (pid {pid}) was ended by signal {signal}, and UCX wrote its C frames",
        source="UCX ucs/debug/debug.c (ucs_error_signal_handler), as in openucx/ucx issues",
        sample=(
            "[n0311:71002:0:71002] Caught signal 11 (Segmentation fault: address not mapped)",
            "[n0311:2039 :0:2095] Caught signal 7 (Bus error: nonexistent physical address)",
        ),
        counter="[n0311:71002:0:71002] Caught signal 15 (Terminated)",
    ),
    Symptom(
        "ompi-signalled",
        pattern=r"\[(?P<host>[\w.-]{1,253}):(?P<pid>\d{1,8})\] Signal: [A-Z][\w ]{2,40} \((?P<signal>4|7|8|11)\)",
        cause="rank-died",
        seen="a process on {host} (pid {pid}) was ended by signal {signal}, and Open MPI wrote its C frames",
        source="Open MPI opal/util/stacktrace.c (show_stackframe)",
        sample="[n0311:71002] Signal: Segmentation fault (11)",
        counter="[n0311:71002] Signal: Terminated (15)",
    ),
    Symptom(
        "thread-not-started",
        pattern=r"what\(\):\s{1,4}Resource temporarily unavailable",
        cause="program-error",
        variant="threads",
        confidence=LIKELY,
        seen="C++ could not start a thread: the limit of processes and threads is reached",
        source="libstdc++ src/c++11/thread.cc (std::system_error of pthread_create's EAGAIN)",
        sample="  what():  Resource temporarily unavailable",
        counter="  what():  CUDA error: out of memory",
    ),
    Symptom(
        "kernel-assertion",
        pattern=r"block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion [`'](?P<what>[^\n]{1,200}?)[`'] failed",
        cause="gpu-program-fault",
        variant="assertion",
        seen="an assertion in a kernel failed: {what}",
        source="CUDA device runtime (__assertfail), torch aten/src/ATen/native/cuda/Indexing.cu",
        sample=(
            "Indexing.cu:1422: indexSelectLargeIndex: block: [4,0,0], thread: [6,0,0] Assertion "
            "`srcIndex < srcSelectDimSize` failed."
        ),
        counter="Assertion `x` failed.",
    ),
    Symptom(
        "killed-by-oomd",
        needle=("due to memory pressure for", "due to memory used"),
        pattern=r"(?:Killed|Marked) (?P<unit>[^\n]{1,300}?) (?:for killing )?due to memory (?:pressure for|used \()",
        cause="host-out-of-memory",
        seen="systemd-oomd killed {unit}, because memory was short",
        source="systemd src/oom/oomd-manager.c",
        sample=(
            "systemd-oomd[811]: Killed /user.slice/a.scope due to memory pressure for /user.slice being 71.33% > "
            "50.00% for > 20s with reclaim activity"
        ),
        counter="slow due to memory pressure for an hour",
    ),
    Symptom(
        "killed-by-earlyoom",
        pattern=r"sending SIG(?:TERM|KILL) to process (?P<pid>\d+) uid \d+ "
        r"\"(?P<name>[^\"\n]{1,40})\": (?:badness|oom)",
        cause="host-out-of-memory",
        seen="earlyoom ended {name} (pid {pid}), because memory was short",
        source="earlyoom kill.c",
        sample='sending SIGTERM to process 33180 uid 1000 "python": oom_score 1290, VmRSS 58812 MiB',
        counter='sending SIGHUP to process 33180 uid 1000 "python"',
    ),
    Symptom(
        "shell-no-space",
        pattern=r"(?:cannot create directory|cannot open|write error|error writing|cannot write)[^\n]{0,200}"
        r": No space left on device",
        cause="disk-full",
        seen="a program could not write: the disk is full",
        source="coreutils; glibc strerror (ENOSPC)",
        sample="mkdir: cannot create directory '/tmp/ompi.n1.40': No space left on device",
        counter="there is space left on device sda",
    ),
    Symptom(
        "shell-script-wrong",
        pattern=(
            r"(?:: line \d+|: \d+): (?P<what>[\w!@*#-]{1,80}): (?:unbound variable|parameter not set)",
            r": line \d+: (?P<what>syntax error[^\n]{0,120})",
            r"(?:: line \d+|: \d+): (?P<what>[\w!@*#-]{1,80}: parameter null or not set)",
            r": \d+: (?P<what>(?:Bad substitution|Syntax error)[^\n]{0,120})",
            r": line \d+: (?P<what>[^\n]{1,120}: bad substitution)",
        ),
        cause="program-error",
        variant="script",
        seen="the shell script ended at a mistake of its own: {what}",
        source="bash error.c, parse.y (made with both here)",
        sample=(
            "job.sh: line 12: MASTER_ADDR: unbound variable",
            "job.sh: line 30: syntax error: unexpected end of file",
            "run.sh: line 3: MASTER_ADDR: parameter null or not set",
            "run.sh: 5: Bad substitution",
        ),
        counter="job.sh: line 12 of 30",
    ),
    Symptom(
        "shell-cannot-fork",
        pattern=r"fork: (?:retry: )?Resource temporarily unavailable",
        cause="open-files-limit",
        variant="processes",
        seen="no further process could be started: a limit of processes or threads was reached",
        source="bash jobs.c (make_child); fork(2), EAGAIN",
        sample="bash: fork: retry: Resource temporarily unavailable",
        counter="recv: Resource temporarily unavailable",
    ),
    Symptom(
        "environment-not-made",
        pattern=(
            r"Lmod has detected the following error: (?P<what>[^\n]{1,160})",
            r"(?P<what>Your shell has not been properly configured to use 'conda activate')",
            r"(?P<what>Run 'conda init' before 'conda activate')",
            r"ERROR:(?:105:)? (?P<what>Unable to locate a modulefile for '[^'\n]{1,80}')",
            r"(?P<what>EnvironmentNameNotFound: Could not find conda environment: \S{1,200})",
            r"(?P<what>EnvironmentLocationNotFound: Not a conda environment: \S{1,300})",
            r"(?P<what>\S{1,300}/bin/activate: No such file or directory)",
        ),
        cause="library-missing",
        variant="environment",
        seen="the environment of the job could not be made: {what}",
        source="Lmod src/Master.lua; Modules ModuleCmd_Load.c; conda exceptions.py; bash source.def; pip "
        "_internal/resolution",
        sample=(
            "ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for 'cuda/12.4'",
            "EnvironmentNameNotFound: Could not find conda environment: llm",
            "EnvironmentLocationNotFound: Not a conda environment: /opt/envs/llm",
            "slurm_script: line 9: /work/venv/bin/activate: No such file or directory",
            'Lmod has detected the following error: The following module(s) are unknown: "cuda/12.9"',
            "CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.",
        ),
        counter="Lmod is loaded",
    ),
    Symptom(
        "packages-do-not-resolve",
        pattern=(
            r"ERROR: (?P<what>(?:Could not find a version that|No matching distribution found for|Cannot install )"
            r"[^\n]{1,120})",
            r"(?P<what>ResolutionImpossible): for help visit",
        ),
        cause="library-missing",
        variant="packages",
        seen="the environment of the job could not be made: {what}",
        source="pip _internal/resolution/resolvelib/factory.py",
        sample="ERROR: No matching distribution found for torch==9.9",
        counter="Successfully installed torch-2.9.1",
    ),
)
