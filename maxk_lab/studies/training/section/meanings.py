"""The values of a trained row in plain words, and those that a reader looks at first."""

from __future__ import annotations

from collections.abc import Sequence

from maxk_lab.studies.training.columns import shown_ks
from maxk_lab.studies.training.row.model import TrainingRow

# By the name of a value, or a pattern of names: the first that fits.
MEANINGS = {
    "steps": "optimisation steps of the training",
    "rollouts": "trajectories that were sampled in training",
    "reference": "the row that this one is compared with",
    "derived": "what is known of the gradient: of the pair by its formula, and of the settings",
    "derived_unbiased": "whether the gradient is that of Max@K, by its formula and the settings",
    "bent_by": "the settings that bias the gradient, whichever the estimator",
    "seeds_apart": "seeds whose training ended far from the others",
    "optimum": "where the best rewards come from that gaps are measured from",
    "optimum_exact": "whether these are the best there are, and not the best known",
    "robust_of": "what the summaries over instances (IQM, quantiles) are made of",
    "max@*_T=*": "the expected best reward of so many samples drawn at temperature T",
    "max@*": "the expected best reward of K samples on held-out instances, after training",
    "difference@*": "Max@K minus that of the row it is compared with, paired; positive is better",
    "won@*": "the seeds in which the row is ahead of the one it is compared with",
    "lost@*": "the seeds in which the row is behind the one it is compared with",
    "p@*": "the p-value of this one difference; those of a table are corrected together",
    "gap*": "the distance below the best reward of an instance, in percent of it",
    "extra_*": "the mean reward of the policy decoded in this way",
    "difference_*": "reward in this way minus that of the row it is compared with, paired",
    "own_temperature_max@*": "Max@K at the temperature that is best for the row on other instances",
    "own_temperature_difference@*": "the difference of Max@K, each at its own best temperature",
    "own_way_difference": "the difference of rewards, each decoded in its own best way",
    "own_way_gap": "the gap in the way of decoding that is best for the row on other instances",
    "own_way_reward": "the reward in the way of decoding that is best for the row",
    "sample_p*": "a quantile of the rewards of single samples",
    "instance_p*": "a quantile over instances; `robust of` says of what",
    "iqm": "the mean of the middle half of the instances; `robust of` says of what",
    "improvement": "the probability of a better value than the compared row on a random instance",
}


def first(rows: Sequence[TrainingRow]) -> tuple[str, ...]:
    """The names of the values to look at first: Max@K and differences at the K of interest."""
    ks = shown_ks([row for row in rows if row.curve])
    return ("derived", *(f"max@{k}" for k in ks), *(f"difference@{k}" for k in ks))
