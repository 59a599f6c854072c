"""Rules of what no release of Lightning's Trainer takes, or not there: L09, L10."""

import ast
import difflib
import re
from collections.abc import Iterator

from gpudoctor.knowledge.superseded import dotted, superseded
from gpudoctor.knowledge.trainer_arguments import NEWEST_READ, RELEASES
from gpudoctor.lazy import lazy_re
from gpudoctor.lint import lightning
from gpudoctor.lint.known_up_to import KnownUpTo, held_against, is_misspelt
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import PythonCode, argument, codes, constant
from gpudoctor.lint.rule import Edit, Example, LintFinding, rule

_TRAINER = "#@ file train.py\nfrom lightning import Trainer\ntrainer = Trainer({})\n"
_LIKENESS = 0.75
"""Of difflib: below it a word is another one, not a misspelt one."""
MEANT = {
    **dict.fromkeys(("num_gpus", "n_gpus", "ngpus", "gpu"), 'accelerator="gpu", devices='),
    **dict.fromkeys(("epochs", "num_epochs", "n_epochs", "num_train_epochs"), "max_epochs="),
    **dict.fromkeys(("nodes", "n_nodes", "nnodes"), "num_nodes="),
    **dict.fromkeys(("fp16", "half", "mixed_precision"), 'precision="16-mixed" and not '),
}
"""The same in the words of other programs, which no likeness of letters finds."""
_PLUGINS_END = (1, 7)
READ = KnownUpTo("lightning", dotted(NEWEST_READ))


def _trainers(job: LintJob) -> Iterator[tuple[PythonCode, ast.Call]]:
    """Calls of the Trainer that the text's own imports bring from Lightning."""
    for code in codes(job):
        for call in code.calls:
            package, _, name = code.name(call.func).rpartition(".")
            if name == "Trainer" and package.partition(".")[0] in ("lightning", "pytorch_lightning"):
                yield code, call


@rule(
    "L09",
    title="Trainer is called with arguments that some release of Lightning has",
    needs="facts",
    source="the sources of pytorch-lightning 0.5 to 2.6 (knowledge/trainer_arguments.py)",
    bad=(
        _TRAINER.format("acelerator='gpu', device=2"),
        Example(_TRAINER.format("num_gpus=4, epochs=3"), "lightning=2.4"),
    ),
    good=(
        _TRAINER.format("accelerator='gpu', devices=2, barebones=True"),
        Example(_TRAINER.format("barebones=True"), "lightning=2.9"),
        "#@ file train.py\nfrom transformers import Trainer\ntrainer = Trainer(model=model, args=args)\n",
    ),
)
def no_such_trainer_argument(job: LintJob) -> Iterator[LintFinding]:
    """A word that is none of Trainer's arguments is a TypeError before anything starts, in every release."""
    today = [name for name, (_, gone) in RELEASES.items() if not gone]
    for code, call in _trainers(job):
        for keyword in call.keywords:
            word = keyword.arg
            if word is None or word in RELEASES:
                continue
            like = difflib.get_close_matches(word, today, 1, _LIKENESS)
            sure = word in MEANT or (bool(like) and is_misspelt(word, like[0]))
            meant = MEANT.get(word, f"{like[0]}=" if like else "")
            if any(meant.rstrip("=").endswith(node.arg) for node in call.keywords if node.arg):
                meant = ""
            span, value = code.span(keyword), code.words(keyword.value)
            whole = meant.endswith("=")
            finding = LintFinding(
                span=span,
                summary=f"Trainer has no argument {word}, in no release of Lightning up to {dotted(NEWEST_READ)}",
                happens=f"TypeError: Trainer.__init__() got an unexpected keyword argument '{word}'.",
                fix=f"Write {meant}{value[:60] if whole else word}." if meant else "Take it out.",
                edits=(Edit(span, f"{meant}{value}"),) if whole else (),
            )
            yield held_against(job, (READ,), finding, sure=sure)


@rule(
    "L10",
    title="Trainer's strategy stands in strategy=, not in plugins=",
    needs="facts",
    source="Lightning's CHANGELOG, 1.7.0 (#12700); strategy= came with 1.5",
    bad=(
        Example(_TRAINER.format("accelerator='gpu', devices=4, plugins='ddp_sharded'"), "lightning=2.1"),
        Example(_TRAINER.format("gpus=4, plugins=['ddp_find_unused_parameters_false']"), "lightning=1.9"),
    ),
    good=(
        Example(_TRAINER.format("gpus=4, accelerator='ddp', plugins='ddp_sharded'"), "lightning=1.4"),
        _TRAINER.format("accelerator='gpu', devices=4, plugins=[SLURMEnvironment()]"),
    ),
)
def strategy_in_plugins(job: LintJob) -> Iterator[LintFinding]:
    """Up to 1.6 a strategy could be named among the plugins, as sharded training was taught. Since 1.7 that is an
    error."""
    version = lightning.version(job)
    if version is not None and version < _PLUGINS_END:
        return
    for code, call in _trainers(job):
        plugins = argument(call, "plugins")
        listed = (
            plugins.elts if isinstance(plugins, (ast.List, ast.Tuple)) else [plugins] if plugins is not None else []
        )
        for node in listed:
            name = constant(node)
            if not isinstance(name, str) or not name:
                continue
            entry = superseded("strategy", name)
            today = entry.today if entry is not None and entry.is_gone(version) else f'strategy="{name}"'
            yield LintFinding(
                span=code.span(node),
                severity=None if version is not None else "warning",
                summary=f'plugins="{name}" names a strategy, which plugins= takes no more since lightning'
                f" {dotted(_PLUGINS_END)}",
                happens="An error before anything starts: plugins= takes instances of plugins, and no name.",
                fix=f"Take it out of plugins=, and write {today}.",
            )


_ALONE = (
    "#@ file train.py\nimport lightning as L\n"
    "L.Trainer(accelerator='gpu', devices=4, num_nodes={}, strategy='ddp').fit(m)\n"
)
_OF_A_CLUSTER = lazy_re(
    r"MASTER_ADDR|NODE_RANK|GROUP_RANK|SLURM|LSB_|PBS_|mpi|ClusterEnvironment|environment=|plugins=", re.IGNORECASE
)


@rule(
    "L22",
    title="Nodes that Lightning starts its ranks on know the head and their own number",
    severity="warning",
    source="lightning 2.6, fabric/plugins/environments/lightning.py: 127.0.0.1 and node 0 where nothing is set",
    bad=(
        "python train.py\n" + _ALONE.format(2),
        "CUDA_VISIBLE_DEVICES=0,1,2,3 python train.py --batch 8\n" + _ALONE.format(4),
    ),
    good=(
        "python train.py\n" + _ALONE.format(1),
        "#@ every node\nMASTER_ADDR=n01 MASTER_PORT=29500 NODE_RANK=$1 python train.py\n" + _ALONE.format(2),
    ),
)
def nodes_that_know_no_head(job: LintJob) -> Iterator[LintFinding]:
    """Without a launcher or a cluster Lightning reads MASTER_ADDR and NODE_RANK; without them each node is the head of
    its own, and waits for the others."""
    for launch in job.launches if job.kind == "shell" and not _OF_A_CLUSTER.search(job.text) else ():
        if launch.launcher != "python" or launch.around or launch.invocation.within:
            continue
        told = lightning.num_nodes(job, launch)
        if told is not None and told[0] > 1 and lightning.is_lightning(job, launch):
            yield LintFinding(
                span=told[1].span,
                summary=f"{told[1].written}, and python starts it without MASTER_ADDR and NODE_RANK",
                happens="Each node takes 127.0.0.1 for the head and waits there for the others.",
                fix="Start it by srun or torchrun on each node, or set MASTER_ADDR, MASTER_PORT and NODE_RANK.",
            )
            return
