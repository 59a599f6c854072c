"""Rules of what the ranks of Lightning do in their hooks: L15 to L18."""

import ast
from collections.abc import Iterator

from gpudoctor.lint.courses.compare import parting
from gpudoctor.lint.courses.lightning_courses import hook_courses
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import argument, codes, constant
from gpudoctor.lint.python_text import last_name, walked
from gpudoctor.lint.rule import LintFinding, rule

_MODULE = (
    "import lightning as L\nimport torch\nimport torch.distributed as dist\nclass Net(L.LightningModule):\n"
    "    def validation_step(self, batch, index):\n        loss = self.net(batch).mean()\n        {}\n"
)
_CALLBACK = (
    "from lightning.pytorch.callbacks import Callback\nclass Stop(Callback):\n"
    "    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):\n        {}\n"
)
_MONITORED = (
    "import lightning as L\nfrom lightning.pytorch.callbacks import {0}\nclass Net(L.LightningModule):\n"
    "    def validation_step(self, batch, index):\n        self.log('val_loss', self.net(batch).mean(){1})\n"
    "trainer = L.Trainer(devices=4, strategy='ddp', callbacks=[{0}(monitor='val_loss')])\n"
)


@rule(
    "L15",
    title="In a hook of Lightning all ranks come to what reduces or gathers",
    source="lightning 2.6: core/module.py, all_gather and log(sync_dist=True); the strategies' barrier, reduce;"
    " torchmetrics' compute synchronises",
    leads_to=("rank0-only-collective",),
    bad=(
        _MODULE.format("if self.trainer.is_global_zero:\n            self.log('loss', loss, sync_dist=True)"),
        _MODULE.format("if self.global_rank == 0:\n            print(self.all_gather(loss))"),
        _CALLBACK.format("if trainer.is_global_zero:\n            trainer.strategy.barrier()"),
    ),
    good=(
        _MODULE.format("self.log('loss', loss, sync_dist=True)"),
        _MODULE.format("every = self.all_gather(loss)\n        if self.global_rank == 0:\n            print(every)"),
        _CALLBACK.format(
            "trainer.strategy.barrier()\n        if trainer.is_global_zero:\n            print(batch_idx)"
        ),
    ),
)
def ranks_part_in_a_hook(job: LintJob) -> Iterator[LintFinding]:
    """Every rank runs the hooks. What one of them reduces below a condition on its rank waits for the others."""
    told: set[tuple[int, int]] = set()
    for each in hook_courses(job):
        found = parting(each.ranks[0].events, each.ranks[1].events, (0, 1))
        if found is None or found.leaves or not isinstance(found.node, (ast.expr, ast.stmt)):
            continue
        span = each.code.span(found.node)
        if (span.start, span.end) not in told:
            told.add((span.start, span.end))
            yield LintFinding(
                span=span,
                summary=f"in {each.hook.name} rank {0 if found.one else 1} alone comes to {found.call}",
                happens="It waits for the other ranks until the time-out.",
                fix="Call it on every rank; print or write what it gives on rank 0.",
            )


@rule(
    "L16",
    title="What callbacks monitor is logged on every rank",
    source="lightning 2.6, extensions/logging: with rank_zero_only=True the metric is not there on other ranks, nor for"
    " callbacks; model_checkpoint.py, early_stopping.py: the monitored metric is looked for on every rank",
    leads_to=("program-error",),
    bad=(
        _MONITORED.format("ModelCheckpoint", ", rank_zero_only=True"),
        _MONITORED.format("EarlyStopping", ", sync_dist=True, rank_zero_only=True"),
    ),
    good=(
        _MONITORED.format("ModelCheckpoint", ", sync_dist=True"),
        _MONITORED.format("ModelCheckpoint", ", rank_zero_only=True").replace("monitor='val_loss'", "monitor='other'"),
    ),
)
def monitored_on_one_rank(job: LintJob) -> Iterator[LintFinding]:
    """The other ranks do not find what they are to save or stop by."""
    for code in codes(job):
        if not code.brings("lightning", "pytorch_lightning"):
            continue
        monitored = {
            constant(argument(call, "monitor")) for call in code.calls if argument(call, "monitor") is not None
        }
        for call in code.calls:
            name = constant(argument(call, "name", 0)) if last_name(call.func) == "log" else None
            if name in monitored and name and constant(argument(call, "rank_zero_only")) is True:
                yield LintFinding(
                    span=code.span(call),
                    summary=f"{name} is logged on rank 0 alone, and a callback monitors it",
                    happens="The other ranks do not have it: they end, or stop and save otherwise than rank 0.",
                    fix="Leave rank_zero_only out; sync_dist=True averages it over the ranks.",
                )


@rule(
    "L17",
    title="All ranks of Lightning are told to stop",
    source="lightning 2.6, loops/fit_loop.py reads trainer.should_stop on each rank; sleap-nn#471",
    severity="warning",
    leads_to=("rank0-only-collective",),
    bad=(
        _CALLBACK.format("if trainer.is_global_zero and asked():\n            trainer.should_stop = True"),
        _CALLBACK.format("if trainer.global_rank == 0:\n            trainer.should_stop = asked()"),
    ),
    good=(
        _CALLBACK.format("trainer.should_stop = trainer.strategy.reduce_boolean_decision(asked(), all=False)"),
        _CALLBACK.format("if pl_module.loss > 9:\n            trainer.should_stop = True"),
    ),
)
def one_rank_should_stop(job: LintJob) -> Iterator[LintFinding]:
    """A rank that stops leaves the others waiting in their next step."""
    for each in hook_courses(job):
        one, two = ([deed for deed in rank.deeds if deed.what == "stops"] for rank in each.ranks)
        if one and not two:
            yield LintFinding(
                span=each.code.span(one[0].node),
                summary=f"{each.hook.name} sets trainer.should_stop on rank 0 alone",
                happens="Rank 0 leaves the loop, and the others wait for it in the next step.",
                fix="Tell all: trainer.should_stop = trainer.strategy.reduce_boolean_decision(stop, all=False).",
            )


_FIXED = (
    "import lightning as L\nimport torch\nclass Net(L.LightningModule):\n    def training_step(self, batch, index):\n"
    "        noise = torch.randn(4, device={})\n        return self.net(batch + noise).mean()\n"
    "trainer = L.Trainer(accelerator='gpu', devices={})\n"
)


@rule(
    "L18",
    title="A LightningModule makes tensors on its own device",
    source="lightning 2.6, LightningModule.device: under several devices each rank's module is on its own GPU",
    leads_to=("program-error",),
    bad=(_FIXED.format("'cuda:0'", "4"), _FIXED.format("'cuda:0'", "2, strategy='ddp'")),
    good=(_FIXED.format("self.device", "4"), _FIXED.format("'cuda:0'", "1"), _FIXED.format("'cuda'", "4")),
)
def fixed_gpu_in_a_module(job: LintJob) -> Iterator[LintFinding]:
    """On rank 1 the module is on cuda:1, and what stands on cuda:0 does not meet it."""
    for code in codes(job):
        devices = [constant(argument(call, "devices")) for call in code.calls if last_name(call.func) == "Trainer"]
        if not any(
            isinstance(each, int) and not isinstance(each, bool) and (each > 1 or each == -1) for each in devices
        ):
            continue
        for node in code.tree.body:
            if not isinstance(node, ast.ClassDef) or not any(
                last_name(each) == "LightningModule" for each in node.bases
            ):
                continue
            for call in (each for each in walked(node) if isinstance(each, ast.Call)):
                told = [each.value for each in call.keywords if each.arg == "device"]
                told += call.args[:1] if last_name(call.func) in ("to", "device") else []
                fixed = next((each for each in told if str(constant(each)).startswith("cuda:")), None)
                if fixed is not None:
                    yield LintFinding(
                        span=code.span(call),
                        summary=f"{node.name} names {constant(fixed)}, and each rank's module is on its own GPU",
                        happens="RuntimeError on the other ranks: Expected all tensors to be on the same device.",
                        fix="Write device=self.device, or register a buffer.",
                    )
                    break
