"""Which samples the ranks took: every one once in an epoch, and in another order in the next."""

from typing import Any, Callable, Dict, List, Optional, Tuple

from train_blame import fault, one_rank, ranks_text
from train_team import Team
from train_way import FaultFound

NONE = -1
LEAST_SAMPLES = 16  # with fewer, an epoch may begin like the one before by chance


class Partition:
    """`count` samples; `batch` a rank and step. `expected(epoch)`: the order in which the sampler must give them to all
    ranks (rank r of n takes every n-th from r), None when that is not known: then no rank can be blamed.
    """

    def __init__(self, team: Team, count: int, batch: int, expected: Optional[Callable[[int], List[int]]]) -> None:
        self.team = team
        self.count = count
        self.batch = batch
        self.expected = expected
        self.epoch = -1
        self.taken: Dict[int, int] = {}
        """Sample -> the rank that took it in this epoch."""
        self.begun: List[List[int]] = []
        """The first batch of each rank in the epoch before."""
        self.batches = 0

    def took(self, step: int, epoch: int, numbers: Optional[List[int]]) -> Tuple[List[int], List[int]]:
        """What this rank's loader gave (None: nothing more) -> its own, and the global batch. Raises `FaultFound`."""
        given = list(numbers or [])[: self.batch]
        rows = self.team.gather_integers(given + [NONE] * (self.batch - len(given)))
        if epoch != self.epoch:
            self._begin(step, epoch, rows)
        every: List[int] = []
        for rank, row in enumerate(rows):
            held = [number for number in row if number != NONE]
            if len(held) < self.batch:
                raise FaultFound(
                    fault(
                        "sampler loss",
                        rank,
                        step=step,
                        seen=f"its loader gave {self.batches * self.batch + len(held)} samples in epoch {epoch}",
                        wanted=f"{self.count // self.team.ranks} samples for each rank",
                    )
                )
            for number in held:
                self._take(step, rank, number, rows)
            every.extend(held)
        self.batches += 1
        return given, every

    def end_epoch(self, step: int) -> None:
        """After the last batch of an epoch. Raises `FaultFound` when a sample was given to nobody."""
        missing = [number for number in range(self.count) if number not in self.taken]
        if missing:
            raise FaultFound(
                fault(
                    "sampler loss",
                    step=step,
                    seen=f"{len(missing)} of {self.count} samples were given to no rank, the first is {missing[0]}",
                    wanted="every sample once in an epoch",
                )
            )

    def _begin(self, step: int, epoch: int, rows: List[List[int]]) -> None:
        self.epoch, self.taken, self.batches = epoch, {}, 0
        before, self.begun = self.begun, rows
        if not before or self.count < LEAST_SAMPLES:
            return
        again = [rank for rank, row in enumerate(rows) if row == before[rank] and not self._by_chance(epoch, rank)]
        if again:
            shown = ", ".join(str(number) for number in rows[again[0]][:4])
            raise FaultFound(
                fault(
                    "sampler epoch",
                    one_rank(again, self.team.ranks) if self.team.ranks > 1 else None,
                    step=step,
                    seen=f"epoch {epoch} begins with the same samples as epoch {epoch - 1} on "
                    f"{ranks_text(again)} ({shown} ...)",
                    wanted="another order in every epoch: sampler.set_epoch(epoch)",
                )
            )

    def _by_chance(self, epoch: int, rank: int) -> bool:
        """Whether the sampler itself gives the rank the same batch twice."""
        first, second = self._expected(epoch - 1, 0, rank), self._expected(epoch, 0, rank)
        return first is not None and first == second

    def _expected(self, epoch: int, batch: int, rank: int) -> Optional[List[int]]:
        if self.expected is None:
            return None
        own = self.expected(epoch)[rank :: self.team.ranks]
        return own[batch * self.batch : (batch + 1) * self.batch]

    def _take(self, step: int, rank: int, number: int, rows: List[List[int]]) -> None:
        if number not in self.taken:
            self.taken[number] = rank
            return
        expected = [self._expected(self.epoch, self.batches, one) for one in range(self.team.ranks)]
        wrong = [one for one, row in enumerate(rows) if expected[one] is not None and row != expected[one]]
        other = self.taken[number]
        seen = (
            f"{ranks_text([rank])} took sample {number} twice"
            if other == rank
            else (f"{ranks_text(sorted({other, rank}))} both took sample {number}")
        )
        raise FaultFound(
            fault(
                "sampler overlap",
                one_rank(wrong, self.team.ranks),
                step=step,
                seen=f"{seen} in epoch {self.epoch}",
                wanted="every sample once in an epoch, on one rank",
            )
        )


def torch_order(torch: Any, count: int, seed: int) -> Callable[[int], List[int]]:
    """How torch's DistributedSampler shuffles (torch/utils/data/distributed.py, the same from 1.x to 2.14)."""

    def order(epoch: int) -> List[int]:
        generator = torch.Generator()
        generator.manual_seed(seed + epoch)
        return [int(number) for number in torch.randperm(count, generator=generator).tolist()]

    return order
