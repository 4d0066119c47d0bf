"""What a study is: the pydantic model that study.yaml, `fl.run`, the presets and the manifest share (docs/studies.md).

It checks form. What needs data, models or registries (does the model have that layer, is there such an edit?) is
checked when the study is planned, before any weights are read.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    WithJsonSchema,
    model_validator,
)

from floatlens.attention.setting import BackendName, ControlKind, RowGroup
from floatlens.data.stress import Distinct, StressSettings
from floatlens.decoding.settings import DecodingConfig
from floatlens.models.config import ModelConfig, Placement
from floatlens.prompts.types import PromptConfig
from floatlens.records.condition import PatchedStates

__all__ = [
    "Controls",
    "Corpus",
    "Machine",
    "Output",
    "Patching",
    "Seeds",
    "Study",
    "StudyData",
    "StudyModel",
    "StudySnapshots",
    "Tracing",
]


MOST = 10_000
"""Of draws, copies, workers and the like: a larger number in a study is a mistake, and would fill the memory."""
LARGEST_SEED = 2**32 - 1


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _from_ref(given: Any) -> Any:
    """A bare text is a reference."""
    return {"ref": given} if isinstance(given, str) else given


def _count(given: Any) -> Any:
    if given == "all" or (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        return given
    raise ValueError('wants a whole number, at least 0, or "all"')


Questions = Annotated[
    int | Literal["all"],
    PlainValidator(_count),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": "all"}]}),
]
"""How many questions: the first N, or all."""


def _chosen_on(given: Any) -> Any:
    if given in ("half", "all") or (isinstance(given, int) and not isinstance(given, bool) and given >= 1):
        return given
    raise ValueError('wants a whole number, at least 1, "half" or "all"')


ChosenOn = Annotated[
    int | Literal["half", "all"],
    PlainValidator(_chosen_on),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"enum": ["half", "all"]}]}),
]
"""Which questions something is chosen on: the first N, half of them, or all."""


def _course_name(given: str) -> str:
    """The name of a course, checked: snapshots are named after it, and so are files."""
    if not given.strip() or len(given) > _LONGEST or not given.isprintable() or set(given) & set("/\\"):
        raise ValueError(f"the name of a course is a text of 1 to {_LONGEST} printable characters without slashes")
    return given


CourseName = Annotated[str, AfterValidator(_course_name)]
_LONGEST = 60


class StudyModel(ModelConfig):
    """A model of the study. Its own `decoding` takes precedence over that of the study."""

    decoding: DecodingConfig = DecodingConfig()
    course: CourseName | None = Field(None, description="the training course that this model is a snapshot of")
    step: int | None = Field(None, ge=0, description="its training step; None: as its adaptation.json says")
    tokens: int | None = Field(
        None, ge=0, description="tokens trained on; None: as its adaptation.json says, if it does"
    )
    origin: str | None = Field(None, min_length=1, description="the model of the study that the course started from")

    @model_validator(mode="after")
    def _with_course(self) -> Self:
        for name in ("step", "tokens", "origin"):
            if self.course is None and getattr(self, name) is not None:
                raise ValueError(f"{name} is that of a training course; give its name as course: too")
        return self


class StudySnapshots(Placement):
    """All snapshots of a folder that `floatlens adapt` wrote, as one course, in the order of their steps."""

    snapshots: str = Field(min_length=1, description="a folder of `floatlens adapt`, or the folder of its snapshots")
    course: CourseName | None = Field(None, description="name of the course; None: that of the folder")
    origin: str | None = Field(None, min_length=1, description="the model of the study that the course started from")
    steps: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(
        None, min_length=1, description="only these steps of the folder; None: all"
    )
    after: int = Field(0, ge=0, description="steps of the course before this folder, for training in several stages")
    decoding: DecodingConfig = DecodingConfig()


class StudyData(_Part):
    """Questions, and what differs for them from the rest of the study."""

    ref: str = Field(
        min_length=1, description="a file, a set of the paper (nq=FILE), or scale questions (scale:rag:documents=5)"
    )
    limit: int | None = Field(None, ge=1, description="use only the first N questions")
    skip_bad: bool = Field(False, description="skip bad records with a warning instead of refusing the file")
    format: str | None = Field(None, description="format of a file; None: detected from its first record")
    documents: int | None = Field(None, ge=1, description="show only the first N documents")
    gold: Literal["answer"] | None = Field(
        None, description="answer: documents that contain an accepted answer are gold; None: as marked in the data"
    )
    collection: str | None = Field(
        None, description="a file of dated documents that the questions are about, for the stress test collection"
    )
    conditions: tuple[str, ...] | None = Field(None, description="instead of the study's conditions")
    traces: Questions | None = Field(None, description="instead of traces.questions")
    places: tuple[int, ...] | None = Field(None, description="instead of traces.places; []: documents as in the data")
    patching: Questions | None = Field(None, description="instead of patching.questions")


class Corpus(_Part):
    """Documents for `rag` and for edits that do not come from the data: BM25 over a file of passages."""

    path: str
    top: int = Field(5, ge=1, description="passages to retrieve")
    skip_bad: bool = Field(False, description="skip bad passages with a warning instead of refusing the file")


class Seeds(_Part):
    """Seeds of everything that is drawn at random."""

    decoding: int = Field(0, ge=0, le=LARGEST_SEED, description="samplers")
    stress: int = Field(0, ge=0, le=LARGEST_SEED, description="distractors, orders and layouts of stress tests")
    controls: int = Field(
        0,
        ge=0,
        le=LARGEST_SEED,
        description="random controls of edits and patching: the first draw; others follow it by 1",
    )


class Controls(_Part):
    """Models that every model of the study is compared with. They are traced like it, and neither asked nor edited."""

    shuffled_weights: int = Field(
        0, ge=0, le=MOST, description="copies of each model with shuffled weights, with the seeds 0, 1, …; 0: none"
    )


class Tracing(_Part):
    """Which questions are traced, and what is recorded."""

    questions: Questions = Field(8, description="the first N of each data set, or all; 0: none")
    places: tuple[int, ...] | None = Field(
        None,
        description="positions of the gold document, counted from 0, such as [0, 4, 9]: one trace for each, with the "
        "same documents; None: documents as in the data",
    )
    documents: int = Field(10, ge=2, description="documents shown where places are given")
    probes: tuple[str, ...] | None = Field(
        None,
        description="None: received, entropy, flow, answer_rows, rollout, qk, extremes; contributions where "
        "some layers have no attention",
    )
    heads: Literal["all", "mean"] = Field("all", description="keep every head, or their mean")
    layers: tuple[int, ...] | None = Field(None, description="only these, such as [0, 1, -1]; None: all")
    backend: BackendName = Field(
        "auto", description="how attention is captured: rows, fused (kernels with log-sum-exps); auto: fused on GPUs"
    )
    target: Literal["field", "answer"] | None = Field(
        None,
        description="force the record's own target, or its first accepted answer, one token per step; gen_length and "
        "steps are then ignored; None: models write their own answers",
    )
    edited: int = Field(
        8, ge=0, description="questions that are also traced under each edit, for drift and absorption beside accuracy"
    )


class Patching(_Part):
    """Activation patching: states of the strongest keys are replaced by those of a counterfactual prompt."""

    questions: Questions = Field(0, description="the first N of each data set, or all; 0: none")
    k: int = Field(1, ge=1, description="how many of the strongest keys of a layer are patched together")
    what: Distinct[PatchedStates] = Field(
        ("kv", "residual"), description="kv: keys and values of a layer's attention; residual: what enters the layer"
    )
    rows: RowGroup = Field("all", description="rows whose attention ranks the keys: all, answer or last")
    draws: int | None = Field(None, ge=1, le=MOST, description="draws of the random control; None: control_draws")


class Output(_Part):
    """What is made of the records. It may change when a study is continued."""

    figures: tuple[Literal["pdf", "svg", "png"], ...] = Field(("pdf", "svg", "png"), description="file formats")
    report: bool = Field(True, description="write report.html")
    examples: int = Field(12, ge=1, description="maximum number of questions in the report's explorer")
    max_mb: float = Field(15.0, ge=3, description="maximum size of the report")
    rule: str | None = Field(None, description="anchor rule of every analysis that has one; None: their own")
    measure: Literal["attention", "contribution"] = Field("attention", description="what analyses count")
    paper: bool = Field(False, description="put the paper's rows below ours in Table 1")
    within: float = Field(
        1.0, ge=0, le=100, description="points of accuracy that the recommended refresh schedule of a cache may cost"
    )
    choose: ChosenOn = Field(
        "half",
        description="it is chosen on the first N questions of each data set and reported on the others; half; or all, "
        "then on the same",
    )


class Machine(_Part):
    """Where the work is done. It changes no result and may change when a study is continued."""

    executor: Literal["local", "ray"] = "local"
    workers: int | None = Field(
        None, ge=1, le=MOST, description="None: one per core for small models on a CPU, else one"
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=MOST,
        description="torch threads per worker; None: 1 for small models on a CPU, else a share of the cores",
    )
    batch: int = Field(16, ge=1, le=MOST, description="questions decoded together; halved where memory runs out")
    trace_batch: int = Field(
        1,
        ge=1,
        le=MOST,
        description="questions traced together, for GPUs; fewer where memory runs out",
    )
    cpus: float = Field(1.0, ge=0, description="CPUs that Ray reserves for each worker")
    gpus: float = Field(0.0, ge=0, description="GPUs that Ray reserves for each worker")
    address: str | None = Field(None, description="address of a Ray cluster; None: one on this machine, for this run")


def _which(given: Any) -> str:
    """Which of the two an entry of `models` is."""
    snapshots = "snapshots" in given if isinstance(given, dict) else isinstance(given, StudySnapshots)
    return "StudySnapshots" if snapshots else "StudyModel"


StudyModels = Annotated[StudyModel, Tag("StudyModel")] | Annotated[StudySnapshots, Tag("StudySnapshots")]
Entry = Annotated[StudyModels, Discriminator(_which), BeforeValidator(_from_ref)]
Models = Annotated[tuple[Entry, ...], Field(min_length=1)]
Sets = Annotated[tuple[Annotated[StudyData, BeforeValidator(_from_ref)], ...], Field(min_length=1)]


class Study(_Part):
    """Which models are asked what, how, and what is made of it.

    Conditions are `closed`, `rag`, stress tests by name (`noise`, `position`, …) and edits as on the command line
    (`drop_anchors:k=1,5`), each with its random controls. Without conditions a study only traces.

    Example: `Study(models=["scale:llada"], data=["scale:rag"])`
    """

    name: str = Field("study", min_length=1, description="name of the study, and of its folder under runs/")
    about: str = Field("", description="a note for readers of the report")
    models: Models = Field(
        description="references, mappings with ref, dtype, device, device_map, revision, family, attention, "
        "block_size, mask_id, mode, decoding, course, step, tokens, origin, or mappings with snapshots"
    )
    data: Sets = Field(description="references, or mappings with ref, limit, conditions, …")
    conditions: tuple[str, ...] = Field(("closed", "rag"), description="closed, rag, stress tests, edits")
    prompt: PromptConfig = PromptConfig()
    decoding: DecodingConfig = DecodingConfig()
    first_line: bool = Field(False, description="score an answer up to its first line break only")
    corpus: Corpus | None = None
    stress: StressSettings = StressSettings()
    traces: Tracing = Tracing()
    controls: Controls = Controls()
    patching: Patching = Patching()
    heads_from: tuple[str, ...] = Field(
        (), description="runs whose traces tell which heads retrieve, for ablate_heads:top=N; (): this study's traces"
    )
    control_draws: int = Field(
        1, ge=1, le=MOST, description="draws of each random control of an edit; effects average over them"
    )
    control_kinds: Distinct[ControlKind] | None = Field(
        None, description="random controls by count or by mass, where an edit has one like that; None: both"
    )
    analyses: tuple[str, ...] | None = Field(None, description="None: all that the probes allow")
    seeds: Seeds = Seeds()
    out: str | None = Field(None, description="the run folder; None: runs/NAME")
    output: Output = Output()
    machine: Machine = Machine()

    @property
    def control_seeds(self) -> tuple[int, ...]:
        """A seed for each draw of a random control."""
        return tuple(range(self.seeds.controls, self.seeds.controls + self.control_draws))
