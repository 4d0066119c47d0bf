"""How commands are put on the command line: options in groups, `-h`, `--debug` everywhere, help without hard breaks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib.util import find_spec
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from floatlens.core.errors import FloatlensError

__all__ = ["DefaultGroup", "Group", "add_command", "flag", "new_app", "option", "paragraphs", "require_lab"]


def option(
    help: str,
    *names: str,
    metavar: str | None = None,
    panel: str | None = None,
    default: str | None = None,
    **more: Any,
) -> Any:
    """A typer option. `default` says in words what holds if it is not given; else the default itself is shown."""
    text = help if default is None else f"{help} \\[default: {default}]"  # escaped: help texts are rich markup
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel, show_default=default is None, **more)


def flag(help: str, name: str, *names: str, panel: str | None = None, **more: Any) -> Any:
    """A typer option that takes no value."""
    return typer.Option(name, *names, help=help, rich_help_panel=panel, show_default=False, **more)


def require_lab(command: str) -> None:
    """Refuse a command whose code (trainer, benchmarks) is in `lab/` of the repository and not installed."""
    if find_spec("floatlens_lab") is None:
        raise FloatlensError(
            f"{command}: its code is not part of the installed package; clone the repository and run `make setup`"
        )


_NUMBERS = {int: "N", int | None: "N", float: "X", float | None: "X"}
"""How the help shows the value of an option that names none."""
Debug = Annotated[bool, flag("Show tracebacks and the warnings of libraries.", "--debug")]


class _PlainHelp:
    """Help without what typer adds to names: `--help <bool>`, `MODEL <list[str]>`, `{MODEL}...`."""

    def get_params(self, ctx: Any) -> Any:
        found = super().get_params(ctx)  # type: ignore[misc]
        for one in found:
            if one.param_type_name == "argument":
                one.display_type_rich = lambda ctx: ""
            elif one.is_flag:
                one.metavar = ""
        return found

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        found = ["[OPTIONS]"]
        for one in self.get_params(ctx):
            if one.param_type_name == "argument":
                found.append(one.metavar if one.required else f"[{one.metavar}]")
        return [*found, "COMMAND"] if isinstance(self, TyperGroup) else found


class _Command(_PlainHelp, TyperCommand):
    more_help: Callable[[], str] | None = None
    """Called when help is shown: a last paragraph, "" for none."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        own, more = self.help, self.more_help() if self.more_help is not None else ""
        self.help = "\n\n".join(filter(None, (own, more)))
        try:
            super().format_help(ctx, formatter)
        finally:
            self.help = own


class Group(_PlainHelp, TyperGroup):
    """A command that has commands."""


class DefaultGroup(Group):
    """A command that has commands and works without naming one: `list` with nothing given, else `show`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = [arg for arg in args if arg != "--debug"]
        if not given:
            args = ["list", *args]
        elif given[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["show", *args]
        return list(super().parse_args(ctx, args))


def new_app(help: str, cls: type[Group] = Group, **more: Any) -> typer.Typer:
    """An empty command line, or a part of one."""
    return typer.Typer(
        cls=cls,
        help=help,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        **more,
    )


def add_command(
    app: typer.Typer,
    function: Callable[..., Any],
    panel: str | None = None,
    name: str | None = None,
    more_help: Callable[[], str] | None = None,
) -> None:
    """Make a function a command. Its docstring is the help; parameters that are dataclasses become their fields.

    `more_help` gives a last paragraph of the help, for what is known only when help is shown, such as plug-ins.
    """
    cls = type("_Command", (_Command,), {"more_help": staticmethod(more_help)}) if more_help is not None else _Command
    register = app.command(name, cls=cls, help=paragraphs(function.__doc__ or ""), rich_help_panel=panel)
    register(_spread(function))


def paragraphs(text: str) -> str:
    """A docstring with one line per paragraph, so that help breaks lines only where the terminal ends."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the fields of its dataclass parameters as parameters of their own, and with `debug`."""
    own = inspect.signature(function, eval_str=True).parameters.values()
    groups = {one.name: one.annotation for one in own if is_dataclass(one.annotation)}
    flat = [leaf for one in own for leaf in _leaves(one.name, one.annotation, one.default)]
    flat += _leaves("debug", Debug, False)

    @wraps(function)
    def command(**given: Any) -> Any:
        del given["debug"]  # read by `main`, before anything is imported
        for name, group in groups.items():
            given[name] = _filled(group, given)
        return function(**given)

    command.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    return command


def _leaves(name: str, annotation: Any, default: Any) -> list[inspect.Parameter]:
    """A parameter as it is, or the fields of a dataclass, and of the dataclasses in it."""
    if not is_dataclass(annotation):
        for info in getattr(annotation, "__metadata__", ()):
            info.metavar = _NUMBERS.get(annotation.__origin__) if info.metavar is None else info.metavar
        return [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)]
    hints = get_type_hints(annotation, include_extras=True)
    return [leaf for one in fields(annotation) for leaf in _leaves(one.name, hints[one.name], one.default)]


def _filled(group: Any, given: dict[str, Any]) -> Any:
    """A dataclass of options with its values, which are taken out of `given`."""
    hints = get_type_hints(group)
    return group(
        **{name: _filled(hint, given) if is_dataclass(hint) else given.pop(name) for name, hint in hints.items()}
    )
