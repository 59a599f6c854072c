"""Bounds that a child sets itself before it reads what a stranger wrote; the kernel holds them."""

import contextlib
import time


def limit_memory(more: int) -> None:
    """Let this process take `more` bytes of address space besides what it has: what wants more gets `MemoryError`."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # no such limits here (Windows, macOS)
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - Path is not worth its import
            own = int(file.read().split()[0]) * resource.getpagesize()
        _lower(resource.RLIMIT_AS, own + more)
        _lower(resource.RLIMIT_CORE, 0)  # a crash must not leave what it has read on the disk


def limit_cpu(seconds: float) -> None:
    """From now on `seconds` of processor time are left, then the kernel ends this process (SIGXCPU). Once and again."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _lower(resource.RLIMIT_CPU, int(time.process_time() + seconds) + 1)


def _lower(which: int, wanted: int) -> None:
    """The soft limit, so that it can be raised again; never above the hard one."""
    import resource

    hard = resource.getrlimit(which)[1]
    resource.setrlimit(which, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
