"""Commands as studies."""

from __future__ import annotations

from collections import Counter

import pytest

from floatlens.core.errors import FloatlensError
from floatlens.records.condition import Edited
from floatlens.runs.plan import make_plan
from floatlens.runs.presets import cache_study, intervene_study, qa_study, stress_study, trace_study
from floatlens.runs.study import Study
from floatlens.runs.study_file import read_study

MODELS, DATA = ["scale:llada", "scale:qwen"], ["scale:rag", "scale:known"]


def test_options_that_are_not_given_are_the_defaults_of_a_study() -> None:
    plain = Study(models=MODELS, data=DATA)
    for made in (qa_study(MODELS, DATA), stress_study(MODELS, DATA), trace_study(MODELS, DATA)):
        for part in ("models", "data", "prompt", "decoding", "seeds", "machine", "corpus", "first_line"):
            assert getattr(made, part) == getattr(plain, part), part


def test_shared_options_go_where_a_study_has_them() -> None:
    made = qa_study(
        MODELS,
        DATA,
        limit=3,
        skip_bad=True,
        format="psg",
        documents=2,
        template="t",
        chat=False,
        sampler="llada",
        settings={"steps": 4, "seed": 7},
        first_line=True,
        dtype="float32",
        device="cpu",
        batch=2,
        workers=3,
        executor="ray",
        address="auto",
    )
    assert [(one.ref, one.dtype, one.device) for one in made.models] == [(ref, "float32", "cpu") for ref in MODELS]
    assert all((one.limit, one.skip_bad, one.format, one.documents) == (3, True, "psg", 2) for one in made.data)
    assert (made.prompt.template, made.prompt.chat, made.first_line) == ("t", False, True)
    assert (made.decoding.sampler, made.decoding.settings, made.seeds.decoding) == ("llada", {"steps": 4}, 7)
    machine = made.machine
    assert (machine.batch, machine.workers, machine.executor, machine.address) == (2, 3, "ray", "auto")


def test_qa() -> None:
    made = qa_study(MODELS, DATA, modes=["rag"], corpus="c.jsonl", top=3, paper=True)
    assert (made.name, made.conditions, made.traces.questions) == ("qa", ("rag",), 0)
    assert made.corpus is not None
    assert (made.corpus.path, made.corpus.top, made.output.paper) == ("c.jsonl", 3, True)


def test_stress() -> None:
    made = stress_study(MODELS, DATA, stress={"order": {"shuffles": 2}}, stress_seed=5, gold="answer")
    assert made.conditions == ("noise", "position", "distractor", "layout", "order", "masks")
    assert (made.stress.of("order").shuffles, made.seeds.stress, made.data[0].gold) == (2, 5, "answer")
    assert stress_study(MODELS, DATA, tests=["noise"]).conditions == ("noise",)
    dated = stress_study(MODELS, DATA, tests=["collection"], collection="c.jsonl")
    assert [one.collection for one in dated.data] == ["c.jsonl", "c.jsonl"]


def test_intervene() -> None:
    made = intervene_study(MODELS, DATA, edits=["drop_anchors:k=1,5"], edited=2, heads_from=["runs/t"], control_seed=3)
    assert made.control_seeds == (3,)
    several = intervene_study(MODELS, DATA, edits=["drop_anchors"], control_seed=3, control_draws=2)
    assert (several.control_seeds, several.control_kinds) == ((3, 4), None)
    assert intervene_study(MODELS, DATA, edits=["boost"], control_kinds=["mass"]).control_kinds == ("mass",)
    assert (made.conditions, made.heads_from) == (("drop_anchors:k=1,5",), ("runs/t",))
    assert (made.traces.questions, made.traces.edited, made.seeds.controls) == (0, 2, 3)


def test_controls_of_one_kind() -> None:
    """As many draws of the kind that is given; an edit without such a control keeps its own."""
    edits = ["boost:span=gold", "drop_anchors:k=1", "ablate_heads:heads=1.1", "sink_token"]
    given = {"edits": edits, "edited": 0, "control_draws": 2, "limit": 2}
    planned = {}
    for kinds in (None, ["mass"], ["count"]):
        study = intervene_study(MODELS[:1], DATA[:1], control_kinds=kinds, **given)
        (part,) = make_plan(read_study(study)).data
        found = [one.condition for one in part.conditions if isinstance(one.condition, Edited)]
        planned[str(kinds)] = [(one.name, one.control) for one in found if one.control]
    assert Counter(planned["['mass']"]) == {
        ("boost", "mass"): 2,
        ("drop_anchors", "mass"): 2,
        ("ablate_heads", "count"): 2,
    }
    both = [(name, kind) for name in ("boost", "drop_anchors") for kind in ("mass", "count")]
    assert Counter(planned["None"]) == dict.fromkeys([*both, ("ablate_heads", "count")], 2)
    assert {kind for _, kind in planned["['count']"]} == {"count"}


def test_trace() -> None:
    made = trace_study(
        MODELS[:1], DATA[:1], probes=["received"], heads="mean", layers=[0, -1], target="answer", backend="rows"
    )
    assert (made.conditions, made.traces.questions) == ((), "all")
    assert (made.traces.probes, made.traces.heads, made.traces.layers) == (("received",), "mean", (0, -1))
    assert (made.traces.target, made.traces.backend) == ("answer", "rows")


def test_cache() -> None:
    made = cache_study(MODELS[:1], DATA[:1], least=[0.99, 0.9], also=["stale:refresh=2"], traces=4, within=2.5, limit=9)
    assert made.conditions == ("rag", "stale:least=0.99,0.9", "stale:refresh=2")
    assert (made.traces.questions, made.traces.probes) == (4, ("received", "cacheability"))
    assert (made.traces.edited, made.output.within, made.data[0].limit) == (0, 2.5, 9)
    assert cache_study(MODELS[:1], DATA[:1], least=[], also=[]).conditions == ("rag",)
    assert (made.output.choose, cache_study(MODELS[:1], DATA[:1], choose=200).output.choose) == ("half", 200)


def test_what_is_wrong_is_one_line() -> None:
    for wrong in (0, "some", True):
        with pytest.raises(
            FloatlensError, match=r'output.choose=\S+: wants a whole number, at least 1, "half" or "all"'
        ):
            cache_study(MODELS[:1], DATA[:1], choose=wrong)  # type: ignore[arg-type]
    with pytest.raises(FloatlensError, match=r"data\[0\].limit wants at least 1, got 0"):
        qa_study(MODELS, DATA[:1], limit=0)
