"""What starts jobs, as a log shows it, and what of a fix is of another one.

What differs by platform is written into a fix as items, each begun by its platform's name: "(docker: --shm-size=8g;
Kubernetes: an emptyDir)" is true as it stands and told whole where a log shows no platform; "[SLURM: --mem; docker:
--memory]" is of use only where it is known which, and left out there. An item without a name is of any platform.
"""

import re
from collections.abc import Collection, Mapping

from gpudoctor.lazy import lazy_re

PLATFORMS: Mapping[str, re.Pattern[str]] = {
    "docker": lazy_re(
        r"(?im)(?<!imported )(?<!importing )\bdocker\b(?!://)|\bpodman\b|/\.dockerenv|Error response from daemon|"
        r"^\(?(?:[\w.-]{1,40}\) ?\(?)?root@[0-9a-f]{12}:"
    ),
    "Kubernetes": lazy_re(
        r"(?i)\bkube|\bpods?\b|\bk8s\b|ImagePullBackOff|CrashLoop|FailedSched|nodes? are available|volcano|kueue|"
        r"\bReason:\s+OOMKilled"
    ),
    "SLURM": lazy_re(r"(?i)slurm|\bs(?:run|batch|alloc|queue|info|acct)\b|pyxis|\bPARTITION\b"),
    "pyxis": lazy_re(r"pyxis|enroot|--container-image"),
    "apptainer": lazy_re(r"(?i)\b(?:apptainer|singularity)\b|\.sif\b"),
    "LSF": lazy_re(r"\bLSF\b|\bbsub\b|\bbjobs\b|\bjsrun\b|\bTERM_(?:MEMLIMIT|RUNLIMIT|OWNER|ADMIN)\b"),
    "PBS": lazy_re(r"\bPBS\b|\bPBS_\w|\bqsub\b|\bpbs_mom\b"),
    "SGE": lazy_re(r"\bSGE_?\b|\bqsub\b"),
    "HTCondor": lazy_re(r"(?i)condor"),
}
"""By the name by which fixes call a platform, what its programs say, or how they are called."""
NAMED = "|".join(PLATFORMS)
WITHIN = r"(?:[^()\[\]]|\[[^()\[\]]{0,80}\])"
ITEMS = lazy_re(rf" ?(?P<open>[(\[])(?P<items>(?:[^()\[\]]{{1,400}}; )?(?:{NAMED}): {WITHIN}{{1,800}})[)\]]")
ITEM = lazy_re(rf"(?P<of>{NAMED}): ")
BY_NAME = "["


def platforms_of(log: str) -> frozenset[str]:
    return frozenset(name for name, words in PLATFORMS.items() if words.search(log))


def on_platforms(text: str, shown: Collection[str]) -> str:
    """A fix's text with the items of the platforms that are shown."""
    return ITEMS.sub(lambda found: _of_these(found, shown), text)


def _of_these(found: re.Match[str], shown: Collection[str]) -> str:
    items = found["items"].split("; ")
    named = [(match["of"] if (match := ITEM.match(item)) else "", item) for item in items]
    if not shown and found["open"] == BY_NAME:
        return ""
    kept = [item for of, item in named if not shown or not of or of in shown]
    if shown and len(kept) == 1:
        kept = [ITEM.sub("", kept[0])]
    return f" ({'; '.join(kept)})" if kept else ""


__all__ = ["PLATFORMS", "on_platforms", "platforms_of"]
