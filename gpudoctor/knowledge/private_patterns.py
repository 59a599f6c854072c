"""How addresses look within a text."""

import re

from gpudoctor.lazy import lazy_re

MAIL = lazy_re(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
HARDWARE_ADDRESS = lazy_re(
    r"(?<![0-9A-Za-z:.-])(?:[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5,19}|[0-9A-Fa-f]{2}(?:-[0-9A-Fa-f]{2}){5}"
    r"|[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{4}){3})(?![0-9A-Za-z:]|\.\d)"
)
"""Ethernet (6 bytes), IP over InfiniBand (20) and the GUID of an InfiniBand port (4 groups of 4)."""
IPV6 = lazy_re(
    r"(?<![0-9A-Za-z:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?::\d+(?:\.\d+){3})?(?![0-9A-Za-z:]|\.\d)"
)
IPV4 = lazy_re(r"(?<![0-9A-Za-z.])\d{1,3}(?:\.\d{1,3}){3}(?![0-9A-Za-z]|\.\d|-[A-Za-z])")
FOUR_PARTS = lazy_re(r"\d+(?:\.\d+){3}")
BEFORE_A_VERSION = lazy_re(
    r"(?:version|driver|cudnn|nccl|cuda|torch|kernel|[-_]cu\d+|(?<!addr )[=<>~!]=|\bv)[\s:=/(\"'-]*$", re.IGNORECASE
)

UUID = lazy_re(
    r"(?<![0-9A-Za-z])(?:(?P<kind>MIG-GPU-|MIG-|GPU-)(?P<digits>[0-9A-Fa-f][0-9A-Fa-f-]{3,})"
    r"|(?P<bare>[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}))(?![0-9A-Za-z])"
)
DEVICE_ENTRY = lazy_re(
    r"(?P<kind>MIG-GPU-|MIG-|GPU-|(?=[0-9A-Fa-f]{8}-))(?P<digits>[0-9A-Fa-f][0-9A-Fa-f-]*)(?P<rest>[^,]*)"
)
HOME = lazy_re(
    r"(?P<posix>/(?:home\d*|Users|users)/)(?P<posix_user>[^/\\\s:;,\"'<>|()\[\]{}*]*[^/\\\s:;,\"'<>|()\[\]{}*.])"
    r"|(?P<windows>[A-Za-z]:\\Users\\)(?P<windows_user>[^\\/:\"<>|\r\n]+)(?=\\)"
    r"|(?<=[^/\s]/)(?P<elsewhere_user>[^/\\\s:;,\"'<>|()\[\]{}*]{1,64})(?=/\.(?:nccl\.conf|cache)(?![\w.-]))"
)
"""Homes as they are usually called, and whatever folder below another holds the files that only homes hold: clusters
have /u/alice and /gpfs/people/alice. The snapshot always names the user's .nccl.conf, there or not."""
HOSTS = lazy_re(r"(?:[^,\s;\[\]]|\[[^\]]*\])+")
HOST_TOKEN = lazy_re(r"(?P<name>[A-Za-z0-9_][\w.-]*)?(?:\[(?P<range>[\d,-]+)\])?(?P<suffix>[\w.-]*)")

URL = lazy_re(r"\b(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,20})://(?P<rest>[^\s'\"<>`]+)")
DOCUMENTATION_HOSTS = lazy_re(
    r"(?:[\w-]+\.)*(?:nvidia\.com|pytorch\.org|kernel\.org|python\.org|github\.com|schedmd\.com|open-mpi\.org|amd\.com)"
    r"(?:/[\w./~#-]*)?|github\.io(?:/[\w./~#-]*)?"
)
"""Pages that our own messages name. What else a URL holds is nobody's to know."""
