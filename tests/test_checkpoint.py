"""Reading, judging and copying checkpoints: real ones of torch, foreign, broken and hostile ones."""

import io
import json
import math
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from torch import nn

from gpudoctor.checkpoint import compare, fix, nonfinite, safetensors, torch_writer, wrappers
from gpudoctor.checkpoint.examine import FileWish, examined
from gpudoctor.checkpoint.foreign import STARTS, what_it_is
from gpudoctor.checkpoint.imports import standing
from gpudoctor.checkpoint.opened import opened
from gpudoctor.checkpoint.pickles import Machine
from gpudoctor.checkpoint.report import CheckpointReport
from gpudoctor.checkpoint.source import CHUNK, OpenFile
from gpudoctor.checkpoint.unreadable import BadFile
from gpudoctor.checkpoint.values import Name
from tests import checkpoint_files
from tests.checkpoint_files import Runs, as_torch, attack, tensor, zipped

ROOT = Path(__file__).parent.parent
KEYS = ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"]
KEYS += ["2.weight", "2.bias"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    done = subprocess.run(
        [sys.executable, "-m", "tests.checkpoint_files", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))


def look(file: Path, **more: Any) -> CheckpointReport:
    return examined(FileWish(str(file), **more))


def refusal(file: Path, **more: Any) -> str:
    with pytest.raises(BadFile) as caught:
        look(file, **more)
    said = str(caught.value)
    assert "\n" not in said and said
    return said


def ids(report: CheckpointReport) -> set[str]:
    return {problem.id for problem in report.problems}


def write(folder: Path, content: bytes, name: str = "x.pt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


# ---------------------------------------------------------------- what torch writes


@pytest.mark.parametrize(
    ("name", "kind", "wrappers_found", "problems"),
    [
        ("plain.pt", "torch zip", (), set()),
        ("legacy.pt", "torch legacy", (), set()),
        ("plain.safetensors", "safetensors", (), set()),
        ("without-checksums.pt", "torch zip", (), set()),
        ("data-parallel.pt", "torch zip", ("module.",), {"wrapper-prefix"}),
        ("ddp.pt", "torch zip", ("module.",), {"wrapper-prefix"}),
        ("compiled.pt", "torch zip", ("_orig_mod.",), {"wrapper-prefix"}),
        ("compiled-ddp.pt", "torch zip", ("_orig_mod.", "module."), {"wrapper-prefix"}),
        ("averaged.pt", "torch zip", ("module.",), {"wrapper-prefix"}),
        ("lightning.ckpt", "torch zip", ("model.",), {"wrapper-prefix"}),
        ("fsdp2.pt", "torch zip", (), {"distributed-tensors"}),
        ("training.pt", "torch zip", (), set()),
        ("training-with-args.pt", "torch zip", (), {"torch-load-refuses"}),
        ("whole.pt", "torch zip", (), {"torch-load-refuses", "whole-object"}),
    ],
)
def test_every_way_of_saving_a_model_is_recognised(
    files: Path, name: str, kind: str, wrappers_found: tuple[str, ...], problems: set[str]
) -> None:
    report = look(files / name)
    assert (report.format, set(report.wrappers), ids(report)) == (kind, set(wrappers_found), problems)
    plain = wrappers.cleaned([entry.name for entry in report.tensors], attribute="ckpt" in name).names
    assert sorted(plain.values()) == sorted(KEYS)
    assert report.values_read and report.exit_status == 0
    assert all(entry.nan in (0, None) for entry in report.tensors)


def test_what_is_listed_is_what_torch_loads(files: Path) -> None:
    for name in ("plain.pt", "legacy.pt", "kinds.pt", "tied.pt", "views.pt", "nan.pt"):
        state = torch.load(files / name, weights_only=True)
        report = look(files / name)
        assert [entry.name for entry in report.tensors] == list(state)
        for entry in report.tensors:
            own = state[entry.name]
            assert (entry.shape, f"torch.{entry.dtype}") == (tuple(own.shape), str(own.dtype)), (name, entry)
            if entry.nan is not None and "float8" not in entry.dtype:
                assert (entry.nan, entry.infinite) == (int(own.isnan().sum()), int(own.isinf().sum())), (name, entry)


def test_the_parts_of_a_training_state_are_told(files: Path) -> None:
    report = look(files / "training.pt")
    assert report.chosen == '["model"]'
    told = {part.key: (part.what, part.value) for part in report.parts}
    assert told['["optimizer"]'] == ("optimizer", "") and told['["epoch"]'] == ("value", "3")
    lightning = look(files / "lightning.ckpt")
    assert lightning.written_by[0].startswith("PyTorch Lightning 2.")
    assert {part.key: part.what for part in lightning.parts}['["optimizer_states"]'] == "optimizers"


def test_tied_tensors_are_named_and_counted_once(files: Path) -> None:
    report = look(files / "tied.pt")
    assert report.shared == (("embedding.weight", "head.weight"),)
    assert report.parameters == 20 and report.tensor_count == 2


def test_nan_is_an_error_that_names_the_tensor(files: Path) -> None:
    report = look(files / "nan.pt")
    assert ids(report) == {"values-not-finite"} and report.exit_status == 1
    assert "0.weight" in report.problems[0].summary and "3 NaN and 3 inf of 12" in report.problems[0].summary
    assert not look(files / "nan.pt", values=False).problems


def test_numbers_that_changed_on_the_disk_are_found_where_torch_loads_them(files: Path, tmp_path: Path) -> None:
    raw = bytearray((files / "plain.pt").read_bytes())
    with OpenFile(str(files / "plain.pt")) as source:
        loaded = opened(source, lambda: None)
        raw[loaded.region(loaded.root["2.weight"].storage).offset + 1] ^= 4
    broken = write(tmp_path, bytes(raw))
    torch.load(broken, weights_only=True)  # says nothing
    report = look(broken)
    assert ids(report) == {"damaged-record"} and report.problems[0].tensors == ("2.weight",)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("optimizer.pt", "the state of an optimizer"),
        ("tensor.pt", "one tensor"),
    ],
)
def test_a_file_without_a_model_says_what_it_has(files: Path, name: str, word: str) -> None:
    report = look(files / name)
    assert ids(report) == {"no-state-dict"} and word in report.problems[0].summary and report.exit_status == 1


def test_a_program_and_tensors_without_numbers_are_told(files: Path) -> None:
    assert "torch.jit.load" in refusal(files / "script.pt")
    assert "without-numbers" in ids(look(files / "meta.pt"))
    assert look(files / "sparse.pt").tensors[0].kind == "sparse"


def test_the_part_of_one_rank_is_no_model(files: Path, tmp_path: Path) -> None:
    raw = (files / "fsdp2.pt").read_bytes()
    entries = {
        entry.filename: zipfile.ZipFile(io.BytesIO(raw)).read(entry)
        for entry in zipfile.ZipFile(files / "fsdp2.pt").infolist()
    }
    # The first tensor's whole becomes twice as high as the part: what rank 0 of two saves.
    whole = b"ctorch\nfloat32\nq\x06K%cK\x04"
    pickled = entries["fsdp2/data.pkl"].replace(whole % 3, whole % 6, 1)
    assert pickled != entries["fsdp2/data.pkl"]
    report = look(write(tmp_path, zipped({**entries, "fsdp2/data.pkl": pickled})))
    assert "one-rank-of-several" in ids(report) and "[3, 4] of [6, 4]" in report.problems[0].summary
    assert "Shard(dim=0)" in report.problems[0].summary


# ---------------------------------------------------------------- loading


@pytest.mark.parametrize(
    "name",
    [
        "plain.pt",
        "legacy.pt",
        "plain.safetensors",
        "ddp.pt",
        "compiled-ddp.pt",
        "averaged.pt",
        "lightning.ckpt",
        "training.pt",
    ],
)
def test_the_lines_load_the_model_as_they_stand(files: Path, name: str) -> None:
    model = net()
    (loading,) = look(files / name).loading
    exec("\n".join(loading.lines), {"torch": torch, "model": model})
    assert loading.error_after == ""


@pytest.mark.parametrize("name", ["ddp.pt", "compiled.pt", "averaged.pt", "lightning.ckpt"])
def test_torchs_own_complaint_is_foretold_word_for_word(
    files: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "MOST_NAMES", 1000)
    state = torch.load(files / name, weights_only=True)
    with pytest.raises(RuntimeError) as caught:
        net().load_state_dict(state.get("state_dict", state))
    (loading,) = look(files / name).loading
    assert loading.error == str(caught.value).replace("for Sequential:", "for Model:")


def test_shapes_that_differ_are_told_in_torchs_words() -> None:
    model = nn.Sequential(nn.Linear(4, 5))
    given = nn.Sequential(nn.Linear(4, 3)).state_dict()
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(given)
    found = compare.difference(
        {name: tuple(value.shape) for name, value in given.items()},
        {name: tuple(value.shape) for name, value in model.state_dict().items()},
    )
    assert compare.in_torch_words(found, "Sequential") == str(caught.value)


def test_another_model_is_compared(files: Path, tmp_path: Path) -> None:
    other = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 7))
    torch.save(other.state_dict(), tmp_path / "other.pt")
    report = look(files / "ddp.pt", like=str(tmp_path / "other.pt"))
    assert "keys-differ" in ids(report) and report.exit_status == 1
    assert "size mismatch for 2.weight" in report.loading[0].error_after
    assert look(files / "ddp.pt", like=str(files / "plain.pt")).exit_status == 0


def test_names_that_differ_by_a_prefix_only_get_lines_that_load(files: Path, tmp_path: Path) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone = net()

    model = Outer()
    torch.save(model.state_dict(), tmp_path / "outer.pt")
    report = look(files / "ddp.pt", like=str(tmp_path / "outer.pt"))
    (loading,) = report.loading
    assert loading.error and not loading.error_after and report.exit_status == 0
    exec("\n".join(loading.lines), {"torch": torch, "model": model})


@pytest.mark.parametrize(
    ("names", "attribute", "plain", "taken"),
    [
        (["a.weight"], False, ["a.weight"], ()),
        (["module.a", "module.b"], False, ["a", "b"], ("module.",)),
        (["module.a", "b"], False, ["module.a", "b"], ()),
        (["module.module.a"], False, ["a"], ("module.", "module.")),
        (["module._orig_mod.a", "module._orig_mod.b"], False, ["a", "b"], ("_orig_mod.", "module.")),
        (["_orig_mod.module.a"], False, ["a"], ("_orig_mod.", "module.")),
        (["layer._orig_mod.weight", "head.weight"], False, ["layer.weight", "head.weight"], ("_orig_mod.",)),
        (["_fsdp_wrapped_module.a._fsdp_wrapped_module.w"], False, ["a.w"], ("_fsdp_wrapped_module.",)),
        (["a._checkpoint_wrapped_module.w"], False, ["a.w"], ("_checkpoint_wrapped_module.",)),
        (["my_orig_mod.a"], False, ["my_orig_mod.a"], ()),
        (["model.a", "model.b"], False, ["model.a", "model.b"], ()),  # transformers names its own layers so
        (["model.a", "model.b"], True, ["a", "b"], ("model.",)),
        (["model.a", "loss.b"], True, ["model.a", "loss.b"], ()),
        (["_orig_mod.a", "a"], False, ["_orig_mod.a", "a"], ()),  # two of one name
        (["module."], False, ["module."], ()),
        ([], False, [], ()),
    ],
)
def test_prefixes(names: list[str], attribute: bool, plain: list[str], taken: tuple[str, ...]) -> None:
    found = wrappers.cleaned(names, attribute=attribute)
    assert list(found.names.values()) == plain
    assert set(found.wrappers) == set(taken)
    for old, new in found.names.items():
        assert eval(wrappers.expression(found.wrappers), {"name": old}) == new  # noqa: S307 - what a user pastes


@given(st.lists(st.text(max_size=30), max_size=8, unique=True), st.booleans())
def test_prefixes_of_any_names(names: list[str], attribute: bool) -> None:
    found = wrappers.cleaned(names, attribute=attribute)
    assert set(found.names) | set(found.dropped) == set(names)
    assert len(set(found.names.values())) == len(found.names)


# ---------------------------------------------------------------- the clean copy


def copy(file: Path, out: Path, **more: Any) -> dict[str, Any]:
    out.touch()
    return fix.copied(FileWish(str(file), out=str(out), **more), str(out))


@pytest.mark.parametrize("ending", [".pt", ".safetensors"])
@pytest.mark.parametrize(
    "name",
    ["plain.pt", "legacy.pt", "compiled-ddp.pt", "averaged.pt", "lightning.ckpt", "fsdp2.pt", "training-with-args.pt"],
)
def test_a_clean_copy_loads_into_a_plain_model(files: Path, tmp_path: Path, name: str, ending: str) -> None:
    from safetensors.torch import load_file

    out = tmp_path / f"clean{ending}"
    assert copy(files / name, out)["tensors"] == 9
    state = load_file(out) if ending == ".safetensors" else torch.load(out, weights_only=True, mmap=True)
    model = net()
    model.load_state_dict(state)
    plain = torch.load(files / "training.pt" if "training" in name else files / "plain.pt", weights_only=True)
    if "lightning" not in name and "fsdp2" not in name:
        for key, value in plain.get("model", plain).items():
            if "num_batches" not in key and "running" not in key:
                assert torch.equal(model.state_dict()[key], value) or "training" not in name, key
    assert not look(out).problems


def test_every_kind_of_tensor_survives(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "clean.pt"
    copy(files / "kinds.pt", out)
    before, after = (torch.load(path, weights_only=True) for path in (files / "kinds.pt", out))
    assert list(before) == list(after)
    for name, value in before.items():
        own = after[name]
        assert (own.dtype, own.shape, own.stride()) == (value.dtype, value.shape, value.stride()), name
        assert (
            bytes(own.contiguous().view(torch.uint8).flatten().tolist())
            == bytes(value.detach().contiguous().view(torch.uint8).flatten().tolist())
            if value.dim()
            else own == value
        ), name


def test_the_whole_objects_state_dict_is_copied_without_its_code(files: Path, tmp_path: Path) -> None:
    copy(files / "whole.pt", tmp_path / "clean.pt")
    state = torch.load(tmp_path / "clean.pt", weights_only=True)
    assert sorted(state) == sorted(KEYS)
    whole = torch.load(files / "whole.pt", weights_only=False).state_dict()
    assert all(torch.equal(state[name], value) for name, value in whole.items())


def test_shared_tensors_stay_shared_and_views_take_what_they_look_at(files: Path, tmp_path: Path) -> None:
    copy(files / "tied.pt", tmp_path / "tied.pt")
    state = torch.load(tmp_path / "tied.pt", weights_only=True)
    assert state["embedding.weight"].data_ptr() == state["head.weight"].data_ptr()
    copy(files / "views.pt", tmp_path / "views.pt")
    state = torch.load(tmp_path / "views.pt", weights_only=True)
    assert state["a"].tolist() == [float(n) for n in range(100, 110)]
    assert state["b"].tolist() == [float(n) for n in range(105, 120)]
    assert state["a"].data_ptr() + 20 == state["b"].data_ptr()
    assert (tmp_path / "views.pt").stat().st_size < 3000 < (files / "views.pt").stat().st_size


@pytest.mark.parametrize("name", ["sparse.pt", "meta.pt"])
def test_what_no_plain_file_can_hold_is_not_copied(files: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(BadFile, match="--fix copies plain tensors only, and w"):
        copy(files / name, tmp_path / "out.pt")


def test_safetensors_refuses_what_it_cannot_hold(files: Path, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="safetensors"):
        copy(files / "kinds.pt", tmp_path / "out.safetensors")


def test_a_full_disk_is_said_before_anything_is_written(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        f_bavail, f_frsize = 1, 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Full)
    with pytest.raises(BadFile, match=r"4 KiB are free"):
        copy(files / "plain.pt", tmp_path / "out.pt")
    assert (tmp_path / "out.pt").stat().st_size == 0


def test_a_copy_that_differs_is_noticed(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch_writer.TorchWriter.entry

    def spoiled(self: Any, name: str, size: int, pieces: Any) -> None:
        whole = b"".join(pieces)
        real(self, name, size, [whole[:-1] + b"\1" if name == "data/0" else whole])

    monkeypatch.setattr(torch_writer.TorchWriter, "entry", spoiled)
    with pytest.raises(BadFile, match=r"the numbers of 0\.weight differ in the copy"):
        copy(files / "plain.pt", tmp_path / "out.pt")


def test_large_entries_get_64_bit_sizes(monkeypatch: pytest.MonkeyPatch, files: Path, tmp_path: Path) -> None:
    monkeypatch.setattr(torch_writer, "LARGE", 40)  # as if 40 bytes were 4 GiB
    copy(files / "plain.pt", tmp_path / "out.pt")
    monkeypatch.undo()
    state = torch.load(tmp_path / "out.pt", weights_only=True)
    assert sorted(state) == sorted(KEYS)
    assert zipfile.ZipFile(tmp_path / "out.pt").testzip() is None


# ---------------------------------------------------------------- several files


def sharded(folder: Path) -> Path:
    first, second = {"a.weight": torch.randn(3)}, {"b.weight": torch.tensor([1.0, math.nan])}
    from safetensors.torch import save_file

    save_file(first, folder / "model-1-of-2.safetensors")
    save_file(second, folder / "model-2-of-2.safetensors")
    where = {"a.weight": "model-1-of-2.safetensors", "b.weight": "model-2-of-2.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 20}, "weight_map": where}))
    return index


def test_an_index_is_read_with_its_files(tmp_path: Path) -> None:
    index = sharded(tmp_path)
    report = look(index)
    assert report.format == "safetensors index" and [entry.name for entry in report.tensors] == ["a.weight", "b.weight"]
    assert ids(report) == {"values-not-finite"} and report.shared == ()
    model = nn.ModuleDict({"a": nn.LayerNorm(3, bias=False), "b": nn.LayerNorm(2, bias=False)})
    exec("\n".join(report.loading[0].lines), {"torch": torch, "model": model})
    (tmp_path / "model-2-of-2.safetensors").unlink()
    assert "model-2-of-2.safetensors: there is no such file" in refusal(index)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", ""])
def test_an_index_names_files_beside_it_only(tmp_path: Path, name: str) -> None:
    index = write(tmp_path, json.dumps({"weight_map": {"w": name}}).encode(), "x.index.json")
    assert "not beside it" in refusal(index)


def test_folders_say_what_reads_them(tmp_path: Path) -> None:
    assert "without a checkpoint" in refusal(tmp_path)
    (tmp_path / "__0_0.distcp").touch()
    assert "without its .metadata" in refusal(tmp_path)
    (tmp_path / ".metadata").touch()
    assert "dcp_to_torch" in refusal(tmp_path)
    assert "name its folder" in refusal(write(tmp_path, b"PK\x03\x04", "__1_0.distcp"))


# ---------------------------------------------------------------- foreign and broken files


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (bytes(5000), "zeros only"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        (b"<!DOCTYPE html><html><title>Sign in\n to x</title>", "Sign in to x"),
        (b'\n<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "AccessDenied"),
        (b'{"error": "Repository not found"}', "Repository not found"),
        (b"Entry not found", "Entry not found"),
        (b"\x93NUMPY\x01\x00", "numpy.load"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"GGUF\x03\0\0\0", "llama.cpp"),
        (b"\x08\x07\x12\x07pytorch\x1a\x051.2.3", "ONNX"),
        (b"\x1f\x8b\x08", "gunzip"),
        (b"\x1c\0\0\0TFL3", "TensorFlow Lite"),
        (bytes(257) + b"ustar" + bytes(200), "zeros only|tar"),
        (b"x" * 257 + b"ustar" + bytes(200), "tar archive"),
        (b"\xde\xad\xbe\xef", "de ad be ef"),
        (zipped({"a.npy": b"x"}), "numpy.load"),
        (zipped({"model/pytorch_model.bin": b"x"}), "unpack it"),
        (zipped({"word/document.xml": b"x"}), "none of torch.save"),
        (pickle.dumps({"a": [1, 2]}), "pickle, and no checkpoint"),
    ],
)
def test_foreign_files_are_named(tmp_path: Path, content: bytes, word: str) -> None:
    import re

    assert re.search(word, refusal(write(tmp_path, content)))


def test_every_known_beginning_is_text_for_users() -> None:
    for start, said in STARTS:
        assert what_it_is(start + b"\x01", 100, "x") == said and said.startswith("it is")


@pytest.mark.parametrize("name", ["plain.pt", "legacy.pt", "plain.safetensors"])
def test_a_file_cut_anywhere_is_refused(files: Path, tmp_path: Path, name: str) -> None:
    raw = (files / name).read_bytes()
    for length in [*range(0, len(raw), 37), len(raw) - 1]:
        said = refusal(write(tmp_path, raw[:length]))
        assert length < 200 or "cut off" in said or "no checkpoint" in said, (length, said)


def test_a_fifo_and_a_device_are_no_checkpoints(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        assert "no regular file" in refusal(path)


# ---------------------------------------------------------------- hostile files


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("wrap", [as_torch, lambda pickled: pickled], ids=["zip", "bare"])
def test_an_attack_is_named_and_not_run(tmp_path: Path, protocol: int, wrap: Callable[[bytes], bytes]) -> None:
    marker = tmp_path / "marker"
    pickled = attack(marker, protocol)
    file = write(tmp_path, wrap(pickled))
    said = refusal(file)
    assert not marker.exists()
    assert "system" in said or (wrap is not as_torch and protocol < 2)  # protocol 0 and 1 have no mark of a pickle
    if wrap is as_torch:
        with pytest.raises(BadFile):
            fix.copied(FileWish(str(file), out="o.pt"), str(tmp_path / "o.pt"))
    assert not marker.exists()


@pytest.mark.parametrize(
    "value",
    [Runs(eval, "1"), Runs(exec, "1"), Runs(getattr, int, "real"), Runs(subprocess.run, "x"), Runs(pickle.loads, b"")],
)
def test_gadgets_are_named(tmp_path: Path, value: Any) -> None:
    assert "do not load it" in refusal(write(tmp_path, as_torch(pickle.dumps(value, 2))))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("os.system", "dangerous"),
        ("posix.system", "dangerous"),
        ("builtins.eval", "dangerous"),
        ("torch.hub.load", "dangerous"),
        ("torch.load", "dangerous"),
        ("importlib.import_module", "dangerous"),
        ("torch.FloatStorage", "allowed"),
        ("torch._utils._rebuild_tensor_v2", "allowed"),
        ("torch._utils._import_dotted_name", "other code"),
        ("collections.OrderedDict", "allowed"),
        ("torch.distributed.tensor.DTensor", "allowed"),
        ("argparse.Namespace", "plain data"),
        ("numpy._core.multiarray.scalar", "plain data"),
        ("mymodel.Net", "other code"),
        ("ossify.Net", "other code"),
        ("code.model.Net", "other code"),
    ],
)
def test_standing_of_names(name: str, wanted: str) -> None:
    module, _, last = name.rpartition(".")
    assert standing(Name(module, last)) == wanted


def test_nothing_that_torch_allows_is_refused() -> None:
    from torch._weights_only_unpickler import _get_allowed_globals  # type: ignore[attr-defined,unused-ignore]

    for full in _get_allowed_globals():
        module, _, last = full.rpartition(".")
        assert standing(Name(module, last)) == "allowed", full


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (as_torch(tensor(shape=(5,)), _0=bytes(16)), "past the end of its storage"),
        (as_torch(tensor(offset=1), _0=bytes(16)), "past the end of its storage"),
        (as_torch(tensor(shape=(-1,)), _0=bytes(16)), "shape is none"),
        (as_torch(tensor(count=1 << 61, shape=(1 << 61,)), _0=bytes(16)), "has 16 bytes, and its tensor"),
        (as_torch(tensor(shape=(1 << 40, 1 << 40)), _0=bytes(16)), "absurd shape"),
        (as_torch(tensor(key="../../etc/passwd")), "no entry"),
        (as_torch(tensor(key="7"), _0=bytes(16)), "no entry"),
        (zipped({"archive/data.pkl": b"\x80\x02}.", "../../x": b"x"}), "leads out of it"),
        (zipped({"a/data.pkl": b"\x80\x02}.", "b/data.pkl": b"\x80\x02}."}), "more than one pickle"),
        (as_torch(b"\x80\x02" + b"(" * 20_000 + b"."), "deep"),
        (as_torch(b"\x80\x02]q\0h\0\x86q\1" + b"h\1h\1\x86q\1" * 100 + b"."), None),
        (as_torch(b"\x80\x02]q\0h\0a."), None),
        (as_torch(b"\x80\x02}q\0(X\1\0\0\0ah\0u."), None),
        (as_torch(b"\x80\x02X\xff\xff\xff\xffa"), "cut off"),
        (as_torch(b"\x80\x02\x8b\xff\xff\xff\x7fa."), "number that no checkpoint"),
        (as_torch(b"\x80\x02\x82\x01."), "extension"),
        (as_torch(b"\x80\x02I1\nQ."), "outside of it"),
        (as_torch(b""), "cut off"),
        (as_torch(b"."), "damaged|cut off"),
        (b"\x0a\0\0\0\0\0\0\0{" + b'"a":' * 2, "header"),
        (struct.pack("<Q", 1 << 40) + b"{" + bytes(100), "no checkpoint|claims"),
    ],
)
def test_hostile_files_are_refused_or_listed(tmp_path: Path, content: bytes, word: str | None) -> None:
    import re

    file = write(tmp_path, content)
    if word is None:
        assert ids(look(file)) == {"no-state-dict"}
    else:
        assert re.search(word, refusal(file))


def test_a_storage_told_twice_is_read_as_torch_reads_it(tmp_path: Path) -> None:
    one, other = tensor("a")[2:-2], tensor("b")[4:]
    raw = as_torch(b"\x80\x02" + one + other.replace(b"FloatStorage", b"IntStorage"), _0=bytes(16))
    state = torch.load(write(tmp_path, raw), weights_only=True)
    told = {entry.name: f"torch.{entry.dtype}" for entry in look(tmp_path / "x.pt").tensors}
    assert told == {name: str(value.dtype) for name, value in state.items()}


@pytest.mark.thorough
def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    content = zipped(
        {"archive/data.pkl": tensor(count=1 << 25, shape=(1 << 25,)), "archive/data/0": bytes(1 << 27)}, packed=True
    )
    assert len(content) < 1 << 20 and "a zip bomb" in refusal(write(tmp_path, content))


def test_entries_that_overlap_are_refused(tmp_path: Path) -> None:
    raw = bytearray(as_torch(tensor(), _0=bytes(1000)))
    at = raw.find(b"PK\x01\x02")
    while at >= 0:  # each entry as long as the file
        struct.pack_into("<II", raw, at + 20, len(raw) - 200, len(raw) - 200)
        at = raw.find(b"PK\x01\x02", at + 4)
    assert "overlap" in refusal(write(tmp_path, bytes(raw)))


def test_two_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    raw = as_torch(tensor(), _0=bytes(16), _1=bytes(16)).replace(b"archive/data/1", b"archive/data/0")
    assert "two entries named" in refusal(write(tmp_path, raw))


def test_a_packed_checkpoint_is_read(files: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(files / "plain.pt") as file:
        entries = {name: file.read(name) for name in file.namelist()}
    packed = write(tmp_path, zipped(entries, packed=True))
    assert look(packed).tensor_count == 9 and look(packed).values_read
    copy(packed, tmp_path / "out.pt")
    before, after = (torch.load(path, weights_only=True) for path in (files / "plain.pt", tmp_path / "out.pt"))
    assert all(torch.equal(before[name], after[name]) for name in before)


def only_ours(content: bytes) -> None:
    """Reading it gives a report or `Unreadable`, and nothing else."""
    number = os.memfd_create("checkpoint")
    try:
        os.write(number, content)
        path = f"/proc/self/fd/{number}"
        for wish in (FileWish(path), FileWish(path, like=path)):
            try:
                examined(wish)
            except BadFile as error:
                assert str(error)
    finally:
        os.close(number)


@given(st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_bytes(content: bytes) -> None:
    only_ours(content)


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x80\x02", b"\x80\x02}(", b"\x80\x02(X\1\0\0\0a"]))
@settings(max_examples=500, deadline=None)
def test_any_pickle(content: bytes, start: bytes) -> None:
    try:
        Machine(start + content).next_value()
    except BadFile as error:
        assert str(error)
    only_ours(as_torch(start + content))


@given(st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("name", ["plain.pt", "legacy.pt", "fsdp2.pt", "training-with-args.pt", "plain.safetensors"])
def test_real_files_with_bytes_changed(files: Path, name: str, data: st.DataObject) -> None:
    raw = bytearray((files / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    only_ours(bytes(raw))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5) | st.floats(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
        max_leaves=20,
    )
)
@settings(deadline=None)
def test_any_json_as_a_header(value: Any) -> None:
    raw = json.dumps(value).encode()
    only_ours(struct.pack("<Q", len(raw)) + raw)
    only_ours(raw)


# ---------------------------------------------------------------- numbers

FLOATS = ["float64", "float32", "float16", "bfloat16", "complex64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"]


@given(st.sampled_from(FLOATS), st.binary(max_size=64), st.integers(0, 3), st.booleans())
@settings(max_examples=500, deadline=None)
def test_nan_and_infinity_are_counted_as_torch_does(dtype: str, raw: bytes, special: int, big: bool) -> None:
    size = torch.empty(0, dtype=getattr(torch, dtype)).element_size()
    part = size // 2 if dtype.startswith("complex") else size
    raw = raw[: len(raw) // size * size]
    if special and raw:  # bytes of exponents and zeros: what chance seldom gives
        raw = bytes(
            (byte | 0x7F if special & 1 else byte & 0x80) if at % part >= part - 2 else 0 for at, byte in enumerate(raw)
        )
    values = (
        torch.frombuffer(bytearray(raw), dtype=getattr(torch, dtype))
        if raw
        else torch.empty(0, dtype=getattr(torch, dtype))
    )
    if dtype.startswith("complex"):
        values = torch.view_as_real(values)
    values = values.double()
    given_bytes = b"".join(raw[at : at + part][::-1] for at in range(0, len(raw), part)) if big else raw
    found = nonfinite.count(given_bytes, dtype, big_endian=big)
    assert found == (int(values.isnan().sum()), int(values.isinf().sum()))


def test_every_piece_of_a_long_storage_is_counted(tmp_path: Path) -> None:
    count = CHUNK // 4 * 2 + 10
    values = torch.zeros(count)
    for at in (0, CHUNK // 4 - 1, CHUNK // 4, count - 1):
        values[at] = math.nan
    torch.save({"w": values, "tail": values[CHUNK // 4 :]}, tmp_path / "x.pt")
    report = look(tmp_path / "x.pt")
    assert [entry.nan for entry in report.tensors] == [4, 2]
    assert report.shared == (("w", "tail"),)


@given(
    st.lists(
        st.tuples(
            st.text(max_size=10), st.sampled_from(sorted(safetensors.DTYPES)), st.lists(st.integers(0, 3), max_size=3)
        ),
        max_size=5,
        unique_by=lambda each: each[0],
    )
)
@settings(deadline=None)
def test_safetensors_written_here_are_read_back(told: list[tuple[str, str, list[int]]]) -> None:
    from gpudoctor.checkpoint import safetensors_writer
    from gpudoctor.checkpoint.copied import Copied, CopyPlan, PlacedTensor
    from gpudoctor.checkpoint.source import Region
    from gpudoctor.checkpoint.values import ITEM_BYTES, contiguous, product

    placed = []
    for number, (name, kind, shape) in enumerate(told):
        if name == "__metadata__":
            continue
        dtype = safetensors.DTYPES[kind]
        placed.append(
            PlacedTensor(name, dtype, tuple(shape), contiguous(tuple(shape)), number, 0, True, product(tuple(shape)))
        )
    plan = CopyPlan((Copied("0", Region(0, 0), 0, 0),), tuple(placed))
    out = io.BytesIO()

    def pieces() -> Iterator[Iterator[bytes]]:
        for each in safetensors_writer.order(plan):
            yield iter([bytes(product(each.shape) * ITEM_BYTES[each.dtype])])

    safetensors_writer.write(out, plan, pieces())
    number = os.memfd_create("checkpoint")
    try:
        os.write(number, out.getvalue())
        with OpenFile(f"/proc/self/fd/{number}") as source:
            root = safetensors.load(source).root
    finally:
        os.close(number)
    assert {name: (each.dtype, each.shape) for name, each in root.items()} == {
        each.name: (each.dtype, each.shape) for each in placed
    }


def test_the_example_of_the_documentation_is_current() -> None:
    assert (ROOT / "docs" / "examples" / "ddp-epoch12.pt").read_bytes() == checkpoint_files.example()
