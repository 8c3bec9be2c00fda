"""The statistics of one decision, at the edges of what floating point can tell."""

import pytest
import torch

from maxk_lab.environments.rollouts import logit_proxy


@pytest.mark.parametrize("confidence", [1.0, 6.0, 9.0, 12.0, 30.0])
def test_the_logit_proxy_of_a_confident_float32_policy_is_that_of_float64(confidence):
    logits = torch.randn(50, 6, generator=torch.Generator().manual_seed(0))
    logits[:, 2] += confidence
    for action in (2, 4):
        actions = torch.full((50,), action)
        p = torch.log_softmax(logits.double(), -1).exp()
        exact = 1 - 2 * p[:, action] + p.square().sum(-1)
        if confidence > 10 and action == 2:  # there even float64 has to sum what is small by itself
            others = torch.cat([p[:, :2], p[:, 3:]], 1)
            exact = others.sum(1).square() + others.square().sum(1)
        found = logit_proxy(logits.softmax(-1), actions)
        torch.testing.assert_close(found.double(), exact, rtol=2e-5, atol=0.0)
        assert (found > 0).all()
