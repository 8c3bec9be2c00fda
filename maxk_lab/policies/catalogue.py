"""The catalogue of policies: their parameters and environments. Does not import torch."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from maxk_lab.catalogue import Catalogue, Row, load
from maxk_lab.errors import shown
from maxk_lab.files import hash_of, named_in_sweep
from maxk_lab.settings import Folder, Settings, number, setting

if TYPE_CHECKING:
    from torch import nn

# The widest head that RL4CO's kernels accept.
WIDEST_HEAD = 128
# Bounds of layers: memory, and no policy learns with more.
WIDEST, MOST_LAYERS = 2**16, 1000
# The setting that names the folder of a language model.
PRETRAINED_FOLDER = "pretrained"
Dtype = Literal["float32", "float64"]


@dataclass(frozen=True, kw_only=True)
class PolicyRow(Row):
    """A policy: its settings, and the environments where it can act.

    `implementation` is a class or function that makes a fresh torch module. Its keyword arguments
    are the row's settings and the environment's description of the problem; the global random state
    is seeded meanwhile. `environments` are additional environments whose rows do not name the
    policy. `refusal` returns why parameters cannot be run together, or None.
    """

    settings: type[Settings] = Settings
    environments: tuple[str, ...] = ()
    refusal: Callable[[Mapping[str, Any]], str | None] = lambda policy: None


def _attention_refusal(policy: Mapping[str, Any]) -> str | None:
    width, heads = policy["embed_dim"], policy["num_heads"]
    fits = width / heads % 8 == 0 and width / heads <= WIDEST_HEAD
    rule = f"embed_dim / num_heads must be a multiple of 8, at most {WIDEST_HEAD}"
    return None if fits else f"{rule}, got {width} / {heads}"


def _transformer_refusal(policy: Mapping[str, Any]) -> str | None:
    width, heads = policy["embed_dim"], policy["num_heads"]
    rule = "embed_dim must be a multiple of num_heads"
    return f"{rule}, got {width} and {heads}" if width % heads else None


def _tabular_refusal(policy: Mapping[str, Any]) -> str | None:
    chance = policy.get("success_probability", 0.0)
    return f"success_probability must be less than 1, got {chance}" if chance >= 1 else None


def _pretrained_refusal(policy: Mapping[str, Any]) -> str | None:
    folder = policy[PRETRAINED_FOLDER]
    if not folder:
        return "pretrained is missing: the folder of a causal language model"
    if (problem := folder_problem(Path(folder))) is not None:
        return f"pretrained: {shown(str(Path(folder)))} {problem}"
    if importlib.util.find_spec("transformers") is None:
        return "pretrained needs the optional extra: pip install 'maxk-lab[llm]'"
    return None


def folder_problem(folder: Path) -> str | None:
    """Return why a folder is no saved model; loading decides whether it is complete."""
    try:
        if (folder / "config.json").is_file():
            return None
    except OSError as error:  # such as a name that is too long
        return f"cannot be read: {error.strerror}"
    return "is no folder of a saved model (it has no config.json)"


def folder_hash(folder: str | Path) -> str:
    """Return the SHA-256 of the names and hashes of a model's files in a folder.

    Subfolders, hidden files and texts for people do not count. Raises `LabError` if the folder is
    missing, or a file cannot be read.
    """
    with named_in_sweep(folder):
        inside = sorted(file for file in Path(folder).iterdir() if file.is_file())
        files = [file for file in inside if file.name[0] != "." and file.suffix != ".md"]
        lines = [f"{file.name} {hash_of(file)}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _dtype(default: str = "float32", of: str = "policy") -> Any:
    return setting(default, f"floating-point type of the {of}")


class AttentionSettings(Settings):
    """The settings of the attention model."""

    embed_dim: int = number(64, "width of the attention model", low=8, high=WIDEST)
    num_encoder_layers: int = number(2, low=1, high=MOST_LAYERS)
    num_heads: int = number(8, "embed_dim / num_heads must be a multiple of 8", low=1)
    feedforward_hidden: int = number(128, low=1, high=WIDEST)
    dtype: Dtype = _dtype()


class TabularSettings(Settings):
    """The settings of a table of logits."""

    init_std: float = number(1.0, "standard deviation of the initial logits", low=0.0)
    dtype: Dtype = _dtype("float64", "logits")
    success_probability: float = number(
        0.0,
        "initial probability of the last arm, below 1; the others share the rest evenly; 0: random "
        "logits",
        low=0.0,
        high=1.0,
        later=True,
    )


class GaussianSettings(Settings):
    """The settings of a diagonal Gaussian."""

    mean: float = number(0.0, "initial mean of every coordinate")
    scale: float = number(0.1, "initial standard deviation of every coordinate", low=1e-6)
    learn_scale: bool = setting(False, "whether the logarithms of the scales are learned, too")


class TransformerSettings(Settings):
    """The settings of the causal transformer."""

    embed_dim: int = number(
        32, "width of the transformer, a multiple of num_heads", low=2, high=WIDEST
    )
    num_layers: int = number(2, low=1, high=MOST_LAYERS)
    num_heads: int = number(4, low=1)
    init_std: float = number(0.1, "standard deviation of the initial weights", low=0.0)
    dtype: Dtype = _dtype()


_FOLDER = setting(
    "",
    "folder of a causal language model, loaded with transformers in place of the small one "
    "(extra llm)",
)


class GRUSettings(Settings):
    """The settings of g2p-en's GRU."""

    dtype: Dtype = _dtype()


class OwnOrPretrainedSettings(TransformerSettings):
    """The settings of the causal transformer, or the folder of a model instead."""

    pretrained: Folder = _FOLDER


class PretrainedSettings(Settings):
    """The settings of a saved language model; bfloat16 is for a GPU."""

    dtype: Literal["float32", "float64", "bfloat16"] = _dtype()
    pretrained: Folder = _FOLDER


POLICIES: Catalogue[PolicyRow] = Catalogue(
    "policy",
    [
        PolicyRow(
            name="attention",
            meaning="attention model (RL4CO) with instance normalisation, one node at a time",
            implementation="maxk_lab.policies.attention:attention_model",
            citation="Kool et al. 2019, arXiv 1803.08475; RL4CO, arXiv 2306.17100",
            settings=AttentionSettings,
            refusal=_attention_refusal,
        ),
        PolicyRow(
            name="tabular",
            meaning="one logit per action, shared by all instances",
            implementation="maxk_lab.policies.exact:softmax_table",
            settings=TabularSettings,
            refusal=_tabular_refusal,
        ),
        PolicyRow(
            name="gaussian",
            meaning="diagonal Gaussian with learnable mean, and learnable scale if wanted",
            implementation="maxk_lab.policies.exact:DiagonalGaussian",
            settings=GaussianSettings,
        ),
        PolicyRow(
            name="transformer",
            meaning="small causal transformer, one token at a time",
            implementation="maxk_lab.policies.transformer:fresh_transformer",
            settings=TransformerSettings,
            refusal=_transformer_refusal,
        ),
        PolicyRow(
            name="pretrained",
            meaning="a causal language model of a local folder (extra llm), one token at a time",
            implementation="maxk_lab.policies.pretrained:PretrainedPolicy",
            settings=PretrainedSettings,
            refusal=_pretrained_refusal,
        ),
        PolicyRow(
            name="g2p",
            meaning="pretrained GRU of g2p-en (extra pronounce), from letters to phonemes",
            implementation="maxk_lab.environments.pronounce:PhonemeGRU",
            citation="Park and Kim 2019, github.com/Kyubyong/g2p",
            settings=GRUSettings,
        ),
        PolicyRow(
            name="own",
            meaning="what the method policy of an environment of your own returns",
            implementation="maxk_lab.environments.custom:custom_environment",
        ),
    ],
    "maxk_lab.policies",
)


def fresh_policy(parameters: Mapping[str, Any], seed: int, **problem: Any) -> nn.Module:
    """Return the policy `parameters["name"]`, freshly initialised from `seed`, in evaluation mode.

    `problem` is the environment's description of the problem, such as its number of actions.
    """
    from maxk_lab.seeds import isolated_rng

    settings = {name: value for name, value in parameters.items() if name != "name"}
    with isolated_rng(seed):
        make = load(POLICIES.get(parameters["name"]).implementation)
        policy: nn.Module = make(**problem, **settings)
    return policy.eval()
