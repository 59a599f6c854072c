"""A number is set as a word, or with something behind it, and NCCL reads another value than was meant.

Why it matters: NCCL reads its integers with strtoll and looks neither at words nor at what follows the digits.
NCCL_IB_DISABLE=true is 0 and changes nothing; NCCL_BUFFSIZE=8MB is 8 bytes; 010 is 8. Nothing is logged. Since 2.32 a
word leaves the default as it is, so that NCCL_NVLS_ENABLE=off turns nothing off any more.
"""

from gpudoctor.check import Fix, Problem, Problems, Snapshot, check
from gpudoctor.knowledge.nccl.repair import set_to, take_out
from gpudoctor.knowledge.nccl.settings import WORDS_ARE_DEFAULT_SINCE, Setting, effective, evidence, number, where
from gpudoctor.knowledge.nccl.variables import table

MEANS_ONE = ("true", "yes", "on", "y", "t", "enable", "enabled")
MEANS_ZERO = ("false", "no", "off", "n", "f", "disable", "disabled", "none")
UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3}


@check("nccl-value-misread", title="NCCL reads the numbers that were meant")
def nccl_value_misread(machine: Snapshot) -> Problems:
    for setting in effective(machine).values():
        row = table().get(setting.name)
        if row is None or row.kind != "integer" or not setting.value:
            continue
        taken, meant = misreading(setting.value)
        word = setting.value.strip().lower()
        if setting.word_is_default and not number(setting.value).is_number:
            default = row.default(WORDS_ARE_DEFAULT_SINCE)
            meant = "0" if word in MEANS_ZERO else meant
            taken = (
                "" if meant == "0" == str(default) else f"its default{f', {default}' if default is not None else ''}"
            )
        if taken:
            yield Problem(
                severity="warning",
                summary=f"{setting.name}={_shown(setting)}{where(setting)} is read as {taken}",
                meaning=f"NCCL takes numbers only and passes over the rest without a word ({row.purpose}).",
                fix=Fix(
                    f"Write the number {meant}." if meant else "Write a number, or take it out.",
                    commands=set_to(setting, meant) if meant else take_out(setting),
                ),
                evidence=evidence(machine, setting),
            )


def misreading(text: str) -> tuple[str, str]:
    """What NCCL takes and what was probably meant ("" when nobody can tell); ("", "") when the two are the same."""
    integer = number(text)
    word = text.strip().lower()
    if not integer.is_number:
        if word in MEANS_ZERO:
            return "", ""  # 0, as it was meant
        return "0", "1" if word in MEANS_ONE else ""
    if integer.too_large:
        return "its default: it does not fit 64 bits", ""
    rest = integer.rest.strip().lower()
    if rest:
        unit = UNITS.get(rest.removesuffix("ib").removesuffix("b"))
        return str(integer.value), str(integer.value * unit) if unit else ""
    digits = word.lstrip("+-")
    if digits.isdigit() and len(digits) > 1 and digits.startswith("0") and int(word) != integer.value:
        return f"{integer.value}, as octal", str(int(word))
    return "", ""


def _shown(setting: Setting) -> str:
    return setting.value if len(setting.value) <= 40 and setting.value.isprintable() else repr(setting.value)[:40]
