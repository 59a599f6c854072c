"""Whether an option that a launcher does not know is one of somebody else: then no newer release of it will have it."""

from functools import cache

from gpudoctor.knowledge.hugging_face_options import arguments_of
from gpudoctor.launcher import registry
from gpudoctor.lint.model import LintJob

_DEEPSPEED = ("deepspeed", "deepspeed_config")
"""What DeepSpeed's add_config_arguments gives a program's parser."""


def is_of_another(job: LintJob, written: str) -> bool:
    """Another launcher's, one that programs of transformers and DeepSpeed take, or one of a parser in the text."""
    plain = written.lstrip("-").replace("-", "_")
    return (
        plain in _of_launchers()
        or plain in _DEEPSPEED
        or plain in arguments_of("llamafactory", "llamafactory")
        or any(f"{quote}{written}{quote}" in job.text for quote in "\"'")
    )


@cache
def _of_launchers() -> frozenset[str]:
    forms = (form for traits in registry.every() for form in traits.forms)
    every = (spelling for form in forms for spec in form.grammar.options for spelling in spec.spellings)
    return frozenset(spelling[2:].replace("-", "_") for spelling in every if spelling.startswith("--"))
