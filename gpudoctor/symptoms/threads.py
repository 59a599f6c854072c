"""What people and debuggers write of threads: who holds the GIL or a mutex, and dumps of stacks in a log.

A dump shows what every rank did at one moment. In a healthy job too most of them wait in a collective, so these are
context, and speak for a cause only together with others.
"""

from gpudoctor.symptom import LIKELY, POSSIBLE, Symptom

GIL = r"(?:GIL\b|global interpreter lock)"
COLLECTIVES = (
    r"(?:all_reduce|all_gather\w{0,24}|all_to_all\w{0,8}|reduce_scatter\w{0,8}|reduce|broadcast\w{0,16}|barrier|"
    r"monitored_barrier|gather\w{0,8}|scatter\w{0,16}|send\w{0,16}|recv\w{0,16}|batch_isend_irecv)"
)
PY_SPY = r"^\s{2,8}(?P<operation>{function}) \(\S{0,300}?{file}:(?P<line>\d+)\)"
FAULTHANDLER = r'^\s{2}File "[^"\n]{0,400}?{file}", line (?P<line>\d+) in (?P<operation>{function})$'


def frame(function: str, file: str) -> tuple[str, str]:
    """A frame as py-spy and as faulthandler write it."""
    spied, dumped = (text.replace("{function}", function).replace("{file}", file) for text in (PY_SPY, FAULTHANDLER))
    return spied, dumped


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "gil-held",
        pattern=rf"(?i:\b(?:holds?|holding|own(?:s|ing)?|acquired|takes|took|keeps?|has)\b[^\n]{{0,"
        rf"30}}?){GIL}[^\n]{{0,80}}?"
        r"(?i:\b(?:wait|block|stuck|synchroni[sz]e|sleep|spin|inside|in a call|in cuda|in nccl))",
        unless="could be triggered by another thread",
        cause="gil-deadlock",
        confidence=LIKELY,
        seen="a thread waits and keeps Python's lock meanwhile",
        source="Python C API, initialization, finalization and threads",
        sample=(
            "rank 4: MainThread is holding the GIL and is stuck in cudaEventSynchronize",
            "Thread 0x7f2 owns the GIL, blocked in hvd_wait (ops.cc)",
        ),
        counter=(
            "This typically indicates a NCCL/CUDA API hang blocking the watchdog, and could be triggered by another "
            "thread holding the GIL inside a CUDA api",
            "torch releases the GIL while it waits",
        ),
    ),
    Symptom(
        "gil-wanted",
        pattern=rf"(?i:\b(?:wait(?:s|ing)?|block(?:s|ed)|try(?:ing)|stuck)\b[^\n]{{0,40}}?\b(?:for|on|to "
        rf"(?:acquire|take|get|obtain|re-?acquire)|acquiring|taking)\b[^\n]{{0,20}}?){GIL}",
        unless="could be triggered by another thread",
        cause="gil-deadlock",
        confidence=LIKELY,
        seen="a thread waits for Python's lock",
        source="Python C API, initialization, finalization and threads",
        sample=(
            "rank 4: the watchdog thread is blocked trying to acquire the GIL in a destructor",
            "Thread 23 waiting for the global interpreter lock",
        ),
        counter=("this can be caused by GIL deadlock or other reasons", "no thread waits while the GIL is free"),
    ),
    Symptom(
        "gil-wanted-frame",
        pattern=r"^\s{0,8}(?:#\d+\s{1,4}|)(?:0x[0-9a-f]+ in )?(?P<function>take_gil|PyGILState_Ensure|"
        r"PyEval_RestoreThread|PyEval_AcquireThread)\b",
        cause="gil-deadlock",
        role="context",
        seen="a thread waits for Python's lock ({function})",
        source="CPython ceval_gil.c; gdb, pstack, py-spy --native",
        sample=(
            "#3  0x00007f2188123456 in take_gil (tstate=0x55d0) at ./Python/ceval_gil.c:298",
            "    PyGILState_Ensure (python3.11)",
        ),
        counter="the function PyGILState_Ensure is called by extensions",
    ),
    Symptom(
        "gil-owner",
        needle="+gil)",
        pattern=r"^Thread (?P<thread>\w+) \((?P<state>active|idle)\+gil\)(?:: \"(?P<name>[^\"\n]{0,80})\")?",
        role="context",
        seen="py-spy: thread {name} has Python's lock and is {state}",
        source="py-spy dump",
        sample='Thread 6177 (active+gil): "MainThread"',
        counter='Thread 6177 (idle): "MainThread"',
    ),
    Symptom(
        "stack-of-process",
        pattern=(
            r"^Python v(?P<version>\d\.\d{1,2}\.\S{1,12}) \(",
            r"^(?:Current thread|Thread) (?P<thread>0x[0-9a-f]+)(?: \[[^\]\n]{0,40}\])? \(most recent call first\)",
        ),
        role="context",
        seen="here begins a stack of a Python process",
        source="py-spy dump, Python faulthandler",
        sample=("Python v3.11.9 (/opt/venv/bin/python3.11)", "Current thread 0x00007f21aabb (most recent call first):"),
        counter="Traceback (most recent call last):",
    ),
    Symptom(
        "frame-collective",
        pattern=frame(COLLECTIVES, r"distributed_c10d\.py"),
        role="context",
        seen="a rank stands in {operation}",
        source="py-spy dump, Python faulthandler",
        sample=(
            "    all_reduce (torch/distributed/distributed_c10d.py:2810)",
            '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 4165 in '
            "barrier",
        ),
        counter='  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 4165, '
        "in barrier",
    ),
    Symptom(
        "frame-rendezvous",
        needle=("rendezvous.py", "distributed_c10d.py"),
        pattern=(
            *frame(
                r"_create_c10d_store|_create_tcp_store|_env_rendezvous_handler|_tcp_rendezvous_handler|next_rendezvous",
                r"rendezvous\.py",
            ),
            *frame(r"_store_based_barrier|init_process_group", r"distributed_c10d\.py"),
        ),
        role="context",
        seen="a rank stands in the rendezvous ({operation})",
        source="py-spy dump, Python faulthandler",
        sample=(
            "    _create_c10d_store (torch/distributed/rendezvous.py:189)",
            '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 1714 in '
            "init_process_group",
        ),
        counter="    barrier (torch/distributed/distributed_c10d.py:4165)",
    ),
    Symptom(
        "frame-loader",
        pattern=frame(r"_try_get_data|_get_data|_next_data|__next__", r"dataloader\.py"),
        cause="dataloader-fork-deadlock",
        role="context",
        seen="a rank waits for a batch ({operation})",
        source="py-spy dump, Python faulthandler",
        sample=(
            "    _try_get_data (torch/utils/data/dataloader.py:1275)",
            '  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1275 in '
            "_try_get_data",
        ),
        counter='  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1275, in '
        "_try_get_data",
    ),
    Symptom(
        "frame-destroy",
        needle=("distributed_c10d.py", "_exit_function"),
        pattern=(
            *frame(r"destroy_process_group|_shutdown_backend", r"distributed_c10d\.py"),
            *frame(r"_exit_function", r"util\.py"),
        ),
        cause="teardown-deadlock",
        role="context",
        seen="a rank is ending ({operation})",
        source="py-spy dump, Python faulthandler",
        sample=(
            "    destroy_process_group (torch/distributed/distributed_c10d.py:2168)",
            '  File "/usr/lib/python3.11/multiprocessing/util.py", line 360 in _exit_function',
        ),
        counter="    barrier (torch/distributed/distributed_c10d.py:4165)",
    ),
    Symptom(
        "frame-debugger",
        needle=("pdb.py", "bdb.py", "cmd.py"),
        pattern=frame(r"cmdloop|interaction|_cmdloop|dispatch_line|user_line|set_trace", r"(?:i?pdb|bdb|cmd)\.py"),
        cause="stopped-rank",
        role="context",
        confidence=POSSIBLE,
        seen="a rank stands in the Python debugger ({operation})",
        source="py-spy dump, Python faulthandler",
        sample=("    interaction (pdb.py:406)", '  File "/usr/lib/python3.11/cmd.py", line 126 in cmdloop'),
        counter="    main (mypdb.py:12)",
    ),
)
