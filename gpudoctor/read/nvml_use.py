"""How busy each GPU is and whose processes are on it, in a child process: NVML's few calls for `gpudoctor hang`.

The child says each GPU's use in a marked line as soon as it has it; one that does not answer costs its own line only.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from gpudoctor.active import MARK
from gpudoctor.read.nvml import start
from gpudoctor.read.nvml_calls import SUCCESS, CallFailed, Calls, text

T = TypeVar("T")

MAXIMUM_GPUS = 1024
MOST_PROCESSES = 256
MOST_WATCHED = 16
SM_CLOCK = 1
"""NVML_CLOCK_SM of nvml.h"""


def main(arguments: list[str]) -> None:
    """Entry point of the child."""
    from gpudoctor.read.lifeline import end_with_the_doctor

    end_with_the_doctor()
    reply = os.dup(1)
    os.dup2(2, 1)
    lock = threading.Lock()

    def say(**message: Any) -> None:
        line = MARK + msgspec.json.encode(message) + b"\n"
        with lock:
            while line:
                line = line[os.write(reply, line) :]

    import pynvml

    examine(pynvml, say)
    os._exit(0)  # without nvmlShutdown: it can block on a GPU that the calls before got away with


def examine(api: Any, say: Callable[..., None]) -> None:
    """Ask NVML (`api`: the module pynvml) and say {"count": N}, then {"gpu": index, ...} of each, or {"error": why}."""

    def calls() -> Calls:
        return Calls(api, lambda call: None)

    driver = calls()
    init = start(driver)
    if init.value_or(-1) != SUCCESS:
        say(error=init.reason if not init.is_read else f"nvmlInit failed with {init.value}")
        return
    try:
        count = int(driver.ask("nvmlDeviceGetCount"))
    except CallFailed as error:
        say(error=error.why.reason)
        return
    count = min(max(count, 0), MAXIMUM_GPUS)
    say(count=count)
    threads = [threading.Thread(target=lambda at=at: say(**use(calls(), at)), daemon=True) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def watched(seconds: float) -> Iterator[list[list[float | None]]]:
    """Again and again [index, use in percent, bytes of memory in use, watts] of each GPU; None: not told."""
    import pynvml

    driver = Calls(pynvml, lambda call: None)
    if start(driver).value_or(-1) != SUCCESS:
        return
    try:
        handles = [
            (index, driver.ask("nvmlDeviceGetHandleByIndex", index))
            for index in range(min(int(driver.ask("nvmlDeviceGetCount")), MOST_WATCHED))
        ]
    except CallFailed:
        return
    questions: tuple[tuple[str, Callable[[Any], float]], ...] = (
        ("nvmlDeviceGetUtilizationRates", lambda told: int(told.gpu)),
        ("nvmlDeviceGetMemoryInfo", lambda told: int(told.used)),
        ("nvmlDeviceGetPowerUsage", lambda told: int(told) / 1000),
    )

    def answer(handle: Any, call: str, value: Callable[[Any], float]) -> float | None:
        try:
            return value(driver.ask(call, handle))
        except (CallFailed, ValueError, TypeError, AttributeError):
            return None

    while True:
        yield [[index, *(answer(handle, *question) for question in questions)] for index, handle in handles]
        time.sleep(seconds)


def use(calls: Calls, index: int) -> dict[str, Any]:
    """One GPU's line; what it does not tell is left out."""
    try:
        handle = calls.ask("nvmlDeviceGetHandleByIndex", index)
    except CallFailed as error:
        return {"gpu": index, "lost": error.why.reason}
    use_now: dict[str, Any] = {"gpu": index, "lost": ""}

    def note(name: str, function: Callable[[], Any]) -> None:
        try:
            use_now[name] = function()
        except CallFailed as error:
            if "lost" in error.why.reason.lower() or "bus" in error.why.reason.lower():
                use_now["lost"] = error.why.reason
        except (ValueError, TypeError, AttributeError):
            pass  # an answer in a form nobody foresaw

    def rates() -> None:
        rates_now = calls.ask("nvmlDeviceGetUtilizationRates", handle)
        use_now["utilization_percent"], use_now["memory_utilization_percent"] = (
            int(rates_now.gpu),
            int(rates_now.memory),
        )

    def memory() -> None:
        memory_now = calls.ask("nvmlDeviceGetMemoryInfo", handle)
        use_now["memory_bytes"], use_now["memory_total_bytes"] = int(memory_now.used), int(memory_now.total)

    note("uuid", lambda: text(calls.ask("nvmlDeviceGetUUID", handle)))
    note("rates", rates)
    use_now.pop("rates", None)
    note("power_watts", lambda: int(calls.ask("nvmlDeviceGetPowerUsage", handle)) / 1000)
    note("clock_mhz", lambda: int(calls.ask("nvmlDeviceGetClockInfo", handle, SM_CLOCK)))
    note("most_mhz", lambda: int(calls.ask("nvmlDeviceGetMaxClockInfo", handle, SM_CLOCK)))
    note("clock_events", lambda: int(calls.ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)))
    note("memory", memory)
    use_now.pop("memory", None)
    note("pids", lambda: _pids(calls.ask("nvmlDeviceGetComputeRunningProcesses", handle)))
    return use_now


def _pids(told: Any) -> list[int]:
    return sorted({int(process.pid) for process in told})[:MOST_PROCESSES]
