"""The sentences on bias: where it was found, and how small a one could have been seen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from maxk_lab.report.document import UNDEFINED, number
from maxk_lab.report.naming import short_names, spelled
from maxk_lab.statistics.bias import POWER
from maxk_lab.studies.gradient.row.best import FOUND_BIASED, UNBIASED
from maxk_lab.studies.gradient.row.model import GradientRow
from maxk_lab.studies.gradient.section.words import Words, counted, is_number, joined, method, some

_NAMED = 6
_SMALL = 0.1


def bias_sentences(rows: Sequence[GradientRow], words: Words) -> Iterator[str]:
    """Bias against the derivation first, then bias as derived, then what no test has found."""
    judged = [row for row in rows if row.units is not None]
    if not judged:
        return
    liars = [row for row in judged if row.catalogued_unbiased and _found(row)]
    if liars:
        yield (
            f"Found biased although derived unbiased: {_named(liars, judged, words)}. Either the "
            "derivation is wrong, or the trajectories were not drawn with the probabilities that "
            "the policy gives them."
        )
    alarms = [row for row in judged if row.bias.verdict == "alarm"]
    if alarms:
        yield (
            f"Alarm: the test of bias rejects {_named(alarms, judged, words)} although proven "
            "unbiased. Either the pool misses trajectories that carry the gradient, or sampling is "
            "not i.i.d. from the probabilities of the policy; comparisons keep these rows."
        )
    partly = [row.untested for row in judged if row.untested and not row.untested.everywhere]
    if partly:
        most = max(partly, key=lambda one: (one.instances, one.pool))
        yield (
            f"In {counted(len(partly), 'row')} no test of bias rests on some instances, at most: "
            f"{most.reason}."
        )
    yield from _as_derived(judged, words)
    unseen = [row for row in judged if row.catalogued_unbiased and row not in (*liars, *alarms)]
    if unseen:
        yield _not_found(unseen, bool(liars or alarms))


def _found(row: GradientRow) -> bool:
    return row.bias.verdict in FOUND_BIASED


def _as_derived(rows: Sequence[GradientRow], words: Words) -> Iterator[str]:
    biased = [row for row in rows if not row.catalogued_unbiased]
    if not biased:
        return
    found = list(filter(_found, biased))
    missed = [row for row in biased if row.bias.verdict in UNBIASED]
    parts = []
    if found:
        parts.append(f"found, as derived, in {_named(found, rows, words)}{_in_scale(found)}")
    if missed:
        parts.append(f"derived but not found in {_named(missed, rows, words)}")
    rest = len(biased) - len(found) - len(missed)
    if rest:
        parts.append(f"derived but not judged in {counted(rest, 'row')}")
    estimators = dict.fromkeys(row.key.estimator for row in rows)
    fair = dict.fromkeys(row.key.estimator for row in rows if row.catalogued_unbiased)
    only = ""
    if len(fair) < len(estimators) and fair:
        only = f"of {len(estimators)} estimators {joined(list(fair))} alone "
        only += f"{'is' if len(fair) == 1 else 'are'} derived unbiased; "
    yield f"Bias: {only}{'; '.join(parts)}. What is biased is not compared by its variance."


def _in_scale(found: Sequence[GradientRow]) -> str:
    scaled = sum(row.bias.verdict == "scale bias" for row in found)
    if not scaled:
        return ""
    if scaled == len(found):
        return ", in scale alone (the direction is right)"
    return f", {scaled} of these {len(found)} in scale alone"


def _named(found: Sequence[GradientRow], rows: Sequence[GradientRow], words: Words) -> str:
    """`opo in 3 of 9 rows`, by estimator where all its baselines are among them."""
    label = _label(found, rows, words)
    counts, of = Counter(map(label, found)), Counter(map(label, rows))
    if all(counts[name] == of[name] for name in counts):
        return (
            f"{some([*counts], _NAMED)} ({'all ' * (len(found) > 1)}{counted(len(found), 'row')})"
        )
    each = [
        f"{name} in {counts[name]} of {of[name]} rows"
        f"{_from(name, label, found, rows) if counts[name] < of[name] else ''}"
        for name in counts
    ]
    return some(each, _NAMED)


def _label(
    found: Sequence[GradientRow], rows: Sequence[GradientRow], words: Words
) -> Callable[[GradientRow], str]:
    """The name under which a row is counted."""
    pairs = {(row.key.estimator, row.key.baseline) for row in found}
    whole = {row.key.estimator for row in rows} - {
        row.key.estimator for row in rows if (row.key.estimator, row.key.baseline) not in pairs
    }

    def label(row: GradientRow) -> str:
        if words.estimators and row.key.estimator in whole:
            return row.key.estimator
        return method(row, estimator=words.named)

    return label


def _from(
    name: str,
    label: Callable[[GradientRow], str],
    found: Sequence[GradientRow],
    rows: Sequence[GradientRow],
) -> str:
    """` (from distance = 0.25 on)`, where a setting tells these rows from the others."""
    paths = {row.key.path for row in found}
    own = [row for row in rows if label(row) == name]
    keys = list(dict.fromkeys(key for row in own for key, _ in row.key.setting))
    for key, short in short_names(keys).items():
        told = [(dict(row.key.setting).get(key), row.key.path in paths) for row in own]
        values = [(float(value), has) for value, has in told if is_number(value)]
        if len(values) < len(told):
            continue
        low = min(value for value, has in values if has)
        if low > max(value for value, has in values if not has):
            return f" (from {short} = {spelled(low)} on)"
    return ""


def _not_found(rows: Sequence[GradientRow], others: bool) -> str:
    """The verdicts on rows that are derived unbiased: proven, not seen, and not judged."""
    by = {
        verdict: [row for row in rows if row.bias.verdict == verdict]
        for verdict in ("unbiased", "no bias seen", "reference", "undefined")
    }
    parts = []
    if by["unbiased"]:
        parts.append(f"{_are(by['unbiased'])} proven so, by every possible group of samples")
    if by["no bias seen"]:
        unseen = by["no bias seen"]
        parts.append(f"in {len(unseen)} no bias was seen{_power(unseen)}")
    if by["reference"]:
        names = list(dict.fromkeys(method(row, estimator=False) for row in by["reference"]))
        stand = "stands" if len(names) == 1 else "stand"
        parts.append(
            f"{_are(by['reference'])} not judged, because {joined(names)} {stand} in for the "
            "gradient there"
        )
    if by["undefined"]:
        reason = Counter(row.bias.reason for row in by["undefined"]).most_common(1)[0][0]
        parts.append(f"{_are(by['undefined'])} not judged: {reason or 'there was no test'}")
    count = f"{'other ' * others}{'row' if len(rows) == 1 else 'rows'}"
    judged = by["unbiased"] or by["no bias seen"]
    none = ", none is found biased" if judged else ""
    return f"Of {len(rows)} {count} derived unbiased{none}: {'; '.join(parts)}."


def _are(rows: Sequence[GradientRow]) -> str:
    return f"{len(rows)} {'is' if len(rows) == 1 else 'are'}"


def _power(rows: Sequence[GradientRow]) -> str:
    """The smallest bias that could have been seen, in how many of these rows."""
    known = sorted(row.bias.detectable for row in rows if not math.isnan(row.bias.detectable))
    unknown = len(rows) - len(known)
    if not known:
        return " (too few groups of samples to know how small a one could have been)"
    if not unknown and known[-1] <= 1:
        ends = " to ".join(dict.fromkeys((number(known[0]), number(known[-1]))))
        return (
            f" (the smallest along the gradient that would have been, with probability {POWER:g}: "
            f"{ends} of its length)"
        )
    small, large = (sum(value <= size for value in known) for size in (_SMALL, 1.0))
    weak = len(known) - large
    counts = {
        "at most a tenth of its length in {}": small,
        f"at most its whole length in {{}}{' more' * bool(small)}": large - small,
        "larger in {}": weak,
        "unknown in {} (too few groups of samples)": unknown,
    }
    told = ", ".join(text.format(count) for text, count in counts.items() if count)
    return (
        f" (the smallest along the gradient that would have been, with probability {POWER:g}: "
        f"{told})"
    )


def verdict_words(row: GradientRow) -> str:
    """The verdict with the derivation, for a cell of the short table."""
    verdict = row.bias.verdict
    if row.units is None:
        return UNDEFINED
    words = {
        "unbiased": ("none, proven", "derived, not found"),
        "no bias seen": ("none seen", "derived, not seen"),
        "scale bias": ("FOUND in scale, against its derivation", "as derived, in scale"),
        "biased": ("FOUND, against its derivation", "as derived"),
        "alarm": ("ALARM, unbiased by proof",) * 2,
        "reference": ("stands in for the gradient",) * 2,
        "undefined": ("not judged", "derived, not judged"),
    }
    return words[verdict][not row.catalogued_unbiased]
