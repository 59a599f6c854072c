"""What rounds of loops tell: loops that are begun anew, calls that make a collective on some ranks only, counters of
the program's own and of a framework's loop; and collectives that compiled code makes."""

import json

import pytest
from msgspec import structs

from gpudoctor.hang.counting import only_counts
from gpudoctor.hang.job import Rank
from gpudoctor.hang.loops import how_ended
from gpudoctor.hang.variables import rounds_apart
from gpudoctor.knowledge.places import Place, place_of
from gpudoctor.read.job import stacks
from gpudoctor.snapshot.evidence import Enclosing, Frame, FrameVariables, Thread
from gpudoctor.sure import BEST, LIKELY, POSSIBLE
from tests.hang_jobs import PROGRAM, a_job, is_in, member
from tests.test_hang_loops import LIBRARY, around
from tests.test_hang_training import first

TRAINER = "/opt/venv/lib/python3.11/site-packages/transformers/trainer.py"


def at(number: int, text: str, *lines: tuple[str, int], **values: int | str) -> Rank:
    """A rank that waits in a collective at the first of these lines, and what it holds there and further out."""
    frames = tuple(Frame(function, PROGRAM, line) for function, line in lines)
    sources = tuple(around(text, frame.line, frame.function) for frame in frames)
    held = {name: str(value) for name, value in values.items()}
    variables = tuple(FrameVariables(frame=frame, values=held) for frame in frames)
    return member(
        number, Place("collective", "barrier", LIBRARY, frames[0], frames), sources=sources, variables=variables
    )


AGAIN = (
    "def main():\n    train()\ndef train():\n    prepare(model)\n    for step in range(9):\n        dist.barrier()\n"
)


@pytest.mark.parametrize(("step", "told"), [(4, "rank-divergent-decision"), (0, "")])
def test_a_loop_that_is_begun_anew(step: int, told: str) -> None:
    """Others have gone round after what one waits in. In their first round it may be the first time for it too."""
    inside = [at(number, AGAIN, ("train", 6), ("main", 2), step=step) for number in (0, 2)]
    cause = first(a_job(inside[0], at(1, AGAIN, ("train", 4), ("main", 2)), inside[1]))
    assert ("begun it anew" in cause.summary) is bool(told)
    if told:
        assert (cause.cause, cause.ranks, cause.confidence) == (told, (1,), BEST)


TRIES = (
    "def main():\n    for attempt in range(tries):\n        try:\n            train()\n        except NodeLost:\n"
    "            log(attempt)\ndef train():\n    prepare(model)\n    for step in range(1000):\n        dist.barrier()\n"
)


@pytest.mark.parametrize(("text", "told"), [(TRIES, True), (TRIES.replace("range(1000)", "loader"), False)])
def test_a_loop_that_is_tried_again(text: str, told: bool) -> None:
    """Not where the loop inside may have ended with its data."""
    inside = [at(number, text, ("train", 10), ("main", 4), step=4) for number in (0, 2)]
    cause = first(a_job(inside[0], at(1, text, ("train", 8), ("main", 4)), inside[1]))
    assert ("an exception that is swallowed in line 5" in cause.summary) is told
    if told:
        assert (cause.cause, cause.ranks, cause.confidence) == ("rank-divergent-decision", (1,), BEST)


BEGUN = (
    "def main():\n    for epoch in range({}):\n        train(model, loader)\n        if epoch % 3 == 2:\n"
    "            dist.barrier()\ndef train(model, loader):\n    for batch in loader:\n        dist.barrier()\n"
)


@pytest.mark.parametrize(
    ("numbers", "start", "told"),
    [("start, 100", 4, True), ("start, last", 4, False), ("start, 100", 5, False), ("rank_start, 100", 4, False)],
)
def test_a_loop_that_is_begun_with_another_number(numbers: str, start: int, told: bool) -> None:
    """Not where each goes on to an end of its own, as over its part of the data."""
    text, name = BEGUN.format(numbers), numbers.partition(",")[0]
    waits = [at(number, text, ("main", 5), epoch=5, **{name: 5}) for number in (0, 2)]
    other = at(1, text, ("train", 8), ("main", 3), epoch=5, **{name: start})
    cause = first(a_job(waits[0], other, waits[1]))
    assert (f"begun with {name} = 4 on rank 1, 5 on ranks 0,2" in cause.summary) is told
    if told:
        assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (1,))


CHECKS = (
    "def train(model):\n    for step in range(99):\n        model(step)\n        dist.barrier()\n"
    "        if step % 5 == 4:\n            assert same(model)\ndef same(model):\n    {}\n"
)


@pytest.mark.parametrize(
    ("call", "steps", "told"),
    [
        ("dist.all_gather(every, own)", (4, 5), True),
        ("dist.all_gather(every, own)", (4, 4), False),
        ("dist.all_gather(every, own, group=pair)", (4, 5), False),
        ("for row in rows: dist.all_gather(every, row)", (4, 5), False),
        ("for part in range(3): dist.all_gather(every, part)", (4, 5), True),
    ],
)
def test_a_round_that_others_have_come_past(call: str, steps: tuple[int, int], told: bool) -> None:
    """Whatever counts the steps there; not in a group of some, nor where data may have ended a loop inside."""
    text = CHECKS.format(call)
    waits, other = at(0, text, ("same", 8), ("train", 6), step=steps[0]), at(1, text, ("train", 4), step=steps[1])
    places = waits.place._replace(operation="all_gather"), other.place._replace(kind="backward", operation="backward")
    pair = zip((waits, other), places, strict=True)
    cause = first(a_job(*(structs.replace(rank, place=place, first_place=place) for rank, place in pair)))
    assert ("in line 5, with step 4" in cause.summary and "has come to 5 without it" in cause.summary) is told
    if told:
        assert (cause.cause, cause.confidence, cause.where and cause.where.line) == ("rank-divergent-decision", BEST, 5)


EACH = "def main():\n    for step in range(99):\n        for task in pending:\n            dist.barrier({})\n"


@pytest.mark.parametrize(
    ("given", "held", "steps", "told"),
    [
        ("group=groups[task]", ("text 3fa", "text 091"), (4, 4), LIKELY),
        ("table[task]", ("text 3fa", "text 091"), (4, 4), POSSIBLE),  # others may have another size
        ("group=groups[task]", ("text 3fa", "text 3fa"), (4, 4), None),
        ("group=groups[task]", ("text 3fa", "text 091"), (4, 5), None),
        ("group=pairs", ("text 3fa", "text 091"), (4, 4), None),
    ],
)
def test_a_loop_that_has_come_to_another_item_on_each(
    given: str, held: tuple[str, str], steps: tuple[int, int], told: float | None
) -> None:
    text = EACH.format(given)
    ranks = [at(number, text, ("main", 4), task=held[number == 2], step=steps[number == 2]) for number in range(3)]
    cause = first(a_job(*ranks))
    assert ("task is one text on ranks 0-1, another on rank 2" in cause.summary) is (told is not None)
    if told is not None:
        where = cause.where and cause.where.line
        assert (cause.cause, cause.ranks, cause.confidence, where) == ("collective-order-mismatch", (2,), told, 3)


ANEW = (
    "class Seeded:\n    def __iter__(self):\n        dist.barrier()\n        return iter(self.order)\n"
    "def cycle(data):\n    while True:\n        yield from data\n"
    "def main():\n    for step in range(99):\n        batch = next(batches)\n{}        dist.barrier()\n"
)


@pytest.mark.parametrize(
    ("between", "line", "told"),
    [("", 11, True), ("        if batch.any():\n            dist.barrier()\n", 12, False), ("", 3, False)],
)
def test_data_that_are_gone_over_anew_while_others_have_more(between: str, line: int, told: bool) -> None:
    """Not where a condition has led the others there, nor where all of them begin."""
    text = ANEW.format(between)
    inside = ("Seeded.__iter__", 3), ("cycle", 7), ("main", 10)
    lines = inside if line == 3 else (("main", line),)
    cause = first(a_job(at(0, text, *lines), at(1, text, *inside), at(2, text, *lines)))
    assert ("begins to go over its data" in cause.summary) is told
    if told:
        assert (cause.cause, cause.ranks, cause.where and cause.where.line) == ("uneven-inputs", (1,), 7)


CALLS = (
    "def main():\n    for step in range(9):\n        average()\n        dist.barrier()\n"
    "def average():\n    dist.barrier()\n"
)


@pytest.mark.parametrize(("steps", "told"), [((4, 4, 4), True), ((4, 3, 4), False)])
def test_a_call_that_did_not_make_its_collective_everywhere(steps: tuple[int, ...], told: bool) -> None:
    """One is past the call in that round, and the others wait in what it makes; not where they are a round apart."""
    waits = [at(number, CALLS, ("average", 6), ("main", 3), step=steps[number]) for number in (0, 2)]
    cause = first(a_job(waits[0], at(1, CALLS, ("main", 4), step=steps[1]), waits[1]))
    assert ("come past that line without" in cause.summary) is told
    if told:
        assert (cause.cause, cause.ranks, cause.confidence) == ("rank-divergent-decision", (1,), BEST)


def test_not_where_another_rank_is_in_no_collective() -> None:
    """It may be the one for which a group of some ranks waits in the call."""
    waits = [at(number, CALLS, *lines, step=4) for number, lines in enumerate(WHERE)]
    assert "come past that line without" not in first(a_job(*waits, is_in(3, "user code", at=3))).summary


WHERE = ((("average", 6), ("main", 3)), (("main", 4),), (("main", 4),))


FETCHES = (
    "def main():\n    for step in range(9):\n        rows = fetch()\n        loss.backward()\n"
    "def fetch():\n    try:\n        return next(rows)\n    except {}:\n        dist.barrier()\n"
)


@pytest.mark.parametrize(
    ("caught", "cause", "line"),
    [
        ("StopIteration", "uneven-inputs", 8),
        ("OSError", "rank-divergent-decision", 8),
        ("ImportError", "rank-divergent-decision", 3),  # all have that: nothing but the round tells
    ],
)
def test_a_call_catches_on_one_rank_what_the_others_did_not_have(caught: str, cause: str, line: int) -> None:
    text = FETCHES.format(caught)
    through = [at(number, text, ("main", 4), step=4) for number in (0, 2)]
    places = [rank.place._replace(kind="backward", operation="backward") for rank in through]
    pair = zip(through, places, strict=True)
    others = [structs.replace(rank, place=place, first_place=place) for rank, place in pair]
    told = first(a_job(others[0], at(1, text, ("fetch", 9), ("main", 3), step=4), others[1]))
    assert (told.cause, told.ranks, told.where and told.where.line) == (cause, (1,), line)
    assert told.confidence > 0.5


def test_a_condition_around_both_lines_is_no_reason() -> None:
    text = (
        "def main():\n    for batch in loader:\n        if batch.due:\n            model.sync()\n"
        "            dist.barrier()\n"
    )
    cause = first(a_job(*(at(number, text, ("main", line)) for number, line in enumerate((5, 4, 5)))))
    assert "batch.due" not in cause.summary
    assert cause.confidence < 0.5


COUNTS = "def main():\n    for batch in loader:\n        train()\n        step += 1\n        dist.barrier()\n"


def test_a_counter_that_the_body_raises() -> None:
    """Below its line it has counted the round already."""
    loop = around(COUNTS, 3).enclosing[0]
    assert (loop.counter, loop.counted_at) == ("step", 4)
    assert rounds_apart([at(0, COUNTS, ("main", 3), step=4), at(1, COUNTS, ("main", 5), step=5)]) is None
    apart = rounds_apart([at(0, COUNTS, ("main", 3), step=5), at(1, COUNTS, ("main", 5), step=5)])
    assert apart is not None and [rank.rank for rank in apart.behind] == [1]
    goes_round = COUNTS.replace("train()", "if batch is None: continue")
    assert around(goes_round, 5).enclosing[0].counter == ""


def test_variables_of_a_frameworks_loop_are_read() -> None:
    def frame(name: str, file: str, line: int, **values: str) -> dict[str, object]:
        held = [{"name": key, "addr": 0, "repr": value} for key, value in values.items()]
        return {"name": name, "filename": file, "line": line, "locals": held}

    frames = [
        frame("_run_epoch", TRAINER, 1917, update_step="6"),
        frame("wrapper", "/opt/venv/lib/python3.11/site-packages/torch/utils/x.py", 3, number="7"),
        frame("main", PROGRAM, 9, rank="1"),
    ]
    output = json.dumps([{"thread_id": 1, "os_thread_id": 40, "thread_name": "MainThread", "frames": frames}]).encode()
    held = stacks.variables_of(output, 40, stacks.read(output, 40))
    assert [(own.frame.function, own.values) for own in held] == [
        ("_run_epoch", {"update_step": "6"}),
        ("main", {"rank": "1"}),
    ]


@pytest.mark.parametrize(("asked", "told"), [(False, "uneven-inputs"), (True, "rank-divergent-decision")])
def test_a_frameworks_loop_ends_with_its_data_or_where_the_program_asks_it_to(asked: bool, told: str) -> None:
    loop = Enclosing("while", 151, "not self.done")
    assert how_ended([loop], asked)[1:3] == (told, 0.65)
    assert how_ended([loop])[1:3] == ("rank-divergent-decision", 0.85)


def test_what_asks_a_frameworks_loop_to_end() -> None:
    asks = "def on_batch_end(trainer):\n    trainer.should_stop = True\n"
    hook = "class M:\n    def on_train_batch_start(self):\n        return -1\n"
    assert around(asks, 2, "on_batch_end").ends_loops == ("should_stop:2",)
    assert around(hook, 3, "on_train_batch_start").ends_loops == ("-1:3",)
    assert around(COUNTS, 3).ends_loops == ()
    begun = "class Trainer:\n    def fit(self):\n        self.should_stop = False\n"
    assert around(begun, 3, "fit").ends_loops == ()  # Lightning's own trainer.py
    alone = "def main():\n    stops = EarlyStoppingCallback(2)\n"
    assert around(alone, 2, "main").ends_loops == ("should_training_stop:2",)


@pytest.mark.parametrize(
    ("generated", "waits_in", "told"),
    [
        ("<eval_with_key>.3", "futex_do_wait", "collective"),
        ("/tmp/torchinductor_mara/ab/cab.py", "futex_do_wait", "collective"),
        ("<eval_with_key>.3", "", "user code"),
        (PROGRAM, "futex_do_wait", "user code"),
    ],
)
def test_an_operator_of_compiled_code_that_sleeps_is_a_collective(generated: str, waits_in: str, told: str) -> None:
    torch = "/opt/venv/lib/python3.11/site-packages/torch"
    frames: tuple[Frame, ...] = (
        Frame("OpOverload.redispatch", f"{torch}/_ops.py", 882),
        Frame("forward", generated, 10),
    )
    frames += (
        Frame("_fn", f"{torch}/_dynamo/eval_frame.py", 1446),
        Frame("Encoder.forward", PROGRAM, 20),
        Frame("<module>", PROGRAM, 45),
    )
    thread = Thread(id=4, name="MainThread", state="S", waits_in=waits_in, frames=frames)
    assert place_of(thread).kind == told


def test_a_method_does_not_say_the_same_on_every_rank() -> None:
    assert only_counts("len(steps) > MAX")
    assert only_counts("max(step, 3) < LIMIT")
    assert not only_counts("norms.max() < LIMIT")


def test_what_asks_all_ranks_where_no_call_is_written() -> None:
    text = (
        "class Batches:\n    def __len__(self):\n        dist.all_reduce(self.count)\n        return 3\n"
        "    def total(self):\n        dist.barrier()\n    @property\n    def mean(self):\n"
        "        return dist.all_reduce(self.sum)\n"
    )
    assert around(text, 3, "__len__").unwritten == ("__len__", "mean")


def in_backward(number: int, text: str, line: int, **values: int) -> Rank:
    rank = at(number, text, ("main", line), **values)
    place = rank.place._replace(kind="backward", operation="backward")
    return structs.replace(rank, place=place, first_place=place)


EVENTS = (
    "class Bus:\n    def publish(self, event):\n        for listener in list(self.listeners):\n"
    "            listener.receive(event)\nclass Meter:\n    def receive(self, event):\n        if event == 'round':\n"
    "            dist.all_gather_object(rates, 1)\ndef main():\n    for step in range(9):\n        bus.publish({})\n"
    "        loss.backward()\n"
)


@pytest.mark.parametrize(("given", "line"), [("'round'", 3), ("event='round'", 3), ("kind", 7), ("*events", 7)])
def test_what_a_function_was_given_as_it_is_written_leads_nobody_apart(given: str, line: int) -> None:
    text = EVENTS.format(given)
    inside = at(0, text, ("Meter.receive", 8), ("Bus.publish", 4), ("main", 11), step=4)
    cause = first(a_job(inside, in_backward(1, text, 12, step=4)))
    assert (cause.cause, cause.where and cause.where.line) == ("rank-divergent-decision", line)


def test_what_the_line_of_a_backward_has_called() -> None:
    text = (
        "def main():\n    for step in range(9):\n        objective(phase, rows).backward()\n"
        "def objective(phase, rows):\n    if phase == 'contrast':\n        return dist.all_gather(every, rows)\n"
    )
    inside = at(0, text, ("objective", 6), ("main", 3), step=4)
    cause = first(a_job(inside, in_backward(1, text, 3, step=4)))
    assert (cause.cause, cause.confidence) == ("rank-divergent-decision", BEST)
    assert cause.where is not None
    assert cause.where.line == 5


def test_a_condition_that_counts_is_told_where_others_have_counted_further() -> None:
    text = (
        "def main():\n    for step in range(9):\n        if step % every == 0:\n            average()\n"
        "        if step % 6 == 0:\n            dist.barrier()\n"
        "def average():\n    for weight in model.parameters():\n        dist.barrier()\n"
    )
    inside = [at(number, text, ("average", 9), ("main", 4), step=4) for number in (0, 1)]
    cause = first(a_job(*inside, at(2, text, ("main", 6), step=6)))
    assert (cause.cause, cause.ranks) == ("rank-divergent-decision", (2,))
    assert cause.where is not None
    assert cause.where.line == 3


def test_nobody_is_through_with_a_generator_that_has_given_something() -> None:
    text = (
        "def main():\n    for step in range(9):\n        rows = next(stream)\n        dist.all_reduce(rows)\n"
        "def endless(loader):\n    while True:\n        dist.barrier()\n        yield from loader\n"
    )
    inside = at(2, text, ("endless", 7), ("main", 3), step=4)
    cause = first(a_job(*(at(number, text, ("main", 4), step=4) for number in (0, 1)), inside))
    assert (cause.cause, cause.ranks, cause.where and cause.where.line) == ("rank-divergent-decision", (2,), 3)


def test_what_ranks_hold_unlike_of_what_is_asked_is_told() -> None:
    text = (
        "def main():\n    for step in range(9):\n        if step % every == rank:\n            dist.barrier()\n"
        "        if step % 6 == 0:\n            dist.barrier()\n"
    )
    inside = at(0, text, ("main", 4), step=4, every=4, rank=0)
    cause = first(a_job(inside, at(1, text, ("main", 6), step=6, every=5, rank=1)))
    assert cause.summary.endswith("; there every = 4 on rank 0, 5 on rank 1")


HANDED = (
    "def main():\n    for step in range(9):\n        optimizer.step({})\n        dist.barrier()\n"
    "def closure():\n    for weight in model.parameters():\n        dist.barrier()\n"
)


@pytest.mark.parametrize(("given", "line"), [("self.closure", 3), ("closure=closure", 3), ("closure()", 6)])
def test_a_function_that_was_handed_on_is_called_as_often_as_is_found_good(given: str, line: int) -> None:
    text = HANDED.format(given)
    inside = [at(number, text, ("closure", 7), ("main", 3)) for number in (0, 2)]
    cause = first(a_job(inside[0], at(1, text, ("main", 4)), inside[1]))
    assert (cause.cause, cause.ranks, cause.where and cause.where.line) == ("rank-divergent-decision", (1,), line)


def test_what_leaves_a_loop_comes_before_what_goes_round_it() -> None:
    """In an early round, who has gone round would still be there."""
    text = (
        "def epoch(rows):\n    for row in rows:\n        if row.sum() == 0:\n            continue\n"
        "        if not isfinite(row):\n            return\n        dist.barrier()\n"
        "def main():\n    for number in range(9):\n        epoch(rows)\n        dist.barrier()\n"
    )
    inside = [at(number, text, ("epoch", 7), ("main", 10)) for number in (0, 2)]
    cause = first(a_job(inside[0], at(1, text, ("main", 11)), inside[1]))
    assert (cause.cause, cause.where and cause.where.line) == ("rank-divergent-decision", 6)


LEADS = (
    "def main():\n    for step in range(99):\n        dist.barrier()\n        if self.score > self.best:\n"
    "            for row in rows:\n                dist.barrier()\n"
)


@pytest.mark.parametrize(("best", "told"), [("0.2", True), ("0.9", False)])
def test_what_ranks_hold_says_what_has_led_them_apart(best: str, told: bool) -> None:
    """A loop over data may have done so as well; where they hold alike, that is not decided."""
    held = [{"self.score": "0.5", "self.best": best}, {"self.score": "0.5", "self.best": "0.9"}]
    rows = at(0, LEADS, ("main", 6), **held[0]), at(1, LEADS, ("main", 3), **held[1])
    cause = first(a_job(*rows))
    assert ((cause.cause, cause.where and cause.where.line) == ("rank-divergent-decision", 4)) is told


DRAINS = (
    "class Fetcher:\n    async def work(self, queue):\n        while True:\n            await queue.get()\n"
    "            await asyncio.sleep(1)\n    async def drain(self, queue):\n        await queue.join()\n"
    "    async def fetch(self):\n        tasks = [asyncio.create_task(self.work(q))]\n        await self.drain(q)\n"
    "    def batch(self):\n        return asyncio.run(self.{}())\n"
)


def test_where_a_coroutine_can_only_stand() -> None:
    """With two awaits it may stand at either."""
    found = around(DRAINS.format("fetch"), 12, "batch").awaits
    assert [(each.kind, each.line, each.text) for each in found] == [
        ("fetch", 10, "self.drain(q)"),
        ("drain", 7, "queue.join()"),
    ]
    assert around(DRAINS.format("work"), 12, "batch").awaits == ()
    assert around(DRAINS.format("fetch"), 10, "fetch").awaits == ()
