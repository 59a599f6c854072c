"""Packet filters that drop what comes in: nftables and the older iptables, listed and never changed.

Listing makes the kernel load what it lacks, and an examination changes nothing: the tools are run only where the
kernel already has the filter.
"""

import re
from collections.abc import Iterator
from typing import Any

from gpudoctor.lazy import lazy_re
from gpudoctor.read.reader import reader
from gpudoctor.read.system import System, attempt
from gpudoctor.snapshot import Firewall, Reading, absent, missing, read

SOURCE = "nft list ruleset, iptables -S"
MOST_RULES = 20
LONGEST_RULE = 300
CAP_NET_ADMIN = 1 << 12  # <linux/capability.h>; without it the tools print nothing, which looks like no rules
LEGACY_TABLES = "/proc/net/ip_tables_names"
# "chain INPUT {" and then "type filter hook input priority filter; policy drop;"
CHAIN = lazy_re(r"\s*chain (\S+) \{")
HOOK = lazy_re(r"\bhook (\w+) ")
DROPS = lazy_re(r"\b(drop|reject)\b")


@reader("firewalls", "network.firewalls")
def read_firewalls(system: System) -> Reading[tuple[Firewall, ...]]:
    """One entry for each tool that shows rules which drop; () where no filter does."""
    if not may_ask(system):
        return missing(SOURCE, "packet filters are listed for root only (CAP_NET_ADMIN)", "denied")
    firewalls: list[Firewall] = []
    reasons: list[Reading[Any]] = []
    for reading in (_nftables(system), _iptables(system)):
        if reading.is_read:
            firewalls += [firewall for firewall in (reading.value,) if firewall.rules]
        elif reading.missing_kind != "absent":
            reasons.append(reading)
    # What one tool shows is worth saying; that nothing drops is known when both could look.
    return read(SOURCE, tuple(firewalls)) if firewalls or not reasons else reasons[0]


def may_ask(system: System) -> bool:
    """Whether this process has CAP_NET_ADMIN."""
    status = system.text_or_empty("/proc/self/status")
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]{1,32})$", status, re.MULTILINE)
    return capabilities is not None and bool(int(capabilities[1], 16) & CAP_NET_ADMIN)


def _nftables(system: System) -> Reading[Firewall]:
    source = "nft list ruleset"
    loaded = has_nftables(system)
    if loaded is False:
        return absent(source, "the kernel has no nftables")
    if loaded is None:
        return missing(source, "whether the kernel has nftables could not be told")

    def ask() -> Firewall:
        try:
            return from_nft(system.output("nft", "list", "ruleset").decode("utf-8", "replace"))
        except FileNotFoundError:
            raise OSError("the kernel has nftables, and there is no command nft to list its rules") from None

    return attempt(source, ask)


def has_nftables(system: System) -> bool | None:
    """Whether nftables is in the kernel now; None when nobody tells. A kernel without modules has it built in or not
    at all, and asking loads nothing there."""
    if system.exists("/sys/module/nf_tables"):
        return True
    try:
        modules = system.text("/proc/modules")
    except FileNotFoundError:
        return system.exists("/proc/net/netfilter")
    except OSError:
        return None
    if re.search("^nf_tables ", modules, re.MULTILINE):
        return True
    # In a container the host's folder is not there. Every distribution builds it as a module, which is not loaded.
    release = system.text_or_empty("/proc/sys/kernel/osrelease")
    return bool(release) and "/nf_tables.ko" in system.text_or_empty(f"/lib/modules/{release}/modules.builtin")


def _iptables(system: System) -> Reading[Firewall]:
    """The older filter, where the kernel holds its tables; rules of iptables-nft are nftables' and listed there."""
    source = "iptables -S"
    try:
        tables = system.text(LEGACY_TABLES).split()
    except FileNotFoundError:
        return absent(source, "the kernel has no tables of iptables")
    except OSError as error:
        return missing(LEGACY_TABLES, error.strerror or str(error))
    if "filter" not in tables:
        return absent(source, "iptables has no filter table")

    def ask() -> Firewall:
        for command in ("iptables-legacy", "iptables"):
            try:
                return from_iptables(system.output(command, "-S").decode("utf-8", "replace"))
            except FileNotFoundError:
                continue
        raise OSError("the kernel has tables of iptables, and there is no command to list them")

    return attempt(source, ask)


# --- parsers ------------------------------------------------------------------------------------------------------


def from_nft(ruleset: str) -> Firewall:
    """What drops in `nft list ruleset`. Chains that the input hook jumps to count as input: firewalls are built so."""
    chain, hook = "", ""
    rules: list[str] = []
    hooked: dict[str, str] = {}
    jumps: dict[str, set[str]] = {}
    dropping: set[str] = set()
    for line in ruleset.splitlines():
        if opened := CHAIN.match(line):
            chain, hook = opened[1], ""
            continue
        if line.strip() == "}":
            chain = ""
            continue
        if not chain:
            continue
        if match := HOOK.search(line):
            hook = hooked[chain] = match[1]
        jumps.setdefault(chain, set()).update(re.findall(r"\b(?:jump|goto) (\S+)", line))
        if DROPS.search(_without_quoted(line)):
            dropping.add(chain)
            rules.append(f"{chain}{f' ({hook})' if hook else ''}: {' '.join(line.split())}"[:LONGEST_RULE])
    reached = {name for name, where in hooked.items() if where == "input"}
    for _ in range(len(jumps)):
        further = reached | {target for name in reached for target in jumps.get(name, ())}
        if further == reached:
            break
        reached = further
    return Firewall("nft", bool(reached & dropping), tuple(rules[:MOST_RULES]))


def _without_quoted(line: str) -> str:
    """The rule without its comment and log prefix, in which any word may stand."""
    return re.sub(r'"[^"]*"', '""', line)


def from_iptables(listing: str) -> Firewall:
    """What drops in `iptables -S`: policies "-P INPUT DROP", rules "-A INPUT ... -j DROP"."""
    rules = list(_dropping(listing))
    chains = {rule.split()[1] for rule in rules}
    jumps = re.findall(r"^-A (\S+) .*?-[jg] (\S+)", listing, re.MULTILINE)
    reached = {"INPUT"}
    for _ in range(len(jumps) + 1):
        further = reached | {target for name, target in jumps if name in reached}
        if further == reached:
            break
        reached = further
    return Firewall("iptables", bool(chains & reached), tuple(rules[:MOST_RULES]))


def _dropping(listing: str) -> Iterator[str]:
    for line in listing.splitlines():
        words = re.sub(r'"[^"]*"', '""', line).split()
        is_policy = len(words) == 3 and words[0] == "-P" and words[2] in ("DROP", "REJECT")
        is_rule = len(words) > 3 and words[0] == "-A" and re.search(r" -j (DROP|REJECT)\b", " ".join(words))
        if is_policy or is_rule:
            yield line.strip()[:LONGEST_RULE]
