"""Rules of the signal before the end of a SLURM job, and of what is requeued: S25, S26."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look
from gpudoctor.lint.lightning import is_lightning
from gpudoctor.lint.model import Invocation, LintJob, LintLaunch, SbatchOption
from gpudoctor.lint.programs import program_of
from gpudoctor.lint.rule import Example, LintFinding, rule
from gpudoctor.lint.rules.slurm_examples import LIGHTNING, RANKED

_NODES = "#SBATCH --nodes=2\n"
_SHELL = _NODES + "#SBATCH --signal=B:USR1@120\n"
_STEPS = _NODES + "#SBATCH --signal=USR1@120\n"
_TRAP = "trap 'scontrol requeue $SLURM_JOB_ID' USR1\n"
_HANDLED = ("TERM", "INT", "HUP", "QUIT")
"""Signals that torchrun's agent takes and hands on to its workers, if it is told nothing else."""


@rule(
    "S25",
    title="The signal before the end of the job reaches whom it is for",
    severity="warning",
    source="sbatch(1), --signal; bash(1), SIGNALS: a trap runs when the foreground command ends; torch"
    " elastic/multiprocessing/api.py: SIGTERM, SIGINT, SIGHUP, SIGQUIT; --signals-to-handle since 2.10",
    bad=(
        RANKED.replace(_NODES, _SHELL),
        RANKED.replace(_NODES, _STEPS),
        RANKED.replace(_NODES, _SHELL).replace("srun ", _TRAP + "srun "),
        RANKED.replace(_NODES, _SHELL).replace("srun ", _TRAP.replace("USR1", "USR2") + "srun "),
        LIGHTNING.replace(_NODES, _SHELL).replace("srun ", _TRAP + "exec srun "),
        LIGHTNING.replace(_NODES, _STEPS).replace("srun ", _TRAP + "srun ").rstrip("\n") + " &\nwait\n",
    ),
    good=(
        RANKED.replace(_NODES, _SHELL).replace("srun ", _TRAP + "srun ").rstrip("\n") + " &\nwait\n",
        LIGHTNING.replace(_NODES, _STEPS),
        RANKED.replace(_NODES, _STEPS.replace("USR1", "TERM")),
        Example(RANKED.replace(_NODES, _STEPS).replace("torchrun ", "torchrun --signals-to-handle=SIGTERM,SIGUSR1 ")),
    ),
)
def signal_reaches_nobody(job: LintJob) -> Iterator[LintFinding]:
    """--signal=B: goes to the batch shell alone, which dies of it without a trap, and runs a trap only when the command
    in the foreground has ended. Without B: it goes to the steps; torchrun dies of a signal that it does not handle, and
    its workers stay."""
    option = allocation.in_force(job, "signal")
    match = (
        re.fullmatch(r"([RB]*):?(?:SIG)?([A-Z0-9]+)(?:@\d+)?", option.value or "", re.IGNORECASE) if option else None
    )
    if option is None or match is None or not job.launches:
        return
    name = {"10": "USR1", "12": "USR2", "15": "TERM", "2": "INT", "1": "HUP"}.get(match[2], match[2].upper())
    launch = job.launches[0]
    mistake = _to_the_shell(job, launch, name) if "B" in match[1].upper() else _to_the_steps(job, launch, name)
    if mistake is not None:
        yield LintFinding(span=mistake[0].span, summary=mistake[1], happens=mistake[2], fix=mistake[3])


def _trapped(job: LintJob) -> set[str]:
    """The signals of traps that a batch shell sets."""
    traps = re.findall(r"^[^#\n]*\btrap\s+(?:--\s+)?(?:\"[^\"]*\"|'[^']*'|\S+)\s+([A-Z0-9 ]+)", job.text, re.MULTILINE)
    return {part.removeprefix("SIG") for line in traps for part in line.split()}


_Told = tuple[SbatchOption | Invocation, str, str, str]


def _to_the_shell(job: LintJob, launch: LintLaunch, name: str) -> _Told | None:
    option = job.sbatch["signal"]
    trapped = _trapped(job)
    if not trapped:
        return (
            option,
            f"SIG{name} is sent to the batch shell alone (B:), which has no trap for it",
            "The shell dies of it, and SLURM ends the steps: nothing is saved, the ranks never see the signal.",
            f"Leave B: out for ranks that handle SIG{name} themselves, or set a trap, start the step with & and wait.",
        )
    if name not in trapped and name not in ("TERM", "EXIT") and not trapped & {"10", "12"}:
        return (
            option,
            f"SIG{name} is sent, and the trap is for {', '.join(sorted(trapped))[:60]}",
            "The shell dies of the signal, and the trap is never run.",
            f"Trap {name}.",
        )
    outer = [invocation for invocation in launch.invocation.within if invocation.program in ("srun", "exec", "mpirun")]
    first = outer[0] if outer else launch.invocation
    if any(invocation.program == "exec" for invocation in (first, *outer)):
        return (
            first,
            "exec replaces the shell, and its trap with it",
            f"SIG{name} reaches srun or the training, not the trap.",
            "Start it without exec, with & behind it, and wait.",
        )
    if not first.background and not launch.invocation.background:
        return (
            first,
            f"The trap for SIG{name} runs when this command has ended, for it stands in the foreground",
            "SLURM ends the job first: the trap saves and requeues nothing.",
            "Put & behind the command, and wait in the next line.",
        )
    return None


def _to_the_steps(job: LintJob, launch: LintLaunch, name: str) -> _Told | None:
    option = job.sbatch["signal"]
    if option is not None and name in _trapped(job):
        return (
            option,
            f"SIG{name} goes to the steps alone, without B:, and the trap for it is the batch shell's",
            "The trap is never run: it saves and requeues nothing.",
            f"Write --signal=B:{name}@120, start the step with & and wait for it.",
        )
    handles = launch.text("signals-to-handle") or launch.invocation.settings.get("TORCHELASTIC_SIGNALS_TO_HANDLE")
    if not look.sruns(launch):
        return None
    if launch.launcher == "srun" and option is not None:
        return _to_programs(job, launch, name)
    if look.traits(launch).sets_ranks and launch.launcher in look.TORCHRUN and name not in _HANDLED and not handles:
        return (
            option,
            f"SIG{name} goes to torchrun, which handles SIGTERM, SIGINT, SIGHUP and SIGQUIT only",
            f"torchrun dies of SIG{name}, its workers are left without it, and their own handlers are not called.",
            f"torch 2.10 has --signals-to-handle=SIGTERM,SIG{name}; before, send TERM: --signal=TERM@120.",
        )
    return None


_OF_PYTHON = lazy_re(r"signal\.signal\(\s*(?:signal\.|getattr\(signal, [\"'])?(?:SIG)?([A-Z0-9]{2,6})\b")
_LOOKS_AFTER = ("submitit", "composer", "transformers", "nemo", "megatron", "ignite", "nvidia_resiliency_ext")


def _to_programs(job: LintJob, launch: LintLaunch, name: str) -> _Told | None:
    """The ranks get it themselves: what their program does with it, where it stands beside."""
    program = program_of(job, launch)
    option = job.sbatch["signal"]
    if program is None or name in ("TERM", "KILL") or program.names(*_LOOKS_AFTER):
        return None
    handled = {text.removeprefix("SIG") for text in _OF_PYTHON.findall(program.text)}
    if is_lightning(job, launch):
        wanted = "USR1" if "requeue_signal" not in program.text else name
        if name != wanted and name not in handled:
            return (
                option,
                f"SIG{name} is sent, and Lightning saves and requeues at SIGUSR1",
                f"The ranks die of SIG{name}: nothing is saved, and the job is not requeued.",
                f"Write --signal=SIGUSR1@120, or SLURMEnvironment(requeue_signal=signal.SIG{name}).",
            )
        return None
    if handled and name not in handled:
        return (
            option,
            f"SIG{name} is sent, and the program handles {', '.join('SIG' + each for each in sorted(handled))[:60]}",
            f"The ranks die of SIG{name} before the time limit, and the handler is not called.",
            f"Send what it handles: --signal={sorted(handled)[0]}@120.",
        )
    return None


@rule(
    "S26",
    title="A job that starts again has a rendezvous of its own",
    severity="warning",
    source="pytorch#82160: etcd keeps a closed rendezvous; torch/distributed/elastic/rendezvous/etcd_rendezvous.py",
    bad=(
        RANKED.replace(_NODES, _NODES + "#SBATCH --requeue\n").replace(
            "--node-rank=$SLURM_NODEID --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT",
            "--rdzv-backend=etcd-v2 --rdzv-endpoint=etcd:2379 --rdzv-id=exp7",
        ),
        "torchrun --nnodes=1:4 --nproc-per-node=8 --rdzv-backend=etcd --rdzv-endpoint=etcd:2379 train.py\n",
    ),
    good=(
        RANKED.replace(_NODES, _NODES + "#SBATCH --requeue\n"),
        "torchrun --nnodes=1:4 --nproc-per-node=8 --rdzv-backend=etcd --rdzv-endpoint=e:2379 --rdzv-id=$JOB train.py\n",
    ),
)
def rendezvous_closed_by_the_run_before(job: LintJob) -> Iterator[LintFinding]:
    """etcd outlives the job: a rendezvous whose run has ended stays closed there, and the next run of the same id ends
    with RendezvousClosedError. Without --rdzv-id the id is the word none."""
    for launch in job.launches:
        backend, option = launch.text("rdzv-backend"), launch.option("rdzv-id")
        if backend not in ("etcd", "etcd-v2") or launch.launcher not in look.TORCHRUN:
            continue
        if option is None and not launch.unread:
            yield LintFinding(
                span=launch.invocation.words[0].span,
                summary="No --rdzv-id with etcd: the id is none, for this job and every other one",
                happens="A second run finds the closed rendezvous of the first: RendezvousClosedError.",
                fix="Add --rdzv-id with something that is new for each run and alike on all nodes.",
            )
        elif option is not None and option.value is not None and option.value.text and "requeue" in job.sbatch:
            yield LintFinding(
                span=option.span,
                summary=f"{option.written} is {option.value.text[:40]} again when the job is requeued",
                happens="etcd has kept the closed rendezvous of the first run: RendezvousClosedError.",
                fix="Write --rdzv-id=$SLURM_JOB_ID.$SLURM_RESTART_COUNT.",
            )
