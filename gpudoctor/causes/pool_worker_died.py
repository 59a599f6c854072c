from gpudoctor.cause import Cause, Fix

CAUSE = Cause(
    id="pool-worker-died",
    title="a worker of a process pool has died with its task",
    stages=("rendezvous", "communicator", "first collective", "training", "end"),
    kind="dead-rank",
    restart="after a fix",
    hangs_by="elsewhere",
    may_pass=True,
    meaning=(
        "multiprocessing.Pool replaces a worker that was killed and forgets the task that it had, so map and "
        "get never return. The rank waits for that result, and the others for the rank."
    ),
    like=(
        "child-process-wait",
        "host-out-of-memory",
    ),
    fix=Fix(
        "Find what has killed the worker (memory, a crash in native code), and use "
        "concurrent.futures.ProcessPoolExecutor, which raises BrokenProcessPool, or get(timeout=...)."
    ),
    confirm="All workers of the pool wait for tasks, and one of them is younger than the pool.",
    source="Python documentation of multiprocessing.pool and concurrent.futures; cpython#66587",
)
