"""Rules of the deepspeed launcher and its hostfile: D01 to D08."""

import re
from collections.abc import Iterator, Sequence

from gpudoctor.knowledge.wording import counted, listed
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import allocation, look
from gpudoctor.lint.edits import insert_options, remove
from gpudoctor.lint.model import Hostfile, HostLine, LintJob, LintLaunch, Option, Span
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule
from gpudoctor.lint.understood import whole

_HOSTS = "#@ file hostfile\n10.20.0.11 slots=4\n10.20.0.12 slots=4\n"
_START = "deepspeed --hostfile=hostfile --master_addr=10.20.0.11 --master_port=61234 train.py\n"
_JOB = _HOSTS + "#@ node 0\n" + _START
_NO_SSH = (
    "deepspeed --hostfile=hostfile --no_ssh --node_rank={} --master_addr=10.20.0.11 --master_port=61234 train.py\n"
)
_EACH = _HOSTS + "#@ node 0\n" + _NO_SSH.format(0) + "#@ node 1\n" + _NO_SSH.format(1)
_ONE = "deepspeed --num_gpus=4 train.py\n"
_LINE = lazy_re(r"\S+\s+slots=[0-9]+")
"""DeepSpeed's own pattern of a hostfile line (launcher/runner.py), which is matched from the start of the line."""
_LOCAL = ("localhost", "127.0.0.1", "::1")


def _launches(job: LintJob) -> Iterator[LintLaunch]:
    return (launch for launch in job.launches if launch.launcher == "deepspeed")


def _starts_by_hand(launch: LintLaunch) -> bool:
    return launch.option("no-ssh") is not None


def hosts_of(job: LintJob, launch: LintLaunch) -> Hostfile | None:
    """The hostfile that the launch names, where its text is given too."""
    named = launch.text("hostfile")
    if named is None:
        return None
    short = named.rpartition("/")[2]
    return next((file for file in job.hostfiles if file.name.rpartition("/")[2] == short), None)


@rule(
    "D01",
    title="Every line of a hostfile is NAME slots=N, each host once",
    source="DeepSpeed 0.19, launcher/runner.py; DeepSpeed#3669",
    bad=(
        _JOB.replace("12 slots=4", "12 lots=4"),
        _JOB.replace("12 slots=4", "12"),
        _JOB.replace("12 slots=4", "11 slots=4"),
        _JOB.replace("12 slots=4", "12 slots = 4"),
        "n01 slots=8\nn02 slts=8\n",
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\nscontrol show hostnames $SLURM_JOB_NODELIST > h\n"
        "deepspeed --hostfile h train.py\n",
    ),
    good=(_JOB, _EACH, "# two nodes\nn01 slots=8\n\nn02 slots=8\n"),
)
def hostfile_bad_line(job: LintJob) -> Iterator[LintFinding]:
    """DeepSpeed reads a hostfile line by line and stops at the first one that is not NAME slots=N, or that names a host
    a second time. Open MPI takes names alone too, DeepSpeed does not."""
    yield from _names_alone(job)
    for_deepspeed = {file.name for launch in _launches(job) if (file := hosts_of(job, launch)) is not None}
    for file in job.hostfiles:
        read_by_mpi = any(launch.launcher == "mpirun" for launch in job.launches) and file.name not in for_deepspeed
        for line in file.lines:
            raw = job.text[line.span.start : line.span.end] if line.span.exact else line.name
            strict = file.name in for_deepspeed and _LINE.match(raw) is None
            twice = bool(line.fault) and line.slots is not None and _LINE.match(raw) is not None
            if not (line.fault or strict) or (read_by_mpi and twice):
                continue
            wanted = _wanted(line, raw) if not twice else ""
            yield LintFinding(
                span=line.span,
                severity="warning" if twice and file.name not in for_deepspeed else None,
                summary=f"{file.name} holds {raw[:80]!r}: {line.fault or 'it is not NAME slots=N'}",
                happens="DeepSpeed ends before it starts anything: "
                + ("a host is defined twice." if twice else "the hostfile contains a bad entry."),
                fix="Name each host once, with all of its slots."
                if twice
                else f"Write {wanted or line.name + ' slots=N'}.",
                edits=(Edit(line.span, wanted),) if wanted and line.span.exact else (),
            )


_ONLY_NAMES = lazy_re(
    r"^[ \t]*(scontrol show hostnames?\b[^\n|>]*|(?:sort -u|uniq|cat) [\"']?\$\{?PBS_NODEFILE\}?[\"']?[ \t]*)"
    r">[ \t]*([\w./$\"'{}-]+)",
    re.MULTILINE,
)


def _names_alone(job: LintJob) -> Iterator[LintFinding]:
    """A hostfile that the script fills with names, where DeepSpeed reads it."""
    named = {(launch.text("hostfile") or "").rpartition("/")[2] for launch in _launches(job)}
    for match in _ONLY_NAMES.finditer(job.text):
        name = match[2].strip("\"'").rpartition("/")[2]
        if name in named and not re.search(rf"slots=.*{re.escape(name)}|sed -i.*{re.escape(name)}", job.text):
            yield LintFinding(
                span=Span(match.start(1), match.end(1), job.text.count("\n", 0, match.start(1)) + 1),
                summary=f"{name} gets the names of the hosts alone: it is not NAME slots=N",
                happens="DeepSpeed ends before it starts anything: the hostfile contains a bad entry.",
                fix="Add the slots: ... | sed 's/$/ slots=4/' > " + name + ".",
            )


def _wanted(line: HostLine, raw: str) -> str:
    """The line as it was meant, when it has a host and one number."""
    match = re.fullmatch(r"(\S+?)(?:\s+[A-Za-z_-]+\s*[=:]?\s*|\s+|:)(\d{1,4})\s*", raw, re.ASCII)
    return f"{match[1]} slots={match[2]}" if match and int(match[2]) > 0 else ""


def _filters(launch: LintLaunch) -> Iterator[Option]:
    for name in ("include", "exclude"):
        option = launch.option(name)
        if option is not None:
            yield option


@rule(
    "D02",
    title="--include and --exclude name hosts and slots of the hostfile",
    source="DeepSpeed 0.19, launcher/runner.py parse_resource_filter: No slot, unknown hostname",
    bad=(
        _JOB.replace("--master_addr", "--include=10.20.0.11:0,4 --master_addr"),
        _JOB.replace("--master_addr", "--include=10.20.0.13 --master_addr"),
        _JOB.replace("--master_addr", "--include=10.20.0.11:0,1,10.20.0.12:0,1 --master_addr"),
        _JOB.replace("--master_addr", "--exclude=10.20.0.12:7 --master_addr"),
    ),
    good=(
        _JOB,
        _JOB.replace("--master_addr", "--include=10.20.0.11:0,3@10.20.0.12:1 --master_addr"),
        "deepspeed --include localhost:4,5 --master_port=61234 inference.py\n",
    ),
)
def deepspeed_no_such_slot(job: LintJob) -> Iterator[LintFinding]:
    """Slots are counted from 0 on each host. A filter that names a slot or host which the hostfile does not have ends
    the start."""
    for launch in _launches(job):
        file = hosts_of(job, launch)
        slots = {line.name: line.slots for line in file.lines if not line.fault} if file is not None else {}
        for option in _filters(launch):
            text = option.value.text if option.value is not None else None
            if text is None:
                continue
            for part in text.split("@"):
                if part.count(":") > 1 and "[" not in part and "::" not in part:
                    yield LintFinding(
                        span=option.span,
                        summary=f"{option.written} {part.strip()}: hosts are parted by @, and not by a comma",
                        happens="DeepSpeed ends at once: ValueError: too many values to unpack (expected 2).",
                        fix=f"Write {re.sub(r',(?=[^,:@]*:)', '@', part.strip())}.",
                    )
                    continue
                if file is None:
                    continue
                host, _, numbers = part.strip().partition(":")
                count = slots.get(host)
                over = [each for each in numbers.split(",") if each.isascii() and each.isdigit() and len(each) < 10]
                outside = [each for each in over if count is not None and int(each) >= count]
                if host in slots and not outside:
                    continue
                if host not in slots and (not host or not slots):
                    continue
                what = (
                    f"{host} has {counted(count or 0, 'slot')}, 0 to {(count or 1) - 1}, and no {listed(outside)}"
                    if outside
                    else f"{host} is not in {file.name}, which has {listed(slots)}"
                )
                yield LintFinding(
                    span=option.span,
                    summary=f"{option.written} {part.strip()}: {what}",
                    happens="DeepSpeed ends at once: "
                    + (
                        f"No slot '{outside[0]}' specified on host '{host}'." if outside else "the hostname is unknown."
                    ),
                    fix="Name slots that the hostfile gives to this host."
                    if outside
                    else "Name a host of the hostfile.",
                )


_WRITTEN = lazy_re(r"\bslots=(\d{1,3})\b(?=[^\n]*>)", re.ASCII)
"""In a line that writes a file."""


@rule(
    "D03",
    title="A hostfile gives no host more slots than it has GPUs",
    severity="warning",
    needs="probe",
    source="DeepSpeed starts one process a slot; threads",
    bad=(
        Example(_JOB.replace("12 slots=4", "12 slots=8"), "nodes=2,gpus_per_node=4"),
        Example(_JOB.replace("slots=4", "slots=8"), "gpus_per_node=4"),
    ),
    good=(Example(_JOB, "nodes=2,gpus_per_node=4"), _JOB),
)
def hostfile_more_slots_than_gpus(job: LintJob) -> Iterator[LintFinding]:
    """One process is started for each slot, and takes the GPU of that number."""
    for launch in _launches(job):
        asked, written = allocation.gpus_per_node(job, launch), _WRITTEN.search(job.text) if job.is_batch else None
        if asked and written is not None and int(written[1]) > asked and launch.option("hostfile"):
            yield LintFinding(
                span=Span(written.start(), written.end(), job.text.count("\n", 0, written.start()) + 1),
                summary=f"the hostfile gets slots={written[1]}, and the job has {counted(asked, 'GPU')} a node",
                happens="The processes beyond the GPUs end with CUDA error: invalid device ordinal.",
                fix=f"Write slots={asked}.",
            )
            return
    gpus = job.facts.gpus_per_node
    if not gpus or not any(hosts_of(job, launch) for launch in _launches(job)):
        return
    for file in job.hostfiles:
        for line in file.lines:
            if not line.fault and line.slots is not None and line.slots > gpus:
                yield LintFinding(
                    span=line.span,
                    summary=f"{line.name} has slots={line.slots}; a node has {counted(gpus, 'GPU')}",
                    happens="The processes beyond the GPUs end with CUDA error: invalid device ordinal.",
                    fix=f"Write {line.name} slots={gpus}. To see its GPUs: ssh {line.name} nvidia-smi -L",
                )


def _visible(launch: LintLaunch) -> tuple[int, ...] | None:
    setting = launch.invocation.settings.get("CUDA_VISIBLE_DEVICES")
    text = setting.word.text if setting is not None and setting.exported else None
    if not text or not re.fullmatch(r"[0-9]{1,4}(,[0-9]{1,4})*", text, re.ASCII):
        return None
    return tuple(map(int, text.split(",")))


@rule(
    "D04",
    title="GPUs are chosen by --include, not by CUDA_VISIBLE_DEVICES beside other filters",
    needs="facts",
    source="DeepSpeed 0.19, launcher/runner.py: CUDA_VISIBLE_DEVICES is ignored beside hostfile or filters",
    bad=(
        "CUDA_VISIBLE_DEVICES=4,5 deepspeed --num_gpus=2 train.py\n",
        _JOB.replace("deepspeed --host", "CUDA_VISIBLE_DEVICES=2,3 deepspeed --host"),
        Example("CUDA_VISIBLE_DEVICES=2,3 deepspeed train.py\n", "deepspeed=0.14.0"),
    ),
    good=(
        Example("CUDA_VISIBLE_DEVICES=4,5 deepspeed train.py\n", "deepspeed=0.16"),
        "CUDA_VISIBLE_DEVICES=0,1 deepspeed --num_gpus=2 train.py\n",
        "deepspeed --include=localhost:4,5 train.py\n",
    ),
)
def deepspeed_visible_devices(job: LintJob) -> Iterator[LintFinding]:
    """The launcher sets CUDA_VISIBLE_DEVICES for each process itself. What the user sets counts on one node without
    hostfile and filters only; before 0.15.2 also that fails when the list does not begin with 0, 1, 2 ..."""
    version = job.facts.version("deepspeed")
    for launch in _launches(job):
        listed_gpus = _visible(launch)
        if listed_gpus is None or listed_gpus == tuple(range(len(listed_gpus))):
            continue
        setting = launch.invocation.settings["CUDA_VISIBLE_DEVICES"]
        numbers = ",".join(map(str, listed_gpus))
        filters = [name for name in ("hostfile", "include", "exclude", "num-nodes", "num-gpus") if launch.option(name)]
        if not filters and (version is None or version >= (0, 15, 2)):
            continue
        count = launch.option("num-gpus")
        edits: tuple[Edit, ...] = ()
        if filters == ["num-gpus"] and count is not None and whole(count) == len(listed_gpus):
            # In front of every version: --include counts all GPUs only when CUDA_VISIBLE_DEVICES is gone.
            start = setting.word.span.start
            assigned = job.text.rfind("CUDA_VISIBLE_DEVICES=", 0, start + 22)
            if setting.how == "prefix" and assigned >= 0 and start - assigned <= 22:
                whole_span = type(setting.word.span)(assigned, setting.word.span.end, setting.word.span.line)
                edits = (remove(job.text, whole_span), Edit(count.span, f"--include=localhost:{numbers}"))
        by = f"--{filters[0].replace('-', '_')}" if filters else ""
        yield LintFinding(
            span=setting.word.span,
            summary=f"CUDA_VISIBLE_DEVICES={numbers} "
            + (f"beside {by}: deepspeed takes no notice of it" if by else
               f"with DeepSpeed {job.facts.versions['deepspeed']}, which takes lists from 0 only"),
            happens=(f"The processes run on other GPUs than {numbers}, from 0 on, or on more of them." if by else
                     f"The start ends with: No slot '{listed_gpus[0]}' specified on host 'localhost'."),
            fix=f"Choose them by --include: --include=localhost:{numbers} (and no CUDA_VISIBLE_DEVICES)."
            if "hostfile" not in filters else
            f"Choose them by --include for each host: --include=HOST1:{numbers}@HOST2:{numbers}.",
            edits=edits,
        )  # fmt: skip


def _remote(lines: Sequence[HostLine]) -> list[str]:
    return [line.name for line in lines if not line.fault and line.name not in _LOCAL]


@rule(
    "D05",
    title="The head reaches every host of the hostfile by ssh without a password, itself too",
    severity="info",
    needs="probe",
    source="DeepSpeed#4907; launcher/runner.py asks the first host for its addresses by ssh",
    bad=(_JOB, _JOB.replace("--hostfile=hostfile", "--num_nodes 2 --num_gpus 4 --hostfile hostfile")),
    good=(_EACH, _ONE, "deepspeed --include localhost:4,5 --master_port=61234 inference.py\n"),
)
def deepspeed_needs_ssh(job: LintJob) -> Iterator[LintFinding]:
    """The launcher is run once and starts the others through pdsh and ssh. It also asks the first host of the list by
    ssh, which is the head itself in most cases: without a key for itself it ends with status 255."""
    for launch in _launches(job):
        file = hosts_of(job, launch)
        if file is None or _starts_by_hand(launch) or launch.text("launcher") not in (None, "pdsh", "openmpi"):
            continue
        hosts = list(dict.fromkeys(_remote(file.lines)))
        if len(hosts) < 2:
            continue
        yield LintFinding(
            span=look.head_span(launch),
            summary=f"deepspeed starts {counted(len(hosts), 'host')} by ssh; that it works without a password is not"
            " in the text",
            happens="Where one of them asks for a password, the start ends with exit status 255. The first is asked"
            f" too ({hosts[0]}), though it may be the head itself.",
            fix="Try each of them on the head: "
            + "; ".join(f"ssh -o BatchMode=yes {host} true" for host in hosts[:4])
            + ". Without ssh: --no_ssh --node_rank=K on every node (DeepSpeed 0.14.5).",
        )


@rule(
    "D06",
    title="Several nodes have a hostfile",
    source="DeepSpeed 0.19, launcher/runner.py: without a hostfile only local resources are used",
    bad=(
        "deepspeed --num_nodes=2 --num_gpus=4 train.py\n",
        "deepspeed --num_nodes 2 --master_addr 10.20.0.11 --master_port 61234 train.py\n",
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\nsrun deepspeed --num_gpus=4 train.py\n",
    ),
    good=(
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\nsrun -N1 -n1 deepspeed --num_gpus=4 train.py\n",
        _JOB,
        _ONE,
        "deepspeed --num_nodes=1 --num_gpus=4 train.py\n",
    ),
)
def deepspeed_nodes_without_hostfile(job: LintJob) -> Iterator[LintFinding]:
    """Nodes come from the hostfile, and --num_nodes chooses among them. Without --hostfile, DeepSpeed looks for
    /job/hostfile, and without that it uses this node's GPUs only."""
    for launch in _launches(job):
        nodes, started = launch.option("num-nodes"), look.srun_nodes(job, launch) or 1
        if launch.option("hostfile", "launcher") or launch.unread:
            continue
        if look.from_platform(job, launch) or any(file.name == "/job/hostfile" for file in job.hostfiles):
            continue
        if started > 1 and nodes is None and not launch.option("no-ssh", "node-rank", "include"):
            yield LintFinding(
                span=look.head_span(launch),
                summary=f"srun starts deepspeed on {started} nodes, and none of them is told of the others",
                happens="Unless /job/hostfile exists, each trains alone on its own GPUs, without a message.",
                fix="Start deepspeed once, with --hostfile=FILE of all nodes; or on every node with --no_ssh"
                " --node_rank=$SLURM_NODEID, --num_nodes and --master_addr (DeepSpeed 0.14.5).",
            )
            continue
        if nodes is None or (whole(nodes) or 0) < 2:
            continue
        yield LintFinding(
            span=nodes.span,
            summary=f"{nodes.written} {whole(nodes)} and no --hostfile",
            happens="Unless /job/hostfile exists, DeepSpeed trains on this node only, and reaches no other.",
            fix="Write a hostfile with a line NAME slots=G for each node, and add --hostfile=FILE.",
        )


@rule(
    "D07",
    title="Hosts are chosen in one way",
    source="DeepSpeed 0.19, launcher/runner.py: Cannot specify num_nodes/gpus with include/exclude",
    bad=(
        "deepspeed --include localhost:0,1 --num_gpus 2 train.py\n",
        _JOB.replace("--master_addr", "--num_nodes=2 --exclude=10.20.0.12:3 --master_addr"),
    ),
    good=("deepspeed --include localhost:0,1 train.py\n", _ONE, _JOB),
)
def deepspeed_two_filters(job: LintJob) -> Iterator[LintFinding]:
    """--include and --exclude name hosts and slots, --num_nodes and --num_gpus count them: DeepSpeed takes one of the
    two ways, and of --include and --exclude one."""
    for launch in _launches(job):
        filters = list(_filters(launch))
        counts = [option for name in ("num-nodes", "num-gpus") if (option := launch.option(name)) is not None]
        if not filters or not (counts or len(filters) > 1):
            continue
        others = counts or filters[1:]
        yield LintFinding(
            span=others[0].span,
            summary=f"{filters[0].written} and {listed(other.written for other in others)} together",
            happens="DeepSpeed ends at once with a ValueError: the two ways exclude each other.",
            fix=f"Keep {filters[0].written} and drop {listed(other.written for other in others)}.",
            edits=tuple(remove(job.text, count.span) for count in counts),
        )


@rule(
    "D08",
    title="deepspeed is started once, or on every node with --no_ssh",
    source="DeepSpeed 0.19, launcher/runner.py: the pdsh launcher starts all nodes from one",
    leads_to=("master-port-in-use",),
    bad=(
        _HOSTS + "#@ node 0\n" + _START + "#@ node 1\n" + _START,
        _HOSTS + "#@ every node\n" + _START,
    ),
    good=(_JOB, _EACH, _ONE),
)
def deepspeed_on_every_node(job: LintJob) -> Iterator[LintFinding]:
    """With a hostfile of several hosts the launcher starts the ranks of all of them. Run on each node, it starts
    as many jobs, which fight for the same GPUs and the same port."""
    launches = [
        launch
        for launch in _launches(job)
        if not _starts_by_hand(launch)
        and ((file := hosts_of(job, launch)) is None or len(set(_remote(file.lines))) > 1)
        and (file is not None or (look.sruns(launch) and launch.option("hostfile") is not None))
    ]
    nodes = {node for launch in launches if (node := look.section_node(job, launch)) is not None}
    for launch in launches:
        tasks = bool(look.sruns(launch)) and look.runs_on(job, launch) != 1
        if len(nodes) < 2 and not look.says_every_node(job, launch) and not tasks:
            continue
        node = look.section_node(job, launch)
        edits = insert_options(launch, f"--no_ssh --node_rank={node}") if len(nodes) > 1 and node is not None else ()
        if edits and launch.option("no-ssh", "node-rank"):
            edits = ()
        yield LintFinding(
            span=look.head_span(launch),
            summary=f"deepspeed with a hostfile runs on {look.label(job, launch) if node is not None else 'every node'}"
            " too; once, on the head, is enough",
            happens="Each starts all ranks of all hosts: EADDRINUSE, or several trainings on the same GPUs.",
            fix="Run it on the head only; or on every node with --no_ssh --node_rank=K (DeepSpeed 0.14.5).",
            edits=edits,
        )
