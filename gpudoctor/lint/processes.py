"""How many processes a launch starts on each node where it runs, and which GPUs the text shows to it."""

import re
from typing import Literal

from msgspec import Struct

from gpudoctor.knowledge.visible.devices import VARIABLE
from gpudoctor.knowledge.visible.entries import DeviceEntry, entries
from gpudoctor.launcher import registry
from gpudoctor.lint import allocation, lightning, look
from gpudoctor.lint.model import LintJob, LintLaunch, SetVariable, Word


class RankCount(Struct, frozen=True):
    """Processes on each node, by the launch itself. `word` is the value that says so, where one does."""

    number: int | Literal["gpus"] | None
    """ "gpus": as many as GPUs are visible; None: not known."""
    written: str = ""
    word: Word | None = None


def started(job: LintJob, launch: LintLaunch) -> RankCount:
    """Processes that the launcher starts on a node."""
    kind = look.traits(launch)
    if kind.ranks_option:
        return _counted(job, launch, kind.ranks_option, kind.ranks_default)
    if kind.total_option and kind.a_node:
        total = _counted(job, launch, kind.total_option, None)
        nodes = look.nnodes(launch) or _header_nodes(job, launch)
        if isinstance(total.number, int) and nodes is not None:
            return RankCount(total.number // max(1, nodes[1]), total.written, total.word)
        if isinstance(total.number, int) and launch.option("num-machines", "config-file") is None:
            return total
        return RankCount(None, total.written, total.word)
    return RankCount(None)


def _header_nodes(job: LintJob, launch: LintLaunch) -> tuple[int, int] | None:
    """Of `--num_machines $NNODES` with NNODES=$SLURM_NNODES: the header's nodes."""
    given = look.value(launch, "nnodes")
    names = {origin.name for origin in look.origins(given.word, launch.invocation)} if given is not None else set()
    nodes = look.batch_nodes(job)
    if nodes is None or not names & {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"} or not look.sruns(launch):
        return None
    return nodes, nodes


def _counted(job: LintJob, launch: LintLaunch, name: str, default: int | None) -> RankCount:
    option = launch.option(name)
    if option is None:
        return RankCount(None if launch.unread or _by_operator(job, launch) else default)
    text = allocation.resolved(job, option.value)
    if text in ("gpu", "auto", "-1"):
        return RankCount("gpus", option.written, option.value)
    number = allocation.whole(text)
    if number is None and option.value is not None and re.search(r"GPUS?_ON_NODE", option.value.shown):
        number = allocation.gpus_per_node(job, launch)
    return RankCount(number, option.written, option.value)


def _by_operator(job: LintJob, launch: LintLaunch) -> bool:
    """Whether a Kubernetes operator or a service may hand the number to the launcher."""
    kinds = registry.manifest_kinds()
    return look.from_platform(job, launch) and any(
        manifest.kind in kinds and kinds[manifest.kind].ranks for manifest in job.manifests
    )


class ShownGpus(Struct, frozen=True):
    """The GPUs in CUDA_VISIBLE_DEVICES, as CUDA counts them: up to the first entry that it cannot take."""

    count: int
    value: str
    setting: SetVariable


def shown_gpus(launch: LintLaunch) -> ShownGpus | None:
    """What the text sets CUDA_VISIBLE_DEVICES to for this launch; None when it does not, or nobody knows."""
    setting = launch.invocation.settings.get(VARIABLE)
    if setting is None or not setting.exported or setting.word.text is None:
        return None
    return ShownGpus(len(counted_entries(setting.word.text)), setting.word.text, setting)


def counted_entries(value: str) -> list[DeviceEntry]:
    """The entries of CUDA_VISIBLE_DEVICES up to the first that CUDA cannot take."""
    counted = []
    for entry in entries(value):
        if entry.form in ("blank", "text") or (entry.form == "ordinal" and entry.number < 0):
            break
        counted.append(entry)
    return counted


def gpus(job: LintJob, launch: LintLaunch) -> int | None:
    """GPUs that the processes of a node see, as far as text and facts tell."""
    shown = shown_gpus(launch)
    if shown is not None:
        return shown.count
    if launch.invocation.settings.get(VARIABLE) is not None:
        return None
    given = given_gpus(job, launch)
    if given is not None:
        return given
    asked = allocation.gpus_per_node(job, launch)
    return asked if asked is not None else job.facts.gpus_per_node


def given_gpus(job: LintJob, launch: LintLaunch) -> int | None:
    """GPUs on a node that docker, or the document around the command, gives it."""
    return _of_outer(launch) or _of_document(job, launch) or _of_function(job, launch)


def _of_document(job: LintJob, launch: LintLaunch) -> int | None:
    """SkyPilot's accelerators, Vertex AI's acceleratorCount, a compose service's reserved devices. Kubernetes' own
    limits stand in `pods`."""
    path = launch.invocation.manifest_path
    start = launch.invocation.span.start
    around = next(
        (
            manifest
            for manifest in job.manifests
            if not manifest.api_version
            and manifest.values
            and manifest.values[0].span.start <= start <= max(value.span.end for value in manifest.values)
        ),
        None,
    )
    if around is None:
        return None
    kind = registry.manifest_kinds().get(around.kind)
    if kind is not None and kind.gpus is not None:
        return kind.gpus({".".join(value.path): value.value for value in around.values})
    if around.kind != "Compose":
        return None
    own = [value for value in around.values if value.path[:2] == path[:2] and "devices" in value.path]
    numbers = {int(each.value) if each.value.isdecimal() else 0 for each in own if each.path[-1] == "count"}
    ids = {value.path for value in around.values if "device_ids" in value.path and value.path[:2] == path[:2]}
    numbers |= {len(ids)} if ids else set()
    return numbers.pop() if len(numbers) == 1 and 0 not in numbers else None


_DOCKER = r"--gpus[= ]\"?'?\"?(?:(\d{1,2})|device=([\w-]+(?:,[\w-]+)*))\"?'?(?=\s|$)"
_GIVES = {
    **dict.fromkeys(("docker", "podman", "nerdctl"), _DOCKER),
    "sky": r"--gpus[= ][A-Za-z][\w.-]*:(\d{1,2})()(?=\s|$)",
    "flux": r"(?:-g ?|--gpus-per-(?:node|task|slot)[= ])(\d{1,2})()(?=\s|$)",
    "ray": r"--entrypoint-num-gpus[= ](\d{1,2})()(?=\s|$)",
}
"""What a program is told of GPUs for what it starts: docker's number or devices, those of a node of SkyPilot, of a task
of flux, of the entrypoint of a job of Ray."""


def _of_outer(launch: LintLaunch) -> int | None:
    """GPUs that `docker run --gpus 2`, `sky launch --gpus A100:8`, `flux run -g 4` gives to what it starts."""
    for outer in reversed(launch.invocation.within):
        pattern = _GIVES.get(outer.program)
        match = re.search(pattern, " ".join(word.shown for word in outer.words), re.ASCII) if pattern else None
        if match is not None and (outer.program != "flux" or look.traits(launch).a_node):
            return int(match[1]) if match[1] else len(match[2].split(","))
    return None


def _of_function(job: LintJob, launch: LintLaunch) -> int | None:
    """GPUs that a service gives the function in which a program starts this."""
    if job.kind != "python":
        return None
    readers = (traits.gpus_at for traits in registry.every() if traits.gpus_at is not None)
    return next((told for reader in readers if (told := reader(job.text, launch.invocation.span.start))), None)


def on_cpu(launch: LintLaunch) -> bool:
    """The text says that the ranks compute on the CPU."""
    words = [word.shown for word in launch.script_words]
    text = " ".join(words)
    if launch.option("cpu", "use-cpu") is not None:
        return True
    return bool(
        re.search(
            r"--(?:use[-_])?cpu(?![\w-])|--no[-_]cuda\b|--device[= ]cpu\b|(?:backend|accelerator)[= ](?:gloo|cpu)\b",
            text,
        )
    )


def per_node(job: LintJob, launch: LintLaunch) -> int | None:
    """Ranks on each node, of whoever starts them: the launcher, srun, Lightning."""
    count = started(job, launch)
    if isinstance(count.number, int):
        return count.number
    if count.number == "gpus":
        return gpus(job, launch)
    if launch.launcher == "srun":
        return allocation.tasks_per_node(job, launch)
    if launch.launcher == "python":
        asked = lightning.devices(job, launch)
        return gpus(job, launch) if asked == "auto" else asked
    counts = look.traits(launch).counts
    return counts(launch)[1] if counts is not None else None
