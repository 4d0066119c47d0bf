"""Damaged studies and prompt templates in YAML: values, tags, anchors, aliases, nesting, dates, numbers, bytes.

A study is read and planned, as `floatlens run --dry-run` does. Another study is a study too, so one that is planned is
no failure, whatever it says.
"""

from __future__ import annotations

import copy
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import yaml

from floatlens_lab.fuzz.junk import change_kind, flipped, replace_somewhere
from floatlens_lab.fuzz.subject import Outcome

__all__ = ["StudyFiles"]

_STUDY: dict[str, Any] = {
    "name": "small",
    "about": "A study that says something of everything.",
    "models": ["scale:qwen", {"ref": "scale:llada", "dtype": "float32", "decoding": {"settings": {"steps": 4}}}],
    "data": [
        {"ref": "questions.jsonl", "limit": 2, "documents": 2, "conditions": ["rag"], "traces": 1, "places": [0, 1]},
        {"ref": "scale:rag:documents=3", "limit": 2, "skip_bad": False, "patching": 0},
    ],
    "conditions": ["closed", "rag", "noise", "drop_anchors:k=1", "ablate_heads:top=2", "sink_token"],
    "prompt": {"template": "template.yaml", "chat": False},
    "decoding": {"settings": {"gen_length": 4}},
    "stress": {"noise": {"ratios": [0, 0.4], "documents": 3}},
    "traces": {"questions": 1, "probes": ["received", "flow", "answer_rows"], "layers": [0, -1], "edited": 1},
    "controls": {"shuffled_weights": 1},
    "patching": {"questions": 0, "k": 1, "what": ["kv"]},
    "control_draws": 2,
    "analyses": ["drift", "absorption"],
    "seeds": {"decoding": 1, "stress": 2},
    "output": {"figures": ["png"], "examples": 2, "max_mb": 5, "rule": "top1"},
    "machine": {"workers": 1, "batch": 2},
}
_TEMPLATE = {
    "name": "mine",
    "version": 1,
    "closed_book": "Question: {question}\nAnswer:",
    "rag": "{documents}\nQuestion: {question}\nAnswer:",
    "document": "[{i}] {title}: {text}",
    "document_untitled": "[{i}] {text}",
}
_DOCUMENTS = [{"text": "Ada plays the flute.", "is_gold": True}, {"text": "Bo sings."}]
_QUESTIONS = (
    {"question": "What does Ada play?", "answers": ["flute"], "documents": _DOCUMENTS},
    {"question": "Who sings?", "answers": ["Bo"], "documents": _DOCUMENTS},
)
_SCALARS = (
    *("!!int abc", "!!float x", "!!timestamp 2024-13-45", "2024-13-45", "2024-02-30 25:61:61", "!!binary '%'"),
    *("!!python/object/apply:os.system [echo]", "!!set {a, b}", "!!omap [a]", "!!null x", "!mine 3", "!<tag:x> 1"),
    *(".nan", "-.inf", "1e999", "9" * 5000, "-0", "0o777", "0x" + "f" * 3000, "190:20:30", "1_000", "~", "on"),
    *("*nowhere", "&a [*a]", "&a {b: *a}", "<<: *x", "? [a]", "? {a: b}\n: c", "[" * 4000, "{" * 4000, "|9\n x"),
    *(
        '"\\ud800"',
        '"\\x00"',
        "'\u202e'",
        '"\\e[31m"',
        "@x",
        "`x`",
        "%TAG ! x",
        "--- 1\n--- 2",
        "${HOME}",
        "${NOT_SET}",
    ),
    *(
        "/dev/zero",
        "../../..",
        "~/x",
        ".",
        "/proc/self/mem",
        "hub:x",
        "nq=",
        "=",
        ":",
        "scale:",
        "scale:rag:documents=0",
    ),
    *("99999999999", "1000000000000000000000", "-1", "[[[]]]", "noise:ratio=2", "drop_anchors:k=99999999999", "k=1,,2"),
)
"""What stands where a value stood."""


class StudyFiles:
    """One study with most keys, and its prompt template."""

    count = 500

    def prepare(self, folder: Path) -> None:
        (folder / "questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in _QUESTIONS))
        (folder / "study.yaml").write_text(yaml.safe_dump(_STUDY, sort_keys=False))
        (folder / "template.yaml").write_text(yaml.safe_dump(_TEMPLATE, sort_keys=False))

    def warm(self, folder: Path) -> None:
        _planned(folder / "study.yaml")

    def damage(self, folder: Path, rng: Random, target: Path) -> str:
        for path in folder.iterdir():
            (target / path.name).write_bytes(path.read_bytes())
        name = rng.choice(("study.yaml", "study.yaml", "study.yaml", "template.yaml"))
        kind = rng.choice(sorted([*_DAMAGE, "another kind"]))
        path = target / name
        if kind not in _DAMAGE:
            return f"{name}: {change_kind(rng, path)}"
        content = path.read_bytes()
        for _ in range(rng.choice((1, 1, 2, 3))):
            content = _DAMAGE[kind](rng, content, _STUDY if name == "study.yaml" else _TEMPLATE)
        path.write_bytes(content)
        return f"{name}: {kind}"

    def read(self, target: Path, folder: Path) -> Outcome:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = _planned(target / "study.yaml")
        if found.replace(str(target), "") == _planned(folder / "study.yaml").replace(str(folder), ""):
            return "unchanged"
        return "told" if said else "another"


def _planned(path: Path) -> str:
    """The manifest of a study as the dry run plans it."""
    from floatlens.runs.counts import count, forecast
    from floatlens.runs.manifest import manifest_of
    from floatlens.runs.plan import make_plan
    from floatlens.runs.run import folder_of
    from floatlens.runs.study_file import read_study
    from floatlens.runs.workers import team_for

    source = read_study(path)
    folder_of(source, None)
    plan = make_plan(source)
    counts = count(plan, None)
    team = team_for(plan, counts.left)
    forecast(plan, counts, (), team.count or 1, team.threads, elsewhere=team.elsewhere)
    return repr(manifest_of(plan))


# -- damage -------------------------------------------------------------------------------------------------------


def _value(rng: Random, content: bytes, whole: dict[str, Any]) -> bytes:
    """Another value somewhere, of any kind."""
    made = copy.deepcopy(whole)
    replace_somewhere(rng, made)
    text: str = yaml.dump(made, sort_keys=False, allow_unicode=rng.random() < 0.5)
    return text.encode("utf-8", "surrogatepass")


def _number(rng: Random, content: bytes, whole: dict[str, Any]) -> bytes:
    """Another whole number, of any size."""
    found = list(re.finditer(rb"(?<=[ =\[])\d+", content))
    if not found:
        return content
    one = rng.choice(found)
    number = rng.choice((0, -1, 7, 1000, 10**6, 10**9, 2**31, 10**12, 2**63, 10**30))
    return content[: one.start()] + str(number).encode() + content[one.end() :]


def _scalar(rng: Random, content: bytes, whole: dict[str, Any]) -> bytes:
    """YAML's own traps where a value stood."""
    lines = content.decode(errors="replace").split("\n")
    at = rng.randrange(len(lines))
    head, mark, _ = lines[at].rpartition(": " if ": " in lines[at] else "- ")
    lines[at] = f"{head}{mark}{rng.choice(_SCALARS)}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _aliases(rng: Random, content: bytes, whole: dict[str, Any]) -> bytes:
    """Aliases of aliases, which stand for many values, under a key that is known or is not."""
    (depth, width), key = (
        rng.choice(((5, 3), (9, 9), (12, 8), (30, 2))),
        rng.choice(("about", "bombs", "stress", "data")),
    )
    lines = [f"{key}:", "  - &a0 [x, x]"]
    for level in range(1, depth):
        lines.append(f"  - &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    if rng.random() < 0.3:
        lines = [f"{key}: &top", "  x: *top", "  <<: *top"]
    return content + "\n".join(lines).encode() + b"\n"


def _nesting(rng: Random, content: bytes, whole: dict[str, Any]) -> bytes:
    depth, key = rng.choice((70, 500, 20_000)), rng.choice(list(whole))
    kind = rng.choice(("[", "{a: ", "- ", "? "))
    return content + f"\n{key}: {kind * depth}\n".encode()


def _bytes(rng: Random, content: bytes, whole: dict[str, Any]) -> bytes:
    at = rng.randrange(len(content) or 1)
    junk = rng.choice(
        (b"\x00", b"\xff", b"\t", b"&", b"*", b"!", b"\n---\n", b"\xef\xbb\xbf", b"{", b"'", b"%", b"\xc2\x85")
    )
    kind = rng.choice(("cut", "insert", "flip"))
    return (
        content[:at]
        if kind == "cut"
        else content[:at] + junk + content[at:]
        if kind == "insert"
        else flipped(rng, content)
    )


def _lines(rng: Random, content: bytes, whole: dict[str, Any]) -> bytes:
    """A line doubled, taken out, moved or indented."""
    lines = content.split(b"\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.choice(("doubled", "gone", "swapped", "indented"))
    if kind == "doubled":
        lines.insert(to, lines[at])
    elif kind == "gone":
        del lines[at]
    elif kind == "swapped":
        lines[at], lines[to] = lines[to], lines[at]
    else:
        lines[at] = b" " * rng.randrange(6) + lines[at]
    return b"\n".join(lines)


_DAMAGE: dict[str, Callable[[Random, bytes, dict[str, Any]], bytes]] = {
    "value": _value,
    "values": _value,
    "number": _number,
    "numbers": _number,
    "scalar": _scalar,
    "scalars": _scalar,
    "aliases": _aliases,
    "nesting": _nesting,
    "bytes": _bytes,
    "lines": _lines,
}
