"""Rules of what launchers refuse in their options, by the rows of knowledge/refused_launchers.py, and of settings that
stay empty: R19, R20."""

import re
from collections.abc import Callable, Iterator
from functools import partial

from gpudoctor.knowledge.refused_launchers import REFUSED_STARTS
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.conditions import holds, names_of, value_of_word
from gpudoctor.lint.model import LintJob, LintLaunch, Option
from gpudoctor.lint.python_values import UNDECIDED
from gpudoctor.lint.rule import LintFinding, rule

_HOSTS = "#@ file hosts\nn01 slots=8\nn02 slots=8\n"


@rule(
    "R19",
    title="A launcher is told nothing that it refuses",
    source="the launchers' sources, a row for each check: knowledge/refused_launchers.py",
    bad=(
        "deepspeed --hostfile hosts --no_ssh --master_addr n01 train.py\n" + _HOSTS,
        "deepspeed --hostfile hosts --launcher openmpi --num_gpus 4 train.py\n" + _HOSTS,
        "deepspeed --hostfile hosts --no_ssh --node_rank 2 --master_addr n01 train.py\n" + _HOSTS,
        "accelerate launch --num_processes 4 --no_python -m pkg.train\n",
        "horovodrun -np 8 -H n01:4,n02:4 --gloo --mpi python train.py\n",
        "composer --world_size 16 -n 8 --node_rank 2 --master_addr n01 --master_port 7501 train.py\n",
        "colossalai run --host n01,n02 train.py\n",
        "mpirun -np 8 -H n01:4,n02:4 -x PATH --bind-to none -mca btl_tcp_if_include eth0 -mca btl_tcp_if_exclude lo"
        " python train.py\n",
    ),
    good=(
        "deepspeed --hostfile hosts --no_ssh --node_rank 1 --master_addr n01 train.py\n" + _HOSTS,
        "deepspeed --hostfile hosts --launcher openmpi train.py\n" + _HOSTS,
        "horovodrun -np 8 -H n01:4,n02:4 --gloo python train.py\n",
        "composer --world_size 16 -n 8 --node_rank 1 --master_addr n01 --master_port 7501 train.py\n",
    ),
)
def launcher_refuses(job: LintJob) -> Iterator[LintFinding]:
    """Launchers compare their options before they start anything, and end with a message of their own; a few are taken
    and then wait."""
    launches = (each for launch in job.launches[: look.SIBLINGS] for each in (launch, *launch.around))
    said: set[tuple[int, str]] = set()
    for launch in launches:
        for row in REFUSED_STARTS:
            if row.launcher != launch.launcher and row.launcher != launch.entry:
                continue
            value_of = _values(job, launch)
            if not holds(row.when, value_of, partial(_is_told, launch)):
                continue
            options = [option for name in names_of(row.when) if (option := _option(launch, name)) is not None]
            if not options or (options[0].span.start, row.says) in said:
                continue
            said.add((options[0].span.start, row.says))
            written = list(dict.fromkeys(option.written for option in options))
            yield LintFinding(
                span=options[-1].span,
                severity="warning" if row.is_silent else None,
                summary=f"{' and '.join(written[:3])}: {'does not come together' if row.is_silent else 'refused'}",
                happens=f"{row.says}.",
                fix=row.fix,
            )


def _is_told(launch: LintLaunch, name: str) -> bool:
    return _option(launch, name) is not None


def _option(launch: LintLaunch, name: str) -> Option | None:
    """The option of a condition's name; `mca_X` is `-mca X VALUE` of mpirun."""
    if name.startswith("mca_"):
        return next((each for each in launch.every_option if each.name == "mca" and _mca(each) == name[4:]), None)
    plain = name.replace("_", "-")
    return launch.options.get(plain) or launch.options.get(name)


def _mca(option: Option) -> str:
    return option.value.shown.split()[0] if option.value is not None and option.value.shown.split() else ""


def _values(job: LintJob, launch: LintLaunch) -> Callable[[str], object]:
    def value_of(name: str) -> object:
        if name == "hosts":
            return _hosts(job, launch)
        if name == "ranks_of_j":
            counts = look.traits(launch).counts
            ranks = counts(launch)[1] if counts is not None else None
            return UNDECIDED if ranks is None else ranks
        option = _option(launch, name)
        if option is None:
            return UNDECIDED if launch.unread else None
        if option.value is None or name.startswith("mca_"):
            return True
        return value_of_word(option.value.text) if option.value.text is not None else UNDECIDED

    return value_of


def _hosts(job: LintJob, launch: LintLaunch) -> object:
    """How many hosts the hostfile of a start has, where it is in the text and nothing is taken out of it."""
    named = launch.text("hostfile")
    if named is None or launch.option("include", "exclude", "num-nodes") is not None:
        return UNDECIDED
    short = named.rpartition("/")[2]
    files = [each for each in job.hostfiles if each.name.rpartition("/")[2] == short]
    return len({line.name for line in files[0].lines if not line.fault}) if len(files) == 1 else UNDECIDED


_NODES = "torchrun --nnodes=2 --nproc-per-node=8 --node-rank={} --master-addr={} --master-port=61234 train.py\n"
_ASKED = ("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port", "rdzv-endpoint", "machine-rank",
          "num-machines", "num-processes", "main-process-ip", "main-process-port")  # fmt: skip


@rule(
    "R20",
    title="A setting of the start has a value",
    severity="warning",
    source="argparse: an empty word is no number (invalid int value: ''), and an empty one that is not quoted is none",
    bad=(
        "master_addr=\n" + _NODES.format(0, "$master_addr"),
        "NUM_GPUS=8\n" + _NODES.format(0, "10.20.0.11").replace("node=8", "node=$NGPUS"),
        "#!/bin/bash\nhead=10.20.0.11\n" + _NODES.format("$node_rank", "$head"),
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=32\n"
        'export HEAD="$HEAD"\nsrun bash -c \'' + _NODES.format("$SLURM_NODEID", "$HEAD").strip() + "'\n",
    ),
    good=(
        "master_addr=10.20.0.11\n" + _NODES.format(0, "$master_addr"),
        "#!/bin/bash\n" + _NODES.format("$NODE_RANK", "$MASTER_ADDR"),
        "#!/bin/bash\nread node_rank head < /etc/node\n" + _NODES.format("$node_rank", "$head"),
    ),
)
def setting_stays_empty(job: LintJob) -> Iterator[LintFinding]:
    """A variable that the text sets to nothing, or one with the small letters of a script's own that nothing sets, is
    an empty word: the launcher refuses it, or takes the next word for it."""
    if job.kind not in ("shell", "sbatch"):
        return
    for launch in job.launches[: look.SIBLINGS]:
        for name in _ASKED:
            option = launch.option(name)
            word = option.value if option is not None else None
            if option is None or word is None or launch.invocation.conditional or launch.invocation.manifest_path:
                continue
            names = {each.name for each in word.expansions if each.name}
            own = next(iter(names)) if len(names) == 1 else ""
            emptied = bool(own) and word.text == "" and not word.raw.startswith(("$(", "`"))
            unset = next(
                (each for each in word.expansions if each.is_set is False and each.default is None and each.raw), None
            )
            emptied = emptied or (unset is not None and job.is_batch and _of_itself(job, unset.name))
            emptied = emptied or (
                unset is not None and re.search(rf"^unset .*\b{unset.name}\b", job.text, re.M) is not None
            )
            orphan = _orphan(job, name) if unset is not None and not emptied else ""
            own = own or (unset.name if unset is not None else "")
            lower = unset is not None and re.fullmatch(r"[a-z][a-z0-9_]*", unset.name) is not None
            whole = unset is not None and word.shown.strip("\"'") == unset.raw
            if emptied or orphan or (lower and whole and job.text.startswith("#!")):
                yield LintFinding(
                    span=option.span,
                    summary=f"{option.written} is ${own or (unset.name if unset else '')}, which "
                    + ("is set to nothing, or to itself" if emptied else "nothing in this script sets")
                    + (f"; it sets {orphan}, which nothing reads" if orphan else ""),
                    happens="The launcher gets an empty word: invalid int value: '', or expected one argument.",
                    fix=f"Write ${orphan}, if that is meant." if orphan
                    else "Give it a value, or a default: ${NAME:-value}.",
                )  # fmt: skip
                break


_OF_NODES = "(?:NODE|MACHINE)(?!_?RANK)"
_KINDS = {
    "nproc-per-node": "GPU|PROC", "num-processes": "GPU|PROC", "nnodes": _OF_NODES, "num-machines": _OF_NODES,
    "node-rank": "RANK", "machine-rank": "RANK", "master-addr": "ADDR|IP|HOST|HEAD", "main-process-ip": "ADDR|IP|HOST",
    "rdzv-endpoint": "ADDR|IP|HOST|HEAD", "master-port": "PORT", "main-process-port": "PORT",
}  # fmt: skip
_ASSIGNED = lazy_re(r"^[ \t]*(\w+)=(?![^\n]*[\w)\"'][ \t]+[\w$./])", re.MULTILINE)


def _orphan(job: LintJob, option: str) -> str:
    """The one variable of the option's kind that this text sets and that nothing reads or exports."""
    kind = _KINDS.get(option, "")
    names = {match[1] for match in _ASSIGNED.finditer(job.text) if kind and re.search(kind, match[1], re.IGNORECASE)}
    unread = [name for name in sorted(names)[:50] if len(re.findall(rf"(?<!\w){name}(?!\w)", job.text)) == 1]
    return unread[0] if len(unread) == 1 else ""


def _of_itself(job: LintJob, name: str) -> bool:
    """`export MASTER_PORT="$MASTER_PORT"` in a batch script, and nothing else that sets it."""
    told = re.findall(rf"^[ \t]*(?:export[ \t]+)?{name}=([^\n;#]*)", job.text, re.MULTILINE)
    return bool(told) and all(re.fullmatch(rf"[\"']?\$\{{?{name}\}}?[\"']?\s*", each) for each in told)
