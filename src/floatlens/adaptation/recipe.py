"""The recipe of an adaptation: everything that decides the result besides the base model and the data."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from floatlens.core.errors import FloatlensError

__all__ = ["SNAPSHOTS", "Attention", "Recipe", "read_recipe"]

Attention = Literal["full", "block", "causal"]

SNAPSHOTS = (0, 25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800)
"""Steps after which the adapter is kept, for analyses over training."""


class Recipe(BaseModel):
    """Settings of `adapt`. Example: `Recipe(to="diffusion", mask="full", steps=400).digest`"""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    to: Literal["diffusion", "autoregressive"] = "diffusion"
    mask: Literal["full", "block"] = Field(
        "full", description="diffusion: full attention, or causal with each answer bidirectional in itself"
    )
    full: bool = Field(False, description="train all weights instead of low-rank adapters")
    rank: int = Field(16, ge=1, description="rank of the adapters")
    modules: tuple[str, ...] = Field(
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        description="linear layers that get an adapter",
    )
    steps: int = Field(1000, ge=1)
    rows: int = Field(4, ge=1, description="rows in a step, of `width` tokens; half as many of the long rows")
    width: int = Field(256, ge=32, description="tokens in a row")
    long_rows: float = Field(0.1, ge=0, le=1, description="share of steps whose rows are twice as wide")
    text: float = Field(0.3, ge=0, le=1, description="share of rows that are plain text")
    text_weight: float = Field(0.15, gt=0, description="weight of a token of plain text; one of an answer has 1")
    text_power: float = Field(2.0, ge=1, description="mask ratios of text are drawn as a uniform number to this power")
    learning_rate: float = Field(5e-4, gt=0)
    warmup: int = Field(20, ge=0, description="steps over which the learning rate rises")
    decay: float = Field(0.2, ge=0, le=1, description="last share of the steps, over which it falls to a tenth")
    weight_decay: float = Field(0.0, ge=0)
    clip: float = Field(1.0, gt=0, description="largest norm of the gradient")
    least_ratio: float = Field(0.1, gt=0, lt=1, description="smallest mask ratio that is drawn")
    largest_weight: float = Field(4.0, ge=1, description="bound on the weight 1/ratio of a masked token")
    whole_answer: float = Field(0.6, ge=0, le=1, description="share of answers that are masked as a whole")
    context_mask: float = Field(0.15, ge=0, lt=1, description="share of the context asked for in half of the rows")
    spare: int = Field(12, ge=0, description="most end tokens after the one that ends an answer")
    distill: float = Field(0.0, ge=0, le=1, description="weight of the frozen base's next-token distribution")
    anneal: int = Field(0, ge=0, description="steps over which later keys become visible; 0: at once")
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _fits(self) -> Recipe:
        if self.to == "autoregressive":
            for name in ("anneal", "distill"):
                if getattr(self, name):
                    raise ValueError(f"{name} is for to='diffusion'")
        if self.full and self.distill:
            raise ValueError("distill needs the frozen base, and full keeps none; leave one of them out")
        if self.mask == "block" and self.anneal:
            raise ValueError("anneal is for mask='full'")
        return self

    @property
    def attention(self) -> Attention:
        """The attention of the model that comes out."""
        return "causal" if self.to == "autoregressive" else self.mask

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    def rate_at(self, step: int) -> float:
        """Learning rate of a step, counted from 0: up over `warmup`, level, then down to a tenth."""
        up = min(1.0, (step + 1) / (self.warmup + 1))
        falling = self.steps * self.decay
        down = 1.0 if not falling else min(1.0, 0.1 + 0.9 * (self.steps - step) / falling)
        return self.learning_rate * min(up, down)


def read_recipe(path: Path) -> dict[str, Any]:
    """The settings in a JSON file; whether they are settings of a recipe is checked where one is made of them."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FloatlensError(f"{path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FloatlensError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(values, dict):
        raise FloatlensError(f"{path}: expected a JSON object with settings of a recipe")
    return values
