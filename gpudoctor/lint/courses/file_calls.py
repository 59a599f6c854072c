"""One rank's way through a program: which files and folders it writes, reads, makes and removes."""

import ast
from pathlib import PurePosixPath

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.builtin_calls import BuiltinCalls
from gpudoctor.lint.courses.values import Names, Thing, Value, is_known, is_own, key_of, unknown
from gpudoctor.lint.courses.writers import FETCHES, written

READS = lazy_re(r"numpy\.load(?:txt)?|(?:pandas|polars)\.read_\w+|xarray\.open_\w+")
SAVES = lazy_re(r"torch\.save|safetensors\.torch\.save_file|pickle\.dump")


class FileCalls(BuiltinCalls):
    def _of_files(self, whole: str, node: ast.Call, given: list[Value], named: Names) -> Value:
        """NotImplemented: of none of these."""
        if (file := written(whole, given, named)) is not None:
            self.do("fetched" if FETCHES.search(whole) else "save" if is_own(file[1]) else "written", node, *file)
            return unknown(node, *given)
        if READS.fullmatch(whole) and given:
            self.do("read", node, given[0])
        if SAVES.fullmatch(whole):
            where = given[1] if len(given) > 1 else named.get("f", named.get("filename"))
            self.do("save", node, where, given[0] if given else None)
            return None
        if whole == "torch.load":
            place = named.get("map_location", given[1] if len(given) > 1 else None)
            self.do("load", node, given[0] if given else named.get("f"), place)
            where = given[0] if given else named.get("f")
            self.do("read", node, where)
            return Thing("loaded", key_of(unknown(node, *given)), {"place": (key_of(where), "")}, node)
        if whole in ("os.remove", "os.unlink", "shutil.rmtree") and given:
            self.do("removed", node, given[0], bool(named.get("ignore_errors")) or len(given) > 1)
            return None
        if whole in ("os.makedirs", "os.mkdir") and given:
            self.do("folder", node, given[0], named.get("exist_ok", given[2] if len(given) > 2 else False))
            return None
        if whole == "os.path.join" and is_known(given) and all(isinstance(each, str) for each in given) and given:
            return str(PurePosixPath(*given))
        if whole == "os.path.join" and given and isinstance(given[0], str):
            own = True if any(map(is_own, given)) else None
            return Thing("path", key_of(unknown(node, *given)), {"folder": given[0], "own": own})
        return NotImplemented
