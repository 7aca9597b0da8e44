"""The states of a student's whole model, noted where its functions return them.

A layer may be written in another way: a state that no watched function returns is not seen. A
function is to be opened if it alone goes wrong on correct inputs; else those around it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor, nn

from checks.compare import is_dense
from checks.errors import attempt, only_a_stub
from checks.references import TINY, inputs_of, load_references, student_model
from utils import get_extended_attention_mask

ATTENTION, ADD_NORM = "BertSelfAttention.attention", "BertLayer.add_norm"
TRANSFORM, PROJECTED = "BertSelfAttention.transform", "BertSelfAttention.forward"
LAYER, EMBED, ENCODE = "BertLayer.forward", "BertModel.embed", "BertModel.encode"
MODEL = "BertModel.forward"
ATTENDING = (ATTENTION, TRANSFORM, PROJECTED)
USED_BY = {  # what a weight's name contains → the functions that use it
    "self_attention.": ATTENDING,
    "interm_": (LAYER,),
    "bert_layers.": (ADD_NORM, LAYER),
    "embed": (EMBED,),
    "pooler": (MODEL,),
}
Ways = Mapping[Sequence[str], Callable[[], Any]]  # functions → the state if they get correct inputs


class State(NamedTuple):
    """A state of the model, which was seen if it was returned exactly once.

    Attributes:
        results: what was returned, one for each call.
        unseen: what the student's code does, where there is not one.
        ways: the functions that make it, inner ones first.
        ahead: the functions through which its gradient comes back.
        weights: what the names of the weights contain whose gradients follow from its own.
    """

    name: str
    results: Sequence[Any]
    unseen: str
    ways: Ways
    ahead: Sequence[str] = ()
    weights: str = ""

    def to_open(self, is_fault: Callable[[Any], bool]) -> Sequence[str]:
        """The innermost functions that have the fault with correct inputs."""
        for functions, way in self.ways.items():
            result = attempt(way)  # an exception: it is called in another way, and tells nothing
            if not isinstance(result, BaseException) and is_fault(result):
                return functions
        return (MODEL,)


class Watch:
    """Runs the student's model on the inputs of task 1.4, and notes what is returned.

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
        self.noted: dict[str, list[Any]] = defaultdict(list)
        self.layers = [self.model.bert_layers[n] for n in range(TINY["num_hidden_layers"])]
        self.watch("embed", self.model, "embed")
        if hasattr(self.model, "encode"):
            self.watch("encode", self.model, "encode")
        for number, layer in enumerate(self.layers, start=1):
            self.watch(f"{number} attention", layer.self_attention, "attention")
            self.watch(f"{number} add_norm", layer, "add_norm")
            self.watch(f"{number} gelu", getattr(layer, "interm_af", nn.Identity()))  # not seen
            self.watch(f"{number} layer", layer)

    def watch(self, name: str, owner: nn.Module, method: str = "forward") -> None:
        """Note what a method returns; it passes on a copy, so that what is noted stays as it is."""
        function = getattr(owner, method)

        def noted(*args: Any, **options: Any) -> Any:
            try:
                result = function(*args, **options)
            except NotImplementedError as error:
                if method != "embed" or not only_a_stub(error):
                    raise
                self.stub, result = error, self.right["embeddings"].clone().requires_grad_()
            self.noted[name].append(result)
            return result.clone() if is_dense(result) else result

        setattr(owner, method, noted)

    def run(self) -> None:
        """Run the model, and note its own results."""
        results = self.model(self.inputs.ids.clone(), self.inputs.real.long())
        self.noted["encode"] = [results["last_hidden_state"]]
        self.noted["pooler"] = [results["pooler_output"]]

    def again(self, state: str, function: Callable[..., Any], *inputs: Tensor) -> Any:
        """What a state is if a function around it gets correct inputs."""
        self.noted.clear()
        attempt(function, *(x.clone() for x in inputs))  # it may go on after the state, and fail
        (result,) = next(each.results for each in self.made() if each.name == state)
        return result

    def states(self) -> list[State]:
        """Run the model: all states that were reached, in order."""
        self.error = attempt(self.run)
        states = [*self.made()]
        while self.error and states and not states[-1].results:
            states.pop()
        return states

    def made(self) -> Iterator[State]:
        """The states in what was noted so far."""
        real, right = self.inputs.real.long(), self.right

        def encoding(name: str) -> Ways:
            inputs = (right["embeddings"], real)
            return {(ENCODE,): lambda: self.again(name, self.model.encode, *inputs)}

        way = {(EMBED,): partial(self.model.embed, self.inputs.ids.clone())}
        through = (LAYER, ADD_NORM, *ATTENDING, ENCODE)
        weights = "" if self.stub else "embed"
        yield State("embeddings", *self.seen("embed", "embed"), way, through, weights)
        name = "embeddings"
        for number, layer in enumerate(self.layers, start=1):
            for state in self.states_of(number, layer, right[name]):
                name, ahead = state.name, state.ahead
                if "second" in name:
                    ahead = (ENCODE, MODEL) if layer is self.layers[-1] else through
                yield state._replace(ways=state.ways | encoding(name), ahead=ahead)
        name = "last hidden state"
        yield State(name, *self.seen("encode", "encode"), encoding(name))
        yield State("pooler", *self.seen("pooler", "forward"), {}, weights="pooler")

    def seen(self, name: str, source: str) -> tuple[list[Any], str]:
        """What was returned, and how the student's code calls what returns it."""
        results = [*self.noted[name]]
        times = f"calls {source} {len(results)} times"
        return results, times if results else f"does not call {source}"

    def states_of(self, number: int, layer: nn.Module, hidden: Tensor) -> Iterator[State]:
        """The four states of a layer that should be given ``hidden``, (B, L, D)."""
        places = ("attention", "first add & norm", "feed-forward", "second add & norm")
        names = [f"layer {number}, {place}" for place in places]
        mask = get_extended_attention_mask(self.inputs.real.long(), hidden.dtype)  # (B, 1, 1, L)
        calls, runs = self.noted[f"{number} add_norm"], self.noted[f"{number} layer"]
        # one call is known to be the first only while the layer has not returned
        first = calls[:1] if len(calls) == 2 or not runs else []
        made = (
            self.seen(f"{number} attention", "attention"),
            (first, self.seen(f"{number} add_norm", "add_norm")[1]),
            self.seen(f"{number} gelu", "interm_af"),
            self.seen(f"{number} layer", "the layer"),
        )
        is_run = any(x for name, x in self.noted.items() if name.startswith(f"{number} "))
        times = f"runs layer {number} {len(runs)} times" if is_run else f"never runs layer {number}"
        attending = {ATTENDING: lambda: layer.self_attention(hidden.clone(), mask.clone())}
        for name, (results, does) in zip(names, made, strict=True):
            does = times if len(runs) > 1 or not is_run else does
            is_first = name == names[0]
            weights = f"bert_layers.{number - 1}." * is_first
            functions = (ADD_NORM, LAYER) if "norm" in name else (LAYER,)
            alone = {functions: partial(self.again, name, layer, hidden, mask)}
            ways = attending | alone if is_first else alone
            yield State(name, results, does, ways, (ADD_NORM, LAYER), weights)
