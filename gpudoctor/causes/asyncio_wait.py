from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="asyncio-wait",
    title="an event loop waits for what never comes",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="deadlock",
    restart="after a fix",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "The rank runs an asyncio event loop that has nothing to do: the coroutine that is awaited waits for "
        "an event, a future or a queue that no task of the loop serves. The others wait for the rank."
    ),
    like=("service-no-answer",),
    fix=Fix(
        "Start every coroutine (asyncio.create_task, await), keep a reference to tasks, look at their "
        "exceptions, and put asyncio.wait_for(..., timeout) around waits. PYTHONASYNCIODEBUG=1 tells of "
        "coroutines that were never awaited."
    ),
    confirm=(
        "asyncio.all_tasks() of the loop shows who waits; Python 3.14's `python -m asyncio ps PID` shows it "
        "from outside."
    ),
    source="Python documentation of asyncio, Developing with asyncio",
)
