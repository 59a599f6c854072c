"""`Prepared`: a fleet that passed its preflight, and how to launch ranks on any of its nodes."""

import itertools
import random
from collections.abc import Mapping, Sequence

from gpudoctor.fleet.fleet import Fleet
from gpudoctor.fleet.messages import ITERATIONS, WARMUP, Launch, Measurement, TrainPlan
from gpudoctor.nccl.plan import choose_backend, ranks_for
from gpudoctor.nccl.preflight import Preflight, PreflightWish
from gpudoctor.nccl.wish import GLOO_SECONDS_PER_SIZE, Wish
from gpudoctor.snapshot import Snapshot

FIRST_PORT, LAST_PORT = 61000, 65535
"""Above what Linux hands out to clients (ip_local_port_range ends at 60999)."""


def preflight_wish(wish: Wish) -> PreflightWish:
    """What the preflight has to know of a test's wish."""
    return PreflightWish(
        backend=wish.backend,
        interface=wish.interface,
        master_address=wish.master_address,
        master_port=wish.master_port,
        python=wish.python,
        settings=dict(wish.settings),
    )


class Prepared:
    """What every launch of one test has in common.

    Making one raises `ValueError` (one line for the user) when these nodes cannot run what was wished.
    """

    def __init__(self, fleet: Fleet, wish: Wish, preflight: Preflight) -> None:
        self.fleet = fleet
        self.wish = wish
        self.preflight = preflight
        self.backend, self.device, self.why_backend = choose_backend(
            list(preflight.snapshots.values()), wish.backend, settings=wish.settings
        )
        self._ranks = [self._count(node) for node in range(len(fleet.nodes))]
        self._numbers = itertools.count(1)
        self._port = random.randrange(FIRST_PORT, LAST_PORT)

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(range(len(self.fleet.nodes)))

    @property
    def by_name(self) -> dict[str, Snapshot]:
        """Snapshots by the nodes' names."""
        return {self.fleet.name(node): snapshot for node, snapshot in self.preflight.snapshots.items()}

    def ranks_on(self, node: int) -> int:
        """Ranks that this node gets: --gpus-per-node, the hostfile's slots, or one a GPU."""
        return self._ranks[node]

    def _count(self, node: int) -> int:
        wanted = self.wish.ranks_per_node or self.fleet.nodes[node].slots
        if self.wish.ranks_share_gpu:
            return wanted or 2
        snapshot = self.preflight.snapshots[node]
        return ranks_for(snapshot, self.backend, wanted, nodes=len(self.fleet.nodes), settings=self.wish.settings)

    def launch(
        self,
        nodes: Sequence[int],
        measurements: Sequence[Measurement] = (),
        *,
        train: TrainPlan | None = None,
        ranks_per_node: Sequence[int] | None = None,
        settings: Mapping[str, str] | None = None,
        seconds_per_size: float | None = None,
        repeats: int = 3,
        check: bool | None = None,
    ) -> Launch:
        """A launch on these nodes, the first of which is its head. `settings` go on top of the wish's.

        `train`: what is trained instead of measuring. `ranks_per_node`: other than `ranks_on`.
        """
        wish = self.wish
        whole = tuple(nodes) == self.nodes
        number = next(self._numbers)
        on_gloo = self.backend == "gloo" and wish.iterations is None
        return Launch(
            id=str(number),
            nodes=tuple(nodes),
            ranks_per_node=tuple(ranks_per_node or (self.ranks_on(node) for node in nodes)),
            master_address=self.preflight.master_address if whole else self.preflight.addresses[nodes[0]],
            master_port=self.preflight.master_port if whole and number == 1 else self._next_port(),
            backend=self.backend,
            device=self.device,
            measurements=tuple(measurements),
            dtype=wish.dtype,
            warmup=WARMUP if wish.warmup is None else wish.warmup,
            iterations=ITERATIONS if wish.iterations is None else wish.iterations,
            repeats=repeats,
            check=wish.check if check is None else check,
            seconds_per_size=(GLOO_SECONDS_PER_SIZE if on_gloo else 0.0)
            if seconds_per_size is None
            else seconds_per_size,
            environment={**wish.settings, **(settings or {})},
            timeout=wish.timeout,
            train=train,
            ranks_share_gpu=wish.ranks_share_gpu,
        )

    def _next_port(self) -> int:
        """Another one for each world: what its predecessor leaves on the port must not reach it."""
        self._port = self._port + 1 if self._port < LAST_PORT else FIRST_PORT
        return self._port
