"""The Python API: sweeps run and reported from a notebook or a script, under `maxk_lab` itself."""
