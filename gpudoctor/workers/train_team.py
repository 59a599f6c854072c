"""`Team`: the ranks that train together, and what they tell each other outside the training itself.

Every answer is the same on all ranks, so that all of them come to the same decision and none waits for another.
"""

import json
from typing import Any, Dict, List

LONGEST = 3000  # bytes of JSON a rank
MAXIMUM_TEXT = 400


class Team:
    """`device`: where tensors must be to be exchanged (the CPU with gloo). A team of one needs no process group."""

    def __init__(self, torch: Any, rank: int, ranks: int, device: Any) -> None:
        self.torch = torch
        self.rank = rank
        self.ranks = ranks
        self.device = device

    def gather(self, numbers: List[float]) -> List[List[float]]:
        """Every rank's numbers, by rank; equally many on each."""
        return [[float(number) for number in row] for row in self._gather(numbers, self.torch.float64)]

    def gather_integers(self, numbers: List[int]) -> List[List[int]]:
        """The same for 64-bit integers."""
        return [[int(number) for number in row] for row in self._gather(numbers, self.torch.int64)]

    def gather_tensor(self, tensor: Any) -> List[Any]:
        """Every rank's tensor as float64 on the CPU, by rank; of equal shape on each."""
        own = tensor.detach().to(device=self.device, dtype=self.torch.float64).contiguous()
        return [every.cpu() for every in self._all(own)]

    def exchange(self, fields: Dict[str, Any]) -> List[Dict[str, Any]]:
        """Every rank's fields, by rank: JSON of at most `LONGEST` bytes, for a pickle from elsewhere may run code.

        What is longer, or no JSON, arrives as {}.
        """
        text = json.dumps(fields).encode("ascii")
        if len(text) > LONGEST:
            text = b"{}"
        own = self.torch.tensor(list(text.ljust(LONGEST)), dtype=self.torch.uint8, device=self.device)
        return [_fields(bytes(every.cpu().tolist())) for every in self._all(own)]

    def first_text(self, text: str) -> str:
        """The first rank's text that is not empty, with the rank where others said nothing; "" when nobody said any."""
        said = [str(fields.get("text", "")) for fields in self.exchange({"text": text[:MAXIMUM_TEXT]})]
        spoken = [rank for rank, one in enumerate(said) if one]
        if not spoken:
            return ""
        first = said[spoken[0]]
        return first if len(spoken) == self.ranks else f"{first} (on rank {spoken[0]})"

    def wait(self) -> None:
        """Until all are here."""
        self.gather_integers([0])

    def _gather(self, numbers: List[Any], dtype: Any) -> List[List[Any]]:
        own = self.torch.tensor(numbers, dtype=dtype, device=self.device)
        return [every.cpu().tolist() for every in self._all(own)]

    def _all(self, own: Any) -> List[Any]:
        if self.ranks == 1:
            return [own]
        every = [self.torch.empty_like(own) for _ in range(self.ranks)]
        self.torch.distributed.all_gather(every, own)
        return every


def _fields(text: bytes) -> Dict[str, Any]:
    try:
        fields = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
