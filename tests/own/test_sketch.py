"""Sketches of per-sample gradients: unbiased for their products, with the stated error."""

import pytest
import torch
from torch import nn

from maxk_lab.errors import LabError
from maxk_lab.own.sketch import GradientSketch


class Tiny(nn.Module):
    """A token model with an embedding that its head shares, and a layer that is called twice."""

    def __init__(self, padding=None):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(7, 6, padding_idx=padding)
        self.mix = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        hidden = torch.tanh(self.mix(input=self.embed(tokens)).cumsum(1))
        return self.head(self.norm(torch.tanh(self.mix(hidden)))).log_softmax(-1)


TOKENS = torch.randint(7, (5, 4), generator=torch.Generator().manual_seed(1))


def log_probs(model):
    return model(TOKENS)[:, :-1].gather(-1, TOKENS[:, 1:, None]).sum((1, 2))


def exact(model, names, values):
    """The products of the per-sample gradients, one backward pass each, [N, N]."""
    chosen = [parameter for name, parameter in model.named_parameters() if name in names]
    rows = [torch.autograd.grad(value, chosen, retain_graph=True) for value in values]
    psi = torch.stack([torch.cat([g.flatten() for g in gradients]) for gradients in rows])
    return psi @ psi.T


def sketched(model, pattern, dimension, seed=0):
    sketch = GradientSketch(model, parameters=pattern, dimension=dimension, seed=seed)
    with sketch:
        values = log_probs(model)
    return sketch, sketch.scores(values)


@pytest.mark.parametrize(
    ("pattern", "dimension"), [("mix", 16), ("embed", 64), ("mix.weight|embed", 16)]
)
def test_products_are_unbiased_with_the_stated_error(pattern, dimension):
    model, seeds = Tiny(), 400
    sketch, _ = sketched(model, pattern, dimension)
    gram = exact(model, sketch.parameters, log_probs(model))
    scores = [sketched(model, pattern, dimension, seed=100 * seed)[1] for seed in range(seeds)]
    products = torch.stack([each @ each.T for each in scores])
    norms = gram.diagonal()
    bound = ((norms[:, None] * norms + gram.square()) / dimension).sqrt()
    spread = products.std(0)
    assert ((products.mean(0) - gram).abs() <= 4.5 * spread / seeds**0.5).all()
    assert (spread <= 1.15 * bound).all()
    assert (spread >= 0.3 * bound).any()


@pytest.mark.parametrize(("padding", "pattern"), [(None, "mix"), (int(TOKENS[0, 0]), "embed")])
def test_a_sketch_with_a_place_for_itself_each_is_the_gradient(padding, pattern):
    """So wide that hardly two entries share a place."""
    model = Tiny(padding)
    sketch, scores = sketched(model, pattern, 2_000_003)
    gram = exact(model, sketch.parameters, log_probs(model))
    torch.testing.assert_close(scores @ scores.T, gram, rtol=1e-4, atol=1e-5)


def test_blocks_of_samples_give_the_same(monkeypatch):
    _, whole = sketched(Tiny(), "mix|embed", 32)
    monkeypatch.setattr("maxk_lab.own.sketch._ENTRIES", 1)
    _, parts = sketched(Tiny(), "mix|embed", 32)
    torch.testing.assert_close(whole, parts)


def test_the_trainings_own_backward_pass_is_unchanged():
    model, other = Tiny(), Tiny()
    sketch = GradientSketch(model, parameters="mix")
    with sketch:
        values = log_probs(model)
    sketch.scores(values)
    values.sum().backward()
    log_probs(other).sum().backward()
    for mine, theirs in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_models_of_transformers():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=7, n_positions=8, n_embd=8, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()
    sketch = GradientSketch(model, parameters=r"h\.1\..*(c_fc|c_attn)", dimension=500_009)
    with sketch:
        values = log_probs(lambda tokens: model(tokens).logits.log_softmax(-1))
    gram, scores = exact(model, sketch.parameters, values), sketch.scores(values)
    torch.testing.assert_close(scores @ scores.T, gram, rtol=2e-2, atol=1e-4)


def test_refusals():
    model = Tiny()
    sketch = GradientSketch(model, parameters="mix")
    with sketch:
        values = log_probs(model)
    for call, message in (
        (lambda: GradientSketch(model, parameters="attention"), "no parameter"),
        (
            lambda: GradientSketch(model, parameters="norm"),
            r"norm\.weight, norm\.bias belong to a LayerNorm",
        ),
        (
            lambda: GradientSketch(model, parameters="mix").scores(values),
            "inside `with sketch:`",
        ),
        (lambda: sketch.scores(values[:3]), "5 rows for 3 samples"),
    ):
        with pytest.raises(LabError, match=message):
            call()
