"""Corrections as rules write them: an option put in, taken out, or given another value, in the text's own spelling."""

import re
from collections.abc import Callable

from gpudoctor.lint.look import LintWorld, Value, split_endpoint, traits, value
from gpudoctor.lint.model import LintLaunch, Span
from gpudoctor.lint.rule import Edit


def spell(launch: LintLaunch, name: str) -> str:
    """ "--node-rank" in the spelling of the text: with underscores where it uses them (every version takes those)."""
    kind = traits(launch)
    name = kind.own_names.get(name, name)
    under = kind.underscores or any("_" in option.written for option in launch.every_option)
    hyphens = any("-" in option.written.lstrip("-") for option in launch.every_option)
    if under or (launch.launcher == "torch.distributed.launch" and not hyphens):
        name = name.replace("-", "_")
    return f"--{name}"


def at(span: Span, offset: int) -> Span:
    """An insertion point."""
    return Span(offset, offset, span.line)


def insert_options(launch: LintLaunch, *options: str) -> tuple[Edit, ...]:
    """Put options in front of the launcher's first one, or of the script; in a list of YAML's words nowhere."""
    if launch.invocation.manifest_path and not launch.invocation.span.exact:
        return ()
    anchor = launch.every_option[0].span if launch.every_option else None
    if anchor is None and launch.script is not None:
        anchor = launch.script.span
    if anchor is None:
        return ()
    return (Edit(at(anchor, anchor.start), " ".join(options) + " "),)


def remove(text: str, span: Span) -> Edit:
    """Take a word out, with the blanks after it; with its whole line where nothing else is on it."""
    start, end = span.start, span.end
    while end < len(text) and text[end] in " \t":
        end += 1
    line_start = text.rfind("\n", 0, start) + 1
    if not text[line_start:start].strip() and line_start:
        rest = re.compile(r"\\\r?\n").match(text, end)
        if rest is not None:
            return Edit(Span(line_start, rest.end(), span.line), "")
    return Edit(Span(start, end, span.line), "")


def replace_piece(value: Value, host: str | None = None, port: str | None = None) -> Edit:
    """Another address or port in an endpoint, the rest as written; or another value of a plain option."""
    raw = value.word.raw
    quote = raw[0] if len(raw) > 1 and raw[0] in "\"'" and raw[-1] == raw[0] else ""
    inner = raw[1:-1] if quote else raw
    if "endpoint" in value.written.lower():
        old_host, old_port = split_endpoint(inner)
        new_port = port if port is not None else old_port
        inner = (host if host is not None else old_host) + (f":{new_port}" if new_port else "")
    else:
        inner = (host if host is not None else port) or ""
    return Edit(value.word.span, f"{quote}{inner}{quote}")


def everywhere(
    world: LintWorld,
    which: Callable[[LintLaunch], Value | None],
    setting: Value,
    host: str | None = None,
    port: str | None = None,
) -> tuple[Edit, ...]:
    """`replace_piece` in all lines of a world that have this very value."""
    values = [setting, *(each for launch in world.launches if (each := which(launch)) is not None)]
    same = {each.word.span: each for each in values if each.shown == setting.shown}
    return tuple(replace_piece(each, host, port) for each in same.values())


def endpoint_instead(text: str, launch: LintLaunch) -> tuple[Edit, ...]:
    """--rdzv-endpoint=ADDRESS:PORT in place of --master-addr and --master-port; empty where these are no options."""
    given, other = launch.options.get("master-addr"), launch.options.get("master-port")
    address, port = value(launch, "master-addr"), value(launch, "master-port")
    if given is None or address is None or not given.span.exact:
        return ()
    inner = address.word.raw.strip('"') + ":" + (port.word.raw.strip('"') if port is not None else "29400")
    place = f'"{inner}"' if address.word.raw.startswith('"') else inner
    edits = (Edit(given.span, f"{spell(launch, 'rdzv-endpoint')}={place}"),)
    return edits + ((remove(text, other.span),) if other is not None else ())
