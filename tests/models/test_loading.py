"""`load` itself: precision and place, quiet, offline, registered names, cheap imports."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from floatlens.core.errors import FloatlensError
from floatlens.core.registry import Registry
from floatlens.models import load, names, registered_names
from floatlens.models.facts import look
from floatlens.models.names import Subject

IDS = torch.tensor([[5, 9, 13, 40, 41, 8]])


@pytest.fixture
def half(tiny, tmp_path):
    from transformers import LlamaForCausalLM

    LlamaForCausalLM.from_pretrained(tiny("llama"), dtype=torch.bfloat16).save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, torch.float32),  # on a CPU, whatever the file says
        ("auto", torch.bfloat16),
        ("bfloat16", torch.bfloat16),
        ("torch.float16", torch.float16),
        (torch.float64, torch.float64),
    ],
)
def test_precision(given, expected, half):
    model = load(half, dtype=given, device="cpu")
    assert model.dtype == expected
    assert {parameter.dtype for parameter in model.module.parameters()} == {expected}


def test_rotary_frequencies_stay_exact_in_half_precision(half):
    model = load(half, dtype="bfloat16", device="cpu")
    assert model.module.model.rotary_emb.inv_freq.dtype == torch.float32


@pytest.mark.parametrize("given", ["cpu", {"": "cpu"}, "auto"])
def test_a_device_map_passes_through(given, tiny, tiny_model):
    if given == "auto" and torch.cuda.is_available():
        pytest.skip("this checks the map of a machine without a GPU")
    model = load(tiny("llama"), device_map=given)
    assert (model.device.type, model.dtype) == ("cpu", torch.float32)
    torch.testing.assert_close(model.forward(IDS), tiny_model("llama").forward(IDS), atol=0, rtol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "bfloat"}, "no dtype 'bfloat'; did you mean \"bfloat16\""),
        ({"dtype": torch.int8}, r"cannot run in torch\.int8"),
        ({"device": "gpu0"}, "no device 'gpu0'"),
        ({"device": "cpu", "device_map": "auto"}, "give device= or device_map=, not both"),
    ],
)
def test_places_that_make_no_sense(options, message, tiny):
    with pytest.raises(FloatlensError, match=message):
        load(tiny("llama"), **options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_device_that_is_not_there(tiny):
    with pytest.raises(FloatlensError, match="torch finds no CUDA device here"):
        load(tiny("llama"), device="cuda:0")


@pytest.mark.usefixtures("no_network")
def test_loading_is_quiet_offline_and_leaves_settings_alone(any_name, tiny, capfd):
    from transformers.utils import logging

    folder = tiny(any_name)
    logging.set_verbosity_info()
    logging.enable_progress_bar()
    capfd.readouterr()  # what writing the folder said
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = load(folder)
            model.forward(IDS)
        assert capfd.readouterr() == ("", "")
        assert logging.get_verbosity() == logging.INFO
        assert logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity_warning()


def test_settings_are_restored_after_a_failure(tmp_path):
    from transformers.utils import logging

    logging.enable_progress_bar()
    level = logging.get_verbosity()
    with pytest.raises(FloatlensError):
        load(tmp_path)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (level, True)


def test_reference_and_revision_of_a_local_folder(tiny):
    model = load(tiny("llama"))
    assert (model.ref, model.revision) == (str(tiny("llama")), None)


def test_special_tokens_follow_the_order_of_transformers(copied):
    folder = copied("llama", eos_token_id=7, bos_token_id=4, pad_token_id=3)
    (folder / "generation_config.json").write_text('{"eos_token_id": [8, 9]}')
    model = load(folder)
    assert (model.bos_id, model.eos_ids, model.pad_id) == (4, (8, 9), 3)
    (folder / "generation_config.json").unlink()
    assert load(folder).eos_ids == (7,)


def test_a_model_is_shown_in_one_line(tiny_model):
    shown = repr(tiny_model("llada"))
    assert "\n" not in shown
    assert len(shown) < 250
    assert ": family llada, masked diffusion, 3 layers × " in shown
    assert shown.endswith("float32 on cpu)")


@pytest.mark.usefixtures("no_network")
def test_what_transformers_refuses_is_one_line_before_and_while_loading(copied):
    folder = copied("llama", hidden_size="wide")
    for read in (load, look):
        with pytest.raises(FloatlensError, match="transformers refuses this configuration"):
            read(str(folder))


# -- registered names ---------------------------------------------------------------------------------------------


@pytest.fixture
def subjects(monkeypatch):
    monkeypatch.setattr(names, "SUBJECTS", Registry("subject", "floatlens.no_such_group"))
    return names.SUBJECTS


@pytest.mark.usefixtures("no_network")
def test_a_registered_name(subjects, tiny, tiny_model):
    subjects.add("scale", Subject(names=lambda: ["llada", "dream"], path=lambda name: tiny(name)))
    model = load("scale:llada")
    assert (model.ref, model.family) == ("scale:llada", "llada")
    torch.testing.assert_close(model.forward(IDS), tiny_model("llada").forward(IDS), atol=0, rtol=0)
    assert registered_names() == ("scale:dream", "scale:llada")


@pytest.mark.usefixtures("no_network")
def test_names_that_are_not_registered(subjects):
    with pytest.raises(FloatlensError, match="no model is registered as 'scale:llada', and no names are registered"):
        load("scale:llada")
    subjects.add("scale", Subject(names=lambda: ["llada", "dream"], path=Path))
    with pytest.raises(FloatlensError, match="registered as 'scale:lada'; did you mean \"scale:llada\""):
        load("scale:lada")
    with pytest.raises(FloatlensError, match="registered as 'other:x'; known: scale:dream, scale:llada"):
        load("other:x")


def test_a_windows_path_is_no_registered_name():
    assert not names.is_registered_form("C:\\models")
    assert names.is_registered_form("scale:llada")


def test_listing_families_imports_neither_torch_nor_transformers():
    code = (
        "import sys, floatlens.models as m; m.families(); "
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
