"""Rules of what Argo's and Tekton's workflows fill in: K73."""

import re
from collections import defaultdict
from collections.abc import Iterator, Set

from gpudoctor.knowledge.hugging_face_options import nearest
from gpudoctor.lazy import lazy_re
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue
from gpudoctor.lint.rule import LintFinding, rule

_TASK = (
    "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {{name: tune}}\nspec:\n  params:\n  - name: num-gpus\n"
    "  steps:\n  - name: train\n    image: i\n    command: [torchrun]\n"
    "    args: [--standalone, '--nproc_per_node=$(params.{})', train.py]\n"
)
_WORKFLOW = (
    "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata: {{generateName: t-}}\nspec:\n  entrypoint: t\n"
    "  templates:\n  - name: t\n    inputs:\n      parameters:\n      - name: epochs\n    container:\n      image: i\n"
    "      command: [torchrun]\n      args: [--standalone, train.py, '--epochs={{{{inputs.parameters.{}}}}}']\n"
)
_TEKTON = lazy_re(r"(?<!\$)\$\(params(?:\.([A-Za-z_][\w-]*)|\[[\"']([^\"']+)[\"']\])")
_ARGO = lazy_re(r"\{\{\s*inputs\.parameters\.([\w-]+)\s*\}\}")


@rule(
    "K73",
    title="What a workflow's step takes is declared",
    source="tektoncd/pipeline 1.0, pkg/apis/pipeline/v1/task_validation.go: non-existent variable; argo-workflows 4,"
    " workflow/validate: failed to resolve {{inputs.parameters...}}",
    bad=(_TASK.format("gpus"), _WORKFLOW.format("epoch")),
    good=(_TASK.format("num-gpus"), _WORKFLOW.format("epochs")),
)
def undeclared_parameter(job: LintJob) -> Iterator[LintFinding]:
    """A Task of Tekton knows the parameters of its own params, a template of Argo those of its own inputs: a name that
    stands nowhere there is refused before anything runs."""
    for manifest in job.manifests:
        if manifest.fault:
            continue
        for value, name, declared in _taken(manifest):
            if name in declared:
                continue
            near = nearest(name, frozenset(declared))
            yield LintFinding(
                span=value.span,
                summary=f"{name} is no parameter that is declared here" + (f"; {near} is one" if near else ""),
                happens=f'It is refused: non-existent variable "params.{name}".'
                if manifest.api_version.startswith("tekton.dev/")
                else f"The workflow is refused: failed to resolve {{{{inputs.parameters.{name}}}}}.",
                fix=f"Write {near}." if near else f"Add name: {name} to the parameters.",
            )


def _taken(manifest: Manifest) -> Iterator[tuple[ManifestValue, str, Set[str]]]:
    """Each value that takes a parameter, its name, and those that are declared."""
    if manifest.api_version.startswith("tekton.dev/") and manifest.kind == "Task":
        own = frozenset(value.value for value in manifest.values if _names(value.path, ("spec", "params")))
        for value in manifest.values:
            for match in _TEKTON.finditer(value.value) if value.path[:1] == ("spec",) else ():
                yield value, match[1] or match[2], own
    elif manifest.api_version.startswith("argoproj.io/"):
        own_of: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
        for value in manifest.values:
            if _names(value.path, (*value.path[:3], "inputs", "parameters")):
                own_of[value.path[:3]].add(value.value)
        for value in manifest.values:
            if value.path[:2] != ("spec", "templates") or len(value.path) < 4 or "inline" in value.path:
                continue
            for match in _ARGO.finditer(value.value):
                yield value, match[1], own_of[value.path[:3]]


def _names(path: tuple[str, ...], of: tuple[str, ...]) -> bool:
    return (
        path[: len(of)] == of
        and len(path) == len(of) + 2
        and path[-1] == "name"
        and re.fullmatch(r"\d+", path[-2]) is not None
    )
