"""Which sizes --find-slow measures with."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpudoctor.errors import BadInput
from gpudoctor.knowledge.wording import MIB
from gpudoctor.nccl.find_slow import _sizes
from gpudoctor.nccl.wish import Wish


def sizes(backend: str, most: int) -> tuple[int, ...]:
    return _sizes(cast(Any, SimpleNamespace(backend=backend, wish=Wish(maximum_bytes=most))))


@pytest.mark.parametrize(
    ("backend", "most", "wanted"),
    [("nccl", 0, (64, 1024)), ("nccl", 64, (64,)), ("nccl", 8192, (64, 1024)), ("gloo", 0, (4,)), ("gloo", 4, (4,))],
)
def test_as_large_as_the_user_allows(backend: str, most: int, wanted: tuple[int, ...]) -> None:
    assert sizes(backend, most * MIB) == tuple(size * MIB for size in wanted)


@pytest.mark.parametrize(("backend", "most"), [("nccl", 32 * MIB), ("gloo", 65_536)])
def test_no_innocent_node_is_named_by_small_ones(backend: str, most: int) -> None:
    with pytest.raises(BadInput, match="at least"):
        sizes(backend, most)
