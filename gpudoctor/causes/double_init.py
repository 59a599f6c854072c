from gpudoctor.cause import PROVED, Cause, Fix, Symptom

CAUSE = Cause(
    id="double-init",
    title="the process group is initialised twice",
    stages=("rendezvous",),
    kind="rendezvous",
    restart="after a fix",
    hangs_by="start",
    meaning=(
        "A library and the script both set up torch.distributed, or a private store is opened on the port of "
        "the launcher's. The second one waits for ranks that have joined already."
    ),
    like=("launcher-world-mismatch",),
    fix=Fix(
        "Initialise once, before the library does, and guard by torch.distributed.is_initialized(). Give a store "
        "of your own another port."
    ),
    variants={
        "own store": (
            "Initialise once, and from torchrun's own variables: dist.init_process_group(backend) without "
            "init_method, rank and world_size. Where a library does it, initialise before the library or "
            "let only the library do it. Where two stores are wanted, take the variable out before the "
            "second: os.environ.pop('TORCHELASTIC_USE_AGENT_STORE', None)."
        ),
        "twice": (
            "Initialise once a process, and in no child of a rank: a child inherits RANK and MASTER_PORT "
            "and joins as a rank that is there already. Start children with these variables taken out."
        ),
    },
    confirm=(
        "Look at the stacks: init_process_group stands below a library's frame on some ranks and below the "
        "script's on others, or a second time in one process."
    ),
    symptoms=(
        Symptom(
            "initialised-twice",
            needle="initialize the default process group twice",
            confidence=PROVED,
            seen="the default process group was initialised a second time",
            source="torch distributed_c10d.py (init_process_group)",
            sample="ValueError: trying to initialize the default process group twice!",
            counter="Default process group has not been initialized, call init_process_group.",
        ),
    ),
    source=("torch distributed_c10d.py (init_process_group), rendezvous.py (TORCHELASTIC_USE_AGENT_STORE)"),
)
