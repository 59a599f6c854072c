"""What goes wrong in the training program: ranks that do not make the same calls."""

from gpudoctor.command import command
from gpudoctor.knowledge.hangs.cause import HangCause

TRAINING: tuple[HangCause, ...] = (
    HangCause(
        name="uneven-inputs",
        title="some ranks have fewer batches than others",
        stages=("training",),
        meaning="A rank whose data ends earlier leaves the loop, while the others wait for it in the all_reduce of "
        "their next step.",
        fix="Give all ranks the same number of batches: DistributedSampler, drop_last=True, equal shards of an "
        "iterable; or wrap the loop in torch.distributed.algorithms.join.Join.",
        confirm="Print len(loader), or count the steps, on every rank: the numbers differ.",
        source="torch documentation, Join and DistributedDataParallel",
    ),
    HangCause(
        name="rank0-only-collective",
        title="a collective is called on some ranks only",
        stages=("training", "end"),
        meaning="A barrier, a gathering state_dict or a logged metric stands under a condition such as rank == 0. "
        "Those that call it wait for those that never come.",
        fix="Call the collective on all ranks, and put only the writing or printing under the condition.",
        confirm="Compare the stacks: some ranks are in the collective under a branch that the others did not take.",
        source="torch documentation, collective functions; pytorch#88000",
    ),
    HangCause(
        name="rank-divergent-decision",
        title="the ranks decide differently",
        stages=("training",),
        meaning="Each rank decides by itself (early stop, save now, skip this step) from values that differ. They then "
        "go different ways and call different collectives.",
        fix="Decide on one rank and broadcast the decision, or all_reduce what it is made from.",
        confirm="Print the decision and its inputs on every rank.",
        source="reports in several public threads",
    ),
    HangCause(
        name="collective-order-mismatch",
        title="the ranks call collectives in different order",
        stages=("training",),
        meaning="Collectives are matched by their order in a group, not by what they are. Ranks that exchange two of "
        "them wait for each other, or mix their data.",
        fix="Call collectives in one order on all ranks: iterate sorted keys, not sets; one thread per group.",
        confirm="Start with TORCH_DISTRIBUTED_DEBUG=DETAIL, or compare flight-recorder dumps: the same number is "
        "another operation.",
        source="torch documentation, flight recorder and TORCH_DISTRIBUTED_DEBUG",
    ),
    HangCause(
        name="shape-mismatch",
        title="the ranks call one collective with different sizes or types",
        stages=("first collective", "training"),
        meaning="A collective needs the same size and type on all ranks. gloo ends with an error, and NCCL hangs or "
        "gives wrong sums without a word.",
        fix="Pad to the largest size, or gather the sizes first; make models and parameters equal on all ranks.",
        confirm="Print the shape and type before the collective on every rank, or compare flight-recorder dumps.",
        source="NCCL documentation, collective operations; nccl#1417",
    ),
    HangCause(
        name="rank-dependent-graph",
        title="the model runs other layers on some ranks",
        stages=("training",),
        meaning="A batch without one modality, expert or loss leaves out layers on one rank, so that its backward pass "
        "reduces other buckets than the others'.",
        fix="Run every layer on all ranks, with a dummy input times 0 where there is none.",
        confirm="Print per rank which branches a step takes; TORCH_DISTRIBUTED_DEBUG=DETAIL shows the reduction that "
        "differs.",
        source="torch documentation, DistributedDataParallel",
    ),
    HangCause(
        name="unused-parameters",
        title="parameters took no part in the loss",
        stages=("training",),
        meaning="DistributedDataParallel waits for the gradient of every parameter. One that the loss does not use "
        "never gets one: an error in the next step, or a wait where only some ranks skip it.",
        fix="Use all outputs in the loss, freeze what is not trained before wrapping, or pass "
        "find_unused_parameters=True.",
        commands=(command("export TORCH_DISTRIBUTED_DEBUG=INFO"),),
        confirm="With TORCH_DISTRIBUTED_DEBUG=INFO the error lists the parameters.",
        source="torch documentation, DistributedDataParallel; c10d reducer.cpp",
    ),
    HangCause(
        name="sampler-seed-mismatch",
        title="the ranks shuffle their data differently",
        stages=("training",),
        meaning="Samplers that shuffle by their own seed divide different lists. Counts of batches differ where they "
        "depend on the order (buckets by length), and samples are seen twice or never.",
        fix="Give all ranks the same seed for the sampler and call set_epoch; nothing unseeded may choose the order.",
        confirm="Print a hash of the epoch's list of indices on every rank, before it is divided.",
        source="torch DistributedSampler; LongLive#71, torchaudio#3068",
    ),
    HangCause(
        name="checkpoint-race",
        title="ranks write, move or delete the same checkpoint files",
        stages=("training",),
        meaning="Several ranks create or rename the same path on a shared file system. One finds it gone or already "
        "there and fails, and the others wait for it.",
        fix="Write on one rank, and let the others wait in a barrier; create folders with exist_ok=True.",
        confirm="The one traceback names a path that another rank handles in the same second.",
        source="reports in several public threads",
    ),
    HangCause(
        name="object-collective",
        title="a collective carries very large Python objects",
        stages=("training",),
        meaning="all_gather_object and its kind pickle on the CPU, pad to the largest object and copy through the "
        "device. Huge objects take minutes, and memory on every rank.",
        fix="Gather tensors instead of objects, gather on a gloo group, or make the objects smaller.",
        confirm="In a flight recorder a gather of one Long is followed by one of many million bytes.",
        source="torch distributed_c10d.py (all_gather_object)",
    ),
    HangCause(
        name="concurrent-communicators",
        title="collectives of several groups are in each other's way",
        stages=("training",),
        meaning="Two communicators on one GPU whose kernels start in different order on different ranks can each hold "
        "what the other needs.",
        fix="Use one group at a time in the same order on all ranks; NCCL 2.26 and later order them by "
        "NCCL_LAUNCH_ORDER_IMPLICIT=1.",
        commands=(command("export NCCL_LAUNCH_ORDER_IMPLICIT=1"),),
        confirm="With one stream, or a synchronize between the groups, the same job runs.",
        source="NCCL documentation, using multiple communicators concurrently",
    ),
    HangCause(
        name="p2p-order",
        title="sends and receives do not pair",
        stages=("training",),
        meaning="Two ranks send to each other, or receive from each other, in an order in which neither comes to the "
        "call that the other waits for.",
        fix="Put sends and receives of a step into one batch_isend_irecv, or order them by rank.",
        confirm="Pair the last send and recv of neighbouring ranks: each waits for a call that comes later.",
        source="torch and NCCL documentation of point-to-point communication; Megatron-LM#5240",
    ),
    HangCause(
        name="debug-wrapper-artifact",
        title="TORCH_DISTRIBUTED_DEBUG=DETAIL itself reports or hangs",
        stages=("rendezvous", "communicator", "first collective", "training"),
        meaning="The debugging wrapper adds collectives of its own on a gloo group. With some groups and barriers it "
        "sees mismatches that are none, or waits.",
        fix="Take it out, and use the flight recorder instead.",
        commands=(command("unset TORCH_DISTRIBUTED_DEBUG"),),
        confirm="Without the variable the same job runs.",
        source="torch ProcessGroupWrapper.cpp",
    ),
)
