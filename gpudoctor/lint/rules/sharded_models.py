"""The rule of accelerate's file beside the program whose model FSDP shards: C10."""

import ast
from collections.abc import Iterator

from gpudoctor.lint.model import LintJob
from gpudoctor.lint.python_code import codes_and_starts
from gpudoctor.lint.python_text import last_name
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.call_order import is_optimizer_of, scopes
from gpudoctor.lint.told_together import of_launch

_YAML = (
    "accelerate launch --config_file f.yaml t.py\n#@ file f.yaml\ndistributed_type: FSDP\nfsdp_config:\n"
    "  fsdp_use_orig_params: {}\nnum_machines: 1\nnum_processes: 4\n#@ file t.py\nimport torch\n"
    "from accelerate import Accelerator\naccelerator = Accelerator()\n{}"
)
_BEFORE = "optimizer = torch.optim.AdamW(net.parameters())\nnet, optimizer = accelerator.prepare(net, optimizer)\n"
_AFTER = (
    "net = accelerator.prepare(net)\noptimizer = torch.optim.AdamW(net.parameters())\n"
    "optimizer = accelerator.prepare(optimizer)\n"
)


@rule(
    "C10",
    title="With fsdp_use_orig_params: false the optimizer is made behind prepare",
    severity="warning",
    source="accelerate#3256; accelerate's guide of FSDP: prepare the model before the optimizer is made",
    bad=(_YAML.format("false", _BEFORE), _YAML.format("'false'", _BEFORE)),
    good=(_YAML.format("true", _BEFORE), _YAML.format("false", _AFTER)),
)
def optimizer_before_prepare(job: LintJob) -> Iterator[LintFinding]:
    """Without use_orig_params FSDP makes flat parameters of the model's. An optimizer that was made before holds the
    old ones: the loss does not move."""
    for code, starts in codes_and_starts(job):
        for launch in starts:
            given = of_launch(job, launch, None)
            told = given.options.get("accelerate.fsdp_config.fsdp_use_orig_params")
            if told is None or given.value("accelerate.fsdp_config.fsdp_use_orig_params", {}) is not False:
                continue
            for nodes in scopes(code):
                calls = [node for node in nodes if isinstance(node, ast.Call)]
                prepares = [call for call in calls if last_name(call.func) == "prepare" and call.args]
                for call in prepares:
                    names = [each.id for each in call.args if isinstance(each, ast.Name)]
                    made = [each for each in calls if any(is_optimizer_of(code, each, name) for name in names)]
                    if made and made[0].lineno < call.lineno:
                        yield LintFinding(
                            span=told.word.span,
                            summary="fsdp_use_orig_params is false, and the optimizer is made of the model's parameters"
                            f" before prepare() wraps it (line {code.line_of(made[0])})",
                            happens="It steps parameters that the model has no more: the loss does not move.",
                            fix="Write fsdp_use_orig_params: true, or prepare the model first and make the optimizer of"
                            " what comes back.",
                        )
                        return
