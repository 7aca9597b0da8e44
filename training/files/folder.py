"""What a model's folder asks for. What would change numbers is honoured, or refused by its name.

Its tokenizer's settings, and its tensors under the names of this repository. torch is needed where
these are read as such.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from training.files.course_files import WEIGHT_FILES
from training.files.errors import InputError, first_line, values_of
from training.files.texts import read_json, read_text

MODEL_MAX_LENGTH = 512  # what ``truncation=True`` alone cuts at, unless a folder asks for less
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# What the files of a tokenizer may not say otherwise; None and empty lists say nothing.
SETTINGS = dict.fromkeys(("never_split", "additional_special_tokens", "extra_special_tokens"))
SETTINGS |= {"strip_accents": None, "tokenize_chinese_chars": True}
SETTINGS |= {"tokenizer_class": "BertTokenizer", "do_basic_tokenize": True}
SETTINGS |= {"padding_side": "right", "truncation_side": "right", "split_special_tokens": False}
SETTINGS |= {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
SETTINGS |= {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
CLS, SEP = ({"SpecialToken": {"id": token, "type_id": 0}} for token in ("[CLS]", "[SEP]"))
A, B = ({"Sequence": {"id": text, "type_id": segment}} for text, segment in (("A", 0), ("B", 1)))
LAST = {"SpecialToken": {"id": "[SEP]", "type_id": 1}}
TEMPLATE = {"single": [CLS, A, SEP], "pair": [CLS, A, SEP, B, LAST], "type": "TemplateProcessing"}
WORDPIECE = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
WORDPIECE |= {"max_input_chars_per_word": 100}
NORMALIZER = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
NORMALIZER |= {"strip_accents": None}
# What tokenizer.json may not say otherwise; its normalizer also says whether text is lower-cased
WHOLE = {"pre_tokenizer": {"type": "BertPreTokenizer"}}
WHOLE |= {"model": WORDPIECE, "post_processor": TEMPLATE}
# How a token is found in a text, which no token may have otherwise
FOUND = dict.fromkeys(("normalized", "single_word"), False)
MOST_ROWS_ADDED = 127  # to an embedding, so that its size is a multiple of 8, 64 or 128

FIRST = "embeddings.word_embeddings.weight"  # every BERT has it
COUNTERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # 0, 1, 2 … and 0, 0, 0 …
CORE = ("embeddings", "encoder", "pooler")  # parts of BERT, of which nothing may be passed over


def require(values: Mapping[str, Any], wanted: Mapping[str, Any], whose: str = "its") -> None:
    """ValueError where one of the wanted entries, or of those in it, is something else."""
    for name, ours in wanted.items():
        theirs = values.get(name, ours)
        if isinstance(ours, dict):
            require(theirs or {"type": None}, ours, f"{whose} {name}'s")
        elif theirs != ours:
            raise ValueError(f"{whose} {name} is {theirs!r}, not {ours!r}")


# ---------------------------------------------------------------------------------------------
# The tokenizer


def read_vocabulary(folder: Path) -> tuple[list[str], bool, int]:
    """The tokenizer that a model's folder asks for.

    Returns:
        The tokens in the order of their ids; whether text is lower-cased (and accents stripped);
        and after how many tokens ``truncation=True`` cuts.

    Raises:
        InputError: there is none, its files contradict each other or the model's configuration, or
            they ask for what BertTokenizer does not do.
    """
    names = ("config", "tokenizer_config", "special_tokens_map", "added_tokens", "tokenizer")
    with values_of(f"the tokenizer in {folder} is not BERT's", "correct it or take another"):
        config, settings, special, added, whole = (
            read_json(path) if (path := folder / f"{name}.json").is_file() else {} for name in names
        )
        check_settings(settings)
        check_settings(special)
        listed = (
            *whole.get("added_tokens", ()),
            *settings.get("added_tokens_decoder", {}).values(),
        )
        if more := {*added, *(entry["content"] for entry in listed)} - {*SPECIAL_TOKENS}:
            raise ValueError(f"it has added tokens, such as {min(more)!r}")
        for entry in listed:
            require(entry, FOUND, entry["content"] + "'s")
        lower_case = settings.get("do_lower_case", True)
        if not isinstance(lower_case, bool):
            raise ValueError(f"its do_lower_case is {lower_case!r}, neither true nor false")
        pieces = pieces_of(folder, whole, lower_case)
        tokens, rows = len(pieces), config.get("vocab_size", len(pieces))
        if not 0 <= rows - tokens <= MOST_ROWS_ADDED:
            raise ValueError(f"its vocabulary has {tokens:,} tokens, the model {rows:,}")
        longest = settings.get("model_max_length")
        if longest is not None and (type(longest) not in (int, float) or longest < 1):
            raise ValueError(f"its model_max_length is {longest!r}, not a number from 1 on")
    return pieces, lower_case, int(min(longest or MODEL_MAX_LENGTH, MODEL_MAX_LENGTH))


def check_settings(settings: Mapping[str, Any]) -> None:
    """ValueError where tokenizer_config.json asks for what BertTokenizer does not do."""
    given = {name: value for name, value in settings.items() if value not in (None, [], {})}
    for name, value in given.items():
        if name.endswith("_token") and isinstance(value, dict):  # an AddedToken of transformers
            given[name] = value["content"]
            require(value, FOUND, f"its {name}'s")
        elif name == "tokenizer_class":
            given[name] = value.removesuffix("Fast")
    require(given, SETTINGS)


def pieces_of(folder: Path, whole: Mapping[str, Any], lower_case: bool) -> list[str]:
    """The tokens of vocab.txt, of tokenizer.json, or of both where they agree."""
    file = folder / "vocab.txt"
    # split("\n"), because splitlines() would also split inside odd pieces
    listed = read_text(file).rstrip("\n").split("\n") if file.is_file() else []
    if not whole:
        if not listed:
            raise InputError(f"{folder} holds no vocabulary (vocab.txt or tokenizer.json)")
        return listed
    normalizer = NORMALIZER | {"lowercase": lower_case}
    require(whole, WHOLE | {"normalizer": normalizer}, "tokenizer.json's")
    ids = whole["model"]["vocab"]  # token → id
    pieces = sorted(ids, key=ids.get)
    if [ids[piece] for piece in pieces] != [*range(len(pieces))]:
        raise ValueError("the ids in tokenizer.json do not count from 0 on, each once")
    if listed and {piece: i for i, piece in enumerate(listed)} != ids:
        raise ValueError("vocab.txt and tokenizer.json differ")
    return listed or pieces


# ---------------------------------------------------------------------------------------------
# The tensors


def read_weights(folder: str | Path) -> dict[str, Any]:
    """All tensors of a checkpoint folder: of model.safetensors, else of pytorch_model.bin.

    Raises InputError naming the file if it is missing, truncated or not what it claims to be, or
    if its weights are not floating-point numbers. Their names are those of by_name.
    """
    import torch  # here, because a tokenizer is read without it
    from safetensors.torch import load_file

    file = next((Path(folder, name) for name in WEIGHT_FILES if Path(folder, name).is_file()), None)
    if file is None:
        raise InputError(f"{folder} holds no weights in one file ({' or '.join(WEIGHT_FILES)})")
    is_pickle = file.suffix == ".bin"
    try:
        tensors = dict(torch.load(file, "cpu", weights_only=True) if is_pickle else load_file(file))
    except Exception as error:  # half a dozen types; torch's own text advises to trust the file
        why = "it holds more than tensors, or is truncated" if is_pickle else first_line(error)
        raise InputError(f"{file} cannot be read ({why}); fetch it again") from error
    check_numbers(f"{folder}:", tensors)
    return by_name(Path(folder), tensors)


def by_name(folder: Path, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint's tensors or arrays, each under the one name that it has in this repository.

    That is transformers' name without ``bert.``, nor what DistributedDataParallel, torch.compile or
    a module around BERT put in front of it, and not one of older versions.

    Raises:
        InputError: two different tensors have the same name, or the folder is an adapter's.
    """
    if (folder / "adapter_config.json").is_file():
        what = f"{folder} holds an adapter (adapter_config.json), which would be left out"
        raise InputError(f"{what}; merge it into the model's weights and save these")
    first = next((name for name in map(str, tensors) if name.endswith(FIRST)), FIRST)
    wrapper = first.removesuffix(FIRST).removesuffix("bert.")
    named: dict[str, Any] = {}
    for theirs, tensor in tensors.items():
        name = str(theirs).removeprefix(wrapper).removeprefix("bert.")
        name = name.replace(".gamma", ".weight").replace(".beta", ".bias")
        if name in COUNTERS:
            continue
        other = named.setdefault(name, tensor)
        if other is not tensor and not (other.shape == tensor.shape and (other == tensor).all()):
            raise InputError(f"{folder} holds two different {name}; save the model again")
    return named


def check_numbers(source: str, tensors: Mapping[str, Any]) -> None:
    """InputError unless all weights are finite floating-point numbers, of 16 bits or more."""
    for name, tensor in tensors.items():
        if not str(name).endswith((".weight", ".bias", ".gamma", ".beta")):
            continue
        is_exact = tensor.is_floating_point() and tensor.element_size() > 1
        if not (is_exact and tensor.isfinite().all()):
            what = f"{source} {name} does not hold finite floating-point numbers of 16 bits or more"
            raise InputError(f"{what}; take the model as it was trained")


def check_surplus(source: str, names: Collection[str], known: Collection[str], *parts: str) -> None:
    """InputError where a checkpoint has more of some parts of a model than is computed with."""
    surplus = [name for name in names if name not in known and {*parts} & {*name.split(".")}]
    if surplus:
        what = f"{source} holds {min(surplus)}, which its config.json does not ask for"
        raise InputError(f"{what}; merge adapters into the weights, or correct the configuration")
