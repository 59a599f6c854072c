"""The report of nvidia-bug-report.sh: of its some hundred sections those that tell how the machine is now.

Source: the script of drivers 96 to 580: a section begins below a rule of underscores with its command or file. Left out
are what earlier starts of the machine logged (files of /var/log, `journalctl -b -1`), X, and DKMS's logs, which are
megabytes.
"""

from gpudoctor.knowledge.bug_report import START, WITHIN
from gpudoctor.lazy import lazy_re

RULE = lazy_re(r"^_{40,60}$", 8)  # re.MULTILINE
OF_NOW = lazy_re(
    r"\s{0,8}(?:(?:\S{0,80}/)?(?:nvidia-smi|lspci|ibstat|ibstatus|ibv_devinfo|systemctl)\b|dmesg:|"
    r"\*\*\* /proc/driver/nvidia/(?:\./)?version\b)"
)
UNITS = "nvidia-smi --query --unit"
"""Of chassis that nobody has: a second, empty log."""
KERNEL = lazy_re(r"\s{0,8}Scanning kernel log files")
JOURNAL = lazy_re(r"^ *journalctl -b -0:$(?P<lines>(?:\n(?! *journalctl -b -\d:).*)*)", 8)


def of_now(text: str) -> str:
    """The text itself where it is no such report."""
    if START not in text[:WITHIN]:
        return text
    sections = RULE.split(text)
    kept = [section.partition(UNITS)[0] for section in sections if OF_NOW.match(section)]
    journals = (JOURNAL.search(section) for section in sections if KERNEL.match(section))
    journal = next(filter(None, journals), None)
    if journal is not None and not any(section.strip().startswith("dmesg:") and "NVRM" in section for section in kept):
        kept.append(journal["lines"])
    return "\n".join(kept)
