"""Messages and progress: nothing acts on the terminal, and the pace is right."""

from __future__ import annotations

import pytest

from floatlens.cli import terminal
from floatlens.cli.parsing import parse_settings
from floatlens.cli.studies import RunningAccuracy
from floatlens.records import Record


class Clock:
    """Time that moves when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand\r\nmore", "two lines and more"),
        ("\x1b]0;title\x07x\x9b31m", "]0;titlex31m"),
        ("a\u202eb\u2066c", "abc"),
        ("half \ud800", "half \ufffd"),
        ("नमस्ते 👩‍🚀", "नमस्ते 👩‍🚀"),
        ("[bold]not markup[/bold] :smile:", "[bold]not markup[/bold] :smile:"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert terminal.clean(text) == shown


@pytest.mark.parametrize(("piece", "shown"), [(" the", "␣the"), ("\n\n", "⏎⏎"), ("\t", "⇥"), ("", "∅"), ("\x00", "∅")])
def test_visible(piece: str, shown: str) -> None:
    assert terminal.visible(piece) == shown


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "0.0 s"), (4.24, "4.2 s"), (59.4, "59 s"), (125.0, "2:05"), (3725.0, "1:02:05")]
)
def test_duration(seconds: float, said: str) -> None:
    assert terminal.duration(seconds) == said


def test_pace_counts_this_session_and_the_part_under_way() -> None:
    clock = Clock()
    bar = terminal.Bar(total=10, done=4, clock=clock)
    assert bar.pace() == ""
    clock.now += 3
    bar.part(0.5)
    assert bar.pace() == "6.0 s each, 33 s left"  # 5.5 items of 6 s
    clock.now += 3
    bar.item("one")
    assert bar.pace() == "6.0 s each, 30 s left"
    clock.now += 1
    for _ in range(5):
        bar.item()
    assert (bar.done, bar.pace()) == (10, "1.2 s each")
    quick = terminal.Bar(total=100, done=0, clock=clock)
    clock.now += 1
    for _ in range(4):
        quick.item()
    assert quick.pace() == "4.0 per second"  # too early to tell


def test_plain_lines_come_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    bar = terminal._PlainBar(total=9, done=0, clock=clock)
    for _ in range(9):
        clock.now += 4
        bar.part(0.5)
        bar.item("x")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["floatlens: 3 of 9 (4.0 s each, 24 s left)", "floatlens: 6 of 9 (4.0 s each, 12 s left)"]


def test_plain_lines_have_the_running_accuracy_and_no_answers(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    bar, running = terminal._PlainBar(total=9, done=0, clock=clock), RunningAccuracy()
    for condition, accuracy in (("closed", 0.0), ("rag", 1.0), ("rag", 0.0), ("rag", 1.0), ("rag", None)):
        clock.now += 4
        values = {"what": "answer", "index": 0, "id": "q", "status": "done", "model": "m", "data": "d"}
        answer = {"condition": {"kind": condition}, "accuracy": accuracy, "prediction": "a word"}
        record = Record.model_validate({**values, **answer})
        bar.item(record.prediction or "", running.after(record))
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "floatlens: 3 of 9 (4.0 s each, 24 s left); m, d, rag: accuracy 50.0% of 2"
    assert running.after(record) == "m, d, rag: accuracy 66.7% of 3"
    assert running.after(record.model_copy(update={"data": "e"})) == "m, e, rag"


def test_progress_is_plain_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.progress("tracing", 2) as bar:
        bar.part(0.5)
        bar.item("[red]x[/red]")
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal_takes_no_markup_and_leaves_messages_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with terminal.progress("tracing", 3, done=1) as bar:
        bar.part(0.5)
        bar.item("[red]x[/red] \x1b[2J")
        terminal.say("[b]hello[/b]")
    err = capsys.readouterr().err
    assert "floatlens: [b]hello[/b]" in err
    assert "2/3" in err
    assert "[red]x[/red] [2J" in err
    assert "\x1b[2J" not in err


def test_values_of_set_are_yaml_scalars() -> None:
    pairs = ["gen_length=8", "temperature=0.5", "logits-eos-inf=true", "remasking=random", "top_p=null", "eps=1e-3"]
    assert parse_settings(pairs, seed=3) == {
        "gen_length": 8,
        "temperature": 0.5,
        "logits_eos_inf": True,
        "remasking": "random",
        "top_p": None,
        "eps": "1e-3",  # YAML 1.1 sees a text; the sampler's own float field reads it
        "seed": 3,
    }
