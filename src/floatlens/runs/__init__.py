"""Runs: studies from the plan to the report.

A run folder holds `manifest.json` (what was asked for), `records.jsonl` (one line per item), `traces/`, `tables/`,
`figures/` and `report.html`. A killed run loses at most the items under way. `study` says what a study is, `presets`
makes one of the options of a command, `plan` settles it, `engine` runs it through `workers` or `ray_workers`, `publish`
writes tables, figures and report, and `run` does all of that.
"""
