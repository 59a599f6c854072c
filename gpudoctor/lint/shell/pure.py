"""What `$(...)` prints where it is made of programs that only turn text into text, and the text is known.

Programs as POSIX has them (echo as bash's own); anything else, and any option that is not here, makes it unknown.
"""

import re
from collections.abc import Callable, Sequence

LONGEST = 1 << 14


class NotPure(ValueError):
    """What it prints is not known."""


def printed(command: Sequence[str], given: str | None) -> str:
    """What a command prints, with what it is given on standard input. Raises NotPure."""
    program = command[0].rpartition("/")[2] if command else ""
    made = _TABLE.get(program)
    if made is None or len(command) > 200 or (given is not None and len(given) > LONGEST):
        raise NotPure
    text = made(list(command[1:]), given)
    if len(text) > LONGEST:
        raise NotPure
    return text


def _echo(words: list[str], _given: str | None) -> str:
    end = "\n"
    while words and words[0] in ("-n", "-e", "-E", "-ne", "-en"):
        end = "" if "n" in words[0] else end
        escapes, words = "e" in words[0], words[1:]
        if escapes and any("\\" in word for word in words):
            raise NotPure
    return " ".join(words) + end


def _printf(words: list[str], _given: str | None) -> str:
    if not words or words[0].startswith("-"):
        raise NotPure
    form, values = words[0].replace("\\n", "\n").replace("\\t", "\t"), words[1:]
    if "\\" in form:
        raise NotPure
    parts = re.split(r"(%%|%0?\d*[sd])", form)
    if any("%" in plain for plain in parts[::2]):  # another conversion, such as %*s
        raise NotPure
    wants = sum(1 for part in parts if part[:1] == "%" and part != "%%")
    text = ""
    while True:
        for part in parts:
            if part == "%%":
                text += "%"
            elif part[:1] == "%":
                value = values.pop(0) if values else ("0" if part[-1] == "d" else "")
                if part[-1] == "d" and not re.fullmatch(r"-?\d{1,15}", value, re.ASCII):
                    raise NotPure
                width = part[1:-1]
                text += value.rjust(int(width or 0), "0" if width[:1] == "0" else " ") if width else value
            else:
                text += part
        if not values or not wants or len(text) > LONGEST:
            return text


def _expr(words: list[str], _given: str | None) -> str:
    if len(words) != 3 or not all(re.fullmatch(r"-?\d{1,12}", each, re.ASCII) for each in (words[0], words[2])):
        raise NotPure
    one, other = int(words[0]), int(words[2])
    if words[1] in ("/", "%") and (other == 0 or one < 0 or other < 0):
        raise NotPure
    made = {"+": one + other, "-": one - other, "*": one * other, "/": one // (other or 1), "%": one % (other or 1)}
    if words[1] not in made:
        raise NotPure
    return f"{made[words[1]]}\n"


def _seq(words: list[str], _given: str | None) -> str:
    between = "\n"
    if words and words[0].startswith("-s") and not words[0][2:3].isdigit():
        between, words = (
            (words[0][2:], words[1:]) if len(words[0]) > 2 else (words[1] if len(words) > 1 else " ", words[2:])
        )
    if not 1 <= len(words) <= 3 or not all(re.fullmatch(r"-?\d{1,6}", word, re.ASCII) for word in words):
        raise NotPure
    numbers = [int(word) for word in words]
    first, step, last = (1, 1, numbers[0]) if len(numbers) == 1 else (numbers[0], 1, numbers[1])
    if len(numbers) == 3:
        first, step, last = numbers
    if not step or abs(last - first) > 2000:
        raise NotPure
    return between.join(str(index) for index in range(first, last + (1 if step > 0 else -1), step)) + "\n"


def _input(given: str | None, files: Sequence[str] = ()) -> str:
    if given is None or any(file != "-" for file in files):
        raise NotPure
    return given


def _wc(words: list[str], given: str | None) -> str:
    text = _input(given, [word for word in words if not word.startswith("-")])
    counted = {"-l": text.count("\n"), "-w": len(text.split()), "-c": len(text.encode()), "-m": len(text)}
    if len(words) != 1 or words[0] not in counted:
        raise NotPure
    return f"{counted[words[0]]}\n"


def _signs(text: str) -> str:
    """The characters of tr's `a-z0-9,\\n`."""
    text = (
        text.replace("\\n", "\n").replace("\\t", "\t").replace("[:space:]", " \t\n").replace("[:digit:]", "0123456789")
    )
    text = text.replace("[:upper:]", "A-Z").replace("[:lower:]", "a-z").replace("[:blank:]", " \t")
    if "\\" in text or "[:" in text:
        raise NotPure
    return re.sub(r"(.)-(.)", lambda f: "".join(map(chr, range(ord(f[1]), ord(f[2]) + 1))), text)


def _tr(words: list[str], given: str | None) -> str:
    text = _input(given)
    flags = "".join(word[1:] for word in words if word.startswith("-") and len(word) > 1)
    sets = [_signs(word) for word in words if not (word.startswith("-") and len(word) > 1)]
    if set(flags) - set("dcCs") or not sets:
        raise NotPure
    first = sets[0]
    if "d" in flags and len(sets) == 1:
        kept = set(first)
        return "".join(character for character in text if (character in kept) == ("c" in flags.lower()))
    if flags == "s" and len(sets) == 1:
        return re.sub(rf"([{re.escape(first)}])\1+", r"\1", text)
    if flags.strip("s") or len(sets) != 2 or not sets[1]:
        raise NotPure
    second = sets[1] + sets[1][-1] * (len(first) - len(sets[1]))
    made = text.translate({ord(a): b for a, b in zip(first, second, strict=False)})
    return re.sub(rf"([{re.escape(sets[1])}])\1+", r"\1", made) if "s" in flags else made


def _options(words: list[str], valued: str) -> tuple[dict[str, str], list[str]]:
    """`-d: -f 1` and `-d : -f1` alike; what is no option."""
    by_letter: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and len(words[at]) > 1:
        letter, value = words[at][1], words[at][2:]
        if letter in valued:
            if not value:
                at += 1
                value = words[at] if at < len(words) else ""
            by_letter[letter] = value
        else:
            by_letter[words[at][1:]] = ""
        at += 1
    return by_letter, words[at:]


def _chosen(text: str) -> Callable[[int], bool]:
    """Of cut's lists: 1, 2-, -3, 1,3."""
    limits = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{0,4})(-?)(\d{0,4})", part, re.ASCII)
        if match is None or not part.strip("-"):
            raise NotPure
        first, last = int(match[1] or 1), int(match[3] or 9999) if match[2] else int(match[1] or 1)
        limits.append((first, last))
    return lambda number: any(first <= number <= last for first, last in limits)


def _cut(words: list[str], given: str | None) -> str:
    options, files = _options(words, "dfc")
    text = _input(given, files)
    if set(options) - set("dfcs") or ("f" in options) == ("c" in options):
        raise NotPure
    chosen, lines = _chosen(options.get("f", options.get("c", ""))), []
    for line in text.splitlines():
        if "c" in options:
            lines.append("".join(each for number, each in enumerate(line, 1) if chosen(number)))
            continue
        sign = options.get("d", "\t")
        parts = line.split(sign) if sign and sign in line else [line]
        picked = [part for number, part in enumerate(parts, 1) if chosen(number) or len(parts) == 1]
        lines.append(sign.join(picked))
    return "".join(line + "\n" for line in lines)


def _ends(words: list[str], given: str | None, first: bool) -> str:
    number = 10
    rest = list(words)
    if rest and re.fullmatch(r"-\d{1,5}", rest[0], re.ASCII):
        number, rest = int(rest[0][1:]), rest[1:]
    else:
        options, rest = _options(rest, "nc")
        value = options.pop("n", "10").removeprefix("--lines=")
        if options or not re.fullmatch(r"\d{1,5}", value, re.ASCII):
            raise NotPure
        number = int(value)
    lines = _input(given, rest).splitlines(keepends=True)
    return "".join(lines[:number] if first else lines[-number:] if number else [])


def _awk(words: list[str], given: str | None) -> str:
    options, rest = _options(words, "F")
    program = re.fullmatch(
        r"\s*(?:NR\s*==\s*(\d{1,3})\s*)?\{\s*print\s+(?:\$(\d{1,2}|NF)|NF|NR)\s*;?\s*\}\s*", " ".join(rest[:1])
    )
    if set(options) - {"F"} or program is None or len(rest) != 1:
        raise NotPure
    text, sign, lines = _input(given), options.get("F", ""), []
    if len(sign) > 1:
        raise NotPure
    for number, line in enumerate(text.splitlines(), 1):
        if program[1] and int(program[1]) != number:
            continue
        parts = line.split(sign) if sign and sign != " " else line.split()
        if program[2] is None:
            lines.append(str(number) if "NR" in rest[0].split("print")[1] else str(len(parts)))
        elif program[2] == "NF":
            lines.append(parts[-1] if parts else "")
        else:
            at = int(program[2])
            lines.append(line if at == 0 else parts[at - 1] if at <= len(parts) else "")
    return "".join(line + "\n" for line in lines)


def _sed(words: list[str], given: str | None) -> str:
    """`s/plain/plain/g` and `Np` with -n."""
    if len(words) == 2 and words[0] == "-n" and (line := re.fullmatch(r"(\d{1,4})p", words[1])):
        lines = _input(given).splitlines(keepends=True)
        return lines[int(line[1]) - 1] if 0 < int(line[1]) <= len(lines) else ""
    if len(words) != 1:
        raise NotPure
    match = re.fullmatch(r"s(.)(.+?)\1(.*?)\1(g?)", words[0])
    if match is None or re.search(r"[][\\.*^$&]", match[2] + match[3]):
        raise NotPure
    count = -1 if match[4] else 1
    return "".join(line.replace(match[2], match[3], count) for line in _input(given).splitlines(keepends=True))


def _grep(words: list[str], given: str | None) -> str:
    """`grep -o ,` and `grep -c`, of plain text."""
    options, rest = _options(words, "")
    if len(rest) != 1 or re.search(r"[][\\.*^$|?+(){}]", rest[0]) or set(options) - {"o", "c", "oF", "F"}:
        raise NotPure
    lines = [line for line in _input(given).splitlines() if rest[0] in line]
    if "c" in options:
        return f"{len(lines)}\n"
    if not lines:
        raise NotPure
    return "".join(f"{rest[0]}\n" * line.count(rest[0]) if "o" in "".join(options) else line + "\n" for line in lines)


def _paste(words: list[str], given: str | None) -> str:
    options, files = _options(words, "d")
    sign = options.pop("d", "") or options.pop("sd", "") or ("\t" if "s" in options else "")
    if words[:1] and words[0].startswith("-sd"):
        sign, files = (
            (words[0][3:], words[1:]) if len(words[0]) > 3 else (words[1] if len(words) > 1 else "", words[2:])
        )
    elif "s" not in options or len(sign) != 1:
        raise NotPure
    return sign.join(_input(given, files).splitlines()) + "\n"


def _sort(words: list[str], given: str | None) -> str:
    lines = _input(given).splitlines()
    if set(words) - {"-u", "-n"}:
        raise NotPure
    if "-n" in words and not all(re.fullmatch(r"\d{1,12}", line, re.ASCII) for line in lines):
        raise NotPure
    lines = sorted(set(lines) if "-u" in words else lines, key=int if "-n" in words else None)
    return "".join(line + "\n" for line in lines)


def _base(words: list[str], _given: str | None) -> str:
    if not 1 <= len(words) <= 2 or words[0].startswith("-"):
        raise NotPure
    name = words[0].rstrip("/").rpartition("/")[2]
    return (name.removesuffix(words[1]) if len(words) == 2 and name != words[1] else name) + "\n"


def _folder(words: list[str], _given: str | None) -> str:
    if len(words) != 1 or words[0].startswith("-"):
        raise NotPure
    head, slash, _ = words[0].rstrip("/").rpartition("/")
    return (head.rstrip("/") or ("/" if slash else ".")) + "\n"


def _cat(words: list[str], given: str | None) -> str:
    return _input(given, words)


def _xargs(words: list[str], given: str | None) -> str:
    if words and words != ["echo"]:
        raise NotPure
    return " ".join(_input(given).split()) + "\n"


_TABLE: dict[str, Callable[[list[str], str | None], str]] = {
    "echo": _echo, "printf": _printf, "expr": _expr, "seq": _seq, "wc": _wc, "tr": _tr, "cut": _cut, "awk": _awk,
    "gawk": _awk, "sed": _sed, "grep": _grep, "paste": _paste, "sort": _sort, "basename": _base, "dirname": _folder,
    "cat": _cat, "xargs": _xargs, "head": lambda words, given: _ends(words, given, True),
    "tail": lambda words, given: _ends(words, given, False),
}  # fmt: skip
