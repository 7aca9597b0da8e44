"""What a model's folder asks for. What would change numbers is honoured, or refused by its name.

Its tokenizer's settings, and its tensors under the names of this repository. Needs no torch.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from training.files.errors import InputError, values_of
from training.files.texts import read_json, read_text

MODEL_MAX_LENGTH = 512  # what ``truncation=True`` alone cuts at, unless a folder asks for less
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CLEANING = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
# What the files of a tokenizer may not say otherwise; None and empty lists say nothing.
SETTINGS = dict.fromkeys(("never_split", "additional_special_tokens", "extra_special_tokens"))
SETTINGS |= {"tokenizer_class": "BertTokenizer", "do_basic_tokenize": True}
SETTINGS |= {"padding_side": "right", "truncation_side": "right", "split_special_tokens": False}
SETTINGS |= {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
PAIR = [("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 1), ("[SEP]", 1)]  # texts A and B: segments
MOST_ROWS_ADDED = 127  # to an embedding, so that its size is a multiple of 8, 64 or 128

FIRST = "embeddings.word_embeddings.weight"  # every BERT has it
WRAPPERS = re.compile(r"(?:(?:module|_orig_mod|model|auto_model|\d+)\.)*")
COUNTERS = ("embeddings.position_ids", "embeddings.token_type_ids")  # 0, 1, 2 … and 0, 0, 0 …
CORE = ("embeddings", "encoder", "pooler")  # parts of BERT, of which nothing may be passed over


def require(values: Mapping[str, Any], wanted: Mapping[str, Any], whose: str = "its") -> None:
    """ValueError where one of the wanted entries is there, and is something else."""
    for name, ours in wanted.items():
        if values.get(name, ours) != ours:
            raise ValueError(f"{whose} {name} is {values[name]!r}, not {ours!r}")


# ---------------------------------------------------------------------------------------------
# The tokenizer


def read_vocabulary(folder: Path) -> tuple[list[str], dict[str, bool | None], int]:
    """The tokenizer that a model's folder asks for.

    Returns:
        The tokens in the order of their ids; how text is cleaned, under the names of
        tokenizer_config.json; and after how many tokens ``truncation=True`` cuts.

    Raises:
        InputError: there is none, its files contradict each other or the model's configuration, or
            they ask for what BertTokenizer does not do.
    """
    names = ("config", "tokenizer_config", "special_tokens_map", "added_tokens", "tokenizer")
    with values_of(f"the tokenizer in {folder} is not BERT's", "save or fetch it again"):
        config, settings, special, added, whole = (
            read_json(path) if (path := folder / f"{name}.json").is_file() else {} for name in names
        )
        check_settings(settings)
        check_settings(special)
        decoder = settings.get("added_tokens_decoder", {})
        listed = (*whole.get("added_tokens", []), *decoder.values())
        for token in (*added, *(entry["content"] for entry in listed)):
            if token not in SPECIAL_TOKENS:
                raise ValueError(f"it has added tokens, such as {token!r}")
        cleaning = {name: settings.get(name, usual) for name, usual in CLEANING.items()}
        if whole:
            check_whole(whole, cleaning)
        pieces = pieces_of(folder, whole)
        tokens, rows = len(pieces), config.get("vocab_size", len(pieces))
        if not 0 <= rows - tokens <= MOST_ROWS_ADDED:
            raise ValueError(f"its vocabulary has {tokens:,} tokens, the model {rows:,}")
        longest = min(settings.get("model_max_length") or MODEL_MAX_LENGTH, MODEL_MAX_LENGTH)
    return pieces, cleaning, longest


def check_settings(settings: Mapping[str, Any]) -> None:
    """ValueError where tokenizer_config.json asks for what BertTokenizer does not do."""
    given = {name: value for name, value in settings.items() if value not in (None, [], {})}
    for name in (name for name in given if name.endswith("_token")):
        if isinstance(given[name], dict):  # an AddedToken of transformers
            given[name] = given[name]["content"]
    if "tokenizer_class" in given:
        given["tokenizer_class"] = given["tokenizer_class"].removesuffix("Fast")
    require(given, SETTINGS)
    for name in CLEANING.keys() & settings.keys():
        if settings[name] not in (True, False, CLEANING[name]):
            raise ValueError(f"its {name} is {settings[name]!r}, neither true nor false")
    if "token_type_ids" not in given.get("model_input_names", ["token_type_ids"]):
        raise ValueError("its model_input_names lack token_type_ids")


def check_whole(whole: Mapping[str, Any], cleaning: Mapping[str, Any]) -> None:
    """ValueError where tokenizer.json describes another algorithm, or other settings."""
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "lowercase": cleaning["do_lower_case"],
        "strip_accents": cleaning["strip_accents"],
        "handle_chinese_chars": cleaning["tokenize_chinese_chars"],
    }
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    wanted = {"normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"}}
    wanted["model"] = model | {"max_input_chars_per_word": 100}
    processor = whole.get("post_processor")
    pair = processor.get("pair") if processor else None
    if pair is None:  # an older form, which has [CLS] and [SEP] alone
        wanted["post_processor"] = {"type": "BertProcessing"}
    elif (parts := [(x["id"], x["type_id"]) for part in pair for x in part.values()]) != PAIR:
        raise ValueError(f"tokenizer.json's post_processor makes {parts} of two texts")
    for part, ours in wanted.items():
        values = whole.get(part, ours)
        values = {"type": None} if values is None else values
        require(values, ours, f"tokenizer.json's {part}'s")


def pieces_of(folder: Path, whole: Mapping[str, Any]) -> list[str]:
    """The tokens of vocab.txt, of tokenizer.json, or of both where they agree."""
    listed, file = [], folder / "vocab.txt"
    if file.is_file():
        # split("\n"), because splitlines() would also split inside odd pieces
        listed = read_text(file).rstrip("\n").split("\n")
    if not whole:
        if not listed:
            raise InputError(f"{folder} holds no vocabulary (vocab.txt or tokenizer.json)")
        return listed
    ids = whole["model"]["vocab"]  # token → id
    pieces = sorted(ids, key=ids.get)
    if [ids[piece] for piece in pieces] != [*range(len(pieces))]:
        raise ValueError("the ids in tokenizer.json do not count from 0 on, each once")
    if listed and {piece: i for i, piece in enumerate(listed)} != ids:
        raise ValueError("vocab.txt and tokenizer.json differ")
    return listed or pieces


# ---------------------------------------------------------------------------------------------
# The tensors


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
    first = next((name for name in tensors if str(name).endswith(FIRST)), "")
    wrapper = WRAPPERS.match(first).group()
    named: dict[str, Any] = {}
    for theirs, tensor in tensors.items():
        name = str(theirs).removeprefix(wrapper).removeprefix("bert.")
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
        name = name.replace("LayerNorm.beta", "LayerNorm.bias")
        if name in COUNTERS:
            continue
        other = named.setdefault(name, tensor)
        if other is not tensor and not (other.shape == tensor.shape and (other == tensor).all()):
            raise InputError(f"{folder} holds two different {name}; save the model again")
    return named


def check_surplus(source: str, names: Collection[str], known: Collection[str], *parts: str) -> None:
    """InputError where a checkpoint has more of some parts of a model than is computed with."""
    surplus = [name for name in names if name not in known and {*parts} & {*name.split(".")}]
    if surplus:
        what = f"{source} holds {min(surplus)}, which its config.json does not ask for"
        raise InputError(f"{what}; merge adapters into the weights, or correct the configuration")
