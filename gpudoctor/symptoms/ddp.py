"""DistributedDataParallel, collectives under TORCH_DISTRIBUTED_DEBUG, and devices that were not chosen."""

from gpudoctor.symptom import LIKELY, POSSIBLE, Symptom

FINGERPRINT = r"CollectiveFingerPrint\((?:SequenceNumber=(?P<sequence>\d+), ?)?OpType=(?P<operation>\w+)\b"
OTHER = r"CollectiveFingerPrint\((?:SequenceNumber=(?P<other_sequence>\d+), ?)?OpType="
MISMATCH = r"mismatch between collectives on ranks\. Rank (?P<rank>\d+) is running collective: "
BUT = r"[^\n]{0,600}?but Rank (?P<other>\d+) is running collective: "
DETAIL = "RuntimeError: Detected mismatch between collectives on ranks. "
OPTIONS = (
    "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu, layout=Strided (default)))"
)

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "fingerprint-operation",
        needle="mismatch between collectives on ranks",
        pattern=MISMATCH + FINGERPRINT + BUT + OTHER + r"(?!(?P=operation)\b)(?P<other_operation>\w+)",
        cause="collective-order-mismatch",
        seen="rank {rank} calls {operation} while rank {other} calls {other_operation}",
        versions="torch >= 1.9, with TORCH_DISTRIBUTED_DEBUG=DETAIL",
        source="torch ProcessGroupWrapper.cpp",
        sample=DETAIL + "Rank 2 is running collective: CollectiveFingerPrint(SequenceNumber=41, OpType=ALLREDUCE, "
        "TensorShape=[512], "
        + OPTIONS
        + ", but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=41, "
        "OpType=BROADCAST, TensorShape=[512], " + OPTIONS + ".Collectives differ in the following aspects: \t Op type",
        counter=DETAIL
        + "Rank 2 is running collective: CollectiveFingerPrint(OpType=ALLREDUCE, TensorShape=[512], "
        + OPTIONS
        + ", but Rank 0 is running collective: CollectiveFingerPrint(OpType=ALLREDUCE, TensorShape=[1])",
    ),
    Symptom(
        "fingerprint-shape",
        needle="mismatch between collectives on ranks",
        pattern=MISMATCH
        + FINGERPRINT
        + r", ?TensorShape=\[(?P<size>[\d, ]{0,120})\]"
        + BUT
        + OTHER
        + r"(?P=operation), ?TensorShape=\[(?!(?P=size)\])(?P<other_size>[\d, ]{0,120})\]",
        cause="shape-mismatch",
        seen="{operation} has shape [{size}] on rank {rank} and [{other_size}] on rank {other}",
        versions="torch >= 1.9, with TORCH_DISTRIBUTED_DEBUG=DETAIL",
        source="torch ProcessGroupWrapper.cpp",
        sample=DETAIL + "Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE, "
        "TensorShape=[96], " + OPTIONS + ", but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=7, "
        "OpType=ALLREDUCE, TensorShape=[64], " + OPTIONS,
        counter=DETAIL
        + "Rank 1 is running collective: CollectiveFingerPrint(OpType=ALLREDUCE, TensorShape=[96], "
        + OPTIONS
        + ", but Rank 0 is running collective: CollectiveFingerPrint(OpType=ALLREDUCE, TensorShape=[96], x)",
    ),
    Symptom(
        "fingerprint",
        pattern=r"mismatch between collectives on ranks\. Rank (?P<rank>\d+) is running (?![^\n]{0,900}?but Rank \d+ "
        r"is running collective: CollectiveFingerPrint\([^\n)]{0,60}OpType=\w+, ?TensorShape=)",
        cause="collective-order-mismatch",
        confidence=LIKELY,
        seen="rank {rank} and another rank are in different collectives",
        versions="torch >= 1.9, with TORCH_DISTRIBUTED_DEBUG=DETAIL",
        source="torch ProcessGroupWrapper.cpp",
        sample=DETAIL
        + "Rank 3 is running collective: CollectiveFingerPrint(SequenceNumber=18, OpType=BARRIER), but Rank 0 "
        "is running collective: CollectiveFingerPrint(SequenceNumber=19, OpType=BARRIER).",
        counter=DETAIL
        + "Rank 1 is running collective: CollectiveFingerPrint(OpType=ALLREDUCE, TensorShape=[96], x), but "
        "Rank 0 is running collective: CollectiveFingerPrint(OpType=ALLREDUCE, TensorShape=[64], x)",
    ),
    Symptom(
        "ddp-parameter-counts-differ",
        pattern=r"DDP expects same model across all ranks, but Rank (?P<rank>\d+) has (?P<count>\d+) params, while "
        r"rank (?P<other>\d+) has inconsistent (?P<other_count>[1-9]\d*) params",
        cause="shape-mismatch",
        variant="model",
        seen="the model has {count} parameters on rank {rank} and {other_count} on rank {other}",
        versions="torch >= 1.9",
        source="torch c10d/reducer.cpp (verify_params_across_processes)",
        sample="RuntimeError: DDP expects same model across all ranks, but Rank 2 has 148 params, while rank 0 has "
        "inconsistent 150 params.",
        counter="DDP expects the same loss",
    ),
    Symptom(
        "ddp-exchange-failed",
        pattern=r"DDP expects same model across all ranks, but Rank (?P<rank>\d+) has (?P<count>[1-9]\d*) params, "
        r"while rank (?P<other>\d+) has inconsistent 0 params",
        cause="p2p-acs-iommu",
        variant="zeros",
        confidence=POSSIBLE,
        seen="rank {rank} got zeros from rank {other} instead of its number of parameters: the exchange itself failed",
        versions="torch >= 1.9",
        source="torch c10d/reducer.cpp (verify_params_across_processes): the sizes come by an all_gather",
        sample="RuntimeError: DDP expects same model across all ranks, but Rank 1 has 148 params, while rank 0 has "
        "inconsistent 0 params.",
        counter="RuntimeError: DDP expects same model across all ranks, but Rank 2 has 148 params, while rank 0 has "
        "inconsistent 150 params.",
    ),
    Symptom(
        "ddp-parameter-sizes-differ",
        pattern=r"\[(?P<rank>\d+)\]: params\[(?P<parameter>\d+)\] in this process with (?:sizes|strides) "
        r"\[(?P<size>[\d, ]{0,80})\] appears not to match (?:sizes|strides) of the same param in process 0",
        cause="shape-mismatch",
        variant="model",
        seen="parameter {parameter} of the model has the shape [{size}] on rank {rank}, and another on rank 0",
        versions="torch >= 1.9",
        source="torch c10d/reducer.cpp (verify_params_across_processes)",
        sample="RuntimeError: [2]: params[5] in this process with sizes [32001, 768] appears not to match sizes of the "
        "same param in process 0.",
        counter="[2]: params[5] in this process with sizes [32001, 768]",
    ),
    Symptom(
        "device-guessed",
        needle=(
            "devices used by this process are currently unknown",
            "Guessing device ID based on global rank",
            "using the device under current context",
        ),
        pattern=r"(?:Rank (?P<rank>\d+)\]?\s{1,3})?(?:using (?:best-guess )?(?:GPU|MLU|XPU|NPU) (?P<gpu>\d+) to "
        r"perform barrier|Guessing device ID based on global rank|barrier\(\): using the device under current context)",
        cause="device-not-set",
        role="context",
        confidence=POSSIBLE,
        seen="torch guessed which GPU a rank uses, for a barrier",
        source="torch ProcessGroupNCCL.cpp (guessDeviceForRank)",
        sample=(
            "[rank4]:[W819 11:40:01.52 ProcessGroupNCCL.cpp:4843] [PG ID 0 PG GUID 0 Rank 4]  using GPU 0 to perform "
            "barrier as devices used by this process are currently unknown. This can potentially cause a hang if this "
            "rank to GPU mapping is incorrect.",
            "[rank1]:[W1 ProcessGroupNCCL.cpp:5072] Guessing device ID based on global rank. This can cause a hang if "
            "rank to GPU mapping is heterogeneous.",
        ),
        counter="using GPU 3 for rank 3",
    ),
    Symptom(
        "module-on-wrong-device",
        needle=(
            "device_ids and output_device arguments only work with",
            "input module must be on the same type of devices",
        ),
        cause="device-not-set",
        variant="model",
        confidence=LIKELY,
        seen="the model lies on another device than the one that DistributedDataParallel was told",
        source="torch nn/parallel/distributed.py",
        sample="ValueError: DistributedDataParallel device_ids and output_device arguments only work with "
        "single-device/multiple-device GPU modules or CPU modules, but got device_ids [1], output_device 1, and module "
        "parameters {device(type='cpu')}.",
        counter="moving the module to device cuda:1",
    ),
    Symptom(
        "cpu-tensor-in-collective",
        needle=("No backend type associated with device type cpu", "Tensors must be CUDA and dense"),
        cause="program-error",
        variant="cpu-tensor",
        seen="a tensor on the CPU was given to a collective of NCCL",
        source="torch distributed_c10d.py, ProcessGroupNCCL.cpp",
        sample="RuntimeError: No backend type associated with device type cpu",
        counter="backend type cpu:gloo,cuda:nccl",
    ),
    Symptom(
        "device-ordinal-beyond",
        needle=("CUDA error: invalid device ordinal", "HIP error: invalid device ordinal"),
        cause="duplicate-gpu",
        variant="beyond",
        confidence=LIKELY,
        seen="a process asked for a GPU that it does not see",
        source="CUDA's error texts (cudaErrorInvalidDevice)",
        sample=("RuntimeError: CUDA error: invalid device ordinal", "RuntimeError: HIP error: invalid device ordinal"),
        counter="CUDA error: invalid argument",
    ),
    Symptom(
        "debug-detail-on",
        pattern=r"TORCH_DISTRIBUTED_DEBUG\W{1,4}DETAIL\b",
        cause="debug-wrapper-artifact",
        role="context",
        seen="TORCH_DISTRIBUTED_DEBUG=DETAIL is on, which adds collectives of its own",
        source="torch ProcessGroupWrapper.cpp",
        sample="TORCH_DISTRIBUTED_DEBUG=DETAIL",
        counter="export TORCH_DISTRIBUTED_DEBUG=INFO",
    ),
    Symptom(
        "launch-blocking-on",
        pattern=r"\bCUDA_LAUNCH_BLOCKING\W{1,4}1\b",
        unless="consider passing",
        cause="launch-blocking-env",
        role="context",
        seen="CUDA_LAUNCH_BLOCKING=1 is set",
        source="CUDA programming guide",
        sample="export CUDA_LAUNCH_BLOCKING=1",
        counter="For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    ),
)
