"""How launchers, shells and kernels write that a signal ended a process: every form tells `signal` or `exitcode`.

What it means is the same whoever writes it (`explain.endings.OF_SIGNAL`). Signals by which a process is asked to
end, and SIGABRT, by which it ends itself, are no cause: the speakers' own tables have them as consequences.
"""

from gpudoctor.symptom import LIKELY, POSSIBLE, Symptom
from gpudoctor.symptoms.elastic import EXIT_NEEDLES, ended
from gpudoctor.symptoms.mpi import NOTICED

NUMBER = r"(?P<signal>4|7|8|9|11|31)"
NAME = r"(?P<signal>SIG(?:ILL|BUS|FPE|KILL|SEGV|SYS))"
WORDS = (
    r"(?P<signal>Illegal instruction|Bus error|Floating[ -]point exception|Killed|Segmentation fault|Bad system call)"
)
STATUS = r"(?P<exitcode>13[25679])"
"""128 and the signal, as shells count."""

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "elastic-signalled",
        needle=EXIT_NEEDLES,
        pattern=ended("4|7|8|9|11|31"),
        cause="rank-died",
        role="context",
        confidence=POSSIBLE,
        seen="process {pid} was ended by a signal",
        source="torch elastic/multiprocessing",
        sample=(
            "E0819 11:40:02.17 6123 torch/distributed/elastic/multiprocessing/api.py:987] failed (exitcode: -9) "
            "local_rank: 2 (pid: 6177) of binary: /opt/venv/bin/python",
            "  exitcode  : -7 (pid: 6177)",
            "  traceback : Signal 11 (SIGSEGV) received by PID 6177",
        ),
        counter=("  exitcode  : -15 (pid: 6177)", "  exitcode  : 9 (pid: 6177)", "  exitcode  : -6 (pid: 811)"),
    ),
    Symptom(
        "spawn-signalled",
        needle="terminated with signal SIG",
        pattern=rf"process (?P<process>\d+) terminated with signal {NAME}",
        cause="rank-died",
        seen="process {process} of torch.multiprocessing.spawn was ended by {signal}",
        source="torch multiprocessing/spawn.py",
        sample="torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL",
        counter="torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGTERM",
    ),
    Symptom(
        "subprocess-signalled",
        pattern=rf"died with <Signals\.{NAME}: \d+>",
        cause="rank-died",
        seen="a launcher in Python saw its process end by {signal}",
        source="Python subprocess.py (CalledProcessError); accelerate commands/launch.py",
        sample="subprocess.CalledProcessError: Command '['python', 'fit.py']' died with <Signals.SIGBUS: 7>.",
        counter="subprocess.CalledProcessError: Command '['python', 'fit.py']' died with <Signals.SIGTERM: 15>.",
    ),
    Symptom(
        "paddle-signalled",
        pattern=rf"\[SignalInfo: \*\*\* {NAME} \(@0x[0-9a-f]+\) received by PID (?P<pid>\d+)",
        cause="rank-died",
        seen="process {pid} was ended by {signal}",
        source="paddle platform/init.cc (SignalHandle)",
        sample="  [SignalInfo: *** SIGSEGV (@0x2d) received by PID 4514 (TID 0x7f2fae8a75c0) from PID 45 ***]",
        counter="  [SignalInfo: *** SIGTERM (@0x2d) received by PID 4514 (TID 0x7f2fae8a75c0) from PID 4437 ***]",
    ),
    Symptom(
        "mpi-rank-signalled",
        pattern=NOTICED + rf"{NUMBER}\b",
        cause="rank-died",
        seen="rank {rank} on {host} was ended by signal {signal}",
        source="Open MPI's help texts (ORTE, PRRTE)",
        sample="mpirun noticed that process rank 11 with PID 6177 on node gpu-a03 exited on signal 9 (Killed).",
        counter="mpirun noticed that process rank 11 with PID 6177 on node gpu-a03 exited on signal 15 (Terminated).",
    ),
    Symptom(
        "hydra-signalled",
        pattern=(
            rf"KILLED BY SIGNAL: {NUMBER}\b",
            rf"EXIT STRING: [^\n(]{{1,40}}\(signal {NUMBER}\)",
            rf"^=\s{{1,6}}EXIT CODE: {STATUS}\b",
        ),
        cause="rank-died",
        seen="a rank was ended by a signal",
        source="MPICH and Intel MPI, Hydra",
        sample=(
            "=   KILLED BY SIGNAL: 9 (Killed)",
            "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Bus error (signal 7)",
            "=   EXIT CODE: 137",
        ),
        counter="=   KILLED BY SIGNAL: 15 (Terminated)",
    ),
    Symptom(
        "deepspeed-signalled",
        pattern=r"exits with return code = (?P<exitcode>-(?:4|7|8|9|11|31)|13[25679])\b",
        cause="rank-died",
        seen="a process that DeepSpeed started was ended by a signal (return code {exitcode})",
        source="DeepSpeed launcher/launch.py",
        sample="[2025-08-19 11:40:02,170] [ERROR] [launch.py:325:sigkill_handler] ['/opt/venv/bin/python', '-u', "
        "'fit.py'] exits with return code = -9",
        counter="exits with return code = 1",
    ),
    Symptom(
        "slurm-task-signalled",
        pattern=r"srun: error: (?P<host>[\w.-]{1,253}): tasks? (?P<tasks>[\d,\[\]-]{1,200}): " + WORDS,
        cause="rank-died",
        confidence=LIKELY,
        seen="task {tasks} of srun on {host} (rank {tasks}, where each task is one) was ended by a signal ({signal})",
        source="SLURM srun, slurmstepd",
        sample=(
            "srun: error: gpu-a03: task 5: Segmentation fault (core dumped)",
            "srun: error: gpu-a03: task 5: Killed",
        ),
        counter=("srun: error: gpu-a03: task 5: Aborted", "srun: error: gpu-a03: task 5: Terminated"),
    ),
    Symptom(
        "shell-child-signalled",
        pattern=rf": line \d+:\s{{1,8}}(?P<pid>\d+) {WORDS}\s",
        cause="rank-died",
        confidence=LIKELY,
        seen="a program that a script had started (pid {pid}) was ended by a signal ({signal})",
        source="bash jobs.c (the script's report of its child)",
        sample=(
            "/opt/job/train.sh: line 12:  6177 Bus error               (core dumped) python fit.py",
            "/bin/bash: line 1: 6177 Killed                  python fit.py",
        ),
        counter="train.sh: line 12:  6177 Terminated              python fit.py",
    ),
    Symptom(
        "python-signalled",
        pattern=rf"Fatal Python error: {WORDS}",
        cause="rank-died",
        seen="a rank was ended by a signal ({signal}); the stack below names the call",
        source="Python faulthandler",
        sample="Fatal Python error: Segmentation fault",
        counter="Fatal Python error: Aborted",
    ),
    Symptom(
        "kernel-signalled",
        pattern=(
            rf"potentially unexpected fatal signal {NUMBER}\.",
            rf"type=1701 audit\([^\n]{{0,200}}? pid=(?P<pid>\d+) "
            rf"comm=\"(?P<process>[^\"\n]{{1,40}})\"[^\n]{{0,300}}? sig={NUMBER}\b",
        ),
        cause="rank-died",
        seen="the kernel tells that a signal ended a program (signal {signal})",
        source="kernel kernel/signal.c (print_fatal_signal), kernel/auditsc.c (audit_core_dumps)",
        sample=(
            "[Tue Aug 19 11:40:02 2025] potentially unexpected fatal signal 7.",
            "[ 9001.120001] audit: type=1701 audit(1755603602.170:88): auid=1000 uid=1000 gid=1000 ses=3 pid=6177 "
            'comm="python" exe="/usr/bin/python3.11" sig=7 res=1',
        ),
        counter="[Tue Aug 19 11:40:02 2025] potentially unexpected fatal signal 6.",
    ),
    Symptom(
        "exit-status-of-signal",
        needle=("Exit Code: ", "Exit code: ", "exitCode: ", "terminated with exit code ("),
        pattern=(
            rf"(?:Exit [Cc]ode|exitCode):\s{{1,12}}{STATUS}\s{{0,8}}$",
            rf"terminated with exit code \({STATUS}\)",
        ),
        unless="OOMKilled",
        cause="rank-died",
        confidence=POSSIBLE,
        seen="a container or process ended with status {exitcode}, as after a signal",
        source="kubectl describe pod (ContainerStateTerminated); Open MPI's help texts",
        sample=(
            *("      Exit Code:    137", "        exitCode: 135", "  Exit code:    139"),
            "[f81-n0-0] terminated with exit code (137). Reason [Error]. Message:",
        ),
        counter=("      Exit Code:    1", "  Exit code: 0"),
    ),
    Symptom(
        "container-out-of-memory",
        pattern=(r"\b[Rr]eason\"?:?\s{0,12}[\"\[]?OOMKilled\b", r"\bOOMKilled\"?: ?true\b"),
        cause="host-out-of-memory",
        seen="the kernel killed a container, which had used up its memory limit",
        source="kubectl describe pod, get pod --output yaml (ContainerStateTerminated); docker inspect (State)",
        sample=(
            *("      Reason:       OOMKilled", '          "reason": "OOMKilled",', '            "OOMKilled": true,'),
            "[f81-n0-0] terminated with exit code (137). Reason [OOMKilled]. Message:",
        ),
        counter="OOMKilled: false",
    ),
)
