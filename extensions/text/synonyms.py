"""Further wordings of training sentences: some words replaced by synonyms from WordNet.

Synonym replacement of EDA (Wei & Zou 2019, section 2): of a sentence of l words, n = max(1, α l)
words that are no stop words give way to a random synonym, wherever they occur. The label stays,
which is a hope rather than a fact: WordNet does not know which sense of a word is meant.

It reads the dictionary files of WordNet (Miller 1995): data.noun and its like, which Debian's
package wordnet-base puts into /usr/share/wordnet. In front of the loop:

    rows = augmented(rows, read_synonyms(folder), copies=1, fraction=0.1, seed=seed)
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from training.files.errors import InputError

FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?", re.IGNORECASE)
# Words that carry grammar, and all that turns a meaning round
STOP_WORDS = frozenset(
    """
    a an the this that these those i me my we us our you your he him his she her it its they them
    their who whom whose which what where when why how there here and or but nor if then than so
    as because while until although though of at by for with without about against between into
    through during before after above below to from up down in out on off over under again am is
    are was were be been being have has had having do does did doing can could will would shall
    should may might must not no never none nothing neither hardly too very just only own same
    both each few more most other some such any all
    """.split()
)

Synonyms = Mapping[str, Sequence[str]]


def read_synonyms(folder: str | Path) -> Synonyms:
    """All words that share a meaning with a word, in alphabetical order, by word.

    Raises:
        InputError: a file of the dictionary is missing or malformed.
    """
    by_word: dict[str, set[str]] = defaultdict(set)
    for path in (Path(folder) / name for name in FILES):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            for line in lines:
                if line.startswith("  "):  # the licence
                    continue
                words = synset(line)
                for word in words:
                    by_word[word].update(words)
        except (OSError, ValueError, IndexError) as error:
            raise InputError(
                f"no WordNet in {folder}, or a broken one ({path.name}: {error}); --wordnet names "
                "its folder, and Debian's package wordnet-base has it"
            ) from error
    return {word: sorted(others - {word}) for word, others in by_word.items() if len(others) > 1}


def synset(line: str) -> list[str]:
    """The words of one meaning: ``offset file type count word id word id …``, count in hex."""
    fields = line.split()
    count = int(fields[3], 16)
    words = fields[4 : 4 + 2 * count : 2]
    if len(words) < count:
        raise ValueError(f"{count} words announced in {line[:40]!r}")
    return [re.sub(r"\(\w+\)$", "", word).replace("_", " ").lower() for word in words]


def reworded(text: str, synonyms: Synonyms, fraction: float, chance: random.Random) -> str:
    """A text with a fraction of its words, one at least, replaced by synonyms."""
    words = [word.lower() for word in WORD.findall(text)]
    known = [word for word in dict.fromkeys(words) if word in synonyms and word not in STOP_WORDS]
    chance.shuffle(known)
    chosen = known[: max(1, int(fraction * len(words)))]
    others = {word: chance.choice(synonyms[word]) for word in chosen}
    return WORD.sub(lambda match: others.get(match[0].lower(), match[0]), text)


def augmented(
    rows: Sequence[tuple], synonyms: Synonyms, copies: int, fraction: float, seed: int
) -> list[tuple]:
    """The rows (text, label, id), and after them so many further wordings of each."""
    chance = random.Random(seed)
    return [*rows] + [
        (reworded(text, synonyms, fraction, chance), label, f"{key}-{copy}")
        for copy in range(1, copies + 1)
        for text, label, key in rows
    ]
