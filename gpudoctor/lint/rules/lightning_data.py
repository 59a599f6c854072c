"""Rules of what Lightning calls on one process alone, and of numbers of one rank's part of the data: L19, L20."""

import ast
import re
from collections.abc import Iterator

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import FUNCTIONS, PythonCode, argument, codes, constant
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.rule import LintFinding, rule

_DATA = (
    "import lightning as L\nclass Data(L.LightningDataModule):\n    def prepare_data(self):\n        {}\n"
    "    def setup(self, stage):\n        {}\n"
)


@rule(
    "L19",
    title="What prepare_data makes is on the disk",
    source="lightning 1.0 to 2.6, core/hooks.py: prepare_data is called on one process of a node; do not assign state",
    leads_to=("program-error",),
    bad=(
        _DATA.format("self.words = read()", "self.rows = rows(self.words)"),
        _DATA.format("self.data = fetch()", "self.train, self.val = split(self.data)"),
    ),
    good=(
        _DATA.format("fetch()", "self.words = read()"),
        _DATA.format("self.words = read()", "self.words = read()\n        self.rows = rows(self.words)"),
        _DATA.format("self.path = fetch()", "self.rows = read('data')"),
    ),
)
def state_of_one_process(job: LintJob) -> Iterator[LintFinding]:
    """The other processes never call it: what it puts on self is not there for them."""
    for code in codes(job):
        if not code.brings("lightning", "pytorch_lightning"):
            continue
        for made in (node for node in code.nodes if isinstance(node, ast.ClassDef)):
            methods = {each.name: each for each in made.body if isinstance(each, FUNCTIONS)}
            if "prepare_data" not in methods or not any("Lightning" in ast.unparse(base) for base in made.bases):
                continue
            others = [each for name, each in methods.items() if name != "prepare_data"]
            kept = {name for each in others for name, _ in _of_self(each, ast.Store)}
            class_own = {
                ast.unparse(target) for each in made.body if isinstance(each, ast.Assign) for target in each.targets
            }
            read = {name for each in others for name, _ in _of_self(each, ast.Load)}
            for name, node in _of_self(methods["prepare_data"], ast.Store):
                if name in read and name not in kept and name not in class_own:
                    yield LintFinding(
                        span=code.span(node),
                        summary=f"prepare_data sets self.{name}, and Lightning calls it on one process of a node",
                        happens=f"AttributeError on the other ranks: they have no {name}.",
                        fix="Write to the disk in prepare_data, and read it into self in setup, which all ranks call.",
                    )


def _of_self(function: ast.AST, context: type[ast.expr_context]) -> list[tuple[str, ast.Attribute]]:
    return [
        (node.attr, node)
        for node in walked(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
        and isinstance(node.ctx, context)
    ]  # fmt: skip


_SCORED = (
    "import lightning as L\nfrom lightning.pytorch.callbacks import ModelCheckpoint\nclass Net(L.LightningModule):\n"
    "    def validation_step(self, batch, index):\n        self.kept.append(self.net(batch))\n"
    "    def on_validation_epoch_end(self):\n        {}\n"
    "trainer = L.Trainer(devices=4, strategy='{}', callbacks=[ModelCheckpoint(monitor='score')])\n"
)


@rule(
    "L20",
    title="What the best checkpoint is chosen by is of all ranks' data",
    severity="warning",
    source="lightning 1.5 to 2.6, trainer/connectors/data_connector.py: a DistributedSampler splits validation;"
    " core/module.py, log: sync_dist=False keeps each rank's own value",
    bad=(
        _SCORED.format("self.log('score', score(torch.cat(self.kept)))", "ddp"),
        _SCORED.format("value = score(self.kept)\n        self.log('score', value)", "ddp_find_unused_parameters_true"),
    ),
    good=(
        _SCORED.format("self.log('score', score(torch.cat(self.kept)), sync_dist=True)", "ddp"),
        _SCORED.format("every = self.all_gather(self.kept)\n        self.log('score', score(every))", "ddp"),
        _SCORED.format("self.log('score', self.score.compute())", "ddp"),
        _SCORED.format("self.log('other', score(self.kept))", "ddp"),
    ),
)
def score_of_one_part(job: LintJob) -> Iterator[LintFinding]:
    """Each rank scores what it has kept itself; the checkpoint is rank 0's choice."""
    for code in codes(job):
        trainers = [call for call in code.calls if last_name(call.func) == "Trainer"]
        if not code.brings("lightning", "pytorch_lightning") or not any(_is_several(code, call) for call in trainers):
            continue
        monitored = {constant(argument(call, "monitor")) for call in code.calls if argument(call, "monitor")}
        for hook in (node for node in code.nodes if isinstance(node, FUNCTIONS)):
            if not re.fullmatch(r"(?:on_)?validation_epoch_end", hook.name):
                continue
            words = ast.unparse(hook)
            if re.search(r"all_gather|reduce|sync_dist|\.compute\(|gather", words) or "self." not in words:
                continue
            for call in (node for node in walked(hook) if isinstance(node, ast.Call)):
                name = constant(argument(call, "name", 0)) if last_name(call.func) == "log" else None
                if name is not None and name in monitored:
                    yield LintFinding(
                        span=code.span(call),
                        summary=f"{name} is computed of what this rank has kept, and a callback monitors it",
                        happens="It is the score of one rank's part of the data: another checkpoint may be the best.",
                        fix="Gather first (self.all_gather), take a torchmetrics metric, or say sync_dist=True.",
                    )


def _is_several(code: PythonCode, call: ast.Call) -> bool:
    devices, strategy = constant(argument(call, "devices")), constant(argument(call, "strategy"))
    return isinstance(devices, int) and (devices > 1 or devices == -1) and str(strategy).startswith("ddp")
