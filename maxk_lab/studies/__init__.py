"""The kinds of studies, a folder each; `maxk_lab.sweep_file.studies` lists them."""
