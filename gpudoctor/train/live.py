"""The test of training as it is asked for: a wish of words, the nodes, the test. All raise `BadInput`."""

import os

from gpudoctor.errors import BadInput
from gpudoctor.fleet.join import JoinFleet
from gpudoctor.fleet.where import Where, is_symmetric
from gpudoctor.nccl.live import completed, fleet_of
from gpudoctor.nccl.wish import Wish
from gpudoctor.train.report import TrainReport
from gpudoctor.train.run import train_test
from gpudoctor.train.show import TrainShow
from gpudoctor.train.ways import DEFAULT, AskedWays, parse_precisions, parse_ways
from gpudoctor.train.wish import TrainWish


def wished(strategy: str | None, precision: str, steps: int, test: Wish, python: str | None) -> TrainWish:
    """The options, checked."""
    try:
        asked = parse_ways(strategy) if strategy is not None else AskedWays(DEFAULT, {})
    except ValueError as error:
        raise BadInput(f"--strategy: {error}") from None
    try:
        precisions = parse_precisions(precision)
    except ValueError as error:
        raise BadInput(f"--precision: {error}") from None
    return TrainWish(
        ways=asked.ways, answered=asked.answered, precisions=precisions, steps=steps, test=completed(test, python)
    )


def train(wish: TrainWish, where: Where, show: TrainShow) -> TrainReport:
    """The test on the nodes that are meant."""
    if is_symmetric(os.environ, where):
        raise BadInput(
            "train-test starts its ranks itself, one launch after the other, which a job that started them cannot do: "
            "run it in the allocation's shell, without srun or torchrun"
        )
    with fleet_of(wish.test, where, show) as fleet:
        report = train_test(fleet, wish, show)
        if isinstance(fleet, JoinFleet):
            fleet.tell(report.exit_status)
        return report
