"""What a test of training tells while it runs. This base shows nothing; render/train.py shows it on a terminal."""

from gpudoctor.nccl.show import Show
from gpudoctor.train.report import Cell, TrainReport


class TrainShow(Show):
    """Called by `train_test` as things happen, always from its own thread."""

    def planned(self, report: TrainReport, cells: int) -> None:
        """The preflight is passed: on what nodes so many cells are going to be trained."""

    def cell(self, cell: Cell) -> None:
        """A cell is over."""
