"""Bundles: a run as one zip file, which is read as it is and unpacked to go on with the run.

Inside lies the folder of a run, with what others need of it:

    manifest.json       format, name, version of maxk-lab, and a SHA-256 of every file and record
    spec.yaml           the resolved sweep
    cells/*.zip         the records, each with the very bytes of its file, a thousand to a shard
    cache/              held-out instances and optima; with checkpoints, all that later cells use
    files/              files that the sweep names, such as evaluation data
    report/             the report, for those who have no maxk-lab
"""
