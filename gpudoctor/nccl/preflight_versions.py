"""Same software and same GPUs on all nodes: what the ranks would disagree about."""

from collections.abc import Iterator, Sequence

from gpudoctor.check import Severity
from gpudoctor.command import Command, command
from gpudoctor.fleet.majority import Party, parties
from gpudoctor.fleet.names import folded, have
from gpudoctor.knowledge.nccl.settings import dotted, nccl_version
from gpudoctor.nccl.finding import Finding, finding
from gpudoctor.nccl.preflight_nodes import Nodes, of
from gpudoctor.snapshot import Snapshot

MOST_COMMANDS = 4
"""Lines for so many nodes; the others are alike."""


def version_findings(nodes: Nodes, python: str = "") -> Iterator[Finding]:
    """`python` is --python: what every node was asked to use."""
    yield from _gpudoctor(nodes)
    yield from _interpreter(nodes, python)
    yield from _torch(nodes)
    yield from _nccl(nodes)
    yield from _cuda(nodes)
    yield from _python(nodes)
    yield from _gpus(nodes)


def described(camps: Sequence[Party[str]], noun: str, most: int = 4) -> str:
    """ "n02 has torch 2.12.0, n[01,03] have 2.13.0": those that differ first, the most common last."""
    rare = list(reversed(camps[1:]))
    shown = [*rare[:most], camps[0]]
    words = [
        f"{have(party.nodes)} {noun + ' ' if noun and number == 0 else ''}{party.value}"
        for number, party in enumerate(shown)
    ]
    if len(rare) > most:
        words.insert(-1, f"{sum(len(party.nodes) for party in rare[most:])} more have others")
    return ", ".join(words)


def _others(camps: Sequence[Party[str]]) -> tuple[str, ...]:
    return tuple(node for party in camps[1:] for node in party.nodes)


def _gpudoctor(nodes: Nodes) -> Iterator[Finding]:
    camps = parties({name: snapshot.gpudoctor for name, snapshot in nodes.snapshots.items() if snapshot.gpudoctor})
    if len(camps) > 1:
        other = _others(camps)
        line = command("python3 -m pip install gpudoctor=={:name}", camps[0].value)
        yield finding(
            "gpudoctor-versions-differ",
            "error",
            described(camps, "gpudoctor"),
            meaning="Different versions may measure and judge differently, or not understand one another.",
            fix=f"Install gpudoctor {camps[0].value} on {folded(other)}.",
            commands=tuple(nodes.on(node, line) for node in other[:MOST_COMMANDS]),
            nodes=other,
        )


def _interpreter(nodes: Nodes, python: str) -> Iterator[Finding]:
    elsewhere = {
        name: path
        for name, path in nodes.values(lambda snapshot: snapshot.training.python.value).items()
        if python != path
    }
    if python.startswith("/") and elsewhere:
        names = tuple(elsewhere)
        yield finding(
            "interpreter-missing-on-node",
            "error",
            f"{python} cannot be run on {folded(names)}, where {next(iter(elsewhere.values()))} was found",
            meaning="The ranks of these nodes would run another Python, with another torch or none.",
            fix="Name an interpreter that every node has (one on a shared file system), or install it there.",
            commands=tuple(nodes.on(name, command("ls -l {:path}", python)) for name in names[:MOST_COMMANDS]),
            evidence=tuple(of(name, nodes.snapshots[name].training.python) for name in names[:MOST_COMMANDS]),
            nodes=names,
        )
    lacking = tuple(
        name for name, snapshot in nodes.snapshots.items() if snapshot.training.torch_files.missing_kind == "absent"
    )
    if lacking:
        paths = parties({name: nodes.snapshots[name].training.python.value_or("python3") for name in lacking})
        yield finding(
            "torch-missing",
            "error",
            f"{have(lacking)} no torch in the training interpreter "
            + ", ".join(f"{party.value}{f' ({folded(party.nodes)})' if len(paths) > 1 else ''}" for party in paths),
            meaning="No rank can start there, and the other nodes wait for it until their time-out.",
            fix="Name the interpreter that has torch with --python, or install torch there.",
            commands=tuple(
                nodes.on(name, _install(nodes.snapshots[name], _release(nodes))) for name in lacking[:MOST_COMMANDS]
            ),
            evidence=tuple(of(name, nodes.snapshots[name].training.torch_files) for name in lacking[:MOST_COMMANDS]),
            nodes=lacking,
        )


def _release(nodes: Nodes) -> str:
    """ "2.13.0" of the torch that most nodes have; empty where none has any."""
    camps = parties(nodes.values(lambda node: node.training.torch_version))
    return camps[0].value.partition("+")[0] if camps else ""


def _install(machine: Snapshot, version: str) -> Command:
    """A torch of a version ("2.13.0", "2.13.0+cu126", or any: ""), into the training interpreter."""
    python = machine.training.python.value_or("python3")
    release, _, build = version.partition("+")
    if not release:
        return command("{:python} -m pip install torch", python)
    if not build.isalnum():
        return command("{:python} -m pip install torch=={:name}", python, release)
    return command(
        "{:python} -m pip install torch=={:name} --index-url https://download.pytorch.org/whl/{:name}",
        python,
        release,
        build,
    )


def _torch(nodes: Nodes) -> Iterator[Finding]:
    camps = parties(nodes.values(lambda node: node.training.torch_version))
    if len(camps) < 2:
        return
    releases = {tuple(party.value.split(".")[:2]) for party in camps}
    other = _others(camps)
    severity: Severity = "error" if len(releases) > 1 else "warning"
    yield finding(
        "torch-versions-differ",
        severity,
        described(camps, "torch"),
        meaning="Ranks of different releases do not speak the same protocol: they fail as they meet, or wait for one "
        "another."
        if severity == "error"
        else "The builds bring different CUDA or NCCL libraries along; nobody tests such a mixture.",
        fix=f"Install torch {camps[0].value} on {folded(other)}.",
        commands=tuple(
            nodes.on(node, _install(nodes.snapshots[node], camps[0].value)) for node in other[:MOST_COMMANDS]
        ),
        evidence=tuple(
            of(party.nodes[0], nodes.snapshots[party.nodes[0]].training.torch_files) for party in camps[:MOST_COMMANDS]
        ),
        nodes=other,
    )


def _nccl(nodes: Nodes) -> Iterator[Finding]:
    camps = parties({name: dotted(version) for name, version in nodes.values(nccl_version).items()})
    if len(camps) < 2:
        return
    other = _others(camps)
    on_nccl = nodes.backend == "nccl"
    yield finding(
        "nccl-versions-differ-between-nodes",
        "error" if on_nccl else "info",
        described(camps, "NCCL"),
        meaning="NCCL compares the versions of all ranks (major.minor.patch) and ends with an error, or hangs."
        if on_nccl
        else "This test runs on gloo; training on NCCL would end with an error, or hang.",
        fix=f"NCCL comes with torch: give {folded(other)} the torch of the others, and look for a libnccl.so.2 of its "
        "own on LD_LIBRARY_PATH or in LD_PRELOAD.",
        commands=tuple(
            nodes.on(node, command("gpudoctor check nccl-versions-differ nccl-library-shadowed"))
            for node in other[:MOST_COMMANDS]
        ),
        evidence=tuple(
            of(party.nodes[0], nodes.snapshots[party.nodes[0]].training.libraries) for party in camps[:MOST_COMMANDS]
        ),
        nodes=other,
    )


def cuda_version(snapshot: Snapshot) -> str:
    """The CUDA that torch was built for; "none" for a CPU or ROCm build. Raises `NotRead`."""
    facts = snapshot.training.torch.value_or(None)
    return (facts.cuda_version if facts else snapshot.training.torch_files.value.cuda) or "none"


def _cuda(nodes: Nodes) -> Iterator[Finding]:
    camps = parties(nodes.values(cuda_version))
    if len(camps) < 2:
        return
    other = _others(camps)
    lacks = any(party.value == "none" for party in camps) and nodes.backend == "nccl"
    yield finding(
        "cuda-versions-differ",
        "error" if lacks else "warning",
        described(camps, "a torch for CUDA"),
        meaning="A torch that is not built for CUDA cannot use the GPUs of its node."
        if lacks
        else "Kernels and libraries differ between the ranks: speed and rounding may too.",
        fix=f"Install the same build of torch everywhere: that of {folded(camps[0].nodes)}, for CUDA {camps[0].value}.",
        commands=tuple(
            nodes.on(node, _install(nodes.snapshots[node], _release(nodes))) for node in other[:MOST_COMMANDS]
        ),
        nodes=other,
    )


def _python(nodes: Nodes) -> Iterator[Finding]:
    versions = nodes.values(lambda snapshot: snapshot.training.python_version.value)
    camps = parties({name: ".".join(version.split(".")[:2]) for name, version in versions.items()})
    if len(camps) > 1:
        yield finding(
            "python-versions-differ",
            "info",
            described(camps, "Python"),
            meaning="The test does not mind. Training may: what one rank pickles, another must be able to read.",
            fix="Use one environment on all nodes.",
            nodes=_others(camps),
        )


def gpu_models(snapshot: Snapshot) -> str:
    """ "8x NVIDIA H100 80GB HBM3"; "no GPU". Raises `NotRead`."""
    reading = snapshot.nvidia.gpus
    if reading.missing_kind == "absent":
        return "no GPU"
    names = [gpu.name.value_or("unreadable GPU") for gpu in reading.value]
    return ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names)) or "no GPU"


def _gpus(nodes: Nodes) -> Iterator[Finding]:
    camps = parties(nodes.values(gpu_models))
    if len(camps) < 2:
        return
    other = _others(camps)
    bare = tuple(node for party in camps if party.value == "no GPU" for node in party.nodes)
    if bare and nodes.backend == "nccl":
        yield finding(
            "node-without-gpu",
            "error",
            f"{have(bare)} no GPU that NVIDIA's driver shows; {folded(camps[0].nodes)}: {camps[0].value}",
            meaning="NCCL needs a GPU for every rank: none can start there.",
            fix="Leave these nodes out, or look why their GPUs are not there.",
            commands=tuple(nodes.on(node, command("gpudoctor check driver")) for node in bare[:MOST_COMMANDS]),
            evidence=tuple(of(node, nodes.snapshots[node].nvidia.gpus) for node in bare[:MOST_COMMANDS]),
            nodes=bare,
        )
        return
    yield finding(
        "gpus-differ-between-nodes",
        "warning",
        described(camps, ""),
        meaning="All ranks go at the pace of the slowest GPU, and a node with fewer GPUs gets fewer ranks.",
        fix=f"Look whether a GPU of {folded(other)} was lost, or leave the node out.",
        commands=tuple(nodes.on(node, command("gpudoctor check driver gpu")) for node in other[:MOST_COMMANDS]),
        evidence=tuple(of(node, nodes.snapshots[node].nvidia.gpus) for node in other[:1]),
        nodes=other,
    )
