"""Chat templates within bounds: they are programs of a checkpoint, run by transformers in Jinja's sandbox.

The sandbox keeps a template from everything but its message; it does not keep it from running for ever. Here the lines
of a template are watched while it runs: it ends after two seconds of the processor or a million lines, or once a text
of it has more than 16 million characters. Powers, and products or widths that could fill the memory in one line, are
refused before it runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import lru_cache
from types import FrameType
from typing import Any, TypeVar

from jinja2 import Environment, TemplateError, nodes

from floatlens.core.errors import FloatlensError

__all__ = ["LONGEST", "SECONDS", "check_template", "within_bounds"]

SECONDS = 2.0
LINES = 1_000_000
LONGEST = 1 << 24
_LARGEST = 10_000
"""The largest number in a product or an argument of a filter."""
_WIDENING = ("center", "indent", "ljust", "rjust", "zfill", "batch", "slice", "format", "wordwrap", "expandtabs")
T = TypeVar("T")


def within_bounds(render: Callable[[], T]) -> T:
    """What `render` returns; a FloatlensError where a template that it runs goes on for too long or grows too large."""
    before, watch = sys.gettrace(), _Watch()
    sys.settrace(watch.called)
    try:
        return render()
    finally:
        sys.settrace(before)


class _Watch:
    """Counts the lines of templates; other code runs as ever."""

    def __init__(self) -> None:
        self._end = time.thread_time() + SECONDS
        self._lines = 0

    def called(self, frame: FrameType, event: str, given: Any) -> Any:
        """For each call: whether its lines are watched."""
        return self._line if frame.f_code.co_filename in ("<template>", "<unknown>") else None

    def _line(self, frame: FrameType, event: str, given: Any) -> Any:
        self._lines += 1
        if self._lines > LINES or time.thread_time() > self._end:
            raise FloatlensError(
                "the tokenizer's chat template does not come to an end; use chat=False to leave it out"
            )
        if any(_size(value) > LONGEST for value in frame.f_locals.values()):
            raise FloatlensError("the tokenizer's chat template grows without end; use chat=False to leave it out")
        return self._line


def _size(value: Any) -> int:
    """Characters of a text, or of the longest text of a Jinja namespace."""
    if isinstance(value, str | list | tuple):
        return len(value)
    inner = getattr(value, "_Namespace__attrs", None)
    return max((_size(one) for one in inner.values()), default=0) if isinstance(inner, dict) else 0


@lru_cache(maxsize=64)
def check_template(source: str) -> None:
    """Refuse a template with an expression that could fill the memory in one line."""
    if len(source) > LONGEST // 16:
        raise FloatlensError(f"the chat template has {len(source):,} characters; use chat=False to leave it out")
    try:
        tree = Environment(extensions=["jinja2.ext.loopcontrols"]).parse(_without_tags(source))
    except (TemplateError, RecursionError):
        return  # what transformers says of it is the message
    if any(tree.find_all(nodes.Pow)):
        raise _refused("a power")
    for product in tree.find_all(nodes.Mul):
        if not any(_small(side) for side in (product.left, product.right)):
            raise _refused("a product of unknown size")
    calls: list[Any] = [*tree.find_all(nodes.Filter), *tree.find_all(nodes.Call)]
    for call in calls:
        name = call.name if isinstance(call, nodes.Filter) else getattr(call.node, "attr", "")
        if name in _WIDENING and not all(_small(one) or _is_text(one) for one in call.args):
            raise _refused(f"the filter {name} with a large or unknown width")


def _without_tags(source: str) -> str:
    """transformers' own tag marks what a model wrote; plain Jinja does not know it."""
    for tag in ("generation", "endgeneration"):
        for opening, closing in (("{%", "%}"), ("{%-", "-%}"), ("{%-", "%}"), ("{%", "-%}")):
            source = source.replace(f"{opening} {tag} {closing}", "")
    return source


def _small(node: nodes.Node) -> bool:
    if not isinstance(node, nodes.Const):
        return False
    return isinstance(node.value, bool | float) or (isinstance(node.value, int) and abs(node.value) <= _LARGEST)


def _is_text(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Const) and isinstance(node.value, str)


def _refused(what: str) -> FloatlensError:
    return FloatlensError(f"the tokenizer's chat template holds {what}, which could fill the memory; use chat=False")
