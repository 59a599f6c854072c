"""Rules of `fabric run` beside its program: J36, J37."""

import re
from collections.abc import Iterator

from gpudoctor.launcher import registry
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, rule

_RUN = (
    "fabric run --accelerator=cuda --devices={} --strategy=ddp t.py\n#@ file t.py\nimport lightning as L\n"
    "fabric = L.Fabric({})\nfabric.launch()\n"
)
_DEFAULTS = {"devices": ("auto", "-1"), "num_nodes": ("1",), "strategy": ("auto",), "precision": ()}


@rule(
    "J36",
    title="Fabric(...) says nothing else than fabric run",
    source="lightning 2.6, fabric/connector.py, _argument_from_env: it conflicts with the value set through the CLI",
    leads_to=("program-error",),
    bad=(_RUN.format(8, "devices=4"), _RUN.format(8, "strategy='fsdp'")),
    good=(_RUN.format(8, ""), _RUN.format(8, "devices=8"), _RUN.format(8, "devices='auto'")),
)
def fabric_of_other_numbers(job: LintJob) -> Iterator[LintFinding]:
    """fabric run hands its options on in variables, and Fabric(...) refuses an argument that says something else."""
    launches = [each for each in job.launches if each.launcher == "fabric"]
    calls = [each for each in job.trainers if each.name == "Fabric" and not each.hides]
    if len(launches) != 1 or len(calls) != 1:
        return
    for name, defaults in _DEFAULTS.items():
        option, own = launches[0].option(name.replace("_", "-")), calls[0].arguments.get(name)
        told = launches[0].text(name.replace("_", "-"))
        said = re.fullmatch(r"[\"']?([\w.-]+)[\"']?", own or "")
        literal = said is not None and (own or "")[:1] in "\"'0123456789-"
        if option is None or told is None or said is None or not literal or said[1] in (told, *defaults):
            continue
        yield LintFinding(
            span=calls[0].spans.get(name, calls[0].span),
            summary=f"Fabric({name}={own}) conflicts with {option.written} {told} of fabric run",
            happens="ValueError: your code has another value than the one set through the CLI.",
            fix=f"Leave {name}= out of Fabric(...).",
        )


@rule(
    "J37",
    title="A launcher does not start another one in each of its ranks",
    source="lightning 2.6, fabric/cli.py (_torchrun_launch); torch/distributed/run.py: --no-python",
    leads_to=("master-port-in-use",),
    bad=(
        "torchrun --standalone --nproc_per_node=8 -m lightning.fabric.cli run --devices 8 train.py\n",
        "torchrun --standalone --nproc_per_node=8 --no-python torchrun --nproc_per_node=8 train.py\n",
        "torchrun --standalone --nproc_per_node=8 -m accelerate.commands.launch train.py\n",
    ),
    good=(
        "torchrun --standalone --nproc_per_node=8 -m lab.train\n",
        "torchrun --standalone --nproc_per_node=1 -m lightning.fabric.cli run --devices 8 train.py\n",
    ),
)
def launcher_in_a_launcher(job: LintJob) -> Iterator[LintFinding]:
    """Each rank of the outer one starts all ranks of the inner one."""
    for launch in job.launches[: look.SIBLINGS]:
        script = launch.script
        if launch.launcher not in (*look.TORCHRUN, "accelerate") or script is None:
            continue
        words = [script.shown.rpartition("/")[2] if not launch.module else script.shown]
        words += [word.shown for word in launch.script_words[:2]]
        inner = registry.called(words, module=launch.module)
        if inner is None or not (inner.launcher.a_node or inner.launcher.fans_out) or inner.launcher.serves:
            continue
        if launch.text("nproc-per-node") in ("1", None) and launch.launcher != "accelerate":
            continue
        yield LintFinding(
            span=script.span,
            summary=f"{launch.entry or launch.launcher} starts {inner.entry} in each of its ranks, and {inner.entry}"
            " starts ranks itself",
            happens="Each of them starts all ranks: EADDRINUSE at one port, and more ranks than GPUs.",
            fix=f"Start {inner.entry} alone.",
        )
