"""Tools of the repository that are not part of the installed package: the scale models' trainer and the benchmarks."""
