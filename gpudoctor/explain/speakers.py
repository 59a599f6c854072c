"""Error lines by who writes them: whoever the line's form shows marks it as an error itself, whatever it says.

Of a speaker that nobody here knows "error" may be anything, and such a line is only quoted. Of one of these the job has
failed by it, where nothing behind it shows the job getting on; what no word of the line tells is then of the kind that
this speaker is about. Forms: slurm log.c (`fatal: `, `error: `); MPICH's hydra (HYDU_dump_prefix); DRM_ERROR of the
kernel; Kubernetes' events (pkg/kubelet/events/event.go, pkg/scheduler, Volcano, coscheduling) and its reasons for a
pod that is not admitted (pkg/kubelet/lifecycle/predicate.go); runc, crun, containerd, BuildKit, conmon; glog and absl;
TORQUE's and Grid Engine's reports; Paddle's distributed utils and its launcher (ABORT!!!, Container failed !!!); the
NVIDIA kernel module's Xid annotation. Of GPFS, which is closed, only users' logs were found.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.cause import Judged
from gpudoctor.explain.end_lines import is_over, tells_an_end
from gpudoctor.explain.kinds import DIED, IMAGE, ON_NODE, SCHEDULER, VOLUME
from gpudoctor.explain.line_words import judged_line
from gpudoctor.explain.marked_lines import is_marked
from gpudoctor.explain.pod_events import judged_event
from gpudoctor.explain.report import Line
from gpudoctor.lazy import lazy_re

LAUNCHER = Judged("launcher", "environment", "not decided")
GPU = Judged("device-lost", "node", "elsewhere")
DRIVER = Judged("driver", "node", "after a fix")


class Speaker(NamedTuple):
    form: re.Pattern[str]
    judged: Judged | None
    """What it is about; None: only words tell."""


SPEAKERS: tuple[Speaker, ...] = (
    Speaker(
        lazy_re(r"\berror: pyxis: |\bpyxis: (?:couldn't|failed)\b|^\[ERROR\] (?=[^\n]*\b(?:image|rootfs|URL)\b)"),
        IMAGE,
    ),
    Speaker(
        lazy_re(
            r"\b(?:slurmd|slurmctld|slurmdbd|slurmrestd|munged)(?:\[\d{1,8}\])?: (?:\w{4,12}: )?(?:fatal"
            r"|error): {1,2}\S"
        ),
        SCHEDULER,
    ),
    Speaker(
        lazy_re(
            r"(?i)(?:^|[\s\]])(?:sbatch|srun|salloc|slurmstepd|scancel|scontrol|squeue|docker|podman|apptainer|"
            r"singularity|enroot|pyxis|mpirun|mpiexec|prterun|qsub|qrsh|bsub|jsrun|kubectl|ssh|pdsh|horovodrun|"
            r"deepspeed|accelerate|torchrun)(?:@[\w.-]{1,253})?: (?:fatal )?(?:error|fatal): \S|"
            r"\bHost key verification failed\.|\bssh exited with exit code [1-9]|\bNCCL WARN\b"
        ),
        None,
    ),
    Speaker(
        lazy_re(
            r"^\[(?:mpiexec|proxy:\d{1,4}:\d{1,4}|hydserv)@[\w.-]{1,253}\] "
            r"(?=[^\n]*(?:\berror|\bunable|\bfail|\bassert|\bunexpected|\bcannot))"
        ),
        LAUNCHER,
    ),
    Speaker(lazy_re(r"\bNVRM: Xid \([^)\n]{1,40}\): \d{1,3},[^\n]{0,200} caused by previous Xid \d{1,3}\b"), GPU),
    Speaker(
        lazy_re(r"\b(?:NVRM|nvidia-modeset|nvidia-nvlink): [^\n]{0,160}(?:\b[Ff]ail|\b[Ee]rror|\bERROR)"), DRIVER
    ),
    Speaker(lazy_re(r"^(?:[^\n]{0,80}\s)?LustreError: \d|\bGPFS: \S{0,20} ?\[[EX]\]"), VOLUME),
    Speaker(
        lazy_re(
            r"\bWarning\s{2,}(?:FailedScheduling|Unschedulable|NotEnough\w{1,30}|FailedCreate|FailedAdmission|"
            r"FailedPlacement|SchedulerError|TopologyAffinityError|OutOf\w{2,30}|NodeAffinity|NodePorts"
            r"|QuotaReserved|"
            r"Inadmissible|PodGroupUnschedulable)\s|"
            r"(?i:\breason\"?: \"?)(?:UnexpectedAdmissionError|TopologyAffinityError|SMTAlignmentError"
            r"|OutOf[a-z]\w{2,30}"
            r"|Unschedulable)\b|\s\d{1,3}/\d{1,3}\s+(?:UnexpectedAdmissionError|TopologyAffinityError"
            r"|OutOf[a-z]\w{2,30}"
            r"|NodeAffinity|NodeShutdown|ContainerStatusUnknown)\s"
        ),
        SCHEDULER,
    ),
    Speaker(
        lazy_re(
            r"\bWarning\s{2,}Failed\w{0,40}\s|\bcontainer create failed: |\bOCI runtime \w{3,10} (?:failed|error)\b|"
            r"\brunc (?:create|run) failed: |\berror executing hook\b|\bfailed to create (?:shim|containerd) task: |"
            r"^ERROR: failed to solve: |\bError response from daemon: "
        ),
        IMAGE,
    ),
    Speaker(
        lazy_re(r"^[\d :.-]{15,30}: [EF] (?:external|tensorflow|xla|tsl|third_party)/\S{3,200}:\d{1,6}\] "), None
    ),
    Speaker(
        lazy_re(
            r"^\[ {0,8}\d{1,9}\.\d{3,9}\] (?:habanalabs|amdgpu|neuron) \S{2,20}: "
            r"[^\n]{0,160}(?:[Ff]ailed to |NOT usable)"
        ),
        GPU,
    ),
    Speaker(lazy_re(r"^error reason\s{1,6}\d{1,6}:\s"), ON_NODE),
    Speaker(lazy_re(r"^(?:LAUNCH )?ERROR\b[^\n]{0,60}\b(?:ABORT!!!|Container failed !!!)"), DIED),
)  # fmt: skip


class SpokenError(NamedTuple):
    line: Line
    judged: Judged | None


OF_GLOG = lazy_re(r"(?:^|[\s\]:])F(?:\d{4}|20\d{6}) \d\d:\d\d:\d\d\.\d{3,6}\s+\d{1,9} \S{1,200}:\d{1,6}\] ")
"""glog's and absl's fatal line, with which the process aborts, whatever it told as an error before."""


def spoken_error(lines: Sequence[Line]) -> SpokenError | None:
    """The first line that one of them marks as an error, and of what kind it is; else the first that whoever wrote it
    marks as one, of those the first whose words tell of what."""
    marked: SpokenError | None = None
    for index, line in enumerate(lines):
        if is_over(line, lines[index + 1 :]):
            continue
        if (of_event := judged_event(line.text)) is not None:
            return SpokenError(line, of_event)
        speaker = next((each for each in SPEAKERS if each.form.search(line.text)), None)
        if OF_GLOG.search(line.text) and line.text.count(" ") > 3:
            return SpokenError(line, judged_line(line.text))
        if speaker is not None:
            return SpokenError(line, judged_line(line.text) or speaker.judged)
        # the status of an end tells more than that it is an error
        if is_marked(line.text) and not tells_an_end(line.text) and (marked is None or marked.judged is None):
            # a reason may stand in the line behind what announces it
            next_text = lines[index + 1].text if index + 1 < len(lines) and line.text.rstrip().endswith(":") else ""
            judged = judged_line(f"{line.text}\n{next_text}" if next_text else line.text)
            marked = SpokenError(line, judged) if marked is None or judged is not None else marked
    return marked
