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
from gpudoctor.explain.by_library_code import OF_ANY_RELEASE, by_library_code
from gpudoctor.explain.by_shape import by_shape
from gpudoctor.explain.devices_apart import devices_apart, is_of_two_devices
from gpudoctor.explain.errnos import ERRNO, ERRNO_NAME, judged_words
from gpudoctor.explain.guesses import without_guesses
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
    NOBODY,
    OTHER,
    PERMISSION,
    RENDEZVOUS,
    own,
)
from gpudoctor.explain.line_rows import judged_shape
from gpudoctor.explain.own_fixes import library_fix
from gpudoctor.explain.own_words import names, of_own_words, of_variable, said, suggested, to_install
from gpudoctor.explain.package_types import of_package
from gpudoctor.explain.plain_fixes import (
    BASES,
    NOT_KNOWN,
    OF_NETWORK,
    OF_RELEASE,
    OF_RELEASE_OF_ANY,
    OF_SAMPLES,
    distribution_of,
    plain_fix,
)
from gpudoctor.explain.releases_apart import of_releases
from gpudoctor.explain.service_statuses import OF_SERVICE_TYPE, judged_service
from gpudoctor.explain.statuses import judged_status
from gpudoctor.explain.things import name_of_own_file
from gpudoctor.explain.told_by_place import (
    HANDED_ON,
    by_code,
    caller,
    is_of_a_package,
    is_of_settings,
    of_a_release,
    of_call,
    of_hugging_face,
    of_torch,
    package_of,
    variable_of,
)
from gpudoctor.explain.type_names import OF_NAME
from gpudoctor.explain.words import OF_WORDS
from gpudoctor.fault_classes import Class
from gpudoctor.knowledge.superseded import arrived, dotted, refused, too_new
from gpudoctor.lazy import lazy_re
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
OF_TENSORFLOW: Mapping[str, Judged] = {
    "ResourceExhaustedError": GPU_MEMORY,
    **dict.fromkeys(("InvalidArgumentError", "FailedPreconditionError", "AlreadyExistsError"), ARGUMENT),
    **dict.fromkeys(("DataLossError", "OutOfRangeError"), DATA),
    "UnimplementedError": MISMATCH,
    **dict.fromkeys(("UnavailableError", "AbortedError"), DIED),
    "DeadlineExceededError": RENDEZVOUS,
    **dict.fromkeys(("PermissionDeniedError", "UnauthenticatedError"), PERMISSION),
}
"""By the codes of absl's Status: tensorflow/python/framework/errors_impl.py."""
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
    **OF_SERVICE_TYPE,
    **OF_TENSORFLOW,
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
    "TimeoutExpired": OTHER,
    "SyntaxError": ARGUMENT,
    "IndentationError": ARGUMENT,
    "TabError": ARGUMENT,
    "NameError": ARGUMENT,
    "UnboundLocalError": OTHER,
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


SAYS_LITTLE = frozenset(
    {
        *("RuntimeError", "ValueError", "Exception", "OSError", "IOError", "TypeError", "AttributeError", "KeyError"),
        *("ImportError", "AssertionError", "HTTPError", "ConnectionError", "EnvironmentError", "NotImplementedError"),
        *("InvalidArgumentError", "HfHubHTTPError", "TimeoutError", "DatasetGenerationError", "ValidationError"),
        "DistBackendError",
    }
)
OF_PROGRAMMING = frozenset({"TypeError", "AttributeError", "NameError", "NotImplementedError", "AssertionError"})
"""What a package raises of how it is called, whatever the package is for."""
OF_A_CALL = frozenset({"RuntimeError", "ValueError", "Exception"})
REFUSES = lazy_re(
    r"(?i)\b(?:must|should|(?:can|may) only|cannot|can't|needs? to|ha(?:s|ve) to|expect(?:s|ed|ing)?|requires?|only|"
    r"(?:do(?:es)?n't|do(?:es)? not|did not|didn't) (?:support|match|have|take|accept|allow|contain)|"
    r"not (?:supported|allowed|permitted|implemented|needed|compatible)|unsupported|invalid|unexpected|unknown|already|"
    r"unrecognized|attempted to|mixed|duplicate|got)\b|\bno (?:\w{2,20} ){1,3}(?:for|associated with)\b|"
    r"\bbut \S{1,30} is None\b|\bbigger than\b"
)
"""How Python and torch word it (TORCH_CHECK, ValueError) that a call was given what it does not take."""
NOT_THERE = lazy_re(r"\bdo(?:es not|esn't) exist\b|\bnot found in\b")
"""Of a name that is no path: words.py has those."""
LONGEST_REFUSAL = 600
OTHERS_LINE = lazy_re(
    r"\n(?=(?:\[\w{1,20}\]:)?\[?[WIEF](?:\d{4})? [\w.:]{4,40}|(?:ERROR|WARNING|INFO|CRITICAL):[a-z][\w.]{2,80}:)"
)
"""A line of c10's, glog's or logging's behind a message: another speaker's."""
OF_A_GRAPH = lazy_re(r"^Graph execution error:\s+")
"""TensorFlow's, before what failed in it (python/eager/execute.py)."""
OF_PACKAGE: tuple[tuple[re.Pattern[str], Judged], ...] = tuple(
    (lazy_re(rf"(?:^|[/\\.])(?:{names})(?:[/\\.]|$)"), judged)
    for names, judged in (
        (r"omegaconf|hydra|pydantic|pydantic_core|yaml|jsonargparse|argparse|click|typer|absl|fire|"
         r"configparser|tomllib|"
         r"config|configuration|arguments|training_args|hf_argparser", CONFIG),
        (r"huggingface_hub|requests|urllib3|httpx|httpcore|aiohttp|botocore|boto3|s3fs|gcsfs|fsspec|urllib|google|"
         r"azure|minio|wandb|mlflow|http", DOWNLOAD),
        (r"safetensors|safetensors_rust|serialization|checkpoint|checkpointing|pickle|_pickle", CHECKPOINT),
        (r"PIL|cv2|av|decord|torchcodec|torchvision[/\\]io|torchaudio|soundfile|librosa|pyarrow|pandas|webdataset|csv|"
         r"tarfile|zipfile|gzip|lzma|zlib|h5py|json|datasets|streaming|torch[/\\]utils[/\\]data|lmdb|tokenizers", DATA),
        (r"importlib|cpp_extension|pkg_resources|triton|_inductor|_dynamo", MISMATCH),
        (r"torch[/\\]cuda|pynvml", own("driver", "node")),
        (r"multiprocessing", LIMITS),
        (r"torch[/\\]nn|_tensor|torch[/\\]autograd|einops", ARGUMENT),
    )
)  # fmt: skip
SETTING = lazy_re(
    r"(?i)\b(?:must|should|only|(?:not|un)[- ]?(?:supported|allowed|valid|compatible)|invalid|unknown|unexpected|"
    r"requires?|required|incompatible|conflicts?|mutually|(?:does not|doesn't|do not) (?:exist|match|support)|"
    r"expect(?:s|ed)|requested|set|greater|less|larger|smaller|divisible|multiple)\b"
)
"""Words of a refusal that something which was set can be changed by."""
OF_PUBLISHED = lazy_re(r"^(?:transformers|diffusers|vllm|sglang|lmdeploy|llmtuner|llamafactory)$")
READS_PUBLISHED = lazy_re(
    r"[/\\](?:config(?:uration)?(?:_\w{1,60})?|modeling_rope_utils|model_executor[/\\].{1,80}|template|loader|adapter)\.py$"
)
"""Packages that read settings which others have published with a model, and where they do."""
OF_A_TABLE, OF_PANDAS = "table-for-data-set", lazy_re(r"[/\\]pandas[/\\]|^pandas|\.pyx$")
NAMED = lazy_re(
    r"[`'\"][A-Za-z]\w*_\w+[`'\"]|(?:^|\s)[a-z]+(?:_[a-z0-9]+){1,5} (?:(?:is|was|are) )?(?:not )?(?:specified|"
    r"given|set|defined|required|needed|necessary|provided|must|should|has to|needs to)\b|\bdivisible by [a-z]+_\w+$"
)
"""How an assertion names a setting."""
OF_LOADER = lazy_re(r"[/\\]torch[/\\](?:utils[/\\]data|multiprocessing)[/\\]")


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
    raised_by: str = "",
    code: str = "",
    source: str = "",
) -> tuple[str, dict[str, str]]:
    """Which of the cause's fixes is one for this class and message, and values for it. `type_name`: of the exception;
    empty where none wrote it. `alone`: nothing in the log speaks of several ranks. `raised_in`, `raised_by`, `code`:
    file, function and source of the innermost frame. `source`: of the innermost in the user's code."""
    remedied = remedy_for(type_name, message)
    message = message.partition("\n")[0] if type_name.endswith("KeyError") else OTHERS_LINE.split(message, 1)[0]
    if cause == "program-error" and (of_place := by_library_code(type_name, message, raised_in, code)):
        return of_place, {}
    if remedied and remedied[0].id == OF_A_TABLE and code and not OF_PANDAS.search(raised_in):
        remedied = None  # a mapping of the program's own was asked
    asks = cause == "program-error" and (remedied is None or remedied[0].id in OF_ANY_RELEASE)
    known = of_releases(type_name, message, raised_in) if asks else None
    if remedied and known is None and remedied[0].id in CAUSES[cause].variants:
        return remedied[0].id, {"told": suggested(message), **remedied[1]}
    if cause == "library-missing" and (named := library_fix(message) or name_of_own_file(message)):
        return named
    if cause == "library-missing" and (package := to_install(message)):
        return "package", {"package": package}
    if cause == "gpu-program-fault" and "_STATUS_" in message:
        return "library-call", {}
    if cause == "host-out-of-memory" and raised_in and not OF_LOADER.search(raised_in):
        return "allocation", {}
    if cause != "program-error":
        return "", {}
    if old := refused(message, raised_in, code):
        return "superseded", {"name": old.name, "since": old.since, "today": old.whole}
    if name := too_new(message, raised_in):
        return "not-yet", {"name": name, "release": dotted(arrived(name) or ())}
    if variant := of_torch(type_name, message, code):
        return "torch-argument", variant
    if apart := devices_apart(message, alone=alone, source=source):
        return apart
    if lost := of_hugging_face(type_name, message, raised_in, code):
        return "lost-argument", lost
    if known:
        by = "" if HANDED_ON.search(code) else package_of(raised_in)
        by = f"{by}, which calls it," if by and by != known.package.replace("-", "_") else "what is called"
        return "of-release", {"package": known.package, "how": known.how, "by": by}
    if of_release := of_a_release(type_name, message, raised_in):
        return of_release
    if package := caller(type_name, message, raised_in, code):
        return "between-packages", {"package": package}
    if shown := by_code(type_name, message, code, source):
        return shown
    if variable := variable_of(type_name, message, raised_in):
        return of_variable(variable)
    if call := of_call(type_name, message, raised_in, code):
        return call
    if own_words := of_own_words(judged.kind, message):
        chosen, values = own_words
        package = package_of(raised_in) if chosen in ("refused", "handed") else ""
        by_itself = "." not in type_name or type_name.startswith(f"{package}.")  # no service's, through a package
        if (
            package
            and package not in BASES
            and (
                NOT_KNOWN.search(values["said"]) or (OF_PUBLISHED.search(package) and READS_PUBLISHED.search(raised_in))
            )
            and by_itself
        ):
            values["release"] = OF_RELEASE.format(package=distribution_of(package))
        if chosen == "refused" and not (package or raised_in or type_name) and NOT_KNOWN.search(values["said"]):
            values["release"] = OF_RELEASE_OF_ANY
        is_told = chosen != "refused" or judged.kind in ("config", "argument") or bool(SETTING.search(values["said"]))
        if chosen == "handed":  # of a call of the program's own that is refused, and of nothing else
            is_its_own = not is_of_a_package(raised_in)
            is_told = bool(raised_in) and (is_its_own or package in BASES)
            chosen = "own-check" if is_its_own and code.startswith("raise ") else chosen
        if is_told and not (package and judged.kind in ("exception", "assertion") and not names(values["said"])):
            return chosen, values
    variants = frozenset(CAUSES[cause].variants)
    return plain_fix(judged.kind, variants, type_name, message, raised_in, raised_by, code, alone=alone)


def judged_message(message: str) -> Judged | None:
    """By the words of a message; None where they tell nothing."""
    if is_of_two_devices(message):
        return own("argument")
    said = message[:2000]
    for part in dict.fromkeys((without_guesses(said), said)):
        if (
            judged := judged_status(part)
            or judged_service(part)
            or next((judged for words, judged in OF_WORDS if words.search(part)), None)
        ):
            return judged
    return None


def judged_exception(
    type_name: str, message: str, raised_in: str = "", raised_by: str = "", called_by: str = "", code: str = ""
) -> Judged:
    """`type_name`: with its module, where that was written. `raised_in`, `raised_by`, `code`: file, function and source
    of the innermost frame. `called_by`: the function of the innermost in the user's code."""
    judged = _judged_exception(type_name, message, raised_in, raised_by)
    remedied = remedy_for(type_name, message)
    if remedied is None or remedied[0].judged is None:
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
    family = of_package(type_name)
    of_type = family.judged if family else OF_TYPE.get(name) or _inherited(name)
    says_little = family.says_more if family else name in SAYS_LITTLE
    refuses = REFUSES.search(message[:LONGEST_REFUSAL]) or NOT_THERE.search(message[:LONGEST_REFUSAL])
    refused = refuses is not None and (
        name in OF_A_CALL or (name == "AssertionError" and (not raised_in or is_of_a_package(raised_in)))
    )
    if says_little or of_type is None:
        message = OF_A_GRAPH.sub("", OTHERS_LINE.split(message, maxsplit=1)[0])
        first = message.partition("\n")[0]
        if first and name in OF_PROGRAMMING:
            message = first
        verdict = ERRNO.search(first[:200]) and judged_words(first)
        verdict = (
            verdict or judged_words(first) or judged_message(first) or judged_words(message) or judged_message(message)
        )
        if (
            refused
            and verdict in (None, DATA, ARGUMENT)
            and is_of_settings(raised_in, raised_by, is_named=bool(names(said(message))))
        ):
            return CONFIG
        if verdict and not (name == "AssertionError" and verdict in (DATA, FILE)):
            return verdict
        if verdict and not raised_in:
            return own("assertion")
        if name == "AssertionError" and NAMED.search(first):
            return CONFIG
    elif (ERRNO.search(message[:200]) or ERRNO_NAME.search(message[:200])) and (known := judged_words(message[:200])):
        return known
    if of_type and not (says_little and name not in ("AssertionError", "ImportError")) and not refused:
        return of_type
    if of_type is None or says_little:
        shape = None if refused else judged_shape(message.partition("\n")[0])
        if shape is not None:
            return shape
    if family:
        return family.judged
    package = next((judged for names, judged in OF_PACKAGE if names.search(module)), None)
    if package is None:
        package = next((judged for names, judged in OF_PACKAGE if names.search(raised_in)), None)
        if package is not CONFIG and (refused or name in OF_PROGRAMMING):
            package = None
    if package is not None and (
        package is not DOWNLOAD or not message or OF_NETWORK.search(f"{name} {message} {raised_in[-24:]}")
    ):
        return package
    if refused:
        return ARGUMENT
    if of_type:
        return of_type
    return next((judged for words, judged in OF_NAME if words.search(name)), OTHER)
