"""What `gpudoctor nccl-test` does with its options: a wish, a fleet, the test, the output."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from gpudoctor.cli.files import saved_answer
from gpudoctor.cli.fleets import Where, fleet_for, is_symmetric
from gpudoctor.errors import BadInput
from gpudoctor.fleet.hosts import is_host
from gpudoctor.fleet.join import JoinFleet
from gpudoctor.nccl.bandwidth_test import bandwidth_test
from gpudoctor.nccl.compare_settings import parse_compare
from gpudoctor.nccl.plan import COLLECTIVES, parse_size
from gpudoctor.nccl.publish import UnreadableResult, from_json, to_csv, to_json
from gpudoctor.nccl.result import TestResult
from gpudoctor.nccl.wish import Wish, forwarded, interface_settings
from gpudoctor.read.interpreter import NoSuchInterpreter, choose
from gpudoctor.render.nccl_test import Live, show_result, show_run
from gpudoctor.render.plot import NoPlot, check_plot, draw
from gpudoctor.render.prose import console, show_lines_left_out
from gpudoctor.render.words import shown_json


class Output(NamedTuple):
    """Where the answer goes."""

    json: bool
    csv: bool
    plot: str | None
    keep_logs: str | None
    no_color: bool


def wish(asked: Wish, *, collective: str, minimum: str, maximum: str | None) -> Wish:
    """The options, checked. Raises `BadInput`."""
    try:
        smallest, largest = parse_size(minimum), parse_size(maximum) if maximum is not None else 0
    except ValueError as error:
        raise BadInput(f"--min-bytes, --max-bytes: {error}") from None
    if largest and smallest > largest:
        raise BadInput(f"--min-bytes {minimum} is more than --max-bytes {maximum}")
    collectives = _collectives(collective)
    return test_wish(replace(asked, collectives=collectives, minimum_bytes=smallest, maximum_bytes=largest))


def test_wish(asked: Wish) -> Wish:
    """The options that every test of nodes has, checked. Raises `BadInput`."""
    if asked.master_address and not is_host(asked.master_address):
        raise BadInput(f"--master-addr {asked.master_address[:80]!r}: a host's name or IP address is wanted")
    try:
        interpreter = choose(asked.python or None, os.environ)
    except NoSuchInterpreter as error:
        raise BadInput(str(error)) from None
    settings = {**forwarded(os.environ), **interface_settings(asked.interface)}
    return replace(asked, settings=settings, python=interpreter.path)


def _collectives(text: str) -> tuple[str, ...]:
    if text.strip() == "all":
        return COLLECTIVES
    names = tuple(dict.fromkeys(name.strip().replace("-", "_") for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in COLLECTIVES]
    if unknown or not names:
        raise BadInput(f"--collective {text!r}: choose of {', '.join(COLLECTIVES)}, or all")
    return names


def run(wish: Wish, where: Where, output: Output, *, compare: str | None, find_slow: bool) -> int:
    """The whole command; its exit status."""
    combinations = _combinations(compare)
    if combinations and find_slow:
        raise BadInput("--compare and --find-slow exclude each other")
    if find_slow and len(wish.collectives) > 1:
        raise BadInput("--find-slow measures all_reduce; leave --collective out")
    _check_output(output)
    screen = console(no_color=output.no_color)
    live = Live(screen, sys.stderr, rows=not (output.json or output.csv))
    try:
        if is_symmetric(os.environ, where):
            return _symmetric(wish, live, output, again=bool(combinations) or find_slow)
        result = _on_fleet(wish, where, live, combinations, find_slow)
    except ValueError as error:  # a backend or a number of ranks that these nodes do not have
        raise BadInput(str(error)) from None
    finally:
        live.close()
    _print(result, output)
    return result.exit_status


def _on_fleet(
    wish: Wish, where: Where, live: Live, combinations: tuple[Mapping[str, str], ...], find_slow: bool
) -> TestResult:
    with fleet_for(
        where,
        interface=wish.interface,
        address=wish.master_address,
        on_line=live.paste,
        on_joined=live.step,
        on_notice=live.notice,
    ) as fleet:
        if find_slow and len(fleet.nodes) < 2:
            raise BadInput("--find-slow compares nodes: name at least two with --hosts, --hostfile or --nodes")
        result = bandwidth_test(fleet, wish, live, combinations=combinations, isolate=find_slow)
        if isinstance(fleet, JoinFleet):
            fleet.tell(result.exit_status)
        return result


def _symmetric(wish: Wish, live: Live, output: Output, *, again: bool) -> int:
    """One process of many that the user's own launcher started; the exit status of this one."""
    if again:
        raise BadInput(
            "--compare and --find-slow start ranks again and again, which a job that started them cannot do: "
            "run gpudoctor nccl-test in the allocation's shell, without srun or torchrun"
        )
    from gpudoctor.nccl.symmetric import exit_status, run_symmetric

    result = run_symmetric(wish, live)
    if result is None:  # another rank speaks for all
        return 0
    live.close()
    _print(result, output)
    return exit_status(result)


def show_again(path: str, output: Output) -> int:
    """`--from FILE`: an answer that was saved with --json, as it was shown when it was new; its exit status."""
    _check_output(output)
    result = saved_answer(path, from_json, UnreadableResult)
    if not (output.json or output.csv):
        show_run(result, console(no_color=output.no_color))
    _print(result, output)
    if result.findings and not (output.json or output.csv):
        show_lines_left_out(console(no_color=output.no_color))
    return result.exit_status


def _combinations(compare: str | None) -> tuple[Mapping[str, str], ...]:
    if compare is None:
        return ()
    try:
        return parse_compare(compare)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _check_output(output: Output) -> None:
    """Say before the test what would fail after it."""
    if output.plot is not None:
        try:
            check_plot(output.plot)
        except NoPlot as error:
            raise BadInput(str(error)) from None
    if output.keep_logs is not None:
        folder = Path(output.keep_logs)
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise BadInput(f"--keep-logs {output.keep_logs}: not a folder that can be written to")


def _print(result: TestResult, output: Output) -> None:
    if output.json:
        print(shown_json(to_json(result).encode()))
    elif output.csv:
        print(to_csv(result), end="")
    else:
        show_result(result, console(no_color=output.no_color))
    sys.stdout.flush()
    if output.plot is not None:
        draw(result, output.plot)
    if output.keep_logs is not None:
        keep_logs(result, output.keep_logs)


def keep_logs(result: TestResult, folder: str) -> None:
    """Write every rank's log into the folder as NODE-rankN.log. Raises `OSError`."""
    for end in result.run.ends if result.run else ():
        for rank in end.ranks:
            name = "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in end.node)
            path = Path(folder) / f"{name}-rank{rank.rank}.log"
            path.write_text(rank.log + (f"\n{rank.error}\n" if rank.error else ""), encoding="utf-8")


def take_part(head: str, token: str) -> int:
    """`--join HEAD:PORT`: serve as an agent of that head; the exit status is the test's."""
    from gpudoctor.fleet.take_part import take_part

    address, _, port = head.rpartition(":")
    if not address or not (port.isascii() and port.isdigit() and len(port) < 6) or not 0 < int(port) < 65536:
        raise BadInput(f"--join {head}: HEAD:PORT is wanted, as the head printed it")
    if not is_host(address.strip("[]")):
        raise BadInput(f"--join {head[:80]!r}: no host's name or address; paste the line that the head printed")
    if not token or not token.isascii():  # no head prints one with other letters
        raise BadInput("--join needs the token: paste the whole line that the head printed (GPUDOCTOR_TOKEN=...)")
    return take_part(address.strip("[]"), int(port), token)


def emitted(kind: str, nodes: int | None, ranks_per_node: int | None, arguments: Sequence[str]) -> str:
    """What --emit prints: a file that runs this very command elsewhere."""
    from gpudoctor.emit import kubernetes_job, slurm_batch

    if nodes is None:
        raise BadInput("--emit needs --nodes N")
    _refuse_elsewhere(kind, arguments)
    kept = _without(arguments, ("nccl-test",), ("--emit", "--nodes"))
    writer = slurm_batch.script if kind == "slurm" else kubernetes_job.manifest
    return writer(nodes, ranks_per_node, kept)


NOT_ELSEWHERE = {
    "slurm": ("--hosts", "--hostfile"),
    "kubernetes": ("--hosts", "--hostfile", "--exclude", "--find-slow", "--compare"),
}
"""Options that the emitted job could not keep: SLURM places its nodes, and under torchrun each rank is started once."""


def _refuse_elsewhere(kind: str, arguments: Sequence[str]) -> None:
    for option in NOT_ELSEWHERE[kind]:
        if any(word == option or word.startswith(option + "=") for word in arguments):
            raise BadInput(f"--emit {kind} excludes {option}: the job that it prints could not keep to it")


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


__all__ = ["Output", "Where", "emitted", "run", "take_part", "wish"]
