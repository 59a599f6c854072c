"""The most memory that a cell took: what torch allocated on a GPU, how much the resident set grew on a CPU."""

import socket
from typing import Any, Dict, List


class Memory:
    """From its construction on. `look` is for the CPU, whose growth nobody counts."""

    def __init__(self, torch: Any, devices: List[Any]) -> None:
        self.torch = torch
        self.devices = devices
        self.before = resident_bytes()
        self.most = self.before
        for device in devices:
            if device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(device)

    def look(self) -> None:
        self.most = max(self.most, resident_bytes())

    def peak(self) -> Dict[str, int]:
        """ "node-a cuda:0" -> bytes."""
        host = socket.gethostname()[:64]
        peaks: Dict[str, int] = {}
        for device in self.devices:
            if device.type == "cuda":
                peaks[f"{host} {device}"] = int(self.torch.cuda.max_memory_allocated(device))
            elif self.before:
                peaks[f"{host} {device}"] = max(0, self.most - self.before)
        return peaks


def resident_bytes() -> int:
    """Of this process; 0 when it cannot be read (not Linux)."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0
