"""Mutation operators: small changes to a function's syntax, as a slip of the hand makes them.

An operator gets a node of the tree and yields what may take its place; mutants.py leaves out and
swaps whole statements, and puts all into the text. It does not know what a function computes.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Operator = Callable[[ast.AST, "Scope"], Iterator[ast.AST]]

OTHER_OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add, ast.Mult),
    ast.Mult: (ast.Div, ast.Add, ast.MatMult),
    ast.Div: (ast.Mult, ast.FloorDiv, ast.Sub),
    ast.FloorDiv: (ast.Div,),
    ast.MatMult: (ast.Mult, ast.Add),
    ast.Pow: (ast.Mult, ast.BitXor),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.Eq: (ast.NotEq, ast.Gt),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
NEIGHBOURS = [  # attributes and functions that are taken for each other
    set(family.split())
    for family in (
        "transpose reshape view permute flatten unflatten mT T",
        "softmax sigmoid log_softmax softmin tanh",
        "sum mean max prod var",
        "sqrt rsqrt square exp",
        "gelu relu tanh erf",
        "zeros_like ones_like rand_like",
        "zeros ones rand",
        "matmul mul bmm add",
        "stack cat",
        "size shape numel dim",
        "expand repeat",
        "float double long half",
        "data grad",
        "weight bias",
        "parameters named_parameters children",
        "hidden_size num_labels num_attention_heads hidden_dropout_prob",
        "num_attention_heads attention_head_size all_head_size",
        "Linear LayerNorm Bilinear Identity Dropout",
        "get pop setdefault",
        "add mul sub div",
        "add_ mul_ sub_ div_",
        "addcmul_ addcdiv_",
        "embedding linear",
    )
]
IN_PLACE = "add sub mul div addcmul addcdiv lerp sqrt square clamp masked_fill".split()
KEYS = [
    set(family.split())
    for family in (
        "pooler_output last_hidden_state",
        "lr eps weight_decay betas correct_bias",
        "pretrain finetune",
    )
]


@dataclass(frozen=True)
class Scope:
    """What operators know of a function."""

    names: tuple[str, ...]  # its variables
    attributes: tuple[str, ...]  # what its ``self`` has
    conditions: tuple[ast.expr, ...]  # of its ifs


def names_in(function: ast.FunctionDef) -> tuple[str, ...]:
    """The variables of a function, ``self`` left out."""
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    stored = [node.id for node in nodes if isinstance(node.ctx, ast.Store)]
    arguments = [node.arg for node in ast.walk(function) if isinstance(node, ast.arg)]
    return tuple(name for name in dict.fromkeys(arguments + stored) if name != "self")


def changed(node: ast.AST, **fields: Any) -> Any:
    """A copy of a node with other fields."""
    new = copy.copy(node)
    vars(new).update(fields)
    return new


def without(parts: list, index: int) -> list:
    """A list without one of its parts."""
    return parts[:index] + parts[index + 1 :]


def swapped(parts: list, first: int, second: int) -> list:
    """A list in which two parts have changed places."""
    new = list(parts)
    new[first], new[second] = new[second], new[first]
    return new


def is_module(node: ast.AST, scope: Scope) -> bool:
    """Whether this is ``torch``, ``nn.init``, …: dotted names that begin with no variable."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id not in ("self", *scope.names)


def is_method(function: ast.AST, scope: Scope) -> bool:
    """Whether this is a method of some value other than ``self``, and no module's function."""
    if not isinstance(function, ast.Attribute) or is_module(function.value, scope):
        return False
    return not (isinstance(function.value, ast.Name) and function.value.id == "self")


# ---------------------------------------------------------------------------------------------
# Returns and conditions


def drop_return(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """``return x`` → ``x``"""
    if isinstance(node, ast.Return) and node.value:
        yield ast.Expr(node.value)


def change_condition(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """``if x`` → ``if not x``, ``if True``; ``a if x else b`` → ``a``, ``b``, ``b if x else a``"""
    if node in scope.conditions:
        yield from (ast.UnaryOp(ast.Not(), node), ast.Constant(True))
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
        yield changed(node, body=node.orelse, orelse=node.body)


# ---------------------------------------------------------------------------------------------
# Operators and numbers


def replace_operator(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """``+`` → ``-``, ``<`` → ``<=``, …"""
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        for other in OTHER_OPERATORS.get(type(node.op), ()):
            yield changed(node, op=other())
    elif isinstance(node, ast.Compare):
        for other in OTHER_OPERATORS.get(type(node.ops[0]), ()):
            yield changed(node, ops=[other(), *node.ops[1:]])


def change_operands(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """``a / b`` → ``b / a``, ``a``, ``b``; ``-a`` → ``a``"""
    if isinstance(node, ast.BinOp):
        yield changed(node, left=node.right, right=node.left)
        yield from (node.left, node.right)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand


def change_number(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """One more or less; twice or half as much. That is also another axis."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield from (ast.Constant(node.value + 1), ast.Constant(node.value - 1))
    elif isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield from (ast.Constant(node.value * 2), ast.Constant(node.value / 2))


def change_flag(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """``True`` → ``False``; ``x.training`` → ``not x.training``, ``True``, ``False``"""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Attribute) and node.attr == "training":
        yield from (ast.UnaryOp(ast.Not(), node), ast.Constant(True), ast.Constant(False))


# ---------------------------------------------------------------------------------------------
# Calls


def drop_call(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """``f(x)`` → ``x``, ``x.f(…)`` → ``x``"""
    if isinstance(node, ast.Call) and is_method(node.func, scope):
        yield node.func.value
    elif isinstance(node, ast.Call):
        values = [*node.args, *(part.value for part in node.keywords)]
        yield from (value for value in values[:1] if not isinstance(value, ast.Starred))


def change_arguments(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """``f(x, y)`` → ``f(x)``, ``f(y)``, ``f(y, x)``; ``f(x=a, y=b)`` → ``f(x=b, y=a)``"""
    if isinstance(node, ast.Call):
        for index in range(len(node.args)):
            yield changed(node, args=without(node.args, index))
        for index in range(len(node.keywords)):
            yield changed(node, keywords=without(node.keywords, index))
        for first, second in itertools.combinations(range(len(node.args)), 2):
            yield changed(node, args=swapped(node.args, first, second))
        for first, second in itertools.combinations(range(len(node.keywords)), 2):
            values = swapped([part.value for part in node.keywords], first, second)
            pairs = zip(node.keywords, values, strict=True)
            yield changed(node, keywords=[changed(part, value=new) for part, new in pairs])


# ---------------------------------------------------------------------------------------------
# Names


def replace_name(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """Another variable of the function."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in scope.names:
        yield from (changed(node, id=name) for name in scope.names if name != node.id)


def replace_attribute(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """``self.a`` → ``self.b``"""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            yield from (changed(node, attr=a) for a in scope.attributes if a != node.attr)


def replace_by_neighbour(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """``transpose`` → ``reshape``, ``sqrt`` → ``rsqrt``, …"""
    if isinstance(node, ast.Attribute):
        for family in NEIGHBOURS:
            if node.attr in family:
                yield from (changed(node, attr=a) for a in sorted(family - {node.attr}))


def change_in_place(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """``x.add(y)`` → ``x.add_(y)`` and back"""
    if isinstance(node, ast.Call) and is_method(node.func, scope):
        name = node.func.attr
        if name in IN_PLACE:
            yield changed(node, func=changed(node.func, attr=f"{name}_"))
        elif name.endswith("_"):
            yield changed(node, func=changed(node.func, attr=name[:-1]))


def replace_key(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """Another string of the same use; two letters of an einsum's result in the other order."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        for family in KEYS:
            if node.value in family:
                yield from map(ast.Constant, sorted(family - {node.value}))
        given, arrow, made = node.value.partition("->")
        for first in range(len(made) - 1) if arrow else ():
            letters = "".join(swapped(list(made), first, first + 1))
            yield ast.Constant(f"{given}->{letters}")


def change_index(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """``x[i]`` → ``x``, ``x[:n]`` → ``x[n:]``, ``x[a, b]`` → ``x[b, a]``"""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node.value
    elif isinstance(node, ast.Slice) and (node.lower or node.upper):
        yield changed(node, lower=node.upper, upper=node.lower)
    elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        for first in range(len(node.elts) - 1):
            yield changed(node, elts=swapped(node.elts, first, first + 1))


OPERATORS: tuple[Operator, ...] = (
    drop_return,
    change_condition,
    replace_operator,
    change_operands,
    change_number,
    change_flag,
    drop_call,
    change_arguments,
    replace_name,
    replace_attribute,
    replace_by_neighbour,
    change_in_place,
    replace_key,
    change_index,
)
