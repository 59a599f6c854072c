"""Credentials in a free text, by how they are written.

A sieve for what has no shape of its own: the kernel's log, an error's message, the reader's own command lines. Where a
text has one, `shapes` says what is kept instead.
"""

import re

from gpudoctor.lazy import lazy_re

_NAMES = (
    r"token|jwt|bearer|secret|passw(?:or)?d|passphrase|credentials?|cookie|session|webhook|dsn|signature"
    r"|(?:api|access|auth|private|signing|encryption|ssh|account|license)[_-]?key"
)
_SHORT = r"auth|key|pass|pwd"
_VALUE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s'\",;&}]+)"
_WRITTEN = (
    # a URL's user and password, to its last @
    (r"(://)[^/\s'\"<>]{1,400}@", r"\1***@"),
    # Authorization: Basic ..., Cookie: ...
    (r"\b((?:proxy-)?authorization|(?:set-)?cookie)(\s*[:=]\s*)[^\n\"']+", r"\1\2***"),
    (r"\b(bearer)\s+[A-Za-z0-9._~+/=-]{6,}", r"\1 ***"),
    # X-Api-Key: ...
    (rf"(?<!\w)(x-[\w-]{{0,64}}(?:{_NAMES}|{_SHORT})[\w-]{{0,64}}\s*[:=]\s*){_VALUE}", r"\1***"),
    # --api-key ..., --pass=..., -u user:...
    (rf"(?<![\w-])(--?[\w.-]{{0,64}}(?:{_NAMES}|{_SHORT})(?:=|\s+))(?!-){_VALUE}", r"\1***"),
    (r"(?<![\w-])(-u\s+[^\s:'\"]{1,200}:)[^\s'\"]+", r"\1***"),
    # DB_PASS=..., wandb.api_key='...', token = ...
    (rf"((?<!\w)[\w.-]{{0,64}}(?:{_NAMES}|_(?:{_SHORT}))[\w-]{{0,64}}\s*=\s*){_VALUE}", r"\1***"),
    (r"((?<!\w)[A-Z][A-Z0-9_]{0,64}(?:KEY|PASS|PWD)=)[^\s'\"]+", r"\1***"),
    # {"api_key": "..."}
    (rf"(['\"][\w.-]{{0,64}}(?:{_NAMES}|{_SHORT})['\"]\s*:\s*){_VALUE}", r"\1***"),
    # of a form that is known
    (
        r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|sk-[A-Za-z0-9_-]{20,}"
        r"|xox[abpr]-[\w-]{10,}|glpat-[\w-]{20,}|nvapi-[\w-]{20,}|AKIA[0-9A-Z]{16}"
        r"|eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]{5,})",
        "***",
    ),
)
CREDENTIALS = tuple((lazy_re(pattern, re.IGNORECASE), replacement) for pattern, replacement in _WRITTEN)

SIGNS = lazy_re(
    r"[=@]|://|:\s|['\"]\s*:|(?<![\w-])-|bearer|hf_|gh[pousr]_|github_|sk-|xox|glpat|nvapi|AKIA|eyJ", re.IGNORECASE
)
"""Without one of these a text has none: most have not."""


def without_credentials(text: str) -> str:
    """A text with "***" in the place of each credential in it."""
    if SIGNS.search(text) is None:
        return text
    for pattern, replacement in CREDENTIALS:
        text = pattern.sub(replacement, text)
    return text
