"""The bandwidth test as it is asked for: a wish of words and numbers, the nodes, the test. All raise `BadInput`."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpudoctor.errors import BadInput
from gpudoctor.fleet.fleet import Fleet
from gpudoctor.fleet.hosts import is_host
from gpudoctor.fleet.join import JoinFleet
from gpudoctor.fleet.take_part import take_part as serve
from gpudoctor.fleet.where import Where, fleet_for
from gpudoctor.nccl.bandwidth_test import bandwidth_test
from gpudoctor.nccl.plan import COLLECTIVES, parse_size
from gpudoctor.nccl.result import TestResult
from gpudoctor.nccl.show import Show
from gpudoctor.nccl.wish import Wish, forwarded, interface_settings
from gpudoctor.read.interpreter import choose


def completed(wish: Wish, python: str | None) -> Wish:
    """The wish with what this shell and this machine add: settings for the ranks, the training interpreter."""
    from msgspec.structs import replace

    if wish.master_address and not is_host(wish.master_address):
        raise BadInput(f"--master-addr {wish.master_address[:80]!r}: a host's name or IP address is wanted")
    settings = {**forwarded(os.environ), **interface_settings(wish.interface), **wish.settings}
    return replace(wish, settings=settings, python=choose(python, os.environ).path)


def sizes(smallest: str | int, largest: str | int | None) -> tuple[int, int]:
    """Of --min-bytes and --max-bytes ("8G"), in bytes; 0 for a largest that is left open."""
    try:
        least, most = parse_size(str(smallest)), parse_size(str(largest)) if largest is not None else 0
    except ValueError as error:
        raise BadInput(f"--min-bytes, --max-bytes: {error}") from None
    if most and least > most:
        raise BadInput(f"--min-bytes {smallest} is more than --max-bytes {largest}")
    return least, most


def collectives(text: str) -> tuple[str, ...]:
    """Those that "all_reduce, send-recv" names, or all."""
    if text.strip() == "all":
        return COLLECTIVES
    names = tuple(dict.fromkeys(name.strip().replace("-", "_") for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in COLLECTIVES]
    if unknown or not names:
        raise BadInput(f"--collective {text!r}: choose of {', '.join(COLLECTIVES)}, or all")
    return names


@contextlib.contextmanager
def fleet_of(wish: Wish, where: Where, show: Show) -> Iterator[Fleet]:
    """The nodes of a test. A backend or a number of ranks that they do not have is the user's to mend."""
    try:
        with fleet_for(
            where,
            interface=wish.interface,
            address=wish.master_address,
            on_line=show.paste,
            on_joined=show.joined,
            on_notice=show.notice,
        ) as fleet:
            yield fleet
    except ValueError as error:
        raise BadInput(str(error)) from None


def bandwidth(
    wish: Wish, where: Where, show: Show, *, combinations: tuple[Mapping[str, str], ...] = (), find_slow: bool = False
) -> TestResult:
    """The test on the nodes that are meant."""
    if combinations and find_slow:
        raise BadInput("--compare and --find-slow exclude each other")
    if find_slow and len(wish.collectives) > 1:
        raise BadInput("--find-slow measures all_reduce; leave --collective out")
    with fleet_of(wish, where, show) as fleet:
        if find_slow and len(fleet.nodes) < 2:
            raise BadInput("--find-slow compares nodes: name at least two with --hosts, --hostfile or --nodes")
        result = bandwidth_test(fleet, wish, show, combinations=combinations, isolate=find_slow)
        if isinstance(fleet, JoinFleet):
            fleet.tell(result.exit_status)
        return result


def keep_logs(result: TestResult, folder: str) -> None:
    """Write every rank's log into the folder as NODE-rankN.log. Raises `OSError`."""
    for end in result.run.ends if result.run else ():
        for rank in end.ranks:
            name = "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in end.node)
            path = Path(folder) / f"{name}-rank{rank.rank}.log"
            path.write_text(rank.log + (f"\n{rank.error}\n" if rank.error else ""), encoding="utf-8")


def take_part(head: str, token: str) -> int:
    """`--join HEAD:PORT`: serve as an agent of that head; the exit status is the test's."""
    address, _, port = head.rpartition(":")
    if not address or not (port.isascii() and port.isdigit() and len(port) < 6) or not 0 < int(port) < 65536:
        raise BadInput(f"--join {head}: HEAD:PORT is wanted, as the head printed it")
    if not is_host(address.strip("[]")):
        raise BadInput(f"--join {head[:80]!r}: no host's name or address; paste the line that the head printed")
    if not token or not token.isascii():  # no head prints one with other letters
        raise BadInput("--join needs the token: paste the whole line that the head printed (GPUDOCTOR_TOKEN=...)")
    return serve(address.strip("[]"), int(port), token)


def emitted(kind: str, nodes: int | None, ranks_per_node: int | None, arguments: Sequence[str]) -> str:
    """What --emit prints: a file that runs this very command elsewhere."""
    from gpudoctor.launcher import registry

    launcher = registry.frameworks()[kind]
    assert launcher.bandwidth_test is not None
    if nodes is None:
        raise BadInput("--emit needs --nodes N")
    for option in launcher.not_in_a_test:
        if any(word == option or word.startswith(option + "=") for word in arguments):
            raise BadInput(f"--emit {kind} excludes {option}: the job that it prints could not keep to it")
    kept = _without(arguments, ("nccl-test",), ("--emit", "--nodes"))
    return launcher.bandwidth_test(nodes, ranks_per_node, kept)


def _without(arguments: Sequence[str], words: Sequence[str], options: Sequence[str]) -> list[str]:
    """The arguments without these words, and without these options and their values."""
    kept: list[str] = []
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word in options:
            skip = True
        elif word not in words and not any(word.startswith(option + "=") for option in options):
            kept.append(word)
    return kept
