"""Rules of the signal that ends a container: K91."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, LintLaunch
from gpudoctor.lint.rule import LintFinding, rule

_POD = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: t}}\nspec:\n  template:\n    spec:\n"
    "      restartPolicy: Never\n      terminationGracePeriodSeconds: {}\n      containers:\n      - name: t\n"
    "        image: a\n        command: [bash, -c]\n        args:\n        - |\n          {}\n"
    "        resources: {{limits: {{nvidia.com/gpu: 8}}}}\n"
    "        volumeMounts: [{{name: shm, mountPath: /dev/shm}}]\n"
    "      volumes: [{{name: shm, emptyDir: {{medium: Memory}}}}]\n"
)
_RUN = "torchrun --standalone --nproc-per-node=8 train.py"
_IMAGE = '#@ file Dockerfile\nFROM a:1\nCMD ["bash", "run.sh"]\n#@ file run.sh\n{}\n'
_HANDLES = lazy_re(r"signal\.(?:signal|sigwait|add_signal_handler)\([^)\n]*SIGTERM|SIGTERM[^\n]*signal\.signal")
_PASSES_ON = lazy_re(r"\btrap\b|\btini\b|dumb-init|^\s*init:\s*true|--init\b|shareProcessNamespace|\bs6-", re.MULTILINE)
USUAL_SECONDS = 30


@rule(
    "K91",
    title="The signal that ends a container comes to its training",
    severity="warning",
    source="bash(1): it runs no trap and hands no signal on while a command runs; pid_namespaces(7): process 1 gets no"
    " signal for which it has no handler; Kubernetes: terminationGracePeriodSeconds is 30",
    bad=(
        _POD.format(300, f"echo start\n          {_RUN}\n          echo done"),
        _IMAGE.format(f"export A=1\n{_RUN}")
        + "#@ file train.py\nimport signal\nimport torch.distributed as dist\nsignal.signal(signal.SIGTERM, save)\n"
        "dist.init_process_group('nccl')\n",
    ),
    good=(
        _POD.format(300, f"echo start\n          exec {_RUN}"),
        _POD.format(30, f"echo start\n          {_RUN}\n          echo done"),
        _POD.format(300, f"trap 'kill $!' TERM\n          {_RUN} &\n          wait"),
        _IMAGE.format(f"export A=1\nexec {_RUN}")
        + "#@ file train.py\nimport signal\nimport torch.distributed as dist\nsignal.signal(signal.SIGTERM, save)\n"
        "dist.init_process_group('nccl')\n",
    ),
)
def signal_stays_in_the_shell(job: LintJob) -> Iterator[LintFinding]:
    """The shell of a container is its process 1. SIGTERM goes to it alone, and is dropped there: the training goes on
    until it is killed, without the checkpoint that it would write."""
    if _PASSES_ON.search(job.text):
        return
    for launch in job.launches:
        wish = _wants(job, launch) if _in_a_shell(job, launch) else ""
        if wish:
            yield LintFinding(
                span=look.head_span(launch),
                summary=f"the container's shell starts this and stays process 1, and {wish}",
                happens="SIGTERM ends at the shell: the ranks are told nothing, and are killed when the time is over.",
                fix="Write exec in front of it, as the last command; or trap the signal and kill what runs in the"
                " background; or give the container an init (docker run --init, tini).",
            )
            return


def _in_a_shell(job: LintJob, launch: LintLaunch) -> bool:
    """A shell is the container's first process, and does not become the start."""
    around = [outer.program for outer in launch.invocation.within]
    image = not launch.invocation.manifest_path and any(each.name.endswith("Dockerfile") for each in job.sections)
    if not around or around[0] not in look.SHELLS or "exec" in around or launch.invocation.background:
        return False
    if not (launch.invocation.manifest_path or image) or launch.around or set(around) - {*look.SHELLS, "exec"}:
        return False
    if image:
        return True
    same = launch.invocation.manifest_path
    behind = (
        each for each in job.invocations if each.manifest_path == same and each.within == launch.invocation.within
    )
    is_file = len(launch.invocation.within[0].words) > 1 and launch.invocation.within[0].words[1].shown[:1] != "-"
    return is_file or any(each.span.start > launch.invocation.span.end for each in behind)


def _wants(job: LintJob, launch: LintLaunch) -> str:
    """Why the signal matters here; empty where nothing speaks of it."""
    if any(section.kind == "file" and section.name.endswith(".py") and _HANDLES.search(section.text)
           for section in job.sections):  # fmt: skip
        return "the program has a handler of SIGTERM"
    named = next((word.shown for word in launch.script_words if "sigterm" in word.shown.lower()), "")
    if named:
        return f"the program is told {named}"
    for manifest in job.manifests:
        for value in manifest.values:
            told = value.path[-1:] == ("terminationGracePeriodSeconds",) and launch.invocation.manifest_path
            if told and value.value.isdecimal() and int(value.value) > USUAL_SECONDS:
                return f"it is given {value.value} s to end after SIGTERM (line {value.span.line})"
    return ""
