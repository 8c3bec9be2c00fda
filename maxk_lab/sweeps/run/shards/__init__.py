"""Shards: what lies in the folder `cells` of a run, single files and archives of many records."""
