"""What a text's variables are where nobody sets them before it runs: `MODE=${MODE:-spmd}`, `: "${MODE:=spmd}"`."""

import re

from gpudoctor.lazy import lazy_re

_DEFAULT = lazy_re(
    r"^[ \t]*(?:export[ \t]+|:[ \t]+)?(?:([A-Za-z_]\w*)=)?[\"']?\$\{([A-Za-z_]\w*):?[-=][\"']?([\w.+/-]*)[\"']?\}[\"']?"
    r"[ \t]*(?:#.*)?$",
    re.MULTILINE | re.ASCII,
)
_TESTS = lazy_re(r"^[ \t]*(?:el)?if\b[^\n]*", re.MULTILINE)


def defaults(text: str) -> dict[str, str]:
    """Of the variables that an `if` of the text asks about."""
    asked = " ".join(_TESTS.findall(text))
    return {
        match[2]: match[3]
        for match in _DEFAULT.finditer(text)
        if match[1] in (None, match[2]) and re.search(rf"\$\{{?{match[2]}\b", asked)
    }
