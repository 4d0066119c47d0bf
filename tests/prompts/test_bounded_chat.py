"""Chat templates come to an end, or are ended with a line."""

from __future__ import annotations

import pytest
from jinja2 import Template

from floatlens.core.errors import FloatlensError
from floatlens.prompts.bounded_chat import check_template, within_bounds

ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}"
GROWING = "{% set n = namespace(x='aa') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}"


@pytest.mark.parametrize(("source", "said"), [(ENDLESS, "does not come to an end"), (GROWING, "grows without end")])
def test_templates_without_an_end(source: str, said: str) -> None:
    template = Template(source)
    with pytest.raises(FloatlensError, match=said):
        within_bounds(template.render)


def test_a_template_within_bounds_is_rendered() -> None:
    template = Template("{% for m in messages %}<{{ m }}>{% endfor %}")
    assert within_bounds(lambda: template.render(messages=["a", "b"])) == "<a><b>"


@pytest.mark.parametrize("source", ["{{ 9 ** 9999999 }}", "{{ 'a' * 10000000000 }}", "{{ 'a' | center(99999999999) }}"])
def test_expressions_that_fill_the_memory_are_refused(source: str) -> None:
    with pytest.raises(FloatlensError, match="could fill the memory"):
        check_template(source)
    check_template("{{ '=' * 10 }}{% generation %}{{ 'a' | center(20) }}{% endgeneration %}")
