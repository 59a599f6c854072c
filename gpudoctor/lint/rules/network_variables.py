"""Rules of NCCL's and gloo's variables, and of starts without a launcher: E04, E08, E10, E21."""

import re
from collections.abc import Iterator

from gpudoctor.knowledge.nccl.settings import dotted, number
from gpudoctor.knowledge.nccl.variables import INVENTED, NEWEST_IN_TABLE, is_known, nearest, table
from gpudoctor.knowledge.network.gloo_interface import IFNAME, listed
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.assignments import renamed, span_of
from gpudoctor.lint.hand_ranks import inits
from gpudoctor.lint.model import LintJob, LintLaunch, SetVariable
from gpudoctor.lint.python_code import argument, codes, constant
from gpudoctor.lint.rule import Edit, LintFinding, rule

_TORCHRUN = (
    "torchrun --nnodes=2 --nproc-per-node=4 --node-rank={} --master-addr=10.20.0.11 --master-port=61234 train.py\n"
)
_INTERFACE_NAMES = {
    "NCCL_SOCKET_NAME": "NCCL_SOCKET_IFNAME",
    "NCCL_IFNAME": "NCCL_SOCKET_IFNAME",
    "NCCL_IF_NAME": "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_IF": "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_IFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_INTERFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_IF_NAME": "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAMES": "NCCL_SOCKET_IFNAME",
    "GLOO_IFNAME": IFNAME,
    "GLOO_SOCKET_NAME": IFNAME,
    "GLOO_SOCKET_IFACE": IFNAME,
    "GLOO_SOCKET_IF_NAME": IFNAME,
    "GLOO_SOCKET_INTERFACE": IFNAME,
}
"""Names that public scripts set in place of the two that are read."""
_NO_WAY_OUT = lazy_re(r"lo|docker\d*|virbr\d*|br-[0-9a-f]+|lo0")
_ADDRESS = lazy_re(r"\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?|[0-9a-fA-F:]*:[0-9a-fA-F:]+")
_LAUNCHER_ARGUMENT = lazy_re(r"--launcher(?:=|\s+)(?:pytorch|torch|mpi)\b")
_URL = lazy_re(r"--dist[-_]?url(?:=|\s+)[\"']?(env|tcp|file)://")
_INIT_METHOD = lazy_re(r"--init[-_]method(?:=|\s+)[\"']?(env|tcp|file)://")
_SPAWNS = lazy_re(r"--(?:multiprocessing[-_]distributed|num[-_]gpus|num[-_]machines|ngpus\w*|gpus)\b")


@rule(
    "E04",
    title="A script that expects RANK is started by a launcher",
    source="measured with torch 2.13; several threads",
    bad=(
        "python tools/train.py configs/mask_rcnn.py --launcher pytorch\n",
        "python main.py --dist_url env:// --world_size 4 --output_dir out\n",
        "python main.py --dist-url tcp://10.20.0.11:61234 --dist-backend nccl --world-size 2"
        " --multiprocessing-distributed data\n",
    ),
    good=(
        "torchrun --standalone --nproc-per-node=4 tools/train.py configs/mask_rcnn.py --launcher pytorch\n",
        "python main.py --dist-url tcp://127.0.0.1:61234 --dist-backend nccl --multiprocessing-distributed"
        " --world-size 1 --rank 0 data\n",
        "for i in 0 1 2 3; do\n  python main.py --dist-url tcp://10.20.0.11:61234 --world-size 4 --rank $i &\n"
        "done\nwait\n",
        "MASTER_ADDR=127.0.0.1 MASTER_PORT=29501 RANK=0 WORLD_SIZE=1 python main.py --dist_url env://\n",
    ),
)
def distributed_script_without_launcher(job: LintJob) -> Iterator[LintFinding]:
    """env:// reads RANK and WORLD_SIZE, which a launcher sets; an address with a world size needs a rank for each
    process. Without them the script stops, or trains by itself on one GPU."""
    for launch in job.launches:
        if launch.launcher != "python" or launch.around or look.from_platform(job, launch):
            continue
        words = " ".join(word.shown for word in launch.script_words)
        asks = _LAUNCHER_ARGUMENT.search(words)
        url = _URL.search(words) or _INIT_METHOD.search(words)
        size = re.search(r"--(?:world|dist)[-_]size(?:=|\s+)(\S+)", words)
        if any(launch.invocation.settings.get(name) for name in ("RANK", "SLURM_PROCID")) or "slurm" in words:
            continue
        rank = re.search(r"--(?:node[-_]|machine[-_]|dist[-_])?rank(?:=|\s+)(\S+)", words)
        if asks is not None or (url is not None and url[1] == "env" and rank is None and not _SPAWNS.search(words)):
            what = (asks or url)[0]  # type: ignore[index]
            yield LintFinding(
                span=launch.invocation.span,
                summary=f"{what.strip()} expects RANK and WORLD_SIZE from a launcher, and python is started alone",
                happens="The script stops (environment variable RANK expected, KeyError: 'RANK'), or trains on one"
                " GPU.",
                fix="Start it by torchrun, with --nproc-per-node= as many as GPUs.",
                edits=_by_torchrun(launch),
            )
        elif url is not None and size is not None and size[1] != "1" and rank is None:
            yield LintFinding(
                span=launch.invocation.span,
                summary=f"--world-size {size[1]} with {url[0].strip()}..., and no --rank",
                happens="rank parameter missing, or a rank of -1 that nobody waits for.",
                fix="Give each process (each node, with --multiprocessing-distributed) its own --rank, from 0.",
            )


def _by_torchrun(launch: LintLaunch) -> tuple[Edit, ...]:
    first = launch.invocation.words[0]
    return (Edit(first.span, "torchrun --standalone --nproc-per-node=gpu"),) if _plain(launch) else ()


def _plain(launch: LintLaunch) -> bool:
    """Only `python SCRIPT ...`, whose python can be replaced."""
    first = launch.invocation.words[0]
    return (
        not launch.python_options and not launch.module and first.span.exact and first.raw.startswith("python")
        and launch.script is not None
    )  # fmt: skip


def _settings(job: LintJob) -> Iterator[tuple[LintLaunch, SetVariable]]:
    """Every variable that a launch gets from the text, once."""
    seen: set[tuple[str, int]] = set()
    for launch in job.launches:
        for setting in launch.invocation.settings.values():
            key = (setting.name, setting.word.span.start)
            if setting.exported and setting.how != "file" and key not in seen:
                seen.add(key)
                yield launch, setting


def _several_nodes(job: LintJob, launch: LintLaunch) -> bool | None:
    if len(job.node_sections) > 1 or (look.batch_nodes(job) or 1) > 1:
        return True
    if look.standalone(launch):
        return False
    world = next((world for world in look.worlds(job) if launch in world.launches), None)
    told = look.is_multi(job, world) if world is not None else None
    return told if told is not None else (job.facts.nodes > 1 if job.facts.nodes is not None else None)


@rule(
    "E08",
    title="The interface that ranks talk over exists on every node",
    source="NCCL src/misc/socket.cc; torch ProcessGroupGloo.cpp; pytorch#81313, pytorch#52916",
    leads_to=("wrong-nic",),
    bad=(
        "export NCCL_SOCKET_IFNAME=lo\n#@ node 0\n" + _TORCHRUN.format(0) + "#@ node 1\n" + _TORCHRUN.format(1),
        "#@ node 0\nNCCL_SOCKET_NAME=eth0 "
        + _TORCHRUN.format(0)
        + "#@ node 1\nNCCL_SOCKET_NAME=eth0 "
        + _TORCHRUN.format(1),
        "export GLOO_SOCKET_IFNAME=^docker0,lo\n" + _TORCHRUN.format(0),
        "export NCCL_SOCKET_IFNAME=10.20.0.11\n" + _TORCHRUN.format(0),
        "export NCCL_IB_DISABLED=1\n" + _TORCHRUN.format(0),
    ),
    good=(
        "export NCCL_SOCKET_IFNAME=^docker0,lo\n" + _TORCHRUN.format(0),
        "export NCCL_SOCKET_IFNAME==eth0\nexport GLOO_SOCKET_IFNAME=eth0\n" + _TORCHRUN.format(0),
        "export NCCL_SOCKET_IFNAME=lo\ntorchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def interface_variable_wrong(job: LintJob) -> Iterator[LintFinding]:
    """NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name interfaces. Over lo or docker0 no other node is reached; a name
    that nobody reads changes nothing, and the fault stays."""
    for launch, setting in _settings(job):
        name, text = setting.name, setting.word.text
        if name in ("NCCL_SOCKET_IFNAME", IFNAME) and text:
            fault = _interface(job, launch, name, text)
            if fault is not None:
                what, effect, better, severity = fault
                yield LintFinding(
                    span=span_of(job, setting),
                    severity="warning" if severity == "warning" else None,
                    summary=f"{name}={text}: {what}",
                    happens=effect,
                    fix=f"Name the interface that the nodes reach each other by, as {name}={better}.",
                )
        elif name in _INTERFACE_NAMES:
            yield LintFinding(
                span=span_of(job, setting),
                summary=f"Nothing reads {name}; the variable is {_INTERFACE_NAMES[name]}",
                happens="It is ignored: NCCL and gloo choose an interface themselves, as without it.",
                fix=f"Write {_INTERFACE_NAMES[name]}.",
                edits=renamed(job, setting, _INTERFACE_NAMES[name]),
            )
        elif name.startswith("NCCL_") and not is_known(name):
            yield from _unknown(job, setting)


def _unknown(job: LintJob, setting: SetVariable) -> Iterator[LintFinding]:
    name, close = setting.name, nearest(setting.name)
    if name not in INVENTED and not close:
        return
    spelled = close if close and (name not in INVENTED or "the variable is" in INVENTED[name]) else ""
    yield LintFinding(
        span=span_of(job, setting),
        severity=None if name in INVENTED and spelled else "warning",
        summary=f"No release of NCCL up to {dotted(NEWEST_IN_TABLE[:2])} reads {name}"
        + (f"; {spelled} is near" if spelled else ""),
        happens=f"It is ignored: {INVENTED[name]}."
        if name in INVENTED
        else "It is ignored, and NCCL does as without it.",
        fix=f"Write {spelled}, if that was meant." if spelled else "Take it away.",
        edits=renamed(job, setting, spelled) if spelled else (),
    )


def _interface(job: LintJob, launch: LintLaunch, name: str, text: str) -> tuple[str, str, str, str] | None:
    """What is wrong with the value, what it does, an example, and how bad it is."""
    if name == IFNAME and re.match(r"[\^=]", text):
        joins = [constant(argument(init, "backend", 0)) for code in codes(job) for init in inits(code)]
        return (
            "gloo takes exact names only, without ^ and =",
            f"gloo finds no interface {(listed(text) or (text,))[0]} and fails when its process group is made.",
            "eth0",
            "error" if any(backend is None or "gloo" in str(backend) for backend in joins) else "warning",
        )
    if text.startswith("^"):
        return None
    names = [part.strip() for part in text.removeprefix("=").split(",") if part.strip()]
    if names and all(_ADDRESS.fullmatch(each) for each in names):
        return "an address is no name of an interface", "No interface is found: the start fails.", "eth0", "error"
    if not names or not all(_NO_WAY_OUT.fullmatch(each) for each in names):
        return None
    several = _several_nodes(job, launch)
    if several is False:
        return None
    return (
        f"{names[0]} does not leave the node",
        "The ranks of other nodes are told an address that leads to themselves: connection refused, or a hang.",
        "eth0",
        "error" if several else "warning",
    )


_SWITCHED_OFF = {
    "NCCL_IB_DISABLE": ("1", "NCCL leaves InfiniBand and RoCE unused, and talks over TCP: many times slower"),
    "NCCL_P2P_DISABLE": ("1", "GPUs of a node talk through host memory, not by NVLink or PCIe"),
    "NCCL_SHM_DISABLE": ("1", "ranks of a node without peer access talk over the network"),
    "NCCL_NET_GDR_LEVEL": ("LOC", "NICs do not read GPU memory directly"),
    "TORCH_DISTRIBUTED_DEBUG": ("DETAIL", "each collective is checked against the other ranks first"),
    "CUDA_LAUNCH_BLOCKING": ("1", "the CPU waits for each kernel"),
    "NCCL_DEBUG": ("TRACE", "NCCL writes a line for each call"),
}


@rule(
    "E10",
    title="What was switched off for diagnosis is on again",
    severity="info",
    source="NCCL's user guide; torch.distributed's documentation",
    bad=(
        "export NCCL_IB_DISABLE=1\nexport NCCL_P2P_DISABLE=1\n#@ node 0\n" + _TORCHRUN.format(0),
        "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun --standalone --nproc-per-node=4 train.py\n",
    ),
    good=(
        "NCCL_DEBUG=INFO torchrun --standalone --nproc-per-node=4 train.py\n",
        "NCCL_IB_DISABLE=0 torchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def debugging_left_on(job: LintJob) -> Iterator[LintFinding]:
    """Switches that make a start work for once, or tell more, cost speed in every step; and a transport that is
    switched off hides why it does not work."""
    for _, setting in _settings(job):
        value, effect = _SWITCHED_OFF.get(setting.name, ("", ""))
        if value and (setting.word.text or "").strip().upper() == value:
            yield LintFinding(
                span=span_of(job, setting),
                summary=f"{setting.name}={setting.word.text} is set",
                happens=f"{effect[0].upper()}{effect[1:]}." if not effect.startswith(("NCCL", "NIC")) else f"{effect}.",
                fix="Take it away once the cause is found.",
            )


_MEANT = lazy_re(r"true|yes|on|enabled?", re.IGNORECASE)


@rule(
    "E21",
    title="NCCL's switches are numbers",
    severity="warning",
    source="NCCL 2.3 to 2.31, misc/param.cc: strtoll, so that a word is 0; 2.32.3 keeps its default (asked)",
    bad=(
        "NCCL_IB_DISABLE=True torchrun --standalone --nproc-per-node=4 train.py\n",
        "export NCCL_P2P_DISABLE=yes\n#@ node 0\n" + _TORCHRUN.format(0),
    ),
    good=(
        "NCCL_IB_DISABLE=1 torchrun --standalone --nproc-per-node=4 train.py\n",
        "NCCL_IB_DISABLE=false torchrun --standalone --nproc-per-node=4 train.py\n",
        "NCCL_P2P_LEVEL=NVL torchrun --standalone --nproc-per-node=4 train.py\n",
    ),
)
def word_for_a_number(job: LintJob) -> Iterator[LintFinding]:
    """NCCL reads its switches by strtoll: true, yes and on are 0, and so the switch is off."""
    for _, setting in _settings(job):
        row, text = table().get(setting.name), (setting.word.text or "").strip()
        if row is None or row.kind != "integer" or not _MEANT.fullmatch(text) or number(text).is_number:
            continue
        yield LintFinding(
            span=span_of(job, setting),
            summary=f"{setting.name}={text}: NCCL reads a number, and of a word 0",
            happens=f"It is as if {setting.name}=0 stood there (NCCL 2.32 and later: as if it were not set).",
            fix=f"Write {setting.name}=1.",
        )
