"""Ways to damage a folder of a model: each takes the folder, changes files in it, and says what it did."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from floatlens_lab.fuzz.junk import change_kind, flipped, replaced_somewhere

__all__ = ["CHATS", "DAMAGE", "weigh_infinitely"]

CHATS = (
    "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(9) %}{% endfor %}{% endfor %}{% endfor %}",
    "{% for i in range(10**9) %}x{% endfor %}",
    "{{ 'x' * 10 ** 10 }}",
    "{{ ('x' * 9999) * 9999 * 9999 }}",
    "{% set x = messages[0].content * 99999999999 %}{{ x }}",
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x=['a']) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
    "{% macro m(n) %}{{ m(n) }}{% endmacro %}{{ m(1) }}",
    "{% macro m(n) %}{{ m(n) ~ m(n) }}{% endmacro %}{{ m(1) }}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{{ range(99999) | list | string | length }}{{ messages[0].content }}",
    "{% for a in range(99999) %}{{ range(99999) | list | length }}{% endfor %}",
    "{% set a = range(99999) | join('xxxxxxxxxxxxxxxx') %}{% set b = a | replace('x', a) %}{{ b | replace('x', b) }}",
    "{{ '%999999999999d' | format(1) }}",
    "{{ '%*d' | format(999999999, 1) }}",
    "{{ '{:>9999999999}'.format(1) }}",
    "{{ '{0:{1}}'.format(1, 9999999999) }}",
    "{{ 'x'.ljust(9999999999) }}",
    "{{ 'x' | center(9999999999) }}",
    "{{ 'x\n' | indent(9999999999) }}",
    "{{ lipsum(n=1000000) }}",
    "{{ [1] | batch(9999999999, 'x') | list }}",
    "{{ [1] | slice(9999999999) | list }}",
    "{{ messages | tojson(indent=9999999999) }}",
    "{{ strftime_now('%999999999d') }}",
    "{{ strftime_now('%Y' * 9999) }}",
    "{{ 10 ** 10 ** 10 }}",
    "{% set ns = namespace(n=9) %}{% for i in range(99) %}{% set ns.n = ns.n * ns.n %}{% endfor %}{{ ns.n }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.system('touch /tmp/floatlens-fuzz-ran') }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}{{ os }}",
    "{% extends 'x' %}",
    "{{ raise_exception('no\nway\x1b[31m') }}",
    "{{ undefined.undefined.undefined }}",
    "{{ messages[7].content }}",
    "{% if %}",
    "{{ 1 / 0 }}",
    "{{ messages[0].content }}{{ messages[0].content }}",
    "{{ messages[0].content | upper }}",
    "nothing of the message",
    "",
    "{{ '\ud800' }}{{ messages[0].content }}",
    "{% generation %}{{ messages[0].content }}{% endgeneration %}",
    "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}A:{% endif %}",
    "{{ (" + "(" * 400 + "1" + ")" * 400 + ") }}",
    "{{ [[" + "[" * 5000 + "]" * 5000 + "]] }}",
    "{% set x = dict(a=1) %}{{ x.update({'b': x}) }}{{ x }}{{ messages[0].content }}",
    "{{ range(99999) | map('string') | map('center', 9999) | join }}",
    "{% for i in range(99999) recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "{{ messages | sum(attribute='content', start='') }}",
    "{{ range(99999) | sort(reverse=true) | unique | list | tojson | urlize | length }}",
    "{{ ('a' ~ 'a' | indent(9999)) | wordwrap(1) | length }}",
)
"""Chat templates that do not end, grow, reach out, fail or say what they should not; a few are good ones."""


_KEYS = (
    "rope_scaling",
    "rms_norm_eps",
    "pad_token_id",
    "auto_map",
    "quantization_config",
    "head_dim",
    "num_key_value_heads",
    "architectures",
    "model_type",
    "dtype",
    "id2label",
    "vocab_size",
    "layer_types",
    "attn_implementation",
    "text_config",
    "tie_word_embeddings",
    "added_tokens_decoder",
    "chat_template",
    "model_max_length",
    "tokenizer_class",
    "eos_token_id",
    "mask_token_id",
    "base_model_name_or_path",
    "target_modules",
    "r",
    "peft_type",
)
_FILES = (
    "generation_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    "adapter_config.json",
    "adaptation.json",
    "vocab.json",
    "merges.txt",
    "model.safetensors.index.json",
    "preprocessor_config.json",
    "custom_generate",
    "processor_config.json",
    "pytorch_model.bin",
    "additional_chat_templates",
)


def weigh_infinitely(rng: Random, folder: Path) -> str:
    """One weight is infinite or no number."""
    import torch
    from safetensors.torch import load_file, save_file

    path = rng.choice(sorted(folder.glob("*.safetensors")))
    tensors = load_file(path)
    name = rng.choice(sorted(name for name, one in tensors.items() if one.is_floating_point() and one.numel()))
    tensors[name].view(-1)[rng.randrange(tensors[name].numel())] = rng.choice((torch.inf, -torch.inf, torch.nan))
    path.unlink()
    save_file(tensors, path, metadata={"format": "pt"})
    return f"infinite {name}"


def _any_json(rng: Random, folder: Path) -> str:
    path = rng.choice(sorted(folder.glob("*.json")))
    return _change_json(rng, path)


def _config(rng: Random, folder: Path) -> str:
    return _change_json(rng, rng.choice(sorted(folder.glob("*config.json"))))


def _change_json(rng: Random, path: Path) -> str:
    value = json.loads(path.read_text())
    for _ in range(rng.choice((1, 1, 1, 3))):
        content = replaced_somewhere(rng, value)
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            break
    _write(path, content)
    return f"JSON of {path.name}"


def _key(rng: Random, folder: Path) -> str:
    """A key that transformers knows and this checkpoint does not have, with a value that it may not expect."""
    path = rng.choice(sorted(folder.glob("*config.json")))
    value = json.loads(path.read_text())
    key = rng.choice(_KEYS)
    given = rng.choice((0, 1, -1, 2**31, 2**70, 1e-5, 1e999, "", "x", "auto", True, [1], {}, {"a": [1]}, None, "../x"))
    if isinstance(value, dict):
        value[key] = given
    _write(path, json.dumps(value).encode())
    return f"{key} of {path.name}"


def _bits(rng: Random, folder: Path) -> str:
    path = _file(rng, folder)
    content = path.read_bytes()
    for _ in range(rng.choice((1, 1, 10))):
        content = flipped(rng, content[:4096]) + content[4096:] if rng.random() < 0.7 else flipped(rng, content)
    _write(path, content)
    return f"bits of {path.name}"


def _cut(rng: Random, folder: Path) -> str:
    path = _file(rng, folder)
    content = path.read_bytes()
    at = rng.choice((0, 1, 8, rng.randrange(len(content) + 1)))
    _write(path, content[:at] + (b"" if rng.random() < 0.6 else rng.randbytes(rng.choice((1, 100)))))
    return f"{path.name} cut"


def _header(rng: Random, folder: Path) -> str:
    """The header of a safetensors file says something else."""
    path = rng.choice(sorted(folder.glob("*.safetensors")) or [_file(rng, folder)])
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + size])
    except ValueError:
        return _bits(rng, folder)
    if rng.random() < 0.2:
        made = rng.choice((0, 1, 2**31, 2**63, size - 1, size + 1)).to_bytes(8, "little") + content[8:]
    else:
        text = replaced_somewhere(rng, header)
        made = len(text).to_bytes(8, "little") + text + content[8 + size :]
    _write(path, made)
    return f"header of {path.name}"


def _kind(rng: Random, folder: Path) -> str:
    path = _file(rng, folder)
    return f"{path.name}: {change_kind(rng, path)}"


def _extra(rng: Random, folder: Path) -> str:
    """A file that transformers or peft look for, and that is not there."""
    name = rng.choice(_FILES)
    path = folder / name
    if path.exists():
        return _kind(rng, folder)
    kind = rng.choice(("pipe", "loop", "folder", "junk", "junk", "json", "json"))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(name)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(
            rng.randbytes(50) if kind == "junk" else replaced_somewhere(rng, {"eos_token_id": [1, 2], "a": {"b": "c"}})
        )
    return f"{name} added: {kind}"


def _chat(rng: Random, folder: Path) -> str:
    """A hostile chat template, in the file of its own or in the tokenizer's."""
    number = rng.randrange(len(CHATS))
    path = folder / "tokenizer_config.json"
    if rng.random() < 0.5 or not path.is_file():
        _write(folder / "chat_template.jinja", CHATS[number].encode("utf-8", "surrogatepass"))
    else:
        value = json.loads(path.read_text())
        _write(path, json.dumps(value | {"chat_template": CHATS[number]}).encode())
    return f"chat template {number}"


def _file(rng: Random, folder: Path) -> Path:
    return rng.choice(sorted(path for path in folder.iterdir() if path.is_file()))


def _write(path: Path, content: bytes) -> None:
    """Write a new file: the old one may be a link to an undamaged one."""
    if path.is_symlink() or path.exists():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Random, Path], Any]] = {
    "any JSON": _any_json,
    "config": _config,
    "config again": _config,
    "key": _key,
    "bits": _bits,
    "cut": _cut,
    "header": _header,
    "kind": _kind,
    "extra": _extra,
    "chat": _chat,
}
