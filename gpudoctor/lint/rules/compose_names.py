"""Rules of the names that containers of one compose file have for each other: K49."""

import re
from collections.abc import Iterator

from gpudoctor.lazy import lazy_re
from gpudoctor.lint import look
from gpudoctor.lint.model import LintJob, Manifest, ManifestValue
from gpudoctor.lint.rule import LintFinding, rule
from gpudoctor.lint.rules.manifest_values import children

_TWO = (
    "services:\n  node0:\n    image: train:1\n    ipc: host\n    environment:\n      MASTER_ADDR: {0}\n"
    "      RANK: '0'\n"
    "      WORLD_SIZE: '2'\n      MASTER_PORT: '29500'\n    command: python train.py\n  node1:\n    image: train:1\n"
    "    ipc: host\n    environment:\n      MASTER_ADDR: {0}\n      RANK: '1'\n      WORLD_SIZE: '2'\n"
    "      MASTER_PORT: '29500'\n    command: python train.py\n"
)
_HEAD = lazy_re(r"--(?:master[-_]addr|rdzv[-_]endpoint|main[-_]process[-_]ip)[= ]([\w.-]+)|MASTER_ADDR=([\w.-]+)")


@rule(
    "K49",
    title="The head of a compose file's services is one of them",
    source="Compose's documentation, Networking: a container is found by its service's name and its aliases",
    leads_to=("master-unreachable",),
    bad=(_TWO.format("master"), _TWO.format("node2")),
    good=(
        _TWO.format("node0"),
        _TWO.format("10.0.0.4"),
        _TWO.format("head").replace("  node0:\n", "  node0:\n    hostname: head\n"),
    ),
)
def head_that_is_no_service(job: LintJob) -> Iterator[LintFinding]:
    """On the network of a compose file a name is a service's, or one of its aliases. Another name is found by nobody,
    unless it is one outside."""
    for manifest in job.manifests:
        if manifest.kind != "Compose":
            continue
        known = _names(manifest)
        for value, name in _heads(manifest):
            outside = "." in name or re.fullmatch(r"\d+", name) is not None or look.is_loopback(name)
            if outside or name in known or len(children(manifest, "services")) < 2:
                continue
            yield LintFinding(
                span=value.span,
                summary=f"the head is {name}, and no service is called so ({', '.join(sorted(known)[:4])})",
                happens="The name is not resolved: no container finds the head, and they end or wait for the time-out.",
                fix=f"Write one of the services' names: {sorted(children(manifest, 'services'))[0]}.",
            )
            break


def _names(manifest: Manifest) -> set[str]:
    names = set(children(manifest, "services"))
    for value in manifest.values:
        if value.path[:1] == ("services",) and (
            value.path[2:3] in (("hostname",), ("container_name",)) or "aliases" in value.path or "links" in value.path
        ):
            names |= {value.value, value.value.partition(":")[2]}
        if value.path[2:3] == ("extra_hosts",):
            names |= {value.path[-1], re.split(r"[:=]", value.value)[0]}
    return names


def _heads(manifest: Manifest) -> Iterator[tuple[ManifestValue, str]]:
    """Where a service is told the head, with the name."""
    host = {value.path[1] for value in manifest.values if value.path[2:] == ("network_mode",) and value.value == "host"}
    for value in manifest.values:
        if value.path[:1] != ("services",) or len(value.path) < 3 or value.path[1] in host:
            continue
        if value.path[2] == "environment" and value.path[-1] == "MASTER_ADDR":
            match = re.fullmatch(r"([\w.-]+)", value.value)
        elif value.path[2] in ("environment", "command", "entrypoint"):
            match = _HEAD.search(value.value)
        else:
            continue
        if match is not None:
            yield value, next(group for group in match.groups() if group)
