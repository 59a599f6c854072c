"""A file of `accelerate config` as `accelerate launch` uses it: what the command line does not say, the file does.

Source: accelerate 1.15, commands/launch.py (`_validate_launch_command`: an argument that is None is the file's) and
commands/config/config_args.py. machine_rank is the file's too: on every machine the same, where the file is.
"""

from collections.abc import Sequence

from msgspec import structs

from gpudoctor.launcher import registry
from gpudoctor.lint.manifests import read_manifests
from gpudoctor.lint.model import LintLaunch, Option, TextSection, Word, file_named

KINDS = {"MULTI_GPU": "multi-gpu", "FSDP": "use-fsdp", "DEEPSPEED": "use-deepspeed", "MEGATRON_LM": "use-megatron-lm"}


def with_config(launch: LintLaunch, sections: Sequence[TextSection]) -> LintLaunch:
    """With the file's values as options, where its text is given."""
    named = launch.text("config-file") if launch.launcher == "accelerate" else None
    file = file_named(sections, named or "")
    if file is None:
        return launch
    known = {spec.name for spec in registry.form("accelerate").grammar.options}
    options: dict[str, Option] = {}
    for manifest in read_manifests(file.text, file.start, file.line):
        for value in manifest.values:
            key, text = "".join(value.path[-1:]), value.value
            name = key.replace("_", "-")
            word = Word(raw=text, text=text, shown=text, span=value.span)
            if key == "distributed_type" and text in KINDS:
                options[KINDS[text]] = Option(KINDS[text], key, None, value.span)
            elif name in known and text not in ("", "null", "~", "false", "False"):
                options[name] = Option(name, key, word, value.span)
    given = {name: option for name, option in launch.options.items() if name != "config-file"}
    return structs.replace(launch, options={**options, **given})
