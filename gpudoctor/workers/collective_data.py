"""What the buffers of the data check hold, and counting the elements that differ from it.

All values are small whole numbers, exact in the tested type together with every partial sum, so that any order of
adding gives the same result and a comparison needs no tolerance. The value at index i is periodic in i with a prime
(odd) period: data that lands in the wrong place, shifted by some power of two, differs.
"""

from typing import Any, Dict, Tuple

PRIMES = (4093, 2039, 251, 127, 61, 31, 13, 7, 5, 3)
# Whole numbers up to these are exact: the significand's bits (24 of float32, 11 of float16, 8 of bfloat16).
LARGEST_EXACT = {"float32": 1 << 24, "float16": 1 << 11, "bfloat16": 1 << 8}
# Elements that are written or compared at once. On a CPU such a piece stays in its cache; a GPU wants few kernels.
PIECE = {"cuda": 1 << 22, "cpu": 1 << 18}
NEVER = -1
"""Is no pattern's value: what a buffer holds where something must arrive."""


class Table:
    """A periodic sequence on a device, from which any stretch can be copied or compared."""

    def __init__(self, torch: Any, one_period: Any, dtype: Any, device: Any) -> None:
        self.torch = torch
        self.period = one_period.numel()
        # Whole periods, so that every piece begins at the same place of the table.
        self.piece = max(1, PIECE[device.type] // self.period) * self.period
        times = self.piece // self.period + 1
        self.values = one_period.to(dtype=dtype, device=device).repeat(times)

    def write(self, view: Any, start: int) -> None:
        """Element i of the view becomes element `start` + i of the sequence."""
        begin = start % self.period
        for piece in view.split(self.piece):
            piece.copy_(self.values[begin : begin + piece.numel()])

    def wrong(self, view: Any, start: int) -> Any:
        """How many elements of the view are not what `write` would put there, as a tensor on the device."""
        begin = start % self.period
        wrong = self.torch.zeros((), dtype=self.torch.int64, device=view.device)
        for piece in view.split(self.piece):
            wrong += self.torch.count_nonzero(piece != self.values[begin : begin + piece.numel()])
        return wrong


class Pattern:
    """The data of one test: for what is moved (`moved`), and for what is added up (`share`, `total`)."""

    def __init__(self, torch: Any, dtype: str, device: Any, ranks: int) -> None:
        self.torch = torch
        self.dtype = getattr(torch, dtype)
        self.device = device
        self.ranks = ranks
        exact = LARGEST_EXACT[dtype]
        prime = next(prime for prime in PRIMES if prime - 1 <= exact)
        self.moved_period = prime
        self._moved = Table(torch, torch.arange(prime), self.dtype, device)
        # The largest sum is (prime - 1) times the ranks that add something at an index; with very many ranks they
        # take turns, index by index.
        fitting = [prime for prime in PRIMES if (prime - 1) * ranks <= exact]
        self.prime = fitting[0] if fitting else PRIMES[-1]
        self.turns = 1 if fitting else -(-ranks * (self.prime - 1) // exact)
        self._tables: Dict[Tuple[int, int], Table] = {}

    def moved(self, source: int, destination: int, turn: int) -> Tuple[Table, int]:
        """The sequence that `source` sends to `destination`, as a table and where to begin in it."""
        return self._moved, 31 * source + 17 * destination + 101 * turn

    def share(self, rank: int, turn: int) -> Table:
        """What a rank adds to the sum."""
        return self._table(rank, turn)

    def total(self, turn: int) -> Table:
        """The sum over all ranks."""
        return self._table(-1, turn)

    def _table(self, rank: int, turn: int) -> Table:
        if (rank, turn) not in self._tables:
            index = self.torch.arange(self.prime * self.turns)
            values = self.torch.zeros_like(index)
            for member in range(self.ranks) if rank < 0 else (rank,):
                adds = (index // self.prime + member) % self.turns == 0
                values += adds * ((index + 3 * member + 5 * turn) % self.prime)
            self._tables[rank, turn] = Table(self.torch, values, self.dtype, self.device)
        return self._tables[rank, turn]
