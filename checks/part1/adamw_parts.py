"""Which part of a wrong AdamW is another than the docstring's: m, v, correction, ε or decay.

Each part is measured apart from the others on a parameter of one number: with an ε that is huge a
step shows m, with one that is tiny m / √v, and so on. What is measured is then looked for among the
products of powers of the hyper-parameters. A part is only judged where those that it is measured
with are as they should be.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from checks.part1.adamw_probes import make, walk

LR, DECAY, BETA1, BETA2 = 0.13, 0.37, 0.7, 0.83
HUGE, TINY = 1e10, 1e-40
POWERS = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0)
WEIGHTS = {"β₁": [BETA1], "β₂": [BETA2], "(1 − β₁)": [1 - BETA1], "(1 − β₂)": [1 - BETA2]}


def close(first: float, second: float) -> bool:
    """Equal but for rounding."""
    return math.isfinite(first) and math.isclose(first, second, rel_tol=1e-5, abs_tol=1e-12)


def steps(opt_class: type, gradients: Sequence[float], **settings) -> list[float]:
    """What each step takes off a parameter that begins at 0, in learning rates."""
    options = {"lr": LR, "betas": (BETA1, BETA2), "correct_bias": False} | settings
    places = [0.0, *walk(*make(opt_class, 0.0, **options), gradients)]
    return [(before - after) / LR for before, after in itertools.pairwise(places)]


def product(values: Sequence[float], bases: Mapping[str, Sequence[float]]) -> str:
    """The powers of up to two bases whose product each value is; "" if there are none."""
    for names in (*((name,) for name in bases), *itertools.combinations(bases, 2)):
        for powers in itertools.product(POWERS, repeat=len(names)):
            with contextlib.suppress(ZeroDivisionError, TypeError):  # 0 ** -1, (-1) ** 0.5
                rows = zip(*(bases[name] for name in names), strict=True)
                made = [math.prod(map(pow, row, powers)) for row in rows]
                if all(map(close, values, made)):
                    return written(zip(names, powers, strict=True))
    return ""


def written(powers: Iterator[tuple[str, float]]) -> str:
    """A product of powers of named factors, "1" if nothing is left of it."""
    marks = {1.0: "{}", 2.0: "{}²", 0.5: "√{}"}
    above, below = [], []
    for name, power in powers:
        if power:
            (above if power > 0 else below).append(marks[abs(power)].format(name))
    return " · ".join(above or ["1"]) + "".join(f" / {name}" for name in below)


def moments(opt_class: type, gradients: Sequence[float]) -> tuple[list[float], list[float]]:
    """What stands for m, and for √v, after each step, where a step is m / (√v + ε).

    Raises:
        ValueError: ε is not added to the root.
    """
    huge, more = (steps(opt_class, gradients, eps=eps) for eps in (HUGE, 100 * HUGE))
    tiny = steps(opt_class, gradients, eps=TINY)
    if not all(math.isclose(100 * b, a, rel_tol=1e-5) for a, b in zip(huge, more, strict=True)):
        raise ValueError("ε is not added to the root")
    m = [HUGE * step for step in huge]
    return m, [a / b if b else math.nan for a, b in zip(m, tiny, strict=True)]


def averages(opt_class: type) -> Iterator[str]:
    """Whether m and v are running averages, beginning at 0, of g and g²."""
    walks = [moments(opt_class, gradients) for gradients in ([1.0, 0.5], [1.0, 0.0], [2.0, 0.0])]
    if close(walks[0][0][0], walks[2][0][0]):  # or ε is not added to the root alone
        if not list(denominator(opt_class)):
            yield "m and v do not depend on the gradient's size, as if it were divided by its norm"
        return
    if walks[0][0][0] < 0:
        yield "the update is added instead of subtracted, or m has the wrong sign"
    m, root = (abs(moment[0]) for moment in walks[0])
    scale = m / (1 - BETA1)
    if close(scale, root / (1 - BETA2) ** 0.5) and not close(scale, 1):
        text = f"{1 / scale:.4g}"
        yield f"√v has {text} · ε added instead of ε, or the gradient is divided by {text}"
        return
    for power, names in ((1, ("m", "g", "β₁", BETA1)), (2, ("v", "g²", "β₂", BETA2))):
        yield from average(*names, power, [[abs(x) ** power for x in w[power - 1]] for w in walks])


def average(
    name: str, of: str, letter: str, beta: float, power: int, values: Sequence[Sequence[float]]
) -> Iterator[str]:
    """What one running average is instead.

    Args:
        values: after each of the gradients 1 and 0.5; 1 and 0; 2 and 0.
    """
    (first, second), (_, rest), (double, _) = values
    fresh = (1 - beta) * 0.5**power
    if not close(double, first * 2**power):
        degree = math.log2(double / first) / power
        if close(2 * degree, round(2 * degree)):
            what = "m" if name == "m" else "√v, or what is in its place,"
            yield f"{what} grows in the first step like |g| to the power of {degree:.3g}, not 1"
    elif close(first, 1) and close(second, beta + fresh):
        yield f"{name} is {of} after the first step: it begins with the gradient instead of 0"
    elif not close(first, 1 - beta):
        weight = product([first], WEIGHTS) or f"{first:.4g}"
        yield f"the first update uses {weight} · {of} where {name} = (1 − {letter}) · {of} belongs"
    elif close(rest, first) and close(second, max(first, beta * first + fresh)):
        yield f"{name} never falls: its largest value is kept"
    elif not close(rest, beta * first) and close(second, rest + fresh):
        kept = (product([rest / first], WEIGHTS) or f"{rest / first:.4g}") if rest else "nothing"
        yield f"{name} keeps {kept} of what it was instead of {letter} times that"


def corrections(opt_class: type) -> list[float]:
    """By what correct_bias multiplies the first steps."""
    pairs = (steps(opt_class, [1.0] * 4, eps=TINY, correct_bias=flag) for flag in (True, False))
    return [a / b for a, b in zip(*pairs, strict=True)]


def correction(opt_class: type) -> Iterator[str]:
    """By what correct_bias multiplies the steps, as powers of 1 − βᵗ."""
    factors = corrections(opt_class)
    expected = [(1 - BETA2**t) ** 0.5 / (1 - BETA1**t) for t in range(1, 5)]
    if all(map(close, factors, expected)):
        return
    times = range(1, 5)
    bases: dict[str, list[float]] = {}
    for letter, beta in (("β₁", BETA1), ("β₂", BETA2)):
        for mark, more in (("ᵗ", 0), ("ᵗ⁻¹", -1), ("ᵗ⁺¹", 1)):
            bases[f"(1 − {letter}{mark})"] = [1 - beta ** (t + more) for t in times]
        bases[f"(1 − {letter})"] = [1 - beta for _ in times]
        bases[f"(1 − {letter})ᵗ"] = [(1 - beta) ** t for t in times]
        bases[f"(1 − t · {letter})"] = [1 - t * beta for t in times]
        bases[f"{letter}ᵗ"] = [beta**t for t in times]
    numbers = ", ".join(f"{factor:.4g}" for factor in factors)
    text = product(factors, bases) or f"{numbers} (the first four)"
    yield f"correct_bias multiplies steps by {text} instead of √(1 − β₂ᵗ) / (1 − β₁ᵗ)"


def denominator(opt_class: type) -> Iterator[str]:
    """What m is divided by, with a gradient of 1 and large and small ε."""
    root = (1 - BETA2) ** 0.5
    forms = {
        "√v + ε": lambda e: root + e,
        "the larger of √v and ε": lambda e: max(root, e),
        "√v + √ε": lambda e: root + e**0.5,
        "√v + ε²": lambda e: root + e**2,
        "√(v + ε)": lambda e: (root**2 + e) ** 0.5,
        "√(v + ε²)": lambda e: (root**2 + e**2) ** 0.5,
        "√v · (1 + ε)": lambda e: root * (1 + e),
    }
    sizes = (0.2, 0.9, 3.0)
    made = [(1 - BETA1) / steps(opt_class, [1.0], eps=eps)[0] for eps in sizes]
    numbers = ", ".join(f"{size:.4g}" for size in made)
    fitting = (text for text, form in forms.items() if all(map(close, made, map(form, sizes))))
    text = next(fitting, f"{numbers} where ε is {', '.join(map(str, sizes))}")
    if text != "√v + ε":
        yield f"m is divided by {text} instead of √v + ε"


def decay(opt_class: type) -> Iterator[str]:
    """Which share of a parameter weight decay takes off, where the gradient is 0."""
    options = {"lr": LR, "weight_decay": DECAY, "betas": (BETA1, BETA2)}
    shares = []
    for start, corrected in ((4.0, False), (-2.0, False), (4.0, True)):
        parameter, optimizer = make(opt_class, start, correct_bias=corrected, **options)
        shares.append((start - walk(parameter, optimizer, [0.0])[0]) / start)
    share, ratio = shares[0], shares[0] / (LR * DECAY)
    if not close(*shares[:2]):
        if all(map(math.isfinite, shares)):
            text = "with a gradient of 0 what weight decay takes off is not proportional to θ"
            yield f"{text}: do the moments average it?"
        return
    if not close(ratio, 1):
        text = product([ratio], {"α": [LR], "λ": [DECAY]}) or f"{ratio:.4g}"
        yield f"with a gradient of 0 weight decay takes off {text} times α · λ · θ instead of once"
    elif not close(shares[2], share):
        ratio = f"{shares[2] / share:.4g}"
        yield f"with correct_bias weight decay takes off {ratio} times α · λ · θ instead of once"


def wrong_parts(opt_class: type) -> list[str]:
    """The parts that are others than the docstring's, a sentence each."""
    texts: list[str] = []
    with contextlib.suppress(Exception, SystemExit):
        longer, shorter = (steps(opt_class, [1.0], lr=LR * n)[0] for n in (2, 1))
        if not close(longer, 2 * shorter):
            degree = math.log2(longer / shorter)
            text = f"the update grows like the learning rate to the power of {degree:.3g}, not 1"
            return [text] if close(2 * degree, round(2 * degree)) else []
        # where correct_bias=False makes corrected steps, they show no moments
        factor = corrections(opt_class)[0]
        plain = not close(factor, 1) and not close(factor, (1 - BETA1) / (1 - BETA2) ** 0.5)
        parts = (averages, denominator) if plain else ()
        for part in (*parts, correction, decay):
            if part is not denominator or not texts:
                with contextlib.suppress(Exception, SystemExit):
                    texts += part(opt_class)
    return texts
