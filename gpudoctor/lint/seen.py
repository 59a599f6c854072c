"""`gpudoctor lint --check`: what this machine can tell about the head and the interfaces that a text names.

The reader of MASTER_ADDR and MASTER_PORT (read/rendezvous.py) does the looking, in the child that reads this machine,
with a deadline; the rest is for `gpudoctor launch --check`, which reaches the other nodes.
"""

import os
from collections.abc import Sequence

from msgspec import Struct, structs

from gpudoctor.active import gather, own_module, start
from gpudoctor.lint import look
from gpudoctor.lint.edits import replace_piece
from gpudoctor.lint.lint import FiredRule, Linted, linted
from gpudoctor.lint.look import Value
from gpudoctor.lint.model import LintJob
from gpudoctor.lint.rule import LintFinding, LintRule, every_rule
from gpudoctor.lint.seen_interfaces import absent_interfaces, named_interfaces
from gpudoctor.lint.understood import main_launch
from gpudoctor.marked import messages
from gpudoctor.snapshot.network import Interface, Rendezvous
from gpudoctor.snapshot.reading import Reading

FREE_PORT = "61234"


def checked(answer: Linted, timeout: float) -> Linted:
    """The answer, with what was seen here. Never raises."""
    job, rules = answer.job, list(every_rule())
    address = look.master(main_launch(job)) if job.launches else None
    port = look.port(main_launch(job)) if job.launches else None
    named = named_interfaces(job)
    text = address.text if address is not None and address.text else ""
    if not text and not named:
        return _with(answer, ("--check: the text names no address of a head that could be looked up",))
    number = port.text if port is not None and port.text else ""
    looked = _look(text, number, bool(named), timeout)
    by_code = {rule.code: rule for rule in rules}
    off = answer.off
    fired_rules: list[FiredRule] = []
    notes: tuple[str, ...] = ()
    if named and "E08" in by_code and "E08" not in off:
        said = {rule.finding.span.start for rule in answer.found if rule.rule.code == "E08"}
        absent = absent_interfaces(job, looked.interfaces.value_or(()))
        if looked.interfaces.is_read:
            fired_rules += [FiredRule(by_code["E08"], finding) for finding in absent if finding.span.start not in said]
        else:
            notes = (f"--check: the interfaces of this machine were not read: {looked.interfaces.reason}",)
    seen = looked.head
    if address is None or not text:
        pass
    elif not seen.is_read:
        notes = (*notes, f"--check: {text} was not looked up: {seen.reason}")
    else:
        of_head, more = _told(job, seen.value, address, port, by_code)
        fired_rules, notes = fired_rules + of_head, notes + more
        asked = any(rule.rule.code == "A07" for rule in answer.found)
        if asked and seen.value.is_local.value_or(False) and looked.own_addresses.is_read:
            # Only the head could tell, and this is the head: the rule's doubt gives way to what was seen.
            fired_rules += _recognised(seen.value, looked.own_addresses.value, address, by_code["A07"])
            off = (*off, "A07")
    again = (
        linted(job, rules, fired_rules, off=off, pieces=answer.pieces) if fired_rules or off != answer.off else answer
    )
    return _with(again, notes)


class Looked(Struct, frozen=True):
    """What the child that reads this machine said."""

    head: Reading[Rendezvous]
    own_addresses: Reading[tuple[str, ...]]
    """What this machine's own name resolves to."""
    interfaces: Reading[tuple[Interface, ...]]


def _with(answer: Linted, notes: tuple[str, ...]) -> Linted:
    return structs.replace(answer, unknown=(*answer.unknown, *notes))


def _look(address: str, port: str, interfaces: bool, timeout: float) -> Looked:
    """MASTER_ADDR and MASTER_PORT tried out, where there is one; what its own host name resolves to; its interfaces."""
    import msgspec

    from gpudoctor.read.local import readers
    from gpudoctor.snapshot.reading import missing

    def nothing(reason: str) -> Looked:
        return Looked(
            missing("read/rendezvous.py", reason), missing("getaddrinfo", reason), missing("read/interfaces.py", reason)
        )

    environment = {**os.environ, "MASTER_ADDR": address, "MASTER_PORT": port}
    wanted = {*(("rendezvous", "addresses") if address else ()), *(("interfaces",) if interfaces else ())}
    unwanted = [reader.name for reader in readers() if reader.name not in wanted]
    try:
        child = start(
            "local", own_module("gpudoctor.read.local", str(timeout), *unwanted),
            timeout=timeout, environment=environment,
        )  # fmt: skip
    except (OSError, ValueError) as error:  # ValueError: a NUL in the address
        return nothing(str(error))
    reply = gather([child])["local"]
    looked = nothing(reply.failure or "the reader said nothing")
    for line in messages(reply.output):
        fields = line.get("fields", {})
        try:
            if "network.rendezvous" in fields:
                head = msgspec.convert(fields["network.rendezvous"], Reading[Rendezvous])
                looked = structs.replace(looked, head=head)
            if "host.hostname_addresses" in fields:
                own = msgspec.convert(fields["host.hostname_addresses"], Reading[tuple[str, ...]])
                looked = structs.replace(looked, own_addresses=own)
            if "network.interfaces" in fields:
                there = msgspec.convert(fields["network.interfaces"], Reading[tuple[Interface, ...]])
                looked = structs.replace(looked, interfaces=there)
        except msgspec.ValidationError as error:
            return nothing(str(error))
    return looked


def _recognised(seen: Rendezvous, own_addresses: Sequence[str], address: Value, rule: LintRule) -> list[FiredRule]:
    """A07 on the head itself. torch compares the endpoint with the addresses of its own host name
    (`_matches_machine_hostname`, measured with 2.13)."""
    if set(own_addresses) & set(seen.resolved.value_or(())):
        return []
    resolves = ", ".join(own_addresses) if own_addresses else "nothing"
    finding = LintFinding(
        span=address.span,
        severity="error",
        summary=f"this machine has {seen.address}, but its host name resolves to {resolves}: c10d does not see that "
        "it is the head",
        happens="Nobody opens the store: all nodes end with 'timed out after 60000ms'.",
        fix=f"Add --rdzv-conf=is_host=1 --local-addr={seen.address} here and --rdzv-conf=is_host=0 on the others, or "
        "use the static rendezvous (--master-addr, --master-port, --node-rank).",
    )
    return [FiredRule(rule, finding)]


def _told(
    job: LintJob, seen: Rendezvous, address: Value, port: Value | None, rules: dict[str, LintRule]
) -> tuple[list[FiredRule], tuple[str, ...]]:
    fired_rules: list[FiredRule] = []
    if not seen.resolved.is_read:
        return fired_rules, (f"--check: {seen.address} was not looked up: {seen.resolved.reason}",)
    if not seen.resolved.value:
        finding = LintFinding(
            span=address.span,
            severity="error",
            summary=f"this machine knows no host named {seen.address}",
            happens="The ranks end with 'Name or service not known', or try again until their time-out.",
            fix="Write the head's IP address, or add the name to /etc/hosts on every node.",
        )
        return ([FiredRule(rules["A04"], finding)] if "A04" in rules else []), ()
    where = ", ".join(seen.resolved.value)
    if not seen.is_local.value_or(False):
        reached = seen.connection.value_or("") if seen.connection.is_read else ""
        note = f"--check: {seen.address} ({where}) is not this machine: run it on the head too, for address and port"
        return fired_rules, (note + (f"; a connection to its port from here: {reached}" if reached else ""),)
    listener = seen.listener.value_or("")
    if not seen.listener.is_read:
        return fired_rules, (f"--check: whether port {seen.port} is free here was not read: {seen.listener.reason}",)
    if listener and port is not None and "P04" in rules:
        finding = LintFinding(
            span=port.span,
            severity="error",
            summary=f"port {seen.port} is taken on this machine, by {listener}; the head needs it free",
            happens="The head ends with EADDRINUSE, and the other nodes wait for it until their time-out.",
            fix=f"Take another port on every node, such as {FREE_PORT}, or end that process.",
            edits=(replace_piece(port, port=FREE_PORT),) if port.span.exact else (),
        )
        fired_rules.append(FiredRule(rules["P04"], finding))
    return fired_rules, ()
