"""Class, blame and restart of an exception or an error's text that no table knows: total, by what Python itself tells.

Where the class is what one cause alone is about, that is its id, else `program-error`; what a program does about a
missing file is not what it does about a tensor of the wrong shape. Asked in this order: the errno, by its number or by
the C library's words for it; the words of the message; the type's own name; the package that the type, then the frame
that raised it, is of; the words of which the type's name is made. What none of these tells is "exception".
"""

import builtins
import re
from collections.abc import Mapping

from gpudoctor.cause import Judged
from gpudoctor.causes import CAUSES
from gpudoctor.explain.by_shape import by_shape
from gpudoctor.explain.devices_apart import devices_apart, is_of_two_devices
from gpudoctor.explain.errnos import ERRNO, ERRNO_NAME, judged_words
from gpudoctor.explain.kinds import (
    ARGUMENT,
    CHECKPOINT,
    CONFIG,
    DATA,
    DIED,
    DOWNLOAD,
    FILE,
    GPU_MEMORY,
    IMPORT,
    LIMITS,
    MEMORY,
    MISMATCH,
    NAME,
    NAN,
    NO_DEVICE,
    NOBODY,
    OTHER,
    PERMISSION,
    RENDEZVOUS,
    SHAPE,
    TIMED_OUT,
    own,
)
from gpudoctor.explain.own_words import also_told, names, of_own_words, said, suggested, to_install
from gpudoctor.explain.statuses import judged_status
from gpudoctor.explain.told_by_place import (
    by_code,
    caller,
    is_of_a_package,
    is_of_settings,
    of_call,
    of_hugging_face,
    of_torch,
    variable_of,
)
from gpudoctor.explain.type_names import OF_NAME
from gpudoctor.fault_classes import Class
from gpudoctor.knowledge.superseded import arrived, dotted, refused, too_new
from gpudoctor.remedies import remedy_for

OF_CLASS: Mapping[Class, str] = {
    "gpu-memory": "gpu-out-of-memory",
    "host-memory": "host-out-of-memory",
    "shared-memory": "shm-too-small",
    "disk-full": "disk-full",
    "download": "download-failed",
    "import": "library-missing",
    "no-device": "no-gpu-visible",
    "illegal-access": "gpu-program-fault",
}
"""The causes that an exception of such a class has, whoever raised it and however it is worded."""
OF_TYPE: Mapping[str, Judged] = {
    "FileNotFoundError": FILE,
    "NotADirectoryError": FILE,
    "IsADirectoryError": FILE,
    "FileExistsError": FILE,
    "PermissionError": PERMISSION,
    "ImportError": IMPORT,
    "ModuleNotFoundError": IMPORT,
    "AssertionError": own("assertion"),
    "MemoryError": MEMORY,
    "OutOfMemoryError": GPU_MEMORY,
    "FloatingPointError": NAN,
    "ZeroDivisionError": ARGUMENT,
    "OverflowError": ARGUMENT,
    "UnicodeDecodeError": DATA,
    "UnicodeEncodeError": DATA,
    "JSONDecodeError": DATA,
    "ArrowInvalid": DATA,
    "UnidentifiedImageError": DATA,
    "DecompressionBombError": DATA,
    "BadZipFile": DATA,
    "BadGzipFile": DATA,
    "LZMAError": DATA,
    "ReadError": DATA,
    "ParserError": CONFIG,
    "EmptyDataError": DATA,
    "StopIteration": DATA,
    "UnpicklingError": CHECKPOINT,
    "PicklingError": ARGUMENT,
    "SafetensorError": CHECKPOINT,
    "CheckpointException": CHECKPOINT,
    "ValidationError": CONFIG,
    "ScannerError": CONFIG,
    "ConstructorError": CONFIG,
    "ComposerError": CONFIG,
    "ArgumentError": CONFIG,
    "MisconfigurationException": CONFIG,
    "gaierror": NAME,
    "herror": NAME,
    "NameResolutionError": NAME,
    "SSLError": own("download", "environment"),
    "SSLCertVerificationError": own("download", "environment"),
    "GatedRepoError": PERMISSION,
    "RepositoryNotFoundError": FILE,
    "RevisionNotFoundError": FILE,
    "EntryNotFoundError": FILE,
    "LocalEntryNotFoundError": DOWNLOAD,
    "HFValidationError": FILE,
    "OfflineModeIsEnabled": DOWNLOAD,
    "ConnectionRefusedError": NOBODY,
    "ConnectionResetError": NOBODY,
    "ConnectionAbortedError": NOBODY,
    "BrokenPipeError": NOBODY,
    "BrokenProcessPool": MEMORY,
    "SyntaxError": ARGUMENT,
    "IndentationError": ARGUMENT,
    "TabError": ARGUMENT,
    "NameError": ARGUMENT,
    "UnboundLocalError": ARGUMENT,
    "RecursionError": ARGUMENT,
    "NotImplementedError": ARGUMENT,
    "AttributeError": ARGUMENT,
    "TypeError": ARGUMENT,
    "ValueError": ARGUMENT,
    "KeyError": DATA,
    "IndexError": DATA,
    "CompilationError": own("dependency-mismatch", "environment"),
    "BackendCompilerFailed": own("dependency-mismatch", "environment"),
    **dict.fromkeys(("DistBackendError", "DistError"), OTHER),
    **dict.fromkeys(("DistNetworkError", "DistStoreError"), RENDEZVOUS),
    "ProcessExitedException": DIED,
    "OutOfResources": CONFIG,
    "Warning": CONFIG,
    "ArithmeticError": ARGUMENT,
    "LookupError": DATA,
    "UnicodeError": DATA,
    "EOFError": DATA,
    "BufferError": ARGUMENT,
    "ReferenceError": ARGUMENT,
    "BlockingIOError": LIMITS,
    "ChildProcessError": DIED,
    "ProcessLookupError": DIED,
    "KeyboardInterrupt": own("user-interrupt", "user", "as it is"),
    **dict.fromkeys(
        (
            *("InductorError", "LoweringException", "SubgraphLoweringException", "MissingOperatorWithoutDecomp"),
            *("MissingOperatorWithDecomp", "InvalidCxxCompiler", "CppCompileError", "CUDACompileError"),
            *("CppWrapperCodegenError", "TritonMissing", "GPUTooOldForTriton", "Unsupported", "TorchRuntimeError"),
            *("InternalTorchDynamoError", "RecompileError", "UncapturedHigherOrderOpError", "FailOnRecompileLimitHit"),
        ),
        own("dependency-mismatch", "environment"),
    ),
    **dict.fromkeys(("InvalidBackend", "ResetRequired"), CONFIG),
}
"""By the type's last name; torch's are those of torch/_inductor/exc.py and torch/_dynamo/exc.py. KeyError and
IndexError are mostly of what was read; TypeError and its like of a call."""


def _inherited(name: str) -> Judged | None:
    """Of a type of Python's own what its nearest ancestor is: a DeprecationWarning that was raised is a Warning."""
    kind = getattr(builtins, name, None)
    ancestors = kind.__mro__ if isinstance(kind, type) and issubclass(kind, BaseException) else ()
    return next((OF_TYPE[ancestor.__name__] for ancestor in ancestors if ancestor.__name__ in OF_TYPE), None)


SIZES = r"(?:\[\d{1,12}(?:, ?\d{1,12}){0,7},?\]|\(\d{1,12}(?:, ?\d{1,12}){0,7},?\))"
"""Sizes of a tensor, as torch and numpy write them: a message that names two of them, and a shape, is about shapes."""
OF_WORDS: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (re.compile(text), judged)
    for text, judged in (
        (r"\bRAY_memory_\w{3,40}|\bray-oom-prevention\b", MEMORY),
        (r"(?i)\b(?:cuda|gpu|device|hbm)\b[ -](?:memory )?allocation (?:has )?failed|"
         r"failed to allocate[^\n]{0,40}\b(?:device|gpu|cuda|hbm|vram)\b|"
         r"Attempting to (?:reserve|allocate) [\d.]+ ?[KMGT]i?B?\b[^\n]{0,60}\bnot possible|"
         r"\b(?:cudaErrorMemoryAllocation|hipErrorOutOfMemory|CUDA_ERROR_OUT_OF_MEMORY)\b", GPU_MEMORY),
        (r"(?i)(?:cuda|gpu|hip|cublas\w*|nccl)[^\n]{0,40}out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_"
         r"FAILED|No available memory for the cache blocks|KV cache[^\n]{0,80}(?:larger than|memory)|"
         r"Free memory on device|RESOURCE_EXHAUSTED", GPU_MEMORY),
        (r"(?i)uncorrectable ECC|fallen off the bus|\bGPU is lost\b", own("device-lost", "node", "elsewhere")),
        (r"Java heap space|runtime: out of memory|memory allocation of \d+ bytes failed|\bhost (?:out of )?memory\b|"
         r"DefaultCPUAllocator|can't allocate memory|Unable to allocate [\d.]+ [KMGTP]iB|std::bad_alloc", MEMORY),
        (r"(?i)error\(s\) in loading state_dict|size mismatch for |Missing key(?:\(s\)| in checkpoint)|"
         r"\bno (?:valid )?checkpoints? (?:found|was)|"
         r"PytorchStreamReader|"
         r"(?:checkpoint|safetensors|state_dict|pytorch_model)\b[^\n]{0,60}(?:not found|does not exist|"
         r"corrupt|missing)|"
         r"weights_only|Weights only load failed|invalid load key|HeaderTooLarge|InvalidHeader|"
         r"MetadataIncompleteBuffer|"
         r"unexpected EOF, expected \d+ more bytes|optimizer group|parameter group|"
         r"(?i:\b(?:load|restor|resum|sav)\w{1,4}\b[^\n]{0,30}\bcheckpoint|\bcheckpoint\b[^\n]{0,20}\b(?:load"
         r"|restor|sav)ed)",
         CHECKPOINT),
        (r"inline_container\.cc:\d+\]? ?\. unexpected pos|PytorchStreamWriter failed|write_end_of_file",
         own("disk-full", "node")),
        (r"(?i)\b(?:loss|grad\w*|gradient norm|logits|weights?)\b[^\n]{0,60}\b(?:nan|inf|non-?finite|not finite)\b|"
         r"\b(?:nan|non-?finite)\b[^\n]{0,60}\b(?:loss|grad\w*|values?)\b|probability tensor contains|returned nan "
         r"values|found invalid values:[^\0]{0,80}\bnan\b|loss scale already at minimum|\bloss scale\b[^\n]{0,40}"
         r"\bminimum\b|minimum loss scale", NAN),
        (r"(?i)\bworld[ _]?size\b[^\n]{0,40} divisible by|divisible by[^\n]{0,40}(?:parallel|world|batch_size)",
         CONFIG),
        (rf"\A(?![^\n]*\bconstraint\b)[^\n]*?(?i:shape|size|dimension)[^\n]{{0,80}}?{SIZES}[^\n]{{1,120}}?{SIZES}|"
         r"must match the size of tensor|shapes cannot be multiplied|size mismatch, |(?i:shape)[^\n]{0,40}(?:is )?"
         r"invalid for input|expected input\S{0,3} to have|Sizes of tensors must match|"
         r"to have \d+ channels|size\(-1\) must be|same shape|"
         r"not broadcastable|mat1 and mat2|The expanded size of the tensor|could not be broadcast"
         r"|inconsistent tensor "
         r"size|Expected input batch_size|Calculated padded input size|not divisible|Dimension out of range", SHAPE),
        (r"stack expects each tensor to be equal size|default_collate|each element in list of batch|"
         r"num_samples should be"
         r"|DataLoader worker (?:\(pid|process \d)|Target \d+ is out of bounds|"
         r"all elements of (?:input|target) should be between|"
         r"class values "
         r"must be|image file is truncated|broken data stream|cannot identify image|Truncated File Read", DATA),
        (r"(?i)device-side assert(?!ions)|illegal memory access", own("illegal-access")),
        (r"(?i)\border differs across ranks|\brank \d+ is \S[^\n]{0,120} while rank \d+ is ", own("divergence")),
        (r"retrieving ncclUniqueId from|setting up NCCL communicator", RENDEZVOUS),
        (r"(?i)\bno (?:cuda |nvidia )?gpus? (?:were |was )?(?:found|available|detected)", NO_DEVICE),
        (r"(?i:\blocal_rank\b[^\n]{0,60}\bdevice)|invalid device ordinal|deserialize object on CUDA device \d|"
         r"Expected a '?cuda'? device|"
         r"Invalid CUDA '?device", own("device-ordinal")),
        (r"No CUDA GPUs are available|(?i:cuda driver (?:can't|cannot|could not) be loaded)|"
         r"no NVIDIA driver|CUDA driver (?:version|initialization)|driver is too old",
         own("driver", "node")),
        (r"cannot import name '\w{1,80}' from '[\w.]{1,200}' \((?![^)\n]*(?:site|dist)-packages)[^)\n]{1,400}\)",
         IMPORT),
        (r"got an unexpected keyword argument|has no attribute|cannot import name|undefined symbol"
         r"|version [`']?GLIBC|"
         r"numpy\.dtype size changed|(?:was|were|been) compiled (?:against|using|with)|requires [\w-]+ ?[<>=]=|"
         r"incompatible with|is required for a normal functioning|untagged enum|Descriptors cannot|"
         r"(?:newer|older|different) version of|no kernel image|multiarray failed|_ARRAY_API not found|"
         r"does not recognize this architecture|operator \S+ does not exist"
         r"|Couldn't instantiate the backend tokenizer"
         r"|CUDA_HOME environment variable is not set|does not match the version|"
         r"mismatches the CUDA version|No matching distribution found|find a version that satisfies|[Uu]nsatisfiable|"
         r"ResolutionImpossible|unsupported GNU version", MISMATCH),
        (r"(?i)requires the \S+ library but it was not found|(?:please|try to)[^\n]{0,20} (?:pip )?install\b|is not "
         r"installed|\b\w+ is required to (?:build|compile|use|run)\b|"
         r"No module named|ensure you(?:'ve| have) installed", IMPORT),
        (r"inplace operation|ready (?:only once|twice)|backward through the graph a second|does not require grad"
         r"|leaf "
         r"Variable|start a new process before|re-initialize CUDA in forked|"
         r"(?i:can't pickle|cannot pickle|refusing to serialize)|Can't get local",
         ARGUMENT),
        (r"ancdata|(?i:pthread_create failed)|can't start new thread", LIMITS),
        (r"Watchdog caught collective operation timeout|NCCL operations have failed or timed out", TIMED_OUT),
        (r"communicator was aborted|Connection closed by peer \[", DIED),
        (r"[Ii]nput type \S[^\n]{0,80} and (?:weight|bias) type|unscale FP16 gradients|inf checks were "
         r"recorded", ARGUMENT),
        (r"to deserialize object on a CUDA device but", NO_DEVICE),
        (r"(?i:unable to find (?:an engine|a valid cuDNN algorithm))|doesn't have \w{2,8} built in|"
         r"not compatible with the current PyTorch", MISMATCH),
        (r"terminate called (?:without|after)", own("signal", "program", "not decided")),
        (r"expected scalar type|must have the same dtype|Found dtype|not implemented for '|expected m1 and m2 to have",
         ARGUMENT),
        (r"(?i)host key verification failed|permission denied \(|unauthorized|"
         r"\b40[13] client error|access denied|AccessDenied|gated repo|restricted and you are not|"
         r"must have access to it|must be authenticated|invalid (?:user )?token", PERMISSION),
        (r"(?i)\b(?:enough|insufficient|no available) (?:cluster )?resources\b|"
         r"\bresource requests?\b[^\n]{0,80}\bcannot be\b",
         own("scheduler", "scheduler", "not decided")),
        (r"(?i)not a valid model identifier|is not a local folder|\b404 client error|Repository Not Found|"
         r"Entry Not Found|"
         r"couldn't find (?:a |any )?(?:dataset|data file)|doesn't exist on the hub", FILE),
        (r"(?i)offline|couldn't connect to|max retries exceeded|connection error|429 client error"
         r"|\b50\d server error|"
         r"Too Many Requests|HTTPSConnectionPool|Read timed out", DOWNLOAD),
        (r"(?i)name resolution|getaddrinfo|nodename nor servname|Name or service not known|"
         r"No address associated|(?:can't|could not|cannot) resolve|does not resolve|NXDOMAIN", NAME),
        (r"(?i)no file named\b|do(?:es not|esn't) exist|unable to find\b[^\n]{0,60}\bfile|"
         r"not found in (?:the )?(?:\$?path|folder|director(?:y|ies)|[\"'`]?[~./\\])|file not found|"
         r"cannot find the (?:file|path)|is not a (?:file|directory)|"
         r"no (?:data|checkpoint|image|parquet|input)? ?files? (?:found|match)|cannot open shared object", FILE),
        (r"(?i)\bconfig\w*\b|(?:^|\s)--[a-z][\w-]+|\byaml\b|hyperparameter|must be divisible|train_batch_size|"
         r"set `[\w.]+`|\bTrainingArguments\b|unknown (?:option|argument|key)|max_model_len|"
         r"mutually exclusive", CONFIG),
        (r"(?i)\b(?:datasets?|samples?|(?:data|tar)[ _]?shards?|corrupt\w*|truncated|decod\w+|"
         r"malformed|archive|unexpected end of)\b",
         DATA),
        (r"(?i)out of memory|failed to allocate memory \[Op:", GPU_MEMORY),
    )
)  # fmt: skip
"""What a message says, the first that fits; asked where the type says little."""
SAYS_LITTLE = frozenset(
    {
        *("RuntimeError", "ValueError", "Exception", "OSError", "IOError", "TypeError", "AttributeError", "KeyError"),
        *("ImportError", "AssertionError", "HTTPError", "ConnectionError", "EnvironmentError", "NotImplementedError"),
        *("HfHubHTTPError", "TimeoutError", "DatasetGenerationError", "ValidationError", "DistBackendError"),
    }
)
OF_PROGRAMMING = frozenset({"TypeError", "AttributeError", "NameError", "NotImplementedError", "AssertionError"})
"""What a package raises of how it is called, whatever the package is for."""
OF_A_CALL = frozenset({"RuntimeError", "ValueError", "Exception"})
REFUSES = re.compile(
    r"(?i)\b(?:must|should|(?:can|may) only|cannot|can't|needs? to|ha(?:s|ve) to|expect(?:s|ed|ing)?|requires?|only|"
    r"(?:do(?:es)?n't|do(?:es)? not|did not|didn't) (?:support|match|have|take|accept|allow|contain)|"
    r"not (?:supported|allowed|permitted|implemented|needed|compatible)|unsupported|invalid|unexpected|unknown|already|"
    r"unrecognized|attempted to|mixed|duplicate|got)\b|\bno (?:\w{2,20} ){1,3}(?:for|associated with)\b|"
    r"\bbut \S{1,30} is None\b|\bbigger than\b"
)
"""How Python and torch word it (TORCH_CHECK, ValueError) that a call was given what it does not take."""
LONGEST_REFUSAL = 600
OTHERS_LINE = re.compile(r"\n(?=(?:\[\w{1,20}\]:)?\[?[WIEF](?:\d{4})? [\w.:]{4,40})")
"""A line of c10's or glog's log behind a message: another speaker's."""
OF_PACKAGE: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (re.compile(rf"(?:^|[/\\.])(?:{names})(?:[/\\.]|$)"), judged)
    for names, judged in (
        (r"omegaconf|hydra|pydantic|pydantic_core|yaml|jsonargparse|argparse|click|typer|absl|fire|"
         r"configparser|tomllib|"
         r"config|configuration|arguments|training_args|hf_argparser", CONFIG),
        (r"huggingface_hub|requests|urllib3|httpx|httpcore|aiohttp|botocore|boto3|s3fs|gcsfs|fsspec|urllib|google|"
         r"azure|minio|wandb|mlflow|http", DOWNLOAD),
        (r"safetensors|safetensors_rust|serialization|checkpoint|checkpointing|pickle|_pickle", CHECKPOINT),
        (r"PIL|cv2|av|decord|torchcodec|torchvision[/\\]io|torchaudio|soundfile|librosa|pyarrow|pandas|"
         r"webdataset|tarfile|"
         r"zipfile|gzip|lzma|zlib|h5py|json|csv|datasets|streaming|torch[/\\]utils[/\\]data|lmdb|tokenizers", DATA),
        (r"importlib|cpp_extension|pkg_resources|triton|_inductor|_dynamo", MISMATCH),
        (r"torch[/\\]cuda|pynvml", own("driver", "node")),
        (r"multiprocessing", LIMITS),
        (r"torch[/\\]nn|_tensor|torch[/\\]autograd|einops", ARGUMENT),
    )
)  # fmt: skip


def cause_of(judged: Judged) -> str:
    """The id of what an exception or an error's text of this class tells."""
    return OF_CLASS.get(judged.kind, "program-error")


def variant_of(
    cause: str,
    judged: Judged,
    type_name: str,
    message: str,
    *,
    alone: bool,
    raised_in: str = "",
    code: str = "",
    source: str = "",
) -> tuple[str, dict[str, str]]:
    """Which of the cause's fixes is one for this class and message, and values for it. `type_name`: of the exception;
    empty where none wrote it. `alone`: nothing in the log speaks of several ranks. `raised_in`, `code`: file and source
    of the innermost frame. `source`: of the innermost in the user's code."""
    remedied = remedy_for(type_name, message)
    if remedied and remedied[0].id in CAUSES[cause].variants:
        return remedied[0].id, {"told": suggested(message), **remedied[1]}
    if cause == "library-missing" and (package := to_install(message)):
        return "package", {"package": package}
    if cause != "program-error":
        return "", {}
    if known := refused(message, raised_in, code):
        return "superseded", {"name": known.name, "since": known.since, "today": known.whole}
    if name := too_new(message, raised_in):
        return "not-yet", {"name": name, "release": dotted(arrived(name) or ())}
    if variant := of_torch(type_name, message, code):
        return "torch-argument", variant
    if apart := devices_apart(message, alone=alone, source=source):
        return apart
    if lost := of_hugging_face(type_name, message, raised_in, code):
        return "lost-argument", lost
    if package := caller(type_name, message, raised_in, code):
        return "between-packages", {"package": package}
    if shown := by_code(type_name, message, code):
        return shown
    if variable := variable_of(type_name, message, raised_in):
        return "no-variable", {"name": variable}
    if call := of_call(type_name, message, raised_in):
        return call
    if own_words := of_own_words(judged.kind, message):
        return own_words
    generic = judged.kind if judged.kind in CAUSES[cause].variants else "alone" if alone else "at"
    return generic, {"told": also_told(message)}


def judged_message(message: str) -> Judged | None:
    """By the words of a message; None where they tell nothing."""
    if is_of_two_devices(message):
        return own("argument")
    return judged_status(message[:2000]) or next(
        (judged for words, judged in OF_WORDS if words.search(message[:2000])), None
    )


OF_SAMPLES = frozenset({"__getitem__", "__getitems__", "__iter__", "__next__", "collate_fn", "fetch"})
"""Functions in which a data set reads what it gives: a file there is no checkpoint."""


def judged_exception(
    type_name: str, message: str, raised_in: str = "", raised_by: str = "", called_by: str = "", code: str = ""
) -> Judged:
    """`type_name`: with its module, where that was written. `raised_in`, `raised_by`, `code`: file, function and source
    of the innermost frame. `called_by`: the function of the innermost in the user's code."""
    judged = _judged_exception(type_name, message, raised_in, raised_by)
    judged = by_shape(judged, type_name, message, raised_in, raised_by, called_by, code)
    return DATA if judged == CHECKPOINT and not OF_SAMPLES.isdisjoint((raised_by, called_by)) else judged


def _judged_exception(type_name: str, message: str, raised_in: str, raised_by: str) -> Judged:
    if (remedied := remedy_for(type_name, message)) and remedied[0].judged:
        return remedied[0].judged
    if caller(type_name, message, raised_in):
        return MISMATCH
    if variable_of(type_name, message, raised_in):
        return CONFIG
    module, _, name = type_name.rpartition(".")
    of_type = OF_TYPE.get(name) or _inherited(name)
    refused = REFUSES.search(message[:LONGEST_REFUSAL]) is not None and (
        name in OF_A_CALL or (name == "AssertionError" and is_of_a_package(raised_in))
    )
    if name in SAYS_LITTLE or of_type is None:
        message = OTHERS_LINE.split(message, maxsplit=1)[0]
        first = message.partition("\n")[0]
        if first and name in OF_PROGRAMMING:
            message = first
        verdict = ERRNO.search(first[:200]) and judged_words(first)
        verdict = (
            verdict or judged_words(first) or judged_message(first) or judged_words(message) or judged_message(message)
        )
        if (
            refused
            and verdict in (None, DATA)
            and is_of_settings(raised_in, raised_by, is_named=bool(names(said(message))))
        ):
            return CONFIG
        if verdict and not (name == "AssertionError" and verdict in (DATA, FILE)):
            return verdict
    elif (ERRNO.search(message[:200]) or ERRNO_NAME.search(message[:200])) and (known := judged_words(message[:200])):
        return known
    if of_type and not (name in SAYS_LITTLE and name not in ("AssertionError", "ImportError")) and not refused:
        return of_type
    package = next((judged for names, judged in OF_PACKAGE if names.search(module)), None)
    if package is None:
        package = next((judged for names, judged in OF_PACKAGE if names.search(raised_in)), None)
        if package is not CONFIG and (refused or name in OF_PROGRAMMING):
            package = None
    if package is not None:
        return package
    if refused:
        return ARGUMENT
    if of_type:
        return of_type
    return next((judged for words, judged in OF_NAME if words.search(name)), OTHER)
