"""IP addresses of a snapshot as numbers, which redaction may have hidden behind names."""

import ipaddress
from typing import Any

from gpudoctor.snapshot import NotRead, Reading, missing

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def parsed(text: str, reading: Reading[Any]) -> IpAddress:
    """An address (with or without "%eth0") that stands in `reading`.

    Raises `NotRead` where it is none: in a redacted snapshot it is "ip-1", of which nobody knows the network.
    """
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        raise NotRead(missing(reading.source, f"the address {text[:40]} is hidden or no address")) from None
