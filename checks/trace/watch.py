"""The states of a student's whole model, noted where its functions return them.

A layer may be written in another way: a state that no watched function returns is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from checks.compare import is_dense
from checks.errors import attempt, only_a_stub
from checks.references import add_norm_modules, inputs_of, load_references, student_model
from utils import get_extended_attention_mask

ATTENTION, ADD_NORM = "BertSelfAttention.attention", "BertLayer.add_norm"
LAYER, EMBED, MODEL = "BertLayer.forward", "BertModel.embed", "BertModel.forward"


class State(NamedTuple):
    """A state of the model, which was seen if it was returned exactly once.

    Attributes:
        results: what ``source`` has returned, one for each call.
        around: the function in which that is called, or which it is.
        ahead: the functions through which its gradient comes back.
        inner: a function that makes it, and how to call it with correct inputs.
        weights: what the names of the weights contain whose gradients follow from its own.
    """

    name: str
    results: Sequence[Any]
    source: str
    around: str
    ahead: Sequence[str] = ()
    inner: tuple[str, Callable[[], Any]] | None = None
    weights: str = ""

    def to_open(self, is_fault: Callable[[Any], bool]) -> str:
        """The inner function if its result has the fault with correct inputs; or that around it."""
        return self.inner[0] if self.inner and is_fault(attempt(self.inner[1])) else self.around


class Watch:
    """Runs the student's model once on the inputs of task 1.4, and notes what is returned.

    Args:
        right: the reference's states, by name.

    Attributes:
        noted: the results of each function, by names of our own.
        error: the exception with which the student's code ended.
        stub: that of BertModel.embed, in whose place the layers get the correct embeddings.
    """

    def __init__(self, right: dict[str, Tensor]) -> None:
        references, self.right = load_references(), right
        self.inputs, self.model = inputs_of("bert.embed", references), student_model(references)
        self.error: BaseException | None = None
        self.stub: NotImplementedError | None = None
        self.noted: dict[str, list[Any]] = {}
        self.watch("embed", self.model, "embed")
        for number, layer in enumerate(self.model.bert_layers, start=1):
            self.watch(f"{number} attention", layer.self_attention, "attention")
            self.watch(f"{number} add_norm", layer, "add_norm")
            self.watch(f"{number} norm", layer.attention_layer_norm)
            self.watch(f"{number} gelu", getattr(layer, "interm_af", nn.Identity()))  # not seen
            self.watch(f"{number} layer", layer)

    def watch(self, name: str, owner: nn.Module, method: str = "forward") -> None:
        """Note what a method returns; it passes on a copy, so that what is noted stays as it is."""
        function, results = getattr(owner, method), self.noted.setdefault(name, [])

        def noted(*args: Any, **options: Any) -> Any:
            try:
                result = function(*args, **options)
            except NotImplementedError as error:
                if method != "embed" or not only_a_stub(error):
                    raise
                self.stub, result = error, self.right["embeddings"].clone().requires_grad_()
            results.append(result)
            return result.clone() if is_dense(result) else result

        setattr(owner, method, noted)

    def run(self) -> None:
        """Run the model, and note its own results."""
        results = self.model(self.inputs.ids.clone(), self.inputs.real.long())
        self.noted["last"] = [results["last_hidden_state"]]
        self.noted["pooler"] = [results["pooler_output"]]

    def states(self) -> list[State]:
        """Run the model: all states that were reached, in order."""
        self.error = attempt(self.run)
        noted = {name: [*results] for name, results in self.noted.items()}  # no later calls
        through, weights = (LAYER, ATTENTION, ADD_NORM), "" if self.stub else "embed"
        states = [State("embeddings", noted["embed"], "embed", EMBED, through, None, weights)]
        for number, layer in enumerate(self.model.bert_layers, start=1):
            *others, last = self.states_of(number, layer, self.right[states[-1].name], noted)
            states += [*others, last._replace(ahead=through)]
        states[-1] = states[-1]._replace(ahead=(MODEL,))
        states.append(State("last hidden state", noted.get("last", []), "forward", MODEL))
        pooled = noted.get("pooler", [])
        states.append(State("pooler", pooled, "forward", MODEL, weights="pooler"))
        while self.error and states and not states[-1].results:
            states.pop()
        return states

    def states_of(
        self, number: int, layer: nn.Module, hidden: Tensor, noted: dict[str, list[Any]]
    ) -> Iterator[State]:
        """The four states of a layer that should be given ``hidden``, (B, L, D)."""
        places = ("attention", "first add & norm", "feed-forward", "second add & norm")
        names = [f"layer {number}, {place}" for place in places]
        attended, normed, expanded, _ = (self.right[name] for name in names)
        kinds = ("attention", "add_norm", "norm", "gelu", "layer")
        attention, add_norm, norm, gelu, whole = (noted[f"{number} {kind}"] for kind in kinds)
        # one call is known to be the first only while the layer has not returned
        first = add_norm[:1] if len(add_norm) == 2 or (add_norm and not whole) else norm

        def added(place: str, *inputs: Tensor) -> tuple[str, Callable[[], Any]]:
            given = (*(x.clone() for x in inputs), *add_norm_modules(layer, place).values())
            return ADD_NORM, partial(layer.add_norm, *given)

        mask = get_extended_attention_mask(self.inputs.real.long(), hidden.dtype)  # (B, 1, 1, L)
        inner = (ATTENTION, partial(layer.self_attention, hidden.clone(), mask))
        inside, weights = (ADD_NORM, LAYER), f"bert_layers.{number - 1}."
        yield State(names[0], attention, "attention", LAYER, inside, inner, weights)
        inner = added("attention", hidden, attended)
        yield State(names[1], first, "attention_layer_norm", LAYER, inside, inner)
        yield State(names[2], gelu, "interm_af", LAYER, inside)
        inner = added("feed-forward", normed, expanded)
        yield State(names[3], whole, "the layer", LAYER, inside, inner)
