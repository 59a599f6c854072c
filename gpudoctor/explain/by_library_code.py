"""What a message that any program may raise means at one place of one library: by the file that raised it and its line.

`KeyError: 'mistral'` says nothing; out of transformers' table of configurations it names a model that is not in there.
"""

import re

from gpudoctor.lazy import lazy_re

ROWS: tuple[tuple[str, re.Pattern[str], re.Pattern[str], re.Pattern[str], str], ...] = tuple(
    (of_type, lazy_re(words), lazy_re(file), lazy_re(code), variant)
    for of_type, words, file, code, variant in (
        ("KeyError", r"^'[\w.-]{2,60}'$", r"transformers[/\\]models[/\\]auto[/\\]configuration_auto\.py$", "",
         "unknown-architecture"),
        ("TypeError", r"'NoneType' is not iterable|'NoneType' object is not (?:iterable|a container)",
         r"transformers[/\\]modeling_utils\.py$", r"\bALL_PARALLEL_STYLES\b", "torch-below-transformers"),
        ("NameError", r"^name '(?:nn|torch|Replicate|Shard|DTensor|DeviceMesh)' is not defined",
         r"[/\\]transformers[/\\]", "",
         "torch-below-transformers"),
        ("NameError", r"^name '(?:init_empty_weights|find_tied_parameters)' is not defined", r"[/\\]transformers[/\\]",
         "", "no-accelerate-for-transformers"),
        ("RuntimeError", r"^The size of tensor a \(\d+\) must match the size of tensor b \(\d+\)",
         r"[/\\]transformers[/\\]models[/\\]", r"\bposition_(?:embeddings|embeds)\b", "longer-than-positions"),
        ("NameError", r"^name '\w{1,80}' is not defined", r"(?:site|dist)-packages[/\\]\w", "", "name-in-package"),
    )
)  # fmt: skip
"""Type, words, file, line (where a log tells it), variant of program-error. Sources: transformers 4.34 to 5.0,
models/auto/configuration_auto.py (_LazyConfigMapping), modeling_utils.py (post_init: 4.52, not 4.51),
integrations/tensor_parallel.py (ALL_PARALLEL_STYLES is None below torch 2.5), integrations/accelerate.py,
models/bert/modeling_bert.py."""

OF_ANY_RELEASE = ("name-of-package", "another-type-there")
"""Remedies that say less than a table of releases."""


def by_library_code(type_name: str, message: str, raised_in: str, code: str) -> str:
    """The variant of the cause program-error; empty where that place is not known."""
    name, first = type_name.rpartition(".")[2], message.partition("\n")[0].strip()
    return next(
        (
            variant
            for of_type, words, file, of_code, variant in ROWS
            if of_type == name and words.search(first) and file.search(raised_in) and of_code.search(code)
        ),
        "",
    )


__all__ = ["OF_ANY_RELEASE", "by_library_code"]
