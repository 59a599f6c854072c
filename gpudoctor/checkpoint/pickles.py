"""Follows a pickle of torch.save without running anything: names are kept as names, calls as descriptions of calls.

The pickle's instructions (pickletools has their list) are taken one by one; the known functions that rebuild tensors
make a `Tensor` here, everything else becomes an `Object` with what was to be done to it. Numbers are not in a pickle:
they lie in storages, which a persistent id names.
"""

import struct
from collections.abc import Callable
from typing import Any

from gpudoctor.checkpoint.imports import PYTHON_2, standing
from gpudoctor.checkpoint.pickle_stack import MARK, PickleStack
from gpudoctor.checkpoint.rebuilt import rebuilt, storage_of
from gpudoctor.checkpoint.unreadable import TOO_MUCH_MEMORY, BadFile, printable
from gpudoctor.checkpoint.values import Long, Name, Object, Storage, Tensor

MOST_INSTRUCTIONS = 40_000_000
"""Followed at a million a second or so; a tensor takes 40, so that a million tensors fit."""
LONGEST_TEXT = 1 << 20
"""Bytes; a longer text (an array inside the pickle) is passed over."""
LONGEST_IMPORT = 1000
"""Characters of a module's name and what is wanted of it."""
MOST_COPIES = 1_000_000
"""Entries that calls copy, beside one for each byte."""
MOST_DIGITS = 40
BEAT = 1_000_000
Beat = Callable[[], None]


def _nothing() -> None:
    """Nobody wants to know how it gets on."""


class Machine(PickleStack):
    """Reads pickles that follow one another in `raw`, from `at` on. Raises `BadFile`, nothing else."""

    def __init__(self, raw: bytes | bytearray | memoryview, at: int = 0, *, beat: Beat = _nothing) -> None:
        super().__init__(bytes(raw), at)
        self.names: dict[Name, int] = {}
        """What the pickle wants to import, and how often."""
        self.called: set[Name] = set()
        self._beat = beat
        self._left = MOST_INSTRUCTIONS
        self._copies = MOST_COPIES + len(self.raw)

    def next_value(self) -> Any:
        """The value of the next pickle."""
        self.clear()
        self.storages: dict[str, Storage] = {}
        try:
            return self._run()
        except BadFile:
            raise
        except (IndexError, EOFError):
            if self.is_cut:
                self.at = len(self.raw)
                raise BadFile("it is cut off in the middle of its list of tensors") from None
            raise BadFile("its list of tensors is damaged: an instruction lacks its value") from None
        except MemoryError:
            raise BadFile(TOO_MUCH_MEMORY) from None
        except (struct.error, ValueError, TypeError, KeyError, OverflowError, AttributeError, RecursionError) as error:
            raise BadFile(f"its list of tensors is damaged ({type(error).__name__})") from None

    def _run(self) -> Any:
        raw, handlers, end = self.raw, _HANDLERS, len(self.raw)
        while self._left > 0:
            for _ in range(min(BEAT, self._left)):
                if self.at >= end:
                    raise EOFError
                code = raw[self.at]
                self.at += 1
                if code == 0x2E:  # STOP
                    return self.pop()
                handler = handlers[code]
                if handler is None:
                    raise BadFile(f"its list of tensors is damaged (byte {code:#04x} is no instruction of a pickle)")
                handler(self)
            self._left -= BEAT
            self._beat()
        raise BadFile(f"its list of tensors has more than {MOST_INSTRUCTIONS // 1_000_000} million instructions")

    # ------------------------------------------------------------ what a pickle wants done

    def name(self, module: str, name: str) -> None:
        if not module or not name or len(module) + len(name) > LONGEST_IMPORT:
            raise BadFile("its list of tensors is damaged: it names nothing to import")
        found = Name(PYTHON_2.get(module, module), name)
        if standing(found) == "dangerous":
            raise BadFile(
                f"it wants to import {printable(found.full)}, by which loading it can run any program: do not "
                "load it, and ask where it comes from; nothing of it was run here"
            )
        self.names[found] = self.names.get(found, 0) + 1
        self.made(found)

    def reduce(self) -> None:
        args, function = self.pop(), self.pop()
        if type(args) is not tuple:
            raise BadFile("its list of tensors is damaged: a call without arguments")
        self.made(self.call(function, args))

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        if not isinstance(function, Name):
            raise BadFile(
                "its list of tensors is damaged, or made to attack: it calls what is no function; do not load it"
            )
        if function.full in ("copyreg._reconstructor", "copyreg.__newobj__") and args and isinstance(args[0], Name):
            return Object(args[0], args[1:])
        self.copied(args)
        known = rebuilt(function, args)
        if known is not None:
            return known
        self.called.add(function)
        return Object(function, args, called=True)

    def copied(self, args: tuple[Any, ...]) -> None:
        """A call may copy what it is given: that counts as if the pickle had said it again."""
        self._copies -= sum(len(each) for each in args if isinstance(each, (list, tuple, dict)))
        if self._copies < 0:
            raise BadFile(
                "it makes its values of copies of one another, more than its own size: made to use a reader up"
            )

    def new_object(self, keywords: bool = False) -> None:
        if keywords:
            self.pop()
        args, kind = self.pop(), self.pop()
        if not isinstance(kind, Name) or type(args) is not tuple:
            raise BadFile("its list of tensors is damaged: an object without its class")
        self.copied(args)
        known = rebuilt(kind, args)
        self.made(known if known is not None else Object(kind, args))

    def build(self) -> None:
        state = self.pop()
        target = self.top()
        if isinstance(target, Object):
            target.state = state
        elif not isinstance(target, (dict, Tensor, list)):  # of those: the _metadata of a state dict, and attributes
            raise BadFile("its list of tensors is damaged: a state without its object")

    def persistent(self) -> None:
        told = self.pop()
        if type(told) is not tuple or not told:
            raise BadFile("it refers to something outside of it, as no checkpoint of torch.save does")
        what = told[0]
        if what == "module" and len(told) > 1:  # legacy: a class with its source text
            self.push(told[1])
            return
        if what != "storage":
            raise BadFile("it refers to something outside of it, as no checkpoint of torch.save does")
        storage = storage_of(told)
        if (
            storage.elements and len(told) == 5
        ):  # torch keeps the first that it meets of a key, whatever the next one says
            storage = self.storages.setdefault(storage.key, storage)
        self.made(storage)


Handler = Callable[[Machine], None]


def _push(value: Any) -> Handler:
    return lambda machine: machine.stack.append(value)


def _number(size: int, signed: bool = False) -> Handler:
    return lambda machine: machine.stack.append(int.from_bytes(machine.take(size), "little", signed=signed))


def _text(size: int, encoding: str = "utf-8", errors: str = "surrogatepass") -> Handler:
    def take(machine: Machine) -> None:
        count = machine.length(size)
        if count > LONGEST_TEXT:
            machine.skip(count)
            machine.stack.append(Long(count))
        else:
            machine.stack.append(machine.take(count).decode(encoding, errors))

    return take


def _old_text(size: int) -> Handler:
    """A text of Python 2, or bytes."""
    return _text(size, "latin-1", "strict")


def _long(size: int) -> Handler:
    def take(machine: Machine) -> None:
        count = machine.length(size)
        if count > 64:
            raise BadFile("it holds a number that no checkpoint has")
        machine.stack.append(int.from_bytes(machine.take(count), "little", signed=True))

    return take


def _decimal(machine: Machine) -> None:
    text = machine.line().decode("ascii").rstrip("L")
    if len(text) > MOST_DIGITS:
        raise BadFile("it holds a number that no checkpoint has")
    machine.stack.append({"00": False, "01": True}[text] if text in ("00", "01") else int(text))


def _index(machine: Machine) -> int:
    return int(machine.line()[:MOST_DIGITS])


def _line_text(machine: Machine) -> None:
    machine.stack.append(machine.line().decode("raw_unicode_escape", "replace"))


def _quoted(machine: Machine) -> None:
    machine.stack.append(machine.line().decode("latin-1").strip("'\""))


def _global(machine: Machine) -> None:
    module = machine.line().decode("utf-8")
    machine.name(module, machine.line().decode("utf-8"))


def _stack_global(machine: Machine) -> None:
    name, module = machine.pop(), machine.pop()
    if type(name) is not str or type(module) is not str:
        raise BadFile("its list of tensors is damaged: it names nothing to import")
    machine.name(module, name)


def _instance(machine: Machine) -> None:
    module = machine.line().decode("utf-8")
    name = machine.line().decode("utf-8")
    args = tuple(machine.items())
    machine.name(module, name)
    machine.made(machine.call(machine.pop(), args))


def _object(machine: Machine) -> None:
    kind, *args = machine.items()
    machine.made(machine.call(kind, tuple(args)))


def _append(machine: Machine) -> None:
    value = machine.pop()
    machine.extend([value])


def _set_item(machine: Machine) -> None:
    value, key = machine.pop(), machine.pop()
    machine.set_items([key, value])


def _dictionary(machine: Machine) -> None:
    items = machine.items()
    machine.made({})
    machine.set_items(items)


def _extension(machine: Machine) -> None:
    raise BadFile("it wants an object of a registered extension, as no checkpoint of torch.save does")


def _pop_mark(machine: Machine) -> None:
    machine.items()


def _pop_any(machine: Machine) -> None:
    if machine.stack.pop() is MARK:
        machine.marks -= 1


_TABLE: dict[int, Handler] = {
    0x80: lambda machine: machine.skip(1),  # PROTO
    0x95: lambda machine: machine.skip(8),  # FRAME
    0x28: Machine.mark,
    0x4E: _push(None),
    0x88: _push(True),
    0x89: _push(False),
    0x7D: lambda machine: machine.made({}),
    0x5D: lambda machine: machine.made([]),
    0x8F: lambda machine: machine.made([]),  # EMPTY_SET
    0x29: _push(()),
    0x4B: _number(1),
    0x4D: _number(2),
    0x4A: _number(4, signed=True),
    0x8A: _long(1),
    0x8B: _long(4),
    0x49: _decimal,  # INT
    0x4C: _decimal,  # LONG
    0x47: lambda machine: machine.stack.append(struct.unpack(">d", machine.take(8))[0]),
    0x46: lambda machine: machine.stack.append(float(machine.line()[:MOST_DIGITS])),
    0x58: _text(4),
    0x8C: _text(1),
    0x8D: _text(8),
    0x56: _line_text,  # UNICODE
    0x53: _quoted,  # STRING
    0x55: _old_text(1),  # SHORT_BINSTRING
    0x54: _old_text(4),
    0x43: _old_text(1),  # SHORT_BINBYTES
    0x42: _old_text(4),
    0x8E: _old_text(8),
    0x96: _old_text(8),  # BYTEARRAY8
    0x71: lambda machine: machine.put(machine.length(1)),
    0x72: lambda machine: machine.put(machine.length(4)),
    0x70: lambda machine: machine.put(_index(machine)),
    0x94: lambda machine: machine.put(len(machine.memo)),
    0x68: lambda machine: machine.get(machine.length(1)),
    0x6A: lambda machine: machine.get(machine.length(4)),
    0x67: lambda machine: machine.get(_index(machine)),
    0x61: _append,
    0x65: lambda machine: machine.extend(machine.items()),
    0x90: lambda machine: machine.extend(machine.items()),  # ADDITEMS
    0x91: lambda machine: machine.made(machine.items()),  # FROZENSET
    0x73: _set_item,
    0x75: lambda machine: machine.set_items(machine.items()),
    0x64: _dictionary,
    0x6C: lambda machine: machine.made(machine.items()),
    0x74: lambda machine: machine.made(tuple(machine.items())),
    0x85: lambda machine: machine.tuple_of(1),
    0x86: lambda machine: machine.tuple_of(2),
    0x87: lambda machine: machine.tuple_of(3),
    0x30: _pop_any,
    0x31: _pop_mark,
    0x32: lambda machine: machine.push(machine.top()),  # DUP
    0x63: _global,
    0x93: _stack_global,
    0x69: _instance,
    0x6F: _object,
    0x52: Machine.reduce,
    0x81: Machine.new_object,
    0x92: lambda machine: machine.new_object(keywords=True),
    0x62: Machine.build,
    0x51: Machine.persistent,
    0x82: _extension,
    0x83: _extension,
    0x84: _extension,
}
_HANDLERS: list[Handler | None] = [_TABLE.get(code) for code in range(256)]
