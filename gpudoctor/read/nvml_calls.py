"""Calls NVML through nvidia-ml-py, one at a time: each is announced before it is made, and its error is a reason.

Nothing here is remembered between calls and nothing raises but `CallFailed`, so one call that fails costs the
facts it would have given and no others.
"""

from collections.abc import Callable
from typing import Any

from gpudoctor.snapshot import Missing, MissingKind, Reading, read

SUCCESS = 0
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
CORRUPTED_INFOROM = 14
GPU_IS_LOST = 15
ARGUMENT_VERSION_MISMATCH = 25

NO_BINDING = -1
"""Not NVML's: the installed nvidia-ml-py has no function of that name."""
UNREADABLE = -2
"""Not NVML's: the call succeeded, but with an answer that makes no sense."""
TOO_OLD = (NO_BINDING, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH)
"""Driver or nvidia-ml-py know an older form of the function at most."""

NAMES = {
    1: "Uninitialized",
    2: "InvalidArgument",
    3: "NotSupported",
    4: "NoPermission",
    6: "NotFound",
    7: "InsufficientSize",
    8: "InsufficientPower",
    9: "DriverNotLoaded",
    10: "Timeout",
    11: "IrqIssue",
    12: "LibraryNotFound",
    13: "FunctionNotFound",
    14: "CorruptedInforom",
    15: "GpuIsLost",
    16: "ResetRequired",
    17: "OperatingSystem",
    18: "LibRmVersionMismatch",
    19: "InUse",
    20: "Memory",
    21: "NoData",
    23: "InsufficientResources",
    25: "ArgumentVersionMismatch",
    26: "Deprecated",
    27: "NotReady",
    28: "GpuNotFound",
    29: "InvalidState",
    999: "Unknown",
}
"""nvmlReturn_t (nvml.h of NVML 13). Codes, not texts, are matched: nvidia-ml-py has texts of its own for them."""

KINDS: dict[int, MissingKind] = {
    NOT_SUPPORTED: "absent",
    FUNCTION_NOT_FOUND: "absent",
    4: "denied",
    10: "timeout",
    GPU_IS_LOST: "lost",
    28: "lost",
}

SENTENCES = {
    NOT_SUPPORTED: "not supported by this GPU",
    FUNCTION_NOT_FOUND: "not offered by this driver",
    4: "no permission (NVML error 4, NoPermission)",
    9: "the kernel driver is not loaded (NVML error 9, DriverNotLoaded)",
    LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 could not be loaded (NVML error 12, LibraryNotFound)",
    GPU_IS_LOST: "the GPU is lost (NVML error 15, GpuIsLost)",
    16: "the GPU requires a reset (NVML error 16, ResetRequired)",
    18: "the NVML library and the loaded kernel driver differ in version (NVML error 18, LibRmVersionMismatch)",
    28: "the GPU is not found any more (NVML error 28, GpuNotFound)",
}

NO_TEXT = "answered with bytes that are no text"


def explain(code: int) -> Missing:
    """An nvmlReturn_t as the reason why there is no value."""
    sentence = SENTENCES.get(code) or f"NVML error {code}" + (f", {NAMES[code]}" if code in NAMES else "")
    return Missing(sentence, KINDS.get(code, "failed"))


class CallFailed(Exception):
    """An NVML call gave no value. `source` names the call and `code` is its nvmlReturn_t (or one of our own < 0)."""

    def __init__(self, source: str, code: int, why: Missing | None = None) -> None:
        super().__init__(source, code)
        self.source = source
        self.code = code
        self.why = why or explain(code)


class Calls:
    """NVML's functions about one thing: a GPU, the pairs of GPUs, or the driver as a whole."""

    def __init__(self, api: Any, announce: Callable[[str], None], about: str = "") -> None:
        self.api = api
        """The module `pynvml`."""
        self._announce = announce
        self._about = about

    def source(self, name: str) -> str:
        """ "nvmlDeviceGetMemoryInfo GPU 3"."""
        return f"{name} {self._about}" if self._about else name

    def ask(self, name: str, *arguments: object) -> Any:
        """The function's result. Raises `CallFailed`."""
        source = self.source(name)
        function = getattr(self.api, name, None)
        if function is None:
            reason = f"the installed nvidia-ml-py does not know {name}; a newer one does"
            raise CallFailed(source, NO_BINDING, Missing(reason))
        self._announce(source)
        try:
            return function(*arguments)
        except self.api.NVMLError as error:
            raise CallFailed(source, error.value) from None
        except UnicodeDecodeError:
            raise CallFailed(source, UNREADABLE, Missing(NO_TEXT)) from None
        except Exception as error:  # nvidia-ml-py's own exceptions, and ctypes' about a signature that changed
            raise CallFailed(source, UNREADABLE, Missing(f"{type(error).__name__}: {error}")) from None

    def ask_first_offered(self, *requests: tuple[object, ...]) -> Any:
        """The first request (name, arguments...) that driver and nvidia-ml-py both know. Raises `CallFailed`.

        NVML grows by new versions of a function; older drivers lack the newer symbol, or refuse its structure.
        """
        for name, *arguments in requests[:-1]:
            try:
                return self.ask(str(name), *arguments)
            except CallFailed as error:
                if error.code not in TOO_OLD:
                    raise
        name, *arguments = requests[-1]
        return self.ask(str(name), *arguments)


def guarded(source: str, function: Callable[[], Any]) -> Reading[Any]:
    """`function`'s result as a reading. Never raises: a call that failed, or an answer without sense, is a reason."""
    try:
        return read(source, function())
    except CallFailed as error:
        return Reading(error.source, missing=error.why)
    except UnicodeDecodeError:
        return Reading(source, missing=Missing(NO_TEXT))
    except Exception as error:  # an answer in a form nobody foresaw must not take the other facts along
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        return Reading(source, missing=Missing(reason))


def text(value: object) -> str:
    """A string of NVML's, which older nvidia-ml-py gives as bytes. Raises `ValueError` for what cannot be shown."""
    decoded = value.decode() if isinstance(value, bytes) else str(value)
    if not decoded or not decoded.isprintable():
        raise ValueError(
            f"answered with unprintable text {decoded[:20]!r}" if decoded else "answered with an empty text"
        )
    return decoded
