"""What data sets, files of models and vocabularies, configurations and installers say, each in words that only it "
"writes."""

from gpudoctor.check import command
from gpudoctor.remedy import Remedy

REMEDIES = (
    Remedy(
        "newer-data-set",
        words=r"Feature type '(?P<name>List|Json|Pdf|Video|Nifti)' not found\. Available feature types",
        fix=(
            "The data set was written by a newer datasets, which has the feature {name} (List: 4.0): python -m pip "
            "install --upgrade datasets; a data set of your own in the cache is made anew by the older one with "
            "download_mode='force_redownload'."
        ),
        commands=(command("python -m pip install --upgrade datasets"),),
        kind="dependency-mismatch",
        source="datasets features/features.py (generate_from_dict): 4.0 has List, 3.6 has not",
        sample="ValueError: Feature type 'List' not found. Available feature types: ['Value', 'ClassLabel']",
        counter="ValueError: Feature type 'Words' not found. Available feature types: ['Value']",
    ),
    Remedy(
        "cache-in-local-file-system",
        words=r"Loading a dataset cached in a LocalFileSystem is not supported|"
        r"Invalid pattern: '\*\*' can only be an entire path component",
        fix=(
            "This datasets is older than the fsspec beside it: python -m pip install --upgrade datasets (2.14.7 and "
            "later go with it), or python -m pip install 'fsspec<2023.10'."
        ),
        commands=(command("python -m pip install --upgrade datasets"),),
        kind="dependency-mismatch",
        source="datasets builder.py (as_dataset); fsspec 2023.10 implementations/local.py (protocol is a tuple), "
        "utils.py (glob_translate)",
        sample=(
            "NotImplementedError: Loading a dataset cached in a LocalFileSystem is not supported.",
            "ValueError: Invalid pattern: '**' can only be an entire path component",
        ),
        counter="NotImplementedError: Loading a dataset cached in a HfFileSystem is not supported.",
    ),
    Remedy(
        "arrow-extension-gone",
        words=r"module 'pyarrow' has no attribute 'PyExtensionType'",
        fix=(
            "pyarrow 21 has PyExtensionType no more: python -m pip install --upgrade datasets (2.14.7 and later do not "
            "use it), or python -m pip install 'pyarrow<21'."
        ),
        commands=(command("python -m pip install --upgrade datasets"),),
        kind="dependency-mismatch",
        source="Apache Arrow 21.0.0's release notes; datasets features/features.py: 2.14.4 uses it, 2.14.7 does not",
        sample="AttributeError: module 'pyarrow' has no attribute 'PyExtensionType'. Did you mean: 'ExtensionType'?",
        counter="AttributeError: module 'pyarrow' has no attribute 'Type'",
    ),
    Remedy(
        "data-set-not-on-hub",
        words=r"Dataset '(?P<name>[^'\n]{1,120})' (?:doesn't exist on the Hub or cannot be accessed|"
        r"is a gated dataset on the Hub)",
        fix=(
            "The hub gives nobody without rights {name}: look at its spelling (OWNER/NAME) on huggingface.co/datasets; "
            "of a private or gated one accept its terms on its page, and give the job a token of that account (hf auth "
            "login, or HF_TOKEN). Of a folder give the path as it is on that node, and of files the builder: "
            "load_dataset('json', data_files=...)."
        ),
        kind="permission",
        blame="user",
        source="datasets load.py (dataset_module_factory)",
        sample="DatasetNotFoundError: Dataset 'org/set' doesn't exist on the Hub or cannot be accessed.",
        counter="DatasetNotFoundError: Dataset is empty",
    ),
    Remedy(
        "rows-of-map",
        words=r"Column \d{1,4} named (?P<name>\S{1,60}) expected length (?P<want>\d{1,9}) but got length "
        r"(?P<got>\d{1,9})",
        fix=(
            "The function of a batched map gives back {got} rows for {want}, and the old columns stand beside them: "
            "dataset.map(..., batched=True, remove_columns=dataset.column_names), so that only the new ones are left, "
            "or give as many rows in each column as came in."
        ),
        kind="data",
        source="pyarrow table.cc (Table::Validate); datasets arrow_writer.py (write_batch)",
        sample="ArrowInvalid: Column 3 named input_ids expected length 1000 but got length 743",
        counter="ArrowInvalid: Column 3 is empty",
    ),
    Remedy(
        "map-worker-died",
        words=r"One of the subprocesses has abruptly died during map operation",
        fix=(
            "A process of map was killed or crashed, mostly by the kernel for want of memory: fewer num_proc, a "
            "smaller writer_batch_size, or more memory for the job (dmesg, or the container's counter, tells of a "
            "kill). num_proc=None shows an error of the function itself."
        ),
        commands=(command("sudo dmesg | grep -i -E 'killed process|out of memory'"),),
        kind="dead-rank",
        blame="environment",
        restart="not decided",
        source="datasets utils/py_utils.py (iflatmap_unordered)",
        sample="RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the error, "
        "disable multiprocessing.",
        counter="RuntimeError: One of the processes ended",
    ),
    Remedy(
        "best-model-strategies",
        words=r"load_best_model_at_end requires the (?:save and eval|saving) (?:strategy|steps) to "
        r"(?:match|be a (?:round )?multiple)",
        fix=(
            "load_best_model_at_end=True wants the model saved whenever it is evaluated: the same save_strategy and "
            "eval_strategy ('steps' or 'epoch'), and of steps save_steps a multiple of eval_steps; or leave it out."
        ),
        kind="config",
        source="transformers training_args.py (__post_init__)",
        sample="ValueError: --load_best_model_at_end requires the save and eval strategy to match, but found",
        counter="ValueError: load_best_model_at_end is set",
    ),
    Remedy(
        "adapter-names-unknown",
        words=r"Target modules (?P<names>\{[^}\n]{1,200}\}|\[[^\]\n]{1,200}\]|\S{1,100}) not found in the base model",
        fix=(
            "This model has no layers that are called {names}: write those that print(model) shows (GPT-2: c_attn; "
            "Falcon, GPT-NeoX, Bloom, ChatGLM: query_key_value; Phi-3: qkv_proj, o_proj; T5: q, v), or "
            "target_modules='all-linear'."
        ),
        kind="argument",
        blame="user",
        source="peft tuners/tuners_utils.py (inject_adapter); utils/constants.py (the models' names)",
        sample="ValueError: Target modules {'v_proj', 'q_proj'} not found in the base model. Please check the target",
        counter="ValueError: Target modules are empty",
    ),
    Remedy(
        "no-adapter-there",
        words=r"Can't find '(?P<file>adapter_config\.json)' at '(?P<path>[^'\n]{1,300})'",
        fix=(
            "{path} holds no adapter ({file}): give the folder in which peft's save_pretrained has put one (of a "
            "Trainer: checkpoint-N), as that node sees it, or its whole name on the hub. A whole or merged model is "
            "loaded by AutoModelForCausalLM.from_pretrained, without PeftModel."
        ),
        kind="file-missing",
        blame="user",
        source="peft config.py (_get_peft_type, from_pretrained)",
        sample="ValueError: Can't find 'adapter_config.json' at 'out/checkpoint-500'",
        counter="ValueError: Can't find the adapter",
    ),
    Remedy(
        "no-vocabulary-file",
        types=("TypeError",),
        words=r"\Anot a string\Z",
        fix=(
            "SentencePiece was given no path: the tokenizer found no tokenizer.model where it was told to look. Give "
            "from_pretrained a folder or name that has that file, or the model's fast tokenizer (use_fast=True, "
            "tokenizer.json)."
        ),
        kind="file-missing",
        blame="program",
        source="sentencepiece __init__.py (LoadFromFile), sentencepiece_wrap.cxx",
        sample="TypeError: not a string",
        counter="TypeError: not a string or bytes",
    ),
    Remedy(
        "vocabulary-file-damaged",
        words=r"\[model_proto->ParseFromArray\(serialized\.data\(\), serialized\.size\(\)\)\]",
        fix=(
            "The file given to SentencePiece is no model of it: a pointer of git-lfs in place of tokenizer.model (some "
            "hundred bytes: git lfs pull), a download that was broken off, or another file (tokenizer.json). Fetch it "
            "again, and compare its size."
        ),
        kind="data",
        source="sentencepiece src/sentencepiece_processor.cc (LoadFromSerializedProto)",
        sample="RuntimeError: Internal: src/sentencepiece_processor.cc(1101) [model_proto->ParseFromArray("
        "serialized.data(), serialized.size())]",
        counter="RuntimeError: Internal: sentencepiece_processor.cc",
    ),
    Remedy(
        "attention-not-there",
        words=r"(?P<name>\w{1,80}) does not support an attention implementation through torch\.nn\.functional\."
        r"scaled_dot_product_attention",
        fix=(
            "{name} has no attention by sdpa in the installed transformers: load it with attn_implementation='eager', "
            "or by a newer transformers (or newer code of the model), which may have it."
        ),
        kind="argument",
        source="transformers modeling_utils.py (_check_and_enable_sdpa)",
        sample="ValueError: InternLM2ForCausalLM does not support an attention implementation through "
        "torch.nn.functional.scaled_dot_product_attention yet.",
        counter="ValueError: X does not support attention",
    ),
    Remedy(
        "image-tokens-cut",
        words=r"(?P<kind>Image|Video|Audio)s? features and \w{1,12} tokens do not match",
        fix=(
            "The text holds another number of {kind} tokens than the model made features: as a rule max_length with "
            "truncation=True cut them off (raise it, shrink the pictures by max_pixels, or truncate text only), or "
            "text and pictures did not go through the processor together; else processor and model are of different "
            "releases."
        ),
        kind="data",
        source="transformers models/qwen2_vl, llava (forward, get_placeholder_mask)",
        sample="ValueError: Image features and image tokens do not match: tokens: 1176, features 1980",
        counter="ValueError: Image features are empty",
    ),
    Remedy(
        "generate-takes-not",
        words=r"The following `model_kwargs` are not used by the model: \[(?P<names>[^\]\n]{1,200})\]",
        fix=(
            "generate() was given {names}, which this model does not take: drop these from what the tokenizer or "
            "processor gave (inputs.pop(...); of token_type_ids: return_token_type_ids=False), or correct their names. "
            "Where nobody gives them, processor and model are of another release of transformers than they were made "
            "for."
        ),
        kind="argument",
        source="transformers generation/utils.py (_validate_model_kwargs)",
        sample="ValueError: The following `model_kwargs` are not used by the model: ['token_type_ids'] (note: typos in",
        counter="ValueError: The following arguments are not used",
    ),
    Remedy(
        "language-model-of-spacy",
        words=r"\[E050\] Can't find model '(?P<name>[\w.-]{1,60})'",
        fix="python -m spacy download {name}, into the environment that runs (on a node without a way out: install its "
        "wheel from a folder).",
        commands=(command("python -m spacy validate"),),
        kind="file-missing",
        source="spaCy errors.py (E050), util.py (load_model)",
        sample="OSError: [E050] Can't find model 'en_core_web_sm'. It doesn't seem to be a Python package or a valid "
        "path",
        counter="OSError: [E051] Cant' find model",
    ),
    Remedy(
        "resource-of-nltk",
        words=r"Resource (?:\x1b\[93m)?'?(?P<name>[\w/.-]{1,60})'?(?:\x1b\[0m)? not found\.\s{1,6}Please use the NLTK "
        r"Downloader",
        fix="python -m nltk.downloader {name} once, where there is a way out; NLTK_DATA names the folder that the "
        "nodes share.",
        kind="file-missing",
        source="nltk data.py (find)",
        sample="LookupError: \n****\n  Resource punkt_tab not found.\n  Please use the NLTK Downloader to obtain the",
        counter="LookupError: Resource not found",
    ),
    Remedy(
        "pickled-objects-in-array",
        words=r"Object arrays cannot be loaded when allow_pickle=False",
        fix=(
            "The file holds Python objects, not numbers: np.load(file, allow_pickle=True) reads them, which runs what "
            "is in it, so only of a file that you trust; better save arrays of one dtype."
        ),
        kind="argument",
        source="numpy lib/_format_impl.py (read_array)",
        sample="ValueError: Object arrays cannot be loaded when allow_pickle=False",
        counter="ValueError: allow_pickle is False",
    ),
    Remedy(
        "newer-pickle",
        words=r"unsupported pickle protocol: (?P<number>[5-9])",
        fix=(
            "The file was pickled by a newer Python (protocol 5: 3.8 and later): read it by Python 3.8 or newer, or "
            "write it again there with protocol=4."
        ),
        commands=(command("python --version"),),
        kind="dependency-mismatch",
        source="Python Modules/_pickle.c (load_proto), PEP 574",
        sample="ValueError: unsupported pickle protocol: 5",
        counter="ValueError: unsupported protocol",
    ),
    Remedy(
        "empty-pickle",
        types=("EOFError",),
        words=r"\ARan out of input",
        fix=(
            "The file is empty, or ends too early: whoever wrote it was ended, had no room, or still writes (another "
            "rank reads before rank 0 has closed it: a barrier between them). Look at its size, and take it from where "
            "it is whole, or make it again (a cache: remove it)."
        ),
        kind="data",
        source="Python Modules/_pickle.c (bad_readline, _Unpickler_ReadImpl)",
        sample="EOFError: Ran out of input",
        counter="EOFError: EOF when reading a line",
    ),
    Remedy(
        "no-audio-reader",
        words=r"Couldn't find appropriate backend to handle uri (?P<path>\S{1,200}) and format",
        fix=(
            "torchaudio has no reader for {path}: python -m pip install soundfile (wav, flac, ogg), FFmpeg of a "
            "release that this torchaudio takes for mp3 and m4a (conda install -c conda-forge 'ffmpeg<7'), and look at "
            "the path, for a missing file is told so too. torchaudio.list_audio_backends() shows those that it found."
        ),
        kind="import",
        source="torchaudio _backend/utils.py (get_load_func.dispatcher)",
        sample="RuntimeError: Couldn't find appropriate backend to handle uri /data/a.mp3 and format None.",
        counter="RuntimeError: Couldn't find a backend",
    ),
    Remedy(
        "pictures-of-yaml",
        words=r"Dataset '(?P<yaml>[^'\n]{1,200})' images not found[^\n]{0,20}, missing path '(?P<path>[^'\n]{1,300})'",
        fix=(
            "{yaml} leads to {path}, which is not there. Its train and val are read below its own `path`, and a "
            "relative `path` below datasets_dir of Ultralytics' settings: write an absolute `path`, or `yolo settings "
            "datasets_dir=FOLDER`."
        ),
        kind="file-missing",
        blame="user",
        source="ultralytics data/utils.py (check_det_dataset)",
        sample="FileNotFoundError: \nDataset '/w/data.yaml' images not found ⚠️, missing path "
        "'/w/datasets/valid/images'",
        counter="FileNotFoundError: Dataset not found",
    ),
    Remedy(
        "unknown-to-timm",
        words=r"\AUnknown model \((?P<name>[\w.:/-]{1,100})\)",
        fix=(
            "The installed timm has no {name}: python -m pip install --upgrade timm where it is a newer model, or "
            "write one of timm.list_models('*PART*') (of weights: timm.list_pretrained)."
        ),
        commands=(command("python -m pip install --upgrade timm"),),
        kind="dependency-mismatch",
        source="timm models/_factory.py (create_model)",
        sample="RuntimeError: Unknown model (vit_base_patch16_siglip_512.v2_webli)",
        counter="RuntimeError: Unknown model",
    ),
    Remedy(
        "pickled-by-older-torch",
        types=("AttributeError",),
        words=r"'(?P<name>Upsample)' object has no attribute '(?P<what>recompute_scale_factor)'|"
        r"'(?P<gelu>GELU)' object has no attribute '(?P<approximate>approximate)'",
        fix=(
            "The file holds a whole model, pickled by an older torch, whose modules lack what this one asks for "
            "(Upsample since 1.11, GELU since 1.12): build the model in this torch and load the file's state_dict() "
            "into it, take a newer release of the project or its weights, or the torch that wrote it."
        ),
        kind="dependency-mismatch",
        blame="program",
        source="torch nn/modules/upsampling.py (1.11), activation.py (1.12): __init__ sets it, a pickle does not",
        sample=(
            "AttributeError: 'Upsample' object has no attribute 'recompute_scale_factor'",
            "AttributeError: 'GELU' object has no attribute 'approximate'",
        ),
        counter="AttributeError: 'Upsample' object has no attribute 'x'",
    ),
    Remedy(
        "argument-of-target",
        words=r"Error in call to target '(?P<target>[^'\n]{1,120})':\s{0,4}TypeError\([\"'][^\n]{0,200}?"
        r"got an unexpected keyword argument '(?P<name>\w{1,80})'",
        fix=(
            "The configuration gives {name} to {target}, which does not take it: take it out of that node (full_key "
            "names it), correct its name, or have {target} take it."
        ),
        kind="config",
        source="hydra _internal/instantiate/_instantiate2.py (_call_target)",
        sample="InstantiationException: Error in call to target 'src.ViT':\nTypeError(\"ViT.__init__() got an "
        "unexpected keyword argument 'drop_path'\")",
        counter="InstantiationException: Error in call to target 'src.ViT':\nValueError('x')",
    ),
    Remedy(
        "target-lacks-argument",
        words=r"Error in call to target '(?P<target>[^'\n]{1,120})':\s{0,4}TypeError\([\"'][^\n]{0,200}?"
        r"missing \d{1,2} required (?:positional|keyword-only) arguments?: (?P<names>[^\n\"]{1,120})",
        fix="{target} needs {names}, which that node of the configuration (full_key) does not give: add it there, with "
        "`???` removed, or as an argument of hydra.utils.instantiate(cfg, name=value).",
        kind="config",
        source="hydra _internal/instantiate/_instantiate2.py (_call_target)",
        sample="InstantiationException: Error in call to target 'src.ViT':\nTypeError(\"ViT.__init__() missing 1 "
        "required positional argument: 'depth'\")",
        counter="InstantiationException: Error in call to target 'src.ViT':\nTypeError('x')",
    ),
    Remedy(
        "system-python-closed",
        words=r"externally-managed-environment|This environment is externally managed",
        lines=True,
        fix=(
            "The system keeps its Python for itself: make an environment of your own (python3 -m venv ENV, then "
            "ENV/bin/python -m pip install ...) or one of conda; in a container pip's --break-system-packages does too."
        ),
        commands=(command("python3 -m venv ~/env"),),
        kind="permission",
        source="pip exceptions.py (ExternallyManagedEnvironment), PEP 668",
        sample="error: externally-managed-environment",
        counter="error: environment is managed",
    ),
    Remedy(
        "wheel-of-another",
        words=r"(?P<file>[\w.+-]{5,200}\.whl) is not a supported wheel on this platform",
        lines=True,
        fix=(
            "{file} is for another Python, system or processor: its name says for which (cp310: Python 3.10; "
            "linux_x86_64; manylinux_2_28: glibc 2.28 or newer). Take the file whose name fits what `python -m pip "
            "debug --verbose` lists."
        ),
        commands=(command("python -m pip debug --verbose"),),
        kind="dependency-mismatch",
        blame="user",
        source="pip operations/prepare.py, index (UnsupportedWheel)",
        sample="ERROR: flash_attn-2.5.8-cp310-cp310-linux_x86_64.whl is not a supported wheel on this platform.",
        counter="ERROR: flash_attn.whl was not found",
    ),
    Remedy(
        "name-is-retired",
        words=r"The 'sklearn' PyPI package is deprecated, use 'scikit-learn'",
        lines=True,
        fix="Write scikit-learn for sklearn in the requirements (it is still imported as sklearn): python -m pip "
        "install scikit-learn.",
        commands=(command("python -m pip install scikit-learn"),),
        kind="dependency-mismatch",
        blame="user",
        source="PyPI's sklearn 0.0.post5 setup.py",
        sample="The 'sklearn' PyPI package is deprecated, use 'scikit-learn'",
        counter="sklearn is there",
    ),
)

__all__ = ["REMEDIES"]
