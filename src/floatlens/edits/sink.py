"""`SinkToken`: one extra token that sees only itself and is seen by all [Sink token], outside the sequence.

A token that sees only itself has the same key and value in every step. Its key takes part in the softmax of every layer
and its value in the output; positions, tokens and cache stay unchanged.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from floatlens.attention.edit import Edit, ExtraKey, Site
from floatlens.attention.probe import Layer, Shape
from floatlens.attention.recorder import Recorder
from floatlens.attention.select import Select
from floatlens.attention.session import Session, installed
from floatlens.attention.setting import Setting, read_number, read_whole
from floatlens.attention.softmax import Workspace
from floatlens.core.errors import FloatlensError
from floatlens.edits.row_edit import STRENGTH, RowEdit
from floatlens.models.base import LanguageModel
from floatlens.models.facts import Facts

__all__ = ["SinkToken"]


class SinkToken(RowEdit):
    """Every row may attend to one token outside the sequence.

    By default, or with `token=ID`, it is a real token (BOS) before the first one, whose states the model computes from
    this token alone. With `logit=x` it is an ideal sink: every query gives it the logit x, and its value is zero (x = 0
    is "softmax plus one"). Rows then sum to 1 minus its weight, which the report gives. `strength` a scales its
    exp(logit). It chooses no keys, so there is no random control.

    Example: `with fl.edit(model, fl.edits.SinkToken(logit=2.0)): fl.decode(model, ids, gen_length=16)`
    """

    title = "Sink token added"
    about = "one extra token that every row can attend to, outside the sequence"
    settings = (
        Setting("token", read_whole, about="its id; default BOS"),
        Setting("logit", read_number, about="an ideal sink: every query gives it this logit"),
        STRENGTH,
    )
    adds_key = True

    def __init__(
        self,
        token: int | None = None,
        *,
        logit: float | None = None,
        strength: float = 1.0,
        select: Select | None = None,
    ) -> None:
        if token is not None and logit is not None:
            raise FloatlensError(f"SinkToken: token={token} has its own logits; give token or logit={logit}, not both")
        if logit is not None and not math.isfinite(logit):
            raise FloatlensError(f"SinkToken(logit={logit}): give a finite number")
        self.token, self.logit = token, logit
        given: dict[str, Any] = {"token": token, "logit": logit}
        super().__init__(select, strength, **{name: value for name, value in given.items() if value is not None})
        self._states: dict[int, tuple[Tensor, Tensor]] = {}

    def check(self, facts: Facts) -> None:
        super().check(facts)
        if self.token is not None and not 0 <= self.token < facts.vocabulary:
            raise FloatlensError(f"SinkToken(token={self.token}): {facts.ref} has ids up to {facts.vocabulary - 1}")

    def prepare(self, model: LanguageModel, shape: Shape) -> None:
        super().prepare(model, shape)
        if self.logit is not None:
            return
        token = model.bos_id if self.token is None else self.token
        if token is None:
            raise FloatlensError(f"SinkToken: {model.ref} names no BOS token; give SinkToken(token=ID) or logit=…")
        if not 0 <= token < model.vocab_size:
            raise FloatlensError(f"SinkToken(token={token}): {model.ref} has ids up to {model.vocab_size - 1}")
        self._states = _alone(model, token)

    def extra(self, site: Site) -> ExtraKey | None:
        pieces = list(self.rows(site))
        if not pieces:
            return None
        every = self._logits(site) + math.log(self.strength)
        logits = torch.full_like(every, -torch.inf)
        for rows in pieces:
            logits[:, rows.local, rows.inside] = every[:, rows.local, rows.inside]

        def on_share(share: Tensor) -> None:
            for rows in pieces:
                self.count(rows, share[:, rows.local, rows.inside])

        return ExtraKey(logits, None if self.logit is not None else self._by_head(site, 1)[None], on_share)

    def _logits(self, site: Site) -> Tensor:
        """(batch, head, query): the logits of the token for the queries of the block."""
        query = site.layer.query[site.batch, site.heads, site.queries].float()
        if self.logit is not None:
            return torch.full(query.shape[:3], self.logit, device=query.device)
        logits = torch.einsum("bhqd,hd->bhq", query, self._by_head(site, 0)) * site.layer.scaling
        cap = site.layer.softcap
        return logits if cap is None else torch.tanh(logits / cap) * cap

    def _by_head(self, site: Site, which: int) -> Tensor:
        """(head, dim): the token's key or value in this layer, for each head of the block."""
        state = self._states[site.layer.index][which].to(site.layer.query.device)
        groups = site.layer.query.shape[1] // state.shape[0]
        return state[[h // groups for h in range(site.heads.start, site.heads.stop)]]


class _Catch(Edit):
    """Keeps the key and value of the one token of a pass, per layer: (kv head, dim)."""

    def __init__(self) -> None:
        self.states: dict[int, tuple[Tensor, Tensor]] = {}

    def begin_layer(self, layer: Layer) -> None:
        self.states[layer.index] = layer.key[0, :, 0].float().clone(), layer.value[0, :, 0].float().clone()


def _alone(model: LanguageModel, token: int) -> dict[int, tuple[Tensor, Tensor]]:
    """Keys and values of a token that sees only itself, at position −1 where positions are rotations, else at 0."""
    catch = _Catch()
    session = Session(model, [], [catch], Recorder(model, [], None, Select(), 1), Workspace())
    rotary = any("inv_freq" in name for name, _ in model.module.named_buffers())
    place = torch.tensor([[-1]]) if rotary else None
    with installed(model, session, None):
        model.forward(torch.tensor([[token]]), positions=place)
    return catch.states
