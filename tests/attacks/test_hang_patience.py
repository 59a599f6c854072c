"""`hang`: an agent that is kept busy is waited for as long as it answers pings, and no longer."""

import threading
import time

import pytest

from gpudoctor.fleet.fleet import Fleet, Lost, Node
from gpudoctor.fleet.messages import LookAt, LookedAt, Order, Ping, Pong, encode, order_from
from tests.attacks.registry import attack


class OneAgent(Fleet):
    """A node that answers pings or not, and its order after a while."""

    def __init__(self, *, pings: bool, after: float) -> None:
        super().__init__([Node("a")])
        self.pings, self.after = pings, after

    def write(self, line: bytes) -> None:
        order = order_from(line)
        if isinstance(order, Ping) and self.pings:
            self.heard(0, encode(Pong(number=order.number, time=0.0)))
        if isinstance(order, LookAt):
            timer = threading.Timer(self.after, self._answer, (order,))
            timer.daemon = True
            timer.start()

    def _answer(self, order: Order) -> None:
        self.heard(0, encode(LookedAt(number=order.number, evidence=b"{}")))  # type: ignore[arg-type]

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def quick_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.fleet.fleet.PING_SECONDS", 0.5)


def asked(fleet: Fleet, patience: float) -> LookedAt | Lost:
    return fleet.ask(LookAt(), LookedAt, timeout=2.0, patience=patience)[0]


@attack("processes", way="hang: processes that keep the agent busy", weakness="its answer comes too late to count")
def test_a_busy_agent_that_answers_pings_is_waited_for() -> None:
    assert isinstance(asked(OneAgent(pings=True, after=4.0), 120.0), LookedAt)


@attack("faults", way="hang: an agent that is silent", weakness="it is waited for without end")
def test_a_silent_agent_is_not_waited_for() -> None:
    begun = time.monotonic()
    assert asked(OneAgent(pings=False, after=30.0), 600.0) == Lost("no answer", "within 2 s")
    assert time.monotonic() - begun < 20.0


@attack("faults", way="hang: an agent that answers nothing but pings", weakness="it is waited for without end")
def test_patience_ends_too() -> None:
    begun = time.monotonic()
    assert isinstance(asked(OneAgent(pings=True, after=30.0), 2.0), Lost)
    assert time.monotonic() - begun < 20.0
