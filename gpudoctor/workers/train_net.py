"""The tiny model that `gpudoctor train-test` trains, and its samples. Imports torch: import it within a function.

Its classes are at module level, for a way that starts processes by itself (Lightning's ddp_spawn) sends them by name.
"""

from collections import deque
from typing import Any, Deque, Optional, Tuple

import torch
from torch import nn

INPUTS, WIDTH, CLASSES = 16, 32, 4
SAMPLES_SEED = 7  # the samples are the same in every run, whatever the plan's seed is


class Net(nn.Module):
    """Two residual blocks between an embedding and a normalised head; no dropout, and no statistics of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(INPUTS, WIDTH)
        self.blocks = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(2)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)
        self.gain: torch.Tensor
        self.register_buffer("gain", torch.full((WIDTH,), 0.5))
        # What the first block computed in: (device, dtype). DataParallel's replicas share the list with their original.
        self.ran: Deque[Tuple[str, str]] = deque(maxlen=16)
        self.inside: Optional[Tuple[str, Any]] = None
        """Device type and dtype of an autocast within forward, which is where DataParallel needs it."""

    def forward(self, inputs: torch.Tensor) -> Any:
        if self.inside is None:
            return self.tail(self.front(inputs))
        with torch.autocast(self.inside[0], dtype=self.inside[1]):
            return self.tail(self.front(inputs))

    def front(self, inputs: torch.Tensor) -> Any:
        """The part that a model split over two devices has on the first."""
        return self.block(0, torch.tanh(self.embed(inputs)))

    def tail(self, hidden: torch.Tensor) -> Any:
        return self.head(self.norm(self.block(1, hidden)))

    def block(self, number: int, hidden: torch.Tensor) -> Any:
        through = self.blocks[number](hidden)
        if number == 0:
            self.ran.append((str(through.device), str(through.dtype).replace("torch.", "")))
        # To the dtype of the block: FSDP2's mixed precision casts parameters and leaves buffers as they are.
        return hidden + self.gain.to(hidden) * torch.tanh(through)


class Samples(torch.utils.data.Dataset):  # type: ignore[type-arg]  # torch 2.1 cannot be subscripted at run time
    """Samples known by their number: (inputs, label, number)."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(SAMPLES_SEED)
        self.inputs = torch.randn(count, INPUTS, generator=generator)
        teacher = torch.randn(INPUTS, CLASSES, generator=generator)
        # A third has a label by chance: a model that has learned all would have gradients of nothing but rounding.
        chance = torch.randint(0, CLASSES, (count,), generator=generator)
        by_chance = torch.rand(count, generator=generator) < 1 / 3
        self.labels = torch.where(by_chance, chance, (self.inputs @ teacher).argmax(dim=1))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> Tuple[torch.Tensor, torch.Tensor, int]:
        return self.inputs[number], self.labels[number], number


def loss_of(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The mean over the batch, in float32 whatever the outputs are."""
    return nn.functional.cross_entropy(outputs.float(), labels)


def seeded(seed: int) -> Net:
    """The model that this seed gives, by a generator of its own: what a rank's own model is held against."""
    state = torch.get_rng_state()
    try:
        torch.default_generator.manual_seed(seed)
        return Net()
    finally:
        torch.set_rng_state(state)
