"""The start in a few words: launcher, nodes, ranks, head, framework, script; and what the text leaves open."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.tensorflow import NOT_COVERED
from gpudoctor.launcher import registry
from gpudoctor.launcher.programs import ADD_OPTIONS
from gpudoctor.launcher.traits import ManifestKind
from gpudoctor.lint import allocation, look, processes, rank_counts, spawning
from gpudoctor.lint.frameworks import framework_in, trains_by_tensorflow
from gpudoctor.lint.lightning import CLASSES, is_lightning
from gpudoctor.lint.model import LintJob, LintLaunch, Option
from gpudoctor.lint.programs import launched_file
from gpudoctor.lint.report import Understood
from gpudoctor.lint.trainers import RANKS, STARTERS

SHOWN_UNKNOWN = 20
"""More open questions than that are a text that is not about starting."""


def understood(job: LintJob) -> Understood:
    """Of the first start in the text, which is the head's where the text has several nodes."""
    if not job.launches:
        return _without_launch(job)
    launch = main_launch(job)
    pods, per_pod = of_operator(job, launch)
    nodes, each = nodes_of(job, launch) or pods, per_pod or processes_of(job, launch)
    if launch.launcher in ("python", "srun") and (spawned := spawning.spawned_per_process(job, launch)):
        each = spawned * ((each or 1) if launch.launcher == "srun" else 1)
        nodes = nodes or spawning.nodes_of_program(job, launch)
    if launch.launcher == "horovodrun" and (shares := hosts_of(launch)):
        nodes, each = len(shares), shares[0] if len(set(shares)) == 1 else None
        return _understood(job, launch, nodes, each, sum(shares))
    total = look.traits(launch).total_option
    counts = rank_counts.counts(job, launch)
    nodes, each = nodes or counts.nodes, each or counts.each
    world = (whole(launch.option(total)) if total else None) or counts.total
    told = launch.option(total) if total and look.traits(launch).counts is not None else None
    if world is None and nodes and each and told is None:
        world = nodes * each
    if each is None and world and nodes and world % nodes == 0:
        each = world // nodes
    return _understood(job, launch, nodes, each, world)


def _understood(job: LintJob, launch: LintLaunch, nodes: int | None, each: int | None, world: int | None) -> Understood:
    script = launch.script
    return Understood(
        launcher=launch.launcher,
        nodes=nodes,
        processes_per_node=each,
        world_size=world,
        master=_master(launch),
        framework=framework_of(job, launch),
        script=script.shown if script is not None else None,
    )


def hosts_of(launch: LintLaunch) -> tuple[int, ...]:
    """Ranks on each host of `horovodrun -H a:2,b:2`, filled in order up to -np; () where the text does not tell."""
    shares: list[int] = []
    text, option = launch.text("hosts"), launch.option("np")
    left = whole(option)
    if text is None or (option is not None and left is None) or launch.option("host-discovery-script") is not None:
        return ()
    for host in text.split(","):
        match = re.fullmatch(r"\s*[^:\s]+:([0-9]{1,6})\s*", host, re.ASCII)
        if match is None:
            return ()
        share = int(match[1]) if left is None else min(int(match[1]), left - sum(shares))
        if share > 0:
            shares.append(share)
    return tuple(shares) if left is None or sum(shares) == left else ()


def main_launch(job: LintJob) -> LintLaunch:
    """The start that the others take part in: of node 0 where the text says so, else the first; of a program in the
    background (a server) and a launcher's start behind it that of the launcher."""
    first = job.launches[0]
    if first.invocation.background and first.launcher in ("srun", "python"):
        first = next((launch for launch in job.launches[1:] if look.traits(launch).sets_ranks), first)
    return next((launch for launch in job.launches if look.section_node(job, launch) == 0), first)


def _without_launch(job: LintJob) -> Understood:
    names = {line.name for file in job.hostfiles for line in file.lines if not line.fault}
    framework = framework_in(job)
    starter = next((call for call in job.trainers if call.name in STARTERS), None)
    told = {starter.arguments[name] for name in RANKS if name in starter.arguments} if starter is not None else set()
    each = next((int(value) for value in told if re.fullmatch(r"[0-9]{1,6}", value, re.ASCII)), None)
    group = any(call.name not in CLASSES and call.name != "DataParallel" for call in job.trainers) or framework
    counted = rank_counts.of_python(job)
    named, of_call = rank_counts.starter(job) if starter is None else ("", counted)
    counted = counted if counted != rank_counts.NOTHING else of_call
    if starter is None and not named and not group:
        named, counted = rank_counts.of_images(job)
    each = each or counted.each
    nodes = len(names) or counted.nodes or (job.facts.nodes if each else None)
    return Understood(
        # a program that is given alone is started by plain python: one rank, whatever it makes of it
        launcher=starter.name
        if starter is not None
        else named or ("horovodrun" if framework == "horovod" else "python" if group else _of_ray(job)),
        nodes=nodes or None,
        processes_per_node=each,
        world_size=nodes * each if nodes and each else counted.total,
        framework=framework,
    )


def _of_ray(job: LintJob) -> str | None:
    """A cluster of Ray that is made, head and workers, into which a training is handed later."""
    words = [{word.shown.partition("=")[0] for word in each.words} for each in job.invocations if each.program == "ray"]
    made = [each for each in words if "start" in each]
    return "ray start" if any("--head" in each for each in made) and any("--address" in each for each in made) else None


def whole(option: Option | None) -> int | None:
    """An option's value as a whole number, when it certainly is one."""
    text = option.value.text if option is not None and option.value is not None else None
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else None


def by_default(option: Option | None) -> int | None:
    """Of `--nproc_per_node ${NGPU:-8}`: what it is where nobody sets the variable, and no fact tells otherwise."""
    word = option.value if option is not None else None
    if word is None or word.text is not None:
        return whole(option)
    shown = word.shown
    for expansion in word.expansions:
        if expansion.value is None and expansion.default is not None:
            shown = shown.replace(expansion.raw, expansion.default)
    shown = shown.replace('"', "").replace("'", "")
    return int(shown) if re.fullmatch(r"[0-9]{1,9}", shown, re.ASCII) else None


def nodes_of(job: LintJob, launch: LintLaunch) -> int | None:
    """Nodes of the training, from the launcher, the batch job, the sections or the facts."""
    told = look.nnodes(launch)
    if told is not None:
        return told[1]
    if look.standalone(launch) and look.value(launch, "nnodes") is None:
        return 1  # --nnodes is 1 unless it is given
    if (counts := look.traits(launch).counts) is not None and (told_nodes := counts(launch)[0]):
        return told_nodes
    if launch.launcher == "deepspeed" and (told_nodes := whole(launch.option("num-nodes"))):
        return told_nodes
    if look.sruns(launch):
        return look.srun_nodes(job, launch)
    if not job.facts.nodes and (of_default := by_default(launch.option("nnodes", "num-machines"))):
        return of_default
    names = {line.name for file in job.hostfiles for line in file.lines}
    if launch.launcher in ("deepspeed", "mpirun", "horovodrun") and launch.option("hostfile") and names:
        return len(names)
    sections = {section.node for section in job.node_sections}
    told_nodes = job.facts.nodes or look.batch_nodes(job) or (len(sections) if len(sections) > 1 else None)
    hidden = look.may_hide_options(launch) or look.from_platform(job, launch)
    alone = launch.launcher in look.TORCHRUN and look.value(launch, "nnodes") is None
    alone = alone or (launch.launcher == "deepspeed" and launch.option("hostfile", "num-nodes", "no-ssh") is None)
    if told_nodes is None and alone and not hidden:
        return 1  # the default of --nnodes; deepspeed without a hostfile
    return told_nodes


def processes_of(job: LintJob, launch: LintLaunch) -> int | None:
    """Ranks on each node."""
    kind = look.traits(launch)
    option = launch.option(kind.ranks_option) if kind.ranks_option else None
    if option is not None and option.value is not None:
        if option.value.text in ("gpu", "auto", "-1"):
            return job.facts.gpus_per_node
        number = processes.started(job, launch).number
        return number if isinstance(number, int) else by_default(option)
    if kind.counts is not None and (each := kind.counts(launch)[1]) is not None:
        return each
    if launch.launcher in look.TORCHRUN and not launch.unread:
        return kind.ranks_default
    if launch.launcher == "srun":
        return allocation.tasks_per_node(job, launch)
    if launch.launcher == "deepspeed":
        slots = {line.slots for file in job.hostfiles for line in file.lines if not line.fault}
        return next(iter(slots)) if len(slots) == 1 else None
    return processes.per_node(job, launch)


def of_operator(job: LintJob, launch: LintLaunch) -> tuple[int | None, int | None]:
    """Pods and ranks in each, which Kubeflow's operator hands torchrun as PET_NNODES and PET_NPROC_PER_NODE where its
    command line is silent."""
    if not look.from_platform(job, launch) or len(job.manifests) != 1:
        return None, None
    values = {".".join(value.path): value.value for value in job.manifests[0].values}
    kind = registry.manifest_kinds().get(job.manifests[0].kind, ManifestKind(kind=""))
    pods = [_number(values[path]) for path in kind.pods if path in values]
    ranks = _number(values.get(kind.ranks, ""))
    silent = launch.launcher in look.TORCHRUN and launch.option("nproc-per-node") is None
    return sum(pod or 0 for pod in pods) or None, ranks if silent else None


def _number(text: str) -> int | None:
    return int(text) or None if re.fullmatch(r"[0-9]{1,6}", text, re.ASCII) else None


def _master(launch: LintLaunch) -> str | None:
    address, port = look.master(launch), look.port(launch)
    if address is None:
        return None
    text = address.text if address.text is not None else address.shown
    return f"{text}:{port.text if port.text is not None else port.shown}" if port is not None else text


def framework_of(job: LintJob, launch: LintLaunch) -> str | None:
    """ "lightning", "torch", "deepspeed" ...: what trains, as far as the text shows it."""
    if is_lightning(job, launch):
        return "lightning"
    if trains := look.traits(launch).trains:
        return trains
    inside = framework_in(job, launch)
    if inside is not None:
        return inside
    settings = launch.invocation.settings
    preset = [name for name in ("NODE_RANK", "LOCAL_RANK") if name in settings]
    return "lightning" if launch.launcher == "python" and len(preset) == 2 else None


def open_questions(job: LintJob) -> Iterator[str]:
    """What the text and the facts do not decide."""
    yield from dict.fromkeys(job.notes)
    if not job.launches:
        if rank_counts.of_images(job)[0]:
            yield "the images start the training themselves: their commands are not in the text"
        if not job.hostfiles and not job.manifests and not job.trainers and framework_in(job) != "horovod":
            yield "no start of a training was found in the text"
            if trains_by_tensorflow(job):
                yield NOT_COVERED
        return
    told: set[str] = set()
    for launch in job.launches[: look.SIBLINGS]:
        for name in look.traits(launch).decisive:
            option = launch.option(name)
            if option is None or option.value is None or option.value.text is not None:
                continue
            expansions = [expansion for expansion in option.value.expansions if expansion.value is None]
            key = f"{option.written} {option.value.shown}"
            if key in told:
                continue
            told.add(key)
            unset = [expansion for expansion in expansions if expansion.name and expansion.is_set is False]
            names = ", ".join(dict.fromkeys(f"${expansion.name}" for expansion in unset))
            how = f"; --env FILE with {names} tells it" if names else ""
            yield f"line {option.span.line}: the value of {option.written} {option.value.shown} is not in the text{how}"
            if len(told) >= SHOWN_UNKNOWN:
                return
        program = launch.script
        is_program = program is not None and program.shown.endswith(".py") and program.shown not in told
        if program is not None and is_program and launched_file(job, launch) is None:
            told.add(program.shown)
            yield f"line {program.span.line}: {program.shown}: not given, so what its ranks do was not judged"
        for word in launch.unread:
            if word.shown not in told:
                told.add(word.shown)
                holds = (
                    "adds options of its own, which are"
                    if word.shown in ADD_OPTIONS
                    else "may hold more options, and its value is"
                )
                yield f"line {word.span.line}: {word.shown} {holds} not in the text"
