"""What an item of a run was and what came of it: `Condition` and `Record`, as every command writes them."""
