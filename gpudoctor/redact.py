"""Hides who and where: host and user names, addresses, UUIDs, serial numbers and home paths get pseudonyms.

A pseudonym is stable within one document: the same secret is the same `node-1` in values, sources, reasons, summaries
and commands. UUIDs are replaced digit by digit so that two that agreed in their first digits still do; a prefix in
CUDA_VISIBLE_DEVICES therefore selects what it selected before, and a redacted snapshot gets the same verdict.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from gpudoctor.knowledge import known_paths, shapes
from gpudoctor.knowledge.credentials import without_credentials
from gpudoctor.knowledge.environment import is_recorded, kept_value, kind_of
from gpudoctor.knowledge.host_lists import expanded
from gpudoctor.knowledge.private_fields import (
    VARIABLE,
    Mode,
    command_lines,
    is_kept,
    modes_of,
    names_of,
    strings,
    variables,
)
from gpudoctor.knowledge.private_names import HOST_KEYED_FIELDS, SYSTEM_ACCOUNTS, is_telling
from gpudoctor.knowledge.private_patterns import (
    BEFORE_A_VERSION,
    DEVICE_ENTRY,
    DOCUMENTATION_HOSTS,
    FOUR_PARTS,
    HARDWARE_ADDRESS,
    HOME,
    HOST_TOKEN,
    HOSTS,
    IPV4,
    IPV6,
    MAIL,
    URL,
    UUID,
)
from gpudoctor.knowledge.pseudonymous_uuids import Uuids
from gpudoctor.knowledge.shapes import COMMON_INTERFACE, HIDDEN, Shape
from gpudoctor.knowledge.wording import ranges
from gpudoctor.launcher.kept import brief, kept
from gpudoctor.lazy import lazy_re
from gpudoctor.snapshot import Reading, Snapshot, read

T = TypeVar("T")


INTERFACE_ENTRY = lazy_re(r"[A-Za-z][\w.-]*")
LONGEST_SHOWN = 120
"""Characters of a command line that evidence of a report repeats."""
SHORTEST_HIDDEN = 6
FOLDED = lazy_re(r"(?<![\w.-])(?P<name>[A-Za-z][\w.-]{0,62})\[(?P<range>\d[\d,-]{0,999})\](?P<suffix>[\w.-]{0,80})")
"""Hosts in a sentence, as `fleet.names.folded` writes them."""
DOMAIN = r"(?P<behind>(?:\.[A-Za-z][\w-]{0,62}){2,8})?"  # behind a known host's name

GID = lazy_re(r"(?P<subnet>[0-9a-f]{4}(?::[0-9a-f]{4}){3}):(?P<port>[0-9a-f]{4}(?::[0-9a-f]{4}){3})", re.IGNORECASE)
ZERO, LINK_LOCAL, DOCUMENTATION = "0000:0000:0000:0000", "fe80:0000:0000:0000", "2001:0db8:0000:"
NUMBERED = lazy_re(r"0000:0000:0000:[0-9a-f]{4}|0000:ffff:0000:[0-9a-f]{4}")
"""The second half of a GID that has its pseudonym, as no port's GUID and no IPv4 address looks."""

OTHER_PSEUDONYM = lazy_re(r"(?:ip|mac|domain|nodes)-\d+")
"""What stands in the place of a host in a document that was redacted before."""


def redact(snapshot: Snapshot) -> Snapshot:
    """The snapshot with pseudonyms; the checks say the same of it."""
    return Pseudonyms(snapshot).structure(snapshot)


class Pseudonyms:
    """The pseudonyms of one document: a snapshot, the evidence of a job, an answer about several nodes.

    Of several that speak of the same (an answer, and the snapshots that it was made of), a name has one in all.
    """

    def __init__(self, *documents: Struct) -> None:
        self._numbers: dict[str, int] = {}
        self._known: dict[tuple[str, str], str] = {}
        """(kind, name) -> pseudonym."""
        self._issued: set[str] = set()
        """The pseudonyms: text that passes through here twice keeps them."""
        self._in_text: dict[str, str] = {}
        """What is replaced wherever it occurs."""
        self._domains: dict[str, str] = {}
        self._versions: set[str] = set()
        """Numbers in four parts that are known not to be addresses."""
        self._uuids = Uuids()
        self._interfaces: set[str] = set()
        self._hidden: dict[str, str] = {}
        """Command lines, and words of them, by what is left of them."""
        self._hidden_pattern: re.Pattern[str] | None = None
        self._pattern: re.Pattern[str] | None = None
        self._texts: dict[str, str] = {}
        """What came of each text. Sources and reasons of a document are hundreds of times the same."""
        for mode, text in dict.fromkeys(strings(documents, "text")):
            self._collect(mode, text)
        for name, value in variables(documents):
            if is_recorded(name):
                self._variable(name, value)
        for name in names_of(documents):
            self._interfaces.add(name)
        for words in command_lines(documents):
            self._command_line(words)

    def text(self, text: str) -> str:
        """Any text of the document, with pseudonyms."""
        texts = self._texts  # which is another once a name is learned, from this text too
        if text not in texts:
            texts[text] = self._without_names(text)
        return texts[text]

    def _without_names(self, text: str) -> str:
        text = self._lines().sub(lambda match: self._hidden[match[0]], text) if self._hidden else text
        text = URL.sub(self._url, without_credentials(text))
        for match in HOME.finditer(text):
            self._user(_owner(match.groupdict()))
        text = MAIL.sub(lambda match: self._name("mail", match[0]), text)
        text = FOLDED.sub(self._folded, text) if "[" in text else text
        text = self._names().sub(self._replacement, text)
        text = HARDWARE_ADDRESS.sub(lambda match: self._name("mac", match[0].casefold()), text)
        text = IPV6.sub(self._ipv6, text)
        text = IPV4.sub(self._ipv4, text)
        return known_paths.PATH.sub(lambda match: known_paths.shown(match[0], partial(self._name, "path")), text)

    def structure(self, thing: T) -> T:
        """A structure of the document (snapshot, report or a part of one), with pseudonyms."""
        return self._redacted(thing, "text")  # type: ignore[no-any-return]

    # What is secret

    def _collect(self, mode: Mode, text: str) -> None:
        if mode == "user":
            self._user(text)
        elif mode == "host":
            self._host(text)
        elif mode == "serial":
            self._serial(text)
        elif mode == "harmless":
            self._versions.update(FOUR_PARTS.findall(text))
        for match in HOME.finditer(text):
            self._user(_owner(match.groupdict()))
        for match in UUID.finditer(text):
            self._uuids.replace(match["digits"] or match["bare"])

    def _name(self, kind: str, name: str) -> str:
        """The pseudonym of a name: the kind and a number, in the order of first sight."""
        if (kind, name) not in self._known:
            if name in self._issued:
                return name
            self._numbers[kind] = self._numbers.get(kind, 0) + 1
            self._known[kind, name] = f"{kind}-{self._numbers[kind]}"
            self._issued.add(self._known[kind, name])
        return self._known[kind, name]

    def _learned(self) -> None:
        """There is more that is replaced wherever it occurs."""
        self._pattern = None
        self._texts = {}

    def _everywhere(self, name: str, pseudonym: str) -> None:
        if name not in self._in_text and is_telling(name):
            self._in_text[name] = pseudonym
            self._learned()

    def _user(self, user: str) -> str:
        account = re.split(r"[\\@]", user)
        name = account[1] if "\\" in user and len(account) > 1 else account[0]  # CORP\alice, alice@corp.example
        if not name or name in SYSTEM_ACCOUNTS or name.isdecimal():
            return user
        pseudonym = self._name("user", name)
        self._everywhere(name, pseudonym)
        self._everywhere(user, pseudonym)
        return pseudonym

    def _host(self, host: str) -> str:
        if not host or host.casefold().partition(".")[0] == "localhost" or OTHER_PSEUDONYM.fullmatch(host):
            return host
        if _address(host) is not None:
            return self._ip(host)
        short, _, domain = host.casefold().partition(".")
        pseudonym = self._name("node", short)
        self._everywhere(host, pseudonym)
        self._everywhere(host.partition(".")[0], pseudonym)
        if "." in domain and domain not in self._domains:
            self._domains[domain] = self._name("domain", domain)
            self._learned()
        return pseudonym

    def _serial(self, serial: str) -> str:
        pseudonym = self._name("serial", serial)
        if len(serial) >= 6 and serial not in self._in_text:
            self._in_text[serial] = pseudonym
            self._learned()
        return pseudonym

    def _variable(self, name: str, value: str) -> str:
        """The value of an environment variable."""
        if name == "NCCL_HOSTID" and self._names().search(value):
            return self.text(value)  # a check asks whether it holds this machine's name
        return self._shown(kind_of(name) or "plain", kept_value(name, value))

    def _shown(self, kind: Shape, value: str) -> str:
        """A value that looks as its kind does."""
        if kind == "devices":
            return DEVICE_ENTRY.sub(self._device_entry, value)
        if kind == "hosts":
            return HOSTS.sub(self._hosts, value)
        if kind == "interfaces":
            return INTERFACE_ENTRY.sub(self._interface, value)
        if kind in ("path", "paths"):
            return "".join(map(self._file, re.split("([:;])", value)))
        return self._id(value) if kind == "id" else self.text(value)

    def _file(self, path: str) -> str:
        """A path alone, which may be relative and hold blanks."""
        is_word = "/" not in path and shapes.is_plain(path)
        return (
            path
            if is_word
            else known_paths.shown(self._names().sub(self._replacement, path), partial(self._name, "path"))
        )

    def _option(self, kind: Shape, value: str) -> str:
        return self._shown(kind, shapes.kept(kind, value))

    def _interface(self, match: re.Match[str]) -> str:
        name = match[0]
        is_known = COMMON_INTERFACE.fullmatch(name) or any(known.startswith(name) for known in self._interfaces)
        return name if is_known else HIDDEN

    def _id(self, value: str) -> str:
        return (
            value if not value or value == "none" or value == HIDDEN or value.isdecimal() else self._name("job", value)
        )

    def _url(self, match: re.Match[str]) -> str:
        if match["scheme"] == "file":
            return match[0]  # its path is treated as any other
        if match["scheme"] == "tcp" and shapes.is_host(match["rest"]):
            return f"tcp://{HOSTS.sub(self._hosts, match['rest'])}"
        end = DOCUMENTATION_HOSTS.match(match["rest"])
        return match[0] if end and end[0] == match["rest"].rstrip(".,;:)") else f"{match['scheme']}://{HIDDEN}"

    def _lines(self) -> re.Pattern[str]:
        if self._hidden_pattern is None:
            longest_first = sorted(self._hidden, key=len, reverse=True)
            self._hidden_pattern = re.compile("|".join(map(re.escape, longest_first)))
        return self._hidden_pattern

    def _command_line(self, words: tuple[str, ...]) -> None:
        """Hide a command line where a text repeats it, whole, cut, or a word of it that looks like nobody else's."""
        left = kept(words)
        if left == words:
            return
        line, shown = " ".join(words), " ".join(left)
        for length in (len(line), LONGEST_SHOWN):
            self._hidden.setdefault(line[:length], shown[:length])
        for word, its in zip(words, left, strict=False):
            if its == HIDDEN and len(word) >= SHORTEST_HIDDEN and not word.isalpha():
                self._hidden.setdefault(word, HIDDEN)
        self._learned()

    def _command(self, words: Any) -> Any:
        return tuple(map(self.text, kept(words, self._option)))

    def _device_entry(self, match: re.Match[str]) -> str:
        replaced = match["kind"] + self._uuids.replace(match["digits"]) + match["rest"]
        if match[0] not in self._in_text and match["kind"] + match["digits"] != replaced:
            self._in_text[match[0]] = replaced
            self._learned()
        return replaced

    def _hosts(self, match: re.Match[str]) -> str:
        # Each part is replaced once: what has a pseudonym may look like somebody else's name.
        return IPV6.sub(self._ipv6, match[0]) if match[0].count(":") > 1 else HOST_TOKEN.sub(self._host_token, match[0])

    def _host_token(self, match: re.Match[str]) -> str:
        token, name = match[0], match["name"] or ""
        if not token or token.isdecimal():
            return token
        if _address(token) is not None:
            return self._ip(token)
        if not match["range"]:
            return self._host(token)
        hosts = list(expanded(name, match["range"], match["suffix"]))
        return ",".join(map(self._host, hosts)) if hosts else self._name("nodes", token)

    # How it is replaced

    def _folded(self, match: re.Match[str]) -> str:
        """ "n[01-16]", where one of them is known to be a host."""
        hosts = list(expanded(match["name"], match["range"], match["suffix"]))
        if not any(("node", host.casefold().partition(".")[0]) in self._known for host in hosts):
            return match[0]
        return f"node-[{ranges([int(self._host(host).rpartition('-')[2]) for host in hosts])}]"

    def _names(self) -> re.Pattern[str]:
        """The known names and UUIDs as one pattern: whoever is replaced first cannot be replaced again."""
        if self._pattern is None:
            longest_first = sorted(self._in_text, key=len, reverse=True)
            domains = sorted(self._domains, key=len, reverse=True)
            parts = [f"(?P<uuid>{UUID.pattern})"]
            if domains:
                either = "|".join(map(re.escape, domains))
                parts.append(
                    rf"(?P<fqdn>(?:(?<![^\W_])[\w-]{{1,63}}\.)*(?<![^\W_])(?P<domain>(?i:{either})))(?![^\W_])"
                )
            if longest_first:
                names = "|".join(map(re.escape, longest_first))
                parts.append(rf"(?<![^\W_])(?P<name>(?i:{names}))(?![^\W_]){DOMAIN}")
            parts.append(f"(?P<home>{HOME.pattern})")
            self._pattern = re.compile("|".join(parts))
        return self._pattern

    def _replacement(self, match: re.Match[str]) -> str:
        groups = match.groupdict()
        if groups["uuid"]:
            digits = groups["digits"] or groups["bare"]
            return (groups["kind"] or "") + self._uuids.replace(digits)
        if groups.get("fqdn"):
            domain = self._domains[groups["domain"].casefold()]
            first = groups["fqdn"].partition(".")[0]
            return self._host(first) if groups["fqdn"].casefold() != groups["domain"].casefold() else domain
        if groups.get("name"):
            match_name = groups["name"]
            new = self._in_text.get(match_name) or next(
                new for name, new in self._in_text.items() if name.casefold() == match_name.casefold()
            )
            return new if new.startswith("node-") else new + (groups["behind"] or "")
        return (groups["posix"] or groups["windows"] or "") + self._user(_owner(groups))

    def _ipv4(self, match: re.Match[str]) -> str:
        before = match.string[max(0, match.start() - 24) : match.start()]
        if match[0] in self._versions or BEFORE_A_VERSION.search(before):
            return match[0]
        return self._ip(match[0])

    def _ipv6(self, match: re.Match[str]) -> str:
        # At least two groups of digits: "c10::" and "::" stand in C++ names too.
        return self._ip(match[0]) if len(re.findall(r"[0-9A-Fa-f]+", match[0])) >= 2 else match[0]

    def _ip(self, text: str) -> str:
        address = _address(text)
        if address is None or address.is_loopback or address.is_unspecified or text.startswith("255."):
            return text  # no address at all, or one that every machine has
        return self._name("ip", str(address))

    def _gid(self, gid: str) -> str:
        """A GID of the same form (link-local, made of an IPv4 address, or of a subnet) whose rest is a number."""
        match = GID.fullmatch(gid)
        if match is None:
            return self.text(gid)
        subnet, port = match["subnet"].casefold(), match["port"].casefold()
        if NUMBERED.fullmatch(port) and (subnet in (ZERO, LINK_LOCAL) or subnet.startswith(DOCUMENTATION)):
            return gid
        head = "0000:ffff:0000" if subnet == ZERO and port.startswith("0000:ffff:") else "0000:0000:0000"
        if subnet not in (ZERO, LINK_LOCAL):
            subnet = f"{DOCUMENTATION}{self._number('subnet', subnet):04x}"
        return f"{subnet}:{head}:{self._number('gid', gid.casefold()):04x}"

    def _number(self, kind: str, name: str) -> int:
        return int(self._name(kind, name).rpartition("-")[2]) & 0xFFFF

    def _redacted(self, thing: Any, mode: Mode) -> Any:
        if isinstance(thing, str):
            return self._string(thing, mode)
        if mode == "command" and isinstance(thing, tuple):
            return self._command(thing)
        if isinstance(thing, Reading):
            if thing.is_read:
                return read(self._source(thing.source), self._redacted(thing.value, mode))
            return Reading(self._source(thing.source), missing=self._redacted(thing.missing, "text"))
        if isinstance(thing, Struct):
            modes = modes_of(type(thing))
            return msgspec.structs.replace(
                thing, **{name: self._field(thing, name, modes[name]) for name in thing.__struct_fields__}
            )
        if isinstance(thing, (tuple, list)):
            return type(thing)(self._redacted(item, mode) for item in thing)
        if isinstance(thing, dict) and mode != "harmless":
            return {
                self._key(key, mode): self._entry(key, item, mode)
                for key, item in thing.items()
                if is_kept(key, item, mode)
            }
        return thing

    def _field(self, thing: Struct, name: str, mode: Mode) -> Any:
        value = getattr(thing, name)
        if (type(thing).__name__, name) in HOST_KEYED_FIELDS:  # one may look like a variable: NODE17
            return {self._host(key): self._redacted(item, "text") for key, item in value.items()}
        return self._redacted(value, mode)

    def _entry(self, key: Any, item: Any, mode: Mode) -> Any:
        name = key.strip().removeprefix("export").strip() if isinstance(key, str) else ""
        if isinstance(item, str) and (is_recorded(name) or VARIABLE.fullmatch(name)):
            return self._variable(name, item)
        return self._redacted(item, mode)

    def _key(self, key: Any, mode: Mode) -> Any:
        """Keys name variables, packages, files or hosts: the last two have their pseudonym as in any text."""
        if mode == "text" and isinstance(key, str) and "/" in key and shapes.is_path(key):
            return self._file(key)
        return self.text(key) if mode == "text" and isinstance(key, str) and VARIABLE.fullmatch(key) is None else key

    def _source(self, source: str) -> str:
        call, _, host = source.partition(" ")
        return f"{call} {self._host(host)}" if call == "getaddrinfo" and host else self.text(source)

    def _brief(self, line: str) -> str:
        """A command line as a text; of a process without one the kernel's name for it, in brackets."""
        return self.text(line if line.startswith("[") else brief(line.split()))

    def _string(self, text: str, mode: Mode) -> str:
        replace: dict[Mode, Callable[[str], str]] = {
            "text": self.text,
            "environment": self.text,
            "user": self._user,
            "host": self._host,
            "serial": self._serial,
            "gid": self._gid,
            "id": self._id,
            "command": self._brief,
            "harmless": str,
        }
        return replace[mode](text)


def _owner(home: Mapping[str, str | None]) -> str:
    """Whose home `HOME` has found."""
    return home["posix_user"] or home["windows_user"] or home["elsewhere_user"] or ""


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
