"""Stress tests (docs/stress.md): seeded transformations of questions and their documents, a series of points for each.

They take examples and return examples. They build no prompts, run no models and score nothing.

    noise, pool = StressSettings(seed=1).of("noise"), Pool.of(data.examples())
    stressed = [noise.apply(example, point, pool) for point in noise.points()]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from floatlens.core.errors import FloatlensError, did_you_mean
from floatlens.core.registry import Registry
from floatlens.core.validation import in_one_line, short
from floatlens.data.stress.base import Appended, Distinct, Point, StressTest
from floatlens.data.stress.pool import Pool

__all__ = ["STRESS_TESTS", "Appended", "Distinct", "Point", "Pool", "StressSettings", "StressTest", "stress_names"]

STRESS_TESTS: Registry[type[StressTest]] = Registry(
    "stress test",
    "floatlens.stress_tests",
    {
        "clean": "floatlens.data.stress.clean:Clean",
        "noise": "floatlens.data.stress.noise:Noise",
        "position": "floatlens.data.stress.position:Position",
        "distractor": "floatlens.data.stress.distractor:Distractor",
        "layout": "floatlens.data.stress.layout:Layout",
        "order": "floatlens.data.stress.order:Order",
        "masks": "floatlens.data.stress.masks:Masks",
        "wrong": "floatlens.data.stress.wrong:Wrong",
        "misleading": "floatlens.data.stress.misleading:Misleading",
        "collection": "floatlens.data.stress.collection:ChangingCollection",
    },
)
"""Classes by name. Adding a test is one file and one line here, or an entry point of another package."""


class StressSettings(BaseModel):
    """What is chosen for the tests: `{"documents": 6, "noise": {"ratios": [0, 0.4]}}`, a key for each test.

    The settings of a test are the fields of its class. A wrong value is a FloatlensError.
    Example: `StressSettings(seed=7, distractor={"kinds": ["topic"]}).of("distractor").points()`
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    seed: int = Field(0, ge=0, description="of all draws")
    documents: int = Field(10, ge=2, description="documents shown by position, layout and order")

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, values: Any, handler: ModelWrapValidatorHandler[StressSettings]) -> StressSettings:
        try:
            made = handler(values)
        except ValidationError as error:
            raise FloatlensError(f"stress settings: {in_one_line(error, cls)}") from None
        given = made.__pydantic_extra__ or {}
        for name, own in given.items():
            if name not in STRESS_TESTS:
                known = did_you_mean(name, [*cls.model_fields, *STRESS_TESTS])
                raise FloatlensError(f'stress settings: no key "{name}"{known}')
            if not isinstance(own, Mapping):
                raise FloatlensError(f"stress settings: {name} wants a mapping of settings, got {short(own)}")
            if "seed" in own:
                raise FloatlensError(f"stress settings of {name}: all tests share one seed; leave it out")
            test = made.of(name)
            given[name] = test.model_dump(mode="json", include=set(own))
        return made

    def of(self, name: str) -> StressTest:
        """A test with its settings. Example: `StressSettings().of("noise").points()`"""
        test = STRESS_TESTS[name]
        shared = {key: getattr(self, key) for key in test.shared}
        try:
            return test.model_validate(shared | dict((self.model_extra or {}).get(name, {})))
        except ValidationError as error:
            raise FloatlensError(f"stress settings of {name}: {in_one_line(error, test)}") from None

    def used(self, tests: Iterable[str]) -> dict[str, Any]:
        """The complete settings of these tests, defaults included, as a manifest records them."""
        return {
            **self.model_dump(mode="json", include=set(type(self).model_fields)),
            **{name: self.of(name).model_dump(mode="json", exclude={"seed"}) for name in tests},
        }


def stress_names(*, by_default: bool = False) -> list[str]:
    """The tests that can be chosen: all but those that only serve as a reference; or those done if none are chosen."""
    found = {name: test for name, test in STRESS_TESTS.items() if test.reference != name}
    return [name for name, test in found.items() if test.by_default or not by_default]
