"""Further layouts of jobs for `recorder_play`: pipelines of which each rank holds two parts, context parallel rings,
hybrid sharding, groups by stride, and what is coalesced."""

from collections.abc import Callable, Iterator, Mapping

from tests.recorder_play import GATE, SYNC, Layout, Op

DESCRIPTIONS = {
    "tp": "TENSOR_MODEL_PARALLEL_GROUP",
    "pp": "PIPELINE_MODEL_PARALLEL_GROUP",
    "dp": "DATA_PARALLEL_GROUP",
    "ep": "EXPERT_MODEL_PARALLEL_GROUP",
    "cp": "CONTEXT_PARALLEL_GROUP",
    "shard": "mesh_shard",
    "replicate": "mesh_replicate",
}


class Shape(Layout):
    """Groups of ranks by stride: (short name, size, distance between neighbours)."""

    world = 8
    parts: tuple[tuple[str, int, int], ...] = ()

    def __init__(self) -> None:
        world = self.world
        super().__init__(1, 1, world)
        self.groups = {"0": ("default_pg", tuple(range(world)))}
        for rank in range(world):
            self.of[rank] = {"all": "0"}
        for short, size, stride in self.parts:
            keys = [(rank // (size * stride), rank % stride) for rank in range(world)]
            self._add(short, DESCRIPTIONS[short], keys)

    def members(self, rank: int, short: str) -> tuple[int, ...]:
        return self.groups[self.of[rank][short]][1]

    def around(self, rank: int, short: str) -> tuple[int, int]:
        """The neighbours in a ring."""
        ring = self.members(rank, short)
        at = ring.index(rank)
        return ring[at - 1], ring[(at + 1) % len(ring)]


def pairs(group: str, *parts: Op, free: bool = False) -> Op:
    return Op("coalesced", group, free=free, parts=parts)


class Interleaved(Shape):
    """Tensor parallel pairs in a pipeline of four, of which each rank holds two parts: what is sent on and what comes
    next are one batch, as in Megatron's interleaved schedule."""

    parts = (("tp", 2, 1), ("pp", 4, 2))

    def _step(self, rank: int) -> Iterator[Op]:
        own, size, held = self.of[rank], 4, 2
        at = self.members(rank, "pp").index(rank)
        before, after = self.around(rank, "pp")
        for forward in (True, False):
            if not forward:
                at, before, after = size - 1 - at, after, before
            count, elements = size * held, 4096 if forward else 4000
            for turn in range(-1, count + size - 1):
                done, follows = turn - at, turn + 1 - at
                if 0 <= done < count:
                    yield Op("_all_gather_base", own["tp"])
                    yield Op("_reduce_scatter_base", own["tp"])
                sends = 0 <= done < count and not (at == size - 1 and done // size == held - 1)
                takes = 0 <= follows < count and not (at == 0 and follows < size)
                batch = [Op("send", own["pp"], after, elements)] if sends else []
                batch += [Op("recv", own["pp"], before, elements)] if takes else []
                if batch:
                    yield pairs(own["pp"], *batch)
        yield Op("all_reduce", "0", elements=1)
        yield SYNC


class ContextRing(Shape):
    """Ring attention in fours, whose keys are on their way while the last ones are used; data parallel by stride."""

    parts = (("cp", 4, 1), ("dp", 2, 4))

    def _step(self, rank: int) -> Iterator[Op]:
        own = self.of[rank]
        before, after = self.around(rank, "cp")
        for _layer in range(3):
            for _turn in range(3):
                yield pairs(own["cp"], Op("send", own["cp"], after), Op("recv", own["cp"], before), free=True)
                yield GATE
        yield Op("all_reduce", own["dp"], elements=1 << 20, free=True)
        yield Op("all_reduce", "0", elements=1)
        yield SYNC


class Hybrid(Shape):
    """FSDP2 in groups of four, and the gradients of equal shards over two of these; one layer is gathered ahead."""

    parts = (("shard", 4, 1), ("replicate", 2, 4))

    def _step(self, rank: int) -> Iterator[Op]:
        own = self.of[rank]
        for _layer in range(4):
            yield Op("_all_gather_base", own["shard"], elements=1 << 12, free=True)
        yield GATE
        for layer in range(4):
            if layer < 3:
                yield Op("_all_gather_base", own["shard"], elements=1 << 12, free=True)
            yield Op("_reduce_scatter_base", own["shard"], elements=1 << 14, free=True)
            yield Op("all_reduce", own["replicate"], elements=1 << 12, free=True)
        yield Op("all_reduce", own["shard"], elements=1)
        yield SYNC


class Strided(Shape):
    """Tensor parallel over nodes (0, 8), experts over every second rank, data parallel over neighbours: 16 ranks."""

    world = 16
    parts = (("tp", 2, 8), ("ep", 4, 2), ("dp", 2, 1))

    def _step(self, rank: int) -> Iterator[Op]:
        own = self.of[rank]
        for _layer in range(2):
            yield Op("_all_gather_base", own["tp"])
            yield Op("all_to_all", own["ep"])
            yield Op("all_to_all", own["ep"])
            yield Op("_reduce_scatter_base", own["tp"])
        for bucket in range(2):
            yield Op("all_reduce", own["dp"], elements=1 << 18 + bucket, free=True)
        yield SYNC


class Coalesced(Shape):
    """Shards that are gathered several at once (one work of several), gradients likewise: a manager of coalescing."""

    parts = (("shard", 8, 1), ("replicate", 2, 4))

    def _step(self, rank: int) -> Iterator[Op]:
        own = self.of[rank]
        for _layer in range(3):
            several = tuple(Op("_all_gather_base", own["shard"], elements=1 << 10 + at) for at in range(3))
            yield Op("ALLGATHER_coalesced", own["shard"], parts=several)
        for _layer in range(3):
            several = tuple(Op("_reduce_scatter_base", own["shard"], elements=1 << 10 + at) for at in range(3))
            yield Op("REDUCE_SCATTER_coalesced", own["shard"], parts=several)
            yield Op("all_reduce", own["replicate"], free=True)
        yield SYNC


SHAPES: Mapping[str, Callable[[], Layout]] = {
    "interleaved": Interleaved,
    "ring": ContextRing,
    "hybrid": Hybrid,
    "strided": Strided,
    "coalesced": Coalesced,
}
