"""Class, blame and restart of an exception or an error's text that no table knows: total, by what Python itself tells.

Where the class is what one cause alone is about, that is its id, else `program-error`; what a program does about a
missing file is not what it does about a tensor of the wrong shape. Asked in this order: the errno, by its number or by
the C library's words for it; the words of the message; the type's own name; the package that the type, then the frame
that raised it, is of; the words of which the type's name is made. What none of these tells is "exception".
"""

import builtins
import errno
import os
import re
from collections.abc import Mapping
from functools import cache

from gpudoctor.cause import Blame, Class, Judged, Restart
from gpudoctor.causes import CAUSES

AFTER: Restart = "after a fix"


def _own(kind: Class, blame: Blame = "program", restart: Restart = AFTER) -> Judged:
    return Judged(kind, blame, restart)


OTHER = _own("exception")
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
FILE, PERMISSION, IMPORT = (
    _own("file-missing", "environment"),
    _own("permission", "environment"),
    _own("import", "environment"),
)
CONFIG, DATA, ARGUMENT = _own("config", "user"), _own("data"), _own("argument")
CHECKPOINT, MISMATCH = _own("checkpoint"), _own("dependency-mismatch", "environment")
DOWNLOAD, STORAGE = _own("download", "environment", "not decided"), _own("storage", "node", "not decided")
MEMORY, GPU_MEMORY = _own("host-memory"), _own("gpu-memory")
ROUTE, LIMITS, NAN = _own("route", "fabric", "not decided"), _own("limits", "environment"), _own("nan")
OF_LOADER = "cannot open shared object file"
"""ld.so's words, in front of the errno's: a library is missing, and not a file of the program's."""
SHARED_MEMORY = _own("shared-memory", "environment")
TIMED_OUT, DIED = _own("nccl-timeout", restart="not decided"), _own("dead-rank", restart="not decided")
NAME, SHAPE = _own("name-resolution", "environment"), _own("shape")
NOBODY = _own("route", "environment", "not decided")
"""Where nobody listens: the other end has died, or is another one."""
OF_TYPE: Mapping[str, Judged] = {
    "FileNotFoundError": FILE,
    "NotADirectoryError": FILE,
    "IsADirectoryError": FILE,
    "FileExistsError": FILE,
    "PermissionError": PERMISSION,
    "ImportError": IMPORT,
    "ModuleNotFoundError": IMPORT,
    "AssertionError": _own("assertion"),
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
    "SSLError": _own("download", "environment"),
    "SSLCertVerificationError": _own("download", "environment"),
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
    "CompilationError": _own("dependency-mismatch", "environment"),
    "BackendCompilerFailed": _own("dependency-mismatch", "environment"),
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
    "KeyboardInterrupt": _own("user-interrupt", "user", "as it is"),
    **dict.fromkeys(
        (
            *("InductorError", "LoweringException", "SubgraphLoweringException", "MissingOperatorWithoutDecomp"),
            *("MissingOperatorWithDecomp", "InvalidCxxCompiler", "CppCompileError", "CUDACompileError"),
            *("CppWrapperCodegenError", "TritonMissing", "GPUTooOldForTriton", "Unsupported", "TorchRuntimeError"),
            *("InternalTorchDynamoError", "RecompileError", "UncapturedHigherOrderOpError", "FailOnRecompileLimitHit"),
        ),
        _own("dependency-mismatch", "environment"),
    ),
    **dict.fromkeys(("InvalidBackend", "ResetRequired"), CONFIG),
}
"""By the type's last name; torch's are those of torch/_inductor/exc.py and torch/_dynamo/exc.py. KeyError and
IndexError are mostly of what was read; TypeError and its like of a call."""


def _inherited(name: str) -> Judged | None:
    """Of a type of Python's own what its nearest ancestor is: a DeprecationWarning that was raised is a Warning."""
    kind = getattr(builtins, name, None)
    ancestors = kind.__mro__ if isinstance(kind, type) and issubclass(kind, BaseException) else ()
    return next((OF_TYPE[each.__name__] for each in ancestors if each.__name__ in OF_TYPE), None)


OF_ERRNO: Mapping[int, Judged] = {
    errno.ENOENT: FILE,
    errno.ENOTDIR: FILE,
    errno.EISDIR: FILE,
    errno.EEXIST: FILE,
    errno.ENOEXEC: MISMATCH,
    errno.ENAMETOOLONG: ARGUMENT,
    errno.E2BIG: ARGUMENT,
    errno.ETXTBSY: FILE,
    errno.EACCES: PERMISSION,
    errno.EPERM: PERMISSION,
    errno.EROFS: STORAGE,
    errno.ENOSPC: _own("disk-full", "node"),
    errno.EDQUOT: _own("quota", "environment"),
    errno.EFBIG: LIMITS,
    errno.ENOMEM: MEMORY,
    errno.EMFILE: LIMITS,
    errno.ENFILE: _own("limits", "node"),
    errno.EAGAIN: LIMITS,
    errno.EADDRINUSE: _own("port", "environment"),
    errno.EADDRNOTAVAIL: _own("route", "environment"),
    errno.ENETUNREACH: _own("route", "environment"),
    errno.ENETDOWN: ROUTE,
    errno.EHOSTUNREACH: ROUTE,
    errno.EHOSTDOWN: ROUTE,
    errno.ECONNREFUSED: NOBODY,
    errno.ETIMEDOUT: ROUTE,
    errno.EIO: STORAGE,
    errno.ESTALE: STORAGE,
    errno.ENOTCONN: STORAGE,
    errno.EREMOTEIO: STORAGE,
    errno.EUCLEAN: STORAGE,
}
ERRNO = re.compile(r"\[Errno (\d{1,3})\]|\(os error (\d{1,3})\)|\berrno:? ?=? ?(\d{1,3})\b")
"""Python's, Rust's (safetensors, tokenizers), and what C programs print."""
OF_WORDS: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (re.compile(text), judged)
    for text, judged in (
        (r"(?i)(?:cuda|gpu|hip|cublas\w*|nccl)[^\n]{0,40}out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_"
         r"FAILED|No available memory for the cache blocks|KV cache[^\n]{0,80}(?:larger than|memory)|"
         r"Free memory on device|RESOURCE_EXHAUSTED", GPU_MEMORY),
        (r"DefaultCPUAllocator|can't allocate memory|Unable to allocate [\d.]+ [KMGTP]iB|std::bad_alloc", MEMORY),
        (r"(?i)error\(s\) in loading state_dict|size mismatch for |Missing key\(s\)|PytorchStreamReader|"
         r"(?:checkpoint|safetensors|state_dict|pytorch_model)\b[^\n]{0,60}(?:not found|does not exist|"
         r"corrupt|missing)|"
         r"weights_only|Weights only load failed|invalid load key|HeaderTooLarge|InvalidHeader|"
         r"MetadataIncompleteBuffer|"
         r"unexpected EOF, expected \d+ more bytes|optimizer group|parameter group|"
         r"(?i:\b(?:load|restor|resum|sav)\w{1,4}\b[^\n]{0,30}\bcheckpoint|\bcheckpoint\b[^\n]{0,20}\b(?:load|restor|sav)ed)",
         CHECKPOINT),
        (r"inline_container\.cc:\d+\]? ?\. unexpected pos|PytorchStreamWriter failed|write_end_of_file",
         _own("disk-full", "node")),
        (r"(?i)\b(?:loss|grad\w*|gradient norm|logits|weights?)\b[^\n]{0,60}\b(?:nan|inf|non-?finite|not finite)\b|"
         r"\b(?:nan|non-?finite)\b[^\n]{0,60}\b(?:loss|grad\w*|values?)\b|probability tensor contains|returned nan "
         r"values|found invalid values:[^\0]{0,80}\bnan\b|loss scale already at minimum|\bloss scale\b[^\n]{0,40}"
         r"\bminimum\b|minimum loss scale", NAN),
        (r"must match the size of tensor|shapes cannot be multiplied|size mismatch, |(?i:shape)[^\n]{0,40}(?:is )?"
         r"invalid for input|expected input\S{0,3} to have|Sizes of tensors must match|"
         r"not broadcastable|mat1 and mat2|The expanded size of the tensor|could not be broadcast|inconsistent tensor "
         r"size|Expected input batch_size|Calculated padded input size|not divisible|Dimension out of range", SHAPE),
        (r"stack expects each tensor to be equal size|default_collate|each element in list of batch|"
         r"num_samples should be"
         r"|DataLoader worker|Target \d+ is out of bounds|all elements of (?:input|target) should be between|"
         r"class values "
         r"must be|image file is truncated|broken data stream|cannot identify image|Truncated File Read", DATA),
        (r"(?i)device-side assert|illegal memory access", _own("illegal-access")),
        (r"Expected all tensors to be on the same device|invalid device ordinal|deserialize object on CUDA device \d|"
         r"Expected a '?cuda'? device|"
         r"Invalid CUDA '?device", _own("device-ordinal")),
        (r"No CUDA GPUs are available|no NVIDIA driver|CUDA driver (?:version|initialization)|driver is too old",
         _own("driver", "node")),
        (r"got an unexpected keyword argument|has no attribute|cannot import name|undefined symbol|version [`']?GLIBC|"
         r"numpy\.dtype size changed|(?:was|were|been) compiled (?:against|using|with)|requires [\w-]+ ?[<>=]=|"
         r"incompatible with|is required for a normal functioning|untagged enum|Descriptors cannot|"
         r"(?:newer|older|different) version of|no kernel image|multiarray failed|_ARRAY_API not found|"
         r"does not recognize this architecture|operator \S+ does not exist|Couldn't instantiate the backend tokenizer"
         r"|CUDA_HOME environment variable is not set|does not match the version|"
         r"mismatches the CUDA version|No matching distribution found|find a version that satisfies|[Uu]nsatisfiable|"
         r"ResolutionImpossible|unsupported GNU version", MISMATCH),
        (r"(?i)requires the \S+ library but it was not found|(?:please|try to)[^\n]{0,20} (?:pip )?install\b|is not "
         r"installed|No module named|ensure you(?:'ve| have) installed", IMPORT),
        (r"inplace operation|ready (?:only once|twice)|backward through the graph a second|does not require grad|leaf "
         r"Variable|start a new process before|re-initialize CUDA in forked|Can't pickle|cannot pickle|Can't get local",
         ARGUMENT),
        (r"ancdata|(?i:pthread_create failed)|can't start new thread", LIMITS),
        (r"Watchdog caught collective operation timeout|NCCL operations have failed or timed out", TIMED_OUT),
        (r"communicator was aborted|Connection closed by peer \[", DIED),
        (r"[Ii]nput type \S[^\n]{0,80} and (?:weight|bias) type|unscale FP16 gradients|inf checks were "
         r"recorded", ARGUMENT),
        (r"to deserialize object on a CUDA device but", _own("no-device", "environment")),
        (r"unable to find an engine to execute|not compatible with the current PyTorch", MISMATCH),
        (r"terminate called (?:without|after)", _own("signal", "program", "not decided")),
        (r"expected scalar type|must have the same dtype|Found dtype|not implemented for '|expected m1 and m2 to have",
         ARGUMENT),
        (r"(?i)host key verification failed|permission denied \(|unauthorized|"
         r"\b40[13] client error|access denied|AccessDenied|gated repo|restricted and you are not|"
         r"must have access to it|must be authenticated|invalid (?:user )?token", PERMISSION),
        (r"(?i)not a valid model identifier|is not a local folder|\b404 client error|Repository Not Found|"
         r"Entry Not Found|"
         r"couldn't find (?:a |any )?(?:dataset|data file)|doesn't exist on the hub", FILE),
        (r"(?i)offline|couldn't connect to|max retries exceeded|connection error|429 client error|\b50\d server error|"
         r"Too Many Requests|HTTPSConnectionPool|Read timed out", DOWNLOAD),
        (r"(?i)name resolution|getaddrinfo|nodename nor servname|Name or service not known|"
         r"No address associated|(?:can't|could not|cannot) resolve|does not resolve|NXDOMAIN", NAME),
        (r"(?i)does not exist|not found in|file not found|cannot find the (?:file|path)|is not a (?:file|directory)|"
         r"no (?:data|checkpoint|image|parquet|input)? ?files? (?:found|match)|cannot open shared object", FILE),
        (r"(?i)\bconfig\w*\b|(?:^|\s)--[a-z][\w-]+|\byaml\b|hyperparameter|must be divisible|train_batch_size|"
         r"set `[\w.]+`|\bTrainingArguments\b|is not supported|unknown (?:option|argument|key)|max_model_len|"
         r"mutually exclusive", CONFIG),
        (r"(?i)\b(?:datasets?|samples?|shards?|corrupt\w*|truncated|decod\w+|malformed|archive|unexpected end of)\b",
         DATA),
        (r"(?i)out of memory", GPU_MEMORY),
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
OF_SHARED_MEMORY = re.compile(
    r"(?i)unable to (?:write to file|open shared memory|mmap \d+ bytes)[^\n]{0,80}(?:torch_|/dev/shm)|shm_open|"
    r"shared memory \(shm\)|out of shared memory"
)
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
        (r"torch[/\\]cuda|nvidia|pynvml", _own("driver", "node")),
        (r"multiprocessing", LIMITS),
        (r"torch[/\\]nn|_tensor|torch[/\\]autograd|einops", ARGUMENT),
    )
)  # fmt: skip
OF_NAME: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (re.compile(text), judged)
    for text, judged in (
        (r"OutOfMemory|OOM", GPU_MEMORY),
        (r"Config|Argument|Option|Usage|Validation|Setting|Missing(?:Mandatory|Config)|Interpolation", CONFIG),
        (r"Permission|Auth|Forbidden|Access|Credential|Gated|Token", PERMISSION),
        (r"NotFound|Missing|NoSuch", FILE),
        (r"Timeout|Http|HTTP|Connect|Network|Url|URL|Remote|Protocol|SSL|Throttl|ClientError|Download", DOWNLOAD),
        (r"Decode|Pars|Corrupt|Truncat|Malformed|Format|Data|Image|Sample|Zip|Arrow|Parquet", DATA),
        (r"Version|Compat|Requirement|Compil|Backend", MISMATCH),
        (r"Shape|Dimension|Size", SHAPE),
        (r"Checkpoint|Pickl|Serializ|Tensor", CHECKPOINT),
        (r"Import|Module", IMPORT),
        (r"Memory", MEMORY),
        (r"NaN|Nan|Overflow|Diverge", NAN),
    )
)


OF_RESOLVERS = (
    *("Name or service not known", "Temporary failure in name resolution", "No address associated with hostname"),
    *("Non-recoverable failure in name resolution", "Name does not resolve", "Name has no usable address"),
)
"""gai_strerror(3)'s words of a name, glibc's and musl's."""


@cache
def _errors() -> tuple[tuple[str, Judged], ...]:
    """The C library's words for an errno, and for a name that it cannot resolve. Those that are words of other things
    too are not among them."""
    found = {os.strerror(number): judged for number, judged in OF_ERRNO.items()}
    found.update(dict.fromkeys(OF_RESOLVERS, NAME))
    return tuple((words, judged) for words, judged in found.items() if words != os.strerror(errno.EAGAIN))


def cause_of(judged: Judged) -> str:
    """The id of what an exception or an error's text of this class tells."""
    return OF_CLASS.get(judged.kind, "program-error")


def variant_of(cause: str, judged: Judged, *, alone: bool) -> str:
    """Which of the cause's fixes is one for this class. `alone`: nothing in the log speaks of several ranks."""
    if cause != "program-error":
        return ""
    return judged.kind if judged.kind in CAUSES[cause].variants else "alone" if alone else "at"


def judged_words(text: str) -> Judged | None:
    """By the errno that a text names; None where it names none. The last counts: it is the reason of what stands
    before it."""
    if OF_SHARED_MEMORY.search(text[:1000]):
        return SHARED_MEMORY
    if OF_LOADER in text[:1000]:
        return IMPORT
    if number := ERRNO.search(text[:1000]):
        known = OF_ERRNO.get(int(next(filter(None, number.groups()))))
        if known is not None:
            return known
    lower = text[:1000].lower()
    named = [(at, judged) for words, judged in _errors() if (at := lower.rfind(words.lower())) >= 0]
    return max(named, key=lambda each: each[0])[1] if named else None


def judged_message(message: str) -> Judged | None:
    """By the words of a message; None where they tell nothing."""
    return next((judged for words, judged in OF_WORDS if words.search(message[:2000])), None)


def judged_exception(type_name: str, message: str, raised_in: str = "") -> Judged:
    """`type_name`: with its module, where that was written. `raised_in`: the file of the innermost frame."""
    module, _, name = type_name.rpartition(".")
    of_type = OF_TYPE.get(name) or _inherited(name)
    if name in SAYS_LITTLE or of_type is None:
        first = message.partition("\n")[0]
        found = ERRNO.search(first[:200]) and judged_words(first)
        found = (
            found or judged_words(first) or judged_message(first) or judged_words(message) or judged_message(message)
        )
        if found and not (name == "AssertionError" and found in (DATA, FILE)):
            return found
    elif (known := ERRNO.search(message[:200]) and judged_words(message[:200])) is not None:
        return known
    if of_type and not (name in SAYS_LITTLE and name not in ("AssertionError", "ImportError")):
        return of_type
    package = next((judged for names, judged in OF_PACKAGE if names.search(module)), None)
    if package is None:
        package = next((judged for names, judged in OF_PACKAGE if names.search(raised_in)), None)
    if package is not None:
        return package
    if of_type:
        return of_type
    return next((judged for words, judged in OF_NAME if words.search(name)), OTHER)
