"""The kinds of studies, a folder each; rows in `maxk_lab.sweeps.studies` tie them to the frame."""
