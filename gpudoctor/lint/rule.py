"""What a lint rule is written against: `@rule`, `Finding`, `Edit`. One family a file in `rules/`."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from typing import Literal

from msgspec import Struct, structs

from gpudoctor.lint.model import LintJob, Span
from gpudoctor.plugins import RULES, find, instances
from gpudoctor.severity import Severity as Severity

Needs = Literal["text", "facts", "probe"]
"""What decides it: the text alone; facts (versions, GPU counts) too; a look at the nodes (then the rule without a
probe says a warning and names the command that would decide)."""


NAMES_RULES = "gpudoctor:"
"""In front of what a comment says to us."""
_OF_PROGRAMS = """
    accelerate_programs call_order collectives contracts data_and_steps data_parallel horovod_programs joining
    lightning_data lightning_modules lightning_ranks loss_scaling moved_names no_sync own_checks python_calls
    python_groups python_ranks python_training python_types rank_courses rank_data rank_decisions rank_files
    rank_loaders rank_makes rank_once rank_programs rank_states rank_values ranks_by_program refused_calls
    sharded_models spawn split_models sums torch_misuse tpu_programs
"""
_OF_MANIFESTS = """
    compose_names kubernetes manifest_heads manifest_names manifest_objects manifest_pods manifest_ranks
    manifest_refusals manifest_values manifest_webhooks workflow_parameters
"""
OF_PROGRAMS = frozenset(_OF_PROGRAMS.split())
"""Families of `rules` that judge Python programs and nothing else: a text without `import` has none."""
OF_MANIFESTS = frozenset(_OF_MANIFESTS.split())
"""Families that judge what the job has as a manifest, and nothing else."""


class Edit(Struct, frozen=True):
    """Replace a stretch of the text. `span.start == span.end` inserts."""

    span: Span
    text: str


class LintFinding(Struct, frozen=True, kw_only=True):
    """What a rule says of a text.

    summary: what stands there and what was wanted; one line without a final period. happens: what will happen at run
    time. fix: what to write instead, and the edits that do so (empty: no edit can be made of the text alone).
    """

    span: Span
    summary: str
    happens: str
    fix: str
    edits: tuple[Edit, ...] = ()
    severity: Severity | None = None
    """Another one than the rule's, where a guard weakens it or facts sharpen it."""

    def __post_init__(self) -> None:
        if "\n" in self.summary:  # a word of the text, which quotes make as long as they like
            structs.force_setattr(self, "summary", " ".join(self.summary.split()))


class Example(Struct, frozen=True):
    """A text that is also a test. `facts` as on the command line: "nodes=2,lightning=1.9"."""

    text: str
    facts: str = ""


Judge = Callable[[LintJob], Iterator[LintFinding]]


class LintRule(Struct, frozen=True, kw_only=True):
    """`code` is a number ("R01"), `id` a readable name ("same-node-rank-twice"); neither ever changes."""

    id: str
    code: str
    title: str
    """What is right: "Every node has a node rank of its own"."""
    severity: Severity
    needs: Needs
    source: str
    """Where it is known from: "measured with torch 2.13", "pytorch#67581", a documentation page."""
    leads_to: tuple[str, ...] = ()
    """Ids of `gpudoctor.causes`: what `hang` and `explain` will call it when the job runs."""
    bad: tuple[Example, ...]
    good: tuple[Example, ...]
    judge: Judge

    @property
    def documentation(self) -> str:
        return (self.judge.__doc__ or "").strip()


def rule(
    code: str,
    id: str = "",
    *,
    title: str,
    severity: Severity = "error",
    needs: Needs = "text",
    source: str,
    leads_to: tuple[str, ...] = (),
    bad: tuple[Example | str, ...],
    good: tuple[Example | str, ...],
) -> Callable[[Judge], LintRule]:
    """Make a rule of a generator over a `Job`; its docstring is its documentation, its name the rule's id."""

    def examples(given: tuple[Example | str, ...]) -> tuple[Example, ...]:
        return tuple(Example(each) if isinstance(each, str) else each for each in given)

    def made(judge: Judge) -> LintRule:
        return LintRule(
            id=id or judge.__name__.replace("_", "-"), code=code, title=title, severity=severity, needs=needs,
            source=source, leads_to=leads_to, bad=examples(bad), good=examples(good), judge=judge,
        )  # fmt: skip

    return made


def every_rule() -> tuple[LintRule, ...]:
    """All rules of `gpudoctor.lint.rules` and of other packages, by code. Looked for once: a folder has many files."""
    return _found(frozenset())


def rules_for(job: LintJob) -> tuple[LintRule, ...]:
    """Those that can touch a job: families that judge programs or manifests alone are not even imported without one."""
    if NAMES_RULES in job.text:  # a comment may name any rule
        return every_rule()
    has_program = job.kind == "python" or "import" in job.text or bool(job.linked or job.modules)
    left_out = (frozenset() if has_program else OF_PROGRAMS) | (frozenset() if job.manifests else OF_MANIFESTS)
    return _found(left_out)


@cache
def _found(left_out: frozenset[str]) -> tuple[LintRule, ...]:
    from gpudoctor.lint import rules

    defined = instances(LintRule, lambda rule: rule.judge.__module__)
    own = [
        rule
        for module in pkgutil.iter_modules(rules.__path__)
        if module.name not in left_out
        for rule in defined(importlib.import_module(f"{rules.__name__}.{module.name}"))
    ]
    return tuple(sorted(find(RULES, defined, lambda rule: [rule.id, rule.code], own), key=lambda rule: rule.code))
