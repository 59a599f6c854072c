"""What data sets and their loaders refuse."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "no-json",
        types=("JSONDecodeError",),
        words=r"^(?P<what>Expecting value|Extra data|Unterminated string|Expecting \S{1,60}(?: \S{1,20}){0,5}): "
        r"line (?P<line>\d{1,9}) column",
        fix=(
            "What was read is no JSON at its line {line} ({what}): a file that is empty or was not written to its end, "
            "a page in place of the file, a manifest that wants one object a line (JSONL) and holds an empty line or "
            "one list. Print that line; python -m json.tool FILE names it too."
        ),
        kind="data",
        source="Python's Lib/json/decoder.py",
        sample="json.decoder.JSONDecodeError: Expecting value: line 2 column 1 (char 1)",
        counter="yaml.scanner.ScannerError: mapping values are not allowed here",
    ),
    Remedy(
        "file-as-key",
        types=("KeyError",),
        words=r"^'(?P<key>[^'\n]{0,300}[^'\n/\\]\.(?:jpe?g|png|tiff?|bmp|webp|npy|npz|txt|json|wav|flac|mp4|avi|pt|h5))'$",
        fix=(
            "The name {key} is looked up in a table that holds it in another form: print one entry of the table. "
            "Mostly the folder is cut off or put before it with a slash more or less (a prefix or root without its "
            "end), or the annotations name files that the folder has not."
        ),
        kind="data",
        source="Python's KeyError (Objects/dictobject.c); data sets that index files by name",
        sample="KeyError: '/0000115_img.png'",
        counter="KeyError: 'answer'",
    ),
    Remedy(
        "unequal-samples",
        words=(
            r"stack expects each tensor to be equal size",
            r"Trying to resize storage that is not resizable",
            r"expected sequence of length \d+ at dim \d+ \(got \d+\)",
            r"each element in list of batch should be of equal size",
        ),
        fix=(
            "The samples of a batch differ in size: bring them to one in the data set (resize, crop or pad; "
            "convert('RGB') for channels; padding and truncation for tokens), or pad them in a collate_fn of your own. "
            "num_workers=0 names the sample."
        ),
        kind="data",
        source="torch aten native/TensorShape.cpp (check_stack_inputs), utils/data/_utils/collate.py",
        sample=(
            "RuntimeError: stack expects each tensor to be equal size, but got [3, 8, 8] at entry 0 and [3, 8, 9] at "
            "entry 1",
            "RuntimeError: Trying to resize storage that is not resizable",
        ),
        counter="RuntimeError: The size of tensor a (8) must match the size of tensor b (9)",
    ),
    Remedy(
        "no-samples",
        words=(
            r"num_samples should be a positive integer value, but got num_samples=0",
            r"need at least one array to (?:concatenate|stack)",
            r"expected a non-empty list of Tensors",
            r"has no samples|dataset is empty|found 0 (?:images|files|samples)",
        ),
        fix=(
            "The data set is empty on that rank: look at its folder, pattern and split as that node sees them, and at "
            "what filters it (class names that differ from the annotation's, a minimum size); print len(dataset) "
            "before the loader."
        ),
        kind="data",
        source="torch/utils/data/sampler.py (RandomSampler), aten native/TensorShape.cpp; numpy multiarray",
        sample=(
            "ValueError: num_samples should be a positive integer value, but got num_samples=0",
            "ValueError: need at least one array to concatenate",
            "RuntimeError: torch.cat(): expected a non-empty list of Tensors",
        ),
        counter="ValueError: num_samples should be a positive integer value, but got num_samples=-2",
    ),
    Remedy(
        "index-beyond-table",
        words=r"^index out of range in self",
        types=("IndexError",),
        fix=(
            "A token id is not smaller than the rows of its embedding: take the tokenizer that belongs to the model, "
            "or model.resize_token_embeddings(len(tokenizer)); a position beyond max_position_embeddings wants "
            "truncation."
        ),
        kind="data",
        source="torch aten native/Embedding.cpp, TensorAdvancedIndexing.cpp (index_select on CPUs)",
        sample="IndexError: index out of range in self",
        counter="IndexError: list index out of range",
    ),
    Remedy(
        "label-beyond-classes",
        words=r"Target (?P<label>-?\d+) is out of bounds",
        fix=(
            "The label {label} is not below the number of outputs: count the classes of the data set, and give the "
            "last layer as many; labels begin at 0, and what is to be left out has ignore_index."
        ),
        kind="data",
        source="torch aten native/LossNLL.cpp",
        sample="IndexError: Target 21 is out of bounds.",
        counter="IndexError: index 21 is out of bounds for dimension 0 with size 21",
    ),
    Remedy(
        "cut-image",
        words=r"image file is truncated|broken data stream when reading image file|Truncated File Read",
        fix=(
            "An image file is cut off: find it by opening each once (PIL's Image.verify), and copy it again or leave "
            "it out; ImageFile.LOAD_TRUNCATED_IMAGES = True reads what is there."
        ),
        kind="data",
        source="Pillow PIL/ImageFile.py (load)",
        sample="OSError: image file is truncated (3 bytes not processed)",
        counter="OSError: cannot write mode F as PNG",
    ),
    Remedy(
        "column-too-large",
        words=r"offset overflow while concatenating arrays",
        fix=(
            "A column of one table holds more than 2 GiB of text or images: write smaller parts (datasets: "
            "writer_batch_size or batch_size of map lower), or take large_string and large_binary."
        ),
        kind="data",
        source="Apache Arrow cpp/src/arrow/array/concatenate.cc",
        sample="pyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays",
        counter="pyarrow.lib.ArrowInvalid: Column 1 named b expected length 2 but got length 3",
    ),
    Remedy(
        "bad-json-row",
        words=r"JSON parse error: (?P<what>[^\n]{1,120}?) in row (?P<row>\d+)",
        fix=(
            "Row {row} (of the block, from 0) of a JSON lines file cannot be read ({what}): one whole object stands on "
            "each line there. `python -m json.tool --json-lines FILE` names the first bad line; repair or leave it out."
        ),
        kind="data",
        source="Apache Arrow cpp/src/arrow/json/parser.cc",
        sample="pyarrow.lib.ArrowInvalid: JSON parse error: Missing a name for object member. in row 12",
        counter="json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    ),
    Remedy(
        "shared-descriptors",
        words=(r"received \d+ items of ancdata", r"Too many open files\. Communication with the workers"),
        fix=(
            "The DataLoader's workers hand over each tensor by a file descriptor, and the limit is reached: raise it, "
            "or torch.multiprocessing.set_sharing_strategy('file_system') at the beginning; keep no batches in lists."
        ),
        commands=(command("ulimit -n 65536"),),
        kind="limits",
        source="Python multiprocessing/reduction.py (recvfds); torch/utils/data/dataloader.py (_try_get_data)",
        sample=(
            "RuntimeError: received 0 items of ancdata",
            "RuntimeError: Too many open files. Communication with the workers is no longer possible.",
        ),
        counter="OSError: [Errno 24] Too many open files",
    ),
    Remedy(
        "shared-object",
        words=r"unable to open shared memory object <[^>\n]{1,200}> in (?:read-write|read-only) mode(?!: No space)",
        fix=(
            "A worker could not make or find its piece of shared memory: as a rule the limit of open files is reached "
            "(raise it, or torch.multiprocessing.set_sharing_strategy('file_system')), or /dev/shm is full, or the "
            "process that had made it has ended; fewer workers need less of all."
        ),
        commands=(command("ulimit -n 65536"), command("df -h /dev/shm")),
        kind="shared-memory",
        source="torch aten MapAllocator.cpp (before 1.9 without the errno)",
        sample="RuntimeError: unable to open shared memory object </torch_77_13> in read-write mode",
        counter="RuntimeError: unable to open shared memory object </torch_77_13> in read-write mode: No space left on "
        "device (28)",
    ),
    Remedy(
        "no-mapping",
        words=r"unable to mmap \d+ bytes from file <[^>\n]{1,200}>: Cannot allocate memory",
        fix=(
            "The process may hold no more mappings (vm.max_map_count), and each tensor that a worker hands over is "
            "one, or memory or /dev/shm is full: raise the number on the node, keep no batches in lists, and take "
            "fewer workers or a smaller prefetch_factor."
        ),
        commands=(command("sudo sysctl -w vm.max_map_count=1048576"), command("df -h /dev/shm")),
        kind="shared-memory",
        source="torch aten MapAllocator.cpp; the kernel's mm/mmap.c (sysctl_max_map_count)",
        sample="RuntimeError: unable to mmap 4096 bytes from file </torch_71_2>: Cannot allocate memory (12)",
        counter="RuntimeError: unable to mmap 4096 bytes from file </torch_71_2>: No such file or directory (2)",
    ),
    Remedy(
        "ragged-batch",
        words=r"Unable to create tensor, you should probably activate truncation and/or padding",
        fix=(
            "Give the tokenizer, or the data collator, padding=True and truncation=True, so that a batch "
            "is a rectangle."
        ),
        kind="data",
        source="transformers tokenization_utils_base.py (convert_to_tensors)",
        sample="ValueError: Unable to create tensor, you should probably activate truncation and/or padding with "
        "'padding=True' 'truncation=True' to have batched tensors with the same length.",
        counter="ValueError: padding side must be left or right",
    ),
    Remedy(
        "no-pad-token",
        words=r"Asking to pad but the tokenizer does not have a padding token",
        fix=(
            "Give the tokenizer one before the data is made: tokenizer.pad_token = tokenizer.eos_token, or "
            "add_special_tokens({{'pad_token': '[PAD]'}}) and then model.resize_token_embeddings(len(tokenizer))."
        ),
        kind="config",
        blame="program",
        source="transformers tokenization_utils_base.py (_get_padding_truncation_strategies)",
        sample="ValueError: Asking to pad but the tokenizer does not have a padding token.",
        counter="ValueError: the tokenizer does not have a mask token",
    ),
    Remedy(
        "no-loss",
        words=r"The model did not return a loss from the inputs, only the following keys: (?P<keys>[\w,.\x20]{1,200})",
        fix=(
            "The batch has no labels that the model takes: name the column `labels` (or label_names), keep it by "
            "remove_unused_columns=False, or have the data collator make it."
        ),
        kind="data",
        source="transformers trainer.py (compute_loss)",
        sample="ValueError: The model did not return a loss from the inputs, only the following keys: logits. For "
        "reference, the inputs it received are input_ids.",
        counter="ValueError: the loss is no number",
    ),
    Remedy(
        "one-letter-name",
        words=r"Dataset '(?P<letter>\w)' is not registered!",
        fix=(
            "One letter was looked up: the setting that lists data sets holds a string where it wants a list. Write "
            '("NAME",) or ["NAME"]: a name in round brackets without the comma stays a string.'
        ),
        kind="config",
        source="detectron2/data/catalog.py",
        sample="KeyError: \"Dataset 't' is not registered! Available datasets are: cells_train, cells_val\"",
        counter="KeyError: \"Data set 'cells' is not there\"",
    ),
    Remedy(
        "not-registered",
        words=(
            r"Dataset '(?P<name>[^']{2,80})' is not registered! Available datasets are",
            r"(?P<name>\w{1,80}) is not in the \w[\w:\x20-]{0,60} registry",
        ),
        fix=(
            "Nothing registered {name} in this process: import or register it in the program that runs (mmcv: "
            "custom_imports, or the package's __init__), where started processes pass too (inside main, not below "
            "its guard), have the installed package be the sources that you changed "
            "(pip install -e), and compare the name with those that the message lists. Where a line above says `Failed "
            "to import`, that import is what to mend: try it alone."
        ),
        kind="config",
        source="detectron2/data/catalog.py; mmcv/utils/registry.py",
        sample=(
            "KeyError: \"Dataset 'cells' is not registered! Available datasets are: coco_2017_train\"",
            "KeyError: 'CellHead is not in the models registry'",
        ),
        counter="KeyError: 'CellHead'",
    ),
)
