"""What a program does in backward on a GPU is in a thread of torch's: it is told as what its main thread does."""

import pytest

from gpudoctor.read.job.engine import joined
from gpudoctor.snapshot.evidence import Frame, Thread

PID, MOST = 40, 64
WAITS = (Frame("_engine_run_backward", "/x/site-packages/torch/autograd/graph.py", 829), Frame("main", "train.py", 20))
HOOK = (Frame("clip", "train.py", 9),)
STARTED = (Frame("get", "queue.py", 1), Frame("work", "train.py", 30), Frame("_bootstrap", "threading.py", 1002))
QUALIFIED = (*STARTED[:2], Frame("Thread._bootstrap", "threading.py", 1002))  # Python 3.11 and later


def thread(number: int, *frames: Frame) -> Thread:
    return Thread(id=number, frames=frames)


@pytest.mark.parametrize(
    ("main", "others", "frames"),
    [
        (WAITS, (HOOK,), HOOK + WAITS),
        (WAITS, (STARTED, HOOK), HOOK + WAITS),
        (WAITS, (STARTED,), WAITS),
        (WAITS, (QUALIFIED,), WAITS),
        (WAITS, ((),), WAITS),
        (WAITS[1:], (HOOK,), WAITS[1:]),
        ((Frame("__psynch", "libc.so.6", native=True), *WAITS), (HOOK,), None),
    ],
)
def test_the_threads_of_autograd(
    main: tuple[Frame, ...], others: tuple[tuple[Frame, ...], ...], frames: tuple[Frame, ...] | None
) -> None:
    threads = (*(thread(41 + at, *own) for at, own in enumerate(others)), thread(PID, *main))
    told = joined(threads, PID, MOST)
    assert told[-1].frames == (frames if frames is not None else HOOK + main)
    assert sum(one.frames[:1] == HOOK for one in told) == others.count(HOOK)  # once, wherever it is told
    assert [one.id for one in told] == [one.id for one in threads]


def test_of_a_deep_stack_so_many_frames_are_kept() -> None:
    told = joined((thread(41, *HOOK * 50), thread(PID, *WAITS * 20)), PID, MOST)
    assert len(told[-1].frames) == MOST and told[0].frames == ()
