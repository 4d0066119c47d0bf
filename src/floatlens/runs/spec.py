"""What a study is: the pydantic model that study.yaml, `fl.run` and the manifest share; see docs/studies.md.

It checks form. What needs data, models or the registries (does the model have that layer, is there such an edit?) is
checked when the study is planned, still before any weights are read.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from floatlens.core.config import DecodingConfig, ModelConfig, PromptConfig
from floatlens.data.stress.points import StressSettings

__all__ = ["Corpus", "Machine", "Output", "Seeds", "Study", "StudyData", "StudyModel", "Tracing"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _from_ref(given: Any) -> Any:
    """A bare text stands for the reference alone."""
    return {"ref": given} if isinstance(given, str) else given


class StudyModel(ModelConfig):
    """A model of the study; what `decoding` says here goes before what the study says."""

    decoding: DecodingConfig = DecodingConfig()


class StudyData(_Part):
    """Questions, and what is asked about them where that is not what the study says."""

    ref: str = Field(
        min_length=1, description="a file, a set of the paper (nq=FILE), or scale questions (scale:rag:documents=5)"
    )
    limit: int | None = Field(None, ge=1, description="only the first so many questions")
    skip_bad: bool = Field(False, description="leave bad records out, with a warning, instead of refusing the file")
    format: str | None = Field(None, description="of a file; None: what its first record shows")
    documents: int | None = Field(None, ge=1, description="show only the first so many documents")
    gold: Literal["answer"] | None = Field(
        None, description="answer: gold are the documents that hold an accepted answer; None: as the data marks them"
    )
    conditions: tuple[str, ...] | None = Field(None, description="instead of the study's conditions")
    traces: int | None = Field(None, ge=0, description="instead of traces.questions")


class Corpus(_Part):
    """Where the documents of `rag` and of edits come from, if not from the data: BM25 over a file of passages."""

    path: str
    top: int = Field(5, ge=1, description="passages to retrieve")


class Seeds(_Part):
    """Everything that is drawn is drawn with one of these."""

    decoding: int = Field(0, ge=0, description="of the samplers")
    stress: int = Field(0, ge=0, description="of distractors, orders and layouts")
    controls: int = Field(0, ge=0, description="of the random controls of edits")


class Tracing(_Part):
    """Which questions are traced in full, and what is recorded of them."""

    questions: int = Field(8, ge=0, description="the first so many of each data set; 0: none")
    places: tuple[int, ...] | None = Field(
        None,
        description="places of the gold document, counted from 0, such as [0, 4, 9]: a trace for each, with the same "
        "documents; None: documents as they are in the data",
    )
    documents: int = Field(10, ge=2, description="how many documents are shown where places are given")
    probes: tuple[str, ...] | None = Field(None, description="None: received, entropy, flow, answer_rows, qk, extremes")
    heads: Literal["all", "mean"] = Field("all", description="keep every head, or their mean")
    layers: tuple[int, ...] | None = Field(None, description="only these, such as [0, 1, -1]; None: all")
    target: Literal["field", "answer"] | None = Field(
        None,
        description="force the record's own target, or its first accepted answer, one token per step: gen_length and "
        "steps do not count; None: models write their own",
    )
    edited: int = Field(
        0,
        ge=0,
        description="so many questions are also traced under each edit, for drift and absorption beside accuracy",
    )


class Output(_Part):
    """What is made of the records. It may change when a study is continued."""

    figures: tuple[Literal["pdf", "svg", "png"], ...] = Field(("pdf", "svg", "png"), description="formats")
    report: bool = Field(True, description="write report.html")
    examples: int = Field(12, ge=1, description="questions in the report's explorer, at most")
    max_mb: float = Field(15.0, ge=3, description="size of the report, at most")
    rule: str | None = Field(None, description="anchor rule of every analysis that has one; None: their own")
    paper: bool = Field(False, description="put the paper's rows below ours in Table 1")


class Machine(_Part):
    """Who does the work. It changes no result and may change when a study is continued."""

    executor: Literal["local", "ray"] = "local"
    workers: int | None = Field(None, ge=1, description="None: one per core for small models on a CPU, else one")
    threads: int | None = Field(
        None, ge=1, description="of torch in each worker; None: 1 for small models on a CPU, else a share of the cores"
    )
    batch: int = Field(16, ge=1, description="questions decoded together; halved where memory runs out")
    cpus: float = Field(1.0, ge=0, description="CPUs that Ray reserves for each worker")
    gpus: float = Field(0.0, ge=0, description="GPUs that Ray reserves for each worker")
    address: str | None = Field(None, description="of a Ray cluster; None: one on this machine, for this run")


Models = Annotated[tuple[Annotated[StudyModel, BeforeValidator(_from_ref)], ...], Field(min_length=1)]
Sets = Annotated[tuple[Annotated[StudyData, BeforeValidator(_from_ref)], ...], Field(min_length=1)]


class Study(_Part):
    """Which models are asked what, how, and what is made of it.

    Conditions are `closed`, `rag`, stress tests by name (`noise`, `position`, `distractor`, `layout`, `order`,
    `masks`) and edits as on the command line (`drop_anchors:k=1,5`), each with its random control.

    Example: `Study(models=["scale:llada"], data=["scale:rag"])`
    """

    name: str = Field("study", min_length=1, description="what it is called; also its folder under runs/")
    about: str = Field("", description="for whoever reads the report later")
    models: Models = Field(
        description="references, or mappings with ref, dtype, device, device_map, revision, family, decoding"
    )
    data: Sets = Field(description="references, or mappings with ref, limit, conditions, …")
    conditions: tuple[str, ...] = Field(("closed", "rag"), description="closed, rag, stress tests, edits")
    prompt: PromptConfig = PromptConfig()
    decoding: DecodingConfig = DecodingConfig()
    first_line: bool = Field(False, description="score an answer up to its first line break only")
    corpus: Corpus | None = None
    stress: StressSettings = StressSettings()
    traces: Tracing = Tracing()
    analyses: tuple[str, ...] | None = Field(None, description="None: all that the probes allow")
    seeds: Seeds = Seeds()
    out: str | None = Field(None, description="the run folder; None: runs/NAME")
    output: Output = Output()
    machine: Machine = Machine()
