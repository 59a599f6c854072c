"""What `gpudoctor train-test` does with its options: a wish, a fleet, the test, the output."""

import os
import sys

from gpudoctor.cli import nccl_run
from gpudoctor.cli.files import saved_answer
from gpudoctor.cli.fleets import Where, fleet_for, is_symmetric
from gpudoctor.errors import BadInput
from gpudoctor.fleet.join import JoinFleet
from gpudoctor.nccl.wish import Wish
from gpudoctor.render.prose import console, show_lines_left_out
from gpudoctor.render.train import LiveTraining, show_training
from gpudoctor.render.words import shown_json
from gpudoctor.train.report import TrainReport, UnreadableReport, from_json, to_json
from gpudoctor.train.run import train_test
from gpudoctor.train.ways import DEFAULT, Asked, parse_precisions, parse_ways
from gpudoctor.train.wish import TrainWish


def wish(asked_of_test: Wish, *, strategy: str | None, precision: str, steps: int) -> TrainWish:
    """The options, checked. Raises `BadInput`."""
    try:
        asked = parse_ways(strategy) if strategy is not None else Asked(DEFAULT, {})
    except ValueError as error:
        raise BadInput(f"--strategy: {error}") from None
    try:
        precisions = parse_precisions(precision)
    except ValueError as error:
        raise BadInput(f"--precision: {error}") from None
    return TrainWish(
        ways=asked.ways,
        answered=asked.answered,
        precisions=precisions,
        steps=steps,
        test=nccl_run.test_wish(asked_of_test),
    )


def run(wish: TrainWish, where: Where, *, json: bool, no_color: bool) -> int:
    """The whole command; its exit status."""
    if is_symmetric(os.environ, where):
        raise BadInput(
            "train-test starts its ranks itself, one launch after the other, which a job that started them cannot do: "
            "run it in the allocation's shell, without srun or torchrun"
        )
    screen = console(no_color=no_color)
    live = LiveTraining(screen, sys.stderr)
    try:
        with fleet_for(
            where,
            interface=wish.test.interface,
            address=wish.test.master_address,
            on_line=live.paste,
            on_joined=live.step,
            on_notice=live.notice,
        ) as fleet:
            report = train_test(fleet, wish, live)
            if isinstance(fleet, JoinFleet):
                fleet.tell(report.exit_status)
    except ValueError as error:  # a backend or a number of ranks that these nodes do not have
        raise BadInput(str(error)) from None
    finally:
        live.close()
    _print(report, json=json, no_color=no_color)
    return report.exit_status


def show_again(path: str, *, json: bool, no_color: bool) -> int:
    """`--from FILE`: an answer that was saved with --json; its exit status."""
    report = saved_answer(path, from_json, UnreadableReport)
    _print(report, json=json, no_color=no_color)
    if (report.findings or any(cell.finding for cell in report.cells)) and not json:
        show_lines_left_out(console(no_color=no_color))
    return report.exit_status


def _print(report: TrainReport, *, json: bool, no_color: bool) -> None:
    if json:
        print(shown_json(to_json(report)))
    else:
        show_training(report, console(no_color=no_color))
    sys.stdout.flush()
