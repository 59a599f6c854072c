"""What tables have against a document, in words; and what the table of Kubernetes has against a manifest."""

import re
from collections.abc import Iterator

from msgspec import structs

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.known_up_to import KnownUpTo, held_against, is_misspelt
from gpudoctor.lint.manifests import patches_of
from gpudoctor.lint.model import LintJob, Manifest
from gpudoctor.lint.once import once_a_job
from gpudoctor.lint.pods import containers, extent
from gpudoctor.lint.rule import Edit, LintFinding
from gpudoctor.lint.schemas import SchemaProblem, problems, schema

_EMPTY_OF_A_FORM = 3


_ARGO = lazy_re(r"\{\{=?\s*(?:inputs|outputs|workflow|steps|tasks|item|pod|node|retries|lastRetry)\b[^{}]*\}\}")


def is_filled_in(job: LintJob, manifest: Manifest) -> bool:
    """Whether it is a template, of Helm or its like, or a form: its name is left empty, or three keys and more are."""
    empty = [value.path for value in manifest.values if not value.value and value.span.start == value.span.end]
    if ("metadata", "name") in empty or len(empty) >= _EMPTY_OF_A_FORM:
        return True
    text = job.text[slice(*extent(manifest))]
    if manifest.api_version.startswith("argoproj.io/"):
        text = _ARGO.sub("", text)  # what Argo itself fills in, long after the manifest was taken
    return "{{" in text


def kubernetes(job: LintJob) -> Iterator[Manifest]:
    """Manifests as Kubernetes will get them: nothing is filled in before, and none is a patch of kustomize's."""
    for manifest in job.manifests:
        is_whole = manifest.api_version and not manifest.fault and id(manifest) not in _patches(job)
        if is_whole and not is_filled_in(job, manifest):
            yield manifest


@once_a_job
def _patches(job: LintJob) -> frozenset[int]:
    return frozenset(map(id, patches_of(job.manifests)))


def found_by_schema(job: LintJob, manifest: Manifest) -> list[SchemaProblem]:
    """All that the table of Kubernetes has against a manifest. Of kinds that it lacks, their pods are looked at."""
    kept = _kept(job)
    if id(manifest) not in kept:
        kept[id(manifest)] = list(_by_schema(job, manifest))
    return kept[id(manifest)]


@once_a_job
def _kept(job: LintJob) -> dict[int, list[SchemaProblem]]:
    """By manifest."""
    return {}


_LABELS = ("spec", "template", "metadata", "labels")


def _by_schema(job: LintJob, manifest: Manifest) -> Iterator[SchemaProblem]:
    table = schema("kubernetes")
    kind = f"{manifest.api_version} {manifest.kind}"
    every = containers(manifest)
    whole = not every or any(("image",) in container.values for container in every)  # else it is a patch
    controller = manifest.kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
    labelled = bool(every) and any(value.path[:4] == _LABELS for value in manifest.values)
    whole = whole and (not controller or labelled)
    if kind in table.kinds:
        yield from problems(table, table.kinds[kind], manifest, job.text, whole=whole)
        return
    for pod in dict.fromkeys(container.path[:-2] for container in every):
        if pod[-1:] == ("containerSet",):
            continue  # Argo's, whose containers depend on each other
        inside = tuple(
            structs.replace(value, path=value.path[len(pod) :])
            for value in manifest.values
            if value.path[: len(pod)] == pod
        )
        for problem in problems(table, "PodSpec", structs.replace(manifest, values=inside), job.text, whole=False):
            yield structs.replace(problem, path=(*pod, *problem.path))


def unknown(job: LintJob, problem: SchemaProblem, refused: str, otherwise: str) -> LintFinding:
    name = problem.path[-1]
    finding = LintFinding(
        span=problem.value.span,
        summary=f"{name} is no field of {_an(problem)}" + (f"; {problem.wanted} is one" if problem.wanted else ""),
        happens=f'{refused} "{".".join(problem.path)[-80:]}"; {otherwise}.',
        fix=f"Write {problem.wanted}."
        if problem.wanted
        else f"Move it to {problem.home}, by its indentation."
        if problem.home
        else "Move it to where it belongs, by its indentation, or take it out.",
    )
    package, _, release = problem.read.partition(" ")
    tables = (KnownUpTo(package, release),) if release else ()
    return held_against(job, tables, finding, sure=bool(problem.home) or is_misspelt(name, problem.wanted))


def _an(problem: SchemaProblem) -> str:
    """The object in which something stands: by its path, and by the name that the documentation has for it."""
    name = re.sub(r"_+$", "", problem.of)
    where = ".".join(part for part in problem.path[:-1] if not part.isdecimal())
    article = "an" if name[:1] in "AEIOU" else "a"
    return f"{where} ({name})" if where else f"{article} {name}"


def missing(problem: SchemaProblem) -> LintFinding:
    return LintFinding(
        span=problem.value.span,
        summary=f"{problem.wanted} is missing in {_an(problem)}",
        happens=f"It is refused: {'.'.join(problem.path)[-80:]} is required.",
        fix=f"Write {problem.wanted}.",
    )


def of_another_kind(job: LintJob, problem: SchemaProblem) -> LintFinding:
    """A number where a string is wanted, a word where a list is."""
    written = job.text[problem.value.span.start : problem.value.span.end]
    quoted = problem.wanted == "a string" and problem.is_ in ("a number", "true or false")
    shown = f" ({problem.value.value[:40]})" if problem.is_ not in ("a list", "a mapping") else ""
    name = next((part for part in reversed(problem.path) if not part.isdecimal()), "it")
    fix = (
        f'Write it in quotes: "{written}".'
        if quoted
        else f"Write it without quotes: {problem.value.value}."
        if problem.wanted in ("a whole number", "true or false") and problem.is_ == "a string" and written[:1] in "\"'"
        else f"Write {problem.wanted}: [{problem.value.value[:40]}]."
        if problem.wanted == "a list" and problem.is_ == "a string"
        else f"Write {problem.wanted}."
    )
    return LintFinding(
        span=problem.value.span,
        summary=f"{name} in {_an(problem)} is {problem.is_}{shown}; {problem.wanted} is wanted there",
        happens=f"It is refused: {'.'.join(problem.path)[-80:]} must be {problem.wanted}"
        + (" (cannot unmarshal number into ... of type string)." if quoted and problem.is_ == "a number" else "."),
        fix=fix,
        edits=(Edit(problem.value.span, f'"{written}"'),) if quoted and problem.value.span.exact else (),
    )


def none_of_the_words(problem: SchemaProblem) -> LintFinding:
    """Words of which there are a few, each in its capitals; numbers of a range."""
    name, value = problem.path[-1], problem.value.value
    known = problem.wanted.split(", ")
    like = next((word for word in known if word.lower() == value.lower()), "")
    is_word = problem.what == "word"
    return LintFinding(
        span=problem.value.span,
        summary=f"{name} is {value or 'empty'}, which is none of {problem.wanted}"
        if is_word
        else f"{name} is {value}; it is {problem.wanted}",
        happens=f'It is refused: Unsupported value: "{value}".'
        if is_word
        else f"It is refused: {value} is out of range.",
        fix=f"Write {like}." if like else f"Write {'one of ' if is_word else ''}{problem.wanted}.",
        edits=(Edit(problem.value.span, like),) if like and problem.value.span.exact else (),
    )


def refused(job: LintJob, problem: SchemaProblem, who: str, says: str) -> LintFinding:
    """What a service's schema has against a file."""
    if problem.what == "unknown":
        return unknown(job, problem, f"{who}: {says or 'Additional property'}, not allowed:", "no container is made")
    if problem.what == "required":
        return missing(problem)
    return of_another_kind(job, problem) if problem.what == "kind" else none_of_the_words(problem)
