from gpudoctor.cause import PROVED, Cause, Fix, Judged, Symptom, command

CAUSE = Cause(
    id="unused-parameters",
    title="parameters took no part in the loss",
    stages=("training",),
    kind="divergence",
    restart="after a fix",
    judged={
        "error": Judged("argument", "program", "after a fix"),
        "static-graph": Judged("argument", "program", "after a fix"),
    },
    hangs_by="disagreement",
    explains=("collective-order-mismatch", "shape-mismatch"),
    meaning=(
        "DistributedDataParallel waits for the gradient of every parameter. One that the loss does not use "
        "never gets one: an error in the next step, or a wait where only some ranks skip it."
    ),
    like=("rank-dependent-graph",),
    fix=Fix(
        "Use all outputs in the loss, freeze what is not trained before wrapping, or pass find_unused_parameters=True.",
        (command("export TORCH_DISTRIBUTED_DEBUG=INFO"),),
    ),
    variants={
        "error": (
            "Use all outputs in the loss, freeze before wrapping what is not trained, or pass "
            "find_unused_parameters=True."
        ),
        "static-graph": (
            "Take static_graph=True out and pass find_unused_parameters=True, or use the same parameters in every step."
        ),
    },
    confirm=("With TORCH_DISTRIBUTED_DEBUG=INFO the error lists the parameters."),
    symptoms=(
        Symptom(
            "parameters-unused",
            needle="Expected to have finished reduction in the prior iteration",
            variant="error",
            confidence=PROVED,
            seen="parameters took no part in the loss of the step before",
            source="torch c10d/reducer.cpp",
            sample="RuntimeError: Expected to have finished reduction in the prior iteration before starting a new "
            "one. This error indicates that your module has parameters that were not used in producing loss.",
            counter="find_unused_parameters=True was specified in DDP constructor, but did not find any unused "
            "parameters in the forward pass.",
        ),
        Symptom(
            "parameters-without-gradient",
            pattern=r"Parameter(?:s| indices) which did not receive grad for rank (?P<rank>\d+): "
            r"(?P<parameters>[^\n]{0,200})",
            seen="on rank {rank} these parameters got no gradient: {parameters}",
            source="torch c10d/reducer.cpp",
            sample=(
                "Parameter indices which did not receive grad for rank 3: 12 13 20",
                "Parameters which did not receive grad for rank 1: head.adapter.weight, head.adapter.bias",
            ),
            counter="rank 3 did receive grad",
        ),
        Symptom(
            "graph-changed",
            needle="Your training graph has changed in this iteration",
            variant="static-graph",
            seen="the parameters that the loss uses are others than in the first step, though static_graph=True",
            source="torch c10d/reducer.cpp",
            sample="RuntimeError: Your training graph has changed in this iteration, e.g., one parameter is unused in "
            "first iteration, but then got used in the second iteration.",
            counter="Your training graph is static.",
        ),
    ),
    source=("torch documentation, DistributedDataParallel; c10d reducer.cpp"),
)
