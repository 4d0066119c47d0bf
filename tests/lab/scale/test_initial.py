"""The weights a model starts from do what they are said to do, as seen in transformers' own attention."""

from __future__ import annotations

import pytest
import torch

from floatlens_lab.scale.blueprints import blueprint, build_module


@pytest.fixture(params=["llada", "dream"])
def new(request):
    torch.manual_seed(3)
    module = build_module(blueprint(request.param))
    module.set_attn_implementation("eager")
    return module.eval()


@torch.no_grad()
def attention(module, ids):
    """(layer, head, query, key) of one row."""
    return torch.stack(module(torch.tensor([ids]), output_attentions=True).attentions)[:, 0]


def different(count):
    return torch.randperm(300, generator=torch.Generator().manual_seed(5))[:count].add(10).tolist()


@pytest.mark.parametrize(("head", "offset"), [(0, 1), (1, -1), (2, 2), (3, -2)])
def test_heads_of_the_first_layer_look_at_their_neighbours(new, head, offset):
    rows = attention(new, different(80))[0, head]
    at = {d: float(torch.stack([rows[i, i - d] for i in range(20, 60)]).mean()) for d in range(-15, 16)}
    assert max(at, key=at.__getitem__) == offset
    assert at[offset] > 0.4


@torch.no_grad()
def test_heads_of_the_second_layer_ask_for_a_word_as_the_first_wrote_it_down_beside_its_neighbour(new):
    first, second = (new.model.layers[i].self_attn for i in (0, 1))
    group = new.config.num_attention_heads // new.config.num_key_value_heads
    for head in range(4):
        own, shared = slice(16 * head, 16 * head + 16), slice(16 * (head // group), 16 * (head // group) + 16)
        written = first.o_proj.weight[:, own] @ first.v_proj.weight[shared]  # (width, width): word → what stands beside
        wanted = second.k_proj.weight[shared] @ written
        likeness = torch.nn.functional.cosine_similarity(second.q_proj.weight[own].flatten(), wanted.flatten(), dim=0)
        assert float(likeness) > 0.999


@torch.no_grad()
def test_queries_of_other_heads_resemble_keys_and_outputs_values(new):
    group = new.config.num_attention_heads // new.config.num_key_value_heads
    for layer in new.model.layers[2:]:
        queries, keys, values = (
            getattr(layer.self_attn, f"{kind}_proj").weight.unflatten(0, (-1, 16)) for kind in "qkv"
        )
        outputs = layer.self_attn.o_proj.weight.T.unflatten(0, (-1, 16))
        for one, other, least in ((queries, keys, 0.9), (outputs, values, 0.999)):
            shared = other.repeat_interleave(group, dim=0)
            likeness = torch.nn.functional.cosine_similarity(one.flatten(1), shared.flatten(1), dim=1)
            assert float(likeness.min()) > least


@torch.no_grad()
def test_the_output_layer_starts_from_the_embeddings(new):
    embeddings, output = new.get_input_embeddings().weight, new.get_output_embeddings().weight
    centred = embeddings - embeddings.mean(0)
    likeness = torch.nn.functional.cosine_similarity(centred, output, dim=1)
    assert float(likeness.min()) > 0.9


def test_the_same_seed_gives_the_same_weights():
    made = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        made.append(build_module(blueprint("qwen")).state_dict())
    assert all(torch.equal(made[0][key], made[1][key]) for key in made[0])
    assert not torch.equal(made[0]["lm_head.weight"], made[2]["lm_head.weight"])
