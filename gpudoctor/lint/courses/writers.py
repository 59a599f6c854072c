"""Calls of libraries that write what they are given to a path."""

from gpudoctor.lazy import lazy_re
from gpudoctor.lint.courses.values import Names, Value

_WRITES = (
    (lazy_re(r"numpy\.(?:save|savez|savez_compressed|savetxt)"), 0, "file", 1),
    (lazy_re(r"(?:scipy\.io\.savemat|torchaudio\.save|soundfile\.write)"), 0, "file", 1),
    (lazy_re(r"urllib\.request\.urlretrieve"), 1, "filename", 0),
    (lazy_re(r"wget\.download"), 1, "out", 0),
    (lazy_re(r"gdown\.download"), 1, "output", 0),
)
"""Where the path stands, its name, and where what is written stands. torch.hub.download_url_to_file is none of them: it
renames a file of its own."""
_METHODS_THAT_WRITE = frozenset(
    ("to_parquet", "to_csv", "to_json", "to_pickle", "to_feather", "to_hdf", "to_netcdf", "to_zarr", "write_parquet",
     "write_csv")
)  # fmt: skip
"""Of pandas, polars and xarray."""
FETCHES = lazy_re(r"urlretrieve|download")


def written(whole: str, given: list[Value], named: Names) -> tuple[Value, Value] | None:
    """The path, and what is written there, of a call that writes a file; None of another one."""
    for pattern, place, name, of in _WRITES:
        if pattern.fullmatch(whole):
            path = named.get(name, given[place] if len(given) > place else None)
            return (path, given[of] if len(given) > of else None) if path is not None else None
    return None


def written_by_method(name: str, holder: Value, given: list[Value]) -> tuple[Value, Value] | None:
    """`frame.to_parquet(path)`."""
    return (given[0], holder) if name in _METHODS_THAT_WRITE and given else None
